"""Lanes beyond what every solver must do: groups of every size, both widths, hubs, and distances that outgrow one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.adds_lanes import adds_lanes
from sssp_pipeline.kernels.gpu.adds_lanes.adds_lanes import AddsLanes, fits_narrow, pick_delta

EITHER_WIDTH = pytest.mark.parametrize("narrow", [True, False], ids=["narrow", "whole"])


def path(weights):
    """Vertices in a row, both ways."""
    low, high = np.arange(len(weights)), np.arange(1, len(weights) + 1)
    src, dst = np.concatenate([low, high]), np.concatenate([high, low])
    return csr_from_edges(src, dst, np.concatenate([weights, weights]).astype(np.uint32), len(weights) + 1)


def assert_exact(solver, graph, sources, options=None):
    options = options or SolveOptions()
    solution = solver.solve(graph, np.array(sources), options)
    oracle = solver_named("delta-stepping").solve(graph, np.array(sources), options)
    assert_array_equal(solution.distances, oracle.distances)
    return solution


# ---- what needs no GPU ----


@pytest.mark.parametrize(
    ("dtype", "max_weight", "limit", "fits"),
    [
        ("uint32", 100, 2**32 - 1, True),
        ("int64", 1023, 2**63 - 1, True),
        ("uint32", 1024, 2**32 - 1, False),
        ("uint32", 1024, 30_000, True),
        ("uint32", 32_767, 32_767, True),
        ("uint32", 32_768, 30_000, False),
        ("float32", 1, 100, False),
    ],
)
def test_narrow_lanes_are_tried_where_they_may_do(dtype, max_weight, limit, fits):
    assert fits_narrow(np.dtype(dtype), max_weight, limit) is fits


def test_delta_follows_mean_weight_and_degree():
    graph = grid(20, 20).graph()
    scale = graph.traits.mean_weight * graph.n_vertices / graph.n_edges
    assert pick_delta(graph) == pytest.approx(adds_lanes.DELTA_FACTOR * scale)


# ---- on the GPU ----


@pytest.mark.gpu
@EITHER_WIDTH
@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 63, 64, 65, 97, 200])
def test_groups_of_every_size(count, narrow):
    graph = rmat(scale=10).graph()
    sources = np.arange(count) * 5 % graph.n_vertices
    solution = assert_exact(AddsLanes(narrow=narrow), graph, sources)
    assert [m.source for m in solution.metrics] == sources.tolist()


@pytest.mark.gpu
@EITHER_WIDTH
def test_the_same_source_in_every_lane(narrow):
    solution = assert_exact(AddsLanes(narrow=narrow), rmat(scale=10).graph(), [3] * 64)
    counts = [m.vertices_processed for m in solution.metrics]
    # Not equal: a pass may read a line of which another has lowered some words, but not yet the others.
    assert max(counts) <= 1.05 * min(counts)


@pytest.mark.gpu
@EITHER_WIDTH
def test_a_hub_to_and_from_everybody(narrow):
    rim = np.arange(1, 2**18)
    weights = (1 + rim * 7919 % 1000).astype(np.uint32)
    src, dst = np.concatenate([0 * rim, rim]), np.concatenate([rim, 0 * rim])
    graph = csr_from_edges(src, dst, np.concatenate([weights, weights]), 2**18)
    assert_exact(AddsLanes(narrow=narrow), graph, range(0, 2**18, 2**12))


@pytest.mark.gpu
@EITHER_WIDTH
def test_unaligned_lanes_from_which_there_is_no_path_to_the_hub(narrow):
    """Every second source is below the hub, and cannot reach it; all reach the same vertices."""
    draw = np.random.default_rng(7)
    above, below = draw.integers(0, 60, (2, 600)), draw.integers(60, 120, (2, 200))
    down = np.stack([draw.integers(0, 60, 40), draw.integers(60, 120, 40)])
    src, dst = np.concatenate([above, below, down], axis=1)
    graph = csr_from_edges(src, dst, draw.integers(1, 100, len(src)).astype(np.uint32), 120)
    assert_exact(
        AddsLanes(narrow=narrow), graph, np.stack([np.arange(60), np.arange(60, 120)], axis=1).ravel()
    )


@pytest.mark.gpu
@EITHER_WIDTH
@pytest.mark.parametrize("delta", [0.01, 1, 30, 1e300])
def test_any_delta_is_exact(delta, narrow):
    for graph in (grid(60, 60).graph(), rmat(scale=11).graph()):
        assert_exact(AddsLanes(narrow=narrow), graph, range(0, 1000, 25), SolveOptions(delta=delta))


@pytest.mark.gpu
def test_a_delta_that_is_given_does_not_grow_and_the_other_does():
    graph = grid(60, 60).graph()
    given = AddsLanes().solve(graph, np.array([0]), SolveOptions(delta=30)).metrics[0]
    assert (given.delta_first, given.delta_last, given.delta_changes) == (30, 30, 0)
    grown = AddsLanes().solve(graph, np.array([0]), SolveOptions()).metrics[0]
    factor = adds_lanes.DELTA_GROWTH**grown.delta_changes
    assert grown.delta_changes > 0
    assert grown.delta_last == pytest.approx(grown.delta_first * factor)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["int32", "uint64", "int64"])
def test_narrow_lanes_serve_every_integer_type(dtype):
    graph = rmat(scale=12).graph(dtype)
    assert fits_narrow(graph.weight_dtype, graph.traits.max_weight, 2**31 - 1)
    assert_exact(AddsLanes(), graph, range(0, 4000, 40))


@pytest.mark.gpu
@pytest.mark.parametrize("last", [32_500, 32_765, 32_766, 32_767, 32_768, 65_535, 65_536, 10**6])
def test_distances_around_the_end_of_a_narrow_lane(last):
    whole, rest = divmod(last, 1000)
    graph = path(np.array([1000] * whole + [rest]))
    solution = assert_exact(AddsLanes(), graph, [0, whole // 2, whole + 1] * 30)
    assert solution.metrics[0].max_distance == last


@pytest.mark.gpu
def test_groups_after_one_that_outgrew_its_lanes_are_exact():
    short, long = rmat(scale=10).graph(), path(np.full(500, 1000))
    n = short.n_vertices
    src = np.concatenate([np.repeat(np.arange(g.n_vertices), np.diff(g.row_offsets)) for g in (short, long)])
    src[short.n_edges :] += n
    dst = np.concatenate([short.col_indices, long.col_indices + np.uint32(n)])
    graph = csr_from_edges(src, dst, np.concatenate([short.weights, long.weights]), n + long.n_vertices)
    assert_exact(AddsLanes(), graph, [*range(64), *range(n, n + 64), *range(64, 128)])


@pytest.mark.gpu
@pytest.mark.parametrize("cutoff", [0, 1, 999, 32_765, 32_766, 32_767, 40_000])
def test_a_cutoff_around_the_end_of_a_narrow_lane(cutoff):
    graph = path(np.full(60, 32_767 // 20))
    assert_exact(AddsLanes(), graph, range(0, 61, 3), SolveOptions(cutoff=cutoff))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("unit", ["smallest_subnormal", "smallest_normal"])
def test_tiny_floats_of_which_the_priorities_are_subnormal(dtype, unit):
    """As float32, these distances or the differences between two of them are subnormal."""
    draw = np.random.default_rng(3)
    unit = getattr(np.finfo(np.float32), unit)
    weights = unit * draw.choice([0.0, 1.0, 1.25, 1.5, 7.0, 1000.0], 900)
    src, dst = draw.integers(0, 120, (2, 900))
    assert_exact(AddsLanes(), csr_from_edges(src, dst, weights.astype(dtype), 120), range(120))
