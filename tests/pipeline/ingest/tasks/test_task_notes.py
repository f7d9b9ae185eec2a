"""A killed ingest by tasks goes on: the next one takes the notes of the tasks that were done, and does the others."""

from __future__ import annotations

import errno
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
from sssp_pipeline.pipeline.ingest import into_store
from sssp_pipeline.pipeline.ingest.edges import ReadEdges
from sssp_pipeline.pipeline.ingest.ids.id_mapping import EVERYWHERE
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun
from sssp_pipeline.pipeline.ingest.tasks import edge_reader, in_threads, task_notes
from sssp_pipeline.pipeline.ingest.tasks.stored_runs import StoredBits, StoredIds, store_arrays
from sssp_pipeline.pipeline.ingest.tasks.task_notes import Notes, Plan
from sssp_pipeline.pipeline.ingest.tasks.tasks import EdgesRead, RowsMade
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange
from sssp_pipeline.pipeline.run.inspect import describe
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import Graph

#: Files that `edge_files` writes.
N_FILES = 5
FOLDER = f"{files.TEMP_PREFIX}ingest-*"
pytestmark = pytest.mark.medium


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


class Heard(Progress):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str, event: str = "note", **_: object) -> None:  # type: ignore[override]
        self.lines.append(line)

    @property
    def taken(self) -> Counter[str]:
        """The tasks that were not done again, by the words for them."""
        words = [line.split() for line in self.lines if line.startswith("going on: ")]
        return Counter({" ".join(line[5:8]): int(line[2]) for line in words})

    @property
    def made_again(self) -> bool:
        """Whether damage was found."""
        return any("damaged" in line and "done again" in line for line in self.lines)


class Workers(Heard):
    """Workers in this process. They count the tasks that they do, and keep what is said."""

    def __init__(self, n_threads: int = 2, task_bytes: int = 1 << 28) -> None:
        super().__init__()
        self.n_threads, self.task_bytes = n_threads, task_bytes
        self.done: Counter[str] = Counter()
        #: A task that is not done, by its function and how many were done before it, and its error.
        self.error: tuple[str, int, BaseException] | None = None

    @contextmanager
    def pool(self, folder, inputs):
        store, _, name = folder.rpartition("/")
        # The folders of other graphs are gone.
        assert [each for each in files.list_names(store) if each[0] == "."] == [name]
        yield self

    def do(self, work, tasks, on_done) -> None:
        for task in tasks:
            if self.error is not None and (work.__name__, self.done[work.__name__]) == self.error[:2]:
                raise self.error[2]
            result = pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(task)))))
            self.done[work.__name__] += 1
            on_done(getattr(task, "number", None), result)


class Threads(Heard):
    """Threads of this process. They count the tasks that they do, and keep what is said."""

    def __init__(self, monkeypatch) -> None:
        super().__init__()
        self.n_done = 0
        monkeypatch.setattr(edge_reader, "_is_large", lambda *_: True)
        read = in_threads.read_edges_of

        def counted(*given):
            result = read(*given)
            self.n_done += 1
            return result

        monkeypatch.setattr(in_threads, "read_edges_of", counted)


@pytest.fixture
def made(tmp_path, stored):
    """Give a function that ingests into a store of this name, by `Workers` or `Threads`, and returns its content."""

    def make(spec: dict, name: str = "alone", by: Heard | None = None) -> dict:
        return stored(tmp_path / name, spec, by, by if isinstance(by, Workers) else None)

    return make


@pytest.fixture
def killed(made, monkeypatch):
    """Give a function that ingests into a store of this name, and is killed at a write."""

    def kill(spec: dict, name: str, kill_at: int, by_threads: bool = False) -> Workers | Threads:
        with monkeypatch.context() as patched:
            storage = Storage(patched, kill_at)
            by = Threads(patched) if by_threads else Workers()
            with pytest.raises(Killed):
                made(spec, name, by)
            assert storage.is_dead
        return by

    return kill


