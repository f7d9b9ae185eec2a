"""The nearest vertices of a row on the host; the conformance tests have every solver keep them, on devices too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sssp_pipeline.base.csr import WEIGHT_DTYPES, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.answers.nearest import NearestOfRow


def words_of(kept, row):
    words = np.empty((1, kept.n_columns(len(row))), kept.dtype(row.dtype))
    kept.reduce(row, words[0])
    return words


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)
@settings(deadline=None, derandomize=True, max_examples=60)
@given(data=st.data())
def test_the_nearest_are_those_of_numpy(dtype, data, numpy_answers):
    n_vertices = data.draw(st.integers(1, 40))
    low = 0 if dtype.kind == "u" else -2
    values = st.sampled_from([low, 0, 1, 1, 2, 7, unreached_distance(dtype).item()])
    row = data.draw(hnp.arrays(dtype, n_vertices, elements=values))
    targets = data.draw(st.none() | st.lists(st.integers(0, n_vertices - 1), max_size=9))
    given_targets = None if targets is None else np.array(targets, np.int64)
    kept = NearestOfRow(data.draw(st.integers(1, 45)), given_targets).checked(n_vertices)
    numpy_answers.assert_nearest(kept, words_of(kept, row), row[np.newaxis])


@pytest.mark.parametrize(
    ("k", "targets", "message", "hint"),
    [
        (0, None, "k is 0", "ask for 1 to 1,024 nearest vertices"),
        (1025, None, "k is 1025", "ask for 1 to 1,024 nearest vertices"),
        (2.5, None, "k is 2.5", "ask for 1 to 1,024 nearest vertices"),
        (1, [0, 4], "target 4 is not in the graph", "its 4 vertices are numbered from 0"),
    ],
)
def test_what_cannot_be_is_refused(k, targets, message, hint):
    with pytest.raises(InputError) as caught:
        NearestOfRow(k, None if targets is None else np.array(targets)).checked(4)
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_the_device_holds_words_and_targets():
    kept = NearestOfRow(3, np.arange(7, dtype=np.uint32))
    assert kept.device_bytes(100, np.dtype("float32")) == 8 * 6
    assert (kept.fixed_device_bytes(100), NearestOfRow(3).fixed_device_bytes(100)) == (28, 0)
