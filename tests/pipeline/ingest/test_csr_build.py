import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sssp_pipeline.pipeline.ingest import csr_build

edges = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 3)), max_size=120)


def build(rows, n, drop_loops, mirror, threads=2):
    src, dst, weights = (np.array([r[i] for r in rows], np.uint32) for i in range(3))
    offsets = np.zeros(n + 1, np.int64)
    loops = csr_build.count_rows(src, dst, drop_loops, mirror, offsets)
    np.cumsum(offsets, out=offsets)
    cols, out = np.empty(offsets[-1], np.uint32), np.empty(offsets[-1], np.uint32)
    cursors = offsets[:-1].copy()
    for first, last in csr_build.row_ranges(offsets, threads):
        csr_build.place_edges(first, last, src, dst, weights, drop_loops, mirror, cursors, cols, out)
    csr_build.in_parallel(csr_build.sort_rows, offsets, threads, cols, out)
    return loops, offsets, cols, out


def listed(offsets, cols, weights):
    src = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return list(zip(src.tolist(), cols.tolist(), weights.tolist(), strict=True))


@settings(deadline=None)
@given(edges, st.booleans(), st.booleans())
def test_rows_hold_every_edge_sorted(rows, drop_loops, mirror):
    loops, *csr = build(rows, 13, drop_loops, mirror)
    wanted = [r for r in rows if not (drop_loops and r[0] == r[1])]
    if mirror:
        wanted += [(v, u, w) for u, v, w in rows if u != v]
    assert loops == sum(u == v for u, v, _ in rows)
    assert listed(*csr) == sorted(wanted)


@settings(deadline=None)
@given(edges)
def test_of_parallel_edges_the_lightest_is_kept(rows):
    _, offsets, cols, weights = build(rows, 13, False, False)
    repeated = len({(u, v) for u, v, _ in rows}) < len(rows)
    assert (csr_build.first_duplicate(offsets, cols) >= 0) == repeated
    n = csr_build.keep_first(offsets, cols, weights)
    lightest = {}
    for u, v, w in rows:
        lightest[u, v] = min(w, lightest.get((u, v), w))
    assert listed(offsets, cols[:n], weights[:n]) == sorted((u, v, w) for (u, v), w in lightest.items())


@settings(deadline=None)
@given(edges)
def test_symmetry_is_that_of_edges_and_weights(rows):
    _, offsets, cols, weights = build(rows, 13, False, False)
    present = listed(offsets, cols, weights)
    symmetric = all(e < 0 for e in csr_build.in_parallel(csr_build.first_one_way, offsets, 2, cols, weights))
    assert symmetric == ({(v, u, w) for u, v, w in present} == set(present))


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
    _, offsets, cols, weights = build(rows, 4, False, False)
    found = [e for e in csr_build.in_parallel(csr_build.first_one_way, offsets, 2, cols, weights) if e >= 0]
    src = np.repeat(np.arange(4), np.diff(offsets))
    assert (None if not found else (src[found[0]], cols[found[0]])) == first


@pytest.mark.parametrize("pattern", ["random", "sorted", "reversed", "equal", "organ-pipe", "two-values"])
def test_a_long_row_is_sorted_whatever_its_order(pattern):
    n = 50_000
    cols = {
        "random": np.random.default_rng(0).integers(0, n, n),
        "sorted": np.arange(n),
        "reversed": np.arange(n)[::-1],
        "equal": np.zeros(n),
        "organ-pipe": np.minimum(np.arange(n), np.arange(n)[::-1]),
        "two-values": np.arange(n) % 2,
    }[pattern].astype(np.uint32)
    weights = np.random.default_rng(1).random(n).astype(np.float32)
    order = np.lexsort((weights, cols))
    wanted = cols[order], weights[order]
    csr_build.sort_rows(np.array([0, n]), 0, 1, cols, weights)
    np.testing.assert_array_equal(cols, wanted[0])
    np.testing.assert_array_equal(weights, wanted[1])


def test_ranges_cover_all_rows_once():
    offsets = np.array([0, 0, 100, 100, 101, 5000, 5000])
    for pieces in (1, 2, 3, 50):
        ranges = csr_build.row_ranges(offsets, pieces)
        assert [v for a, b in ranges for v in range(a, b)] == list(range(6))
    assert csr_build.row_ranges(np.array([0]), 4) == []
