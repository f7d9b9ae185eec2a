"""What becomes of tasks that fail, and of those beside them; the right bytes are a matter of `test_run.py`."""

from __future__ import annotations

import os
import pickle
import platform
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from sssp_pipeline.base import interrupts
from sssp_pipeline.base.errors import InputError, StoreUnavailableError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs.distance_outputs import AllDistances
from sssp_pipeline.pipeline.solving import dispatch as scatter_stage
from sssp_pipeline.pipeline.solving.dispatch import scatter
from sssp_pipeline.pipeline.solving.solve_task import SolveTask
from sssp_pipeline.pipeline.solving.task import TaskDone
from sssp_pipeline.pipeline.solving.workers.local import WorkerThreads
from sssp_pipeline.workflow.graph import Graph

OUTPUT = AllDistances(DistanceFormat("long", None, "none", False))


def task(number: int) -> SolveTask:
    batches = ((number, np.array([number], np.uint32)),)
    return SolveTask("store", "id", "run", {}, batches, "adds", SolveOptions(), OUTPUT)


DONE = TaskDone("adds", (0,), "worker", 1, 0.0, 0.0, n_sources=1)


def test_a_task_arrives_as_it_was_sent_and_is_small():
    batches = tuple((number, np.arange(number % 3, dtype=np.uint32)) for number in range(900, 1000))
    sent = replace(task(0), batches=batches, attempt=2)
    packed = pickle.dumps(sent)
    arrived = pickle.loads(packed)
    assert len(packed) < 3000
    assert [number for number, _ in arrived.batches] == list(range(900, 1000))
    for (_, ours), (_, theirs) in zip(batches, arrived.batches, strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
    assert (arrived.store, arrived.output.form, arrived.attempt) == (sent.store, sent.output.form, 2)


class Died(Exception):
    """A worker has died under a task."""


class Fake:
    """Workers of which `outcome(task, others)` tells what becomes of a task beside the `others` under way.

    It gives None, an error, or "lost". Tasks end in the order in which they were submitted, one at each look.
    """

    n_processes = n_threads = 1
    n_left_out = 0
    dashboard = None

    def __init__(self, outcome: Callable, in_flight: int = 4) -> None:
        self.outcome, self.in_flight = outcome, in_flight
        self.under_way: list[tuple[SolveTask, Future]] = []
        self.submitted: list[tuple[int, int]] = []

    def submit(self, _, task: SolveTask) -> Future:
        self.under_way.append((task, future := Future()))
        self.submitted.append((task.batches[0][0], task.attempt))
        return future

    def deaths(self, error: BaseException) -> int:
        return int(isinstance(error, Died))

    def watch(self) -> list[str]:
        if self.under_way:
            task, future = self.under_way.pop(0)
            result = self.outcome(task, [other for other, _ in self.under_way])
            if result == "lost":
                future.cancel()
            elif result is None:
                future.set_result(DONE)
            else:
                future.set_exception(result)
        return ["looked"]


def test_what_a_worker_tells_of_a_task_of_several_batches(tmp_path):
    store, folder = str(tmp_path / "graph"), RunFolder(str(tmp_path / "run"))
    grid = Graph(input="generated:grid?rows=9&cols=9&seed=1", store=store)
    manifest = ingest(grid, store, Quiet())[0].first
    batches = ((4, np.arange(5, dtype=np.uint32)), (7, np.array([60], np.uint32)))
    folder.begin(identity := {"sources": "all"})
    graph = store, manifest.content_id
    given = SolveTask(*graph, folder.url, identity, batches, "dijkstra", SolveOptions(), OUTPUT, attempt=2)
    done = scatter_stage.solve_task(given)
    stored = sorted(tmp_path.glob("run/_run/*.commit"))
    paths = [*tmp_path.glob("run/distances/*.parquet"), *stored]
    assert len(paths) == 4
    metrics = [m for batch in (4, 7) for m in folder.batch_metrics(batch).metrics]
    assert (done.batches, done.n_sources, done.attempt) == ((4, 7), 6, 2)
    assert done.source_s == pytest.approx(np.mean([m.solve_s for m in metrics]))
    assert done.n_bytes == sum(path.stat().st_size for path in paths)
    assert done.worker == f"{platform.node()}:{os.getpid()}"


def number(task: SolveTask) -> int:
    return task.batches[0][0]


def test_a_batch_that_kills_three_workers_is_given_up_and_no_other(listener):
    dead = []

    def outcome(given, others):
        if number(given) == 3:
            dead.append([number(other) for other in others])
            return Died()
        return None

    workers, heard = Fake(outcome), listener()
    failed = scatter(workers, map(task, range(20)), 0, lambda _: None, heard)
    assert failed == {3: "3 workers died under it"}
    assert len(dead) == 3
    assert {n for n, _ in workers.submitted} == set(range(20))
    assert [attempt for n, attempt in workers.submitted if n == 3] == [1, 2, 3]
    assert set(heard.said.pop("cluster")) == {"looked"}
    assert heard.said == {
        "retry": [f"batch 3 failed at attempt {n} and will be tried again: its worker died" for n in (1, 2)],
        "set_aside": ["batch 3 failed at attempt 3 and is set aside: 3 workers died under it"],
    }


def test_what_was_beside_a_killer_is_not_blamed():
    """A death ends all that is on the worker; the killer is found by giving out one suspect at a time."""
    dying = []

    def outcome(given, others):
        if number(given) in dying:
            dying.remove(number(given))
            return Died()
        if number(given) == 3:
            dying.extend(number(other) for other in others)
            return Died()
        return None

    workers = Fake(outcome, in_flight=6)
    failed = scatter(workers, map(task, range(12)), 0, lambda _: None)
    assert failed == {3: "3 workers died under it"}


def test_a_death_that_already_counts_for_several_still_leaves_a_chance_alone():
    """A scheduler of others tells of a death only after the fourth."""

    class Others(Fake):
        def deaths(self, error):
            return 4

    died = []

    def outcome(given, others):
        if number(given) == 1 and not died:
            died.append(1)
            return Died()
        return None

    assert scatter(Others(outcome), map(task, range(4)), 0, lambda _: None) == {}


def test_errors_count_apart_from_deaths():
    fates = iter([Died(), OSError("first"), OSError("second"), OSError("third")])
    workers = Fake(lambda given, others: next(fates))
    assert scatter(workers, [task(0)], 2, lambda _: None) == {0: "third"}
    assert workers.submitted == [(0, 1), (0, 2), (0, 3), (0, 4)]


def test_what_is_lost_with_its_workers_is_given_out_again(listener):
    fates = iter(["lost", "lost", None])
    workers, done, heard = Fake(lambda given, others: next(fates)), [], listener()
    assert scatter(workers, [task(0)], 0, done.append, heard) == {}
    lost = "batch 0 failed at attempt 1 and will be tried again: its worker stopped or is paused"
    assert heard.said["retry"] == [lost] * 2
    assert workers.submitted == [(0, 1)] * 3
    assert done == [DONE]


def test_nothing_is_given_up_while_nobody_is_there(monkeypatch):
    monkeypatch.setattr(scatter_stage, "_WATCH_S", 0.01)
    workers = Fake(lambda given, others: None, in_flight=0)
    threading.Timer(0.1, lambda: setattr(workers, "in_flight", 1)).start()
    done = []
    assert scatter(workers, map(task, range(3)), 0, done.append) == {}
    assert len(done) == 3


def test_an_input_error_ends_it_when_what_is_under_way_has_ended():
    done = []
    workers = Fake(lambda given, others: InputError("bad") if number(given) == 1 else None)
    with pytest.raises(InputError, match="bad"):
        scatter(workers, map(task, range(100)), 0, done.append)
    assert len(workers.submitted) == 5  # the first left room for one more
    assert len(done) == 4


def test_an_interrupt_that_was_lost_ends_it():
    def outcome(given, others):
        if number(given) == 1:
            with suppress(KeyboardInterrupt):  # as Python does in a finaliser
                interrupts.press(signal.SIGINT, None)

    workers = Fake(outcome)
    with pytest.raises(KeyboardInterrupt):
        scatter(workers, map(task, range(100)), 1, lambda _: None)
    assert len(workers.submitted) < 10
    interrupts.check()  # it is told once


def test_a_store_that_stays_away_ends_it():
    workers = Fake(lambda given, others: StoreUnavailableError("away"))
    with pytest.raises(StoreUnavailableError, match="away"):
        scatter(workers, map(task, range(100)), 1, lambda _: None)
    assert len({n for n, _ in workers.submitted}) < 10


def test_one_task_at_a_time_until_there_may_be_more(monkeypatch):
    done: list[int] = []
    done_when_asked_for: list[int] = []

    def tasks():
        for number in range(6):
            done_when_asked_for.append(len(done))
            yield task(number)

    monkeypatch.setattr(scatter_stage, "solve_task", lambda task: DONE)
    with ThreadPoolExecutor(1) as executor:
        workers = WorkerThreads(executor, 1, in_flight=3)
        failed = scatter(workers, tasks(), 0, lambda _: done.append(1), one_by_one=lambda: len(done) < 2)
    assert failed == {}
    assert done_when_asked_for[:5] == [0, 1, 2, 2, 2]
