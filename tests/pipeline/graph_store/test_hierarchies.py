"""Hierarchies in a graph store: written whole or not at all, checked when read, shared on a machine, and forgotten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base import interrupts
from sssp_pipeline.base.csr import HierarchyTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping
from sssp_pipeline.kernels.cpu.phast import Phast
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import completion_of
from sssp_pipeline.kernels.hierarchy.completion.arcs import Arcs
from sssp_pipeline.kernels.hierarchy.completion.customization import customize
from sssp_pipeline.pipeline.graph_store import hierarchies, hierarchy_record, machine_cache
from sssp_pipeline.pipeline.graph_store.hierarchies import load_completion, load_hierarchy
from sssp_pipeline.pipeline.graph_store.hierarchy_record import read_record
from sssp_pipeline.pipeline.graph_store.store import read_manifest, read_newest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph, resident_graph
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.run.hierarchy_stage import known_traits, make_for_all, make_hierarchy
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import Graph, NamedWeight, Weights


def written(path: Path, factor: int = 1, directed: bool = False) -> Path:
    """Write the edges of a grid of 30 x 20 vertices; the weights are multiples of `factor`."""
    edges = [(i, i + 1) for i in range(600) if i % 20 != 19] + [(i, i + 20) for i in range(580)]
    rows = [(u, v, factor * (1 + (u + v) % 7), factor * (2 + u % 3)) for u, v in edges]
    rows += [] if directed else [(v, u, length, time) for u, v, length, time in rows]
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    path.write_text("source,target,length,time\n" + text)
    return path


def spec_of(path: Path, **more) -> Graph:
    return Graph(**{"input": str(path), "weights": Weights(column="length"), **more})


@pytest.fixture
def store(tmp_path) -> str:
    return ingested(tmp_path)


def ingested(folder: Path, spec: Graph | None = None) -> str:
    url = str(folder / "graph")
    ingest(spec or spec_of(written(folder / "edges.csv")), url, Quiet())
    return url


def stored_in(store: str) -> StoredGraph:
    return StoredGraph(store, read_manifest(store))


def make(store: str) -> StoredGraph:
    """Make the hierarchy of the graph in a store with one weight."""
    stored = stored_in(store)
    traits, reason = make_hierarchy(stored, lambda _: None, Quiet())
    assert reason is None
    assert traits.hierarchy.is_completed
    return stored


@pytest.fixture
def made(monkeypatch):
    """The names of what is made, in order, by the stage or by a solver."""
    from sssp_pipeline.pipeline.run import hierarchy_stage, hierarchy_steps

    names = []

    def note(module, name: str) -> None:
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *given: names.append(name) or original(*given))

    note(hierarchy_steps, "ordered")
    note(hierarchy_stage, "customize")
    for name in ("completion_of", "customize"):
        note(shared, name)
    return names


def assert_same(found, expected):
    """Assert that two hierarchies, completions or arcs are equal."""
    for name in getattr(expected, "_fields", None) or [field.name for field in fields(expected)]:
        one, other = getattr(found, name), getattr(expected, name)
        if isinstance(other, np.ndarray):
            assert one.dtype == other.dtype
            assert_array_equal(one, other)
        elif isinstance(other, int):
            assert one == other
        else:
            assert_same(one, other)


def assert_phast_is_right(graph):
    """Assert that `phast` finds the distances of another solver."""
    phast, other = (
        solver.solve(graph, np.arange(20), SolveOptions()).distances for solver in (Phast(), DeltaStepping())
    )
    assert_array_equal(phast, other)


@pytest.mark.medium
@pytest.mark.parametrize("directed", [False, True])
def test_what_is_stored_is_what_was_made(tmp_path, monkeypatch, directed):
    monkeypatch.setattr(part_files, "PART_ROWS", 100)  # so that arrays have several parts
    store = ingested(tmp_path, spec_of(written(tmp_path / "edges.csv", directed=directed)))
    make(store)
    stored = stored_in(store)
    graph = stored.graph()
    expected = customize(completion_of(graph), graph)
    assert (expected.down is expected.up) is not directed
    for is_shared in (False, True):
        found = load_hierarchy(store, stored.manifest, shared=is_shared)
        assert_same(found, expected)
        assert (found.down is found.up) is not directed
        assert_same(load_completion(store, stored.manifest, shared=is_shared), expected.completion)
    assert len(read_record(store).parts) > 20


@pytest.mark.parametrize("least_rows", [50, 2000])
def test_a_large_array_has_a_part_for_each_writer(store, monkeypatch, least_rows):
    monkeypatch.setattr(hierarchies, "_MOST_WRITERS", 4)
    monkeypatch.setattr(hierarchies, "_LEAST_ROWS", least_rows)
    stored = make(store)
    record = read_record(store)
    arrays = record.edges[record.edges_of(stored.manifest)].arrays
    assert arrays["arc_heads"].size[0] > 200
    assert len(arrays["arc_heads"].parts) == min(4, -(-arrays["arc_heads"].size[0] // least_rows))


def test_solvers_take_what_is_stored(store, made):
    make(store)
    make(store)
    assert made == ["ordered", "customize"]  # once
    made.clear()
    manifest = read_manifest(store)
    for stored in (StoredGraph(store, manifest), resident_graph(store, manifest.content_id)):
        assert_phast_is_right(stored.graph())
    assert set(made) <= {"completion_of", "customize"}  # of one edge: phast compiles itself with it
    assert len(made) in (0, 2)


def test_the_process_that_makes_it_does_not_read_it(store, monkeypatch):
    stored = make(store)
    monkeypatch.setattr(hierarchies, "_read_into", lambda *_: pytest.fail("it is read"))
    shared.shared_hierarchy(stored.graph())


def test_the_machine_keeps_one_copy(store, tmp_path, monkeypatch):
    make(store)
    monkeypatch.setenv(machine_cache.FOLDER_VARIABLE, str(tmp_path / "cache"))
    manifest = read_manifest(store)
    load_hierarchy(store, manifest, shared=True)
    monkeypatch.setattr(hierarchies, "_read_into", lambda *_: pytest.fail("it is read"))
    one, two = (load_hierarchy(store, manifest, shared=True) for _ in range(2))
    assert_same(one, two)
    one.up.weights[:] = 0  # changes stay in an array of this process
    assert two.up.weights.any()
    # While it is mapped it is not removed; afterwards it may be.
    cache = machine_cache.GraphCache(machine_cache._user_folder())
    places = [place for place in cache.folder.iterdir() if place.is_dir()]
    assert len(places) == 2
    assert not any(cache._remove_unused(place) for place in places)
    del one, two
    assert all(cache._remove_unused(place) for place in places)
    assert not any(place.is_dir() for place in cache.folder.iterdir())


# ---- damage ----


def test_an_altered_part_is_named(store):
    stored = make(store)
    path = Path(store, read_record(store).parts[0].path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    message = rf"`{path}` was altered: its CRC-32 is \w+, the manifest says \w+"
    with pytest.raises(InputError, match=message) as caught:
        load_hierarchy(store, stored.manifest)
    assert "remove the folder `hierarchy` of the graph store" in caught.value.hint


def test_a_missing_part_is_named(store):
    stored = make(store)
    path = Path(store, read_record(store).parts[-1].path)
    path.unlink()
    with pytest.raises(InputError, match=f"`{path}` is gone"):
        load_hierarchy(store, stored.manifest)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "is damaged"),
        (('"version": 1', '"version": 2'), "has format 2, this release reads format 1"),
        (('"arc_heads"', '"arc_tails"'), "arrays of the completion are missing"),
        (('"up_heads"', '"up_tails"'), "arrays of the customization are missing"),
        (('"largest_front"', '"front"'), r"is damaged at edges\.\w+\.front"),
    ],
    ids=["cut", "newer", "completion", "customization", "unknown"],
)
def test_a_damaged_record_is_refused(store, reseal, change, message):
    make(store)
    path = Path(store, hierarchy_record.RECORD)
    text = path.read_text()
    path.write_text(text.replace(*change) if change else text[:-20])
    with pytest.raises(InputError, match="is damaged: "):
        known_traits(stored_in(store))
    if change:
        reseal(path, json.loads(path.read_text()))
    with pytest.raises(InputError, match=message) as caught:
        known_traits(stored_in(store))
    assert "solve.hierarchy: off" in caught.value.hint


def test_what_a_failed_attempt_wrote_is_removed(store, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(hierarchies.HierarchyWriter, "write_customization", fail)
    before = files.list_files(store)
    with pytest.raises(KeyboardInterrupt):
        make(store)
    assert files.list_files(store) == before


def test_what_was_written_beside_a_part_that_failed_is_removed(store, monkeypatch):
    write_part = hierarchies.HierarchyWriter.write_part

    def fail_once(writer, folder, number, *rows):
        if number == 2:
            raise OSError("no room")
        return write_part(writer, folder, number, *rows)

    monkeypatch.setattr(part_files, "PART_ROWS", 100)
    monkeypatch.setattr(hierarchies.HierarchyWriter, "write_part", fail_once)
    before = files.list_files(store)
    with pytest.raises(OSError, match="no room"):
        make(store)
    assert files.list_files(store) == before


def test_what_is_being_written_at_an_interrupt_is_removed(store, monkeypatch):
    write_part, begun = hierarchies.HierarchyWriter.write_part, []

    def interrupted(writer, folder, number, *rows):
        begun.append(number)
        if number == 2 and begun.count(2) == 1:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.03)
        return write_part(writer, folder, number, *rows)

    monkeypatch.setattr(part_files, "PART_ROWS", 100)
    monkeypatch.setattr(hierarchies, "_MOST_WRITERS", 2)
    monkeypatch.setattr(hierarchies.HierarchyWriter, "write_part", interrupted)
    before = files.list_files(store)
    try:
        with pytest.raises(KeyboardInterrupt):
            make(store)
    finally:
        interrupts.handled()  # a command line of an earlier test remembers it for the next run
    n_begun = len(begun)
    assert files.list_files(store) == before
    time.sleep(0.1)
    assert len(begun) == n_begun < 10


@pytest.mark.medium
def test_a_killed_process_leaves_no_hierarchy(store, made):
    program = (
        "import os, signal, sys\n"
        "from sssp_pipeline.pipeline.graph_store import hierarchies\n"
        "from sssp_pipeline.pipeline.graph_store.store import read_manifest\n"
        "from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph\n"
        "from sssp_pipeline.pipeline.run.hierarchy_stage import make_hierarchy\n"
        "from sssp_pipeline.base.progress import Quiet\n"
        "hierarchies.HierarchyWriter.commit_record = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "store = sys.argv[1]\n"
        "make_hierarchy(StoredGraph(store, read_manifest(store)), lambda _: None, Quiet())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, store], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    left = set(files.list_files(files.join(store, "hierarchy")))
    assert left  # parts that no record names
    assert known_traits(stored_in(store)).hierarchy is None
    make(store)
    now = set(files.list_files(files.join(store, "hierarchy")))
    assert not left & now
    assert {f"hierarchy/{name}" for name in now} == {
        hierarchy_record.RECORD,
        *(part.path for part in read_record(store).parts),
    }


# ---- other graphs, weights and versions ----


def test_the_manifest_of_the_graph_stays_as_it_was(store):
    before = Path(store, "manifest.json").read_bytes()
    make(store)
    assert Path(store, "manifest.json").read_bytes() == before


def test_a_store_without_a_hierarchy_has_none(store):
    stored = stored_in(store)
    assert known_traits(stored) == replace(stored.manifest.traits, hierarchy=None)
    assert load_hierarchy(store, stored.manifest) is None
    assert load_completion(store, stored.manifest) is None


def test_several_weights_have_one_completion(tmp_path, made):
    several = Weights(several=(NamedWeight(name="length"), NamedWeight(name="time")))
    store = ingested(tmp_path, spec_of(written(tmp_path / "edges.csv"), weights=several))
    make_for_all(store, read_newest(store), Quiet())
    assert made == ["ordered", "customize", "customize"]
    record = read_record(store)
    assert (len(record.edges), len(record.graphs)) == (1, 2)
    for name in ("length", "time"):
        stored = StoredGraph(store, read_manifest(store, weight=name))
        assert known_traits(stored).hierarchy.is_customized
        graph = stored.graph()
        assert_same(load_hierarchy(store, stored.manifest), customize(completion_of(graph), graph))


def test_new_weights_of_the_same_edges_take_the_completion_of_the_old_version(tmp_path, store, made):
    make(store)
    old = read_manifest(store).content_id
    ingested(tmp_path, spec_of(written(tmp_path / "edges.csv", factor=3)))
    stored = stored_in(store)
    assert stored.manifest.content_id != old
    assert known_traits(stored).hierarchy is None
    make(store)
    assert made == ["ordered", "customize", "customize"]
    assert len(read_record(store).edges) == 1
    graph = stored.graph()
    assert_same(load_hierarchy(store, stored.manifest), customize(completion_of(graph), graph))
    assert load_hierarchy(store, read_manifest(store, old)) is not None


def test_the_hierarchy_goes_with_the_version_of_the_graph(tmp_path, store):
    make(store)
    parts = {part.path for part in read_record(store).parts}
    spec = spec_of(written(tmp_path / "edges.csv", factor=3))
    ingest(spec, store, Quiet())
    assert {part.path for part in read_record(store).parts} == parts
    ingest(spec, store, Quiet(), remove_old_versions=True)
    assert read_record(store) == hierarchy_record.HierarchyRecord()
    assert not Path(store, "hierarchy").exists()


def test_a_damaged_record_does_not_hinder_an_ingest(tmp_path, store):
    make(store)
    Path(store, hierarchy_record.RECORD).write_text("{")
    ingest(spec_of(written(tmp_path / "edges.csv", factor=3)), store, Quiet())
    assert not Path(store, "hierarchy").exists()
    make(store)


def test_negative_weights_have_a_completion_alone(tmp_path, made):
    path = tmp_path / "edges.csv"
    path.write_text("source,target,length\n" + "".join(f"{i},{i + 1},{i % 5 - 1}\n" for i in range(300)))
    store = ingested(tmp_path, spec_of(path))
    make(store)
    assert made == ["ordered"]
    known = known_traits(stored_in(store)).hierarchy
    assert (known.is_completed, known.is_customized) == (True, False)
    make(store)
    assert made == ["ordered"]
    assert_phast_is_right(stored_in(store).graph())


# ---- what is found out is kept ----


def test_a_refusal_is_kept_with_what_was_found_out(store, made):
    asked = []

    def why_not(traits):
        asked.append(traits.hierarchy is not None)
        return "too many arcs" if asked[-1] else None

    for _ in range(2):
        traits, reason = make_hierarchy(stored_in(store), why_not, Quiet())
        assert reason == "too many arcs"
        assert not traits.hierarchy.is_completed
    assert made == ["ordered"]
    # Before the lease and under it, after the order; and at the second time at once.
    assert asked == [False, False, True, True]
    left = [file for file in files.list_files(store) if file.startswith("hierarchy")]
    assert left == [hierarchy_record.RECORD]
    make(store)
    assert made == ["ordered", "ordered", "customize"]


def test_for_a_gpu_the_order_and_the_arcs_are_enough_until_a_cpu_needs_weights(store, made):
    for _ in range(2):
        traits, reason = make_hierarchy(stored_in(store), lambda _: None, Quiet(), lambda _: True)
        assert reason is None
        assert (traits.hierarchy.is_completed, traits.hierarchy.is_customized) == (True, False)
    assert made == ["ordered"]
    make(store)
    assert made == ["ordered", "customize"]
    assert_phast_is_right(stored_in(store).graph())


def test_the_record_has_the_largest_front_and_one_without_it_is_read(store, reseal):
    make(store)
    known = known_traits(stored_in(store)).hierarchy
    completion = load_hierarchy(store, read_manifest(store)).completion
    assert known.largest_front == completion.largest_front == max(np.diff(completion.arc_offsets))
    record = Path(store, hierarchy_record.RECORD)
    content = json.loads(record.read_text())
    (edges,) = content["edges"].values()
    del edges["largest_front"]
    reseal(record, content)
    older = known_traits(stored_in(store)).hierarchy
    assert (older.largest_front, older.n_arcs, older.is_customized) == (None, known.n_arcs, True)


@pytest.mark.parametrize(
    ("counted", "is_known"),
    [
        ({"n_arcs": None, "n_triangles": None}, False),  # it had looked at the graph without low degrees
        ({"n_arcs": 2**29 + 1, "n_triangles": None}, False),  # it had stopped counting
        ({"n_arcs": 5_000, "n_triangles": 70_000}, True),
    ],
)
def test_a_record_of_an_older_release_is_read(store, made, reseal, counted, is_known):
    make_hierarchy(stored_in(store), lambda traits: "wide" if traits.hierarchy else None, Quiet())
    record = Path(store, hierarchy_record.RECORD)
    content = json.loads(record.read_text())
    (edges,) = content["edges"].values()
    edges |= counted | {"core_vertices": 596, "core_pairs": 2284, "core_width": 20}
    reseal(record, content)
    known = known_traits(stored_in(store)).hierarchy
    assert known == (
        HierarchyTraits(5_000, 70_000, largest_front=edges["largest_front"]) if is_known else None
    )
    make(store)
    assert made == ["ordered", "ordered", "customize"]
    assert "core_" not in record.read_text()


def test_arcs_in_a_record_are_those_of_the_type(store):
    make(store)
    up = load_hierarchy(store, read_manifest(store)).up
    assert isinstance(up, Arcs)
    assert (up.offsets.dtype, up.heads.dtype, up.weights.dtype) == (np.uint64, np.uint32, np.uint32)
