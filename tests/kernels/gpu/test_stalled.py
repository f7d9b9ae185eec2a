"""Searches whose blocks do not all run: they are tried once more, and the hint names other processes on the GPU."""

from __future__ import annotations

import logging
import os
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.gpu.adds.adds import Adds, _AddsSearch
from sssp_pipeline.kernels.gpu.adds_lanes.adds_lanes import AddsLanes, _LanesSearch
from sssp_pipeline.kernels.gpu.common.solvers import stalled
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import PAST_DEADLINE, GpuSearchSolver, GpuSolver
from sssp_pipeline.kernels.gpu.common.solvers.pausing import PausingSearch
from sssp_pipeline.kernels.gpu.common.solvers.stalled import FREE_AGAIN, StalledError, others_in
from sssp_pipeline.kernels.gpu.near_far.near_far import NearFar

GRAPH = csr_from_edges(np.array([0, 1, 2, 3]), np.array([1, 2, 3, 4]), np.array([5, 1, 2, 9], np.uint32), 5)
SOURCES = np.arange(4)
ENDS = [1, 2, 4]


class Stand(GpuSolver):
    """Solves by a CPU, part by part. It fails before part `fails_at`, the first `n_faults` times."""

    name, summary, units, forecast = "stand-in", "", (), None

    def __init__(self, fails_at=0, n_faults=0, fault=None):
        self.fails_at, self.n_faults = fails_at, n_faults
        self.fault = fault or StalledError("`stand-in` gave up source 2")
        self.asked = []

    def missing(self):
        return None

    def _attempt(self, graph, sources, options, ends):
        self.asked.append((sources.tolist(), list(ends)))
        solution = solver_named("dijkstra").solve(graph, sources, SolveOptions())
        first = 0
        for i, end in enumerate(ends):
            if self.n_faults > 0 and i == self.fails_at:
                self.n_faults -= 1
                raise self.fault
            into = np.empty_like(solution.distances) if options.into is None else options.into
            into[first:end] = solution.distances[first:end]
            yield Solution(into[first:end], None)
            first = end


class WholeStand(Stand, GpuSearchSolver):
    """The same for a solver of whole calls, whose rows have memory before the search."""

    empty_rows = staticmethod(np.empty)
    start = None
    _attempt = GpuSearchSolver._attempt

    def _fill_rows(self, call):
        self.asked.append((call.sources.tolist(), list(ENDS)))
        call.distances[:2] = 77  # half of it is written, then it fails
        if self.n_faults > 0:
            self.n_faults -= 1
            raise self.fault
        call.distances[:] = solver_named("dijkstra").solve(call.graph, call.sources, SolveOptions()).distances
        return solver_named("dijkstra").solve(call.graph, call.sources, SolveOptions()).metrics


@pytest.fixture
def others(monkeypatch):
    """Return a list of what `other_processes` finds."""
    found = []
    monkeypatch.setattr(stalled, "other_processes", lambda: found)
    return found


def expected(sources=SOURCES):
    return solver_named("dijkstra").solve(GRAPH, sources, SolveOptions()).distances


@pytest.mark.parametrize(
    ("fails_at", "asked_again"),
    [(0, ([0, 1, 2, 3], [1, 2, 4])), (1, ([1, 2, 3], [1, 3])), (2, ([2, 3], [2]))],
)
def test_parts_that_are_missing_are_solved_once_more(fails_at, asked_again, caplog):
    solver = Stand(fails_at, n_faults=1)
    parts = list(solver.solve_parts(GRAPH, SOURCES, SolveOptions(), ENDS))
    assert [len(part.distances) for part in parts] == [1, 1, 2]
    assert_array_equal(np.concatenate([part.distances for part in parts]), expected())
    assert solver.asked == [(SOURCES.tolist(), ENDS), asked_again]
    assert [(r.levelno, r.getMessage()) for r in caplog.records] == [
        (logging.WARNING, "`stand-in` gave up source 2; what is left is tried once more")
    ]


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_rows_that_stay_where_the_caller_wants_them_are_solved_into_their_places(fails_at):
    solver = Stand(fails_at, n_faults=1)
    solver.leaves_rows = True
    into = np.zeros((4, 5), np.uint32)
    list(solver.solve_parts(GRAPH, SOURCES, SolveOptions(into=into), ENDS))
    assert_array_equal(into, expected())


def test_a_whole_call_is_solved_once_more():
    solver = WholeStand(n_faults=1)
    parts = list(solver.solve_parts(GRAPH, SOURCES, SolveOptions(), ENDS))
    assert_array_equal(np.concatenate([part.distances for part in parts]), expected())
    assert len(solver.asked) == 2


@pytest.mark.parametrize("kind", [Stand, WholeStand])
def test_the_second_fault_is_an_error(kind, others):
    solver = kind(n_faults=2)
    with pytest.raises(StalledError) as caught:
        solver.solve(GRAPH, SOURCES, SolveOptions())
    assert caught.value.message == "`stand-in` gave up source 2; the first of two tries was given up too"
    assert caught.value.hint == FREE_AGAIN
    assert len(solver.asked) == 2
    sent = pickle.loads(pickle.dumps(caught.value))
    assert (type(sent), sent.message, sent.hint) == (StalledError, caught.value.message, caught.value.hint)
    assert_array_equal(solver.solve(GRAPH, SOURCES, SolveOptions()).distances, expected())


