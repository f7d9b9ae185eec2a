"""The edges of a graph by target, and the work of a pull cut into items, made once for each device graph."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.graphs.edge_lists import TRANSPOSE
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph

#: Vertices of an item that has no hub, the most first. Each is a part of a word of a bitmap.
_GROUPS = (32, 16, 8, 4, 2, 1)
#: There are about `_ITEMS` items, four for each warp of an H200. This limits the edges of an item of several vertices.
#: It may have `_LEAST_EDGES` in any case, and never more than `_MOST_EDGES` times `item_edges`.
_MOST_EDGES, _LEAST_EDGES, _ITEMS = 2, 64, 12_672
#: Limits of the classes of vertices, by the number of edges into them. Edges that start in a larger class come first.
_CLASSES = (2**32 - 1, 4096, 512, 64, 8, 0)
_BLOCK = 256


@dataclass(frozen=True, eq=False)
class BitEdges:
    """What `bits-gpu` needs of a graph in addition to its copy on the device; never written to."""

    #: (V+1,) of the type of the row offsets, and (E,) uint32, on the device: where the edges into each vertex begin.
    into_offsets: Any
    starts: Any
    #: (n_items, 4) uint32 on the device: the first vertex of each item, a bit for each of its vertices, and 0, 0. Or a
    #: hub, 0, the number of the hub, and the part of it. Parts of hubs come first, since each takes long.
    items: Any
    #: (n_marked, 2) uint32 on the device: vertex and number of each chunk of the rows of more than `item_edges` edges.
    marked: Any
    #: Bitmap of the vertices with an edge into them, on the device and in host memory.
    into_words: Any
    host_words: np.ndarray
    n_items: int
    n_marked: int
    n_hubs: int


@kept_with_graph
def _made(graph: DeviceGraph) -> dict[int, BitEdges]:
    """Return what was made of `graph`, by `item_edges`."""
    return {}


def bit_edges(graph: DeviceGraph, unit: Unit, item_edges: int) -> BitEdges:
    """Return the edges of `graph` by target, and its items. Only the thread that has `GPU_LOCK` may call it.

    A vertex with more than `item_edges` edges is a hub. `unit` has the kernel that places edges.
    """
    made = _made(graph)
    if item_edges not in made:
        made[item_edges] = _by_target(graph, unit, item_edges)
    return made[item_edges]


def _by_target(graph: DeviceGraph, unit: Unit, item_edges: int) -> BitEdges:
    cupy = cupy_module()
    wide = graph.wide_offsets
    count = load_kernels(TRANSPOSE, graph.dtype, wide_offsets=wide)["count_kernel"]
    place = load_kernels(unit, graph.dtype, wide_offsets=wide)["bits_gpu_starts_kernel"]
    offset_type = graph.row_offsets.dtype
    in_degrees = cupy.empty(graph.n_vertices, np.uint32)
    in_degrees.data.memset_async(0, in_degrees.nbytes)
    args = (*graph.args, offset_type.type(graph.n_edges), in_degrees)
    count(count.resident_blocks(_BLOCK), _BLOCK, args)
    degrees = in_degrees.get()
    offsets = np.zeros(graph.n_vertices + 1, offset_type)
    np.cumsum(degrees, out=offsets[1:])
    into_offsets, places = (cupy.empty(len(offsets), offset_type) for _ in range(2))
    into_offsets.set(offsets)
    places.set(offsets)
    starts = cupy.empty(graph.n_edges, np.uint32)
    for most, least in pairwise(_CLASSES):
        of_class = into_offsets, np.uint32(least), np.uint32(most)
        args = (*graph.args, *graph.sizes, *of_class, places, starts)
        place(place.resident_blocks(_BLOCK), _BLOCK, args)
    items, n_hubs = listed_items(degrees, item_edges)
    marked = listed_chunks(np.diff(graph.row_offsets.get()), item_edges)
    words = bitmap_of(np.flatnonzero(degrees), graph.n_vertices)
    return BitEdges(
        into_offsets,
        starts,
        cupy.asarray(items),
        cupy.asarray(marked),
        cupy.asarray(words),
        host_words=words,
        n_items=len(items),
        n_marked=len(marked),
        n_hubs=n_hubs,
    )


def listed_items(degrees: np.ndarray, item_edges: int) -> tuple[np.ndarray, int]:
    """Return `BitEdges.items` for in-degrees (V,), in host memory, and the number of hubs."""
    most_edges = min(max(int(degrees.sum()) // _ITEMS, _LEAST_EDGES), _MOST_EDGES * item_edges)
    is_hub = degrees > item_edges
    parts = listed_chunks(degrees, item_edges)
    hubs = np.cumsum(is_hub)[parts[:, 0]] - 1
    found = [np.stack([parts[:, 0], np.zeros_like(hubs), hubs, parts[:, 1]], axis=1)]
    left = np.where(is_hub, 0, degrees).astype(np.int64)
    left = np.pad(left, (0, -len(left) % _GROUPS[0]))
    for size in _GROUPS:
        edges = left.reshape(-1, size).sum(axis=1)
        taken = np.flatnonzero((edges > 0) & ((edges <= most_edges) | (size == 1)))
        bits = (left.reshape(-1, size)[taken] > 0) @ (1 << np.arange(size))
        rest = np.zeros_like(taken)
        found.append(np.stack([taken * size, bits, rest, rest], axis=1))
        left.reshape(-1, size)[taken] = 0
    return np.concatenate(found).astype(np.uint32), int(is_hub.sum())


def listed_chunks(degrees: np.ndarray, item_edges: int) -> np.ndarray:
    """Return the chunks of the rows of more than `item_edges` edges, (n, 2) uint32: vertex and number in the row."""
    vertices = np.flatnonzero(degrees > item_edges)
    n_chunks = -(-degrees[vertices].astype(np.int64) // item_edges)
    numbers = np.arange(n_chunks.sum()) - np.repeat(np.cumsum(n_chunks) - n_chunks, n_chunks)
    return np.stack([np.repeat(vertices, n_chunks), numbers], axis=1).astype(np.uint32)


def bitmap_of(vertices: np.ndarray, n_vertices: int) -> np.ndarray:
    """Return the bitmap of `vertices`, (ceil(V / 32),) uint32."""
    is_in = np.zeros(-(-n_vertices // 32) * 32, bool)
    is_in[vertices] = True
    return np.packbits(is_in, bitorder="little").view(np.uint32)
