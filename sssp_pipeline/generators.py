"""Graphs made from a seed: the same edges for the same parameters, on any machine, with any numpy.

numpy does not promise that its generators give the same numbers in the next release, so the random numbers
here come from a hash of a counter (splitmix64), which is exact integer arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sssp_pipeline.csr import MAX_VERTICES
from sssp_pipeline.errors import InputError

#: Metres between neighbouring crossings of `road_like`, and how far a crossing is off its place in the lattice.
BLOCK_M = 100.0
JITTER = 0.7
#: A road is up to this much longer than the straight line.
DETOUR = 0.3
#: Share of the lattice's streets that `road_like` keeps besides those that hold it together.
EXTRA_STREETS = 0.25
#: Every so many rows and columns of crossings, one is joined to the next such by a straight, direct road.
MOTORWAY_SPACING = 32


@dataclass(frozen=True, eq=False)
class GeneratedEdges:
    """The edges of a made graph, in host memory, owned by the caller.

    Attributes
    ----------
    src, dst
        (E,) uint32, below `n_vertices`.
    weights
        (E,) uint32.
    n_vertices
        How many vertices there are, those without edges among them.
    coordinates
        Two arrays (V,) float64, metres east and north; None where the vertices have no place.
    """

    src: np.ndarray
    dst: np.ndarray
    weights: np.ndarray
    n_vertices: int
    coordinates: tuple[np.ndarray, np.ndarray] | None = None


def road_like(vertices: int = 262_144, seed: int = 7) -> GeneratedEdges:
    """Return a connected network of two-way roads with lengths in metres, about 2.5 edges from each vertex.

    Crossings stand on a shaken lattice. Each has a street to its northern or western neighbour, drawn at random,
    which makes a tree of them all; then come a quarter of the streets left over, and long straight roads
    between every 32nd row and column of crossings.

    Raises
    ------
    InputError
        `vertices` is not a whole number from 1 on.
    """
    _check_whole("road", "vertices", vertices, 1, MAX_VERTICES)
    n_cols = math.isqrt(vertices - 1) + 1
    vertex = np.arange(vertices, dtype=np.int64)
    row, col = vertex // n_cols, vertex % n_cols
    east = BLOCK_M * (col + JITTER * (_uniform(vertices, seed, 0) - 0.5))
    north = BLOCK_M * (JITTER * (_uniform(vertices, seed, 1) - 0.5) - row)

    goes_north = (row > 0) & ((col == 0) | (_uniform(vertices, seed, 2) < 0.5))
    extra = _uniform(vertices, seed, 3) < EXTRA_STREETS
    northward = vertex[(row > 0) & (goes_north | extra)]
    westward = vertex[(col > 0) & (~goes_north | extra)]
    crossing = (row % MOTORWAY_SPACING == 0) & (col % MOTORWAY_SPACING == 0)
    far_north = vertex[crossing & (row > 0)]
    far_west = vertex[crossing & (col > 0)]
    src = np.concatenate([northward, westward, far_north, far_west])
    dst = np.concatenate(
        [northward - n_cols, westward - 1, far_north - MOTORWAY_SPACING * n_cols, far_west - MOTORWAY_SPACING]
    )

    straight = np.sqrt((east[src] - east[dst]) ** 2 + (north[src] - north[dst]) ** 2)
    longer = 1 + DETOUR * _uniform(len(src), seed, 4)
    longer[len(northward) + len(westward) :] = 1
    lengths = np.maximum(1, np.rint(straight * longer)).astype(np.uint32)
    return _both_ways(src, dst, lengths, vertices, (east, north))


def grid(rows: int = 512, cols: int = 512, keep: float = 1.0, seed: int = 7) -> GeneratedEdges:
    """Return a lattice of which each undirected edge is kept with probability `keep`; weights 1 to 1000.

    Raises
    ------
    InputError
        `rows` or `cols` is not a whole number from 1 on, or `keep` not between 0 and 1.
    """
    _check_whole("grid", "rows", rows, 1, MAX_VERTICES)
    _check_whole("grid", "cols", cols, 1, MAX_VERTICES // rows)
    if not 0 <= keep <= 1:
        raise InputError(f"generator `grid`: keep is {keep}", hint="keep is a probability, from 0 to 1")
    vertex = np.arange(rows * cols, dtype=np.int64).reshape(rows, cols)
    src = np.concatenate([vertex[:, 1:].ravel(), vertex[1:].ravel()])
    dst = np.concatenate([vertex[:, :-1].ravel(), vertex[:-1].ravel()])
    kept = _uniform(len(src), seed, 0) < keep
    src, dst = src[kept], dst[kept]
    return _both_ways(src, dst, _between(1, 1000, len(src), seed, 1), rows * cols, None)


def rmat(scale: int = 16, edge_factor: int = 16, seed: int = 7) -> GeneratedEdges:
    """Return a directed R-MAT graph of `2**scale` vertices and `edge_factor` times as many edges; weights 1 to 100.

    Quadrants are drawn with 0.57, 0.19, 0.19 and 0.05, ids are permuted, parallel edges and self-loops kept.

    Raises
    ------
    InputError
        `scale` or `edge_factor` is not a whole number in its range.

    References
    ----------
    D. Chakrabarti, Y. Zhan, C. Faloutsos, "R-MAT: a recursive model for graph mining", 2004.
    """
    _check_whole("rmat", "scale", scale, 0, 31)
    _check_whole("rmat", "edge_factor", edge_factor, 0, 2**20)
    n_edges = edge_factor << scale
    src = np.zeros(n_edges, np.uint32)
    dst = np.zeros(n_edges, np.uint32)
    for level in range(scale):
        quadrant = np.searchsorted([0.57, 0.76, 0.95], _uniform(n_edges, seed, level), side="right")
        src += (quadrant >> 1).astype(np.uint32) << (scale - 1 - level)
        dst += (quadrant & 1).astype(np.uint32) << (scale - 1 - level)
    permuted = np.argsort(_random_bits(1 << scale, seed, scale), kind="stable").astype(np.uint32)
    return GeneratedEdges(
        permuted[src], permuted[dst], _between(1, 100, n_edges, seed, scale + 1), 1 << scale
    )


#: What `generated:` URLs may name; every parameter has a default and is a number.
GENERATORS: dict[str, Callable[..., GeneratedEdges]] = {"grid": grid, "rmat": rmat, "road": road_like}


def _both_ways(
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    n_vertices: int,
    coordinates: tuple[np.ndarray, np.ndarray] | None,
) -> GeneratedEdges:
    return GeneratedEdges(
        np.concatenate([src, dst]).astype(np.uint32),
        np.concatenate([dst, src]).astype(np.uint32),
        np.concatenate([weights, weights]),
        n_vertices,
        coordinates,
    )


def _random_bits(count: int, seed: int, stream: int) -> np.ndarray:
    """Return `count` random uint64, others for each `stream` of a seed: splitmix64 started at a hash of the two."""
    if not isinstance(seed, int):
        raise InputError(f"seed is {seed}", hint="a seed is a whole number")
    start = _splitmix64(np.array([seed % 2**64], np.uint64)) + np.uint64(stream)
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _splitmix64(_splitmix64(start) + steps)


def _splitmix64(state: np.ndarray) -> np.ndarray:
    """Return the output function of splitmix64 (Steele, Lea, Flood, 2014) of every `state`."""
    mixed = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _uniform(count: int, seed: int, stream: int) -> np.ndarray:
    """Return `count` random float64 in [0, 1), multiples of 2**-53."""
    return (_random_bits(count, seed, stream) >> np.uint64(11)) * 2.0**-53


def _between(low: int, high: int, count: int, seed: int, stream: int) -> np.ndarray:
    """Return `count` random uint32 from `low` to `high`, both included."""
    bits = _random_bits(count, seed, stream) >> np.uint64(32)
    return (np.uint64(low) + (bits * np.uint64(high - low + 1) >> np.uint64(32))).astype(np.uint32)


def _check_whole(generator: str, name: str, value: float, low: int, high: int) -> None:
    if not isinstance(value, int) or not low <= value <= high:
        raise InputError(
            f"generator `{generator}`: {name} is {value}",
            hint=f"{name} is a whole number from {low} to {high}",
        )
