"""Closeness of the vertices of graphs without weights: `bits` beside `delta-stepping`, igraph, NetworKit and SciPy.

    python benchmarks/equal_weights.py --data FOLDER [--graphs enron,notredame] [--sources all] [--others 256]

Each program uses one core, and its processor time is recorded, in microseconds a source. `bits` takes all vertices, or
the given number of random ones; the others take `--others` of them. The closeness of igraph is compared with ours.
NetworKit cannot be asked for some vertices, so it finds their distances. The record also has what `bits` takes for a
few sources, and for rows of distances. A program that is not installed is left out.

    python benchmarks/equal_weights.py --gpu --data FOLDER [--cache FOLDER] [--graphs rmat-20,rmat-22,ny-w1]
        [--numbers 1024,4096] [--set words_each=2,item_edges=512] [--rivals adds-lanes,adds-slots,phast-gpu]

With `--gpu`, `bits-gpu` is measured on one GPU, as lines of `equal_weights_gpu`: microseconds of the device a source in
calls that keep only metrics, the least of some calls; the wall time of a call that keeps closeness; and 10⁹ edges of
reached vertices a second. Sources are random vertices that have edges. The other GPU solvers take fewer sources where a
call would take long, and are left out where they take longer still. `--set` sets fields of `BitsGpu`. The words of two
sources must be those of `delta-stepping`.
"""

from __future__ import annotations

import argparse
import os
import time
from ast import literal_eval
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from graphs import checked_names, load
from record import record
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.reductions import REACHED, Reductions, total_distances
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow, Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions, metrics_column
from sssp_pipeline.kernels.host.solver import Solver

#: Calls of a GPU that are timed, after one that prepares.
ROUNDS = 5
#: Seconds that a call of another GPU solver, and its preparation, may take by its forecast.
MOST_S = 20.0
#: All that is measured on a GPU.
ON_GPU = "enron,gnutella,notredame,cnr,wave-w1,ny-w1,rmat-20,rmat-22,rmat-24"


def source_us(call: Callable[[], object], n_sources: int) -> float:
    """Return the microseconds of processor time that `call` takes for each source."""
    began = time.process_time()
    call()
    return 1e6 * (time.process_time() - began) / n_sources


def ours_us(name: str, graph: CsrGraph, sources: np.ndarray, kept: KeptOfRow, size: int = 4096) -> float:
    """Return what the solver called `name` takes for a source in calls of `size`, once it is prepared."""
    solver, options = SOLVERS[name], SolveOptions(kept=kept)
    solver.solve(graph, sources[: min(size, 512)], options)
    calls = [sources[first : first + size] for first in range(0, len(sources), size)]
    return source_us(lambda: [solver.solve(graph, some, options) for some in calls], len(sources))


