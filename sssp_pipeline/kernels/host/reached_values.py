"""What sources reach, taken out of whole rows."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.reached import Reached
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO


def reached_of(solution: Solution) -> Reached:
    """Return what the sources of `solution` reach. It has the distances to all vertices, or `reached`."""
    if solution.reached is not None:
        return solution.reached
    if solution.facts is None or solution.facts.n_present is None:
        return reached_values(solution.distances)
    is_reached, distances = solution.facts.selected(solution.distances)
    return Reached(is_reached.sum(axis=1), np.nonzero(is_reached)[1].astype(np.uint32), distances)


def reached_values(distances: np.ndarray) -> Reached:
    """Return what each row of `distances` (S, V) reaches. They may have any type of weights, and are not changed."""
    # Only equal bits are compared, so two kernels do for all types.
    word = np.dtype(f"u{distances.dtype.itemsize}")
    rows = np.ascontiguousarray(distances).view(word)
    unreached = np.array(unreached_distance(distances.dtype), distances.dtype).view(word)[()]
    counts = np.empty(len(rows), np.int64)
    _count(rows, unreached, counts)
    vertices = np.empty(counts.sum(), np.uint32)
    values = np.empty(len(vertices), word)
    _fill(rows, unreached, vertices, values)
    return Reached(counts, vertices, values.view(distances.dtype))


@njit(nogil=True)
def _count(rows: np.ndarray, unreached: np.unsignedinteger, counts: np.ndarray) -> None:
    for i in range(len(rows)):
        row, count = rows[i], 0
        for v in range(len(row)):
            count += row[v] != unreached
        counts[i] = count


@njit(nogil=True)
def _fill(rows: np.ndarray, unreached: np.unsignedinteger, vertices: np.ndarray, values: np.ndarray) -> None:
    end = ZERO
    for i in range(len(rows)):
        row = rows[i]
        for v in range(len(row)):
            if row[v] != unreached:
                vertices[end] = v
                values[end] = row[v]
                end += ONE
