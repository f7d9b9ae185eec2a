"""Which workers of a Dask cluster get tasks, while some come and go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future

import pytest
from distributed import Client, get_worker

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.pipeline.solving.workers import dask_workers, worker_checks
from sssp_pipeline.pipeline.solving.workers.dask_workers import DaskWorkers
from sssp_pipeline.pipeline.solving.workers.memory import paused_workers
from sssp_pipeline.pipeline.solving.workers.needs import Needs
from sssp_pipeline.pipeline.solving.workers.worker_checks import WorkerCheck
from sssp_pipeline.workflow.cluster import Cluster

#: Seconds of two heartbeats of a worker.
HEARTBEATS_S = 1.0
NEEDS = Needs("store", "id", "run", "adds", 1, 1, 1)


@pytest.fixture
def local(monkeypatch, two_workers):
    """A cluster of two workers of two threads."""
    monkeypatch.setattr(dask_workers, "LOOK_S", 0.0)
    # Without a limit on the memory of this process, which has had other tests before.
    with two_workers(threads_per_worker=2, memory_limit=0) as cluster:
        yield cluster


def spec(**options) -> Cluster:
    return Cluster(kind="address", address="tcp://somewhere:1", **options)


def without_gpu(monkeypatch, *reasons: tuple[str, str | None]) -> None:
    """Let the workers at these addresses have no GPU, for these reasons."""
    reason_of = dict(reasons)
    monkeypatch.setattr(
        dask_workers,
        "check_workers",
        lambda client, workers, needs: {w: WorkerCheck(no_gpu=reason_of.get(w)) for w in workers},
    )

    def started(client, worker, needs):
        answer = Future()
        answer.set_result(WorkerCheck(no_gpu=reason_of.get(worker)))
        return answer

    monkeypatch.setattr(dask_workers, "start_check", started)


@pytest.fixture
def wait_for_workers(client, wait_until):
    """Give the function that waits until the scheduler has a number of workers."""
    return lambda count: wait_until(lambda: len(client.nthreads()) == count, 20)


def where(_: int) -> str:
    return get_worker().address


def where_slowly(_: int) -> str:
    time.sleep(0.05)
    return get_worker().address


def test_workers_that_are_left_out_get_no_task(client, monkeypatch):
    able, other = sorted(client.nthreads())
    without_gpu(monkeypatch, (other, "no driver"))
    workers = DaskWorkers(client, spec(), NEEDS)
    assert (workers.n_processes, workers.n_threads, workers.n_left_out, workers.in_flight) == (1, 2, 1, 4)
    assert {workers.submit(where, i).result(20) for i in range(8)} == {able}


@pytest.mark.parametrize("reason", [None, "no driver"])
def test_a_worker_that_joins_late_takes_work_if_it_is_usable(
    local, client, monkeypatch, wait_for_workers, reason
):
    first = set(client.nthreads())
    without_gpu(monkeypatch)
    workers = DaskWorkers(client, spec(), NEEDS)
    assert (workers.n_processes, workers.in_flight) == (2, 8)
    assert workers.watch() == []
    local.scale(3)
    wait_for_workers(3)
    (late,) = client.nthreads().keys() - first
    without_gpu(monkeypatch, (late, reason))
    assert workers.watch() == ["3 workers: 1 more" if reason is None else f"{late} is left out: no driver"]
    n_left_out = int(reason is not None)
    assert (workers.n_processes, workers.n_left_out) == (3 - n_left_out, n_left_out)
    assert workers.in_flight == 4 * workers.n_processes
    taken = {workers.submit(where, i).result(20) for i in range(24)}
    assert taken == first if reason else taken == first | {late}


def test_a_task_whose_workers_have_all_stopped_is_cancelled(client, monkeypatch, wait_for_workers):
    able, other = sorted(client.nthreads())
    without_gpu(monkeypatch, (other, "no driver"))
    workers = DaskWorkers(client, spec(wait_s=1), NEEDS)
    client.retire_workers([able])
    wait_for_workers(1)
    future = workers.submit(where, 0)
    assert workers.watch() == ["0 workers: 1 gone"]
    assert future.cancelled()
    assert workers.in_flight == 0
    with pytest.raises(SsspError, match=r"^there has been no worker for 1 s$"):
        seen(workers, lambda _: False)


def test_adaptive_clusters_get_tasks_for_the_workers_to_come(client):
    elastic = Cluster(
        kind="slurm", memory_limit="4GB", workers={"minimum": 1, "maximum": 10}, threads_per_worker=2
    )
    assert DaskWorkers(client, elastic).in_flight == 2 * 10 * 2


def seen(workers: DaskWorkers, done: Callable[[list[str]], bool]) -> list[str]:
    """Call `watch` until `done` with its lines, at most 20 s; return the lines."""
    lines, until = [], time.monotonic() + 20
    while not done(lines):
        assert time.monotonic() < until, lines
        lines += workers.watch()
        time.sleep(0.02)
    return lines


@pytest.mark.medium
@pytest.mark.parametrize("answers", [True, False])
def test_tasks_are_submitted_while_a_late_worker_is_checked(
    local, client, monkeypatch, tmp_path, wait_for_workers, answers
):
    """A worker that does not answer in time is left out."""
    first, is_asked = set(client.nthreads()), tmp_path / "asked"

    async def check(needs, dask_worker):
        while dask_worker.address not in first and not is_asked.exists():
            await asyncio.sleep(0.01)
        return WorkerCheck()

    monkeypatch.setattr(worker_checks, "_check_this_worker", check)
    monkeypatch.setattr(worker_checks, "ANSWER_S", 15 if answers else 0.5)
    workers = DaskWorkers(client, spec(), NEEDS)
    local.scale(3)
    wait_for_workers(3)
    (late,) = client.nthreads().keys() - first
    if answers:
        assert workers.watch() == workers.watch() == []
        assert {workers.submit(where, i).result(20) for i in range(8)} <= first
        is_asked.touch()
    expected = "3 workers: 1 more" if answers else f"{late} is left out: it has not answered in 0.5 s"
    assert seen(workers, bool) == [expected]
    is_asked.touch()
    taken = {workers.submit(where, i).result(20) for i in range(24)}
    assert taken == (first | {late} if answers else first)


def test_a_late_worker_that_goes_before_it_answers_is_forgotten(local, client, monkeypatch, wait_for_workers):
    without_gpu(monkeypatch)
    workers = DaskWorkers(client, spec(), NEEDS)
    answer: Future[WorkerCheck] = Future()
    monkeypatch.setattr(dask_workers, "start_check", lambda *_: answer)
    local.scale(3)
    wait_for_workers(3)
    assert workers.watch() == []
    local.scale(2)
    wait_for_workers(2)
    workers.watch()
    assert answer.cancelled()


@pytest.fixture
def limited(monkeypatch, two_workers):
    """A cluster of two workers of one thread with a memory limit; `uses` says what share of it each uses."""
    monkeypatch.setattr(dask_workers, "LOOK_S", 0.0)
    monkeypatch.setattr(dask_workers, "PAUSED_S", HEARTBEATS_S)
    with two_workers(threads_per_worker=1, memory_limit="4GB") as cluster:
        for worker in cluster.workers.values():
            uses(worker, 0.1)
        yield cluster


def uses(worker, share: float) -> None:
    worker.monitor.get_process_memory = lambda: int(share * worker.memory_manager.memory_limit)


@pytest.mark.medium
def test_a_task_that_waits_on_a_paused_worker_is_given_to_another(limited, monkeypatch, tmp_path, wait_until):
    paused, able = limited.workers.values()
    gate = tmp_path / "gate"

    def wait(_: int) -> str:
        while not gate.exists():
            time.sleep(0.01)
        return get_worker().address

    with Client(limited, set_as_default=False) as client:
        workers = DaskWorkers(client, spec())
        # Each worker runs one and has one to run next.
        futures = [workers.submit(wait, i) for i in range(4)]
        seen(workers, lambda _: paused.state.executing_count == 1 and len(paused.state.ready) == 1)
        uses(paused, 0.9)
        seen(workers, lambda _: paused.status.name == "paused")
        wait_until(lambda: any(worker.n_running for worker in paused_workers(client, 5).values()))
        monkeypatch.setattr(dask_workers, "PAUSED_S", 0.0)
        assert workers.watch() == []  # it still runs a task
        monkeypatch.setattr(dask_workers, "PAUSED_S", HEARTBEATS_S)
        gate.touch()
        assert seen(workers, bool) == [
            f"{paused.address} is paused by Dask: it uses 3,600 MB of its memory limit of 4,000 MB",
            "1 worker: 1 paused",
        ]
        assert workers.in_flight == 2
        (taken_back,) = [future for future in futures if future.cancelled()]
        futures.remove(taken_back)
        ran = sorted(future.result(20) for future in futures)
        assert ran == sorted([paused.address, able.address, able.address])
        assert {workers.submit(where, i).result(20) for i in range(4)} == {able.address}
        uses(paused, 0.1)
        assert seen(workers, bool) == ["2 workers: 1 more"]
        futures = [workers.submit(where_slowly, i) for i in range(8)]
        assert {future.result(20) for future in futures} == {paused.address, able.address}


@pytest.mark.medium
def test_where_all_stay_paused_the_error_names_memory(limited):
    first, second = sorted(limited.workers.values(), key=lambda worker: worker.address)
    with Client(limited, set_as_default=False) as client:
        workers = DaskWorkers(client, spec(wait_s=1))
        uses(first, 0.9)
        uses(second, 0.85)
        with pytest.raises(SsspError) as caught:
            seen(workers, lambda _: False)
    assert caught.value.exit_code == 1
    assert caught.value.message == (
        "Dask has paused 2 workers for lack of memory, and no other worker has joined in 1 s: "
        f"{first.address}: it uses 3,600 MB of its memory limit of 4,000 MB; "
        f"{second.address}: it uses 3,400 MB of its memory limit of 4,000 MB"
    )
    assert caught.value.hint == (
        "give the workers more memory, or restart them if other work fills it; then run the same command again"
    )
