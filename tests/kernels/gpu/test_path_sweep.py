"""What passes the arcs of a hierarchy on a GPU: the sums of the CPU, up to the order of additions."""

from __future__ import annotations

import numpy as np
import pytest
from passed_paths import along_rows, assert_close, counts_of, diamonds, grid, random_graph

from sssp_pipeline.kernels.answers.path_sums import PathWords
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import THREADS, PathSweepOnDevice
from sssp_pipeline.kernels.hierarchy.path_sweep import spread
from sssp_pipeline.kernels.host.search import search_limit

pytestmark = pytest.mark.gpu


def on_device(graph, sources, asked, cutoff=None, threads=THREADS) -> PathWords | None:
    counts = counts_of(graph)
    assert counts is not None
    assert PathSweepOnDevice.fits(counts)
    sweep = PathSweepOnDevice(counts, asked, threads)
    limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, cutoff))
    can_count = [sweep.add(some, limit) for some in np.array_split(sources, 2) if len(some)]
    return spread(graph, counts, sweep.words(), asked) if all(can_count) else None


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


@pytest.mark.parametrize("most", [1, 100])
def test_grids(most, monkeypatch):
    graph, asked, sources = (
        grid(np.random.default_rng(8), 18, most),
        PathSumsAsked(edges=True),
        np.arange(324, dtype=np.uint32),
    )
    found = on_device(graph, sources, asked, threads=128)
    assert found is not None
    assert_close(found, along_rows(graph, sources, asked))
    # Fewer blocks at once, and other threads, do not change a bit.
    counts = counts_of(graph)
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
    graph = diamonds(1010)
    assert on_device(graph, np.array([90], np.uint32), PathSumsAsked()) is not None
    assert on_device(graph, np.array([90, 0], np.uint32), PathSumsAsked()) is None
