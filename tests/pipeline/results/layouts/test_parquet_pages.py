"""Assembled Parquet files: what independent readers read, metadata, checksums, order and limits."""

from __future__ import annotations

import io
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import cycle, product
from pathlib import Path
from typing import Any

import duckdb
import fastparquet
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from written_files import write_file

from sssp_pipeline.base.csr import NO_VERTEX, unreached_distance
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.kernels.contract import row_facts
from sssp_pipeline.kernels.contract.row_facts import RowFacts
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.kernels.host import crc32
from sssp_pipeline.parquet import page_writer, pages
from sssp_pipeline.parquet.page_writer import PageWriter
from sssp_pipeline.parquet.pages import plain_chunk
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.layouts import long, wide
from sssp_pipeline.pipeline.results.layouts.long import LongLayout
from sssp_pipeline.pipeline.results.layouts.wide import WideLayout
from sssp_pipeline.pipeline.results.outputs.distance_outputs import ReachedPairs
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import SummedFile

N = 50
SOURCES = np.array([0, 3, 8, 20, 21, 40, 49], np.uint32)
SHAPE = len(SOURCES), N
TYPES = ("uint32", "int32", "float32", "uint64", "int64", "float64")
COMPRESSIONS = ("none", "snappy", "zstd", "lz4")
#: Which distances are unreached.
PATTERNS = {
    "none": np.zeros(SHAPE, bool),
    "all": np.ones(SHAPE, bool),
    "some": np.random.default_rng(1).random(SHAPE) < 0.3,
    "last": np.arange(N) >= np.full((len(SOURCES), 1), N - 3),
}
IDS = {
    "offset": VertexIds(IdMapping(kind="offset", type="int64", first_id=1), None, N),
    "table": VertexIds(IdMapping(kind="table", type="int64"), pa.array(range(-7, 10 * N - 7, 10)), N),
    "string": VertexIds(
        IdMapping(kind="table", type="string"),
        pa.array([f"é {i:02}" for i in range(N)], pa.large_string()),
        N,
    ),
}
READERS = {
    "pyarrow": lambda path: pq.read_table(path, page_checksum_verification=True).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "pandas": lambda path: pd.read_parquet(path, dtype_backend="numpy_nullable"),
    "DuckDB": lambda path: (
        duckdb.sql(f"SELECT * FROM '{path}'").to_arrow_table().to_pandas(types_mapper=pd.ArrowDtype)
    ),
    "Polars": lambda path: pl.read_parquet(path).to_arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "fastparquet": lambda path: fastparquet.ParquetFile(io.BytesIO(Path(path).read_bytes())).to_pandas(),
}


def distances_of(dtype: str, unreached: np.ndarray) -> np.ndarray:
    """Return distances of all magnitudes that the type has."""
    rng, kind = np.random.default_rng(len(dtype)), np.dtype(dtype)
    if kind.kind == "f":
        found = rng.normal(size=SHAPE) * rng.choice([0, 1e-30, 1, 1e30], SHAPE)
    else:
        limits = np.iinfo(kind)
        found = rng.integers(limits.min, limits.max, SHAPE, kind) >> rng.integers(0, limits.bits, SHAPE, kind)
    return np.where(unreached, unreached_distance(kind), found.astype(kind))


def predecessors_of(unreached: np.ndarray) -> np.ndarray:
    named = np.random.default_rng(2).integers(0, N, SHAPE)
    return np.where(unreached, NO_VERTEX, named).astype(np.uint32)


def expected(
    solution: Solution, ids: VertexIds, layout: str, sources: np.ndarray = SOURCES, vertices: Any = range(N)
) -> dict:
    """Return the values of each column, None for NULL."""
    distances, predecessors = solution.distances, solution.predecessors
    names, unreached = ids.column().to_pylist(), unreached_distance(distances.dtype)
    rows = [[None if d == unreached else d for d in row] for row in distances.tolist()]
    named, vertex = [names[source] for source in sources], [names[v] for v in vertices]
    if layout == "wide":
        return {"vertex": vertex} | {str(source): row for source, row in zip(named, rows, strict=True)}
    columns = {
        "source": [source for source in named for _ in vertex],
        "vertex": vertex * len(named),
        "distance": [d for row in rows for d in row],
    }
    if predecessors is not None:
        columns["predecessor"] = [None if p == NO_VERTEX else names[p] for p in predecessors.ravel()]
    return columns


def values(frame: pd.DataFrame) -> dict:
    return {name: [None if pd.isna(v) else v for v in frame[name].tolist()] for name in frame.columns}


