"""What a task does besides solving."""

from __future__ import annotations

import threading

import pytest

from sssp_pipeline.pipeline.planning.machine import cpu_name
from sssp_pipeline.pipeline.solving import solve_task


@pytest.mark.parametrize(("found", "named"), [("H200, 570.1", "H200, 570.1"), (None, cpu_name())])
def test_the_name_of_the_gpu_is_asked_for_while_the_task_solves(monkeypatch, found, named):
    has_solved = threading.Event()

    def asked() -> str | None:
        assert has_solved.wait(60)
        return found

    monkeypatch.setattr(solve_task, "gpu_name", asked)
    device = solve_task._device("gpu")  # it does not wait
    has_solved.set()
    assert device() == device() == named


def test_no_gpu_is_asked_for_by_a_solver_on_the_cpu(monkeypatch):
    monkeypatch.setattr(solve_task, "gpu_name", lambda: pytest.fail("it asks"))
    assert solve_task._device("cpu")() == cpu_name()
