"""What is asked of the workers of a cluster before they get work."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import dask
import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.solving.workers import memory, worker_checks
from sssp_pipeline.pipeline.solving.workers.needs import Needs
from sssp_pipeline.workflow.graph import Graph

MB = 10**6


@pytest.fixture(scope="module")
def local(two_workers):
    """Two workers of two threads."""
    with two_workers(threads_per_worker=2, memory_limit="1GB") as local:
        yield local


@pytest.fixture
def needs(tmp_path) -> Needs:
    """A stored graph and a run that has begun."""
    store, run = str(tmp_path / "graph"), str(tmp_path / "run")
    grid = Graph(input="generated:grid?rows=3&cols=4&seed=1", store=store)
    manifest = ingest(grid, store, Quiet())[0].first
    RunFolder(run).begin({})
    return Needs(store, manifest.content_id, run, "delta-stepping", 1, 0, 0)


def check(client, needs, graph_bytes=MB, thread_bytes=MB) -> dict[str, worker_checks.WorkerCheck]:
    """Check all workers, and raise as a run does."""
    needs = replace(needs, graph_bytes=graph_bytes, batch_bytes=thread_bytes // 2)
    found = worker_checks.check_workers(client, client.nthreads(), needs)
    worker_checks.raise_unless_usable(found, needs)
    return found


def test_workers_that_pass_all_checks(client, needs):
    found = check(client, needs, 10 * MB)
    assert found == dict.fromkeys(client.nthreads(), worker_checks.WorkerCheck())
    assert not list(Path(needs.run).glob(".sssp-partial-*"))


@pytest.mark.medium
@pytest.mark.parametrize(
    ("break_needs", "reason"),
    [
        (lambda d: shutil.rmtree(d.store), "`{store}` is not a graph store: it has no manifest.json"),
        (
            lambda d: replace(d, content_id="0123"),
            "`{store}` holds no version of the graph with content id `0123`",
        ),
        (lambda d: shutil.rmtree(d.run), "`{run}` is another folder there: storage must be shared"),
    ],
)
def test_all_workers_with_a_fault_are_named_with_the_reason(client, needs, break_needs, reason):
    needs = break_needs(needs) or needs
    with pytest.raises(InputError) as caught:
        check(client, needs, 10 * MB)
    first, second = sorted(client.nthreads())
    expected = reason.format(store=needs.store, run=needs.run)
    assert caught.value.message.startswith(f"2 of 2 workers cannot take part: {first}: {expected}")
    assert f"; {second}: {expected}" in caught.value.message
    assert caught.value.hint


def test_a_worker_keeps_graphs_in_what_its_limit_leaves_beside_the_batches(client, needs, monkeypatch):
    kept: list[int] = []
    monkeypatch.setattr(worker_checks, "limit_resident_bytes", kept.append)
    check(client, needs, 10 * MB, 50 * MB)
    # It can use 800 of 1,000. Two threads take 50 each, and the worker itself 400.
    assert kept == [300 * MB] * 2


def test_a_worker_without_room_is_named(client, needs):
    with pytest.raises(InputError) as caught:
        check(client, needs, 350 * MB, 50 * MB)
    fault = "its memory limit is 1,000 MB, and with 2 threads it needs 1,063 MB, of which it can use 80%"
    assert caught.value.message.count(fault) == 2
    assert caught.value.hint == "fix these workers or stop them; the run can continue on the others"
    check(client, needs, 299 * MB, 50 * MB)


@pytest.mark.parametrize(
    ("pause", "terminate", "used"), [(0.5, 0.95, 50), (False, 0.9, 90), (0.8, False, 80), (False, False, 100)]
)
def test_a_worker_can_use_its_limit_up_to_its_own_thresholds(
    client, needs, local, monkeypatch, pause, terminate, used
):
    for worker in local.workers.values():
        monkeypatch.setattr(worker.memory_manager, "memory_pause_fraction", pause)
    with dask.config.set({"distributed.worker.memory.terminate": terminate}):
        check(client, needs, (used * 10 - 403) * MB)
        with pytest.raises(InputError, match=f"of which it can use {used}%"):
            check(client, needs, (used * 10 - 401) * MB)


def test_a_control_group_holds_a_worker_whose_limit_is_higher(client, needs, monkeypatch):
    monkeypatch.setattr(memory, "memory_bytes", lambda: 500 * MB)  # as in a job of SLURM
    with pytest.raises(InputError, match=r"its memory limit is 500 MB, and with 2 threads it needs 502 MB"):
        check(client, needs, 100 * MB)


def test_workers_of_another_release_are_named(client, monkeypatch):
    first, second = sorted(client.nthreads())

    def releases(dask_worker):
        if dask_worker.address == second:
            raise ModuleNotFoundError("No module named 'sssp_pipeline'")
        return {"sssp-pipeline": "0.0.1"}

    monkeypatch.setattr(worker_checks, "_releases", releases)
    with pytest.raises(InputError) as caught:
        worker_checks.total_of_workers(client)
    assert caught.value.message == (
        f"2 of 2 workers cannot take part: {first}: it runs sssp-pipeline 0.0.1, this is "
        f"{worker_checks._ours()['sssp-pipeline']}; "
        f"{second}: it cannot run sssp-pipeline: No module named 'sssp_pipeline'"
    )


def test_the_digest_of_the_code_tells_builds_of_a_release_apart(tmp_path, monkeypatch):
    def digest():
        return worker_checks._ours.__wrapped__()["sssp-pipeline"]

    package = tmp_path / "sssp_pipeline"
    package.mkdir()
    (package / "a.py").write_text("x = 1")
    (package / "kernel.cu").write_text("int x;")
    monkeypatch.setattr(worker_checks.sssp_pipeline, "__file__", str(package / "__init__.py"))
    first = digest()
    (package / "a.cache").write_text("not code")
    assert digest() == first
    (package / "kernel.cu").write_text("int y;")
    assert digest() != first


def test_a_scheduler_of_another_release_is_named(client, monkeypatch):
    monkeypatch.setattr(worker_checks, "_ours", lambda: {"distributed": "2025.1.0"})
    with pytest.raises(InputError, match=r"^the scheduler runs distributed \S+, this is 2025\.1\.0$"):
        worker_checks.total_of_workers(client)


def test_the_total_of_all_workers(client, monkeypatch):
    found = worker_checks.total_of_workers(client)
    assert found.gpu_free_bytes is None
    assert found.no_gpu.startswith("no worker has a GPU: inproc://")
    assert found.cores == usable_cores()  # of one machine, however many workers are there

    first, _ = sorted(client.nthreads())
    monkeypatch.setattr(
        worker_checks,
        "_cores_and_gpu",
        lambda dask_worker: ("node", 8, 10**9) if dask_worker.address == first else ("other", 4, "no GPU"),
    )
    assert worker_checks.total_of_workers(client) == Machine(12, 10**9, n_gpus=1)


async def asleep(*_):
    await asyncio.sleep(0.5)


def test_a_worker_that_does_not_answer_or_breaks_is_named(client, needs, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(worker_checks, "read_manifest", lambda *_: 1 / 0)
        with pytest.raises(InputError, match=r"2 of 2 workers cannot take part: .*division by zero"):
            check(client, needs)
    monkeypatch.setattr(worker_checks, "ANSWER_S", 0.05)
    monkeypatch.setattr(worker_checks, "_check_this_worker", asleep)
    with pytest.raises(InputError, match=r"2 of 2 workers .*: it has not answered in 0\.05 s"):
        check(client, needs)


def test_no_worker_with_a_gpu_is_an_error_at_once(client, needs, monkeypatch):
    monkeypatch.setattr(worker_checks, "gpu_missing", lambda: "no NVIDIA driver")
    with pytest.raises(InputError) as caught:
        check(client, replace(needs, solver="adds"))
    first, second = sorted(client.nthreads())
    assert caught.value.message == (
        f"solver `adds` needs a GPU, and no worker has one: {first}: no NVIDIA driver; {second}: no NVIDIA driver"
    )


def test_a_gpu_without_room_counts_as_none(client, needs, monkeypatch):
    monkeypatch.setattr(worker_checks, "gpu_missing", lambda: None)
    monkeypatch.setattr(worker_checks, "obtainable_bytes", lambda: 2**30)
    small = replace(needs, solver="adds", gpu_bytes=2**30)
    assert set(check(client, small).values()) == {worker_checks.WorkerCheck()}
    with pytest.raises(InputError, match=r"its GPU has 1\.0 GiB free, and 3\.0 are needed"):
        check(client, replace(small, gpu_bytes=3 * 2**30))
