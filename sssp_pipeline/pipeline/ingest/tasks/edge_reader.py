"""Who reads the edges of an ingest: this process as a whole, tasks in its threads, or tasks on workers.

Tasks leave their work in a folder of the store. A killed ingest leaves this folder, and the next one goes on with it
(`task_notes.py`). A graph that fits memory is ingested again in less time than that would take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.generators import is_generated
from sssp_pipeline.base.progress import Progress, in_bytes, plural
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.store import INGEST_FOLDER
from sssp_pipeline.pipeline.ingest.damage import DamagedFileError
from sssp_pipeline.pipeline.ingest.edges import ReadEdges
from sssp_pipeline.pipeline.ingest.input import open_input
from sssp_pipeline.pipeline.ingest.job import Given
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.reading import WholeInput, read_edges
from sssp_pipeline.pipeline.ingest.tasks.in_threads import InThreads, Threads
from sssp_pipeline.pipeline.ingest.tasks.on_workers import OnWorkers
from sssp_pipeline.pipeline.ingest.tasks.task_notes import Notes, digest_of
from sssp_pipeline.pipeline.ingest.tasks.tasks import TaskPool
from sssp_pipeline.storage import files

#: Smaller inputs are read before workers have started.
_LEAST_INPUT_BYTES = 64 << 20
#: The bytes of a file that say whether it can be divided.
_HEAD_BYTES = 1 << 18


class IngestWorkers(Protocol):
    """Where an ingest gets its workers from."""

    def pool(
        self, folder: str, inputs: list[tuple[str, dict[str, Any]]]
    ) -> AbstractContextManager[TaskPool | str]:
        """Give workers that see `folder`, where a file is, and the `inputs`, or the reason why there are none.

        Each of `inputs` is a URL and its fingerprint.

        Raises
        ------
        SsspError
            The cluster cannot be started or reached.
        """
        ...


#: `reading.read_edges` with a way to read.
EdgeReader = Callable[..., AbstractContextManager[ReadEdges]]


@contextmanager
def edge_reader(
    workers: IngestWorkers | None,
    store: str,
    given: Iterable[Given],
    progress: Progress,
    check_held: Callable[[], None],
) -> Iterator[EdgeReader]:
    """Give the function that reads the edges of each of `given`.

    It uses tasks on `workers`, if there are any and it is worth it; without workers, tasks in threads of this process
    if the input is larger than the memory and the store is on this machine.

    The caller holds the store, and `check_held` raises as soon as it does not. An ingest by tasks that is interrupted,
    or loses its workers or the storage, leaves what was done; the next one of the same graph goes on with it. If a file
    of it is damaged, the `DamagedFileError` says whether another attempt can make it again.
    """
    given = list(given)
    name = INGEST_FOLDER + digest_of(given)
    folder = files.join(store, name)

    def say(reason: str) -> None:
        progress.say(f"ingest runs in this process: {reason}", "ingest_here")

    if workers is None:
        by_tasks = files.is_local(store) and _is_large(given, folder) and _why_whole(given) is None
    elif (reason := _why_whole(given) or _why_small(given)) is not None:
        say(reason)
        by_tasks = False
    else:
        by_tasks = True
    if not by_tasks:
        yield partial(read_edges, WholeInput)
        return
    check_held()
    files.remove_temporaries(store, but=name)  # the folder of another graph may be as large
    notes = Notes(folder)
    if notes.any and not _has_plans(notes, given):
        place = files.redacted(folder)
        progress.say(f"the plan in `{place}` is missing or damaged: ingest begins again", "damaged")
        files.remove(folder)
        notes = Notes(folder)
    try:
        files.write_atomic(files.join(folder, "here"), b"")
        if workers is None:
            threads = Threads.of(given[0].spec.memory)
            yield partial(read_edges, partial(InThreads, threads, folder, notes))
        else:
            inputs = [each for one in given for each in zip(one.urls, one.inputs, strict=False)]
            with workers.pool(folder, inputs) as pool:
                if isinstance(pool, str):
                    say(pool)
                    yield partial(read_edges, WholeInput)
                else:
                    yield partial(read_edges, partial(OnWorkers, pool, folder, notes))
    except BaseException as error:
        if isinstance(error, DamagedFileError):
            check_held()
            _discard_damaged(folder, error, progress)
            if error.was_discarded:
                raise
        if notes.any and _may_go_on(error):
            place = files.redacted(folder)
            progress.say(
                f"what was done is kept in `{place}`: the same command goes on with it; without this folder it starts "
                "afresh",
                "ingest_kept",
                folder=place,
            )
            raise
        check_held()  # otherwise the folder belongs to the process that took over the store
        files.remove(folder)
        raise
    files.remove(folder)


def _has_plans(notes: Notes, given: list[Given]) -> bool:
    """Return whether each note of a plan is valid, and the graph that is read first has one."""
    graphs = [digest_of([one]) for one in given]
    return notes.has(graphs[0]) and all(notes.has_plan(graph) for graph in graphs if notes.has(graph))


def _discard_damaged(folder: str, error: DamagedFileError, progress: Progress) -> None:
    """Discard what is damaged in `folder`, so that another attempt makes it again."""
    n_tasks = Notes(folder).discard_damaged()
    if n_tasks:
        error.was_discarded = True
        again = f"the work of {plural(n_tasks, 'task')} is done again"
        progress.say(f"{error.place} is damaged: {again}", "damaged", tasks=n_tasks)


def _may_go_on(error: BaseException) -> bool:
    """Return whether the same command may succeed later, with the same input."""
    return isinstance(error, KeyboardInterrupt | SsspError) and not isinstance(error, InputError)


def _why_whole(given: list[Given]) -> str | None:
    """Return why the input cannot be divided into tasks; None if it can."""
    for one in given:
        if any(map(is_generated, one.urls)):
            return "it makes the graph itself"
        first = open_input(one.spec, one.urls[:1], _HEAD_BYTES)
        if not first.pieces:
            return f"a {first.reading.format} input is read as a whole"
        if len(one.urls) == 1 and not first.pieces[0].divide([1]):
            return "the input is one file, which cannot be divided"
    return None


def _why_small(given: list[Given]) -> str | None:
    """Return why workers would not be faster, if the input is small."""
    n_bytes = sum(_input_bytes(one) for one in given)
    return f"the input has {in_bytes(n_bytes)}" if n_bytes < _LEAST_INPUT_BYTES else None


def _is_large(given: list[Given], folder: str) -> bool:
    """Return whether an input is larger than the memory, or an ingest by tasks was begun in `folder`."""
    memory = Memory.of(given[0].spec.memory, usable_cores())
    return max(map(_input_bytes, given)) > memory.n_bytes or bool(files.file_sizes(folder))


def _input_bytes(given: Given) -> int:
    return sum(file.get("size") or 0 for file in given.inputs)
