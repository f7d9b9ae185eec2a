"""The levels of a breadth-first search: exact in small graphs, near the truth in large ones."""

import numpy as np
import pytest

from sssp_pipeline.base import levels
from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid, path, random_edges, rmat
from sssp_pipeline.base.levels import search_levels


def found(src, dst, n_vertices, both=True):
    """Return the levels of the graph of these edges."""
    ends = (np.concatenate([src, dst]), np.concatenate([dst, src])) if both else (src, dst)
    graph = csr_from_edges(
        *(np.asarray(end, np.uint32) for end in ends), np.ones(len(ends[0]), np.uint32), n_vertices
    )
    assert graph.levels == search_levels(graph.row_offsets, graph.col_indices)
    assert graph.traits.levels is None
    return graph.levels


def of_generated(made):
    graph = csr_from_edges(made.src, made.dst, made.weights, made.n_vertices)
    return search_levels(graph.row_offsets, graph.col_indices)


def test_the_levels_of_a_small_graph_are_exact():
    line = np.arange(99)
    # A search begins where the middle of each third of the edges begins.
    assert found(line, line + 1, 100) == np.mean([82, 50, 83])
    assert found(line, line + 1, 100, both=False) == np.mean([83, 50, 17])
    assert found(np.arange(100), (np.arange(100) + 1) % 100, 100) == 50
    assert found(np.zeros(99), line + 1, 100) == np.mean([1, 2, 2])
    child = np.arange(1, 127)
    assert found((child - 1) // 2, child, 127) == np.mean([9, 11, 12])
    assert of_generated(grid(rows=8, cols=9)) == np.mean([10, 12, 10])
    assert found(*np.nonzero(~np.eye(30, dtype=bool)), 30, both=False) == 1


def test_a_search_ends_in_its_component():
    pairs = np.arange(0, 600, 2)
    assert found(pairs, pairs + 1, 600) == 1
    assert found([0, 5], [1, 6], 10) == 1


@pytest.mark.parametrize("n_vertices", [0, 1, 1000])
def test_a_graph_without_edges_has_no_levels(n_vertices):
    assert found([], [], n_vertices) == 0


def test_loops_and_parallel_edges_are_no_levels():
    assert found([0, 3], [0, 3], 5) == 0
    assert found([0, 0, 0], [1, 1, 1], 2) == 1


@pytest.mark.parametrize(
    ("made", "truth"),
    [
        (path(vertices=50_000), 0.75 * 50_000),
        (grid(rows=5, cols=4_000), 0.75 * 4_000),
        (grid(rows=300, cols=300), 450),
        (random_edges(vertices=50_000, edge_factor=8), 6),
        (rmat(scale=14), 5),
    ],
    ids=["path", "long-grid", "grid", "random", "rmat"],
)
def test_the_levels_of_a_large_graph_are_near_the_truth(made, truth):
    assert truth / 2 <= of_generated(made) <= 2 * truth


def test_the_edges_of_a_hub_are_counted_and_not_read():
    n_vertices = 2**16
    row_offsets = np.append(0, np.full(n_vertices, n_vertices - 1))
    absent = np.full(n_vertices - 1, 2**32 - 1, np.uint32)  # reading these would raise
    assert search_levels(row_offsets, absent) == 1
    far = np.append(
        row_offsets, np.full(9 * n_vertices, n_vertices - 1)
    )  # and vertices that it may reach later
    assert 1 < search_levels(far, absent) < 3


def test_large_graphs_are_not_searched(monkeypatch):
    monkeypatch.setattr(levels, "MOST_BYTES", 8 * 3 + 4 * 2)
    two = np.array([0, 1, 2]), np.array([1, 0], np.uint32)
    assert search_levels(*two) == 1
    monkeypatch.setattr(levels, "MOST_BYTES", 8 * 3 + 4 * 2 - 1)
    assert search_levels(*two) is None
