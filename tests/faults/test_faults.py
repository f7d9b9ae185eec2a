"""Workers, schedulers, clients, disks and networks fail in the middle of a run; the bytes are those of a calm one.

The moments are exact: a worker stops at a gate (see gates.py) until the test has done its harm.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from pathlib import Path

import psutil
import pytest
from distributed import Client

from sssp_pipeline.pipeline.solving.workers import dask_workers
from sssp_pipeline.workflow.models import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_worker_killed_in_mid_batch(runs, gates, undisturbed):
    gates.close("solved", 4)
    run = runs.start()
    os.kill(run.stops("solved", 4), signal.SIGKILL)
    run.ends(0)
    assert runs.digests() == undisturbed[1]


def test_a_worker_killed_while_it_writes(runs, gates, cluster, undisturbed):
    cluster.start_workers(3)
    gates.close("writing", 4)
    run = runs.start(cluster)
    writer = run.stops("writing", 4)
    (half_written,) = (runs.path / "distances").glob(".*-batch-00004.parquet")
    assert half_written.stat().st_size > 0
    os.kill(writer, signal.SIGKILL)
    run.ends(0)
    assert runs.digests() == undisturbed[1]


def test_a_batch_that_kills_its_workers(runs, gates, undisturbed):
    gates.close("deadly", 4)
    said = runs.start().ends(1)
    assert "error: 1 of 15 batches failed: 4; batch 4: 3 workers died under it\n" in said
    assert runs.batches() == set(range(15)) - {4}
    gates.open()
    runs.here()
    assert runs.digests() == undisturbed[1]


def test_a_frozen_worker_is_done_without_and_does_no_harm_when_it_wakes(runs, gates, cluster, undisturbed):
    cluster.start_workers(3)
    gates.close("solved", 4)
    run = runs.start(cluster)
    frozen = psutil.Process(run.stops("solved", 4))
    frozen.suspend()
    threads = Path(f"/proc/{frozen.pid}/task")
    run.until(lambda: all(" T " in stat.read_text() for stat in threads.glob("*/stat")))
    gates.open()
    run.ends(0)
    assert runs.digests() == undisturbed[1]
    frozen.resume()
    frozen.wait(120)  # it hears that the scheduler has given it up, and has finished its batch
    assert runs.digests() == undisturbed[1]


def test_workers_that_are_paused_for_lack_of_memory(runs, gates, cluster, undisturbed):
    cluster.start_workers(2)
    gates.close("solved", *range(4, 15))
    run = runs.start(cluster, wait_s=1)
    run.until(lambda: len(gates.taken("solved")) == 2)
    cluster.pause(gates, 2)
    gates.open()
    said = run.ends(1)
    assert re.search(
        "\nerror: Dask has paused 2 workers for lack of memory, and no other worker has joined in 1 s: "
        r"(tcp://[\d.:]+: it uses [\d,]+ MB of its memory limit of [\d,]+ MB(; )?){2}"
        "\n\nhint: give the workers more memory, or restart them",
        said,
    )
    assert 0 < len(runs.batches()) < 15
    assert "error: Dask has paused 2 workers" in runs.start(cluster, wait_s=1).ends(1)  # from its start
    gates.full.unlink()
    runs.start(cluster).ends(0)
    assert runs.digests() == undisturbed[1]


@pytest.fixture
def orphaned(runs, gates, cluster):
    """Give a run whose scheduler was killed while it solved, and its workers, before closed gates."""
    workers = cluster.start_workers(3)
    gates.close("solved", *range(4, 15))
    run = runs.start(cluster)
    run.until(lambda: len(gates.taken("solved")) == 3)  # which three Dask takes first is not sure
    cluster.scheduler.kill()
    cluster.scheduler.wait()
    return run, workers


def test_the_scheduler_killed(orphaned, runs, gates, undisturbed):
    run, workers = orphaned
    hint = "start it again, and run the same command again: it solves only what is missing"
    assert run.ends(1).endswith(f"\nerror: the Dask scheduler is lost\n\nhint: {hint}\n")
    gates.open()
    for worker in workers:
        worker.wait(120)
    assert runs.batches() < set(range(15))
    runs.here()
    assert runs.digests() == undisturbed[1]


def test_the_scheduler_killed_and_started_again(orphaned, runs, gates, cluster, undisturbed):
    run, _ = orphaned
    gates.open()
    cluster.start_scheduler(int(cluster.address.rpartition(":")[2]))
    cluster.start_workers(3)
    run.ends(0)
    assert runs.digests() == undisturbed[1]


def test_an_interrupt_while_the_scheduler_is_looked_for(orphaned, runs, gates, undisturbed):
    run, _ = orphaned
    run.process.send_signal(signal.SIGINT)
    assert "\ninterrupted; what is committed is kept." in run.ends(130)
    gates.open()
    runs.here()
    assert runs.digests() == undisturbed[1]


def test_a_scheduler_that_does_not_answer_is_waited_for(cluster, monkeypatch):
    monkeypatch.setattr(dask_workers, "ANSWER_S", 1)
    monkeypatch.setattr(dask_workers, "LOOK_S", 0)
    cluster.start_workers(3)
    with Client(cluster.address, set_as_default=False) as client:
        workers = dask_workers.DaskWorkers(client, Cluster(kind="address", address=cluster.address))
        cluster.scheduler.send_signal(signal.SIGSTOP)
        assert workers.watch() == ["0 workers: 3 gone"]
        cluster.scheduler.send_signal(signal.SIGCONT)
        assert workers.watch() == ["3 workers: 3 more"]


def test_the_client_killed_and_its_run_begun_again_at_once(runs, gates, cluster, undisturbed):
    workers = cluster.start_workers(3, threads=2)
    gates.close("solved", *range(15))
    run = runs.start(cluster)
    run.until(lambda: len({gate.pid for gate in gates.taken("solved")}) == 3)
    run.process.kill()
    run.process.wait()
    # A thread of each worker stays at a batch for the driver that is dead; the other threads end theirs.
    twice, *late = {gate.pid: gate for gate in gates.taken("solved")}.values()
    gates.open(but=[twice, *late])
    gates.close("writing", twice.batch)
    again = runs.start(cluster)
    again.stops("writing", twice.batch)
    # Two write the same batch: the old one begins when the new one has begun, and ends first.
    gates.open(but=[*late, *gates.taken("writing")])
    again.until(lambda: twice.batch in runs.batches())
    gates.open(but=late)
    again.ends(0)
    assert runs.digests() == undisturbed[1]
    gates.open()
    for worker in workers:
        worker.terminate()
        worker.wait(120)
    assert runs.digests() == undisturbed[1]


def test_a_disk_that_fills(runs, undisturbed, disk):
    runs.path = disk / "run"
    filler = disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(disk).free - 150_000))
    said = runs.start().ends(1)
    assert "cannot be written: No space left on device\n\nhint: free some space and run the same" in said
    assert 0 < len(runs.batches()) < 15
    filler.unlink()
    runs.here()
    assert runs.digests() == undisturbed[1]


def test_a_network_cut_off_and_joined_again(runs, gates, cluster_on, undisturbed, network):
    far = {"host": network.far.host, "prefix": network.far.prefix}
    cluster_on.start_workers(2)
    (away,) = cluster_on.start_workers(1, **far)
    gates.close("solved", *range(15))
    run = runs.start(cluster_on, network.near.prefix)
    run.until(lambda: away.pid in (gate.pid for gate in gates.taken("solved")))
    network.cut()
    run.says("\n2 workers: 1 gone\n")
    network.join()
    cluster_on.start_workers(1, **far)
    run.says("\n3 workers: 1 more\n")
    gates.open()
    run.ends(0)
    away.wait(120)  # it has heard that the scheduler has given it up
    assert runs.digests() == undisturbed[1]
