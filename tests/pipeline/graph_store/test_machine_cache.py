"""Graphs in files that all processes of a machine map: loaded once, never half, removed when unused."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.graph_store import cache_entries, machine_cache
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.machine_cache import GraphCache, shared_graph
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import Graph, NamedWeight, Weights


def make_store(folder: Path, seed: int, edges_a_part: int = 2000) -> str:
    """Ingest a grid of 30 x 40 into a store of several parts."""
    url = str(folder / f"graph-{seed}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_files, "PART_EDGES", edges_a_part)
        ingest(Graph(input=f"generated:grid?rows=30&cols=40&seed={seed}", store=url), url, Quiet())
    return url


@pytest.fixture
def store(tmp_path) -> str:
    return make_store(tmp_path, 1)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> GraphCache:
    """The cache that `shared_graph` takes, empty."""
    monkeypatch.setenv("SSSP_GRAPH_CACHE", str(tmp_path / "cache"))
    return GraphCache(machine_cache._user_folder())


@pytest.fixture
def parts_read(monkeypatch) -> list[str]:
    """The parts of all stores that this process has read so far."""
    found: list[str] = []
    read = files.read_if_there

    def counted(url):
        if url.endswith(".parquet"):
            found.append(url)
        return read(url)

    monkeypatch.setattr(files, "read_if_there", counted)
    return found


def entries(cache: GraphCache) -> list[str]:
    """Return the names of the folders in a cache."""
    return [place.name for place in cache.folder.iterdir() if place.is_dir()]


def n_parts(store: str) -> int:
    manifest = read_manifest(store)
    return len(manifest.row_offsets) + len(manifest.edges)


def assert_same_graph(found, expected):
    for name in ("row_offsets", "col_indices", "weights"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
        assert type(getattr(found, name)) is np.ndarray
    assert found.weights.dtype == expected.weights.dtype


#: Says "ready", waits for a line, and gets the graph; `reading` is what it does at each part.
CHILD = """
import sys
from pathlib import Path
from sssp_pipeline.storage import files as storage
from sssp_pipeline.pipeline.graph_store.machine_cache import shared_graph
from sssp_pipeline.pipeline.graph_store.store import read_manifest

store, log = sys.argv[1:]
manifest = read_manifest(store)
read = storage.read_if_there

def logged(url):
    with open(log, "a") as file:
        file.write(url + "\\n")
    {reading}
    return read(url)

