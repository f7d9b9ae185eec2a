"""What NumPy makes of a whole row of distances: the oracle of reductions and of nearest vertices."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, unreached_distance
from sssp_pipeline.kernels.answers import nearest as nearest_kept
from sssp_pipeline.kernels.answers import reductions
from sssp_pipeline.kernels.contract import over_sources as over_sources_kept


def harmonic_of(row: np.ndarray) -> float:
    """The sum of 1/d in the order of `docs/design/0015-reductions.md`."""
    counts = (row != unreached_distance(row.dtype)) & (row != 0)
    terms = np.zeros(len(row))
    terms[counts] = 1 / row[counts].astype(np.float64)
    while True:
        n_segments = -(-len(terms) // 1024)
        padded = np.zeros(1024 * n_segments)
        padded[: len(terms)] = terms
        lanes = np.zeros((n_segments, 32))
        for part in padded.reshape(n_segments, 32, 32).swapaxes(0, 1):
            lanes = lanes + part
        while lanes.shape[1] > 1:
            lower, upper = np.split(lanes, 2, axis=1)
            lanes = lower + upper
        terms = lanes[:, 0]
        if n_segments == 1:
            return float(terms[0])


def sum_of(row: np.ndarray) -> Fraction:
    """The exact sum; of floats, of which each is rounded down to a multiple of 2^-62 of a power of two."""
    finite = row[row != unreached_distance(row.dtype)]
    if row.dtype.kind != "f":
        return Fraction(sum(finite.tolist()))
    info = np.finfo(row.dtype)
    power = max(int(np.frexp(np.abs(finite).max())[1]) - 1, int(info.minexp))
    return sum(int(math.ldexp(d, 62 - power)) for d in finite.tolist()) * Fraction(2) ** (power - 62)


def rounded(dtype: np.dtype, length: float) -> np.generic:
    """The float of `dtype` that is nearest to `length`; the length itself for integers, which compare exactly."""
    with np.errstate(over="ignore"):
        return dtype.type(length) if dtype.kind == "f" else length


def histogram_of(row: np.ndarray, bounds) -> list[int]:
    """How many distances are in each bucket: beyond its lower bound, or at it in the first, and up to its upper one."""
    finite = [d.item() for d in row[row != unreached_distance(row.dtype)]]
    ends = [rounded(row.dtype, bound) for bound in bounds]
    counts = [sum(low < d <= high for d in finite) for low, high in pairwise(ends)]
    if bounds:
        counts[0] += sum(d == ends[0] < ends[1] for d in finite)
    return counts


def quantiles_of(row: np.ndarray, shares) -> list[np.generic]:
    """For each share the smallest distance d such that at least this share of the reached vertices is within d."""
    ordered = np.sort(row[row != unreached_distance(row.dtype)])
    up_to = np.searchsorted(ordered, ordered, side="right").tolist()  # how many are within each distance
    wanted = [Fraction(str(share)) * len(ordered) for share in shares]
    return [ordered[bisect_left(up_to, count)] for count in wanted]


def reduced(row: np.ndarray, radii=(), amounts=None) -> SimpleNamespace:
    """Return the values of `row` (V,); `amounts` are (A, V) integers. `within` has counts and sums by radius."""
    is_reached = row != unreached_distance(row.dtype)
    finite, total = row[is_reached], sum_of(row)
    others = int(is_reached.sum()) - 1
    within = []
    for radius in radii:
        limit = row.dtype.type(radius) if row.dtype.kind == "f" else min(int(radius), np.iinfo(row.dtype).max)
        inside = is_reached & (row <= limit)
        of_amounts = [] if amounts is None else [int(column[inside].sum()) for column in amounts]
        within.append((int(inside.sum()), of_amounts))
    return SimpleNamespace(
        reached=others + 1,
        max_distance=max(finite.max(), 0),
        mean_distance=float(total / (others + 1)),
        sum_distance=total,
        closeness=float(others**2 / ((len(row) - 1) * total)) if total else 0.0,
        harmonic=harmonic_of(row),
        within=within,
    )


def nearest(row: np.ndarray, k: int, targets=None) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances (k,) and the vertices (k,) of the nearest, by distance and then by vertex."""
    chosen = np.arange(len(row)) if targets is None else np.unique(targets)
    chosen = chosen[row[chosen] != unreached_distance(row.dtype)]
    chosen = chosen[np.lexsort((chosen, row[chosen]))][:k]
    distances = np.full(k, unreached_distance(row.dtype))
    vertices = np.full(k, NO_VERTEX)
    distances[: len(chosen)], vertices[: len(chosen)] = row[chosen], chosen
    return distances, vertices


