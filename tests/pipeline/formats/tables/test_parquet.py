from __future__ import annotations

import datetime
import gzip
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.pipeline.formats.tables.record_batches import _BATCH_BYTES, checked_batches


def write_parquet(table, name):
    pq.write_table(table, name, row_group_size=300)


def write_arrow_file(table, name):
    pa.feather.write_feather(table, name, compression="zstd", chunksize=300)


def write_arrow_stream(table, name):
    with pa.ipc.new_stream(name, table.schema) as writer:
        writer.write_table(table, max_chunksize=300)


WRITERS = [write_parquet, write_arrow_file, write_arrow_stream]
EDGES = pa.table(
    {"from": pa.array(range(1000), pa.int32()), "to": range(1, 1001), "cost": np.arange(1000) / 4}
)


@pytest.fixture
def save(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def save_table(columns, name="e.parquet", writer=write_parquet):
        writer(columns if isinstance(columns, pa.Table) else pa.table(columns), name)
        return name

    return save_table


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("block_bytes", [240, 1 << 20])
def test_integer_ids_and_weights(save, read, writer, block_bytes):
    found = read(save(EDGES, "e", writer), block_bytes=block_bytes)
    assert (found.reading.format, found.reading.ids) == ("parquet", "integer")
    assert found.edge_list.weight_dtype == np.float64
    assert found.n_chunks >= (100 if block_bytes == 240 else 1)
    assert_array_equal(found.src, np.arange(1000), strict=True)
    assert_array_equal(found.dst, np.arange(1, 1001), strict=True)
    assert_array_equal(found.weights, np.arange(1000) / 4, strict=True)


def test_a_compressed_arrow_stream(save, write, read, tmp_path):
    save(EDGES, "plain", write_arrow_stream)
    assert read(write("e.gz", gzip.compress((tmp_path / "plain").read_bytes()))).rows()[7] == (7, 8, 1.75)


STRINGS = ["anna", "bob", "Köln"]
STRING_TYPES = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("type_", STRING_TYPES, ids=str)
def test_string_ids(save, read, writer, type_):
    if type_ == pa.string_view() and int(pa.__version__.partition(".")[0]) < 26:
        pytest.skip("this release of Arrow reads such files, and cannot write all of them")
    column = (
        pa.array(STRINGS).cast(type_) if type_ != STRING_TYPES[3] else pa.array(STRINGS).dictionary_encode()
    )
    found = read(save({"source": column, "target": column}, "e", writer))
    assert found.reading.ids == "string"
    assert found.src.type == pa.large_string()
    assert found.rows() == [(s, s) for s in STRINGS]


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32"]
)
def test_weights_keep_their_type(save, read, dtype):
    weights = np.array([1, 2, 3], dtype)
    found = read(save({"u": [1, 2, 3], "v": [1, 2, 3], "w": weights}))
    assert found.edge_list.weight_dtype == dtype
    assert_array_equal(found.weights, weights, strict=True)


def test_columns(save, read):
    table = {"a": [1], "b": [2], "c": [3], "weight": [4]}
    assert read(save(table)).rows() == [(1, 2, 4)]
    options = {"source_column": "c", "target_column": "b", "weight_column": "a"}
    assert read(save(table), **options).rows() == [(3, 2, 1)]
    assert read(save(table), weight_column="none").rows() == [(1, 2)]


def test_several_files(save, read):
    names = (
        save({"u": [1], "v": [2], "w": pa.array([3], pa.int8())}, "a"),
        save({"u": [4], "v": [5], "w": [0.5]}, "b"),
    )
    found = read(*names)
    assert found.edge_list.weight_dtype == np.float64
    assert found.rows() == [(1, 2, 3), (4, 5, 0.5)]


def test_a_part_without_rows(save, read):
    empty = pa.table({"u": pa.array([], pa.int64()), "v": pa.array([], pa.int64())})
    assert read(save(empty, "a"), save({"u": [1], "v": [2]}, "b")).rows() == [(1, 2)]


SKIP_HINT = "`graph.unreadable: skip` leaves such rows out and counts them"
ID_HINT = "ids are whole numbers from 0 to 2^63 - 1"
#: Columns, what is wrong with them, and the hint.
FAULTS = [
    ({"u": [1, None], "v": [1, 2]}, " row 2: column `u` is null", SKIP_HINT),
    ({"u": [1, 3], "v": [1, 2], "w": [1, None]}, " row 2: column `w` is null", SKIP_HINT),
    ({"u": [1, -3], "v": [1, 2]}, " row 2: vertex id `-3` is negative", ID_HINT),
    (
        {"u": [1, 2], "v": pa.array([1, 2**63], pa.uint64())},
        f" row 2: vertex id `{2**63}` is above 2^63 - 1",
        ID_HINT,
    ),
    ({"u": [1, 3], "v": [1, 2], "w": [1, float("inf")]}, " row 2: weight `inf` is not finite", SKIP_HINT),
    (
        {"u": [1.5], "v": [2]},
        ": column `u` has type double, ids are integers, strings or UUIDs",
        "choose other columns with `graph.columns`",
    ),
    (
        {"u": [1], "v": [2], "w": [datetime.date(2026, 1, 1)]},
        ": column `w` has type date32[day], weights are integers, floats or decimals",
        "choose a column of numbers with `graph.weights.column`, or convert this one; none gives every edge the same "
        "weight",
    ),
    (
        {"u": [1], "v": ["x"]},
        ": column `u` holds integer ids, column `v` string ids",
        "set `graph.ids: string` to read both as strings",
    ),
    (
        {"u": [1]},
        " has 1 column, `u`, wanted source and target",
        "a row holds source, target and perhaps a weight, separated by white space, a comma, a semicolon, `|` or tab; "
        "`graph.delimiter` says which",
    ),
    (
        {"u": pa.array([], pa.int64()), "v": pa.array([], pa.int64())},
        " holds no edges",
        "check that this is the file you mean",
    ),
]


