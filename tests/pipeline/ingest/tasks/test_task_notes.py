"""A killed ingest by tasks goes on: the next one takes the notes of the tasks that were done, and does the others."""

from __future__ import annotations

import errno
import gzip
import os
import pickle
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

from sssp_pipeline.base.errors import DiskFullError, InputError, SsspError, StoreUnavailableError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.formats.edge_list import SkippedRows
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.ingest import into_store
from sssp_pipeline.pipeline.ingest.edges import ReadEdges
from sssp_pipeline.pipeline.ingest.ids.id_mapping import EVERYWHERE
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun
from sssp_pipeline.pipeline.ingest.tasks import edge_reader, in_threads, on_workers, read_by_tasks, task_notes
from sssp_pipeline.pipeline.ingest.tasks.stored_runs import StoredBits, StoredIds, store_arrays
from sssp_pipeline.pipeline.ingest.tasks.task_notes import Notes, Plan
from sssp_pipeline.pipeline.ingest.tasks.tasks import EdgesRead, RowsMade
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange
from sssp_pipeline.pipeline.run.inspect import describe
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import Graph

N_FILES, N = 5, 200
FOLDER = f"{files.TEMP_PREFIX}ingest-*"
pytestmark = pytest.mark.medium


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    """Let few edges fill a task, a range and a part."""
    monkeypatch.setattr(edge_reader, "_LEAST_INPUT_BYTES", 0)
    monkeypatch.setattr(read_by_tasks, "_FEWEST_TASK_BYTES", 1)
    monkeypatch.setattr(on_workers, "_FEWEST_ROW_EDGES", 100)
    monkeypatch.setattr(part_files, "PART_EDGES", 300)
    monkeypatch.setattr(part_files, "PART_ROWS", 100)


class Killed(BaseException):
    """The process ends here."""


class Storage:
    """Counts what is written to storage, and kills the process at a write: nothing is written or removed then."""

    def __init__(self, monkeypatch, kill_at: int | None = None) -> None:
        self.n_writes, self._kill_at, self.is_dead = 0, kill_at, False
        self._lock = Lock()
        self._open, self._remove = files.open_atomic, files.remove
        monkeypatch.setattr(files, "open_atomic", self.open_atomic)
        monkeypatch.setattr(files, "remove", self.remove)

    @contextmanager
    def open_atomic(self, url: str, **how: bool):
        self._check()
        with self._lock:
            self.n_writes += 1
            number = self.n_writes
        with self._open(url, **how) as handle:
            yield handle
            self.is_dead = self.is_dead or number == self._kill_at
            self._check()

    def remove(self, url: str) -> None:
        self._check()
        self._remove(url)

    def _check(self) -> None:
        if self.is_dead:
            raise Killed


class Workers(Progress):
    """Workers in this process. They count the tasks that they do, and keep what is said."""

    def __init__(self, n_threads: int = 2, task_bytes: int = 1 << 28) -> None:
        self.n_threads, self.task_bytes = n_threads, task_bytes
        self.done: Counter[str] = Counter()
        self.lines: list[str] = []
        #: A task that is not done, by its function and how many were done before it, and its error.
        self.error: tuple[str, int, BaseException] | None = None

    @contextmanager
    def pool(self, folder, inputs):
        store, _, name = folder.rpartition("/")
        assert [each for each in files.list_names(store) if each[0] == "."] == [
            name
        ]  # those of others are gone
        yield self

    def do(self, work, tasks, on_done) -> None:
        for task in tasks:
            if self.error is not None and (work.__name__, self.done[work.__name__]) == self.error[:2]:
                raise self.error[2]
            result = pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(task)))))
            self.done[work.__name__] += 1
            on_done(getattr(task, "number", None), result)

    def say(self, line: str, event: str = "note", **_: object) -> None:  # type: ignore[override]
        self.lines.append(line)

    @property
    def noted(self) -> Counter[str]:
        """The tasks that were not done again, by the words for them."""
        words = [line.split() for line in self.lines if line.startswith("going on: ")]
        return Counter({" ".join(line[5:8]): int(line[2]) for line in words})


