"""Stores, caches and ingests that are damaged or killed: what follows is the same graph, a repair, or a clear error.

    python benchmarks/faulty_stores.py store --count 2000 --seed 1
    python benchmarks/faulty_stores.py cache --count 2000 --seed 1
    python benchmarks/faulty_stores.py ingest --count 2000 --seed 1
    python benchmarks/faulty_stores.py kill --count 500 --seed 1

`store` damages one file of a graph store, of each kind of graph, with a hierarchy. Then a run follows, or `verify` of
an earlier run. After an error, the store is removed and made again, as the hint says. `cache` damages a file of the
cache that worker processes of a machine share. `ingest` damages one file that an interrupted ingest by tasks has left,
and `kill` ends ingests by tasks by SIGKILL; then the same command follows. A kill counts if the ingest was begun and
not finished.

The damages are those of `faulty_runs.py`. The program prints one JSON line: how often each outcome was seen. `wrong`
and `traceback` must be 0. The short form is `tests/faults/test_random_faults.py`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from faulty_runs import DAMAGES, damaged, results

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.graph_store import hierarchies, machine_cache
from sssp_pipeline.pipeline.graph_store.loading import check_store, load_graph
from sssp_pipeline.pipeline.graph_store.store import read_newest
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.ingest.edges import ReadEdges
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.ingest.tasks import edge_reader, in_threads, read_by_tasks, task_notes
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run_each
from sssp_pipeline.pipeline.run.hierarchy_stage import make_for_all
from sssp_pipeline.workflow.models import Workflow

#: What of `graph` makes each kind of store; `{0}` is the folder of the inputs.
GRAPHS: dict[str, dict[str, Any]] = {
    "numbers": {"input": "{0}/numbers-*.csv"},
    "names": {"input": "{0}/names-*.csv", "directed": False},
    "decimals": {"input": "{0}/numbers-*.csv", "weights": {"column": "length"}},
    "several": {
        "input": "{0}/numbers-*.csv",
        "weights": {"several": [{"name": "weight"}, {"name": "length"}]},
    },
}


def write_inputs(folder: Path) -> None:
    """Write the files that are ingested, three of each kind."""
    chance = random.Random(5)
    for kind, name in (("numbers", "{}"), ("names", "v{}")):
        for number in range(3):
            lines = ["source,target,weight,length"]
            lines += [
                f"{name.format(chance.randrange(120))},{name.format(chance.randrange(120))},"
                f"{chance.randrange(1, 99)},{chance.randrange(1, 9999) / 100}"
                for _ in range(400)
            ]
            (folder / f"{kind}-{number}.csv").write_text("\n".join(lines) + "\n")


def workflow(folder: Path, kind: str, solver: str = "dijkstra") -> Workflow:
    """Return the workflow of a run in `folder` on a graph of this kind."""
    graph = {key: value for key, value in GRAPHS[kind].items() if key != "input"}
    return Workflow.model_validate(
        {
            "graph": {
                "weights": {"column": "weight"},
                **graph,
                "input": GRAPHS[kind]["input"].format(folder),
                "store": str(folder / "graph"),
            },
            "sources": {"random": {"count": 12, "seed": 1}},
            "solve": {"batch": 6, "solver": solver},
            "output": {"path": str(folder / "run")},
            "verify": "off",
            "report": False,
        }
    )


def _distances(folder: Path, kind: str, solver: str) -> dict[str, Any]:
    """Return the bytes of the distances of a new run, by the file."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    run_each(workflow(folder, kind, solver), Quiet())
    return {
        f"{run.parent}/{name}": content
        for run in sorted((folder / "run").rglob("run.json"))
        for name, content in results(run.parent).items()
        if name.startswith("distances")
    }


def _choose(root: Path, chance: random.Random) -> Path:
    """Return a file with content below `root`: one of each kind has the same chance, however many there are."""
    by_kind: dict[str, list[Path]] = {}
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock"):
        by_kind.setdefault(_kind(path), []).append(path)
    return chance.choice(by_kind[chance.choice(sorted(by_kind))])


def _kind(path: Path) -> str:
    return f"{path.parent.name}/{path.name}" if path.suffix == ".json" else f"{path.parent.name}/*"


def _damage(path: Path, how: str, chance: random.Random) -> None:
    content = damaged(path.read_bytes(), how, chance)
    path.unlink() if content is None else path.write_bytes(content)


