"""The interfaces of workers (`Workers`) and of the place that they come from (`WorkerSource`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol

from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.solving.workers.needs import Needs
from sssp_pipeline.workflow.cluster import Cluster


class Workers(ABC):
    """Workers that take tasks: threads of this process, or processes of a Dask cluster."""

    #: Address of Dask's scheduler, and URL of its dashboard. Both are None without Dask, the URL also without bokeh.
    scheduler: str | None = None
    dashboard: str | None = None

    @property
    @abstractmethod
    def n_threads(self) -> int:
        """Threads of all workers."""

    @property
    @abstractmethod
    def in_flight(self) -> int:
        """How many tasks to keep submitted."""

    @property
    def n_processes(self) -> int:
        """Worker processes that can take tasks now; 0 for threads of this process."""
        return 0

    @property
    def n_left_out(self) -> int:
        """Workers that get no task because a check failed."""
        return 0

    @abstractmethod
    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        """Return the future of `function(task)`; it is cancelled if no worker is left to run it."""

    def deaths(self, error: BaseException) -> int:
        """Return how many workers died while they ran a task that ended with `error`."""
        return 0

    def watch(self) -> list[str]:
        """Look for workers that joined, left or were paused; return lines for the log.

        Raises
        ------
        SsspError
            There are no workers, and none has joined in time.
        """
        return []


class WorkerSource(Protocol):
    """Where the workers of a run come from: this machine, or a Dask cluster."""

    @property
    def machine(self) -> Machine:
        """The total of all its workers."""

    def fitted(self, needs: Needs) -> Needs:
        """Return `needs` with the number of batches per task that suits the workers and their memory."""

    def workers(self, needs: Needs) -> AbstractContextManager[Workers]:
        """Give the workers. Processes that were started for them end with the source.

        The block ends when threads of this process have finished their batches, also after an error or Ctrl-C.

        Raises
        ------
        InputError
            A worker lacks something of `needs`, or there is too little memory.
        """


def in_flight(spec: Cluster, n_threads: int) -> int:
    """Return how many tasks to keep submitted: two for each thread, unless `spec` sets a number."""
    return 2 * n_threads if spec.in_flight == "auto" else spec.in_flight
