from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.pipeline.formats.parsing.line_reader import scan_block
from sssp_pipeline.pipeline.formats.parsing.tokenizer import LineSyntax
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange
from sssp_pipeline.workflow.graph import Weights


def test_white_space_comments_and_blank_lines_are_anything(write, read):
    name = write("e.txt", b"# head\r\n\r\n1\t2\r\n  3 \t 4  \n% middle 9 9\n\t# indented\n\n\x0b5\x0c6\n7 8")
    found = read(name)
    assert found.reading.format == "text"
    assert found.reading.ids == "integer"
    assert found.edge_list.n_vertices is None
    assert found.rows() == [(1, 2), (3, 4), (5, 6), (7, 8)]
    assert found.src.dtype == found.dst.dtype == np.int64


def test_weight_column_none_leaves_weights_out(write, read):
    found = read(write("e.txt", "0 1 5\n1 2 what\n"), weight_column="none")
    assert not found.edge_list.has_weights
    assert found.rows() == [(0, 1), (1, 2)]


def test_several_files_follow_one_another(write, read):
    names = write("a.txt", "1 2\n3 4"), write("b.txt", "# more\n5 6\n")
    assert read(*names).rows() == [(1, 2), (3, 4), (5, 6)]


def test_string_ids(write, read):
    found = read(write("e.txt", "Köln Bonn 30\nBonn #1 28\n"), block_bytes=8)
    assert found.reading.ids == "string"
    assert found.n_chunks == 2
    assert found.rows() == [("Köln", "Bonn", 30), ("Bonn", "#1", 28)]


def test_ids_and_weights_up_to_the_largest(write, read):
    top = 2**63 - 1
    name = write("e.txt", f"{top} 0000000000000000000000001 {top}\n0 1 -{top}\n")
    assert read(name, ids="integer").rows() == [(top, 1, top), (0, 1, -top)]
    assert read(write("e.txt", f"{top} 1 {top}\n0 1 -{top}\n")).rows() == [(top, 1, top), (0, 1, -top)]


def test_weights_above_int64_are_uint64(write, read):
    found = read(write("e.txt", f"0 1 {2**64 - 1}\n0 1 {2**53 + 1}\n0 1 -0\n"))
    assert_array_equal(found.weights, np.array([2**64 - 1, 2**53 + 1, 0], np.uint64), strict=True)


@pytest.mark.parametrize("other", ["-1", f"-{2**63 - 1}", str(2**64), f"-{2**64}", "1e2", ".5"])
def test_weights_that_no_integer_type_holds_are_rounded_only_where_asked(write, read, refused, other):
    name = write("e.txt", f"0 1 {2**64 - 1}\n0 1 {other}\n")
    assert refused(name) == (
        f"`e.txt` line 1: weight `{2**64 - 1}` is an integer that no type holds exactly beside the other weights",
        "set `graph.weights.dtype: float64` to round it, or scale the weights down",
    )
    found = read(name, weight_dtype="float64")
    assert_array_equal(found.weights, np.array([float(2**64 - 1), float(other)]), strict=True)


def test_the_type_of_the_weights_does_not_depend_on_where_chunks_are_cut(write, opened):
    rows = [f"0 1 {w}" for w in (3, 2**53 + 1, 2**63 + 5, 4, 2.5, 7)]
    name = write("e.txt", "\n".join(rows))
    wanted = np.array([float(row.split()[2]) for row in rows])
    for block_bytes in (1, 24, 4096):
        chunks = list(opened(name, block_bytes=block_bytes, weight_dtype="float64").chunks(2))
        dtype = np.result_type(*(chunk.weights.dtype for chunk in chunks))
        assert dtype == np.float64
        assert_array_equal(np.concatenate([chunk.weights.astype(dtype) for chunk in chunks]), wanted)


DECIMALS = [
    "0.1", "1e23", "8.5", "1.", ".5", "-0.0", "+2.5", "1E5", "1e+05", "1e-05", "9007199254740993", "9007199254740993.0",
    "0.84442185152504812", "123456789012345678901234567890.5", "1.7976931348623157e308", "2.2250738585072014e-308",
    "5e-324", "0e-400", "0e999999999999", "0.000000000000000000000000000000001", "3e22", "3e-22", "3e23", "00001.5",
    "100000000000000000000000", "0.1000000000000000055511151231257827021181583404541015625",
]  # fmt: skip


@pytest.mark.parametrize("text", DECIMALS)
def test_decimals_are_rounded_as_python_does(write, read, text):
    found = read(write("e.txt", f"0 1 {text}\n0 1 0.5\n"), weight_dtype="float64")
    assert struct.pack("<d", found.weights[0]) == struct.pack("<d", float(text))


@pytest.mark.medium
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1),
    st.sampled_from(["r", "e", "f", "g"]),
)
@settings(deadline=None, max_examples=100)
def test_any_decimal_is_rounded_as_python_does(values, style):
    texts = [repr(v) if style == "r" else format(v, f".17{style}") for v in values] + ["0.5"]
    data = np.frombuffer("".join(f"1 2 {text}\n" for text in texts).encode(), np.uint8)
    scanned = scan_block(data, LineSyntax(0, 35, 37, 3, 2, 0, 9, False, rounds=True))
    assert scanned.fault is None
    assert_array_equal(
        scanned.found.weights.view(np.int64), np.array([float(t) for t in texts]).view(np.int64)
    )


