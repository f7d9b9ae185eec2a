"""A hierarchy on the device: its arcs for the climb, and the matrices of its chunks for the sweep.

Order, completion and chunks are made on the host, once for a graph. The device makes what depends on the weights
(`customize.cu`, `fronts.cu`, `matrices.cu`).
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.solver import DEADLINE_S
from sssp_pipeline.kernels.gpu.common.cuda.compile import Kernel, Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.repeated_launches import RepeatedLaunches
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph
from sssp_pipeline.kernels.gpu.common.graphs.pinned_upload import copy_to_device
from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import (
    TILE_TYPE,
    HostHierarchy,
    SharedFronts,
    Swept,
)
from sssp_pipeline.kernels.hierarchy.completion.chunks import TILE
from sssp_pipeline.kernels.hierarchy.completion.costs import ROAD_EDGES
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph

#: "No path" in words of so many bits; as in `sweep_words.cuh`. Distances up to the number before fit them.
INFINITIES = {16: 0x7F80, 32: 2**31 - 1, 64: 2**64 - 1}
#: Words have at least so many bits. Tests and benchmarks set more.
LEAST_BITS = 16
#: Devices from this compute capability on take the minima of two sums of 16 bits in one instruction.
PAIRS_ARCH = 90
_BLOCK, _TRIANGLES_BLOCK = 256, 128
#: Threads that close the own vertices of a chunk; with words of 64 bits, the second.
_CLOSE_BLOCKS = 1024, 512
#: Boundary vertices of a block of `panel_kernel`, and of a side of a square of `update_kernel`.
_PANEL, _SIDE = 128, 64
#: A vertex with many arcs is shared by blocks, each with this many of them.
_ARCS_A_BLOCK = 8
#: The most rounds of a search for a bound of all distances, and the rounds between two looks whether it is over. Where
#: more are needed, distances are mostly too long for words of 16 bits.
_MOST_ROUNDS, _ROUNDS = 512, 8
#: The steps of the making that the device may be behind the host, and the launches of a step that close the top.
_STEPS_BEHIND, _LAUNCHES = 4, 64
_MATRICES, _LONGEST = (
    struct_type(Path(__file__).with_name("fronts.cu"), name) for name in ("Matrices", "Longest")
)


def customize_unit(bits: int) -> Unit:
    """Return the unit of the kernels that compute the weights of arcs, in words of 32 or 64 `bits`."""
    names = "take_edges", "compare", "lower_triangles", "longest", "relax"
    return Unit("customize", tuple(f"{name}_kernel" for name in names), words_of(bits))


def fronts_unit(bits: int) -> Unit:
    """Return the unit of the kernels that eliminate whole chunks."""
    names = "front_arcs", "close", "shorten", "bound", "panel", "update"
    return Unit("fronts", tuple(f"{name}_kernel" for name in names), words_of(bits))


def matrices_unit(bits: int) -> Unit:
    """Return the unit of the kernels that make the matrices of whole subtrees and of tiles, and narrow matrices."""
    names = "matrices", "tile_boundaries", "narrow"
    return Unit("matrices", tuple(f"{name}_kernel" for name in names), words_of(bits))


def words_of(bits: int) -> tuple[tuple[str, int], ...]:
    """Return the macros of a unit with words of `bits`."""
    return (("SSSP_WORD_BITS", bits),)


def lanes_for(n_sources: int, n_packed: int = 1) -> int:
    """Return how many lanes a sweep from `n_sources` has, `n_packed` of them in a word: few empty ones.

    For many sources it is a multiple of 128 words.
    """
    n_words = -(-n_sources // n_packed)
    step = 32 if n_words <= 96 else 64 if n_words <= 384 else 128
    return -(-n_words // step) * step * n_packed


def may_be_short() -> bool:
    """Return whether words of 16 bits are taken on this device where distances fit them."""
    return LEAST_BITS <= 16 and int(cupy_module().cuda.Device().compute_capability) >= PAIRS_ARCH


@dataclass(frozen=True, eq=False)
class DeviceHierarchy:
    """A hierarchy on one device, in the layout of `Call`; its arrays are never written to."""

    #: Of a word of a matrix or of a row: 16, 32 or 64.
    bits: int
    #: (C,) of `Chunk`; and the matrices (`matrices.cu`). `from_boundary` has those of chunks first, then of tiles.
    shapes: Any
    from_boundary: Any
    to_boundary: Any
    from_own: Any
    #: (N,) uint32 and (2N,) uint32: the places of the boundaries of chunks, then of tiles; and depths and chunks of
    #: boundary vertices, alternating.
    boundary: Any
    marks: Any
    #: (T,) of `Tile`: all tiles on the device, all tiles in host memory, and the tiles of `swept`.
    tiles: Any
    host_tiles: np.ndarray
    upper_tiles: Any
    #: (F,) uint32: the fronts of `swept` and of `shared`; and (C,) uint32: which are of `shared`, None without some.
    fronts: Any
    shared_fronts: Any
    climbs_together: Any
    #: (V,) uint32, by place: its chunk, and the chunk of the vertex above it that is in another chunk.
    chunks_of_places: Any
    next_chunks: Any
    #: The place of each vertex of the graph, on the device and in host memory.
    places: Any
    host_places: np.ndarray
    #: (V+1,) uint64: how many edges leave the vertices of lower places.
    edges_before: Any
    #: What a sweep takes above the last band, and what sources climb together; of `HostHierarchy`.
    swept: Swept
    shared: SharedFronts
    n_bands: int
    n_tiles: int
    first_low_tile: int
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
    #: The batches that were launched last.
    launches: RepeatedLaunches = field(default_factory=RepeatedLaunches)

    @property
    def stored_word(self) -> np.dtype:
        """The type of a word of a row."""
        return np.dtype(f"u{self.bits // 8}")

    @property
    def word(self) -> np.dtype:
        """The type of a distance of a way up."""
        return np.dtype(np.uint64 if self.bits == 64 else np.uint32)

    @property
    def n_packed(self) -> int:
        """How many lanes a thread takes together."""
        return 2 if self.bits == 16 else 1

    def n_lanes_for(self, n_sources: int) -> int:
        """Return how many lanes a sweep from `n_sources` has."""
        return lanes_for(n_sources, self.n_packed)


@kept_with_graph
def device_hierarchy(
    on_device: DeviceGraph, host: HostHierarchy, limit_s: float = DEADLINE_S
) -> DeviceHierarchy:
    """Return the hierarchy of a graph with the weights on the device; it is made by the first call.

    It raises `DeadlineError` if the device takes longer than `limit_s` seconds.
    """
    dtype = on_device.dtype
    # The largest distance of int32 fits a word of 32 bits. Distances of other types of 32 bits may not.
    if dtype.itemsize == 4 and LEAST_BITS <= 32:
        made = _make(on_device, host, 32, is_sure=dtype.kind == "i", limit_s=limit_s)
        if made is not None:
            return made
    made = _make(on_device, host, 64, is_sure=True, limit_s=limit_s)
    assert made is not None
    return made


def _make(
    on_device: DeviceGraph,
    host: HostHierarchy,
    bits: int,
    *,
    is_sure: bool,
    limit_s: float = DEADLINE_S,
) -> DeviceHierarchy | None:
    """Return the hierarchy, made in words of `bits`; None if a distance may not fit, unless it `is_sure`.

    If all distances fit 16 bits, its matrices are narrowed in the end. It raises `DeadlineError` after `limit_s`.
    """
    making = _Making(on_device, host, bits, limit_s)
    bound = making.weigh_arcs()
    if not is_sure and (bound is None or bound >= INFINITIES[bits]):
        return None
    making.fill_low_matrices()
    making.fill_tile_boundaries()
    making.end_step()
    if bound is not None and bound < INFINITIES[16] and may_be_short():
        making.narrow()
    return making.made(bound)


class _Making:
    """A hierarchy on a device while it is made."""

    def __init__(self, on_device: DeviceGraph, host: HostHierarchy, bits: int, limit_s: float) -> None:
        cupy = cupy_module()
        self._limit_s, self._ends_s = limit_s, time.monotonic() + limit_s
        #: The events of the steps that may not be over.
        self._steps: deque[Any] = deque()
        completion, chunks = host.completion, host.chunks
        #: The bits of a word of its matrices, and of the words in which it is made.
        self._bits = self._bits_made = bits
        self._graph, self._host = on_device, host
        self._word = np.uint64 if bits == 64 else np.uint32
        infinity = self._word(INFINITIES[bits])
        self._kernels = self._loaded(customize_unit(bits), wide_offsets=on_device.wide_offsets)
        self._n_vertices = n_vertices = completion.n_vertices
        self._arc_offsets = _sent(completion.arc_offsets.astype(np.uint32))
        self._heads = _sent(completion.arc_heads)
        #: Whether an arc may be too long for a word, and whether one has two lengths.
        self._flags = cupy.zeros(2, np.uint32)
        self._up, self._down = (_filled(completion.n_arcs, infinity) for _ in range(2))
        self._take_edges()

        at_places = np.empty(n_vertices, np.uint32)
        at_places[chunks.places] = np.arange(n_vertices, dtype=np.uint32)
        self._ranks_at, self._chunks_of_places = _sent(at_places), _sent(chunks.chunk_of[at_places])
        self._local_heads, self._shapes = _sent(chunks.local_heads), _sent(host.shapes.view(np.uint8))
        self._next_chunks = _sent(host.next_chunks[at_places])
        n_from_boundary, n_from_own = (int(words[-1]) for words in host.words_before)
        tiles, n_of_tiles = host.own_boundaries
        self._from_boundary = cupy.empty(n_from_boundary + int(TILE) * n_of_tiles, self._word)
        self._from_boundary[n_from_boundary:].fill(infinity)
        self._boundary = _sent(np.append(host.boundary_places, np.zeros(n_of_tiles, np.uint32)))
        self._tiles = _sent(tiles.view(np.uint8))
        self._from_own = cupy.empty(n_from_own, self._word)
        is_symmetric = self._up is self._down
        self._to_boundary = self._from_boundary if is_symmetric else cupy.empty(n_from_boundary, self._word)
        # The chunks above whole subtrees begin without arcs.
        n_boundary_words, n_own_words = (int(words[chunks.first_low]) for words in host.words_before)
        self._from_boundary[:n_boundary_words].fill(infinity)
        self._to_boundary[:n_boundary_words].fill(infinity)
        self._from_own[:n_own_words].fill(infinity)

    def _loaded(self, unit: Unit, *, wide_offsets: bool = False) -> dict[str, Kernel]:
        """Return the kernels of `unit`. To compile them takes nothing of the limit."""
        began = time.monotonic()
        kernels = load_kernels(unit, self._graph.dtype, wide_offsets=wide_offsets)
        self._ends_s += time.monotonic() - began
        return kernels

    @property
    def _arcs(self) -> tuple[Any, ...]:
        return self._arc_offsets, self._heads, self._up, self._down

    def _take_edges(self) -> None:
        n_vertices, n_arcs = np.uint32(self._n_vertices), np.uint32(len(self._heads))
        args = (*self._graph.args, n_vertices, _sent(self._host.completion.ranks), *self._arcs, self._flags)
        self._kernels["take_edges_kernel"](*_grid(self._n_vertices), args)
        args = (self._up, self._down, n_arcs, self._flags[1:])
        self._kernels["compare_kernel"](*_grid(len(self._heads)), args)
        if not self._flags.get()[1]:  # as long in both directions
            self._down = self._up

    def end_step(self) -> None:
        """Wait until the device is at most `_STEPS_BEHIND` steps behind. It raises `DeadlineError`."""
        stream = cupy_module().cuda.get_current_stream()
        self._steps.append(stream.record())
        if len(self._steps) > _STEPS_BEHIND:
            self._steps.popleft().synchronize()
        if time.monotonic() > self._ends_s:
            stream.synchronize()  # before memory is freed that the device still writes
            raise DeadlineError("phast-gpu", "the preparation of the graph", self._limit_s)

    def weigh_arcs(self) -> int | None:
        """Weigh all arcs, and return a bound of all distances; None if one may not fit a word."""
        cupy = cupy_module()
        longest = cupy.zeros(2 * self._n_vertices, np.uint64)
        longest_up, longest_down = longest[: self._n_vertices], longest[self._n_vertices :]
        for vertices, n_blocks, block in self._low_by_height():
            args = (vertices, np.uint32(n_blocks), *self._arcs, longest_up, longest_down, self._flags)
            self._kernels["lower_triangles_kernel"](len(vertices) * n_blocks, block, args)
            self.end_step()
        of_all = cupy.zeros(1, np.uint64)
        self._eliminate_chunks(_pointers(_LONGEST, longest_up, longest_down, of_all))
        args = (longest_up, longest_down, np.uint32(self._n_vertices), of_all)
        self._kernels["longest_kernel"](*_grid(self._n_vertices), args)
        if self._flags.get()[0]:
            return None
        bound = int(of_all.get()[0])
        # On roads a search takes many rounds, and distances are too long.
        is_road = self._graph.n_edges <= ROAD_EDGES * self._n_vertices
        if bound < INFINITIES[16] or self._up is not self._down or is_road or not may_be_short():
            return bound
        return min(bound, self._bound_by_search(bound))

    def _bound_by_search(self, bound: int) -> int:
        """Return a bound of all distances of a symmetric graph, which is often far lower than `bound`.

        The distance of two vertices is not longer than the way over the root of the hierarchy. If the root does not
        reach every vertex, or the search takes too long, it is `bound`.
        """
        cupy = cupy_module()
        first = np.full(self._n_vertices, INFINITIES[self._bits_made], self._word)
        first[np.argmax(self._host.completion.ranks)] = 0
        distances, has_changed = _sent(first), cupy.zeros(1, np.uint32)
        args = (*self._graph.args, np.uint32(self._n_vertices), distances, has_changed)
        for _ in range(_MOST_ROUNDS // _ROUNDS):
            has_changed.fill(0)
            for _ in range(_ROUNDS):
                self._kernels["relax_kernel"](*_grid(32 * self._n_vertices), args)
            self.end_step()
            if not has_changed.get()[0]:
                break
        else:
            return bound
        return 2 * int(distances.get().max())

    def _low_by_height(self) -> Iterator[tuple[Any, int, int]]:
        """Yield the vertices of whole subtrees, height by height from the leaves up. Those without arcs are left out.

        With them come the blocks that share a vertex, and their threads.
        """
        by_height, heights = self._host.low_by_height
        begins = np.searchsorted(heights, np.arange(np.max(heights, initial=0) + 2))
        vertices = _sent(by_height)
        n_arcs = np.diff(self._host.completion.arc_offsets.astype(np.int64))[by_height]
        for first, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
            if first < end and (most := int(n_arcs[first:end].max())):
                n_blocks = max(1, min(most // _ARCS_A_BLOCK, 2**30 // (end - first)))
                yield vertices[first:end], n_blocks, 32 if most <= 32 else _TRIANGLES_BLOCK

    def _eliminate_chunks(self, longest: np.ndarray) -> None:
        """Lower the arcs above the chunks that are no whole subtrees, from the lowest up, and make their matrices."""
        kernels, chunks = self._loaded(fronts_unit(self._bits)), self._host.chunks
        boundary_ranks, largest = _sent(chunks.boundary), cupy_module().zeros(1, np.uint64)
        matrices = _pointers(_MATRICES, self._from_boundary, self._to_boundary, self._from_own)
        bands = chunks.bands[chunks.bands <= chunks.first_low].tolist()
        for first, end in reversed(list(itertools.pairwise(bands))):
            places = chunks.first_places[first : end + 1]
            first_chunk, n_chunks = np.uint32(first), end - first
            if places[0] == places[-1]:
                continue  # the top may be empty
            args = (self._shapes, self._chunks_of_places, places[0], self._ranks_at, self._arc_offsets)
            args += (self._local_heads, self._up, self._down, matrices)
            kernels["front_arcs_kernel"](int(places[-1] - places[0]), _TRIANGLES_BLOCK, args)
            if first == 0:
                n = int(places[-1])
                for middle in range(n):
                    args = (self._from_own, np.uint32(n), np.uint32(middle), self._flags)
                    kernels["shorten_kernel"](*_grid(n**2), args)
                    if middle % _LAUNCHES == 0:
                        self.end_step()
            else:
                kernels["close_kernel"](
                    n_chunks,
                    _CLOSE_BLOCKS[self._bits == 64],
                    (self._shapes, first_chunk, self._from_own, self._flags),
                )
            args = (self._shapes, first_chunk, self._ranks_at, self._from_own, longest)
            kernels["bound_kernel"](n_chunks, _BLOCK, args)
            most = int(np.max(self._host.shapes["n_boundary"][first:end]))
            n_tiles = int(np.max(self._host.n_tiles[first:end]))
            n_groups, n_squares = -(-most // _PANEL), -(-most // _SIDE)
            if most:
                args = (self._shapes, first_chunk, np.uint32(n_tiles), np.uint32(n_groups), self._ranks_at)
                args += (boundary_ranks, matrices, longest, largest, self._flags)
                kernels["panel_kernel"](n_chunks * n_tiles * n_groups, _PANEL, args)
                args = (self._shapes, first_chunk, np.uint32(n_squares), boundary_ranks, matrices)
                args += (*self._arcs, largest, self._flags)
                kernels["update_kernel"](n_chunks * n_squares**2, _BLOCK, args)
            self.end_step()

    def fill_low_matrices(self) -> None:
        """Make the matrices of the chunks of whole subtrees."""
        n_chunks, first_low = self._host.chunks.n_chunks, self._host.chunks.first_low
        if n_chunks > first_low:
            kernel = self._loaded(matrices_unit(self._bits))["matrices_kernel"]
            args = (
                self._shapes,
                np.uint32(first_low),
                np.uint32(n_chunks),
                self._ranks_at,
                self._arc_offsets,
            )
            args += (self._local_heads, self._up, self._down)
            args += (self._from_boundary, self._to_boundary, self._from_own)
            kernel(n_chunks - first_low, _TRIANGLES_BLOCK, args)

    def fill_tile_boundaries(self) -> None:
        """Make the boundaries of the tiles that have their own, and their matrices."""
        kernel = self._loaded(matrices_unit(self._bits))["tile_boundaries_kernel"]
        n_tiles = len(self._host.tiles)
        args = (self._tiles, np.uint32(n_tiles), self._shapes, self._ranks_at, *self._arcs)
        kernel(*_grid(32 * n_tiles), (*args, self._boundary, self._from_boundary))

    def narrow(self) -> None:
        """Give the matrices words of 16 bits."""
        is_symmetric = self._to_boundary is self._from_boundary
        self._from_boundary = self._narrowed(self._from_boundary)
        self._to_boundary = self._from_boundary if is_symmetric else self._narrowed(self._to_boundary)
        self._from_own = self._narrowed(self._from_own)
        self._bits_made = 16

    def _narrowed(self, words: Any) -> Any:
        into = cupy_module().empty(len(words), np.uint16)
        kernel = self._loaded(matrices_unit(self._bits))["narrow_kernel"]
        kernel(*_grid(len(words)), (words, np.uint64(len(words)), into))
        return into

    def made(self, bound: int | None) -> DeviceHierarchy:
        """Return the hierarchy, in which no distance is longer than `bound`."""
        host, chunks, n_vertices = self._host, self._host.chunks, self._n_vertices
        tiles, first_low_tile = self._tiles.get().view(TILE_TYPE), int(host.first_tiles[chunks.first_low])
        swept, low = host.swept_above(tiles), tiles[first_low_tile:]
        places_of_vertices = chunks.places[host.completion.ranks]
        degrees = np.empty(n_vertices, np.int64)
        degrees[places_of_vertices] = np.diff(self._graph.row_offsets.get().astype(np.int64))
        marks = np.stack((chunks.depths[chunks.boundary], chunks.chunk_of[chunks.boundary]), 1)
        return DeviceHierarchy(
            bits=self._bits_made,
            shapes=self._shapes,
            from_boundary=self._from_boundary,
            to_boundary=self._to_boundary,
            from_own=self._from_own,
            boundary=self._boundary,
            marks=_sent(marks.ravel()),
            tiles=self._tiles,
            host_tiles=tiles,
            upper_tiles=_sent(swept.tiles.view(np.uint8)),
            fronts=_sent(swept.fronts),
            shared_fronts=_sent(host.shared.fronts),
            climbs_together=_sent(host.is_shared.astype(np.uint32)) if host.shared.bands else None,
            chunks_of_places=self._chunks_of_places,
            next_chunks=self._next_chunks,
            places=_sent(places_of_vertices),
            host_places=places_of_vertices,
            edges_before=_sent(np.append(np.uint64(0), np.cumsum(degrees, dtype=np.uint64))),
            swept=swept,
            shared=host.shared,
            n_bands=len(chunks.bands) - 1,
            n_tiles=len(tiles),
            first_low_tile=first_low_tile,
            n_vertices=n_vertices,
            n_chunks=chunks.n_chunks,
            first_low=chunks.first_low,
            n_upper=int(chunks.first_places[chunks.first_low]),
            longest=bound,
            n_depths=host.n_depths,
            n_products=swept.n_products + int(np.dot(low["n_rows"].astype(np.int64), low["n_boundary"])),
        )


def _pointers(struct: np.dtype, *arrays: Any) -> np.ndarray:
    """Return a `struct` of pointers to `arrays`, as a kernel gets it."""
    made = np.zeros(1, struct)
    for name, array in zip(struct.names or (), arrays, strict=True):
        made[name] = array.data.ptr
    return made.view(f"V{struct.itemsize}")


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
