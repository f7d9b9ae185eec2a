"""A hierarchy on the device: its arcs for the climb, and the matrices of its chunks for the sweep.

Order, completion and chunks are made on the host, once for a graph. The device makes what depends on the weights
(`customize.cu`, `matrices.cu`).
"""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup, wait_for
from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.gpu.common.cuda.compile import Kernel, Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.repeated_launches import RepeatedLaunches
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph, kept_with_graph
from sssp_pipeline.kernels.gpu.common.graphs.pinned_upload import copy_to_device
from sssp_pipeline.kernels.hierarchy.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.chunks import TILE, Chunks, cut
from sssp_pipeline.kernels.hierarchy.compile_ahead import one_arc
from sssp_pipeline.kernels.hierarchy.shared import shared_completion
from sssp_pipeline.kernels.host.numba_tools import ONE

#: Up to this length, distances fit the 32 bits of a word; as in `sweep_words.cuh`.
MOST_NARROW = 2**31 - 2
_BLOCK, _TRIANGLES_BLOCK = 256, 128
#: A vertex with many arcs is shared by blocks, each with this many of them.
_ARCS_A_BLOCK = 8
#: As `Chunk` and `Tile` of the kernels.
_CHUNK = struct_type(Path(__file__).with_name("sweep_words.cuh"), "Chunk")
_TILE = struct_type(Path(__file__).with_name("call.cuh"), "Tile")


def customize_unit(*, wide: bool) -> Unit:
    """Return the unit of the kernels that compute the weights of arcs, with words of 64 bits if `wide`."""
    names = "take_edges", "compare", "lower_triangles", "longest", "top", "shorten"
    return Unit("customize", tuple(f"{name}_kernel" for name in names), (("SSSP_WIDE", int(wide)),))


def matrices_unit(*, wide: bool) -> Unit:
    """Return the unit of the kernel that computes the matrices of the chunks."""
    return Unit("matrices", ("matrices_kernel",), (("SSSP_WIDE", int(wide)),))


#: Bands of at most so many chunks are climbed by products over lanes, if a source reads at least so many words there.
MOST_TOGETHER, LEAST_WORDS = 4, 2**20


class TogetherBand(NamedTuple):
    """Chunks that all sources climb together."""

    first_chunk: int
    n_chunks: int
    #: The most tiles of a chunk, counted with those of its boundary.
    n_tiles: int


class Band(NamedTuple):
    """Tiles that do not depend on each other: those from `first` to `end` - 1."""

    first: int
    end: int
    #: The most boundary vertices of a tile.
    most_boundary: int
    #: The place after those of its rows.
    end_place: int


