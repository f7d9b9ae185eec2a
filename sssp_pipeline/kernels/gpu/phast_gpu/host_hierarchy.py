"""A hierarchy on the host: its chunks, and the tiles and bands that kernels work on. Nothing depends on the weights."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup, wait_for
from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.hierarchy.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.chunks import TILE, Chunks, cut
from sssp_pipeline.kernels.hierarchy.compile_ahead import one_arc
from sssp_pipeline.kernels.hierarchy.shared import shared_completion
from sssp_pipeline.kernels.host.numba_tools import ONE

#: As `Chunk` and `Tile` of the kernels.
_CHUNK = struct_type(Path(__file__).with_name("sweep_words.cuh"), "Chunk")
_TILE = struct_type(Path(__file__).with_name("call.cuh"), "Tile")
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
