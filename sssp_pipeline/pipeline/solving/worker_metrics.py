"""What a worker process has done since it began, as Prometheus counters.

A Dask worker serves every counter of its process at `/metrics`, these too. Without `prometheus_client` nothing is
counted. `docs/guides/operations.md` says what each counter means and how to scrape them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from sssp_pipeline.pipeline.solving.task import TaskDone

if TYPE_CHECKING:
    from prometheus_client import Counter

#: A counter can be registered only once, and the threads of a worker begin at the same time.
_registering = Lock()


@cache
def _counters() -> dict[str, Counter]:
    try:
        from prometheus_client import Counter
    except ImportError:
        return {}
    return {
        name: Counter(f"sssp_{name}", meaning, labels)
        for name, meaning, labels in (
            ("task_attempts", "Tasks begun, each of one batch or several.", ()),
            ("task_retries", "Tasks begun that had failed before, here or elsewhere.", ()),
            ("tasks_failed", "Tasks that ended with an error; not those whose worker died.", ()),
            ("sources_solved", "Sources whose distances are committed.", ("solver",)),
            ("solve_seconds", "Seconds that these sources took, of a thread or of the GPU.", ("solver",)),
            ("batches_committed", "Batches committed.", ()),
            ("written_bytes", "Bytes of distances and metrics committed.", ()),
            ("load_seconds", "Seconds that threads waited for the graph.", ()),
            ("write_seconds", "Seconds that threads took to encode and write.", ()),
        )
    }


@contextmanager
def counted(attempt: int) -> Iterator[None]:
    """Count the block as an attempt at a task, and as a failure if it ends with an error."""
    _add("task_attempts", 1)
    _add("task_retries", attempt > 1)
    try:
        yield
    except BaseException:
        _add("tasks_failed", 1)
        raise


def add(done: TaskDone) -> None:
    """Count what a task has done."""
    _add("sources_solved", done.n_sources, done.solver)
    _add("solve_seconds", done.source_s * done.n_sources, done.solver)
    _add("batches_committed", 0 if done.is_ended else len(done.batches))
    _add("written_bytes", done.n_bytes)
    _add("load_seconds", done.load_s)
    _add("write_seconds", done.write_s)


def _add(name: str, amount: float, *labels: str) -> None:
    if "distributed" not in sys.modules:
        return  # only Dask workers serve their counters
    with _registering:
        counter = _counters().get(name)
    if counter is not None:
        (counter.labels(*labels) if labels else counter).inc(amount)