def written(path, solution: Solution, ids: VertexIds, form: DistanceFormat) -> str:
    write_file(path, SOURCES, solution, ids, form)
    return str(path)


@pytest.mark.medium
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_reads_equal_values(tmp_path, monkeypatch, reader, layout, dtype):
    monkeypatch.setattr(long, "GROUP_ROWS", 3 * N)
    monkeypatch.setattr(wide, "GROUP_ROWS", 32)
    monkeypatch.setattr(row_facts, "SEGMENT", 32)
    kinds = cycle(IDS.values())
    for (unreached, compression), ids in zip(product(PATTERNS.values(), COMPRESSIONS), kinds, strict=False):
        distances = distances_of(dtype, unreached)
        solution = Solution(distances, predecessors_of(unreached) if layout == "long" else None)
        form = DistanceFormat(layout, None, compression, layout == "long")
        path = written(tmp_path / "file.parquet", solution, ids, form)
        assert values(READERS[reader](path)) == expected(solution, ids, layout)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_footer_agrees_with_the_file(tmp_path, monkeypatch, compression):
    monkeypatch.setattr(long, "GROUP_ROWS", 3 * N)
    monkeypatch.setattr(row_facts, "SEGMENT", 32)
    solution = Solution(distances_of("uint32", PATTERNS["some"]), None)
    form = DistanceFormat("long", None, compression, False)
    path = written(tmp_path / "file", solution, IDS["table"], form)
    metadata, at = pq.read_metadata(path), 4
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [3 * N, 3 * N, N]
    for group in groups:
        chunks = [group.column(i) for i in range(group.num_columns)]
        for chunk in chunks:
            assert (chunk.dictionary_page_offset or chunk.data_page_offset) == at
            assert chunk.num_values == group.num_rows
            at += chunk.total_compressed_size
        assert group.total_byte_size == sum(chunk.total_uncompressed_size for chunk in chunks)
        sorted_by = [(order.column_index, order.descending) for order in group.sorting_columns]
        assert sorted_by == [(0, False), (1, False)]
    assert (tmp_path / "file").stat().st_size == at + metadata.serialized_size + 8
    table = pq.read_table(path)
    for i, group in enumerate(groups):
        rows = table.slice(sum(g.num_rows for g in groups[:i]), group.num_rows)
        for place, name in enumerate(table.column_names):
            found, true = group.column(place).statistics, rows[name].drop_null().to_pylist()
            assert (found.min, found.max, found.null_count) == (min(true), max(true), rows[name].null_count)


def test_rows_that_do_not_rise_are_not_called_sorted(tmp_path):
    targets = np.array([3, 0, 2], np.uint32)
    distances = np.zeros((len(SOURCES), 3), np.uint32)
    sink = io.BytesIO()
    layout = LongLayout(DistanceFormat("long", None, "none", False), targets)
    layout.write(sink, SOURCES[::-1], Solution(distances, None), IDS["offset"])
    assert pq.read_metadata(sink).row_group(0).sorting_columns == ()
    layout.write(sink := io.BytesIO(), SOURCES, Solution(distances, None), IDS["offset"])
    assert [c.column_index for c in pq.read_metadata(sink).row_group(0).sorting_columns] == [0]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("layout", ["long", "wide"])
