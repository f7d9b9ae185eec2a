"""Solves the batches of a task on a worker, and commits them.

A batch is committed as a whole. A task is solved by one call of a solver. It has several batches if the solver is
faster with more sources.

A worker loads the graph itself, once, and keeps it. It writes distances to storage and returns a few numbers, so
neither Dask's scheduler nor its client carries a graph or a distance.
"""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.vertex_ids import VertexIds, error_in_ids
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.packed_words import PackedWords
from sssp_pipeline.kernels.contract.solver import Parts, Solution, SolveOptions, metrics_column
from sssp_pipeline.kernels.contract.tunable import Value
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.solver import Solver
from sssp_pipeline.pipeline.graph_store.stored_graph import resident_graph
from sssp_pipeline.pipeline.planning.machine import cpu_name, gpu_name
from sssp_pipeline.pipeline.planning.searched_graph import searched_graph
from sssp_pipeline.pipeline.results.folder.batch_metrics import Place
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput
from sssp_pipeline.pipeline.solving import worker_metrics
from sssp_pipeline.pipeline.solving.task import Task, TaskDone
from sssp_pipeline.pipeline.solving.workers.needs import most_under_way
from sssp_pipeline.pipeline.solving.workers.process_wide import switching_sooner
from sssp_pipeline.storage import files
from sssp_pipeline.storage.retries import mark_reachable

#: A task writes a batch of up to this many bytes itself: giving it to a thread would take longer.
_SMALL_BYTES = 2**18
#: Held by each thread that writes to a local disk. More threads than cores would only take turns.
_WRITERS = threading.BoundedSemaphore(usable_cores())
#: Held by each batch of any task that waits to be written or is written. More of them would only take memory.
_UNDER_WAY = threading.BoundedSemaphore(usable_cores() + 4)
#: Batches of a task that are on the host before they are given to threads: two are copied, one is handed over.
_BEFORE = 3


@dataclass(frozen=True, eq=False)
class SolveTask(Task):
    """All that a worker needs to solve some batches and commit them."""

    solver: str
    #: Without `kept`, which `output` has.
    options: SolveOptions
    #: As `RowOutput.without_input` returns it. The input may be long, and is the same for all tasks: a worker reads it.
    output: RowOutput
    #: Options that only this solver has.
    tuning: dict[str, Value] = field(default_factory=dict)
    #: The task of a trial ends without a result if a source takes longer than this, or cannot be solved. None for other
    #: tasks: a source that cannot be solved is an error.
    limit_s: float | None = None


#: Held while an input or points are read. Without it, each thread of a worker would read its own copy at the beginning.
_READING = threading.Lock()


@lru_cache(maxsize=1)
def _read_input(run: str, identity: str, stays: bool, digest: str) -> np.ndarray:
    """Return the targets or amounts that the folder of a run has. This process keeps them for one run."""
    del identity  # tells apart two runs in the same folder
    return RunFolder(run).read_input(digest, stays=stays)


@lru_cache(maxsize=1)
def _named_ids(run: str, snapped: str, ids: VertexIds) -> VertexIds:
    """Return `ids` with the points of a run, whose digest is `snapped`. This process keeps them for one run."""
    return RunFolder(run).named_ids(ids, {"snapped": snapped})


def solve_task(task: SolveTask) -> TaskDone:
    """Solve the batches of a task, commit them, and return what that took; runs on a worker.

    Raises
    ------
    InputError
        The store does not hold the expected graph, the folder no longer holds the run, or a path is longer than
        the weights' type holds.
    """
    mark_reachable(files.redacted(task.store), files.redacted(task.run))
    with switching_sooner, worker_metrics.counted(task.attempt):
        done = _solved(task)
        worker_metrics.add(done)
    return done


def _solved(task: SolveTask) -> TaskDone:
    began = time.perf_counter()
    device = _device(SOLVERS.device_of(task.solver))
    stored = resident_graph(task.store, task.content_id)
    graph, ids = searched_graph(stored.graph(), stored, task.output), stored.ids
    # Other searches start at vertices. Points get their ids when the files of the run are made of all batches.
    if (snapped := task.identity.get("snapped")) is not None and task.output.counts_sources:
        with _READING:
            ids = _named_ids(task.run, snapped, ids)
    along = tuple(stored.other_weights(cost.weights) for cost in task.output.form.along)
    loaded = time.perf_counter()
    read_input = partial(_read_input, task.run, str(task.identity), task.output.input_stays)
    with _READING:
        output = task.output.for_solving(read_input)
    solver = solver_named(task.solver, task.tuning)
    worker = f"{platform.node()}:{os.getpid()}"
    commits = _Commits(task, output, worker, device, ids)
    done = partial(TaskDone, task.solver, task.numbers, worker, task.attempt, loaded - began)
    source_s, reached = list[np.ndarray](), list[np.ndarray]()
    try:
        with commits, closing(_parts(task, solver, graph, output, along)) as parts:
            for (number, sources), part in zip(task.batches, parts, strict=True):
                source_s.append(np.asarray(metrics_column(part.metrics, "solve_s"), np.float64))
                reached.append(np.asarray(metrics_column(part.metrics, "reached"), np.float64))
                commits.commit(number, sources, part)
                del part  # its memory is given back when it is written
    except SsspError as error:
        if task.limit_s is None:
            if (in_ids := error_in_ids(error, ids, stored.manifest.weights.scale)) is not error:
                raise in_ids from error
            raise
        # The solver of a trial was too slow or had too little memory: the run continues with another solver.
        return done(time.perf_counter() - loaded, is_ended=True)
    solve_s = time.perf_counter() - loaded - commits.waited_s
    of_sources = np.concatenate(source_s)
    return done(
        solve_s,
        commits.write_s,
        len(of_sources),
        float(np.mean(of_sources)),
        float(np.mean(np.concatenate(reached))) / graph.n_vertices or 1.0,
        commits.n_bytes,
    )


