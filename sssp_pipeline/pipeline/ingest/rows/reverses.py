"""Reverses: whether each edge of sorted rows has a reverse of the same weight."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.pipeline.ingest.rows.grouping import bits_of


@njit(nogil=True, inline="always")
def _less(col_a: int, weight_a: float, col_b: int, weight_b: float) -> bool:
    return col_a < col_b or (col_a == col_b and weight_a < weight_b)


@njit(nogil=True)
def first_one_way(
    row_offsets: np.ndarray, col_indices: np.ndarray, weights: np.ndarray, first_vertex: int = 0
) -> int:
    """Return the index of the first edge in sorted rows without a reverse of the same weight, or -1.

    The first row belongs to `first_vertex`. Edges to vertices without a row are not looked at.
    """
    for u in range(len(row_offsets) - 1):
        for e in range(row_offsets[u], row_offsets[u + 1]):
            v = np.intp(col_indices[e]) - first_vertex
            if v < 0 or v >= len(row_offsets) - 1:
                continue
            lo, hi = row_offsets[v], row_offsets[v + 1]
            while lo < hi:
                mid = (lo + hi) >> 1
                if _less(col_indices[mid], weights[mid], u + first_vertex, weights[e]):
                    lo = mid + 1
                else:
                    hi = mid
            if lo == row_offsets[v + 1] or col_indices[lo] != u + first_vertex or weights[lo] != weights[e]:
                return e
    return -1


@njit(nogil=True)
def has_both_ways(row_offsets: np.ndarray, col_indices: np.ndarray) -> bool:
    """Return whether an edge in the sorted rows of all vertices has its reverse, of any weight. Loops are left out."""
    for u in range(len(row_offsets) - 1):
        for e in range(row_offsets[u], row_offsets[u + 1]):
            v = np.intp(col_indices[e])
            if v >= u:
                break
            lo, hi = row_offsets[v], row_offsets[v + 1]
            while lo < hi:
                mid = (lo + hi) >> 1
                if col_indices[mid] < u:
                    lo = mid + 1
                else:
                    hi = mid
            if lo < row_offsets[v + 1] and col_indices[lo] == u:
                return True
    return False


def random_keys() -> np.ndarray:
    """Return new keys for `reverse_difference`."""
    return np.frombuffer(secrets.token_bytes(16), np.uint64) | np.array([1, 0], np.uint64)


def reverse_difference(
    first: int, row_offsets: np.ndarray, col_indices: np.ndarray, weights: np.ndarray, keys: np.ndarray
) -> int:
    """Return the sum of the hashes of the edges in sorted rows, minus the hashes of their reverses, modulo 2^64.

    If every edge has a reverse of the same weight, the sum over all rows is 0. Otherwise it is 0 by a chance of 2^-64.
    Equal edges count once.

    Parameters
    ----------
    first
        The vertex of the first row.
    weights
        (E,) of one of `csr.WEIGHT_DTYPES`.
    keys
        (2,) uint64, random; the first is odd.
    """
    if weights.dtype.kind == "f":
        # Zero may have a sign, which is in its bits, not in its value.
        weights = weights + weights.dtype.type(0)
    return int(_difference(first, row_offsets, col_indices, bits_of(weights), keys))


def sum_of_differences(differences: Iterable[int | None]) -> int | None:
    """Return the `reverse_difference` of all rows; None if an edge without a reverse is known."""
    total = 0
    for each in differences:
        if each is None:
            return None
        total = (total + each) % 2**64
    return total


@njit(nogil=True)
def _difference(
    first: int, row_offsets: np.ndarray, col_indices: np.ndarray, bits: np.ndarray, keys: np.ndarray
) -> Any:
    """Return what `reverse_difference` returns, from the bits of the weights."""
    total = np.uint64(0)
    for row in range(len(row_offsets) - 1):
        u = np.uint64(first + row)
        for e in range(row_offsets[row], row_offsets[row + 1]):
            if e > row_offsets[row] and col_indices[e] == col_indices[e - 1] and bits[e] == bits[e - 1]:
                continue
            v = np.uint64(col_indices[e])
            salt = np.uint64(bits[e]) * keys[0] + keys[1]
            total += _mixed(((u << np.uint64(32)) | v) ^ salt) - _mixed(((v << np.uint64(32)) | u) ^ salt)
    return total


@njit(nogil=True, inline="always")
def _mixed(x: np.uint64) -> np.uint64:
    """Return the bits of `x` mixed, as SplitMix64 does (Steele, Lea, Flood, OOPSLA 2014)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
