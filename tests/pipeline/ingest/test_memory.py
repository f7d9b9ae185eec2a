"""Ingest makes the same graph store with any memory."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pa_csv

from sssp_pipeline.base.errors import DiskFullError, InputError
from sssp_pipeline.pipeline.graph_store.loading import load_graph
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.ingest import memory, spill
from sssp_pipeline.pipeline.ingest.ids import id_runs
from sssp_pipeline.pipeline.ingest.memory import Memory
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import sources_of_edges
from sssp_pipeline.pipeline.ingest.tasks import edge_reader, read_by_tasks

N = 3000


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Let few edges fill a chunk, a range and a part."""
    monkeypatch.setattr(memory, "_FEWEST_BLOCK_BYTES", 2000)
    monkeypatch.setattr(memory, "_FEWEST_RANGE_EDGES", 100)
    monkeypatch.setattr(id_runs, "SAMPLED_OF", 4)
    monkeypatch.setattr(id_runs, "_MERGED_BYTES", 1)
    monkeypatch.setattr(read_by_tasks, "_FEWEST_TASK_BYTES", 10_000)
    monkeypatch.setattr(part_files, "PART_EDGES", 1000)
    monkeypatch.setattr(part_files, "PART_ROWS", 300)


def weights(kind: str, rng: np.random.Generator, n: int) -> list:
    kinds = {
        "none": [""] * n,
        "small": rng.integers(0, 9, n).tolist(),
        "uint32": rng.integers(0, 2**32 - 1, n).tolist(),
        "int32": rng.integers(-(2**31), 2**31 - 1, n).tolist(),
        "uint64": rng.integers(0, 2**63, n, np.uint64).tolist(),
        "int64": rng.integers(-(2**62), 2**62, n).tolist(),
        "float32": (rng.integers(-999, 999, n) / 4).tolist(),
        "float64": rng.random(n).tolist(),
        "zeros": rng.choice(["0.0", "-0.0", "0.5"], n).tolist(),
        # Only some chunks have decimals, and weights beyond int64.
        "late decimals": [*rng.integers(0, 9, n - 2).tolist(), 0.5, 2**53 - 1],
    }
    return kinds[kind]


@pytest.fixture
def write(tmp_path, ends):
    """Give a function that writes an edge list."""

    def edge_list(ids: str = "dense", weight: str = "small") -> None:
        rng = np.random.default_rng(1)
        rows = zip(ends(ids, rng, N), ends(ids, rng, N), weights(weight, rng, N), strict=True)
        (tmp_path / "edges.txt").write_text("".join(f"{u} {v} {w}\n" for u, v, w in rows))

    return edge_list


@pytest.fixture
def made(tmp_path, stored):
    """Give a function that ingests anew with some memory."""

    def make(memory_asked: str, **graph: object) -> dict:
        store = tmp_path / "store" / memory_asked
        shutil.rmtree(store, ignore_errors=True)
        return stored(store, {"input": str(tmp_path / "edges.txt"), "memory": memory_asked} | graph)

    return make


@pytest.fixture
def assert_same(made, monkeypatch):
    """Give a function that ingests with all memory, with some, and with next to none, and compares all bytes.

    With next to none, it ingests by tasks and as a whole.
    """

    def compare(**graph: object) -> dict:
        whole = made("4GiB", **graph)
        for small in ("100kB", "1B"):
            assert made(small, **graph) == whole
        with monkeypatch.context() as patched:
            patched.setattr(edge_reader, "_is_large", lambda *_: False)
            assert made("1B", **graph) == whole
        return whole

    return compare


OPTIONS = {
    "directed": {},
    "undirected": {"directed": False},
    "all kept": {"duplicates": "keep-all", "self_loops": "keep"},
    "undirected, all kept": {"directed": False, "duplicates": "keep-all", "self_loops": "keep"},
    "reversed": {"directed": "reversed"},
    "some vertices": {"vertices": "largest-component"},
}


@pytest.mark.medium
@pytest.mark.parametrize(
    ("ids", "options"),
    [
        pytest.param(ids, name, marks=() if is_usual else pytest.mark.slow)
        for i, ids in enumerate(("dense", "from 7", "with gaps", "sparse", "small and large", "strings"))
        for j, name in enumerate(OPTIONS)
        if (is_usual := name == "directed" or ids == "small and large") or (i + j) % 2  # half of the others
    ],
)
def test_any_ids(write, assert_same, ids, options):
    write(ids)
    folders = [name.partition("/")[0] for name in assert_same(**OPTIONS[options])["files"]]
    assert folders.count("edges") > 2
    assert folders.count("row_offsets") > 1


@pytest.mark.medium
@pytest.mark.parametrize(
    "kind", ["none", "uint32", "int32", "uint64", "int64", "float32", "float64", "zeros", "late decimals"]
)
def test_any_weights(write, assert_same, kind):
    write(weight=kind)
    assert_same(**OPTIONS["undirected, all kept"])


@pytest.mark.medium
def test_forced_types_and_scales(write, assert_same):
    write(weight="float32")
    for wanted in ({"dtype": "float64"}, {"scale": 100}):
        assert_same(weights=wanted)


def test_floats_of_two_bytes(tmp_path, assert_same):
    columns = {"source": [1, 2, 3], "target": [2, 3, 1], "weight": np.array([1, 2, 0.5], np.float16)}
    pq.write_table(pa.table(columns), tmp_path / "edges.txt")
    assert assert_same()["manifest"]["weights"]["mean"] == 3.5 / 3


