"""The choice between this machine and a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sssp_pipeline.pipeline.solving.workers.interface import WorkerSource
from sssp_pipeline.pipeline.solving.workers.local import ThisMachine
from sssp_pipeline.workflow.cluster import Cluster


@contextmanager
def worker_source(spec: Cluster) -> Iterator[WorkerSource]:
    """Give the source of the workers of `spec`. A cluster of other machines is connected or started at once.

    Raises
    ------
    InputError
        No scheduler answers, no worker joins, a worker runs another release, or the package that starts the cluster is
        not installed.
    """
    if spec.kind in ("auto", "local-cpu", "local-cuda"):
        yield ThisMachine(spec)
        return
    # The import of Dask takes as long as the ingest of a small graph.
    from sssp_pipeline.pipeline.solving.workers.clusters import connected
    from sssp_pipeline.pipeline.solving.workers.dask_workers import DaskCluster

    with connected(spec) as client:
        yield DaskCluster(spec, client)
