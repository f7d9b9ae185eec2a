"""`phast`: its preparation by step, and milliseconds a source beside `delta-stepping`, SciPy and NetworKit.

    python benchmarks/hierarchy.py --data FOLDER [--graphs ny,ne,road-1m,grid-2048,delaunay] [--sources 100,1000,10000]
    python benchmarks/hierarchy.py --data FOLDER --order [--without-metis] [--graphs ...]

Each graph gives one line. `wall_ms` and `cpu_ms` are of a source, once the graph is prepared; the threads share the
cores with whatever else runs (`load`), so processor times are the better ratio. `total_s` is the wall time with the
preparation. Rows come back in the original order, as in a run. `metrics_cpu_ms` is without them. `targets_cpu_ms` is
with 1,000 targets and the metrics of all vertices, `targets_alone_cpu_ms` without these. The rivals solve fewer
sources, and their rows must be the same. NetworKit is left out where it is not installed.

`prepare_s` is on all cores, `prepare_on_one_core_s` on one. `break_even_sources` is from how many sources on `phast`
takes less wall time than `delta-stepping`, its preparation on all cores included, at the pace of its smallest call.

With `--order` a line has what a change of the order must show, on roads, meshes, webs and social networks: arcs,
triangles, the largest front and processor seconds of each step. Arcs get no weights where that would take minutes.
`width` is what a whole look sees, and the expected numbers of arcs and triangles are what `auto` makes of it.
`order_wall_s` is the wall time of the order on all cores. With `--without-metis` the order is that of a machine where
METIS is not installed. These lines are stored apart, in `hierarchy_order.jsonl`.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as ss
from graphs import checked_names, load
from record import processor_s, record
from scipy.sparse import csgraph

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import Nothing, Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import complete, fill
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import count as count_arcs
from sssp_pipeline.kernels.hierarchy.completion.customization import customize
from sssp_pipeline.kernels.hierarchy.dividing.look import width_of
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes
from sssp_pipeline.kernels.hierarchy.ordering.order import elimination_order, neighbours_of
from sssp_pipeline.kernels.hierarchy.shared import share_hierarchy
from sssp_pipeline.kernels.host.kernel_threads import usable_cores

#: The graphs of a measurement, and with `--order`.
GRAPHS = "ny,ne,road-1m,grid-2048,delaunay"
ORDER_GRAPHS = f"rome,{GRAPHS},grid,wing,wave,notredame-both,cnr,enron,gnutella"
#: With `--order`: repetitions, and how many triangles are visited at most.
REPEATS, MOST_VISITED = 3, 10**10


def prepared(graph: CsrGraph) -> dict[str, Any]:
    """Prepare `graph` step by step, and return the seconds of each step and the sizes."""
    steps: dict[str, float] = {}

    def timed(name: str, step: Callable[..., Any], *arguments: Any) -> Any:
        began = time.perf_counter()
        found = step(*arguments)
        steps[name] = time.perf_counter() - began
        return found

    around = timed("neighbours", neighbours_of, graph)
    order = timed("order", elimination_order, *around)
    completion = timed("completion", complete, *around, order)
    hierarchy = timed("customization", customize, completion, graph)
    share_hierarchy(graph, hierarchy)
    return {
        "prepare_s": sum(steps.values()),
        "prepare_steps_s": steps,
        "arcs": completion.n_arcs,
        "kept_arcs": len(hierarchy.down.heads),
        "triangles": completion.n_triangles,
    }


@contextmanager
def on_cores(n_cores: int) -> Iterator[None]:
    """Within the block, limit this process and its children to this number of cores."""
    usable = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usable)[:n_cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, usable)


def per_source(
    solver: str, graph: CsrGraph, sources: np.ndarray, options: SolveOptions | None = None
) -> dict[str, float]:
    """Return milliseconds of wall and processor time a source, with a thread on each core."""
    options = options or SolveOptions()
    call = SOLVERS[solver].forecast(graph.traits, len(sources)).at_once
    calls = [sources[first : first + call] for first in range(0, len(sources), call)]
    began, began_cpu = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(usable_cores()) as pool:
        for _ in pool.map(lambda some: SOLVERS[solver].solve(graph, some, options).metrics[0], calls):
            pass
    taken = time.perf_counter() - began, time.process_time() - began_cpu
    return dict(zip(("wall_ms", "cpu_ms"), (1e3 * np.array(taken) / len(sources)).tolist(), strict=True))


def networkit_ms(graph: CsrGraph, sources: np.ndarray, expected: np.ndarray) -> dict[str, float] | None:
    """Return what `per_source` returns for NetworKit, whose searches run side by side; None if it is not installed."""
    if find_spec("networkit") is None:
        return None
    import networkit

    networkit.setNumberOfThreads(usable_cores())
    src = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
    coordinates = graph.weights.astype(float), (src, graph.col_indices.astype(np.int64))
    theirs = networkit.GraphFromCoo(coordinates, graph.n_vertices, weighted=True, directed=True)
    search = networkit.distance.SPSP(theirs, sources.tolist())
    began, began_cpu = time.perf_counter(), time.process_time()
    search.run()
    taken = time.perf_counter() - began, time.process_time() - began_cpu
    assert_same(np.asarray(search.getDistances(asarray=True)), expected, np.finfo(np.float64).max)
    return dict(zip(("wall_ms", "cpu_ms"), (1e3 * np.array(taken) / len(sources)).tolist(), strict=True))


def assert_same(theirs: np.ndarray, expected: np.ndarray, unreached: float) -> None:
    """Raise an error unless the rows of another program are `expected`; it has `unreached` where there is no path."""
    np.testing.assert_array_equal(theirs, np.where(expected == 2**32 - 1, unreached, expected))


def measure(name: str, graph: CsrGraph, counts: list[int], n_rival: int, n_others: int) -> None:
    rng = np.random.default_rng(1)
    with on_cores(1):
        one_core = prepared(graph)
    facts = prepared(graph)
    of_phast = {}
    for count in counts:
        of_phast[count] = per_source("phast", graph, rng.integers(0, graph.n_vertices, count))
        of_phast[count]["total_s"] = facts["prepare_s"] + 1e-3 * count * of_phast[count]["wall_ms"]
    sources = rng.integers(0, graph.n_vertices, counts[-1])
    targets = Targets(rng.choice(graph.n_vertices, min(1000, graph.n_vertices), replace=False))
    answers = {
        "metrics": SolveOptions(kept=Nothing()),
        "targets": SolveOptions(kept=targets),
        "targets_alone": SolveOptions(kept=targets, metrics=False),
    }
    of_answers = {what: per_source("phast", graph, sources, options) for what, options in answers.items()}
    few = rng.choice(graph.n_vertices, n_rival, replace=False)
    rival = per_source("delta-stepping", graph, few)
    rows = [SOLVERS[s].solve(graph, few, SolveOptions()).distances for s in ("phast", "delta-stepping")]
    np.testing.assert_array_equal(*rows)

    arrays = (
        graph.weights.astype(float),
        graph.col_indices.astype(np.int32),
        graph.row_offsets.astype(np.int32),
    )
    matrix = ss.csr_array(arrays, shape=(graph.n_vertices,) * 2)
    began = time.process_time()
    theirs = csgraph.dijkstra(matrix, indices=few[:n_others])
    scipy_ms = 1e3 * (time.process_time() - began) / n_others
    assert_same(theirs, rows[0][:n_others], np.inf)
    fewest, most = of_phast[counts[0]], of_phast[counts[-1]]
    record(
        "hierarchy",
        graph=name,
        vertices=graph.n_vertices,
        edges=graph.n_edges,
        cores=usable_cores(),
        **facts,
        prepare_on_one_core_s=one_core["prepare_s"],
        phast=of_phast,
        metrics_cpu_ms=of_answers["metrics"]["cpu_ms"],
        targets_cpu_ms=of_answers["targets"]["cpu_ms"],
        targets_alone_cpu_ms=of_answers["targets_alone"]["cpu_ms"],
        delta_stepping=rival,
        rival_sources=n_rival,
        scipy_cpu_ms=scipy_ms,
        networkit=networkit_ms(graph, few[:n_others], rows[0][:n_others]),
        cpu_speedup=rival["cpu_ms"] / most["cpu_ms"],
        break_even_sources=1e3 * facts["prepare_s"] / max(rival["wall_ms"] - fewest["wall_ms"], 1e-9),
        load=os.getloadavg()[0],
    )


def measure_order(name: str, graph: CsrGraph) -> None:
    """Record sizes of the hierarchy, and the least processor seconds of each step."""
    steps: dict[str, float] = {}
    wall_s = np.inf

    def timed(step: str, made: Callable[..., Any], *arguments: Any) -> Any:
        began = processor_s()
        found = made(*arguments)
        steps[step] = min(steps.get(step, np.inf), processor_s() - began)
        return found

    for _ in range(REPEATS):
        width = timed("look", width_of, graph, costs.MOST_STEPS, graph.n_vertices)
        around = timed("neighbours", neighbours_of, graph)
        began = time.perf_counter()
        order = timed("order", elimination_order, *around)
        wall_s = min(wall_s, time.perf_counter() - began)
        counted = timed("count", count_arcs, *around, order)
    if counted.n_triangles <= MOST_VISITED:
        completion = timed("fill", fill, *around, counted, 1)
        timed("customization", customize, completion, graph, 1)
    expected_arcs, expected_triangles = costs.expected_size(replace(graph.traits, width=width))
    record(
        "hierarchy_order",
        graph=name,
        vertices=graph.n_vertices,
        edges=graph.n_edges,
        arcs=counted.n_arcs,
        triangles=counted.n_triangles,
        largest_front=counted.largest_front,
        width=width,
        expected_arcs=expected_arcs,
        expected_triangles=expected_triangles,
        by_metis=metis_processes.package() is not None,
        cores=usable_cores(),
        order_wall_s=wall_s,
        steps_cpu_s=steps,
        load=os.getloadavg()[0],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--graphs")
    parser.add_argument("--order", action="store_true", help="measure the order only")
    parser.add_argument("--without-metis", action="store_true", help="order as where METIS is not installed")
    parser.add_argument("--sources", default="100,1000,10000", help="numbers of sources, rising")
    parser.add_argument("--rival", type=int, default=32, help="sources of delta-stepping")
    parser.add_argument(
        "--others", type=int, default=4, help="sources of SciPy and NetworKit, at most --rival"
    )
    given = parser.parse_args()
    if given.without_metis:
        metis_processes.package = lambda: None
    small = CsrGraph(np.array([0, 1, 1]), np.array([1], np.uint32), np.array([1], np.uint32))
    for solver in ("phast", "delta-stepping"):
        per_source(solver, small, np.array([0]))  # compiles, or loads what was compiled
    names = given.graphs or (ORDER_GRAPHS if given.order else GRAPHS)
    for name in checked_names(parser, names, given.data):
        graph = load(name, given.data, given.cache)
        if given.order:
            measure_order(name, graph)
            continue
        measure(name, graph, [int(count) for count in given.sources.split(",")], given.rival, given.others)


if __name__ == "__main__":
    main()
