"""What is kept of each vertex over sources, on the host; the conformance tests have every solver keep it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sssp_pipeline.base.csr import WEIGHT_DTYPES, GraphTraits
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.host.accumulator import Accumulator

EVERY_DTYPE = pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)


def traits_of(dtype, n_vertices, largest=1e6):
    return GraphTraits(n_vertices, n_vertices, dtype, -largest, largest, 0, 1)


def words_of(over, rows, sources, traits):
    accumulator = Accumulator(over, traits)
    for row, source in zip(rows, sources, strict=True):
        accumulator.add(row, int(source))
    return accumulator.words


@pytest.mark.medium
@EVERY_DTYPE
@settings(deadline=None, derandomize=True, max_examples=60)
@given(data=st.data())
def test_every_word_is_that_of_numpy_in_any_order_and_grouping(dtype, data, numpy_answers, distances_of):
    n_sources, n_vertices = data.draw(st.integers(0, 9)), data.draw(st.integers(1, 20))
    rows = data.draw(hnp.arrays(dtype, (n_sources, n_vertices), elements=distances_of(dtype)))
    sources = np.array(data.draw(st.permutations(range(n_sources))), np.uint32)
    radii = sorted(data.draw(st.lists(st.sampled_from([0, 1, 2.5, 7, 1e3, 0.1, 1e30, 1e300]), max_size=4)))
    over = OverSources(data.draw(st.booleans()), data.draw(st.booleans()), tuple(radii))
    traits = traits_of(dtype, n_vertices)
    words = words_of(over, rows, sources, traits)
    numpy_answers.assert_over_sources(over, words, rows, sources, traits)
    order = np.array(data.draw(st.permutations(range(n_sources))), int)
    cut = data.draw(st.integers(0, n_sources))
    halves = [words_of(over, rows[some], sources[some], traits) for some in (order[:cut], order[cut:])]
    over.merge(halves[1], halves[0], dtype)
    np.testing.assert_array_equal(halves[1], words)


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float64")], ids=str)
@pytest.mark.parametrize("largest", [1e-30, 1.0, 3e38])
def test_floats_of_every_magnitude_are_summed_exactly_or_rounded_down(dtype, largest, numpy_answers):
    generator = np.random.default_rng(3)
    powers = generator.uniform(-37, np.log10(largest), (50, 200))
    rows = (10**powers).astype(dtype)
    traits = GraphTraits(200, 200, dtype, 0, largest, 0, 1)
    over = OverSources(sums=True)
    words = words_of(over, rows, range(50), traits)
    numpy_answers.assert_over_sources(over, words, rows, range(50), traits)


def test_the_smallest_source_wins_a_tie():
    rows = np.array([[3, 5, 2**32 - 1], [3, 4, 2**32 - 1]], np.uint32)
    words = words_of(OverSources(nearest=True), rows, [7, 2], traits_of(rows.dtype, 3))
    assert words.tolist() == [[2, 2, 0], [3, 4, 2**32 - 1], [2, 2, 2**32 - 1]]
