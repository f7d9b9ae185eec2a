"""Incoming edges of a device graph, and the distances to one hub, made once for each device graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.graphs.edge_lists import edges_by_target
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.near_far.near_far import NearFar
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph


@dataclass(frozen=True, eq=False)
class IncomingEdges:
    """The incoming edges of each vertex, on one device; never written to."""

    #: The graph with every edge reversed: row `v` holds the edges into `v`, each with the vertex where it begins.
    graph: DeviceGraph
    #: (E,) uint32 on the device: the row of each edge of `graph`.
    targets: Any
    #: (V,) on the device: the bits of the distance from each vertex to the hub. "Unreached" where there is no path,
    #: or where the type cannot hold its length.
    to_hub: Any


@kept_with_graph
def incoming_edges(on_device: DeviceGraph, graph: CsrGraph) -> IncomingEdges:
    """Return the edges of `graph` by target, on the device of its copy `on_device`."""
    by_target = edges_by_target(on_device)
    in_degrees = np.diff(by_target.graph.row_offsets.get())
    # The hub is the vertex in the middle of the most paths of two edges.
    hub = int(np.argmax(in_degrees * np.diff(graph.row_offsets).astype(np.float64)))
    to_hub = cupy_module().empty(on_device.n_vertices, bits_type(on_device.dtype))
    search = NearFar().start(graph, by_target.graph, SolveOptions())
    search.launch(to_hub, hub)
    search.finish()
    return IncomingEdges(by_target.graph, by_target.rows, to_hub)
