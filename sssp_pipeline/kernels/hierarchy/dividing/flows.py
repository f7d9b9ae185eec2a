"""The smallest separator near a cut of a graph.

The idea: the ends of the cut edges on one side are a separator. A band grows around it, on both sides. What lies beyond
the band on one side is the source of a flow, and what lies beyond it on the other side is the target. A vertex of the
band lets one path through. If there are k paths without a common vertex, and no more, then k vertices stop them all
(Menger). These are the smallest separator within the band, mostly a tenth smaller than one that single moves find.

The paths grow as in Dinic's algorithm. Each vertex has two states: IN, reached along an edge, and OUT, left along an
edge. From IN the search goes on to OUT if no path uses the vertex. Otherwise it follows that path back, to OUT of the
vertex before, because the path could turn off there. From OUT of a used vertex it may follow the path back, too. A
phase finds the distances of the states, and then paths along them, each state once.

Keeps
    I1. `before` has for each vertex that a path uses the vertex before it on that path, or `_SOURCE`.
    I2. At the end no path is left. The vertices whose IN is reached and whose OUT is not are one of each path, and
        stop all.

Ends: each phase but the last adds a path, and there are no more paths than vertices in the separator.

NOTE: of all smallest separators the one next to the source is taken. So the source is on the side with more vertices.

References
----------
E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import njit

#: What `separated` has for a vertex of the separator, instead of the side 0 or 1.
SEPARATOR: Any = np.uint8(2)
#: The most that a side may have of a graph after the separator moved.
_MOST_OF_SIDE = 0.6
#: The largest share of the vertices that the first separator may have. Meshes and webs have 1 to 2 %. R-MAT graphs have
#: no small separators: a cut gave them half as many triangles again.
MOST_IN_SEPARATOR = 1 / 16
#: How many vertices the band has on each side for each vertex of the first separator, and the least. Wider bands take
#: longer: a flow of large separators takes most of the time of a cut, and separators become 1 % smaller.
_BAND_WIDTH, _LEAST_BAND = 3, 2**11
#: Values of `before` for a vertex that no path uses, and for the first one of a path.
_UNUSED, _SOURCE = -2, -1
_UNREACHED = -1


def separated(offsets: np.ndarray, neighbours: np.ndarray, sides: np.ndarray) -> np.ndarray | None:
    """Return the side (P,) uint8 of each vertex: 0, 1 or `SEPARATOR`. No neighbours are on different sides.

    If the first separator is too large, the result is None.

    Parameters
    ----------
    offsets
        (P+1,) uint64; the neighbours of vertex `v` are `offsets[v]:offsets[v + 1]`.
    neighbours
        (N,) uint32; each pair of neighbours stands there in both directions.
    sides
        (P,) bool: on which side of a cut each vertex lies.
    """
    starts, found = offsets.view(np.int64), sides.astype(np.uint8)
    _mark_boundary(starts, neighbours, found)
    sizes = np.bincount(found, minlength=3)
    if sizes[2] > MOST_IN_SEPARATOR * len(found):
        return None
    n_fixed = int(_MOST_OF_SIDE * len(found)) - sizes[2]
    rooms = np.clip(n_fixed - sizes[1::-1], 0, max(_BAND_WIDTH * sizes[2], _LEAST_BAND))
    places = np.full(len(found), -1, np.int32)
    band = _band(starts, neighbours, found, rooms, places)
    _separate(starts, neighbours, band, places, np.uint8(sizes[1] > sizes[0]), found)
    return found


@njit(nogil=True)
def _mark_boundary(starts: np.ndarray, heads: np.ndarray, sides: np.ndarray) -> None:
    """Put the vertices of one side with neighbours on the other into the separator; the side with fewer of them."""
    n = len(sides)
    is_boundary = np.zeros(n, np.bool_)
    sizes = np.zeros(2, np.int64)
    for v in range(n):
        for e in range(starts[v], starts[v + 1]):
            if sides[heads[e]] != sides[v]:
                is_boundary[v] = True
                sizes[sides[v]] += 1
                break
    chosen = np.uint8(sizes[1] < sizes[0])
    for v in range(n):
        if is_boundary[v] and sides[v] == chosen:
            sides[v] = SEPARATOR


@njit(nogil=True)
def _band(
    starts: np.ndarray, heads: np.ndarray, sides: np.ndarray, rooms: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """Return the separator, and after it the vertices nearest to it, up to `rooms` (2,) of each side.

    `places` (P,) int32 gets the place of each of them, and stays -1 elsewhere.
    """
    band = np.empty(len(sides), np.int32)
    size = 0
    for v in range(len(sides)):
        if sides[v] == SEPARATOR:
            places[v], band[size] = size, v
            size += 1
    i = 0
    while i < size:
        v = band[i]
        i += 1
        for e in range(starts[v], starts[v + 1]):
            u = heads[e]
            if places[u] < 0 and rooms[sides[u]] > 0:
                rooms[sides[u]] -= 1
                places[u], band[size] = size, u
                size += 1
    return band[:size]


@njit(nogil=True)
def _separate(
    starts: np.ndarray,
    heads: np.ndarray,
    band: np.ndarray,
    places: np.ndarray,
    source: Any,
    sides: np.ndarray,
) -> None:
    """Move the separator in `sides` to the smallest one within the band. The source is on the side `source`."""
    n = len(band)
    touches_source, touches_target = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    rows = np.zeros(n + 1, np.int64)
    size = 0
    for v in band:
        size += starts[v + 1] - starts[v]
    columns = np.empty(size, np.int32)
    size = 0
    for i in range(n):
        v = band[i]
        for e in range(starts[v], starts[v + 1]):
            u = heads[e]
            if places[u] >= 0:
                columns[size] = places[u]
                size += 1
            elif sides[u] == source:
                touches_source[i] = True
            else:
                touches_target[i] = True
        rows[i + 1] = size
    before = np.full(n, _UNUSED, np.int32)
    distances, states = np.empty((n, 2), np.int32), np.empty(2 * n, np.int32)
    while True:
        last = _measure(rows, columns, touches_source, touches_target, before, distances, states)
        if last == _UNREACHED:
            break
        _add_paths(rows, columns, touches_source, touches_target, before, distances, last, states)
    for i in range(n):
        if distances[i, 1] != _UNREACHED:
            sides[band[i]] = source
        elif distances[i, 0] != _UNREACHED:
            sides[band[i]] = SEPARATOR
        else:
            sides[band[i]] = np.uint8(1) - source


@njit(nogil=True)
def _measure(
    rows: np.ndarray,
    columns: np.ndarray,
    touches_source: np.ndarray,
    touches_target: np.ndarray,
    before: np.ndarray,
    distances: np.ndarray,
    states: np.ndarray,
) -> Any:
    """Fill `distances` (B, 2) of IN and OUT; return the distance of the first OUT next to the target, or `_UNREACHED`.

    A state is twice a vertex, and one more for OUT. States further away than the result are not all reached.
    """
    distances[:] = _UNREACHED
    size = 0
    for i in range(len(before)):
        if touches_source[i]:
            distances[i, 0] = 0
            states[size] = 2 * i
            size += 1
    place = 0
    while place < size:
        i, is_out = states[place] >> 1, states[place] & 1
        place += 1
        following = distances[i, is_out] + 1
        if is_out == 0:
            other = 2 * i + 1 if before[i] == _UNUSED else 2 * before[i] + 1
            if other > 0 and distances[other >> 1, 1] == _UNREACHED:
                distances[other >> 1, 1] = following
                states[size] = other
                size += 1
            continue
        if touches_target[i]:
            return distances[i, 1]
        if before[i] != _UNUSED and distances[i, 0] == _UNREACHED:
            distances[i, 0] = following
            states[size] = 2 * i
            size += 1
        for e in range(rows[i], rows[i + 1]):
            j = columns[e]
            if distances[j, 0] == _UNREACHED:
                distances[j, 0] = following
                states[size] = 2 * j
                size += 1
    return _UNREACHED


@njit(nogil=True)
def _add_paths(
    rows: np.ndarray,
    columns: np.ndarray,
    touches_source: np.ndarray,
    touches_target: np.ndarray,
    before: np.ndarray,
    distances: np.ndarray,
    last: Any,
    states: np.ndarray,
) -> None:
    """Add paths of the length `last`. A state that was tried becomes `_UNREACHED`."""
    following = rows[:-1].copy()  # the next edge of each vertex
    for first in range(len(before)):
        if not touches_source[first] or distances[first, 0] != 0:
            continue
        states[0], size = 2 * first, 1
        while size > 0:
            state = states[size - 1]
            i, is_out = state >> 1, state & 1
            wanted, chosen = distances[i, is_out] + 1, -1
            if wanted > last:
                if is_out == 1 and touches_target[i]:
                    _take_path(states, np.int64(size), before, distances)  # not also compiled for a literal
                    break
            elif is_out == 0:
                other = 2 * i + 1 if before[i] == _UNUSED else 2 * before[i] + 1
                if other > 0 and distances[other >> 1, 1] == wanted:
                    chosen = other
            elif before[i] != _UNUSED and distances[i, 0] == wanted:
                chosen = 2 * i
            else:
                while following[i] < rows[i + 1]:
                    j = columns[following[i]]
                    if distances[j, 0] == wanted:
                        chosen = 2 * j
                        break
                    following[i] += 1
            if chosen >= 0:
                states[size] = chosen
                size += 1
            else:
                distances[i, is_out] = _UNREACHED
                size -= 1


@njit(nogil=True)
def _take_path(states: np.ndarray, size: Any, before: np.ndarray, distances: np.ndarray) -> None:
    """Let a path go along the first `size` states (I1)."""
    for place in range(size):
        i, is_out = states[place] >> 1, states[place] & 1
        distances[i, is_out] = _UNREACHED
        if is_out == 0:
            if place == 0:
                before[i] = _SOURCE
            elif states[place - 1] == 2 * i + 1:
                before[i] = _UNUSED
            else:
                before[i] = states[place - 1] >> 1
