"""Graphs in device memory.

A graph is uploaded once. Its copy is kept until the host's graph is deleted or another graph needs the memory. A copy
that a search still uses lives on, and a later call finds it, so no graph is on a device twice.
"""

from __future__ import annotations

import math
import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.error_text import Text, key
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.kernels.contract.forecast import MOST_EDGES_IN_32_BITS
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.graphs.pinned_upload import copy_to_device

#: Edges that are uploaded at a time. They take 256 MB on the device in addition to the graph.
_EDGES_AT_ONCE = 2**25
#: Copies of other graphs are kept only while 1 / `_FREE_SHARE` of the device stays free with a new graph. More searches
#: at once are faster, and they need memory.
_FREE_SHARE = 2

#: Compiled for 32-bit weights only; for others it has no kernel.
UPLOAD = Unit("upload", ("interleave_kernel",))


@dataclass(frozen=True, eq=False)
class DeviceGraph:
    """A graph on one device, in the layout of the kernels (`device_graph.cuh`); never written to."""

    #: (V+1,) uint32, or uint64 if `wide_offsets`.
    row_offsets: Any
    #: (2E,) uint32, target and weight alternating; for 64-bit weights (E,) uint32, only targets.
    edges: Any
    #: (E,) uint64, the bits of 64-bit weights; None for 32-bit weights.
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

    @property
    def sizes(self) -> tuple[np.generic, np.generic]:
        """The numbers of vertices and edges as arguments; edges are counted in the type of the row offsets."""
        return np.uint32(self.n_vertices), self.row_offsets.dtype.type(self.n_edges)


#: Copies by graph and device. `_kept` holds the kept ones, the most recently used last. `_alive` finds all.
_kept: weakref.WeakKeyDictionary[CsrGraph, dict[int, DeviceGraph]] = weakref.WeakKeyDictionary()
_alive: weakref.WeakKeyDictionary[CsrGraph, weakref.WeakValueDictionary[int, DeviceGraph]]
_alive = weakref.WeakKeyDictionary()
_lock = threading.RLock()
#: For graphs that the caller has on a device: their `row_offsets`, `col_indices` and `weights` there, which have the
#: values of those on the host. Each is a device array of any integer type or the type of the weights, or a host array.
_origins: weakref.WeakKeyDictionary[CsrGraph, tuple[Any, Any, Any]] = weakref.WeakKeyDictionary()


def set_origin(graph: CsrGraph, row_offsets: Any, col_indices: Any, weights: Any) -> None:
    """Take `graph` from these arrays of the caller in place of uploading it, on the device where they are.

    Parameters
    ----------
    row_offsets, col_indices
        Device arrays of any integer type, with the same values as the arrays of `graph`.
    weights
        Device array with the type and the values of `graph.weights`, or that array itself.
    """
    with _lock:
        _origins[graph] = row_offsets, col_indices, weights


def _arrays(graph: CsrGraph) -> tuple[Any, Any, Any]:
    """Return row offsets, targets and weights of `graph`: those on the current device if there are any."""
    origin = _origins.get(graph)
    if origin is not None and origin[0].device.id == cupy_module().cuda.Device().id:
        return origin
    return graph.row_offsets, graph.col_indices, graph.weights


def device_graph(graph: CsrGraph) -> DeviceGraph:
    """Return the copy of `graph` on the current device, uploading it if there is none.

    Copies of other graphs that no search uses are freed if it needs their memory, the least recently used first.

    Raises
    ------
    SsspError
        The graph does not fit (the message says how many bytes it needs), or there is no GPU.
    """
    cupy = cupy_module()
    device = cupy.cuda.Device().id
    with _lock:
        alive = _alive.setdefault(graph, weakref.WeakValueDictionary())
        copy = alive.get(device)
        if copy is None:
            wide_offsets = graph.n_edges > MOST_EDGES_IN_32_BITS
            _make_room(_device_bytes(graph, wide_offsets))
            copy = alive[device] = upload(graph, wide_offsets=wide_offsets)
        _kept[graph] = {**_kept.pop(graph, {}), device: copy}
        return copy


def drop_others(graph: CsrGraph) -> bool:
    """Stop keeping the copies of all other graphs; return whether there were any."""
    with _lock:
        others = [other for other in _kept if other is not graph]
        for other in others:
            del _kept[other]
        return bool(others)


def _make_room(n_bytes: int) -> None:
    wanted = n_bytes + cupy_module().cuda.runtime.memGetInfo()[1] // _FREE_SHARE
    for graph in list(_kept):
        if free_bytes() >= wanted:
            return
        del _kept[graph]


