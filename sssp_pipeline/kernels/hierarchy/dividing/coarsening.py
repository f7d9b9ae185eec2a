"""Makes a graph coarser in threads, so that METIS finds the first parts of it sooner.

The idea: for most of the time of a cut METIS merges neighbours, on one core. Here threads merge pairs of them, again
and again, until a sixteenth of the vertices is left. Each coarse vertex stands for several vertices, and each coarse
edge for several edges. METIS cuts the coarse graph, and flows find the smallest separators near its cut (`flows.py`).

Pairs are found in rounds. In a round each vertex chooses the free neighbour with the best rating. Two vertices that
choose each other become a pair. Then free vertices become pairs that share a neighbour: a hub of a web can be in one
pair only.

Keeps
    I1. Within a round, a vertex reads nothing that others write. So the result does not depend on the number of
        threads.

References
----------
G. Karypis, V. Kumar, "A fast and high quality multilevel scheme for partitioning irregular graphs", 1998.
F. Manne, R. H. Bisseling, "A parallel approximation algorithm for the weighted maximum matching problem", 2007.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup, wait_for
from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.kernel_threads import (
    FAILED,
    LAST,
    KernelThreads,
    release_barrier,
    usable_cores,
    wait_at_barrier,
)

#: How many vertices a coarse vertex stands for, about and at most.
SHARE, _MOST = 16, 24
#: Rounds before free vertices are joined by a shared neighbour. Later rounds find few pairs.
_ROUNDS = 4
#: If a step leaves more than this share of the vertices, it is the last one.
_LEAST_GAIN = 0.95


class Coarse(NamedTuple):
    """A graph whose P vertices each stand for one or more vertices of another graph."""

    #: (P+1,) int64: the neighbours of vertex `v` are `heads[starts[v] : starts[v + 1]]`.
    starts: np.ndarray
    #: (N,) uint32.
    heads: np.ndarray
    #: (N,) int32: how many edges an edge stands for.
    edge_weights: np.ndarray
    #: (P,) int32: how many vertices a vertex stands for.
    weights: np.ndarray


class Pairs(NamedTuple):
    """The pairs of P vertices that become one."""

    #: (P,) uint32: the other vertex of the pair; `NO_VERTEX` for a free vertex, and at the end the vertex itself.
    partners: np.ndarray
    #: (P,) uint32: what a vertex chooses.
    choices: np.ndarray
    #: (P,) uint32: the number of the pair, which is a vertex of the coarse graph.
    coarse: np.ndarray
    #: (P,) uint32: the first vertex of each pair.
    firsts: np.ndarray


def coarsened(
    offsets: np.ndarray, neighbours: np.ndarray, n_threads: int | None = None
) -> tuple[Coarse, np.ndarray]:
    """Return a coarse graph, and the vertex (V,) uint32 of it that stands for each vertex.

    Parameters
    ----------
    offsets
        (V+1,) uint64; the neighbours of vertex `v` are `offsets[v]:offsets[v + 1]`.
    neighbours
        (N,) uint32; each pair of neighbours stands there in both directions.
    n_threads
        All cores if None. The result is the same.
    """
    wait_for(coarsening_kernels())
    n = len(offsets) - 1
    ones = np.ones(max(n, len(neighbours)), np.int32)
    graph = Coarse(offsets.view(np.int64), neighbours, ones[: len(neighbours)], ones[:n])
    names = np.arange(n, dtype=np.uint32)
    threads = KernelThreads(n_threads or usable_cores())
    while (n_before := len(graph.weights)) * SHARE > n:
        pairs, n_coarse = _paired(graph, threads)
        if n_coarse > _LEAST_GAIN * n_before:
            break
        graph = _merged(graph, pairs, n_coarse, threads)
        names = pairs.coarse[names]
    return graph, names


def _paired(graph: Coarse, threads: KernelThreads) -> tuple[Pairs, int]:
    """Return the pairs of a graph, and how many vertices are left when each pair is one."""
    n = len(graph.weights)
    pairs = Pairs(np.full(n, NO_VERTEX), *np.empty((3, n), np.uint32))
    meeting = _bounds_of(graph.starts, threads.size), threads.barrier, np.uint64(threads.size)
    return pairs, max(threads.run(lambda number: _match(graph, pairs, *meeting, number)))


def _bounds_of(before: np.ndarray, n_parts: int) -> np.ndarray:
    """Return the bounds (n_parts+1,) int64 of ranges with about as many neighbours.

    `before` (n+1,) int64 are the neighbours before each vertex.
    """
    bounds = np.searchsorted(before, np.linspace(0, before[-1], n_parts + 1))
    bounds[0], bounds[-1] = 0, len(before) - 1
    return bounds


@njit(nogil=True)
def _match(
    graph: Coarse, pairs: Pairs, bounds: np.ndarray, barrier: np.ndarray, n_threads: Any, number: Any
) -> Any:
    """Find pairs and number them; return how many numbers there are in one thread, and -1 in the others."""
    first, end = bounds[number], bounds[number + 1]
    for step in range(2 * _ROUNDS + 1):
        if step == 2 * _ROUNDS:
            _choose_shared(graph, pairs, first, end)
        elif step % 2 == 0:
            _choose(graph, pairs, first, end)
        else:
            _pair(pairs, first, end)
        met = wait_at_barrier(barrier, n_threads)
        if met == FAILED:
            return -1
        if met == LAST:
            if step == 2 * _ROUNDS:
                _pair_by_shared(graph.weights, pairs)
                size = _number_pairs(pairs)
                release_barrier(barrier)
                return size
            release_barrier(barrier)
    return -1


@njit(nogil=True)
def _choose(graph: Coarse, pairs: Pairs, first: Any, end: Any) -> None:
    """Let each free vertex of a range choose a free neighbour, or itself if there is none.

    The best one has many edges to the vertex, and both stand for few vertices. A hash decides between equals. It is the
    same at both ends of an edge, so that many vertices choose each other.
    """
    starts, heads, edge_weights, weights = graph
    partners, choices = pairs.partners, pairs.choices
    for v in range(first, end):
        if partners[v] != NO_VERTEX:
            continue
        choice, best, best_hash = v, 0.0, 0
        for e in range(starts[v], starts[v + 1]):
            u = np.int64(heads[e])
            if partners[u] != NO_VERTEX or weights[u] + weights[v] > _MOST:
                continue
            rating = np.float64(edge_weights[e]) * edge_weights[e] / (np.float64(weights[u]) * weights[v])
            if rating >= best:
                hashed = ((u + v) * 2654435761 ^ (u ^ v) * 40503) & 0xFFFFFFF
                if rating > best or hashed > best_hash:
                    choice, best, best_hash = u, rating, hashed
        choices[v] = choice


@njit(nogil=True)
def _pair(pairs: Pairs, first: Any, end: Any) -> None:
    """Make pairs of the free vertices of a range that were chosen by their choice. Each gets its own partner only."""
    partners, choices = pairs.partners, pairs.choices
    for v in range(first, end):
        if partners[v] == NO_VERTEX and choices[v] != v and choices[choices[v]] == v:
            partners[v] = choices[v]


@njit(nogil=True)
def _choose_shared(graph: Coarse, pairs: Pairs, first: Any, end: Any) -> None:
    """Let each free vertex of a range choose the neighbour that it shares: one with few neighbours."""
    starts, heads, edge_weights, _ = graph
    partners, choices = pairs.partners, pairs.choices
    for v in range(first, end):
        choices[v], best = NO_VERTEX, 0.0
        if partners[v] != NO_VERTEX:
            continue
        for e in range(starts[v], starts[v + 1]):
            u = np.int64(heads[e])
            rating = edge_weights[e] / np.float64(starts[u + 1] - starts[u])
            if rating > best:
                choices[v], best = u, rating


@njit(nogil=True)
def _pair_by_shared(weights: np.ndarray, pairs: Pairs) -> None:
    """Make pairs of free vertices with the same choice."""
    partners, choices = pairs.partners, pairs.choices
    waiting = np.full(len(partners), NO_VERTEX, np.uint32)
    for v in range(len(partners)):
        if partners[v] != NO_VERTEX or choices[v] == NO_VERTEX:
            continue
        other = waiting[choices[v]]
        if other == NO_VERTEX or weights[other] + weights[v] > _MOST:
            waiting[choices[v]] = v
        else:
            partners[v], partners[other], waiting[choices[v]] = other, v, NO_VERTEX


@njit(nogil=True)
def _number_pairs(pairs: Pairs) -> Any:
    """Number pairs and free vertices; return how many there are. A free vertex becomes its own partner."""
    partners, coarse, firsts = pairs.partners, pairs.coarse, pairs.firsts
    size = 0
    for v in range(len(partners)):
        if partners[v] == NO_VERTEX:
            partners[v] = v
        if v <= partners[v]:
            coarse[v] = coarse[partners[v]] = size
            firsts[size] = v
            size += 1
    return size


def _merged(graph: Coarse, pairs: Pairs, n: int, threads: KernelThreads) -> Coarse:
    """Return the graph in which each of `n` pairs and free vertices is one vertex."""
    firsts, lengths = pairs.firsts[:n], np.diff(graph.starts)
    seconds = pairs.partners[firsts]
    rooms = np.zeros(n + 1, np.int64)  # before each row, if no edges were merged
    np.cumsum(lengths[firsts] + np.where(seconds != firsts, lengths[seconds], 0), out=rooms[1:])
    loose = Coarse(
        np.zeros(n + 1, np.int64),
        np.empty(rooms[-1], np.uint32),
        np.empty(rooms[-1], np.int32),
        np.empty(n, np.int32),
    )
    bounds = _bounds_of(rooms, threads.size)
    sizes = threads.run(
        lambda i: _merge(
            graph, pairs, loose, np.empty(n, np.int64), rooms[bounds[i]], bounds[i], bounds[i + 1]
        )
    )
    parts = [slice(rooms[first], rooms[first] + size) for first, size in zip(bounds, sizes, strict=False)]
    place = 0
    for (first, end), size in zip(pairwise(bounds), sizes, strict=True):
        loose.starts[first + 1 : end + 1] += place
        place += size
    return loose._replace(
        heads=np.concatenate([loose.heads[part] for part in parts]),
        edge_weights=np.concatenate([loose.edge_weights[part] for part in parts]),
    )


@njit(nogil=True)
def _merge(
    graph: Coarse, pairs: Pairs, into: Coarse, ends: np.ndarray, room: Any, first: Any, end: Any
) -> Any:
    """Write the rows of the pairs of a range to `into`, from place `room` on; return how many neighbours they have.

    Parallel edges become one. The starts of the rows count from `room`.
    """
    old_starts, old_heads, old_edge_weights, old_weights = graph
    starts, heads, edge_weights, weights = into
    partners, coarse, firsts = pairs.partners, pairs.coarse, pairs.firsts
    ends[:] = 0  # the place after the last edge to each vertex
    size = room
    for c in range(first, end):
        begin, v = size, np.int64(firsts[c])
        second = np.int64(partners[v])
        weights[c] = 0
        while True:
            weights[c] += old_weights[v]
            for e in range(old_starts[v], old_starts[v + 1]):
                head = np.int64(coarse[old_heads[e]])
                if ends[head] > begin:
                    edge_weights[ends[head] - 1] += old_edge_weights[e]
                elif head != c:
                    heads[size], edge_weights[size] = head, old_edge_weights[e]
                    size += 1
                    ends[head] = size
            if v == second:
                break
            v = second
        starts[c + 1] = size - room
    return size - room


def compile_coarsening(dtype: np.dtype) -> None:
    """Compile the kernels of this module; the types do not depend on the weights."""
    ring = np.arange(32)
    neighbours = np.stack([(ring - 1) % 32, (ring + 1) % 32], axis=1).astype(np.uint32).ravel()
    coarsened(np.arange(0, 65, 2, dtype=np.uint64), neighbours, n_threads=1)


@cache
def coarsening_kernels() -> KernelGroup:
    """Return the kernels of this module. They are not among those of each order, since only few graphs need them."""
    return KernelGroup(compile_coarsening, _merge)
