"""Sorted rows: the edges of a range of vertices become rows in the order of targets and weights, without the GIL.

Rows are made from sorted keys of 64 bits, which have the row, the target, and the weight or the index of each edge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.pipeline.ingest.rows.grouping import bits_of, grouped_by_source


def csr_of_edges(
    src: np.ndarray, dst: np.ndarray, weights: np.ndarray, n_vertices: int, *, mirror: bool
) -> CsrGraph:
    """Return the graph of edges in memory, with rows sorted by target and weight; parallel edges are kept.

    Parameters
    ----------
    src, dst
        (E,) uint32 below `n_vertices`.
    weights
        (E,) of one of `csr.WEIGHT_DTYPES`.
    mirror
        Whether to add the reverse of every edge but self-loops.
    """
    if mirror:
        src, dst, bits, *_ = grouped_by_source(src, dst, bits_of(weights), False, True)
        weights = bits.view(weights.dtype)
    return CsrGraph(*rows_between(0, n_vertices, src, dst, weights)).check()


def sources_of_edges(graph: CsrGraph) -> np.ndarray:
    """Return the vertex where each edge starts, (E,) uint32."""
    return np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))


def reversed_graph(graph: CsrGraph) -> CsrGraph:
    """Return `graph` with all edges in the other direction; `reversal_bytes` is the memory that this takes."""
    ends = graph.col_indices, sources_of_edges(graph)
    return csr_of_edges(*ends, graph.weights, graph.n_vertices, mirror=False)


def reversal_bytes(traits: GraphTraits) -> int:
    """Return the memory of `reversed_graph`: the new graph, the starts of the edges, and where each row is filled."""
    return traits.n_edges * (8 + traits.weight_dtype.itemsize) + 16 * traits.n_vertices


@dataclass(frozen=True)
class Bounds:
    """What all targets and weights of some edges are within."""

    #: The bits of a target.
    target_bits: int
    #: The least weight modulo 2^64, and the bits that say how much a weight is above it. 64 bits stand for decimals,
    #: which have no such number.
    least: np.int64
    weight_bits: int

    @classmethod
    def of(cls, n_vertices: int, low: float, high: float, dtype: np.dtype) -> Bounds:
        """Return the bounds of targets below `n_vertices` and weights of type `dtype` from `low` to `high`."""
        target_bits = max(0, n_vertices - 1).bit_length()
        if dtype.kind == "f":
            return cls(target_bits, np.int64(0), 64)
        low, high = int(low), int(high)
        return cls(target_bits, np.uint64(low % 2**64).astype(np.int64), (high - low).bit_length())

    @classmethod
    def of_edges(cls, dst: np.ndarray, weights: np.ndarray) -> Bounds:
        """Return the bounds of these edges."""
        low, high = (weights.min().item(), weights.max().item()) if len(weights) else (0, 0)
        return cls.of(int(dst.max(initial=0)) + 1, low, high, weights.dtype)


def rows_between(
    first: int,
    last: int,
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    *,
    bounds: Bounds | None = None,
    lightest: bool = False,
    in_order: bool = False,
    scratch: Scratch | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return row offsets, targets and weights of the rows [first, last), sorted by target and then by weight.

    Edges (E,) from other vertices are left out, and with `lightest` all but the lightest of the edges with equal ends.
    With `in_order`, edges with equal ends are not sorted by weight: they keep their order.
    The row offsets (last - first + 1,) int64 begin with 0. What is computed meanwhile is in the memory of `scratch`.
    Without `bounds`, the bounds of the edges are computed.
    """
    scratch = scratch or Scratch()
    bounds = bounds or Bounds.of_edges(dst, weights)
    if in_order:
        bounds = replace(bounds, weight_bits=64)  # so the keys have the index of each edge
    row_offsets = np.zeros(last - first + 1, np.int64)
    pieces = []
    for part in _small_ranges(first, last, src, dst, weights, bounds):
        counts = row_offsets[part[0] - first + 1 : part[1] - first + 1]
        pieces.append(_count_and_sort(*part, bounds, lightest, in_order, counts, scratch))
    np.cumsum(row_offsets, out=row_offsets)
    if len(pieces) == 1:
        return row_offsets, *pieces[0]
    pieces.append((np.empty(0, np.uint32), np.empty(0, weights.dtype)))
    col_indices, placed = (np.concatenate(arrays) for arrays in zip(*pieces, strict=True))
    return row_offsets, col_indices, placed


