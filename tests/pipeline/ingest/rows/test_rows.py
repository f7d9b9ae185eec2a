from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sssp_pipeline.base.csr import WEIGHT_DTYPES
from sssp_pipeline.pipeline.ingest.rows import grouping, reverses, sorted_rows

edges = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 3)), max_size=120)


def arrays_of(rows, dtype=np.uint32):
    src, dst = (np.array([r[i] for r in rows], np.uint32) for i in range(2))
    return src, dst, np.array([r[2] for r in rows], dtype)


def build(rows, n, *, lightest=False, dtype=np.uint32):
    return sorted_rows.rows_between(0, n, *arrays_of(rows, dtype), lightest=lightest)


def listed(offsets, cols, weights, first=0):
    src = first + np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return list(zip(src.tolist(), cols.tolist(), weights.tolist(), strict=True))


def lightest_of(rows):
    """Return the lightest of the edges with equal ends, sorted."""
    return sorted((*ends, w) for ends, w in {row[:2]: row[2] for row in sorted(rows, reverse=True)}.items())


@settings(deadline=None)
@given(edges, st.booleans(), st.booleans(), st.booleans())
def test_groups_hold_every_edge_in_the_order_of_the_input(rows, drop_loops, mirror, weighted):
    src, dst, weights = arrays_of(rows)
    src *= 1000  # several sources in a group
    dst *= 1000
    given = weights if weighted else weights[:0]
    *found, starts, low, shift, loops = grouping.grouped_by_source(src, dst, given, drop_loops, mirror)
    wanted = []
    for u, v, w in zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True):
        if u != v or not drop_loops:
            wanted.append((u, v, w))
        if mirror and u != v:
            wanted.append((v, u, w))
    wanted.sort(key=lambda edge: (edge[0] - low) >> shift)
    assert list(zip(found[0].tolist(), found[1].tolist(), strict=True)) == [edge[:2] for edge in wanted]
    assert found[2].tolist() == [w for _, _, w in wanted if weighted]
    assert loops == sum(u == v for u, v, _ in rows)
    for group, (begin, end) in enumerate(pairwise(starts)):
        assert all((u - low) >> shift == group for u in found[0][begin:end].tolist())
    assert (starts[0], starts[-1]) == (0, len(wanted))


def test_groups_of_chunks_with_other_first_sources_have_the_same_limits():
    limits = []
    for first in (5, 900, 1000):
        src = np.array([first, 2**20 + 17, 2**21 - 1], np.uint32)
        *_, starts, low, shift, _ = grouping.grouped_by_source(src, src, src, False, False)
        limits.append((low + (np.arange(len(starts) - 1) << shift)).tolist())
    assert limits[0] == limits[1] == limits[2]


def test_no_edges_make_one_empty_group():
    none = np.empty(0, np.uint32)
    *_, starts, _, _, loops = grouping.grouped_by_source(none, none, none, True, True)
    assert (starts.tolist(), loops) == ([0, 0], 0)


@settings(deadline=None)
@given(edges, st.sampled_from(WEIGHT_DTYPES), st.integers(0, 12), st.integers(0, 13))
def test_rows_hold_every_edge_of_their_range_sorted(rows, dtype, a, b):
    if dtype.kind != "u":
        rows = [(u, v, w - 2) for u, v, w in rows]
    first, last = min(a, b), max(a, b)
    csr = sorted_rows.rows_between(first, last, *arrays_of(rows, dtype))
    assert csr[2].dtype == dtype
    assert listed(*csr, first) == sorted(r for r in rows if first <= r[0] < last)


@settings(deadline=None)
@given(edges, st.sampled_from(WEIGHT_DTYPES))
def test_of_parallel_edges_the_lightest_is_kept(rows, dtype):
    offsets, cols, _ = build(rows, 13, dtype=dtype)
    repeated = len({(u, v) for u, v, _ in rows}) < len(rows)
    assert (sorted_rows.first_duplicate(offsets, cols) >= 0) == repeated
    assert listed(*build(rows, 13, lightest=True, dtype=dtype)) == lightest_of(rows)


