"""Power losses: what a crash of the machine may leave of files, and whether the same command recovers from it.

    python benchmarks/power_loss.py --count 5000 --seed 1

Each scenario is carried out once, and all its operations on files are recorded: writes, renames, removals, new folders
and syncs. A crash state is what a disk may hold after a power loss at some point:

- A change of a file is on the disk if the file was synced after it; otherwise each 4 KiB page of it may be missing.
- A change of a folder (a new name, a rename, a removal) is on the disk if the folder was synced after it; otherwise it
  may be missing, whether or not later changes are there.

This allows more than most filesystems do. Then the same command follows in that state. It must end with the same bytes
or a clear error. See also Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014.

The program prints one JSON line: how often each outcome was seen. The short form is in
`tests/faults/test_random_faults.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from faulty_runs import results, workflow

from sssp_pipeline.base.errors import PathTooLongError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.graph_store.loading import check_store
from sssp_pipeline.pipeline.graph_store.store import read_newest
from sssp_pipeline.pipeline.ingest.tasks import edge_reader
from sssp_pipeline.pipeline.run import conductor as conductor
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.hierarchy_stage import make_for_all
from sssp_pipeline.pipeline.run.ingest_workflow import ingest_all
from sssp_pipeline.workflow.models import Workflow

PAGE = 4096


# ---- what happened ----


@dataclass(frozen=True)
class Written:
    """Bytes were written to a file."""

    file: int
    offset: int
    content: bytes


@dataclass(frozen=True)
class Named:
    """Names in a folder changed in one step. Each now leads to a file or folder, by its number, or to nothing."""

    folder: int
    changes: tuple[tuple[str, int | None], ...]


@dataclass(frozen=True)
class Synced:
    """A file or a folder was synced."""

    node: int


Operation = Written | Named | Synced


def _path_of(descriptor: int) -> str:
    return str(Path(f"/proc/self/fd/{descriptor}").readlink())


class Recorder:
    """Records what this process does to the files below a folder. Files and folders have numbers; the folder has 0."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._lock = threading.RLock()
        self._numbers = {self._root: 0}
        self._ends: dict[int, int] = {}
        self.folders = {0}
        self.operations: list[Operation] = []
        for path in sorted(root.rglob("*")):
            self._add(str(path))
        for node in self._numbers.values():  # what was there before is on the disk
            self.operations.append(Synced(node))
        self.n_before = len(self.operations)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record what happens in the block."""
        changed = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "writev", "pwrite", "fsync")
        patches = [mock.patch.object(os, name, self._patched(name, getattr(os, name))) for name in changed]
        for patch in patches:
            patch.start()
        try:
            yield
        finally:
            for patch in patches:
                patch.stop()

    def _patched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        record = getattr(self, f"_{name}")

        def call(*given: Any, **options: Any) -> Any:
            with self._lock:
                return record(real, *given, **options)

        return call

    def _path(self, given: Any, folder: int | None = None) -> str | None:
        """Return the absolute path if it is below the folder."""
        if isinstance(given, int):
            path = _path_of(given)
        else:
            path = os.fspath(given) if folder is None else f"{_path_of(folder)}/{os.fspath(given)}"
        path = os.path.abspath(path)  # noqa: PTH100 (links stay)
        return path if path == self._root or path.startswith(self._root + "/") else None

    def _add(self, path: str) -> int:
        """Return the number of what is at `path`, which is new if it was not seen yet."""
        if path in self._numbers:
            return self._numbers[path]
        parent, name = os.path.split(path)
        node = self._numbers[path] = len(self._numbers) + len(self._ends) + len(self.operations) + 1
        is_folder = Path(path).is_dir()
        if is_folder:
            self.folders.add(node)
        self.operations.append(Named(self._add(parent), ((name, node),)))
        if not is_folder:
            self._ends[node] = 0
            self._write(node, 0, Path(path).read_bytes())
        return node

    def _write(self, node: int, offset: int, content: bytes) -> None:
        if content:
            self.operations.append(Written(node, offset, content))
            self._ends[node] = max(self._ends[node], offset + len(content))

    def _writev(self, real: Callable[..., int], descriptor: int, buffers: Any) -> int:
        path = self._path(descriptor)
        if path is None or not Path(path).exists():
            return real(descriptor, buffers)
        node = self._add(path)
        written = real(descriptor, buffers)
        self._write(node, self._ends[node], b"".join(map(bytes, buffers))[:written])
        return written

    def _pwrite(self, real: Callable[..., int], descriptor: int, content: Any, offset: int) -> int:
        path = self._path(descriptor)
        if path is None or not Path(path).exists():
            return real(descriptor, content, offset)
        node = self._add(path)
        written = real(descriptor, content, offset)
        self._write(node, offset, bytes(content)[:written])
        return written

    def _fsync(self, real: Callable[..., None], descriptor: int) -> None:
        path = self._path(descriptor)
        real(descriptor)
        if path is not None:
            self.operations.append(Synced(self._add(path)))

    def _mkdir(self, real: Callable[..., None], path: Any, *rest: Any, **options: Any) -> None:
        real(path, *rest, **options)
        if (found := self._path(path, options.get("dir_fd"))) is not None:
            self._add(found)

    def _replace(self, real: Callable[..., None], source: Any, target: Any, **options: Any) -> None:
        old, new = self._path(source), self._path(target)
        if old is None or new is None:
            return real(source, target, **options)
        node = self._add(old)
        real(source, target, **options)
        (before, name), (after, as_name) = os.path.split(old), os.path.split(new)
        assert before == after, "nothing is moved to another folder"
        self.operations.append(Named(self._numbers[before], ((name, None), (as_name, node))))
        for path in [path for path in self._numbers if path == old or path.startswith(old + "/")]:
            self._numbers[new + path[len(old) :]] = self._numbers.pop(path)
        return None

    _rename = _replace

    def _unlink(self, real: Callable[..., None], path: Any, **options: Any) -> None:
        found = self._path(path, options.get("dir_fd"))
        real(path, **options)
        if found is not None and found in self._numbers:
            folder, name = os.path.split(found)
            self.operations.append(Named(self._numbers[folder], ((name, None),)))
            del self._numbers[found]

    _remove = _rmdir = _unlink


# ---- what a disk may hold ----

#: The content of each file, None for a folder, by its path below the folder that was watched.
Tree = dict[str, bytes | None]


def on_disk(operations: list[Operation], folders: set[int], keeps: Callable[[Operation, int], bool]) -> Tree:
    """Return what is on the disk if the power fails after `operations`.

    `keeps` is asked for each page of a write, and for each change of names (page 0), that was not synced.
    """
    last_sync = {step.node: at for at, step in enumerate(operations) if isinstance(step, Synced)}
    names: dict[int, dict[str, int]] = {}
    content: dict[int, bytearray] = {}
    for at, step in enumerate(operations):
        if isinstance(step, Named) and (last_sync.get(step.folder, -1) > at or keeps(step, 0)):
            of_folder = names.setdefault(step.folder, {})
            for name, node in step.changes:
                of_folder.pop(name, None)
                if node is not None:
                    of_folder[name] = node
        elif isinstance(step, Written):
            file = content.setdefault(step.file, bytearray())
            is_synced = last_sync.get(step.file, -1) > at
            end = step.offset + len(step.content)
            for page in range(step.offset // PAGE, -(-end // PAGE)):
                if is_synced or keeps(step, page):
                    first, last = max(page * PAGE, step.offset), min((page + 1) * PAGE, end)
                    file.extend(bytes(max(0, last - len(file))))
                    file[first:last] = step.content[first - step.offset : last - step.offset]
    tree: Tree = {}

    def add(node: int, path: str) -> None:
        for name, below in names.get(node, {}).items():
            of_below = f"{path}{name}"
            if below in folders:
                tree[of_below] = None
                add(below, of_below + "/")
            else:
                tree[of_below] = bytes(content.get(below, b""))

    add(0, "")
    return tree


def crash_states(recorder: Recorder, chance: random.Random) -> Iterator[tuple[str, int, Tree]]:
    """Yield crash states without end: a word for what is lost, the point of the crash, and the state."""
    operations = recorder.operations
    ways: dict[str, Callable[[float], Callable[[Operation, int], bool]]] = {
        "nothing": lambda _: lambda step, page: True,
        "all that is not synced": lambda _: lambda step, page: False,
        "content": lambda _: lambda step, page: isinstance(step, Named),
        "some pages": lambda share: lambda step, page: isinstance(step, Named) or chance.random() < share,
        "some names": lambda share: lambda step, page: isinstance(step, Written) or chance.random() < share,
        "names and pages": lambda share: lambda step, page: chance.random() < share,
    }
    while True:
        word = chance.choice(sorted(ways))
        point = chance.randint(recorder.n_before, len(operations))
        keeps = ways[word](chance.choice([0.1, 0.5, 0.9]))
        yield word, point, on_disk(operations[:point], recorder.folders, keeps)


def put(tree: Tree, root: Path) -> None:
    """Make `root` hold this tree and nothing else."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    for name, content in tree.items():
        if content is None:
            (root / name).mkdir(exist_ok=True)
        else:
            (root / name).write_bytes(content)


