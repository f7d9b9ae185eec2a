"""The clusters of other machines: their start or connection, and the wait for their first worker."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from distributed import Client

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.pipeline.solving.workers import address, kubernetes, local_cluster, slurm
from sssp_pipeline.pipeline.solving.workers.dask_start import LOOPBACK, NAMES, dask_configured, running
from sssp_pipeline.pipeline.solving.workers.memory import all_paused, paused_workers
from sssp_pipeline.workflow.cluster import Cluster, WorkerRange

_WHERE_TO_LOOK = {
    "slurm": "`squeue --me` and the output of the jobs",
    "kubernetes": "`kubectl get pods` and the events of the pods that wait",
}


def check_startable(spec: Cluster) -> None:
    """Raise `InputError` if the cluster of `spec` cannot be started here. Nothing is started."""
    if spec.kind == "slurm":
        slurm.cluster_class()
    elif spec.kind == "kubernetes":
        kubernetes.check_startable(spec)
    elif spec.kind == "local-cuda":
        local_cluster.cluster_class(spec.kind)


@contextmanager
def connected(spec: Cluster, given: Client | None = None) -> Iterator[Client]:
    """Give a client of the cluster of `spec`, which has at least one worker: `given`, or one made here.

    A client or a cluster that was made here ends with the block. `given` stays open.

    Raises
    ------
    InputError
        No scheduler answers, no worker joins, or the package that starts the cluster is not installed.
    SsspError
        The cluster does not start, or Dask has paused all its workers.
    """
    with dask_configured(), ExitStack() as resources:
        if given is not None:
            client = given
        else:
            made = address.connect(spec) if spec.kind == "address" else _started(spec, resources)
            client = resources.enter_context(made)
        try:
            # With 0 Dask would wait forever.
            client.wait_for_workers(1, timeout=max(spec.first_wait_s, 1))
        except TimeoutError as error:
            if paused := paused_workers(client, address.CONNECT_S):
                raise all_paused(paused, spec.first_wait_s) from error
            if spec.kind == "address":
                start = (
                    f"one with `dask worker {spec.address}`"
                    if given is None
                    else "some: `client.cluster.scale(2)`"
                )
                raise InputError(
                    f"the scheduler at `{spec.address}` has no workers after {spec.first_wait_s} s",
                    hint=f"start {start}, or raise `cluster.wait_s`",
                ) from error
            raise SsspError(
                f"the {NAMES[spec.kind]} cluster has no workers after {spec.first_wait_s} s",
                hint=f"see {_WHERE_TO_LOOK[spec.kind]}, or raise `cluster.wait_s`",
            ) from error
        yield client


def _started(spec: Cluster, resources: ExitStack) -> Client:
    """Return a client of a cluster of jobs or pods, which ends with `resources`."""
    if spec.kind == "slurm":
        cluster_class, options = slurm.cluster_class(), slurm.cluster_options(spec)
    else:
        cluster_class, options = kubernetes.cluster_class_and_options(spec, resources)
    cluster = resources.enter_context(running(spec.kind, cluster_class, options))
    resources.callback(slurm.remove_key_files, cluster)
    if isinstance(spec.workers, WorkerRange):
        cluster.adapt(minimum=spec.workers.minimum, maximum=spec.workers.maximum)
    else:
        cluster.scale(slurm.workers_per_job(spec) if spec.workers == "auto" else spec.workers)
    return Client(cluster, set_as_default=False)


def dashboard_link(client: Client, spec: Cluster) -> str | None:
    """Return the URL of the dashboard, which may be valid on the scheduler's machine or in its pod only.

    None if the scheduler runs on this machine and bokeh is not installed. Dask then serves a page that says so.
    """
    if spec.kind not in ("address", "kubernetes") and importlib.util.find_spec("bokeh") is None:
        return None
    link: str = client.dashboard_link
    if spec.kind != "slurm" or spec.dashboard_host is not None:
        return link
    return f"http://{LOOPBACK}:{link.rpartition(':')[2]}"
