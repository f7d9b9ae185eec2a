"""What needs no graph is checked before one is read."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from typer.testing import CliRunner

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.cli import app
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import gpu_missing
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.run import checks, ingest_workflow
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.solving.workers import address as address_kind
from sssp_pipeline.pipeline.solving.workers import local, slurm
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.yaml_file import workflow_from_dict

BASE = {
    "graph": {"input": "generated:grid?rows=5&cols=5"},
    "sources": {"ids": [0]},
    "output": {"path": "run"},
}


def made(**sections):
    return workflow_from_dict(BASE | {key: BASE.get(key, {}) | value for key, value in sections.items()})


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Give what runs a workflow that must be refused before its graph is read; returns the error."""
    monkeypatch.chdir(tmp_path)

    def never(*_, **__):
        raise AssertionError("the graph is read")

    monkeypatch.setattr(ingest_workflow, "ingest", never)

    def check(**sections) -> InputError:
        with pytest.raises(InputError) as caught:
            run(made(**sections), Quiet())
        assert caught.value.hint, caught.value.message
        assert not list(tmp_path.glob("run*")), "nothing is left behind"
        return caught.value

    return check


@pytest.mark.skipif(gpu_missing() is None, reason="there is a GPU")
def test_a_gpu_that_is_not_there(refused):
    told = refused(solve={"solver": "near-far"})
    assert told.message == f"solver `near-far` cannot solve this: {gpu_missing()}"
    assert told.hint.startswith("these can: bits, delta-stepping, parallel-delta-stepping, phast, dijkstra, ")
    told = refused(cluster={"kind": "local-cuda"})
    assert told.message == f"kind `local-cuda` needs a GPU: {gpu_missing()}"


def test_a_solver_that_is_unknown_or_cannot(refused, monkeypatch):
    assert refused(solve={"solver": "dikstra"}).hint.startswith("did you mean `dijkstra`? ")
    assert refused(solve={"solver": "dijkstra", "options": {"lanes": 3}}).message == (
        "solver `dijkstra` has no option `lanes`"
    )
    told = refused(solve={"solver": "dijkstra", "trace_every_us": 5}).message
    assert told == "solver `dijkstra` cannot solve this: it records no trace, and trace_every_us is 5"


def test_more_workers_than_gpus(refused, monkeypatch):
    monkeypatch.setattr(local, "this_machine", lambda: Machine(2, 2**30))
    monkeypatch.setattr(local, "gpu_count", lambda: 1)
    told = refused(cluster={"kind": "local-cuda", "workers": 2}).message
    assert told == "`cluster.workers` is 2, and there is 1 GPU"


def test_a_package_that_is_not_installed(refused, monkeypatch):
    monkeypatch.setattr(local, "this_machine", lambda: Machine(2, 2**30))
    monkeypatch.setattr(local, "gpu_count", lambda: 1)
    for module in ("dask_cuda", "dask_jobqueue", "kr8s", "s3fs"):
        monkeypatch.setitem(__import__("sys").modules, module, None)
    assert refused(cluster={"kind": "local-cuda"}).hint.endswith("'sssp-pipeline[gpu]'")
    slurm = {"kind": "slurm", "memory_limit": "1GB"}
    assert refused(cluster=slurm).hint.endswith("'sssp-pipeline[slurm]'")
    kubernetes = {"kind": "kubernetes", "memory_limit": "1GB", "kubernetes": {"image": "i"}}
    assert refused(cluster=kubernetes).hint.endswith("'sssp-pipeline[kubernetes]'")
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    for cluster in ({"tls": True}, {"workers": 1}, {"memory_limit": "1GB"}):
        told = refused(cluster=cluster)
        assert told.message.startswith(
            "`cluster.tls` makes certificates, and that needs a package that is missing: "
        )
        assert told.hint == "pip install 'sssp-pipeline[tls]'"


def test_slurm_without_its_commands(refused, monkeypatch):
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setattr(slurm.shutil, "which", lambda name: None)
    told = refused(cluster={"kind": "slurm", "memory_limit": "1GB"}).message
    assert told == "kind `slurm` cannot be started: there is no `sbatch` here"


