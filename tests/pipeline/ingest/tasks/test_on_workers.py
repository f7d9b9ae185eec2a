"""Ingest on the workers of a Dask cluster makes the same graph store as one process, and finds the same faults."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from distributed import Client, LocalCluster

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.pipeline.formats.parsing import file_parts
from sssp_pipeline.pipeline.formats.parsing.line_blocks import LineFile
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.ingest.tasks import edge_reader, read_by_tasks, stored_runs, tasks
from sssp_pipeline.pipeline.solving import ingest_pool
from sssp_pipeline.pipeline.solving.ingest_pool import ClusterForIngest
from sssp_pipeline.pipeline.solving.workers.source import OneCluster
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.graph import Graph

pytestmark = pytest.mark.medium


@contextmanager
def cluster_of(n_workers: int):
    with LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as local:
        with OneCluster(Cluster(kind="address", address=local.scheduler_address)) as cluster:
            yield cluster
        local.close(timeout=120)  # Dask waits a few seconds, too short on a busy machine


@pytest.fixture(scope="module")
def one_worker():
    with cluster_of(1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three_workers():
    with cluster_of(3) as cluster:
        yield cluster


@pytest.fixture
def on_workers(stored, listener):
    """Give a function that ingests on a cluster as `stored` does."""

    def ingested(store: Path, spec: dict, cluster: OneCluster, heard=None) -> dict:
        heard = heard or listener()
        found = stored(store, spec, heard, ClusterForIngest(cluster, 1, heard))
        assert heard.lines[0].startswith("ingest on "), heard.lines
        return found

    return ingested


@pytest.fixture
def assert_same(tmp_path, stored, on_workers):
    """Give a function that ingests in this process and on each cluster, and compares all bytes."""

    def compare(spec: dict, *clusters: OneCluster) -> dict:
        alone = stored(tmp_path / "alone", spec)
        for i, cluster in enumerate(clusters):
            assert on_workers(tmp_path / f"on-workers-{i}", spec, cluster) == alone
        return alone

    return compare


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


OPTIONS = {
    "directed": {},
    "undirected": {"directed": False},
    "all kept": {"duplicates": "keep-all", "self_loops": "keep"},
    "reversed": {"directed": "reversed"},
    "some vertices": {"vertices": "largest-component"},
}


IDS = ["dense", "from 7", "with gaps", "sparse", "small and large", "dense and beyond 2^31", "strings"]


@pytest.mark.parametrize(
    ("ids", "options"),
    [
        pytest.param(ids, name, marks=() if is_usual else pytest.mark.slow)
        for i, ids in enumerate(IDS)
        for j, name in enumerate(OPTIONS)
        if (is_usual := name == "directed" or ids == "small and large") or (i + j) % 2  # half of the others
    ],
)
def test_any_ids(tmp_path, three_workers, edge_files, assert_same, ids, options):
    found = assert_same(edge_files(tmp_path, ids) | OPTIONS[options], three_workers)
    folders = [name.partition("/")[0] for name in found["files"]]
    assert folders.count("edges") > 2
    assert folders.count("row_offsets") > 1


@pytest.mark.parametrize("ids", ["dense", "strings"])
@pytest.mark.parametrize("suffix", ["txt.gz", "csv", "parquet"])
def test_any_format_and_number_of_workers(
    tmp_path, one_worker, three_workers, edge_files, assert_same, suffix, ids
):
    assert_same(edge_files(tmp_path, ids, suffix), one_worker, three_workers)


@pytest.mark.parametrize("ids", ["with gaps", "strings"])
@pytest.mark.parametrize("begin", ["", "# some words\nfrom to km\n"])
def test_one_large_file_is_divided(tmp_path, three_workers, edge_files, assert_same, monkeypatch, ids, begin):
    edge_files(tmp_path, ids)
    rows = "".join(path.read_text() for path in sorted(tmp_path.glob("edges-*.txt")))
    (tmp_path / "one.txt").write_text((begin + rows)[:-1])
    groups = []
    grouped = read_by_tasks._grouped
    monkeypatch.setattr(
        read_by_tasks, "_grouped", lambda *given: groups.append(grouped(*given)) or groups[-1]
    )
    assert_same({"input": str(tmp_path / "one.txt")}, three_workers)
    assert len(groups[0]) > 10


@pytest.mark.parametrize("ids", ["with gaps", "sparse", "strings"])
def test_any_memory(tmp_path, three_workers, edge_files, stored, on_workers, ids):
    spec = edge_files(tmp_path, ids)
    whole = stored(tmp_path / "whole", spec)
    for memory in ("1B", "100kB"):
        found = on_workers(tmp_path / memory, spec | {"memory": memory}, three_workers)
        assert found["files"] == whole["files"]


def test_several_weights_positions_and_left_out_rows(tmp_path, three_workers, edge_files, assert_same):
    spec = edge_files(tmp_path, "with gaps", "csv", ("am", "pm"))
    for path in tmp_path.glob("edges-*"):
        with path.open("a") as text:
            text.write("1,2\nmiddle,of,the,table\n1,2,3,4,5\n13,13,1,1\n")
    ids = [1000 * i + 13 for i in range(400)]
    positions = "id,lon,lat\n" + "".join(f"{i},{i / 1e5},{i / 2e5}\n" for i in ids)
    (tmp_path / "places.csv").write_text(positions)
    spec |= {
        "weights": {"several": [{"name": "am"}, {"name": "pm"}]},
        "coordinates": str(tmp_path / "places.csv"),
        "unreadable": "skip",
        "ids": "integer",
    }
    found = assert_same(spec, three_workers)
    assert found["skipped"].count("\n") == 3 * 5
    folders = {name.partition("/")[0] for name in found["files"]}
    assert folders == {"row_offsets", "edges", "edge_weights", "vertices"}


FAULTS = {
    "a word for a weight": ("17 18 x\n", {}),
    "a weight that does not fit": ("17 18 -3\n", {"weights": {"dtype": "uint32"}}),
    "a self-loop": ("17 17 3\n", {"self_loops": "error"}),
    "a duplicate": ("500 501 2\n500 501 3\n", {"duplicates": "error"}),
}


@pytest.mark.parametrize("files", ["several", "one"])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_first_fault_is_that_of_one_process(tmp_path, three_workers, stored, on_workers, fault, files):
    text, options = FAULTS[fault]
    texts = []
    for begin in range(0, 5000, 1000):
        path = [f"{i} {i + 1} 5\n" for i in range(begin, begin + 800)]
        texts.append("".join(path) + text * (begin in (2000, 4000)))
    for number, content in enumerate(texts if files == "several" else ["".join(texts)]):
        (tmp_path / f"edges-{number}.txt").write_text(content)
    spec = {"input": str(tmp_path / "edges-*.txt"), **options}
    with pytest.raises(InputError) as alone:
        stored(tmp_path / "alone", spec)
    with pytest.raises(InputError) as caught:
        on_workers(tmp_path / "store", spec, three_workers)
    assert str(caught.value) == str(alone.value)
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
def test_the_tasks_of_a_killed_worker_are_done_again(
    tmp_path, edge_files, stored, on_workers, wait_until, stage
):
    spec = edge_files(tmp_path, "strings")
    alone = stored(tmp_path / "alone", spec)
    with cluster_of(2) as cluster, Client(cluster._spec.address, set_as_default=False) as client:
        pids = client.run(os.getpid)
        client.run(slow_tasks)
        with ThreadPoolExecutor(1) as thread:
            found = thread.submit(on_workers, tmp_path / "store", spec, cluster)
            wait_until(lambda: found.done() or list((tmp_path / "store").glob(f"*/{stage}-*")))
            victim = wait_until(lambda: next((w for w, tasks in client.processing().items() if tasks), None))
            os.kill(pids[victim], signal.SIGKILL)
            assert not found.done()
            assert found.result(120) == alone


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_ingest_goes_on(tmp_path, edge_files, stored, on_workers, listener, wait_until, number):
    spec = edge_files(tmp_path, "with gaps")
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
        heard = listener()
        assert on_workers(store, spec, cluster, heard) == alone
        (line,) = (line for line in heard.lines if line.startswith("going on: "))
        found = re.fullmatch(r"going on: (\d+) of (\d+) parts were read before", line)
        assert found is not None
        assert 3 <= int(found[1]) <= int(found[2])


def test_what_is_ingested_in_this_process_is_said(tmp_path, one_worker, edge_files, listener, monkeypatch):
    spec = edge_files(tmp_path)

    def reason(**options) -> str:
        heard = listener()
        with tempfile.TemporaryDirectory() as store:
            graph = Graph.model_validate(spec | options)
            ingest(graph, store, heard, workers=ClusterForIngest(one_worker, 1, heard))
        (line,) = (line for line in heard.lines if line.startswith("ingest"))
        return line.removeprefix("ingest runs in this process: ")

    (tmp_path / "one.txt.gz").write_bytes(gzip.compress((tmp_path / "edges-0.txt").read_bytes()))
    assert reason(input=str(tmp_path / "one.txt.gz")) == "the input is one file, which cannot be divided"
    (tmp_path / "path.graph").write_text("3 2\n2\n1 3\n2\n")
    assert reason(input=str(tmp_path / "path.graph")) == "a metis input is read as a whole"
    assert reason(input="generated:grid?rows=3&cols=4&seed=1") == "it makes the graph itself"
    with monkeypatch.context() as patched:
        patched.setattr(ingest_pool, "_LEAST_TASK_BYTES", 2**50)
        assert re.fullmatch(r"tcp://.*: its memory limit is .* MB to ingest", reason())
    monkeypatch.setattr(edge_reader, "_LEAST_INPUT_BYTES", 10**6)
    assert reason() == "the input has 0.0 MB"
