"""The width that a look finds: on graphs whose separators are known, and where it ends early."""

from __future__ import annotations

import numpy as np
import pytest

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels.hierarchy.dividing import look
from sssp_pipeline.kernels.hierarchy.dividing.look import width_of

MUCH = 2**40


def both_ways(ends: np.ndarray, n_vertices: int) -> CsrGraph:
    src, dst = np.concatenate([ends, ends[:, ::-1]]).T
    return csr_from_edges(src, dst, np.ones(len(src), np.uint32), n_vertices)


def lattice(*sides: int) -> CsrGraph:
    vertices = np.arange(np.prod(sides)).reshape(sides)
    along = [np.moveaxis(vertices, axis, 0) for axis in range(len(sides))]
    pairs = [np.stack([lines[:-1].ravel(), lines[1:].ravel()], 1) for lines in along]
    return both_ways(np.concatenate(pairs), vertices.size)


def random_graph(n_vertices: int, degree: int) -> CsrGraph:
    ends = np.random.default_rng(3).integers(0, n_vertices, (n_vertices * degree // 2, 2))
    return both_ways(ends[ends[:, 0] != ends[:, 1]], n_vertices)


def star(n_vertices: int) -> CsrGraph:
    return both_ways(np.stack([np.zeros(n_vertices - 1, int), np.arange(1, n_vertices)], 1), n_vertices)


@pytest.mark.parametrize(
    ("graph", "least", "most"),
    [
        (lattice(1000), 1, 2),
        (lattice(8, 2000), 8, 16),
        (lattice(60, 60), 40, 90),
        (lattice(24, 24, 24), 400, 900),
        (random_graph(20_000, 8), 4_000, 16_000),
        (star(5000), 0, 0),
        (both_ways(np.stack(np.triu_indices(60, 1), 1), 60), 0, 0),  # no vertex is beyond a boundary
        (both_ways(np.empty((0, 2), int), 50), 0, 0),
    ],
    ids=["path", "narrow", "plane", "solid", "random", "star", "complete", "no-edges"],
)
def test_the_width_is_that_of_separators(graph, least, most):
    assert least <= width_of(graph, MUCH, MUCH) <= most


@pytest.mark.parametrize("n_vertices", [0, 1, 2, 3])
def test_tiny_graphs(n_vertices):
    assert width_of(lattice(n_vertices), MUCH, MUCH) <= 1


def test_a_look_that_is_cut_short_expects_a_plane_to_go_on():
    plane, whole = lattice(200, 200), width_of(lattice(200, 200), MUCH, MUCH)
    assert 0.5 * whole <= width_of(plane, 20_000, MUCH) <= 2 * whole
    # The boundary of a random graph grows faster than that.
    widths = [width_of(random_graph(50_000, 8), steps, MUCH) for steps in (10_000, 40_000)]
    assert widths[1] > 1.5 * widths[0]
    assert width_of(random_graph(1000, 200), 10_000, MUCH) == 500  # at most half of the vertices


def test_a_look_ends_where_the_boundary_is_wide_enough():
    graph = random_graph(50_000, 8)
    assert width_of(graph, MUCH, 500) >= 500
    limits = (np.uint64(limit) for limit in (25_000, MUCH, 500))
    zeros = (np.zeros(*given) for given in ((50_000, np.bool_), (50_000, np.uint32), (64, np.int64)))
    n_inside = look._grow(graph.row_offsets.view(np.uint64), graph.col_indices, *limits, *zeros)
    assert n_inside < 500


def test_components_are_taken_one_after_the_other():
    squares = np.concatenate([25 * part + ends_of_a_square() for part in range(400)])
    assert 1 <= width_of(both_ways(squares, 10_000), MUCH, MUCH) <= 5


def ends_of_a_square() -> np.ndarray:
    made = grid(5, 5)
    return np.stack([made.src, made.dst], 1).astype(int)


def test_the_numbers_of_vertices_make_little_difference():
    graph = lattice(80, 80)
    of_new = np.random.default_rng(5).permutation(6400)
    src = np.repeat(np.arange(6400), np.diff(graph.row_offsets))
    other = csr_from_edges(of_new[src], of_new[graph.col_indices], graph.weights, 6400)
    assert width_of(other, MUCH, MUCH) == pytest.approx(width_of(graph, MUCH, MUCH), rel=0.5)


def test_parallel_edges_loops_and_one_way_edges_are_taken():
    made = rmat(scale=10, edge_factor=8)
    src, dst = (np.concatenate([ends, ends[:500]]) for ends in (made.src, made.dst))
    graph = csr_from_edges(src, dst, np.ones(len(src), np.uint32), made.n_vertices)
    assert 30 <= width_of(graph, MUCH, MUCH) <= 512
