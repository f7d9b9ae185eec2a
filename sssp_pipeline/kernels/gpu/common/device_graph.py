"""Graphs in device memory: uploaded once, kept while the host's graph lives and no other needs the room, then freed.

What a search uses lives on without being kept, and is found again: no graph is on a device twice.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import SsspError
from sssp_pipeline.kernels.forecast import MOST_EDGES_IN_32_BITS
from sssp_pipeline.kernels.gpu.common.compile import Unit, cupy_module, load_kernels

P = ParamSpec("P")
T = TypeVar("T")

#: Edges that are uploaded at a time. They take 256 MB on the device beside the graph.
_EDGES_AT_ONCE = 2**25
#: Graphs of earlier calls stay only while one half of the device is free beside a new one: searches are faster the
#: more of them have room.
_FREE_SHARE = 2

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


#: Those kept, the last used last; and all there are.
_kept: weakref.WeakKeyDictionary[CsrGraph, dict[int, DeviceGraph]] = weakref.WeakKeyDictionary()
_alive: weakref.WeakKeyDictionary[CsrGraph, weakref.WeakValueDictionary[int, DeviceGraph]]
_alive = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def device_graph(graph: CsrGraph) -> DeviceGraph:
    """Return `graph` in the memory of the current device; the second call finds it there.

    Others that were there make room for it, the longest unused first, but for those that a search uses.

    Raises
    ------
    SsspError
        It does not fit, with the bytes it needs; or there is no GPU.
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


def kept_with_graph(
    make: Callable[Concatenate[DeviceGraph, P], T],
) -> Callable[Concatenate[DeviceGraph, P], T]:
    """Return a function like `make` that keeps each result for as long as its first argument, a device graph.

    `make` runs once for each device graph, in one thread at a time. Its result must not refer to that device graph:
    then neither would ever be freed.
    """
    kept: weakref.WeakKeyDictionary[DeviceGraph, T] = weakref.WeakKeyDictionary()
    lock = threading.RLock()

    @wraps(make)
    def kept_or_made(on_device: DeviceGraph, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with lock:
            if on_device not in kept:
                kept[on_device] = make(on_device, *args, **kwargs)
            return kept[on_device]

    return kept_or_made


def drop_others(graph: CsrGraph) -> bool:
    """Keep no device's copy of any other graph; return whether one was kept."""
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
    """Return what a copy of `graph` takes, and what is on its way to it."""
    each = 4 + graph.weight_dtype.itemsize
    on_its_way = min(graph.n_edges, _EDGES_AT_ONCE) if each == 8 else 0
    return (graph.n_vertices + 1) * (8 if wide_offsets else 4) + (graph.n_edges + on_its_way) * each


def upload(graph: CsrGraph, *, wide_offsets: bool) -> DeviceGraph:
    """Return a new copy of `graph` on the current device; raises as `device_graph`."""
    cupy = cupy_module()
    dtype = graph.weight_dtype
    offset_type = np.uint64 if wide_offsets else np.uint32
    try:
        row_offsets = cupy.empty(graph.n_vertices + 1, offset_type)
        edges = cupy.empty(graph.n_edges * (2 if dtype.itemsize == 4 else 1), np.uint32)
        weights = cupy.empty(graph.n_edges, np.uint64) if dtype.itemsize == 8 else None
        bits = graph.weights.view(f"u{dtype.itemsize}")
        row_offsets.set(np.ascontiguousarray(graph.row_offsets, offset_type))
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
    size = min(len(targets), _EDGES_AT_ONCE)
    on_device = [cupy.empty(size, np.uint32) for _ in range(2)]
    for first in range(0, len(targets), _EDGES_AT_ONCE):
        count = min(_EDGES_AT_ONCE, len(targets) - first)
        for array, values in zip(on_device, (targets, bits), strict=True):
            array[:count].set(np.ascontiguousarray(values[first : first + count]))
        kernel(-(-count // 256), 256, (*on_device, np.uint64(count), edges[2 * first :]))


def free_bytes() -> int:
    """Return how much memory of the current device can be had, what CuPy holds back included."""
    cupy = cupy_module()
    return int(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes())


def obtainable_bytes() -> int:
    """Return how much memory of the current device a call can have: free, or held by graphs that may go."""
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
        hint=f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB are free; `solve.solver: delta-stepping` needs no GPU",
    )
