"""Runs that are damaged or killed, again and again: the same command must end with the same bytes, or a clear error.

    python benchmarks/faulty_runs.py damage --count 2000 --seed 1
    python benchmarks/faulty_runs.py kill --count 500 --seed 1

`damage` takes runs of every layout, unfinished and finished, and damages one file: it is removed, cut, or made longer,
4 KiB of it become zeros, or one bit flips. Then the same `run` follows; of a finished run also `verify` and `run`.
`kill` ends runs by SIGKILL while batches are solved. A kill counts if the run was begun and not finished. With
`--workers 2` worker processes solve, and each kill hits the driver, a worker, or all of them.

The program prints one JSON line: how often each outcome was seen. `wrong` and `traceback` must be 0. The short form is
`tests/faults/test_random_faults.py`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq

from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run import conductor as conductor
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.models import Workflow

#: What of `output` makes each kind of run.
OUTPUTS: dict[str, dict[str, Any]] = {
    "long": {},
    "zstd": {"compression": "zstd"},
    "wide": {"layout": "wide"},
    "targets": {"targets": {"ids": [5, 2, 71]}},
    "nearest": {"distances": "nearest", "nearest": {"k": 3, "of": {"ids": [5, 2, 71, 30]}}},
    "reduced": {
        "distances": "reduced",
        "reduce": {"values": ["closeness"], "per_vertex": {"values": ["reached_by", "sum_distance"]}},
    },
    "betweenness": {
        "distances": "reduced",
        "reduce": {"per_vertex": {"values": ["betweenness"]}, "per_edge": {"values": ["betweenness"]}},
    },
    "flows": {"distances": "flows"},
    "metrics": {"distances": "none"},
}
DAMAGES = ("remove", "cut", "zeros", "flip", "append")
#: Metrics that do not depend on time and place.
METRICS = ["source", "batch", "solver", "vertices_processed", "edges_relaxed", "reached", "max_distance"]


class Stop(BaseException):
    """Ends a run as a kill would."""


class _StopsAt(Quiet):
    """Ends a run when so many batches are done."""

    def __init__(self, batches: int) -> None:
        self._batches = batches

    def advance(self, done: int, total: int | None, unit: str) -> None:
        if unit == "batches" and done >= self._batches:
            raise KeyboardInterrupt


def workflow(folder: Path, kind: str, sources: int = 12, batch: int = 3, side: int = 12) -> Workflow:
    """Return the workflow of a run of this kind in `folder`."""
    output, named = OUTPUTS[kind], {"sources": {"random": {"count": sources, "seed": 1}}}
    if kind == "flows":
        trips = [f"{trip % sources},{7 * trip % side**2},{trip}" for trip in range(4 * sources)]
        (folder / "trips.csv").write_text("\n".join(["source,target,amount", *trips]))
        output, named = output | {"flows": str(folder / "trips.csv")}, {}
    return Workflow.model_validate(
        {
            "graph": {
                "input": f"generated:grid?rows={side}&cols={side}&seed=1",
                "store": str(folder / "graph"),
            },
            **named,
            "solve": {"solver": "dijkstra", "batch": batch},
            "output": {"path": str(folder / "run"), **output},
            "verify": "off",
            "report": False,
        }
    )


def results(run: Path) -> dict[str, Any]:
    """Return what a finished run must have, whatever happened before: bytes by name, and metrics."""
    found: dict[str, Any] = {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and path.name not in ("run.json", "metrics.parquet")
    }
    return {**found, "metrics": pq.read_table(run / "metrics.parquet").select(METRICS).to_pydict()}


def damaged(content: bytes, how: str, chance: random.Random) -> bytes | None:
    """Return damaged `content`, None if the file is removed."""
    if how == "remove":
        return None
    if how == "append" or not content:
        return content + chance.randbytes(chance.choice([1, 4096]))
    place = chance.randrange(len(content))
    if how == "cut":
        return content[:place]
    if how == "zeros":
        return content[:place] + bytes(min(4096, len(content) - place)) + content[place + 4096 :]
    return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]


def states(folder: Path, kind: str) -> Iterator[tuple[str, Path]]:
    """Yield names of states of a run, and copies of its folder in that state; the finished one comes first."""
    run, spec = folder / "run", workflow(folder, kind)

    def kept(state: str) -> tuple[str, Path]:
        shutil.copytree(run, folder / f"{kind}-{state}")
        return state, folder / f"{kind}-{state}"

    shutil.rmtree(run, ignore_errors=True)
    conductor.run(spec, Quiet())
    yield kept("finished")
    for state, owner, name in (
        ("solved", RunFolder, "joined_metrics"),
        ("combined", conductor, "finish_run"),
    ):
        shutil.rmtree(run)
        real = getattr(owner, name)
        try:
            setattr(owner, name, _stop)
            conductor.run(spec, Quiet())
        except Stop:
            yield kept(state)
        finally:
            setattr(owner, name, real)
    shutil.rmtree(run)
    try:
        conductor.run(spec, _StopsAt(2))
    except KeyboardInterrupt:
        yield kept("unfinished")


def _stop(*_: Any, **__: Any) -> None:
    raise Stop


def outcome(spec: Workflow, state: str, wanted: dict[str, Any]) -> str:
    """Return what became of a damaged run by the commands that a user types: a word, and perhaps why."""
    run = Path(spec.output.path)
    try:
        conductor.run(spec, Quiet())
        if state == "finished":
            try:
                verify_run(str(run), None, "sample", Quiet())
            except SsspError:
                conductor.run(spec, Quiet())  # as the hint says
                verify_run(str(run), None, "sample", Quiet())
    except SsspError as error:
        return f"error: {error.message}"
    except Exception as error:
        return f"traceback: {error!r}"
    return "same" if results(run) == wanted else "wrong"


def damage(folder: Path, count: int, seed: int, kinds: list[str]) -> dict[str, Any]:
    """Return the counts of outcomes of `count` damages, and a line on each that must not be."""
    chance, bad = random.Random(seed), []
    seen: Counter[str] = Counter()
    made = {kind: dict(states(folder, kind)) for kind in kinds}
    wanted = {kind: results(of_kind["finished"]) for kind, of_kind in made.items()}
    for _ in range(count):
        kind = chance.choice(kinds)
        state = chance.choice(sorted(made[kind]))
        run, how = folder / "run", chance.choice(DAMAGES)
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(made[kind][state], run)
        # A file of each kind has the same chance, however many batches there are.
        by_kind: dict[str, list[Path]] = {}
        for path in sorted(path for path in run.rglob("*") if path.is_file()):
            by_kind.setdefault(path.name.split("-")[0] + path.suffix, []).append(path)
        path = chance.choice(by_kind[chance.choice(sorted(by_kind))])
        content = damaged(path.read_bytes(), how, chance)
        path.unlink() if content is None else path.write_bytes(content)
        found = outcome(workflow(folder, kind), state, wanted[kind])
        seen[f"{state}: {found.partition(': ')[0]}"] += 1
        if found.startswith("error"):
            seen[f"error of {path.name.split('-')[0]}"] += 1
        if found.startswith(("wrong", "traceback")):
            bad.append([kind, state, str(path.relative_to(run)), how, found])
    return {"damages": count, "seed": seed, "outcomes": dict(sorted(seen.items())), "bad": bad}


def _run(folder: Path, kind: str, workers: int = 0) -> None:
    spec = workflow(folder, kind, 200, 1, 40)
    if workers:
        cluster = Cluster(workers=workers, threads_per_worker=1)
        spec = spec.model_copy(update={"cluster": cluster})
    conductor.run(spec, Quiet())


def _end(process: Any, chance: random.Random, workers: int) -> None:
    """Kill the driver, one of its worker processes and later the driver, or all of them."""
    children = []
    with suppress(psutil.NoSuchProcess):  # it may just have ended
        children = psutil.Process(process.pid).children(recursive=True)
    target = chance.choice(["driver", "worker", "all"]) if workers else "driver"
    hit = {"driver": [], "worker": chance.sample(children, min(1, len(children))), "all": children}
    for child in hit[target]:
        with suppress(psutil.Error):
            child.kill()
    if target == "worker":
        process.join(chance.uniform(0, 5))
    process.kill()
    process.join()
    psutil.wait_procs(children, timeout=60)


def _commits(run: Path) -> int:
    return len(list(run.glob("_run/*.commit")))


def kill(folder: Path, count: int, seed: int, kinds: list[str], workers: int = 0) -> dict[str, Any]:
    """Return how many of `count` kills hit a run under way, how many runs were finished, and which went wrong."""
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([conductor.__name__])
    chance, bad = random.Random(seed), []
    seen: Counter[str] = Counter()
    run, wanted = folder / "run", {}
    for kind in kinds:
        shutil.rmtree(run, ignore_errors=True)
        _run(folder, kind)
        wanted[kind] = results(run)
    kind = ""
    while seen["kills"] < count or kind:
        if not kind:
            kind = chance.choice(kinds)
            shutil.rmtree(run)
        before = _commits(run)
        process = processes.Process(target=_run, args=(folder, kind, workers))
        process.start()
        if chance.random() < 0.7:  # while batches are solved; else also while they are read, or gathered
            while process.is_alive() and _commits(run) == before:
                time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.3))
        # On a busy machine all would be killed, and none compared.
        if seen["kills"] >= count or chance.random() < 0.1:
            process.join()
        under_way = process.is_alive() and (run / "_run").exists() and not (run / "run.json").exists()
        _end(process, chance, workers)
        if process.exitcode not in (0, -signal.SIGKILL):
            bad.append([kind, "exit code", process.exitcode])
        seen["kills"] += under_way and process.exitcode != 0
        if (run / "run.json").exists():
            _run(folder, kind)
            seen["finished"] += 1
            if results(run) != wanted[kind]:
                bad.append([kind, "wrong", 0])
            kind = ""
    return {**seen, "seed": seed, "bad": bad}


def main() -> None:
    """Print the counts as JSON; the exit code is 1 if something went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["damage", "kill"])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default=",".join(OUTPUTS), help="of: %(default)s")
    parser.add_argument("--workers", type=int, default=0, help="worker processes of each run that is killed")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        what = Path(folder), given.count, given.seed, given.kinds.split(",")
        found = damage(*what) if given.what == "damage" else kill(*what, given.workers)
    print(json.dumps(found))
    raise SystemExit(bool(found["bad"]))


if __name__ == "__main__":
    main()
