"""A graph and its distances in the types of the CPU kernels: the same memory, with integers as unsigned ones.

Weights of zero or more have the same bits signed or unsigned. So the kernels are compiled for four types, not six, and
none of their sums can turn negative. Graphs with negative weights keep their types.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sssp_pipeline.base.csr import CsrGraph


class SearchGraph(NamedTuple):
    """A graph in the types of the CPU kernels, in the same memory. numba passes it like single arrays."""

    #: (V+1,) uint64.
    row_offsets: np.ndarray
    #: (E,) uint32.
    col_indices: np.ndarray
    #: (E,) uint32, uint64, float32 or float64; int32 or int64 only where one is negative.
    weights: np.ndarray

    @classmethod
    def of(cls, graph: CsrGraph) -> SearchGraph:
        weights = as_searched(graph, graph.weights)
        return cls(graph.row_offsets.view(np.uint64), graph.col_indices, weights)


def as_searched(graph: CsrGraph, values: np.ndarray) -> np.ndarray:
    """Return weights or distances of `graph` for the kernels: the array itself, or an unsigned view of it."""
    if values.dtype.kind == "f" or graph.traits.min_weight < 0:
        return values
    return values.view(f"u{values.dtype.itemsize}")


def distances_of_bits(bits: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the distances of `dtype` with the given bits, those of SSSP_SIGNED (`relax.cuh`), in the same memory."""
    sign = bits.dtype.type(1 << (8 * dtype.itemsize - 1))
    inverted = np.where(bits < sign, ~bits.dtype.type(0), sign) if dtype.kind == "f" else sign
    np.bitwise_xor(bits, inverted, out=bits)
    return bits.view(dtype)


def bits_of_distances(distances: np.ndarray) -> np.ndarray:
    """Return the bits of `distances` with SSSP_SIGNED in a new array; the inverse of `distances_of_bits`."""
    bits = distances.view(f"u{distances.dtype.itemsize}")
    sign = bits.dtype.type(1 << (8 * bits.dtype.itemsize - 1))
    negative_float = (bits >= sign) & (distances.dtype.kind == "f")
    return bits ^ np.where(negative_float, ~bits.dtype.type(0), sign)
