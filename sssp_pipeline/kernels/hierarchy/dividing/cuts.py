"""Cuts a graph into parts and small separators, so that METIS can order the parts at the same time.

METIS finds the parts in one call: a number for each vertex. The numbers are cut in the middle, and each half again. A
separator is the smallest one near such a cut (`flows.py`).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.dividing.flows import SEPARATOR, separated
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO


@dataclass(frozen=True, eq=False)
class Subgraph:
    """A part of a graph, with the edges between its vertices."""

    #: (P,) uint32: the vertices by their names in the graph. The arrays below name them by their places here.
    vertices: np.ndarray
    #: (P+1,) uint64.
    offsets: np.ndarray
    #: (N,) uint32.
    neighbours: np.ndarray


@dataclass(frozen=True, eq=False)
class Remainder(Subgraph):
    """What is left of a graph after vertices were eliminated."""

    #: (E,) uint32: the eliminated vertices in their order.
    eliminated: np.ndarray


def subgraph_of(offsets: np.ndarray, neighbours: np.ndarray, vertices: np.ndarray) -> Subgraph:
    """Return the part of a graph that has these vertices (P,) uint32."""
    places = np.full(len(offsets) - 1, NO_VERTEX)
    places[vertices] = np.arange(len(vertices), dtype=np.uint32)
    part_offsets = np.zeros(len(vertices) + 1, np.uint64)
    part_neighbours = np.empty(len(neighbours), np.uint32)
    size = _compact(offsets, neighbours, places, vertices, part_offsets, part_neighbours)
    return Subgraph(vertices, part_offsets, part_neighbours[:size])


def cut(part: Subgraph, numbers: np.ndarray, first: int, end: int) -> tuple[list[Subgraph], list[np.ndarray]]:
    """Return parts of a part, and separators (S,) uint32. Vertices are named as in the graph.

    No neighbours are in different parts. A separator stands before all separators of what it divides.

    Parameters
    ----------
    numbers
        (V,) int32: the part of each vertex of the graph that METIS found. Those from `first` to `end` are cut.
    """
    if end - first == 1:
        return [part], []
    middle = (first + end) // 2
    found = divided(part, numbers[part.vertices] >= middle)
    if found is None:
        return [part], []
    halves, separator = found
    with ThreadPoolExecutor(2) as pool:
        of_halves = list(pool.map(cut, halves, [numbers] * 2, (first, middle), (middle, end)))
    parts = [inner for parts, _ in of_halves for inner in parts]
    return parts, [separator, *(inner for _, separators in of_halves for inner in separators)]


def divided(part: Subgraph, sides: np.ndarray) -> tuple[list[Subgraph], np.ndarray] | None:
    """Return two halves of a part and the vertices (S,) uint32 of a separator, named as in the graph.

    No neighbours are in different halves. If a half is empty, or the separator is large, the result is None.

    Parameters
    ----------
    sides
        (P,) bool: on which side of a cut each vertex lies.
    """
    found = separated(part.offsets, part.neighbours, sides)
    if found is None:
        return None
    halves = [np.flatnonzero(found == side).astype(np.uint32) for side in (0, 1)]
    if not all(map(len, halves)):
        return None
    within = (subgraph_of(part.offsets, part.neighbours, half) for half in halves)
    return (
        [Subgraph(part.vertices[half.vertices], half.offsets, half.neighbours) for half in within],
        part.vertices[found == SEPARATOR],
    )


@njit(nogil=True)
def _compact(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    places: np.ndarray,
    vertices: np.ndarray,
    part_offsets: np.ndarray,
    part_neighbours: np.ndarray,
) -> Any:
    """Fill the arrays of a part, and return how many neighbours there are; `places` has its vertices."""
    size = ZERO
    for i in range(np.uint64(len(vertices))):
        v = vertices[i]
        for e in range(offsets[v], offsets[np.uint64(v) + ONE]):
            place = places[neighbours[e]]
            if place != NO_VERTEX:
                part_neighbours[size] = place
                size += ONE
        part_offsets[i + ONE] = size
    return size
