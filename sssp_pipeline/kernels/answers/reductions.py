"""Reductions of a row: counts, sums, closeness, what is within radii, histograms, quantiles.

`docs/design/0015-reductions.md` defines them.

A row becomes words of 64 bits: counts, parts of exact sums, and bits of numbers. `Reductions.reduce` makes them on the
host, and `reduce.cu` makes the same words on a GPU. The functions below make values of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, distance_limit, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.answers import distribution
from sssp_pipeline.kernels.answers.path_sums import PathSums
from sssp_pipeline.kernels.contract.kept import KeptOfRow
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.host.mean import exact_sum, mantissa_bits, sums, sums_of_counts

#: Words of a row. Counts within each radius follow, then the sums of the amounts within each radius, the counts of a
#: histogram, quantiles, and the totals along paths.
REACHED, LARGEST, MAGNITUDE, LOWER, UPPER, HARMONIC, WITHIN = range(7)
#: Vertices of a segment of the harmonic sum; `kSegment` of the kernels.
SEGMENT = 1024
#: Terms of the harmonic sum that are added lane by lane.
_LANES = 32
#: float64 holds all integers below it.
_EXACT = 2**53


@dataclass(frozen=True, eq=False)
class Reductions(KeptOfRow):
    """Counts and sums over a row, as (6 + R + R·A + B - 1 + Q + T,) words; B - 1 is 0 without bounds."""

    #: Counts and sums of NY and Email-Enron.
    reduce_s = 2.4e-9

    #: R radii, ascending, in the unit of the weights: how many vertices are at most this far?
    radii: tuple[float, ...] = ()
    #: (A, V) int64, which are summed over these vertices. The sum of all magnitudes of a row fits int64. None: A is 0.
    amounts: np.ndarray | None = None
    #: Whether the harmonic sum is wanted; without, it is 0.
    harmonic: bool = False
    #: B bounds of a histogram, rising, in the unit of the weights. A bucket holds its upper bound and not the lower
    #: one; the first bucket holds both.
    bounds: tuple[float, ...] = ()
    #: Q shares, rising, from 0 to 1: quantiles that are wanted. A share has at most 18 decimals.
    shares: tuple[float, ...] = ()
    over_sources: OverSources | None = None
    #: T totals of a row are its last words.
    paths: PathSumsAsked | None = None
    #: Whether the first six words are wanted. If nothing but totals is wanted, a solver may leave the others unwritten.
    facts: bool = True

    @property
    def reads_rows(self) -> bool:
        others = self.radii or self.bounds or self.shares or self.over_sources or self.harmonic
        return self.facts or bool(others)

    @property
    def n_amounts(self) -> int:
        return 0 if self.amounts is None else len(self.amounts)

    def n_columns(self, n_vertices: int) -> int:
        n_totals = 0 if self.paths is None else self.paths.n_totals
        return self.n_sums + max(len(self.bounds) - 1, 0) + len(self.shares) + n_totals

    def path_sums(self, graph: CsrGraph) -> PathSums | None:
        return None if self.paths is None else PathSums(graph, self.paths)

    @property
    def n_sums(self) -> int:
        """How many words come before the words of the histogram."""
        return WITHIN + len(self.radii) * (1 + self.n_amounts)

    def dtype(self, weight_dtype: np.dtype) -> np.dtype:
        return np.dtype(np.uint64)

    def checked(self, n_vertices: int) -> KeptOfRow:
        """Return this; raise `InputError` if there are not amounts of `n_vertices` vertices."""
        if self.amounts is not None and self.amounts.shape[1] != n_vertices:
            raise InputError(
                f"there are amounts of {self.amounts.shape[1]} vertices, and the graph has {n_vertices}",
                hint="give an amount for each vertex",
            )
        return self

    def reduce(self, row: np.ndarray, into: np.ndarray) -> None:
        bits = row.view(f"u{row.itemsize}")
        unreached = unreached_distance(row.dtype)
        sign = np.uint64(0 if row.dtype.kind == "u" else 1 << (8 * row.itemsize - 1))
        within = np.zeros((len(self.radii), 1 + self.n_amounts), np.int64)
        amounts = np.empty((0, len(row)), np.int64) if self.amounts is None else self.amounts
        partials = np.empty(partial_sums(len(row)) if self.harmonic else 0)
        limits = self.limits(row.dtype)
        reached, largest, least = _facts(row, unreached, limits, amounts, within, partials, SEGMENT)
        magnitude = max(largest, -least) if row.dtype.kind == "f" else largest
        top = row.dtype.type(magnitude).view(bits.dtype)
        mantissa = np.uint64(mantissa_bits(row.dtype))
        lower, upper = sums(bits, unreached.view(bits.dtype), top, mantissa, sign)
        into[REACHED], into[MAGNITUDE], into[LOWER], into[UPPER] = reached, top, lower, upper
        into[LARGEST] = row.dtype.type(largest).view(bits.dtype)
        into[HARMONIC] = np.float64(_added(partials, SEGMENT) if self.harmonic else 0).view(np.uint64)
        n_radii = len(self.radii)
        into[WITHIN : WITHIN + n_radii] = within[:, 0]
        into[WITHIN + n_radii : self.n_sums] = within[:, 1:].ravel().view(np.uint64)
        if self.bounds or self.shares:
            counts = distribution.bucket_counts(row, distribution.limits_of(self.bounds, row.dtype))
            finite = row[row != unreached] if self.shares else row[:0]
            found = distribution.quantiles_of(finite, distribution.numerators_of(self.shares))
            into[self.n_sums : self.n_sums + len(counts)] = counts
            first = self.n_sums + len(counts)
            into[first : first + len(found)] = found.view(bits.dtype)

    @property
    def takes_counts(self) -> bool:
        return not self.harmonic and self.amounts is None and self.paths is None

    def reduce_counts(self, distances: np.ndarray, counts: np.ndarray, into: np.ndarray) -> None:
        bits, _, lower, upper = sums_of_counts(distances, counts)
        up_to = np.zeros((len(counts) + 1, counts.shape[1]), np.uint64)
        np.cumsum(counts, axis=0, out=up_to[1:])
        into[:, REACHED], into[:, LOWER], into[:, UPPER] = up_to[-1], lower, upper
        into[:, LARGEST] = into[:, MAGNITUDE] = bits
        into[:, HARMONIC] = 0
        into[:, WITHIN : self.n_sums] = up_to[np.searchsorted(distances, self.limits(distances.dtype))].T
        beyond = up_to[np.searchsorted(distances, distribution.limits_of(self.bounds, distances.dtype))]
        end = self.n_sums + max(len(self.bounds) - 1, 0)
        into[:, self.n_sums : end] = np.diff(beyond, axis=0).T
        words, numerators = distances.view(f"u{distances.itemsize}"), distribution.numerators_of(self.shares)
        for row, sums_to in zip(into, up_to.T if self.shares else (), strict=False):
            ranks = distribution.ranks_of(numerators, int(sums_to[-1])).astype(np.uint64)
            row[end:] = words[np.searchsorted(sums_to[1:], ranks)]

    @property
    def takes_lanes(self) -> bool:
        return not self.shares and self.paths is None

    @property
    def reads_distances(self) -> bool:
        return bool(self.radii or self.harmonic or self.bounds or self.shares or self.over_sources)

    def device_bytes(self, n_vertices: int, weight_dtype: np.dtype) -> int:
        words = self.n_columns(n_vertices) + (partial_sums(n_vertices) if self.harmonic else 0)
        return words * np.dtype(np.uint64).itemsize

    def fixed_device_bytes(self, n_vertices: int) -> int:
        # At most: amounts of 32 bits take half of it.
        numbers = self.n_amounts * n_vertices + len(self.bounds) + len(self.shares)
        return 8 * numbers + self.part_bytes(n_vertices, np.dtype(np.float64))  # no type has more words

    def limits(self, dtype: np.dtype) -> np.ndarray:
        """Return the limits (R,) of `dtype`: a vertex is within a radius if its distance is below the limit."""
        return np.array([distance_limit(dtype, radius) for radius in self.radii], dtype)


def partial_sums(n_vertices: int) -> int:
    """Return how many partial sums the harmonic sum of a row has."""
    return max(1, -(-n_vertices // SEGMENT))


def words_of_sums(words: np.ndarray, dtype: np.dtype) -> list[tuple[int, int]]:
    """Return the exact sum of the distances of each row of `words` (S, W), as `exact_sum` does."""
    found = []
    for lower, upper, largest in words[:, [LOWER, UPPER, MAGNITUDE]].tolist():
        signed = upper - 2**64 if dtype.kind != "u" and upper >= 2**63 else upper
        found.append(exact_sum(dtype, lower, signed, largest))
    return found


def _small_sums(words: np.ndarray, dtype: np.dtype) -> np.ndarray | None:
    """Return the sum of the distances of each row, (S,) uint64, if float64 holds all of them; else None.

    A quotient of two integers that float64 holds is rounded once, as Python rounds the quotient of its integers.
    """
    lower = words[:, LOWER]
    are_small = dtype.kind != "f" and not words[:, UPPER].any() and lower.max(initial=0) < _EXACT
    return lower if are_small else None


def reached(words: np.ndarray) -> np.ndarray:
    """Return how many vertices each row reaches, (S,) int64."""
    return words[:, REACHED].astype(np.int64)


def max_distances(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the largest distance of each row, (S,) of `dtype`."""
    return words[:, LARGEST].astype(f"u{dtype.itemsize}").view(dtype)


