"""A look at a graph: about how many vertices separate its halves, in less time than a few searches.

The idea: a set of vertices grows, and its boundary tells how wide separators are. Each step adds the vertex of the
boundary that brings the fewest new vertices. Among equals the oldest comes first, so the set stays round. With n
vertices it has a boundary of about the square root of n on a plane, of n to the power of 2/3 in a solid, and of a share
of n if there are no small separators. In a web the boundary first grows, and then falls when hubs are inside; the
geometric mean of its widest and its last value counts.

Only edges out of a vertex are followed: to list those into it would take longer than the whole look. On a directed
graph the set is then closed sooner, and the width is a low guess.

Keeps
    I1. A vertex of the boundary is in the list of its `n_new`, the number of its neighbours that were never reached. A
        list is a ring of `following` and `preceding`, which starts at its head. Heads come after the vertices.
    I2. A vertex that was reached and has no such neighbour is inside. So leaves are never counted as boundary.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

#: Vertices with this many new neighbours or more share a list.
_LISTS = np.uint64(64)
#: The sizes of the set that count: those between the last one and its 2nd, 4th, … part. At smaller sizes a hub that is
#: met early would count as if it were everywhere.
_OCTAVES = 6
#: From a start to the next one. It is prime, so all vertices are found, and they are far apart.
_STRIDE = np.uint64(2_654_435_761)


def width_of(graph: CsrGraph, most_steps: int, most_width: int) -> int:
    """Return about how many vertices separate half of a graph from the rest, at most half of them.

    Parameters
    ----------
    most_steps
        About how many entries of neighbour lists are read at most. If they end before half of the graph is reached,
        the width is taken to grow as on a plane.
    most_width
        Where this is reached, the look ends.
    """
    n = graph.n_vertices
    half, least = n // 2, np.zeros(64, np.int64)
    # NumPy gets zeros from the system, page by page when they are first touched. numba would write all of them.
    zeros = np.zeros(n, np.bool_), np.zeros(n, np.uint32)
    limits = np.uint64(half), np.uint64(most_steps), np.uint64(most_width)
    n_inside = int(_grow(graph.row_offsets.view(np.uint64), graph.col_indices, *limits, *zeros, least))
    last = n_inside.bit_length()
    widest = int(np.max(least[max(0, last - _OCTAVES) : last + 1]))
    return min(round(sqrt(widest * int(least[last]) * max(half / max(n_inside, 1), 1.0))), half)


@njit(nogil=True)
def _take(following: np.ndarray, preceding: np.ndarray, v: Any) -> None:
    """Take `v` from its list."""
    a, b = preceding[v], following[v]
    following[a], preceding[b] = b, a


@njit(nogil=True)
def _append(following: np.ndarray, preceding: np.ndarray, head: Any, v: Any) -> None:
    """Append `v` to the list that starts at `head`."""
    last = preceding[head]
    following[last], preceding[v] = v, last
    following[v], preceding[head] = head, v


@njit(nogil=True)
def _grow(
    offsets: np.ndarray,
    neighbours: np.ndarray,
    most: Any,
    most_steps: Any,
    most_width: Any,
    is_reached: np.ndarray,
    n_new: np.ndarray,
    least: np.ndarray,
) -> Any:
    """Grow a set until it has `most` vertices, and return its size. `is_reached` (V,) and `n_new` (V,) are zero.

    `least` gets the least boundary at the sizes from 2^(i - 1) on, for each i that a size has as its number of bits.
    """
    n = np.uint64(len(offsets)) - ONE
    following, preceding = np.empty(n + _LISTS, np.uint64), np.empty(n + _LISTS, np.uint64)
    for i in range(n, n + _LISTS):
        following[i] = preceding[i] = i
    stride, start = max(ONE, _STRIDE % max(n, ONE)), ZERO
    inside = width = steps = ZERO
    lowest = _LISTS
    while inside < most and steps < most_steps and width <= most_width:
        while lowest < _LISTS and following[n + lowest] == n + lowest:
            lowest += ONE
        if lowest == _LISTS:  # a component is done
            while is_reached[start]:
                start = (start + stride) % n
                steps += ONE
            v = start
            is_reached[v] = True
        else:
            v = following[n + lowest]
            _take(following, preceding, v)
            width -= ONE
            n_new[v] = 0
        inside += ONE
        for e in range(offsets[v], offsets[v + ONE]):
            u = np.uint64(neighbours[e])
            if is_reached[u]:
                continue
            is_reached[u] = True
            found = ZERO
            for f in range(offsets[u], offsets[u + ONE]):
                w = np.uint64(neighbours[f])
                if not is_reached[w]:
                    found += ONE
                elif n_new[w] > ZERO:
                    n_new[w] -= np.uint32(1)
                    left = np.uint64(n_new[w])
                    if left + ONE < _LISTS:
                        _take(following, preceding, w)
                        if left > ZERO:
                            _append(following, preceding, n + left, w)
                            lowest = min(lowest, left)
                        else:
                            width -= ONE
                            inside += ONE
            steps += offsets[u + ONE] - offsets[u]
            if found > ZERO:
                n_new[u] = found
                place = min(found, _LISTS - ONE)
                _append(following, preceding, n + place, u)
                lowest = min(lowest, place)
                width += ONE
            else:
                inside += ONE
        steps += offsets[v + ONE] - offsets[v]
        octave, size = ZERO, inside
        while size > ZERO:
            size >>= ONE
            octave += ONE
        if width > ZERO and (least[octave] == 0 or width < least[octave]):
            least[octave] = width
    return inside
