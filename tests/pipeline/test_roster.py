"""Which workers of a Dask cluster get tasks, while some come and go."""

from __future__ import annotations

import time

import pytest
from distributed import Client, LocalCluster, get_worker

from sssp_pipeline.errors import SsspError
from sssp_pipeline.pipeline import roster
from sssp_pipeline.pipeline.preflight import Fitness, Needs
from sssp_pipeline.pipeline.roster import DaskWorkers
from sssp_pipeline.pipeline.workers import Demands
from sssp_pipeline.workflow_cluster import Cluster

NEEDS = Needs(Demands("store", "id", "run", "adds"), 1, 1)


@pytest.fixture
def local(monkeypatch):
    """A cluster of two workers of two threads; only those called `able…` are fit, as 0 and 1 are not."""
    monkeypatch.setattr(roster, "LOOK_S", 0.0)
    with LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        processes=False,
        memory_limit=0,  # of this process, which has had other tests before
        dashboard_address="127.0.0.1:0",
    ) as cluster:
        yield cluster


@pytest.fixture
def client(local):
    with Client(local, set_as_default=False) as client:
        yield client


def spec(client, **options) -> Cluster:
    return Cluster(kind="address", address="tcp://somewhere:1", **options)


def unfit(monkeypatch, *reasons: tuple[str, str]) -> None:
    """Let the workers at these addresses have no GPU, for these reasons."""
    told = dict(reasons)
    monkeypatch.setattr(
        roster, "fitness", lambda client, workers, needs: {w: Fitness(no_gpu=told.get(w)) for w in workers}
    )


def there(client: Client, count: int) -> None:
    """Wait until the scheduler has so many workers."""
    until = time.monotonic() + 20
    while len(client.nthreads()) != count:
        assert time.monotonic() < until
        time.sleep(0.02)


def where(_: int) -> str:
    return get_worker().address


def test_workers_that_are_left_aside_get_no_task(client, monkeypatch):
    able, aside = sorted(client.nthreads())
    unfit(monkeypatch, (aside, "no driver"))
    workers = DaskWorkers(client, spec(client), NEEDS)
    assert (workers.n_processes, workers.n_threads, workers.n_aside, workers.in_flight) == (1, 2, 1, 4)
    assert {workers.submit(where, i).result(20) for i in range(8)} == {able}


def test_a_worker_that_joins_late_takes_work_if_it_is_fit(local, client, monkeypatch):
    unfit(monkeypatch)
    workers = DaskWorkers(client, spec(client), NEEDS)
    assert (workers.n_processes, workers.in_flight) == (2, 8)
    assert workers.tend() == []
    local.scale(3)
    there(client, 3)
    assert workers.tend() == ["3 workers: 1 more"]
    assert workers.in_flight == 12
    assert {workers.submit(where, i).result(20) for i in range(24)} == set(client.nthreads())


def test_a_worker_that_joins_late_is_left_aside_if_it_is_not_fit(local, client, monkeypatch):
    first = set(client.nthreads())
    unfit(monkeypatch)
    workers = DaskWorkers(client, spec(client), NEEDS)
    local.scale(3)
    there(client, 3)
    (late,) = client.nthreads().keys() - first
    unfit(monkeypatch, (late, "no driver"))
    assert workers.tend() == [f"{late} is left aside: no driver"]
    assert (workers.n_processes, workers.n_aside) == (2, 1)
    assert {workers.submit(where, i).result(20) for i in range(24)} <= first


def test_a_task_that_may_run_only_where_nobody_is_comes_back(client, monkeypatch):
    able, aside = sorted(client.nthreads())
    unfit(monkeypatch, (aside, "no driver"))
    workers = DaskWorkers(client, spec(client, wait_s=1), NEEDS)
    client.retire_workers([able])
    there(client, 1)
    future = workers.submit(where, 0)
    assert workers.tend() == ["0 workers: 1 gone"]
    assert future.cancelled()
    assert workers.in_flight == 0
    time.sleep(1.1)
    with pytest.raises(SsspError, match=r"^no worker has been there for 1 s$"):
        workers.tend()


def test_what_was_under_way_comes_back_where_nobody_is_left(client, monkeypatch):
    """It may have been sent to a scheduler that is gone, while another one takes its place."""
    unfit(monkeypatch)
    workers = DaskWorkers(client, spec(client), NEEDS)
    future = workers.submit(time.sleep, 0.5)
    monkeypatch.setattr(workers, "_there", lambda: {"tcp://new:1": 3})
    assert workers.tend() == ["1 worker: 1 more, 2 gone"]
    assert future.cancelled()
    assert workers.in_flight == 6


def test_adaptive_clusters_get_tasks_for_the_workers_to_come(client):
    elastic = Cluster(
        kind="slurm", memory_limit="4GB", workers={"minimum": 1, "maximum": 10}, threads_per_worker=2
    )
    assert DaskWorkers(client, elastic).in_flight == 2 * 10 * 2
