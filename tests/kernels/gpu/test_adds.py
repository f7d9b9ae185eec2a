"""ADDS beyond what every solver must do: hubs, a worklist that grows, searches that are given up, ablations, traces."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping
from sssp_pipeline.kernels.gpu.adds import adds
from sssp_pipeline.kernels.gpu.adds import hub_chunks as _hub_chunks
from sssp_pipeline.kernels.gpu.adds.adds import STATIC_DELTA, TWO_BUCKETS, Adds, Tuning, pick_delta
from sssp_pipeline.kernels.gpu.adds.hub_chunks import CHUNK_EDGES, HUB_EDGES, hub_chunks, listed_chunks
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph


def star(n_vertices, n_alone=0):
    """A hub with edges to and from every other vertex, and some vertices without edges."""
    rim = np.arange(1, n_vertices)
    weights = (1 + rim * 7919 % 1000).astype(np.uint32)
    src, dst = np.concatenate([0 * rim, rim]), np.concatenate([rim, 0 * rim])
    return csr_from_edges(src, dst, np.concatenate([weights, weights]), n_vertices + n_alone)


def assert_exact(solver, graph, sources, options=None):
    options = options or SolveOptions()
    solution = solver.solve(graph, np.array(sources), options)
    untraced = replace(options, trace_every_us=None)
    assert_array_equal(
        solution.distances, DeltaStepping().solve(graph, np.array(sources), untraced).distances
    )
    return solution


# ---- what needs no GPU ----


def test_chunks_cover_every_edge_of_long_rows_once():
    graph = rmat(scale=10, edge_factor=64).graph()
    chunks, hubs, firsts = listed_chunks(graph)
    degrees = np.diff(graph.row_offsets)
    assert_array_equal(hubs, np.flatnonzero(degrees > HUB_EDGES))
    assert len(hubs) > 1
    for hub, first, last in zip(hubs, firsts, [*firsts[1:], len(chunks)], strict=True):
        assert_array_equal(chunks[first:last, 0], hub)
        assert_array_equal(chunks[first:last, 1], np.arange(-(-degrees[hub] // CHUNK_EDGES)))


def test_without_hubs_there_are_no_chunks():
    chunks, hubs, firsts = listed_chunks(grid(5, 5).graph())
    assert chunks.shape == (0, 2)
    assert len(hubs) == len(firsts) == 0


@pytest.fixture
def listings(monkeypatch):
    """The graphs whose chunks were listed."""
    listed = []
    monkeypatch.setattr(
        _hub_chunks, "listed_chunks", lambda graph: listed.append(graph) or listed_chunks(graph)
    )
    return listed


@pytest.mark.medium
def test_chunks_are_listed_once_and_go_with_the_graph_on_the_device(listings, monkeypatch):
    monkeypatch.setattr(_hub_chunks, "cupy_module", lambda: np)
    graph = star(1000)
    copies = [DeviceGraph(None, None, None, False, 1000, 1998, graph.weight_dtype) for _ in range(2)]
    first, second = (hub_chunks(copy, graph) for copy in copies)
    assert hub_chunks(copies[0], graph) is first
    assert hub_chunks(copies[1], graph) is second is not first
    assert len(listings) == 2
    assert (first.n_chunks, first.n_hubs) == (8, 1)
    alive = weakref.ref(first)
    del first, second, copies
    gc.collect()
    assert alive() is None


def test_a_pool_has_no_more_pages_than_32_bits_can_number():
    graph = grid(5, 5).graph()
    assert Adds().pool_for(graph, 25) == 68
    assert Adds().pool_for(graph, 2**31) == Adds(pool_pages=2**17).pool_for(graph, 25) == 2**16


def search_with_pool(n_pages):
    """A search, with memory of the host, whose last launch ended because the pages were too few."""
    search = object.__new__(adds._AddsSearch)
    search._solver, search._host_graph = Adds(), grid(5, 5).graph()
    search._grid, search._threads = 2, 64
    search._n_pages, search._known_poison = n_pages, adds._POOL_EXHAUSTED
    return search


def test_a_pool_grows_to_the_most_pages_and_no_further(monkeypatch):
    made_of = []
    host = SimpleNamespace(empty=lambda count, dtype: made_of.append(count))
    monkeypatch.setattr(adds, "cupy_module", lambda: host)
    search = search_with_pool(40_000)
    assert search.grow()
    assert search._n_pages == search._solver.pool_for(search._host_graph, 25) == 2**16
    assert made_of[0] == 2**32
    search = search_with_pool(2**16)
    with pytest.raises(SsspError) as caught:
        search.grow()
    assert caught.value.message == (
        "the worklist of `adds` is full: its 65,536 pages are too few, and that is the most there can be"
    )


def test_a_pool_that_finds_no_memory_says_how_much_it_needs(monkeypatch):
    class OutOfMemoryError(Exception):
        pass

    def empty(count, dtype):
        raise OutOfMemoryError

    memory = SimpleNamespace(OutOfMemoryError=OutOfMemoryError)
    host = SimpleNamespace(empty=empty, cuda=SimpleNamespace(memory=memory))
    kept = [True, False]
    monkeypatch.setattr(adds, "cupy_module", lambda: host)
    monkeypatch.setattr(adds, "drop_others", lambda graph: kept.pop(0))
    monkeypatch.setattr(adds, "free_bytes", lambda: 2**20)
    with pytest.raises(SsspError) as caught:
        search_with_pool(100).grow()
    assert caught.value.message == (
        "the worklist of `adds` is full: its 100 pages are too few, and 200 need 52 MiB, of which 1 are free"
    )
    assert caught.value.hint == "use `near-far`, whose worklist does not grow"
    assert kept == []


def test_the_first_delta_follows_mean_weight_and_degree():
    graph = grid(20, 20).graph()
    scale = graph.traits.mean_weight * graph.n_vertices / graph.n_edges
    assert pick_delta(graph, 3.0) == pytest.approx(3 * scale)
    empty = csr_from_edges(np.array([], int), np.array([], int), np.array([], np.float32), 2)
    assert 0 < pick_delta(empty) < 1e-30


def test_a_trace_goes_on_where_the_kernels_clock_wraps_around():
    moments = np.zeros(3, adds._MOMENT)
    moments["time_ns"] = [1000, 2**32 - 1000, 500]
    moments["busy"], moments["queued"], moments["n_heads"] = [3, 2, 0], [9, 2**32 - 1, 0], [2, 4, 4]
    moments["delta"] = [1.5, 3, 3]
    trace = adds.trace_of(moments)
    assert trace["time_us"].tolist() == [1, (2**32 - 1000) / 1000, (2**32 + 500) / 1000]
    assert trace["busy_workers"].tolist() == [3, 2, 0]
    assert trace["words_queued"].tolist() == [9, 2**32 - 1, 0]
    assert trace["head_buckets"].tolist() == [2, 4, 4]
    assert trace["delta"].tolist() == [1.5, 3, 3]


# ---- on the GPU ----


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.uint32, np.float32, np.uint64, np.float64])
def test_the_invariants_hold_while_it_runs(dtype):
    checked = Adds(Tuning(checked=True))
    assert_exact(checked, grid(200, 200).graph(dtype), [0, 20_100, 39_999] * 5)
    assert_exact(checked, rmat(scale=14, edge_factor=32).graph(dtype), list(range(0, 16_000, 1000)))


@pytest.mark.gpu
def test_a_hub_of_a_million_edges():
    solution = assert_exact(Adds(), star(2**20), [0, 5])
    assert solution.metrics[0].vertices_processed < 1.1 * 2**20


@pytest.mark.gpu
@pytest.mark.parametrize("tuning", [STATIC_DELTA, TWO_BUCKETS, Tuning(chain=0), Tuning(threads=256)])
def test_ablations_are_exact(tuning):
    assert_exact(Adds(tuning), grid(200, 200).graph(), range(0, 40_000, 4000))
    assert_exact(Adds(tuning), rmat(scale=14).graph(), range(0, 16_000, 2000))


@pytest.mark.gpu
@pytest.mark.parametrize("delta", [1, 30, 1e7])
def test_any_delta_is_exact(delta):
    for tuning in (Tuning(), STATIC_DELTA, TWO_BUCKETS):
        assert_exact(Adds(tuning), grid(100, 100).graph(), [0, 5050], SolveOptions(delta=delta))


@pytest.mark.gpu
def test_a_worklist_that_is_too_small_grows():
    assert_exact(Adds(pool_pages=32), star(2**20), [0])


@pytest.mark.gpu
def test_a_worklist_that_runs_out_goes_on_from_the_source_where_it_did(monkeypatch):
    graph = star(2**20, n_alone=7)
    alone = list(range(2**20, 2**20 + 7))
    launched = []
    launch = adds._AddsSearch.launch

    def counted(search, distances, source):
        launched.append((source, search._n_pages))
        launch(search, distances, source)

    monkeypatch.setattr(adds._AddsSearch, "launch", counted)
    solver = Adds(pool_pages=32)
    assert_exact(solver, graph, [*alone[:3], 0, *alone[3:]])
    sources = [source for source, _ in launched]
    n_tries = sources.count(0)
    assert n_tries > 1
    assert sources == [*alone[:3], *[0] * n_tries, *alone[3:]]
    assert launched[-1][1] == solver.pool_for(graph, graph.n_vertices) == 32 * 2 ** (n_tries - 1)


@pytest.mark.gpu
def test_a_worker_that_expands_many_vertices_itself_is_no_stall():
    ends = np.arange(2**20)
    graph = csr_from_edges(ends, ends + 1, np.zeros(2**20, np.uint32), 2**20 + 1)
    # One worker goes along the whole path, for a second or more, and nothing enters the worklist.
    solution = Adds(stall_timeout_s=0.1).solve(graph, np.array([0]), SolveOptions())
    assert not solution.distances.any()
    assert solution.metrics[0].solve_s > 0.2


@pytest.mark.gpu
def test_a_run_past_its_deadline_tells_the_state_of_its_queue():
    graph = grid(1000, 1000).graph()
    told = r"`adds` took longer for source 0 than `solve.deadline_s` allows, 0.0005 s; .* workers busy"
    with pytest.raises(SsspError, match=told):
        Adds().solve(graph, np.array([0]), SolveOptions(deadline_s=0.0005))
    assert_exact(Adds(), graph, [0])


@pytest.mark.gpu
def test_a_trace_tells_how_many_workers_were_busy():
    solution = assert_exact(Adds(), grid(200, 200).graph(), [0, 20_100], SolveOptions(trace_every_us=1))
    for metrics in solution.metrics:
        trace = metrics.trace
        assert len(trace) > 10
        assert (np.diff(trace["time_us"]) >= 0).all()
        assert 0 < trace["time_us"][-1] / 1e6 <= metrics.solve_s
        assert trace["busy_workers"].max() > 10
        assert trace["busy_workers"][-1] == trace["words_queued"][-1] == 0
        assert trace["delta"][-1] == metrics.delta_last
    assert Adds().solve(grid(20, 20).graph(), np.array([0]), SolveOptions()).metrics[0].trace is None
