"""Generators: graphs made from a seed, with the same edges on every machine and with every release of NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from threading import Lock

import numpy as np

from sssp_pipeline.base.csr import MAX_VERTICES, CsrGraph, csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.random_numbers import PART, between, check_seed, random_bits, uniform

#: Metres between neighbouring crossings of the lattice in `road_like` and `mesh`.
BLOCK_M = 100.0
#: The range in which a crossing is moved along each axis, as a share of `BLOCK_M`.
JITTER = 0.7
#: The largest share by which a street is longer than the straight line.
DETOUR = 0.3
#: The share of the lattice's other streets that `road_like` keeps in addition to its spanning tree.
EXTRA_STREETS = 0.25
#: Rows, and columns, from one straight road of `road_like` to the next.
MOTORWAY_SPACING = 32
#: Edges that a thread makes at a time.
_EDGES_AT_A_TIME = 2**18


@dataclass(frozen=True, eq=False)
class GeneratedEdges:
    """The edges of a generated graph, in host memory, owned by the caller."""

    #: (E,) uint32, below `n_vertices`.
    src: np.ndarray
    dst: np.ndarray
    #: (E,) uint32.
    weights: np.ndarray
    #: The number of vertices, including those without edges.
    n_vertices: int
    #: Two arrays (V,) float64, metres east and north; None if the vertices have no coordinates.
    coordinates: tuple[np.ndarray, np.ndarray] | None = None

    def graph(self, dtype: str | np.dtype = "uint32") -> CsrGraph:
        """Return the graph with weights of `dtype`, which must hold them."""
        return csr_from_edges(self.src, self.dst, self.weights.astype(dtype), self.n_vertices)

    @property
    def n_edges(self) -> int:
        """The number of edges."""
        return len(self.src)

    def some_ends(self, first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the sources and the targets of the edges [first, end), as views."""
        return self.src[first:end], self.dst[first:end]

    def some_weights(self, first: int, end: int) -> np.ndarray:
        """Return a copy of the weights of the edges [first, end)."""
        return self.weights[first:end].copy()


@dataclass(frozen=True, eq=False)
class EdgesInParts:
    """The edges of a generated graph without coordinates. Threads make any of them, in any order."""

    n_vertices: int
    n_edges: int
    #: Returns the sources and the targets of the edges [first, end), uint32.
    some_ends: Callable[[int, int], tuple[np.ndarray, np.ndarray]]
    #: Returns the weights of the edges [first, end), uint32.
    some_weights: Callable[[int, int], np.ndarray]
    coordinates: None = None

    def all(self) -> GeneratedEdges:
        """Return all edges."""
        src, dst, weights = (np.empty(self.n_edges, np.uint32) for _ in range(3))

        def make(first: int) -> None:
            end = min(first + _EDGES_AT_A_TIME, self.n_edges)
            src[first:end], dst[first:end] = self.some_ends(first, end)
            weights[first:end] = self.some_weights(first, end)

        with ThreadPoolExecutor() as pool:
            list(pool.map(make, range(0, self.n_edges, _EDGES_AT_A_TIME)))
        return GeneratedEdges(src, dst, weights, self.n_vertices)


