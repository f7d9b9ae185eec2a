"""The time of a source on one GPU by the number of sources in a call, for docs/many-sources-on-an-h200.md.

    python benchmarks/many_sources.py --data FOLDER [--cache FOLDER] [--graphs ny,rmat-20] [--numbers 1,1024]
        [--rounds 3] [--most-s 2] [--most-gib 16] [--budget-s 150]

It needs a GPU and the folder with the real graphs. There is one line for each graph, solver and number of sources,
written as soon as it is measured. The sources are random and different, and each has a large reach; a shorter call
takes the first sources of the longest one. There are two times, each the median of the rounds after a warm-up. One
is the device time by CUDA events, with the distances left on the device, as the mean over the sources. The other is
the wall time of the whole call, which copies the distances to pinned host memory. A sample of the rows of every
call is compared with the CPU's delta-stepping. If one differs, there is no line, and the program fails at the end.

The most important calls come first: those of the solver with the best forecast, the largest first; then the others.
The program leaves out and lists the calls whose rows take more than `--most-gib` or half of the free memory, those
that are expected to take more than twice `--most-s`, and all that have not begun after `--budget-s`. A call is
repeated until it was timed `--rounds` times or has taken `--most-s`. A longer call is timed once, without a
warm-up.

`bench` cannot do this: it compares every row, and it has neither forecasts nor times with copies. `pages.py
many-sources` renders the newest line of each graph, solver and number.
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
from graphs import checked_names, load
from many_sources_page import GRAPHS
from record import record
from sources import LARGE_REACH, solved_by_cpu

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

NUMBERS = (1, 4, 16, 64, 256, 1024, 4096)
GPU_SOLVERS: dict[str, Solver] = {name: SOLVERS[name] for name in many_sources_page.GPU_SOLVERS}
#: The solvers that solve one source after another. More sources than `MOST_ONE_BY_ONE` change nothing for them.
ONE_BY_ONE = tuple(s.name for s in GPU_SOLVERS.values() if not isinstance(s, GpuBatchSolver))
MOST_ONE_BY_ONE = 64
#: Rows of a call to compare.
CHECKED = 4
#: Calls at most to find sources with a large reach; each has as many candidates as sources are wanted.
TRIES = 8


@dataclass(frozen=True, eq=False)
class Case:
    """A graph with the sources of its longest call.

    `rows` has the true distances (V,) of the rows to compare, by place among the sources.
    """

    name: str
    graph: CsrGraph
    sources: np.ndarray
    rows: dict[int, np.ndarray]

    @property
    def row_bytes(self) -> int:
        return self.graph.n_vertices * self.graph.weight_dtype.itemsize


def prepared(name: str, graph: CsrGraph, numbers: list[int]) -> Case:
    """Return a graph with sources for calls of `numbers` sources."""
    sources = far_reaching(graph, max(numbers))
    places = sorted({place for n in numbers for place in places_of(n) if place < len(sources)})
    solved = solved_by_cpu(graph, sources[places])
    return Case(name, graph, sources, {p: s.distances[0] for p, s in zip(places, solved, strict=True)})


def places_of(n_sources: int) -> list[int]:
    """Return the places of the rows to compare of a call, spread from the first to the last."""
    return sorted({round(place) for place in np.linspace(0, n_sources - 1, CHECKED).tolist()})


def far_reaching(graph: CsrGraph, count: int) -> np.ndarray:
    """Return up to `count` different random sources with a large reach, found by the solver with the best forecast.

    Vertices without edges are no candidates: R-MAT has many.
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
        raise SsspError(f"none of {len(candidates)} vertices has a large reach")
    return np.array(found[:count], np.uint32)


def by_forecast(graph: CsrGraph, n_sources: int) -> list[str]:
    """Return the GPU solvers for a call of `n_sources`, the fastest by forecast first."""
    able = [name for name in GPU_SOLVERS if n_sources <= MOST_ONE_BY_ONE or name not in ONE_BY_ONE]
    return sorted(able, key=lambda name: SOLVERS[name].forecast(graph.traits, n_sources).source_s)


@dataclass(frozen=True)
class Limits:
    """Timed rounds, seconds in which a call is repeated, and the end of the measurement (`time.monotonic`)."""

    rounds: int
    most_s: float
    ends: float


def measure_all(cases: list[Case], numbers: list[int], limits: Limits) -> tuple[list[str], list[str]]:
    """Record a line for each case, solver and number; return the calls left out, and the faults."""
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
        # This frees the rows on return, so that the next call gets the same pinned memory.
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
        "many_sources",
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
    """Return the cases of the graphs `names`, and the faults of the others."""
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
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    parser.add_argument(
        "--numbers", type=lambda text: [int(n) for n in text.split(",")], default=NUMBERS, help="of sources"
    )
    parser.add_argument("--rounds", type=int, default=3, help="timed calls")
    parser.add_argument("--most-s", type=float, default=2, help="seconds after which no call is repeated")
    parser.add_argument("--most-gib", type=float, default=16, help="host memory for the rows of a call")
    parser.add_argument("--budget-s", type=float, default=600, help="seconds after which no call begins")
    given = parser.parse_args()
    cases, unprepared = cases_of(checked_names(parser, given.graphs, given.data), given)
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
