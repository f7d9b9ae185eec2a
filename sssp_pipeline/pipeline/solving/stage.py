"""The stage that solves a run: its missing batches become tasks for the workers, until all are committed."""

from __future__ import annotations

import os
import platform
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sssp_pipeline.base import interrupts
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.progress import StartUp, in_bytes, plural, shortened
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.pipeline.graph_store.stored_graph import share_with_tasks
from sssp_pipeline.pipeline.planning.choice import seconds_text
from sssp_pipeline.pipeline.planning.machine import versions
from sssp_pipeline.pipeline.planning.plan import RunPlan
from sssp_pipeline.pipeline.planning.work import solve_options
from sssp_pipeline.pipeline.solving.dispatch import scatter
from sssp_pipeline.pipeline.solving.solve_task import SolveTask
from sssp_pipeline.pipeline.solving.task import TaskDone, TaskStage
from sssp_pipeline.pipeline.solving.trials import Trials
from sssp_pipeline.pipeline.solving.workers.interface import Workers, WorkerSource
from sssp_pipeline.pipeline.solving.workers.needs import Needs
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Workflow

#: A run is late if it is expected to take this multiple of what the plan expected, and these seconds.
_LATE_TIMES, _LATE_S = 2.0, 10.0
#: Threads load the kernels in their first tasks. Tasks that end within these seconds do not tell whether a run is late.
_LOADING_S = 5.0


@dataclass
class Solved:
    """The solver of the batches and why it was chosen, and the seconds of all threads by kind of work."""

    solver: str
    reason: str
    thread_s: dict[str, float] = field(default_factory=lambda: {"load": 0.0, "solve": 0.0, "write": 0.0})