def others_us(graph: CsrGraph, sources: np.ndarray) -> dict[str, float]:
    """Return what the other programs take for a source, by name."""
    n, chosen, found = graph.n_vertices, sources.tolist(), {}
    starts = np.repeat(np.arange(n), np.diff(graph.row_offsets))
    few = chosen[: max(1, len(chosen) // 16)]
    arrays = np.ones(graph.n_edges), graph.col_indices.astype(np.int32), graph.row_offsets.astype(np.int32)
    matrix = csr_array(arrays, shape=(n, n))
    found["scipy"] = source_us(lambda: dijkstra(matrix, unweighted=True, indices=few), len(few))
    if find_spec("igraph") is not None:
        import igraph

        theirs = igraph.Graph(n, np.stack([starts, graph.col_indices], axis=1), directed=True)
        closeness: list[float] = []
        call = lambda: closeness.extend(theirs.closeness(chosen, mode="out"))  # noqa: E731
        found["igraph"] = source_us(call, len(chosen))
        words = SOLVERS["bits"].solve(graph, sources, SolveOptions(kept=Reductions())).distances
        totals, reached = total_distances(words, graph.weight_dtype), words[:, REACHED].astype(float)
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose((reached - 1) / totals, closeness, rtol=1e-12)
    if find_spec("networkit") is not None:
        import networkit

        networkit.setNumberOfThreads(1)
        of_ends = networkit.GraphFromCoo((starts, graph.col_indices.astype(np.int64)), n, directed=True)
        few = chosen[: max(1, len(chosen) // 4)]
        found["networkit"] = source_us(networkit.distance.SPSP(of_ends, few).run, len(few))
    return found


def measure(name: str, graph: CsrGraph, n_sources: int | None, n_others: int) -> dict[str, Any]:
    """Return the microseconds a source of every program on `graph`."""
    shuffled = np.random.default_rng(1).permutation(graph.n_vertices).astype(np.uint32)
    some = shuffled[:n_others]
    every = np.sort(shuffled) if n_sources is None else shuffled[:n_sources]
    metrics = SOLVERS["bits"].solve(graph, some, SolveOptions(kept=Reductions())).metrics
    few = {n: ours_us("bits", graph, shuffled[: 4 * n], Reductions(), n) for n in (1, 8, 64)}
    return {
        "graph": name,
        "vertices": graph.n_vertices,
        "edges": graph.n_edges,
        "skew": graph.traits.degree_skew,
        "depth": int(max(metrics_column(metrics, "max_distance"))),
        "reached": float(np.mean(metrics_column(metrics, "reached"))),
        "bits_sources": len(every),
        "bits_us": ours_us("bits", graph, every, Reductions()),
        **{f"bits_{n}_us": us for n, us in few.items()},
        "bits_rows_us": ours_us("bits", graph, shuffled[:512], EveryVertex()),
        "sources": len(some),
        "delta_stepping_us": ours_us("delta-stepping", graph, some[:32], Reductions()),
        **{f"{program}_us": us for program, us in others_us(graph, some).items()},
    }


def device_us(solver: Solver, graph: CsrGraph, sources: np.ndarray, rounds: int = ROUNDS) -> dict[str, float]:
    """Return microseconds of the device a source, and 10⁹ edges of reached vertices a second, for metrics only."""
    options, best = SolveOptions(kept=Nothing()), {"us": float("inf"), "gteps": 0.0}
    for _ in range(1 + rounds):
        metrics = solver.solve(graph, sources, options).metrics
        each_s, teps = (np.asarray(metrics_column(metrics, name)) for name in ("solve_s", "teps"))
        us = 1e6 * float(np.mean(each_s))
        if us < best["us"]:
            best = {"us": us, "gteps": float(np.sum(teps * each_s) / np.sum(each_s)) / 1e9}
    return best


def rival_us(solver: Solver, graph: CsrGraph, sources: np.ndarray) -> dict[str, Any]:
    """Return what `device_us` does, or the error: a solver may have too little memory."""
    try:
        return device_us(solver, graph, sources)
    except SsspError as error:
        return {"error": str(error.message)}


def measure_gpu(
    name: str, graph: CsrGraph, numbers: list[int], rivals: list[str], fields: dict[str, Any]
) -> dict[str, Any]:
    """Return what `bits-gpu`, with these `fields`, and its rivals take on `graph`."""
    from sssp_pipeline.kernels.gpu.bits_gpu.bits_gpu import BitsGpu

    solver, traits = BitsGpu(**fields), replace(graph.traits, levels=graph.levels)
    has_edges = np.flatnonzero(np.diff(graph.row_offsets)).astype(np.uint32)
    sources = np.random.default_rng(1).permutation(has_edges)[: max(numbers)]
    closeness = SolveOptions(kept=Reductions())
    few = [one.solve(graph, sources[:2], closeness) for one in (solver, SOLVERS["delta-stepping"])]
    np.testing.assert_array_equal(few[0].distances, few[1].distances)
    measured = {str(n): device_us(solver, graph, sources[:n]) for n in numbers}
    began = time.perf_counter()
    solved = solver.solve(graph, sources, closeness)
    wall_us = 1e6 * (time.perf_counter() - began) / len(sources)
    others = {}
    for rival in rivals:
        for n in (max(numbers), 1024, 256, 64):
            forecast = SOLVERS[rival].forecast(traits, n)
            if forecast.start_s + (1 + ROUNDS) * n * forecast.source_s < MOST_S:
                others[rival] = {"sources": n, **rival_us(SOLVERS[rival], graph, sources[:n])}
                break
    return {
        "graph": name,
        "vertices": graph.n_vertices,
        "edges": graph.n_edges,
        "levels": traits.levels,
        "fields": fields,
        "depths": int(max(metrics_column(solved.metrics, "supersteps"))),
        "reached": float(np.mean(metrics_column(solved.metrics, "reached"))),
        "bits_gpu": measured,
        "forecast_us": 1e6 * solver.forecast(traits, max(numbers)).source_s,
        "closeness_wall_us": wall_us,
        "others": others,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--graphs")
    parser.add_argument("--sources", default="all")
    parser.add_argument("--others", type=int, default=256)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--numbers", default="1024,4096")
    parser.add_argument("--rivals", default="adds-lanes,adds-slots,phast-gpu")
    parser.add_argument("--set", default="")
    given = parser.parse_args()
    graphs = given.graphs or (ON_GPU if given.gpu else "enron,notredame")
    fields = {key: literal_eval(value) for key, value in (f.split("=") for f in given.set.split(",") if f)}
    n_sources = None if given.sources == "all" else int(given.sources)
    for name in checked_names(parser, graphs, given.data):
        loaded = load(name, given.data, given.cache)
        graph = CsrGraph(loaded.row_offsets, loaded.col_indices, np.ones(loaded.n_edges, np.uint32))
        if given.gpu:
            numbers, rivals = (
                [int(n) for n in given.numbers.split(",")],
                [r for r in given.rivals.split(",") if r],
            )
            record("equal_weights_gpu", **measure_gpu(name, graph, numbers, rivals, fields))
            continue
        record("equal_weights", **measure(name, graph, n_sources, given.others), load=os.getloadavg()[0])


if __name__ == "__main__":
    main()
