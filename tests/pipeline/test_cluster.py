"""Clusters that are started for a run: what SLURM and Kubernetes are asked for, and runs on those that can be here."""

from __future__ import annotations

import builtins
import gc
import os
import sys
from pathlib import Path

import pytest

from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.kernels import _cupy
from sssp_pipeline.pipeline import cluster, hardware
from sssp_pipeline.pipeline.progress import Quiet
from sssp_pipeline.pipeline.run import run
from sssp_pipeline.workflow import Workflow
from sssp_pipeline.workflow_cluster import Cluster

SLURM = {"kind": "slurm", "memory_limit": "4GB", "slurm": {"interface": "lo"}}
PODS = {"kind": "kubernetes", "memory_limit": "32GB", "kubernetes": {"image": "registry/image:1"}}


def script(**options) -> str:
    """Return the job that SLURM would get."""
    spec = Cluster.model_validate({**SLURM, **options})
    made, given = cluster._slurm(spec)
    with made(**given) as started:
        return started.job_script()


def test_a_job_is_a_worker(jobs):
    lines = script(slurm={"interface": "lo"}).splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert {"#SBATCH --cpus-per-task=1", "#SBATCH --mem=4G", "#SBATCH -t 1:00:00"} <= set(lines)
    assert not any("gres" in line or line.startswith(("#SBATCH -p", "#SBATCH -A")) for line in lines)
    started = next(line for line in lines if line.startswith(sys.executable))
    assert "-m distributed.cli.dask_worker tcp://127.0.0.1:" in started
    assert "--nthreads 1 --memory-limit 3.73GiB" in started


def test_a_job_with_gpus_has_a_worker_for_each(jobs):
    lines = script(
        threads_per_worker=3,
        slurm={
            "interface": "lo",
            "gpus": 2,
            "queue": "gpu",
            "account": "me",
            "walltime": "2-00:00:00",
            "prologue": ["module load cuda"],
            "directives": ["--constraint=h200"],
        },
    ).splitlines()
    assert {
        "#SBATCH -p gpu",
        "#SBATCH -A me",
        "#SBATCH --cpus-per-task=6",
        "#SBATCH --mem=8G",
        "#SBATCH -t 2-00:00:00",
        "#SBATCH --gres=gpu:2",
        "#SBATCH --constraint=h200",
        "module load cuda",
    } <= set(lines)
    started = next(line for line in lines if line.startswith(sys.executable))
    assert "-m dask_cuda.cli tcp://" in started
    assert "--nthreads 3 --memory-limit 3.73GiB" in started


def resource(**options):
    return cluster.kubernetes_resource(Cluster.model_validate({**PODS, **options}), "sssp-1")


def container(made, role):
    (only,) = made["spec"][role]["spec"]["containers"]
    return only


