"""What passes the arcs of a hierarchy on a GPU: the sums of the CPU, up to the order of additions."""

from __future__ import annotations

import numpy as np
import pytest

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges
from sssp_pipeline.kernels.answers.path_sums import PathSums, PathWords, sums_of
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import THREADS, PathSweepOnDevice
from sssp_pipeline.kernels.hierarchy.arc_completion import completion_of
from sssp_pipeline.kernels.hierarchy.customization import customize
from sssp_pipeline.kernels.hierarchy.path_counts import PathCounts
from sssp_pipeline.kernels.hierarchy.path_sweep import spread
from sssp_pipeline.kernels.host.search import search_limit

pytestmark = pytest.mark.gpu


def random_graph(rng: np.random.Generator, dtype: str, n_vertices: int, n_edges: int) -> CsrGraph:
    """Return a graph with ties, parallel edges, self-loops and unreachable vertices; half are nearly symmetric."""
    src, dst = rng.integers(0, n_vertices, (2, n_edges))
    weights = rng.integers(1, 5, n_edges)
    if rng.random() < 0.5:
        src, dst, weights = np.r_[src, dst], np.r_[dst, src], np.r_[weights, weights]
        weights[: len(weights) // 8] = 1
    return csr_from_edges(src, dst, weights.astype(dtype), n_vertices)


def on_device(graph, sources, asked, cutoff=None, threads=THREADS) -> PathWords | None:
    counts = PathCounts.of(graph, customize(completion_of(graph), graph))
    assert counts is not None
    assert PathSweepOnDevice.fits(counts)
    sweep = PathSweepOnDevice(counts, asked, threads)
    limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, cutoff))
    can_count = [sweep.add(some, limit) for some in np.array_split(sources, 2) if len(some)]
    return spread(graph, counts, sweep.words(), asked) if all(can_count) else None


def along_rows(graph, sources, asked, cutoff=None) -> PathWords:
    sums = PathSums(graph, asked)
    sums.add(Dijkstra().solve(graph, sources, SolveOptions(cutoff=cutoff)).distances, sources)
    return sums.words


def assert_close(found: PathWords, expected: PathWords) -> None:
    for some, others in zip(found, expected, strict=True):
        values = sums_of(others)
        np.testing.assert_allclose(sums_of(some), values, rtol=1e-13, atol=1e-15)
        np.testing.assert_array_equal(sums_of(some) == 0, values == 0)


@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint64", "int64"])
@pytest.mark.parametrize("cutoff", [None, 4])
def test_random_graphs(dtype, cutoff):
    rng = np.random.default_rng(11)
    for i in range(15):
        n_vertices = int(rng.integers(1, 40))
        graph = random_graph(rng, dtype, n_vertices, int(rng.integers(0, 120)))
        sources = rng.integers(0, n_vertices, int(rng.integers(0, 80))).astype(np.uint32)
        is_target = rng.random(n_vertices) < 0.5 if rng.random() < 0.5 else None
        asked = PathSumsAsked(edges=True, endpoints=bool(rng.random() < 0.5), is_target=is_target)
        found = on_device(graph, sources, asked, cutoff, threads=(32, 64, 1024)[i % 3])
        assert found is not None
        assert_close(found, along_rows(graph, sources, asked, cutoff))


def grid(side: int, most: int) -> CsrGraph:
    """Return a square grid with weights from 1 to `most`, the same in both directions."""
    at = np.arange(side * side).reshape(side, side)
    src = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    dst = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    weights = np.random.default_rng(8).integers(1, most + 1, len(src)).astype(np.uint32)
    return csr_from_edges(np.r_[src, dst], np.r_[dst, src], np.r_[weights, weights], side * side)


@pytest.mark.parametrize("most", [1, 100])
def test_grids(most, monkeypatch):
    graph, asked, sources = grid(18, most), PathSumsAsked(edges=True), np.arange(324, dtype=np.uint32)
    found = on_device(graph, sources, asked, threads=128)
    assert found is not None
    assert_close(found, along_rows(graph, sources, asked))
    # Fewer blocks at once, and other threads, do not change a bit.
    counts = PathCounts.of(graph, customize(completion_of(graph), graph))
    assert counts is not None
    rows = 324 * 32 * 12 + 324 * 32 * 24
    monkeypatch.setattr(
        "sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device.free_bytes", lambda: 3 * rows
    )
    again = on_device(graph, sources, asked, threads=64)
    assert again is not None
    for some, others in zip(found, again, strict=True):
        np.testing.assert_array_equal(some, others)


def test_too_many_paths():
    """A chain of 1,010 diamonds: each doubles the number of paths."""
    tops = 3 * np.arange(1010)
    src = np.concatenate([tops, tops, tops + 1, tops + 2])
    dst = np.concatenate([tops + 1, tops + 2, tops + 3, tops + 3])
    graph = csr_from_edges(src, dst, np.ones(len(src), np.uint32), 3031)
    assert on_device(graph, np.array([90], np.uint32), PathSumsAsked()) is not None
    assert on_device(graph, np.array([90, 0], np.uint32), PathSumsAsked()) is None
