"""The cost of scheduling many small batches with one Dask scheduler: by a real run, and by tasks that do nothing.

    python benchmarks/scheduling.py [--batches 100000] [--workers 64] [--processes 8] [--variants run,idle,dask]
        [--folder .bench] [--every-s 1]

One process has a Dask scheduler. Some others have several workers each, because 64 interpreters on a small machine
would measure how it shares its cores. All use loopback. Another process is the client, which submits the batches:

- `run`: the run of a workflow with kind `address`, from its preflight to its run.json, a source a batch. The
  graph is a lattice of 2^17 vertices without most of its edges, so that solving takes a fraction of a
  millisecond. The distances to one target and the metrics are committed, two Parquet files a batch.
- `idle`: the same tasks submitted by the same code, but the worker does nothing and returns nothing.
- `dask`: as many numbers through Dask's own executor, with as many in flight, without our code.

CPU seconds are those of each process between the first batch done and the last, for a batch. Memory is read every
`--every-s` seconds. Its growth is the slope of a straight line over the second half of the batches. Bytes are those
that pass through the scheduler's sockets. Each variant gives a line in `scheduling.jsonl`.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import dask
import numpy as np
import psutil
from distributed import Scheduler, Worker
from record import record
from tornado.iostream import IOStream

from sssp_pipeline.base.progress import Level, Quiet
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.selection import select
from sssp_pipeline.pipeline.planning.work import solve_options
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.ingest_workflow import ingest_all
from sssp_pipeline.pipeline.solving.dispatch import scatter
from sssp_pipeline.pipeline.solving.solve_task import SolveTask
from sssp_pipeline.pipeline.solving.workers import clusters
from sssp_pipeline.pipeline.solving.workers.dask_start import SETTINGS
from sssp_pipeline.pipeline.solving.workers.dask_workers import DaskWorkers
from sssp_pipeline.workflow.models import Workflow

NAME = "scheduling"
VARIANTS = ("run", "idle", "dask")
GRAPH = "generated:grid?rows=256&cols=512&keep=0.05"
#: The methods with which the end of a run handles one file a batch.
AT_THE_END = ("committed", "clean", "joined_metrics", "finish")


def workflow_of(folder: Path, batches: int, address: str) -> Workflow:
    """Return the workflow: `batches` sources, each a batch."""
    return Workflow.model_validate(
        {
            "graph": {"input": GRAPH, "store": str(folder / "scheduling-graph")},
            "sources": {"random": {"count": batches, "seed": 1}},
            "solve": {"batch": 1, "solver": "delta-stepping"},
            "output": {"path": str(folder / "scheduling-run"), "targets": {"ids": [0]}},
            "verify": "off",
            "cluster": {"kind": "address", "address": address},
        }
    )


# ---- Processes: each has a pipe to the parent, and ends when the parent closes it --------------------------------


def serve_scheduler(parent: Connection) -> None:
    """Send the address of a scheduler, then on each request the bytes that it has received and sent."""
    carried = {"received": 0, "sent": 0}

    def counted(method: Callable[..., int | None], what: str) -> Callable[..., int | None]:
        def count(stream: IOStream, data: Any) -> int | None:
            n_bytes = method(stream, data)
            carried[what] += n_bytes or 0
            return n_bytes

        return count

    IOStream.read_from_fd = counted(IOStream.read_from_fd, "received")
    IOStream.write_to_fd = counted(IOStream.write_to_fd, "sent")

    async def serve() -> None:
        async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
            parent.send(scheduler.address)
            while await asyncio.to_thread(_is_requested, parent):
                parent.send(dict(carried))

    asyncio.run(serve())


def _is_requested(parent: Connection) -> bool:
    """Return whether the parent sends a request; False if it has closed the pipe."""
    try:
        parent.recv()
    except EOFError:
        return False
    return True


def serve_workers(parent: Connection, address: str, count: int, folder: str) -> None:
    """Run `count` workers with one thread each."""

    async def serve() -> None:
        dask.config.set(SETTINGS)
        options = {"nthreads": 1, "memory_limit": 0, "local_directory": folder, "host": "127.0.0.1"}
        workers = [Worker(address, **options) for _ in range(count)]
        await asyncio.gather(*workers)
        parent.send("there")
        await asyncio.to_thread(_is_requested, parent)
        await asyncio.gather(*(worker.close(nanny=False) for worker in workers))

    asyncio.run(serve())


def be_client(parent: Connection, variant: str, workflow: Workflow) -> None:
    """Solve all batches of `workflow` through a scheduler; send the moments of its events (`time.monotonic`)."""
    seen = _Seen()
    if variant == "run":
        with _timed(RunFolder, AT_THE_END, seen.calls_s):
            run(workflow, seen)
    else:
        _submit_nothing(variant, workflow, seen)
    seen.ended = time.monotonic()
    parent.send(seen)


@dataclass
class _Seen:
    """A `Progress` that keeps the moments of a client, and the seconds of some calls."""

    began: float = field(default_factory=time.monotonic)
    first: float = 0.0
    half: float = 0.0
    last: float = 0.0
    ended: float = 0.0
    tasks: int = 0
    calls_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def stage(self, name: str) -> None:
        pass

    def say(self, line: str, event: str = "note", *, level: Level = "info", **facts: Any) -> None:
        pass

    def event(self, name: str, **facts: Any) -> None:
        pass

    def advance(self, done: int, total: int | None, unit: str) -> None:
        if unit != "batches":
            return
        self.tasks += 1
        self.last = time.monotonic()
        if not self.first:
            self.first = self.last
        if total and done <= total / 2:
            self.half = self.last


@contextmanager
def _timed(owner: type, names: tuple[str, ...], seconds: dict[str, float]) -> Iterator[None]:
    """Add to `seconds` the times of the methods `names` of `owner`."""

    def timed(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*given: Any) -> Any:
            began = time.monotonic()
            try:
                return method(*given)
            finally:
                seconds[name] += time.monotonic() - began

        return call

    kept = {name: getattr(owner, name) for name in names}
    for name, method in kept.items():
        setattr(owner, name, timed(name, method))
    try:
        yield
    finally:
        for name, method in kept.items():
            setattr(owner, name, method)


def _submit_nothing(variant: str, workflow: Workflow, seen: _Seen) -> None:
    """Run as many tasks as `workflow` has, which do nothing, by its own code or by Dask's executor."""
    ingest_all(workflow, Quiet())
    stored = StoredGraph(workflow.store, read_manifest(workflow.store))
    selected = select(workflow, stored, Quiet())
    batches, output = selected.batches, selected.output
    done = 0

    def on_done(_: Any) -> None:
        nonlocal done
        done += 1
        seen.advance(done, len(batches), "batches")

    with clusters.connected(workflow.cluster) as client:
        workers = _Idle(client, workflow.cluster)
        if variant == "idle":
            place = workflow.store, stored.manifest.content_id, workflow.output.path
            options = solve_options(workflow.solve)
            tasks = (
                SolveTask(
                    *place,
                    output.identity(),
                    ((number, batch),),
                    "delta-stepping",
                    options,
                    output.without_input(),
                )
                for number, batch in enumerate(batches)
            )
            scatter(workers, tasks, 0, on_done)
            return
        executor = client.get_executor(pure=False)
        ended: SimpleQueue[Future] = SimpleQueue()
        for number in range(len(batches) + workers.in_flight):
            if number >= workers.in_flight:
                on_done(ended.get().result())
            if number < len(batches):
                executor.submit(_nothing, number).add_done_callback(ended.put)