def tree_of(root: Path) -> Tree:
    """Return what is below `root`."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


# ---- what is tried ----


@dataclass
class Scenario:
    """A command, and what it finds."""

    command: Callable[[Path], None]
    before: Callable[[Path], None] = lambda root: None
    #: Whether the command makes a run, and the run of an older version of the graph, which must stay valid.
    makes_run: bool = True
    older_run: str | None = None


def _run(kind: str, **changes: Any) -> Callable[[Path], None]:
    overwrite = changes.pop("overwrite", False)

    def command(root: Path) -> None:
        conductor.run(spec(root, kind, **changes), Quiet(), overwrite=overwrite)

    return command


def spec(root: Path, kind: str, **changes: Any) -> Workflow:
    """Return a workflow of `faulty_runs` with other values of some sections."""
    plain = workflow(root, kind).model_dump(mode="json", exclude_unset=True)
    for section, values in changes.items():
        plain[section] = {**plain.get(section, {}), **values} if isinstance(values, dict) else values
    return Workflow.model_validate(plain)


def _by_tasks(root: Path) -> None:
    """Ingest files by tasks in threads, whose work is kept on the disk."""
    with mock.patch.object(edge_reader, "_is_large", return_value=True):
        _run("long", graph={"input": str(root.parent / "edges-*.csv")})(root)


def _hierarchy(root: Path) -> None:
    _run("metrics")(root)
    store = str(root / "graph")
    make_for_all(store, read_newest(store), Quiet())


def _cut_batch(root: Path) -> None:
    _run("long")(root)
    path = root / "run/distances/batch-00001.parquet"
    path.write_bytes(path.read_bytes()[:-10])


def _flipped_batch(root: Path) -> None:
    _run("long")(root)
    path = root / "run/distances/batch-00001.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _verify_and_repair(root: Path) -> None:
    with suppress(SsspError):
        verify_run(str(root / "run"), None, "sample", Quiet())
    _run("long")(root)


def _older_version(root: Path) -> None:
    """Solve on another content of the input file, and make the hierarchy of that graph."""
    path = root.parent / "edges.csv"
    path.write_text("source,target,weight\n" + "\n".join(f"{v},{v + 1},{v + 1}" for v in range(80)) + "\n")
    conductor.run(spec(root, "long", graph=_of_file(root), output={"path": str(root / "older")}), Quiet())
    make_for_all(str(root / "graph"), read_newest(str(root / "graph")), Quiet())
    path.write_text(path.read_text().replace("7,8,8", "7,8,1000000"))


def _newer_version(root: Path) -> None:
    _run("long", graph=_of_file(root))(root)


def _one_version(root: Path) -> None:
    """Ingest the input again, and remove the older version with its hierarchy."""
    ingest_all(spec(root, "long", graph=_of_file(root)), Quiet(), remove_old_versions=True)


def _too_long(root: Path) -> None:
    """Run until a path is too long for the type, so that the run is given up."""
    (root.parent / "heavy.csv").write_text("source,target,weight\n0,1,4000000000\n1,2,4000000000\n")
    graph = {"input": str(root.parent / "heavy.csv"), "weights": {"dtype": "uint32"}}
    with suppress(PathTooLongError):
        _run("long", graph=graph, sources={"random": None, "ids": [2, 1, 0]}, solve={"batch": 1})(root)


def _of_file(root: Path) -> dict[str, Any]:
    return {"input": str(root.parent / "edges.csv")}


SCENARIOS = {
    "long": Scenario(_run("long")),
    "wide": Scenario(_run("wide")),
    "reduced": Scenario(_run("reduced", report=True)),
    "points": Scenario(_run("targets", verify="sample", report=True)),
    "overwrite": Scenario(_run("long", overwrite=True), _run("long")),
    "other batches": Scenario(_run("long", overwrite=True), _run("wide", solve={"batch": 5})),
    "by tasks": Scenario(_by_tasks),
    "hierarchy": Scenario(_hierarchy),
    "newer version": Scenario(_newer_version, _older_version, older_run="older"),
    "one version": Scenario(_one_version, _older_version, makes_run=False),
    "too long": Scenario(_too_long, makes_run=False),
    "cut batch": Scenario(_run("long"), _cut_batch),
    "flipped batch": Scenario(_verify_and_repair, _flipped_batch),
}


def _write_inputs(folder: Path) -> None:
    """Write the files that the scenarios read."""
    chance = random.Random(3)
    for number in range(3):
        edges = (
            f"v{chance.randrange(90)},v{chance.randrange(90)},{chance.randrange(1, 99)}" for _ in range(400)
        )
        (folder / f"edges-{number}.csv").write_text("source,target,weight\n" + "\n".join(edges) + "\n")


def _found(root: Path, scenario: Scenario) -> dict[str, Any]:
    """Return what the command has made, as far as it is always the same."""
    newest = read_newest(str(root / "graph"))
    graphs = newest.by_weight.values()
    for graph in graphs:
        check_store(str(root / "graph"), graph)
    found: dict[str, Any] = {"graph": [graph.content_id for graph in graphs]}
    if scenario.makes_run:
        found |= results(root / "run")
        found.pop("report.html", None)
    else:
        found["left"] = [path.name for path in root.glob("run/*")]
    if scenario.older_run is not None:
        verify_run(str(root / scenario.older_run), None, "certificate", Quiet())
    return found


def outcome(root: Path, scenario: Scenario, wanted: dict[str, Any]) -> str:
    """Return what became of a crash state by the same command: a word, and perhaps why."""
    try:
        scenario.command(root)
        return "same" if _found(root, scenario) == wanted else "wrong"
    except SsspError as error:
        return f"error: {error.message}"
    except Exception as error:
        return f"traceback: {error!r}"


def recorded(root: Path, scenario: Scenario) -> tuple[Recorder, dict[str, Any]]:
    """Carry a scenario out; return what it did to files, and what it has made."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    scenario.before(root)
    recorder = Recorder(root)
    with recorder.recording():
        scenario.command(root)
    whole = on_disk(recorder.operations, recorder.folders, lambda step, page: True)
    if whole != tree_of(root):
        differ = {name for name in whole.keys() | tree_of(root) if whole.get(name) != tree_of(root).get(name)}
        raise AssertionError(f"the recorder missed operations on {sorted(differ)[:5]}")
    return recorder, _found(root, scenario)


