"""Levels of a breadth-first search: how many edges the farthest vertices of a graph are away.

A GPU takes a step for each level or two, however few vertices it has. So this number, and not the number of edges,
decides about the time on a path, a ring or a long grid.
"""

from __future__ import annotations

from math import log

import numpy as np

#: The number of searches. Each ends at the second number of levels, or before it has read the third number of edges.
_STARTS, _MOST_LEVELS, _MOST_EDGES = 3, 128, 2**15
#: No search is made in a graph whose arrays are larger, because ingest keeps them for the searches.
MOST_BYTES = 2**27
#: The last level is this much farther away than the growth of the first levels says: most starts are nearer to one end
#: of the graph than to the other. It is exact for a path, and the mean of 18 graphs with more than 40 levels was 1.55.
_FARTHER = 1.5


def structure_bytes(n_vertices: int, n_edges: int) -> int:
    """Return the bytes of the row offsets and of the column indices of a graph."""
    return 8 * (n_vertices + 1) + 4 * n_edges


def search_levels(row_offsets: np.ndarray, col_indices: np.ndarray) -> float | None:
    """Return about how many levels a search from a vertex with edges has, or None if the graph is too large.

    It is exact if the searches reach all they can. Otherwise it follows from how fast the levels grow. It depends on
    the graph only.

    Parameters
    ----------
    row_offsets, col_indices
        (V+1,) int64 and (E,) uint32, as in a `CsrGraph`.
    """
    n_edges = len(col_indices)
    if structure_bytes(len(row_offsets) - 1, n_edges) > MOST_BYTES:
        return None
    if n_edges == 0:
        return 0.0
    edges = (2 * np.arange(_STARTS) + 1) * n_edges // (2 * _STARTS)
    starts = np.unique(np.searchsorted(row_offsets, edges, side="right") - 1)
    return float(np.mean([_levels_from(int(start), row_offsets, col_indices) for start in starts]))


def _levels_from(start: int, row_offsets: np.ndarray, col_indices: np.ndarray) -> float:
    """Return about how many levels a search from `start` has."""
    n_vertices, n_read = len(row_offsets) - 1, 0
    is_seen = np.zeros(n_vertices, bool)
    is_seen[start] = True
    level, reached = np.array([start]), [1]  # vertices of the last level; vertices up to each level
    while reached[-1] < n_vertices:
        first = row_offsets[level]
        degrees = row_offsets[level + 1] - first
        n_next = int(degrees.sum())
        n_read += n_next
        if n_read > _MOST_EDGES or len(reached) > _MOST_LEVELS:
            if len(reached) <= 2:  # a hub: nearly each edge leads to another vertex
                reached.append(min(n_vertices, reached[-1] + n_next))
            return _expected_levels(reached, n_vertices)
        edges = np.arange(n_next) + np.repeat(first - np.cumsum(degrees) + degrees, degrees)
        targets = col_indices[edges]
        level = np.unique(targets[~is_seen[targets]])
        if not len(level):
            break
        is_seen[level] = True
        reached.append(reached[-1] + len(level))
    return float(len(reached) - 1)


def _expected_levels(reached: list[int], n_vertices: int) -> float:
    """Return how many levels reach all vertices if the vertices `reached` up to a level go on to grow as its power.

    The power is about 1 on a ring or a long grid, 2 on a plane, and large if levels multiply.
    """
    n_levels = len(reached) - 1
    if reached[-1] == n_vertices:
        return float(n_levels)
    half = n_levels // 2 or 0.5
    power = max(1.0, log(reached[-1] / reached[int(half)]) / log(n_levels / half))
    return _FARTHER * n_levels * (n_vertices / reached[-1]) ** (1 / power)
