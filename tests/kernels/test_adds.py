"""ADDS beyond what every solver must do: hubs, a worklist that grows, runs that are given up, ablations, traces."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.csr import csr_from_edges
from sssp_pipeline.errors import SsspError
from sssp_pipeline.generators import grid, rmat
from sssp_pipeline.kernels import adds
from sssp_pipeline.kernels.adds import STATIC_DELTA, TWO_BUCKETS, Adds, Tuning, hub_chunks, pick_delta
from sssp_pipeline.kernels.delta_stepping import DeltaStepping
from sssp_pipeline.kernels.solver import SolveOptions

KERNELS = Path(adds.__file__).parent
DEVICE_CODE = ("adds.cu", "adds_control.cuh", "adds_manager.cuh", "adds_worker.cuh", "bucket_queue.cuh")


def made(edges, dtype=np.uint32):
    return csr_from_edges(edges.src, edges.dst, edges.weights.astype(dtype), edges.n_vertices)


def star(n_vertices):
    """A hub, to and from everybody else."""
    rim = np.arange(1, n_vertices)
    weights = (1 + rim * 7919 % 1000).astype(np.uint32)
    src, dst = np.concatenate([0 * rim, rim]), np.concatenate([rim, 0 * rim])
    return csr_from_edges(src, dst, np.concatenate([weights, weights]), n_vertices)


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
    graph = made(rmat(scale=10, edge_factor=64))
    chunks, hubs, firsts = hub_chunks(graph)
    degrees = np.diff(graph.row_offsets)
    assert_array_equal(hubs, np.flatnonzero(degrees > adds._HUB_EDGES))
    assert len(hubs) > 1
    for hub, first, last in zip(hubs, firsts, [*firsts[1:], len(chunks)], strict=True):
        assert_array_equal(chunks[first:last, 0], hub)
        assert_array_equal(chunks[first:last, 1], np.arange(-(-degrees[hub] // adds._CHUNK_EDGES)))


def test_without_hubs_there_are_no_chunks():
    chunks, hubs, firsts = hub_chunks(made(grid(5, 5)))
    assert chunks.shape == (0, 2)
    assert len(hubs) == len(firsts) == 0


def test_the_first_delta_follows_mean_weight_and_degree():
    graph = made(grid(20, 20))
    scale = graph.traits.mean_weight * graph.n_vertices / graph.n_edges
    assert pick_delta(graph, 3.0) == pytest.approx(3 * scale)
    empty = csr_from_edges(np.array([], int), np.array([], int), np.array([], np.float32), 2)
    assert 0 < pick_delta(empty) < 1e-30


def device_code():
    return "".join((KERNELS / name).read_text() for name in DEVICE_CODE)


def test_constants_agree_between_python_and_cuda():
    text = device_code()
    constants = {name: int(value) for name, value in re.findall(r"constexpr \w+ (k\w+) = (\d+)u?;", text)}
    assert constants["kHubEdges"] == adds._HUB_EDGES
    assert constants["kChunkEdges"] == adds._CHUNK_EDGES
    assert constants["kMostChain"] == adds._MOST_CHAIN
    assert constants["kBuckets"] == adds._BUCKETS
    assert constants["kMostHeads"] == adds._MOST_HEADS
    assert constants["kFlagsEach"] == adds._FLAGS_EACH
    poison = dict(re.findall(r"(k\w+) = (\d+),", text))
    assert int(poison["kPoolExhausted"]) == adds._POOL_EXHAUSTED
    assert int(poison["kInvariant"]) == adds._INVARIANT
    assert {int(poison[name]) for name in ("kStalled", "kDeadline", "kIndexSpent")} == set(adds._POISON)
    sizes = re.search(r"sizeof\(Tuning\) == (\d+) && sizeof\(Report\) == (\d+)", text)
    assert (adds._TUNING.itemsize, adds._REPORT.itemsize) == (int(sizes[1]), int(sizes[2]))


def test_every_invariant_and_fence_cited_by_the_kernel_is_defined():
    design = (Path(__file__).parents[2] / "docs/design/0002-adds-queue.md").read_text()
    defined = set(re.findall(r"^\| ([IF]\d+)\b", design, re.MULTILINE))
    cited = set(re.findall(r"\b([IF]\d)\b", device_code()))
    assert cited == defined


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
    assert_exact(checked, made(grid(200, 200), dtype), [0, 20_100, 39_999] * 5)
    assert_exact(checked, made(rmat(scale=14, edge_factor=32), dtype), list(range(0, 16_000, 1000)))


@pytest.mark.gpu
def test_a_hub_of_a_million_edges():
    solution = assert_exact(Adds(), star(2**20), [0, 5])
    assert solution.metrics[0].vertices_processed < 1.1 * 2**20


@pytest.mark.gpu
@pytest.mark.parametrize("tuning", [STATIC_DELTA, TWO_BUCKETS, Tuning(chain=0), Tuning(threads=256)])
def test_ablations_are_exact(tuning):
    assert_exact(Adds(tuning), made(grid(200, 200)), range(0, 40_000, 4000))
    assert_exact(Adds(tuning), made(rmat(scale=14)), range(0, 16_000, 2000))


@pytest.mark.gpu
@pytest.mark.parametrize("delta", [1, 30, 1e7])
def test_any_delta_is_exact(delta):
    for tuning in (Tuning(), STATIC_DELTA, TWO_BUCKETS):
        assert_exact(Adds(tuning), made(grid(100, 100)), [0, 5050], SolveOptions(delta=delta))


@pytest.mark.gpu
def test_a_worklist_that_is_too_small_grows():
    assert_exact(Adds(pool_blocks=32), star(2**20), [0])


@pytest.mark.gpu
def test_a_run_past_its_deadline_is_given_up_and_the_gpu_stays_usable():
    graph = made(grid(1000, 1000))
    with pytest.raises(
        SsspError, match=r"`adds` gave up source 0: it took longer than 0.0005 s; .* workers busy"
    ):
        Adds(deadline_s=0.0005).solve(graph, np.array([0]), SolveOptions())
    assert_exact(Adds(), graph, [0])


@pytest.mark.gpu
def test_a_trace_tells_how_many_workers_were_busy():
    solution = assert_exact(Adds(), made(grid(200, 200)), [0, 20_100], SolveOptions(trace_every_us=1))
    for metrics in solution.metrics:
        trace = metrics.trace
        assert len(trace) > 10
        assert (np.diff(trace["time_us"]) >= 0).all()
        assert 0 < trace["time_us"][-1] / 1e6 <= metrics.solve_s
        assert trace["busy_workers"].max() > 10
        assert trace["busy_workers"][-1] == trace["words_queued"][-1] == 0
        assert trace["delta"][-1] == metrics.delta_last
    assert Adds().solve(made(grid(20, 20)), np.array([0]), SolveOptions()).metrics[0].trace is None
