"""Calls that search from the targets: the same distances, when `auto` does it, and what is refused."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as ss
from numpy.testing import assert_array_equal

import sssp_pipeline as sp
from sssp_pipeline.api.calls import calls
from sssp_pipeline.api.distances import backward
from sssp_pipeline.base.errors import PathTooLongError
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.pipeline.planning import direction
from sssp_pipeline.pipeline.run import hierarchy_steps

MANY, TARGETS = list(range(0, 3600, 2)), [17, 3000, 17]


@pytest.fixture(scope="module")
def matrix() -> ss.csr_array:
    """A grid of 60 x 60 vertices, with other weights in each direction."""
    graph = grid(60, 60).graph()
    weights = 1 + (graph.weights + np.arange(graph.n_edges)) % 50
    return ss.csr_array((weights, graph.col_indices, graph.row_offsets), (3600, 3600))


@pytest.fixture
def as_measured(monkeypatch):
    """Have forecasts say that a search takes long, so that the time to reverse the graph does not count."""
    for module in (calls, direction):
        monkeypatch.setattr(module, "expected_s", lambda solver, work, machine: float(work.n_sources))


def both_ways(graph, sources, targets, **options):
    forward, backward = (
        sp.solve(graph, sources, targets=targets, direction=way, **options) for way in ("forward", "backward")
    )
    assert (forward.direction, backward.direction) == ("forward", "backward")
    assert_array_equal(forward.numpy(), backward.numpy())
    assert forward.to_arrow() == backward.to_arrow()
    return backward


# ---- auto ----


def test_auto_goes_backward_where_targets_are_few(matrix, as_measured):
    graph = sp.prepare(matrix)
    expected = sp.solve(graph, MANY, targets=TARGETS, direction="forward")
    found = sp.solve(graph, MANY, targets=TARGETS)
    assert (expected.direction, found.direction) == ("forward", "backward")
    assert_array_equal(found.numpy(), expected.numpy())
    nearest = [sp.nearest(graph, MANY, 2, targets=TARGETS, direction=way) for way in ("auto", "forward")]
    assert nearest[0] == nearest[1]


@pytest.mark.parametrize("k", [3, 50])
def test_threads_share_the_sources_of_a_merge(matrix, monkeypatch, k):
    monkeypatch.setattr(backward, "_MERGED_SOURCES", 1)
    monkeypatch.setattr(backward, "usable_cores", lambda: 7)
    graph = sp.prepare(matrix)
    ways = [sp.nearest(graph, MANY, k, targets=MANY[:40], direction=way) for way in ("backward", "forward")]
    assert ways[0] == ways[1]


@pytest.mark.parametrize(
    "options",
    [
        {"metrics": True},
        {"predecessors": True},
        {"direction": "forward"},
        {"dtype": "float64"},
        {"sources": TARGETS},
        {"sources": [*range(3)], "targets": [0, 1]},
        {"targets": []},
    ],
    ids=str,
)
def test_auto_stays_forward(matrix, as_measured, options):
    given = {"sources": MANY, "targets": TARGETS} | options
    assert sp.solve(matrix, **given).direction == "forward"


def test_auto_compares_the_forecasts(matrix):
    graph = sp.prepare(matrix)
    # Few sources take less than the comparison of both directions.
    assert sp.solve(graph, [0, 1], targets=[3]).direction == "forward"
    assert sp.solve(graph, "all", targets=[3]).direction == "backward"


def test_negative_weights_go_backward_only_if_they_are_told_to(matrix, as_measured):
    heights = np.arange(3600) % 7
    rows = np.repeat(np.arange(3600), np.diff(matrix.indptr))
    lowered = matrix.copy()
    lowered.data = matrix.data.astype(np.int64) + heights[rows] - heights[matrix.indices]
    assert lowered.data.min() < 0
    assert sp.solve(lowered, MANY, targets=TARGETS).direction == "forward"
    both_ways(lowered, MANY, TARGETS)


def test_a_path_that_is_too_long_is_an_error_beside_the_targets_too(as_measured, error_of):
    heavy = 2**31
    weights, ends = [1, heavy, heavy], [1, 2, 3]
    graph = ss.csr_array((weights, ([0, 1, 2], ends)), shape=(50, 50))
    options = {"targets": [1], "dtype": "uint32"}
    error = error_of(sp.solve, graph, [0, *range(4, 50)], **options)
    assert isinstance(error, PathTooLongError)
    assert sp.solve(graph, [0, 1, 1, 1], direction="backward", **options).numpy()[0, 0] == 1
    # With a cutoff, what is beyond it cannot be too long.
    assert sp.solve(graph, [0, *range(4, 50)], cutoff=9, **options).direction == "backward"


def heavy_lattice(ends: list[tuple[int, int, int]]) -> ss.csr_array:
    """Return a lattice of 6 x 6 vertices with weights of 2**26, and edges (from, to, weight) between 14 others."""
    lattice = grid(6, 6).graph()
    heavy = ss.csr_array(
        (np.full(lattice.n_edges, 2**26), lattice.col_indices, lattice.row_offsets), (36, 36)
    )
    tails, heads, weights = np.array(ends).T
    return ss.csr_array(ss.block_diag([heavy, ss.csr_array((weights, (tails, heads)), shape=(14, 14))]))


def test_searches_tell_that_no_path_is_too_long(as_measured):
    for others, way in (
        ([(0, 1, 7)], "backward"),
        ([(0, 1, 2**31), (1, 2, 2**31)], "forward"),
    ):
        found = sp.solve(sp.prepare(heavy_lattice(others), dtype="uint32"), np.arange(36), targets=[35])
        assert found.direction == way, others
        assert found.numpy()[0, 0] == 10 * 2**26


@pytest.mark.parametrize(("way_in", "way_out"), [(2**30, 7), (7, 2**30), (2**31 - 2, 2**31 - 2)])
def test_ways_into_the_largest_part_and_out_of_it_count(as_measured, error_of, way_in, way_out):
    # Vertex 0 leads to the lattice of 1 to 36, and that to 37. The lattice is 10 * 2**26 from corner to corner.
    lattice = heavy_lattice([(0, 1, 1)]).tocoo()
    tails, heads = np.append(lattice.row + 1, [0, 36]), np.append(lattice.col + 1, [1, 37])
    graph = ss.csr_array((np.append(lattice.data, [way_in, way_out]), (tails, heads)), shape=(60, 60))
    options = {"targets": [36], "dtype": "uint32"}
    if way_in + way_out + 10 * 2**26 < 2**32:
        assert sp.solve(graph, np.arange(37), **options).direction == "backward"
    else:
        assert isinstance(error_of(sp.solve, graph, np.arange(37), **options), PathTooLongError)


# ---- what is reversed, and what is shared ----


def test_a_graph_is_reversed_once_and_let_go_with_it(matrix, monkeypatch):
    made = []
    original = direction.reversed_graph
    monkeypatch.setattr(direction, "reversed_graph", lambda graph: made.append(1) or original(graph))
    graph = sp.prepare(matrix)
    for _ in range(2):
        both_ways(graph, MANY[:5], TARGETS)
    assert len(made) == 1
    backwards = weakref.ref(direction.kept_reversed(graph._named.graph))
    del graph
    gc.collect()
    assert backwards() is None


def test_a_symmetric_graph_is_its_own_reverse(tmp_path, monkeypatch):
    graph = grid(9, 9).graph()
    prepared = sp.prepare(ss.csr_array((graph.weights, graph.col_indices, graph.row_offsets), (81, 81)))
    both_ways(prepared, range(81), [4, 80])
    kept = prepared._named.graph
    assert direction.kept_reversed(kept) is kept
    store = sp.ingest("generated:grid?rows=9&cols=9&seed=3", tmp_path / "graph")
    assert store.manifest.symmetric
    monkeypatch.setattr(direction, "reversed_graph", lambda _: pytest.fail("it is reversed"))
    both_ways(store, range(81), [4, 80])


def test_both_directions_share_one_hierarchy(matrix, monkeypatch):
    graph = sp.prepare(matrix, hierarchy=True)
    both_ways(graph, MANY, TARGETS, solver="phast")  # compiles it
    for module, name in (
        (hierarchy_steps, "ordered"),
        (shared, "customize"),
        (shared, "completion_of"),
    ):
        monkeypatch.setattr(module, name, lambda *_: pytest.fail("it is made again"))
    again = sp.prepare(matrix)
    shared.share_hierarchy(again._named.graph, shared.shared_hierarchy(graph._named.graph))
    for cutoff in (None, 500):
        both_ways(again, MANY, TARGETS, solver="phast", cutoff=cutoff)


def test_a_call_backward_keeps_its_hierarchy_in_the_store(tmp_path):
    Path(tmp_path, "roads.csv").write_text(
        "source,target,km\n" + "".join(f"{i},{(i * 7 + 1) % 90},{i % 9 + 1}.5\n" for i in range(90))
    )
    store = sp.ingest(tmp_path / "roads.csv", tmp_path / "graph")
    assert store.manifest.weights.scale == 10
    assert not store.manifest.symmetric
    found = both_ways(store, range(90), [3, 3, 89], solver="phast")
    assert found.numpy().dtype == np.float64
    both_ways(store, range(90), [3, 3, 89], cutoff=20.5)
    assert shared.known_hierarchy(sp.open_store(tmp_path / "graph").graph()).is_customized


def test_ties_are_those_of_searches_from_the_sources():
    lattice = grid(12, 12).graph()
    ones = np.ones(lattice.n_edges, np.uint32)
    graph = sp.prepare(ss.csr_array((ones, lattice.col_indices, lattice.row_offsets), (144, 144)))
    for k in (1, 3, 30):
        targets = [*range(0, 144, 7), 7, 0]
        ways = [
            sp.nearest(graph, "all", k, targets=targets, direction=way, cutoff=cutoff)
            for way in ("forward", "backward")
            for cutoff in (None, 2)
        ]
        assert ways[0] == ways[2]
        assert ways[1] == ways[3]


# ---- what is refused ----


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({"predecessors": True}, "predecessors are found from the sources",
         "leave out `predecessors` or `direction=\"backward\"`"),
        ({"metrics": True}, "metrics count what a source reaches",
         "leave out `metrics` or `direction=\"backward\"`"),
        ({"on_device": True}, "the host turns the distances",
         "leave out `on_device` or `direction=\"backward\"`"),
        ({"targets": None}, "no targets are given", "give `targets`, or leave out `direction=\"backward\"`"),
        ({"dtype": "float32"}, "sums of float32 are rounded differently backward",
         "leave out `direction=\"backward\"`"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_go_backward_is_refused(matrix, monkeypatch, error_of, options, message, hint):
    monkeypatch.setattr(direction, "reversed_graph", lambda _: pytest.fail("it is reversed"))
    given = {"sources": MANY, "targets": TARGETS, "direction": "backward"} | options
    error = error_of(sp.solve, matrix, **given)
    assert (error.message, error.hint) == (f'`direction` is "backward", and {message}', hint)


def test_an_unknown_direction_is_refused(matrix, error_of):
    for call in (
        lambda: sp.solve(matrix, [0], targets=[1], direction="backwards"),
        lambda: sp.nearest(matrix, [0], 1, direction="backwards"),
    ):
        error = error_of(call)
        assert error.message == "`direction` is 'backwards'"
        assert error.hint == "did you mean `backward`? it is one of auto, forward, backward"


def test_nearest_of_every_vertex_has_no_way_back(matrix, error_of):
    error = error_of(sp.nearest, matrix, [0], 1, direction="backward")
    assert error.message == '`direction` is "backward", and no targets are given'


def test_without_the_memory_to_reverse_the_graph(matrix, monkeypatch, error_of, as_measured):
    monkeypatch.setattr(direction, "free_memory_bytes", lambda: 1000)
    assert sp.solve(matrix, MANY, targets=TARGETS).direction == "forward"
    error = error_of(sp.solve, matrix, MANY, targets=TARGETS, direction="backward")
    assert error.message == "reversing the graph takes 0.2 MB, and 0.0 MB of memory are free"
    assert error.hint == "search from the sources: the direction `forward` needs no reversed graph"


def test_distances_to_targets_have_metrics_if_they_are_asked_for(matrix, error_of):
    found = sp.solve(matrix, [0], targets=[1])
    error = error_of(lambda: found.metrics)
    assert (error.message, error.hint) == (
        "these distances have no metrics",
        "call `solve` with `metrics=True`",
    )
    assert sp.solve(matrix, [0], targets=[1], metrics=True).metrics["reached"].to_pylist() == [3600]
    assert sp.solve(matrix, [0]).metrics["reached"].to_pylist() == [3600]
