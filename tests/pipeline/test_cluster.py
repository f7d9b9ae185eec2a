"""What is asked of the workers of a cluster before they get work."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from sssp_pipeline import __version__
from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import cluster as cluster_module
from sssp_pipeline.pipeline.cluster import able_workers
from sssp_pipeline.pipeline.ingest import ingest
from sssp_pipeline.pipeline.progress import Quiet
from sssp_pipeline.pipeline.results import RunFolder
from sssp_pipeline.pipeline.workers import Demands, Load, hire
from sssp_pipeline.workflow import Cluster, Graph

MB = 10**6


@pytest.fixture(scope="module")
def client():
    """Two workers of two threads in this process, so that they see what a test patches."""
    local = LocalCluster(
        n_workers=2,
        threads_per_worker=2,
        processes=False,
        memory_limit="1GB",
        dashboard_address="127.0.0.1:0",
    )
    with local, Client(local, set_as_default=False) as client:
        yield client


@pytest.fixture
def demands(tmp_path) -> Demands:
    """A stored graph and a run that has begun."""
    store, run = str(tmp_path / "graph"), str(tmp_path / "run")
    manifest, _ = ingest(Graph(input="generated:grid?rows=3&cols=4&seed=1", store=store), store, Quiet())
    RunFolder(run).begin({})
    return Demands(store, manifest.content_id, run, "delta-stepping")


def test_workers_that_can_do_it_all_take_part(client, demands):
    able, n_aside = able_workers(client, demands, 10 * MB, MB)
    assert (able, n_aside) == (sorted(client.nthreads()), 0)
    assert not list(Path(demands.run).glob(".sssp-partial-*"))


@pytest.mark.parametrize(
    ("make_unfit", "reason"),
    [
        (lambda d: shutil.rmtree(d.store), "`{store}` is not a graph store: it has no manifest.json"),
        (lambda d: replace(d, content_id="0123"), "`{store}` holds another graph there"),
        (lambda d: shutil.rmtree(d.run), "`{run}` is another folder there: storage must be shared"),
    ],
)
def test_all_workers_that_cannot_are_named_with_the_reason(client, demands, make_unfit, reason):
    changed = make_unfit(demands)
    demands = changed if isinstance(changed, Demands) else demands
    with pytest.raises(InputError) as caught:
        able_workers(client, demands, 10 * MB, MB)
    first, second = sorted(client.nthreads())
    expected = reason.format(store=demands.store, run=demands.run)
    assert caught.value.message.startswith(f"2 of 2 workers cannot take part: {first}: {expected}")
    assert f"; {second}: {expected}" in caught.value.message
    assert caught.value.hint


def test_a_worker_keeps_graphs_in_what_its_limit_leaves_beside_the_batches(client, demands, monkeypatch):
    told: list[int] = []
    monkeypatch.setattr(cluster_module, "keep_within", told.append)
    able_workers(client, demands, 10 * MB, 50 * MB)
    assert told == [500 * MB] * 2  # of 1,000, less 2 threads of 50 and the 400 of a worker


def test_a_worker_without_room_is_named(client, demands):
    with pytest.raises(InputError) as caught:
        able_workers(client, demands, 500 * MB, 100 * MB)
    assert "its memory limit is 1,000 MB, and with 2 threads it needs 1,100 MB" in caught.value.message


def test_workers_of_another_release_are_named(client, demands, monkeypatch):
    first, second = sorted(client.nthreads())

    def release(dask_worker):
        if dask_worker.address == second:
            raise ModuleNotFoundError("No module named 'sssp_pipeline'")
        return "0.0.1"

    monkeypatch.setattr(cluster_module, "_release", release)
    with pytest.raises(InputError) as caught:
        able_workers(client, demands, MB, MB)
    assert caught.value.message == (
        f"2 of 2 workers cannot take part: {first}: it runs sssp-pipeline 0.0.1, this is {__version__}; "
        f"{second}: it cannot run sssp-pipeline: No module named 'sssp_pipeline'"
    )


def test_a_worker_that_breaks_is_named(client, demands, monkeypatch):
    monkeypatch.setattr(cluster_module, "read_manifest", lambda store: 1 / 0)
    with pytest.raises(InputError, match=r"2 of 2 workers cannot take part: .*division by zero"):
        able_workers(client, demands, MB, MB)


def test_where_no_worker_has_a_gpu_that_is_said_at_once(client, demands, monkeypatch):
    monkeypatch.setattr(cluster_module, "gpu_missing", lambda: "no NVIDIA driver")
    with pytest.raises(InputError) as caught:
        able_workers(client, replace(demands, solver="adds"), MB, MB)
    first, second = sorted(client.nthreads())
    assert caught.value.message == (
        f"solver `adds` needs a GPU, and no worker has one: {first}: no NVIDIA driver; {second}: no NVIDIA driver"
    )


def test_workers_without_a_gpu_get_no_task_that_needs_one(client, demands, monkeypatch):
    with_gpu, without = sorted(client.nthreads())
    monkeypatch.setattr(
        cluster_module,
        "_faults",
        lambda *_, dask_worker: (None, None if dask_worker.address == with_gpu else "none"),
    )
    load = Load(n_batches=8, graph_bytes=MB, batch_bytes=MB, together=1, on_gpu=True)
    spec = Cluster(kind="address", address=client.scheduler.address)
    with hire(spec, load, replace(demands, solver="adds")) as workers:
        assert (workers.n_processes, workers.n_threads, workers.n_aside) == (1, 2, 1)
        assert {workers.executor.submit(_where, i).result() for i in range(8)} == {with_gpu}
    assert without in client.nthreads()


def _where(_: int) -> str:
    from distributed import get_worker

    return get_worker().address
