"""Sums along shortest paths on the GPU are those of the CPU, to the last bit."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from passed_paths import random_amounts

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges
from sssp_pipeline.base.generators import grid, rmat, road_like
from sssp_pipeline.kernels.answers.path_sums import PathSums
from sssp_pipeline.kernels.contract.packed_words import PackedWords
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.gpu.common.rows import path_sums_on_device
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import AddedRows, PassSize, PathSumsOnDevice

DTYPES = ("uint32", "int32", "uint64", "int64", "float64")
EVERYTHING = PathSumsAsked(edges=True, squares=True, endpoints=True)


def made(src, dst, weights, n_vertices: int, dtype: str) -> CsrGraph:
    return csr_from_edges(np.array(src, int), np.array(dst, int), np.array(weights).astype(dtype), n_vertices)


def random_graph(rng: np.random.Generator, dtype: str) -> CsrGraph:
    """Return a graph with ties, parallel edges, self-loops and unreachable vertices."""
    n_vertices, n_edges = int(rng.integers(1, 70)), int(rng.integers(0, 500))
    src, dst = rng.integers(0, n_vertices, (2, n_edges))
    return made(src, dst, rng.integers(1, rng.choice([2, 5, 40]), n_edges), n_vertices, dtype)


def random_ends(rng: np.random.Generator, n_vertices: int) -> dict[str, Any]:
    """Return the fields of `PathSumsAsked` for every target, for some, or for amounts."""
    kind = rng.integers(3)
    if kind == 2:
        return {"is_weighted": True, "amounts": random_amounts(rng, n_vertices)}
    return {"is_target": rng.random(n_vertices) < 0.5 if kind else None}


def solved(graph: CsrGraph, sources: np.ndarray, cutoff: float | None = None) -> np.ndarray:
    return Dijkstra().solve(graph, sources, SolveOptions(cutoff=cutoff)).distances


def assert_same(graph: CsrGraph, sources, asked: PathSumsAsked = EVERYTHING, cutoff=None) -> None:
    """Assert that all rows are added, and that each word is the one of the CPU."""
    sources = np.asarray(sources, np.uint32)
    rows = solved(graph, sources, cutoff)
    expected = PathSums(graph, asked)
    totals = expected.add(rows, sources)
    on_device = PathSumsOnDevice(graph, asked, len(sources))
    n_rows, memory = on_device.size.n_rows, on_device.empty_rows()
    for first in range(0, len(sources), n_rows):
        some = slice(first, min(first + n_rows, len(sources)))
        added = add(on_device, memory, rows[some], sources[some])
        assert_array_equal(added.left(), [])
        assert_array_equal(added.totals(), totals[some])
    assert_array_equal(on_device.words(), expected.part_words)
    assert not on_device.words().any()  # the next part begins anew


def add(on_device: PathSumsOnDevice, memory, rows: np.ndarray, sources: np.ndarray) -> AddedRows:
    """Copy `rows` to the front of `memory` on the device, add them, and wait."""
    return on_device.add(copied(memory, rows), sources).wait()


def copied(memory, rows: np.ndarray):
    """Copy `rows` to the front of `memory` on the device, and return it."""
    memory[: len(rows)].set(rows)
    return memory[: len(rows)]


@pytest.fixture(autouse=True)
def few_threads(monkeypatch):
    """Take blocks of several warps, which share the vertices of small graphs."""
    monkeypatch.setattr(path_sums_on_device, "_THREADS", (64,))


# ---- without a GPU ----


@pytest.mark.parametrize(
    ("room", "expected"),
    [
        (10**9, PassSize(256, 90, 100)),
        (9000, PassSize(512, 40, 100)),
        (4999, PassSize(1024, 20, 80)),
        (1100, PassSize(1024, 10, 10)),
        (109, None),
    ],
)
def test_a_pass_takes_as_many_rows_as_fit(room, expected):
    resident = {256: 90, 512: 40, 1024: 20}
    assert PassSize.fitting(100, resident, slot_bytes=100, row_bytes=10, room=room) == expected
    if expected is not None:
        assert expected.n_slots * 100 + expected.n_rows * 10 <= room


def test_few_rows_have_large_blocks():
    resident = {256: 90, 512: 40, 1024: 20}
    for n_sources, threads in ((1, 1024), (20, 1024), (21, 512), (40, 512), (41, 256), (1000, 256)):
        assert PassSize.fitting(n_sources, resident, 100, 10, 10**6).threads == threads


def test_a_launch_of_few_rows_has_large_blocks():
    size, resident = PassSize(256, 90, 360), {256: 90, 512: 40, 1024: 20}
    assert [size.threads_for(n, resident) for n in (1, 20, 21, 40, 41, 360)] == [
        1024,
        1024,
        512,
        512,
        256,
        256,
    ]
    assert PassSize(1024, 20, 80).threads_for(80, resident) == 1024


# ---- with a GPU ----


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_graphs(dtype):
    rng = np.random.default_rng(DTYPES.index(dtype))
    for _ in range(12):
        graph = random_graph(rng, dtype)
        sources = rng.integers(0, graph.n_vertices, 9)
        vertices, edges = [(True, True), (True, False), (False, True)][rng.integers(3)]
        squares, endpoints = (rng.random(2) < 0.5).tolist()
        asked = PathSumsAsked(vertices, edges, squares, endpoints, **random_ends(rng, graph.n_vertices))
        assert_same(graph, sources, asked, rng.choice([3, 30, None]))


@pytest.mark.gpu
def test_fractions_of_many_rows_are_carried_between_words():
    """Three paths of equal length: each third is cut."""
    graph = made([0, 0, 0, 1, 2, 3], [1, 2, 3, 4, 4, 4], np.ones(6), 5, "uint32")
    assert_same(graph, np.zeros(300))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint32", "float64"])
def test_roads_and_hubs(dtype):
    road = road_like(vertices=400, seed=2).graph(dtype)
    assert_same(road, np.arange(0, 400, 60))
    web = rmat(scale=8).graph(dtype)
    assert np.diff(web.row_offsets).max() > 100  # taken by a whole warp
    assert_same(web, np.arange(0, 256, 40))


@pytest.mark.gpu
@pytest.mark.parametrize("weights", ["equal", "different"])
def test_stars_whose_tight_edges_are_many(weights):
    """From a leaf, all other 999 edges of the hub are tight."""
    leaves = np.arange(1, 1001)
    hub = np.zeros(1000, int)
    of_leaf = np.ones(1000) if weights == "equal" else np.random.default_rng(3).integers(1, 100, 1000)
    ends = np.concatenate([hub, leaves]), np.concatenate([leaves, hub])
    assert_same(made(*ends, np.tile(of_leaf, 2), 1001, "uint32"), [0, 1, 500])
    # Shares with many digits are added in the order of the edges.
    more = np.concatenate([ends[0], leaves]), np.concatenate([ends[1], leaves % 7 + 1001])
    assert_same(made(*more, np.append(np.tile(of_leaf, 2), of_leaf), 1008, "uint32"), [0, 1, 500, 1004])


@pytest.mark.gpu
@pytest.mark.parametrize("side", [24, 44])
def test_lattices_of_many_paths(side):
    """Between two corners are binomial(46, 23) paths, which float64 holds, or binomial(86, 43), which it rounds."""
    road = grid(rows=side, cols=side).graph("uint32")
    lattice = CsrGraph(road.row_offsets, road.col_indices, np.ones(road.n_edges, np.uint32))
    assert_same(lattice, [0, side - 1, side * side - 1, 300])


@pytest.mark.gpu
@pytest.mark.parametrize(("src", "dst", "n"), [([], [], 1), ([0], [0], 1), ([], [], 3), ([0], [1], 4)])
def test_tiny_graphs(src, dst, n):
    assert_same(made(src, dst, np.full(len(src), 5), n, "uint32"), np.arange(n))


@pytest.mark.gpu
def test_rows_with_too_many_paths_are_left_out_and_all_others_added():
    """127 diamonds have 2^127 paths, so the row of the first vertex is refused; 126 have fewer."""
    tops = 3 * np.arange(127)
    src = np.concatenate([tops, tops, tops + 1, tops + 2])
    dst = np.concatenate([tops + 1, tops + 2, tops + 3, tops + 3])
    graph = made(src, dst, np.ones(len(src)), 382, "uint32")
    sources = np.array([3, 0, 1, 0, 381], np.uint32)
    rows = solved(graph, sources)
    sums = PathSumsOnDevice(graph, EVERYTHING, len(sources))
    added = add(sums, sums.empty_rows(), rows, sources)
    left = added.left()
    assert_array_equal(left, [1, 3])
    assert_array_equal(added.rows_of(left), rows[left])
    expected = PathSums(graph, EVERYTHING)
    totals = expected.add(rows[[0, 2, 4]], sources[[0, 2, 4]])
    assert_array_equal(added.totals()[[0, 2, 4]], totals)
    assert not added.totals()[left].any()
    assert_array_equal(sums.words(), expected.part_words)


@pytest.mark.gpu
def test_a_row_with_a_weight_that_a_float_loses_is_left_out():
    graph = made([0, 1, 2], [1, 2, 3], [1.0, 1e-30, 1.0], 4, "float64")
    sources = np.array([0, 1, 2], np.uint32)
    sums = PathSumsOnDevice(graph, EVERYTHING, 3)
    added = add(sums, sums.empty_rows(), solved(graph, sources), sources)
    assert_array_equal(added.left(), [0])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint64"])
def test_a_sum_that_wraps_or_is_the_value_of_unreached_is_not_tight(dtype):
    most = int(np.iinfo(dtype).max)
    wraps = CsrGraph(
        np.array([0, 2, 2, 3]), np.array([1, 2, 1], np.uint32), np.array([5, 10, most - 4], dtype)
    )
    is_unreached = CsrGraph(
        np.array([0, 1, 2, 2]), np.array([1, 2], np.uint32), np.array([5, most - 5], dtype)
    )
    for graph in (wraps, is_unreached):
        assert_same(graph, [0], cutoff=100)


@pytest.mark.gpu
def test_several_batches_in_few_slots(monkeypatch):
    monkeypatch.setattr(path_sums_on_device, "_ROWS_OF_SLOT", 2)
    graph = rmat(scale=6).graph("int64")
    assert_same(graph, np.arange(64))


@pytest.mark.gpu
def test_sums_are_packed_some_places_at_a_time(monkeypatch):
    monkeypatch.setattr(path_sums_on_device, "PLACES_PACKED", 2048)
    graph = rmat(scale=8).graph("uint32")
    sources = np.arange(0, 256, 40).astype(np.uint32)
    rows = solved(graph, sources)
    sums = PathSumsOnDevice(graph, EVERYTHING, len(sources), n_parts=2)
    assert sums.n_sets == 2
    sums.add(copied(sums.empty_rows(), rows), sources, (sources >= 120).astype(np.uint32)).wait()
    for number, of_set in enumerate((sources < 120, sources >= 120)):
        expected = PathSums(graph, EVERYTHING)
        expected.add(rows[of_set], sources[of_set])
        wanted = PackedWords.of(expected.part_words)
        assert 0 < len(wanted.words) < 2048 < len(expected.part_words) / 2
        found = sums.take(number)
        assert_array_equal(found.bits, wanted.bits)
        assert_array_equal(found.words, wanted.words)
        assert not sums.take(number).words.size


@pytest.mark.gpu
def test_no_row_fits(monkeypatch):
    monkeypatch.setattr(path_sums_on_device, "free_bytes", lambda: 1000)
    graph = road_like(vertices=400, seed=2).graph("uint32")
    assert PathSumsOnDevice(graph, EVERYTHING, 5).size is None


@pytest.mark.gpu
@pytest.mark.slow
def test_many_random_graphs():
    rng = np.random.default_rng(11)
    for dtype, squares, endpoints, edges in product(DTYPES, *[(False, True)] * 3):
        for _ in range(10):
            graph = random_graph(rng, dtype)
            asked = PathSumsAsked(True, edges, squares, endpoints, **random_ends(rng, graph.n_vertices))
            assert_same(graph, rng.integers(0, graph.n_vertices, 20), asked, rng.choice([5, None]))
