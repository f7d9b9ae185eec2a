"""Reductions of a row on the host; the conformance tests have every solver keep them, on devices too."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sssp_pipeline.base.csr import WEIGHT_DTYPES, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.answers import reductions
from sssp_pipeline.kernels.answers.reductions import Reductions, SumTooLargeError
from sssp_pipeline.kernels.gpu.common.rows.reduce import StagedAmounts

EVERY_DTYPE = pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)


#: A third of a double, what 30 times more is not a whole number in doubles, and the ends.
SHARES = [0, 1, 0.5, 0.1, 0.07, 1 / 3, 0.9, 1e-18, 0.999999999999999]


def words_of(kept, rows):
    words = np.empty((len(rows), kept.n_columns(rows.shape[1])), np.uint64)
    for row, into in zip(rows, words, strict=True):
        kept.checked(len(row)).reduce(row, into)
    return words


@pytest.mark.medium
@EVERY_DTYPE
@settings(deadline=None, derandomize=True, max_examples=60)
@given(data=st.data())
def test_every_value_is_that_of_numpy(dtype, data, numpy_answers, distances_of):
    n_vertices = data.draw(st.integers(1, 70))
    # Of still smaller distances the mean may be subnormal, and the sum of reciprocals infinite.
    ends = (
        (max(float(np.finfo(dtype).tiny), 1e-290), float(np.finfo(dtype).max / 64))
        if dtype.kind == "f"
        else ()
    )
    row = data.draw(hnp.arrays(dtype, n_vertices, elements=distances_of(dtype, *ends)))
    row[data.draw(st.integers(0, n_vertices - 1))] = 0  # the source
    radii = sorted(data.draw(st.lists(st.sampled_from([0, 1, 2.5, 7, 1e3, 0.1, 1e30]), max_size=4)))
    amounts = data.draw(st.none() | hnp.arrays(np.int64, (2, n_vertices), elements=st.integers(-5, 9)))
    lengths = st.sampled_from([0, 0.1, 0.30000001, 1, 2.5, 2.7, 7, 1e3, 5e5, 1e30, 1e300])
    bounds = sorted(data.draw(st.just([]) | st.lists(lengths, min_size=2, max_size=5, unique=True)))
    shares = sorted(
        data.draw(
            st.lists(
                st.sampled_from(SHARES) | st.floats(0, 1).map(lambda share: round(share, 15)), max_size=4
            )
        )
    )
    harmonic = data.draw(st.booleans())
    kept = Reductions(tuple(radii), amounts, harmonic, tuple(bounds), tuple(shares))
    numpy_answers.assert_reduced(kept, words_of(kept, row[np.newaxis]), row[np.newaxis])


@pytest.mark.medium
@EVERY_DTYPE
@pytest.mark.parametrize(
    "n_vertices", [1, 31, 1023, 1024, 1025, pytest.param(1024**2 + 1, marks=pytest.mark.slow)]
)
def test_rows_of_every_number_of_segments(dtype, n_vertices, numpy_answers):
    generator = np.random.default_rng(n_vertices)
    row = generator.integers(0, 10**6, n_vertices).astype(dtype)
    row[generator.random(n_vertices) < 0.2] = unreached_distance(dtype)
    row[0] = 0
    amounts = generator.integers(0, 99, (1, n_vertices))
    kept = Reductions((10, 5e5), amounts, True, (0, 10, 5e5), (0, 0.01, 0.5, 1))
    numpy_answers.assert_reduced(kept, words_of(kept, row[np.newaxis]), row[np.newaxis])


@EVERY_DTYPE
def test_a_bucket_holds_its_upper_bound_and_the_first_one_both(dtype):
    row = np.array([[0, 1, 2, 2, 3, 5, unreached_distance(dtype)]], dtype)
    words = words_of(Reductions((), None, bounds=(1, 2, 4)), row)
    assert reductions.histograms(words, 2, 0).tolist() == [[3, 1]]
    words = words_of(Reductions((), None, bounds=(0.5, 1, 1e40)), row)
    assert reductions.histograms(words, 2, 0).tolist() == [[1, 4]]
    words = words_of(Reductions((), None, bounds=(1e39, 1e40)), row)
    assert reductions.histograms(words, 1, 0).tolist() == [[0]]


def test_a_share_is_the_decimal_that_is_written():
    # In doubles 0.07 · 100 is above 7, and a double of 0.07 is above it too.
    row = np.arange(100, dtype=np.uint32)[np.newaxis]
    words = words_of(Reductions((), None, shares=(0, 0.07, 0.070000000000000007, 0.5, 1)), row)
    assert reductions.quantiles(words, 5, row.dtype).tolist() == [[0, 6, 6, 49, 99]]


def test_a_graph_of_one_vertex_has_no_closeness():
    words = words_of(Reductions((0,), None, harmonic=True), np.zeros((1, 1), np.uint32))
    assert reductions.closeness(words, np.dtype("uint32"), 1).tolist() == [0.0]
    assert reductions.harmonic_sums(words).tolist() == [0.0]
    assert reductions.within(words, 0, 1, 0)[0].tolist() == [1]


@EVERY_DTYPE
def test_a_sum_is_exact_or_too_large(dtype):
    largest = np.finfo(dtype).max if dtype.kind == "f" else np.iinfo(dtype).max - 1
    words = words_of(Reductions(), np.array([[0, 1], [0, largest], [largest, largest]], dtype))
    if dtype.itemsize == 8:
        with pytest.raises(SumTooLargeError) as caught:
            reductions.total_distances(words, dtype)
        assert caught.value.place == 2
        words = words[:2]
    kind = {"f": "float64", "u": "uint64", "i": "int64"}[dtype.kind]
    totals = reductions.total_distances(words, dtype)
    assert totals.dtype == kind
    assert totals.tolist() == [1, int(largest), 2 * int(largest)][: len(words)]
    assert reductions.means(words, dtype).tolist() == [0.5, float(largest) / 2, float(largest)][: len(words)]


@pytest.mark.parametrize("scale", [None, 1000])
@pytest.mark.parametrize("n_vertices", [2, 2**20, 2**31])
def test_numbers_made_of_sums_are_rounded_once(scale, n_vertices):
    random, dtype = np.random.default_rng(5), np.dtype("uint32")
    words = np.zeros((200, reductions.WITHIN), np.uint64)
    words[:, reductions.REACHED] = random.integers(1, n_vertices, 200, endpoint=True)
    for most in (2**21, 2**33, 2**53, 2**62):  # of few and of many bits: two ways to compute
        words[:, reductions.LOWER] = random.integers(0, most, 200)
        words[:20, reductions.LOWER] = 0
        words[180:, reductions.UPPER] = random.integers(0, 3) if most > 2**53 else 0
        of_rows = words[:, [reductions.REACHED, reductions.LOWER, reductions.UPPER]].tolist()
        sums = [(reached, lower + (upper << 32)) for reached, lower, upper in of_rows]
        means = [float(Fraction(total, reached)) for reached, total in sums]
        closeness = [
            float(Fraction((reached - 1) ** 2 * (scale or 1), (n_vertices - 1) * total)) if total else 0.0
            for reached, total in sums
        ]
        totals = [total if scale is None else float(Fraction(total, scale)) for _, total in sums]
        assert reductions.means(words, dtype).tolist() == means
        assert reductions.closeness(words, dtype, n_vertices, scale).tolist() == closeness
        found = reductions.total_distances(words, dtype, scale)
        assert (found.tolist(), found.dtype) == (totals, "uint64" if scale is None else "float64")


def test_with_a_scale_values_are_in_the_unit_of_the_input():
    dtype = np.dtype("uint32")
    words = words_of(Reductions((), None, harmonic=True), np.array([[0, 500, 2000]], dtype))
    assert reductions.total_distances(words, dtype, 1000).tolist() == [2.5]
    assert reductions.closeness(words, dtype, 3, 1000).tolist() == [2 * 2 / (2 * 2.5)]
    assert reductions.harmonic_sums(words, 1000).tolist() == [2.5]


def test_the_harmonic_sum_of_the_least_distances_is_infinite():
    words = words_of(Reductions((), None, harmonic=True), np.array([[0, *[2.3e-308] * 9]]))
    assert reductions.closeness(words, np.dtype("float64"), 10).tolist() == [81 / (9 * (9 * 2.3e-308))]
    assert reductions.harmonic_sums(words).tolist() == [np.inf]


def test_amounts_of_another_graph_are_refused():
    with pytest.raises(InputError, match="there are amounts of 3 vertices, and the graph has 4"):
        Reductions((1,), np.zeros((1, 3), np.int64)).checked(4)


@pytest.mark.parametrize(
    ("amounts", "expected"),
    [
        ([[0, 2**32 - 1, 0]], "uint32"),
        ([[1, 2**32 - 1, 0]], "int64"),
        ([[5, 5, 5], [2**31, 2**31 - 1, 0]], "uint32"),
        ([[5, 5, 5], [2**31, 2**31, 0]], "int64"),
        ([[-1, 1, 1]], "int64"),
        ([[2**62, 2**61, 0]], "int64"),
        ([[], []], "uint32"),
    ],
    ids=["most", "one-more", "two", "two-wide", "negative", "large", "no-vertices"],
)
def test_amounts_have_32_bits_on_a_device_if_every_sum_fits(amounts, expected):
    assert StagedAmounts(np.array(amounts, np.int64)).dtype == expected


def test_the_device_holds_words_partial_sums_and_amounts():
    kept = Reductions((1, 2), np.zeros((3, 5000), np.int64), harmonic=True)
    assert kept.device_bytes(5000, np.dtype("uint32")) == 8 * (6 + 2 * 4) + 8 * 5
    assert kept.fixed_device_bytes(5000) == 8 * 3 * 5000
    kept = Reductions(bounds=(0, 1, 2), shares=(0.5,))
    assert kept.device_bytes(5000, np.dtype("uint32")) == 8 * (6 + 2 + 1)
    assert kept.fixed_device_bytes(5000) == 8 * (3 + 1)
    assert Reductions().device_bytes(5000, np.dtype("uint32")) == 8 * 6
