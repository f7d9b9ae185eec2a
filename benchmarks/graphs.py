"""The graphs that benchmarks run on, by name; as a program, it makes some and keeps them.

    python benchmarks/graphs.py --cache FOLDER [--data FOLDER] grid-4096 rmat-22

A graph read from a file needs the folder with the real graphs; the others are made.
"""

from __future__ import annotations

import argparse
import gzip
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.generators import GeneratedEdges, grid, rmat, road_like
from sssp_pipeline.pipeline import csr_build
from sssp_pipeline.pipeline.formats import ReadOptions, open_edge_list


def csr_of(src: np.ndarray, dst: np.ndarray, weights: np.ndarray, n_vertices: int) -> CsrGraph:
    """Return the graph of these edges, rows sorted by target and then weight, built with every core."""
    threads = len(os.sched_getaffinity(0))
    weights = weights.astype(np.uint32)
    row_offsets = np.zeros(n_vertices + 1, np.int64)
    csr_build.count_rows(src, dst, False, False, row_offsets)
    np.cumsum(row_offsets, out=row_offsets)
    col_indices, placed = np.empty(len(src), np.uint32), np.empty(len(src), np.uint32)
    edges, rows = (src, dst, weights), (False, False, row_offsets[:-1].copy(), col_indices, placed)
    with ThreadPoolExecutor(threads) as pool:
        ranges = csr_build.row_ranges(row_offsets, threads)
        list(pool.map(lambda r: csr_build.place_edges(*r, *edges, *rows), ranges))
    csr_build.in_parallel(csr_build.sort_rows, row_offsets, threads, col_indices, placed)
    return CsrGraph(row_offsets, col_indices, placed).check()


def read(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, int]:
    """Return src, dst, weights or None, and the number of vertices of the file at `path`."""
    edges = open_edge_list([str(path)], ReadOptions())
    chunks = list(edges.chunks())
    src, dst = (np.concatenate([getattr(c, end) for c in chunks]) - edges.first_id for end in ("src", "dst"))
    weights = np.concatenate([c.weights for c in chunks]) if edges.has_weights else None
    return src, dst, weights, edges.n_vertices


def hashed_weights(src: np.ndarray, dst: np.ndarray, largest: int) -> np.ndarray:
    """Return weights 1 to `largest` that depend on the two ends alone, the same both ways."""
    low, high = np.minimum(src, dst).astype(np.uint64), np.maximum(src, dst).astype(np.uint64)
    mixed = (low << np.uint64(32) | high) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(32)) * np.uint64(0xD6E8FEB86659FD93)
    return 1 + (mixed >> np.uint64(32)) % np.uint64(largest)


def new_york(data: Path) -> CsrGraph:
    src, dst, weights, n_vertices = read(data / "USA-road-d.NY.gr.gz")
    return csr_of(src, dst, weights, n_vertices)


def north_east(data: Path) -> CsrGraph:
    src, dst, _, n_vertices = read(data / "pace16-NE.gr.xz")
    weights = hashed_weights(src, dst, 1000)
    src, dst, weights = (np.concatenate(p) for p in ((src, dst), (dst, src), (weights, weights)))
    return csr_of(src, dst, weights, n_vertices)


def wave(data: Path) -> CsrGraph:
    src, dst, _, n_vertices = read(data / "wave.graph.bz2")
    return csr_of(src, dst, hashed_weights(src, dst, 1000), n_vertices)


def cnr(data: Path) -> CsrGraph:
    with gzip.open(data / "cnr-2000.graph-txt.gz", "rt") as file:
        n_vertices = int(file.readline())
        rows = [np.array(line.split(), np.uint32) for line in file]
    src = np.repeat(np.arange(n_vertices, dtype=np.uint32), [len(row) for row in rows])
    dst = np.concatenate(rows)
    return csr_of(src, dst, hashed_weights(src, dst, 100), n_vertices)


def rmat_18_both_ways(data: Path) -> CsrGraph:
    """R-MAT of scale 18 as an undirected graph: both directions, parallel edges merged, no self-loops."""
    made = rmat(scale=18, edge_factor=16)
    straight = made.src != made.dst
    low = np.minimum(made.src, made.dst)[straight].astype(np.int64)
    high = np.maximum(made.src, made.dst)[straight].astype(np.int64)
    low, high = np.divmod(np.unique(low << 32 | high), 2**32)
    weights = hashed_weights(low, high, 100)
    src, dst, weights = (np.concatenate(p) for p in ((low, high), (high, low), (weights, weights)))
    return csr_of(src, dst, weights, made.n_vertices)


def made_by(generator: Callable[..., GeneratedEdges], data: Path, **parameters: float) -> CsrGraph:
    made = generator(**parameters)
    return csr_of(made.src, made.dst, made.weights, made.n_vertices)


#: Those read from files; the others need no data.
FROM_FILES = ("ny", "ne", "wave", "cnr")
GRAPHS: dict[str, Callable[[Path], CsrGraph]] = {
    "ny": new_york,
    "ne": north_east,
    "wave": wave,
    "cnr": cnr,
    "rmat-18": rmat_18_both_ways,
    "grid": partial(made_by, grid, rows=1000, cols=1000),
    "grid-4096": partial(made_by, grid, rows=4096, cols=4096, keep=0.6),
    "road": partial(made_by, road_like),
    **{f"rmat-{scale}": partial(made_by, rmat, scale=scale) for scale in (20, 22, 24)},
}


def load(name: str, data: Path, cache: Path | None = None) -> CsrGraph:
    """Return the graph called `name`; made graphs are kept in `cache`, if one is given, and taken from there."""
    if cache is None:
        return GRAPHS[name](data)
    file = cache / f"{name}.npz"
    if not file.exists():
        graph = GRAPHS[name](data)
        cache.mkdir(parents=True, exist_ok=True)
        whole = cache / f"{name}.{os.getpid()}.npz"
        np.savez(whole, r=graph.row_offsets, c=graph.col_indices, w=graph.weights)
        whole.rename(file)
    arrays = np.load(file)
    return CsrGraph(arrays["r"], arrays["c"], arrays["w"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="+", choices=list(GRAPHS))
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, required=True)
    given = parser.parse_args()
    for name in given.names:
        began = time.perf_counter()
        graph = load(name, given.data, given.cache)
        print(
            f"{name}: {graph.n_vertices:,} vertices, {graph.n_edges:,} edges, {time.perf_counter() - began:.1f} s"
        )


if __name__ == "__main__":
    main()