def test_a_changed_byte_of_any_page_is_found_by_its_checksum(tmp_path, layout, compression):
    solution = Solution(distances_of("uint32", PATTERNS["some"]), None)
    form = DistanceFormat(layout, None, compression, False)
    path = tmp_path / "file"
    written(path, solution, IDS["string"], form)
    content, metadata = path.read_bytes(), pq.read_metadata(path)
    for place in range(metadata.num_columns):
        chunk = metadata.row_group(0).column(place)
        last = (chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1
        path.write_bytes(content[:last] + bytes([content[last] ^ 1]) + content[last + 1 :])
        with pytest.raises(OSError, match="CRC checksum verification failed"):
            pq.read_table(path, page_checksum_verification=True)


@pytest.mark.medium
@given(
    st.sampled_from(TYPES).flatmap(lambda dtype: arrays(dtype, st.integers(0, 200))),
    st.randoms(use_true_random=False),
    st.floats(0, 1),
    st.sampled_from(COMPRESSIONS),
)
def test_any_column_is_read_back(column, random, share, compression):
    missing = np.array([random.random() < share for _ in column], bool)
    schema = pa.schema([("values", pa.from_numpy_dtype(column.dtype))])
    writer = PageWriter(sink := io.BytesIO(), schema, compression)
    for part in (slice(None), slice(7, None)):
        writer.write_group([plain_chunk(column[part], compression, missing=missing[part])])
    assert writer.close() == len(sink.getvalue())
    read = pq.read_table(sink, page_checksum_verification=True)["values"].combine_chunks()
    given_twice = np.concatenate([column, column[7:]]), np.concatenate([missing, missing[7:]])
    wanted = pa.array(given_twice[0], mask=given_twice[1])
    # Bits, as NaN equals nothing; what stands below a NULL does not count.
    assert read.is_valid().equals(wanted.is_valid())
    assert read.drop_null().to_numpy().tobytes() == wanted.drop_null().to_numpy().tobytes()


def check_random_batch(rng: np.random.Generator, path: Path) -> None:
    """Write a batch of random shape, type, pattern, ids and format, and compare what pyarrow reads."""
    shape = int(rng.integers(1, 6)), int(rng.integers(1, 40))
    kind, layout = np.dtype(str(rng.choice(TYPES))), str(rng.choice(["long", "wide"]))
    distances = rng.integers(0, 2**7, shape).astype(kind)
    distances[rng.random(shape) < rng.choice([0, 0.1, 0.9, 1])] = unreached_distance(kind)
    named = np.where(rng.random(shape) < 0.5, NO_VERTEX, rng.integers(0, N, shape)).astype(np.uint32)
    has_predecessors = layout == "long" and rng.random() < 0.3
    solution = Solution(distances, named if has_predecessors else None)
    ids = list(IDS.values())[rng.integers(len(IDS))]
    sources = rng.choice(N, shape[0], replace=False).astype(np.uint32)
    targets = rng.integers(0, N, shape[1]).astype(np.uint32)
    form = DistanceFormat(layout, None, str(rng.choice(COMPRESSIONS)), has_predecessors)
    write_file(path, sources, solution, ids, form, targets)
    read = pq.read_table(path, page_checksum_verification=True)
    assert read.to_pydict() == expected(solution, ids, layout, sources, targets)
    assert read.schema.types[2 if layout == "long" else 1] == pa.from_numpy_dtype(kind)
    if layout == "long":
        assert read.schema.types[1] == (pa.string() if ids is IDS["string"] else pa.int64())


@pytest.mark.medium
@pytest.mark.parametrize("n", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_batches_are_read_back(n, tmp_path):
    rng = np.random.default_rng(n)
    for _ in range(n):
        check_random_batch(rng, tmp_path / "file.parquet")


def test_threads_that_ask_together_share_a_chunk_of_vertices(monkeypatch):
    made, n_threads = [], 8
    encoded_chunk = pages.encoded_chunk

    def slowly(*args):
        made.append(args)
        time.sleep(0.1)
        return encoded_chunk(*args)

    monkeypatch.setattr(pages, "encoded_chunk", slowly)
    column = pages.RepeatedColumn(pa.array(range(N)), "none")
    together = threading.Barrier(n_threads)

    def ask(_):
        together.wait()
        return column.chunk(slice(0, N), 3)

    with ThreadPoolExecutor(n_threads) as threads:
        chunks = list(threads.map(ask, range(n_threads)))
    assert len(made) == 1
    assert all(chunk is chunks[0] for chunk in chunks)


def test_values_beside_null_are_not_overwritten_before_they_are_uploaded(monkeypatch):
    monkeypatch.setattr(long, "GROUP_ROWS", 2 * N)
    monkeypatch.setattr(page_writer, "_AT_ONCE", 1)
    distances, ids = distances_of("uint32", PATTERNS["some"]), IDS["offset"]
    layout = LongLayout(DistanceFormat("long", None, "none", False), None)
    for url in ("memory://first.parquet", "memory://second.parquet"):
        with files.open_atomic(url, plain=True) as handle:
            layout.write(handle, SOURCES, Solution(distances, None), ids)
            # Another writer takes all memory that is free.
            layout.write(io.BytesIO(), SOURCES, Solution(distances ^ 1, None), ids)
        table = pq.read_table(io.BytesIO(files.read_bytes(url)), page_checksum_verification=True)
        assert table.to_pydict() == expected(Solution(distances, None), ids, "long")


def facts_of(distances: np.ndarray) -> RowFacts:
    """Return the facts about rows (S, n), as a GPU finds them if it does not pack the rows."""
    begins = range(0, distances.shape[1], row_facts.SEGMENT)
    parts = [distances[:, begin : begin + row_facts.SEGMENT] for begin in begins]
    remainders = [[remainder(part[i]) for part in parts] for i in range(len(distances))]
    return RowFacts(
        np.stack([part.min(axis=1) for part in parts], axis=1),
        np.stack([part.max(axis=1) for part in parts], axis=1),
        np.array(remainders, np.uint32),
    )


def remainder(values: np.ndarray) -> int:
    return zlib.crc32(values.tobytes(), 2**32 - 1) ^ (2**32 - 1)


def remainder_of_bits(bits: np.ndarray) -> np.uint32:
    """Return the remainder of `bits` (n,)."""
    padded = remainder(np.packbits(bits, bitorder="little"))
    return crc32.times(np.uint32(padded), crc32.power_without_zeros(-len(bits) % 8))


def packed(distances: np.ndarray) -> Solution:
    """Return the solution with the rows (S, n) packed, as a GPU packs them; what has no meaning is random."""
    rng, unreached = np.random.default_rng(0), unreached_distance(distances.dtype)
    rows, facts = distances.copy(), facts_of(distances)
    n_present, of_bits = np.empty(facts.least.shape, np.uint32), np.empty(facts.least.shape, np.uint32)
    bits = rng.integers(0, 2**32, (len(rows), row_facts.n_words(rows.shape[1])), np.uint32)
    for i, k in np.ndindex(n_present.shape):
        segment = rows[i, k * row_facts.SEGMENT : (k + 1) * row_facts.SEGMENT]
        present = segment[is_there := segment != unreached]
        n_present[i, k], of_bits[i, k] = len(present), remainder_of_bits(is_there)
        if len(present) == len(segment):
            continue
        words = np.packbits(np.append(is_there, np.zeros(-len(segment) % 32, bool)), bitorder="little")
        at = k * row_facts.SEGMENT // 32
        bits[i, at : at + len(words) // 4] = words.view(np.uint32)
        segment[: len(present)], segment[len(present) :] = present, rng.integers(0, 100)
        facts.remainders[i, k] = remainder(present)
        if len(present):
            facts.least[i, k], facts.largest[i, k] = present.min(), present.max()
        else:
            facts.least[i, k], facts.largest[i, k] = unreached, 0
    is_complete = (distances != unreached).all()
    bits = None if is_complete else bits
    return Solution(rows, None, [], replace(facts, n_present=n_present, bit_remainders=of_bits, bits=bits))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("dtype", ["uint32", "float64"])
@pytest.mark.parametrize("layout", ["long", "wide"])
def test_facts_of_a_gpu_give_the_same_bytes(tmp_path, monkeypatch, layout, dtype, compression):
    monkeypatch.setattr(row_facts, "SEGMENT", 32)
    monkeypatch.setattr(long, "GROUP_ROWS", 3 * N)
    monkeypatch.setattr(wide, "GROUP_ROWS", 64)
    ids, form = IDS["table"], DistanceFormat(layout, None, compression, False)
    for pattern in PATTERNS.values():
        distances = distances_of(dtype, pattern)
        if dtype == "float64":
            distances = np.abs(distances)
        plain = Solution(distances, None)
        solutions = plain, replace(plain, facts=facts_of(distances)), packed(distances)
        paths = [written(tmp_path / str(i), some, ids, form) for i, some in enumerate(solutions)]
        assert len({Path(path).read_bytes() for path in paths}) == 1


@pytest.mark.medium
@given(st.data())
@settings(deadline=None, max_examples=100)
def test_packed_rows_of_any_shape_give_the_same_bytes(data):
    n_sources, n_columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 200))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    shape, kind = (n_sources, n_columns), data.draw(st.sampled_from(["uint32", "int64", "float32"]))
    distances = rng.integers(0, 1000, shape).astype(kind)
    share = rng.choice([0, 0, 0.1, 0.9, 1], (n_sources, 1))
    distances[rng.random(shape) < share] = unreached_distance(distances.dtype)
    vertices, form = np.arange(n_columns), DistanceFormat("long", None, "none", False)
    ids = VertexIds(IdMapping(kind="offset", type="int64", first_id=0), None, n_columns + n_sources)
    contents, columns, pairs = [], [], []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(row_facts, "SEGMENT", 32)
        patched.setattr(long, "GROUP_ROWS", 64)
        patched.setattr(wide, "GROUP_ROWS", 64)
        for solution in (Solution(distances, None), packed(distances)):
            sink = io.BytesIO()
            LongLayout(form, vertices).write(sink, np.arange(n_sources), solution, ids)
            contents.append(sink.getvalue())
            WideLayout(form, vertices).write(sink := io.BytesIO(), np.arange(n_sources), solution, ids)
            columns.append(sink.getvalue())
            ReachedPairs(form).write(SummedFile(sink := io.BytesIO()), np.arange(n_sources), solution, ids)
            pairs.append(sink.getvalue())
    assert contents[0] == contents[1]
    assert columns[0] == columns[1]
    assert pairs[0] == pairs[1]