def _device_bytes(graph: CsrGraph, wide_offsets: bool) -> int:
    """Return the device memory of a copy of `graph`, with the buffers of its upload."""
    each = 4 + graph.weight_dtype.itemsize
    in_upload = min(graph.n_edges, _EDGES_AT_ONCE) if each == 8 else 0
    return (graph.n_vertices + 1) * (8 if wide_offsets else 4) + (graph.n_edges + in_upload) * each


def upload(graph: CsrGraph, *, wide_offsets: bool) -> DeviceGraph:
    """Return a new copy of `graph` on the current device. It raises the errors of `device_graph`."""
    cupy = cupy_module()
    dtype = graph.weight_dtype
    offset_type = np.uint64 if wide_offsets else np.uint32
    try:
        row_offsets = cupy.empty(graph.n_vertices + 1, offset_type)
        edges = cupy.empty(graph.n_edges * (2 if dtype.itemsize == 4 else 1), np.uint32)
        weights = cupy.empty(graph.n_edges, np.uint64) if dtype.itemsize == 8 else None
        offsets_from, targets_from, weights_from = _arrays(graph)
        bits = weights_from.view(f"u{dtype.itemsize}")
        copy_to_device(offsets_from, row_offsets)
        if weights is not None:
            copy_to_device(targets_from, edges)
            copy_to_device(bits, weights)
        else:
            _interleave(targets_from, bits, edges, dtype)
    except cupy.cuda.memory.OutOfMemoryError as error:
        raise out_of_memory(
            f"the graph ({graph.n_vertices:,} vertices, {graph.n_edges:,} edges)", error
        ) from error
    return DeviceGraph(row_offsets, edges, weights, wide_offsets, graph.n_vertices, graph.n_edges, dtype)


def _interleave(targets: Any, bits: Any, edges: Any, dtype: np.dtype) -> None:
    """Fill `edges` (2E,) on the device with target and weight alternating, some edges at a time."""
    cupy = cupy_module()
    kernel = load_kernels(UPLOAD, dtype)["interleave_kernel"]
    size = min(len(targets), _EDGES_AT_ONCE)
    on_device = [cupy.empty(size, np.uint32) for _ in range(2)]
    for first in range(0, len(targets), _EDGES_AT_ONCE):
        count = min(_EDGES_AT_ONCE, len(targets) - first)
        for array, values in zip(on_device, (targets, bits), strict=True):
            copy_to_device(values[first : first + count], array[:count])
        kernel(-(-count // 256), 256, (*on_device, np.uint64(count), edges[2 * first :]))


def rows_on_device(graph: CsrGraph, shape: tuple[int, int], dtype: np.dtype) -> Any:
    """Return an uninitialised array on the current device for rows that a search over `graph` makes.

    Copies of other graphs are freed if it needs their memory.

    Raises
    ------
    SsspError
        There is no GPU, or not enough memory.
    """
    cupy = cupy_module()
    while True:
        try:
            rows = cupy.empty(shape, dtype)
        except cupy.cuda.memory.OutOfMemoryError as error:
            if drop_others(graph):
                continue
            n_bytes, free = math.prod(shape) * dtype.itemsize, free_bytes()
            raise SsspError(
                f"the distances ({shape[0]:,} sources, {shape[1]:,} vertices) take {n_bytes / 2**30:.1f} GiB, and "
                f"{free / 2**30:.1f} GiB of the GPU are free",
                hint="`on_device=False` keeps them in host memory, for `.numpy()`; or take fewer sources, or targets",
            ) from error
        # Solvers write to it on streams of their own. What used this memory before may still run on this one.
        cupy.cuda.get_current_stream().synchronize()
        return rows


def free_bytes() -> int:
    """Return the free memory of the current device, with the unused memory of CuPy's pool."""
    cupy = cupy_module()
    return int(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes())


def obtainable_bytes() -> int:
    """Return the memory of the current device that a call can have: free memory and the memory of kept graphs."""
    cupy = cupy_module()
    device = cupy.cuda.Device().id
    with _lock:
        kept = [copies[device] for copies in _kept.values() if device in copies]
    return free_bytes() + sum(copy.device_bytes for copy in kept)


def out_of_memory(what: str, error: Exception) -> SsspError:
    """Return the error to raise when `what` does not fit the device."""
    cupy = cupy_module()
    free, total = cupy.cuda.runtime.memGetInfo()
    return SsspError(
        f"{what} does not fit the GPU: {error}",
        hint=Text(
            f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB are free; ",
            key("solve.solver", "delta-stepping"),
            " needs no GPU",
        ),
    )
