"""`phast` on larger graphs, and what only this solver does. `tests/kernels/hierarchy/fuzz.py` has small graphs."""

from __future__ import annotations

import gc
import time
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges
from sssp_pipeline.base.errors import DeadlineError, InputError, PathTooLongError
from sssp_pipeline.base.generators import grid, path, rmat, road_like
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import EveryVertex, Nothing, Targets
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu import phast
from sssp_pipeline.kernels.cpu.bits import Bits
from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping
from sssp_pipeline.kernels.cpu.phast import Phast
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.kernels.hierarchy.arc_sums import ArcSums
from sssp_pipeline.kernels.hierarchy.sweeps import sweep

ANY = SolveOptions()
INTEGERS = ["uint32", "int32", "uint64", "int64"]


def graph_of(made, dtype="uint32"):
    return csr_from_edges(made.src, made.dst, made.weights.astype(dtype), made.n_vertices)


def assert_as_delta_stepping(graph, sources, options=ANY):
    found, expected = (solver.solve(graph, sources, options) for solver in (Phast(), DeltaStepping()))
    assert_array_equal(found.distances, expected.distances)
    for one, other in zip(found.metrics, expected.metrics, strict=True):
        for told in ("source", "reached", "max_distance", "mean_distance"):
            assert getattr(one, told) == getattr(other, told)
    return found


@pytest.mark.parametrize("dtype", INTEGERS)
def test_larger_graphs_with_sources_for_several_sweeps(dtype):
    rng = np.random.default_rng(3)
    for made in (road_like(5_000), grid(60, 50, keep=0.6), rmat(scale=9, edge_factor=4)):
        graph = graph_of(made, dtype)
        assert_as_delta_stepping(graph, rng.integers(0, graph.n_vertices, 150))
        assert_as_delta_stepping(graph, rng.integers(0, graph.n_vertices, 21), SolveOptions(cutoff=1500))


@pytest.mark.parametrize("n_sources", [1, 7, 8, 9, 15, 16, 17, 63, 64, 65])
def test_any_number_of_sources_fills_its_lanes(n_sources):
    graph = graph_of(grid(9, 11, keep=0.8))
    sources = np.arange(n_sources) % graph.n_vertices
    assert_as_delta_stepping(graph, sources)
    targets = np.array([98, 3, 3, 50, 0, 7, 9, 11, 13])
    assert_as_delta_stepping(graph, sources, SolveOptions(kept=Targets(targets)))
    assert_as_delta_stepping(graph, sources, SolveOptions(kept=Reductions((300,), None, harmonic=True)))
    assert_as_delta_stepping(graph, sources, SolveOptions(kept=Nothing()))


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_rows_of_any_length_begin_anywhere_in_a_cache_line(dtype):
    graph = graph_of(grid(10, 13, keep=0.7), dtype)
    rng = np.random.default_rng(5)
    for n_targets in (1, 31, 32, 33, 40, 47, 63, 64, 65, 97, 130):
        sources, targets = rng.integers(0, 130, 19), rng.integers(0, 130, n_targets)
        assert_as_delta_stepping(graph, sources, SolveOptions(kept=Targets(targets)))


# ---- what is beyond the cutoff, or cannot be reached, is skipped ----


@pytest.mark.parametrize("kept", [EveryVertex(), Nothing(), Targets(np.arange(0, 3600, 7))])
def test_subtrees_beyond_the_cutoff_are_skipped(kept):
    graph = graph_of(grid(60, 60))
    options = SolveOptions(cutoff=10 * graph.traits.max_weight, kept=kept)
    for sources in ([0], [0, 1, 60, 61], [0, 3599], [1830]):
        found = assert_as_delta_stepping(graph, np.array(sources), options)
        assert found.metrics[0].vertices_processed < graph.n_vertices
    assert_as_delta_stepping(graph, np.arange(0, 3600, 30), options)  # the memory is as before


def test_other_components_are_skipped():
    one = grid(30, 30)
    src, dst = (np.concatenate([ends, ends + 900, ends + 1800]) for ends in (one.src, one.dst))
    graph = csr_from_edges(src, dst, np.tile(one.weights, 3), 2700)
    for sources in ([5], [905, 950], [5, 2600]):
        found = assert_as_delta_stepping(graph, np.array(sources))
        assert found.metrics[0].vertices_processed < 2200
    with_largest = csr_from_edges(src, dst, np.full(len(src), 2**32 - 2, np.uint32), 2700)
    with pytest.raises(PathTooLongError):
        Phast().solve(with_largest, np.array([5]), ANY)


