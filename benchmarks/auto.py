"""What `auto` takes beside the best solver: the calls of a run, distances left on the device, by graph and sources.

    python benchmarks/auto.py measure --data FOLDER --folder .bench [--sources 1,16,256,1024] [--run-s 1] [--graphs ny]
    python benchmarks/auto.py page

The graphs are those of `papers.yaml`, others of other kinds, and some that nothing was tuned on. Every solver is warm:
its kernels are loaded before. A run has its plan, its batches and its trials, but no output other than metrics, so
that nothing hides what the solvers take. `--run-s S` adds a run with as many sources as the best solver solves in S
seconds; sources come again then. A solver is stopped when it has taken `MOST_TIMES` the time of the best one.
The second command renders docs/auto-on-an-h200.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import geometric_mean, mean

import graphs
import numpy as np
from pages import measured_on, ms_text
from record import RESULTS, record

from sssp_pipeline.bench.cases import stored
from sssp_pipeline.bench.spec import BenchGraph
from sssp_pipeline.bench.variants import load_bench
from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import DeadlineError
from sssp_pipeline.generators import hashed_weights
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.kept import Nothing
from sssp_pipeline.kernels.solver import DEADLINE_S, SolveOptions, metrics_column
from sssp_pipeline.pipeline.machine import this_machine
from sssp_pipeline.pipeline.planning.plan import Plan, cut, make_plan
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.outputs import MetricsAlone
from sssp_pipeline.pipeline.solving.trials import Trials
from sssp_pipeline.progress import Quiet
from sssp_pipeline.workflow.models import Solve

PAGE = Path(__file__).parents[1] / "docs" / "auto-on-an-h200.md"
MOST_TIMES = 2.0
#: A run shorter than `SHORT_S` seconds is repeated: the shortest of `ROUNDS` counts.
ROUNDS, SHORT_S = 3, 0.3
#: Graphs beside those of `papers.yaml`: name, input, options of the input.
OTHERS = (
    ("random-20-16", "generated:random?vertices=1048576&edge_factor=16", {}),
    ("random-20-2", "generated:random?vertices=1048576&edge_factor=2", {}),
    ("small-world-17", "generated:small-world?vertices=131072&near=10&far=0.3", {}),
    ("rmat-19-both", "generated:rmat?scale=19", {"directed": False}),
    ("mesh-narrow", "generated:mesh?rows=4096&cols=256", {}),
    ("road-18", "generated:road?vertices=262144&seed=11", {"weights": {"dtype": "float64"}}),
    ("notredame-both", "${SSSP_TEST_DATA}/web-NotreDame.txt.gz", {"directed": False}),
)
#: The last graph that forecasts and trials were tuned on, and graphs of `graphs.py` that they were not tuned on.
TUNED_ON = "notredame-both"
HELD_OUT = ("points-2d", "points-8d", "tree", "hubs", "communities", "lattice-3d")
#: A run sized for S seconds takes the best solver S seconds divided or multiplied by this, if `SIZINGS` steps do.
NEAR, SIZINGS = 1.25, 4
METRICS = MetricsAlone(DistanceFormat("long", None, "none", predecessors=False))
ON_GPU = tuple(name for name, solver in SOLVERS.items() if solver.device == "gpu")


def entries() -> list[BenchGraph]:
    """Return the graphs that are not held out."""
    papers = load_bench(str(Path(__file__).with_name("papers.yaml"))).graphs
    data = os.environ["SSSP_TEST_DATA"]
    others = [
        {"name": name, "graph": {"input": url.replace("${SSSP_TEST_DATA}", data), **options}}
        | ({"hashed_weights": 100} if "NotreDame" in url else {})
        for name, url, options in OTHERS
    ]
    return [*papers, *(BenchGraph.model_validate(entry) for entry in others)]


def all_graphs(data: str, folder: Path) -> dict[str, Callable[[], CsrGraph]]:
    """Return what gives each graph; once given, it is kept in `folder`."""
    return {entry.name: partial(loaded, entry, folder) for entry in entries()} | {
        name: partial(graphs.load, name, Path(data), folder) for name in HELD_OUT
    }


def loaded(entry: BenchGraph, folder: Path) -> CsrGraph:
    """Return the graph of `entry` with the weights it asks for."""
    graph = stored(entry, folder, Quiet()).graph()
    if entry.hashed_weights is None:
        return graph
    src = np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))
    weights = hashed_weights(src, graph.col_indices, entry.hashed_weights).astype(graph.weight_dtype)
    return CsrGraph(graph.row_offsets, graph.col_indices, weights)


def drawn(graph: CsrGraph, count: int) -> np.ndarray:
    """Return (count,) vertices with edges, some of them more than once if there are too few."""
    able = np.flatnonzero(np.diff(graph.row_offsets)).astype(np.uint32)
    return np.random.default_rng(1).permutation(np.resize(able, max(count, len(able))))[:count]


def planned(graph: CsrGraph, sources: np.ndarray, solver: str) -> Plan:
    """Return the plan of a run with metrics alone; `auto` chooses among the solvers of a GPU that is ready."""
    batches = cut(graph.traits, sources, Solve(), METRICS.kept)
    make = partial(make_plan, graph.traits, batches, output=METRICS, machine=this_machine())
    plan = make(solve=Solve(solver=solver))
    if plan.solver in ON_GPU:
        return plan
    first, *others = sorted(ON_GPU, key=lambda name: plan.work.of_a_call(name).source_s)
    return replace(make(solve=Solve(solver=first)), others=tuple(others))


def took(
    graph: CsrGraph, sources: np.ndarray, solver: str, most_s: float = math.inf
) -> tuple[float, dict[str, int], str] | None:
    """Return the seconds of the calls of a run, the sources that each solver solved, and who was the fastest.

    None if that takes longer than `most_s`.
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
    """Return the shortest of some runs, as `took`; of one, if it is not a short one."""
    best = took(graph, sources, solver, most_s)
    for _ in range(ROUNDS - 1):
        if best is None or best[0] > SHORT_S:
            break
        best = min(best, took(graph, sources, solver) or best)
    return best


