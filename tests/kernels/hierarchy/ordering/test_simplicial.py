"""Vertices that join nothing, against their definition and the game of eliminating one vertex after the other."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import dense, grid, path, star
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes, simplicial
from sssp_pipeline.kernels.hierarchy.ordering.order import elimination_order, neighbours_of
from sssp_pipeline.kernels.hierarchy.ordering.simplicial import (
    MOST_NEIGHBOURS,
    MOST_ROUNDS,
    without_simplicial,
)

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=200, suppress_health_check=[HealthCheck.too_slow]
)


def graph_of(edges, n):
    src, dst = np.array(edges, np.int64).reshape(-1, 2).T
    return csr_from_edges(src, dst, np.ones(len(src), np.uint32), n)


@st.composite
def cliques(draw):
    """Graphs made of cliques that share vertices, and some other edges."""
    n = draw(st.integers(2, 40))
    vertex = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(vertex, vertex), max_size=n // 2))
    for members in draw(st.lists(st.sets(vertex, max_size=7), max_size=12)):
        edges += combinations(sorted(members), 2)
    return n, edges


def checked(n, edges):
    """Return what is left of a graph, after the game is played in its order."""
    offsets, neighbours = neighbours_of(graph_of(edges, n))
    made = without_simplicial(offsets, neighbours)
    around = [set(neighbours[a:b].tolist()) for a, b in pairwise(offsets)]

    def joins_nothing(v):
        return all(b in around[a] for a, b in combinations(around[v], 2))

    for v in made.eliminated.tolist():
        assert len(around[v]) <= MOST_NEIGHBOURS
        assert joins_nothing(v)
        for a in around[v]:
            around[a].discard(v)
    assert sorted([*made.eliminated.tolist(), *made.vertices.tolist()]) == list(range(n))
    for i, v in enumerate(made.vertices.tolist()):
        found = made.vertices[made.neighbours[made.offsets[i] : made.offsets[i + 1]]].tolist()
        assert found == sorted(around[v])
    return made, [v for v in made.vertices.tolist() if joins_nothing(v)]


@pytest.mark.medium
@EXAMPLES
@given(made=cliques())
def test_what_is_left_is_what_the_elimination_game_leaves(made):
    n, edges = made
    _, missed = checked(n, edges)
    assert not missed  # these graphs are too small for more rounds


@pytest.mark.parametrize(
    ("made", "n_left"),
    [(dense(20), 0), (dense(int(MOST_NEIGHBOURS) + 1), 0), (dense(40), 40), (star(100), 0), (grid(9, 9), 81)],
)
def test_cliques_and_leaves_are_eliminated(made, n_left):
    found, _ = checked(made.n_vertices, list(zip(made.src.tolist(), made.dst.tolist(), strict=True)))
    assert len(found.vertices) == n_left


def test_a_strip_of_cliques_stays_long_enough_for_metis():
    n = 500
    strip = [(v, v + step) for v in range(n) for step in range(1, 8) if v + step < n]
    found, _ = checked(n, strip)
    assert len(found.eliminated) == 2 * MOST_ROUNDS
    made = path(50)
    found, _ = checked(50, list(zip(made.src.tolist(), made.dst.tolist(), strict=True)))
    assert len(found.eliminated) == 2 * MOST_ROUNDS


@pytest.mark.skipif(metis_processes.package() is None, reason="`pymetis` is not installed")
def test_only_dense_graphs_are_ordered_finely(monkeypatch):
    asked, order_of = [], metis_processes.Metis.order

    def ordered(self, *arrays, is_dense):
        asked.append(is_dense)
        return order_of(self, *arrays, is_dense=is_dense)

    monkeypatch.setattr(metis_processes.Metis, "order", ordered)
    random = np.random.default_rng(5)
    thick = graph_of(random.integers(0, 400, (2500, 2)).tolist(), 400)
    flat = grid(40, 40)
    for graph in (thick, csr_from_edges(flat.src, flat.dst, flat.weights, flat.n_vertices)):
        found = elimination_order(*neighbours_of(graph))
        assert sorted(found.tolist()) == list(range(graph.n_vertices))
    assert asked == [True, False]


def test_it_does_not_depend_on_the_number_of_threads(monkeypatch):
    around, found = neighbours_of(graph_of(*around_hubs())), []
    monkeypatch.setattr(simplicial, "_LEAST_READ", 10)
    monkeypatch.setattr(simplicial, "_LEAST_PART", 10)
    for n_threads in (1, 5):
        monkeypatch.setattr(simplicial, "usable_cores", lambda n_threads=n_threads: n_threads)
        found.append(without_simplicial(*around))
    one, other = found
    assert 0 < len(one.vertices) < 400
    for name in ("vertices", "offsets", "neighbours", "eliminated"):
        assert_array_equal(getattr(one, name), getattr(other, name))


def around_hubs():
    """Return edges of a graph of 400 vertices, of which 10 are next to many others, and its number of vertices."""
    generator = np.random.default_rng(0)
    edges = [(int(generator.integers(10)), v) for v in range(400) for _ in range(3)]
    return edges, 400
