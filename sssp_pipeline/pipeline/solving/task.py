"""Tasks: a stage that makes them, what a task tells a worker, and what the worker returns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput


@dataclass(eq=False)
class TaskStage:
    """A stage of a run that gives tasks to the workers."""

    stored: StoredGraph
    #: The sources (n,) uint32 of every batch of the run.
    batches: list[np.ndarray]
    #: What the run stores of each row.
    output: RowOutput
    folder: RunFolder
    #: What decides the bytes of the run's distances.
    identity: dict[str, Any]
    #: How many times a failed task is tried again.
    retries: int
    progress: Progress

    @property
    def for_tasks(self) -> tuple[str, str, str, dict[str, Any]]:
        """The first values of a `Task`: store, identity of the graph, run folder, and identity of the run."""
        return self.stored.store, self.stored.manifest.content_id, self.folder.url, self.identity


@dataclass(frozen=True, eq=False)
class Attempt(ABC):
    """A task that `dispatch.scatter` sends to the workers. If it fails, `scatter` sends it with the next number."""

    #: Counts from 1.
    attempt: int = field(default=1, kw_only=True)

    #: The word for what `numbers` counts, for messages.
    noun: ClassVar[str] = "batch"
    #: The plural of `noun`, for messages and events.
    plural: ClassVar[str] = "batches"

    @property
    @abstractmethod
    def numbers(self) -> tuple[int, ...]:
        """Numbers of the batches or parts that this does."""


@dataclass(frozen=True, eq=False)
class Task(Attempt):
    """Some batches of a run, and where a worker finds what it needs for them."""

    #: The graph store and the identity of its graph.
    store: str
    content_id: str
    #: The run folder, and the identity of the run that must be there.
    run: str
    identity: dict[str, Any]
    #: Numbers, each with its sources (n,) uint32.
    batches: tuple[tuple[int, np.ndarray], ...]

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
    """What a worker returns after a task. It is small, because it passes through Dask's scheduler."""

    solver: str
    #: The numbers of the batches.
    batches: tuple[int, ...]
    #: Host and process, and the number of the attempt.
    worker: str
    attempt: int
    #: Seconds of one thread.
    load_s: float
    solve_s: float
    write_s: float = 0.0
    #: The number of sources of all batches, and the mean seconds that the thread or the GPU took for one.
    n_sources: int = 0
    source_s: float = 0.0
    #: The mean share of the vertices that they reached; 1 if it was not counted.
    reach: float = 1.0
    #: Bytes of distances and metrics written.
    n_bytes: int = 0
    #: Whether this was a trial that ended without a result.
    is_ended: bool = False
