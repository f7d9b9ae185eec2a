"""Searches of some sources show the pace before a run or in a plan, at a small share of the run's time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work
from sssp_pipeline.pipeline.run import pace
from sssp_pipeline.pipeline.run.pace import Pace, Searches, measured_pace, pace_of_run
from sssp_pipeline.pipeline.run.plan_facts import describe_plan
from sssp_pipeline.workflow.models import Solve, Workflow
from sssp_pipeline.workflow.yaml_file import workflow_from_dict

ONE_CORE = Machine(1, None)


@pytest.fixture
def stored(tmp_path):
    return sp.ingest("generated:grid?rows=40&cols=30&seed=3", tmp_path / "graph")


@pytest.fixture
def clock(monkeypatch):
    """Have each search of `delta-stepping` take the seconds that the test writes to `clock.source_s`."""
    made = Clock()
    monkeypatch.setattr(pace.time, "thread_time", lambda: made.now_s)
    for name in ("delta-stepping", "dijkstra"):
        monkeypatch.setattr(type(SOLVERS[name]), "solve", made.solve)
    return made


class Clock:
    def __init__(self) -> None:
        self.now_s, self.source_s, self.calls = 0.0, 1.0, []

    def solve(self, graph, sources, options):
        self.now_s += self.source_s * len(sources)
        self.calls.append((len(sources), options.cutoff))


def work(stored, n_sources, options=None):
    return Work(stored.manifest.traits, options or SolveOptions(), n_sources, batch=1)


def measured(stored, n_sources, solver="auto", machine=ONE_CORE, least_s=0.0):
    sources = np.arange(min(n_sources, 1000), dtype=np.uint32)
    solve = Solve(solver=solver)
    searches = Searches.of_run(stored, solve, [sources])
    return measured_pace(searches, solve, work(stored, n_sources), machine, least_s)


def test_the_pace_is_the_measured_time_over_the_forecast(stored, clock):
    expected_s = SOLVERS["delta-stepping"].forecast(stored.manifest.traits, 1).source_s
    found = measured(stored, 1000)
    assert found.pace == pytest.approx(1.0 / expected_s)
    paced = replace(stored.manifest.traits, pace=found.pace)
    assert SOLVERS["delta-stepping"].forecast(paced, 1).source_s == pytest.approx(1.0)
    assert clock.calls[0] == (1, 0.0)  # it loads the solver and is not counted


@pytest.mark.parametrize(
    ("n_sources", "least_s", "searched"),
    [(1000, 0.0, 15), (10_000, 0.0, 63), (100, 0.0, 3), (90, 0.0, 1), (1, 9.0, 1), (40, 9.0, 7)],
)
def test_measuring_takes_a_small_share_of_the_run_or_the_seconds_that_it_may_take(
    stored, clock, n_sources, least_s, searched
):
    assert measured(stored, n_sources, least_s=least_s).sources == searched


def test_the_solver_that_is_named_is_timed_if_one_core_searches(stored, clock):
    timed = {
        name: measured(stored, 100, name).solver for name in ("dijkstra", "parallel-delta-stepping", "phast")
    }
    assert timed == {
        "dijkstra": "dijkstra",
        "parallel-delta-stepping": "delta-stepping",
        "phast": "delta-stepping",
    }
    assert measured(stored, 100, "adds-slots") is None
    assert measured(stored, 100, machine=Machine(1, 2**36)) is None
    assert measured(stored, 100, "dijkstra", Machine(1, 2**36)).solver == "dijkstra"


def test_the_searches_have_the_cutoff_of_the_run_in_the_unit_of_the_store(tmp_path, clock):
    (tmp_path / "edges.txt").write_text("1 2 1.5\n2 3 2.25\n")
    scaled = sp.ingest(tmp_path / "edges.txt", tmp_path / "scaled")
    assert scaled.manifest.weights.scale == 100
    batches = [np.array([0, 1], np.uint32)]
    solve = Solve(cutoff=3.5)
    measured_pace(Searches.of_run(scaled, solve, batches), solve, work(scaled, 2), ONE_CORE)
    assert [cutoff for _, cutoff in clock.calls] == [0.0, 350.0]


def test_a_search_that_fails_is_left_to_the_run(stored, clock, monkeypatch):
    def fails(*_):
        raise DeadlineError("delta-stepping", 1, 1.0)

    monkeypatch.setattr(type(SOLVERS["delta-stepping"]), "solve", fails)
    assert measured(stored, 100) is None


@pytest.mark.parametrize(
    ("solve", "n_sources", "machine", "is_measured"),
    [
        ({}, 10**6, ONE_CORE, True),
        ({}, 1000, ONE_CORE, False),  # far less than a second
        ({"solver": "dijkstra"}, 10**6, ONE_CORE, False),
        ({"hierarchy": "off"}, 10**6, ONE_CORE, False),
        ({"hierarchy": "build"}, 10**6, ONE_CORE, True),
        ({}, 10**6, Machine(1, 2**36), False),
    ],
)
def test_a_run_measures_only_what_its_choice_may_depend_on(
    stored, clock, solve, n_sources, machine, is_measured
):
    searches = Searches.of_run(stored, Solve(**solve), [np.arange(1000, dtype=np.uint32)])
    found = pace_of_run(searches, Solve(**solve), work(stored, n_sources), machine)
    assert (found is not None) == is_measured


def described(tmp_path, probe) -> dict:
    workflow: Workflow = workflow_from_dict(
        {
            "graph": {"input": "generated:grid?rows=40&cols=30&seed=3"},
            "sources": {"random": {"count": 100}},
            "output": {"path": str(tmp_path / "run")},
        }
    )
    return describe_plan(workflow, probe, Quiet())


def test_a_plan_expects_what_was_measured(tmp_path, monkeypatch):
    from sssp_pipeline.pipeline.run import plan_facts

    by_formula = described(tmp_path, 0)
    assert by_formula["measured"] is None
    monkeypatch.setattr(plan_facts, "measured_pace", lambda *_: Pace("delta-stepping", 7, 50.0))
    facts = described(tmp_path, 2)
    assert facts["measured"] == {"solver": "delta-stepping", "sources": 7, "pace": 50.0}
    assert facts["expected_s"] > 10 * by_formula["expected_s"]
