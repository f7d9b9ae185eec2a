"""Notes: what the tasks of an ingest on workers have returned, so that the next ingest goes on after a kill.

The folder of an ingest is named after all that its graph depends on. When a task is done, the process that leads the
ingest writes a note of the result into this folder. The files of the task are complete by then. The next ingest of the
same graph finds the same folder, and takes the notes instead of doing these tasks.

A task makes the same rows, edges and ids from the same input whoever does it, so a note is right without regard to
other notes. One that is missing, damaged, or tells of a damaged file costs the work of its task. A note has the
checksums of what its task wrote, which are checked where that is read: when damage is found there, all notes are
checked (`discard_damaged`) and the ingest is begun again with those that are whole. Others may write to the storage, so
notes are JSON and name only files of their own folder.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sssp_pipeline import __version__
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.pipeline.formats.edge_list import SkippedRows
from sssp_pipeline.pipeline.ingest.damage import DamagedFileError
from sssp_pipeline.pipeline.ingest.graph_identity import options_of
from sssp_pipeline.pipeline.ingest.job import Given
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun
from sssp_pipeline.pipeline.ingest.rows.reverses import random_keys
from sssp_pipeline.pipeline.ingest.tasks.stored_runs import Stored, StoredBits, StoredIds, check_files
from sssp_pipeline.pipeline.ingest.tasks.tasks import EdgesRead, Result, RowsMade, Task, TaskFault, TaskPool
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange
from sssp_pipeline.storage import files

#: Raise this number when a task makes other files or returns something else, or the input is divided otherwise.
_FORMAT = 4
#: What begins the name of a note; no task writes files of this name.
_NOTE = "note-"
#: A file of `stored_runs.store_arrays`.
_FILE = re.compile(r"[a-z]+-[0-9a-f]{12}")
#: Notes that are read at a time.
_REQUESTS = 8
#: An ingest keeps the task sizes of a killed one if they need at most this many times the memory of new ones. A task
#: plans with half of the memory of its thread.
_MOST_GROWTH = 2


def digest_of(given: Iterable[Given]) -> str:
    """Return a name for all that the results of the tasks depend on, except how the input is divided into tasks."""
    about = [[options_of(one.spec), one.inputs, one.wider] for one in given]
    return _digest([_FORMAT, __version__, about])


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Plan:
    """What a killed ingest has decided, and the next one keeps, although memory and workers may differ."""

    #: How many threads the division into tasks is for.
    n_threads: int
    #: As in `tasks.Settings`.
    id_bytes: int
    #: The most edges of the rows of a task.
    row_edges: int
    #: As for `reverses.reverse_difference`: the differences of all rows are added.
    keys: np.ndarray
    #: Different in each plan.
    name: str

    @classmethod
    def new(cls, n_threads: int, id_bytes: int, row_edges: int) -> Plan:
        return cls(n_threads, id_bytes, row_edges, random_keys(), secrets.token_hex(8))


class Notes:
    """The notes in the folder of an ingest."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        #: The files that are there before the first task.
        self._sizes = files.file_sizes(folder)
        #: Whether there is any note.
        self.any = any(name.startswith(_NOTE) for name in self._sizes)

    def has(self, *key: Any) -> bool:
        """Return whether there was a note under `key` before this ingest, valid or not."""
        return _NOTE + _digest(key) in self._sizes

    def read(self, *key: Any) -> Any:
        """Return the result in the note under `key` from before this ingest; None without a valid note.

        Raises
        ------
        StoreUnavailableError
            The storage does not answer.
        """
        return self._result_in(_NOTE + _digest(key)) if self.has(*key) else None

    def discard_damaged(self) -> int:
        """Remove the notes of this folder that are damaged, or tell of damaged files; return how many they were.

        All these files are read.

        Raises
        ------
        StoreUnavailableError
            The storage does not answer.
        """

        def is_damaged(name: str) -> bool:
            result = self._result_in(name)
            try:
                check_files(result)
            except DamagedFileError:
                return True
            return result is None

        self._sizes = files.file_sizes(self._folder)
        names = [name for name in self._sizes if name.startswith(_NOTE)]
        with ThreadPoolExecutor(_REQUESTS) as reading:
            found = [
                name for name, damaged in zip(names, reading.map(is_damaged, names), strict=True) if damaged
            ]
        files.remove_files(self._folder, found)
        return len(found)

    def _result_in(self, name: str) -> Any:
        """Return the result in a note; None if the note is damaged."""
        content = files.read_if_there(files.join(self._folder, name)) or b""
        checksum, _, text = content.partition(b"\n")
        if checksum != _checksum(name, text):
            return None
        try:
            return self._decoded(json.loads(text))
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
            return None

    def write(self, result: Any, *key: Any) -> None:
        """Write a note of the result of a task, whose files are complete; raises as `files.open_atomic`."""
        name, text = _NOTE + _digest(key), json.dumps(_encoded(result)).encode()
        files.write_atomic(files.join(self._folder, name), _checksum(name, text) + b"\n" + text)
        self.any = True

    def has_plan(self, of: str) -> bool:
        """Return whether there is a note of the plan for the graph `of`. Without it no other note is used."""
        return isinstance(self.read(of), Plan)

    def plan(self, new: Plan, of: str) -> Plan:
        """Return the plan of an earlier ingest of the graph `of`; without one, write a note of the `new` plan."""
        kept = self.read(of)
        if isinstance(kept, Plan) and all(
            old <= _MOST_GROWTH * now
            for old, now in ((kept.id_bytes, new.id_bytes), (kept.row_edges, new.row_edges))
        ):
            return kept
        self.write(new, of)
        return new

    def _decoded(self, value: Any) -> Any:
        """Return what `_encoded` was given; raises one of several errors if it was something else."""
        if isinstance(value, list):
            return [self._decoded(each) for each in value]
        if not isinstance(value, dict):
            return value
        ((kind, content),) = value.items()
        if kind == "tuple":
            return tuple(self._decoded(each) for each in content)
        if kind == "array":
            return np.frombuffer(base64.b64decode(content[1], validate=True), _number_type(content[0]))
        if kind == "Stored":
            return self._stored(*content)
        if kind == "SkippedRows":
            skipped = SkippedRows()
            skipped.add(*content)
            return skipped
        return _RECORDS[kind](**{name: self._decoded(each) for name, each in content.items()})

    def _stored(self, name: str, begin: int, length: int, dtype: str, sums: str | None) -> Stored:
        of_blocks = None if sums is None else base64.b64decode(sums, validate=True)
        place = Stored(files.join(self._folder, name), begin, length, _number_type(dtype), of_blocks)
        end = begin + length * place.dtype.itemsize
        if not _FILE.fullmatch(name) or min(begin, length) < 0 or end > self._sizes[name]:
            raise ValueError(name)
        return place