storage.read_if_there = logged
print("ready", flush=True)
sys.stdin.readline()
graph, _ = shared_graph(store, manifest)
print(int(graph.col_indices.sum()), int(graph.weights.sum()), int(graph.row_offsets.sum()), flush=True)
sys.stdin.readline()
"""


def child(store: str, log: Path, reading: str = "pass") -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD.format(reading=reading), store, str(log)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go_on(process: subprocess.Popen) -> None:
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.medium
def test_many_processes_at_once_read_the_store_once(store, cache, tmp_path):
    log = tmp_path / "log"
    children = [child(store, log, "import time; time.sleep(0.1)") for _ in range(4)]
    try:
        assert [process.stdout.readline() for process in children] == ["ready\n"] * 4
        for process in children:
            go_on(process)
        found = {process.stdout.readline() for process in children}
        graph = load_graph(store, read_manifest(store))
        assert found == {f"{graph.col_indices.sum()} {graph.weights.sum()} {graph.row_offsets.sum()}\n"}
    finally:
        for process in children:
            process.communicate("\n", timeout=60)
    read = log.read_text().splitlines()
    assert len(read) == len(set(read)) == n_parts(store) > 3


@pytest.mark.medium
def test_a_loader_that_is_stopped_holds_nobody_up_and_one_that_is_killed_leaves_no_graph(
    store, cache, tmp_path, monkeypatch, caplog, wait_until
):
    log = tmp_path / "log"
    process = child(store, log, "if 'edges' in url: import time; time.sleep(1000)")
    try:
        process.stdout.readline()
        go_on(process)
        wait_until(lambda: log.exists() and "edges" in log.read_text())
        process.send_signal(signal.SIGSTOP)
        manifest = read_manifest(store)
        monkeypatch.setattr(machine_cache, "STALLED_S", 0.3)
        expected = load_graph(store, manifest)
        assert_same_graph(shared_graph(store, manifest)[0], expected)
        assert "gave no sign of life for 0 s; SSSP_GRAPH_CACHE names another folder" in caplog.text
    finally:
        process.kill()
        process.communicate()
    assert entries(cache) == [f".partial-{manifest.content_id}"]
    caplog.clear()
    assert_same_graph(shared_graph(store, manifest)[0], expected)
    assert not caplog.text
    assert entries(cache) == [manifest.content_id]


@pytest.mark.medium
def test_a_slow_loader_is_waited_for(cache, monkeypatch):
    monkeypatch.setattr(machine_cache, "STALLED_S", 0.3)
    lock = cache.folder / "some.lock"
    held = threading.Event()
    order = []

    def load():
        with machine_cache._hold_lock(lock):
            held.set()
            time.sleep(1)
            order.append("loaded")

    loader = threading.Thread(target=load)
    loader.start()
    held.wait()
    with machine_cache._hold_lock(lock):
        order.append("mapped")
    loader.join()
    assert order == ["loaded", "mapped"]


def test_of_three_processes_the_one_that_locks_a_removed_file_waits_for_the_one_that_locks_the_new_one(
    cache, monkeypatch
):
    lock = cache.folder / "some.lock"
    real, order = fcntl.flock, []
    third = machine_cache._hold_lock(lock)

    def removed_and_made_anew(handle, operation):
        monkeypatch.setattr(fcntl, "flock", real)
        lock.unlink()  # by the first process
        third.__enter__()
        real(handle, operation)

    def leave(seconds):
        order.append("third leaves")
        third.__exit__(None, None, None)

    monkeypatch.setattr(fcntl, "flock", removed_and_made_anew)
    monkeypatch.setattr(time, "sleep", leave)
    with machine_cache._hold_lock(lock):
        order.append("second enters")
    assert order == ["third leaves", "second enters"]


def damage_size(entry: Path) -> None:
    os.truncate(entry / "weights", (entry / "weights").stat().st_size - 4)


def damage_boot(entry: Path) -> None:
    facts = json.loads((entry / "facts.json").read_text())
    (entry / "facts.json").write_text(json.dumps(facts | {"boot_id": "another"}))


@pytest.mark.parametrize(
    "damage",
    [
        damage_size,
        damage_boot,
        lambda entry: (entry / "col_indices").unlink(),
        lambda entry: (entry / "facts.json").write_text("{"),
        lambda entry: (entry / "facts.json").unlink(),
    ],
)
def test_what_is_damaged_or_of_another_boot_is_loaded_anew(store, cache, parts_read, damage):
    manifest = read_manifest(store)
    first, _ = cache.graph(store, manifest)
    assert cache.graph(store, manifest)[0] is not first
    assert len(parts_read) == n_parts(store)
    damage(cache.folder / manifest.content_id)
    expected = load_graph(store, manifest)
    parts_read.clear()
    assert_same_graph(cache.graph(store, manifest)[0], expected)
    assert len(parts_read) == n_parts(store)
    assert_same_graph(cache.graph(store, manifest)[0], expected)
    assert len(parts_read) == n_parts(store)


def test_what_is_written_to_a_mapped_graph_stays_in_the_process(store, cache):
    manifest = read_manifest(store)
    cache.graph(store, manifest)[0].weights[:] = 0
    assert_same_graph(cache.graph(store, manifest)[0], load_graph(store, manifest))


def test_a_damaged_part_is_refused_and_leaves_nothing(store, cache):
    manifest = read_manifest(store)
    part = Path(store, manifest.edges[1].path)
    part.write_bytes(part.read_bytes()[:-1] + b"?")
    with pytest.raises(InputError, match="was altered"):
        shared_graph(store, manifest)
    assert not entries(cache)


def test_a_graph_without_edges_is_mapped(tmp_path, ingested, cache):
    url, manifest = str(tmp_path / "graph"), ingested("7 7 1\n")
    assert manifest.n_edges == 0
    for _ in range(2):
        assert_same_graph(cache.graph(url, manifest)[0], load_graph(url, manifest))


@pytest.mark.parametrize("ids", [["10", "40", "70"], ["a", "bb", "ß"]])
def test_a_table_of_ids_is_mapped_too(tmp_path, ingested, cache, parts_read, ids):
    url, manifest = str(tmp_path / "graph"), ingested(f"{ids[0]} {ids[1]}\n{ids[1]} {ids[2]}\n")
    assert manifest.ids.kind == "table"
    expected = load_ids(url, manifest).column()
    for _ in range(2):
        parts_read.clear()
        assert cache.graph(url, manifest)[1].column().equals(expected)
    assert not parts_read
    file = cache.folder / manifest.content_id / "ids.arrow"
    os.truncate(file, file.stat().st_size // 2)
    assert cache.graph(url, manifest)[1].column().equals(expected)
    assert parts_read


def full(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def little_room(_) -> SimpleNamespace:
    return SimpleNamespace(free=2 * 10**4)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda patch, _: patch.setattr(os, "posix_fallocate", full), "No space left on device"),
        (
            lambda patch, _: patch.setattr(shutil, "disk_usage", little_room),
            "it takes 0.00 GiB, and `{folder}` has room for 0.00 GiB",
        ),
        (
            lambda patch, _: patch.setenv("SSSP_GRAPH_CACHE", "/dev/null"),
            "`/dev/null/sssp-graphs-{uid}`: Not a directory",
        ),
        (lambda _, folder: folder.chmod(0o755), "`{folder}` is not a folder of this user alone"),
        (lambda _, folder: swap_for_link(folder), "`{folder}` is not a folder of this user alone"),
    ],
)
def test_without_room_or_a_safe_place_the_graph_is_loaded_for_this_process_alone(
    store, cache, monkeypatch, caplog, change, reason
):
    change(monkeypatch, cache.folder)
    manifest = read_manifest(store)
    with caplog.at_level(logging.WARNING):
        assert_same_graph(shared_graph(store, manifest)[0], load_graph(store, manifest))
    (record,) = caplog.records
    assert record.getMessage() == (
        f"graph {manifest.content_id} is loaded for this process alone and not shared on this machine: "
        f"{reason.format(folder=cache.folder, uid=os.getuid())}; SSSP_GRAPH_CACHE names another folder"
    )
    assert not entries(cache)


def swap_for_link(folder: Path) -> None:
    elsewhere = folder.with_name("elsewhere")
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)


def test_the_longest_unused_graph_makes_room_and_none_that_is_in_use(tmp_path, cache, monkeypatch):
    stores = [make_store(tmp_path, seed) for seed in (1, 2, 3)]
    manifests = [read_manifest(store) for store in stores]
    two_graphs = sum(m.graph_bytes for m in manifests[:2]) + 1000

    def disk_usage(folder):
        used = sum(cache_entries.folder_bytes(place) for place in Path(folder).iterdir() if place.is_dir())
        return SimpleNamespace(free=2 * two_graphs - used)

    monkeypatch.setattr(shutil, "disk_usage", disk_usage)

    def use(i, seconds_ago=0):
        graph, _ = cache.graph(stores[i], manifests[i])
        entry = cache.folder / manifests[i].content_id
        os.utime(entry, (time.time() - seconds_ago,) * 2)
        return graph

    def there():
        return [i for i, manifest in enumerate(manifests) if manifest.content_id in entries(cache)]

    use(0, seconds_ago=10)
    use(1, seconds_ago=20)
    use(2)
    assert there() == [0, 2]
    in_use = use(0, seconds_ago=30)
    use(1)
    assert there() == [0, 1]
    also_in_use = use(1)
    with pytest.raises(OSError, match=r"has room for 0\.00 GiB"):
        use(2)
    assert there() == [0, 1]
    del also_in_use
    use(2)
    assert there() == [0, 2]
    assert_same_graph(in_use, load_graph(stores[0], manifests[0]))


def test_what_a_killed_loader_left_of_another_graph_makes_room(store, cache, monkeypatch):
    left = cache.folder / ".partial-0123456789abcdef"
    left.mkdir()
    (left / "weights").write_bytes(bytes(10**6))
    manifest = read_manifest(store)
    monkeypatch.setattr(
        shutil,
        "disk_usage",
        lambda _: SimpleNamespace(free=2 * manifest.graph_bytes - cache_entries.folder_bytes(left)),
    )
    cache.graph(store, manifest)
    assert not left.exists()


@pytest.mark.parametrize("solver", ["delta-stepping", "dijkstra"])
def test_solvers_take_a_mapped_graph_as_any_other(store, cache, solver):
    manifest = read_manifest(store)
    solve, sources = solver_named(solver).solve, np.array([0, 700])
    mapped = solve(cache.graph(store, manifest)[0], sources, SolveOptions(predecessors=True))
    plain = solve(load_graph(store, manifest), sources, SolveOptions(predecessors=True))
    assert_array_equal(mapped.distances, plain.distances)
    assert_array_equal(mapped.predecessors, plain.predecessors)


@pytest.fixture
def of_two_weights(tmp_path):
    """The manifests of a store with two weights, by name, and its URL."""
    url = str(tmp_path / "graph")
    several = (NamedWeight(name="metres", column="auto"), NamedWeight(name="hops", column="none"))
    spec = Graph(input="generated:grid?rows=30&cols=40&seed=1", store=url, weights=Weights(several=several))
    return ingest(spec, url, Quiet())[0].by_weight, url


def test_weights_of_the_same_edges_share_their_files(of_two_weights, cache, parts_read):
    manifests, url = of_two_weights
    loaded = {name: load_graph(url, manifest) for name, manifest in manifests.items()}
    parts_read.clear()
    mapped = {name: shared_graph(url, manifest)[0] for name, manifest in manifests.items()}
    for name in manifests:
        assert_same_graph(mapped[name], loaded[name])
    folders = [sorted(Path(part).parts[-2:-1] for part in parts_read)]
    assert folders == [[("edge_weights",), ("edge_weights",), ("edges",), ("row_offsets",)]]

    def inodes(name: str) -> set[int]:
        return {(cache.folder / graph.content_id / name).stat().st_ino for graph in manifests.values()}

    assert [len(inodes(name)) for name in ("row_offsets", "col_indices", "weights")] == [1, 1, 2]


def test_of_two_weights_the_unused_one_makes_room(of_two_weights, cache):
    manifests, url = of_two_weights
    used, _ = shared_graph(url, manifests["metres"])
    shared_graph(url, manifests["hops"])
    for name, is_gone in (("metres", False), ("hops", True)):
        assert cache._remove_unused(cache.folder / manifests[name].content_id) == is_gone
    assert_same_graph(used, load_graph(url, manifests["metres"]))
    assert_same_graph(shared_graph(url, manifests["hops"])[0], load_graph(url, manifests["hops"]))


def test_without_hard_links_each_weight_is_read_whole(of_two_weights, cache, monkeypatch, parts_read):
    manifests, url = of_two_weights

    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "no hard links")

    monkeypatch.setattr(os, "link", no_links)
    for manifest in manifests.values():
        assert_same_graph(shared_graph(url, manifest)[0], load_graph(url, manifest))
    assert len([part for part in parts_read if "/edges/" in part]) == 4
