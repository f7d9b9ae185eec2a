"""The class of every edge of a device graph (`edge_classes.cuh`), found once for each device graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph

EDGE_CLASSES = Unit("edge_classes", ("edge_degrees_kernel", "count_classes_kernel", "mark_edges_kernel"))
#: A vertex number below this leaves two bits free for the class of an edge.
MOST_VERTICES = 2**30

_BLOCK = 256
#: As in `edge_classes.cuh`.
_CLASSES, _INTO_LEAF = 4, 2


@dataclass(frozen=True, eq=False)
class ClassifiedEdges:
    """A graph on one device with the classes of its edges; never written to."""

    #: The graph with the class of each edge in the top two bits of its target. It shares row offsets and 64-bit
    #: weights with the original graph. It also shares the edges if all of them are ordinary.
    graph: DeviceGraph
    #: (L, 2) uint32 on the device: source and target of each edge into a leaf, in any order.
    leaf_ends: Any
    #: (L,) on the device: the bits of the weights of these edges.
    leaf_weights: Any
    #: Whether the graph has no parallel edges.
    rows_ascend: bool


@kept_with_graph
def classified_edges(on_device: DeviceGraph, *, signed: bool) -> ClassifiedEdges:
    """Return the edges of a graph with their classes, on its device.

    `signed` says whether any weight is negative.
    """
    cupy = cupy_module()
    kernels = load_kernels(EDGE_CLASSES, on_device.dtype, wide_offsets=on_device.wide_offsets, signed=signed)

    def run(name: str, *args: Any) -> None:
        kernel = kernels[name]
        kernel(kernel.resident_blocks(_BLOCK), _BLOCK, (*on_device.args, *on_device.sizes, *args))

    n_vertices = on_device.n_vertices
    in_degrees, loops, parallel = (_zeros(count, np.uint32) for count in (n_vertices, n_vertices, 1))
    counts, n_listed = _zeros(_CLASSES, np.uint64), _zeros(1, np.uint64)
    run("edge_degrees_kernel", in_degrees, loops, parallel)
    run("count_classes_kernel", in_degrees, loops, counts)
    n_edges_of_class = counts.get()
    n_leaf_edges = int(n_edges_of_class[_INTO_LEAF])
    leaf_ends = cupy.empty((n_leaf_edges, 2), np.uint32)
    leaf_weights = cupy.empty(n_leaf_edges, bits_type(on_device.dtype))
    marked = replace(on_device)  # not the device graph itself: see `kept_with_graph`
    if n_edges_of_class[1:].any():
        marked = replace(on_device, edges=cupy.empty(on_device.edges.size, np.uint32))
        run("mark_edges_kernel", in_degrees, loops, marked.edges, n_listed, leaf_ends, leaf_weights)
    return ClassifiedEdges(marked, leaf_ends, leaf_weights, rows_ascend=not parallel.get()[0])


def _zeros(count: int, dtype: type) -> Any:
    array = cupy_module().empty(count, dtype)
    array.data.memset_async(0, array.nbytes)
    return array
