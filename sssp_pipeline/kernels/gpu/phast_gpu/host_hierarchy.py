"""A hierarchy on the host: its chunks, and the tiles and bands that kernels work on. Nothing depends on the weights."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup, wait_for
from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.hierarchy.compile_ahead import one_arc
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.completion.chunks import TILE, Chunks, cut
from sssp_pipeline.kernels.hierarchy.completion.subtrees import firsts_of
from sssp_pipeline.kernels.hierarchy.shared import shared_completion
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph
from sssp_pipeline.kernels.host.numba_tools import ONE

#: As `Chunk` and `Tile` of the kernels.
_CHUNK = struct_type(Path(__file__).with_name("sweep_words.cuh"), "Chunk")
TILE_TYPE = struct_type(Path(__file__).with_name("call.cuh"), "Tile")
#: A chunk with `LEAST_FRONT` boundary vertices is a front. It is none if its tiles need fewer on average, and at most
#: one of `SPARSE`.
LEAST_FRONT, SPARSE = 96, 3
#: The most boundary vertices of a chunk whose tiles get boundaries of their own. All pairs of them are compared.
MOST_COMPARED = 256
#: Places of boundary vertices have numbers of 32 bits.
MOST_PLACES = 2**32
#: All sources climb together over chunks that so many of the vertices are below, if a source would read so many words
#: there. A product is about as fast for 8 sources as a way up that reads its words for one.
LEAST_SHARE, LEAST_WORDS = 1 / 8, 2**20


class Sizes(NamedTuple):
    """Of some fronts: the most vertices of one, and how many they have together."""

    most: int
    total: int


class Band(NamedTuple):
    """A band of a sweep: its fronts and its tiles, from the first of each to the end."""

    first_front: int
    end_front: int
    first: int
    end: int
    #: The tiles of fronts begin here.
    first_of_fronts: int
    #: Of the boundaries of the fronts.
    boundary: Sizes
    #: The most boundary vertices of a tile.
    most_boundary: int


@dataclass(frozen=True, eq=False)
class Swept:
    """What a sweep takes, band by band."""

    #: (F,) uint32, chunks, and (T,) of `Tile`, in each band those of fronts last.
    fronts: np.ndarray
    tiles: np.ndarray
    bands: list[Band]
    #: The place after those of the fronts.
    end_place: int
    #: How many rows and products there are for each source.
    n_rows: int
    n_products: int


@dataclass(frozen=True, eq=False)
class SharedFronts:
    """The chunks that all sources climb together, from the top down."""

    #: (S,) uint32.
    fronts: np.ndarray
    #: For each band that has some: the first of them, the end, the most boundary vertices, and the own vertices.
    bands: list[tuple[int, int, int, Sizes]]
    #: The place after theirs.
    end_place: int
    n_products: int


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
    def low_by_height(self) -> tuple[np.ndarray, np.ndarray]:
        """The ranks (N,) uint32 of the vertices of whole subtrees by height over the leaves, and these heights."""
        heights = np.zeros(self.completion.n_vertices, np.uint32)
        _fill_heights(self.completion.parents, heights)
        low = np.flatnonzero(self.chunks.chunk_of >= self.chunks.first_low)
        # No height there is above MOST_LOW, and numpy sorts small numbers much faster.
        order = low[np.argsort(heights[low].astype(np.uint16), kind="stable")]
        return order.astype(np.uint32), heights[order]

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
        tiles = self.tiles
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
    def tiles(self) -> np.ndarray:
        """The tiles of all chunks, (T,) of `Tile`."""
        shapes, first_tiles = self.shapes, self.first_tiles
        of = np.repeat(np.arange(len(shapes)), self.n_tiles)
        inside = np.arange(len(of)) - first_tiles[of]
        tiles = np.zeros(len(of), TILE_TYPE)
        inside_words = inside * int(TILE) * shapes["n_boundary"][of].astype(np.int64)
        tiles["matrix"] = shapes["boundary_words"][of] + inside_words.astype(np.uint64)
        tiles["first_boundary"], tiles["n_boundary"] = shapes["first_boundary"][of], shapes["n_boundary"][of]
        tiles["chunk"] = of
        tiles["first_place"] = shapes["first_place"][of] + inside * int(TILE)
        tiles["first_local"] = inside * int(TILE)
        tiles["n_rows"] = np.minimum(shapes["n_own"][of] - inside * int(TILE), int(TILE))
        return tiles

    @cached_property
    def is_shared(self) -> np.ndarray:
        """(C,) bool: the chunks that all sources climb together; none if that does not pay.

        With a chunk come those above it.
        """
        chunks, shapes = self.chunks, self.shapes
        n_vertices, first_low = self.completion.n_vertices, chunks.first_low
        roots = np.empty(n_vertices, np.uint32)
        roots[chunks.places] = np.arange(n_vertices, dtype=np.uint32)
        roots = roots[np.maximum(chunks.first_places[1 : first_low + 1], 1) - 1]
        n_below = roots + 1 - firsts_of(self.completion.parents)[roots]
        is_shared = np.zeros(chunks.n_chunks, np.bool_)
        is_shared[:first_low] = n_below >= LEAST_SHARE * n_vertices
        is_shared[:1] = True  # the top may have several roots
        shared = shapes[is_shared]
        if np.sum(shared["n_own"].astype(np.int64) * shared["n_boundary"]) < LEAST_WORDS:
            is_shared[:] = False
        return is_shared

    @cached_property
    def shared(self) -> SharedFronts:
        """The chunks of `is_shared`."""
        shapes, fronts = self.shapes, np.flatnonzero(self.is_shared)
        n_own, n_boundary = (shapes[name][fronts].astype(np.int64) for name in ("n_own", "n_boundary"))
        limits = np.searchsorted(fronts, self.chunks.bands).tolist()
        bands = [
            (first, end, _sizes(n_boundary[first:end]).most, _sizes(n_own[first:end]))
            for first, end in itertools.pairwise(limits)
            if np.any(n_own[first:end])  # the top may be empty
        ]
        end_place = int(self.chunks.first_places[fronts[-1] + 1]) if len(fronts) else 0
        n_products = int(np.sum(n_own * (n_own + n_boundary)))
        return SharedFronts(fronts.astype(np.uint32), bands, end_place, n_products)

    @cached_property
    def own_boundaries(self) -> tuple[np.ndarray, int]:
        """The tiles of all chunks, many with places for a boundary of their own, and how many vertices that takes.

        These tiles have their places and their matrices behind those of all chunks, with room for the whole boundary of
        the chunk. `tile_boundaries_kernel` finds what they need of it.
        """
        tiles, n_before, n_words = self.tiles.copy(), len(self.chunks.boundary), self.words_before[0][-1]
        is_short = tiles["n_boundary"] <= MOST_COMPARED
        ends = np.cumsum(np.where(is_short, tiles["n_boundary"], 0), dtype=np.int64)
        is_short &= n_before + ends <= MOST_PLACES
        begins = (ends - tiles["n_boundary"])[is_short]
        tiles["first_boundary"][is_short] = n_before + begins
        tiles["matrix"][is_short] = n_words + TILE * begins.astype(np.uint64)
        return tiles, int(np.sum(tiles["n_boundary"][is_short], dtype=np.int64))

    def fronts_of(self, tiles: np.ndarray) -> np.ndarray:
        """Return which chunks are fronts: (C,) bool.

        `tiles` are those of all chunks, with as many boundary vertices as they need.
        """
        n_boundary = self.shapes["n_boundary"]
        n_needed = np.bincount(tiles["chunk"], tiles["n_boundary"], len(n_boundary)) / np.maximum(
            self.n_tiles, 1
        )
        is_sparse = (n_needed < LEAST_FRONT) & (SPARSE * n_needed <= n_boundary)
        is_front = (n_boundary >= LEAST_FRONT) & ~is_sparse | self.is_shared
        is_front[self.chunks.first_low :] = False
        return is_front

    def swept_above(self, tiles: np.ndarray) -> Swept:
        """Return what a sweep takes between the top and the last band; `tiles` as for `fronts_of`."""
        first, end = self.first_tiles[[1, self.chunks.first_low]]
        return self.swept_of(np.arange(first, end), tiles)

    def swept_of(self, wanted: np.ndarray, tiles: np.ndarray) -> Swept:
        """Return what a sweep takes to compute the tiles `wanted` (N,) int64, which rise and are not of the top.

        `tiles` are as for `fronts_of`.
        """
        chunks, shapes = self.chunks, self.shapes
        taken = tiles[wanted]
        of_fronts = self.fronts_of(tiles)[taken["chunk"]]
        fronts, others = np.unique(taken["chunk"][of_fronts]), taken[~of_fronts]
        groups = 2 * np.searchsorted(chunks.bands[1:], taken["chunk"], side="right") + of_fronts
        order = np.argsort(groups, kind="stable")
        taken, limits = (
            taken[order],
            np.searchsorted(groups[order], np.arange(2 * len(chunks.bands) - 1)).tolist(),
        )
        shapes = shapes[fronts]
        n_own, n_boundary = (shapes[name].astype(np.int64) for name in ("n_own", "n_boundary"))
        front_limits = np.searchsorted(fronts, chunks.bands).tolist()
        bands = [
            Band(
                *of_band,
                *(first, end, first_of_fronts),
                _sizes(n_boundary[slice(*of_band)]),
                int(np.max(taken["n_boundary"][first:end])),
            )
            for of_band, first, first_of_fronts, end in zip(
                itertools.pairwise(front_limits), limits[:-1:2], limits[1::2], limits[2::2], strict=True
            )
            if first < end
        ]
        return Swept(
            fronts,
            taken,
            bands,
            int(chunks.first_places[fronts[-1] + 1]) if len(fronts) else 0,
            int(np.sum(n_own) + np.sum(others["n_rows"], dtype=np.int64)),
            int(
                np.sum(n_own * n_boundary) + np.sum(others["n_rows"].astype(np.int64) * others["n_boundary"])
            ),
        )

    @property
    def n_depths(self) -> int:
        return int(np.max(self.chunks.depths)) + 1


def _sizes(n_vertices: np.ndarray) -> Sizes:
    return Sizes(int(np.max(n_vertices, initial=0)), int(np.sum(n_vertices)))


@kept_with_graph
def host_hierarchy(graph: CsrGraph) -> HostHierarchy:
    """Return the hierarchy of `graph` without weights. It raises the errors of `shared_completion`."""
    completion = shared_completion(graph)
    wait_for(chunk_kernels(), graph.weight_dtype)
    return HostHierarchy(completion, cut(completion))


@cache
def chunk_kernels() -> KernelGroup:
    """Return the kernels on the host, which a child can compile."""
    return KernelGroup(compile_chunks, _fill_heights)


def compile_chunks(dtype: np.dtype) -> None:
    """Compile the kernels on the host."""
    completion = one_arc()
    host = HostHierarchy(completion, cut(completion))
    assert len(host.next_chunks) == len(host.low_by_height[0])


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
