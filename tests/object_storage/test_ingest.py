"""Ingest by the workers of a cluster, on a real S3: the input and the graph store are in a bucket."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from distributed import LocalCluster
from stores import OWNER, STRANGER

from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.ingest.tasks import edge_reader, read_by_tasks
from sssp_pipeline.pipeline.ingest.tasks.task_notes import Notes
from sssp_pipeline.pipeline.solving.ingest_pool import ClusterForIngest
from sssp_pipeline.pipeline.solving.workers.source import OneCluster
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.graph import Graph

N_FILES, N = 5, 400
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    monkeypatch.setattr(edge_reader, "_LEAST_INPUT_BYTES", 0)
    monkeypatch.setattr(read_by_tasks, "_FEWEST_TASK_BYTES", 1)


@contextmanager
def two_workers():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as local,
        OneCluster(Cluster(kind="address", address=local.scheduler_address)) as cluster,
    ):
        yield cluster


def write(place: str, ids: str) -> None:
    rng = np.random.default_rng(1)
    for number in range(N_FILES):
        ends = (rng.random((N, 2)) ** 2 * 300).astype(int)
        rows = zip(ends.tolist(), rng.integers(0, 99, N).tolist(), strict=True)
        name = "stop-{}" if ids == "strings" else "{}"
        text = "".join(f"{name.format(u)} {name.format(v)} {w}\n" for (u, v), w in rows)
        files.write_atomic(f"{place}/edges-{number}.txt", text.encode())


def stored(place: str, workers: ClusterForIngest | None, heard: Progress) -> dict:
    """Ingest the files at `place`, and return the parts of the graph store without their names."""
    spec = Graph.model_validate({"input": f"{place}/edges-*.txt"})
    manifest, _ = ingest(spec, f"{place}/graph", heard, workers=workers)
    text = manifest.content
    return {
        folder: [{key: value for key, value in part.items() if key != "path"} for part in text[folder] or ()]
        for folder in ("row_offsets", "edges", "vertices")
    } | {"counts": text["counts"]}


@pytest.mark.parametrize("ids", ["numbers", "strings"])
def test_an_interrupted_ingest_on_workers_goes_on(bucket, tmp_path, monkeypatch, ids, listener):
    """Interrupted after some parts and again after some ranges: the store is that of one process on local files."""
    write(bucket, ids)
    write(str(tmp_path), ids)
    alone = stored(str(tmp_path), None, listener())
    note, n_left = Notes.write, 0

    def interrupted(self, *given):
        nonlocal n_left
        if n_left == 0:
            raise KeyboardInterrupt
        n_left -= 1
        note(self, *given)

    with two_workers() as cluster:
        for n_notes in (3, 5):
            n_left, heard = n_notes, listener()
            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                patched.setattr(Notes, "write", interrupted)
                stored(bucket, ClusterForIngest(cluster, 1, heard), heard)
            assert heard.lines[-1].startswith(
                f"what was done is kept in `{bucket}/graph/.sssp-partial-ingest-"
            )
        heard = listener()
        assert stored(bucket, ClusterForIngest(cluster, 1, heard), heard) == alone
    assert any(line.startswith("going on: ") for line in heard.lines)
    assert not [name for name in files.list_files(f"{bucket}/graph") if "ingest-" in name]


def test_workers_without_access_are_named(bucket, tmp_path, login, listener):
    """They have the credentials of another user: ingest runs in this process, and says why."""
    write(bucket, "numbers")
    write(str(tmp_path), "numbers")
    alone = stored(str(tmp_path), None, listener())
    login(*STRANGER)
    with two_workers() as cluster:
        login(*OWNER)
        heard = listener()
        assert stored(bucket, ClusterForIngest(cluster, 1, heard), heard) == alone
    assert heard.lines[0].startswith("ingest runs in this process: ")
