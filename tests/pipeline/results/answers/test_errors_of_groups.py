"""The standard error of a sample that is added in groups: it has the right size on average, on several graphs."""

from __future__ import annotations

from functools import cache

import networkx as nx
import numpy as np
import pytest

import sssp_pipeline as sp
from sssp_pipeline.kernels.answers.path_sums import add_group, squares_of, sums_of
from sssp_pipeline.pipeline.results.answers.betweenness import estimates


def words_of(values):
    """Return `values` (n,) as words (n, 2), as a batch has them."""
    whole = values.astype(np.uint64)
    return np.stack([((values - whole) * 2.0**64).astype(np.uint64), whole], axis=1)


def errors_of(groups, sizes, n_vertices):
    """Return the standard errors that the sums of `groups` (B, n) give."""
    words = np.zeros((groups.shape[1], 4), np.uint64)
    for group, size in zip(groups, sizes, strict=True):
        add_group(words, words_of(group), size)
    return estimates(words, 1.0, sum(sizes), n_vertices, len(sizes))["standard_error"].to_numpy()


def test_a_group_adds_its_sum_and_its_square():
    words = np.zeros((3, 4), np.uint64)
    for values, n_sources in (([1.5, 0, 2.0**33], 4), ([2.5, 3, 2.0**33], 2)):
        add_group(words, words_of(np.array(values)), n_sources)
    np.testing.assert_array_equal(sums_of(words), [4, 3, 2.0**34])
    np.testing.assert_array_equal(squares_of(words), [1.5**2 / 4 + 2.5**2 / 2, 9 / 2, 2.0**66 * 3 / 4])


GRAPHS = {
    "grid": nx.grid_2d_graph(10, 12),
    "scale-free": nx.barabasi_albert_graph(120, 2, seed=1),
    "geometric": nx.random_geometric_graph(120, 0.13, seed=2),
}


@cache
def sums_of_each_source(name):
    """Return what each source adds to each vertex of a graph: (sources, vertices)."""
    graph = GRAPHS[name]
    return np.array([sp.betweenness(graph, [source])["betweenness"] for source in graph])


@pytest.mark.medium
@pytest.mark.parametrize("sizes", [[1] * 40, [4] * 16, [5] * 15 + [2]], ids=["sources", "groups", "uneven"])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_error_has_the_right_size(name, sizes):
    n, n_samples, n_drawn = 120, 400, sum(sizes)
    each = sums_of_each_source(name)
    true = n * np.sqrt(each.var(axis=0, ddof=1) / n_drawn * (1 - n_drawn / n))
    rng, squares = np.random.default_rng(3), np.zeros(n)
    for _ in range(n_samples):
        drawn = rng.permutation(n)[:n_drawn]
        groups = np.add.reduceat(each[drawn], np.cumsum([0, *sizes[:-1]]))
        squares += errors_of(groups, sizes, n) ** 2 / n_samples
    is_passed = true > 1e-3
    assert is_passed.sum() > 50
    ratios = squares[is_passed] / true[is_passed] ** 2
    # A variance of 15 degrees of freedom has a relative error of 0.37, and 1 / 20 of it over 400 samples.
    assert abs(ratios.mean() - 1) < 0.02
    assert np.abs(ratios - 1).max() < 0.2
