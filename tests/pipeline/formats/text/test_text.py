from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.detect import open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions
from sssp_pipeline.pipeline.formats.parsing.line_reader import scan_block
from sssp_pipeline.pipeline.formats.parsing.tokenizer import LineSyntax
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange
from sssp_pipeline.workflow import models as workflow

ID_HINT = "ids are whole numbers from 0; for names set `graph.ids: string`"

SKIP_HINT = "; `graph.unreadable: skip` leaves others out"
TWO = "every line holds source and target" + SKIP_HINT
THREE = "every line holds source, target and weight" + SKIP_HINT
AS_FIRST = "every line has as many columns as the first" + SKIP_HINT


def test_white_space_comments_and_blank_lines_are_anything(write, read):
    name = write("e.txt", b"# head\r\n\r\n1\t2\r\n  3 \t 4  \n% middle 9 9\n\t# indented\n\n\x0b5\x0c6\n7 8")
    found = read(name)
    assert found.edge_list.reading.format == "text"
    assert found.edge_list.reading.ids == "integer"
    assert found.edge_list.n_vertices is None
    assert found.rows() == [(1, 2), (3, 4), (5, 6), (7, 8)]
    assert found.src.dtype == found.dst.dtype == np.int64


@pytest.mark.parametrize("header", ["source target weight", "von\tnach\tkm", "Source  To Length"])
def test_names_above_the_columns(write, read, header):
    found = read(write("e.txt", f"# head\n{header}\n\n1 2 5\n3 4 6\n"))
    assert (found.edge_list.reading.format, found.edge_list.reading.header) == ("text", True)
    assert found.rows() == [(1, 2, 5), (3, 4, 6)]


def test_third_column_is_the_weight(write, read):
    found = read(write("e.txt", "0 1 5\n1 2 -7\n2 0 +9\n"))
    assert found.edge_list.has_weights
    assert_array_equal(found.weights, np.array([5, -7, 9], np.int64), strict=True)


def test_weight_column_none_leaves_weights_out(write, read):
    found = read(write("e.txt", "0 1 5\n1 2 what\n"), weight_column="none")
    assert not found.edge_list.has_weights
    assert found.rows() == [(0, 1), (1, 2)]


def test_weight_column_by_number(write, read):
    found = read(write("e.txt", "0 1 x 5\n1 2 y 6\n"), weight_column="4")
    assert_array_equal(found.weights, [5, 6])


def test_a_byte_order_mark_is_passed_over(write, read):
    assert read(write("e.txt", b"\xef\xbb\xbf1 2\n3 4\n")).rows() == [(1, 2), (3, 4)]


def test_several_files_follow_one_another(write, read):
    names = write("a.txt", "1 2\n3 4"), write("b.txt", "# more\n5 6\n")
    assert read(*names).rows() == [(1, 2), (3, 4), (5, 6)]


def test_string_ids(write, read):
    found = read(write("e.txt", "Köln Bonn 30\nBonn #1 28\n"), block_bytes=8)
    assert found.edge_list.reading.ids == "string"
    assert found.n_chunks == 2
    assert found.rows() == [("Köln", "Bonn", 30), ("Bonn", "#1", 28)]


def test_integer_ids_are_strings_where_asked(write, read):
    assert read(write("e.txt", "007 8\n"), ids="string").rows() == [("007", "8")]


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


def test_the_type_of_the_weights_does_not_depend_on_where_chunks_are_cut(write):
    rows = [f"0 1 {w}" for w in (3, 2**53 + 1, 2**63 + 5, 4, 2.5, 7)]
    name = write("e.txt", "\n".join(rows))
    wanted = np.array([float(row.split()[2]) for row in rows])
    for block_bytes in (1, 24, 4096):
        options = ReadOptions(block_bytes=block_bytes, weight_dtype="float64")
        chunks = list(open_edge_list([name], options).chunks(2))
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
def test_no_integer_is_rounded_beside_decimals_wherever_chunks_are_cut(write, weights, block_bytes):
    name = write("e.txt", "".join(f"0 1 {w}\n" for w in weights))
    seen = WeightRange()

    def read_all() -> None:
        for chunk in open_edge_list([name], ReadOptions(block_bytes=block_bytes)).chunks(2):
            seen.add(chunk.weights)
        seen.type_of(workflow.Weights(), None)

    with pytest.raises(InputError) as caught:
        read_all()
    assert caught.value.hint


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
@settings(deadline=None, max_examples=150)
def test_any_file_reads_as_a_naive_parser_reads_it(tmp_path_factory, content, block_bytes, n_threads):
    path = tmp_path_factory.mktemp("text") / "edges"
    path.write_bytes(content)
    options = ReadOptions(
        format="text", header=False, ids="integer", weight_dtype="float64", block_bytes=block_bytes
    )
    edge_list = open_edge_list([str(path)], options)
    rows = []
    for chunk in edge_list.chunks(n_threads):
        columns = [
            chunk.src,
            chunk.dst,
            *([] if chunk.weights is None else [chunk.weights.astype(np.float64)]),
        ]
        rows += zip(*(column.tolist() for column in columns), strict=True)
    assert rows == naive_rows(content)