def road_like(vertices: int = 262_144, seed: int = 7) -> GeneratedEdges:
    """Return a connected network of two-way roads with lengths in metres, about 2.5 edges from each vertex.

    The vertices are the crossings of a lattice, each moved a little at random. Each crossing gets a street to its
    northern or to its western neighbour, chosen at random. These streets form a spanning tree. Then a share of the
    other streets is added, and long straight roads between the crossings of every 32nd row and column.

    Raises
    ------
    InputError
        `vertices` is not a positive integer.
    """
    _check_whole("road", "vertices", vertices, 1, MAX_VERTICES)
    n_cols = math.isqrt(vertices - 1) + 1
    vertex = np.arange(vertices, dtype=np.int64)
    row, col = vertex // n_cols, vertex % n_cols
    crossings = _crossings(vertices, n_cols, seed)

    goes_north = (row > 0) & ((col == 0) | (uniform(vertices, seed, 2) < 0.5))
    extra = uniform(vertices, seed, 3) < EXTRA_STREETS
    northward = vertex[(row > 0) & (goes_north | extra)]
    westward = vertex[(col > 0) & (~goes_north | extra)]
    crossing = (row % MOTORWAY_SPACING == 0) & (col % MOTORWAY_SPACING == 0)
    far_north = vertex[crossing & (row > 0)]
    far_west = vertex[crossing & (col > 0)]
    src = np.concatenate([northward, westward, far_north, far_west])
    dst = np.concatenate(
        [northward - n_cols, westward - 1, far_north - MOTORWAY_SPACING * n_cols, far_west - MOTORWAY_SPACING]
    )

    longer = 1 + DETOUR * uniform(len(src), seed, 4)
    longer[len(northward) + len(westward) :] = 1
    lengths = np.maximum(1, np.rint(_straight(crossings, src, dst) * longer)).astype(np.uint32)
    return _both_ways(src, dst, lengths, vertices, crossings)


def grid(rows: int = 512, cols: int = 512, keep: float = 1.0, seed: int = 7) -> GeneratedEdges:
    """Return a lattice; each undirected edge is kept with probability `keep`, and weights are 1 to 1000.

    Raises
    ------
    InputError
        `rows` or `cols` is not a positive integer, or `keep` is not between 0 and 1.
    """
    at = _lattice("grid", rows, cols)
    if not 0 <= keep <= 1:
        raise InputError(f"generator `grid`: keep is {keep}", hint="keep is a probability, from 0 to 1")
    src = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    dst = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    kept = uniform(len(src), seed, 0) < keep
    src, dst = src[kept], dst[kept]
    return _both_ways(src, dst, between(1, 1000, len(src), seed, 1), at.size)


def rmat(scale: int = 16, edge_factor: int = 16, seed: int = 7) -> GeneratedEdges:
    """Return a directed R-MAT graph of `2**scale` vertices and `edge_factor` times as many edges; weights 1 to 100.

    The quadrants have the probabilities 0.57, 0.19, 0.19 and 0.05. Vertex numbers are permuted. Parallel edges and
    self-loops are kept.

    Raises
    ------
    InputError
        `scale` or `edge_factor` is not a whole number in its range.

    References
    ----------
    D. Chakrabarti, Y. Zhan, C. Faloutsos, "R-MAT: a recursive model for graph mining", 2004.
    """
    return rmat_in_parts(scale, edge_factor, seed).all()


