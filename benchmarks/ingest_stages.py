"""The seconds of each step of an ingest: over all threads, and from begin to end.

python benchmarks/ingest_stages.py edges.txt [--threads 16] [--memory 2GiB] [--store .bench/ingest-graph]

Every step is a function of the package, which is wrapped. A step on several threads has more seconds than the whole
ingest. If its wall seconds are much more than its CPU seconds, its threads wait: for Python's lock, for a disk, or for
a core. `imports` and `kernels` are start-up.
"""

from __future__ import annotations

import time

BEGAN = time.perf_counter()

import argparse  # noqa: E402
import functools  # noqa: E402
import importlib  # noqa: E402
import resource  # noqa: E402
import shutil  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from itertools import pairwise  # noqa: E402
from pathlib import Path  # noqa: E402
from threading import Lock  # noqa: E402
from typing import Any  # noqa: E402

_INGEST, _FORMATS = "sssp_pipeline.pipeline.ingest", "sssp_pipeline.pipeline.formats"
#: The steps: the module and name of a function, as its caller looks it up.
STEPS = {
    "read: parts": f"{_FORMATS}.parsing.file_parts:FilePart.read",
    "read: streams": f"{_FORMATS}.parsing.file_parts:read_blocks",
    "parse": f"{_FORMATS}.parsing.line_reader:scan_block",
    "parse: control": f"{_FORMATS}.parsing.tokenizer:control_at",
    "prepare": f"{_INGEST}.reading:_kept",
    "prepare: group": f"{_INGEST}.reading:keep_run",
    "number ids": f"{_INGEST}.ids.id_mapping:IntegerIds.finish",
    "limits": f"{_INGEST}.edges:limits_between",
    "rows": f"{_INGEST}.edges:ReadEdges._rows_between",
    "rows: gather": f"{_INGEST}.rows.edge_runs:EdgeRuns.edges_between",
    "rows: sort": f"{_INGEST}.rows.sorted_rows:rows_between",
    "cut": "sssp_pipeline.pipeline.graph_store.writing.cut:Cut.add",
    "write": "sssp_pipeline.pipeline.graph_store.writing.part_files:PartFile.add",
    "commit": "sssp_pipeline.pipeline.graph_store.writing.writer:StoreWriter.commit",
}


class Clock:
    """Adds up the seconds of each step."""

    def __init__(self) -> None:
        self.steps: dict[str, list[float]] = {}
        self._lock = Lock()

    def add(self, step: str, wall_s: float, cpu_s: float) -> None:
        with self._lock:
            total = self.steps.setdefault(step, [0, 0.0, 0.0])
            for i, amount in enumerate((1, wall_s, cpu_s)):
                total[i] += amount

    def timed(self, step: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            return function(*args, **options)
        finally:
            self.add(step, time.perf_counter() - wall, time.thread_time() - cpu)

    def wrap(self, step: str, place: str) -> None:
        """Time the function at `place`; for a generator, each item."""
        module, _, path = place.partition(":")
        owner: Any = importlib.import_module(module)
        *above, name = path.split(".")
        for part in above:
            owner = getattr(owner, part)
        function = getattr(owner, name)

        @functools.wraps(function)
        def call(*args: Any, **options: Any) -> Any:
            found = self.timed(step, function, *args, **options)
            return self._items(step, found) if isinstance(found, Iterator) else found

        setattr(owner, name, call)

    def _items(self, step: str, items: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while (item := self.timed(step, next, items, end)) is not end:
            yield item


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("text", type=Path)
    parser.add_argument("--memory", default="auto", help="graph.memory, such as 2GiB")
    parser.add_argument("--threads", type=int, help="instead of the cores of this machine")
    parser.add_argument("--store", type=Path, default=Path(".bench/ingest-graph"))
    parser.add_argument(
        "--option", action="append", default=[], help="an option of `graph`, such as directed=false"
    )
    given = parser.parse_args()
    clock = Clock()
    from sssp_pipeline.base.lazy import leave_out_optional_packages

    leave_out_optional_packages()  # as the command line does
    from sssp_pipeline.base.progress import Progress
    from sssp_pipeline.pipeline.ingest import into_store, reading
    from sssp_pipeline.workflow.graph import Graph

    if given.threads:
        reading.usable_cores = lambda: given.threads  # type: ignore[attr-defined]
    threads = reading.usable_cores()  # type: ignore[attr-defined]
    for step, place in STEPS.items():
        clock.wrap(step, place)
    imported = time.perf_counter()

    phases: list[tuple[str, float, float]] = []

    class Phases(Progress):
        def stage(self, name: str) -> None:
            phases.append((name, time.perf_counter(), time.process_time()))

    options = dict(option.split("=") for option in given.option)
    graph = Graph.model_validate(
        {"input": [str(given.text)], "store": str(given.store), "memory": given.memory} | options
    )
    shutil.rmtree(given.store, ignore_errors=True)
    Phases().stage("open")
    manifest = into_store.ingest(graph, str(given.store), Phases())[0].first
    Phases().stage("")
    n_bytes = given.text.stat().st_size
    wall_s = time.perf_counter() - BEGAN
    print(f"{given.text}: {n_bytes / 1e6:,.0f} MB, {manifest.n_edges:,} edges, {threads} threads")
    print(f"{wall_s:.2f} s from the start of the program, {n_bytes / wall_s / 1e6:,.0f} MB/s;", end=" ")
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        f"CPU {used.ru_utime:.2f} s user, {used.ru_stime:.2f} s system; {used.ru_minflt:,} page faults;",
        end=" ",
    )
    print(f"peak {used.ru_maxrss / 1024:,.0f} MiB\n")
    print(f"{'phase':24} {'':>7} {'wall s':>8} {'CPU s':>8}")
    print(f"{'imports':24} {'':>7} {imported - BEGAN:8.3f}")
    for (name, wall, cpu), (_, wall_end, cpu_end) in pairwise(phases):
        print(f"{name:24} {'':>7} {wall_end - wall:8.3f} {cpu_end - cpu:8.3f}")
    print(f"\n{'step, over all threads':24} {'calls':>7} {'wall s':>8} {'CPU s':>8}")
    for step in STEPS:
        calls, wall, cpu = clock.steps.get(step, (0, 0.0, 0.0))
        print(f"{step:24} {calls:7} {wall:8.3f} {cpu:8.3f}")
    shutil.rmtree(given.store)


if __name__ == "__main__":
    main()