class _Idle(DaskWorkers):
    """Workers that do nothing with a task."""

    def submit(self, function: Callable[[Any], Any], task: Any) -> Future:
        return super().submit(_nothing, task)


def _nothing(task: Any) -> None:
    pass


# ---- The parent: starts the processes, reads their CPU time and memory, and records -------------------------------


@dataclass
class _Watched:
    """CPU seconds and memory of processes by role, read every `every_s` seconds until the block ends."""

    processes: dict[str, list[psutil.Process]]
    every_s: float
    times: list[float] = field(default_factory=list)
    cpu_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    memory: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def __enter__(self) -> _Watched:
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ends.is_set():
            self.look()
            self._ends.wait(self.every_s)

    def look(self) -> None:
        with suppress(psutil.NoSuchProcess):  # the client has ended
            used = {
                role: [(sum(p.cpu_times()[:2]), p.memory_info().rss) for p in processes]
                for role, processes in self.processes.items()
            }
            self.times.append(time.monotonic())
            for role, found in used.items():
                self.cpu_s[role].append(sum(cpu_s for cpu_s, _ in found))
                self.memory[role].append(sum(memory for _, memory in found))

    def cpu_between(self, role: str, begin: float, end: float) -> float:
        """Return the CPU seconds of a role between two moments."""
        return float(np.diff(np.interp([begin, end], self.times, self.cpu_s[role]))[0])

    def tenths_mb(self, role: str, begin: float, end: float) -> list[float]:
        """Return the memory of a role at eleven moments, evenly from one to another."""
        found = np.interp(np.linspace(begin, end, 11), self.times, self.memory[role])
        return [round(memory / 1e6, 1) for memory in found.tolist()]

    def growth(self, role: str, begin: float, end: float) -> float | None:
        """Return the growth of a role between two moments in bytes a second; None if there are under three readings."""
        times = np.array(self.times)
        within = (begin <= times) & (times <= end)
        if within.sum() < 3:
            return None
        return float(np.polyfit(times[within] - begin, np.array(self.memory[role])[within], 1)[0])


