import numpy as np
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import NO_VERTEX, csr_from_edges
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.cpu.queue_bellman_ford import QueueBellmanFord
from sssp_pipeline.kernels.host.predecessors import predecessors_of

DIJKSTRA = Dijkstra()


def predecessors(edges, n_vertices, source, dtype="uint32", cutoff=None, solver=DIJKSTRA):
    src, dst, weights = np.array(edges).T
    graph = csr_from_edges(src.astype(int), dst.astype(int), weights.astype(dtype), n_vertices)
    distances = solver.solve(graph, np.array([source]), SolveOptions(cutoff=cutoff)).distances[0]
    into = np.empty(n_vertices, np.uint32)
    predecessors_of(graph, source, distances, into)
    return into


def test_the_smallest_vertex_of_equal_paths_wins_over_fewer_edges():
    edges = [(0, 4, 3), (4, 5, 3), (0, 1, 2), (1, 2, 2), (2, 5, 2), (0, 3, 5), (3, 5, 1)]
    assert_array_equal(predecessors(edges, 6, 0), [NO_VERTEX, 0, 1, 0, 0, 2])


def test_an_edge_of_length_zero_is_taken_only_where_there_is_no_other():
    # 1 is at the same distance as 3 and 5. 3 has an edge from 4, which is nearer. 5 has none.
    edges = [(0, 1, 2), (0, 4, 1), (1, 3, 0), (4, 3, 1), (3, 5, 0), (1, 5, 0), (5, 1, 0)]
    assert_array_equal(predecessors(edges, 6, 0), [NO_VERTEX, 0, NO_VERTEX, 4, 0, 1])


def test_of_paths_of_length_zero_the_one_with_the_fewest_edges_wins():
    edges = [(0, 1, 0), (1, 2, 0), (2, 5, 0), (0, 4, 0), (4, 5, 0), (0, 3, 0), (3, 5, 0)]
    assert_array_equal(predecessors(edges, 6, 0), [NO_VERTEX, 0, 1, 0, 0, 3])


def test_with_negative_weights_the_fewest_edges_win_then_the_smallest_vertex():
    # The cycle 1 -> 2 -> 1 has length 0. Only 3 leads into it.
    edges = [(0, 3, 4), (3, 1, 1), (1, 2, -2), (2, 1, 2), (0, 4, 9), (4, 2, -6)]
    assert_array_equal(predecessors(edges, 5, 0, "int32", solver=QueueBellmanFord()), [NO_VERTEX, 3, 4, 0, 0])


def test_a_zero_cycle_is_no_circle_of_predecessors():
    edges = [(0, 1, 4), (1, 2, 0), (2, 3, 0), (3, 1, 0), (3, 0, 0)]
    assert_array_equal(predecessors(edges, 4, 0), [NO_VERTEX, 0, 1, 2])
    assert_array_equal(predecessors(edges, 4, 2), [3, 3, NO_VERTEX, 2])


def test_absorbed_weights_are_no_circle_of_predecessors():
    # In float32, 2**24 + 1 rounds to 2**24: every edge of the cycle is tight in both directions.
    edges = [(0, 1, 2.0**24), (1, 2, 1), (2, 1, 1), (2, 3, 1), (3, 2, 1)]
    assert_array_equal(predecessors(edges, 4, 0, "float32"), [NO_VERTEX, 0, 1, 2])


def test_unreached_vertices_have_none():
    assert_array_equal(
        predecessors([(0, 1, 5), (1, 2, 5)], 4, 0, cutoff=7), [NO_VERTEX, 0, NO_VERTEX, NO_VERTEX]
    )
    assert_array_equal(predecessors([(0, 1, 5)], 2, 1, "float64"), [NO_VERTEX, NO_VERTEX])
