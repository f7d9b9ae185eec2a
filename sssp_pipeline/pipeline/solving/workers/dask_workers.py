"""The workers of a Dask cluster: which of them get tasks, from the first ones to those that join late.

Dask gives out tasks, moves them from a slow worker to an idle one, and restarts workers. Dask does not know which
workers can run a task, so each task lists them if not all can. Dask does not take a task back from a worker that it
has paused for lack of memory. Such a worker counts as absent here, and its tasks are given out again.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

from distributed import Client
from distributed.protocol import pickle
from distributed.scheduler import KilledWorker

from sssp_pipeline.errors import SsspError
from sssp_pipeline.pipeline.machine import Machine
from sssp_pipeline.pipeline.solving.workers import cluster
from sssp_pipeline.pipeline.solving.workers.fitness import (
    ANSWER_S,
    Fitness,
    ask_fitness,
    check,
    fitness,
    survey,
)
from sssp_pipeline.pipeline.solving.workers.interface import in_flight
from sssp_pipeline.pipeline.solving.workers.memory import PausedWorker, all_paused, paused_workers
from sssp_pipeline.pipeline.solving.workers.needs import Needs, with_shared_tasks
from sssp_pipeline.progress import plural
from sssp_pipeline.workflow.cluster import Cluster, WorkerRange

#: Seconds between two looks at who is there.
LOOK_S = 2.0
#: Seconds after which a paused worker that runs no task counts as absent: its last task may just have
#: ended, or its next one may just have begun, and heartbeats tell of that some seconds late.
PAUSED_S = 10.0


def unpacked(packed: bytes) -> Any:
    """Return what a pickled function of one argument gives; runs on a worker."""
    function, task = pickle.loads(packed)
    return function(task)


def most_threads(spec: Cluster, threads_of: dict[str, int]) -> int:
    """Return how many threads there are, or will be where Dask starts more workers as tasks wait for them."""
    if isinstance(spec.workers, WorkerRange):
        return spec.workers.maximum * max(threads_of.values(), default=1)
    return sum(threads_of.values())


class _UnderWay(NamedTuple):
    """A task that has been submitted: Dask's key of it, and where it may run; None is everywhere."""

    key: str
    places: frozenset[str] | None


