"""How many tasks are under way; that they give the right bytes is seen in `test_run.py`."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sssp_pipeline.kernels.solver import SolveOptions
from sssp_pipeline.pipeline import scatter as scatter_stage
from sssp_pipeline.pipeline.distance_files import DistanceFormat
from sssp_pipeline.pipeline.scatter import SolveTask, TaskDone, scatter
from sssp_pipeline.pipeline.workers import Workers


def test_one_task_at_a_time_until_there_may_be_more(monkeypatch):
    done: list[int] = []
    done_when_asked_for: list[int] = []

    def tasks():
        for number in range(6):
            done_when_asked_for.append(len(done))
            batches = ((number, np.array([number], np.uint32)),)
            yield SolveTask(
                "store",
                "id",
                "run",
                batches,
                "adds",
                SolveOptions(),
                DistanceFormat("long", None, "none", False),
            )

    monkeypatch.setattr(scatter_stage, "solve_task", lambda task: TaskDone("adds", 1, 0.0, 0.0, 0.0, 0.0))
    with ThreadPoolExecutor(1) as executor:
        workers = Workers(executor, 0, 1, None, in_flight=3)
        failed = scatter(workers, tasks(), 0, lambda _: done.append(1), lambda: len(done) < 2)
    assert failed == {}
    assert done_when_asked_for[:5] == [0, 1, 2, 2, 2]