def test_the_hint_names_other_processes(others):
    others += ["python3 (17)", "nvidia-cuda-mps-server (99)"]
    with pytest.raises(StalledError) as caught:
        Stand(n_faults=2).solve(GRAPH, SOURCES, SolveOptions())
    assert caught.value.hint == (
        "a search needs room for all of its blocks at once, and other processes use this GPU: python3 (17), "
        "nvidia-cuda-mps-server (99); wait until they end, or set CUDA_VISIBLE_DEVICES to another GPU"
    )


def test_a_search_past_its_deadline_is_not_tried_again():
    solver = Stand(n_faults=1, fault=DeadlineError("stand-in", 2, 1.0))
    with pytest.raises(DeadlineError):
        solver.solve(GRAPH, SOURCES, SolveOptions())
    assert len(solver.asked) == 1


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("", []),
        ("41, python\n", []),
        ("41, python\n17, /usr/bin/python3\n", ["python3 (17)"]),
        ("41, python\n17, [Insufficient Permissions]\n", ["[Insufficient Permissions] (17)"]),
        ("41, python\n17, /opt/a, b/solve\n41 , x\n", ["solve (17)"]),
        ("1041, python\n17, /usr/bin/python3\n", []),
        ("1041, python\n17, /usr/bin/nvidia-cuda-mps-server\n", ["nvidia-cuda-mps-server (17)"]),
        ("NVIDIA-SMI has failed because it could not communicate\n", []),
    ],
)
def test_the_answer_of_the_driver_tells_other_processes(answer, found):
    assert others_in(answer, own=41) == found


def test_the_driver_is_asked_for_this_device(monkeypatch, tmp_path):
    device = SimpleNamespace(pci_bus_id="0000:65:00.0")
    cupy = SimpleNamespace(cuda=SimpleNamespace(Device=lambda: device))
    monkeypatch.setattr(stalled, "cupy_module", lambda: cupy)
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!/bin/sh\necho \"$*\" > {tmp_path}/asked\nprintf '{os.getpid()}, python\\n5, /bin/other\\n'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert stalled.other_processes() == ["other (5)"]
    asked = "--query-compute-apps=pid,process_name --format=csv,noheader --id=0000:65:00.0"
    assert (tmp_path / "asked").read_text().strip() == asked
    program.write_text("#!/bin/sh\nexit 9\n")
    assert stalled.other_processes() == []
    monkeypatch.setenv("PATH", str(tmp_path / "absent"))
    assert stalled.other_processes() == []


def poisoned(kind, poison):
    """Return what a search of `kind` raises if its launch left `poison`."""
    state = {"poison": poison, "supersteps": 3, "arrived": 7}
    search = object.__new__({NearFar: _Pausing, AddsLanes: _LanesSearch, Adds: _AddsSearch}[kind])
    search._solver, search._source, search._options = kind(), 2, SolveOptions(deadline_s=1.0)
    search._deadline_s, search.grid = 1.0, 8
    if kind is AddsLanes:
        launch = SimpleNamespace(first=0, n_sources=1, width=SimpleNamespace(grid=8))
        return type(search._given_up(launch, state))
    if kind is Adds:
        report = dict.fromkeys(("n_busy", "queued", "head", "head_switches", "delta_last", "pages_used"), 0)
        search._known_poison, search._n_pages, search._grid = poison, 1, 8
        return type(search._given_up(report))
    search.state = lambda: state
    with pytest.raises(Exception) as caught:
        search.finish()
    return caught.type


class _Pausing(PausingSearch):
    arguments = None


@pytest.mark.parametrize(
    ("kind", "poison", "error"),
    [
        (NearFar, 4, StalledError),
        (NearFar, PAST_DEADLINE, DeadlineError),
        (AddsLanes, 4, StalledError),
        (AddsLanes, PAST_DEADLINE, DeadlineError),
        (Adds, 0, StalledError),
        (Adds, 2, StalledError),
        (Adds, 3, DeadlineError),
    ],
)
def test_blocks_that_are_missing_are_told_from_a_deadline(kind, poison, error):
    assert poisoned(kind, poison) is error


@pytest.mark.parametrize("poison", [4, 107])
def test_a_worklist_that_is_wrong_is_not_tried_again(poison):
    assert not issubclass(poisoned(Adds, poison), StalledError)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [NearFar, AddsLanes])
def test_a_search_whose_blocks_come_the_second_time_is_exact(kind, caplog):
    class Once(kind):
        def _attempt(self, *call):
            try:
                yield from super()._attempt(*call)
            finally:
                self.absent_blocks = 0

    graph, sources = grid(30, 30).graph(), np.arange(0, 900, 100)
    solution = Once(absent_blocks=1, barrier_timeout_s=0.2).solve(graph, sources, SolveOptions())
    assert_array_equal(
        solution.distances, solver_named("dijkstra").solve(graph, sources, SolveOptions()).distances
    )
    assert "tried once more" in caplog.text
