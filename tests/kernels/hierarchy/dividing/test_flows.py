"""The smallest separator near a cut, against the flows of NetworkX."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels.hierarchy.dividing import flows
from sssp_pipeline.kernels.hierarchy.dividing.flows import SEPARATOR, separated
from sssp_pipeline.kernels.hierarchy.ordering.order import neighbours_of

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)


def around(n, edges):
    """Return the offsets and neighbours of a graph."""
    src, dst = np.array(edges, np.int64).reshape(-1, 2).T
    return neighbours_of(csr_from_edges(src, dst, np.ones(len(src), np.uint32), n))


def lists_of(offsets, neighbours):
    """Return the neighbours of each vertex."""
    return [neighbours[a:b].tolist() for a, b in pairwise(offsets)]


def smallest(lists, sides, band):
    """Return how many vertices of the band stop all paths between what is beyond it on both sides."""
    directed, n = nx.DiGraph(), len(lists)
    for v in range(n):
        if v in band:
            directed.add_edge((v, "in"), (v, "out"), capacity=1)
        else:
            end = "source" if sides[v] == 0 else "target"
            directed.add_edge(
                "source" if end == "source" else (v, "out"), (v, "in") if end == "source" else "target"
            )
            directed.add_edge((v, "in"), (v, "out"))
        for u in lists[v]:
            directed.add_edge((v, "out"), (u, "in"))
    directed.add_nodes_from(["source", "target"])
    return nx.maximum_flow_value(directed, "source", "target")


@st.composite
def cut_graphs(draw):
    n = draw(st.integers(2, 40))
    near = st.tuples(st.integers(0, n - 1), st.integers(1, 4)).map(
        lambda pair: (pair[0], min(sum(pair), n - 1))
    )
    any_pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    edges = draw(st.lists(near, max_size=3 * n)) + draw(st.lists(any_pair, max_size=4))
    middle = draw(st.integers(0, n))
    sides = np.arange(n) >= middle
    for v in draw(st.lists(st.integers(0, n - 1), max_size=3)):
        sides[v] = not sides[v]
    return n, edges, sides, draw(st.sampled_from([0, 1, 2, 5])), draw(st.sampled_from([0.6, 0.8, 1.0]))


@pytest.mark.medium
@given(given_=cut_graphs())
@EXAMPLES
def test_separators_are_the_smallest_within_the_band(given_):
    n, edges, sides, width, most = given_
    offsets, neighbours = around(n, edges)
    lists = lists_of(offsets, neighbours)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(flows, "_BAND_WIDTH", width)
        patched.setattr(flows, "_LEAST_BAND", 0)
        patched.setattr(flows, "MOST_IN_SEPARATOR", 1.0)
        patched.setattr(flows, "_MOST_OF_SIDE", most)
        bands, take_band = [], flows._band

        def noted(*arguments):
            bands.append((arguments[2].copy(), take_band(*arguments)))
            return bands[-1][1]

        patched.setattr(flows, "_band", noted)
        found = separated(offsets, neighbours, sides)
    [(before, band)] = bands
    for side in (0, 1):  # the first separator is the boundary of one side
        assert set(found[np.setdiff1d(np.flatnonzero(before == side), band)]) <= {side}
    assert not any({found[v], found[u]} == {0, 1} for v in range(n) for u in lists[v])
    n_before, n_found = ((by_side == SEPARATOR).sum() for by_side in (before, found))
    assert n_found <= n_before
    assert n_found == smallest(lists, before, set(band.tolist()))
    for side in (0, 1):
        n_most = max(most * n, np.count_nonzero(before == side) + n_before)
        assert np.count_nonzero(found == side) <= n_most


def test_a_crooked_cut_of_a_grid_becomes_straight():
    made = grid(20, 30)
    offsets, neighbours = neighbours_of(csr_from_edges(made.src, made.dst, made.weights, made.n_vertices))
    columns, rows = np.arange(600) % 30, np.arange(600) // 30
    found = separated(offsets, neighbours, columns >= 12 + rows % 5)
    assert np.count_nonzero(found == SEPARATOR) == 20
    assert np.bincount(found)[:2].min() >= 0.4 * 600 - 20


def test_what_is_not_joined_needs_no_separator():
    offsets, neighbours = around(6, [(0, 1), (1, 2), (3, 4), (4, 5)])
    sides = np.array([False, False, False, True, True, True])
    assert_array_equal(separated(offsets, neighbours, sides), sides)


def test_a_large_separator_is_refused():
    made = grid(20, 30)
    offsets, neighbours = neighbours_of(csr_from_edges(made.src, made.dst, made.weights, made.n_vertices))
    assert separated(offsets, neighbours, np.arange(600) % 2 == 0) is None
