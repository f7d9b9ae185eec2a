"""The solvers that may be the fastest are measured by the first calls of a run, and the fastest gets the rest."""

from dataclasses import replace

import numpy as np
import pytest

from sssp_pipeline.base.csr import GraphTraits, HierarchyTraits
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.plan import BATCH_S, RUN_S, make_plan
from sssp_pipeline.pipeline.planning.work import cut
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.outputs.distance_outputs import AllDistances
from sssp_pipeline.pipeline.results.outputs.metrics_output import MetricsAlone
from sssp_pipeline.pipeline.solving.trials import Call, Trials
from sssp_pipeline.workflow.models import Solve

METRICS = MetricsAlone(DistanceFormat("long", None, "none", predecessors=False))
GPU = Machine(16, gpu_free_bytes=139 * 2**30)
ROADS = GraphTraits(1_000_000, 2_500_000, np.dtype("uint32"), 1.0, 9.0, 5.0, 1.1)
RANDOM = GraphTraits(1_048_576, 16_777_216, np.dtype("uint32"), 1.0, 9.0, 5.0, 1.1)


def planned(traits=ROADS, n_sources=10_000, solver="auto", machine=GPU, metrics_alone=True):
    sources, solve = np.arange(n_sources, dtype=np.uint32), Solve(solver=solver)
    output = METRICS if metrics_alone else AllDistances(METRICS.form)
    return make_plan(traits, cut(traits, sources, solve, output.kept), solve, output, machine)


def expected_s(solver, plan, n_sources):
    return SOLVERS[solver].forecast(plan.work.traits, n_sources).source_s


def solved(plan, true_s):
    """Return the solver of each call, what the calls take one after the other, and the trials.

    `true_s(solver, n)` is what a source takes in a call of n.
    """
    trials = Trials(plan, plan.batches_per_call)
    n_left, took_s, names = plan.work.n_sources, 0.0, []
    while n_left:
        call = trials.next_call(n_left)
        n = min(call.n_batches * plan.work.batch, n_left)
        took_s += 0 if call.solver in names else 0.03  # to load its kernels
        names.append(call.solver)
        forecast = SOLVERS[call.solver].forecast(plan.work.traits, n)
        search_s = true_s(call.solver, n) * min(n, forecast.at_once, forecast.most_in_search)
        if call.limit_s is not None and search_s > call.limit_s:
            took_s += call.limit_s
            trials.end(call.solver)
            continue
        n_left -= n
        took_s += n * true_s(call.solver, n)
        trials.learn(call.solver, true_s(call.solver, n), n)
    return names, took_s, trials


def times_the_forecast(plan, **factors):
    """Return `true_s` of `solved`: the forecast of a solver times its factor, 1 where none is given."""
    return lambda solver, n: factors.get(solver.replace("-", "_"), 1.0) * expected_s(solver, plan, n)


def test_calls_do_not_wait_for_trials_that_can_save_nothing():
    plan = planned(ROADS, metrics_alone=False)  # writing takes longer than any solver
    trials = Trials(plan, plan.batches_per_call)
    assert not trials.is_worth_waiting
    assert trials.next_call(10_000) == Call("adds-slots", plan.batches_per_call)


def test_the_first_call_is_a_small_one_and_its_solver_is_measured_before_another():
    plan = planned(RANDOM)
    trials = Trials(plan, plan.batches_per_call)
    first = trials.next_call(10_000)
    assert first == Call("adds-slots", 2)  # of 64 batches
    full = Call("adds-slots", plan.batches_per_call)
    assert trials.next_call(9_000) == full  # for another worker, meanwhile
    assert not trials.is_done
    trials.learn("adds-slots", 10 * expected_s("adds-slots", plan, 600), 600)
    trial = trials.next_call(8_000)
    assert trial.solver != "adds-slots"
    assert trial.limit_s > 0
    assert trials.next_call(7_000) == full  # one trial at a time


def test_a_short_run_has_no_small_call_and_no_trial():
    plan = planned(n_sources=303)
    names, _, trials = solved(plan, times_the_forecast(plan))
    assert set(names) == {"adds-slots"}
    assert len(names) == 1 + len(plan.batches) // plan.batches_per_call  # the last has fewer sources
    assert trials.is_done
    assert trials.reason == plan.solver_reason


def test_a_solver_stays_that_was_asked_for_or_whose_time_is_that_of_writing():
    two_cores = Machine(2, GPU.gpu_free_bytes)  # they take 9 ms to write a row
    for plan in (planned(solver="adds-slots"), planned(metrics_alone=False, machine=two_cores)):
        names, _, trials = solved(plan, times_the_forecast(plan, adds_slots=10.0))
        assert set(names) == {"adds-slots"}
        assert trials.reason == plan.solver_reason


def test_the_fastest_gets_the_rest():
    plan = planned(RANDOM)
    names, _, trials = solved(plan, times_the_forecast(plan, adds_lanes=1 / 180))
    assert (plan.solver, trials.solver, names[-1]) == ("adds-slots", "adds-lanes", "adds-lanes")
    assert "; adds-lanes took 0." in trials.reason
    assert trials.reason.endswith(": adds-lanes takes the rest")


def test_a_trial_that_takes_too_long_is_ended_and_changes_nothing():
    plan = planned(RANDOM, 100_000)
    names, _, trials = solved(plan, times_the_forecast(plan, adds_lanes=50.0))
    assert names.count("adds-lanes") == 1
    assert (trials.solver, trials.reason) == (plan.solver, plan.solver_reason)
    assert trials.is_done


