"""The time of `auto` over that of the best solver, by graph and number of sources, for docs/auto-on-an-h200.md.

    python benchmarks/auto.py --data FOLDER --folder .bench [--sources 1,16,256,1024] [--run-s 1] [--graphs ny]

It needs a GPU. The graphs are those of `papers/matrix.yaml`, others of other kinds, and some on which nothing was
tuned. The kernels of every solver are loaded before. A run has its plan, its batches and its trials, but its only
output is metrics, so that nothing hides the time of the solvers. `--run-s S` adds a run with as many sources as the
best solver solves in S seconds; then sources repeat. A solver is stopped after `MOST_TIMES` the time of the best
one.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import graphs
import numpy as np
from record import record

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.bench.cases import stored, with_hashed_weights
from sssp_pipeline.bench.spec import BenchGraph
from sssp_pipeline.bench.variants import load_bench
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import DEADLINE_S, SolveOptions, metrics_column
from sssp_pipeline.pipeline.planning.machine import this_machine
from sssp_pipeline.pipeline.planning.plan import RunPlan, make_plan
from sssp_pipeline.pipeline.planning.work import cut
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.outputs.metrics_output import MetricsAlone
from sssp_pipeline.pipeline.solving.trials import Trials
from sssp_pipeline.workflow.models import Solve

MOST_TIMES = 2.0
#: A run below `SHORT_S` seconds is repeated `ROUNDS` times, and the shortest counts.
ROUNDS, SHORT_S = 3, 0.3
#: Graphs beside those of `papers/matrix.yaml`: name, input, options of the input.
OTHERS = (
    ("random-20-16", "generated:random?vertices=1048576&edge_factor=16", {}),
    ("random-20-2", "generated:random?vertices=1048576&edge_factor=2", {}),
    ("small-world-17", "generated:small-world?vertices=131072&near=10&far=0.3", {}),
    ("rmat-19-both", "generated:rmat?scale=19", {"directed": False}),
    ("mesh-narrow", "generated:mesh?rows=4096&cols=256", {}),
    ("road-18", "generated:road?vertices=262144&seed=11", {"weights": {"dtype": "float64"}}),
    ("notredame-both", "${SSSP_TEST_DATA}/web-NotreDame.txt.gz", {"directed": False}),
)
#: Graphs of `graphs.py` on which forecasts and trials were not tuned.
HELD_OUT = ("points-2d", "points-8d", "tree", "hubs", "communities", "lattice-3d")
#: The best solver takes S / `NEAR` to S * `NEAR` seconds for a run of S seconds, unless `SIZINGS` steps do not suffice.
NEAR, SIZINGS = 1.25, 4
METRICS = MetricsAlone(DistanceFormat("long", None, "none", predecessors=False))
ON_GPU = tuple(name for name, solver in SOLVERS.items() if solver.device == "gpu")


def entries() -> list[BenchGraph]:
    """Return the graphs that are not held out."""
    papers = load_bench(str(Path(__file__).parent / "papers" / "matrix.yaml")).graphs
    data = os.environ["SSSP_TEST_DATA"]
    others = [
        {"name": name, "graph": {"input": url.replace("${SSSP_TEST_DATA}", data), **options}}
        | ({"hashed_weights": 100} if "NotreDame" in url else {})
        for name, url, options in OTHERS
    ]
    return [*papers, *(BenchGraph.model_validate(entry) for entry in others)]


def all_graphs(data: str, folder: Path) -> dict[str, Callable[[], CsrGraph]]:
    """Return by name a function that loads the graph; it keeps the graph in `folder`."""
    return {entry.name: partial(loaded, entry, folder) for entry in entries()} | {
        name: partial(graphs.load, name, Path(data), folder) for name in HELD_OUT
    }


def loaded(entry: BenchGraph, folder: Path) -> CsrGraph:
    """Return the graph of `entry` with the weights it asks for."""
    graph = stored(entry, folder, Quiet()).graph()
    return graph if entry.hashed_weights is None else with_hashed_weights(graph, entry.hashed_weights)


def drawn(graph: CsrGraph, count: int) -> np.ndarray:
    """Return (count,) random vertices with edges, with repetitions where there are too few."""
    able = np.flatnonzero(np.diff(graph.row_offsets)).astype(np.uint32)
    return np.random.default_rng(1).permutation(np.resize(able, max(count, len(able))))[:count]


def planned(graph: CsrGraph, sources: np.ndarray, solver: str) -> RunPlan:
    """Return the plan of a run with metrics alone, in which `auto` chooses among the GPU solvers."""
    traits = replace(graph.traits, levels=graph.levels)
    batches = cut(traits, sources, Solve(), METRICS.kept)
    make = partial(make_plan, traits, batches, output=METRICS, machine=this_machine())
    plan = make(solve=Solve(solver=solver))
    if plan.solver in ON_GPU:
        return plan
    first, *others = sorted(ON_GPU, key=lambda name: plan.work.of_a_call(name).source_s)
    return replace(make(solve=Solve(solver=first)), others=tuple(others))


def took(
    graph: CsrGraph, sources: np.ndarray, solver: str, most_s: float = math.inf
) -> tuple[float, dict[str, int], str] | None:
    """Return the seconds of the calls of a run, the sources that each solver solved, and the solver chosen.

    None if the run takes longer than `most_s`.
    """
    plan = planned(graph, sources, solver)
    trials = Trials(plan, plan.batches_per_call)
    options = SolveOptions(kept=Nothing(), deadline_s=min(most_s, DEADLINE_S))
    solved: Counter[str] = Counter()
    began, n_done = time.perf_counter(), 0
    while n_done < len(sources):
        call = trials.next_call(len(sources) - n_done)
        some = sources[n_done : n_done + call.n_batches * plan.work.batch]
        limited = options if call.limit_s is None else replace(options, deadline_s=call.limit_s)
        try:
            solution = SOLVERS[call.solver].solve(graph, some, limited)
        except DeadlineError:
            if call.limit_s is None:
                return None
            trials.end(call.solver)
            solved[f"{call.solver} ended"] += len(some)
            continue
        n_done += len(some)
        solved[call.solver] += len(some)
        trials.learn(call.solver, float(np.mean(metrics_column(solution.metrics, "solve_s"))), len(some))
        if (time.perf_counter() - began) * len(sources) / n_done > most_s:
            return None
    return time.perf_counter() - began, dict(solved), trials.solver


def best_of_some(
    graph: CsrGraph, sources: np.ndarray, solver: str, most_s: float = math.inf
) -> tuple[float, dict[str, int], str] | None:
    """Return the shortest of several runs, as `took`; a long run is not repeated."""
    best = took(graph, sources, solver, most_s)
    for _ in range(ROUNDS - 1):
        if best is None or best[0] > SHORT_S:
            break
        best = min(best, took(graph, sources, solver) or best)
    return best


def cells(graph: CsrGraph, counts: list[int], run_s: list[float]) -> Iterator[dict]:
    """Yield the times of all solvers for each number of sources, and for a run of each of `run_s` seconds."""
    for name in ON_GPU:
        SOLVERS[name].solve(graph, drawn(graph, 1), SolveOptions(kept=Nothing()))
    per_source_s: dict[str, float] = {}
    for count in [*counts, *run_s]:
        taken: dict[str, float] = {}
        if is_run := isinstance(count, float):
            best = min(per_source_s, key=per_source_s.__getitem__)
            n, taken[best] = sized(graph, best, count, per_source_s[best])
        else:
            n = count
        sources = drawn(graph, n)
        for solver in sorted(ON_GPU, key=lambda s: SOLVERS[s].forecast(graph.traits, n).source_s):
            slow = is_run and per_source_s.get(solver, math.inf) > 1.3 * min(per_source_s.values())
            if slow or solver in taken:
                continue
            most_s = max(0.02, MOST_TIMES * min(taken.values(), default=math.inf))
            if (found := best_of_some(graph, sources, solver, most_s)) is not None:
                taken[solver] = found[0]
        auto_s, solved, chosen = best_of_some(graph, sources, "auto") or (math.inf, {}, "")
        per_source_s = {s: t / n for s, t in taken.items()}
        fastest = min(taken, key=taken.__getitem__)
        yield {
            "n_sources": n,
            "run_s": count if is_run else None,
            "auto_s": round(auto_s, 6),
            "auto_solved": solved,
            "auto_chose": chosen,
            "best": fastest,
            "best_s": round(taken[fastest], 6),
            "times": round(auto_s / taken[fastest], 3),
            "solver_s": {s: round(t, 6) for s, t in taken.items()},
        }


def sized(graph: CsrGraph, solver: str, run_s: float, source_s: float) -> tuple[int, float]:
    """Return how many sources make a run of about `run_s` seconds, and the seconds of `solver` for them."""
    for _ in range(SIZINGS):
        n = max(1, round(run_s / source_s))
        taken_s, *_ = took(graph, drawn(graph, n), solver)
        if run_s / NEAR <= taken_s <= run_s * NEAR:
            break
        source_s = taken_s / n
    return n, taken_s


def measure(given: argparse.Namespace) -> None:
    """Record a line for each graph and number of sources."""
    os.environ["SSSP_TEST_DATA"] = given.data
    wanted = given.graphs.split(",") if given.graphs else None
    for name, give in all_graphs(given.data, given.folder).items():
        if wanted is not None and name not in wanted:
            continue
        graph = give()
        if given.prepare:
            continue
        for cell in cells(graph, [int(n) for n in given.sources.split(",")], given.run_s):
            record("auto", graph=name, n_vertices=graph.n_vertices, n_edges=graph.n_edges, **cell)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--folder", type=Path, required=True, help="where the graphs are stored")
    parser.add_argument("--sources", default="1,16,256,1024")
    parser.add_argument("--run-s", type=float, action="append", default=[])
    parser.add_argument("--graphs", help="names; without it all")
    parser.add_argument("--prepare", action="store_true", help="only store the graphs")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