@pytest.fixture
def kept(tmp_path, made):
    """Give a function that returns the folder of an ingest that has read all parts, made two ranges, and ended."""

    def keep(spec: dict, error: BaseException | None = None) -> Path:
        workers = Workers()
        workers.error = ("rows_task", 2, error or KeyboardInterrupt())
        with pytest.raises(type(workers.error[2])):
            made(spec, "store", workers)
        (folder,) = (tmp_path / "store").glob(FOLDER)
        assert workers.lines[-1] == (
            f"what was done is kept in `{folder}`: the same command goes on with it; without this folder it "
            "starts afresh"
        )
        return folder

    return keep


def some_of(n_writes: int, most: int) -> list[int]:
    """Return up to `most` of the writes 1 to `n_writes`."""
    return sorted(set(np.linspace(1, n_writes, most, dtype=int).tolist()))


KINDS = {
    "numbers": ({}, {}),
    "one way and back": ({}, {"directed": False}),
    "small and large": ({"ids": "small and large"}, {}),
    "strings": ({"ids": "strings"}, {}),
    "compressed": ({"suffix": "txt.gz"}, {}),
    "some vertices": ({}, {"vertices": "largest-component"}),
    "one weight with a name": ({"weights": ["am", "pm"]}, {"weights": {"several": [{"name": "pm"}]}}),
    "several weights": (
        {"weights": ["am", "pm"]},
        {"weights": {"several": [{"name": "am"}, {"name": "pm"}]}},
    ),
}
#: How often each kind is killed. `make test-slow` kills those that have most steps more often.
KILLS = [(kind, 4) for kind in KINDS]
KILLS += [
    pytest.param(kind, 10, marks=pytest.mark.slow)
    for kind in ("small and large", "strings", "several weights")
]


@pytest.mark.parametrize(("kind", "kills"), KILLS)
def test_a_killed_ingest_goes_on(tmp_path, edge_files, made, killed, monkeypatch, kind, kills):
    """Whenever it is killed, the graph is the same, and no task is done again whose note was complete."""
    written, options = KINDS[kind]
    spec = edge_files(tmp_path, **written) | options
    alone = made(spec)
    whole = Workers()
    with monkeypatch.context() as patched:
        storage = Storage(patched)
        assert made(spec, "whole", whole) == alone
    assert whole.done["read_edges_task"] >= N_FILES
    assert whole.done["rows_task"] > 4
    assert not whole.taken
    n_whole = whole.done.total() - whole.done["part_task"]
    n_plans = len(spec.get("weights", {}).get("several", [1]))
    taken = Counter[str]()
    for kill_at in some_of(storage.n_writes, kills):
        store, again = tmp_path / f"store-{kill_at}", Workers()
        killed(spec, store.name, kill_at)
        n_notes = len(list(store.glob(f"{FOLDER}/note-*")))
        is_committed = (store / "manifest.json").exists()
        assert made(spec, store.name, again) == alone
        if is_committed:  # only the folder was left
            assert not again.done
            continue
        n_taken = n_whole - (again.done.total() - again.done["part_task"])
        assert n_notes - n_plans <= n_taken <= n_notes
        assert n_taken == sum(int(line.split()[2]) for line in again.lines if "going on" in line)
        taken += again.taken
    steps = {"parts were read", "ranges were made"}
    if kind in ("small and large", "strings"):
        steps.add("parts were numbered")
    assert set(taken) == steps


def test_many_kills(tmp_path, edge_files, made, killed):
    """Each start is killed a little later than the one before."""
    spec = edge_files(tmp_path, "strings")
    whole, last = Workers(), Workers()
    alone = made(spec, "whole", whole)
    done = Counter[str]()
    for _ in range(10):
        done += killed(spec, "store", 6).done
    assert made(spec, "store", last) == alone
    done += last.done
    for name, n in whole.done.items():
        assert n <= done[name] <= n + 10
    assert last.taken.total() >= 9


OTHER = {
    "input": lambda folder, patch: (folder / "edges-1.txt").unlink(),
    "touched": lambda folder, patch: os.utime(folder / "edges-1.txt", (1, 1)),
    "directed": lambda folder, patch: {"directed": False},
    "duplicates": lambda folder, patch: {"duplicates": "keep-all"},
    "dtype": lambda folder, patch: {"weights": {"dtype": "float64"}},
    "release": lambda folder, patch: patch.setattr(task_notes, "__version__", "9.9.9"),
    "format": lambda folder, patch: patch.setattr(task_notes, "_FORMAT", 99),
    "less memory": lambda folder, patch: None,
}