def rmat_in_parts(scale: int = 16, edge_factor: int = 16, seed: int = 7) -> EdgesInParts:
    """Return the edges of `rmat`, which raises the same, to be made in parts."""
    _check_whole("rmat", "scale", scale, 0, 31)
    _check_whole("rmat", "edge_factor", edge_factor, 0, 2**20)
    check_seed(seed)
    one_by_one = Lock()

    @cache
    def permuted() -> np.ndarray:
        return np.argsort(random_bits(1 << scale, seed, scale), kind="stable").astype(np.uint32)

    def some_ends(first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        src, dst = (np.zeros(end - first, np.uint32) for _ in range(2))
        for begin in range(0, end - first, PART):
            of_src, of_dst = src[begin : begin + PART], dst[begin : begin + PART]
            for level in range(scale):
                drawn = uniform(len(of_src), seed, level, first + begin)
                goes_down, is_last = drawn >= 0.76, drawn >= 0.95
                goes_right = (drawn >= 0.57) & ~goes_down | is_last
                of_src += goes_down.astype(np.uint32) << (scale - 1 - level)
                of_dst += goes_right.astype(np.uint32) << (scale - 1 - level)
        with one_by_one:
            vertices = permuted()
        return vertices[src], vertices[dst]

    def some_weights(first: int, end: int) -> np.ndarray:
        return between(1, 100, end - first, seed, scale + 1, first)

    return EdgesInParts(1 << scale, edge_factor << scale, some_ends, some_weights)


def random_edges(vertices: int = 65_536, edge_factor: int = 16, seed: int = 7) -> GeneratedEdges:
    """Return directed edges between uniformly drawn vertices, `edge_factor` for each vertex; weights 1 to 1000.

    Parallel edges and self-loops are kept.

    Raises
    ------
    InputError
        `vertices` or `edge_factor` is not a whole number in its range.
    """
    return random_in_parts(vertices, edge_factor, seed).all()


def random_in_parts(vertices: int = 65_536, edge_factor: int = 16, seed: int = 7) -> EdgesInParts:
    """Return the edges of `random_edges`, which raises the same, to be made in parts."""
    _check_whole("random", "vertices", vertices, 1, MAX_VERTICES)
    _check_whole("random", "edge_factor", edge_factor, 0, 2**20)
    check_seed(seed)

    def some_ends(first: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        src, dst = (between(0, vertices - 1, end - first, seed, stream, first) for stream in (0, 1))
        return src, dst

    def some_weights(first: int, end: int) -> np.ndarray:
        return between(1, 1000, end - first, seed, 2, first)

    return EdgesInParts(vertices, edge_factor * vertices, some_ends, some_weights)


def small_world(vertices: int = 65_536, near: int = 5, far: float = 0.05, seed: int = 7) -> GeneratedEdges:
    """Return a ring in which each vertex has edges to and from the next `near` vertices; weights 1 to 1000.

    A share `far` of the edges leads to a random vertex instead.

    Raises
    ------
    InputError
        `vertices` or `near` is not a whole number in its range, or `far` is not between 0 and 1.

    References
    ----------
    D. Watts, S. Strogatz, "Collective dynamics of small-world networks", 1998.
    """
    _check_whole("small-world", "vertices", vertices, 1, MAX_VERTICES)
    _check_whole("small-world", "near", near, 0, vertices - 1)
    if not 0 <= far <= 1:
        raise InputError(f"generator `small-world`: far is {far}", hint="far is a share, from 0 to 1")
    src = np.repeat(np.arange(vertices, dtype=np.int64), near)
    dst = (src + np.tile(np.arange(1, near + 1), vertices)) % vertices
    anywhere = between(0, vertices - 1, len(dst), seed, 1)
    dst = np.where(uniform(len(dst), seed, 0) < far, anywhere, dst)
    return _both_ways(src, dst, between(1, 1000, len(dst), seed, 2), vertices)


def mesh(rows: int = 256, cols: int = 256, seed: int = 7) -> GeneratedEdges:
    """Return a triangulated lattice with randomly moved vertices: about 6 edges from each vertex.

    The shorter diagonal of each cell divides it into two triangles. Edges lead both ways. Weights are the lengths in
    centimetres. The graph resembles a Delaunay triangulation of evenly spread points.

    Raises
    ------
    InputError
        `rows` or `cols` is not a positive integer.
    """
    at = _lattice("mesh", rows, cols)
    crossings = _crossings(at.size, cols, seed)
    falling = at[1:, 1:].ravel(), at[:-1, :-1].ravel()
    rising = at[1:, :-1].ravel(), at[:-1, 1:].ravel()
    falls = _straight(crossings, *falling) <= _straight(crossings, *rising)
    src = np.concatenate([at[:, 1:].ravel(), at[1:].ravel(), np.where(falls, falling[0], rising[0])])
    dst = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel(), np.where(falls, falling[1], rising[1])])
    lengths = np.rint(100 * _straight(crossings, src, dst)).astype(np.uint32)
    return _both_ways(src, dst, lengths, at.size, crossings)


def path(vertices: int = 65_536, seed: int = 7) -> GeneratedEdges:
    """Return a path, in which each vertex has edges to and from the next; weights 1 to 1000.

    Raises
    ------
    InputError
        `vertices` is not a positive integer.
    """
    _check_whole("path", "vertices", vertices, 1, MAX_VERTICES)
    vertex = np.arange(vertices, dtype=np.int64)
    return _both_ways(vertex[:-1], vertex[1:], between(1, 1000, vertices - 1, seed, 0), vertices)