def test_decimals_and_integers_in_several_files(save, read):
    """Decimals are read as in text. Rows that are left out do not change the type of the others."""
    decimals = [Decimal("1.500"), None, Decimal("2.000")]
    columns = {"u": pa.array([1, 2, 3], pa.int64()), "v": [2, 3, 4]}
    for kind in (pa.decimal128(7, 3), pa.decimal128(30, 3), pa.decimal256(60, 3)):
        a = save({**columns, "w": pa.array(decimals, kind)}, "a")
        found = read(a, save({"u": [4], "v": [5], "w": [7]}, "b"), unreadable="skip")
        assert found.rows() == [(1, 2, 1.5), (3, 4, 2.0), (4, 5, 7.0)]
        assert found.skipped.lines == ["`a` row 2: column `w` is null: [2, 3, None]"]
    assert read(save({"u": [4], "v": [5], "w": pa.array([Decimal("2.0")])})).weights.dtype == np.int64


@pytest.mark.parametrize("rows", [slice(0, 3), slice(1, 3)])
def test_uuids_are_texts(save, read, rows):
    given = [uuid.uuid4() for _ in range(4)]
    ends = [pa.array([each.bytes for each in some], pa.uuid()) for some in (given[:3], given[1:])]
    table = pa.table({"u": ends[0], "v": ends[1]})
    texts = list(map(str, given))
    assert read(save(table.slice(rows.start), writer=write_arrow_file)).rows() == [
        *zip(texts[rows], texts[1:][rows], strict=True)
    ]
    nulls = pa.table({"u": pa.array([given[0].bytes, None], pa.uuid()), "v": ends[1].slice(0, 2)})
    assert read(save(nulls), unreadable="skip").rows() == [(texts[0], texts[1])]


@pytest.mark.parametrize(("columns", "message", "hint"), FAULTS)
def test_faults(save, refused, columns, message, hint):
    assert refused(save(columns)) == (f"`e.parquet`{message}", hint)


def test_integer_ids_that_are_asked_for(save, refused):
    assert refused(save({"u": ["y"], "v": ["x"]}), ids="integer") == (
        "`e.parquet`: column `u` holds strings, integer ids are asked for",
        "set `graph.ids: string`",
    )


def test_a_fault_far_into_the_file_has_its_row(save, refused):
    ids = list(range(1000))
    ids[777] = -1
    assert (
        refused(save({"u": ids, "v": ids}), block_bytes=240)[0]
        == "`e.parquet` row 778: vertex id `-1` is negative"
    )


@pytest.mark.parametrize("writer", WRITERS)
def test_cut_short(save, write, refused, tmp_path, writer):
    save(EDGES, "whole", writer)
    content = (tmp_path / "whole").read_bytes()
    message, hint = refused(write("e", content[: len(content) // 2]))
    assert message.startswith("`e` is cut short or damaged: ")
    assert hint == "fetch or write it again"


@pytest.mark.parametrize("writer", [write_parquet, write_arrow_stream])
def test_names_of_columns_that_are_not_utf8(save, write, refused, tmp_path, writer):
    save({"uu": [1], "v": [2]}, "plain", writer)
    message, hint = refused(write("e", (tmp_path / "plain").read_bytes().replace(b"uu", b"u\xff")))
    assert message.startswith("`e`: the name of a column is not UTF-8: ")
    assert hint == "write the table again with names in UTF-8"


def test_compressed_as_a_whole(save, write, refused, tmp_path):
    save(EDGES, "plain")
    assert refused(write("e.gz", gzip.compress((tmp_path / "plain").read_bytes()))) == (
        "`e.gz` is compressed as a whole, but such a table is read from its end",
        "decompress it: its columns are compressed inside",
    )


def test_files_that_differ(save, refused):
    assert refused(save({"u": [1], "v": [2]}, "a"), save({"u": ["x"], "v": ["y"]}, "b")) == (
        "`a` has integer ids, `b` string ids",
        "set `graph.ids: string` to read all of them as strings",
    )
    assert refused(save({"u": [1], "v": [2]}, "a"), save({"u": [1], "v": [2], "w": [3]}, "b")) == (
        "`b` has weights, `a` has none",
        "set `graph.weights.column: none` to leave them out",
    )


@pytest.mark.medium
def test_a_small_file_of_one_long_text_is_read_in_batches_of_bounded_size(tmp_path):
    text, n_rows = "x" * 10_000, 30_000  # 300 MB in a batch when all are decoded
    table = pa.table({"from": pa.array(["a"] * n_rows), "to": [text] * n_rows, "w": range(n_rows)})
    for name, options in (("dictionary", {}), ("plain", {"use_dictionary": False})):
        url = str(tmp_path / f"{name}.parquet")
        pq.write_table(table, url, compression="zstd", **options)
        assert (tmp_path / f"{name}.parquet").stat().st_size < 1_000_000
        seen = 0
        for batch in checked_batches(url, ["from", "to", "w"], 350_000):
            assert len(batch) * len(text) <= 2 * _BATCH_BYTES
            assert batch["w"].to_pylist() == list(range(seen, seen + len(batch)))
            assert batch["to"][0].as_py() == batch["to"][-1].as_py() == text
            seen += len(batch)
        assert seen == n_rows