@pytest.mark.parametrize("other", OTHER)
def test_what_starts_afresh(tmp_path, edge_files, made, kept, monkeypatch, other):
    """The folder of another graph, release or division into tasks is not used."""
    spec = edge_files(tmp_path)
    kept(spec)
    spec |= OTHER[other](tmp_path, monkeypatch) or {}
    workers = Workers(task_bytes=1 << (24 if other == "less memory" else 28))
    assert made(spec, "store", workers) == made(spec)
    assert not workers.taken


@pytest.mark.parametrize("n_threads", [1, 7])
@pytest.mark.parametrize("task_bytes", [1 << 27, 1 << 30])
def test_other_workers_go_on(tmp_path, edge_files, made, kept, n_threads, task_bytes):
    spec = edge_files(tmp_path, "small and large")
    kept(spec)
    workers = Workers(n_threads, task_bytes)
    assert made(spec, "store", workers) == made(spec)
    assert workers.taken["parts were read"] >= N_FILES
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
@pytest.mark.usefixtures("no_garbage_collection")
def test_the_task_of_a_damaged_note_is_done_again(tmp_path, edge_files, made, kept, how):
    spec = edge_files(tmp_path, "strings")
    notes = {path: path.read_bytes() for path in kept(spec).glob("note-*")}
    read = [path for path, content in notes.items() if b'"EdgesRead"' in content]
    ranges = [path for path, content in notes.items() if b'"RowsMade"' in content]
    for path in (*read[:2], ranges[0]):
        damaged_note(path, how, notes)
    workers = Workers()
    assert made(spec, "store", workers) == made(spec)
    assert workers.done["read_edges_task"] == 2
    assert workers.done["number_task"] == 0
    assert workers.taken["ranges were made"] == 1


def test_the_keys_are_kept(tmp_path, made, killed, monkeypatch):
    """Each edge has its reverse, in rows of another task: only with the same keys for all of them that is found."""
    rng = np.random.default_rng(1)
    for number in range(N_FILES):
        u, v = rng.integers(0, 50, 200), rng.integers(100, 150, 200)
        text = "".join(f"{a} {b} {a + b}\n{b} {a} {a + b}\n" for a, b in zip(u, v, strict=True))
        (tmp_path / f"edges-{number}.txt").write_text(text)
    spec = {"input": str(tmp_path / "edges-*.txt")}
    alone = made(spec)
    assert alone["manifest"]["symmetric"] is True
    whole = Workers()
    with monkeypatch.context() as patched:
        storage = Storage(patched)
        assert made(spec, "whole", whole) == alone
    for kill_at in range(storage.n_writes // 2, storage.n_writes, 3):
        again = Workers()
        killed(spec, f"store-{kill_at}", kill_at)
        assert made(spec, f"store-{kill_at}", again) == alone
        if 0 < again.taken["ranges were made"] < whole.done["rows_task"]:
            break
    else:
        raise AssertionError("never killed while rows were made")


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SsspError("no worker is left"), StoreUnavailableError("no answer")]
)
def test_after_an_interrupt_or_the_loss_of_the_workers_the_work_stays(
    tmp_path, edge_files, made, kept, error
):
    spec, again = edge_files(tmp_path), Workers()
    kept(spec, error)
    assert made(spec, "store", again) == made(spec)
    assert again.taken["ranges were made"] == 2
    assert not again.done["read_edges_task"]


@pytest.mark.parametrize("error", [InputError("wrong"), ValueError("a bug")])
def test_after_other_errors_nothing_stays(tmp_path, edge_files, made, error):
    workers = Workers()
    workers.error = ("rows_task", 2, error)
    with pytest.raises(type(error)):
        made(edge_files(tmp_path), "store", workers)
    assert not list(tmp_path.glob("store/**/*"))


