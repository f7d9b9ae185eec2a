"""Cuts a graph into two halves and a separator, so that METIS can order the halves at the same time.

METIS finds the cut: on which side each vertex lies. The fewest vertices that touch all cut edges become the separator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: The most cut edges, since finding the fewest vertices is slow. Roads have a few dozen, meshes a thousand.
_MOST_CUT_EDGES = 2**13


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


def divided(part: Subgraph, sides: np.ndarray) -> tuple[list[Subgraph], np.ndarray] | None:
    """Return two halves of a part and the vertices (S,) uint32 of a separator, named as in the graph.

    No neighbours are in different halves. If too many edges are cut, or a half is empty, the result is None.

    Parameters
    ----------
    sides
        (P,) bool: on which side of a cut each vertex lies.
    """
    ends = np.empty((2, _MOST_CUT_EDGES), np.uint32)
    n_cut = int(_cut_edges(part.offsets, part.neighbours, sides, ends))
    if n_cut > _MOST_CUT_EDGES:
        return None
    is_separator = np.zeros(len(sides), np.bool_)
    is_separator[cover(*ends[:, :n_cut].tolist())] = True
    halves = [np.flatnonzero((sides == side) & ~is_separator).astype(np.uint32) for side in (True, False)]
    if not all(map(len, halves)):
        return None
    within = (subgraph_of(part.offsets, part.neighbours, half) for half in halves)
    return (
        [Subgraph(part.vertices[half.vertices], half.offsets, half.neighbours) for half in within],
        part.vertices[is_separator],
    )


def cover(left: list[int], right: list[int]) -> list[int]:
    """Return the fewest vertices that touch all edges (left[i], right[i]); no vertex is in both lists.

    By König's theorem they follow from a largest matching, which is found by augmenting paths.
    """
    edges: dict[int, list[int]] = {}
    for u, v in zip(left, right, strict=True):
        edges.setdefault(u, []).append(v)
    partner: dict[int, int] = {}  # of each matched vertex, in both directions

    def search(roots: list[int]) -> tuple[dict[int, int], int | None]:
        """Return from where each vertex on the right is reached by alternating paths, and an unmatched one, or None."""
        reached_from: dict[int, int] = {}
        for u in roots:  # grows
            for v in edges[u]:
                if v not in reached_from:
                    reached_from[v] = u
                    if v not in partner:
                        return reached_from, v
                    roots.append(partner[v])
        return reached_from, None

    unmatched = []
    for u in edges:
        reached_from, end = search([u])
        if end is None:
            unmatched.append(u)
        while end is not None:  # each vertex on the path changes its partner
            before = reached_from[end]
            partner[end], partner[before], end = before, end, partner.get(before)
    reached, _ = search(unmatched.copy())
    is_reached = {*unmatched, *(partner[v] for v in reached)}
    return [*reached, *(u for u in edges if u not in is_reached)]


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


@njit(nogil=True)
def _cut_edges(offsets: np.ndarray, neighbours: np.ndarray, sides: np.ndarray, ends: np.ndarray) -> Any:
    """Fill `ends` with the ends of the cut edges, those on the side True first; return how many edges are cut."""
    n_cut = ZERO
    for u in range(np.uint64(len(sides))):
        if not sides[u]:
            continue
        for e in range(offsets[u], offsets[u + ONE]):
            v = neighbours[e]
            if not sides[v]:
                if n_cut < np.uint64(ends.shape[1]):
                    ends[ZERO, n_cut], ends[ONE, n_cut] = u, v
                n_cut += ONE
    return n_cut
