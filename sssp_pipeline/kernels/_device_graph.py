"""Graphs in device memory: uploaded once, kept as long as the host's graph lives, then freed."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import SsspError
from sssp_pipeline.kernels._compile import MOST_EDGES_IN_32_BITS, Unit, cupy_module, load_kernels

#: Edges on their way at a time: 256 MB of targets and weights beside the graph.
_PIECE = 2**25

#: For 32-bit weights; there is nothing in it for the others.
UPLOAD = Unit("upload", ("interleave_kernel",))


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A graph as the kernels take it (`device_graph.cuh`), on one device; never written to.

    Attributes
    ----------
    row_offsets
        (V+1,) uint32, or uint64 if `wide_offsets`.
    edges
        (2E,) uint32, target and weight in turn; (E,) uint32 targets alone for 64-bit weights.
    weights
        (E,) uint64, the bits of 64-bit weights; None for 32-bit weights.
    """

    row_offsets: Any
    edges: Any
    weights: Any
    wide_offsets: bool
    n_vertices: int
    n_edges: int
    dtype: np.dtype

    @property
    def device_bytes(self) -> int:
        arrays = (self.row_offsets, self.edges, self.weights)
        return sum(array.nbytes for array in arrays if array is not None)

    @property
    def args(self) -> tuple[Any, Any, Any]:
        """The first three arguments of every kernel that walks edges."""
        return self.row_offsets, self.edges, self.weights


_resident: weakref.WeakKeyDictionary[CsrGraph, dict[int, DeviceGraph]] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def device_graph(graph: CsrGraph) -> DeviceGraph:
    """Return `graph` in the memory of the current device; the second call finds it there.

    Raises
    ------
    SsspError
        It does not fit, with the bytes it needs; or there is no GPU.
    """
    cupy = cupy_module()
    device = cupy.cuda.Device().id
    with _lock:
        copies = _resident.setdefault(graph, {})
        if device not in copies:
            copies[device] = upload(graph, wide_offsets=graph.n_edges > MOST_EDGES_IN_32_BITS)
        return copies[device]


def upload(graph: CsrGraph, *, wide_offsets: bool) -> DeviceGraph:
    """Return a new copy of `graph` on the current device; raises as `device_graph`."""
    cupy = cupy_module()
    dtype = graph.weight_dtype
    offset_type = np.uint64 if wide_offsets else np.uint32
    try:
        row_offsets = cupy.empty(graph.n_vertices + 1, offset_type)
        edges = cupy.empty(graph.n_edges * (2 if dtype.itemsize == 4 else 1), np.uint32)
        weights = cupy.empty(graph.n_edges, np.uint64) if dtype.itemsize == 8 else None
        row_offsets.set(graph.row_offsets.astype(offset_type))
        bits = graph.weights.view(f"u{dtype.itemsize}")
        if weights is not None:
            edges.set(np.ascontiguousarray(graph.col_indices))
            weights.set(np.ascontiguousarray(bits))
        else:
            _interleave(graph.col_indices, bits, edges, dtype)
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise out_of_memory(
            f"the graph ({graph.n_vertices:,} vertices, {graph.n_edges:,} edges)", error
        ) from error
    return DeviceGraph(row_offsets, edges, weights, wide_offsets, graph.n_vertices, graph.n_edges, dtype)


def _interleave(targets: np.ndarray, bits: np.ndarray, edges: Any, dtype: np.dtype) -> None:
    """Fill `edges` (2E,) on the device with target and weight in turn, piece by piece."""
    cupy = cupy_module()
    kernel = load_kernels(UPLOAD, dtype)["interleave_kernel"]
    size = min(len(targets), _PIECE)
    on_device = [cupy.empty(size, np.uint32) for _ in range(2)]
    for first in range(0, len(targets), _PIECE):
        count = min(_PIECE, len(targets) - first)
        for array, values in zip(on_device, (targets, bits), strict=True):
            array[:count].set(np.ascontiguousarray(values[first : first + count]))
        kernel(-(-count // 256), 256, (*on_device, np.uint64(count), edges[2 * first :]))


def free_device_bytes() -> int:
    """Return how much of the current device's memory is free."""
    return int(cupy_module().cuda.runtime.memGetInfo()[0])


def out_of_memory(what: str, error: Exception) -> SsspError:
    """Return the error to raise when `what` does not fit the device."""
    cupy = cupy_module()
    free, total = cupy.cuda.runtime.memGetInfo()
    return SsspError(
        f"{what} does not fit the GPU: {error}",
        hint=f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB are free; `solve.solver: delta-stepping` needs no GPU",
    )
