"""Clusters that are started for a run: what SLURM and Kubernetes are asked for, and runs on those that can be here."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
import yaml
from distributed import Client, LocalCluster, Security

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.solving.workers import clusters, slurm
from sssp_pipeline.pipeline.solving.workers.dask_start import running
from sssp_pipeline.pipeline.solving.workers.kubernetes import cluster_resource
from sssp_pipeline.pipeline.solving.workers.local_cluster import started_here
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.models import Workflow

DEPLOY = Path(__file__).parents[4] / "deploy"
SLURM = {"kind": "slurm", "memory_limit": "4GB", "slurm": {"interface": "lo"}}
PODS = {"kind": "kubernetes", "memory_limit": "32GB", "kubernetes": {"image": "registry/image:1"}}


def script(**options) -> str:
    """Return the job that SLURM would get."""
    spec = Cluster.model_validate({**SLURM, **options})
    with slurm.cluster_class()(**slurm.cluster_options(spec)) as started:
        return started.job_script()


@pytest.mark.medium
def test_a_job_is_a_worker(jobs):
    lines = script(slurm={"interface": "lo"}).splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert {"#SBATCH --cpus-per-task=1", "#SBATCH --mem=4G", "#SBATCH -t 1:00:00"} <= set(lines)
    assert not any("gres" in line or line.startswith(("#SBATCH -p", "#SBATCH -A")) for line in lines)
    started = next(line for line in lines if line.startswith(sys.executable))
    assert "-m distributed.cli.dask_worker tls://127.0.0.1:" in started
    assert "--dashboard-address 127.0.0.1:0" in started
    assert "--nthreads 1 --memory-limit 3.73GiB" in started


def test_a_job_with_gpus_has_a_worker_for_each(jobs):
    options = {"queue": "gpu", "account": "me", "walltime": "2-00:00:00"}
    more = {"prologue": ["module load cuda"], "directives": ["--constraint=h200"]}
    lines = script(threads_per_worker=3, slurm={"interface": "lo", "gpus": 2, **options, **more}).splitlines()
    wanted = ["-p gpu", "-A me", "--cpus-per-task=6", "--mem=8G", "-t 2-00:00:00", "--gres=gpu:2"]
    wanted = [f"#SBATCH {option}" for option in (*wanted, "--constraint=h200")]
    assert {*wanted, "module load cuda"} <= set(lines)
    started = next(line for line in lines if line.startswith(sys.executable))
    assert "-m dask_cuda.cli tls://" in started
    assert "--nthreads 3 --memory-limit 3.73GiB" in started


#: A process of its own: where it is refused, Dask leaves coroutines behind that nobody awaits.
CLIENT = """
import sys
from distributed import Client
with Client(sys.argv[1], timeout="5s") as client:
    print("in", len(client.scheduler_info()["workers"]))