def measure(
    variant: str, batches: int, n_workers: int, processes: int, folder: Path, every_s: float = 1.0
) -> None:
    """Record a line about `batches` batches of a variant on `n_workers` workers."""
    if variant == "run":
        shutil.rmtree(folder / "scheduling-run", ignore_errors=True)
    spawn = multiprocessing.get_context("spawn")
    with ExitStack() as stack:

        def started(role: Callable[..., None], *given: Any) -> tuple[psutil.Process, Connection]:
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=role, args=(theirs, *given))
            process.start()
            theirs.close()
            stack.callback(process.join)
            stack.callback(ours.close)
            return psutil.Process(process.pid), ours

        scheduler, to_scheduler = started(serve_scheduler)
        address = to_scheduler.recv()
        workflow = workflow_of(folder, batches, address)
        shares = [n_workers // processes + (i < n_workers % processes) for i in range(processes)]
        hosts = [started(serve_workers, address, share, str(folder)) for share in shares]
        for _, host in hosts:
            host.recv()
        to_scheduler.send("bytes")
        before = to_scheduler.recv()
        client, to_client = started(be_client, variant, workflow)
        watched = _Watched(
            {"client": [client], "scheduler": [scheduler], "workers": [p for p, _ in hosts]}, every_s
        )
        with watched:
            seen = to_client.recv()
        to_scheduler.send("bytes")
        after = to_scheduler.recv()
    span_s, first, last = seen.last - seen.first, seen.first, seen.last
    per_batch = 1e3 / max(1, batches - 1)
    cpu_ms = {role: per_batch * watched.cpu_between(role, first, last) for role in watched.processes}
    growth = {role: watched.growth(role, seen.half, last) for role in ("client", "scheduler")}
    record(
        NAME,
        variant=variant,
        batches=batches,
        tasks=seen.tasks,
        workers=n_workers,
        worker_processes=processes,
        begin_s=round(seen.first - seen.began, 2),
        span_s=round(span_s, 2),
        end_s=round(seen.ended - seen.last, 2),
        calls_s={name: round(s, 2) for name, s in seen.calls_s.items()},
        wall_ms=round(per_batch * span_s, 4),
        cpu_ms={role: round(ms, 4) for role, ms in cpu_ms.items()},
        scheduling_ms=round(cpu_ms["client"] + cpu_ms["scheduler"], 4),
        bytes_a_batch={way: round((after[way] - before[way]) / batches) for way in after},
        peak_mb={role: max(watched.memory[role]) / 1e6 for role in growth},
        tenths_mb={role: watched.tenths_mb(role, first, last) for role in growth},
        growth_bytes_a_batch={
            role: None if g is None else round(g * span_s / batches, 1) for role, g in growth.items()
        },
        load=[round(load, 1) for load in psutil.getloadavg()],
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--processes", type=int, default=8, help="that have the workers")
    parser.add_argument("--variants", type=lambda text: text.split(","), default=VARIANTS)
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--every-s", type=float, default=1.0, help="seconds between two readings of memory")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    folder = given.folder.resolve()
    ingest_all(workflow_of(folder, 1, "tcp://127.0.0.1:1"), Quiet())
    for variant in given.variants:
        measure(variant, given.batches, given.workers, given.processes, folder, given.every_s)


if __name__ == "__main__":
    main()
