"""Shortest paths on the arcs of a hierarchy: what passes vertices and edges is what `PathSums` finds along rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from passed_paths import along_rows, assert_close, counts_of, diamonds, grid, random_amounts, random_graph

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges
from sssp_pipeline.kernels.answers.path_sums import PathSums, PathWords, sums_of
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.hierarchy.sweeps.path_sweep import GROUP, PathSweep, spread
from sssp_pipeline.kernels.host.search import search_limit

DTYPES = ("uint32", "int32", "uint64", "int64")


def on_hierarchy(
    graph: CsrGraph, sources: np.ndarray, asked: PathSumsAsked, cutoff: int | None = None
) -> PathWords | None:
    counts = counts_of(graph)
    assert counts is not None
    sweep = PathSweep(counts, asked)
    limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, cutoff))
    for first in range(0, len(sources), GROUP):
        if sweep.add(sources[first : first + GROUP], limit) is None:
            return None
    return spread(graph, counts, sweep.words(), asked)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("cutoff", [None, 4])
def test_random_graphs(dtype, cutoff):
    rng = np.random.default_rng(7)
    for _ in range(60):
        n_vertices = int(rng.integers(1, 40))
        graph = random_graph(rng, dtype, n_vertices, int(rng.integers(0, 120)))
        sources = rng.integers(0, n_vertices, int(rng.integers(0, 40))).astype(np.uint32)
        is_target = rng.random(n_vertices) < 0.5 if rng.random() < 0.5 else None
        asked = PathSumsAsked(edges=True, endpoints=bool(rng.random() < 0.5), is_target=is_target)
        if is_target is None and rng.random() < 0.5:
            amounts = random_amounts(rng, n_vertices, with_decay=False)
            asked = replace(asked, is_weighted=True, amounts=amounts)
        assert_close(on_hierarchy(graph, sources, asked, cutoff), along_rows(graph, sources, asked, cutoff))


@pytest.mark.parametrize("cutoff", [None, 4])
@pytest.mark.parametrize("endpoints", [False, True])
def test_each_source_has_the_totals_of_its_row(endpoints, cutoff):
    rng = np.random.default_rng(3)
    amounts = random_amounts(rng, 40, with_decay=False)
    asked = PathSumsAsked(edges=True, endpoints=endpoints, is_weighted=True, amounts=amounts)
    for _ in range(30):
        graph = random_graph(rng, "uint32", 40, int(rng.integers(20, 150)))
        sources, counts = rng.integers(0, 40, 20).astype(np.uint32), counts_of(graph)
        assert counts is not None
        found = PathSweep(counts, asked).add(sources, np.uint32(search_limit(graph, cutoff)))
        rows = Dijkstra().solve(graph, sources, SolveOptions(cutoff=cutoff)).distances
        np.testing.assert_allclose(found, PathSums(graph, asked).add(rows, sources), rtol=1e-13)


def test_parallel_edges_differ_by_direction():
    """Two edges there and one back: the arcs have the same weight and other numbers of paths."""
    graph = csr_from_edges(
        np.array([0, 0, 1, 1, 2]), np.array([1, 1, 0, 2, 1]), np.ones(5, np.uint32), n_vertices=3
    )
    counts = counts_of(graph)
    assert counts is not None
    assert counts.hierarchy.up is counts.hierarchy.down
    assert sorted([*counts.up, *counts.down]) == [1, 1, 1, 2]
    asked = PathSumsAsked(edges=True)
    found = on_hierarchy(graph, np.arange(3, dtype=np.uint32), asked)
    assert found is not None
    np.testing.assert_array_equal(sums_of(found.edges), [1, 1, 2, 2, 2])
    np.testing.assert_array_equal(sums_of(found.vertices), [0, 2, 0])


@pytest.mark.parametrize("most", [1, 3, 100])
def test_grids_have_many_equal_paths(most):
    graph = grid(np.random.default_rng(8), 20, most)
    asked, sources = PathSumsAsked(edges=True), np.arange(200, dtype=np.uint32)
    assert_close(on_hierarchy(graph, sources, asked), along_rows(graph, sources, asked))


def test_groups_may_be_added_in_any_order_by_several_threads():
    graph = grid(np.random.default_rng(9), 15, 2)
    counts = counts_of(graph)
    assert counts is not None
    groups = np.array_split(np.arange(225, dtype=np.uint32), 7)
    limit = np.uint32(search_limit(graph, None))

    def swept(some: list[np.ndarray]) -> PathSweep:
        sweep = PathSweep(counts, PathSumsAsked())
        for group in some:
            assert sweep.add(group, limit) is not None
        return sweep

    whole, first, second = swept(groups), swept(groups[5:2:-1]), swept(groups[:3] + groups[6:])
    first.merge(second)
    for some, others in zip(first.words(), whole.words(), strict=True):
        np.testing.assert_array_equal(some, others)
    assert (whole.words().through[:, 0] > 0).any()  # fractions, which floats would round


def test_very_many_paths():
    graph, source, asked = diamonds(990), np.zeros(1, np.uint32), PathSumsAsked(edges=True)
    assert_close(on_hierarchy(graph, source, asked), along_rows(graph, source, asked))


def test_too_many_paths_are_refused():
    """An arc may have too many paths itself, or only a way over several arcs."""
    assert counts_of(diamonds(2200)) is None
    graph, asked = diamonds(1010), PathSumsAsked()
    assert on_hierarchy(graph, np.array([90], np.uint32), asked) is not None
    assert on_hierarchy(graph, np.array([90, 0], np.uint32), asked) is None
