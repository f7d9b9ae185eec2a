"""Accumulates rows over sources in host memory; `kernels/contract/over_sources.py` describes the words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import GraphTraits, unreached_distance
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.over_sources import OverSources, bits_of, low_exponent
from sssp_pipeline.kernels.host.mean import mantissa_bits
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO

_LIMB: Any = np.uint64(0xFFFFFFFF)
_32: Any = np.uint64(32)
_64: Any = np.uint64(64)


@dataclass(eq=False)
class Accumulator:
    """The words of the sources that were added so far, in host memory; one thread at a time adds to it."""

    over: OverSources
    traits: GraphTraits
    #: How many vertices its rows have; None for all of the graph.
    n_columns: int | None = None
    #: (W, V) uint64.
    words: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        dtype = self.traits.weight_dtype
        n_columns = self.traits.n_vertices if self.n_columns is None else self.n_columns
        self.words = self.over.none(dtype, n_columns)
        sign = np.uint64(0 if dtype.kind == "u" else 1 << (8 * dtype.itemsize - 1))
        bits = (
            bits_of(self.over.limits(dtype)),
            sign,
            np.uint64(mantissa_bits(dtype)),
            low_exponent(self.traits),
        )
        self._arguments = *bits, self.over.nearest, self.over.first_sum(), self.over.n_limbs(dtype)

    def clear(self) -> None:
        """Forget all sources."""
        self.words[:] = self.over.none(self.traits.weight_dtype, self.words.shape[1])

    def add(self, row: np.ndarray, source: int) -> None:
        """Add the distances `row` (V,) from `source`."""
        unreached = bits_of(unreached_distance(row.dtype))
        _accumulate(bits_of(row), np.uint64(source), unreached, *self._arguments, self.words)

    def merge(self, words: np.ndarray) -> None:
        """Add the words (W, V) of other sources."""
        self.over.merge(self.words, words, self.traits.weight_dtype)


@njit(nogil=True)
def _accumulate(
    row: np.ndarray,
    source: Any,
    unreached: Any,
    limits: np.ndarray,
    sign: Any,
    mantissa: Any,
    low: int,
    nearest: bool,
    first_sum: int,
    n_limbs: int,
    words: np.ndarray,
) -> None:
    """Add to `words` (W, V) a row (V,) of the bits of distances; see `Accumulator.add`.

    `sign` is the bit that negative distances have, 0 if there are none. `mantissa` is 0 for integers.
    """
    first_within = first_sum + n_limbs
    for v in range(len(row)):
        if row[v] == unreached:
            continue
        d = np.uint64(row[v])
        negative = d & sign
        words[0, v] += ONE
        key = _in_order(d, sign, mantissa)
        if nearest:
            best = _in_order(words[1, v], sign, mantissa)
            if key < best or (key == best and source < words[2, v]):
                words[1, v], words[2, v] = d, source
        for r in range(len(limits)):
            if key < _in_order(np.uint64(limits[r]), sign, mantissa):
                words[first_within + r, v] += ONE
        if n_limbs == 0:
            continue
        if mantissa == ZERO:
            if negative:
                d |= ~(sign - ONE)  # 64 bits
            if n_limbs == 1:
                words[first_sum, v] += d
            else:
                words[first_sum, v] += d & _LIMB
                words[first_sum + 1, v] += d >> _32
                if negative:
                    words[first_sum + 1, v] += ~_LIMB
            continue
        d ^= negative
        exponent = np.int64(d >> mantissa)
        d &= (ONE << mantissa) - ONE
        if exponent:
            d |= ONE << mantissa
        shift = max(exponent, 1) - low
        first, upper = 0, ZERO
        if shift <= -64:
            d = ZERO
        elif shift < 0:
            d >>= np.uint64(-shift)
        else:
            first, bits = shift // 32, np.uint64(shift % 32)
            if bits:
                upper = d >> (_64 - bits)
            d <<= bits
        for part in range(3 - first):
            limb = d & _LIMB if part == 0 else d >> _32 if part == 1 else upper
            if negative:
                limb = ~limb + ONE
            words[first_sum + first + part, v] += limb


@njit(inline="always")
def _in_order(bits: Any, sign: Any, mantissa: Any) -> Any:
    """Return a uint64 that has the order of the distances with these `bits`."""
    return ~bits & (sign + (sign - ONE)) if bits & sign and mantissa else bits ^ sign
