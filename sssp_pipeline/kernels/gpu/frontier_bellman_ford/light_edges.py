"""Rows that begin with their light edges, and the heavy edges by target, made once for each device graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph, free_bytes
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph

LIGHT_EDGES = Unit("light_edges", ("heavy_degrees_kernel", "place_edges_kernel"))

#: Light edges of a vertex in the mean: enough of them to reach nearly all vertices. With hubs, fewer are enough.
#: `benchmarks/kernel_constants.md` has the measurements.
_LIGHT_DEGREE, _LIGHT_DEGREE_WITH_HUBS = 3.2, 0.8
#: A frontier is wide if it has more entries than this share of the vertices. With hubs its rows are longer.
_WIDE_SHARE, _WIDE_SHARE_WITH_HUBS = 1 / 8, 1 / 32
#: The weights of about this many edges decide which edges are light.
_SAMPLE = 2**16
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class LightEdges:
    """A graph on one device, with its light edges apart from the heavy ones; never written to."""

    #: The graph with marked edges; in each row the light edges come first.
    graph: DeviceGraph
    #: (V,) of the type of the row offsets, on the device: where the light edges of each row end.
    light_ends: Any
    #: The bits of the largest light weight.
    bound: np.generic
    #: Light edges come first from a frontier of more entries on.
    wide_entries: np.uint32
    #: The heavy edges by target: row `v` holds the heavy edges into `v`, each with the vertex where it begins.
    into: DeviceGraph


@kept_with_graph
def _made(on_device: DeviceGraph) -> dict[bool, LightEdges | None]:
    """Return what was made of a graph, by `has_hubs`."""
    return {}


def light_edges(on_device: DeviceGraph, marked: DeviceGraph, *, has_hubs: bool) -> LightEdges | None:
    """Return the light and heavy edges of a graph, or None if its weights do not divide them or memory is short.

    They are made once and stay with the graph. If memory is short, the next call tries again. Only the thread that has
    `GPU_LOCK` may call it.

    Parameters
    ----------
    on_device
        The graph, with weights of zero or more.
    marked
        The graph with the class of each edge (`edge_classes.py`).
    has_hubs
        Whether some vertices have very many edges. Then fewer edges are light.
    """
    made = _made(on_device)
    if has_hubs not in made:
        if 2 * marked.device_bytes > free_bytes() // 2:
            return None
        made[has_hubs] = _divided(marked, has_hubs)
    return made[has_hubs]


def _divided(marked: DeviceGraph, has_hubs: bool) -> LightEdges | None:
    cupy = cupy_module()
    n_vertices, n_edges = marked.n_vertices, marked.n_edges
    degree = _LIGHT_DEGREE_WITH_HUBS if has_hubs else _LIGHT_DEGREE
    wide_share = _WIDE_SHARE_WITH_HUBS if has_hubs else _WIDE_SHARE
    bits = marked.edges[1::2] if marked.weights is None else marked.weights
    sample = np.sort(bits[:: -(-n_edges // _SAMPLE)].get())
    bound = sample[min(int(degree * n_vertices / n_edges * len(sample)), len(sample) - 1)]
    if bound == sample[-1]:
        return None
    kernels = load_kernels(LIGHT_EDGES, marked.dtype, wide_offsets=marked.wide_offsets)

    def run(name: str, *args: Any) -> None:
        kernel = kernels[name]
        kernel(kernel.resident_blocks(_BLOCK), _BLOCK, (*marked.args, *args))

    into_degrees = cupy.empty(n_vertices, np.uint32)
    into_degrees.data.memset_async(0, into_degrees.nbytes)
    run("heavy_degrees_kernel", marked.sizes[1], bound, into_degrees)
    offsets = np.zeros(n_vertices + 1, marked.row_offsets.dtype)
    np.cumsum(into_degrees.get(), out=offsets[1:])
    n_pulled = int(offsets[-1])

    def empty_edges(count: int) -> tuple[Any, Any]:
        weights = None if marked.weights is None else cupy.empty(count, np.uint64)
        return cupy.empty(count * (2 if weights is None else 1), np.uint32), weights

    into_offsets, into_places = cupy.asarray(offsets), cupy.asarray(offsets)
    light_ends, heavy_begins = marked.row_offsets[:-1].copy(), marked.row_offsets[1:].copy()
    placed, into = empty_edges(n_edges), empty_edges(n_pulled)
    run("place_edges_kernel", *marked.sizes, bound, light_ends, heavy_begins, into_places, *placed, *into)
    return LightEdges(
        replace(marked, edges=placed[0], weights=placed[1]),
        light_ends,
        bound,
        np.uint32(wide_share * n_vertices),
        replace(marked, row_offsets=into_offsets, edges=into[0], weights=into[1], n_edges=n_pulled),
    )