class _Counts:
    """Outcomes by what was damaged, and what led to each that must not be."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self._seed = seed
        self._seen: Counter[str] = Counter()
        self._bad: list[Any] = []

    def add(self, what: str, found: str, *details: str) -> None:
        self._seen[f"{what}: {found.partition(': ')[0]}"] += 1
        if found.startswith(("wrong", "traceback")):
            self._bad.append([what, *details, found])

    def record(self) -> dict[str, Any]:
        n = sum(self._seen.values())
        return {
            "count": n,
            "seed": self._seed,
            "outcomes": dict(sorted(self._seen.items())),
            "bad": self._bad,
        }


def _outcome(act: Callable[[], bool]) -> str:
    """Return what became of `act`, which returns whether all is as it must be: a word, and perhaps why."""
    try:
        return "same" if act() else "wrong"
    except SsspError as error:
        return f"error: {error.message}"
    except Exception as error:
        return f"traceback: {error!r}"


def damage_stores(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Return the counts of outcomes of `count` damages of graph stores."""
    counts, store = _Counts(seed), folder / "graph"
    wanted = {}
    for kind in GRAPHS:
        shutil.rmtree(store, ignore_errors=True)
        wanted[kind] = _distances(folder, kind, "dijkstra")
        make_for_all(str(store), read_newest(str(store)), Quiet())
        shutil.copytree(store, folder / f"good-{kind}")
        shutil.copytree(folder / "run", folder / f"run-{kind}")
    for _ in range(count):
        kind = counts.chance.choice(sorted(GRAPHS))
        then = counts.chance.choice(["dijkstra", "phast", "verify"])
        for kept, place in (("good", store), ("run", folder / "run")):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(folder / f"{kept}-{kind}", place)
        path, how = _choose(store, counts.chance), counts.chance.choice(DAMAGES)
        _damage(path, how, counts.chance)

        def act(kind: str = kind, then: str = then) -> bool:
            if then != "verify":
                return _distances(folder, kind, then) == wanted[kind]
            for run in (folder / "run").rglob("run.json"):
                verify_run(str(run.parent), None, "certificate", Quiet())
            return True

        found = _outcome(act)
        if found.startswith("error"):
            shutil.rmtree(store)  # as the hint says
            again = _outcome(lambda kind=kind: _distances(folder, kind, "dijkstra") == wanted[kind])
            found = found if again == "same" else f"wrong: after {found} {again}"
        counts.add(f"{then}, {_kind(path)}", found, kind, path.name, how)
    return counts.record()