def star(vertices: int = 65_536, seed: int = 7) -> GeneratedEdges:
    """Return a star, in which vertex 0 has edges to and from all others; weights 1 to 1000.

    Raises
    ------
    InputError
        `vertices` is not a positive integer.
    """
    _check_whole("star", "vertices", vertices, 1, MAX_VERTICES)
    leaf = np.arange(1, vertices, dtype=np.int64)
    return _both_ways(leaf, np.zeros_like(leaf), between(1, 1000, len(leaf), seed, 0), vertices)


def dense(vertices: int = 512, seed: int = 7) -> GeneratedEdges:
    """Return a complete directed graph; each edge has a weight of its own, 1 to 1000.

    Raises
    ------
    InputError
        `vertices` is not a whole number from 1 to 65536.
    """
    _check_whole("dense", "vertices", vertices, 1, 2**16)
    src, dst = (ends.ravel().astype(np.uint32) for ends in np.indices((vertices, vertices)))
    src, dst = src[(others := src != dst)], dst[others]
    return GeneratedEdges(src, dst, between(1, 1000, len(src), seed, 0), vertices)


#: What the URLs of generated graphs begin with.
SCHEME = "generated:"


def is_generated(url: str) -> bool:
    """Return whether `url` names a generated graph."""
    return url.startswith(SCHEME)


#: The generators by their name in `generated:` URLs. All their parameters are numbers with defaults.
GENERATORS: dict[str, Callable[..., GeneratedEdges]] = {
    "dense": dense,
    "grid": grid,
    "mesh": mesh,
    "path": path,
    "random": random_edges,
    "rmat": rmat,
    "road": road_like,
    "small-world": small_world,
    "star": star,
}
#: The generators whose edges can be made in parts.
IN_PARTS: dict[str, Callable[..., EdgesInParts]] = {"random": random_in_parts, "rmat": rmat_in_parts}


def hashed_weights(src: np.ndarray, dst: np.ndarray, largest: int) -> np.ndarray:
    """Return weights 1 to `largest`, (E,) uint64, which depend only on the two ends and not on the direction."""
    low, high = np.minimum(src, dst).astype(np.uint64), np.maximum(src, dst).astype(np.uint64)
    mixed = (low << np.uint64(32) | high) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ mixed >> np.uint64(32)) * np.uint64(0xD6E8FEB86659FD93)
    return 1 + (mixed >> np.uint64(32)) % np.uint64(largest)


def _both_ways(
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    n_vertices: int,
    coordinates: tuple[np.ndarray, np.ndarray] | None = None,
) -> GeneratedEdges:
    starts, ends = (np.concatenate(both).astype(np.uint32) for both in ((src, dst), (dst, src)))
    return GeneratedEdges(starts, ends, np.concatenate([weights, weights]), n_vertices, coordinates)


def _lattice(generator: str, rows: int, cols: int) -> np.ndarray:
    """Return the vertices (rows, cols) int64 of a lattice; raise `InputError` if it cannot have this size."""
    _check_whole(generator, "rows", rows, 1, MAX_VERTICES)
    _check_whole(generator, "cols", cols, 1, MAX_VERTICES // rows)
    return np.arange(rows * cols, dtype=np.int64).reshape(rows, cols)


def _crossings(n_vertices: int, n_cols: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the metres east and north (V,) of the vertices of a lattice, each moved a little at random."""
    vertex = np.arange(n_vertices, dtype=np.int64)
    east = BLOCK_M * (vertex % n_cols + JITTER * (uniform(n_vertices, seed, 0) - 0.5))
    north = BLOCK_M * (JITTER * (uniform(n_vertices, seed, 1) - 0.5) - vertex // n_cols)
    return east, north


def _straight(crossings: tuple[np.ndarray, np.ndarray], src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Return the metres (E,) from each of `src` to its `dst` in a straight line."""
    east, north = crossings
    return np.sqrt((east[src] - east[dst]) ** 2 + (north[src] - north[dst]) ** 2)


def _check_whole(generator: str, name: str, value: float, low: int, high: int) -> None:
    if not isinstance(value, int) or not low <= value <= high:
        raise InputError(
            f"generator `{generator}`: {name} is {value}",
            hint=f"{name} is a whole number from {low} to {high}",
        )