#: Rows [begin, end) and the sources, targets and weights of their edges, and possibly of others.
_Range: TypeAlias = tuple[int, int, np.ndarray, np.ndarray, np.ndarray]


def _small_ranges(
    first: int, last: int, src: np.ndarray, dst: np.ndarray, weights: np.ndarray, bounds: Bounds
) -> Iterator[_Range]:
    """Divide the rows [first, last) into ranges whose keys fit 64 bits; rows without edges may be in no range.

    The ranges of an ingest are so small that they need no division.
    """
    edge_bits = bounds.target_bits + min(_index_bits(dst), bounds.weight_bits)
    if last - first <= 1 or (last - first - 1).bit_length() + edge_bits <= 64:
        yield first, last, src, dst, weights
        return
    src, dst, bits, starts, low, shift, _ = grouped_by_source(src, dst, bits_of(weights), False, False)
    weights = bits.view(weights.dtype)
    for group, (begin, end) in enumerate(pairwise(starts.tolist())):
        row = int(low) + (group << int(shift))
        rows = max(first, row), min(last, row + (1 << int(shift)))
        if begin < end and rows[0] < rows[1]:
            here = slice(begin, end)
            yield from _small_ranges(*rows, src[here], dst[here], weights[here], bounds)


def _index_bits(dst: np.ndarray) -> int:
    """Return the bits of the index of an edge."""
    return max(0, len(dst) - 1).bit_length()


def _count_and_sort(
    first: int,
    last: int,
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    bounds: Bounds,
    lightest: bool,
    in_order: bool,
    counts: np.ndarray,
    scratch: Scratch,
) -> tuple[np.ndarray, np.ndarray]:
    """Return targets and weights of the rows [first, last), as `rows_between`; add the edges of each row to `counts`.

    A key is one number that has the order of the edges. NumPy sorts keys with vectors: several times as fast as a
    compiled loop sorts row by row. The lowest bits of a key are the weight, or if it has too many bits the index of the
    edge.
    """
    target_bits, least, weight_bits = bounds.target_bits, bounds.least, bounds.weight_bits
    index_bits = _index_bits(dst)
    assert target_bits + index_bits <= 64, "a vertex has at most 2^32 edges"
    keys = scratch.array("keys", len(src), np.uint64)
    if weight_bits < 64 and (last - first - 1).bit_length() + target_bits + weight_bits <= 64:
        keys = keys[: pack_weights(first, last, src, dst, weights, least, target_bits, weight_bits, keys)]
        keys.sort()
        col_indices, placed = np.empty(len(keys), np.uint32), np.empty(len(keys), weights.dtype)
        n = unpack_weights(keys, least, target_bits, weight_bits, lightest, counts, col_indices, placed)
    else:
        keys = keys[: pack_edges(first, last, src, dst, target_bits, index_bits, keys)]
        keys.sort()
        col_indices, placed = np.empty(len(keys), np.uint32), np.empty(len(keys), weights.dtype)
        ways = lightest, in_order
        n = unpack_edges(keys, target_bits, index_bits, weights, *ways, counts, col_indices, placed)
    return col_indices[:n], placed[:n]


@njit(nogil=True)
def pack_weights(
    first: int,
    last: int,
    src: np.ndarray,
    dst: np.ndarray,
    weights: np.ndarray,
    least: int,
    target_bits: int,
    weight_bits: int,
    keys: np.ndarray,
) -> int:
    """Write the keys of the edges from the vertices [first, last) to `keys`; return how many there are.

    From its highest bit on, a key is the row, the target, and by how much the weight is above `least`, modulo 2^64.
    """
    n = 0
    row_shift, target_shift = np.uint64(target_bits + weight_bits), np.uint64(weight_bits)
    for i in range(len(src)):
        u = np.intp(src[i])
        if first <= u < last:
            above = np.uint64(np.int64(weights[i]) - least)
            keys[n] = np.uint64(u - first) << row_shift | np.uint64(dst[i]) << target_shift | above
            n += 1
    return n