def test_a_memory_limit_below_what_any_worker_takes(refused):
    told = refused(cluster={"memory_limit": "499MB"}).message
    assert told == "`cluster.memory_limit` is 499MB, but a worker needs 500 MB before it holds a graph"


def test_files_of_sources_and_targets(refused, tmp_path):
    assert refused(sources={"ids": None, "file": "nowhere.txt"}).message == "`nowhere.txt` does not exist"
    assert "folder" in refused(output={"targets": {"file": str(tmp_path)}}).message


def test_a_number_for_the_unreached_that_the_type_does_not_hold(refused):
    sections = {"graph": {"weights": {"dtype": "uint32"}}, "output": {"unreached": -1}}
    assert refused(**sections).message == (
        "`output.unreached` is -1, which the distances' type uint32 cannot hold"
    )


def test_folders_that_cannot_be_written(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot be read: Not a directory" in refused(output={"path": "file/run"}).message
    assert "cannot be written" in refused(graph={"store": "file/graph"}).message


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_nobody_at_the_address_ends_at_once_if_nothing_is_to_be_waited_for(refused, host):
    address = f"tcp://{host}:{free_port()}"
    began = time.monotonic()
    # A GPU of other machines is no matter of this one.
    told = refused(cluster={"kind": "address", "address": address, "wait_s": 0}, solve={"solver": "near-far"})
    assert time.monotonic() - began < 5
    assert told.message.startswith(f"no Dask scheduler answers at `{address}` in 0 s: ")
    assert "`cluster.wait_s`" in told.hint


@pytest.mark.medium
def test_a_scheduler_is_waited_for_as_long_as_it_is_said():
    port = free_port()
    spec = Cluster(kind="address", address=f"tcp://127.0.0.1:{port}", wait_s=2)
    began = time.monotonic()
    with pytest.raises(InputError, match="in 2 s: Connection refused"):
        address_kind.wait_for_scheduler(spec)
    assert 1 < time.monotonic() - began < 5
    listener = socket.socket()
    late = threading.Timer(1.0, lambda: (listener.bind(("127.0.0.1", port)), listener.listen()))
    late.start()
    address_kind.wait_for_scheduler(spec.model_copy(update={"wait_s": 60}))
    assert time.monotonic() - began < 20
    late.join()
    listener.close()


def test_how_long_is_waited_by_default():
    address = Cluster(kind="address", address="tcp://h:1")
    assert (address.first_wait_s, address.later_wait_s) == (20, 300)
    assert (Cluster().first_wait_s, Cluster().later_wait_s) == (300, 300)
    told = address.model_copy(update={"wait_s": 7})
    assert (told.first_wait_s, told.later_wait_s) == (7, 7)


def test_a_finished_run_needs_neither_scheduler_nor_gpu_but_a_solver_that_exists(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(made(), Quiet())
    monkeypatch.setattr(checks, "gpu_missing", lambda: "no GPU")
    gone = {"kind": "address", "address": f"tcp://127.0.0.1:{free_port()}", "wait_s": 0}
    _, record = run(made(cluster=gone, solve={"solver": "near-far"}), Quiet())
    assert record["verify"]["refuted"] is None
    for overwrite in (False, True):
        with pytest.raises(InputError, match="unknown solver `dikstra`"):
            run(made(solve={"solver": "dikstra"}), Quiet(), overwrite=overwrite)
    with pytest.raises(InputError, match="no Dask scheduler answers"):
        run(made(cluster=gone), Quiet(), overwrite=True)
    assert (tmp_path / "run" / "run.json").exists(), "the earlier run stays"


def test_plan_needs_no_scheduler(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.txt").write_text("0 1 2\n")
    address = f"cluster={{kind: address, address: 'tcp://127.0.0.1:{free_port()}'}}"
    words = ["plan", "edges.txt", "--from", "0", "--out", "run", "--set", address]
    assert CliRunner().invoke(app, words).exit_code == 0
