"""The graphs of the benchmarks by name; as a program, it makes some and keeps them.

    python benchmarks/graphs.py --cache FOLDER [--data FOLDER] grid-4096 rmat-22

A graph that is read from a file needs the folder with the real graphs; the others are generated.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from papers.cnr_2000 import adjacency_list
from scipy.spatial import Delaunay, cKDTree

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.generators import GeneratedEdges, grid, hashed_weights, rmat, road_like
from sssp_pipeline.pipeline.formats.detect import open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions
from sssp_pipeline.pipeline.ingest.rows import sorted_rows


def csr_of(src: np.ndarray, dst: np.ndarray, weights: np.ndarray, n_vertices: int) -> CsrGraph:
    """Return the graph of these edges, as `csr_from_edges`, but on every core."""
    threads = len(os.sched_getaffinity(0))
    weights = weights.astype(np.uint32)
    bounds = np.linspace(0, n_vertices, 8 * threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(threads) as pool:
        rows = list(pool.map(lambda r: sorted_rows.rows_between(*r, src, dst, weights), pairwise(bounds)))
    degrees, col_indices, placed = (
        np.concatenate(arrays) for arrays in zip(*((np.diff(r[0]), *r[1:]) for r in rows), strict=True)
    )
    row_offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)])
    return CsrGraph(row_offsets, col_indices, placed).check()


def read(path: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, int]:
    """Return src, dst, weights or None, and the number of vertices of the file at `path`."""
    edges = open_edge_list([str(path)], ReadOptions())
    chunks = list(edges.chunks())
    src, dst = (np.concatenate([getattr(c, end) for c in chunks]) - edges.first_id for end in ("src", "dst"))
    weights = np.concatenate([c.weights for c in chunks]) if edges.has_weights else None
    return src, dst, weights, edges.n_vertices or int(max(src.max(), dst.max())) + 1


def from_file(name: str, data: Path) -> CsrGraph:
    """Return the graph in a file; weights 1 to 100 where it has none."""
    src, dst, weights, n_vertices = read(data / name)
    return csr_of(src, dst, hashed_weights(src, dst, 100) if weights is None else weights, n_vertices)


def north_east(data: Path) -> CsrGraph:
    src, dst, _, n_vertices = read(data / "pace16-NE.gr.xz")
    return both_ways(src, dst, 1000, n_vertices)


def wave(data: Path) -> CsrGraph:
    src, dst, _, n_vertices = read(data / "wave.graph.bz2")
    return csr_of(src, dst, hashed_weights(src, dst, 1000), n_vertices)


def cnr(data: Path) -> CsrGraph:
    src, dst, n_vertices = adjacency_list(data / "cnr-2000.graph-txt.gz")
    return csr_of(src, dst, hashed_weights(src, dst, 100), n_vertices)


def notredame_both_ways(data: Path) -> CsrGraph:
    src, dst, _, n_vertices = read(data / "web-NotreDame.txt.gz")
    return both_ways(src, dst, 100, n_vertices)


def rmat_18_both_ways(data: Path) -> CsrGraph:
    """R-MAT of scale 18 as an undirected graph: both directions, parallel edges merged, no self-loops."""
    made = rmat(scale=18, edge_factor=16)
    straight = made.src != made.dst
    low = np.minimum(made.src, made.dst)[straight].astype(np.int64)
    high = np.maximum(made.src, made.dst)[straight].astype(np.int64)
    low, high = np.divmod(np.unique(low << 32 | high), 2**32)
    return both_ways(low, high, 100, made.n_vertices)


def lattice_3d(data: Path, side: int) -> CsrGraph:
    """A cube of `side` vertices each way, joined to their six neighbours both ways; weights 1 to 1000."""
    vertex = np.arange(side**3, dtype=np.int64).reshape(side, side, side)
    src = np.concatenate([vertex[1:].ravel(), vertex[:, 1:].ravel(), vertex[:, :, 1:].ravel()])
    dst = np.concatenate([vertex[:-1].ravel(), vertex[:, :-1].ravel(), vertex[:, :, :-1].ravel()])
    return both_ways(src, dst, 1000, side**3)


def small_world(data: Path, n_vertices: int, near: int, far: float) -> CsrGraph:
    """A ring, each vertex joined to the next `near`; a share `far` of the edges leads anywhere; weights 1 to 1000."""
    random = np.random.default_rng(7)
    src = np.repeat(np.arange(n_vertices, dtype=np.int64), near)
    dst = (src + np.tile(np.arange(1, near + 1), n_vertices)) % n_vertices
    leads_far = random.random(len(dst)) < far
    dst[leads_far] = random.integers(0, n_vertices, int(leads_far.sum()))
    return both_ways(src, dst, 1000, n_vertices)


def near_points(data: Path, n_points: int, dimensions: int, neighbours: int) -> CsrGraph:
    """Random points of a cube, each joined both ways to its nearest ones; weights 1 to 1000."""
    points = np.random.default_rng(7).random((n_points, dimensions))
    _, nearest = cKDTree(points).query(points, neighbours + 1, workers=-1)
    src = np.repeat(np.arange(n_points, dtype=np.int64), neighbours)
    return both_ways(src, nearest[:, 1:].ravel(), 1000, n_points)


def triangulated(data: Path, n_points: int) -> CsrGraph:
    """Random points of a square, joined both ways by their Delaunay triangulation; weights 1 to 1000."""
    corners = Delaunay(np.random.default_rng(7).random((n_points, 2))).simplices.astype(np.int64)
    sides = np.sort(np.concatenate([corners[:, [0, 1]], corners[:, [1, 2]], corners[:, [2, 0]]]), axis=1)
    src, dst = np.unique(sides, axis=0).T
    return both_ways(src, dst, 1000, n_points)


def grown(data: Path, n_vertices: int, links: int, power: float) -> CsrGraph:
    """Each vertex joined both ways to `links` earlier ones; weights 1 to 1000.

    With a `power` of 1 all earlier vertices are as likely. Above 1 older vertices are likelier, so there are hubs.
    """
    random = np.random.default_rng(7)
    src = np.repeat(np.arange(1, n_vertices, dtype=np.int64), links)
    dst = (src * random.random(len(src)) ** power).astype(np.int64)
    return both_ways(src, dst, 1000, n_vertices)


def communities(data: Path, n_vertices: int, size: int, degree: int, outside: float) -> CsrGraph:
    """Groups of `size`; a share `outside` of the edges of a vertex leads anywhere, the others stay in its group."""
    random = np.random.default_rng(7)
    src = np.repeat(np.arange(n_vertices, dtype=np.int64), degree)
    dst = np.minimum(src // size * size + random.integers(0, size, len(src)), n_vertices - 1)
    leads_out = random.random(len(src)) < outside
    dst[leads_out] = random.integers(0, n_vertices, int(leads_out.sum()))
    return both_ways(src, dst, 1000, n_vertices)


def both_ways(src: np.ndarray, dst: np.ndarray, largest: int, n_vertices: int) -> CsrGraph:
    weights = hashed_weights(src, dst, largest)
    src, dst, weights = (np.concatenate(p) for p in ((src, dst), (dst, src), (weights, weights)))
    return csr_of(src, dst, weights, n_vertices)


def with_new_weights(name: str, largest: int | None, data: Path) -> CsrGraph:
    """The graph called `name` with weights 1 to `largest`; with None, float32 of exponential distribution, mean 1."""
    graph = GRAPHS[name](data)
    src = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
    weights = hashed_weights(src, graph.col_indices, largest or 2**24)
    if largest is None:
        return CsrGraph(
            graph.row_offsets, graph.col_indices, -np.log(weights / (2**24 + 1)).astype(np.float32)
        )
    return CsrGraph(graph.row_offsets, graph.col_indices, weights.astype(np.uint32))


def made_by(generator: Callable[..., GeneratedEdges], data: Path, **parameters: float) -> CsrGraph:
    made = generator(**parameters)
    return csr_of(made.src, made.dst, made.weights, made.n_vertices)


#: The graphs that are read from files.
FROM_FILES = (
    *("ny", "ny-time", "ny-w1", "ne", "rome", "wave", "wave-w1", "wing"),
    *("cnr", "notredame", "notredame-both", "enron", "gnutella"),
)
#: The ends of the names of graphs with new weights, and their largest weight; None is float32.
WEIGHTINGS = {"w1": 1, "w10": 10, "w1000000": 10**6, "float32": None}
GRAPHS: dict[str, Callable[[Path], CsrGraph]] = {
    "ny": partial(from_file, "USA-road-d.NY.gr.gz"),
    "ny-time": partial(from_file, "USA-road-t.NY.gr.gz"),
    "ne": north_east,
    "rome": partial(from_file, "rome99.gr"),
    "wave": wave,
    "wing": partial(from_file, "wing.graph"),
    "cnr": cnr,
    "notredame": partial(from_file, "web-NotreDame.txt.gz"),
    "notredame-both": notredame_both_ways,
    "enron": partial(from_file, "Email-Enron.txt"),
    "gnutella": partial(from_file, "p2p-Gnutella31.txt"),
    "rmat-18": rmat_18_both_ways,
    "grid": partial(made_by, grid, rows=1000, cols=1000),
    **{f"grid-{side}": partial(made_by, grid, rows=side, cols=side, keep=0.6) for side in (2048, 4096)},
    "road": partial(made_by, road_like),
    "road-21": partial(made_by, road_like, vertices=2**21),
    "road-1m": partial(made_by, road_like, vertices=10**6),
    "road-24m": partial(made_by, road_like, vertices=24 * 10**6),
    "delaunay": partial(triangulated, n_points=2**18),
    "lattice-3d": partial(lattice_3d, side=128),
    "lattice-64": partial(lattice_3d, side=64),
    "points-2d": partial(near_points, n_points=2**19, dimensions=2, neighbours=6),
    "points-8d": partial(near_points, n_points=2**17, dimensions=8, neighbours=12),
    "tree": partial(grown, n_vertices=2**20, links=1, power=1.0),
    "hubs": partial(grown, n_vertices=2**18, links=8, power=2.0),
    "communities": partial(communities, n_vertices=2**19, size=256, degree=10, outside=0.002),
    "small-world": partial(small_world, n_vertices=2**20, near=5, far=0.05),
    "random-18": partial(small_world, n_vertices=2**18, near=8, far=1.0),
    **{f"rmat-{scale}": partial(made_by, rmat, scale=scale) for scale in (20, 22, 24)},
    "rmat-20-sparse": partial(made_by, rmat, scale=20, edge_factor=8),
    **{f"{name}-w1": partial(with_new_weights, name, 1) for name in ("ny", "wave")},
    **{
        f"{name}-{ending}": partial(with_new_weights, name, largest)
        for name in ("grid-2048", "rmat-20")
        for ending, largest in WEIGHTINGS.items()
    },
}


def load(name: str, data: Path, cache: Path | None = None) -> CsrGraph:
    """Return the graph called `name`; with `cache` it is kept there, and read from there."""
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


def checked_names(parser: argparse.ArgumentParser, listed: str, data: Path | None) -> list[str]:
    """Return the names in a list with commas; exits if one is unknown, or needs a file without `data`."""
    for name in (names := listed.split(",")):
        if name not in GRAPHS:
            parser.error(f"unknown graph `{name}`; graphs: {', '.join(GRAPHS)}")
        if name in FROM_FILES and data is None:
            parser.error(f"graph `{name}` is read from a file: set --data or SSSP_TEST_DATA")
    return names


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
