"""The elimination tree of a hierarchy, cut into chunks whose vertices a sweep may compute in any order.

A chunk is a set of vertices. Its boundary is every vertex outside that an arc of the chunk leads up to; all are in
chunks nearer to the roots. The distances of a chunk follow from the distances of its boundary by one min-plus
product with a matrix (`phast_gpu`). So chunks of a band do not depend on each other: they need no order and no waiting.

The first chunk is the top: the vertices with the largest subtrees. Below it, a chunk takes the largest subtrees that
are left under one vertex. Subtrees of at most `MOST_LOW` vertices are not cut any more; neighbouring ones share a
chunk where that hardly adds products.

Each vertex has a place. The vertices of a chunk have consecutive places, in the order of their ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.completion.subtrees import depths_of, firsts_of
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: The most vertices of the top, of the chunks below it, and of a chunk of whole subtrees.
MOST_TOP, MOST_OWN, MOST_LOW = 512, 128, 64
#: Subtrees share a chunk if that needs at most this many times the products, in eighths. Products are computed for
#: `TILE` vertices at a time. A tile of many vertices of one subtree needs only the boundary of that one.
_MOST_MORE_EIGHTHS, TILE = np.uint64(12), np.uint64(8)


@dataclass(frozen=True, eq=False)
class Chunks:
    """The chunks of a completion, in host memory. Vertices are ranks; the first chunk is the top, and may be empty."""

    #: (V,) uint32: the chunk and the place of each vertex, and how many ancestors it has.
    chunk_of: np.ndarray
    places: np.ndarray
    depths: np.ndarray
    #: (C+1,) uint32: the places of chunk `c` are `first_places[c]:first_places[c + 1]`.
    first_places: np.ndarray
    #: (C+1,) uint64 and (N,) uint32: the vertices of the boundary of chunk `c` are
    #: `boundary[boundary_offsets[c]:boundary_offsets[c + 1]]`.
    boundary_offsets: np.ndarray
    boundary: np.ndarray
    #: (A,) uint32: for each arc its upper end among the boundary of the lower end's chunk, followed by the chunk.
    local_heads: np.ndarray
    #: (B+1,) int64: the chunks of band `b` are `bands[b]:bands[b + 1]`. The first band is the top.
    bands: np.ndarray
    #: The first chunk of whole subtrees; all later ones are so too. They are the last band, if there are any.
    first_low: int

    @property
    def n_chunks(self) -> int:
        return len(self.first_places) - 1


def cut(completion: Completion) -> Chunks:
    """Return the chunks of `completion`."""
    n, parents, arcs = (
        completion.n_vertices,
        completion.parents,
        (completion.arc_offsets, completion.arc_heads),
    )
    sizes = np.arange(1, n + 1, dtype=np.uint32) - firsts_of(parents)
    depths, chunk_of, levels = depths_of(parents), np.full(n, NO_VERTEX), np.empty(n + 1, np.uint32)
    n_upper = _cut_above(parents, sizes, chunk_of, levels, MOST_TOP, MOST_OWN, MOST_LOW)
    n_chunks = _cut_below(parents, sizes, *arcs, chunk_of, n_upper, MOST_LOW)
    counts = np.bincount(chunk_of, minlength=n_chunks)
    first_places = np.zeros(n_chunks + 1, np.uint32)
    np.cumsum(counts, out=first_places[1:])
    places, at_places = np.empty(n, np.uint32), np.empty(n, np.uint32)
    _place(chunk_of, first_places[:-1].copy(), places, at_places)

    offsets = np.zeros(n_chunks + 1, np.uint64)
    boundary, local_heads = np.empty(completion.n_arcs, np.uint32), np.empty(completion.n_arcs, np.uint32)
    _bound(*arcs, chunk_of, places, at_places, first_places, offsets, boundary, local_heads)
    boundary = boundary[: offsets[-1]].copy()
    upper = np.searchsorted(levels[:n_upper], np.arange(levels[n_upper - 1] + 2))
    bands = np.append(upper, n_chunks) if n_chunks > n_upper else upper
    return Chunks(chunk_of, places, depths, first_places, offsets, boundary, local_heads, bands, int(n_upper))


@njit(nogil=True)
def _cut_above(
    parents: np.ndarray,
    sizes: np.ndarray,
    chunk_of: np.ndarray,
    levels: np.ndarray,
    most_top: Any,
    most_own: Any,
    most_low: Any,
) -> Any:
    """Give the vertices with more than `most_low` in their subtree to chunks; return how many chunks there are.

    `levels` is filled with how far each chunk is below the top.
    """
    n = np.uint64(len(parents))
    first_child = np.full(n, NO_VERTEX, np.uint32)
    next_sibling = np.full(n, NO_VERTEX, np.uint32)
    # The waiting roots of chunks, a queue. Those of the chunk that is filled are behind `end`.
    roots, of_roots = np.empty(n, np.uint32), np.empty(n, np.uint32)
    begin = end = ZERO
    for v in range(n):
        if sizes[v] > most_low:
            if parents[v] == NO_VERTEX:
                roots[end] = v
                end += ONE
            else:
                next_sibling[v] = first_child[parents[v]]
                first_child[parents[v]] = v
    chunk = ZERO
    level = np.uint32(0)
    while True:
        first = begin if chunk == ZERO else end
        if chunk > ZERO:
            if begin == end:
                break
            roots[end] = roots[begin]
            level = of_roots[begin] + np.uint32(1)
            begin += ONE
            last = end + ONE
        else:
            last = end
        levels[chunk] = level
        n_own = ZERO
        most = most_top if chunk == ZERO else most_own
        while first < last and n_own < most:
            largest = first
            for i in range(first + ONE, last):
                if sizes[roots[i]] > sizes[roots[largest]]:
                    largest = i
            v = roots[largest]
            last -= ONE
            roots[largest] = roots[last]
            chunk_of[v] = chunk
            n_own += ONE
            child = first_child[v]
            while child != NO_VERTEX:
                roots[last] = child
                last += ONE
                child = next_sibling[child]
        for i in range(first, last):
            of_roots[i] = level
        end = last
        chunk += ONE
    return chunk


@njit(nogil=True)
def _cut_below(
    parents: np.ndarray,
    sizes: np.ndarray,
    offsets: np.ndarray,
    heads: np.ndarray,
    chunk_of: np.ndarray,
    chunk: Any,
    most_low: Any,
) -> Any:
    """Give all other vertices to chunks from `chunk` on; return the number of all chunks."""
    n = np.uint64(len(parents))
    seen = np.full(n, NO_VERTEX, np.uint32)  # the last subtree or chunk that has the vertex in its boundary
    stamp = np.uint32(0)
    n_own = n_boundary = ZERO
    this = np.uint64(chunk)
    for root in range(n):
        if sizes[root] > most_low:
            continue
        if parents[root] != NO_VERTEX and sizes[parents[root]] <= most_low:
            continue
        size = np.uint64(sizes[root])
        first = root + ONE - size
        # A subtree and its root have the same boundary.
        n_more = ZERO
        n_its = offsets[root + ONE] - offsets[root]
        for arc in range(offsets[root], offsets[root + ONE]):
            n_more += seen[heads[arc]] != stamp
        apart = _tiled(n_own) * n_boundary + _tiled(size) * n_its
        together = _tiled(n_own + size) * (n_boundary + n_more)
        if n_own == ZERO or n_own + size > most_low or together * np.uint64(8) > apart * _MOST_MORE_EIGHTHS:
            if n_own > ZERO:
                this += ONE
            stamp += np.uint32(1)
            n_own = n_boundary = ZERO
            n_more = n_its
        for arc in range(offsets[root], offsets[root + ONE]):
            seen[heads[arc]] = stamp
        for v in range(first, root + ONE):
            chunk_of[v] = this
        n_own += size
        n_boundary += n_more
    return this + ONE if n_own > ZERO else this


@njit(nogil=True, inline="always")
def _tiled(n: Any) -> Any:
    return (n + TILE - ONE) // TILE


@njit(nogil=True)
def _place(chunk_of: np.ndarray, next_places: np.ndarray, places: np.ndarray, at_places: np.ndarray) -> None:
    """Fill `places` and its inverse `at_places`; `next_places` are the first places of the chunks."""
    for v in range(np.uint64(len(chunk_of))):
        place = next_places[chunk_of[v]]
        places[v] = place
        at_places[place] = v
        next_places[chunk_of[v]] = place + np.uint32(1)


@njit(nogil=True)
def _bound(
    arc_offsets: np.ndarray,
    heads: np.ndarray,
    chunk_of: np.ndarray,
    places: np.ndarray,
    at_places: np.ndarray,
    first_places: np.ndarray,
    offsets: np.ndarray,
    boundary: np.ndarray,
    local_heads: np.ndarray,
) -> None:
    """Fill `offsets`, `boundary` and `local_heads`."""
    n = np.uint64(len(chunk_of))
    seen = np.full(n, NO_VERTEX, np.uint32)
    place_of = np.empty(n, np.uint32)
    size = ZERO
    for chunk in range(np.uint64(len(first_places)) - ONE):
        begin = size
        first, end = np.uint64(first_places[chunk]), np.uint64(first_places[chunk + ONE])
        for place in range(first, end):
            v = np.uint64(at_places[place])
            for arc in range(arc_offsets[v], arc_offsets[v + ONE]):
                head = heads[arc]
                if chunk_of[head] != chunk and seen[head] != chunk:
                    seen[head] = chunk
                    place_of[head] = size - begin
                    boundary[size] = head
                    size += ONE
        for place in range(first, end):
            v = np.uint64(at_places[place])
            for arc in range(arc_offsets[v], arc_offsets[v + ONE]):
                head = heads[arc]
                if chunk_of[head] != chunk:
                    local_heads[arc] = place_of[head]
                else:
                    local_heads[arc] = size - begin + places[head] - first
        offsets[chunk + ONE] = size