@njit(nogil=True)
def unpack_weights(
    keys: np.ndarray,
    least: int,
    target_bits: int,
    weight_bits: int,
    lightest: bool,
    counts: np.ndarray,
    col_indices: np.ndarray,
    placed: np.ndarray,
) -> int:
    """Write the edges of sorted `keys`, and count the edges of each row; return how many edges there are.

    With `lightest`, only the first of the edges with equal ends is written.
    """
    row_shift, target_shift = np.uint64(target_bits), np.uint64(weight_bits)
    target_mask = (np.uint64(1) << row_shift) - np.uint64(1)
    weight_mask = (np.uint64(1) << target_shift) - np.uint64(1)
    n = 0
    before = np.uint64(0)
    for key in keys:
        ends = key >> target_shift
        if lightest:
            if ends == before and n > 0:
                continue
            before = ends
        counts[np.intp(ends >> row_shift)] += 1
        col_indices[n], placed[n] = ends & target_mask, np.int64(key & weight_mask) + least
        n += 1
    return n


@njit(nogil=True)
def pack_edges(
    first: int,
    last: int,
    src: np.ndarray,
    dst: np.ndarray,
    target_bits: int,
    index_bits: int,
    keys: np.ndarray,
) -> int:
    """Write the keys of the edges from the vertices [first, last) to `keys`; return how many there are.

    From its highest bit on, a key is the row, the target, and the index of the edge.
    """
    n = 0
    row_shift, target_shift = np.uint64(target_bits + index_bits), np.uint64(index_bits)
    for i in range(len(src)):
        u = np.intp(src[i])
        if first <= u < last:
            keys[n] = np.uint64(u - first) << row_shift | np.uint64(dst[i]) << target_shift | np.uint64(i)
            n += 1
    return n


@njit(nogil=True)
def unpack_edges(
    keys: np.ndarray,
    target_bits: int,
    index_bits: int,
    weights: np.ndarray,
    lightest: bool,
    in_order: bool,
    counts: np.ndarray,
    col_indices: np.ndarray,
    placed: np.ndarray,
) -> int:
    """Write the edges of sorted `keys`, and count the edges of each row; return how many edges there are.

    Edges with equal ends are sorted by weight, or with `lightest` only the first, lightest one is written, or they are
    `in_order` of their indices.
    """
    row_shift, target_shift = np.uint64(target_bits), np.uint64(index_bits)
    target_mask = (np.uint64(1) << row_shift) - np.uint64(1)
    index_mask = (np.uint64(1) << target_shift) - np.uint64(1)
    write = begin = 0  # edges from `begin` on have the ends `before`
    before = np.uint64(0)
    for key in keys:
        ends, weight = key >> target_shift, weights[np.intp(key & index_mask)]
        if ends != before or write == 0:
            if write - begin > 1 and not in_order:
                placed[begin:write].sort()
            begin, before = write, ends
        elif lightest:
            placed[begin] = min(placed[begin], weight)
            continue
        counts[np.intp(ends >> row_shift)] += 1
        col_indices[write], placed[write] = ends & target_mask, weight
        write += 1
    if write - begin > 1 and not in_order:
        placed[begin:write].sort()
    return write


@njit(nogil=True)
def first_duplicate(row_offsets: np.ndarray, col_indices: np.ndarray) -> int:
    """Return the index of the first edge that has the same target as the edge before it in its row, or -1."""
    for v in range(len(row_offsets) - 1):
        for e in range(row_offsets[v] + 1, row_offsets[v + 1]):
            if col_indices[e] == col_indices[e - 1]:
                return e
    return -1
