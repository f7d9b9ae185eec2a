"""`bits` on larger graphs, and what only this solver does. `tests/conformance/` has small graphs of equal weights."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import WEIGHT_DTYPES, CsrGraph, csr_from_edges, largest_distance
from sssp_pipeline.base.errors import DeadlineError, InputError, PathTooLongError
from sssp_pipeline.base.generators import grid, path, rmat, road_like
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import EveryVertex, Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu import bits
from sssp_pipeline.kernels.cpu.bit_search import MOST_LANES, BothWays, words_for
from sssp_pipeline.kernels.cpu.bits import Bits
from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping

ANY = SolveOptions()
RADII = (0.0, 1.5, 9.0)
OVER = OverSources(nearest=True, sums=True, radii=RADII)


def graph_of(made, weight=1, dtype="uint32"):
    return csr_from_edges(made.src, made.dst, np.full(len(made.src), weight, dtype), made.n_vertices)


def line(n_vertices, weight=1, dtype="uint32"):
    """A path that leads one way only."""
    vertices = np.arange(n_vertices)
    return csr_from_edges(vertices[:-1], vertices[1:], np.full(n_vertices - 1, weight, dtype), n_vertices)


def assert_as_delta_stepping(graph, sources, options=ANY):
    found, expected = (solver.solve(graph, sources, options) for solver in (Bits(), DeltaStepping()))
    assert found.distances.dtype == expected.distances.dtype
    assert_array_equal(found.distances, expected.distances)
    if expected.over_sources is not None:
        assert_array_equal(found.over_sources, expected.over_sources)
    for one, other in zip(found.metrics, expected.metrics, strict=True):
        for told in ("source", "reached", "max_distance", "mean_distance"):
            assert getattr(one, told) == getattr(other, told)
        assert one.teps * one.solve_s == pytest.approx(other.teps * other.solve_s)
    return found


@pytest.mark.parametrize(
    ("weight", "dtype"), [(1, "uint32"), (7, "int64"), (0.1, "float32"), (0.1, "float64")]
)
def test_larger_graphs_with_sources_for_several_searches(weight, dtype):
    rng = np.random.default_rng(3)
    for made in (road_like(3_000), grid(40, 50, keep=0.6), rmat(scale=9, edge_factor=4), path(700)):
        graph = graph_of(made, weight, dtype)
        assert_as_delta_stepping(graph, rng.integers(0, graph.n_vertices, MOST_LANES + 20))
        assert_as_delta_stepping(
            graph, rng.integers(0, graph.n_vertices, 90), SolveOptions(cutoff=8.5 * weight)
        )


@pytest.mark.parametrize("n_sources", [1, 2, 63, 64, 65, 128, 129, 256, 257])
def test_any_number_of_sources_fills_its_lanes(n_sources):
    graph = graph_of(grid(19, 21, keep=0.8))
    sources = np.random.default_rng(n_sources).integers(0, graph.n_vertices, n_sources)
    targets = np.array([98, 3, 3, 50, 0, 7, 9, 11, 13])
    for kept in (
        EveryVertex(),
        Nothing(),
        Targets(targets),
        Reductions(RADII, None, False, (0.0, 1.0, 4.0, 30.0), (0.0, 0.1, 0.5, 1.0), OVER),
        Reductions(RADII, harmonic=True, over_sources=OVER),
        Reductions(RADII, np.arange(graph.n_vertices)[None]),
        NearestOfRow(5),
        NearestOfRow(2, targets),
    ):
        assert_as_delta_stepping(graph, sources, SolveOptions(kept=kept))


def test_rows_have_as_many_words_as_the_sources_need():
    assert [words_for(n) for n in (1, 64, 65, 128, 129, 256, 257, MOST_LANES)] == [1, 1, 2, 2, 4, 4, 8, 8]


def test_more_rows_of_one_depth_than_a_byte_counts():
    leaves = np.arange(1, 1200)
    graph = csr_from_edges(np.zeros_like(leaves), leaves, np.ones(1199, np.uint32), 1200)
    found = assert_as_delta_stepping(graph, np.zeros(3, int), SolveOptions(kept=Nothing()))
    assert [m.reached for m in found.metrics] == [1200] * 3


def test_a_symmetric_graph_has_its_edges_once():
    both, one = graph_of(grid(9, 9)), line(9)
    assert BothWays.of(both).starts is both.col_indices
    edges = BothWays.of(
        CsrGraph(np.array([0, 2, 3, 3]), np.array([1, 2, 2], np.uint32), np.ones(3, np.uint32))
    )
    assert_array_equal(edges.into_offsets, [0, 0, 1, 3])
    assert_array_equal(edges.starts, [0, 0, 1])
    assert BothWays.of(one).starts is not one.col_indices


@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=str)
def test_a_path_that_is_too_long_is_an_error_unless_it_is_beyond_the_cutoff(dtype):
    half = largest_distance(dtype) * 0.5 if dtype.kind == "f" else largest_distance(dtype) // 2
    graph = line(5, half, dtype)
    for kept in (EveryVertex(), Nothing(), Targets(np.array([0])), Reductions(), NearestOfRow(1)):
        for solver in (Bits(), DeltaStepping()):
            with pytest.raises(PathTooLongError) as caught:
                solver.solve(graph, np.array([4, 3, 1, 0]), SolveOptions(kept=kept, metrics=False))
            assert caught.value.message == f"the shortest path from `1` to `4` is longer than {dtype} holds"
        assert_as_delta_stepping(graph, np.array([4, 3, 2]), SolveOptions(kept=kept))
        options = SolveOptions(kept=kept, cutoff=largest_distance(dtype))
        assert_as_delta_stepping(graph, np.array([4, 3, 1, 0]), options)


def test_targets_end_a_search_where_nobody_wants_metrics():
    graph = line(500)
    options = SolveOptions(kept=Targets(np.array([3, 1])), metrics=False)
    found = Bits().solve(graph, np.array([0, 1]), options)
    assert_array_equal(found.distances, [[3, 1], [2, 0]])
    assert [m.supersteps for m in found.metrics] == [3, 3]  # and not 499
    unreached = Bits().solve(graph, np.array([7]), options)
    assert unreached.metrics[0].reached == 493


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([1, 2], "it takes equal weights above 0, and they go from 1 to 2"),
        ([0, 0], "it takes equal weights above 0, and they go from 0 to 0"),
        ([-3, -3], "it takes equal weights above 0, and they go from -3 to -3"),
    ],
)
def test_other_weights_are_refused(weights, reason):
    graph = csr_from_edges(np.array([0, 1]), np.array([1, 2]), np.array(weights, np.int32), 3)
    with pytest.raises(InputError) as caught:
        Bits().solve(graph, np.array([0]), ANY)
    assert caught.value.message == f"solver `bits` cannot solve this: {reason}"


def test_a_search_that_takes_too_long_is_an_error():
    with pytest.raises(DeadlineError, match="1e-09"):
        Bits().solve(line(100), np.array([7]), SolveOptions(deadline_s=1e-9))


def test_a_call_leaves_its_memory_to_the_next_one_and_to_nobody_after_the_graph():
    graph = graph_of(grid(9, 9))
    for sources in (np.arange(81), np.arange(40, 70), np.arange(81)[::-1]):
        assert_as_delta_stepping(graph, sources)
    assert sorted(search.n_words for search in bits._prepared(graph).idle) == [1, 2]
    kept = weakref.ref(bits._prepared(graph))
    del graph
    gc.collect()
    assert kept() is None


def test_rows_that_are_reduced_are_few_if_they_are_large(monkeypatch):
    graph = graph_of(grid(9, 9))
    monkeypatch.setattr(bits, "_SCRATCH_BYTES", 7 * 81 * 4)
    assert_as_delta_stepping(graph, np.arange(81)[::-1], SolveOptions(kept=Reductions(harmonic=True)))
