"""Graphs that a caller has in the memory of a device. They are checked there, and the host copies what it needs."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import WEIGHT_DTYPES, CsrGraph, GraphTraits
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import set_origin


class CallersGraph(CsrGraph):
    """A graph of arrays on a device, already checked. Each is copied to host memory when it is first read there.

    Parameters
    ----------
    row_offsets, col_indices, weights
        As in `CsrGraph`, but device arrays, and the first two of any integer type.
    """

    def __init__(self, row_offsets: Any, col_indices: Any, weights: Any, traits: GraphTraits) -> None:
        self.__dict__.update(traits=traits, _on_device=(row_offsets, col_indices, weights))
        set_origin(self, row_offsets, col_indices, weights)

    @cached_property
    def row_offsets(self) -> np.ndarray:
        return self._copied(0, np.int64)

    @cached_property
    def col_indices(self) -> np.ndarray:
        return self._copied(1, np.uint32)

    @cached_property
    def weights(self) -> np.ndarray:
        return self._copied(2, self.weight_dtype)

    @property
    def n_vertices(self) -> int:
        return self.traits.n_vertices

    @property
    def n_edges(self) -> int:
        return self.traits.n_edges

    @property
    def weight_dtype(self) -> np.dtype:
        return self.traits.weight_dtype

    @property
    def graph_bytes(self) -> int:
        return 8 * (self.n_vertices + 1) + (4 + self.weight_dtype.itemsize) * self.n_edges

    @cached_property
    def levels(self) -> float | None:
        """None: a search would copy the edges to the host."""
        return None

    def _copied(self, place: int, dtype: Any) -> np.ndarray:
        copied: np.ndarray = self.__dict__["_on_device"][place].get().astype(dtype, copy=False)
        return copied


def callers_graph(row_offsets: Any, col_indices: Any, weights: Any) -> CallersGraph | None:
    """Return the graph of these arrays (V+1,), (E,) and (E,) of CuPy; None where the host has to look at them.

    That is where `traits_of_arrays` is None, where they are on another device than the current one, and where its
    memory is too small for the check.
    """
    cupy = cupy_module()
    if {array.device.id for array in (row_offsets, col_indices, weights)} != {cupy.cuda.Device().id}:
        return None
    try:
        traits = traits_of_arrays(row_offsets, col_indices, weights)
    except cupy.cuda.memory.OutOfMemoryError:
        return None
    if traits is None:
        return None
    return CallersGraph(row_offsets, col_indices[: traits.n_edges], weights[: traits.n_edges], traits)


def traits_of_arrays(row_offsets: Any, col_indices: Any, weights: Any) -> GraphTraits | None:
    """Return the traits of a graph. Only single numbers are copied from a device.

    None if something is wrong, so that the host finds the first wrong value; and for graphs that need other rules than
    most: those without edges, of integers, with subnormal weights, or with a sum of weights above float64.

    Parameters
    ----------
    row_offsets, col_indices, weights
        (V+1,), (at least E,) and (at least E,), arrays of CuPy or NumPy. E is the last of `row_offsets`.
    """
    dtype = np.dtype(weights.dtype)
    if dtype.kind != "f" or dtype not in WEIGHT_DTYPES or not len(row_offsets):
        return None
    n_vertices, n_edges = len(row_offsets) - 1, int(row_offsets[-1])
    if int(row_offsets[0]) != 0 or not 0 < n_edges <= min(len(col_indices), len(weights)):
        return None
    if not bool((row_offsets[1:] >= row_offsets[:-1]).all()):
        return None
    targets, values = col_indices[:n_edges], weights[:n_edges]
    if int(targets.min()) < 0 or int(targets.max()) >= n_vertices or not _are_normal(values):
        return None
    mean = float(values.mean(dtype=np.float64))
    if not np.isfinite(mean):
        return None
    degrees = (row_offsets[1:] - row_offsets[:-1]).astype(np.float64)
    skew = float((degrees * degrees).sum()) / n_vertices / (n_edges / n_vertices) ** 2
    return GraphTraits(n_vertices, n_edges, dtype, float(values.min()), float(values.max()), mean, skew)


def _are_normal(values: Any) -> bool:
    """Return whether all `values` (n,), n > 0, are finite and none is subnormal.

    It compares bits: CuPy's kernels take a subnormal float32 for zero.
    """
    word = np.dtype(f"u{values.dtype.itemsize}").type
    least, limit = (
        int(np.array([bound], values.dtype).view(word)[0]) << 1
        for bound in (np.finfo(values.dtype).tiny, np.inf)
    )
    without_sign = values.view(word) << word(1)
    # Zero less one is the largest word.
    return int(without_sign.max()) < limit and int((without_sign - word(1)).min()) >= least - 1
