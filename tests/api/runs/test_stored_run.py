"""`run`, `ingest`, `open_store` and `open_run`: what a run stored is read back, and no more than a question needs."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.results.layouts import long

NUMBERS = "0 1 5\n1 2 6\n2 0 1\n2 7 1\n7 9 4\n"
NAMES = "a b 5\nb c 6\nc a 1\nc h 1\nh j 4\n"
#: The ids of `NAMES` for those of `NUMBERS`.
NAME_OF = {0: "a", 1: "b", 2: "c", 7: "h", 9: "j"}


@pytest.fixture
def workflow(tmp_path):
    """Give a function that returns a workflow on one of the two edge lists."""

    def make(edges: str = NUMBERS, batch: int = 2, predecessors: bool = False, **output) -> dict:
        path = tmp_path / "edges.txt"
        path.write_text(edges)
        return {
            "graph": {"input": str(path)},
            "sources": {"all": True},
            "solve": {"batch": batch, "predecessors": predecessors},
            "output": {"path": str(tmp_path / "run")} | output,
        }

    return make


COUNTS_THREADS = """
import os, sys
import numpy, pyarrow.compute, pyarrow.parquet
import sssp_pipeline as sp
from sssp_pipeline.pipeline.results.exports.matrices import matrix_export
from sssp_pipeline.pipeline.results.outputs import outputs

before = len(os.listdir("/proc/self/task"))
for url in sys.argv[1:]:
    run = sp.open_run(url)
    run.distances()
    run.export(url + ".parquet")
    run.export(url + ".npy", unreached=99)
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.medium
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_reading_a_run_starts_no_threads_of_arrow(workflow, tmp_path):
    # Such a thread drops its buffers after the result is there. If Python has ended by then, the process aborts.
    urls = [sp.run(workflow(layout=kind, path=str(tmp_path / kind))).url for kind in ("long", "wide")]
    command = [sys.executable, "-c", COUNTS_THREADS, *urls]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("0\n", "", 0)


def test_a_run_from_a_file_a_dictionary_and_again(workflow, tmp_path):
    file = tmp_path / "roads.yaml"
    file.write_text(
        f"graph: {{input: {tmp_path}/edges.txt}}\nsources: {{all: true}}\noutput: {{path: {tmp_path}/a}}\n"
    )
    stages = []
    progress = Progress()
    progress.stage = stages.append
    workflow()
    first = sp.run(file, progress=progress)
    assert "solve" in stages
    second = sp.run(workflow(), overwrite=True)
    assert first.distances().equals(second.distances())
    assert first.record["verify"]["mode"] == "sample"
    assert repr(sp.open_run(tmp_path / "a")) == f"<StoredRun: {tmp_path}/a, 5 sources>"


@pytest.mark.parametrize("edges", [NUMBERS, NAMES], ids=["numbers", "names"])
@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("batch", [2, 5])
def test_some_distances_are_those_of_the_whole(workflow, edges, layout, batch):
    run = sp.run(workflow(edges, batch, layout=layout))
    ids = list(NAME_OF if edges is NUMBERS else NAME_OF.values())
    rows = run.distances().to_pylist()
    found = {(row["source"], row["vertex"]): row["distance"] for row in rows}
    assert len(rows) == len(found) == 25
    true = sp.solve(run.record["workflow"]["graph"]["store"], ids).to_arrow().to_pylist()
    assert found == {(row["source"], row["vertex"]): row["distance"] for row in true}
    chosen = run.distances([ids[3], ids[0]], [ids[4], ids[0]]).to_pylist()
    assert {(row["source"], row["vertex"]): row["distance"] for row in chosen} == {
        (s, v): found[s, v] for s in (ids[0], ids[3]) for v in (ids[0], ids[4])
    }
    assert run.distances([ids[1], ids[1]]).num_rows == 5
    assert run.distances(vertices=np.array(ids[1:3])).num_rows == 10
    assert run.distances([]).num_rows == 0
    assert set(run.sources.to_pylist()) == set(ids)
    assert run.metrics["reached"].to_pylist() == [5, 5, 5, 2, 1]


