"""What is kept of each vertex over many sources: the nearest source, counts, and exact sums of distances.

For each vertex there are words of 64 bits, which are integers and bits of distances. Adding a source, and merging the
words of two sets of sources, gives the same words in any order. So batches, workers, restarts and solvers change no
bit. `host/accumulator.py` makes the words on the host, and `over_sources.cu` on a GPU.
`docs/design/0015-reductions.md` has the idea.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, GraphTraits, distance_limit, unreached_distance

#: Words of a vertex: how many sources reach it; with `nearest` the bits of the distance from the nearest source, then
#: that source; with `sums` the limbs of the sum; then the counts within each radius.
REACHED_BY, NEAREST = 0, 1
#: Bits of a float as an integer: three limbs of 32 bits, without the uppermost bit.
_FIXED_BITS = 95


@dataclass(frozen=True)
class OverSources:
    """What is kept of each vertex over fewer than 2^31 sources, as (W, V) words."""

    #: Whether the nearest source is wanted; of equal distances, the smallest source.
    nearest: bool = False
    #: Whether the sum of the distances is wanted.
    sums: bool = False
    #: R radii, ascending, in the unit of the weights: how many sources are at most this far?
    radii: tuple[float, ...] = ()

    def n_words(self, dtype: np.dtype) -> int:
        """Return W for weights of `dtype`."""
        return self.first_within(dtype) + len(self.radii)

    def n_limbs(self, dtype: np.dtype) -> int:
        """Return how many words the sum of distances of `dtype` takes."""
        if not self.sums:
            return 0
        return 3 if dtype.kind == "f" else dtype.itemsize // 4

    def first_sum(self) -> int:
        """Return the place of the first limb."""
        return NEAREST + 2 * self.nearest

    def first_within(self, dtype: np.dtype) -> int:
        """Return the place of the first count within a radius."""
        return self.first_sum() + self.n_limbs(dtype)

    def none(self, dtype: np.dtype, n_vertices: int) -> np.ndarray:
        """Return the words (W, V) uint64 of no source."""
        words = np.zeros((self.n_words(dtype), n_vertices), np.uint64)
        if self.nearest:
            words[NEAREST], words[NEAREST + 1] = bits_of(unreached_distance(dtype)), NO_VERTEX
        return words

    def limits(self, dtype: np.dtype) -> np.ndarray:
        """Return the limits (R,) of `dtype`: a source is within a radius if its distance is below the limit."""
        return np.array([distance_limit(dtype, radius) for radius in self.radii], dtype)

    def merge(self, words: np.ndarray, more: np.ndarray, dtype: np.dtype) -> None:
        """Add the words `more` (W, V) of other sources to `words` (W, V)."""
        if self.nearest:
            nearest, other = distances_of(words, dtype), distances_of(more, dtype)
            is_nearer = other < nearest
            is_nearer |= (other == nearest) & (more[NEAREST + 1] < words[NEAREST + 1])
            for word in (NEAREST, NEAREST + 1):
                np.copyto(words[word], more[word], where=is_nearer)
        for word in (REACHED_BY, *range(self.first_sum(), len(words))):
            words[word] += more[word]


def distances_of(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the distances (V,) of `dtype` from the nearest sources, from `words` (W, V)."""
    return words[NEAREST].astype(f"u{dtype.itemsize}").view(dtype)


def total_of(limbs: np.ndarray, traits: GraphTraits) -> tuple[np.ndarray | list[int], int]:
    """Return the exact sums of distances as V integers, and the power of two by which all are multiplied.

    They are an array if one word holds each.

    Parameters
    ----------
    limbs
        (n, V) uint64.
    """
    kind = "u8" if traits.weight_dtype.kind == "u" else "i8"
    if len(limbs) == 1:
        return limbs[0].view(kind), 0
    totals = [0] * limbs.shape[1]
    for place, limb in enumerate(limbs.view(kind).tolist()):
        totals = [total + (word << 32 * place) for total, word in zip(totals, limb, strict=True)]
    return totals, _unit(traits)


def bits_of(values: Any) -> Any:
    """Return the bits of distances, an array or one, as unsigned integers."""
    return values.view(f"u{values.itemsize}")


def _unit(traits: GraphTraits) -> int:
    """Return the power of two of which distances are taken as multiples; 0 for integers.

    A rounded sum of n weights is at most 2n times the largest of them. So every distance is below 2^95 multiples.
    """
    if traits.weight_dtype.kind != "f":
        return 0
    _, exponent = math.frexp(max(abs(traits.min_weight), abs(traits.max_weight)))
    most = exponent + traits.n_vertices.bit_length() + 1
    return min(most, int(np.finfo(traits.weight_dtype).maxexp)) - _FIXED_BITS


def low_exponent(traits: GraphTraits) -> int:
    """Return the exponent field of a float whose mantissa is the integer that it stands for."""
    if traits.weight_dtype.kind != "f":
        return 0
    info = np.finfo(traits.weight_dtype)
    return _unit(traits) + int(info.maxexp) - 1 + int(info.nmant)
