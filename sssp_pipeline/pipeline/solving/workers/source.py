"""The choice of workers: this machine, or the Dask cluster that the workflow describes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sssp_pipeline.pipeline.solving.workers.interface import WorkerSource
from sssp_pipeline.pipeline.solving.workers.local import ThisMachine
from sssp_pipeline.workflow.cluster import Cluster


@contextmanager
def worker_source(spec: Cluster) -> Iterator[WorkerSource]:
    """Give the source of the workers that `spec` describes. Only a Dask cluster is started or connected at once.

    Raises
    ------
    InputError
        No scheduler answers, no worker joins, a worker runs another release, or what starts them is not installed.
    """
    if spec.kind in ("auto", "local-cpu", "local-cuda"):
        yield ThisMachine(spec)
        return
    # Dask takes as long to import as a small graph takes to ingest.
    from sssp_pipeline.pipeline.solving.workers.dask_workers import DaskCluster

    with DaskCluster.connected(spec) as source:
        yield source