@pytest.fixture
def groups_read(monkeypatch):
    """Give the list of the row groups that are read from now on, each with its columns."""
    read, original = [], pq.ParquetFile.read_row_group

    def read_row_group(file, group, columns=None, **options):
        read.append((group, columns))
        return original(file, group, columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", read_row_group)
    return read


@pytest.mark.parametrize("edges", [NUMBERS, NAMES], ids=["numbers", "names"])
def test_only_row_groups_that_may_hold_a_source_are_read(workflow, edges, monkeypatch, groups_read):
    monkeypatch.setattr(long, "GROUP_ROWS", 5)  # a row group for each source
    run = sp.run(workflow(edges, 5))
    groups_read.clear()
    assert run.distances(7 if edges is NUMBERS else "h").num_rows == 5
    assert [group for group, _ in groups_read] == [3]


def test_only_the_columns_of_the_sources_are_read(workflow, groups_read):
    run = sp.run(workflow(layout="wide"))
    groups_read.clear()
    run.distances([7, 0])
    assert groups_read == [(0, ["vertex", "0"]), (0, ["vertex", "7"])]  # of two files


@pytest.mark.parametrize("edges", [NUMBERS, NAMES], ids=["numbers", "names"])
def test_paths(workflow, edges):
    run = sp.run(workflow(edges, predecessors=True))
    path = [0, 1, 2, 7, 9]
    if edges is NAMES:
        path = [NAME_OF[vertex] for vertex in path]
    assert run.path(path[0], path[-1]) == path
    assert run.path(path[0], path[0]) == path[:1]
    assert run.path(path[-1], path[0]) == []
    assert run.distances(path[0])["predecessor"].to_pylist() == [None, path[0], path[1], path[2], path[3]]
    with pytest.raises(InputError, match=r"^vertex `\w+` is not in the run"):
        run.path(path[0], 8 if edges is NUMBERS else "z")


def test_targets_and_a_number_for_unreached(workflow):
    run = sp.run(workflow(targets={"ids": [9, 1]}, unreached=77))
    assert run.distances([7, 0]).to_pydict() == {
        "source": [0, 0, 7, 7],
        "vertex": [9, 1, 9, 1],
        "distance": [16, 5, 4, 77],
    }


def test_errors(workflow, tmp_path, error_of):
    run = sp.run(workflow(targets={"ids": [9, 1]}))
    absent, place = f"is not in the run `{run.url}`", f"`{tmp_path}`"
    for call, message in (
        (lambda: run.distances([3, 0]), f"source `3` {absent}"),
        (lambda: run.distances(0, [1, 7]), f"vertex `7` {absent}"),
        (
            lambda: run.distances("a"),
            f"the ids `a` are not those of the run `{run.url}`, whose ids are integers",
        ),
        (lambda: run.path(3, 9), f"source `3` {absent}"),
        (lambda: run.path(0, 3), "target `3` is not in the graph"),
        (lambda: sp.open_run(tmp_path), f"{place} is not a run"),
        (lambda: sp.open_store(tmp_path), f"{place} is not a graph store: it has no manifest.json"),
        (lambda: sp.run("nowhere.yaml"), "`nowhere.yaml` does not exist"),
        (lambda: sp.ingest("nowhere.txt", "s"), "`nowhere.txt` does not exist"),
        (lambda: sp.run(workflow(layot="wide")), "workflow: unknown key `layot` in `output`"),
        (lambda: sp.ingest(tmp_path / "edges.txt", "s", way=1), "workflow: unknown key `way` in `graph`"),
    ):
        assert error_of(call).message == message
    without = sp.run(workflow(distances="none", path=str(tmp_path / "without")))
    assert "holds metrics only, no distances" in error_of(without.distances).message
    assert without.metrics.num_rows == 5


def test_a_damaged_file_is_named(workflow, tmp_path):
    run = sp.run(workflow())
    file = tmp_path / "run" / "distances" / "batch-00001.parquet"
    file.write_bytes(file.read_bytes()[:-10])
    assert run.distances(0).num_rows == 5
    with pytest.raises(InputError, match=r"batch-00001.parquet` was altered"):
        run.distances(2)


REDUCED = {
    "distances": "reduced",
    "reduce": {"values": ["reached"], "per_vertex": {"values": ["reached_by"]}},
}


@pytest.mark.parametrize(
    ("name", "column", "read"),
    [
        ("metrics.parquet", "reached", lambda run: run.metrics),
        ("vertices.parquet", "reached_by", lambda run: run.per_vertex()),
        ("distances/batch-00001.parquet", "reached", lambda run: run.answers()),
    ],
)
def test_a_whole_file_with_other_numbers_is_an_error(workflow, tmp_path, name, column, read):
    run = sp.run(workflow(**REDUCED))
    file = tmp_path / "run" / name
    table = pq.read_table(file)
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, pa.array([9] * len(table), table[column].type)), file)
    with pytest.raises(InputError, match=r"\.parquet` was altered"):
        read(sp.open_run(run.url))