def test_a_search_is_not_taken_for_faster_because_its_sources_reach_little():
    plan = planned(RANDOM)
    trials = Trials(plan, plan.batches_per_call)
    trials.next_call(10_000)
    slow_s = 10 * expected_s("adds-slots", plan, 600)
    trials.learn("adds-slots", slow_s, 600)
    # It takes twice as long, and has sources that reach a tenth.
    assert trials.learn("near-far", 0.1 * 2 * slow_s, 600, reach=0.1) is None
    assert trials.solver == "adds-slots"
    # A call that goes through the graph for all its sources takes as long, whatever they reach.
    assert trials.learn("adds-lanes", 0.2 * slow_s, 600, reach=0.1)
    assert trials.solver == "adds-lanes"


def test_a_later_call_may_show_that_the_other_is_faster_after_all():
    plan = planned()
    trials = Trials(plan, plan.batches_per_call)
    trials.next_call(10_000)
    trials.learn("adds-slots", 1.0, 600)
    rival = trials.next_call(9_000)
    full = plan.batches_per_call * plan.work.batch
    of_full = expected_s(rival.solver, plan, 64) / expected_s(rival.solver, plan, full)
    assert trials.learn(rival.solver, 0.5 * of_full, 64)
    assert trials.solver == rival.solver
    assert trials.learn(rival.solver, 2.0, full).endswith(": adds-slots takes the rest")
    assert trials.solver == "adds-slots"


@pytest.mark.medium
@pytest.mark.parametrize(
    ("run_s", "mean", "most"), [(1.0, 1.15, 1.4), (10.0, 1.03, 1.3), (100.0, 1.01, 1.08)]
)
@pytest.mark.parametrize("traits", [ROADS, RANDOM], ids=["roads", "random"])
def test_whatever_the_forecasts_are_wrong_by_little_is_lost(run_s, mean, most, traits):
    """Each solver takes what its forecast says it may: `off_by` times as long at most, or as short."""
    # What needs a hierarchy is not taken without one, and what takes equal weights only not for others.
    on_gpu = [
        name
        for name, solver in SOLVERS.items()
        if solver.device == "gpu" and not solver.uses_hierarchy and not solver.takes_equal_only
    ]
    times = []
    for seed in range(40):
        draws = np.random.default_rng(seed)
        factors = {name: SOLVERS[name].forecast(traits, 1).off_by ** draws.uniform(-1, 1) for name in on_gpu}

        def true_s(solver, n, factors=factors):
            return factors[solver] * SOLVERS[solver].forecast(traits, n).source_s

        plan = planned(traits, int(run_s / min(true_s(name, 1024) for name in on_gpu)))
        names, took_s, _ = solved(plan, true_s)
        full = plan.batches_per_call * plan.work.batch
        best_s = plan.work.n_sources * min(true_s(name, full) for name in on_gpu)
        times.append((took_s - 0.03 * len(set(names))) / best_s)
    assert np.mean(times) < mean
    assert max(times) < most


# ---- searches on the CPU, and a hierarchy ----

CPU = Machine(2, None)
#: Roads whose hierarchy is stored. A sweep is expected to take a tenth of the time of a search.
STORED = replace(ROADS, hierarchy=HierarchyTraits(5_000_000, 40_000_000, True, True))


def test_a_hierarchy_that_turns_out_slow_is_left():
    plan = planned(STORED, machine=CPU)
    assert plan.solver == "phast"
    names, _, trials = solved(plan, times_the_forecast(plan, phast=100.0))
    assert trials.solver == names[-1] == "delta-stepping"
    assert trials.reason.endswith(": delta-stepping takes the rest")
    names, *_ = solved(plan, times_the_forecast(plan))
    assert set(names) == {"phast"}


def test_a_search_that_turns_out_slow_is_left_for_a_hierarchy():
    plan = planned(STORED, machine=CPU)
    plan = replace(plan, solver="delta-stepping", others=("phast", "dijkstra"))
    names, *_ = solved(plan, times_the_forecast(plan, delta_stepping=3.0, dijkstra=3.0))
    assert names[-1] == "phast"


@pytest.mark.parametrize("times", [1 / 35, 35.0])
def test_a_measured_search_corrects_the_forecasts_of_the_others(times):
    plan = planned(ROADS, machine=CPU)
    assert (plan.solver, plan.others[0]) == ("delta-stepping", "dijkstra")
    names, _, trials = solved(plan, times_the_forecast(plan, delta_stepping=times, dijkstra=times))
    # Against its own forecast, delta-stepping is 35 times as slow: dijkstra would seem far faster.
    assert set(names) == {"delta-stepping"}
    assert trials.left_s(10_000) == pytest.approx(times * Trials(plan, 1).left_s(10_000))


def test_the_time_left_is_that_of_the_forecast_until_a_call_is_measured():
    plan = planned(ROADS, machine=CPU)
    trials = Trials(plan, plan.batches_per_call)
    solving_s = plan.expected_s - RUN_S - BATCH_S * len(plan.batches)
    assert trials.left_s(plan.work.n_sources) == pytest.approx(solving_s)
    trials.learn("delta-stepping", 3 * expected_s("delta-stepping", plan, 10), 10)
    assert trials.left_s(5000) == pytest.approx(1.5 * solving_s)