def cells(graph: CsrGraph, counts: list[int], run_s: list[float]) -> Iterator[dict]:
    """Yield what all solvers take for each number of sources, and for as many as make a run of `run_s`."""
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
    """Return how many sources make a run of about `run_s`, and what `solver` takes for them."""
    for _ in range(SIZINGS):
        n = max(1, round(run_s / source_s))
        taken_s, *_ = took(graph, drawn(graph, n), solver)
        if run_s / NEAR <= taken_s <= run_s * NEAR:
            break
        source_s = taken_s / n
    return n, taken_s


COLUMNS = ("1", "16", "256", "1024", "1 s", "10 s")


def page(lines: list[dict]) -> str:
    """Return the page as Markdown, from the newest line of each graph and run."""
    cells = {(line["graph"], _column(line)): line for line in lines}
    names = list(dict.fromkeys(line["graph"] for line in lines))
    seen = {
        c: [line["times"] for g in names if (line := cells.get((g, c))) and _is_fair(line)] for c in COLUMNS
    }
    heads = [f"{c} {'source' if c == '1' else 'run' if c.endswith('s') else 'sources'}" for c in COLUMNS]
    text = [
        "<!-- Rendered by `python benchmarks/auto.py page`: do not edit. -->\n# `auto` on an H200",
        "How long the solvers take that `solve.solver: auto` chooses, beside the best solver, by graph and number of "
        "sources. The calls of a run are timed with metrics alone and with warm solvers. The number of sources of the "
        f"last two columns was chosen so that the best solver takes about 1 s or 10 s; it took {_range(lines, 1)} and "
        f"{_range(lines, 10)}. In a run of less than 0.1 s nothing is tried. "
        "What a GPU takes to start, which is longer, is not in these times. " + measured_on(lines),
        "How to read it. The limits of the trials and two forecasts were changed three times after looking at the "
        f"graphs down to {TUNED_ON}; nothing was changed after looking at the others. Runs of 0.3 s and more "
        "were timed once, `auto` after the others. A cell in brackets has no fair comparison, since the solver that "
        "`auto` chose was not measured there; it is not counted.",
        "Each cell: milliseconds of the best solver, its name, and how many times as long `auto` took.",
        f"| graph | {' | '.join(heads)} |\n| --- |{' --- |' * len(COLUMNS)}",
    ]
    text[-1] += "".join(f"\n| {g} | {' | '.join(_cell(cells.get((g, c))) for c in COLUMNS)} |" for g in names)
    rows = ((c, seen[c]) for c in COLUMNS if seen[c])
    by_best = {
        s: [line["times"] for line in cells.values() if line["run_s"] == 1 and line["best"] == s]
        for s in ("adds-slots", "adds-lanes")
    }
    means = ", ".join(f"{geometric_mean(of):.2f} where {s} is best" for s, of in by_best.items() if of)
    text.append(f"Geometric means of the runs of about 1 s: {means}.")
    text.append(
        "| | runs | geometric mean | within 1.1 | within 1.25 | most |\n| --- | --- | --- | --- | --- | --- |"
        + "".join(
            f"\n| {c} | {len(of)} | {geometric_mean(of):.2f} | {mean(t <= 1.1 for t in of):.0%} "
            f"| {mean(t <= 1.25 for t in of):.0%} | {max(of):.2f} |"
            for c, of in rows
        )
    )
    return "\n\n".join(text) + "\n"


def _range(lines: list[dict], run_s: float) -> str:
    took_s = [line["best_s"] for line in lines if line["run_s"] == run_s]
    return f"{min(took_s):.2g} to {max(took_s):.2g} s"


def _column(line: dict) -> str:
    return f"{line['run_s']:g} s" if line["run_s"] else str(line["n_sources"])


def _is_fair(line: dict) -> bool:
    """Return whether the best time is not that of slower solvers alone."""
    return line["times"] >= 1 or line["auto_chose"] in line["solver_s"]


def _cell(line: dict | None) -> str:
    if line is None:
        return ""
    cell = f"{ms_text(1e3 * line['best_s'])} {line['best']}, {line['times']:.2f}"
    return cell if _is_fair(line) else f"[{cell}]"


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
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="on a GPU: record the lines")
    measuring.add_argument("--data", default=os.environ.get("SSSP_TEST_DATA"))
    measuring.add_argument("--folder", type=Path, required=True, help="where the graphs are stored")
    measuring.add_argument("--sources", default="1,16,256,1024")
    measuring.add_argument("--run-s", type=float, action="append", default=[])
    measuring.add_argument("--graphs", help="names; all unless given")
    measuring.add_argument("--prepare", action="store_true", help="only store the graphs")
    commands.add_parser("page", help="render the page from the recorded lines")
    given = parser.parse_args()
    if given.command == "measure":
        measure(given)
    else:
        lines = map(json.loads, (RESULTS / "auto.jsonl").read_text().splitlines())
        PAGE.write_text(page(list(lines)))


if __name__ == "__main__":
    main()
