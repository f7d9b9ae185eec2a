"""The edges of a device graph in the order of their targets, and the way to a hub: made once, kept like the graph."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.kernels._compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels._device_graph import DeviceGraph
from sssp_pipeline.kernels._gpu import bits_type
from sssp_pipeline.kernels.near_far import NearFar
from sssp_pipeline.kernels.solver import SolveOptions

TRANSPOSE = Unit("transpose", ("count_kernel", "place_kernel"))

_BLOCK = 256


@dataclass(frozen=True, eq=False)
class IncomingEdges:
    """What leads to each vertex of a graph, on one device; never written to.

    Attributes
    ----------
    graph
        Rows by target: row `v` holds the edges that lead to `v`, each with the vertex it comes from.
    targets
        (E,) uint32, the row of each edge.
    to_hub
        (V,) bits of the distances from each vertex to one hub, "unreached" where there is no path that the type
        holds.
    """

    graph: DeviceGraph
    targets: Any
    to_hub: Any


_resident: weakref.WeakKeyDictionary[DeviceGraph, IncomingEdges] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def incoming_edges(graph: CsrGraph, on_device: DeviceGraph) -> IncomingEdges:
    """Return the edges of `graph` by target, on the device of `on_device`; the second call finds them there."""
    with _lock:
        if on_device not in _resident:
            _resident[on_device] = _made(graph, on_device)
        return _resident[on_device]


def _made(graph: CsrGraph, on_device: DeviceGraph) -> IncomingEdges:
    cupy = cupy_module()
    kernels = load_kernels(TRANSPOSE, on_device.dtype, wide_offsets=on_device.wide_offsets)
    offset_type = on_device.row_offsets.dtype.type
    n_edges = offset_type(on_device.n_edges)

    in_degrees = cupy.empty(on_device.n_vertices, np.uint32)
    in_degrees.data.memset_async(0, in_degrees.nbytes)
    count, place = kernels["count_kernel"], kernels["place_kernel"]
    count(count.resident_blocks(_BLOCK), _BLOCK, (*on_device.args, n_edges, in_degrees))
    in_degrees = in_degrees.get()
    offsets = np.zeros(on_device.n_vertices + 1, offset_type)
    np.cumsum(in_degrees, out=offsets[1:])

    row_offsets = cupy.empty(len(offsets), offset_type)
    row_offsets.set(offsets)
    places = cupy.empty(len(offsets), offset_type)
    places.set(offsets)
    edges = cupy.empty(on_device.edges.size, np.uint32)
    weights = None if on_device.weights is None else cupy.empty(on_device.n_edges, np.uint64)
    targets = cupy.empty(on_device.n_edges, np.uint32)
    args = (*on_device.args, np.uint32(on_device.n_vertices), n_edges, places, edges, weights, targets)
    place(place.resident_blocks(_BLOCK), _BLOCK, args)
    by_target = DeviceGraph(
        row_offsets,
        edges,
        weights,
        on_device.wide_offsets,
        on_device.n_vertices,
        on_device.n_edges,
        on_device.dtype,
    )

    # The vertex through which most paths of two edges lead.
    hub = int(np.argmax(in_degrees * np.diff(graph.row_offsets).astype(np.float64)))
    to_hub = cupy.empty(on_device.n_vertices, bits_type(on_device.dtype))
    search = NearFar().start(graph, by_target, SolveOptions())
    search.launch(to_hub, hub)
    search.finish()
    return IncomingEdges(by_target, targets, to_hub)
