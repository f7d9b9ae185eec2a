"""The edges of a device graph in the order of their targets, and the way to a hub: made once, kept like the graph."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.kernels.gpu.common.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.device_words import bits_type
from sssp_pipeline.kernels.gpu.common.edge_lists import edges_by_target
from sssp_pipeline.kernels.gpu.near_far.near_far import NearFar
from sssp_pipeline.kernels.solver import SolveOptions


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
    by_target = edges_by_target(on_device)
    in_degrees = np.diff(by_target.graph.row_offsets.get())
    # The vertex through which most paths of two edges lead.
    hub = int(np.argmax(in_degrees * np.diff(graph.row_offsets).astype(np.float64)))
    to_hub = cupy_module().empty(on_device.n_vertices, bits_type(on_device.dtype))
    search = NearFar().start(graph, by_target.graph, SolveOptions())
    search.launch(to_hub, hub)
    search.finish()
    return IncomingEdges(by_target.graph, by_target.rows, to_hub)
