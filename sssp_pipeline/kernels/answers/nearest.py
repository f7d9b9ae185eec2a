"""The k nearest vertices of a row, or the k nearest of some targets; `docs/design/0015-reductions.md`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.kept import KeptOfRow, checked_vertices
from sssp_pipeline.kernels.host.kernel_threads import KernelThreads

#: The largest k.
MOST_NEAREST = 1024
#: How many vertices and distances of a block of sources the cache of a core holds.
_BLOCK = 2**12


@dataclass(frozen=True, eq=False)
class NearestOfRow(KeptOfRow):
    """The k nearest vertices of a row as (2k,) words: the bits of their distances in rising order, then the vertices.

    Of equal distances the smallest vertex comes first. Where fewer than k are reached, the rest is "unreached" and
    `NO_VERTEX`.
    """

    k: int
    #: (T,) integers: the vertices to choose from. None means every vertex.
    targets: np.ndarray | None = None

    takes_costs: ClassVar[bool] = True

    @property
    def read_vertices(self) -> np.ndarray | None:
        return self.targets

    def n_columns(self, n_vertices: int) -> int:
        return 2 * self.k

    def dtype(self, weight_dtype: np.dtype) -> np.dtype:
        return np.dtype(np.uint64)

    def checked(self, n_vertices: int) -> KeptOfRow:
        """Return the same with each target once, ascending.

        Raises
        ------
        InputError
            k is out of range, or a target is not in the graph.
        """
        if not isinstance(self.k, int | np.integer) or not 1 <= self.k <= MOST_NEAREST:
            raise InputError(f"k is {self.k}", hint=f"ask for 1 to {MOST_NEAREST:,} nearest vertices")
        if self.targets is None:
            return self
        return replace(self, targets=np.unique(checked_vertices(self.targets, n_vertices, "target")))

    def reduce(self, row: np.ndarray, into: np.ndarray) -> None:
        targets = np.empty(0, np.uint32) if self.targets is None else self.targets
        nearest = np.full(self.k, unreached_distance(row.dtype))
        vertices = np.full(self.k, NO_VERTEX, np.uint32)
        _collect(row, targets, self.targets is None, nearest, vertices)
        into[: self.k] = nearest.view(f"u{row.itemsize}")
        into[self.k :] = vertices

    def n_costs(self, n_vertices: int) -> int:
        return self.k

    def take_costs(self, kept: np.ndarray, costs: np.ndarray, into: np.ndarray) -> None:
        vertices = kept[self.k :]
        into[:] = unreached_distance(costs.dtype)
        is_there = vertices != NO_VERTEX
        into[is_there] = costs[vertices[is_there]]

    def device_bytes(self, n_vertices: int, weight_dtype: np.dtype) -> int:
        return self.n_columns(n_vertices) * np.dtype(np.uint64).itemsize

    def fixed_device_bytes(self, n_vertices: int) -> int:
        return 0 if self.targets is None else 4 * len(self.targets)


def nearest_of(words: np.ndarray, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances (S, k) of `dtype` and the vertices (S, k) uint32 that `words` (S, 2k) hold."""
    k = words.shape[1] // 2
    distances = words[:, :k].astype(f"u{dtype.itemsize}").view(dtype)
    return distances, words[:, k:].astype(np.uint32)


def no_nearest(n_sources: int, k: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return distances (S, k) and vertices (S, k) before any vertex is reached."""
    shape = n_sources, k
    return np.full(shape, unreached_distance(dtype)), np.full(shape, NO_VERTEX, np.uint32)


def words_of(distances: np.ndarray, vertices: np.ndarray) -> np.ndarray:
    """Return the words (S, 2k) of distances and vertices (S, k)."""
    return np.concatenate([distances.view(f"u{distances.itemsize}"), vertices], axis=1, dtype=np.uint64)


def merge_nearest(
    rows: np.ndarray,
    targets: np.ndarray,
    distances: np.ndarray,
    vertices: np.ndarray,
    threads: KernelThreads,
) -> None:
    """Take more targets into the k nearest ones of each source.

    Parameters
    ----------
    rows
        (n, S), the distances from each source to its `targets`.
    targets
        (n,) uint32, or (n, S) if each source has targets of its own. They were not taken before. The order in which
        they are taken does not change the result.
    distances, vertices
        (S, k), as `no_nearest` returns them. They are changed.
    threads
        They share the sources.
    """
    # A copy: arrays that can be written have one type, so the kernel is compiled once.
    named = np.array(targets.reshape(len(rows), -1), np.uint32, order="C")
    unreached, is_each = unreached_distance(rows.dtype), named.shape[1] > 1
    bounds = [len(distances) * i // threads.size for i in range(threads.size + 1)]
    threads.run(
        lambda i: _merge(rows, named, is_each, unreached, distances, vertices, bounds[i], bounds[i + 1])
    )


@njit(nogil=True)
def _merge(
    rows: np.ndarray,
    targets: np.ndarray,
    is_each: bool,
    unreached: Any,
    distances: np.ndarray,
    vertices: np.ndarray,
    begin: int,
    end: int,
) -> None:
    """Do what `merge_nearest` does for the sources [begin, end). What is kept of a block stays in the cache."""
    last = distances.shape[1] - 1
    block = max(64, _BLOCK // (last + 1))
    for first in range(begin, end, block):
        stop = min(first + block, end)
        for i in range(len(targets)):
            for s in range(first, stop):
                d = rows[i, s]
                nearest, named = distances[s], vertices[s]
                if d == unreached or d > nearest[last]:
                    continue
                v = targets[i, s if is_each else 0]
                if d == nearest[last] and v > named[last]:
                    continue
                place = last
                while place > 0 and (
                    nearest[place - 1] > d or (nearest[place - 1] == d and named[place - 1] > v)
                ):
                    nearest[place], named[place] = nearest[place - 1], named[place - 1]
                    place -= 1
                nearest[place], named[place] = d, v


@njit(nogil=True)
def _collect(
    row: np.ndarray,
    targets: np.ndarray,
    every: bool,
    nearest: np.ndarray,
    vertices: np.ndarray,
) -> None:
    """Insert the candidates, whose vertices rise, into the sorted `nearest` (k,), all "unreached", and `vertices`."""
    last = len(nearest) - 1
    for i in range(len(row) if every else len(targets)):
        v = np.uint32(i) if every else targets[i]
        d = row[v]
        if d >= nearest[last]:  # a tie with an earlier vertex too
            continue
        place = last
        while place > 0 and nearest[place - 1] > d:
            nearest[place], vertices[place] = nearest[place - 1], vertices[place - 1]
            place -= 1
        nearest[place], vertices[place] = d, v