@pytest.mark.medium
def test_several_weights(tmp_path, ends, assert_same):
    rng = np.random.default_rng(5)
    columns = {"from": ends("strings", rng, N), "to": ends("strings", rng, N)}
    columns |= {"am": weights("small", rng, N), "pm": weights("float64", rng, N)}
    pa_csv.write_csv(pa.table(columns), tmp_path / "edges.txt")
    assert_same(weights={"several": [{"name": "am"}, {"name": "pm"}]}, directed=False)


@pytest.mark.medium
@pytest.mark.parametrize("ids", ["dense", "strings"])
def test_the_rows_are_those_of_the_input(tmp_path, write, made, ids):
    write(ids)
    found = made("1B", duplicates="keep-all", self_loops="keep")["manifest"]
    store = str(tmp_path / "store" / "1B")
    graph = load_graph(store, read_manifest(store))
    rows = [line.split() for line in (tmp_path / "edges.txt").read_text().splitlines()]
    key = str if ids == "strings" else int
    names = sorted({key(end) for row in rows for end in row[:2]})
    number = {name: i for i, name in enumerate(names)}
    wanted = sorted((number[key(u)], number[key(v)], int(w)) for u, v, w in rows)
    columns = sources_of_edges(graph), graph.col_indices, graph.weights
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == wanted
    degrees = np.diff(graph.row_offsets)
    skew = (degrees**2).mean() / degrees.mean() ** 2
    assert found["degree_skew"] == graph.traits.degree_skew == skew
    assert found["weights"]["mean"] == graph.weights.mean(dtype=np.float64)


@pytest.mark.medium
@pytest.mark.parametrize("order", ["sorted", "a star", "reverses follow", "reverses at the end"])
def test_orders_that_a_sample_could_miss(tmp_path, assert_same, order):
    rng = random.Random(7)
    edges = [(rng.randrange(500), rng.randrange(500), rng.randrange(9)) for _ in range(N)]
    edges = {
        "sorted": sorted(edges),
        "a star": [(3, v, w) for _, v, w in edges],
        "reverses follow": [e for u, v, w in edges for e in ((u, v, w), (v, u, w))],
        "reverses at the end": [*edges, *((v, u, w) for u, v, w in edges)],
    }[order]
    (tmp_path / "edges.txt").write_text("".join(f"{u} {v} {w}\n" for u, v, w in edges))
    for duplicates in ("keep-min", "keep-all"):
        found = assert_same(duplicates=duplicates)
        assert found["manifest"]["symmetric"] == order.startswith("reverses")


@pytest.mark.parametrize("asked", ["4GiB", "1B"])
def test_refused_edges_leave_no_store(tmp_path, made, asked):
    (tmp_path / "edges.txt").write_text("".join(f"{i} {i + 1} 5\n" for i in range(N)) + "17 18 2\n17 18 3\n")
    with pytest.raises(InputError, match="the edge from `17` to `18` is listed twice"):
        made(asked, duplicates="error")
    metis = "".join(f"{i + 1}\n" for i in range(1, N)) + "1\n"
    (tmp_path / "edges.txt").write_text(f"{N} {N // 2}\n{metis}")
    with pytest.raises(InputError, match="lists the edge from `1` to `2`, but not from `2` to `1`"):
        made(asked, format="metis")
    assert not list(tmp_path.rglob("*.parquet"))


def test_a_full_temporary_folder_is_named(tmp_path, write, made, monkeypatch):
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    write()
    monkeypatch.setattr(edge_reader, "_is_large", lambda *_: False)
    monkeypatch.setattr(spill.os, "pwrite", full)
    with pytest.raises(DiskFullError, match=rf"`{tempfile.gettempdir()}`.*No space left on device"):
        made("1B")
    assert not list(tmp_path.rglob("*.parquet"))


def test_the_memory_is_divided():
    for threads in (1, 2, 16, 200):
        for asked in (0, 10**6, 256 << 20, 2 << 30, 10**12):
            given = Memory(asked, threads)
            in_flight = threads + 3
            used = given.spill_bytes + 5 * in_flight * given.block_bytes + 192 * given.parts_in_flight * 2**20
            assert used <= asked or given.block_bytes == memory._FEWEST_BLOCK_BYTES
            assert given.range_edges >= memory._FEWEST_RANGE_EDGES


#: Prints the bytes by which a second, larger ingest raises the peak of the process.
PEAK = """\
import resource, sys
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.workflow.graph import Graph
part_files.PART_EDGES = 1 << 20
peaks = []
for number, url in enumerate(sys.argv[2:]):
    ingest(Graph(input=url, memory="32MiB"), f"{sys.argv[1]}-{number}", Quiet())
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
print(peaks[1] - peaks[0])
"""


@pytest.mark.medium
def test_the_peak_does_not_grow_with_the_input(tmp_path):
    rng = np.random.default_rng(1)
    urls = []
    for n in (500_000, 5_000_000):
        ids = rng.integers(0, n // 10, (2, n), np.uint32)
        urls.append(str(tmp_path / f"{n}.txt"))
        table = pa.table({"source": ids[0], "target": ids[1], "weight": ids[0]})
        pa_csv.write_csv(table, urls[-1], pa_csv.WriteOptions(delimiter=" ", quoting_style="none"))
    command = [sys.executable, "-c", PEAK, str(tmp_path / "graph"), *urls]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    # In memory, the edges alone would take 60 MB.
    assert int(done.stdout) < 40 * 2**20
