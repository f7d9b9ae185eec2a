"""The roster: which workers of a Dask cluster take part, from the first to those that join late.

Dask gives out tasks, moves them from a slow worker to an idle one, and starts workers anew. What it does not know is
who is fit for them: so it is told, where not all are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from distributed import Client
from distributed.protocol import pickle
from distributed.scheduler import KilledWorker

from sssp_pipeline.errors import SsspError
from sssp_pipeline.pipeline import cluster
from sssp_pipeline.pipeline.hardware import Machine
from sssp_pipeline.pipeline.preflight import ANSWER_S, Needs, check, fitness, survey
from sssp_pipeline.pipeline.progress import plural
from sssp_pipeline.pipeline.workers import Demands, Load, in_flight, sharing, thread_memory
from sssp_pipeline.workflow_cluster import Cluster, WorkerRange

#: Seconds between two looks at who is there.
LOOK_S = 2.0


def unpacked(packed: bytes) -> Any:
    """Return what a pickled function of one argument gives; runs on a worker."""
    function, task = pickle.loads(packed)
    return function(task)


def most_threads(spec: Cluster, threads_of: dict[str, int]) -> int:
    """Return how many threads there are, or will be where Dask starts more workers as tasks wait for them."""
    if isinstance(spec.workers, WorkerRange):
        return spec.workers.maximum * max(threads_of.values(), default=1)
    return sum(threads_of.values())


class DaskWorkers:
    """The workers of a Dask cluster, as `workers.Workers`.

    Those that were started for the run on this machine, where `needs` is None, all take part.
    """

    def __init__(self, client: Client, spec: Cluster, needs: Needs | None = None) -> None:
        self._client, self._spec, self._needs = client, spec, needs
        #: Addresses of those that take part with their threads, and of those that are left aside.
        self._able: dict[str, int] = {}
        self._aside: set[str] = set()
        #: Where each task under way may run; None is everywhere.
        self._places: dict[Future, frozenset[str] | None] = {}
        self._looked = self._last_able = time.monotonic()
        self.scheduler: str = client.scheduler.address
        self.dashboard = client.dashboard_link
        threads_of = client.nthreads()
        if needs is not None:
            found = fitness(client, threads_of, needs)
            check(found, needs.demands.solver)
            self._aside = {worker for worker, fit in found.items() if fit.reason is not None}
        self._able = {worker: n for worker, n in threads_of.items() if worker not in self._aside}
        if not self._able:
            raise SsspError(
                "the cluster has no workers", hint="start workers, or see in their logs why they ended"
            )

    @property
    def n_processes(self) -> int:
        return len(self._able)

    @property
    def n_threads(self) -> int:
        return sum(self._able.values())

    @property
    def n_aside(self) -> int:
        return len(self._aside)

    @property
    def in_flight(self) -> int:
        return in_flight(self._spec, most_threads(self._spec, self._able)) if self._able else 0

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        # Dask's scheduler opens what it passes on, and keeps the last thousand messages to each worker: as objects,
        # with an array a batch, they took 26 kB a task.
        packed = pickle.dumps((function, task))
        places = frozenset(self._able) if self._aside else None
        only = {} if places is None else {"workers": sorted(places)}
        future = self._client.get_executor(pure=False, **only).submit(unpacked, packed)
        self._places[future] = places
        future.add_done_callback(lambda done: self._places.pop(done, None))
        return future

    def deaths(self, error: BaseException) -> int:
        return error.allowed_failures + 1 if isinstance(error, KilledWorker) else 0

    def tend(self) -> list[str]:
        now = time.monotonic()
        if now - self._looked < LOOK_S:
            return []
        threads_of = self._there()
        fresh = threads_of.keys() - self._able.keys() - self._aside
        gone = self._able.keys() - threads_of.keys()
        nobody_left = bool(gone) and len(gone) == len(self._able)
        unfit = self._unfit(fresh)
        self._able = {w: n for w, n in threads_of.items() if w not in unfit and w not in self._aside}
        self._aside = (self._aside & threads_of.keys()) | unfit.keys()
        # A task that may run only where nobody is would wait for ever, and so would one that was sent to a scheduler
        # that is gone: where nobody is left of those who were there, there may be another one.
        for future, places in list(self._places.items()):
            if nobody_left or (places is not None and not places & threads_of.keys()):
                future.cancel()
        self._looked = time.monotonic()
        if self._able:
            self._last_able = self._looked
        elif self._looked - self._last_able > self._spec.later_wait_s:
            raise SsspError(
                f"no worker has been there for {self._spec.later_wait_s} s",
                hint="start workers, and run the same command again: it solves only what is missing",
            )
        joined = len(fresh) - len(unfit)
        changes = [f"{joined} more"] * (joined > 0) + [f"{len(gone)} gone"] * bool(gone)
        return [
            *(f"{worker} is left aside: {reason}" for worker, reason in sorted(unfit.items())),
            *([f"{plural(len(self._able), 'worker')}: {', '.join(changes)}"] if changes else []),
        ]

    def _there(self) -> dict[str, int]:
        """Return the threads of each worker that is there now."""
        if self._client.status == "closed":
            raise SsspError(
                "the Dask scheduler is lost",
                hint="start it again, and run the same command again: it solves only what is missing",
            )
        try:
            return dict(self._client.nthreads(callback_timeout=ANSWER_S))
        except (OSError, TimeoutError):  # it is being looked for, restarting, or frozen
            return {}

    def _unfit(self, workers: set[str]) -> dict[str, str]:
        """Return those that cannot take part of `workers` that have just come, with the reason."""
        if self._needs is None or not workers:
            return {}
        found = fitness(self._client, workers, self._needs)
        return {worker: fit.reason for worker, fit in found.items() if fit.reason is not None}


class Elsewhere:
    """The workers of other machines, as a `workers.Crew`."""

    def __init__(self, spec: Cluster, client: Client) -> None:
        self._spec, self._client = spec, client
        self.machine: Machine = survey(client)

    @classmethod
    @contextmanager
    def assembled(cls, spec: Cluster) -> Iterator[Elsewhere]:
        """Give the workers of the cluster that `spec` describes; raises as `cluster.connected` and `survey`."""
        with cluster.connected(spec) as client:
            yield cls(spec, client)

    def fitted(self, load: Load) -> Load:
        if not load.on_gpu:
            return sharing(load, most_threads(self._spec, self._client.nthreads()))
        workers = self._spec.workers
        return sharing(load, workers.maximum if isinstance(workers, WorkerRange) else self.machine.n_gpus)

    @contextmanager
    def hired(self, load: Load, demands: Demands) -> Iterator[DaskWorkers]:
        needs = Needs(demands, load.graph_bytes, thread_memory(load))
        yield DaskWorkers(self._client, self._spec, needs)
