"""The choice between this machine and a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any, Self

from sssp_pipeline.workflow.cluster import Cluster

if TYPE_CHECKING:
    from distributed import Client

    from sssp_pipeline.pipeline.solving.workers.interface import WorkerSource


@contextmanager
def worker_source(spec: Cluster, client: Client | None = None) -> Iterator[WorkerSource]:
    """Give the source of the workers of `spec`. A cluster of other machines is connected or started at once.

    With `client`, `spec` is what `address.cluster_of_client` made of it, and the client stays open.

    Worker processes of this machine are started by the first stage that needs them, to fit it. A later stage takes the
    same ones if it needs equally many. All end with the block.

    Raises
    ------
    InputError
        No scheduler answers, no worker joins, a worker runs another release, or the package that starts the cluster is
        not installed.
    """
    # An ingest on this machine uses no workers. To import them and Dask takes as long as the ingest of a small graph.
    if spec.is_here:
        from sssp_pipeline.pipeline.solving.workers.local import ThisMachine

        with closing(ThisMachine(spec)) as here:
            yield here
        return
    from sssp_pipeline.pipeline.solving.workers.clusters import connected
    from sssp_pipeline.pipeline.solving.workers.dask_workers import DaskCluster

    with connected(spec, client) as connection:
        yield DaskCluster(spec, connection)


class OneCluster:
    """The workers of `spec`: a cluster is connected or started on first use, and ended at the end of the block.

    The arguments are those of `worker_source`.
    """

    def __init__(self, spec: Cluster, client: Client | None = None) -> None:
        self._spec, self._client, self._resources = spec, client, ExitStack()
        self._source: WorkerSource | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._source = None
        self._resources.__exit__(*raised)

    @property
    def is_here(self) -> bool:
        """Whether the workers run on this machine."""
        return self._spec.is_here

    def source(self) -> WorkerSource:
        """Return the source of the workers; raises the errors of `worker_source`."""
        if self._source is None:
            self._source = self._resources.enter_context(worker_source(self._spec, self._client))
        return self._source

    def close(self) -> None:
        """End the cluster now. A later call of `source` starts another one."""
        self.__exit__(None, None, None)

    @contextmanager
    def closed_on_error(self) -> Iterator[None]:
        """End the cluster if the block raises: its workers may still write then."""
        try:
            yield
        except BaseException:
            self.close()
            raise
