"""The workers of a Dask cluster, and which of them get tasks.

Dask gives out tasks, moves them from a slow worker to an idle one, and restarts workers. Dask does not know which
workers can run a task, so each task lists them if not all can. Dask does not take a task back from a worker that it
has paused for lack of memory. Such a worker counts as absent here, and its tasks are submitted again.
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

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.progress import plural
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.solving.workers import clusters
from sssp_pipeline.pipeline.solving.workers.interface import Workers, in_flight
from sssp_pipeline.pipeline.solving.workers.memory import PausedWorker, all_paused, paused_workers
from sssp_pipeline.pipeline.solving.workers.needs import IngestNeeds, Needs, with_shared_tasks
from sssp_pipeline.pipeline.solving.workers.worker_checks import (
    ANSWER_S,
    WorkerCheck,
    check_workers,
    raise_unless_usable,
    start_check,
    total_of_workers,
)
from sssp_pipeline.workflow.cluster import Cluster, WorkerRange

#: Seconds between two checks for workers that joined or left.
LOOK_S = 2.0
#: Seconds after which a paused worker without a running task counts as absent. Heartbeats are some seconds late, so its
#: last task may just have ended, or its next one may just have begun.
PAUSED_S = 10.0


def unpacked(packed: bytes) -> Any:
    """Return the result of a pickled function and its argument. Runs on a worker."""
    function, task = pickle.loads(packed)
    return function(task)


def most_threads(spec: Cluster, threads_of: dict[str, int]) -> int:
    """Return the number of threads of all workers. If Dask may start more workers, return the most that can exist."""
    if isinstance(spec.workers, WorkerRange):
        return spec.workers.maximum * max(threads_of.values(), default=1)
    return sum(threads_of.values())


class _Submitted(NamedTuple):
    """A submitted task: its key in Dask, and the workers that may run it; None means all."""

    key: str
    allowed: frozenset[str] | None


class DaskWorkers(Workers):
    """The workers of a Dask cluster.

    With `needs` None no worker is checked: the run has started all of them on this machine.
    """

    def __init__(self, client: Client, spec: Cluster, needs: Needs | IngestNeeds | None = None) -> None:
        self._client, self._spec, self._needs = client, spec, needs
        #: Addresses of the workers that passed the checks.
        self._usable: set[str] = set()
        #: Addresses of the workers that failed them.
        self._left_out: set[str] = set()
        #: The running checks of workers that joined late, by address.
        self._checks: dict[str, Future[WorkerCheck]] = {}
        #: When each paused worker without a running task was first seen so. After `PAUSED_S` it is absent.
        self._idle_since: dict[str, float] = {}
        #: The absent workers: Dask has paused them, and they run no task.
        self._absent: dict[str, PausedWorker] = {}
        #: The workers that get tasks, with their threads: usable and not absent.
        self._active: dict[str, int] = {}
        self._submitted: dict[Future, _Submitted] = {}
        self._last_watch = self._last_active = time.monotonic()
        self.scheduler = client.scheduler.address
        self.dashboard = clusters.dashboard_link(client, spec)
        threads_of = client.nthreads()
        if needs is not None:
            found = check_workers(client, threads_of, needs)
            raise_unless_usable(found, needs)
            self._left_out = {worker for worker, check in found.items() if check.reason is not None}
        self._active = {worker: n for worker, n in threads_of.items() if worker not in self._left_out}
        self._usable = set(self._active)
        if not self._active:
            hint = "start workers, or find in their logs why they ended"
            raise SsspError("the cluster has no workers", hint=hint)

    @property
    def n_processes(self) -> int:
        return len(self._active)

    @property
    def n_threads(self) -> int:
        return sum(self._active.values())

    @property
    def n_left_out(self) -> int:
        return len(self._left_out)

    @property
    def in_flight(self) -> int:
        return in_flight(self._spec, most_threads(self._spec, self._active)) if self._active else 0

    def close(self) -> None:
        """Cancel the checks that still run."""
        for answer in self._checks.values():
            answer.cancel()

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        # Packed as bytes, a task is small. Dask's scheduler unpacks other objects, and it keeps the last thousand
        # messages to each worker.
        packed = pickle.dumps((function, task))
        allowed = frozenset(self._active) if self._left_out or self._checks else None
        only = {} if allowed is None else {"workers": sorted(allowed)}
        key = f"solve-{uuid.uuid4().hex}"
        future = self._client.get_executor(pure=False, **only).submit(unpacked, packed, key=key)
        self._submitted[future] = _Submitted(key, allowed)
        future.add_done_callback(lambda done: self._submitted.pop(done, None))
        return future

    def deaths(self, error: BaseException) -> int:
        return error.allowed_failures + 1 if isinstance(error, KilledWorker) else 0

    def watch(self) -> list[str]:
        if time.monotonic() - self._last_watch < LOOK_S:
            return []
        threads_of = self._threads_by_worker()
        refused = self._check_new_workers(threads_of)
        paused = self._update_absent(threads_of)
        before = self._active
        self._active = {w: n for w, n in threads_of.items() if w in self._usable and w not in self._absent}
        gone = before.keys() - threads_of.keys()
        self._cancel_unreachable(none_left=bool(before) and not before.keys() & self._active.keys())
        self._last_watch = time.monotonic()
        if self._active or self._checks:
            self._last_active = self._last_watch
        elif self._last_watch - self._last_active > self._spec.later_wait_s:
            if self._absent:
                raise all_paused(self._absent, self._spec.later_wait_s)
            raise SsspError(
                f"there has been no worker for {self._spec.later_wait_s} s",
                hint="start workers, and run the same command again: it solves only what is missing",
            )
        counts = {"more": len(self._active.keys() - before.keys()), "gone": len(gone), "paused": len(paused)}
        changes = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        return [
            *(f"{worker} is left out: {reason}" for worker, reason in sorted(refused.items())),
            *(f"{worker} is paused by Dask: {why}" for worker, why in sorted(paused.items())),
            *([f"{plural(len(self._active), 'worker')}: {changes}"] if changes else []),
        ]

    def _threads_by_worker(self) -> dict[str, int]:
        """Return the threads of each worker of the cluster; none if the scheduler does not answer."""
        if self._client.status == "closed":
            raise SsspError(
                "the Dask scheduler is lost",
                hint="start it again, and run the same command again: it solves only what is missing",
            )
        try:
            return dict(self._client.nthreads(callback_timeout=ANSWER_S))
        except (OSError, TimeoutError):  # it is restarting, frozen or out of reach
            return {}

    def _check_new_workers(self, threads_of: Mapping[str, int]) -> dict[str, str]:
        """Start checks of the workers that have just joined; return the ones whose check failed, with the reason."""
        here = set(threads_of)
        self._usable &= here
        self._left_out &= here
        for worker in self._checks.keys() - here:
            self._checks.pop(worker).cancel()
        fresh = here - self._usable - self._left_out - self._checks.keys()
        if self._needs is None:
            self._usable |= fresh
            return {}
        for worker in fresh:
            self._checks[worker] = start_check(self._client, worker, self._needs)
        ended = [worker for worker, answer in self._checks.items() if answer.done()]
        answers = {worker: self._checks.pop(worker).result() for worker in ended}
        refused = {worker: check.reason for worker, check in answers.items() if check.reason is not None}
        self._left_out |= refused.keys()
        self._usable |= answers.keys() - refused.keys()
        return refused

    def _update_absent(self, threads_of: Mapping[str, int]) -> dict[str, PausedWorker]:
        """Update the absent workers; return the ones that are new."""
        now = time.monotonic()
        paused = paused_workers(self._client, ANSWER_S) if threads_of else {}
        idle = [worker for worker, what in paused.items() if not what.n_running]
        self._idle_since = {worker: self._idle_since.get(worker, now) for worker in idle}
        before = self._absent
        self._absent = {w: paused[w] for w, since in self._idle_since.items() if now - since >= PAUSED_S}
        return {worker: what for worker, what in self._absent.items() if worker not in before}

    def _cancel_unreachable(self, none_left: bool) -> None:
        """Cancel the tasks that no worker would run. With `none_left`, cancel every task.

        Such a task waits on an absent worker, or all workers that may run it have stopped. If no worker is left,
        another scheduler may have taken over, and it does not know the tasks.
        """
        stuck: set[str] = set()
        if self._absent:
            with suppress(OSError, TimeoutError):  # the scheduler does not answer; the next call tries again
                held = self._client.sync(self._client.scheduler.processing, callback_timeout=ANSWER_S)
                stuck = {key for worker in self._absent for key in held.get(worker, ())}
        for future, task in list(self._submitted.items()):
            unreachable = task.allowed is not None and not task.allowed & self._active.keys()
            if none_left or unreachable or task.key in stuck:
                future.cancel()


class DaskCluster:
    """A Dask cluster as an `interface.WorkerSource`."""

    def __init__(self, spec: Cluster, client: Client) -> None:
        self._spec, self._client = spec, client
        self.machine: Machine = total_of_workers(client)

    def fitted(self, needs: Needs) -> Needs:
        if not needs.on_gpu:
            return with_shared_tasks(needs, most_threads(self._spec, self._client.nthreads()))
        workers, n_gpus = self._spec.workers, self.machine.n_gpus
        return with_shared_tasks(needs, workers.maximum if isinstance(workers, WorkerRange) else n_gpus)

    def ingest_faults(self, needs: IngestNeeds) -> tuple[str | None, int]:
        """Return why a worker cannot ingest, None if all can, and the memory that each has for a task."""
        found = check_workers(self._client, self._client.nthreads(), needs)
        faults = [f"{worker}: {found[worker].fault}" for worker in sorted(found) if found[worker].fault]
        return faults[0] if faults else None, min((check.task_bytes for check in found.values()), default=0)

    @contextmanager
    def workers(self, needs: Needs | IngestNeeds) -> Iterator[DaskWorkers]:
        with closing(DaskWorkers(self._client, self._spec, needs)) as workers:
            yield workers
