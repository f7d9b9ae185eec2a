"""Whether `auto` makes a hierarchy on the papers' graphs, and the time of a run with its choice and without one.

    python benchmarks/hierarchy_auto.py --folder FOLDER [--graphs ny,ne] [--sources 1,16,64,256,1024,16384] [--gpu]
    python benchmarks/hierarchy_auto.py --table [--gpu]

Each graph gives one line. `spent_s` is what `auto` did before it solved, in a store without a hierarchy: it searched
some sources (`pace_s`), looked at the graph, ordered it, or made the hierarchy. `look_s` is the time of the look and
`width` what it saw, measured once more; both are missing where nothing looks. `run_s` is `spent_s` and the time of all
sources with the solver that `auto` takes, and `without_s` the time with `solve.hierarchy: off`. `stored_s` is the time
of reading and of all sources where a hierarchy is stored already. All are times of the processor, because other
programs may use the cores; those of sources are divided by the speed of `cores` cores. The time of a source is measured
with a few sources, with `phast` up to 256. Compiled kernels are loaded before.

With `--gpu`, `auto` may take the GPU of this machine. Then all times are wall times, up to 1,024 sources are measured,
and the time of a solver contains what it makes on the GPU beside the graph. These lines are stored apart.

The graphs are those of `papers/matrix.yaml` and, if they are named, of `graphs.py`; SSSP_TEST_DATA names the folder of
the real ones. `--table` prints the lines of the newest commit as a table.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as ss
from graphs import GRAPHS, load
from record import RESULTS, processor_s, record

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.bench.cases import stored, with_hashed_weights
from sssp_pipeline.bench.spec import BenchGraph, RandomSources
from sssp_pipeline.bench.variants import load_bench
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.forecast import CORES_EXPONENT
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.graph_store.hierarchies import load_hierarchy
from sssp_pipeline.pipeline.graph_store.hierarchy_record import FOLDER
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.planning.choice import choose_solver, has_hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine, this_machine
from sssp_pipeline.pipeline.planning.sources import VertexSelection
from sssp_pipeline.pipeline.planning.work import Work, batch_size
from sssp_pipeline.pipeline.run.hierarchy_stage import known_traits, prepare
from sssp_pipeline.pipeline.run.pace import Searches, pace_of_run
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import Graph
from sssp_pipeline.workflow.models import Solve

MATRIX = Path(__file__).parent / "papers" / "matrix.yaml"
NAME = "hierarchy_auto"
ON_GPU = f"{NAME}_gpu"
OPTIONS = SolveOptions(kept=Nothing())
#: Sources that are measured: of a solver that takes one at a time, of `phast`, and of a GPU solver, at most.
FEW, MANY, MANY_ON_GPU = 8, 256, 1024
#: Measurements of each time. The least counts.
REPEATS = 3


class Weighted(StoredGraph):
    """A stored graph whose weights are replaced. Its store is thrown away after the measurement."""

    def __init__(self, found: StoredGraph, largest: int) -> None:
        super().__init__(found.store, found.manifest)
        self._weighted = with_hashed_weights(found.graph(), largest)

    def graph(self) -> CsrGraph:
        return self._weighted


@dataclass(frozen=True)
class Solving:
    """The time of a solver."""

    start_s: float
    source_s: float


def measured(solver: str, graph: CsrGraph, sources: np.ndarray) -> Solving:
    """Return the time of a solver, with the sources of a call side by side; in processor time if it uses no GPU."""
    one = SOLVERS[solver]
    on_gpu = one.device == "gpu"
    clock = time.perf_counter if on_gpu else time.process_time
    at_once = one.forecast(graph.traits, len(sources)).at_once
    calls = [sources[first : first + at_once] for first in range(0, len(sources), at_once)]

    def took(some: list[np.ndarray]) -> float:
        began = clock()
        for of_call in some:
            one.solve(graph, of_call, OPTIONS)
        return clock() - began

    first_s = took([sources[:1]])  # compiles it, and reads the hierarchy
    start_s = max(0.0, first_s - took([sources[:1]])) if on_gpu and one.uses_hierarchy else 0.0
    return Solving(start_s, min(took(calls) for _ in range(REPEATS)) / len(sources))


class Case:
    """A graph, and the solvers that were measured on it."""

    def __init__(self, found: StoredGraph, machine: Machine, sources: np.ndarray) -> None:
        self.found, self.machine, self.sources = found, machine, sources
        self._measured: dict[tuple[str, int], Solving] = {}
        self._clock = processor_s if machine.gpu_free_bytes is None else time.perf_counter

    def of(self, n_sources: int) -> dict[str, Any]:
        """Return the choices for a number of sources, and their times."""
        bare = self.found.manifest.traits
        without = self._choice(bare, n_sources)
        files.remove(files.join(self.found.store, FOLDER))
        began = self._clock()
        work = self._work(bare, n_sources)
        searches = Searches.of_run(self.found, Solve(), [self.sources])
        if (pace := pace_of_run(searches, Solve(), work, self.machine)) is not None:
            work = work.at_pace(pace.pace)
        pace_s = self._clock() - began
        traits, reason = prepare(self.found, Solve(), work, self.machine, Quiet())
        spent_s = self._clock() - began
        chosen = self._choice(traits, n_sources)
        facts = {"without": without, "auto": chosen, "reason": reason, "pace_s": pace_s, "spent_s": spent_s}
        if hierarchy.why_not(work, self.machine, free_memory_bytes()) is None:
            began = self._clock()
            facts["width"] = hierarchy.look_at(self.found.graph(), work, self.machine)
            facts["look_s"] = self._clock() - began
        facts["without_s"] = self._solve_s(without, n_sources)
        facts["run_s"] = spent_s + self._solve_s(chosen, n_sources)
        return facts

    def add_stored(self, of_counts: dict[int, dict[str, Any]]) -> None:
        """Add what a run takes if the hierarchy is stored; nothing if it was not made at last."""
        traits = known_traits(self.found)
        if not has_hierarchy(traits):
            return
        began = self._clock()
        load_hierarchy(self.found.store, self.found.manifest)
        read_s = self._clock() - began
        for n_sources, facts in of_counts.items():
            facts["stored"] = self._choice(traits, n_sources)
            facts["stored_s"] = self._solve_s(facts["stored"], n_sources)
            if SOLVERS[facts["stored"]].uses_hierarchy:
                facts["stored_s"] += read_s

    def _work(self, traits: GraphTraits, n_sources: int) -> Work:
        return Work(traits, OPTIONS, n_sources, batch_size(traits, n_sources, Solve(), OPTIONS.kept))

    def _choice(self, traits: GraphTraits, n_sources: int) -> str:
        return choose_solver("auto", self._work(traits, n_sources), self.machine)[0].name

    def _solve_s(self, solver: str, n_sources: int) -> float:
        # The processor time of a source on all cores is that of one core, and waiting at barriers.
        timed = "delta-stepping" if solver == "parallel-delta-stepping" else solver
        one = SOLVERS[timed]
        on_gpu = one.device == "gpu"
        n = min(n_sources, MANY_ON_GPU if on_gpu else MANY if one.uses_hierarchy else FEW)
        if (timed, n) not in self._measured:
            some = self.sources[np.arange(n) % len(self.sources)]
            self._measured[timed, n] = measured(timed, self.found.graph(), some)
        solving, cores = self._measured[timed, n], 1 if on_gpu or n_sources == 1 else self.machine.cores
        return solving.start_s + n_sources * solving.source_s / cores**CORES_EXPONENT


def made(name: str, folder: Path) -> BenchGraph:
    """Return the graph of `graphs.py` called `name`, as a SciPy matrix in `folder`."""
    file = folder / f"{name}.npz"
    if not file.exists():
        graph = load(name, Path(os.environ.get("SSSP_TEST_DATA", "../shared/data")))
        n, targets = graph.n_vertices, graph.col_indices.astype(np.int64)
        ends = np.repeat(np.arange(n), np.diff(graph.row_offsets)) * n + targets
        ends, firsts = np.unique(ends, return_index=True)  # parallel edges would be added up
        ss.save_npz(file, ss.csr_array((graph.weights[firsts], np.divmod(ends, n)), (n, n)))
    return BenchGraph(name=name, graph=Graph(input=str(file)))


def measure(
    entry: BenchGraph, folder: Path, counts: list[int], drawn: RandomSources, machine: Machine
) -> None:
    found = stored(entry, folder, Quiet())
    if entry.hashed_weights is not None:
        found = Weighted(found, entry.hashed_weights)
    graph = found.graph()
    count = min(drawn.count, graph.n_vertices // 4)
    drawn = drawn.model_copy(update={"count": count})
    sources = VertexSelection(found.ids, found.graph).sources(drawn.of(graph.n_vertices))
    case = Case(found, machine, sources)
    of_counts = {count: case.of(count) for count in counts}
    case.add_stored(of_counts)
    files.remove(files.join(found.store, FOLDER))
    record(
        NAME if machine.gpu_free_bytes is None else ON_GPU,
        graph=entry.name,
        vertices=graph.n_vertices,
        edges=graph.n_edges,
        cores=machine.cores,
        sources=of_counts,
        load=os.getloadavg()[0],
    )


def print_table(name: str) -> None:
    """Print a row for each graph of the newest commit: in each cell without a hierarchy, and as `auto` chooses."""
    lines = [json.loads(line) for line in (RESULTS / f"{name}.jsonl").read_text().splitlines()]
    newest = {line["graph"]: line for line in lines if line["commit"] == lines[-1]["commit"]}
    counts = list(next(iter(newest.values()))["sources"])
    print("| graph |", " | ".join(f"{int(n):,}" for n in counts), "|")
    print("| --- |" + " --- |" * len(counts))
    for graph, line in newest.items():
        cells = [_cell(line["sources"][n]) for n in counts]
        print(f"| {graph} |", " | ".join(cells), "|")


def _cell(facts: dict[str, Any]) -> str:
    texts = [f"{facts['without_s']:.3g}"]
    is_made = SOLVERS[facts["auto"]].uses_hierarchy
    if is_made or facts["spent_s"] > 0.01 * facts["without_s"]:
        texts.append(f"**{facts['run_s']:.3g}**" if is_made else f"{facts['run_s']:.3g}")
    stored_s = (
        f" ({facts['stored_s']:.2g})" if SOLVERS[facts.get("stored", "dijkstra")].uses_hierarchy else ""
    )
    return " / ".join(texts) + stored_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, help="folder of the graph stores")
    parser.add_argument("--graphs", help="names of graphs; default: all of papers/matrix.yaml")
    parser.add_argument("--sources", default="1,16,64,256,1024,16384", help="numbers of sources")
    parser.add_argument("--table", action="store_true", help="print the newest lines as a table")
    parser.add_argument("--gpu", action="store_true", help="with the GPU of this machine, in wall time")
    given = parser.parse_args()
    if given.table:
        print_table(ON_GPU if given.gpu else NAME)
        return
    if given.folder is None:
        parser.error("--folder is missing")
    machine = this_machine() if given.gpu else Machine(2, None, "no GPU")
    if given.gpu and machine.gpu_free_bytes is None:
        parser.error(machine.no_gpu)
    bench = load_bench(str(MATRIX))
    names = given.graphs.split(",") if given.graphs else [entry.name for entry in bench.graphs]
    entries = {entry.name: entry for entry in bench.graphs}
    if unknown := [name for name in names if name not in entries and name not in GRAPHS]:
        parser.error(f"no such graphs: {', '.join(unknown)}; there are {', '.join({**entries, **GRAPHS})}")
    drawn = bench.sources.model_copy(update={"count": 16})
    for name in names:
        try:
            entry = entries.get(name) or made(name, given.folder)
            measure(entry, given.folder, [int(n) for n in given.sources.split(",")], drawn, machine)
        except InputError as error:
            print(f"{name} is left out: {error.message}", file=sys.stderr)


if __name__ == "__main__":
    main()