# ---- only what targets need is swept, if no metrics are wanted ----


def assert_targets_as_delta_stepping(graph, sources, targets, cutoff=None):
    found = []
    for kept in (Targets(targets), NearestOfRow(3, targets)):
        options = SolveOptions(cutoff=cutoff, kept=kept, metrics=False)
        solutions = [solver.solve(graph, sources, options) for solver in (Phast(), DeltaStepping())]
        assert_array_equal(*(solution.distances for solution in solutions))
        assert_as_delta_stepping(graph, sources, SolveOptions(cutoff=cutoff, kept=kept))
        found.append(solutions[0])
    return found


@pytest.mark.medium
def test_few_targets_need_few_vertices_and_share_them_between_calls():
    graph = graph_of(road_like(5_000))
    rng = np.random.default_rng(4)
    for targets in (rng.integers(0, 5000, 20), np.array([17]), rng.integers(0, 5000, 4000)):
        for cutoff in (None, 40 * graph.traits.max_weight):
            for found in assert_targets_as_delta_stepping(graph, rng.integers(0, 5000, 70), targets, cutoff):
                if len(targets) <= 20:
                    assert found.metrics[0].vertices_processed < 2000
    ready = phast.prepared(graph)
    assert len(ready.targeted) == 1
    assert len(ready.idle) <= 2  # of all vertices, and of the last targets
    region = ready.region_of(np.array([3, 4], np.uint32))
    assert ready.region_of(np.array([3, 4], np.uint32)) is region
    assert ready.region_of(np.array([4, 3], np.uint32)) is not region


def test_a_distance_that_is_too_long_is_seen_beside_the_targets():
    graph = graph_of(path(500))
    weights = np.full(graph.n_edges, 2**24, np.uint32)
    long = CsrGraph(graph.row_offsets, graph.col_indices, weights)
    options = SolveOptions(kept=Targets(np.array([1, 2])), metrics=False)
    with pytest.raises(PathTooLongError):
        Phast().solve(long, np.array([0]), options)
    assert Phast().solve(graph, np.array([0]), options).metrics[0].vertices_processed < 200


# ---- sums at the end of the type ----


@pytest.mark.parametrize("dtype", INTEGERS)
def test_sums_of_shortcuts_do_not_wrap(dtype):
    # Every shortcut over two of these edges is longer than the type holds.
    largest = int(np.iinfo(dtype).max) - 1
    ring = np.arange(12)
    weights = np.array([largest if v % 2 else largest // 2 + 1 for v in ring], dtype)
    graph = csr_from_edges(ring, (ring + 1) % 12, weights, 12)
    for cutoff in (largest - 1, largest):
        assert_as_delta_stepping(graph, ring, SolveOptions(cutoff=cutoff))
    with pytest.raises(PathTooLongError) as caught:
        Phast().solve(graph, ring[:1], ANY)
    with pytest.raises(PathTooLongError) as expected:
        DeltaStepping().solve(graph, ring[:1], ANY)
    assert caught.value.message == expected.value.message


# ---- refusals ----


def test_floats_are_refused_with_the_solvers_that_take_them():
    graph = graph_of(grid(3, 3), "float32")
    with pytest.raises(InputError) as caught:
        Phast().solve(graph, np.array([0]), ANY)
    assert caught.value.message == (
        "solver `phast` cannot solve this: it adds weights in another order than along the path, which rounds float32 "
        "differently; `delta-stepping` takes floats, and `graph.weights.scale` makes integers of decimal weights"
    )


# ---- one hierarchy for all calls ----


def solved_by_threads(graph):
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda source: Phast().solve(graph, np.array([source]), ANY), range(12)))


@pytest.mark.medium
def test_the_hierarchy_is_made_once_for_all_threads_and_goes_with_the_graph(monkeypatch):
    Phast().solve(graph_of(grid(2, 2)), np.array([0]), ANY)  # compiles it
    made = []
    build = shared.completion_of
    monkeypatch.setattr(shared, "completion_of", lambda graph: made.append(graph.n_vertices) or build(graph))
    graph = graph_of(grid(30, 30))
    found = solved_by_threads(graph)
    assert made == [900]
    assert len(phast.prepared(graph).idle) <= 4
    expected = DeltaStepping().solve(graph, np.arange(12), ANY)
    assert_array_equal(np.concatenate([one.distances for one in found]), expected.distances)
    ready = weakref.ref(phast.prepared(graph))
    del graph
    gc.collect()
    assert ready() is None


