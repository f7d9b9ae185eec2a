import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import WEIGHT_DTYPES, CsrGraph, csr_from_edges, unreached_distance, wider_dtype
from sssp_pipeline.base.errors import InputError


def graph(row_offsets=(0, 2, 2, 3), col_indices=(1, 2, 0), weights=(5, 6, 7), dtype="float32"):
    return CsrGraph(
        np.array(row_offsets, np.int64), np.array(col_indices, np.uint32), np.array(weights, dtype)
    )


WANTED = "wanted int64 row_offsets and uint32 col_indices"


def test_a_sound_graph_passes_and_is_returned():
    sound = graph()
    assert sound.check() is sound
    assert (sound.n_vertices, sound.n_edges, sound.graph_bytes) == (3, 3, 4 * 8 + 3 * 4 + 3 * 4)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (
            CsrGraph(*map(np.zeros, (1, 0, 0), ("i4", "u4", "f4"))),
            f"CSR arrays have types int32 and uint32, {WANTED}",
        ),
        (
            CsrGraph(*map(np.zeros, (1, 0, 0), ("i8", "i8", "f4"))),
            f"CSR arrays have types int64 and int64, {WANTED}",
        ),
        (graph(dtype="float16"), "weights have type float16"),
        (graph(row_offsets=()), "row_offsets has 0 entries, wanted 1 to 2^32"),
        (graph(weights=(5, 6)), "3 col_indices but 2 weights"),
        (graph(row_offsets=(1, 2, 2, 3)), "row_offsets run from 1 to 3, wanted 0 to 3"),
        (graph(row_offsets=(0, 2, 2, 4)), "row_offsets run from 0 to 4, wanted 0 to 3"),
        (graph(row_offsets=(0, 2, 1, 3)), "row_offsets fall at vertex 1: 2 then 1"),
        (graph(col_indices=(1, 3, 9)), "edge 1 leads to vertex 3, but there are 3 vertices"),
        (graph(weights=(1, np.inf, np.nan)), "edge 1 has weight inf"),
        (graph(weights=(1, 1, np.nan)), "edge 2 has weight nan"),
    ],
)
def test_the_first_wrong_value_is_named(broken, message):
    with pytest.raises(InputError) as caught:
        broken.check()
    assert caught.value.message == message


def test_edges_become_sorted_rows_and_parallel_edges_stay():
    made = csr_from_edges(
        np.array([2, 0, 0, 2, 0]), np.array([1, 2, 1, 1, 2]), np.array([9, 8, 7, 3, 2], np.int32), 4
    )
    assert_array_equal(made.row_offsets, [0, 3, 3, 5, 5])
    assert_array_equal(made.col_indices, [1, 2, 2, 1, 1])
    assert_array_equal(made.weights, np.array([7, 2, 8, 3, 9], np.int32))
    assert made.weights.dtype == np.int32


@pytest.mark.parametrize(
    ("src", "dst", "message"),
    [
        ([0, 5], [1, 1], "edges start at vertices 0 to 5, but there are 3 vertices"),
        ([-1, 0], [1, 1], "edges start at vertices -1 to 0, but there are 3 vertices"),
        ([0, 0], [1, 2**32], "edges lead to vertices 1 to 4294967296, but there are 3 vertices"),
    ],
)
def test_an_end_out_of_range_is_an_error(src, dst, message):
    with pytest.raises(InputError) as caught:
        csr_from_edges(np.array(src), np.array(dst), np.ones(2, np.uint32), 3)
    assert caught.value.message == message


def test_traits_tell_of_the_weights():
    traits = graph(weights=(5, -6, 7), dtype="int64").traits
    assert (traits.min_weight, traits.max_weight, traits.mean_weight) == (-6, 7, 2.0)
    assert (traits.n_vertices, traits.n_edges, traits.weight_dtype) == (3, 3, np.dtype("int64"))
    empty = graph(row_offsets=(0, 0), col_indices=(), weights=()).traits
    assert (empty.min_weight, empty.max_weight, empty.mean_weight) == (0, 0, 0)


@pytest.mark.parametrize(
    ("weights", "mean"),
    [
        ((1.5e308, 1.5e308, 1.5e308), 1.5e308),
        ((-1.5e308, -1.5e308, -1.5e308), -1.5e308),
        ((np.finfo(np.float64).max,) * 3, np.finfo(np.float64).max),
        ((1.5e308, 1.5e308, 0), 1e308),
        ((1.5e308, 1.5e308, -1.5e308), 0.5e308),
    ],
)
def test_the_mean_is_finite_where_the_sum_is_not(weights, mean):
    assert graph(weights=weights, dtype="float64").traits.mean_weight == pytest.approx(mean, rel=1e-12)


def test_unreached_is_beyond_every_distance():
    for dtype in WEIGHT_DTYPES:
        unreached = unreached_distance(dtype)
        assert unreached.dtype == dtype
        assert unreached == (np.inf if dtype.kind == "f" else np.iinfo(dtype).max)
        assert wider_dtype(dtype) == (np.dtype(f"{dtype.kind}8") if dtype.itemsize == 4 else None)
