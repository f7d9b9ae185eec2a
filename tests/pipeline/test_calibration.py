"""A solver gives way to another when a call shows that the plan was wrong."""

import numpy as np
import pytest

from sssp_pipeline.csr import GraphTraits
from sssp_pipeline.kernels import forecast
from sssp_pipeline.pipeline.calibration import Calibration
from sssp_pipeline.pipeline.hardware import Machine
from sssp_pipeline.pipeline.plan import make_plan
from sssp_pipeline.workflow import Output, Solve

ROADS = GraphTraits(1_000_000, 2_500_000, np.dtype("uint32"), 1.0, 9.0, 5.0, 1.1)
MANY = 10**6


@pytest.fixture
def calibration():
    """Return what makes one for many sources on a GPU, of which only metrics are kept."""

    def make(solver="auto", targets=0, cores=16):
        machine = Machine(cores, gpu_free_bytes=139 * 2**30)
        kept = None if targets is None else np.arange(targets, dtype=np.uint32)
        plan = make_plan(ROADS, np.arange(MANY), Solve(solver=solver), Output(path="x"), machine, kept)
        return Calibration(plan)

    return make


def test_a_forecast_that_holds_changes_nothing(calibration):
    made = calibration()
    reason = made.reason
    assert (made.solver, made.is_done) == ("adds-slots", False)
    assert made.learn("adds-slots", 1e-4, MANY) is None
    assert (made.solver, made.reason, made.is_done) == ("adds-slots", reason, True)


def test_the_next_best_takes_over_and_gives_way_again(calibration):
    made = calibration()
    seconds = {name: forecast.forecast(name, ROADS, 4096).source_s for name in ("adds", "near-far")}
    assert made.learn("adds-slots", 0.1, MANY) == (
        f"adds-slots took 100 ms a source, not {1e3 * forecast.forecast('adds-slots', ROADS, 4096).source_s:.3g}: "
        f"on with near-far, {1e3 * seconds['near-far']:.3g} ms expected"
    )
    assert (made.solver, made.is_done) == ("near-far", False)
    assert made.learn("adds-slots", 0.1, MANY) is None  # from before the change
    assert made.learn("near-far", 1.0, MANY).endswith(
        f"on with adds, {1e3 * seconds['adds']:.3g} ms expected"
    )
    assert made.learn("adds", 0.5, MANY).startswith(
        "adds took 500 ms a source, not 3.48: on with adds-lanes, "
    )
    assert made.learn("adds-lanes", 0.5, MANY).endswith(": on with adds-slots, 100 ms")
    assert made.is_done
    assert made.reason.count("took") == 4


def test_a_call_from_before_a_change_may_show_that_the_change_was_wrong(calibration):
    made = calibration()
    assert made.learn("adds-slots", 0.1, MANY).endswith(" ms expected")
    assert made.solver == "near-far"
    expected_ms = 1e3 * forecast.forecast("near-far", ROADS, 4096).source_s
    assert made.learn("adds-slots", 1e-4, MANY) == (
        f"adds-slots took 0.1 ms a source: back from near-far, {expected_ms:.3g} ms expected"
    )
    assert made.solver == "adds-slots"


def test_a_change_has_to_save_more_than_it_costs(calibration):
    made = calibration()
    assert made.learn("adds-slots", 0.1, 9) is None  # 0.9 s at most
    near_far_s = forecast.forecast("near-far", ROADS, 4096).source_s
    assert made.learn("adds-slots", 1.2 * near_far_s, MANY) is None
    assert made.learn("adds-slots", 1.3 * near_far_s, MANY) is not None


def test_no_change_where_writing_takes_longer(calibration):
    # A row takes two cores 9 ms to write, and near-far 3 ms to solve.
    assert calibration(targets=None, cores=2).learn("adds-slots", 8e-3, MANY) is None
    assert calibration(targets=0, cores=2).learn("adds-slots", 8e-3, MANY) is not None


def test_a_solver_that_was_asked_for_stays(calibration):
    made = calibration("adds-slots")
    assert made.is_done
    assert made.learn("adds-slots", 100.0, MANY) is None
    assert (made.solver, made.reason) == ("adds-slots", "asked for")
