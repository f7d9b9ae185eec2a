"""A graph made ready: its weights, its sources, its true distances, and what is said about it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import hashed_weights, path
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.bench.cases import diameter_at_least, prepare, stored
from sssp_pipeline.bench.spec import BenchGraph, RandomSources
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.solver import SolveOptions

GRID = {"input": "generated:grid?rows=20&cols=30"}


def made(folder, drawn=None, **entry):
    entry = BenchGraph.model_validate({"name": "g", **entry})
    drawn = drawn or RandomSources(count=3, seed=5)
    return prepare(entry, stored(entry, folder, Quiet()), drawn, Quiet())


def graph_of(edges, n_vertices):
    src, dst = np.array(edges).T
    return csr_from_edges(src, dst, np.ones(len(edges), np.uint32), n_vertices)


@pytest.mark.medium
def test_true_distances_facts_and_outcomes(tmp_path):
    case = made(tmp_path, graph=GRID)
    facts = case.facts
    assert (facts.name, facts.n_vertices, facts.n_edges, facts.weight_dtype) == ("g", 600, 2300, "uint32")
    assert (facts.mean_degree, facts.max_degree, facts.diameter_hops) == (round(2300 / 600, 4), 4, 48)
    assert facts.degree_deviation == round(float(np.diff(case.graph.row_offsets).std()), 4)
    expected = SOLVERS["dijkstra"].solve(case.graph, case.sources, SolveOptions())
    assert_array_equal(case.rows, expected.distances)
    assert case.outcomes == [(m.reached, m.max_distance, m.mean_distance) for m in expected.metrics]
    assert case.oracle == "delta-stepping"
    assert [p.parent.name[:2] for p in tmp_path.glob("*/manifest.json")] == ["g-"]


def test_hashed_weights_replace_those_of_the_input_in_its_type(tmp_path):
    plain = made(tmp_path, graph=GRID)
    case = made(tmp_path, graph={**GRID, "weights": {"dtype": "float32"}}, hashed_weights=9)
    src = np.repeat(np.arange(600), np.diff(case.graph.row_offsets))
    assert case.graph.weight_dtype == np.float32
    assert_array_equal(case.graph.weights, hashed_weights(src, case.graph.col_indices, 9))
    assert (case.facts.min_weight, case.facts.max_weight) == (1, 9)
    assert case.facts.content != plain.facts.content


def test_weights_that_are_replaced_are_not_read(tmp_path):
    (tmp_path / "e.txt").write_text("0 1 0.5\n1 2 7.25\n")
    case = made(tmp_path, graph={"input": str(tmp_path / "e.txt")}, hashed_weights=9)
    assert case.graph.weight_dtype == np.uint32
    assert_array_equal(case.graph.weights, hashed_weights(np.array([0, 1]), np.array([1, 2]), 9))


def test_a_store_that_is_there_already_is_taken(tmp_path):
    made(tmp_path, graph=GRID)
    case = made(tmp_path / "none", store=str(next(tmp_path.glob("g-*"))))
    assert case.facts.n_edges == 2300
    assert not (tmp_path / "none").exists()


def test_sources_reach_as_far_as_asked(tmp_path):
    leaves = {"input": "generated:rmat?scale=9&edge_factor=2"}
    case = made(tmp_path, RandomSources(count=4, min_reach=0.4), graph=leaves)
    assert all(reached >= 0.4 * 512 for reached, _, _ in case.outcomes)
    with pytest.raises(InputError) as caught:
        made(tmp_path, RandomSources(count=2, min_reach=0.9), graph=leaves)
    assert caught.value.message == (
        "graph `g`: `sources.random` asks for 2 sources that reach 461 vertices, but there are 0"
    )


def test_what_is_wrong_with_an_input_names_the_graph(tmp_path):
    with pytest.raises(InputError, match=r"^graph `g`: `generated:gird`: unknown generator `gird`$"):
        made(tmp_path, graph={"input": "generated:gird"})
    with pytest.raises(InputError, match=r"^graph `g`: "):
        made(tmp_path, store=str(tmp_path / "nowhere"))


def test_negative_weights_have_an_oracle_of_their_own(tmp_path):
    (tmp_path / "e.txt").write_text("0 1 4\n0 2 1\n1 2 -5\n")
    case = made(tmp_path, RandomSources(count=1, min_reach=3), graph={"input": str(tmp_path / "e.txt")})
    assert (case.oracle, case.facts.min_weight) == ("queue-bellman-ford", -5)
    assert case.rows.tolist() == [[0, 4, -1]]


@pytest.mark.parametrize(
    ("edges", "n_vertices", "starts", "hops"),
    [
        ([(0, 1)], 3, [2], 0),
        ([(0, 1), (1, 2), (2, 3)], 4, [1], 2),  # directed: nothing leads back
        ([(0, 1), (1, 2), (2, 3)], 4, [1, 0], 3),  # from the second source it is farther
        ([(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)], 4, [1], 3),  # the second search starts at an end
        ([(0, 1), (1, 2), (0, 2), (2, 0)], 3, [0], 2),
    ],
)
def test_the_diameter_is_a_lower_bound_by_several_searches(edges, n_vertices, starts, hops):
    assert diameter_at_least(graph_of(edges, n_vertices), np.array(starts)) == hops


def test_the_diameter_of_a_path_is_its_length():
    line = path(vertices=1000)
    graph = csr_from_edges(line.src, line.dst, line.weights, 1000)
    assert diameter_at_least(graph, np.array([400])) == 999
