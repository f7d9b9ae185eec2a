"""Ingest on the workers of a Dask cluster makes the same graph store as one process, and finds the same faults."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster
from pyarrow import csv as pa_csv

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress, Quiet
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.pipeline.formats.parsing import file_parts
from sssp_pipeline.pipeline.formats.parsing.line_blocks import LineFile
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.ingest.tasks import edge_reader, on_workers, read_by_tasks, stored_runs, tasks
from sssp_pipeline.pipeline.solving import ingest_pool
from sssp_pipeline.pipeline.solving.ingest_pool import ClusterForIngest
from sssp_pipeline.pipeline.solving.workers.source import OneCluster
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.graph import Graph

N_FILES, N = 5, 800
pytestmark = pytest.mark.medium


class Lines(Progress):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str, event: str = "note", **_: object) -> None:  # type: ignore[override]
        self.lines.append(line)


@contextmanager
def cluster_of(n_workers: int, **options):
    with ExitStack() as resources:
        local = resources.enter_context(
            LocalCluster(
                n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0", **options
            )
        )
        spec = Cluster(kind="address", address=local.scheduler_address)
        yield resources.enter_context(OneCluster(spec))


@pytest.fixture(scope="module")
def one_worker():
    with cluster_of(1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def four_workers():
    with cluster_of(4) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    """Let few edges fill a task, a range and a part."""
    monkeypatch.setattr(edge_reader, "_LEAST_INPUT_BYTES", 0)
    monkeypatch.setattr(read_by_tasks, "_FEWEST_TASK_BYTES", 1)
    monkeypatch.setattr(on_workers, "_FEWEST_ROW_EDGES", 100)
    monkeypatch.setattr(part_files, "PART_EDGES", 1000)
    monkeypatch.setattr(part_files, "PART_ROWS", 300)


def stored(store: Path, spec: dict, cluster: OneCluster | None = None, heard: Lines | None = None) -> dict:
    """Ingest, and return the files of the graph store, without the name of the ingest, and its manifest."""
    heard = heard or Lines()
    workers = None if cluster is None else ClusterForIngest(cluster, 1, heard)
    manifest, _ = ingest(Graph.model_validate(spec), str(store), heard, workers=workers)
    if cluster is not None:
        assert heard.lines[0].startswith("ingest on "), heard.lines
    files = {}
    for path in sorted(store.rglob("*")):
        if path.is_file() and path.parent != store:
            files[f"{path.parent.name}/{path.name[-13:]}"] = path.read_bytes()
    assert all(path.name[0] != "." for path in store.iterdir())
    text = manifest.content
    for graph in text.get("graphs", {"": text}).values():
        for folder in ("row_offsets", "edges", "vertices", "edge_weights"):
            for part in graph.get(folder) or ():
                part.pop("path")
    skipped = store / "skipped.txt"
    return {"files": files, "manifest": text, "skipped": skipped.exists() and skipped.read_text()}


def assert_same(tmp_path: Path, spec: dict, *clusters: OneCluster) -> dict:
    """Ingest in this process and on each cluster, and compare all bytes."""
    alone = stored(tmp_path / "alone", spec)
    for i, cluster in enumerate(clusters):
        found = stored(tmp_path / f"on-workers-{i}", spec, cluster)
        assert found["manifest"] == alone["manifest"]
        assert found["files"] == alone["files"]
        assert found["skipped"] == alone["skipped"]
    return alone


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("by_threads", [True, False])
def test_each_line_is_in_the_part_in_which_it_begins(tmp_path, monkeypatch, step, by_threads):
    """A plain local file is read by the threads that parse it, and other plain files as streams."""
    if not by_threads:
        monkeypatch.setattr(file_parts, "_plain_file", lambda _: None)
    for content in (b"head\n1 2\n\n33 4\n5 66\n", b"head\n1 2\n\n33 4\n5 66", b"head\n", b"head"):
        (tmp_path / "f").write_bytes(content)
        given = [
            LineFile(str(tmp_path / "f"), 5, 1, begin=begin, end=begin + step)
            for begin in range(0, len(content), step)
        ]
        for block_bytes in (2, 100):
            found = b""
            for part in file_parts.read_parts(given, block_bytes):
                block = part.read(Scratch())[0] if isinstance(part, file_parts.FilePart) else part
                found += block.data.tobytes()
            assert found.rstrip(b"\n") == content[5:].rstrip(b"\n")


def ends(kind: str, rng: np.random.Generator, number: int) -> list:
    numbers = (rng.random(N) ** 3 * 400).astype(int)
    sparse = (numbers.astype(np.uint64) * np.uint64(2654435761) ** 2 % np.uint64(2**62)).tolist()
    kinds = {
        "dense": numbers.tolist(),
        "from 7": (numbers + 7).tolist(),
        "with gaps": (numbers * 1000 + 13).tolist(),
        "sparse": sparse,
        # The ids of some tasks are their own codes, and those of others are not.
        "small and large": sparse if number == 2 else numbers.tolist(),
        "dense and beyond 2^31": (numbers + 2**31 - 100).tolist(),
        "strings": [f"stop-{'é' * (i % 3)}{i}" for i in numbers.tolist()],
    }
    return kinds[kind]


def write(folder: Path, ids: str = "dense", suffix: str = "txt") -> dict:
    """Write the files of an edge list, and return the section of the workflow that reads them."""
    rng = np.random.default_rng(3)
    for number in range(N_FILES):
        weights = rng.integers(0, 9, N).tolist() if number != 3 else (rng.integers(0, 99, N) / 4).tolist()
        columns = {"from": ends(ids, rng, number), "to": ends(ids, rng, number), "km": weights}
        path = folder / f"edges-{number}.{suffix}"
        table = pa.table(columns)
        if suffix == "parquet":
            pq.write_table(table, path, row_group_size=300)
        elif suffix == "csv":
            pa_csv.write_csv(table, path)
        else:
            text = "".join(f"{u} {v} {w}\n" for u, v, w in zip(*columns.values(), strict=True)).encode()
            path.write_bytes(gzip.compress(text) if suffix == "txt.gz" else text)
    return {"input": str(folder / f"edges-*.{suffix}")}


OPTIONS = {
    "directed": {},
    "undirected": {"directed": False},
    "all kept": {"duplicates": "keep-all", "self_loops": "keep"},
    "reversed": {"directed": "reversed"},
    "some vertices": {"vertices": "largest-component"},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize(
    "ids", ["dense", "from 7", "with gaps", "sparse", "small and large", "dense and beyond 2^31", "strings"]
)
def test_any_ids(tmp_path, four_workers, ids, options):
    found = assert_same(tmp_path, write(tmp_path, ids) | OPTIONS[options], four_workers)
    assert len([name for name in found["files"] if name.startswith("edges/")]) > 2
    assert len([name for name in found["files"] if name.startswith("row_offsets/")]) > 1


@pytest.mark.parametrize("ids", ["dense", "strings"])
@pytest.mark.parametrize("suffix", ["txt.gz", "csv", "parquet"])
def test_any_format_and_number_of_workers(tmp_path, one_worker, four_workers, suffix, ids):
    assert_same(tmp_path, write(tmp_path, ids, suffix), one_worker, four_workers)


@pytest.mark.parametrize("ids", ["with gaps", "strings"])
@pytest.mark.parametrize("begin", ["", "# some words\nfrom to km\n"])
def test_one_large_file_is_divided(tmp_path, four_workers, monkeypatch, ids, begin):
    write(tmp_path, ids)
    rows = "".join((tmp_path / f"edges-{number}.txt").read_text() for number in range(N_FILES))
    (tmp_path / "one.txt").write_text((begin + rows)[:-1])
    groups = []
    grouped = read_by_tasks._grouped
    monkeypatch.setattr(
        read_by_tasks, "_grouped", lambda *given: groups.append(grouped(*given)) or groups[-1]
    )
    assert_same(tmp_path, {"input": str(tmp_path / "one.txt")}, four_workers)
    assert len(groups[0]) > 10


@pytest.mark.parametrize("ids", ["with gaps", "sparse", "strings"])
def test_any_memory(tmp_path, four_workers, ids):
    spec = write(tmp_path, ids)
    whole = stored(tmp_path / "whole", spec)
    for memory in ("1B", "100kB"):
        found = stored(tmp_path / memory, spec | {"memory": memory}, four_workers)
        assert found["files"] == whole["files"]


def test_several_weights_positions_and_left_out_rows(tmp_path, four_workers):
    rng = np.random.default_rng(5)
    for number in range(N_FILES):
        rows = zip(ends("with gaps", rng, 0), ends("with gaps", rng, 0), *rng.random((2, N)), strict=True)
        text = "from,to,am,pm\n" + "".join(f"{u},{v},{a},{b}\n" for u, v, a, b in rows)
        (tmp_path / f"edges-{number}.csv").write_text(
            text + "1,2\nmiddle,of,the,table\n1,2,3,4,5\n13,13,1,1\n"
        )
    ids = [1000 * i + 13 for i in range(400)]
    positions = "id,lon,lat\n" + "".join(f"{i},{i / 1e5},{i / 2e5}\n" for i in ids)
    (tmp_path / "places.csv").write_text(positions)
    spec = {
        "input": str(tmp_path / "edges-*.csv"),
        "weights": {"several": [{"name": "am"}, {"name": "pm"}]},
        "coordinates": str(tmp_path / "places.csv"),
        "unreadable": "skip",
        "ids": "integer",
    }
    found = assert_same(tmp_path, spec, four_workers)
    assert found["skipped"].count("\n") == 3 * N_FILES
    assert {name.partition("/")[0] for name in found["files"]} == {
        "row_offsets",
        "edges",
        "edge_weights",
        "vertices",
    }


FAULTS = {
    "a word for a weight": ("17 18 x\n", {}),
    "a weight that does not fit": ("17 18 -3\n", {"weights": {"dtype": "uint32"}}),
    "a self-loop": ("17 17 3\n", {"self_loops": "error"}),
    "a duplicate": ("500 501 2\n500 501 3\n", {"duplicates": "error"}),
}


@pytest.mark.parametrize("files", ["several", "one"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_fault_is_that_of_one_process(tmp_path, four_workers, fault, files):
    text, options = FAULTS[fault]
    for number in range(N_FILES):
        path = [f"{1000 * number + i} {1000 * number + i + 1} 5\n" for i in range(N)]
        (tmp_path / f"edges-{number}.txt").write_text("".join(path) + text * (number in (2, 4)))
    if files == "one":
        (tmp_path / "one.txt").write_bytes(
            b"".join(path.read_bytes() for path in sorted(tmp_path.glob("edges-*.txt")))
        )
    name = "edges-*.txt" if files == "several" else "one.txt"
    spec = Graph.model_validate({"input": str(tmp_path / name), **options})
    with pytest.raises(InputError) as alone:
        ingest(spec, str(tmp_path / "alone"), Quiet())
    with pytest.raises(InputError) as caught:
        ingest(spec, str(tmp_path / "store"), Quiet(), workers=ClusterForIngest(four_workers, 1, Quiet()))
    assert caught.value.message == alone.value.message
    assert caught.value.hint == alone.value.hint
    assert not list(tmp_path.glob("store/**/*"))


def slow_tasks() -> None:
    """Let each task of this worker take longer. The workers that Dask starts anew are fast."""
    quick = tasks.store_arrays

    def store_arrays(*given, **options):
        time.sleep(0.3)
        return quick(*given, **options)

    tasks.store_arrays = stored_runs.store_arrays = store_arrays


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["edges", "vertices", "rows"])
def test_the_tasks_of_a_killed_worker_are_done_again(tmp_path, wait_until, stage):
    spec = write(tmp_path, "strings")
    alone = stored(tmp_path / "alone", spec)
    with cluster_of(2) as cluster, Client(cluster._spec.address, set_as_default=False) as client:
        pids = client.run(os.getpid)
        client.run(slow_tasks)
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(stored, tmp_path / "store", spec, cluster)
            wait_until(lambda: found.done() or list((tmp_path / "store").glob(f"*/{stage}-*")))
            victim = wait_until(lambda: next((w for w, tasks in client.processing().items() if tasks), None))
            os.kill(pids[victim], signal.SIGKILL)
            assert not found.done()
            assert found.result(120) == alone


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_ingest_goes_on(tmp_path, wait_until, number):
    spec = write(tmp_path, "with gaps")
    alone = stored(tmp_path / "alone", spec)
    store = tmp_path / "store"
    with cluster_of(2) as cluster, Client(cluster._spec.address, set_as_default=False) as client:
        client.run(slow_tasks)
        graph = {**spec, "store": str(store)}
        where = {"kind": "address", "address": cluster._spec.address}
        text = {"graph": graph, "cluster": where, "sources": {"all": True}, "output": {"path": "run"}}
        (tmp_path / "w.yaml").write_text(json.dumps(text))
        program = (
            "from sssp_pipeline.pipeline.ingest.tasks import edge_reader, read_by_tasks; "
            "edge_reader._LEAST_INPUT_BYTES = 0; read_by_tasks._FEWEST_TASK_BYTES = 1; "
            "from sssp_pipeline.cli import main; main()"
        )
        command = [sys.executable, "-c", program, "ingest", str(tmp_path / "w.yaml")]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        # The first note is that of the plan.
        wait_until(lambda: process.poll() is not None or len(list(store.glob("*/note-*"))) > 3)
        process.send_signal(number)
        said = process.communicate()[1]
        (folder,) = store.glob(".*")
        if number == signal.SIGKILL:
            assert process.returncode == -number
        else:
            assert process.returncode == 130
            assert f"what was done is kept in `{folder}`" in said
        wait_until(lambda: not any(client.processing().values()))
        heard = Lines()
        assert stored(store, spec, cluster, heard) == alone
        (line,) = (line for line in heard.lines if line.startswith("going on: "))
        found = re.fullmatch(r"going on: (\d+) of (\d+) parts were read before", line)
        assert found is not None
        assert 3 <= int(found[1]) <= int(found[2])


def test_what_is_ingested_in_this_process_is_said(tmp_path, one_worker, monkeypatch):
    spec = write(tmp_path)

    def reason(number: int, **options) -> list[str]:
        heard = Lines()
        graph = Graph.model_validate(spec | options)
        ingest(graph, str(tmp_path / f"s{number}"), heard, workers=ClusterForIngest(one_worker, 1, heard))
        assert (tmp_path / f"s{number}" / "manifest.json").exists()
        return [line for line in heard.lines if line.startswith("ingest")]

    (tmp_path / "one.txt.gz").write_bytes(gzip.compress((tmp_path / "edges-0.txt").read_bytes()))
    (line,) = reason(0, input=str(tmp_path / "one.txt.gz"))
    assert line == "ingest runs in this process: the input is one file, which cannot be divided"
    (tmp_path / "path.graph").write_text("3 2\n2\n1 3\n2\n")
    (line,) = reason(4, input=str(tmp_path / "path.graph"))
    assert line == "ingest runs in this process: a metis input is read as a whole"
    generated = "generated:grid?rows=3&cols=4&seed=1"
    assert reason(1, input=generated) == ["ingest runs in this process: it makes the graph itself"]
    fault = r"ingest runs in this process: tcp://.*: its memory limit is .* MB to ingest"
    with monkeypatch.context() as patched:
        patched.setattr(ingest_pool, "_LEAST_TASK_BYTES", 2**50)
        (line,) = reason(2)
    assert re.fullmatch(fault, line)
    monkeypatch.setattr(edge_reader, "_LEAST_INPUT_BYTES", 10**6)
    assert reason(3) == ["ingest runs in this process: the input has 0.0 MB"]
