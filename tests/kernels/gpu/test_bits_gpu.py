"""Searches in bits on a GPU, beyond what every solver must do: groups, hubs, depths, and answers with and without rows.

`tests/kernels/hierarchy/fuzz.py --solver bits-gpu` has random graphs.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import WEIGHT_DTYPES, csr_from_edges, largest_distance
from sssp_pipeline.base.errors import DeadlineError, InputError, PathTooLongError, SsspError
from sssp_pipeline.base.generators import grid, path, rmat, road_like
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import EveryVertex, Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.bits_gpu.bit_edges import bitmap_of, listed_chunks, listed_items
from sssp_pipeline.kernels.gpu.bits_gpu.bits_gpu import BitsGpu
from sssp_pipeline.kernels.gpu.common.graphs import device_graph

ANY = SolveOptions()
RADII = (0.0, 1.5, 9.0)
OVER = OverSources(nearest=True, sums=True, radii=RADII)
#: Small parts of hubs, marks at most depths, and launches that stop after two depths.
CUT_SMALL = BitsGpu(item_edges=4, mark_share=1, most_counted=2)
EITHER_CUT = pytest.mark.parametrize("solver", [BitsGpu(), CUT_SMALL], ids=["as it is", "cut small"])


def graph_of(made, weight=1, dtype="uint32"):
    return csr_from_edges(made.src, made.dst, np.full(len(made.src), weight, dtype), made.n_vertices)


def line(n_vertices, weight=1, dtype="uint32"):
    """A path that leads one way only."""
    vertices = np.arange(n_vertices)
    return csr_from_edges(vertices[:-1], vertices[1:], np.full(n_vertices - 1, weight, dtype), n_vertices)


def star(n_leaves, *, inwards=True, outwards=True):
    """A hub to and from all others."""
    rim = np.arange(1, n_leaves + 1)
    src = np.concatenate([0 * rim[: n_leaves * outwards], rim[: n_leaves * inwards]])
    dst = np.concatenate([rim[: n_leaves * outwards], 0 * rim[: n_leaves * inwards]])
    return csr_from_edges(src, dst, np.ones(len(src), np.uint32), n_leaves + 1)


def assert_exact(graph, sources, options=ANY, solver=None):
    sources = np.asarray(sources)
    found = (solver or BitsGpu()).solve(graph, sources, options)
    expected = solver_named("delta-stepping").solve(graph, sources, options)
    assert found.distances.dtype == expected.distances.dtype
    assert_array_equal(found.distances, expected.distances)
    if expected.over_sources is not None:
        assert_array_equal(found.over_sources, expected.over_sources)
    if options.metrics:
        for one, other in zip(found.metrics, expected.metrics, strict=True):
            for told in ("source", "reached", "max_distance", "mean_distance"):
                assert getattr(one, told) == getattr(other, told)
            assert one.vertices_processed == one.reached
            assert one.teps * one.solve_s == pytest.approx(other.teps * other.solve_s)
    return found


# ---- what needs no GPU ----


@pytest.mark.parametrize("item_edges", [1, 4, 256])
def test_every_edge_is_in_one_item(item_edges):
    random = np.random.default_rng(item_edges)
    degrees = np.minimum(random.zipf(1.5, 1000), 5000).astype(np.uint32) - 1
    items, n_hubs = listed_items(degrees, item_edges)
    edges = np.zeros(1000, int)
    hubs = {}
    for first, bits, hub, part in items.tolist():
        if bits:
            vertices = [first + i for i in range(32) if bits >> i & 1]
            edges[vertices] += degrees[vertices]
            assert first // 32 == vertices[-1] // 32
            assert len(vertices) == 1 or degrees[vertices].sum() <= 2 * item_edges
        else:
            edges[first] += min(item_edges, int(degrees[first]) - part * item_edges)
            assert hubs.setdefault(hub, first) == first
    assert_array_equal(edges, degrees)
    assert_array_equal(list(hubs.values()), np.flatnonzero(degrees > item_edges))
    assert sorted(hubs) == list(range(n_hubs))


def test_rows_of_many_edges_are_cut_into_chunks():
    assert_array_equal(listed_chunks(np.array([3, 9, 0, 4, 8]), 4), [[1, 0], [1, 1], [1, 2], [4, 0], [4, 1]])
    assert listed_chunks(np.array([4, 0]), 4).shape == (0, 2)


def test_a_bitmap_has_the_lowest_vertex_in_its_lowest_bit():
    assert_array_equal(bitmap_of(np.array([0, 33, 39]), 40), [1, 0b10000010])


@pytest.mark.parametrize(("weights", "range_"), [([1, 2], "1 to 2"), ([0, 0], "0 to 0")])
def test_other_weights_are_refused(weights, range_):
    graph = csr_from_edges(np.array([0, 1]), np.array([1, 2]), np.array(weights, np.int32), 3)
    reason = BitsGpu().supports(graph.traits, ANY)
    assert reason == f"it takes equal weights above 0, and they go from {range_}"


def test_the_forecast_counts_rows_and_depths():
    forecast = BitsGpu().forecast
    hubs, road = graph_of(rmat(scale=12)).traits, graph_of(road_like(4096)).traits
    assert forecast(hubs, 1).source_s == pytest.approx(1024 * forecast(hubs, 1024).source_s)
    assert forecast(hubs, 5000).source_s < forecast(hubs, 1024).source_s / 1.8
    assert forecast(road, 64).source_s > forecast(hubs, 64).source_s
    assert forecast(hubs, 64).fixed_bytes > 3 * 128 * hubs.n_vertices


def test_rows_are_as_wide_as_the_sources_of_a_call_need():
    solver = BitsGpu()
    assert [solver._words_for(n) for n in (1, 1024, 1025, 2048, 2049, 10**6)] == [1, 1, 2, 2, 4, 4]
    assert BitsGpu(words_each=2)._words_for(1) == 2


# ---- on the GPU ----


@pytest.mark.gpu
@EITHER_CUT
@pytest.mark.parametrize(
    ("weight", "dtype"), [(1, "uint32"), (7, "int64"), (0.1, "float32"), (0.1, "float64")]
)
def test_larger_graphs_with_sources_for_several_groups(weight, dtype, solver):
    rng = np.random.default_rng(3)
    for made in (road_like(3_000), grid(40, 50, keep=0.6), rmat(scale=9, edge_factor=4), path(700)):
        graph = graph_of(made, weight, dtype)
        for kept in (Nothing(), EveryVertex()):
            sources = rng.integers(0, graph.n_vertices, 1050)
            assert_exact(graph, sources, SolveOptions(kept=kept), solver)
            options = SolveOptions(kept=kept, cutoff=8.5 * weight)
            assert_exact(graph, sources[:90], options, solver)


@pytest.mark.gpu
@pytest.mark.parametrize("words_each", [1, 2, 4])
@pytest.mark.parametrize("n_sources", [1, 31, 32, 33, 100, 1024, 1025, 2500])
def test_groups_of_every_size_and_rows_of_every_width(n_sources, words_each):
    graph = graph_of(rmat(scale=8, edge_factor=4))
    sources = np.arange(n_sources) * 5 % graph.n_vertices
    solver = BitsGpu(words_each=words_each)
    assert_exact(graph, sources, SolveOptions(kept=Reductions(RADII)), solver)
    assert_exact(graph, sources[:1100], ANY, solver)


@pytest.mark.gpu
@EITHER_CUT
@pytest.mark.parametrize("n_sources", [1, 40, 257])
def test_answers_by_counts_and_by_rows(n_sources, solver):
    graph = graph_of(grid(19, 21, keep=0.8))
    sources = np.random.default_rng(n_sources).integers(0, graph.n_vertices, n_sources)
    targets = np.array([98, 3, 3, 50, 0, 7, 9, 11, 13])
    for kept in (
        EveryVertex(),
        Nothing(),
        Targets(targets),
        Reductions(RADII, None, False, (0.0, 1.0, 4.0, 30.0), (0.0, 0.1, 0.5, 1.0), OVER),
        Reductions(RADII, None, False, (0.0, 1.0, 4.0, 30.0), (0.0, 0.1, 0.5, 1.0)),
        Reductions(RADII, harmonic=True, over_sources=OVER),
        Reductions(RADII, np.arange(graph.n_vertices)[None]),
        NearestOfRow(5),
        NearestOfRow(2, targets),
    ):
        for cutoff in (None, 0.0, 6.0):
            assert_exact(graph, sources, SolveOptions(kept=kept, cutoff=cutoff), solver)


@pytest.mark.gpu
@EITHER_CUT
def test_hubs_whose_edges_many_warps_share(solver):
    for graph in (star(70_000), star(1500, inwards=False), star(1500, outwards=False)):
        n = graph.n_vertices
        for sources in ([0], [n - 1, 0, 0, n // 2], np.arange(0, n, n // 300)):
            assert_exact(graph, sources, SolveOptions(kept=Nothing()), solver)
            assert_exact(graph, sources[:3], ANY, solver)


@pytest.mark.gpu
@EITHER_CUT
def test_vertices_without_edges_and_one_source_many_times(solver):
    src, dst = np.array([3, 40, 65, 65]), np.array([40, 65, 3, 66])
    graph = csr_from_edges(src, dst, np.ones(4, np.uint32), 100)
    assert_exact(graph, np.arange(100), ANY, solver)
    assert_exact(graph, np.full(1500, 40), SolveOptions(kept=Nothing()), solver)
    none = csr_from_edges(src[:0], dst[:0], np.ones(0, np.uint32), 40)
    assert_exact(none, np.arange(40), SolveOptions(kept=Reductions(RADII)), solver)


@pytest.mark.gpu
@EITHER_CUT
def test_row_offsets_of_64_bits(solver, monkeypatch):
    monkeypatch.setattr(device_graph, "MOST_EDGES_IN_32_BITS", 1000)
    for made in (rmat(scale=9), grid(30, 30)):
        graph = graph_of(made)
        for kept in (Nothing(), EveryVertex()):
            assert_exact(graph, np.arange(0, graph.n_vertices, 9), SolveOptions(kept=kept), solver)


@pytest.mark.gpu
def test_more_depths_than_a_launch_counts():
    graph = line(2600)
    found = assert_exact(graph, np.array([0, 1500, 2599]), SolveOptions(kept=Reductions(RADII)))
    assert [m.supersteps for m in found.metrics] == [2599, 1099, 0]
    assert_exact(graph, np.array([0, 7]), ANY)


@pytest.mark.gpu
@EITHER_CUT
def test_targets_end_a_search_where_nobody_wants_metrics(solver):
    graph = line(500)
    options = SolveOptions(kept=Targets(np.array([3, 1, 3])), metrics=False)
    found = solver.solve(graph, np.array([1, 0]), options)
    assert_array_equal(found.distances, [[2, 0, 2], [3, 1, 3]])
    assert [m.supersteps for m in found.metrics] == [3, 3]  # and not 499
    same = solver.solve(graph, np.array([3, 3]), SolveOptions(kept=Targets(np.array([3])), metrics=False))
    assert [m.supersteps for m in same.metrics] == [0, 0]
    unreached = solver.solve(graph, np.array([7]), options)
    assert unreached.metrics[0].reached == 493


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=str)
def test_a_path_that_is_too_long_is_an_error_unless_it_is_beyond_the_cutoff(dtype):
    half = largest_distance(dtype) * 0.5 if dtype.kind == "f" else largest_distance(dtype) // 2
    graph = line(5, half, dtype)
    for kept in (EveryVertex(), Nothing(), Targets(np.array([0])), Reductions(), NearestOfRow(1)):
        with pytest.raises(PathTooLongError) as caught:
            BitsGpu().solve(graph, np.array([4, 3, 1, 0]), SolveOptions(kept=kept, metrics=False))
        assert caught.value.message == f"the shortest path from `1` to `4` is longer than {dtype} holds"
        assert_exact(graph, np.array([4, 3, 2]), SolveOptions(kept=kept))
        options = SolveOptions(kept=kept, cutoff=largest_distance(dtype))
        assert_exact(graph, np.array([4, 3, 1, 0]), options)


@pytest.mark.gpu
def test_a_search_that_takes_too_long_is_an_error():
    graph = line(200_000)
    for kept in (Nothing(), EveryVertex()):
        with pytest.raises(DeadlineError, match="took longer for source 7 than"):
            BitsGpu().solve(graph, np.array([7]), SolveOptions(kept=kept, deadline_s=0.01))
    assert_exact(line(50), np.array([7]))


@pytest.mark.gpu
def test_a_block_that_is_missing_ends_the_search():
    solver = BitsGpu(absent_blocks=1, barrier_timeout_s=0.05)
    with pytest.raises(SsspError, match="gave up sources 3 to 5 together") as caught:
        solver.solve(line(50), np.array([3, 5]), SolveOptions(kept=Nothing()))
    assert not isinstance(caught.value, InputError)
    assert_exact(line(50), np.array([7]))