def test_an_interrupt_before_the_first_task_leaves_nothing(tmp_path, edge_files, made, monkeypatch):
    workers = Workers()
    monkeypatch.setattr(workers, "pool", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made(edge_files(tmp_path), "store", workers)
    assert not list(tmp_path.glob("store/**/*"))


def test_an_ingest_that_lost_the_store_leaves_the_folder_to_the_other(
    tmp_path, edge_files, made, monkeypatch
):
    """Its lease expired while it was paused. Another ingest took over its work."""
    spec = edge_files(tmp_path)
    first, other = Workers(), Workers()
    is_held = [True]

    @contextmanager
    def exclusive(store, on_wait):
        def check() -> None:
            if not is_held[0]:
                raise SsspError("another process has taken over")

        yield check

    monkeypatch.setattr(into_store, "exclusive", exclusive)
    do, do_other = first.do, other.do

    def lose(work, tasks, on_done) -> None:
        if work.__name__ != "rows_task":
            do(work, tasks, on_done)
            return
        is_held[0] = False
        raise InputError("a file is missing")

    def late(work, tasks, on_done) -> None:
        if work.__name__ == "rows_task":  # now the first wakes up, finds an error, and ends
            with pytest.raises(SsspError, match="taken over"):
                made(spec, "store", first)
            is_held[0] = True
        do_other(work, tasks, on_done)

    monkeypatch.setattr(first, "do", lose)
    monkeypatch.setattr(other, "do", late)
    assert made(spec, "store", other) == made(spec)


def test_a_task_of_a_dead_ingest_that_ends_late_spoils_nothing(tmp_path, edge_files, made, monkeypatch):
    """Its files have names of their own, which no note and no result has."""
    spec = edge_files(tmp_path)
    late: list = []
    first, other = Workers(), Workers()
    first.error = ("read_edges_task", 3, KeyboardInterrupt())
    do, do_other = first.do, other.do

    def remembering(work, tasks, on_done) -> None:
        do(work, (late.append((work, pickle.dumps(task))) or task for task in tasks), on_done)

    def with_late(work, tasks, on_done) -> None:
        for late_work, task in late:
            late_work(pickle.loads(task))
        do_other(work, tasks, on_done)

    monkeypatch.setattr(first, "do", remembering)
    with pytest.raises(KeyboardInterrupt):
        made(spec, "store", first)
    assert len(late) == 4
    monkeypatch.setattr(other, "do", with_late)
    assert made(spec, "store", other) == made(spec)
    assert other.taken["parts were read"] == 3


def test_an_ingest_in_this_process_removes_the_folder(tmp_path, edge_files, made, kept):
    spec = edge_files(tmp_path)
    folder = kept(spec)
    assert made(spec, "store") == made(spec)
    assert not folder.exists()


def test_a_fault_of_the_input_after_a_kill(tmp_path, made, killed):
    """The message is the one of a single process, and the folder is removed."""
    for number in range(N_FILES):
        path = tmp_path / f"edges-{number}.txt"
        path.write_text("".join(f"{i} {i + 1} 1\n" for i in range(200)) + "5 5 1\n" * (number in (2, 4)))
    spec = {"input": str(tmp_path / "edges-*.txt"), "self_loops": "error"}
    with pytest.raises(InputError) as alone:
        made(spec)
    killed(spec, "store", 8)
    workers = Workers()
    with pytest.raises(InputError) as caught:
        made(spec, "store", workers)
    assert workers.taken["parts were read"] > 0
    assert str(caught.value) == str(alone.value)
    assert not list(tmp_path.glob("store/**/*"))


def test_on_an_object_store(tmp_path, edge_files):
    spec, store = edge_files(tmp_path, "strings"), f"memory://{tmp_path.name}/store"
    graph = Graph.model_validate(spec)
    first, again = Workers(), Workers()
    first.error = ("rows_task", 2, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ingest(graph, store, first, workers=first)
    manifest, _ = ingest(graph, store, again, workers=again)
    assert manifest.content_id == ingest(graph, str(tmp_path / "alone"), Progress())[0].content_id
    assert again.taken["ranges were made"] == 2
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


@pytest.mark.parametrize(
    "wrong",
    [
        ("../outside-0123456789ab", 0, 2, "<u4"),
        ("here", 0, 2, "<u4"),
        ("/etc/passwd", 0, 2, "<u4"),
        ("note-0123456789ab", 0, 2, "<u4"),
        ("x-0123456789ab", 0, 3, "<u4"),
        ("x-0123456789ab", -4, 2, "<u4"),
        ("x-0123456789ab", 0, 1, "O"),
    ],
)
def test_a_note_names_only_files_of_tasks(tmp_path, wrong):
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in ("outside-0123456789ab", "folder/here", "folder/x-0123456789ab"):
        (tmp_path / path).write_bytes(b"12345678")
    notes = Notes(str(folder))
    right = notes._decoded({"Stored": ["x-0123456789ab", 0, 2, "<u4", None]})
    assert right.read().tobytes() == b"12345678"
    with pytest.raises((ValueError, LookupError, TypeError)):
        notes._decoded({"Stored": [*wrong, None]})


@pytest.mark.parametrize(("kind", "kills"), KILLS)
def test_a_killed_ingest_in_threads_goes_on(tmp_path, edge_files, made, killed, monkeypatch, kind, kills):
    """A graph larger than the memory is read by tasks in this process; what they have read is not read again."""
    written, options = KINDS[kind]
    spec = edge_files(tmp_path, **written) | options
    alone = made(spec)
    with monkeypatch.context() as patched:
        storage, whole = Storage(patched), Threads(patched)
        assert made(spec, "whole", whole) == alone
    assert whole.n_done >= N_FILES
    assert not whole.lines
    seen = set()
    for kill_at in some_of(storage.n_writes, kills):
        store = tmp_path / f"store-{kill_at}"
        killed(spec, store.name, kill_at, by_threads=True)
        n_notes = sum(b'"EdgesRead"' in path.read_bytes() for path in store.glob(f"{FOLDER}/note-*"))
        is_committed = (store / "manifest.json").exists()
        with monkeypatch.context() as patched:
            again = Threads(patched)
            assert made(spec, store.name, again) == alone
        if not is_committed:
            assert again.n_done == whole.n_done - n_notes
            seen.add(n_notes)
    assert {0, whole.n_done} < seen


@pytest.mark.parametrize("ids", ["dense", "small and large"])
@pytest.mark.parametrize("most_files", [2, 256])
def test_one_process_goes_on_with_what_workers_have_read(
    tmp_path, edge_files, made, kept, monkeypatch, ids, most_files
):
    monkeypatch.setattr(in_threads, "_MOST_FILES", most_files)
    spec, heard = edge_files(tmp_path, ids), Heard()
    kept(spec)
    assert made(spec, "store", heard) == made(spec)
    assert heard.taken["parts were read"] >= N_FILES


def test_an_input_larger_than_the_memory_is_read_by_tasks(tmp_path, edge_files, made, monkeypatch):
    spec = edge_files(tmp_path)
    n_bytes = sum(path.stat().st_size for path in tmp_path.glob("edges-*"))
    is_large = edge_reader._is_large
    threads = Threads(monkeypatch)
    monkeypatch.setattr(edge_reader, "_is_large", is_large)
    alone = made(spec)
    assert made(spec | {"memory": f"{n_bytes}B"}, "small", threads)["files"] == alone["files"]
    assert threads.n_done == 0
    assert made(spec | {"memory": f"{n_bytes - 1}B"}, "large", threads)["files"] == alone["files"]
    assert threads.n_done > 0


@pytest.mark.parametrize("fault", ["7 14 x\n", "7 14 nan\n", "7 7 1\n"])
def test_the_first_fault_in_threads_is_that_of_a_small_input(tmp_path, made, monkeypatch, fault):
    for number in range(N_FILES):
        text = "".join(f"{i} {i + 1} 3\n" for i in range(9)) + fault * (number in (2, 4))
        (tmp_path / f"edges-{number}.txt").write_text(text)
    spec = {"input": str(tmp_path / "edges-*.txt"), "self_loops": "error"}
    with pytest.raises(InputError) as small:
        made(spec, "small")
    with pytest.raises(InputError) as large:
        made(spec, "large", Threads(monkeypatch))
    assert str(large.value) == str(small.value)
    assert not list(tmp_path.glob("large/**/*"))


def test_a_full_disk_in_threads(tmp_path, edge_files, made, monkeypatch):
    """The message names the folder that is full, in the store. What was done stays for the same command."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    spec, threads = edge_files(tmp_path), Threads(monkeypatch)
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskFullError, match=rf"`{tmp_path}/store/.*edges-"):
        made(spec, "store", threads)
    assert [path.name[:21] for path in tmp_path.glob("store/*")] == [".sssp-partial-ingest-"]


def damaged_file(path: Path, how: str) -> None:
    """Change a file of an ingest."""
    content = bytearray(path.read_bytes())
    if how == "deleted":
        path.unlink()
        return
    content[5] ^= 16
    changed = {"flip": content, "zeros": bytes(len(content)), "cut": content[: len(content) // 2]}
    path.write_bytes(changed[how])


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def largest_files(folder: Path) -> dict[str, Path]:
    """Return the largest file of each kind that an ingest has left."""
    found = {path.name.partition("-")[0]: path for path in sorted(folder.iterdir(), key=os.path.getsize)}
    return {kind: path for kind, path in found.items() if kind not in ("note", "here")}


@pytest.mark.parametrize("how", ["flip", "zeros", "cut", "deleted"])
@pytest.mark.parametrize("ids", ["with gaps", "strings"])
def test_a_damaged_file_of_workers_is_made_again(tmp_path, edge_files, made, kept, ids, how):
    """Edges, ids, bitmaps and rows of an interrupted ingest are used only if they are as they were written."""
    spec, workers = edge_files(tmp_path, ids), Workers()
    kinds = largest_files(kept(spec))
    assert {"edges", "rows"} | ({"ids", "vertices"} if ids == "strings" else {"bits"}) <= set(kinds)
    for path in kinds.values():
        damaged_file(path, how)
    assert made(spec, "store", workers) == made(spec)
    assert workers.made_again


@pytest.mark.parametrize("how", ["flip", "zeros", "cut", "deleted"])
@pytest.mark.parametrize("ids", ["with gaps", "small and large", "strings"])
def test_a_damaged_file_of_threads_is_made_again(tmp_path, edge_files, made, monkeypatch, ids, how):
    spec = edge_files(tmp_path, ids)
    alone = made(spec)
    threads = Threads(monkeypatch)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(ReadEdges, "all_rows", interrupted)
        made(spec, "store", threads)
    (folder,) = (tmp_path / "store").glob(FOLDER)
    for path in largest_files(folder).values():
        damaged_file(path, how)
    assert made(spec, "store", threads) == alone
    assert threads.made_again


@pytest.mark.parametrize("how", ["flip", "cut", "deleted"])
def test_without_its_plan_an_ingest_begins_again(tmp_path, edge_files, made, kept, how):
    spec, workers = edge_files(tmp_path), Workers()
    (plan,) = (path for path in kept(spec).glob("note-*") if b'"Plan"' in path.read_bytes())
    damaged_file(plan, how)
    assert made(spec, "store", workers) == made(spec)
    assert not workers.taken
    assert any("the plan in" in line and "begins again" in line for line in workers.lines)


def test_a_disk_that_gives_back_other_bytes_is_an_error(tmp_path, edge_files, made, monkeypatch):
    """Edges of this ingest change after they were written, each time: there is no graph, and the file is named."""
    spec = edge_files(tmp_path)
    write_at = os.pwrite
    with monkeypatch.context() as patched:
        threads = Threads(patched)
        patched.setattr(os, "pwrite", lambda file, data, at: write_at(file, bytes(len(data)), at))
        with pytest.raises(SsspError, match=rf"`{tmp_path}/store/.*edges-.*` is damaged") as caught:
            made(spec, "store", threads)
    assert caught.value.exit_code == 1
    assert not (tmp_path / "store" / "manifest.json").exists()
    assert made(spec, "store") == made(spec)


def test_inspect_of_a_store_whose_ingest_was_interrupted(tmp_path, edge_files, kept):
    kept(edge_files(tmp_path))
    with pytest.raises(InputError, match="an ingest into it runs, or was interrupted"):
        describe(str(tmp_path / "store"))
