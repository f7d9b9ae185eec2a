"""Many sources on one GPU: what a source takes by how many share a call; renders docs/many-sources-on-an-h200.md.

    python benchmarks/many_sources.py measure --data FOLDER [--cache FOLDER] [--graphs ny,rmat-20] [--numbers 1,1024]
        [--rounds 3] [--most-s 2] [--most-gib 16] [--budget-s 150]
    python benchmarks/many_sources.py page

The first needs a GPU, and the folder with the real graphs. It writes a line for each graph, solver and number of
sources as soon as it is measured. The sources are random, no two alike, each with a large reach; the first sources of
the longest call make up the shorter ones. Times are device time by CUDA events with the distances left on the device,
the mean over the sources of a call, and wall time of the whole call, which copies them to pinned host memory; each the
median of the rounds, after a call that warms up. Of every call a sample of rows is compared with the CPU's
delta-stepping; if one differs, the line is left out and the program fails in the end.

Where the time is short, what matters most comes first: the solver with the best forecast, with the most sources; then
the others. Left out, and listed in the end, are calls whose rows take more than `--most-gib` or half of the memory
that is free, those expected to last longer than twice `--most-s`, and all that had not begun after `--budget-s`. A
call is repeated until it was timed `--rounds` times or has taken `--most-s`; a call that takes longer is timed once,
without one that warms up.

The second needs none of that: it renders the newest line of each graph, solver and number, and draws the figure with
matplotlib (`pip install '.[figures]'`). Commit both what was measured and what was rendered.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import many_sources_page
import numpy as np
import psutil
from gpu_solvers import LARGE_REACH, solved_by_cpu
from graphs import checked_names, load
from many_sources_page import FIGURE, GRAPHS, PAGE, draw, newest, newest_runs, page
from record import RESULTS, record

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import SsspError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.gpu.common.batch_solver import GpuBatchSolver
from sssp_pipeline.kernels.solver import SolveOptions, Solver, SourceMetrics
from sssp_pipeline.pipeline.machine import this_machine
from sssp_pipeline.pipeline.planning.plan import Plan, cut, make_plan
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.outputs import AllDistances
from sssp_pipeline.workflow.models import Solve

NAME = "many_sources"
NUMBERS = (1, 4, 16, 64, 256, 1024, 4096)
GPU_SOLVERS: dict[str, Solver] = {name: SOLVERS[name] for name in many_sources_page.GPU_SOLVERS}
#: The solvers that take one source after another, or a few together: more of them change nothing.
ONE_BY_ONE = tuple(s.name for s in GPU_SOLVERS.values() if not isinstance(s, GpuBatchSolver))
MOST_ONE_BY_ONE = 64
#: Rows of a call that are compared.
CHECKED = 4
#: Most calls to find sources of a large reach, each with as many candidates as are wanted.
TRIES = 8


@dataclass(frozen=True, eq=False)
class Case:
    """A graph with the sources of its longest call, and the true distances (V,) from those of them that are compared.

    `rows` has them by their place among the sources.
    """

    name: str
    graph: CsrGraph
    sources: np.ndarray
    rows: dict[int, np.ndarray]

    @property
    def row_bytes(self) -> int:
        return self.graph.n_vertices * self.graph.weight_dtype.itemsize


def prepared(name: str, graph: CsrGraph, numbers: list[int]) -> Case:
    """Return a graph to measure with calls of `numbers`, and sources for them."""
    sources = far_reaching(graph, max(numbers))
    places = sorted({place for n in numbers for place in places_of(n) if place < len(sources)})
    solved = solved_by_cpu(graph, sources[places])
    return Case(name, graph, sources, {p: s.distances[0] for p, s in zip(places, solved, strict=True)})


def places_of(n_sources: int) -> list[int]:
    """Return the places, from the first to the last, of the rows that are compared of a call."""
    return sorted({round(place) for place in np.linspace(0, n_sources - 1, CHECKED).tolist()})


def far_reaching(graph: CsrGraph, count: int) -> np.ndarray:
    """Return up to `count` different random sources with a large reach, as the solver with the best forecast sees it.

    Vertices without edges are not tried: they are many in R-MAT.
    """
    solver = GPU_SOLVERS[by_forecast(graph, count)[0]]
    candidates = np.flatnonzero(np.diff(graph.row_offsets)).astype(np.uint32)
    candidates = np.random.default_rng(1).permutation(candidates)[: TRIES * count]
    found: list[int] = []
    for first in range(0, len(candidates), count):
        metrics = solver.solve(graph, candidates[first : first + count], SolveOptions()).metrics
        found += [m.source for m in metrics if m.reached >= LARGE_REACH * graph.n_vertices]
        if len(found) >= count:
            break
    if not found:
        raise SsspError(f"of {len(candidates)} vertices none has a large reach")
    return np.array(found[:count], np.uint32)


def by_forecast(graph: CsrGraph, n_sources: int) -> list[str]:
    """Return the GPU solvers for a call of so many sources, the one expected to be fastest first."""
    able = [name for name in GPU_SOLVERS if n_sources <= MOST_ONE_BY_ONE or name not in ONE_BY_ONE]
    return sorted(able, key=lambda name: SOLVERS[name].forecast(graph.traits, n_sources).source_s)


@dataclass(frozen=True)
class Limits:
    """How much is measured: timed rounds, seconds of a call repeated, end of it all (`time.monotonic`)."""

    rounds: int
    most_s: float
    ends: float


def measure_all(cases: list[Case], numbers: list[int], limits: Limits) -> tuple[list[str], list[str]]:
    """Record a line for each case, solver and number; return what was left out, and what went wrong."""
    calls = [
        (rank > 0, -n, rank, place, solver)
        for place, case in enumerate(cases)
        for n in numbers
        if n <= len(case.sources)
        for rank, solver in enumerate(by_forecast(case.graph, n))
    ]
    left_out, faults = [], []
    for _, minus_n, _, place, solver in sorted(calls):
        case, n = cases[place], -minus_n
        what = f"{case.name}, {solver}, {n}"
        if n * SOLVERS[solver].forecast(case.graph.traits, n).source_s > 2 * limits.most_s:
            left_out.append(f"{what}: too slow")
        elif time.monotonic() > limits.ends:
            left_out.append(f"{what}: no time")
        else:
            try:
                measure(case, solver, n, limits)
            except (SsspError, WrongDistanceError) as error:
                faults.append(f"{what}: {error}")
                print(faults[-1], file=sys.stderr)
    return left_out, faults


class WrongDistanceError(Exception):
    """A distance is not the one that delta-stepping finds."""


def measure(case: Case, solver: str, n_sources: int, limits: Limits) -> None:
    """Record a line for one call of `solver`; raises `WrongDistanceError`."""
    graph, sources = case.graph, case.sources[:n_sources]

    def call() -> tuple[float, list[SourceMetrics]]:
        # The rows are gone when it returns, so that the next call gets the same pinned memory.
        began = time.perf_counter()
        solution = GPU_SOLVERS[solver].solve(graph, sources, SolveOptions())
        wall_s = time.perf_counter() - began
        for place in places_of(n_sources):
            if not np.array_equal(solution.distances[place], case.rows[place]):
                raise WrongDistanceError(f"distances from {sources[place]} differ from delta-stepping's")
        return wall_s, solution.metrics

    began = time.monotonic()
    calls = [call()]
    while len(calls) <= limits.rounds and time.monotonic() - began < limits.most_s:
        calls.append(call())
    timed = calls[1:] or calls
    ms = [1e3 * float(np.mean([m.solve_s for m in metrics])) for _, metrics in timed]
    wall_ms = [1e3 * wall_s / n_sources for wall_s, _ in timed]
    metrics = timed[0][1]
    reached = [m.reached for m in metrics]
    record(
        NAME,
        graph=case.name,
        solver=solver,
        n_sources=n_sources,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        weight_dtype=graph.weight_dtype.name,
        rounds=len(timed),
        is_warm=len(calls) > 1,
        ms=round(float(np.median(ms)), 5),
        ms_least=round(min(ms), 5),
        ms_with_copy_back=round(float(np.median(wall_ms)), 5),
        row_bytes=case.row_bytes,
        compared=len(places_of(n_sources)),
        reached_least=min(reached),
        reached_mean=round(float(np.mean(reached))),
        processed_a_reached_vertex=round(
            float(np.mean([m.vertices_processed / m.reached for m in metrics])), 3
        ),
        gteps=round(float(np.median([m.teps for m in metrics])) / 1e9, 3),
        run_would_take=_planned(graph, sources).solver,
        forecast_ms={
            name: round(1e3 * SOLVERS[name].forecast(graph.traits, n_sources).source_s, 5)
            for name in GPU_SOLVERS
        },
    )


def _planned(graph: CsrGraph, sources: np.ndarray) -> Plan:
    """Return the plan of a run that writes all distances."""
    output = AllDistances(DistanceFormat("long", None, "none", predecessors=False))
    batches = cut(graph.traits, sources, Solve(), output.kept)
    return make_plan(graph.traits, batches, Solve(), output, this_machine())


def cases_of(names: list[str], given: argparse.Namespace) -> tuple[list[Case], list[str]]:
    """Return the graphs called `names`, ready to be measured, and what went wrong with the others."""
    cases, faults = [], []
    for name in names:
        graph = load(name, given.data, given.cache)
        most_bytes = min(given.most_gib * 2**30, psutil.virtual_memory().available / 2)
        most = most_bytes / (graph.n_vertices * graph.weight_dtype.itemsize)
        try:
            if not (numbers := [n for n in given.numbers if n <= most]):
                raise SsspError(f"no memory for the rows of {min(given.numbers)} sources")
            cases.append(prepared(name, graph, numbers))
        except SsspError as error:
            faults.append(f"{name}: {error}")
            print(faults[-1], file=sys.stderr)
    return cases, faults


def main() -> None:
    began = time.monotonic()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    measuring = commands.add_parser("measure", help="on a GPU: record a line a graph, solver and number")
    measuring.add_argument("--graphs", default=",".join(GRAPHS))
    measuring.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    measuring.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    measuring.add_argument(
        "--numbers", type=lambda text: [int(n) for n in text.split(",")], default=NUMBERS, help="of sources"
    )
    measuring.add_argument("--rounds", type=int, default=3, help="timed calls")
    measuring.add_argument("--most-s", type=float, default=2, help="seconds after which no call is repeated")
    measuring.add_argument("--most-gib", type=float, default=16, help="host memory for the rows of a call")
    measuring.add_argument("--budget-s", type=float, default=600, help="seconds after which no call begins")
    commands.add_parser("page", help="render the page and draw the figure from the recorded lines")
    given = parser.parse_args()
    if "graphs" not in given:
        lines = newest((RESULTS / f"{NAME}.jsonl").read_text().splitlines())
        runs = RESULTS / "pipeline_solvers.jsonl"
        PAGE.write_text(page(lines, newest_runs(runs.read_text().splitlines() if runs.exists() else [])))
        draw(lines, FIGURE)
        return
    cases, unprepared = cases_of(checked_names(measuring, given.graphs, given.data), given)
    limits = Limits(given.rounds, given.most_s, began + given.budget_s)
    print(f"prepared in {time.monotonic() - began:.0f} s", file=sys.stderr)
    left_out, faults = measure_all(cases, list(given.numbers), limits)
    for what in left_out:
        print(f"left out: {what}", file=sys.stderr)
    print(f"{time.monotonic() - began:.0f} s in all", file=sys.stderr)
    if faults := unprepared + faults:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