#: What else a note may hold: the types of the results, and of their fields.
_RECORDS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind for kind in (Plan, EdgesRead, EdgeRun, StoredBits, StoredIds, WeightRange, RowsMade)
}


def _encoded(value: Any) -> Any:
    """Return `value` as JSON, in which an object has one key: its type."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return [_encoded(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_encoded(each) for each in value]}
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.str, base64.b64encode(value.tobytes()).decode()]}
    if isinstance(value, Stored):
        sums = None if value.sums is None else base64.b64encode(value.sums).decode()
        return {"Stored": [value.url.rpartition("/")[2], value.begin, value.length, value.dtype.str, sums]}
    if isinstance(value, SkippedRows):
        return {"SkippedRows": [value.count, value.lines]}
    return {type(value).__name__: {each.name: _encoded(getattr(value, each.name)) for each in fields(value)}}


def _number_type(text: str) -> np.dtype:
    dtype = np.dtype(text)
    if dtype.kind not in "uif":
        raise ValueError(text)
    return dtype


def _checksum(name: str, text: bytes) -> bytes:
    return hashlib.sha256(name.encode() + text).hexdigest().encode()


@dataclass(frozen=True, eq=False)
class TasksWithNotes:
    """Does the tasks of an ingest that have no note, and writes notes of their results."""

    pool: TaskPool
    notes: Notes
    plan: Plan
    progress: Progress

    def results(
        self,
        step: str,
        work: Callable[[Task], Result | TaskFault],
        keys: Sequence[tuple[int, ...]],
        task: Callable[[int], Task],
        on_done: Callable[[Result], None] = lambda _: None,
    ) -> tuple[list[Result], TaskFault | None]:
        """Return the results of all tasks, and the first fault; with a fault, the results before it.

        Parameters
        ----------
        step
            Words such as `parts were read`.
        keys
            The key of each task: the same task of the same plan has the same key.
        task
            Returns a task by its number, which is the place of its key.
        """
        with ThreadPoolExecutor(_REQUESTS) as reading:
            results = reading.map(lambda key: self.notes.read(self.plan.name, step, *key), keys)
            found: dict[int, Result] = {i: result for i, result in enumerate(results) if result is not None}
        faults: dict[int, TaskFault] = {}
        damaged = sum(self.notes.has(self.plan.name, step, *key) for key in keys) - len(found)
        if damaged:
            line = f"{plural(damaged, 'note')} of an interrupted ingest {'is' if damaged == 1 else 'are'} damaged"
            self.progress.say(f"{line}: the work of these tasks is done again", "damaged", tasks=damaged)
        if found:
            line = f"going on: {len(found):,} of {len(keys):,} {step} before"
            self.progress.say(line, "ingest_goes_on", done=len(found), tasks=len(keys))
        for result in found.values():
            on_done(result)
        missing = [number for number in range(len(keys)) if number not in found]

        def remaining() -> Iterator[Task]:
            for number in missing:
                if faults:
                    return
                yield task(number)

        def keep(number: int, result: Result | TaskFault) -> None:
            if isinstance(result, TaskFault):
                faults[number] = result
                return
            self.notes.write(result, self.plan.name, step, *keys[number])
            found[number] = result
            on_done(result)

        self.pool.do(work, remaining(), keep)
        first = min(faults, default=None)
        return [found[i] for i in sorted(found) if first is None or i < first], (
            None if first is None else faults[first]
        )