def test_pods():
    made = resource(workers=3)
    worker, scheduler = container(made, "worker"), container(made, "scheduler")
    assert (made["kind"], made["metadata"]["name"]) == ("DaskCluster", "sssp-1")
    assert made["spec"]["worker"]["replicas"] == 3
    assert worker["command"][:6] == ["dask", "worker", "--nthreads", "1", "--memory-limit", "32GB"]
    assert worker["command"][-2:] == ["--dashboard-address", "8788"]  # where the guide has Prometheus look
    assert [(port["name"], port["containerPort"]) for port in worker["ports"]] == [("http-dashboard", 8788)]
    assert scheduler["command"] == ["dask", "scheduler", "--host", "0.0.0.0"]
    assert worker["resources"]["limits"] == {"memory": "32000000000"}
    assert {"name": "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "value": "0"} in scheduler["env"]
    assert worker["image"] == scheduler["image"] == "registry/image:1"
    assert "envFrom" not in worker
    assert "envFrom" not in scheduler


def test_gpu_and_secret_are_for_the_workers_alone():
    pods = {"image": "i", "gpus": 1, "secret": "keys", "service_account": "solver"}
    made = resource(workers={"minimum": 2, "maximum": 5}, kubernetes=pods)
    worker, scheduler = container(made, "worker"), container(made, "scheduler")
    assert made["spec"]["worker"]["replicas"] == 2
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in scheduler["resources"]["limits"]
    assert worker["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert "envFrom" not in scheduler
    assert {made["spec"][role]["spec"]["serviceAccountName"] for role in ("worker", "scheduler")} == {
        "solver"
    }


@pytest.fixture
def grid(tmp_path):
    """Return what runs a small workflow on a cluster, and the bytes of its distances."""

    def solve(name: str, **given) -> dict[str, bytes]:
        data = {
            "graph": {"input": "generated:grid?rows=30&cols=31&seed=3", "store": str(tmp_path / "graph")},
            "sources": {"random": {"count": 24, "seed": 1}},
            "solve": {"batch": 2},
            "output": {"path": str(tmp_path / name)},
            "cluster": given,
        }
        run(Workflow.model_validate(data), Quiet())
        return {p.name: p.read_bytes() for p in (tmp_path / name / "distances").iterdir()}

    return solve


@pytest.fixture
def jobs(tmp_path, monkeypatch) -> Path:
    """Make `sbatch` and `scancel` that run a job as a process of this machine; give the folder of their logs."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    for name, lines in {
        "sinfo": "exit 0",
        # Like SLURM's it keeps the script, which goes when this has ended.
        "sbatch": f'cp "$1" "{folder}/$$.sh"\nsetsid bash "{folder}/$$.sh" >"{folder}/$$.out" 2>&1 & '
        'echo "Submitted batch job $!"',
        "scancel": 'kill -- "-$1"; echo "$1" >>' + f'"{folder}/cancelled"',
    }.items():
        command = tmp_path / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f"#!/bin/bash\n{lines}\n")
        command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    return folder


# dask-jobqueue leaves the files of its certificates to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_run_in_jobs(grid, jobs):
    assert grid("jobs", **SLURM, workers=2, tls=True) == grid("calm")
    gc.collect()
    assert len((jobs / "cancelled").read_text().split()) == 2
    logs = [log.read_text() for log in jobs.glob("*.out")]
    assert len(logs) == 2
    assert any("tls://127.0.0.1" in log for log in logs)  # one may have come too late


def test_a_run_in_real_slurm(grid, slurm, monkeypatch, tmp_path):
    for name, value in slurm.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)  # SLURM writes there what the jobs print
    small = {**SLURM, "memory_limit": "1GB", "workers": 2}
    assert grid("jobs", **small) == grid("calm")
    assert len(list(tmp_path.glob("slurm-*.out"))) == 2


def test_an_adaptive_run(grid, jobs):
    assert grid("jobs", **SLURM, workers={"minimum": 1, "maximum": 2}) == grid("calm")


def test_certificates_that_are_missing_are_told(grid):
    with pytest.raises(InputError) as caught:
        grid("run", kind="address", address="tls://127.0.0.1:8786")
    assert caught.value.message.startswith("the scheduler at `tls://127.0.0.1:8786` cannot be talked to: TLS")
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in caught.value.hint


def test_where_there_is_no_slurm(grid, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError) as caught:
        grid("jobs", **SLURM)
    assert caught.value.message == "kind `slurm` cannot be started: there is no `sbatch` here"
    assert not (tmp_path / "jobs").exists()


def test_a_slurm_that_does_not_answer_is_not_waited_for(grid, jobs, tmp_path):
    (tmp_path / "bin" / "sinfo").write_text('#!/bin/bash\necho "sinfo: error:  no controller" >&2\nexit 1\n')
    with pytest.raises(InputError) as caught:
        grid("run", **SLURM)
    assert caught.value.message == (
        "kind `slurm` cannot be started: `sinfo` says sinfo: error: no controller"
    )


def test_where_there_is_no_kubernetes(grid, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(InputError) as caught:
        grid("run", **PODS)
    assert caught.value.message.startswith("kind `kubernetes` cannot be started: ")
    assert caught.value.hint == "check with `kubectl version` that the cluster answers, and as whom"


def test_no_worker_in_time(grid, jobs, tmp_path):
    (tmp_path / "bin" / "sbatch").write_text('#!/bin/bash\necho "Submitted batch job 1"\n')
    (tmp_path / "bin" / "scancel").write_text("#!/bin/bash\n")
    with pytest.raises(SsspError) as caught:
        grid("jobs", **SLURM, wait_s=1)
    assert caught.value.message == "no worker of the SLURM cluster has come in 1 s"
    assert caught.value.hint == "see `squeue --me` and the output of the jobs, or raise `cluster.wait_s`"


@pytest.mark.parametrize(
    ("spec", "package", "extra"),
    [(SLURM, "dask_jobqueue", "slurm"), (PODS, "dask_kubernetes.operator", "kubernetes")],
)
def test_what_starts_a_cluster_may_not_be_installed(grid, monkeypatch, spec, package, extra):
    real = builtins.__import__

    def absent(name, *given):
        if name == package:
            raise ModuleNotFoundError(f"No module named {name!r}")
        return real(name, *given)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(InputError) as caught:
        grid("run", **spec)
    assert caught.value.message == f"kind `{spec['kind']}` cannot be started: No module named {package!r}"
    assert caught.value.hint.endswith(f"pip install 'sssp-pipeline[{extra}]'")


@pytest.mark.gpu
def test_a_worker_for_each_gpu(grid):
    assert grid("gpus", kind="local-cuda") == grid("calm")


def test_a_worker_for_each_gpu_takes_one(grid, monkeypatch):
    monkeypatch.setattr(hardware, "gpu_missing", lambda: "no driver")
    with pytest.raises(InputError) as caught:
        grid("run", kind="local-cuda")
    assert caught.value.message == "kind `local-cuda` needs a GPU: no driver"


def test_no_more_workers_than_gpus(grid, monkeypatch):
    monkeypatch.setattr(hardware, "gpu_missing", lambda: None)
    monkeypatch.setattr(hardware, "obtainable_bytes", lambda: 10**9)
    monkeypatch.setattr("sssp_pipeline.pipeline.workers.gpu_count", lambda: 1)
    with pytest.raises(InputError) as caught:
        grid("run", kind="local-cuda", workers=2)
    assert caught.value.message == "`cluster.workers` is 2, and there is 1 GPU"


def test_without_a_gpu_there_are_none():
    if _cupy.gpu_missing() is not None:
        assert _cupy.gpu_count() == 0
