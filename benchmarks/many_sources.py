"""The time of a source on one GPU by the number of sources in a call, for docs/many-sources-on-an-h200.md.

    python benchmarks/many_sources.py --data FOLDER [--cache FOLDER] [--graphs ny,rmat-20] [--numbers 1,1024]
        [--rounds 3] [--most-s 2]

It needs a GPU and the folder with the real graphs. There is one line for each graph, solver and number of sources,
written as soon as it is measured. The sources are random and different, and each has a large reach; a shorter call
takes the first sources of the longest one. There are two times, each the median of the rounds after a warm-up. One is
the device time by CUDA events, with the distances left on the device, as the mean over the sources. The other is the
wall time of the whole call, which copies the distances to pinned host memory. A sample of the rows of every call is
compared with the CPU's delta-stepping; if one differs, the program ends.

A call is left out if it is expected to take more than twice `--most-s`, or if its rows take more than half of the free
memory. A call is repeated until it was timed `--rounds` times or has taken `--most-s`. A longer call is timed once,
without a warm-up.

`bench` cannot do this: it compares every row, and it has neither forecasts nor times with copies. `pages.py
many-sources` renders the newest line of each graph, solver and number.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
from graphs import checked_names, load
from many_sources_page import GPU_SOLVERS, GRAPHS
from record import record
from sources import LARGE_REACH, solved_by_cpu

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.solver import SolveOptions, SourceMetrics
from sssp_pipeline.kernels.gpu.common.solvers.batch_solver import GpuBatchSolver
from sssp_pipeline.pipeline.planning.machine import this_machine
from sssp_pipeline.pipeline.planning.plan import RunPlan, make_plan
from sssp_pipeline.pipeline.planning.work import cut
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.outputs.distance_outputs import AllDistances
from sssp_pipeline.workflow.models import Solve

NUMBERS = "1,4,16,64,256,1024,4096"
#: The most sources in a measurement of a solver of one source after another. More do not change the rate.
MOST_ONE_BY_ONE = 64
#: Rows of a call to compare.
COMPARED = 4
#: Calls at most to find sources with a large reach.
TRIES = 8


def forecast_s(solver: str, graph: CsrGraph, n_sources: int) -> float:
    """Return the seconds that a source is expected to take in a call of `n_sources`."""
    return SOLVERS[solver].forecast(replace(graph.traits, levels=graph.levels), n_sources).source_s


def solvers_for(graph: CsrGraph, n_sources: int) -> list[str]:
    """Return the GPU solvers for a call of `n_sources`, the fastest by forecast first."""
    able = [
        name
        for name in GPU_SOLVERS
        if n_sources <= MOST_ONE_BY_ONE or isinstance(SOLVERS[name], GpuBatchSolver)
    ]
    return sorted(able, key=lambda name: forecast_s(name, graph, n_sources))


def far_reaching(graph: CsrGraph, count: int) -> np.ndarray:
    """Return up to `count` different random sources with a large reach, found by the solver with the best forecast.

    Vertices without edges are no candidates: R-MAT has many.
    """
    solver = SOLVERS[solvers_for(graph, count)[0]]
    candidates = np.flatnonzero(np.diff(graph.row_offsets)).astype(np.uint32)
    candidates = np.random.default_rng(1).permutation(candidates)[: TRIES * count]
    found: list[int] = []
    for first in range(0, len(candidates), count):
        metrics = solver.solve(graph, candidates[first : first + count], SolveOptions()).metrics
        found += [m.source for m in metrics if m.reached >= LARGE_REACH * graph.n_vertices]
        if len(found) >= count:
            break
    if not found:
        sys.exit(f"none of {len(candidates)} vertices has a large reach")
    return np.array(found[:count], np.uint32)


def compared_places(n_sources: int) -> list[int]:
    """Return the places of the rows to compare of a call, spread from the first to the last."""
    return sorted({round(place) for place in np.linspace(0, n_sources - 1, COMPARED).tolist()})


def measure(name: str, graph: CsrGraph, numbers: list[int], rounds: int, most_s: float) -> None:
    """Record a line for each number of sources and solver; exits if a distance differs."""
    row_bytes = graph.n_vertices * graph.weight_dtype.itemsize
    numbers = [n for n in numbers if n * row_bytes <= psutil.virtual_memory().available / 2]
    sources = far_reaching(graph, max(numbers))
    numbers = [n for n in numbers if n <= len(sources)]
    places = sorted({place for n in numbers for place in compared_places(n)})
    solved = solved_by_cpu(graph, sources[places])
    rows = {place: solution.distances[0] for place, solution in zip(places, solved, strict=True)}
    for n in numbers:
        for solver in solvers_for(graph, n):
            if n * forecast_s(solver, graph, n) <= 2 * most_s:
                measure_call(name, graph, solver, sources[:n], rows, rounds, most_s)


def measure_call(
    name: str,
    graph: CsrGraph,
    solver: str,
    sources: np.ndarray,
    rows: dict[int, np.ndarray],
    rounds: int,
    most_s: float,
) -> None:
    """Record a line for calls of `solver` from `sources`; `rows` has true distances (V,) by place in `sources`."""
    n_sources = len(sources)

    def call() -> tuple[float, list[SourceMetrics]]:
        # This frees the rows on return, so that the next call gets the same pinned memory.
        began = time.perf_counter()
        solution = SOLVERS[solver].solve(graph, sources, SolveOptions())
        wall_s = time.perf_counter() - began
        for place in compared_places(n_sources):
            if not np.array_equal(solution.distances[place], rows[place]):
                sys.exit(f"{name}: {solver} and delta-stepping differ from vertex {sources[place]}")
        return wall_s, solution.metrics

    began = time.monotonic()
    calls = [call()]
    while len(calls) <= rounds and time.monotonic() - began < most_s:
        calls.append(call())
    timed = calls[1:] or calls
    ms = [1e3 * float(np.mean([m.solve_s for m in metrics])) for _, metrics in timed]
    wall_ms = [1e3 * wall_s / n_sources for wall_s, _ in timed]
    metrics = timed[0][1]
    reached = [m.reached for m in metrics]
    record(
        "many_sources",
        graph=name,
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
        row_bytes=graph.n_vertices * graph.weight_dtype.itemsize,
        compared=len(compared_places(n_sources)),
        reached_least=min(reached),
        reached_mean=round(float(np.mean(reached))),
        processed_a_reached_vertex=round(
            float(np.mean([m.vertices_processed / m.reached for m in metrics])), 3
        ),
        gteps=round(float(np.median([m.teps for m in metrics])) / 1e9, 3),
        run_would_take=_planned(graph, sources).solver,
        forecast_ms={s: round(1e3 * forecast_s(s, graph, n_sources), 5) for s in GPU_SOLVERS},
    )


def _planned(graph: CsrGraph, sources: np.ndarray) -> RunPlan:
    """Return the plan of a run that writes all distances."""
    output = AllDistances(DistanceFormat("long", None, "none", predecessors=False))
    traits = replace(graph.traits, levels=graph.levels)
    return make_plan(traits, cut(traits, sources, Solve(), output.kept), Solve(), output, this_machine())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    parser.add_argument("--numbers", default=NUMBERS, help="of sources")
    parser.add_argument("--rounds", type=int, default=3, help="timed calls")
    parser.add_argument("--most-s", type=float, default=2, help="seconds after which no call is repeated")
    given = parser.parse_args()
    numbers = [int(n) for n in given.numbers.split(",")]
    for name in checked_names(parser, given.graphs, given.data):
        measure(name, load(name, given.data, given.cache), numbers, given.rounds, given.most_s)


if __name__ == "__main__":
    main()
