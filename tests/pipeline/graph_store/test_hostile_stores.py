"""Stores and caches that somebody changed: there is a clear error, and no other file is read."""

import json
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.graph_store import machine_cache
from sssp_pipeline.pipeline.graph_store.loading import check_store, load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.run import conductor as conductor
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.workflow.models import Workflow


@pytest.fixture
def store(tmp_path, ingested) -> Path:
    """A store of 60 vertices, whose ids are a table."""
    ingested("".join(f"{10 * v} {10 * ((7 * v + 3) % 60)} {v + 1}\n" for v in range(60)))
    return tmp_path / "graph"


def use(store: Path) -> None:
    """Read all that a store has."""
    manifest = read_manifest(str(store))
    load_graph(str(store), manifest)
    load_ids(str(store), manifest)
    check_store(str(store), manifest)


def set_in(*path_and_value):
    *path, name, value = path_and_value

    def change(manifest, store):
        at = manifest
        for step in path:
            at = at[step]
        at[name] = value

    return change


def of_many_vertices(n: int):
    def change(manifest, store):
        manifest["n_vertices"] = n
        for name, last in (("edges", n), ("vertices", n), ("row_offsets", n + 1)):
            manifest[name][0]["last"] = last
        manifest["row_offsets"][0]["rows"] = n + 1

    return change


def of_many_edges(manifest, store):
    manifest["n_edges"] = manifest["edges"][0]["rows"] = 2**62


def rewritten(folder: str, change):
    """Change the table of a part, and give the manifest the length and checksum of the new file."""

    def apply(manifest, store):
        part = manifest[folder][0]
        path = store / part["path"]
        pq.write_table(change(pq.read_table(path)), path)
        content = path.read_bytes()
        part |= {"bytes": len(content), "crc32": zlib.crc32(content)}

    return apply


def with_column(name: str, values):
    return lambda table: table.set_column(
        table.column_names.index(name), name, [values(table[name].to_numpy().copy())]
    )


def at_five(value: int):
    def change(values: np.ndarray) -> pa.Array:
        values[5] = value
        return pa.array(values)

    return change


def link(manifest, store):
    path = store / manifest["edges"][0]["path"]
    path.rename(store.parent / "elsewhere.parquet")
    path.symlink_to(store.parent / "gone.parquet")


PATHS = ["../secret.txt", "edges/../../secret.txt", "/etc/passwd", "http://127.0.0.1:9/edges.csv"]