def means(words: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the mean distance of each row, (S,) float64: `SourceMetrics.mean_distance`."""
    if (sums := _small_sums(words, dtype)) is not None:
        return sums / words[:, REACHED]
    counted = zip(words_of_sums(words, dtype), words[:, REACHED].tolist(), strict=True)
    return np.array([math.ldexp(total / count, exponent) for (total, exponent), count in counted])


def total_distances(words: np.ndarray, dtype: np.dtype, scale: int | None = None) -> np.ndarray:
    """Return the sum of the distances of each row, (S,) uint64, int64, or float64 for floats and with a `scale`.

    Raises
    ------
    SumTooLargeError
        The type does not hold a sum.
    """
    kind = np.dtype("float64" if dtype.kind == "f" or scale is not None else f"{dtype.kind}8")
    if (sums := _small_sums(words, dtype)) is not None:
        return (sums if scale is None else sums / scale).astype(kind)
    totals = np.empty(len(words), kind)
    for place, (total, exponent) in enumerate(words_of_sums(words, dtype)):
        try:
            totals[place] = total if kind.kind != "f" else math.ldexp(total / (scale or 1), exponent)
        except OverflowError as error:
            raise SumTooLargeError(place, kind) from error
    return totals


def closeness(words: np.ndarray, dtype: np.dtype, n_vertices: int, scale: int | None = None) -> np.ndarray:
    """Return the closeness of each row by Wasserman and Faust, (S,) float64; 0 where the sum of distances is 0.

    References
    ----------
    Wasserman, Faust: Social Network Analysis, 1994, chapter 5, equation 5.23.
    """
    mantissas, exponents = np.zeros(len(words)), np.zeros(len(words), np.int32)
    most_others, sums = int(words[:, REACHED].max(initial=1)) - 1, _small_sums(words, dtype)
    if sums is not None and most_others**2 * (scale or 1) < _EXACT > (n_vertices - 1) * int(
        sums.max(initial=0)
    ):
        others = words[:, REACHED].astype(np.int64) - 1
        return np.divide(others**2 * (scale or 1), (n_vertices - 1) * sums, out=mantissas, where=sums > 0)
    for place, (total, exponent) in enumerate(words_of_sums(words, dtype)):
        others = int(words[place, REACHED]) - 1
        if total:
            mantissas[place] = others**2 * (scale or 1) / ((n_vertices - 1) * total)
            exponents[place] = -exponent
    return np.ldexp(mantissas, exponents)


def harmonic_sums(words: np.ndarray, scale: int | None = None) -> np.ndarray:
    """Return the harmonic sum of each row, (S,) float64."""
    summed = words[:, HARMONIC].copy().view(np.float64)
    return summed if scale is None else summed * scale


def within(words: np.ndarray, radius: int, n_radii: int, n_amounts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many vertices are within the radius number `radius`, (S,) int64, and their amounts (S, A) int64."""
    first = WITHIN + n_radii + radius * n_amounts
    return words[:, WITHIN + radius].astype(np.int64), words[:, first : first + n_amounts].astype(np.int64)


def histograms(words: np.ndarray, n_buckets: int, n_shares: int) -> np.ndarray:
    """Return the counts of the buckets of each row, (S, n_buckets) int64."""
    end = words.shape[1] - n_shares
    return words[:, end - n_buckets : end].astype(np.int64)


def quantiles(words: np.ndarray, n_shares: int, dtype: np.dtype) -> np.ndarray:
    """Return the quantiles of each row, (S, n_shares) of `dtype`."""
    return words[:, words.shape[1] - n_shares :].astype(f"u{dtype.itemsize}").view(dtype)


class SumTooLargeError(Exception):
    """A sum of distances does not fit its type; has the place of the row and the type."""

    def __init__(self, place: int, dtype: np.dtype) -> None:
        super().__init__(place, dtype)
        self.place, self.dtype = place, dtype


@njit(nogil=True, error_model="numpy")
def _facts(
    row: np.ndarray,
    unreached: Any,
    limits: np.ndarray,
    amounts: np.ndarray,
    within: np.ndarray,
    partials: np.ndarray,
    segment: int,
) -> Any:
    """Return the reached vertices of a row, and its largest and least distance.

    Fill `within` (R, 1 + A) int64, which is zero, with counts and amounts; and `partials`, unless it is empty, with the
    harmonic sum of each segment.
    """
    n_reached = 0
    largest = least = row.dtype.type(0)
    n_radii = len(limits)
    lanes = np.zeros(_LANES)
    for first in range(0, len(row), segment):
        lanes[:] = 0
        for v in range(first, min(first + segment, len(row))):
            d = row[v]
            if d == unreached:
                continue
            n_reached += 1
            largest, least = max(largest, d), min(least, d)
            if n_radii and d < limits[n_radii - 1]:
                r = 0
                while d >= limits[r]:
                    r += 1
                within[r, 0] += 1
                for a in range(len(amounts)):
                    within[r, 1 + a] += amounts[a, v]
            if len(partials) and d != 0:
                lanes[v % _LANES] += 1.0 / np.float64(d)
        if len(partials):
            partials[first // segment] = _sum_of_lanes(lanes)
    for r in range(1, n_radii):
        for a in range(within.shape[1]):
            within[r, a] += within[r - 1, a]
    return n_reached, largest, least


@njit(nogil=True)
def _added(values: np.ndarray, segment: int) -> float:
    """Return the sum of `values` (n,), at least one, segment by segment; overwrites them."""
    n_left = len(values)
    lanes = np.empty(_LANES)
    while n_left > 1:
        n_sums = (n_left + segment - 1) // segment
        for s in range(n_sums):
            lanes[:] = 0
            for i in range(s * segment, min((s + 1) * segment, n_left)):
                lanes[i % _LANES] += values[i]
            values[s] = _sum_of_lanes(lanes)
        n_left = n_sums
    return float(values[0])


@njit(nogil=True)
def _sum_of_lanes(lanes: np.ndarray) -> float:
    by = _LANES // 2
    while by:
        for i in range(by):
            lanes[i] += lanes[i + by]
        by //= 2
    return float(lanes[0])
