"""Dask's part: clusters that are started for a run, and clients of those that are there already."""

from __future__ import annotations

import importlib.util
import logging
import shutil
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import dask
from dask.utils import parse_bytes
from distributed import Client, LocalCluster, Security, Worker, WorkerPlugin

from sssp_pipeline import interrupts
from sssp_pipeline.errors import InputError, SsspError
from sssp_pipeline.pipeline.solving.workers.dask_settings import (
    LOOPBACK,
    SETTINGS,
    WITHOUT_PROFILER,
    threads_of,
)
from sssp_pipeline.pipeline.solving.workers.memory import (
    all_paused,
    limit_here,
    needed_limit,
    paused_workers,
    usable_bytes,
    usable_share,
)
from sssp_pipeline.pipeline.solving.workers.process_wide import WhileNeeded
from sssp_pipeline.progress import plural
from sssp_pipeline.workflow.cluster import Cluster, Slurm, WorkerRange

#: Seconds in which a scheduler that is there must shake hands.
CONNECT_S = 20
#: Seconds between two looks for a scheduler that does not answer yet.
_LOOK_S = 0.5


def has_dask_cuda() -> bool:
    """Return whether the package that starts a worker for each GPU is installed."""
    return importlib.util.find_spec("dask_cuda") is not None


@contextmanager
def started_here(spec: Cluster, workers: int, threads: int, needed: int) -> Iterator[Client]:
    """Give a client of worker processes started on this machine, which end with the block.

    With kind `local-cuda` each has a GPU of its own.

    Raises
    ------
    InputError
        A worker cannot use the `needed` bytes of its graph and batches, beside what it takes itself; or dask-cuda is
        not installed.
    SsspError
        They do not start.
    """
    limit, share = limit_here(spec.memory_limit, workers), usable_share()
    if usable_bytes(limit, share) < needed:
        raise InputError(
            f"a worker of {plural(threads, 'thread')} has {limit / 1e6:,.0f} MB of memory, but needs "
            f"{needed_limit(needed, share) / 1e6:,.0f} MB, of which it can use {share:.0%}",
            hint="raise `cluster.memory_limit`, or lower `workers` or `threads_per_worker` there, or `solve.batch`",
        )
    options = {
        "n_workers": workers,
        "threads_per_worker": threads,
        "memory_limit": limit,
        "dashboard_address": "127.0.0.1:0",
        "silence_logs": logging.CRITICAL,
        **_secured(spec),
    }
    with (
        _configured(),
        _running(spec.kind, _local_class(spec.kind), options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        client.register_plugin(_LeaveInterrupts(), name="leave-interrupts")
        yield client


def _local_class(kind: str) -> type[LocalCluster]:
    if kind != "local-cuda":
        return LocalCluster
    with _needed_for(kind, "gpu"):
        from dask_cuda import LocalCUDACluster
    return LocalCUDACluster


@contextmanager
def connected(spec: Cluster) -> Iterator[Client]:
    """Give a client of the cluster of other machines that `spec` describes, with at least one worker.

    A cluster that is started for it ends with the block.

    Raises
    ------
    InputError
        No scheduler answers, no worker joins, or what starts the cluster is not installed.
    SsspError
        The cluster does not start, or Dask has paused all its workers.
    """
    with _configured(), _client_of(spec) as client:
        try:
            # With 0 Dask would wait without end.
            client.wait_for_workers(1, timeout=max(spec.first_wait_s, 1))
        except TimeoutError as error:
            if paused := paused_workers(client, CONNECT_S):
                raise all_paused(paused, spec.first_wait_s) from error
            if spec.kind == "address":
                raise InputError(
                    f"the scheduler at `{spec.address}` has no workers after {spec.first_wait_s} s",
                    hint=f"start one with `dask worker {spec.address}`, or raise `cluster.wait_s`",
                ) from error
            raise SsspError(
                f"no worker of the {_NAMES[spec.kind]} cluster has come in {spec.first_wait_s} s",
                hint=f"see {_WHERE_TO_LOOK[spec.kind]}, or raise `cluster.wait_s`",
            ) from error
        yield client


_NAMES = {"local-cuda": "local", "slurm": "SLURM", "kubernetes": "Kubernetes"}
_WHERE_TO_LOOK = {
    "slurm": "`squeue --me` and the output of the jobs",
    "kubernetes": "`kubectl get pods` and the events of those that wait",
}


@contextmanager
def _client_of(spec: Cluster) -> Iterator[Client]:
    if spec.kind == "address":
        wait_for_scheduler(spec)
        try:
            client = Client(spec.address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise InputError(
                f"no Dask scheduler answers at `{spec.address}`: {error}",
                hint="check `cluster.address`; start one with `dask scheduler`",
            ) from error
        except (
            TypeError
        ) as error:  # Dask's own word for a `tls://` address with certificates that it cannot use
            raise _untrusted(spec, str(error)) from error
        with client:
            yield client
        return
    with ExitStack() as held:
        made, options = _slurm(spec) if spec.kind == "slurm" else _kubernetes(spec, held)
        cluster = held.enter_context(_running(spec.kind, made, options))
        held.callback(_remove_key_files, cluster)
        workers = spec.workers
        if isinstance(workers, WorkerRange):
            cluster.adapt(minimum=workers.minimum, maximum=workers.maximum)
        else:
            cluster.scale(_workers_of_a_job(spec) if workers == "auto" else workers)
        with Client(cluster, set_as_default=False) as client:
            yield client


def _remove_key_files(cluster: Any) -> None:
    """Remove the files in which dask-jobqueue gave its jobs their certificates: it leaves that to chance."""
    for name in ("_job_ca_file", "_job_cert", "_job_key"):
        if (file := getattr(cluster, name, None)) is not None:
            file.close()


def dashboard_link(client: Client, spec: Cluster) -> str:
    """Return the URL of the dashboard, on the machine or in the pod of the scheduler where it listens there alone."""
    link: str = client.dashboard_link
    if spec.kind != "slurm" or spec.dashboard_host is not None:
        return link
    return f"http://{LOOPBACK}:{link.rpartition(':')[2]}"


def wait_for_scheduler(spec: Cluster) -> None:
    """Wait until something accepts connections at `spec.address`, at most `cluster.wait_s`.

    Raises
    ------
    InputError
        Nothing does.
    """
    address = str(spec.address)
    protocol, _, place = address.partition("://")
    if protocol not in ("tcp", "tls"):
        return  # only Dask knows how to connect
    if protocol == "tls" and Security().get_connection_args("client").get("ssl_context") is None:
        raise _untrusted(spec, "TLS needs certificates")
    host, _, port = place.rpartition(":")
    deadline = time.monotonic() + spec.first_wait_s
    while True:
        left = deadline - time.monotonic()
        try:
            # A host that drops packets does not answer at all.
            socket.create_connection((host.strip("[]"), int(port)), timeout=max(left, 1)).close()
            return
        except (OSError, OverflowError, ValueError) as error:
            if time.monotonic() + _LOOK_S > deadline:
                reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
                raise InputError(
                    f"no Dask scheduler answers at `{address}` in {spec.first_wait_s} s: {reason}",
                    hint="check `cluster.address`; start one with `dask scheduler`, or raise `cluster.wait_s`",
                ) from error
        interrupts.check()
        time.sleep(_LOOK_S)


def _untrusted(spec: Cluster, reason: str) -> InputError:
    return InputError(
        f"the scheduler at `{spec.address}` cannot be talked to: {reason}",
        hint="give the client its certificates by `DASK_DISTRIBUTED__COMM__TLS__CA_FILE` and the like",
    )


def check_startable(spec: Cluster) -> None:
    """Raise `InputError` if the cluster that `spec` describes cannot be started here; starts nothing."""
    if spec.kind == "slurm":
        _slurm_class()
    elif spec.kind == "kubernetes":
        _kubernetes_class()
    elif spec.kind == "local-cuda":
        _local_class(spec.kind)
    if spec.is_secured and importlib.util.find_spec("cryptography") is None:
        raise _without_certificates("No module named 'cryptography'")


def _workers_of_a_job(spec: Cluster) -> int:
    return max(1, spec.slurm.gpus) if spec.slurm is not None else 1


def _slurm_class() -> Any:
    """Return what starts a cluster in SLURM's jobs; raise `InputError` where SLURM does not answer."""
    with _needed_for("slurm", "slurm"):
        from dask_jobqueue import SLURMCluster
    # A job that cannot be submitted would be waited for.
    for command in ("sbatch", "sinfo"):
        if shutil.which(command) is None:
            raise InputError(
                f"kind `slurm` cannot be started: there is no `{command}` here",
                hint="start the run where SLURM is",
            )
    answer = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise InputError(
            f"kind `slurm` cannot be started: `sinfo` says {' '.join(answer.stderr.split())}",
            hint="start the run where SLURM answers",
        )
    return SLURMCluster


def _slurm(spec: Cluster) -> tuple[Any, dict[str, Any]]:
    """Return what starts a cluster in SLURM's jobs, and its options."""
    made = _slurm_class()
    slurm = spec.slurm or Slurm()
    processes = _workers_of_a_job(spec)
    threads = threads_of(spec, slurm.gpus)
    host = spec.dashboard_host or LOOPBACK
    return made, {
        "queue": slurm.queue,
        "account": slurm.account,
        "walltime": slurm.walltime,
        "cores": threads * processes,
        "memory": f"{parse_bytes(spec.memory_limit) * processes}B",
        "processes": processes,
        "interface": slurm.interface,
        "job_script_prologue": [*WITHOUT_PROFILER, *slurm.prologue],
        "job_extra_directives": [*([f"--gres=gpu:{slurm.gpus}"] if slurm.gpus else []), *slurm.directives],
        # dask-cuda's starts a worker for each GPU of the job, beside the cores that are near to it.
        **({"worker_command": "dask_cuda.cli"} if slurm.gpus else {}),
        "scheduler_options": {"dashboard_address": f"{host}:0"},
        "worker_extra_args": ["--dashboard-address", f"{host}:0"],
        # For the certificates, where there are some: each job reads them.
        "shared_temp_directory": "~",
        **_secured(spec),
    }


def _kubernetes_class() -> Any:
    """Return what starts a cluster in Kubernetes' pods; raise `InputError` where Kubernetes does not answer."""
    with _needed_for("kubernetes", "kubernetes"):
        import kr8s
        from dask_kubernetes.operator import KubeCluster
    try:
        kr8s.api().version()
    except Exception as error:  # it has its own, and lets through those of what it stands on
        raise InputError(
            f"kind `kubernetes` cannot be started: {error or type(error).__name__}",
            hint="check with `kubectl version` that the cluster answers, and as whom",
        ) from error
    return KubeCluster


def _kubernetes(spec: Cluster, held: ExitStack) -> tuple[Any, dict[str, Any]]:
    """Return what starts a cluster in Kubernetes' pods, and its options; its certificates end with `held`."""
    from sssp_pipeline.pipeline.solving.workers import pods

    made = _kubernetes_class()
    assert spec.kubernetes is not None
    name, namespace = f"sssp-{uuid.uuid4().hex[:8]}", spec.kubernetes.namespace
    options = {
        "custom_cluster_spec": pods.kubernetes_resource(spec, name),
        "namespace": namespace,
        "resource_timeout": spec.first_wait_s,
        "quiet": True,
    }
    if spec.is_secured:
        from sssp_pipeline.pipeline.solving.workers import secured_pods

        security = _secured(spec)["security"]
        held.enter_context(secured_pods.certificates(name, namespace, security))
        made, options["security"] = secured_pods.SecuredCluster, security
    return made, options


@contextmanager
def _needed_for(kind: str, extra: str) -> Iterator[None]:
    """Turn the absence of what a kind of cluster needs into one clear error."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"kind `{kind}` cannot be started: {error}",
            hint=f"install the extra that starts it: pip install 'sssp-pipeline[{extra}]'",
        ) from error


def _secured(spec: Cluster) -> dict[str, Any]:
    """Return the options of a cluster that make it talk under TLS, if `spec` wants that."""
    if not spec.is_secured:
        return {}
    try:
        return {"security": Security.temporary(), "protocol": "tls://"}
    except ImportError as error:
        raise _without_certificates(str(error)) from error


def _without_certificates(reason: str) -> InputError:
    return InputError(
        f"`cluster.tls` makes certificates, and that needs a package: {reason}",
        hint="pip install cryptography",
    )


@contextmanager
def _configured() -> Iterator[None]:
    with _silent, dask.config.set(SETTINGS):
        yield


def _silence() -> Callable[[], None]:
    """Keep Dask's loggers silent: if a worker dies, they print pages of stream closures on the user's terminal."""
    # `distributed.client` has a level of its own.
    loggers = [
        logging.getLogger(name) for name in ("distributed", "distributed.client", "tornado.application")
    ]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)

    def restore() -> None:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)

    return restore


_silent = WhileNeeded(_silence)


@contextmanager
def _running(kind: str, made: Any, options: dict[str, Any]) -> Iterator[Any]:
    """Give the cluster that `made(**options)` starts, and end it with the block."""
    try:
        with _interrupts_deferred():
            cluster = made(**options)
    except SsspError:
        raise
    except Exception as error:  # each of these packages has its own
        raise SsspError(
            f"the {_NAMES.get(kind, 'local')} cluster does not start: {error.__cause__ or error}",
            hint=_START_HINTS.get(
                kind, 'a Python script that runs a workflow needs `if __name__ == "__main__":`'
            ),
        ) from error
    with cluster:
        yield cluster


_START_HINTS = {
    "kubernetes": "check that the Dask operator is installed, and that you may make a DaskCluster",
}


class _LeaveInterrupts(WorkerPlugin):
    """Keeps Ctrl-C from a worker: a terminal sends it to every process, but only the client knows how to end."""

    def setup(self, worker: Worker) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Let Ctrl-C take effect only at the end of the block: a cluster that is half there cannot be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pressed:
            raise KeyboardInterrupt
