import itertools
import json
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline import workflow
from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import graph_loading, graph_store, storage
from sssp_pipeline.pipeline.graph_loading import load_graph, load_ids, n_readers
from sssp_pipeline.pipeline.graph_store import StoreWriter, read_manifest
from sssp_pipeline.pipeline.ingest import ingest
from sssp_pipeline.pipeline.progress import Quiet


@pytest.fixture
def store(tmp_path):
    (tmp_path / "edges.txt").write_text("10 20 5\n20 40 7\n10 40 1\n")
    url = str(tmp_path / "graph")
    ingest(workflow.Graph(input=str(tmp_path / "edges.txt")), url, Quiet())
    return url


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


def test_other_tools_read_the_parts_as_promised(store):
    columns = {p.parent.name: pq.read_schema(p) for p in parts(store)}
    assert columns["row_offsets"].field("row_offset").type == pa.int64()
    assert columns["edges"].field("col_index").type == pa.uint32()
    assert columns["edges"].field("weight").type == pa.uint32()
    assert columns["vertices"].field("original_id").type == pa.int64()


def test_a_large_graph_is_cut_into_ranges_of_vertices(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_store, "PART_EDGES", 100)
    monkeypatch.setattr(graph_store, "PART_ROWS", 64)
    rng = np.random.default_rng(0)
    # One vertex has more edges than a part holds.
    src = np.concatenate([rng.integers(0, 300, 900), np.full(150, 7)])
    rows = np.unique(np.column_stack([src, rng.integers(0, 300, 1050)]), axis=0)
    np.savetxt(tmp_path / "edges.txt", rows, "%d")
    url = str(tmp_path / "graph")
    manifest, _ = ingest(workflow.Graph(input=str(tmp_path / "edges.txt"), self_loops="keep"), url, Quiet())
    assert len(manifest.edges) > 8
    assert len(manifest.row_offsets) > 3
    assert [p.first for p in manifest.edges] == [0, *(p.last for p in manifest.edges[:-1])]
    graph, ids = load_graph(url, manifest), load_ids(url, manifest).column().to_numpy()
    src = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
    np.testing.assert_array_equal(np.column_stack([ids[src], ids[graph.col_indices]]), rows)


def test_equal_graphs_have_equal_content_ids(store, tmp_path):
    other = str(tmp_path / "other")
    (tmp_path / "reordered.txt").write_text("10 40 1\n10 20 5\n20 40 7\n")
    ingest(workflow.Graph(input=str(tmp_path / "reordered.txt")), other, Quiet())
    assert read_manifest(other).content_id == read_manifest(store).content_id
    ingest(workflow.Graph(input=str(tmp_path / "reordered.txt"), weights={"dtype": "int32"}), other, Quiet())
    assert read_manifest(other).content_id != read_manifest(store).content_id
    (tmp_path / "reordered.txt").write_text("10 40 2\n10 20 5\n20 40 7\n")
    ingest(workflow.Graph(input=str(tmp_path / "reordered.txt")), other, Quiet())
    assert read_manifest(other).content_id != read_manifest(store).content_id


def test_no_store_is_said(tmp_path):
    with pytest.raises(InputError) as caught:
        read_manifest(str(tmp_path))
    assert caught.value.message == f"`{tmp_path}` is not a graph store: it has no manifest.json"
    assert caught.value.hint == "make one with `sssp-pipeline ingest`"


def test_a_store_of_another_format_version_is_refused(store):
    file = Path(store, "manifest.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 2}))
    with pytest.raises(InputError) as caught:
        read_manifest(store)
    assert caught.value.message == f"`{store}` is a graph store of format 2, this release reads format 1"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"format": "something else"}'])
def test_a_damaged_manifest_is_refused(store, damage):
    Path(store, "manifest.json").write_text(damage)
    with pytest.raises(InputError, match=r"manifest\.json` is damaged"):
        read_manifest(store)


@pytest.mark.parametrize("folder", ["row_offsets", "edges", "vertices"])
def test_every_altered_byte_is_noticed(store, folder):
    (part,) = (p for p in parts(store) if p.parent.name == folder)
    good = part.read_bytes()
    manifest = read_manifest(store)
    for at in (0, len(good) // 2, len(good) - 1):
        part.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(InputError) as caught:
            load_graph(store, manifest), load_ids(store, manifest)
        assert caught.value.message.startswith(f"`{part}` was altered: its CRC-32 is ")
    part.write_bytes(good[:-1])
    with pytest.raises(InputError) as caught:
        load_graph(store, manifest), load_ids(store, manifest)
    assert caught.value.message == f"`{part}` has {len(good) - 1} bytes, the manifest says {len(good)}"
    part.unlink()
    with pytest.raises(InputError, match="is gone"):
        load_graph(store, manifest), load_ids(store, manifest)


def test_the_row_groups_of_few_parts_are_decoded_side_by_side(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_store, "ROW_GROUP_ROWS", 7)
    url = str(tmp_path / "graph")
    manifest, _ = ingest(workflow.Graph(input="generated:grid?rows=4&cols=5&seed=1"), url, Quiet())
    monkeypatch.setattr(graph_loading, "usable_cores", lambda: 1)
    one_by_one = load_graph(url, manifest)
    monkeypatch.setattr(graph_loading, "usable_cores", lambda: 8)
    two_at_once = threading.Barrier(2, timeout=20)  # breaks if one group waits for the other
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
    before = {p: p.read_bytes() for p in Path(store).rglob("*") if p.is_file()}
    graph = load_graph(store, read_manifest(store))
    with pytest.raises(RuntimeError), StoreWriter(store) as writer:
        writer.write_graph(graph, 2)
        raise RuntimeError("disk on fire")
    assert {p: p.read_bytes() for p in Path(store).rglob("*") if p.is_file()} == before


def test_parts_of_a_killed_ingest_are_removed_by_the_next_and_nothing_else_is(store, tmp_path):
    leftover = Path(store, "edges", "part-00000000-00000.parquet")
    foreign = Path(store, "edges", "notes.txt")
    temporary = Path(store, "edges", storage.TEMP_PREFIX + "0-part")
    for file in (leftover, foreign, temporary):
        file.touch()
    (tmp_path / "edges.txt").write_text("1 2 3\n")
    ingest(workflow.Graph(input=str(tmp_path / "edges.txt")), store, Quiet())
    assert (leftover.exists(), temporary.exists(), foreign.exists()) == (False, False, True)
    assert len(parts(store)) == 2


def test_a_manifest_that_lacks_a_part_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_store, "PART_EDGES", 2)
    (tmp_path / "edges.txt").write_text("0 1\n1 2\n2 3\n3 4\n4 0\n")
    url = str(tmp_path / "graph")
    ingest(workflow.Graph(input=str(tmp_path / "edges.txt")), url, Quiet())
    file = Path(url, "manifest.json")
    content = json.loads(file.read_text())
    for name, at in (("edges", -1), ("edges", 0), ("edges", 1), ("row_offsets", 0)):
        less = json.loads(file.read_text())
        del less[name][at]
        file.write_text(json.dumps(less))
        with pytest.raises(InputError, match=f"the parts of {name} do not cover the graph"):
            read_manifest(url)
        file.write_text(json.dumps(content))


def test_a_store_with_a_part_gone_is_ingested_again(store, tmp_path):
    Path(parts(store)[0]).unlink()
    assert ingest(workflow.Graph(input=str(tmp_path / "edges.txt")), store, Quiet())[1]
    load_graph(store, read_manifest(store))
