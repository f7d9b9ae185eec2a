"""What is made of a graph is made once, in one thread at a time, and freed with the graph."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from sssp_pipeline.base.generators import path
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph


class Made:
    """Stands for a result."""


def test_it_is_made_once_for_each_graph_and_freed_with_it():
    made = []

    @kept_with_graph
    def result_of(graph):
        made.append(weakref.ref(graph))
        return Made()

    graph, other = path(3).graph(), path(3).graph()
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(result_of, [graph] * 8))
    assert all(each is results[0] for each in results)
    assert result_of(other) is not results[0]
    assert [each() for each in made] == [graph, other]
    result = weakref.ref(results[0])
    del graph, results
    gc.collect()
    assert (made[0](), result()) == (None, None)


def test_an_error_is_not_kept():
    found = iter([ValueError("no memory"), "made"])

    @kept_with_graph
    def result_of(graph):
        if isinstance(each := next(found), ValueError):
            raise each
        return each

    graph = path(3).graph()
    with pytest.raises(ValueError, match="no memory"):
        result_of(graph)
    assert result_of(graph) == result_of(graph) == "made"
