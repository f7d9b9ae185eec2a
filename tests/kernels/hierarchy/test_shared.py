"""The hierarchy of a graph is made once for all solvers, or taken from what a store offers."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.phast import Phast
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.completion.customization import customize


def path(n, dtype=np.uint32, weight=3):
    src = np.arange(n - 1)
    return csr_from_edges(src, src + 1, np.full(n - 1, weight, dtype), n)


@pytest.fixture
def made(monkeypatch):
    """The names of what was made, in order."""
    names = []
    for name in ("completion_of", "customize"):
        original = getattr(shared, name)
        monkeypatch.setattr(
            shared, name, lambda *given, name=name, original=original: names.append(name) or original(*given)
        )
    return names


def test_weights_of_the_same_edges_share_a_completion(made):
    graph = path(20)
    other = CsrGraph(graph.row_offsets, graph.col_indices, graph.weights * 2)
    one, two = shared.shared_hierarchy(graph), shared.shared_hierarchy(other)
    assert made == ["completion_of", "customize", "customize"]
    assert one.completion is two.completion is shared.shared_completion(other)
    assert shared.shared_hierarchy(graph) is one
    assert_array_equal(two.up.weights, 2 * one.up.weights)


def test_weights_that_would_take_days_are_refused_on_a_cpu_only(made, monkeypatch):
    graph = path(20)
    monkeypatch.setattr(costs, "MOST_WEIGHTS_S", 0.0)
    with pytest.raises(
        InputError, match=r"no hierarchy of this graph can be made: the weights of its 33 arcs"
    ) as caught:
        shared.shared_hierarchy(graph)
    assert caught.value.hint.endswith("use `delta-stepping` or `auto`")
    assert made == ["completion_of"]
    assert shared.shared_completion(graph).n_arcs == 33
    assert "0 hours on a CPU, and at most 0 are allowed" in Phast().supports(
        shared.traits_of(graph), SolveOptions()
    )


def test_equal_edges_in_other_arrays_are_another_graph(made):
    shared.shared_completion(path(20))
    shared.shared_completion(path(20))
    assert made == ["completion_of", "completion_of"]


def test_negative_weights_share_the_completion_of_the_graph(made):
    Phast().solve(path(3), np.array([0]), SolveOptions())  # compiles it
    made.clear()
    graph = path(20, np.int32, -1)
    shared.shared_completion(graph)
    Phast().solve(graph, np.array([0]), SolveOptions())
    assert made == ["completion_of", "customize"]


@pytest.mark.medium
def test_a_completion_goes_with_the_edges():
    graph = path(20)
    completion = weakref.ref(shared.shared_completion(graph))
    hierarchy = weakref.ref(shared.shared_hierarchy(graph))
    edges = graph.col_indices
    del graph
    gc.collect()
    assert hierarchy() is None
    assert completion() is not None
    del edges
    gc.collect()
    assert completion() is None


@pytest.mark.parametrize(
    ("n_offered", "expected"), [(2, []), (1, ["customize"]), (0, ["completion_of", "customize"])]
)
def test_what_a_store_offers_is_taken_and_what_it_lacks_is_made(made, n_offered, expected):
    graph = path(20)
    completion = shared.completion_of(graph)
    offered = [*[completion, customize(completion, graph)][:n_offered], None, None]
    made.clear()
    shared.offer(graph, shared.Offer(lambda: offered[0], lambda: offered[1]))
    hierarchy = shared.shared_hierarchy(graph)
    assert offered[0] in (hierarchy.completion, None)
    assert offered[1] in (hierarchy, None)
    assert shared.shared_completion(graph) is hierarchy.completion
    assert made == expected


def test_what_was_made_may_be_given():
    graph, other = path(20), path(20)
    hierarchy = customize(shared.completion_of(graph), graph)
    shared.share_hierarchy(graph, hierarchy)
    assert shared.shared_hierarchy(graph) is hierarchy
    shared.share_completion(other, hierarchy.completion)
    assert shared.shared_completion(other) is hierarchy.completion
