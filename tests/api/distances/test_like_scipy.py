"""`dijkstra` returns what SciPy's function returns, and more digits where SciPy rounds."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import scipy.sparse as ss
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csgraph

import sssp_pipeline as sp
from sssp_pipeline.base.errors import NegativeCycleError, PathTooLongError

EXAMPLE = [[0, 1, 2, 0], [0, 0, 0, 1], [0, 0, 0, 3], [0, 0, 0, 0]]


def test_the_signature_is_that_of_scipy():
    ours = inspect.signature(sp.dijkstra).parameters.values()
    theirs = inspect.signature(csgraph.dijkstra).parameters.values()
    assert [(p.name, p.default) for p in ours] == [(p.name, p.default) for p in theirs]


@pytest.mark.parametrize(
    "graph", [EXAMPLE, np.array(EXAMPLE), ss.csr_array(EXAMPLE), ss.csr_matrix(EXAMPLE)], ids=type
)
def test_the_example_of_scipy(graph):
    distances, predecessors = sp.dijkstra(csgraph=graph, directed=False, indices=0, return_predecessors=True)
    assert distances.tolist() == [0.0, 1.0, 2.0, 2.0]
    assert predecessors.tolist() == [-9999, 0, 0, 1]
    assert (distances.dtype, predecessors.dtype) == (np.float64, np.int32)


def random_graph(seed: int, dtype: str, n: int = 60, zeros: bool = False) -> ss.csr_array:
    """Return a graph with unreached vertices, ties and, with `zeros`, stored zeros."""
    rng = np.random.default_rng(seed)
    row, col = rng.integers(0, n, (2, 2 * n))
    matrix = ss.csr_array((rng.integers(1, 9, 2 * n), (row, col)), (n, n))
    matrix.sum_duplicates()
    if zeros:
        matrix.data[::5] = 0
    matrix = matrix.astype(dtype)
    return matrix / 10 if np.dtype(dtype) == np.float64 else matrix


OPTIONS = [
    {},
    {"indices": 3},
    {"indices": [3, 3, -1]},
    {"indices": [[1, 2], [4, 0]]},
    {"indices": []},
    {"directed": False},
    {"unweighted": True},
    {"limit": 1.2, "indices": [0, 1]},
    {"limit": 0},
    {"min_only": True},
    {"min_only": True, "indices": 7},
    {"min_only": True, "indices": [2, 5, 5], "directed": False},
    {"min_only": True, "indices": [2, 5], "limit": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint32", "float32", "float64"])
def test_shapes_and_bits_are_those_of_scipy(dtype, options):
    graph = random_graph(7, dtype)
    ours, theirs = sp.dijkstra(graph, **options), csgraph.dijkstra(graph, **options)
    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("options", [{**o, "return_predecessors": True} for o in OPTIONS], ids=str)
def test_predecessors_are_on_shortest_paths(options):
    graph = random_graph(11, "float64")
    ours, theirs = sp.dijkstra(graph, **options), csgraph.dijkstra(graph, **options)
    assert [(a.shape, a.dtype) for a in ours] == [(a.shape, a.dtype) for a in theirs]
    distances, predecessors = (a.reshape(-1, a.shape[-1]) for a in ours[:2])
    np.testing.assert_array_equal(distances, theirs[0].reshape(distances.shape))
    np.testing.assert_array_equal(predecessors == -9999, (theirs[1] == -9999).reshape(predecessors.shape))
    weight = np.where(graph.toarray() > 0, 1.0 if options.get("unweighted") else graph.toarray(), np.inf)
    if options.get("directed") is False:
        weight = np.minimum(weight, weight.T)
    for row, before in zip(distances, predecessors, strict=True):
        (v,) = np.nonzero(before != -9999)
        np.testing.assert_array_equal(row[before[v]] + weight[before[v], v], row[v])
    if options.get("min_only"):
        nearest = np.atleast_1d(options.get("indices", range(60)))
        from_each = csgraph.dijkstra(graph, options.get("directed", True), nearest)
        sources = ours[2]
        assert set(sources[nearest]) == set(nearest.tolist())
        reached = sources != -9999
        np.testing.assert_array_equal(reached, np.isfinite(ours[0]))
        place_of = {source: place for place, source in enumerate(nearest.tolist())}
        for v in np.flatnonzero(reached):
            assert from_each[place_of[sources[v]], v] == ours[0][v]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["int64", "float64"]), st.booleans(), st.booleans())
def test_random_graphs_with_stored_zeros(seed, dtype, directed, min_only):
    graph = random_graph(seed, dtype, 12, zeros=True)
    options = {"directed": directed, "indices": [0, 3], "min_only": min_only}
    np.testing.assert_array_equal(sp.dijkstra(graph, **options), csgraph.dijkstra(graph, **options))


def test_stored_zeros_are_edges_and_zeros_of_a_dense_array_are_not():
    stored = ss.csr_array(([0.0, 0.5], ([0, 1], [1, 2])), (3, 3))
    assert sp.dijkstra(stored, indices=0).tolist() == [0, 0, 0.5]
    assert sp.dijkstra(stored.toarray(), indices=0).tolist() == [0, np.inf, np.inf]
    dense = np.array([[0, np.inf, 2.5], [np.nan, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(sp.dijkstra(dense), csgraph.dijkstra(dense))
    masked = np.ma.masked_array([[9, 0], [9, 9]], [[True, False], [True, True]])
    np.testing.assert_array_equal(sp.dijkstra(masked), csgraph.dijkstra(masked))
    infinite = ss.csr_array(([np.inf, 1.5, np.nan], ([0, 0, 2], [1, 2, 1])), (3, 3))
    np.testing.assert_array_equal(sp.dijkstra(infinite), csgraph.dijkstra(infinite))


def test_parallel_edges_and_other_layouts():
    twice = ss.csr_array((np.array([5.0, 2.0]), np.array([1, 1]), np.array([0, 2, 2])), shape=(2, 2))
    assert sp.dijkstra(twice, indices=0).tolist() == [0, 2]
    graph = random_graph(3, "float64")
    before = graph.copy()
    for layout in (graph.tocsc(), graph.tocoo(), graph.tolil()):
        np.testing.assert_array_equal(sp.dijkstra(layout), csgraph.dijkstra(graph))
    sp.dijkstra(graph, directed=False, min_only=True)
    assert (graph != before).nnz == 0, "the graph of the caller is changed"
    assert sp.dijkstra(np.empty((0, 0))).shape == (0, 0)
    np.testing.assert_array_equal(sp.dijkstra(ss.csr_array((2, 2))), [[0, np.inf], [np.inf, 0]])


def test_large_integers_are_added_exactly():
    large = 2**53 + 1
    graph = ss.csr_array((np.array([large, large]), ([0, 1], [1, 2])), (3, 3))
    assert csgraph.dijkstra(graph, indices=0)[2] == 2 * (large - 1)
    assert sp.dijkstra(graph, indices=0)[2] == 2 * large
    with pytest.raises(PathTooLongError, match="longer than uint64 holds"):
        sp.dijkstra(ss.csr_array((np.full(2, 2**64 - 2, np.uint64), ([0, 1], [1, 2])), (3, 3)))


def test_negative_weights_are_exact_or_refused():
    graph = ss.csr_array(([4, 2, -3], ([0, 0, 1], [1, 2, 2])), (3, 3))
    np.testing.assert_array_equal(sp.dijkstra(graph), csgraph.johnson(graph))
    np.testing.assert_array_equal(sp.dijkstra(graph * 0.5), csgraph.johnson(graph * 0.5))
    with pytest.raises(NegativeCycleError, match="0"):
        sp.dijkstra(ss.csr_array(([1, -2], ([0, 1], [1, 0])), (2, 2)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"csgraph": np.ones((2, 3))}, "the graph is an array of shape (2, 3)"),
        ({"csgraph": np.ones((2, 2), complex)}, "the graph has values of type complex128"),
        ({"csgraph": EXAMPLE, "indices": 4}, "source 4 is not in the graph"),
        ({"csgraph": EXAMPLE, "indices": [-5]}, "source -5 is not in the graph"),
        ({"csgraph": np.empty((0, 0)), "indices": 0}, "source 0 is not in the graph"),
        ({"csgraph": EXAMPLE, "limit": np.nan}, "`limit` is nan"),
        ({"csgraph": EXAMPLE, "indices": [0.5]}, "indices are of type float64"),
        ({"csgraph": EXAMPLE, "limit": -1}, "`limit` is -1"),
    ],
)
def test_errors(arguments, message, error_of):
    assert error_of(sp.dijkstra, **arguments).message == message
