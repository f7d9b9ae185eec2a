"""The choice between this machine and a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

from sssp_pipeline.workflow.cluster import Cluster

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.solving.workers.interface import WorkerSource

#: The kinds whose workers run on this machine.
_HERE = ("auto", "local-cpu", "local-cuda")


@contextmanager
def worker_source(spec: Cluster, *, keeps: bool = False) -> Iterator[WorkerSource]:
    """Give the source of the workers of `spec`. A cluster of other machines is connected or started at once.

    Worker processes of this machine are started by each stage, to fit it. With `keeps`, a later stage that needs
    equally many takes those of an earlier one.

    Raises
    ------
    InputError
        No scheduler answers, no worker joins, a worker runs another release, or the package that starts the cluster is
        not installed.
    """
    # An ingest on this machine uses no workers. Their import, and that of Dask, take as long as that of a small graph.
    if spec.kind in _HERE:
        from sssp_pipeline.pipeline.solving.workers.local import ThisMachine

        with ExitStack() as kept:
            yield ThisMachine(spec, kept if keeps else None)
        return
    from sssp_pipeline.pipeline.solving.workers.clusters import connected
    from sssp_pipeline.pipeline.solving.workers.dask_workers import DaskCluster

    with connected(spec) as client:
        yield DaskCluster(spec, client)


class OneCluster:
    """The workers of `spec`: a cluster is connected or started on first use, and ended at the end of the block.

    `keeps` is that of `worker_source`.
    """

    def __init__(self, spec: Cluster, *, keeps: bool = False) -> None:
        self._spec, self._keeps, self._resources = spec, keeps, ExitStack()
        self._source: WorkerSource | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._source = None
        self._resources.__exit__(*raised)

    @property
    def is_here(self) -> bool:
        """Whether the workers run on this machine."""
        return self._spec.kind in _HERE

    def source(self) -> WorkerSource:
        """Return the source of the workers; raises as `worker_source`."""
        if self._source is None:
            self._source = self._resources.enter_context(worker_source(self._spec, keeps=self._keeps))
        return self._source

    def close(self) -> None:
        """End the cluster now. A later call of `source` starts another one."""
        self.__exit__(None, None, None)