def _device(kind: str) -> Callable[[], str]:
    """Return a function that returns the name of the GPU or of the CPU.

    A program is asked for the name of the GPU. It takes up to a second, in which the graph is loaded and solved.
    """
    if kind == "cpu":
        return cpu_name
    asking = threading.Thread(target=gpu_name)
    asking.start()

    def name() -> str:
        asking.join()
        return gpu_name() or cpu_name()

    return name


def _parts(
    task: SolveTask, solver: Solver, graph: CsrGraph, output: RowOutput, along: tuple[np.ndarray, ...]
) -> Parts:
    """Yield the solution of each batch of a task, with the second costs `along`."""
    sources = np.concatenate([sources for _, sources in task.batches])
    made = {"row_facts": output.reads_facts, "reached_only": output.reached_only}
    options = replace(task.options, kept=output.kept, along=along, **made)
    if task.limit_s is not None:
        options = replace(options, deadline_s=min(task.limit_s, options.deadline_s))
    ends = np.cumsum([len(sources) for _, sources in task.batches]).tolist()
    return solver.solve_parts(graph, sources, options, ends)


class _Commits:
    """Commits the batches of a task on threads, while the next ones are solved.

    At the end of a `with` block, it waits for the threads. Then it raises what a thread raised. If that is `OSError`,
    the other batches are committed all the same.
    """

    def __init__(
        self, task: SolveTask, output: RowOutput, worker: str, device: Callable[[], str], ids: VertexIds
    ) -> None:
        self._folder, self._identity = RunFolder(task.run, task.identity), task.identity
        self._output, self._ids = output, ids
        self._worker, self._device, self._attempt = worker, device, task.attempt
        self._turn = _WRITERS if files.is_local(task.run) else nullcontext()
        self._threads: ThreadPoolExecutor | None = None
        if len(task.batches) > 1:
            self._threads = ThreadPoolExecutor(min(len(task.batches), usable_cores()))
        #: As `_UNDER_WAY`, of this task.
        self._under_way: threading.Semaphore | None = None
        self._is_checked = False
        #: What writing raised. Another batch or attempt may succeed after `OSError`, but not after other errors.
        self._errors: list[Exception] = []
        self._lock = threading.Lock()
        #: Seconds of the threads that wrote, and the bytes that they wrote.
        self.write_s, self.n_bytes = 0.0, 0
        #: Seconds in which the calling thread did not solve.
        self.waited_s = 0.0

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        began = time.perf_counter()
        if self._threads is not None:
            self._threads.shutdown()
        self.waited_s += time.perf_counter() - began
        if self._errors and kind is None:
            raise min(self._errors, key=lambda error: isinstance(error, OSError))

    def commit(self, number: int, sources: np.ndarray, part: Solution) -> None:
        """Commit a batch, on another thread if the task has several; wait if too many are under way.

        Raises
        ------
        InputError
            The folder no longer holds the run, or an earlier batch cannot be stored in the way that was asked for.
        """
        began = time.perf_counter()
        for error in self._errors:
            if not isinstance(error, OSError):
                raise error
        if not self._is_checked:
            # A process that was paused, or that outlived its driver, may come here after the run has ended. The folder
            # may then hold another run.
            if not self._folder.awaits(self._identity):
                raise InputError(
                    f"`{files.redacted(self._folder.url)}` no longer holds the run of this batch",
                    hint="run the same command again, and leave the folder to it until it ends",
                )
            self._is_checked = True
        place = Place(self._worker, self._device(), self._attempt, solved_at=time.time())
        held = (part.distances, part.over_sources, part.path_words, part.reached, *part.along)
        n_bytes = sum(array.nbytes for array in held if array is not None)
        if self._threads is None or n_bytes < _SMALL_BYTES:
            self._write(number, sources, part, place)
        else:
            if self._under_way is None:
                # A later part may have words at all places.
                if isinstance(part.path_words, PackedWords):
                    n_bytes += part.path_words.unpacked_bytes
                self._under_way = threading.Semaphore(most_under_way(n_bytes) - _BEFORE)
            self._under_way.acquire()
            _UNDER_WAY.acquire()
            writing = self._threads.submit(self._write, number, sources, part, place)
            writing.add_done_callback(self._written)
        self.waited_s += time.perf_counter() - began

    def _written(self, _: Future) -> None:
        assert self._under_way is not None
        self._under_way.release()
        _UNDER_WAY.release()

    def _write(self, number: int, sources: np.ndarray, part: Solution, place: Place) -> None:
        with self._turn:
            began = time.perf_counter()
            n_bytes = 0
            try:
                n_bytes = self._folder.commit_batch(number, sources, part, place, self._ids, self._output)
            except Exception as error:
                self._errors.append(error)
            with self._lock:
                self.write_s += time.perf_counter() - began
                self.n_bytes += n_bytes