@pytest.mark.parametrize("block_bytes", [1, 24, 4096])
@pytest.mark.parametrize(
    "weights", [(3, 2**53 + 1, 2.5, 7), (2.5, 3, 2**53 + 1), (2**63 + 5, 0.5), (2**64 - 1, -1)]
)
def test_no_integer_is_rounded_beside_decimals_wherever_chunks_are_cut(
    write, opened, refused, weights, block_bytes
):
    name = write("e.txt", "".join(f"0 1 {w}\n" for w in weights))
    seen = WeightRange()

    def read_all() -> None:
        for chunk in opened(name, block_bytes=block_bytes).chunks(2):
            seen.add(chunk.weights)
        seen.type_of(Weights(), None)

    assert "weight" in refused(read_all)[0]


# ---- equality with a parser that is too simple to be wrong


def naive_rows(content: bytes) -> list[tuple]:
    rows = []
    for line in content.split(b"\n"):
        words = line.split()
        if words and words[0][:1] not in (b"#", b"%"):
            rows.append((int(words[0]), int(words[1]), *(float(w) for w in words[2:3])))
    return rows


blanks = st.text(" \t\x0b\x0c", min_size=1, max_size=3)
maybe_blanks = st.text(" \t\r", max_size=2)
junk_lines = st.one_of(
    maybe_blanks,
    st.builds("{}{}{}".format, maybe_blanks, st.sampled_from("#%"), st.text("ab1 #\t", max_size=9)),
)


@st.composite
def text_files(draw):
    n_columns = draw(st.sampled_from([2, 3, 4]))
    id_ = st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1)).map(str)
    weight = st.one_of(
        st.integers(-5, 50).map(str),
        st.integers(-(2**65), 2**65).map(str),
        st.floats(allow_nan=False, allow_infinity=False).map(str),
    )
    columns = [id_, id_, weight, st.text("xyz", min_size=1, max_size=3)][:n_columns]

    def row():
        parts = [draw(maybe_blanks)]
        for i, column in enumerate(columns):
            parts += [draw(blanks) if i else "", draw(column)]
        return "".join([*parts, draw(maybe_blanks)])

    lines = [row()]
    for _ in range(draw(st.integers(0, 12))):
        lines.append(row() if draw(st.booleans()) else draw(junk_lines))
    for _ in range(draw(st.integers(0, 2))):
        lines.insert(0, draw(junk_lines))
    return ("\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))).encode()


@given(text_files(), st.sampled_from([1, 7, 16, 64, 1 << 20]), st.integers(1, 3))
@settings(deadline=None, max_examples=80)
def test_any_file_reads_as_a_naive_parser_reads_it(tmp_path_factory, read, content, block_bytes, n_threads):
    path = tmp_path_factory.mktemp("text") / "edges"
    path.write_bytes(content)
    options = {"format": "text", "header": False, "ids": "integer", "weight_dtype": "float64"}
    found = read(path, n_threads=n_threads, block_bytes=block_bytes, **options)
    weights = [] if found.weights is None else [found.weights.astype(np.float64)]
    columns = (column.tolist() for column in (found.src, found.dst, *weights))
    assert list(zip(*columns, strict=True)) == naive_rows(content)


@pytest.mark.medium
@given(
    st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)] * 2), min_size=1),
    st.sampled_from([1, 30, 1 << 20]),
)
@settings(deadline=None, max_examples=50)
def test_any_names_come_back(tmp_path_factory, read, pairs, block_bytes):
    pairs = [("v" + u, v) for u, v in pairs]
    path = tmp_path_factory.mktemp("text") / "edges"
    path.write_text("\n".join(f"{u} {v}" for u, v in pairs), encoding="utf-8")
    found = read(path, format="text", header=False, ids="string", block_bytes=block_bytes)
    assert found.rows() == pairs


# ---- what is refused


def test_edges_before_a_fault_are_given(write, opened):
    chunks = opened(write("e.txt", "1 2\n3 4\nx 6\n"), block_bytes=4).chunks(2)
    assert next(chunks).src.tolist() == [1]
    chunks.close()


def test_carriage_returns_before_a_line_feed_end_a_line(write, read):
    assert read(write("e.txt", b"# c\r\r\n1 2\r\r\n3 4\r\n")).rows() == [(1, 2), (3, 4)]


def test_columns_of_text_have_numbers(write, read):
    name = write("e.txt", "1 2 3\n4 5 6\n")
    assert read(name, weight_column="2").rows() == [(1, 3, 2), (4, 6, 5)]
    assert read(name, source_column="3", target_column="1").rows() == [(3, 1, 2), (6, 4, 5)]
    assert read(name, source_column="2", target_column="1", weight_column="none").rows() == [(2, 1), (5, 4)]