def damage_caches(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Return the counts of outcomes of `count` damages of the graph cache of a machine."""
    counts, store = _Counts(seed), str(folder / "graph")
    good = {}
    for kind in GRAPHS:
        shutil.rmtree(store, ignore_errors=True)
        newest, _ = ingest(workflow(folder, kind).graph, store, Quiet())
        make_for_all(store, newest, Quiet())
        shutil.copytree(store, folder / f"good-{kind}")
        good[kind] = [
            (graph, load_graph(store, graph), hierarchies.load_hierarchy(store, graph))
            for graph in newest.by_weight.values()
        ]
    with mock.patch.dict(os.environ, {machine_cache.FOLDER_VARIABLE: str(folder / "cache")}):
        for _ in range(count):
            kind = counts.chance.choice(sorted(GRAPHS))
            shutil.rmtree(store)
            shutil.copytree(folder / f"good-{kind}", store)

            def act(kind: str = kind) -> bool:
                for manifest, graph, hierarchy in good[kind]:
                    found, _ = machine_cache.shared_graph(store, manifest)
                    arcs = hierarchies.load_hierarchy(store, manifest, shared=True)
                    for one, other in ((found, graph), (arcs.up, hierarchy.up), (arcs.down, hierarchy.down)):
                        for name in getattr(other, "_fields", None) or vars(other):
                            if isinstance(array := getattr(other, name), np.ndarray):
                                same = np.array_equal(getattr(one, name), array)
                                if not same:
                                    return False
                return True

            assert act()
            path, how = _choose(folder / "cache", counts.chance), counts.chance.choice(DAMAGES)
            _damage(path, how, counts.chance)
            counts.add(path.name, _outcome(act), kind, str(path), how)
            if counts.chance.random() < 0.05:
                shutil.rmtree(folder / "cache")
    return counts.record()


# ---- ingests by tasks ----


@contextmanager
def _small_tasks() -> Iterator[None]:
    """Let small inputs be ingested by tasks in threads, which read and write little at a time."""
    with (
        mock.patch.object(edge_reader, "_is_large", return_value=True),
        mock.patch.object(read_by_tasks, "_FEWEST_TASK_BYTES", 1),
        mock.patch.object(part_files, "PART_EDGES", 300),
        mock.patch.object(part_files, "PART_ROWS", 100),
    ):
        yield


def _ingested(folder: Path, kind: str) -> list[str]:
    """Ingest the graph; return the identity of what the store then has, after all of its files are checked."""
    store = str(folder / "graph")
    newest, _ = ingest(workflow(folder, kind).graph, store, Quiet())
    for graph in newest.by_weight.values():
        check_store(store, graph)
    return [graph.content_id for graph in newest.by_weight.values()]


def _stop(*_: Any) -> None:
    raise KeyboardInterrupt


def damage_ingests(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Return the counts of outcomes of `count` damages of what an interrupted ingest has left."""
    counts, store = _Counts(seed), folder / "graph"
    wanted, states = {}, []
    with _small_tasks():
        for kind in GRAPHS:
            for number, (owner, name) in enumerate(((ReadEdges, "rows"), (task_notes.Notes, "write"))):
                shutil.rmtree(store, ignore_errors=True)
                real, calls = getattr(owner, name), iter(range(4))

                def stopping(*given: Any, real: Any = real, calls: Any = calls, owner: Any = owner) -> Any:
                    return real(*given) if owner is not ReadEdges and next(calls) < 3 else _stop()

                with mock.patch.object(owner, name, stopping), suppress(KeyboardInterrupt):
                    _ingested(folder, kind)
                shutil.copytree(store, folder / f"{kind}-{number}")
                states.append((kind, folder / f"{kind}-{number}"))
            shutil.rmtree(store)
            wanted[kind] = _ingested(folder, kind)
        for _ in range(count):
            kind, state = counts.chance.choice(states)
            shutil.rmtree(store)
            shutil.copytree(state, store)
            by_kind: dict[str, list[Path]] = {}
            for path in sorted(path for path in store.rglob("*") if path.is_file()):
                by_kind.setdefault(path.name.partition("-")[0], []).append(path)
            what = counts.chance.choice(sorted(by_kind))
            path, how = counts.chance.choice(by_kind[what]), counts.chance.choice(DAMAGES)
            _damage(path, how, counts.chance)
            found = _outcome(lambda kind=kind: _ingested(folder, kind) == wanted[kind])
            counts.add(what, found, kind, path.name, how)
    return counts.record()


def _slow_ingest(folder: Path, kind: str) -> None:
    """Ingest so slowly that a kill hits any step."""
    read = in_threads.read_edges_of

    def slowly(*given: Any) -> Any:
        time.sleep(0.02)
        return read(*given)

    with _small_tasks(), mock.patch.object(in_threads, "read_edges_of", slowly):
        _ingested(folder, kind)


def kill(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Return how many of `count` kills hit an ingest under way, how many were finished, and which went wrong."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([edge_reader.__name__, "numba"])
    counts, store = _Counts(seed), folder / "graph"
    wanted = {}
    with _small_tasks():
        for kind in GRAPHS:
            shutil.rmtree(store, ignore_errors=True)
            wanted[kind] = _ingested(folder, kind)
    shutil.rmtree(store)
    kind, kills = "", 0
    while kills < count or kind:
        kind = kind or counts.chance.choice(sorted(GRAPHS))
        process = processes.Process(target=_slow_ingest, args=(folder, kind))
        process.start()
        while process.is_alive() and not list(store.glob(".sssp-partial-ingest-*")):
            time.sleep(0.001)
        time.sleep(counts.chance.choice([0.4, 0.4, 2.0]) * counts.chance.random())
        # On a busy machine all would be killed, and none compared.
        if kills >= count or counts.chance.random() < 0.1:
            process.join()
        is_under_way = process.is_alive() and not (store / "manifest.json").exists()
        process.kill()
        process.join()
        if process.exitcode not in (0, -signal.SIGKILL):
            counts.add("ingest", f"wrong: exit code {process.exitcode}", kind)
        kills += is_under_way and process.exitcode != 0
        if (store / "manifest.json").exists():
            found = _outcome(lambda kind=kind: _ingested(folder, kind) == wanted[kind])
            counts.add("ingest", found, kind)
            shutil.rmtree(store)
            kind = ""
    return {"kills": kills, **counts.record()}


ACTS = {"store": damage_stores, "cache": damage_caches, "ingest": damage_ingests, "kill": kill}


def main() -> None:
    """Print the counts as JSON; the exit code is 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=list(ACTS))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder))
        found = ACTS[given.what](Path(folder), given.count, given.seed)
    print(json.dumps(found))
    raise SystemExit(bool(found["bad"]))


if __name__ == "__main__":
    main()
