"""Verify as tasks: who reads the graph and the distances, what comes back, and what does not fit."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster
from typer.testing import CliRunner

from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.graph_store import stored_graph
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.layouts import LAYOUTS
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.verification import stage
from sssp_pipeline.pipeline.verification import task as verify
from sssp_pipeline.pipeline.verification.task import Checked
from sssp_pipeline.workflow.cluster import Cluster, cluster_named
from sssp_pipeline.workflow.models import Workflow


def made(tmp_path: Path, size: int = 30, **sections) -> Workflow:
    return Workflow.model_validate(
        {
            "graph": {
                "input": f"generated:grid?rows={size}&cols={size}&seed=3",
                "store": f"{tmp_path}/graph",
            },
            "sources": {"random": {"count": 24, "seed": 1}},
            "solve": {"batch": 3},
            "output": {"path": str(tmp_path / "run")},
            **sections,
        }
    )


@pytest.fixture
def driver_reads_nothing(monkeypatch):
    """Let this process, not the workers, fail when it reads the arrays of a graph or a file of distances."""

    def refuse(*_, **__):
        raise AssertionError("the driver reads the graph or distances")

    for name in ("load_graph", "shared_graph"):
        monkeypatch.setattr(stored_graph, name, refuse)
    for layout in LAYOUTS.values():
        for name in ("read", "vertex_ids"):
            monkeypatch.setattr(layout, name, refuse)


def tamper(tmp_path: Path, batch: int, row: int) -> str:
    """Make a stored distance too large by one; return what verify has to say of it."""
    path = tmp_path / "run" / "distances" / f"batch-{batch:05d}.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[row]["distance"] += 1
    pq.write_table(table.from_pylist(rows, table.schema), path)
    source, vertex, stored = (rows[row][name] for name in ("source", "vertex", "distance"))
    return f"source `{source}`, vertex `{vertex}`: stored distance {stored}, true distance {stored - 1}"


@pytest.mark.medium
@pytest.mark.parametrize(
    ("mode", "output"),
    [
        ("sample", {}),
        ("certificate", {}),
        ("certificate", {"layout": "wide"}),
        ("sample", {"targets": {"ids": [7, 3]}}),
        ("sample", {"distances": "none"}),
    ],
)
def test_workers_verify_and_the_driver_reads_nothing(tmp_path, address, driver_reads_nothing, mode, output):
    output = {"path": str(tmp_path / "run"), **output}
    folder, record = run(made(tmp_path, cluster=address, verify=mode, output=output), Quiet())
    assert record["verify"]["refuted"] is None
    again = verify_run(folder.url, None, mode, Quiet())["verify"]
    assert again["checked_sources"] == record["verify"]["checked_sources"] == (8 if mode == "sample" else 24)


@pytest.mark.medium
@pytest.mark.parametrize("mode", ["sample", "certificate"])
def test_the_first_wrong_distance_is_named_by_a_worker(
    tmp_path, address, driver_reads_nothing, mode, recorded_anew
):
    run(made(tmp_path, cluster=address, verify="off"), Quiet())
    tamper(tmp_path, 7, -1)  # the last source, which the sample holds too
    expected = tamper(tmp_path, 7, 2100)
    if mode == "certificate":
        expected = tamper(tmp_path, 2, 1500)
    recorded_anew(RunFolder(str(tmp_path / "run")))
    with pytest.raises(RefutedError) as caught:
        verify_run(str(tmp_path / "run"), None, mode, Quiet())
    assert (caught.value.message, caught.value.exit_code) == (expected, 3)


def test_of_wrong_batches_the_first_is_named_whichever_comes_first(tmp_path, monkeypatch):
    def backwards(task):
        (number,) = task.numbers
        time.sleep(0.02 * (8 - number))
        return Checked(3, (number, f"batch {number}"))

    run(made(tmp_path, verify="off"), Quiet())
    monkeypatch.setattr(stage, "verify_task", backwards)
    with pytest.raises(RefutedError, match=r"^batch 0$"):
        verify_run(str(tmp_path / "run"), None, "certificate", Quiet(), Cluster(threads_per_worker=8))


@pytest.mark.medium
def test_a_verify_task_that_does_not_fit_is_refused_before_anything_is_solved(tmp_path):
    # A worker of 570 MB can solve on this graph, but not verify.
    with LocalCluster(
        n_workers=1, threads_per_worker=1, memory_limit="570MB", dashboard_address="127.0.0.1:0"
    ) as cluster:
        address = {"kind": "address", "address": cluster.scheduler_address}
        with pytest.raises(InputError) as caught:
            run(made(tmp_path, 700, cluster=address, verify="sample"), Quiet())
    assert "its memory limit is 570 MB, and with 1 thread it needs 596 MB" in caught.value.message
    assert not (tmp_path / "run" / "distances").exists()


@pytest.mark.medium
def test_a_worker_that_is_started_has_room_for_a_verify_task(tmp_path):
    run(made(tmp_path, 700, verify="off"), Quiet())
    spec = Cluster(kind="local-cpu", memory_limit="570MB", threads_per_worker=1)
    with pytest.raises(InputError) as caught:
        verify_run(str(tmp_path / "run"), None, "sample", Quiet(), spec)
    assert caught.value.message.startswith("a worker of 1 thread has 570 MB of memory, but needs 596 MB")


@pytest.mark.medium
def test_tasks_that_do_not_fit_together_wait_for_each_other():
    room, under_way, most = type(verify.ROOM)(), [], []

    def task(n_bytes: int) -> None:
        with room.held(n_bytes, room=100):
            under_way.append(n_bytes)
            most.append(sum(under_way))
            time.sleep(0.02)
            under_way.remove(n_bytes)

    threads = [threading.Thread(target=task, args=(n_bytes,)) for n_bytes in (40, 40, 40, 60, 500)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert len(most) == 5
    assert sorted(most)[-1] == 500  # more than there is room for: alone
    assert sorted(most)[-2] <= 100


@pytest.mark.medium
def test_threads_of_this_process_verify_without_dask(tmp_path):
    run(made(tmp_path, verify="off"), Quiet())
    code = (
        "import sys\n"
        "from sssp_pipeline.pipeline.run.completed_run import verify_run\n"
        "from sssp_pipeline.base.progress import Quiet\n"
        f"print(verify_run({str(tmp_path / 'run')!r}, None, 'sample', Quiet())['verify']['checked_sources'])\n"
        "print([name for name in ('dask', 'distributed') if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "8\n[]\n"


@pytest.mark.medium
def test_a_cluster_that_is_gone_can_be_replaced(tmp_path, address, recorded_anew):
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        gone = {"kind": "address", "address": cluster.scheduler_address, "wait_s": 1}
        run(made(tmp_path, cluster=gone, verify="off"), Quiet())
    verify_here = CliRunner().invoke(app, ["verify", str(tmp_path / "run")])
    assert verify_here.exit_code == 2
    told = " ".join(verify_here.stderr.split())
    assert f"the cluster of the run cannot be used: no Dask scheduler answers at `{gone['address']}`" in told
    assert "`--cluster here` verifies with threads of this process" in told
    tamper(tmp_path, 0, 5)
    recorded_anew(RunFolder(str(tmp_path / "run")))
    for where in ("here", address["address"]):
        done = CliRunner().invoke(app, ["verify", str(tmp_path / "run"), "--certificate", "--cluster", where])
        assert done.exit_code == 3
    with pytest.raises(InputError) as caught:
        cluster_named("there")
    assert caught.value.message == "`--cluster there`: `there` is no address of a scheduler"
