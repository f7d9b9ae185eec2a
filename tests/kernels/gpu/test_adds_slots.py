"""adds-slots beyond what every solver must do: piles that are too small, shapes, device batches, what it picks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.generators import grid, path, rmat, road_like
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping
from sssp_pipeline.kernels.gpu.adds_slots import adds_slots
from sssp_pipeline.kernels.gpu.adds_slots.adds_slots import SHAPES, AddsSlots, Shape, pick_delta, pick_shape
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph
from sssp_pipeline.kernels.gpu.common.solvers import batch_solver

ANY = SolveOptions()


def assert_exact(solver, graph, sources, options=ANY):
    sources = np.array(sources)
    solution = solver.solve(graph, sources, options)
    assert_array_equal(solution.distances, DeltaStepping().solve(graph, sources, options).distances)
    assert [m.source for m in solution.metrics] == sources.tolist()
    return solution


# ---- what needs no GPU ----


@pytest.mark.parametrize(
    "graph", [road_like(1000).graph(), rmat(scale=8).graph(), grid(300, 300).graph(), grid(1, 1).graph()]
)
def test_the_shape_picked_is_one_that_the_tests_compile(graph):
    assert pick_shape(graph) in SHAPES


def test_roads_are_packed_and_meshes_are_not():
    assert pick_shape(road_like(1000).graph()).packed
    assert not pick_shape(rmat(scale=8).graph()).packed


def test_a_star_is_not_split_at_every_distance():
    leaves = 10_000
    ends = np.arange(leaves, 0, -1)
    star = csr_from_edges(np.zeros(leaves, np.int64), ends, ends.astype(np.uint32), leaves + 1)
    assert leaves / pick_delta(star) < 10


def test_rows_between_those_looked_at_count_as_short():
    odd = np.arange(1, 4 * adds_slots.SAMPLE, 2)
    graph = csr_from_edges(odd[:-1], odd[1:], np.full(len(odd) - 1, 1000, np.uint32), 4 * adds_slots.SAMPLE)
    assert pick_delta(graph) > 1000


def test_longer_rows_make_delta_smaller_and_no_edges_make_none():
    roads, mesh = grid(30, 30, keep=0.6).graph(), rmat(scale=8).graph()
    assert pick_delta(roads) / roads.traits.mean_weight > 4 * pick_delta(mesh) / mesh.traits.mean_weight
    assert pick_delta(csr_from_edges(np.array([], int), np.array([], int), np.array([], np.float32), 2)) > 0


def test_delta_follows_mean_weight_and_degree():
    graph = grid(20, 20).graph()
    tenfold = csr_from_edges(
        np.repeat(np.arange(400), np.diff(graph.row_offsets)), graph.col_indices, 10 * graph.weights, 400
    )
    assert pick_delta(tenfold) == pytest.approx(10 * pick_delta(graph))


# ---- on the GPU ----


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint32", "float32", "uint64", "float64"])
@pytest.mark.parametrize(("far", "spilled"), [(0, 0), (1, 0), (0, 1), (100, 30), (10_000, 0)])
def test_piles_that_are_too_small_cost_work_and_no_distance(far, spilled, dtype):
    for edges in (grid(70, 70, keep=0.8), rmat(scale=12)):
        graph = edges.graph(dtype)
        tight = AddsSlots(shape=Shape(32, 1, packed=False), far_entries=far, spilled_entries=spilled)
        assert_exact(tight, graph, range(0, graph.n_vertices, 37))


@pytest.mark.gpu
@pytest.mark.parametrize("threads", [32, 64, 256, 1024])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("delta", [None, 1, 1e9])
def test_every_shape_and_delta_is_exact(threads, packed, delta):
    solver = AddsSlots(shape=Shape(threads, 1, packed))
    for edges in (grid(50, 50, keep=0.7), rmat(scale=11), road_like(2000)):
        graph = edges.graph()
        assert_exact(solver, graph, range(0, graph.n_vertices, 13), SolveOptions(delta=delta))


@pytest.mark.gpu
@pytest.mark.parametrize("degree", [3, 4, 5, 1023, 1024, 1025, 300_000])
@pytest.mark.parametrize("shape", SHAPES)
def test_rows_of_every_length(degree, shape):
    ends = np.arange(degree, 0, -1)
    graph = csr_from_edges(np.zeros(degree, np.int64), ends, ends.astype(np.uint32), degree + 1)
    found = AddsSlots(shape=shape).solve(graph, np.array([0, 0]), ANY).distances
    assert_array_equal(found, np.tile(np.arange(degree + 1), (2, 1)))


@pytest.mark.gpu
def test_more_hubs_in_one_superstep_than_the_block_remembers():
    n_hubs, rim = 200, 3000
    hubs = np.repeat(np.arange(1, n_hubs + 1), rim)
    leaves = n_hubs + 1 + np.tile(np.arange(rim), n_hubs)
    src = np.concatenate([np.zeros(n_hubs, np.int64), hubs])
    dst = np.concatenate([np.arange(1, n_hubs + 1), leaves])
    weights = (1 + np.arange(len(src)) * 7919 % 50).astype(np.uint32)
    assert_exact(AddsSlots(), csr_from_edges(src, dst, weights, n_hubs + 1 + rim), [0, 1, 0])


@pytest.mark.gpu
def test_one_slot_takes_every_source():
    graph = grid(40, 40).graph()
    assert_exact(AddsSlots(most_slots=1), graph, range(0, 1600, 7))


@pytest.mark.gpu
@pytest.mark.parametrize("rows_that_fit", [1, 2, 5, 40])
def test_a_call_is_cut_into_device_batches_that_fit(monkeypatch, rows_that_fit):
    graph = grid(30, 30).graph()
    needs = AddsSlots().needs(graph, device_graph(graph), SolveOptions(), 100)
    each = needs.bytes_a_source + batch_solver._SUMMARY_BYTES + 2 * 4 * graph.n_vertices
    free = 2 * (needs.fixed_bytes + rows_that_fit * each)
    monkeypatch.setattr(batch_solver, "free_bytes", lambda: free)
    assert_exact(AddsSlots(), graph, range(0, 900, 9))


@pytest.mark.gpu
def test_a_row_that_does_not_fit_says_what_it_takes(monkeypatch):
    monkeypatch.setattr(batch_solver, "free_bytes", lambda: 2 * 2**20)
    with pytest.raises(
        SsspError, match=r"one source of `adds-slots` does not fit the GPU beside the graph: it takes"
    ) as caught:
        AddsSlots().solve(grid(1000, 1000).graph(), np.array([0]), ANY)
    assert "`near-far`" in caught.value.hint


@pytest.mark.gpu
def test_a_search_past_its_deadline_names_its_source_and_ends_the_others():
    edges = path(2**17)
    graph = csr_from_edges(edges.src, edges.dst, edges.weights, edges.n_vertices + 1)
    # The last vertex has no edges: its search is in time.
    sources = np.array([2**17, *range(1000, 3000)])
    with pytest.raises(
        SsspError, match=r"`adds-slots` took longer for source [12]\d{3} than `solve.deadline_s`"
    ):
        AddsSlots().solve(graph, sources, SolveOptions(deadline_s=0.01))
    assert_exact(AddsSlots(), graph, [2**17, 5])