@dataclass(eq=False)
class Solving(TaskStage):
    """Solves the missing batches of a run."""

    workflow: Workflow
    #: The numbers of the batches that are not committed yet.
    missing: list[int]
    plan: RunPlan
    #: As `lease.exclusive` gives it.
    still_ours: Callable[[], None]
    start_up: StartUp
    #: Memory that a worker must have in addition to the graph. `verify` may need more than solving.
    least_bytes: int = 0
    #: Is called after the first batches if a GPU solves and its tasks run in this process: most cores wait then.
    on_spare_cores: Callable[[], None] = lambda: None
    _trials: Trials = field(init=False)

    def __post_init__(self) -> None:
        self._solved = Solved(self.plan.solver, self.plan.solver_reason)
        self._n_done = len(self.batches) - len(self.missing)
        self._n_solved = 0
        #: Sources that are not in a task yet.
        self._n_left = sum(len(self.batches[number]) for number in self.missing)
        self._n_missing = self._n_left
        self._is_late = self._is_here = False
        self._began_s = 0.0
        # The longest first, so that no worker waits at the end for a long batch that began late.
        self._waiting = deque(sorted(self.missing, key=lambda number: -len(self.batches[number])))
        self._on_gpu = SOLVERS.device_of(self.plan.solver) == "gpu"

    def solve_on(self, source: WorkerSource) -> Solved:
        """Solve and commit the missing batches on the workers of `source`; return what that took.

        Raises
        ------
        InputError
            The input or an option of the workflow cannot be used.
        SsspError
            Batches failed for good, no worker is left, or the storage cannot be reached any more.
        """
        if not self.missing:
            return self._solved
        if self.output.words is not None:
            self.folder.write_input(self.output.words, stays=self.output.input_stays)
        share = len(self.missing) / len(self.batches)
        self._warn_of_space(self.plan.written_bytes * share)
        plan = self.plan
        needs = source.fitted(
            Needs(
                *self.for_tasks[:3],
                plan.solver,
                len(self.missing),
                plan.graph_bytes,
                plan.batch_bytes,
                plan.batches_per_call,
                plan.work.batches_of_one_gpu(plan.batches_per_call),
                gpu_bytes=plan.gpu.least_bytes if plan.gpu else 0,
                expected_s=plan.expected_s * share,
                least_bytes=self.least_bytes,
            )
        )
        self._trials = Trials(plan, needs.batches_per_task)
        self.progress.stage("solve")
        with share_with_tasks(self.stored), source.workers(needs) as workers:
            self.start_up.end("workers")
            self._begin(workers)
            self._is_here = not workers.n_processes
            n_threads = workers.n_threads

            def one_by_one() -> bool:
                # A GPU solves one call at a time, so hardly any work waits until the trials are over.
                trials = self._trials
                is_one_gpu = self._on_gpu and not workers.n_processes
                return is_one_gpu and trials.is_worth_waiting and not trials.is_done

            try:
                failed = scatter(workers, self, self.retries, self._on_task_done, self.progress, one_by_one)
            except KeyboardInterrupt:
                interrupts.handled()
                if not workers.n_processes:
                    self.progress.say("the batches under way are finished first; Ctrl-C again ends at once")
                raise
        if failed:
            self._check_committed(failed)
        covered = self.output.covered(self.stored.manifest.n_vertices)
        searched = "target" if self.output.follows_reversed else "source"
        self.progress.say(
            f"solved {plural(self._n_solved, searched)} x {covered} with {plural(n_threads, 'thread')}",
            "all_solved",
            sources=self._n_solved,
        )
        return self._solved

    def __iter__(self) -> Iterator[SolveTask]:
        return self

    def __next__(self) -> SolveTask:
        """Return the next task; `Trials` chooses its solver and how many batches it has.

        After `StopIteration` there may be further tasks, if a trial ended without a result.
        """
        if not self._waiting:
            raise StopIteration
        call = self._trials.next_call(self._n_left)
        taken = [self._waiting.popleft() for _ in range(min(call.n_batches, len(self._waiting)))]
        batches = tuple((number, self.batches[number]) for number in taken)
        self._n_left -= sum(len(sources) for _, sources in batches)
        return SolveTask(
            *self.for_tasks,
            batches,
            call.solver,
            solve_options(self.workflow.solve, scale=self.stored.manifest.weights.scale),
            self.output.without_input(),
            tuning=self.workflow.solve.options,
            limit_s=call.limit_s,
        )

    def _begin(self, workers: Workers) -> None:
        """Report the workers, and write them to the run folder for `inspect`."""
        self.progress.say(
            _workers_text(workers),
            "workers",
            # With a cluster this line has the address of the dashboard.
            level="info" if workers.n_processes else "detail",
            workers=workers.n_processes,
            threads=workers.n_threads,
            aside=workers.n_left_out,
            scheduler=workers.scheduler,
            dashboard=workers.dashboard,
        )
        self._began_s = time.perf_counter()
        began = datetime.now(UTC).isoformat(timespec="milliseconds")
        starts = self.folder.read_start().get("starts", [])
        if starts and starts[-1]["batches_before"] == self._n_done:  # it committed nothing
            starts.pop()
        start = {"began": began, "batches_before": self._n_done, "versions": versions()}
        self.folder.write_start(
            {
                "name": self.workflow.name,
                "weight": self.workflow.weight,
                "driver": f"{platform.node()}:{os.getpid()}",
                "solver": self.plan.solver,
                "batches": len(self.batches),
                "sources": sum(map(len, self.batches)),
                "batch": len(self.batches[0]),
                "began": began,
                "batches_before": self._n_done,
                "scheduler": workers.scheduler,
                "dashboard": workers.dashboard,
                "starts": [*starts, start],
            }
        )

    def _on_task_done(self, task: TaskDone) -> None:
        """Report what a task has done, and let the trials learn from it."""
        self.still_ours()
        solved, trials = self._solved, self._trials
        for work in solved.thread_s:
            solved.thread_s[work] += getattr(task, f"{work}_s")
        if task.is_ended:
            trials.end(task.solver)
            self._waiting.extendleft(reversed(task.batches))
            self._n_left += sum(len(self.batches[number]) for number in task.batches)
            self.progress.event("trial_ended", solver=task.solver, batches=task.batches, solve_s=task.solve_s)
            return
        if not self._n_solved:
            self.start_up.end("first_batch")
            self.start_up.report(self.progress)
            if self._on_gpu and self._is_here:
                self.on_spare_cores()
        self._n_done += len(task.batches)
        self._n_solved += task.n_sources
        self.progress.advance(self._n_done, len(self.batches), "batches")
        self.progress.event(
            "solved",
            batches=task.batches,
            sources=task.n_sources,
            solver=task.solver,
            worker=task.worker,
            attempt=task.attempt,
            load_s=task.load_s,
            solve_s=task.solve_s,
            write_s=task.write_s,
            bytes=task.n_bytes,
            done=self._n_done,
            total=len(self.batches),
        )
        if (change := trials.learn(task.solver, task.source_s, task.n_sources, task.reach)) is not None:
            self.progress.say(change, "solver", solver=trials.solver)
            solved.solver, solved.reason = trials.solver, trials.reason
        if time.perf_counter() - self._began_s >= _LOADING_S:
            self._report_late()

    def _report_late(self) -> None:
        """Report it once if what is left takes far longer than the plan expected of it."""
        n_open = self._n_missing - self._n_solved
        left_s = self._trials.left_s(n_open)
        planned_s = self.plan.expected_s * n_open / self.plan.work.n_sources
        if self._is_late or left_s <= max(_LATE_TIMES * planned_s, _LATE_S):
            return
        self._is_late = True
        line = f"about {seconds_text(left_s)} left, where the plan expected {seconds_text(planned_s)}"
        self.progress.say(f"slower than planned: {line}", "late", left_s=left_s, planned_s=planned_s)

    def _check_committed(self, failed: dict[int, str]) -> None:
        """Raise `SsspError` if batches that have `failed` are not committed."""
        committed = self.folder.committed()  # a task may commit some batches before it fails
        failed = {number: reason for number, reason in failed.items() if number not in committed}
        if failed:
            number, reason = min(failed.items())
            raise SsspError(
                f"{len(failed)} of {len(self.batches)} batches failed: {shortened(sorted(failed))}; "
                f"batch {number}: {reason}",
                hint="run the same command again: it solves only what is missing",
            )

    def _warn_of_space(self, wanted: float) -> None:
        """Report it if the bytes still to be written may not fit. Unreached vertices make them fewer."""
        free = files.free_bytes(self.folder.url)
        if free is not None and wanted > free:
            self.progress.say(
                f"warning: up to {in_bytes(wanted)} will be written, {in_bytes(free)} are free there",
                "space",
                level="warning",
                wanted_bytes=round(wanted),
                free_bytes=free,
            )


def _workers_text(workers: Workers) -> str:
    threads = plural(workers.n_threads, "thread")
    if workers.scheduler is None:
        return f"solving with {threads} of this process"
    processes = plural(workers.n_processes, "worker")
    if workers.n_left_out:
        processes += f" ({workers.n_left_out} without a GPU left out)"
    dashboard = (
        f"dashboard {workers.dashboard}"
        if workers.dashboard
        else "no dashboard without the extra `dashboard`"
    )
    return f"cluster: {processes}, {threads}, {dashboard}"
