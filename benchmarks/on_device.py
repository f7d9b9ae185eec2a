"""Distances that stay on the GPU beside distances that go through the host: seconds of `sp.solve(…).cupy()`.

    python benchmarks/on_device.py --data FOLDER [--cache FOLDER] [--graphs ny,rmat-22] [--sources 256] [--rounds 5]

There is one line for each graph, a CSR matrix of CuPy with float32 weights. Each call checks the matrix, puts it into
the layout of the kernels, solves, and ends with an array of CuPy. `stays` is the call as it is by default; `host` has
`on_device=False`, so that rows are copied to the host and back. The two take turns. The first round is not timed; times
are medians. If a distance differs, the program ends.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from graphs import checked_names, load
from record import record

import sssp_pipeline as sp
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import cupy_module


def measure(name: str, graph: CsrGraph, n_sources: int, rounds: int) -> None:
    """Record a line; exits if the two ways differ."""
    cupy = cupy_module()
    from cupyx.scipy.sparse import csr_matrix

    arrays = (graph.weights.astype(np.float32), graph.col_indices.astype(np.int32), graph.row_offsets)
    matrix = csr_matrix(tuple(map(cupy.asarray, arrays)), shape=(graph.n_vertices, graph.n_vertices))
    sources = np.random.default_rng(1).integers(0, graph.n_vertices, n_sources)
    wall_s: dict[str, list[float]] = {"stays": [], "host": []}
    solver = ""
    for turn in range(1 + rounds):
        found = {}
        for kind, times in wall_s.items():
            began = time.perf_counter()
            distances = sp.solve(matrix, sources, on_device=kind == "stays")
            found[kind] = distances.cupy()
            cupy.cuda.get_current_stream().synchronize()
            if turn:
                times.append(time.perf_counter() - began)
            solver = distances.metrics["solver"][0].as_py()
        if not bool(cupy.array_equal(found["stays"], found["host"])):
            sys.exit(f"{name}: the distances that stay differ from those that go through the host")
    medians = {kind: median(times) for kind, times in wall_s.items()}
    record(
        "on_device",
        graph=name,
        solver=solver,
        n_sources=n_sources,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        rounds=rounds,
        distance_bytes=4 * n_sources * graph.n_vertices,
        wall_s={kind: round(s, 4) for kind, s in medians.items()},
        host_over_stays=round(medians["host"] / medians["stays"], 3),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", default="ny,rmat-22")
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    parser.add_argument("--sources", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5, help="timed calls of each kind")
    given = parser.parse_args()
    for name in checked_names(parser, given.graphs, given.data):
        measure(name, load(name, given.data, given.cache), given.sources, given.rounds)


if __name__ == "__main__":
    main()
