import numpy as np
import pytest

from sssp_pipeline.base.csr import csr_from_edges, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.proofs.certificate import WrongDistance, find_wrong_distance

RELAXABLE = "an edge into it can be relaxed"
NOT_TIGHT = "no path of tight edges leads to it"


def graph_of(edges, n_vertices, dtype="uint32"):
    src, dst, weights = np.array(edges).T
    return csr_from_edges(src.astype(int), dst.astype(int), weights.astype(dtype), n_vertices)


def distances(values, dtype="uint32"):
    """The row of `values`, None where unreached."""
    unreached = unreached_distance(np.dtype(dtype))
    return np.array([unreached if v is None else v for v in values], dtype)


DIAMOND = graph_of([(0, 1, 4), (0, 2, 1), (2, 1, 2), (1, 3, 5), (4, 0, 1)], 5)


@pytest.mark.parametrize(
    ("stored", "fault"),
    [
        ([0, 3, 1, 8, None], None),
        ([1, 3, 1, 8, None], WrongDistance(0, 1, 0, "the source is not at distance 0")),
        ([None, 3, 1, 8, None], WrongDistance(0, None, 0, "the source is not at distance 0")),
        ([0, 4, 1, 9, None], WrongDistance(1, 4, 3, RELAXABLE)),
        ([0, 3, 1, None, None], WrongDistance(3, None, 8, RELAXABLE)),
        ([0, 3, 1, 7, None], WrongDistance(3, 7, 8, NOT_TIGHT)),
        # All that hangs on vertex 2 is wrong too; the nearest wrong vertex is named.
        ([0, 2, 0, 7, None], WrongDistance(2, 0, 1, NOT_TIGHT)),
        ([0, 3, 1, 8, 2], WrongDistance(4, 2, None, "no path leads to it")),
    ],
)
def test_the_nearest_wrong_vertex_is_named_with_its_true_distance(stored, fault):
    assert find_wrong_distance(DIAMOND, 0, distances(stored)) == fault


def test_a_zero_cycle_does_not_hold_up_wrong_distances():
    graph = graph_of([(0, 1, 9), (1, 2, 0), (2, 1, 0)], 3)
    assert find_wrong_distance(graph, 0, distances([0, 9, 9])) is None
    assert find_wrong_distance(graph, 0, distances([0, 5, 5])) == WrongDistance(1, 5, 9, NOT_TIGHT)
    apart = graph_of([(0, 0, 1), (1, 2, 0), (2, 1, 0)], 3)
    assert find_wrong_distance(apart, 0, distances([0, 5, 5])) == WrongDistance(
        1, 5, None, "no path leads to it"
    )


def test_absorbed_weights_do_not_hold_up_wrong_distances():
    # In float32, 2**25 + 1 rounds to 2**25: the two vertices confirm each other, but no path leads there.
    graph = graph_of([(0, 0, 1), (1, 2, 1), (2, 1, 1)], 3, "float32")
    wrong = distances([0, 2.0**25, 2.0**25], "float32")
    assert find_wrong_distance(graph, 0, wrong) == WrongDistance(1, 2.0**25, None, "no path leads to it")


def test_beyond_the_cutoff_everything_is_unreached():
    assert find_wrong_distance(DIAMOND, 0, distances([0, 3, 1, None, None]), cutoff=7.5) is None
    assert find_wrong_distance(DIAMOND, 0, distances([0, 3, 1, 8, None]), cutoff=8) is None
    beyond = WrongDistance(3, 8, None, "no path leads to it within the cutoff")
    assert find_wrong_distance(DIAMOND, 0, distances([0, 3, 1, 8, None]), cutoff=7.5) == beyond
    assert find_wrong_distance(DIAMOND, 0, distances([0, None, 1, None, None]), cutoff=3) == WrongDistance(
        1, None, 3, RELAXABLE
    )


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_negative_distance_is_wrong(dtype):
    graph = graph_of([(0, 1, 4), (1, 2, 4)], 3, dtype)
    assert find_wrong_distance(graph, 0, distances([0, -4, 0], dtype)) == WrongDistance(1, -4, 4, NOT_TIGHT)


@pytest.mark.parametrize("dtype", ["uint32", "float32", "int64"])
def test_every_entry_of_a_larger_graph_matters(dtype):
    made = grid(rows=60, cols=60, keep=0.6)
    graph = csr_from_edges(made.src, made.dst, made.weights.astype(dtype), made.n_vertices)
    true = Dijkstra().solve(graph, np.array([1830]), SolveOptions()).distances[0]
    unreached = unreached_distance(true.dtype)
    assert find_wrong_distance(graph, 1830, true) is None
    assert 100 < (true == unreached).sum() < 3000
    for vertex in range(0, 3600, 13):
        for wrong in (true[vertex] - 1, true[vertex] + 1) if true[vertex] != unreached else (5,):
            changed = true.copy()
            changed[vertex] = wrong % 2**31
            fault = find_wrong_distance(graph, 1830, changed)
            assert fault.vertex == vertex
            assert fault.true == (None if true[vertex] == unreached else true[vertex])


@pytest.mark.parametrize(
    ("source", "row", "message"),
    [
        (5, distances([0] * 5), "source 5 is not in the graph"),
        (0, distances([0] * 4), "distances are uint32 of shape (4,), wanted uint32 of shape (5,)"),
        (0, distances([0] * 5, "int64"), "distances are int64 of shape (5,), wanted uint32 of shape (5,)"),
    ],
)
def test_what_cannot_be_checked_is_an_error(source, row, message):
    with pytest.raises(InputError) as caught:
        find_wrong_distance(DIAMOND, source, row)
    assert caught.value.message == message
