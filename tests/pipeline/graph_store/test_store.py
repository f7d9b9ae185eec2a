import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.parquet.page_writer import PageWriter
from sssp_pipeline.pipeline.graph_store import loading
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids, n_readers
from sssp_pipeline.pipeline.graph_store.store import older_versions, read_manifest
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.graph_store.writing.cut import write_edges
from sssp_pipeline.pipeline.graph_store.writing.edges_files import WantedParts
from sssp_pipeline.pipeline.graph_store.writing.writer import StoreWriter
from sssp_pipeline.pipeline.ingest import searched_rows
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import sources_of_edges
from sssp_pipeline.storage import files
from sssp_pipeline.storage.lease import exclusive
from sssp_pipeline.workflow.graph import Graph

EDGES = "10 20 5\n20 40 7\n10 40 1\n"
WORKFLOW = "graph: {input: edges.txt, store: graph}\nsources: {all: true}\noutput: {path: run}\n"


@pytest.fixture
def store(tmp_path, ingested):
    ingested(EDGES)
    return str(tmp_path / "graph")


def contents(store: str) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in Path(store).rglob("*") if path.is_file()}


def parts(store: str) -> list[Path]:
    return sorted(Path(store).rglob("part-*.parquet"))


def test_a_stored_graph_is_read_back(store):
    manifest = read_manifest(store)
    graph = load_graph(store, manifest)
    assert graph.row_offsets.tolist() == [0, 2, 3, 3]
    assert graph.col_indices.tolist() == [1, 2, 2]
    assert graph.weights.tolist() == [5, 1, 7]
    assert load_ids(store, manifest).column().to_pylist() == [10, 20, 40]
    assert [p.parent.name for p in parts(store)] == ["edges", "row_offsets", "vertices"]


def test_the_manifest_has_the_levels_of_the_graph(tmp_path, reseal, monkeypatch):
    store = str(tmp_path / "graph")
    manifest = sp.ingest("generated:grid?rows=3&cols=2000", store).manifest
    assert manifest.traits.levels == manifest.levels == load_graph(store, manifest).levels > 1000
    content = json.loads(Path(store, "manifest.json").read_text())
    del content["levels"]  # as older releases wrote it
    reseal(Path(store, "manifest.json"), content)
    older = read_manifest(store)
    assert (older.traits.levels, older.content_id) == (None, manifest.content_id)
    monkeypatch.setattr(searched_rows, "MOST_BYTES", 50_000)
    large = sp.ingest("generated:grid?rows=3&cols=2000&seed=1", str(tmp_path / "large")).manifest
    assert large.levels is None
    assert "levels" not in json.loads((tmp_path / "large" / "manifest.json").read_text())


def test_other_tools_read_the_parts_as_promised(store):
    columns = {p.parent.name: pq.read_schema(p) for p in parts(store)}
    assert columns["row_offsets"].field("row_offset").type == pa.int64()
    assert columns["edges"].field("col_index").type == pa.uint32()
    assert columns["edges"].field("weight").type == pa.uint32()
    assert columns["vertices"].field("original_id").type == pa.int64()


def test_a_large_graph_is_cut_into_ranges_of_vertices(tmp_path, ingested, monkeypatch):
    monkeypatch.setattr(part_files, "PART_EDGES", 100)
    monkeypatch.setattr(part_files, "PART_ROWS", 64)
    rng = np.random.default_rng(0)
    # One vertex has more edges than a part holds.
    src = np.concatenate([rng.integers(0, 300, 900), np.full(150, 7)])
    rows = np.unique(np.column_stack([src, rng.integers(0, 300, 1050)]), axis=0)
    np.savetxt(tmp_path / "edges.txt", rows, "%d")
    url, manifest = str(tmp_path / "graph"), ingested(self_loops="keep")
    assert len(manifest.edges) > 8
    assert len(manifest.row_offsets) > 3
    assert [p.first for p in manifest.edges] == [0, *(p.last for p in manifest.edges[:-1])]
    graph, ids = load_graph(url, manifest), load_ids(url, manifest).column().to_numpy()
    np.testing.assert_array_equal(
        np.column_stack([ids[sources_of_edges(graph)], ids[graph.col_indices]]), rows
    )