class Threads(Progress):
    """Threads of this process. They count the tasks that they do, and keep what is said."""

    def __init__(self, monkeypatch) -> None:
        self.n_done = 0
        self.lines: list[str] = []
        monkeypatch.setattr(edge_reader, "_is_large", lambda *_: True)
        read = in_threads.read_edges_of

        def counted(*given):
            result = read(*given)
            self.n_done += 1
            return result

        monkeypatch.setattr(in_threads, "read_edges_of", counted)

    def say(self, line: str, event: str = "note", **_: object) -> None:  # type: ignore[override]
        self.lines.append(line)


def write(folder: Path, ids: str = "numbers", suffix: str = "txt", columns: int = 1) -> dict:
    """Write the files of an edge list, and return the section of the workflow that reads them."""
    rng = np.random.default_rng(3)
    for number in range(N_FILES):
        ends = (rng.random((N, 2)) ** 2 * 150).astype(int) * 7
        if ids == "large and small" and number == 2:
            ends += 2**40
        weights = rng.integers(0, 9, (N, columns)) / (4 if number == 3 else 1)
        name = "stop-é{}" if ids == "strings" else "{}"
        text = "".join(
            " ".join([name.format(u), name.format(v), *map("{:g}".format, w)]) + "\n"
            for (u, v), w in zip(ends.tolist(), weights.tolist(), strict=True)
        )
        if columns > 1:
            text = "from to am pm\n" + text
        content = gzip.compress(text.encode(), mtime=0) if suffix.endswith("gz") else text.encode()
        (folder / f"edges-{number}.{suffix}").write_bytes(content)
    return {"input": str(folder / f"edges-*.{suffix}")}


def stored(store: Path, spec: dict, workers: Workers | Threads | None = None) -> dict:
    """Ingest, and return the files of the graph store without the name of the ingest, and its manifest."""
    manifest, _ = ingest(
        Graph.model_validate(spec),
        str(store),
        workers or Progress(),
        workers=workers if isinstance(workers, Workers) else None,
    )
    assert all(path.name[0] != "." for path in store.iterdir())
    text = manifest.content
    for graph in text.get("graphs", {"": text}).values():
        for folder in ("row_offsets", "edges", "vertices", "edge_weights"):
            for part in graph.get(folder) or ():
                part.pop("path")
    parts = [path for path in sorted(store.glob("*/*")) if path.is_file()]
    skipped = store / "skipped.txt"
    return {
        "files": {f"{path.parent.name}/{path.name[-13:]}": path.read_bytes() for path in parts},
        "manifest": text,
        "skipped": skipped.exists() and skipped.read_text(),
    }


def killed(
    monkeypatch, store: Path, spec: dict, kill_at: int, workers: Workers | None = None
) -> Counter[str]:
    """Ingest, be killed at a write, and return the tasks that were noted."""
    workers = workers or Workers()
    with monkeypatch.context() as patched:
        storage = Storage(patched, kill_at)
        with pytest.raises(Killed):
            ingest(Graph.model_validate(spec), str(store), workers, workers=workers)
        assert storage.is_dead
    return workers.done


