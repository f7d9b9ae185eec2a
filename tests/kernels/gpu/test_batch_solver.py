"""How a call's sources are cut into device batches; see `batch_solver.py`."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.generators import road_like
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.gpu.common.solvers import batch_solver, gpu_solver
from sssp_pipeline.kernels.gpu.common.solvers.batch_search import BatchNeeds
from sssp_pipeline.kernels.gpu.common.solvers.batch_solver import _SUMMARY_BYTES, GpuBatchSolver, device_batch

EACH = 1000 + _SUMMARY_BYTES
NEEDS = BatchNeeds(fixed_bytes=500, bytes_a_source=1000, full=100)


@pytest.mark.parametrize(
    ("n_sources", "free", "expected"),
    [
        (1, 500 + EACH + 4000, (1, 1)),
        (1, 500 + EACH + 3999, (0, 0)),
        (1, 0, (0, 0)),
        (2, 500 + EACH + 4000, (1, 1)),
        (2, 500 + EACH + 8000, (1, 2)),
        (100, 500 + 100 * (EACH + 4000), (100, 1)),
        (100, 500 + 100 * (EACH + 4000) - 1, (50, 2)),
        (101, 10**9, (51, 2)),
        (1000, 10**9, (100, 2)),
        (1024, 10**9, (94, 2)),
    ],
)
def test_a_device_batch_is_what_fits_and_fills_the_device(n_sources, free, expected):
    assert device_batch(n_sources, free, 4000, NEEDS) == expected


@given(
    n_sources=st.integers(1, 5000),
    free=st.integers(0, 10**7),
    row_bytes=st.integers(1, 10**5),
    fixed_bytes=st.integers(0, 10**5),
    bytes_a_source=st.integers(0, 10**5),
    full=st.integers(1, 2000),
)
def test_device_batches_never_take_more_than_is_free(
    n_sources, free, row_bytes, fixed_bytes, bytes_a_source, full
):
    needs = BatchNeeds(fixed_bytes, bytes_a_source, full)
    size, n_buffers = device_batch(n_sources, free, row_bytes, needs)
    fits_one = fixed_bytes + bytes_a_source + _SUMMARY_BYTES + row_bytes <= free
    assert (size > 0) == fits_one
    if fits_one:
        assert size <= min(n_sources, full)
        assert fixed_bytes + size * (bytes_a_source + _SUMMARY_BYTES + n_buffers * row_bytes) <= free


class Device:
    """A device of a given size, and a solver whose scratch memory takes `scratch` bytes of it."""

    def __init__(self, monkeypatch, n_bytes, scratch):
        self.free = n_bytes
        self.most_calls = self.n_calls = 0
        device = self
        self.begun = begun = threading.Event()

        class Scratch:
            def __init__(self):
                device.free -= scratch
                device.n_calls += 1
                device.most_calls = max(device.most_calls, device.n_calls)

            def __del__(self):
                device.free += scratch
                device.n_calls -= 1

        class Solver(GpuBatchSolver):
            name = "solver"
            summary = ""
            units = ()
            forecast = None
            empty_rows = staticmethod(np.empty)

            def needs(self, graph, on_device, options, n_sources):
                return BatchNeeds(scratch, 0, 1)

            def start_batch(self, graph, on_device, options, n_sources):
                return Scratch()

        def solve(search, buffers, sources, ends, rows_of):
            begun.set()
            time.sleep(0.2)
            if sources[0] == 2:
                raise SsspError("given up")
            yield Solution(rows_of(0, 1), None)
            return []

        memory = SimpleNamespace(OutOfMemoryError=MemoryError)
        cupy = SimpleNamespace(cuda=SimpleNamespace(memory=memory))
        monkeypatch.setattr(gpu_solver, "cupy_module", lambda: cupy)
        monkeypatch.setattr(batch_solver, "graph_on_device", lambda graph: None)
        monkeypatch.setattr(batch_solver, "free_bytes", lambda: device.free)
        monkeypatch.setattr(batch_solver, "Buffer", lambda *args: None)
        monkeypatch.setattr(batch_solver, "solve_batches", solve)
        self.solver = Solver()

    def call(self, source):
        edge = np.array([0]), np.array([1]), np.array([1], np.uint32)
        graph = csr_from_edges(*edge, 3)
        return len(list(self.solver._solved(graph, np.array([source]), SolveOptions(), [1])))


@pytest.mark.parametrize(("scratch", "at_once"), [(6000, 1), (4000, 2)])
def test_a_call_that_does_not_fit_beside_another_waits_for_it(monkeypatch, scratch, at_once):
    device = Device(monkeypatch, 10_000, scratch)
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(device.call, [0, 0])) == [1, 1]
    assert (device.most_calls, device.free) == (at_once, 10_000)


def test_a_call_that_does_not_fit_beside_graphs_of_earlier_calls_lets_go_of_them(monkeypatch):
    device = Device(monkeypatch, 1000, 6000)
    dropped = []

    def drop_others(graph):
        dropped.append(graph)
        device.free += 9000
        return True

    monkeypatch.setattr(batch_solver, "drop_others", drop_others)
    assert device.call(0) == 1
    assert (len(dropped), device.free) == (1, 10_000)


def test_a_call_that_fails_gives_its_memory_to_the_one_that_waits(monkeypatch):
    device = Device(monkeypatch, 10_000, 6000)
    with ThreadPoolExecutor(2) as threads:
        failing = threads.submit(device.call, 2)
        device.begun.wait()
        waiting = threads.submit(device.call, 0)
        assert str(failing.exception()) == "given up"
        assert waiting.result() == 1


def test_a_call_that_never_fits_is_refused_and_holds_up_nobody(monkeypatch):
    device = Device(monkeypatch, 1000, 1000)
    for _ in range(2):
        with pytest.raises(
            SsspError, match=r"`solver` does not fit the GPU beside the graph: it takes 0 MiB and 0 are"
        ):
            device.call(0)
    assert device.n_calls == 0


@pytest.mark.gpu
def test_calls_of_several_threads_do_not_mix():
    graph = road_like(vertices=3000, seed=3).graph()
    true = SOLVERS["delta-stepping"].solve(graph, np.arange(300), SolveOptions()).distances

    def call(i):
        name = ("adds-slots", "adds-lanes", "near-far", "adds")[i % 4]
        sources = np.arange(i, 300, 7) if i % 4 < 2 else np.arange(i, i + 3)
        parts = SOLVERS[name].solve_parts(graph, sources, SolveOptions(), [1, 2, len(sources)])
        return np.array_equal(np.concatenate([part.distances for part in parts]), true[sources])

    with ThreadPoolExecutor(6) as threads:
        assert all(threads.map(call, range(40)))