@pytest.mark.medium
@given(
    st.lists(st.tuples(*[st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1)] * 2), min_size=1),
    st.sampled_from([1, 30, 1 << 20]),
)
@settings(deadline=None, max_examples=50)
def test_any_names_come_back(tmp_path_factory, pairs, block_bytes):
    pairs = [("v" + u, v) for u, v in pairs]
    path = tmp_path_factory.mktemp("text") / "edges"
    path.write_text("\n".join(f"{u} {v}" for u, v in pairs), encoding="utf-8")
    options = ReadOptions(format="text", header=False, ids="string", block_bytes=block_bytes)
    chunks = list(open_edge_list([str(path)], options).chunks(2))
    assert [pair for c in chunks for pair in zip(c.src.to_pylist(), c.dst.to_pylist(), strict=True)] == pairs


# ---- what is refused

FAULTS = [
    ("1 2\n3\n", "`e.txt` line 2 has 1 column, wanted 2", TWO),
    ("1 2 5\n# c\n3 4\n", "`e.txt` line 3 has 2 columns, wanted 3", THREE),
    ("1 2\n3 4 5\n", "`e.txt` line 2 has 3 columns, wanted 2", TWO),
    ("1 2 3 x\n1 2 3 x 5\n", "`e.txt` line 2 has 5 columns, wanted 4", AS_FIRST),
    ("1 2\n\n3 2x3\n", "`e.txt` line 3: `2x3` is not a vertex id", ID_HINT),
    ("1 2\n3 4.5\n", "`e.txt` line 2: `4.5` is not a vertex id", ID_HINT),
    ("1 2\n-0 4\n", "`e.txt` line 2: vertex id `-0` is negative", ID_HINT),
    ("1 2\n3 -4\n", "`e.txt` line 2: vertex id `-4` is negative", ID_HINT),
    ("-1 2\n", "`e.txt` line 1: vertex id `-1` is negative", ID_HINT),
    ("1 2\n9223372036854775808 4\n", "`e.txt` line 2: vertex id `9223372036854775808` is above 2^63 - 1", ID_HINT),
    ("1 99999999999999999999\n", "`e.txt` line 1: vertex id `99999999999999999999` is above 2^63 - 1", ID_HINT),
    (
        "1 bob\n",
        "`e.txt` line 1: `bob` is not a vertex id, but the other id of the edge is a number",
        "for names set `graph.ids: string`",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("content", "message", "hint"), FAULTS)
@pytest.mark.parametrize("block_bytes", [1, 1 << 20])
def test_faults_name_file_line_and_value(write, refused, content, message, hint, block_bytes):
    assert refused(write("e.txt", content), block_bytes=block_bytes) == (message, hint)


def test_a_single_column(write, refused):
    message, hint = refused(write("e.txt", "7\n"))
    assert message.startswith("`e.txt` line 1 has 1 column, ")
    assert hint == (
        "a row holds source, target and perhaps a weight, separated by white space, a comma, a semicolon, `|` or tab; "
        "`graph.delimiter` says which"
    )


@pytest.mark.parametrize(
    "weight", ["abc", "1x", "1e", "1e+", ".", "-", "+", "--1", "1.2.3", "0x10", "1_0", "1,5e3", ",5"]
)
def test_a_weight_that_is_no_number(write, refused, weight):
    assert refused(write("e.txt", f"1 2 5\n3 4 {weight}\n"), format="text") == (
        f"`e.txt` line 2: `{weight}` is not a weight",
        "weights are numbers such as 12, 0.5 or 3e-2; `graph.weights.column` names another column, or `none`; "
        "`graph.unreadable: skip` leaves such rows out",
    )


def test_a_header_over_names(write, read):
    found = read(write("e.txt", "von\tnach\tkm\nA\tB\t1.5\n"), format="text")
    assert found.rows() == [("A", "B", 1.5)]


@pytest.mark.parametrize("weight", ["nan", "NaN", "-nan", "inf", "-Inf", "INFINITY", "1e999", "-1e309"])
def test_a_weight_that_is_not_finite(write, refused, weight):
    assert refused(write("e.txt", f"1 2 5\n\n3 4 {weight}\n5 6 0.5\n")) == (
        f"`e.txt` line 3: weight `{weight}` is not finite",
        "leave such edges out, or set `graph.unreadable: skip`",
    )


def test_the_first_of_two_faults_is_reported(write, refused):
    assert (
        refused(write("e.txt", "1 2 5\n3 4 1e999\n5 x 6\n"))[0]
        == "`e.txt` line 2: weight `1e999` is not finite"
    )
    assert refused(write("e.txt", "1 2 0.12345678901234567 x\n1 2 1e99 x 9\n"))[0] == (
        "`e.txt` line 2 has 5 columns, wanted 4"
    )
    assert refused(write("e.txt", "1 2 5\n3 y 6\n3 4 1e999\n"))[0] == "`e.txt` line 2: `y` is not a vertex id"


def test_a_fault_in_the_second_file_has_its_own_line_number(write, refused):
    names = write("a.txt", "1 2\n3 4\n5 6\n"), write("b.txt", "1 2\nx 4\n")
    assert refused(*names, block_bytes=4)[0] == "`b.txt` line 2: `x` is not a vertex id"


def test_edges_before_a_fault_are_given(write):
    chunks = open_edge_list([write("e.txt", "1 2\n3 4\nx 6\n")], ReadOptions(block_bytes=4)).chunks(2)
    assert next(chunks).src.tolist() == [1]
    chunks.close()


@pytest.mark.parametrize("content", ["# only\n\n  % comments", "\n \n"])
@pytest.mark.parametrize("format_name", ["auto", "text"])
def test_only_comments(write, refused, content, format_name):
    assert refused(write("e.txt", content), format=format_name) == (
        "`e.txt` holds no edges, only comments and blank lines",
        "check that this is the file you mean",
    )


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"1 2\r3 4\r5 6\r", 1),
        (b"# old\r1 2 5\r3 4 6\r", 1),
        (b"anna bob\rbob carl\r", 1),
        (b"u,v\r1,2\r3,4\r", 1),
        (b"# new\n1 2\r3 4\r", 2),
    ],
)
@pytest.mark.parametrize("format_name", ["auto", "text"])
def test_lines_that_end_with_a_carriage_return_alone(write, refused, content, line, format_name):
    assert refused(write("e.txt", content), format=format_name) == (
        f"`e.txt` line {line} has a carriage return without a line feed, as old Macs end lines",
        r"end lines with line feeds: `tr '\r' '\n'` converts them",
    )


