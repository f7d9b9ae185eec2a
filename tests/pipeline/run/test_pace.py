"""Searches of some sources show the pace before a run or in a plan, at a small share of the run's time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.csr import GraphTraits, HierarchyTraits
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work
from sssp_pipeline.pipeline.run import pace
from sssp_pipeline.pipeline.run.pace import Pace, Searches, measured_pace, pace_of_run, reach_of_run
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
        self.now_s, self.source_s, self.call_s, self.calls = 0.0, 1.0, 0.0, []

    def solve(self, graph, sources, options):
        self.now_s += self.call_s + self.source_s * len(sources)
        self.calls.append((len(sources), options.cutoff))


def work(stored, n_sources, batch=1):
    return Work(stored.manifest.traits, SolveOptions(), n_sources, batch)


def measured(stored, n_sources, solver="auto", machine=ONE_CORE, least_s=0.0, batch=1):
    sources = np.arange(min(n_sources, 1000), dtype=np.uint32)
    solve = Solve(solver=solver)
    searches = Searches.of_run(stored, solve, [sources])
    return measured_pace(searches, solve, work(stored, n_sources, batch), machine, least_s)


def test_the_pace_is_the_measured_time_over_the_forecast(stored, clock):
    expected_s = SOLVERS["delta-stepping"].forecast(stored.manifest.traits, 1).source_s
    found = measured(stored, 1000)
    assert found.pace == pytest.approx(1.0 / expected_s)
    paced = replace(stored.manifest.traits, pace=found.pace)
    assert SOLVERS["delta-stepping"].forecast(paced, 1).source_s == pytest.approx(1.0)
    assert clock.calls[0] == (1, 0.0)  # it loads the solver and is not counted


@pytest.mark.parametrize(
    ("n_sources", "least_s", "batch", "searched"),
    [
        (1000, 0.0, 1, 15),
        (1000, 0.0, 64, 15),  # 1 + 2 + 4 + 8
        (10_000, 0.0, 64, 127),
        (180, 0.0, 1, 2),
        (1, 9.0, 1, 1),
        (40, 9.0, 1, 9),
    ],
)
def test_measuring_takes_a_small_share_of_the_run_or_the_seconds_that_it_may_take(
    stored, clock, n_sources, least_s, batch, searched
):
    assert measured(stored, n_sources, least_s=least_s, batch=batch).sources == searched


@pytest.mark.parametrize(("batch", "source_s"), [(1, 11.0), (2, 6.0), (64, 1.15625)])
def test_the_cost_of_a_call_counts_as_often_as_a_run_makes_calls(stored, clock, batch, source_s):
    clock.call_s = 10.0
    found = measured(stored, 10**6, batch=batch)
    paced = replace(stored.manifest.traits, pace=found.pace)
    assert SOLVERS["delta-stepping"].forecast(paced, 1).source_s == pytest.approx(source_s)


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


GPU = Machine(2, 2**36)


def reach_of(stored, sources, n_sources=10**7, machine=GPU, solve=None):
    solve = solve or Solve()
    searches = Searches.of_run(stored, solve, [np.array(sources, np.uint32)] if len(sources) else [])
    return reach_of_run(searches, solve, work(stored, n_sources), machine)


def test_on_a_gpu_some_searches_show_how_far_sources_reach(tmp_path, monkeypatch):
    # Vertex i reaches those after it.
    (tmp_path / "edges.txt").write_text("".join(f"{i} {i + 1} 2\n" for i in range(99)))
    path = sp.ingest(tmp_path / "edges.txt", tmp_path / "path")
    assert reach_of(path, [80], n_sources=1000) == 1.0  # no hierarchy would pay
    monkeypatch.setattr(hierarchy, "why_not", lambda *_: None)
    assert reach_of(path, [0, 80]) == pytest.approx((1.0 + 0.2) / 2)
    assert reach_of(path, range(100)) == pytest.approx(0.5, abs=0.25)
    assert reach_of(path, [80], n_sources=1) == 1.0  # a search takes longer than it may
    assert reach_of(path, [80], machine=ONE_CORE) == 1.0  # the pace tells
    for solve in ({"solver": "adds-slots"}, {"hierarchy": "build"}):
        assert reach_of(path, [80], solve=Solve(**solve)) == 1.0
    assert reach_of(path, []) == 1.0


@pytest.fixture
def shares(stored, monkeypatch):
    """Have each search of a source reach the share of the vertices that the test writes to `shares[source]`."""
    found: dict[int, float] = {}
    searched = found[SEARCHED] = []

    def solve(self, graph, sources, options):
        if options.cutoff is None:
            searched.append(int(sources[0]))
        reached = found[int(sources[0])] * stored.manifest.n_vertices
        return SimpleNamespace(metrics=[SimpleNamespace(reached=reached)])

    monkeypatch.setattr(type(SOLVERS["delta-stepping"]), "solve", solve)
    return found


#: The key of `shares` for the sources that were searched.
SEARCHED = -1
#: All that a solver needs of a hierarchy is stored.
STORED = HierarchyTraits(100, 100, is_completed=True, is_customized=True)


def shares_of_run(stored, shares, known):
    """Return what `reach_of_run` returns for a run on a GPU with 16 sources; `known` is what the store has."""
    searches = Searches.of_run(stored, Solve(), [np.arange(16, dtype=np.uint32)])
    searches = replace(searches, hierarchy=lambda: known)
    return reach_of_run(searches, Solve(), work(stored, 10**7), GPU)


def choose_at(least_reach, monkeypatch):
    """Have `auto` take a hierarchy from this reach on; return this choice."""

    def choose(name, work, machine):
        assert name == "auto"
        return (SOLVERS["phast" if work.traits.reach >= least_reach else "dijkstra"],)

    monkeypatch.setattr(pace, "choose_solver", choose)
    return lambda reach: reach >= least_reach


@pytest.mark.parametrize(
    ("least_reach", "reaches", "n_searched"),
    [
        (0.0, 0.5, 0),  # a hierarchy is faster in any case
        (0.05, 1.0, 1),
        (0.1, 1.0, 2),
        (0.1, 0.0, 15),
        (0.95, 0.0, 1),
    ],
)
def test_no_source_is_searched_that_cannot_change_the_choice(
    stored, shares, monkeypatch, least_reach, reaches, n_searched
):
    choose_at(least_reach, monkeypatch)
    shares |= dict.fromkeys(range(16), reaches)
    shares_of_run(stored, shares, STORED)
    assert len(shares[SEARCHED]) == n_searched


def test_fewer_searches_choose_what_all_would(stored, shares, monkeypatch):
    rng = np.random.default_rng(5)
    n_searched = 0
    for _ in range(200):
        is_taken = choose_at(rng.random() ** 2, monkeypatch)
        some = rng.random(16) ** rng.choice([0.1, 1.0, 10.0]) * (rng.random(16) < rng.random())
        shares |= dict(enumerate(some.tolist()))
        del shares[SEARCHED][:]
        found = shares_of_run(stored, shares, STORED)
        n_searched += len(shares[SEARCHED])
        assert is_taken(found) == is_taken(some.mean())
    assert n_searched < 200 * 16 // 2


@pytest.mark.parametrize(("reaches", "n_searched"), [((1.0, 0.8), 4), ((0.2, 0.4), 16), ((0.0, 1.0), 16)])
def test_without_a_stored_hierarchy_few_sources_are_searched_if_they_reach_most_of_the_graph(
    stored, shares, monkeypatch, reaches, n_searched
):
    monkeypatch.setattr(hierarchy, "why_not", lambda *_: None)
    shares |= {source: reaches[source % 2] for source in range(16)}
    assert shares_of_run(stored, shares, None) == pytest.approx(np.mean(reaches), abs=0.1)
    assert len(shares[SEARCHED]) == n_searched


def test_where_sources_reach_little_no_hierarchy_pays():
    roads = GraphTraits(1_524_453, 3_868_020, np.dtype("uint32"), 1.0, 1000.0, 500.0, 1.14)
    whole = Work(roads, SolveOptions(kept=Nothing()), 1_000_000, 4096)
    assert hierarchy.why_not(whole, GPU, 2**40) is None
    with_s, without_s = hierarchy.expected_with_and_without(whole, GPU)
    little = whole.with_reach(0.01)
    shorter_s = GPU.gpu_start_s + (without_s - GPU.gpu_start_s) / 100
    assert hierarchy.expected_with_and_without(little, GPU) == (with_s, pytest.approx(shorter_s))
    assert hierarchy.why_not(little, GPU, 2**40).startswith(
        "making a hierarchy does not pay for 1,000,000 sources"
    )


def test_a_search_that_fails_tells_nothing_of_the_reach(stored, monkeypatch):
    def fails(*_):
        raise DeadlineError("delta-stepping", 1, 1.0)

    monkeypatch.setattr(hierarchy, "why_not", lambda *_: None)
    monkeypatch.setattr(type(SOLVERS["delta-stepping"]), "solve", fails)
    assert reach_of(stored, [5]) == 1.0


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
