"""Tasks: what a stage knows that makes them, what they tell a worker, and what the worker returns of a solved one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.outputs import RowOutput
from sssp_pipeline.pipeline.results.run_folder import RunFolder
from sssp_pipeline.progress import Progress


@dataclass(eq=False)
class TaskStage:
    """A stage of a run that gives tasks to the workers.

    Attributes
    ----------
    batches
        The sources (n,) uint32 of every batch of the run.
    output
        What the run stores of each row.
    identity
        What decides the bytes of the run's distances.
    retries
        How many times a failed task is tried again.
    """

    stored: StoredGraph
    batches: list[np.ndarray]
    output: RowOutput
    folder: RunFolder
    identity: dict[str, Any]
    retries: int
    progress: Progress

    @property
    def for_tasks(self) -> tuple[str, str, str, dict[str, Any]]:
        """The first values of a `Task`: store, identity of the graph, run folder, and identity of the run."""
        return self.stored.store, self.stored.manifest.content_id, self.folder.url, self.identity


@dataclass(frozen=True, eq=False)
class Task:
    """Some batches of a run, and where a worker finds what it needs for them.

    Attributes
    ----------
    store, content_id
        The graph store and the identity of its graph.
    run, identity
        The run folder, and the identity of the run that must be there.
    batches
        Numbers, each with its sources (n,) uint32.
    attempt
        Counts from 1.
    """

    store: str
    content_id: str
    run: str
    identity: dict[str, Any]
    batches: tuple[tuple[int, np.ndarray], ...]
    attempt: int = field(default=1, kw_only=True)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(number for number, _ in self.batches)

    # Pickled, the batches are three arrays. Each pickled array takes 60 bytes, and a small batch has one source.
    def __getstate__(self) -> dict[str, Any]:
        numbers, sources = zip(*self.batches, strict=True)
        ends = np.cumsum([len(some) for some in sources])
        packed = np.array(numbers), ends, np.concatenate(sources)
        return {**self.__dict__, "batches": packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        numbers, ends, sources = state["batches"]
        batches = tuple(zip(numbers.tolist(), np.split(sources, ends[:-1]), strict=True))
        self.__dict__.update(state, batches=batches)


@dataclass(frozen=True)
class TaskDone:
    """What a worker returns of a task. It is small, because it passes through Dask's scheduler.

    Attributes
    ----------
    batches
        The numbers of the batches.
    worker, attempt
        Host and process, and the number of the attempt.
    load_s, solve_s, write_s
        Seconds of one thread.
    n_sources, source_s
        How many sources the batches have together, and the mean seconds of one, of the thread or of the GPU.
    n_bytes
        Bytes of distances and metrics written.
    is_ended
        Whether this was a trial that ended without a result.
    """

    solver: str
    batches: tuple[int, ...]
    worker: str
    attempt: int
    load_s: float
    solve_s: float
    write_s: float = 0.0
    n_sources: int = 0
    source_s: float = 0.0
    n_bytes: int = 0
    is_ended: bool = False
