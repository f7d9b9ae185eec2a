"""The two interfaces of workers: where they come from, and what a run does with them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sssp_pipeline.pipeline.machine import Machine
from sssp_pipeline.pipeline.solving.workers.needs import Needs
from sssp_pipeline.workflow.cluster import Cluster


class Workers(Protocol):
    """Workers that take tasks: threads of this process, or processes of a Dask cluster."""

    @property
    def n_processes(self) -> int:
        """Worker processes that are there now; 0 for threads of this process."""
        ...

    @property
    def n_threads(self) -> int:
        """Threads of all workers."""
        ...

    @property
    def n_left_out(self) -> int:
        """Workers that get no task."""
        ...

    @property
    def scheduler(self) -> str | None:
        """Address of Dask's scheduler; None without Dask."""
        ...

    @property
    def dashboard(self) -> str | None:
        """URL of Dask's dashboard; None without Dask."""
        ...

    @property
    def in_flight(self) -> int:
        """How many tasks to keep submitted."""
        ...

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        """Return the future of `function(task)`; it is cancelled if no worker is left to run it."""
        ...

    def deaths(self, error: BaseException) -> int:
        """Return how many workers died while they ran a task that ended with `error`."""
        ...

    def watch(self) -> list[str]:
        """Look for workers that came, left or were paused; return what is worth a line.

        Raises
        ------
        SsspError
            There are no workers, and none come.
        """
        ...


class WorkerSource(Protocol):
    """Where the workers of a run come from: this machine, or a Dask cluster."""

    @property
    def machine(self) -> Machine:
        """What all its workers have together."""
        ...

    def fitted(self, needs: Needs) -> Needs:
        """Return `needs` with as many batches in a task as suit the workers and their memory."""
        ...

    def workers(self, needs: Needs) -> AbstractContextManager[Workers]:
        """Give the workers; what was started for them ends with the block.

        Threads of this process finish their batch before the block ends, also after an error or Ctrl-C.

        Raises
        ------
        InputError
            A worker cannot do what `needs` says, or memory is too small.
        """
        ...


def in_flight(spec: Cluster, n_threads: int) -> int:
    """Return how many tasks to keep submitted: two for each thread, unless `spec` says it."""
    return 2 * n_threads if spec.in_flight == "auto" else spec.in_flight