@pytest.mark.parametrize(
    "change",
    [
        *(set_in("edges", 0, "path", path) for path in PATHS),
        set_in("edges", 0, "bytes", -1),
        set_in("edges", 0, "rows", -1),
        set_in("edges", 0, "first", 3),
        set_in("n_vertices", -5),
        set_in("n_vertices", 2**60),
        set_in("n_edges", 61),
        of_many_vertices(2**34),
        of_many_vertices(2**60),
        of_many_vertices(2**32),
        of_many_edges,
        set_in("weights", "scale", 0),
        set_in("weights", "scale", 10**30),
        set_in("weights", "dtype", "float64"),
        set_in("weights", "dtype", "complex128"),
        set_in("ids", "kind", "nothing"),
        set_in("edges", []),
        set_in("row_offsets", {}),
        rewritten("edges", with_column("col_index", at_five(4_000_000_000))),
        rewritten("row_offsets", with_column("row_offset", at_five(-7))),
        rewritten("edges", with_column("weight", at_five(1))),
        rewritten("edges", lambda table: table.drop_columns(["weight"])),
        rewritten("edges", lambda table: table.drop_columns(["col_index"])),
        rewritten("vertices", lambda table: table.rename_columns(["x"])),
        rewritten("edges", lambda table: table.slice(0, 30)),
        rewritten("edges", lambda table: pa.table({"text": ["a"] * 60})),
        link,
    ],
)
def test_a_changed_store_is_refused(store, reseal, change):
    (store.parent / "secret.txt").write_text("secret")
    manifest = json.loads((store / "manifest.json").read_text())
    change(manifest, store)
    reseal(store / "manifest.json", manifest)
    with pytest.raises(InputError) as caught:
        use(store)
    assert str(store) in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        *("", "[" * 200_000, '{"a":' * 100_000, "\0", "{}", "[]", "null", '"text"', "1e999", "{" * 9),
        '{"format": "sssp-pipeline graph store"',
    ],
)
@pytest.mark.usefixtures("no_garbage_collection")
def test_a_manifest_of_other_json_is_refused(store, text):
    (store / "manifest.json").write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json`|is a graph store of another release"):
        use(store)


def test_weights_with_the_same_crc_are_another_graph(tmp_path, ingested):
    """The identity was made of CRC-32s, so these two graphs were one: results of the first were the second's."""
    edges = [(v, (v + 1) % 40, 100) for v in range(40)]
    other = [(u, v, weight) for (u, v, _), weight in zip(edges, same_crc([100] * 40), strict=True)]
    assert other != edges
    ids, sums = set(), set()
    for name, lines in (("one", edges), ("two", other)):
        found = ingested("".join(f"{u} {v} {w}\n" for u, v, w in lines), name)
        ids.add(found.content_id)
        weights = pq.read_table(tmp_path / name / found.edges[0].path)["weight"]
        sums.add(zlib.crc32(weights.to_numpy().tobytes()))
    assert (len(ids), len(sums)) == (2, 1)


def same_crc(weights: list[int]) -> list[int]:
    """Return other weights whose bytes as uint32 have the same CRC-32: a sum of flipped bits that changes nothing."""

    def crc(values: list[int]) -> int:
        return zlib.crc32(struct.pack(f"<{len(values)}I", *values))

    flips = [(place, bit) for place in range(8) for bit in range(6)]
    pivots: dict[int, tuple[int, int]] = {}
    for number, (place, bit) in enumerate(flips):
        changed = list(weights)
        changed[place] ^= 1 << bit
        difference, members = crc(changed) ^ crc(weights), 1 << number
        while difference:
            high = difference.bit_length()
            if high not in pivots:
                pivots[high] = difference, members
                break
            difference, members = difference ^ pivots[high][0], members ^ pivots[high][1]
        else:
            found = list(weights)
            for at, (place, bit) in enumerate(flips):
                found[place] ^= (members >> at & 1) << bit
            assert crc(found) == crc(weights)
            return found
    raise AssertionError("more flips than bits of a CRC-32 always have such a sum")


@pytest.mark.medium
@pytest.mark.skipif(not Path("/proc/sys/kernel/random/boot_id").exists(), reason="only Linux has the cache")
def test_changed_weights_in_the_cache_of_a_machine_reach_no_result(tmp_path, store, monkeypatch):
    """Every weight in the cache was changed: a run on workers and its certificate both said "exact"."""
    monkeypatch.setenv(machine_cache.FOLDER_VARIABLE, str(tmp_path / "cache"))

    def solved(name: str, **where: dict) -> dict[str, bytes]:
        spec = Workflow.model_validate(
            {
                "graph": {"input": str(tmp_path / "edges.txt"), "store": str(store)},
                "sources": {"all": True},
                "output": {"path": str(tmp_path / name)},
                "verify": "certificate",
                "report": False,
                **where,
            }
        )
        conductor.run(spec, Quiet())
        return {path.name: path.read_bytes() for path in sorted((tmp_path / name / "distances").iterdir())}

    before = solved("before")
    machine_cache.shared_graph(str(store), read_manifest(str(store)))
    (weights,) = (tmp_path / "cache").rglob("weights")
    weights.write_bytes(struct.pack("<I", 7) * (weights.stat().st_size // 4))
    assert solved("after", cluster={"workers": 1, "threads_per_worker": 1}) == before
    weights.write_bytes(random.Random(1).randbytes(weights.stat().st_size))
    verify_run(str(tmp_path / "after"), None, "certificate", Quiet())
    batch = tmp_path / "after/distances/batch-00000.parquet"
    pq.write_table(pq.read_table(batch).slice(1), batch)
    with pytest.raises(SsspError):
        verify_run(str(tmp_path / "after"), None, "certificate", Quiet())