def test_carriage_returns_before_a_line_feed_end_a_line(write, read):
    assert read(write("e.txt", b"# c\r\r\n1 2\r\r\n3 4\r\n")).rows() == [(1, 2), (3, 4)]


def test_each_name_is_utf8_on_its_own(write, refused):
    # Joined, the ends of these two names are a letter.
    assert refused(write("e.txt", b"anna bob\na\xc3 \xbcb\n"), header=False)[0] in (
        "`e.txt` line 2: `a\ufffd` is not UTF-8",
        "`e.txt` line 2: `\ufffdb` is not UTF-8",
    )


def test_names_that_are_not_utf8(write, refused):
    assert refused(write("e.txt", b"anna bob\nbob J\xfcrgen\n")) == (
        "`e.txt` line 2: `J\ufffdrgen` is not UTF-8",
        "set `graph.encoding: latin-1` if `J\xfcrgen` is meant; else save the file as UTF-8",
    )


def test_files_with_other_columns(write, refused):
    names = write("a.txt", "# a\n1 2 3\n"), write("b.txt", "1 2\n")
    assert refused(*names) == (
        "`b.txt` line 1 has 2 columns, but `a.txt` line 2 has 3",
        "files read together have the same columns",
    )


def test_columns_of_text_have_no_names(write, refused):
    name = write("e.txt", "1 2 3\n")
    for key, column in (("columns.source", "from"), ("weights.column", "length")):
        option = {"columns.source": "source_column", "weights.column": "weight_column"}[key]
        assert refused(name, **{option: column}) == (
            f"`e.txt` line 1: unknown column `{column}` in `graph.{key}`",
            "Columns: 1, 2, 3",
        )
    for column in ("0", "4"):
        assert refused(name, weight_column=column) == (
            f"`e.txt` line 1 has 3 columns, and `graph.weights.column` asks for column {column}",
            "columns count from 1: 1, 2, 3",
        )


def test_columns_of_text_have_numbers(write, read):
    name = write("e.txt", "1 2 3\n4 5 6\n")
    assert read(name, weight_column="2").rows() == [(1, 3, 2), (4, 6, 5)]
    assert read(name, source_column="3", target_column="1").rows() == [(3, 1, 2), (6, 4, 5)]
    assert read(name, source_column="2", target_column="1", weight_column="none").rows() == [(2, 1), (5, 4)]


def test_a_long_token_is_shown_in_part(write, refused):
    message, _ = refused(write("e.txt", "1 2\n3 " + "x" * 100 + "\n"))
    assert message == "`e.txt` line 2: `" + "x" * 57 + "...` is not a vertex id"


def test_a_header_over_numbers_is_no_edge(write, read, refused):
    name = write("e.txt", "# comment\nvon nach\n\n1 2\n2 3\n")
    assert read(name).rows() == [(1, 2), (2, 3)]
    assert read(name, ids="string").rows() == [("1", "2"), ("2", "3")]
    assert refused(write("e.txt", "stop halt\n1 2\n2 3\n")) == (
        "`e.txt` line 1: of the columns `stop`, `halt` none is known as source and target of an edge",
        "name the columns, for example:\ngraph:\n  columns: {source: stop, target: halt}\n  weights: {column: none}",
    )


def test_a_name_that_comes_again_is_no_header_over_numbers(write, refused):
    assert refused(write("e.txt", "Oslo Bergen\nBergen 7\n"))[1] == (
        "set `graph.header: true` if it names the columns, `graph.header: false` if it is an edge"
    )
