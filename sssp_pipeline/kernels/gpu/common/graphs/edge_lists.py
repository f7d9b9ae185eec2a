"""The edges of a device graph with both of their ends, by source or by target, made once for each device graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph

TRANSPOSE = Unit("transpose", ("rows_kernel", "count_kernel", "place_kernel"))

_BLOCK = 256


@dataclass(frozen=True, eq=False)
class EdgesWithRows:
    """The edges of a graph in one list (`edge_list.cuh`), on one device; never written to."""

    #: By source, the graph itself. By target, the graph with every edge reversed: row `v` holds the edges into `v`,
    #: each with the vertex where it begins.
    graph: DeviceGraph
    #: (E,) uint32 on the device: the row of each edge.
    rows: Any


def edges_by_source(graph: DeviceGraph) -> EdgesWithRows:
    """Return the edges of `graph` in their order, with the row of each."""
    return EdgesWithRows(graph, _rows(graph))


@kept_with_graph
def _rows(graph: DeviceGraph) -> Any:
    """Return the row of each edge, (E,) uint32 on the device."""
    kernel = load_kernels(TRANSPOSE, graph.dtype, wide_offsets=graph.wide_offsets)["rows_kernel"]
    rows = cupy_module().empty(graph.n_edges, np.uint32)
    kernel(kernel.resident_blocks(_BLOCK), _BLOCK, (*graph.args, *graph.sizes, rows))
    return rows


@kept_with_graph
def edges_by_target(graph: DeviceGraph) -> EdgesWithRows:
    """Return the edges of `graph` by target; within a row they are in any order."""
    cupy = cupy_module()
    kernels = load_kernels(TRANSPOSE, graph.dtype, wide_offsets=graph.wide_offsets)
    count, place = kernels["count_kernel"], kernels["place_kernel"]
    n_vertices, n_edges = graph.n_vertices, graph.n_edges
    offset_type = graph.row_offsets.dtype.type

    in_degrees = cupy.empty(n_vertices, np.uint32)
    in_degrees.data.memset_async(0, in_degrees.nbytes)
    count(count.resident_blocks(_BLOCK), _BLOCK, (*graph.args, offset_type(n_edges), in_degrees))
    offsets = np.zeros(n_vertices + 1, offset_type)
    np.cumsum(in_degrees.get(), out=offsets[1:])

    row_offsets, places = (cupy.empty(len(offsets), offset_type) for _ in range(2))
    row_offsets.set(offsets)
    places.set(offsets)
    edges = cupy.empty(graph.edges.size, np.uint32)
    weights = None if graph.weights is None else cupy.empty(n_edges, np.uint64)
    rows = cupy.empty(n_edges, np.uint32)
    args = (*graph.args, *graph.sizes, places, edges, weights, rows)
    place(place.resident_blocks(_BLOCK), _BLOCK, args)
    return EdgesWithRows(replace(graph, row_offsets=row_offsets, edges=edges, weights=weights), rows)
