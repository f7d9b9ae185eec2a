"""Shortest paths from a source to many vertices, from the predecessors of all vertices."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.numba_cache import njit


def paths_to(predecessors: np.ndarray, source: int, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many vertices each path has, (T,) int64, and the vertices of all paths in a row, uint32.

    A path has both ends. It has no vertex if the target is unreached.

    Parameters
    ----------
    predecessors
        (V,) uint32, `NO_VERTEX` for the source and for unreached vertices.
    targets
        (T,) vertices.
    """
    ends = targets.astype(np.uint32)
    counts = _count(predecessors, np.uint32(source), ends)
    vertices = np.empty(counts.sum(), np.uint32)
    _fill(predecessors, ends, counts, vertices)
    return counts, vertices


@njit(nogil=True)
def _count(predecessors: np.ndarray, source: np.uint32, targets: np.ndarray) -> np.ndarray:
    counts = np.zeros(len(targets), np.int64)
    for i in range(len(targets)):
        v, n = targets[i], 1
        while v != source and v != NO_VERTEX:
            v = predecessors[v]
            n += 1
        if v == source:
            counts[i] = n
    return counts


@njit(nogil=True)
def _fill(predecessors: np.ndarray, targets: np.ndarray, counts: np.ndarray, vertices: np.ndarray) -> None:
    end = 0
    for i in range(len(targets)):
        end += counts[i]
        v = targets[i]
        for k in range(1, counts[i] + 1):
            vertices[end - k] = v
            v = predecessors[v]