def bands_of(tiles: np.ndarray, limits: np.ndarray) -> list[Band]:
    """Return the bands of some tiles; those of band `b` are `tiles[limits[b]:limits[b + 1]]`."""
    ends = tiles["first_place"] + tiles["n_rows"]
    return [
        Band(
            first,
            end,
            int(np.max(tiles["n_boundary"][first:end], initial=0)),
            int(np.max(ends[first:end], initial=0)),
        )
        for first, end in zip(limits[:-1].tolist(), limits[1:].tolist(), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class HostHierarchy:
    """What does not depend on the weights, in host memory."""

    completion: Completion
    chunks: Chunks

    @cached_property
    def next_chunks(self) -> np.ndarray:
        """(V,) uint32, by rank: the chunk of the nearest ancestor in another chunk, or `NO_VERTEX`."""
        next_chunks = np.empty(self.completion.n_vertices, np.uint32)
        _fill_next_chunks(self.completion.parents, self.chunks.chunk_of, next_chunks)
        return next_chunks

    @cached_property
    def by_height(self) -> tuple[np.ndarray, np.ndarray]:
        """The ranks (V,) uint32 by their height over the leaves, and where each height begins."""
        heights = np.zeros(self.completion.n_vertices, np.uint32)
        _fill_heights(self.completion.parents, heights)
        counts = np.bincount(heights)
        small = heights.astype(np.uint16) if len(counts) < 2**16 else heights  # numpy sorts these much faster
        return np.argsort(small, kind="stable").astype(np.uint32), np.append(0, np.cumsum(counts))

    @cached_property
    def n_tiles(self) -> np.ndarray:
        """(C,) int64."""
        return -(-np.diff(self.chunks.first_places).astype(np.int64) // int(TILE))

    @cached_property
    def first_tiles(self) -> np.ndarray:
        """(C+1,) int64: the tiles of chunk `c` are `first_tiles[c]:first_tiles[c + 1]`."""
        return np.append(0, np.cumsum(self.n_tiles))

    @cached_property
    def tiles_of_places(self) -> np.ndarray:
        """(V,) uint32."""
        tiles = self.tiles[0]
        return np.repeat(np.arange(len(tiles), dtype=np.uint32), tiles["n_rows"])

    @cached_property
    def boundary_places(self) -> np.ndarray:
        """(N,) uint32: the places of the boundary vertices of all chunks."""
        return self.chunks.places[self.chunks.boundary]

    @cached_property
    def words_before(self) -> tuple[np.ndarray, np.ndarray]:
        """How many words the matrices of earlier chunks have; each (C+1,) uint64.

        The first counts the matrices from boundaries, the second those from own vertices.
        """
        offsets = self.chunks.first_places, self.chunks.boundary_offsets
        n_own, n_boundary = (np.diff(begins).astype(np.uint64) for begins in offsets)
        n_words = np.zeros((2, len(n_own) + 1), np.uint64)
        np.cumsum([self.n_tiles.astype(np.uint64) * TILE * n_boundary, n_own**2], axis=1, out=n_words[:, 1:])
        return n_words[0], n_words[1]

    @cached_property
    def shapes(self) -> np.ndarray:
        """(C,) of `Chunk`."""
        chunks = self.chunks
        shapes = np.zeros(chunks.n_chunks, _CHUNK)
        shapes["first_place"] = chunks.first_places[:-1]
        shapes["n_own"] = np.diff(chunks.first_places)
        shapes["first_boundary"] = chunks.boundary_offsets[:-1]
        shapes["n_boundary"] = np.diff(chunks.boundary_offsets)
        shapes["boundary_words"], shapes["own_words"] = (words[:-1] for words in self.words_before)
        return shapes

    @cached_property
    def tiles(self) -> tuple[np.ndarray, list[Band]]:
        """The tiles of all chunks, of `Tile`, and the bands."""
        shapes, first_tiles = self.shapes, self.first_tiles
        of = np.repeat(np.arange(len(shapes)), self.n_tiles)
        inside = np.arange(len(of)) - first_tiles[of]
        tiles = np.zeros(len(of), _TILE)
        inside_words = inside * int(TILE) * shapes["n_boundary"][of].astype(np.int64)
        tiles["matrix"] = shapes["boundary_words"][of] + inside_words.astype(np.uint64)
        tiles["first_boundary"], tiles["n_boundary"] = shapes["first_boundary"][of], shapes["n_boundary"][of]
        tiles["chunk"] = of
        tiles["first_place"] = shapes["first_place"][of] + inside * int(TILE)
        tiles["first_local"] = inside * int(TILE)
        tiles["n_rows"] = np.minimum(shapes["n_own"][of] - inside * int(TILE), int(TILE))
        return tiles, bands_of(tiles, first_tiles[self.chunks.bands])

    @cached_property
    def together(self) -> list[TogetherBand]:
        """The bands that sources climb together, from the top down; none if that does not pay."""
        shapes, bands = self.shapes, self.chunks.bands
        are_many = (np.diff(bands)[1:] > MOST_TOGETHER) | (bands[2:] > self.chunks.first_low)
        n_bands = 1 + int(np.argmax(np.append(are_many, True)))
        upper = shapes[: bands[n_bands]]
        if np.sum(upper["n_own"].astype(np.int64) * upper["n_boundary"]) < LEAST_WORDS:
            return []
        n_tiles = self.n_tiles + -(-shapes["n_boundary"].astype(np.int64) // int(TILE))
        return [
            TogetherBand(first, end - first, int(np.max(n_tiles[first:end])))
            for first, end in zip(bands[:n_bands].tolist(), bands[1 : n_bands + 1].tolist(), strict=True)
            if np.any(n_tiles[first:end])  # the top may be empty
        ]

    @property
    def n_depths(self) -> int:
        return int(np.max(self.chunks.depths)) + 1


_kept: weakref.WeakKeyDictionary[CsrGraph, HostHierarchy] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def host_hierarchy(graph: CsrGraph) -> HostHierarchy:
    """Return the hierarchy of `graph` without weights; the first call makes it. Its errors: `shared_completion`."""
    with _lock:
        if graph not in _kept:
            completion = shared_completion(graph)
            wait_for(chunk_kernels(), graph.weight_dtype)
            _kept[graph] = HostHierarchy(completion, cut(completion))
        return _kept[graph]


@cache
def chunk_kernels() -> KernelGroup:
    """Return the kernels on the host, which a child can compile."""
    return KernelGroup(compile_chunks, _fill_heights)


def compile_chunks(dtype: np.dtype) -> None:
    """Compile the kernels on the host."""
    completion = one_arc()
    host = HostHierarchy(completion, cut(completion))
    assert len(host.next_chunks) == len(host.by_height[0])


@dataclass(frozen=True, eq=False)
class DeviceHierarchy:
    """A hierarchy on one device, in the layout of `Call`; its arrays are never written to."""

    #: Whether words have 64 bits.
    wide: bool
    #: (C,) of `Chunk`, and the matrices of the chunks (`matrices.cu`).
    shapes: Any
    from_boundary: Any
    to_boundary: Any
    from_own: Any
    #: (N,) uint32 and (2N,) uint32: the places of boundary vertices; their depths and chunks, alternating.
    boundary: Any
    marks: Any
    #: (T,) of `Tile`.
    tiles: Any
    #: (V,) uint32, by place: its chunk, and the chunk of the vertex above it that is in another chunk.
    chunks_of_places: Any
    next_chunks: Any
    #: The place of each vertex of the graph, on the device and in host memory.
    places: Any
    host_places: np.ndarray
    #: (V+1,) uint64: how many edges leave the vertices of lower places.
    edges_before: Any
    bands: list[Band]
    n_vertices: int
    n_chunks: int
    first_low: int
    #: How many places the chunks before `first_low` have.
    n_upper: int
    #: No shortest path is longer; None if that is not known.
    longest: int | None
    n_depths: int
    #: How many products a sweep makes for each source.
    n_products: int
    #: As in `HostHierarchy`, how many places these bands have, and how many products each source makes there.
    together: list[TogetherBand]
    n_together_places: int
    n_together_products: int
    #: The batches that were launched last.
    launches: RepeatedLaunches = field(default_factory=RepeatedLaunches)

    @property
    def n_upper_bands(self) -> int:
        """How many bands there are before the chunks of whole subtrees, with the top."""
        return len(self.bands) - (self.n_chunks > self.first_low)

    @property
    def n_segments(self) -> int:
        return len(self.bands)

    @property
    def word(self) -> np.dtype:
        return np.dtype(np.uint64 if self.wide else np.uint32)


@kept_with_graph
def device_hierarchy(on_device: DeviceGraph, host: HostHierarchy) -> DeviceHierarchy:
    """Return the hierarchy of a graph with the weights on the device; it is made by the first call."""
    dtype = on_device.dtype
    # The largest distance of int32 fits a narrow word. Distances of other types of 32 bits may not.
    if dtype.itemsize == 4:
        made = _make(on_device, host, wide=False, is_sure=dtype.kind == "i")
        if made is not None:
            return made
    made = _make(on_device, host, wide=True, is_sure=True)
    assert made is not None
    return made


def _make(
    on_device: DeviceGraph, host: HostHierarchy, *, wide: bool, is_sure: bool
) -> DeviceHierarchy | None:
    """Return the hierarchy in words of one width; None if a distance may not fit, unless it `is_sure`."""
    cupy = cupy_module()
    completion, chunks = host.completion, host.chunks
    n_vertices, n_arcs = completion.n_vertices, completion.n_arcs
    word = np.uint64 if wide else np.uint32
    infinity = word(2**64 - 1 if wide else 2**31 - 1)
    kernels = load_kernels(customize_unit(wide=wide), on_device.dtype, wide_offsets=on_device.wide_offsets)
    ranks = _sent(completion.ranks)
    arc_offsets = _sent(completion.arc_offsets.astype(np.uint32))
    heads = _sent(completion.arc_heads)
    up, down = (_filled(n_arcs, infinity) for _ in range(2))
    flags = cupy.zeros(2, np.uint32)
    kernels["take_edges_kernel"](
        *_grid(n_vertices),
        (*on_device.args, np.uint32(n_vertices), ranks, arc_offsets, heads, up, down, flags),
    )
    kernels["compare_kernel"](*_grid(n_arcs), (up, down, np.uint32(n_arcs), flags[1:]))
    if not flags.get()[1]:  # as long in both directions
        down = up
    longest = cupy.zeros(2 * n_vertices + 1, np.uint64)
    longest_up, longest_down = longest[:n_vertices], longest[n_vertices:]
    args = (arc_offsets, heads, up, down, longest_up, longest_down, flags)
    _lower_triangles(kernels["lower_triangles_kernel"], host, args)
    of_all = cupy.zeros(1, np.uint64)
    kernels["longest_kernel"](*_grid(n_vertices), (longest_up, longest_down, np.uint32(n_vertices), of_all))
    bound = None if flags.get()[0] else int(of_all.get()[0])
    if not is_sure and (bound is None or bound > MOST_NARROW):
        return None
    del longest, longest_up, longest_down, heads

    shapes, (tiles, bands) = host.shapes, host.tiles
    at_places = np.empty(n_vertices, np.uint32)
    at_places[chunks.places] = np.arange(n_vertices, dtype=np.uint32)
    ranks_at, local_heads = _sent(at_places), _sent(chunks.local_heads)
    n_from_boundary, n_from_own = (int(words[-1]) for words in host.words_before)
    from_boundary, from_own = cupy.empty(n_from_boundary, word), cupy.empty(n_from_own, word)
    n_top = int(shapes["n_own"][0])
    top = from_own[: n_top**2]
    top.fill(infinity)
    if n_top:
        args = (ranks_at, np.uint32(n_top), arc_offsets, local_heads, up, down, top)
        kernels["top_kernel"](n_top, _BLOCK, args)
        for middle in range(n_top):
            kernels["shorten_kernel"](*_grid(n_top**2), (top, np.uint32(n_top), np.uint32(middle)))
    on_shapes = _sent(shapes.view(np.uint8))
    to_boundary = from_boundary if down is up else cupy.empty(n_from_boundary, word)
    if len(shapes) > 1:
        kernel = load_kernels(matrices_unit(wide=wide), on_device.dtype)["matrices_kernel"]
        arcs = ranks_at, arc_offsets, local_heads, up, down
        matrices = from_boundary, to_boundary, from_own
        args = (on_shapes, np.uint32(1), np.uint32(len(shapes)), *arcs, *matrices)
        kernel(len(shapes) - 1, _TRIANGLES_BLOCK, args)
    places_of_vertices = chunks.places[completion.ranks]
    together = host.together
    n_together = together[-1].first_chunk + together[-1].n_chunks if together else 0
    n_own, n_boundary = (shapes[name].astype(np.int64) for name in ("n_own", "n_boundary"))
    degrees = np.empty(n_vertices, np.int64)
    degrees[places_of_vertices] = np.diff(on_device.row_offsets.get().astype(np.int64))
    return DeviceHierarchy(
        wide=wide,
        shapes=on_shapes,
        from_boundary=from_boundary,
        to_boundary=to_boundary,
        from_own=from_own,
        boundary=_sent(host.boundary_places),
        marks=_sent(np.stack((chunks.depths[chunks.boundary], chunks.chunk_of[chunks.boundary]), 1).ravel()),
        tiles=_sent(tiles.view(np.uint8)),
        chunks_of_places=_sent(chunks.chunk_of[at_places]),
        next_chunks=_sent(host.next_chunks[at_places]),
        places=_sent(places_of_vertices),
        host_places=places_of_vertices,
        edges_before=_sent(np.append(np.uint64(0), np.cumsum(degrees, dtype=np.uint64))),
        bands=bands,
        n_vertices=n_vertices,
        n_chunks=chunks.n_chunks,
        first_low=chunks.first_low,
        n_upper=int(chunks.first_places[chunks.first_low]),
        longest=bound,
        n_depths=host.n_depths,
        n_products=int(np.sum(n_own * n_boundary)),
        together=together,
        n_together_places=int(chunks.first_places[n_together]),
        n_together_products=int(np.sum((n_own * (n_own + n_boundary))[:n_together])),
    )


def _lower_triangles(kernel: Kernel, host: HostHierarchy, args: tuple[Any, ...]) -> None:
    by_height, begins = host.by_height
    vertices = _sent(by_height)
    n_arcs = np.diff(host.completion.arc_offsets.astype(np.int64))[by_height]
    most_arcs = np.maximum.reduceat(n_arcs, begins[:-1])
    for first, end, most in zip(begins[:-1].tolist(), begins[1:].tolist(), most_arcs.tolist(), strict=True):
        if most:
            n_blocks = max(1, min(most // _ARCS_A_BLOCK, 2**30 // (end - first)))
            block = 32 if most <= 32 else _TRIANGLES_BLOCK
            kernel((end - first) * n_blocks, block, (vertices[first:end], np.uint32(n_blocks), *args))


def _sent(values: np.ndarray) -> Any:
    on_device = cupy_module().empty(len(values), values.dtype)
    copy_to_device(values, on_device)
    return on_device


def _filled(n: int, value: np.generic) -> Any:
    values = cupy_module().empty(n, value.dtype)
    values.fill(value)
    return values


def _grid(n: int) -> tuple[int, int]:
    return max(1, min(-(-n // _BLOCK), 2**20)), _BLOCK


@njit(nogil=True)
def _fill_next_chunks(parents: np.ndarray, chunk_of: np.ndarray, next_chunks: np.ndarray) -> None:
    n = np.uint64(len(parents))
    for i in range(n):
        v = n - ONE - i
        above = parents[v]
        if above == NO_VERTEX:
            next_chunks[v] = NO_VERTEX
        elif chunk_of[above] == chunk_of[v]:
            next_chunks[v] = next_chunks[above]
        else:
            next_chunks[v] = chunk_of[above]


@njit(nogil=True)
def _fill_heights(parents: np.ndarray, heights: np.ndarray) -> None:
    for v in range(np.uint64(len(parents))):
        above = parents[v]
        if above != NO_VERTEX:
            heights[above] = max(heights[above], heights[v] + np.uint32(1))