@pytest.mark.parametrize("lightest", [False, True])
@pytest.mark.parametrize("spread", [1, 2**20])
def test_rows_whose_keys_do_not_fit_are_divided(spread, lightest):
    random = np.random.default_rng(5)
    n, first, last = 4096, 7, 2**22
    src = (random.integers(0, 40, n) * spread % (last + 40)).astype(np.uint32)
    dst = (2**32 - 2 - random.integers(0, 20, n)).astype(np.uint32)
    weights = random.integers(-5, 5, n).astype(np.float64)
    rows = zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True)
    wanted = sorted(row for row in rows if first <= row[0] < last)
    if lightest:
        wanted = lightest_of(wanted)
    bounds = sorted_rows.Bounds.of_edges(dst, weights)
    assert len(list(sorted_rows._small_ranges(first, last, src, dst, weights, bounds))) > 1
    found = sorted_rows.rows_between(first, last, src, dst, weights, lightest=lightest)
    assert listed(*found, first) == wanted


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES)
@pytest.mark.parametrize("lightest", [False, True])
@pytest.mark.parametrize("spread", ["least", "largest", "both"])
def test_weights_at_the_ends_of_their_type_are_sorted(dtype, lightest, spread):
    info = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
    few = np.arange(7).astype(dtype)
    ends = {"least": [info.min + few], "largest": [info.max - few]}
    ends["both"] = [*ends["least"], *ends["largest"]]
    rng = np.random.default_rng(3)
    weights = rng.choice(np.concatenate(ends[spread]).astype(dtype), 400)
    src, dst = (rng.integers(0, 9, 400).astype(np.uint32) for _ in range(2))
    wanted = sorted(zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True))
    if lightest:
        wanted = lightest_of(wanted)
    assert listed(*sorted_rows.rows_between(0, 9, src, dst, weights, lightest=lightest)) == wanted


@settings(deadline=None)
@given(edges, st.booleans(), st.sampled_from(WEIGHT_DTYPES), st.integers(0, 13))
def test_symmetry_is_that_of_edges_and_weights(rows, mirror, dtype, cut):
    if mirror:
        rows += [(v, u, w) for u, v, w in rows]
    csr = build(rows, 13, dtype=dtype)
    symmetric = {(v, u, w) for u, v, w in rows} == set(rows)
    assert (reverses.first_one_way(*csr) < 0) == symmetric
    keys = np.array([0x9E3779B97F4A7C15, 12345], np.uint64)
    total = 0
    for first, last in ((0, cut), (cut, 13)):
        offsets, cols, weights = sorted_rows.rows_between(first, last, *arrays_of(rows, dtype))
        total += reverses.reverse_difference(first, offsets, cols, weights, keys)
        within = [(u, v, w) for u, v, w in rows if first <= u < last and first <= v < last]
        e = reverses.first_one_way(offsets, cols, weights, first)
        assert (e < 0) == ({(v, u, w) for u, v, w in within} == set(within))
    assert (total % 2**64 == 0) == symmetric


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        ([(0, 1, 5), (1, 0, 5)], None),
        ([(0, 1, 5), (1, 0, 6)], (0, 1)),
        ([(0, 1, 5), (1, 0, 5), (1, 2, 5)], (1, 2)),
        ([(2, 2, 7), (3, 0, 1)], (3, 0)),
        # Parallel edges: each needs a reverse of its weight, how often does not matter.
        ([(0, 1, 5), (0, 1, 5), (1, 0, 5)], None),
        ([(0, 1, 5), (0, 1, 6), (1, 0, 5)], (0, 1)),
        ([], None),
    ],
)
def test_the_first_edge_without_its_reverse(rows, first):
    csr = build(rows, 4)
    found = reverses.first_one_way(*csr)
    assert (None if found < 0 else listed(*csr)[found][:2]) == first


@settings(deadline=None)
@given(edges)
def test_an_edge_and_its_reverse(rows):
    """The reverse may have another weight; a loop is not its own reverse."""
    offsets, cols, _ = build(rows, 13)
    ends = {(u, v) for u, v, _ in rows if u != v}
    assert reverses.has_both_ways(offsets, cols) == any((v, u) in ends for u, v in ends)


@pytest.mark.parametrize("pattern", ["random", "sorted", "reversed", "equal", "organ-pipe", "two-values"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_long_row_is_sorted_whatever_its_order(pattern, dtype):
    n = 50_000
    cols = {
        "random": np.random.default_rng(0).integers(0, n, n),
        "sorted": np.arange(n),
        "reversed": np.arange(n)[::-1],
        "equal": np.zeros(n),
        "organ-pipe": np.minimum(np.arange(n), np.arange(n)[::-1]),
        "two-values": np.arange(n) % 2,
    }[pattern].astype(np.uint32)
    weights = np.random.default_rng(1).random(n).astype(dtype)
    order = np.lexsort((weights, cols))
    _, found, sorted_weights = sorted_rows.rows_between(0, 1, np.zeros(n, np.uint32), cols, weights)
    np.testing.assert_array_equal(found, cols[order])
    np.testing.assert_array_equal(sorted_weights, weights[order])
