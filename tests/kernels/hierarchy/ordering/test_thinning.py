"""The thinning of a core against the game of eliminating one vertex after the other."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import dense, grid, path, road_like, star
from sssp_pipeline.kernels.hierarchy.ordering.order import core_of, neighbours_of
from sssp_pipeline.kernels.hierarchy.ordering.thinning import MOST_ADDED, MOST_NEIGHBOURS, PLACES, thinned

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def pairs(draw):
    """Sparse graphs, some with a vertex that has more neighbours than a row has places."""
    n = draw(st.integers(2, 40))
    vertex = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(vertex, vertex), max_size=2 * n))
    hub = draw(st.none() | vertex)
    return n, edges + ([] if hub is None else [(hub, v) for v in range(0, n, 2)])


def checked(offsets, neighbours):
    """Return the thinned graph, after the game is played in its order with all its rules."""
    made = thinned(offsets, neighbours)
    around = [set(neighbours[a:b].tolist()) for a, b in pairwise(offsets)]
    for v in made.eliminated.tolist():
        missing = [(a, b) for a, b in combinations(around[v], 2) if b not in around[a]]
        assert len(around[v]) <= MOST_NEIGHBOURS
        assert len(missing) <= MOST_ADDED
        for a, b in missing:
            around[a].add(b)
            around[b].add(a)
        for a in around[v]:
            around[a].discard(v)
            assert len(around[a]) <= PLACES
        around[v] = set()
    assert sorted([*made.eliminated.tolist(), *made.vertices.tolist()]) == list(range(len(around)))
    for i, v in enumerate(made.vertices.tolist()):
        found = made.vertices[made.neighbours[made.offsets[i] : made.offsets[i + 1]]].tolist()
        assert sorted(found) == sorted(around[v])
    return made


@pytest.mark.medium
@EXAMPLES
@given(given_pairs=pairs())
def test_what_is_left_is_what_the_elimination_game_leaves(given_pairs):
    n, edges = given_pairs
    src, dst = np.array(edges, np.int64).reshape(-1, 2).T
    checked(*neighbours_of(csr_from_edges(src, dst, np.ones(len(src), np.uint32), n)))


@pytest.mark.parametrize(
    ("made", "most_left"),
    [
        (road_like(20_000), 0.6),
        (grid(60, 60), 0.97),
        (grid(60, 60, keep=0.7), 0.7),
        (path(50), 0),
        (dense(6), 0),
        (dense(30), 1),
        (star(30), 1),
    ],
)
def test_vertices_of_sparse_graphs_are_eliminated(made, most_left):
    graph = csr_from_edges(made.src, made.dst, made.weights, made.n_vertices)
    around = neighbours_of(graph)
    core = core_of(*around)
    for offsets, neighbours in (around, (core.offsets, core.neighbours)):
        n = len(offsets) - 1
        assert len(checked(offsets, neighbours).vertices) <= most_left * n