def test_a_store_is_made_once(workflow, tmp_path):
    workflow()
    made = [
        sp.ingest(f"{tmp_path}/edges.txt", f"{tmp_path}/store", directed=False, weights={"dtype": "float64"})
        for _ in range(2)
    ]
    assert made[0].manifest == made[1].manifest == sp.open_store(tmp_path / "store").manifest
    assert made[0].manifest.n_edges == 10
    assert made[0].ids.column() == pa.array([0, 1, 2, 7, 9])
    assert sp.solve(made[0], 9).numpy().tolist() == [[6, 11, 5, 4, 0]]


KINDS = {
    "long": ({}, lambda run: (run.distances(), run.distances(2, [7]))),
    "wide": ({"layout": "wide"}, lambda run: (run.distances(), run.distances(2, [7]))),
    "reached": ({"distances": "reached"}, lambda run: (run.distances(),)),
    "answers": (REDUCED, lambda run: (run.metrics, run.answers(), run.per_vertex())),
}


@pytest.mark.parametrize("n_bits", [25, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("output", "read"), KINDS.values(), ids=KINDS)
def test_a_flipped_bit_of_a_footer_is_an_error(workflow, tmp_path, output, read, n_bits):
    """Arrow gave other rows, other errors, or ended the process."""
    url = sp.run(workflow(**output)).url
    whole, rng = read(sp.open_run(url)), random.Random(1)
    for file in sorted((tmp_path / "run").rglob("*.parquet")):
        content = file.read_bytes()
        end = len(content)
        begin = end - 8 - int.from_bytes(content[-8:-4], "little")
        for bit in rng.sample(range(8 * begin, 8 * end), n_bits):
            altered = bytearray(content)
            altered[bit // 8] ^= 1 << bit % 8
            file.write_bytes(altered)
            with pytest.raises(InputError, match=rf"{file.name}` was altered: "):
                read(sp.open_run(url))
        file.write_bytes(content)
    assert read(sp.open_run(url)) == whole


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_a_file_of_another_run_of_equal_length_is_an_error(workflow, tmp_path, layout):
    """The least and the largest distance are equal, so nothing else in the footers differs."""
    folders: dict[int, str] = {}
    for middle in range(3, 9):
        (tmp_path / f"{middle}.txt").write_text(f"0 1 2\n0 2 {middle}\n0 3 9\n")
        graph = {"input": str(tmp_path / f"{middle}.txt"), "store": str(tmp_path / f"graph-{middle}")}
        output = {"path": str(tmp_path / str(middle)), "layout": layout, "compression": "none"}
        one = sp.run({"graph": graph, "sources": {"ids": [0]}, "output": output})
        (file,) = (tmp_path / str(middle) / "distances").iterdir()
        other = folders.setdefault(file.stat().st_size, one.url)
        if other != one.url:
            break
    assert one.distances() != sp.open_run(other).distances()
    next(Path(other, "distances").iterdir()).replace(file)
    with pytest.raises(InputError, match="was altered: the CRC-32 of its footer is"):
        sp.open_run(one.url).distances()