"""


def entered(address: str) -> subprocess.CompletedProcess:
    """Have a client without certificates enter the cluster at `address`."""
    command = [sys.executable, "-c", CLIENT, address]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def listening(port: int, pid: int | None = None) -> set[str]:
    """Return the addresses on which a process, this one by default, takes connections at a port."""
    found = psutil.Process(pid).net_connections(kind="inet")
    return {c.laddr.ip for c in found if c.laddr.port == port and c.status == psutil.CONN_LISTEN}


@contextmanager
def scheduler_of_jobs(**options):
    """Give the SLURM cluster that a run would start, without jobs, and a client."""
    spec = Cluster.model_validate({**SLURM, **options})
    starting = slurm.cluster_class()(**slurm.cluster_options(spec))
    with starting as started, Client(started, set_as_default=False) as client:
        yield started, client
        slurm.remove_key_files(started)


@pytest.mark.medium
def test_the_scheduler_of_jobs_talks_under_tls_and_shows_its_dashboard_to_its_machine_alone(jobs):
    with scheduler_of_jobs() as (started, client):
        assert started.scheduler_address.startswith("tls://")
        refused = entered(started.scheduler_address.replace("tls://", "tcp://"))
        assert (refused.returncode, refused.stdout) == (1, "")
        spec = Cluster.model_validate(SLURM)
        link = clusters.dashboard_link(client, spec)
        port = started.scheduler_info["services"]["dashboard"]
        assert link == f"http://127.0.0.1:{port}/status"
        assert listening(port) == {"127.0.0.1"}


@pytest.mark.medium
def test_no_other_user_of_the_machine_enters_a_local_cluster():
    with started_here(Cluster(workers=1), 1, 1, 0) as client:
        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        workers = client.scheduler_info()["workers"]
        assert all(worker.startswith("tls://127.0.0.1:") for worker in workers)
        nannies = [info["nanny"] for info in workers.values()]
        refused = entered(address.replace("tls://", "tcp://"))
        assert refused.returncode != 0
        for entrance in (address, *workers, *nannies):
            stranger = Security.temporary()
            with pytest.raises(OSError, match=r"TLS|Timed out|in time"):
                Client(entrance, security=stranger, timeout=3)


def test_a_cluster_that_does_not_start_says_why():
    def start():
        raise RuntimeError("Nanny failed to start.") from MemoryError()

    message = r"^the local cluster does not start: MemoryError$"
    with pytest.raises(SsspError, match=message), running("auto", start, {}):
        pass


@pytest.mark.medium
def test_tls_and_the_dashboards_host_can_be_chosen(jobs):
    with scheduler_of_jobs(tls=False, dashboard_host="0.0.0.0") as (started, _):
        assert started.scheduler_address.startswith("tcp://")
        assert entered(started.scheduler_address).stdout == "in 0\n"
        assert listening(started.scheduler_info["services"]["dashboard"]) == {"0.0.0.0"}
        assert "--dashboard-address 0.0.0.0:0" in started.job_script()


def resource(**options):
    return cluster_resource(Cluster.model_validate({**PODS, **options}), "sssp-1")


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
    options = ["--host", "0.0.0.0", "--dashboard-address", "127.0.0.1:8787"]
    assert scheduler["command"] == ["dask", "scheduler", *options]
    assert worker["resources"]["limits"] == {"memory": "32000000000"}
    assert {"name": "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "value": "0"} in scheduler["env"]
    assert worker["image"] == scheduler["image"] == "registry/image:1"
    assert "envFrom" not in worker
    assert "envFrom" not in scheduler


@pytest.mark.parametrize("role", ["worker", "scheduler"])
def test_pods_have_the_label_that_the_network_policy_selects(role):
    policy = yaml.safe_load((DEPLOY / "kubernetes" / "network-policy.yaml").read_text())
    selected = policy["spec"]["podSelector"]["matchLabels"]
    assert resource()["spec"][role]["metadata"]["labels"] == selected


def test_pods_talk_in_plain_text_only_if_asked_to():
    for role in ("worker", "scheduler"):
        secured = {e["name"] for e in container(resource(), role)["env"]}
        plain = {e["name"] for e in container(resource(tls=False), role)["env"]}
        assert "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION" in secured - plain
        assert not any("TLS" in name or name == "DASK_SCHEDULER_ADDRESS" for name in plain)


def test_the_operator_can_ask_the_scheduler_where_it_keeps_a_range_of_workers():
    made = container(resource(workers={"minimum": 1, "maximum": 2}), "scheduler")
    assert made["command"][-1] == "0.0.0.0:8787"
    assert "httpGet" in made["readinessProbe"]
    routes = next(e["value"] for e in made["env"] if e["name"].endswith("SCHEDULER__HTTP__ROUTES"))
    assert "distributed.http.scheduler.api" in ast.literal_eval(routes)
    assert "httpGet" not in container(resource(), "scheduler")["readinessProbe"]


def environment(made, role: str, secret: dict) -> dict[str, str]:
    """Return the environment that Kubernetes would give the container of a role."""
    return {
        entry["name"]: entry["value"]
        if "value" in entry
        else secret["stringData"][entry["valueFrom"]["secretKeyRef"]["key"]]
        for entry in container(made, role)["env"]
    }


@pytest.mark.medium
def test_scheduler_and_worker_of_the_pods_find_each_other_under_tls(tmp_path, wait_until):
    from sssp_pipeline.pipeline.solving.workers import kubernetes_tls

    made, security = resource(), Security.temporary()
    secret = kubernetes_tls.secret_resource("sssp-1", security)
    refs = [e["valueFrom"]["secretKeyRef"] for e in container(made, "worker")["env"] if "valueFrom" in e]
    assert {ref["name"] for ref in refs} == {secret["metadata"]["name"]}
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0"]
    address_file = tmp_path / "scheduler.json"
    with ExitStack() as held:

        def started(role: str, *command: str) -> subprocess.Popen:
            env = {**os.environ, **environment(made, role, secret)}
            env.pop("DASK_SCHEDULER_ADDRESS")
            log = held.enter_context((tmp_path / role).open("w"))
            process = subprocess.Popen(command, env=env, cwd=tmp_path, stderr=log, start_new_session=True)
            held.callback(process.wait)
            held.callback(os.killpg, process.pid, signal.SIGTERM)
            return process

        options = "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"
        scheduler = started("scheduler", *command, *options, "--scheduler-file", str(address_file))
        wait_until(lambda: address_file.exists() or scheduler.poll() is not None)
        wait_until(lambda: scheduler.poll() is not None or address_file.read_text())
        assert scheduler.poll() is None, (tmp_path / "scheduler").read_text()
        address = json.loads(address_file.read_text())["address"]
        assert address.startswith("tls://")
        started("worker", sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny")
        with Client(address, security=security, set_as_default=False, timeout="30s") as client:
            client.wait_for_workers(1, timeout=60)
            assert client.submit(sum, [1, 2]).result(timeout=30) == 3
        refused = entered(address.replace("tls://", "tcp://"))
        assert (refused.returncode, refused.stdout) == (1, "")


def test_the_client_of_the_pods_talks_under_tls(monkeypatch):
    from dask_kubernetes.operator import KubeCluster, networking
    from dask_kubernetes.operator.kubecluster import kubecluster

    from sssp_pipeline.pipeline.solving.workers.kubernetes_tls import SecuredCluster

    async def plain_address(self):
        return local.scheduler_address.replace("tls://", "tcp://")

    async def create(self):  # what KubeCluster does once the pods are there
        address = await self._get_scheduler_address()
        await networking.wait_for_scheduler_comm(address)
        self.scheduler_comm = kubecluster.rpc(address)

    async def workers():
        await made._create_cluster()
        async with made.scheduler_comm as scheduler:
            return len((await scheduler.identity())["workers"])

    monkeypatch.setattr(KubeCluster, "_get_scheduler_address", plain_address)
    monkeypatch.setattr(KubeCluster, "_create_cluster", create)
    security = Security.temporary()
    made = SecuredCluster.__new__(SecuredCluster)
    made.security = security
    options = {"processes": False, "security": security, "protocol": "tls://"}
    with LocalCluster(n_workers=1, dashboard_address="127.0.0.1:0", **options) as local:
        assert asyncio.run(workers()) == 1


def test_the_certificates_of_the_pods_end_with_the_block(monkeypatch):
    from sssp_pipeline.pipeline.solving.workers import kubernetes_tls

    done: list[str] = []

    class Secret:
        def __init__(self, resource, namespace):
            done.append(f"{resource['metadata']['name']} in {namespace}")

        def create(self):
            done.append("created")

        def delete(self):
            done.append("deleted")

    monkeypatch.setattr(kubernetes_tls, "Secret", Secret)
    with kubernetes_tls.certificates("sssp-1", "mine", Security.temporary()):
        assert done == ["sssp-1-tls in mine", "created"]
    assert done[2:] == ["deleted"]
    monkeypatch.setattr(Secret, "create", lambda self: 1 / 0)
    message = "Kubernetes refuses the certificates of the cluster: division by zero"
    refused = kubernetes_tls.certificates("sssp-1", "mine", Security.temporary())
    with pytest.raises(SsspError, match=message), refused:
        pass


def test_gpu_and_secret_are_for_the_workers_alone():
    pods = {"image": "i", "gpus": 1, "secret": "keys", "service_account": "solver"}
    made = resource(workers={"minimum": 2, "maximum": 5}, kubernetes=pods)
    worker, scheduler = container(made, "worker"), container(made, "scheduler")
    assert made["spec"]["worker"]["replicas"] == 2
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in scheduler["resources"]["limits"]
    assert worker["envFrom"] == [{"secretRef": {"name": "keys"}}]
    assert "envFrom" not in scheduler
    for role in ("worker", "scheduler"):
        assert made["spec"][role]["spec"]["serviceAccountName"] == "solver"


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


@pytest.mark.medium
def test_a_run_in_jobs(grid, jobs, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(home := tmp_path / "home"))
    home.mkdir()
    assert grid("jobs", **SLURM, workers=2) == grid("calm")
    assert list(home.glob(".dask-jobqueue.*")) == []  # the keys went with the cluster
    assert len((jobs / "cancelled").read_text().split()) == 2
    logs = [log.read_text() for log in jobs.glob("*.out")]
    assert len(logs) == 2
    assert any("tls://127.0.0.1" in log for log in logs)  # one may have come too late


@pytest.mark.slow
def test_a_run_in_real_slurm(grid, slurm, monkeypatch, tmp_path):
    for name, value in slurm.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)  # SLURM writes there what the jobs print
    small = {**SLURM, "memory_limit": "1GB", "workers": 2}
    assert grid("jobs", **small) == grid("calm")
    assert len(list(tmp_path.glob("slurm-*.out"))) == 2


@pytest.mark.slow
def test_an_adaptive_run(grid, jobs):
    assert grid("jobs", **SLURM, workers={"minimum": 1, "maximum": 2}) == grid("calm")


def test_certificates_that_are_missing_are_told(grid):
    message = "^cannot communicate with the scheduler at `tls://127.0.0.1:8786`: TLS"
    with pytest.raises(InputError, match=message) as caught:
        grid("run", kind="address", address="tls://127.0.0.1:8786")
    assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in caught.value.hint


def test_a_slurm_that_does_not_answer_is_not_waited_for(grid, jobs, tmp_path):
    (tmp_path / "bin" / "sinfo").write_text('#!/bin/bash\necho "sinfo: error:  no controller" >&2\nexit 1\n')
    message = "kind `slurm` cannot be started: `sinfo` says sinfo: error: no controller"
    with pytest.raises(InputError, match=message):
        grid("run", **SLURM)


def test_where_there_is_no_kubernetes(grid, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(InputError) as caught:
        grid("run", **PODS)
    assert caught.value.message.startswith("kind `kubernetes` cannot be started: ")
    assert caught.value.hint == "check with `kubectl version` that the cluster answers, and as which user"


@pytest.mark.medium
def test_no_worker_in_time(grid, jobs, tmp_path):
    (tmp_path / "bin" / "sbatch").write_text('#!/bin/bash\necho "Submitted batch job 1"\n')
    (tmp_path / "bin" / "scancel").write_text("#!/bin/bash\n")
    with pytest.raises(SsspError) as caught:
        grid("jobs", **SLURM, wait_s=1)
    assert caught.value.message == "the SLURM cluster has no workers after 1 s"
    assert caught.value.hint == "see `squeue --me` and the output of the jobs, or raise `cluster.wait_s`"


@pytest.mark.gpu
def test_a_worker_for_each_gpu(grid):
    assert grid("gpus", kind="local-cuda") == grid("calm")


@pytest.mark.medium
@pytest.mark.parametrize(("soft", "n_files", "fits"), [(40, 40, False), (16, 64, True)])
def test_too_few_open_files_for_workers_are_an_error_and_no_endless_wait(tmp_path, soft, n_files, fits):
    """The soft limit is raised as far as needed; only the hard limit counts."""
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {n_files}))
from sssp_pipeline.pipeline.solving.workers.local_cluster import started_here
from sssp_pipeline.workflow.cluster import Cluster
if __name__ == "__main__":
    with started_here(Cluster(workers=2), 2, 1, 0) as client:
        print(len(client.scheduler_info()["workers"]))
"""
    (tmp_path / "start.py").write_text(code)
    command = [sys.executable, str(tmp_path / "start.py")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if fits:
        assert (ended.returncode, ended.stdout) == (0, "2\n")
    else:
        assert f"this process may open {n_files} files, and 2 workers here take up to 64" in ended.stderr
        assert len(ended.stderr.splitlines()) < 40