def assert_reduced(kept: reductions.Reductions, words: np.ndarray, rows: np.ndarray) -> None:
    """Check that `words` (S, W), which solvers kept of `rows` (S, V), are what NumPy makes of the rows, bit for bit."""
    dtype, n_vertices = rows.dtype, rows.shape[1]
    assert (words.dtype, words.shape) == (np.uint64, (len(rows), kept.n_columns(n_vertices)))
    true = [reduced(row, kept.radii, kept.amounts) for row in rows]
    totals = [Fraction(total) * Fraction(2) ** by for total, by in reductions.words_of_sums(words, dtype)]
    found = {
        "reached": reductions.reached(words),
        "max_distance": reductions.max_distances(words, dtype),
        "mean_distance": reductions.means(words, dtype),
        "closeness": reductions.closeness(words, dtype, n_vertices),
        "sum_distance": totals,
    }
    if kept.harmonic:
        found["harmonic"] = reductions.harmonic_sums(words)
    for name, values in found.items():
        assert list(values) == [getattr(one, name) for one in true], name
    n_amounts = 0 if kept.amounts is None else len(kept.amounts)
    for place in range(len(kept.radii)):
        counts, sums = reductions.within(words, place, len(kept.radii), n_amounts)
        assert list(zip(counts.tolist(), sums.tolist(), strict=True)) == [one.within[place] for one in true]
    n_buckets, n_shares = max(len(kept.bounds) - 1, 0), len(kept.shares)
    counted = reductions.histograms(words, n_buckets, n_shares).tolist()
    assert counted == [histogram_of(row, kept.bounds) for row in rows]
    selected = reductions.quantiles(words, n_shares, dtype).tolist()
    assert selected == [[d.item() for d in quantiles_of(row, kept.shares)] for row in rows]


def over_sources(rows: np.ndarray, sources, radii=(), unit: Fraction = Fraction(1)) -> SimpleNamespace:
    """Return for each vertex what `rows` (S, V) from `sources` (S,) say of it; sums are of multiples of `unit`."""
    unreached = unreached_distance(rows.dtype)
    order = np.argsort(sources, kind="stable")
    rows, sources = rows[order], np.asarray(sources)[order]
    is_reached = rows != unreached
    if not len(rows):
        rows, sources = np.full((1, rows.shape[1]), unreached), np.array([NO_VERTEX])
    first = np.argmin(rows, axis=0)  # of equal distances, the smallest source
    nearest = np.where(is_reached.any(axis=0), sources[first], NO_VERTEX)
    exact = np.where(is_reached, rows[: len(is_reached)], 0).astype(object)
    if rows.dtype.kind == "f":
        exact = (
            np.vectorize(lambda d: int(Fraction(d) / unit) * unit, otypes=[object])(exact)
            if exact.size
            else exact
        )
    within = []
    for radius in radii:
        end = rounded(rows.dtype, radius)
        limit = end if rows.dtype.kind == "f" else min(int(radius), np.iinfo(rows.dtype).max)
        within.append((is_reached & (rows[: len(is_reached)] <= limit)).sum(axis=0).tolist())
    return SimpleNamespace(
        reached_by=is_reached.sum(axis=0).tolist(),
        nearest=list(zip(np.min(rows, axis=0).tolist(), nearest.tolist(), strict=True)),
        sums=exact.sum(axis=0).tolist(),
        within=within,
    )


def assert_over_sources(over, words: np.ndarray, rows: np.ndarray, sources, traits) -> None:
    """Check that `words` (W, V), which solvers kept of `rows` (S, V), are what NumPy makes of the rows, bit for bit."""
    dtype = rows.dtype
    assert (words.dtype, words.shape) == (np.uint64, (over.n_words(dtype), rows.shape[1]))
    largest = max(abs(traits.min_weight), abs(traits.max_weight))
    exponent = int(np.frexp(largest)[1]) + traits.n_vertices.bit_length() + 1
    unit = (
        Fraction(1) if dtype.kind != "f" else Fraction(2) ** (min(exponent, int(np.finfo(dtype).maxexp)) - 95)
    )
    true = over_sources(rows, sources, over.radii, unit)
    assert words[over_sources_kept.REACHED_BY].tolist() == true.reached_by
    if over.nearest:
        distances = over_sources_kept.distances_of(words, dtype).tolist()
        assert (
            list(zip(distances, words[over_sources_kept.NEAREST + 1].tolist(), strict=True)) == true.nearest
        )
    if over.sums:
        limbs = words[over.first_sum() : over.first_within(dtype)]
        totals, power = over_sources_kept.total_of(limbs, traits)
        step = Fraction(2) ** power
        assert [int(total) * step for total in totals] == true.sums
    assert words[over.first_within(dtype) :].tolist() == true.within


def assert_nearest(kept: nearest_kept.NearestOfRow, words: np.ndarray, rows: np.ndarray) -> None:
    """Check that `words` (S, 2k), which solvers kept of `rows` (S, V), are what NumPy makes of the rows."""
    assert (words.dtype, words.shape) == (np.uint64, (len(rows), 2 * kept.k))
    distances, vertices = nearest_kept.nearest_of(words, rows.dtype)
    for row, *found in zip(rows, distances, vertices, strict=True):
        for values, wanted in zip(found, nearest(row, kept.k, kept.targets), strict=True):
            np.testing.assert_array_equal(values, wanted)