KINDS = {
    "numbers": ({}, {}),
    "one way and back": ({}, {"directed": False}),
    "large and small": ({"ids": "large and small"}, {}),
    "strings": ({"ids": "strings"}, {}),
    "compressed": ({"suffix": "txt.gz"}, {}),
    "some vertices": ({}, {"vertices": "largest-component"}),
    "one weight with a name": ({"columns": 2}, {"weights": {"several": [{"name": "pm"}]}}),
    "several weights": ({"columns": 2}, {"weights": {"several": [{"name": "am"}, {"name": "pm"}]}}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_ingest_goes_on(tmp_path, monkeypatch, kind):
    """Whenever it is killed, the graph is the same, and no task is done again whose note was complete."""
    written, options = KINDS[kind]
    spec = write(tmp_path, **written) | options
    alone = stored(tmp_path / "alone", spec)
    whole = Workers()
    with monkeypatch.context() as patched:
        storage = Storage(patched)
        assert stored(tmp_path / "whole", spec, whole) == alone
    assert whole.done["read_edges_task"] >= N_FILES
    assert whole.done["rows_task"] > 4
    assert not whole.noted
    noted = Counter[str]()
    for kill_at in range(1, storage.n_writes + 1, max(1, storage.n_writes // 14)):
        store, first, again = tmp_path / f"store-{kill_at}", Workers(), Workers()
        killed(monkeypatch, store, spec, kill_at, first)
        n_notes = len(list(store.glob(f"{FOLDER}/note-*")))
        is_committed = (store / "manifest.json").exists()
        assert stored(store, spec, again) == alone
        if is_committed:  # only the folder was left
            assert not again.done
            continue
        for name in ("read_edges_task", "number_task", "rows_task"):
            assert again.done[name] <= whole.done[name]
        n_done = sum(count for name, count in again.done.items() if name != "part_task")
        n_whole = sum(count for name, count in whole.done.items() if name != "part_task")
        n_plans = len(spec.get("weights", {}).get("several", [1]))
        assert n_notes - n_plans <= n_whole - n_done <= n_notes
        assert n_whole - n_done == sum(int(line.split()[2]) for line in again.lines if "going on" in line)
        noted += again.noted
    steps = {"parts were read", "ranges were made"}
    if {"large and small", "strings"} & {kind}:
        steps.add("parts were numbered")
    assert set(noted) == steps


def test_many_kills(tmp_path, monkeypatch):
    """Each start is killed a little later than the one before."""
    spec = write(tmp_path, "strings")
    alone = stored(tmp_path / "alone", spec)
    whole, last = Workers(), Workers()
    stored(tmp_path / "whole", spec, whole)
    done = Counter[str]()
    for _ in range(10):
        done += killed(monkeypatch, tmp_path / "store", spec, 6)
    assert stored(tmp_path / "store", spec, last) == alone
    done += last.done
    for name, n in whole.done.items():
        assert n <= done[name] <= n + 10
    assert sum(last.noted.values()) >= 9


def kept(tmp_path: Path, spec: dict) -> Path:
    """Return the folder of an ingest that has ended after it read all parts and made two ranges."""
    workers = Workers()
    workers.error = ("rows_task", 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        stored(tmp_path / "store", spec, workers)
    (folder,) = (tmp_path / "store").glob(FOLDER)
    return folder


def changed_input(folder: Path, spec: dict, patch) -> dict:
    path = folder / "edges-1.txt"
    path.write_text(path.read_text() + "7 14 1\n")
    return spec


def touched_input(folder: Path, spec: dict, patch) -> dict:
    os.utime(folder / "edges-1.txt", (1, 1))
    return spec


def with_options(**options):
    return lambda folder, spec, patch: spec | options


def in_module(name: str, value: object):
    def change(folder: Path, spec: dict, patch) -> dict:
        patch.setattr(task_notes, name, value)
        return spec

    return change


@pytest.mark.parametrize(
    ("change", "task_bytes"),
    [
        (changed_input, 1 << 28),
        (touched_input, 1 << 28),
        (with_options(directed=False), 1 << 28),
        (with_options(duplicates="keep-all"), 1 << 28),
        (with_options(weights={"dtype": "float64"}), 1 << 28),
        (in_module("__version__", "9.9.9"), 1 << 28),
        (in_module("_FORMAT", 99), 1 << 28),
        (with_options(), 1 << 24),
    ],
    ids=["input", "touched", "directed", "duplicates", "dtype", "release", "format", "less memory"],
)
def test_what_starts_afresh(tmp_path, monkeypatch, change, task_bytes):
    """The folder of another graph, release or division into tasks is not used."""
    spec = write(tmp_path)
    kept(tmp_path, spec)
    changed = change(tmp_path, spec, monkeypatch)
    workers = Workers(task_bytes=task_bytes)
    alone = stored(tmp_path / "alone", changed)
    assert stored(tmp_path / "store", changed, workers) == alone
    assert not workers.noted


@pytest.mark.parametrize("n_threads", [1, 7])
@pytest.mark.parametrize("task_bytes", [1 << 27, 1 << 30])
def test_other_workers_go_on(tmp_path, n_threads, task_bytes):
    spec = write(tmp_path, "large and small")
    alone = stored(tmp_path / "alone", spec)
    kept(tmp_path, spec)
    workers = Workers(n_threads, task_bytes)
    assert stored(tmp_path / "store", spec, workers) == alone
    assert workers.noted["parts were read"] >= N_FILES
    assert workers.done["read_edges_task"] == 0


def damaged_note(path: Path, how: str, notes: dict[Path, bytes]) -> None:
    """Damage one of `notes`, which are as they were written."""
    content = notes[path]
    if how == "half":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "a digit":
        at = next(i for i in range(len(content) - 1, 0, -1) if content[i : i + 1].isdigit())
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif how == "pickle":
        path.write_bytes(pickle.dumps({"tuple": []}))
    elif how == "of another task":
        kind = content[65:77]
        other = next(each for each in notes.values() if each != content and each[65:77] == kind)
        path.write_bytes(other)
    else:  # a valid checksum, and something else in the note
        path.write_bytes(task_notes._checksum(path.name, how.encode()) + b"\n" + how.encode())


FORGED = [
    '{"EdgesRead": {}}',
    '{"system": ["true"]}',
    '{"array": ["O", [1]]}',
    '{"a": 1, "b": 2}',
    "[" * 9**5,
]


@pytest.mark.parametrize("how", ["half", "empty", "a digit", "pickle", "of another task", *FORGED])
def test_the_task_of_a_damaged_note_is_done_again(tmp_path, how):
    spec = write(tmp_path, "strings")
    alone = stored(tmp_path / "alone", spec)
    folder = kept(tmp_path, spec)
    notes = {path: path.read_bytes() for path in folder.glob("note-*")}
    n_read = n_made = 0
    for path, content in notes.items():
        if b'"EdgesRead"' in content and n_read < 2:
            n_read += 1
            damaged_note(path, how, notes)
        elif b'"RowsMade"' in content and n_made < 1:
            n_made += 1
            damaged_note(path, how, notes)
    assert (n_read, n_made) == (2, 1)
    workers = Workers()
    assert stored(tmp_path / "store", spec, workers) == alone
    assert workers.done["read_edges_task"] == 2
    assert workers.done["number_task"] == 0
    assert workers.noted["ranges were made"] == 1


def test_the_keys_are_kept(tmp_path, monkeypatch):
    """Each edge has its reverse, in rows of another task: only with the same keys for all of them that is found."""
    rng = np.random.default_rng(1)
    for number in range(N_FILES):
        u, v = rng.integers(0, 50, N), rng.integers(100, 150, N)
        text = "".join(f"{a} {b} {a + b}\n{b} {a} {a + b}\n" for a, b in zip(u, v, strict=True))
        (tmp_path / f"edges-{number}.txt").write_text(text)
    spec = {"input": str(tmp_path / "edges-*.txt")}
    alone = stored(tmp_path / "alone", spec)
    assert alone["manifest"]["symmetric"] is True
    whole = Workers()
    with monkeypatch.context() as patched:
        storage = Storage(patched)
        assert stored(tmp_path / "whole", spec, whole) == alone
    for kill_at in range(storage.n_writes // 2, storage.n_writes, 3):
        store, again = tmp_path / f"store-{kill_at}", Workers()
        killed(monkeypatch, store, spec, kill_at)
        assert stored(store, spec, again) == alone
        if 0 < again.noted["ranges were made"] < whole.done["rows_task"]:
            break
    else:
        raise AssertionError("never killed while rows were made")


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SsspError("no worker is left"), StoreUnavailableError("no answer")]
)
def test_after_an_interrupt_or_the_loss_of_the_workers_the_work_stays(tmp_path, error):
    spec = write(tmp_path)
    alone = stored(tmp_path / "alone", spec)
    first, again = Workers(), Workers()
    first.error = ("rows_task", 2, error)
    with pytest.raises(type(error)):
        stored(tmp_path / "store", spec, first)
    (folder,) = (tmp_path / "store").glob(FOLDER)
    assert first.lines[-1] == (
        f"what was done is kept in `{folder}`: the same command goes on with it; without this folder it "
        "starts afresh"
    )
    assert stored(tmp_path / "store", spec, again) == alone
    assert again.noted == {"parts were read": first.done["read_edges_task"], "ranges were made": 2}


@pytest.mark.parametrize("error", [InputError("wrong"), ValueError("a bug")])
def test_after_other_errors_nothing_stays(tmp_path, error):
    spec = write(tmp_path)
    workers = Workers()
    workers.error = ("rows_task", 2, error)
    with pytest.raises(type(error)):
        stored(tmp_path / "store", spec, workers)
    assert not list(tmp_path.glob("store/**/*"))


def test_an_interrupt_before_the_first_task_leaves_nothing(tmp_path, monkeypatch):
    def pool(*_):
        raise KeyboardInterrupt

    workers = Workers()
    monkeypatch.setattr(workers, "pool", pool)
    with pytest.raises(KeyboardInterrupt):
        stored(tmp_path / "store", write(tmp_path), workers)
    assert not list(tmp_path.glob("store/**/*"))


def test_an_ingest_that_lost_the_store_leaves_the_folder_to_the_other(tmp_path, monkeypatch):
    """Its lease expired while it was paused. Another ingest took over its work."""
    spec = write(tmp_path)
    alone = stored(tmp_path / "alone", spec)
    first, other = Workers(), Workers()
    is_held = [True]

    @contextmanager
    def exclusive(store, on_wait):
        def check() -> None:
            if not is_held[0]:
                raise SsspError("another process has taken over")

        yield check

    monkeypatch.setattr(into_store, "exclusive", exclusive)
    found: list[dict] = []
    do = first.do

    def lose(work, tasks, on_done) -> None:
        if work.__name__ != "rows_task":
            do(work, tasks, on_done)
            return
        is_held[0] = False
        raise InputError("a file is missing")

    monkeypatch.setattr(first, "do", lose)
    do_other = other.do

    def late(work, tasks, on_done) -> None:
        if work.__name__ == "rows_task":  # now the first wakes up, finds an error, and ends
            with pytest.raises(SsspError, match="taken over"):
                stored(tmp_path / "store", spec, first)
            is_held[0] = True
        do_other(work, tasks, on_done)

    monkeypatch.setattr(other, "do", late)
    found.append(stored(tmp_path / "store", spec, other))
    assert found == [alone]


def test_a_task_of_a_dead_ingest_that_ends_late_spoils_nothing(tmp_path, monkeypatch):
    """Its files have names of their own, which no note and no result has."""
    spec = write(tmp_path)
    alone = stored(tmp_path / "alone", spec)
    late: list = []
    first, other = Workers(), Workers()
    first.error = ("read_edges_task", 3, KeyboardInterrupt())
    do = first.do

    def keep_tasks(work, tasks, on_done) -> None:
        def noted():
            for task in tasks:
                late.append((work, pickle.dumps(task)))
                yield task

        do(work, noted(), on_done)

    monkeypatch.setattr(first, "do", keep_tasks)
    with pytest.raises(KeyboardInterrupt):
        stored(tmp_path / "store", spec, first)
    assert len(late) == 4
    do_other = other.do

    def with_late(work, tasks, on_done) -> None:
        for late_work, task in late:
            late_work(pickle.loads(task))
        do_other(work, tasks, on_done)

    monkeypatch.setattr(other, "do", with_late)
    assert stored(tmp_path / "store", spec, other) == alone
    assert other.noted["parts were read"] == 3


def test_an_ingest_in_this_process_removes_the_folder(tmp_path):
    spec = write(tmp_path)
    folder = kept(tmp_path, spec)
    assert stored(tmp_path / "store", spec) == stored(tmp_path / "alone", spec)
    assert not folder.exists()


def test_a_fault_of_the_input_after_a_kill(tmp_path, monkeypatch):
    """The message is that of one process, and the folder is removed."""
    spec = write(tmp_path) | {"self_loops": "error"}
    for number in range(N_FILES):
        path = tmp_path / f"edges-{number}.txt"
        path.write_text("".join(f"{i} {i + 1} 1\n" for i in range(N)) + "5 5 1\n" * (number in (2, 4)))
    with pytest.raises(InputError) as alone:
        stored(tmp_path / "alone", spec)
    killed(monkeypatch, tmp_path / "store", spec, 8)
    workers = Workers()
    with pytest.raises(InputError) as caught:
        stored(tmp_path / "store", spec, workers)
    assert workers.noted["parts were read"] > 0
    assert (caught.value.message, caught.value.hint) == (alone.value.message, alone.value.hint)
    assert not list(tmp_path.glob("store/**/*"))


def test_on_an_object_store(tmp_path):
    spec, store = write(tmp_path, "strings"), f"memory://{tmp_path.name}/store"
    graph = Graph.model_validate(spec)
    first, again = Workers(), Workers()
    first.error = ("rows_task", 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ingest(graph, store, first, workers=first)
    manifest, _ = ingest(graph, store, again, workers=again)
    assert manifest.content_id == ingest(graph, str(tmp_path / "alone"), Progress())[0].content_id
    assert again.noted["ranges were made"] == 2
    assert not again.done["read_edges_task"] + again.done["number_task"]
    assert not [name for name in files.list_names(store) if name[0] == "."]


def results(folder: str) -> list:
    """Return one result of each type, with all kinds of values."""
    src, weights = store_arrays(folder, "edges", np.arange(5, dtype=np.uint32), np.arange(5.0))
    limits, starts = np.array([0, 2**40]), np.array([0, 2, 5])
    sums = np.array([1, 2], np.uint32), None
    run = EdgeRun((src, src), limits, starts, EVERYWHERE, sums)
    skipped = SkippedRows()
    skipped.add(2, ["line 3: \udcff `é`", "line 4"])
    seen = WeightRange(5, 5, True, -1, np.float64(0.1), 3, 2**63)
    sample = [(1, 2**62, 0.1), ("é", "b\n", float("inf"))]
    return [
        EdgesRead([run, run], StoredBits(src, 7), seen, np.int64(3), sample, skipped),  # type: ignore[arg-type]
        EdgesRead([], StoredIds(src, weights), WeightRange(), 0, [], SkippedRows()),
        [run],
        RowsMade(7, src, src, weights, None),
        RowsMade(7, src, src, weights, 2**64 - 1),
        Plan.new(3, 4, 5),
    ]


def text_of(value: object) -> object:
    """Return all that `value` holds, in a form that can be compared."""
    if isinstance(value, np.ndarray):
        return value.dtype, value.tolist()
    if isinstance(value, list | tuple):
        return type(value), [text_of(each) for each in value]
    return {k: text_of(v) for k, v in vars(value).items()} if hasattr(value, "__dict__") else value


def test_a_note_holds_each_result(tmp_path):
    for i, result in enumerate(results(str(tmp_path))):
        Notes(str(tmp_path)).write(result, "k", i)
        found = Notes(str(tmp_path)).read("k", i)
        assert type(found) is type(result)
        assert text_of(found) == text_of(result)
        assert Notes(str(tmp_path)).read("k", i, 0) is None


@pytest.mark.parametrize("name", ["../outside-0123456789ab", "here", "/etc/passwd", "note-0123456789ab"])
def test_a_note_names_only_files_of_tasks(tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in ("outside-0123456789ab", "folder/here", "folder/x-0123456789ab"):
        (tmp_path / path).write_bytes(b"12345678")
    notes = Notes(str(folder))
    assert notes._decoded({"Stored": ["x-0123456789ab", 0, 2, "<u4", None]}).read().tolist() == [
        0x34333231,
        0x38373635,
    ]
    for wrong in (
        [name, 0, 2, "<u4", None],
        ["x-0123456789ab", 0, 3, "<u4", None],
        ["x-0123456789ab", -4, 2, "<u4", None],
        ["x-0123456789ab", 0, 1, "O", None],
    ):
        with pytest.raises((ValueError, LookupError, TypeError)):
            notes._decoded({"Stored": wrong})


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_ingest_in_threads_goes_on(tmp_path, monkeypatch, kind):
    """A graph larger than the memory is read by tasks in this process; what they have read is not read again."""
    written, options = KINDS[kind]
    spec = write(tmp_path, **written) | options
    alone = stored(tmp_path / "alone", spec)
    with monkeypatch.context() as patched:
        storage, whole = Storage(patched), Threads(patched)
        assert stored(tmp_path / "whole", spec, whole) == alone
    assert whole.n_done >= N_FILES
    assert not whole.lines
    seen = set()
    for kill_at in range(1, storage.n_writes + 1, max(1, storage.n_writes // 14)):
        store = tmp_path / f"store-{kill_at}"
        with monkeypatch.context() as patched:
            Storage(patched, kill_at)
            with pytest.raises(Killed):
                stored(store, spec, Threads(patched))
        n_notes = sum(b'"EdgesRead"' in path.read_bytes() for path in store.glob(f"{FOLDER}/note-*"))
        is_committed = (store / "manifest.json").exists()
        with monkeypatch.context() as patched:
            again = Threads(patched)
            assert stored(store, spec, again) == alone
        if not is_committed:
            assert again.n_done == whole.n_done - n_notes
            seen.add(n_notes)
    assert {0, whole.n_done} < seen


@pytest.mark.parametrize("ids", ["numbers", "large and small"])
@pytest.mark.parametrize("most_files", [2, 256])
def test_one_process_goes_on_with_what_workers_have_read(tmp_path, monkeypatch, ids, most_files):
    monkeypatch.setattr(in_threads, "_MOST_FILES", most_files)
    spec = write(tmp_path, ids)
    alone = stored(tmp_path / "alone", spec)
    kept(tmp_path, spec)
    heard = Workers()
    ingest(Graph.model_validate(spec), str(tmp_path / "store"), heard)
    assert heard.noted["parts were read"] >= N_FILES
    assert stored(tmp_path / "store", spec) == alone


def test_an_input_larger_than_the_memory_is_read_by_tasks(tmp_path, monkeypatch):
    spec = write(tmp_path)
    n_bytes = sum(path.stat().st_size for path in tmp_path.glob("edges-*"))
    alone = stored(tmp_path / "alone", spec)
    for memory, by_tasks in ((n_bytes - 1, True), (n_bytes, False)):
        with monkeypatch.context() as patched:
            is_large = edge_reader._is_large
            threads = Threads(patched)
            patched.setattr(edge_reader, "_is_large", is_large)
            found = stored(tmp_path / f"store-{memory}", spec | {"memory": f"{memory}B"}, threads)
        assert found["files"] == alone["files"]
        assert (threads.n_done > 0) == by_tasks


@pytest.mark.parametrize("fault", ["7 14 x\n", "7 14 nan\n", "7 7 1\n"])
def test_the_first_fault_in_threads_is_that_of_a_small_input(tmp_path, monkeypatch, fault):
    spec = write(tmp_path) | {"self_loops": "error"}
    for path in tmp_path.glob("edges-*"):
        path.write_text("".join(f"{i} {i + 1} 3\n" for i in range(9)))
    for number in (2, 4):
        with (tmp_path / f"edges-{number}.txt").open("a") as text:
            text.write(fault)
    with pytest.raises(InputError) as small:
        stored(tmp_path / "small", spec)
    with pytest.raises(InputError) as large:
        stored(tmp_path / "large", spec, Threads(monkeypatch))
    assert str(large.value) == str(small.value)
    assert not list(tmp_path.glob("large/**/*"))


def test_a_full_disk_in_threads(tmp_path, monkeypatch):
    """The message names the folder that is full, in the store. What was done stays for the same command."""
    spec = write(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    threads = Threads(monkeypatch)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskFullError, match=rf"`{tmp_path}/store/.*edges-"):
        stored(tmp_path / "store", spec, threads)
    assert [path.name[:21] for path in tmp_path.glob("store/*")] == [".sssp-partial-ingest-"]


def damaged_file(path: Path, how: str) -> None:
    """Change a file of an ingest."""
    content = bytearray(path.read_bytes())
    if how == "flip":
        content[5] ^= 16
    elif how == "zeros":
        content = bytearray(len(content))
    elif how == "cut":
        content = content[: len(content) // 2]
    if how == "deleted":
        path.unlink()
    else:
        path.write_bytes(content)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def damages(folder: Path) -> list[Path]:
    """Return a file of each kind that an ingest has left, the largest one."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.stat().st_size):
        kind = path.name.partition("-")[0]
        if kind not in ("note", "here"):
            found[kind] = path
    return list(found.values())


@pytest.mark.parametrize("how", ["flip", "zeros", "cut", "deleted"])
@pytest.mark.parametrize("ids", ["numbers", "strings"])
def test_a_damaged_file_of_workers_is_made_again(tmp_path, ids, how):
    """Edges, ids, bitmaps and rows of an interrupted ingest are used only if they are as they were written."""
    spec = write(tmp_path, ids)
    alone = stored(tmp_path / "alone", spec)
    folder = kept(tmp_path, spec)
    kinds = {path.name.partition("-")[0]: path for path in damages(folder)}
    assert {"edges", "rows"} | ({"bits"} if ids == "numbers" else {"ids", "vertices"}) <= set(kinds)
    for path in kinds.values():
        damaged_file(path, how)
    workers = Workers()
    assert stored(tmp_path / "store", spec, workers) == alone
    assert any("damaged" in line and "done again" in line for line in workers.lines)


@pytest.mark.parametrize("how", ["flip", "zeros", "cut", "deleted"])
@pytest.mark.parametrize("ids", ["numbers", "large and small", "strings"])
def test_a_damaged_file_of_threads_is_made_again(tmp_path, monkeypatch, ids, how):
    spec = write(tmp_path, ids)
    alone = stored(tmp_path / "alone", spec)
    with monkeypatch.context() as patched:
        patched.setattr(ReadEdges, "rows", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stored(tmp_path / "store", spec, Threads(patched))
    (folder,) = (tmp_path / "store").glob(FOLDER)
    for path in damages(folder):
        damaged_file(path, how)
    threads = Threads(monkeypatch)
    assert stored(tmp_path / "store", spec, threads) == alone
    assert any("damaged" in line and "done again" in line for line in threads.lines)


@pytest.mark.parametrize("how", ["flip", "cut", "deleted"])
def test_without_its_plan_an_ingest_begins_again(tmp_path, how):
    spec = write(tmp_path)
    alone = stored(tmp_path / "alone", spec)
    folder = kept(tmp_path, spec)
    (plan,) = (path for path in folder.glob("note-*") if b'"Plan"' in path.read_bytes())
    damaged_file(plan, how)
    workers = Workers()
    assert stored(tmp_path / "store", spec, workers) == alone
    assert not workers.noted
    assert any("the plan in" in line and "begins again" in line for line in workers.lines)


def test_a_disk_that_gives_back_other_bytes_is_an_error(tmp_path, monkeypatch):
    """Edges of this ingest change after they were written, each time: there is no graph, and the file is named."""
    spec = write(tmp_path)
    threads = Threads(monkeypatch)
    write_at = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write_at(file, bytes(len(data)), at))
    with pytest.raises(SsspError, match=rf"`{tmp_path}/store/.*edges-.*` is damaged") as caught:
        stored(tmp_path / "store", spec, threads)
    assert caught.value.exit_code == 1
    assert not (tmp_path / "store" / "manifest.json").exists()
    monkeypatch.undo()
    assert stored(tmp_path / "store", spec) == stored(tmp_path / "alone", spec)


def test_inspect_of_a_store_whose_ingest_was_interrupted(tmp_path):
    kept(tmp_path, write(tmp_path))
    with pytest.raises(InputError, match="an ingest into it runs, or was interrupted"):
        describe(str(tmp_path / "store"))