def test_equal_graphs_have_equal_content_ids(store, ingested):
    first = read_manifest(store).content_id
    assert ingested("10 40 1\n10 20 5\n20 40 7\n", "other").content_id == first
    assert ingested(None, "typed", weights={"dtype": "int32"}).content_id != first
    assert ingested("10 40 2\n10 20 5\n20 40 7\n", "other").content_id != first


def test_no_store_is_said(tmp_path):
    with pytest.raises(InputError) as caught:
        read_manifest(str(tmp_path))
    assert caught.value.message == f"`{tmp_path}` is not a graph store: it has no manifest.json"
    assert caught.value.hint == "make one with `sssp-pipeline ingest`"


def test_a_store_without_a_checksum_is_of_another_release(store, ingested):
    file = Path(store, "manifest.json")
    content = json.loads(file.read_text())
    del content["checksum"]
    file.write_text(json.dumps(content))
    for use in (lambda: read_manifest(store), ingested):
        with pytest.raises(InputError) as caught:
            use()
        assert caught.value.message == (
            f"`{store}` is a graph store of another release: its manifest.json lacks `checksum`"
        )
        assert caught.value.hint == (
            "remove the folder of the graph store and make it again with `sssp-pipeline ingest` or `run`, "
            "or use the release that wrote it"
        )


@pytest.mark.parametrize("other", ["[]", '{"name": "a web app"}'])
def test_the_manifest_of_something_else_is_left_alone(store, ingested, other):
    file = Path(store, "manifest.json")
    file.write_text(other)
    for use in (lambda: read_manifest(store), ingested):
        with pytest.raises(InputError) as caught:
            use()
        assert caught.value.message == f"`{file}` is not the manifest of a graph store"
        assert caught.value.hint == "name another `graph.store`, or leave it out"
    assert file.read_text() == other


