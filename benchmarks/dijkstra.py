"""`sp.dijkstra` beside `scipy.sparse.csgraph.dijkstra`: milliseconds a source, on all cores of this machine.

    python benchmarks/dijkstra.py --data FOLDER [--graphs ny,wave,rmat-18,grid] [--sources 24] [--rounds 3]

Each round times SciPy and then ours, on the same matrix of float64. `whole` weights are whole numbers. Those of
`decimal` are the same divided by 7. Both functions return the same bits; each round checks that. Last comes `small`: a
call with one source on a graph of 1,000 vertices and 5,000 edges.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as ss
from graphs import checked_names, load
from record import record
from scipy.sparse import csgraph

import sssp_pipeline as sp


def timed(
    call: Callable[..., np.ndarray], matrix: ss.csr_array, sources: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return milliseconds of wall time and of processor time for each source, and then the distances."""
    began, began_cpu = time.perf_counter(), time.process_time()
    found = call(matrix, indices=sources)
    taken = time.perf_counter() - began, time.process_time() - began_cpu
    return 1e3 * np.array(taken) / len(sources), found


def measure(name: str, weights: str, matrix: ss.csr_array, sources: np.ndarray, rounds: int) -> None:
    """Record the median milliseconds a source of both functions."""
    sp.dijkstra(matrix, indices=sources)  # compiles, or loads what was compiled
    taken = []
    for _ in range(rounds):
        theirs_ms, theirs = timed(csgraph.dijkstra, matrix, sources)
        ours_ms, ours = timed(sp.dijkstra, matrix, sources)
        np.testing.assert_array_equal(ours, theirs)
        taken.append((theirs_ms, ours_ms))
    (scipy_ms, scipy_cpu_ms), (ours_ms, ours_cpu_ms) = np.median(taken, axis=0).tolist()
    record(
        "dijkstra",
        graph=name,
        weights=weights,
        vertices=matrix.shape[0],
        edges=matrix.nnz,
        sources=len(sources),
        rounds=rounds,
        scipy_ms=scipy_ms,
        ours_ms=ours_ms,
        scipy_cpu_ms=scipy_cpu_ms,
        ours_cpu_ms=ours_cpu_ms,
        speedup=scipy_ms / ours_ms,
        load=os.getloadavg()[0],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--graphs", default="ny,wave,rmat-18,grid")
    parser.add_argument("--sources", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    rng = np.random.default_rng(1)
    for name in checked_names(parser, given.graphs, given.data):
        graph = load(name, given.data, given.cache)
        sources = rng.choice(graph.n_vertices, given.sources, replace=False)
        for weights, divisor in (("whole", 1), ("decimal", 7)):
            rows = graph.col_indices.astype(np.int32), graph.row_offsets.astype(np.int32)
            matrix = ss.csr_array((graph.weights / divisor, *rows), shape=(graph.n_vertices,) * 2)
            measure(name, weights, matrix, sources, given.rounds)
    small = ss.random_array((1000, 1000), density=0.005, rng=rng, format="csr")
    measure("small", "decimal", small, np.array([0]), 100)


if __name__ == "__main__":
    main()
