"""A graph and its distances as the CPU kernels take them: the same memory, every integer unsigned.

Weights that are not negative have the same bits signed or unsigned, so the kernels are compiled for four types,
not six, and none of their sums can turn negative.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sssp_pipeline.csr import CsrGraph, unreached_distance


@dataclass(frozen=True, eq=False)
class SearchGraph:
    """A graph as the kernels take it: the same memory, every integer unsigned.

    Attributes
    ----------
    row_offsets
        (V+1,) uint64.
    col_indices
        (E,) uint32.
    weights
        (E,) uint32, uint64, float32 or float64; not negative.
    """

    row_offsets: np.ndarray
    col_indices: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, graph: CsrGraph) -> SearchGraph:
        return cls(graph.row_offsets.view(np.uint64), graph.col_indices, unsigned(graph.weights))


def unsigned(values: np.ndarray) -> np.ndarray:
    """Return `values` themselves if floating, else an unsigned view of them."""
    return values if values.dtype.kind == "f" else values.view(f"u{values.dtype.itemsize}")


def distance_limit(dtype: np.dtype, cutoff: float | None) -> np.generic:
    """Return the least value of `dtype` that no reached vertex may have: just above `cutoff`.

    It is `unreached_distance(dtype)` where `cutoff` is None or not below the largest distance the type holds.
    """
    largest = largest_distance(dtype)
    if cutoff is None or cutoff >= largest:
        return unreached_distance(dtype)
    if dtype.kind != "f":
        return dtype.type(math.floor(cutoff) + 1)
    # The cutoff is rounded to the type as every weight was: a path of weight 0.3 is within a cutoff of 0.3.
    return np.nextafter(dtype.type(cutoff), dtype.type(np.inf))


def largest_distance(dtype: np.dtype) -> float:
    """Return the largest distance of `dtype` that does not mean "unreachable"."""
    return float(np.finfo(dtype).max) if dtype.kind == "f" else int(np.iinfo(dtype).max) - 1