def test_scratch_memory_is_used_again_after_larger_and_smaller_calls():
    graph = graph_of(grid(20, 20, keep=0.6))
    for n_sources in (3, 64, 17, 40, 1):
        assert_as_delta_stepping(graph, np.arange(n_sources))
    assert len(phast.prepared(graph).idle) == 1


def test_sums_past_the_deadline_are_an_error(monkeypatch):
    graph, sources = grid(5, 5).graph(), np.arange(3, dtype=np.uint32)
    kept = Reductions(paths=PathSumsAsked(on_hierarchy=True))
    Phast().solve(graph, sources, SolveOptions(kept=kept))
    add = ArcSums.add
    monkeypatch.setattr(ArcSums, "add", lambda *args: time.sleep(0.3) or add(*args))
    told = "^`phast` took longer for sums over 3 sources than `solve.deadline_s` allows, 0.2 s$"
    with pytest.raises(DeadlineError, match=told):
        Phast().solve(graph, sources, SolveOptions(kept=kept, deadline_s=0.2))


def test_large_graphs_have_fewer_lanes():
    uint32, uint64 = np.dtype("uint32"), np.dtype("uint64")
    assert sweep.most_lanes(0, uint32) == sweep.most_lanes(4_000_000, uint32) == 64
    assert [sweep.n_lanes_for(n) for n in (1, 16, 17, 32, 33, 64)] == [16, 16, 32, 32, 64, 64]
    assert sweep.most_lanes(8_000_000, uint32) == sweep.most_lanes(4_000_000, uint64) == 32
    assert sweep.most_lanes(2**32 - 2, uint64) == 16


# ---- metrics ----


def test_work_is_counted_in_vertices_and_arcs_of_the_hierarchy():
    graph = csr_from_edges(np.array([0, 1]), np.array([1, 2]), np.array([3, 4], np.uint32), 3)
    hierarchy = phast.prepared(graph).hierarchy
    for metrics in Phast().solve(graph, np.arange(3), ANY).metrics:
        assert 3 + 1 <= metrics.vertices_processed <= 3 + 3
        assert metrics.edges_relaxed >= len(hierarchy.down.heads)
    sums = [metrics.edges_relaxed for metrics in Phast().solve(graph, np.arange(3), ANY).metrics]
    assert sum(sums) <= 3 * (len(hierarchy.down.heads) + len(hierarchy.up.heads))


def test_the_forecast_counts_preparation_and_memory_of_the_host():
    traits = graph_of(grid(50, 50)).traits
    full, few = (Phast().forecast(traits, n) for n in (1000, 1))
    assert (full.at_once, full.call_bytes) == (64, (65 * 4 + 2) * 2500)
    assert few.source_s == pytest.approx(16 * full.source_s)
    assert full.start_s > 100 * full.source_s
    hierarchy = phast.prepared(graph_of(grid(50, 50))).hierarchy
    whole = phast.Prepared.of(graph_of(grid(50, 50)), hierarchy).whole
    arrays = [*vars(hierarchy.completion).values(), *vars(whole).values(), *hierarchy.up]
    assert sum(array.nbytes for array in arrays if isinstance(array, np.ndarray)) < full.host_bytes


@pytest.mark.parametrize("solver", [Phast(), DeltaStepping(), Bits()], ids=lambda solver: solver.name)
def test_rows_are_written_to_the_array_of_the_caller(solver):
    made = grid(40, 30, keep=0.8)
    weights = np.ones_like(made.weights) if solver.name == "bits" else made.weights
    graph = csr_from_edges(made.src, made.dst, weights, made.n_vertices)
    sources = np.arange(70)
    for kept in (EveryVertex(), Targets(np.array([7, 3, 1100])), Reductions((300,))):
        expected = solver.solve(graph, sources, SolveOptions(kept=kept)).distances
        rows = np.zeros_like(expected)
        found = solver.solve(graph, sources, SolveOptions(kept=kept, into=rows))
        assert np.shares_memory(found.distances, rows)
        assert_array_equal(rows, expected)