class DaskWorkers:
    """The workers of a Dask cluster, as `interface.Workers`.

    Those that were started for the run on this machine, where `needs` is None, all take part.
    """

    def __init__(self, client: Client, spec: Cluster, needs: Needs | None = None) -> None:
        self._client, self._spec, self._needs = client, spec, needs
        #: Addresses of those that can take part, of those that are left out, and of those that joined late, which are
        #: asked first.
        self._fit: set[str] = set()
        self._left_out: set[str] = set()
        self._asked: dict[str, Future[Fitness]] = {}
        #: Those that are paused and run no task, since when; after `PAUSED_S` they are absent.
        self._idle_since: dict[str, float] = {}
        self._absent: dict[str, PausedWorker] = {}
        #: Those that get tasks, with their threads: they are fit and not absent.
        self._able: dict[str, int] = {}
        self._under_way: dict[Future, _UnderWay] = {}
        self._looked = self._last_able = time.monotonic()
        self.scheduler: str = client.scheduler.address
        self.dashboard = cluster.dashboard_link(client, spec)
        threads_of = client.nthreads()
        if needs is not None:
            found = fitness(client, threads_of, needs)
            check(found, needs.solver)
            self._left_out = {worker for worker, fit in found.items() if fit.reason is not None}
        self._able = {worker: n for worker, n in threads_of.items() if worker not in self._left_out}
        self._fit = set(self._able)
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
    def n_left_out(self) -> int:
        return len(self._left_out)

    @property
    def in_flight(self) -> int:
        return in_flight(self._spec, most_threads(self._spec, self._able)) if self._able else 0

    def close(self) -> None:
        """Wait for no more answers."""
        for answer in self._asked.values():
            answer.cancel()

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        # Dask's scheduler opens what it passes on, and keeps the last thousand messages to each worker: as objects,
        # with an array a batch, they took 26 kB a task.
        packed = pickle.dumps((function, task))
        places = frozenset(self._able) if self._left_out or self._asked else None
        only = {} if places is None else {"workers": sorted(places)}
        key = f"solve-{uuid.uuid4().hex}"
        future = self._client.get_executor(pure=False, **only).submit(unpacked, packed, key=key)
        self._under_way[future] = _UnderWay(key, places)
        future.add_done_callback(lambda done: self._under_way.pop(done, None))
        return future

    def deaths(self, error: BaseException) -> int:
        return error.allowed_failures + 1 if isinstance(error, KilledWorker) else 0

    def watch(self) -> list[str]:
        if time.monotonic() - self._looked < LOOK_S:
            return []
        threads_of = self._there()
        unfit = self._ask_late(threads_of)
        paused = self._leave_out_paused(threads_of)
        before = self._able
        self._able = {w: n for w, n in threads_of.items() if w in self._fit and w not in self._absent}
        gone = before.keys() - threads_of.keys()
        self._take_back(nobody_left=bool(before) and not before.keys() & self._able.keys())
        self._looked = time.monotonic()
        if self._able or self._asked:
            self._last_able = self._looked
        elif self._looked - self._last_able > self._spec.later_wait_s:
            if self._absent:
                raise all_paused(self._absent, self._spec.later_wait_s)
            raise SsspError(
                f"no worker has been there for {self._spec.later_wait_s} s",
                hint="start workers, and run the same command again: it solves only what is missing",
            )
        counts = {"more": len(self._able.keys() - before.keys()), "gone": len(gone), "paused": len(paused)}
        changes = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        return [
            *(f"{worker} is left out: {reason}" for worker, reason in sorted(unfit.items())),
            *(f"{worker} is paused by Dask: {why}" for worker, why in sorted(paused.items())),
            *([f"{plural(len(self._able), 'worker')}: {changes}"] if changes else []),
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

    def _ask_late(self, there: Mapping[str, int]) -> dict[str, str]:
        """Ask the workers that have just joined; return those whose answer is that they cannot take part, and why."""
        here = set(there)
        self._fit &= here
        self._left_out &= here
        for worker in self._asked.keys() - here:
            self._asked.pop(worker).cancel()
        fresh = here - self._fit - self._left_out - self._asked.keys()
        if self._needs is None:
            self._fit |= fresh
            return {}
        for worker in fresh:
            self._asked[worker] = ask_fitness(self._client, worker, self._needs)
        answers = {w: self._asked.pop(w).result() for w, answer in list(self._asked.items()) if answer.done()}
        unfit = {worker: answer.reason for worker, answer in answers.items() if answer.reason is not None}
        self._left_out |= unfit.keys()
        self._fit |= answers.keys() - unfit.keys()
        return unfit

    def _leave_out_paused(self, there: Mapping[str, int]) -> dict[str, PausedWorker]:
        """Update the set of absent workers, which Dask has paused; return the workers that are new in it."""
        now = time.monotonic()
        paused = paused_workers(self._client, ANSWER_S) if there else {}
        idle = [worker for worker, what in paused.items() if not what.n_running]
        self._idle_since = {worker: self._idle_since.get(worker, now) for worker in idle}
        before = self._absent
        self._absent = {w: paused[w] for w, since in self._idle_since.items() if now - since >= PAUSED_S}
        return {worker: what for worker, what in self._absent.items() if worker not in before}

    def _take_back(self, nobody_left: bool) -> None:
        """Cancel the tasks that would wait for a worker that is gone or absent, and all where `nobody_left`.

        Where nobody is left, there may be another scheduler, to which nothing has been sent.
        """
        stuck: set[str] = set()
        if self._absent:
            with suppress(OSError, TimeoutError):  # the scheduler does not answer; the next look may find it
                held = self._client.sync(self._client.scheduler.processing, callback_timeout=ANSWER_S)
                stuck = {key for worker in self._absent for key in held.get(worker, ())}
        for future, task in list(self._under_way.items()):
            unreachable = task.places is not None and not task.places & self._able.keys()
            if nobody_left or unreachable or task.key in stuck:
                future.cancel()


class DaskCluster:
    """A Dask cluster as an `interface.WorkerSource`."""

    def __init__(self, spec: Cluster, client: Client) -> None:
        self._spec, self._client = spec, client
        self.machine: Machine = survey(client)

    @classmethod
    @contextmanager
    def connected(cls, spec: Cluster) -> Iterator[DaskCluster]:
        """Give the workers of the cluster that `spec` describes; raises as `cluster.connected` and `survey`."""
        with cluster.connected(spec) as client:
            yield cls(spec, client)

    def fitted(self, needs: Needs) -> Needs:
        if not needs.on_gpu:
            return with_shared_tasks(needs, most_threads(self._spec, self._client.nthreads()))
        workers = self._spec.workers
        return with_shared_tasks(
            needs, workers.maximum if isinstance(workers, WorkerRange) else self.machine.n_gpus
        )

    @contextmanager
    def workers(self, needs: Needs) -> Iterator[DaskWorkers]:
        with closing(DaskWorkers(self._client, self._spec, needs)) as workers:
            yield workers
