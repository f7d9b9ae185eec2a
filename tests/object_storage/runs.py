"""One small run, wherever its files are, and a listener that disturbs it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Workflow

N_BATCHES = 12


def workflow_at(place: str, **sections) -> dict:
    """Return a workflow whose input, store and output are below the folder or bucket `place`."""
    data = {
        "graph": {"input": f"{place}/edges.txt", "store": f"{place}/graph"},
        "sources": {"random": {"count": 2 * N_BATCHES, "seed": 1}},
        "solve": {"batch": 2},
        "cluster": {},
        "output": {"path": f"{place}/run"},
    }
    return {key: {**value, **sections.get(key, {})} for key, value in data.items()} | {
        "verify": "certificate"
    }


def made(place: str, **sections) -> Workflow:
    return Workflow.model_validate(workflow_at(place, **sections))


def digests(run_url: str) -> dict[str, str]:
    """Return a digest of each batch of distances."""
    folder = files.join(run_url, "distances")
    return {
        name: hashlib.sha256(files.read_bytes(files.join(folder, name))).hexdigest()
        for name in files.list_files(folder)
    }


class AtBatch(Quiet):
    """A listener that calls `action` once, as soon as `number` batches are done."""

    def __init__(self, number: int, action: Callable[[], None]) -> None:
        self._number = number
        self._action: Callable[[], None] | None = action

    def advance(self, done: int, total: int | None, unit: str) -> None:
        if unit == "batches" and done >= self._number and self._action is not None:
            action, self._action = self._action, None
            action()


class Stop(Exception):
    """Ends a run from within."""

    def __init__(self) -> None:
        super().__init__("stopped")


def stop() -> None:
    raise Stop