@pytest.mark.parametrize("folder", ["row_offsets", "edges", "vertices"])
def test_every_altered_byte_is_noticed(store, folder):
    (part,) = (p for p in parts(store) if p.parent.name == folder)
    good, manifest = part.read_bytes(), read_manifest(store)

    def assert_refused(message: str) -> None:
        with pytest.raises(InputError, match=re.escape(f"`{part}` {message}")):
            load_graph(store, manifest), load_ids(store, manifest)

    for at in (0, len(good) // 2, len(good) - 1):
        part.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        assert_refused("was altered: its CRC-32 is ")
    part.write_bytes(good[:-1])
    assert_refused(f"has {len(good) - 1} bytes, the manifest says {len(good)}")
    part.unlink()
    assert_refused("is gone")


def test_the_row_groups_of_few_parts_are_decoded_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(part_files, "ROW_GROUP_ROWS", 7)
    url = str(tmp_path / "graph")
    manifest = ingest(Graph(input="generated:grid?rows=4&cols=5&seed=1"), url, Quiet())[0].first
    monkeypatch.setattr(loading, "usable_cores", lambda: 1)
    one_by_one = load_graph(url, manifest)
    monkeypatch.setattr(loading, "usable_cores", lambda: 8)
    two_at_once = threading.Barrier(2, timeout=60)  # breaks if one group waits for the other
    n_read = itertools.count()
    read = pq.ParquetFile.read_row_group

    def waiting(file, group, columns, **options):
        if "weight" in columns and next(n_read) < 2:
            two_at_once.wait()
        return read(file, group, columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", waiting)
    graph = load_graph(url, manifest)
    assert next(n_read) == -(-graph.n_edges // 7)
    for name in ("row_offsets", "col_indices", "weights"):
        np.testing.assert_array_equal(getattr(graph, name), getattr(one_by_one, name))


@pytest.mark.parametrize(("gib", "expected"), [(0, 4), (5, 4), (10, 8), (100, 16)])
def test_readers_hold_an_eighth_of_the_graph_or_a_few_parts(gib, expected):
    assert n_readers(gib * 2**30) == expected


def test_a_failed_write_leaves_the_old_store(store):
    before = contents(store)
    graph = load_graph(store, read_manifest(store))
    with pytest.raises(RuntimeError), StoreWriter(store) as writer:
        rows = [(graph.row_offsets, graph.col_indices, graph.weights)]
        write_edges(writer, rows, WantedParts(), 2)
        raise RuntimeError("disk on fire")
    assert contents(store) == before


def written_files(store, graph, bounds, wanted, threads):
    """Write the rows of `graph`, which come in the ranges between `bounds`, and return the bytes of the files."""
    rows = (
        (graph.row_offsets[a : b + 1] - begin, graph.col_indices[begin:end], graph.weights[begin:end])
        for a, b in itertools.pairwise(bounds)
        for begin, end in [(graph.row_offsets[a], graph.row_offsets[b])]
    )
    with StoreWriter(str(store)) as writing:
        written = write_edges(writing, rows, wanted, threads)
        listed = [*written.row_offsets, *written.edges, *(written.edge_weights or ())]
    return [(Path(store, part.path).read_bytes(), part.content_sha256) for part in listed], written


@pytest.mark.parametrize("wanted", [WantedParts(), WantedParts(weights_apart=True), WantedParts(False, True)])
def test_a_part_has_the_same_bytes_in_any_number_of_steps(tmp_path, monkeypatch, wanted):
    monkeypatch.setattr(part_files, "PART_EDGES", 60)
    monkeypatch.setattr(part_files, "ROW_GROUP_ROWS", 16)
    rng = np.random.default_rng(3)
    # Parts that end with a row group, and within one; a row of more edges than a part; rows without edges.
    degrees = np.concatenate([np.full(6, 16), rng.integers(0, 9, 40), [100, 0, 0, 7, 64, 60]])
    row_offsets = np.concatenate([[0], np.cumsum(degrees)])
    n = int(row_offsets[-1])
    graph = CsrGraph(row_offsets, rng.integers(0, 52, n, dtype=np.uint32), rng.random(n).astype(np.float32))
    whole, first = written_files(tmp_path / "whole", graph, [0, len(degrees)], wanted, 0)
    assert len(first.edges or first.edge_weights) > 5
    for step, threads in [(1, 0), (1, 2), (3, 5), (50, 1)]:
        bounds = [*range(0, len(degrees), step), len(degrees)]
        steps, again = written_files(tmp_path / f"{step}-{threads}", graph, bounds, wanted, threads)
        assert steps == whole
        assert again.traits == first.traits


@pytest.mark.parametrize("fails", ["rows", "write"])
def test_a_part_that_is_written_in_part_leaves_nothing(tmp_path, monkeypatch, fails):
    monkeypatch.setattr(part_files, "PART_EDGES", 64)
    monkeypatch.setattr(part_files, "ROW_GROUP_ROWS", 16)
    n_added = itertools.count()
    write = PageWriter.write_group

    def full_disk(file, *given):
        write(file, *given)
        if fails == "write" and next(n_added) == 6:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(PageWriter, "write_group", full_disk)

    def coming():
        for _ in range(18):
            yield np.array([0, 10]), np.arange(10, dtype=np.uint32), np.ones(10, np.uint32)
        if fails == "rows":
            raise InputError("an edge is listed twice")

    with pytest.raises(SsspError) as caught, StoreWriter(str(tmp_path / "store")) as writing:
        write_edges(writing, coming(), WantedParts(), 2)
    assert {"rows": "listed twice", "write": "No space left"}[fails] in caught.value.message
    assert not [file for file in (tmp_path / "store").rglob("*") if file.is_file()]


def test_parts_of_a_killed_ingest_are_removed_by_the_next_and_nothing_else_is(store, ingested):
    leftover = Path(store, "edges", "part-00000000-00000.parquet")
    foreign = Path(store, "edges", "notes.txt")
    temporary = Path(store, "edges", files.TEMP_PREFIX + "0-part")
    for file in (leftover, foreign, temporary):
        file.touch()
    ingested(EDGES + "# the same graph\n")
    assert (leftover.exists(), temporary.exists(), foreign.exists()) == (False, False, True)
    assert len(parts(store)) == 3


@pytest.mark.parametrize(("name", "at"), [("edges", -1), ("edges", 0), ("edges", 1), ("row_offsets", 0)])
def test_a_manifest_that_lacks_a_part_is_refused(tmp_path, ingested, monkeypatch, reseal, name, at):
    monkeypatch.setattr(part_files, "PART_EDGES", 2)
    ingested("0 1\n1 2\n2 3\n3 4\n4 0\n")
    file = tmp_path / "graph" / "manifest.json"
    content = json.loads(file.read_text())
    del content[name][at]
    reseal(file, content)
    with pytest.raises(InputError, match=f"the parts of {name} do not cover the graph"):
        read_manifest(str(tmp_path / "graph"))


def test_a_store_with_a_part_gone_is_ingested_again(store, ingested):
    parts(store)[0].unlink()
    graph = load_graph(store, ingested())
    assert (graph.col_indices.tolist(), graph.weights.tolist()) == ([1, 2, 2], [5, 1, 7])


def named_parts(store: str) -> list[Path]:
    """Return the parts that the manifests of all versions name."""
    newest = read_manifest(store)
    versions = [newest, *older_versions(store, newest).values()]
    return sorted(Path(store, part.path) for version in versions for part in version.parts)


@pytest.mark.parametrize(
    ("options", "differs"),
    [
        ({"directed": False}, "`graph.directed` is `true` there and `false` here"),
        ({"weights": {"unit": "km"}}, "`graph.weights.unit` is `null` there and `km` here"),
        ({"weights": {"dtype": "float64"}}, "`graph.weights.dtype` is `auto` there and `float64` here"),
        ({"columns": {"source": "from"}}, "`graph.columns.source` is `auto` there and `from` here"),
        ({"coordinates": "{folder}/e.co"}, "`graph.coordinates` is `null` there and `{folder}/e.co` here"),
        (
            {"input": "generated:star?leaves=3"},
            "`graph.input` is `{folder}/edges.txt` there and `generated:star?leaves=3` here",
        ),
        (
            {"directed": False, "ids": "string"},
            "`graph.directed` is `true` there and `false` here; `graph.ids` is `auto` there and `string` here",
        ),
    ],
)
def test_a_store_holds_one_graph(store, tmp_path, ingested, options, differs):
    (tmp_path / "e.co").touch()
    before = contents(store)
    options = {k: v.format(folder=tmp_path) if isinstance(v, str) else v for k, v in options.items()}
    with pytest.raises(InputError) as caught:
        ingested(**options)
    assert caught.value.message == f"`{store}` holds another graph: {differs.format(folder=tmp_path)}"
    hint = "name another `graph.store`, or leave it out: the default differs with the options"
    assert caught.value.hint == hint
    assert contents(store) == before


def test_one_path_written_in_two_ways_is_one_input(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("edges.txt", "./edges.txt", "../" + tmp_path.name + "/edges.txt"):
        ingest(Graph(input=url), store, Quiet())
    assert older_versions(store, read_manifest(store)) == {}


def test_a_new_file_of_a_pattern_is_a_new_version(tmp_path):
    spec, store = Graph(input=str(tmp_path / "e-*.txt")), str(tmp_path / "graph")
    (tmp_path / "e-1.txt").write_text("1 2 3\n")
    first = ingest(spec, store, Quiet())[0].first
    (tmp_path / "e-2.txt").write_text("2 3 4\n")
    second = ingest(spec, store, Quiet())[0].first
    assert (first.n_edges, second.n_edges) == (1, 2)
    assert list(older_versions(store, second)) == [first.content_id]


@pytest.mark.parametrize("lines", [1, 20_000])
def test_other_content_with_the_same_size_and_time_is_noticed(tmp_path, lines):
    file, store = tmp_path / "e.txt", str(tmp_path / "graph")

    def is_ingested(text: str, time: int, changes: str) -> bool:
        file.write_text(text)
        os.utime(file, (time, time))
        return ingest(Graph(input=str(file), changes=changes), store, Quiet())[1]

    text = "1 2 3\n" * lines
    assert is_ingested(text, 1, "sampled")
    for changed in (f"7{text[1:]}", f"{text[:-2]}7\n"):
        assert is_ingested(changed, 1, "sampled")
    between = f"{text[:4100]}{text[4100:4200].replace('3', '7')}{text[4200:]}"
    if lines > 1:  # between the blocks that are read
        assert is_ingested(text, 1, "sampled")
        assert not is_ingested(between, 1, "sampled")
    # A store that does not know the whole file cannot tell; the next time it can.
    assert [is_ingested(between, time, "whole") for time in (1, 1, 2)] == [True, False, False]
    assert is_ingested(text, 2, "whole") == (lines > 1)


def test_a_changed_input_is_a_new_version_and_the_old_one_stays(store, tmp_path, listener):
    first, heard = read_manifest(store), listener()
    (tmp_path / "edges.txt").write_text("10 20 6\n20 40 7\n10 40 1\n")
    second, fresh = ingest(Graph(input=str(tmp_path / "edges.txt")), store, heard)
    assert fresh
    held = sum(part.bytes for part in first.parts) / 1e6
    assert heard.lines == [
        f"1 older version of the graph: {held:.1f} MB, kept for the runs that were solved on them; "
        "`sssp-pipeline ingest WORKFLOW --remove-old-versions` removes them"
    ]
    for manifest, weights in ((first, [5, 1, 7]), (second.first, [6, 1, 7])):
        found = read_manifest(store, manifest.content_id)
        assert found == manifest
        assert load_graph(store, found).weights.tolist() == weights
    with pytest.raises(InputError) as caught:
        read_manifest(store, "0123456789abcdef")
    assert caught.value.message == (
        f"`{store}` holds no version of the graph with content id `0123456789abcdef`"
    )


WHOLE = ["edges", "manifest.json", "row_offsets", "vertices"]


def test_the_same_graph_from_a_touched_file_is_no_new_version(store, ingested):
    written = parts(store)
    ingested("10 20 5\n20 40 7\n\n10 40 1\n")
    assert parts(store) == named_parts(store) != written
    assert older_versions(store, read_manifest(store)) == {}
    assert sorted(p.name for p in Path(store).iterdir()) == WHOLE


def test_a_version_that_comes_back_is_there_once(store, ingested):
    first = read_manifest(store)
    ingested("10 20 6\n")
    newest = ingested(EDGES)
    assert newest.content_id == first.content_id
    assert len(older_versions(store, newest)) == 1
    assert parts(store) == named_parts(store)


def test_older_versions_are_removed_when_it_is_asked_for(store, tmp_path, ingested):
    newest = ingested("10 20 6\n20 40 7\n10 40 1\n")
    spec = Graph(input=str(tmp_path / "edges.txt"))
    again, is_new = ingest(spec, store, Quiet(), remove_old_versions=True)
    assert (again.first, is_new) == (newest, False)
    assert sorted(p.name for p in Path(store).iterdir()) == WHOLE
    assert parts(store) == sorted(Path(store, part.path) for part in newest.parts)
    load_graph(store, newest)


def test_a_version_that_lacks_a_part_is_not_kept(store, ingested):
    parts(store)[0].unlink()
    assert older_versions(store, ingested("10 20 6\n")) == {}
    assert parts(store) == named_parts(store)


class Killed(BaseException):
    """Ends the process in the middle of a commit."""


@pytest.mark.medium
def test_killed_at_every_step_of_a_commit_no_version_is_lost(tmp_path, ingested, monkeypatch):
    texts = {name: f"10 20 {weight}\n20 40 7\n" for name, weight in zip("abc", (5, 6, 8), strict=True)}
    real = {name: getattr(files, name) for name in ("write_atomic", "remove", "remove_if_empty")}
    # A killed process removes nothing that it wrote.
    monkeypatch.setattr(StoreWriter, "__exit__", lambda *_: None)

    def dying(action, left):
        def step(url, *args, **how):
            if any(name in url for name in ("versions", "/part-", "manifest.json")) and next(left) == 0:
                raise Killed
            return action(url, *args, **how)

        return step

    for steps in itertools.count():
        name, store = f"graph-{steps}", str(tmp_path / f"graph-{steps}")
        ids = {key: ingested(texts[key], name).content_id for key in "ab"}
        left, was_killed = itertools.count(steps, -1), True
        with monkeypatch.context() as patched, contextlib.suppress(Killed):
            for action_name, action in real.items():
                patched.setattr(files, action_name, dying(action, left))
            ingested(texts["c"], name)
            was_killed = False
        assert read_manifest(store).weights.max in (7, 8)
        for key in "ab":
            version = read_manifest(store, ids[key])
            assert load_graph(store, version).weights[0] == int(texts[key].split()[2])
        ingested(texts["c"], name)
        assert set(older_versions(store, read_manifest(store))) == {ids["a"], ids["b"]}
        # What the kill left is gone with the next commit.
        ingested("10 20 9\n20 40 7\n", name)
        assert parts(store) == named_parts(store)
        if not was_killed:
            break
    assert steps >= 4


def test_a_folder_of_other_files_is_no_place_for_a_store(tmp_path, ingested):
    for name in ("photos", "edges"):
        (tmp_path / "taken" / name).mkdir(parents=True)
        (tmp_path / "taken" / name / "notes.txt").touch()
    before = contents(tmp_path / "taken")
    with pytest.raises(InputError) as caught:
        ingested(EDGES, "taken")
    assert caught.value.message == (
        f"`{tmp_path}/taken` is not empty and is not a graph store: it has edges, photos"
    )
    assert caught.value.hint == "name an empty or a new folder as `graph.store`"
    assert contents(tmp_path / "taken") == before


def test_leavings_of_a_killed_first_ingest_are_no_other_files(store, ingested):
    Path(store, "manifest.json").unlink()
    Path(store, files.TEMP_PREFIX + "0-manifest.json").touch()
    Path(store, "edges", files.TEMP_PREFIX + "0-part").touch()
    ingested()
    assert parts(store) == named_parts(store)


INGEST = """
import sys, time
from pathlib import Path
from sssp_pipeline.pipeline.ingest import new_graph as module
real = module.ingest_into
def waits(*args):
    while not Path("gate").exists():
        time.sleep(0.01)
    return real(*args)
module.ingest_into = waits
from sssp_pipeline.cli import main
sys.argv = ["sssp-pipeline", "ingest", sys.argv[1]]
main()
"""


@pytest.mark.medium
def test_of_two_processes_that_ingest_at_once_one_waits_and_uses_what_the_other_made(tmp_path, wait_until):
    (tmp_path / "edges.txt").write_text("0 1 5\n")
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    logs = [tmp_path / "one.log", tmp_path / "other.log"]
    both = []
    for log in logs:
        with log.open("w") as stream:
            command = [sys.executable, "-c", INGEST, "w.yaml"]
            both.append(subprocess.Popen(command, cwd=tmp_path, stderr=stream))
    waiting = "another process is writing to the graph store `graph`: waiting until it ends"
    wait_until(lambda: any(waiting in log.read_text() for log in logs))
    (tmp_path / "gate").touch()
    assert [process.wait(60) for process in both] == [0, 0]
    outputs = sorted((log.read_text() for log in logs), key=lambda text: text.count(waiting))
    assert "unchanged, not ingested again" not in outputs[0]
    assert [text.count(waiting) for text in outputs] == [0, 1]
    assert "in graph (unchanged, not ingested again)" in outputs[1]
    assert parts(str(tmp_path / "graph")) == named_parts(str(tmp_path / "graph"))


@pytest.mark.medium
def test_ctrl_c_ends_the_wait_for_another_ingest(tmp_path):
    (tmp_path / "edges.txt").write_text("0 1 5\n")
    (tmp_path / "w.yaml").write_text(WORKFLOW)
    with exclusive(str(tmp_path / "graph")):
        command = [sys.executable, "-m", "sssp_pipeline.cli", "ingest", "w.yaml"]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        assert any("waiting until it ends" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert list((tmp_path / "graph").iterdir()) == []


def test_identities_have_all_digits_of_their_sha256(tmp_path, monkeypatch):
    """Two graphs with 16 equal digits can be made with about 2^32 hashes."""
    monkeypatch.chdir(tmp_path)
    Path("e.txt").write_text("0 1 5\n1 2 6\n")
    asked = {"graph": {"input": "e.txt", "store": "g"}, "sources": {"all": True}}
    record = sp.run(asked | {"output": {"path": "r", "targets": {"ids": [1]}}}).record
    before = read_manifest("g")
    named = {key: record["identity"][key] for key in ("graph", "sources", "targets")}
    assert named["graph"] == before.content_id
    assert {len(digest) for digest in named.values()} == {64}
    Path("e.txt").write_text("0 1 5\n1 2 7\n")
    sp.ingest("e.txt", "g")
    assert [path.stem for path in Path("g", "versions").iterdir()] == [before.content_id]
    assert read_manifest("g", before.content_id) == before


def test_a_store_and_a_run_of_another_release(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("e.txt").write_text("0 1 5\n1 2 6\n")
    asked = {"graph": {"input": "e.txt", "store": "g"}, "sources": {"all": True}, "output": {"path": "r"}}
    with monkeypatch.context() as patched:
        patched.setattr("sssp_pipeline.pipeline.ingest.graph_identity.READER", 3)
        patched.setattr("sssp_pipeline.pipeline.results.folder.run_folder.RUN_VERSION", 2)
        patched.setattr("sssp_pipeline.pipeline.run.one_run.RUN_VERSION", 2)
        sp.run(asked)
    with pytest.raises(InputError, match="is of format 'sssp-pipeline run' 2, this release reads") as caught:
        sp.run(asked)
    assert read_manifest("g").options["reader"] == 4  # made again
    assert caught.value.hint.startswith("use the release that wrote it")