def lose_power(folder: Path, count: int, seed: int, scenarios: list[str]) -> dict[str, Any]:
    """Return the counts of outcomes of `count` different crash states, and what led to each that must not be."""
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    bad, n_operations = [], {}
    _write_inputs(folder)
    root = folder / "files"
    for name in scenarios:
        scenario = SCENARIOS[name]
        recorder, wanted = recorded(root, scenario)
        n_operations[name] = len(recorder.operations) - recorder.n_before
        tried: set[int] = set()
        for _, (lost, point, tree) in zip(range(10 * count), crash_states(recorder, chance), strict=False):
            if len(tried) >= -(-count // len(scenarios)):
                break
            if (key := hash(tuple(sorted(tree.items(), key=lambda item: item[0])))) in tried:
                continue
            tried.add(key)
            put(tree, root)
            found = outcome(root, scenario, wanted)
            seen[f"{name}: {found.partition(': ')[0]}"] += 1
            if not found.startswith("same"):
                bad.append([name, lost, point, found.replace(str(root), "…")])
    return {
        "crash_states": sum(seen.values()),
        "seed": seed,
        "operations": n_operations,
        "outcomes": dict(sorted(seen.items())),
        "bad": bad,
    }


def main() -> None:
    """Print the counts as JSON; the exit code is 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="of: %(default)s")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = lose_power(Path(folder), given.count, given.seed, given.scenarios.split(","))
    print(json.dumps(found))
    raise SystemExit(bool(found["bad"]))


if __name__ == "__main__":
    main()
