"""The edges of a device graph with both of their ends, by source or by target: made once, kept like the graph."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.device_graph import DeviceGraph

TRANSPOSE = Unit("transpose", ("rows_kernel", "count_kernel", "place_kernel"))

_BLOCK = 256


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges one after the other (`edge_list.cuh`), on one device; never written to.

    Attributes
    ----------
    graph
        Rows by source; or by target: then row `v` holds the edges that lead to `v`, each with the vertex it comes from.
    rows
        (E,) uint32, the row of each edge.
    """

    graph: DeviceGraph
    rows: Any


#: The rows of each graph; and its edges by target, whose graph is another one.
_rows: weakref.WeakKeyDictionary[DeviceGraph, Any] = weakref.WeakKeyDictionary()
_by_target: weakref.WeakKeyDictionary[DeviceGraph, EdgeList] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


def edges_by_source(graph: DeviceGraph) -> EdgeList:
    """Return the edges of `graph` as they are, with the row of each; the second call finds that there."""
    with _lock:
        if graph not in _rows:
            kernel = load_kernels(TRANSPOSE, graph.dtype, wide_offsets=graph.wide_offsets)["rows_kernel"]
            rows = cupy_module().empty(graph.n_edges, np.uint32)
            n_edges = graph.row_offsets.dtype.type(graph.n_edges)
            args = (*graph.args, np.uint32(graph.n_vertices), n_edges, rows)
            kernel(kernel.resident_blocks(_BLOCK), _BLOCK, args)
            _rows[graph] = rows
        return EdgeList(graph, _rows[graph])


def edges_by_target(graph: DeviceGraph) -> EdgeList:
    """Return the edges of `graph` by target; the second call finds them there. Within a row they are in any order."""
    with _lock:
        if graph not in _by_target:
            _by_target[graph] = _transposed(graph)
        return _by_target[graph]


def _transposed(graph: DeviceGraph) -> EdgeList:
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

    row_offsets = cupy.empty(len(offsets), offset_type)
    row_offsets.set(offsets)
    places = cupy.empty(len(offsets), offset_type)
    places.set(offsets)
    edges = cupy.empty(graph.edges.size, np.uint32)
    weights = None if graph.weights is None else cupy.empty(n_edges, np.uint64)
    rows = cupy.empty(n_edges, np.uint32)
    args = (*graph.args, np.uint32(n_vertices), offset_type(n_edges), places, edges, weights, rows)
    place(place.resident_blocks(_BLOCK), _BLOCK, args)
    transposed = DeviceGraph(
        row_offsets, edges, weights, graph.wide_offsets, n_vertices, n_edges, graph.dtype
    )
    return EdgeList(transposed, rows)
