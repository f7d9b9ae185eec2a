"""What passes the arcs of a hierarchy on a GPU: the sums of the CPU, up to the order of additions."""

from __future__ import annotations

import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from passed_paths import (
    along_rows,
    assert_close,
    counts_of,
    diamonds,
    grid,
    random_amounts,
    random_graph,
)

from sssp_pipeline.base.errors import DeadlineError, SsspError
from sssp_pipeline.kernels.answers.path_sums import PathWords
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.path_sweep import arc_sums_on_device, path_sweep_on_device
from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import (
    THREADS,
    ArcsOnDevice,
    PathSweepOnDevice,
)
from sssp_pipeline.kernels.gpu.phast_gpu import phast_gpu
from sssp_pipeline.kernels.gpu.phast_gpu.phast_gpu import PhastGpu
from sssp_pipeline.kernels.hierarchy.sweeps.path_sweep import PathSweep, spread
from sssp_pipeline.kernels.host.search import search_limit

pytestmark = pytest.mark.gpu


def on_device(
    graph, sources, asked, cutoff=None, threads=THREADS, ends=None
) -> list[tuple[PathWords, np.ndarray]] | None:
    """Return the sums and the totals of each part."""
    counts = counts_of(graph)
    assert counts is not None
    assert PathSweepOnDevice.fits(counts)
    sweep = PathSweepOnDevice(ArcsOnDevice(counts), asked, threads)
    limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, cutoff))
    parts = sweep.run(sources, ends or [len(sources)], limit)
    return parts and [(spread(graph, counts, part.passing(), asked), part.totals) for part in parts]


@pytest.mark.parametrize("dtype", ["uint32", "int32", "uint64", "int64"])
@pytest.mark.parametrize("cutoff", [None, 4])
def test_random_graphs(dtype, cutoff):
    rng = np.random.default_rng(11)
    for i in range(15):
        n_vertices = int(rng.integers(1, 40))
        graph = random_graph(rng, dtype, n_vertices, int(rng.integers(0, 120)))
        sources = rng.integers(0, n_vertices, int(rng.integers(0, 80))).astype(np.uint32)
        is_target = rng.random(n_vertices) < 0.5 if rng.random() < 0.5 else None
        amounts = random_amounts(rng, n_vertices, with_decay=False) if i % 2 else None
        counted = {"is_weighted": amounts is not None, "amounts": amounts, "is_target": is_target}
        asked = PathSumsAsked(edges=True, endpoints=bool(rng.random() < 0.5), **counted)
        ends = [len(sources) // 3, len(sources)]
        found = on_device(graph, sources, asked, cutoff, (32, 64, 1024)[i % 3], ends)
        assert found is not None
        counts = counts_of(graph)
        assert counts is not None
        limit = counts.hierarchy.up.weights.dtype.type(search_limit(graph, cutoff))
        for (words, totals), (first, end) in zip(found, pairwise((0, *ends)), strict=True):
            assert_close(words, along_rows(graph, sources[first:end], asked, cutoff))
            expected = PathSweep(counts, asked).add(sources[first:end], limit)
            np.testing.assert_allclose(totals, expected, rtol=1e-12)


@pytest.mark.parametrize("most", [1, 100])
def test_grids(most, monkeypatch):
    rng = np.random.default_rng(8)
    graph, amounts = grid(rng, 18, most), random_amounts(rng, 324, with_decay=False)
    asked = PathSumsAsked(edges=True, endpoints=most == 1, is_weighted=True, amounts=amounts)
    sources, ends = np.arange(324, dtype=np.uint32)[::-1], [100, 130, 324]
    found = on_device(graph, sources, asked, threads=128, ends=ends)
    assert found is not None
    for (words, _), (first, end) in zip(found, pairwise((0, *ends)), strict=True):
        assert_close(words, along_rows(graph, sources[first:end], asked))
    # Fewer blocks and parts at once do not change a bit of the sums. Neither do other threads, but for sums at sources.
    rows = 324 * 32 * 12 + 324 * 32 * 24
    for free, threads in ((3 * rows, 128), (10, 128 if asked.endpoints else 64)):
        monkeypatch.setattr(path_sweep_on_device.PathSweepOnDevice, "fits", lambda _: True)
        monkeypatch.setattr(path_sweep_on_device, "free_bytes", lambda free=free: free)
        again = on_device(graph, sources, asked, threads=threads, ends=ends)
        assert again is not None
        for (words, totals), (others, totals_of_others) in zip(found, again, strict=True):
            for some, other in zip(words, others, strict=True):
                np.testing.assert_array_equal(some, other)
            if threads == 128:
                np.testing.assert_array_equal(totals, totals_of_others)
    # Neither do other parts, and the order of the sources.
    [(alone, totals)] = on_device(graph, sources[100:130][::-1], asked, threads=128) or []
    np.testing.assert_array_equal(alone.edges, found[1][0].edges)
    np.testing.assert_array_equal(totals[::-1], found[1][1])


def of_solver(most=3, **options):
    graph = grid(np.random.default_rng(8), 6, most)
    kept = Reductions(paths=PathSumsAsked(on_hierarchy=True, on_gpu=True))
    return PhastGpu(), graph, SolveOptions(kept=kept, **options)


def test_parts_of_a_call_are_summed_some_at_a_time(monkeypatch):
    solver, graph, options = of_solver()
    sources = np.arange(36, dtype=np.uint32)
    n_at_once = []

    def passing_of_parts(graph, sources, ends, *args):
        n_at_once.append(len(ends))
        return arc_sums_on_device.passing_of_parts(graph, sources, ends, *args)

    monkeypatch.setattr(phast_gpu, "passing_of_parts", passing_of_parts)
    found = list(solver.solve_parts(graph, sources, options, range(1, 37)))
    assert n_at_once == [16, 16, 4]
    for source, part in zip(sources, found, strict=True):
        alone = solver.solve(graph, sources[source : source + 1], options)
        np.testing.assert_array_equal(part.path_words, alone.path_words)
        np.testing.assert_array_equal(part.distances, alone.distances)


def test_sums_past_the_deadline_are_an_error_and_leave_the_gpu():
    solver, graph, late = of_solver(deadline_s=1e-9)
    told = "^`phast-gpu` took longer for sums over 3 sources than `solve.deadline_s` allows, 1e-09 s$"
    for _ in range(2):
        with pytest.raises(DeadlineError, match=told):
            solver.solve(graph, np.arange(3, dtype=np.uint32), late)
    solver.solve(graph, np.arange(3, dtype=np.uint32), replace(late, deadline_s=60.0))


def test_after_an_error_no_sums_are_unpacked(monkeypatch):
    _, graph, options = of_solver()
    began, goes_on = threading.Semaphore(0), threading.Event()

    class Failing(PhastGpu):
        def start_batch(self, *args):
            assert began.acquire(timeout=10)
            raise SsspError("no batch")

    def part_words(*args):
        began.release()
        assert goes_on.wait(10)

    monkeypatch.setattr(phast_gpu, "part_words", part_words)
    monkeypatch.setattr(phast_gpu, "usable_cores", lambda: 1)
    with pytest.raises(SsspError, match="no batch"):
        Failing().solve_parts(graph, np.arange(3, dtype=np.uint32), options, [1, 2, 3]).__next__()
    goes_on.set()
    assert not began.acquire(timeout=0.2)


def test_too_many_paths():
    graph = diamonds(1010)
    assert on_device(graph, np.array([90], np.uint32), PathSumsAsked()) is not None
    assert on_device(graph, np.array([90, 0], np.uint32), PathSumsAsked(), ends=[1, 2]) is None
