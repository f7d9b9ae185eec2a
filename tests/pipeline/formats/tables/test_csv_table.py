from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

ID_HINT = "ids are whole numbers from 0; for names set `graph.ids: string`"
YAML = (
    "name the columns, for example:\ngraph:\n  columns: {{source: {}, target: {}}}\n  weights: {{column: {}"
)


@pytest.mark.parametrize("separator", [",", ";", "|", "\t", ", "])
def test_separators(write, read, separator):
    lines = [["source", "target", "weight"], ["1", "2", "5"], ["3", "4", "-6"]]
    options = {"format": "csv", "delimiter": "tab"} if separator == "\t" else {}
    found = read(write("e.csv", "\n".join(separator.join(line) for line in lines)), **options)
    assert (found.edge_list.reading.format, found.edge_list.reading.ids) == ("csv", "integer")
    assert found.src.dtype == found.dst.dtype == found.weights.dtype == np.int64
    assert found.rows() == [(1, 2, 5), (3, 4, -6)]


def test_comments_before_the_header_crlf_and_blank_lines(write, read):
    found = read(write("e.csv", b"\xef\xbb\xbf# made by hand\r\n\r\nu,v\r\n1,2\r\n\r\n3,4"))
    assert found.rows() == [(1, 2), (3, 4)]


def test_quoted_names(write, read):
    found = read(write("e.csv", 'from,to,km\n"New York, NY","Kansas ""KC"" City",1.5\nKöln,Bonn,30\n'))
    assert found.edge_list.reading.ids == "string"
    assert found.rows() == [("New York, NY", 'Kansas "KC" City', 1.5), ("Köln", "Bonn", 30.0)]


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        ('u,v\n1,2\n"3\n",4\n5,"6"\n', "line 3", r"`3\n` in quotes goes over several lines"),
        (
            'u,v,w\na,b,1\nc, "d",2\n',
            "line 3",
            '` "d"` has a blank before its quote, so the quotes belong to the cell',
        ),
    ],
)
def test_odd_quotes_are_named(write, refused, content, where, what):
    message, hint = refused(write("e.csv", content))
    assert message == f"`e.csv` {where}: {what}"
    assert hint


def test_quotes_that_do_not_end(write, refused):
    message, hint = refused(
        write("e.csv", 'u,v,note\n1,2,5" pipe\n3,4,x\n'), header="true", weight_column="none"
    )
    assert message == "`e.csv` has an odd number of quotes, 1: one of them does not end"
    assert hint.startswith("end the quote; ")


@pytest.mark.parametrize("format_name", ["auto", "csv"])
@pytest.mark.parametrize("first", ['";a;1', '"Main', '"Main Street'])
def test_a_first_row_that_takes_several_lines(write, refused, first, format_name):
    """It was read as text: the delimiters of its first line are in quotes."""
    assert refused(write("e.csv", f'{first}\n";b;2\n'), format=format_name) == (
        f"`e.csv` line 1: `{first}` begins with a quote that does not end on this line",
        "end the quotes on the same line; if the quote belongs to an id, set `graph.format: text`",
    )


@pytest.mark.parametrize("content", ['"a b 1\n"b c 2\n', '"a" b 1\n"b" "c;" 2\n'])
def test_quotes_of_ids_in_a_text(write, read, content):
    names = [row.split()[:2] for row in content.splitlines()]
    assert [list(row[:2]) for row in read(write("e.txt", content)).rows()] == names
    odd = '"a;x b 1\n'
    assert read(write("e.txt", content + odd), format="text").rows()[-1] == ('"a;x', "b", 1)


def test_a_blank_behind_a_quote_is_left_out(write, read):
    assert read(write("e.csv", 'u,v,w\n"a" ,"b",1\n"c" ,"d" ,2\n')).rows() == [("a", "b", 1), ("c", "d", 2)]


def test_usual_names_are_found_in_any_place_and_case(write, read):
    found = read(write("e.csv", "id,Length,TO,note,From\n9,5,2,x,1\n"))
    assert found.rows() == [(1, 2, 5)]


def test_columns_asked_for(write, read):
    name = write("e.csv", "source,target,weight,a,b,c\n1,2,3,4,5,6.5\n")
    options = {"source_column": "b", "target_column": "a"}
    assert read(name, **options, weight_column="c").rows() == [(5, 4, 6.5)]
    assert read(name, **options).rows() == [(5, 4, 3)]
    assert read(name, **options, weight_column="none").rows() == [(5, 4)]


def test_without_a_header(write, read):
    assert read(write("e.csv", "1,2,5\n3,4,6\n")).rows() == [(1, 2, 5), (3, 4, 6)]
    assert read(write("e.csv", "1,2,x,5\n3,4,y,6\n"), weight_column="none").rows() == [(1, 2), (3, 4)]
    assert read(write("e.csv", "1,2,x,5\n3,4,y,6\n"), weight_column="4").rows() == [(1, 2, 5), (3, 4, 6)]
    assert read(write("e.csv", "anna,bob,5\n")).rows() == [("anna", "bob", 5)]
    assert read(write("e.txt", "1\t2\t3\n"), format="csv").rows() == [(1, 2, 3)]


HEADER_HINT = "set `graph.header: true` if it names the columns, `graph.header: false` if it is an edge"


@pytest.mark.parametrize("content", ["anna,bob\ncarl,dora\n", "anna,bob,x,y\ncarl,dora,z,w\n"])
@pytest.mark.parametrize("ids", ["auto", "string"])
def test_names_may_be_a_header_or_an_edge(write, read, refused, content, ids):
    name = write("e.csv", content)
    message, hint = refused(name, ids=ids)
    assert message.startswith("`e.csv` line 1: `anna")
    assert message.endswith("may be a header or an edge")
    assert hint == HEADER_HINT
    as_edge = {"header": False, "weight_column": "none"}
    assert read(name, ids=ids, **as_edge).rows() == [("anna", "bob"), ("carl", "dora")]
    as_header = {"source_column": "bob", "target_column": "anna"}
    assert read(name, ids=ids, **as_header).rows() == [("dora", "carl")]
    assert read(name, ids=ids, header=True, **as_header).rows() == [("dora", "carl")]


def test_names_that_come_again_are_no_header(write, read, refused):
    name = write("e.csv", "anna,bob\nbob,carl\n")
    found = read(name)
    assert found.edge_list.reading.header is False
    assert found.rows() == [("anna", "bob"), ("bob", "carl")]
    # The workflow takes the row for a header, the rows after it do not.
    as_header = {"source_column": "bob", "target_column": "anna"}
    assert refused(name, **as_header)[1] == HEADER_HINT
    assert read(name, header=True, **as_header).rows() == [("carl", "bob")]


def test_a_doubtful_header_of_the_second_table_is_refused(write, refused):
    names = write("a.csv", "from,to\nanna,bob\n"), write("b.csv", "bob,carl\nanna,dora\n")
    message, hint = refused(*names)
    assert message.startswith("`b.csv` line 1: `bob")
    assert hint == HEADER_HINT


def test_an_unusual_header_over_numbers_is_no_edge(write, read):
    assert read(write("e.csv", "von,nach\n1,2\n")).rows() == [(1, 2)]
    assert read(write("e.csv", "von,nach,km\nBonn,Ulm,3\n")).rows() == [("Bonn", "Ulm", 3)]


def test_columns_may_be_numbered_under_a_header(write, read, refused):
    name = write("e.csv", "from,to\na,b\n")
    assert read(name, source_column="2", target_column="1").rows() == [("b", "a")]
    assert refused(name, source_column="3", target_column="1") == (
        "`e.csv` line 1 has 2 columns, and `graph.columns.source` asks for column 3",
        "columns count from 1: from, to",
    )


def test_header_under_white_space(write, read):
    assert read(write("e.txt", "source target weight\n1 2 3\n")).rows() == [(1, 2, 3)]


def test_many_blocks_and_files(write, read):
    def table(start):
        return "u,v,w\n" + "".join(f"{i},{i + 1},{i * 7}\n" for i in range(start, start + 500))

    found = read(write("a.csv", table(0)), write("b.csv", table(500)), block_bytes=256)
    assert found.n_chunks > 10
    assert found.rows() == [(i, i + 1, i * 7) for i in range(1000)]


def test_weights_are_exact_whatever_they_are(write, read):
    top = 2**64 - 1
    assert_array_equal(
        read(write("e.csv", f"u,v,w\n1,2,{top}\n1,2,{2**53 + 1}\n")).weights,
        np.array([top, 2**53 + 1], np.uint64),
        strict=True,
    )
    texts = ["0.1", "9007199254740992", "1e23", "+5", "0.84442185152504812"]
    found = read(write("e.csv", "u,v,w\n" + "".join(f"1,2,{text}\n" for text in texts)))
    assert_array_equal(found.weights, np.array([float(text) for text in texts]), strict=True)


def test_integers_may_turn_into_decimals(write, read):
    found = read(write("e.csv", "u,v,w\n" + "1,2,3\n" * 100 + "1,2,0.5\n"), block_bytes=64)
    assert_array_equal(found.weights, np.array([3.0] * 100 + [0.5]), strict=True)


def test_ids_asked_for_as_strings(write, read):
    assert read(write("e.csv", "u,v\n007,8\n"), ids="string").rows() == [("007", "8")]


WEIGHT_HINT = (
    "weights are numbers such as 12, 0.5 or 3e-2; `graph.weights.column` names another column, or `none`; "
    "`graph.unreadable: skip` leaves such rows out"
)
FINITE_HINT = "leave such edges out, or set `graph.unreadable: skip`"
EMPTY_HINT = "`graph.unreadable: skip` leaves out rows without ids"
COLUMNS_HINT = (
    "every row has as many columns as the first: check separators and quotes; "
    "`graph.unreadable: skip` leaves others out"
)


@pytest.mark.parametrize(
    ("content", "options", "message", "hint"),
    [
        ("u,v\n1,2\n1,2x3\n", {}, "`e.csv` line 3: `2x3` is not a vertex id", ID_HINT),
        ("u,v\n1,2\n1,0x1f\n", {}, "`e.csv` line 3: `0x1f` is not a vertex id", ID_HINT),
        ("u,v\n1,2\n1,\n", {}, "`e.csv` line 3: a vertex id is empty", EMPTY_HINT),
        ("u,v\n1,2\n+1,2\n", {"ids": "integer"}, "`e.csv` line 3: `+1` is not a vertex id", ID_HINT),
        ("u,v\n1,-2\n", {}, "`e.csv` line 2: vertex id `-2` is negative", "ids are whole numbers from 0"),
        (
            "u,v\n1,9223372036854775808\n",
            {},
            "`e.csv` line 2: vertex id `9223372036854775808` is above 2^63 - 1",
            "set `graph.ids: string`",
        ),
        ("u,v\na,b\n,c\n", {}, "`e.csv` line 3: a vertex id is empty", EMPTY_HINT),
        (
            "u,v\n1,b\n",
            {},
            "`e.csv` line 2: `b` is not a vertex id, but the other id of the edge is a number",
            "for names set `graph.ids: string`",
        ),
        ("u,v,w\n1,2,3\n1,2,far\n", {}, "`e.csv` line 3: `far` is not a weight", WEIGHT_HINT),
        ("u,v,w\n1,2,3\n1,2,\n", {}, "`e.csv` line 3: `` is not a weight", WEIGHT_HINT),
        ("u,v,w\n1,2,nan\n", {}, "`e.csv` line 2: weight `nan` is not finite", FINITE_HINT),
        ("u,v,w\n1,2,1e999\n", {}, "`e.csv` line 2: weight `1e999` is not finite", FINITE_HINT),
        (
            "u,v,w\n1,2,1e-400\n",
            {},
            "`e.csv` line 2: weight `1e-400` is above zero, but float64 would make it zero",
            "scale the weights up",
        ),
        ("# c\nu,v\n1,2\n3\n", {}, "`e.csv` line 4 has 1 column, wanted 2", COLUMNS_HINT),
        (
            "u,v\n",
            {},
            "`e.csv` holds no edges: `e.csv` line 1 is its header",
            "check that this is the file you mean, or set `graph.header: false` if this row is an edge",
        ),
        (
            "u,v,w\n1,2,3\n",
            {"weight_column": "wait"},
            "`e.csv` line 1: unknown column `wait` in `graph.weights.column`",
            "Columns: u, v, w",
        ),
        (
            "u,v,weight\n1,2,3\n",
            {"weight_column": "wieght"},
            "`e.csv` line 1: unknown column `wieght` in `graph.weights.column`",
            "did you mean `weight`? Columns: u, v, weight",
        ),
        (
            "u,v,w\n1,2,3\n",
            {"target_column": "w", "weight_column": "w"},
            "`e.csv` line 1: column `w` is named twice, for two parts of an edge",
            YAML.format("u", "v", "w}    # or none"),
        ),
        (
            "u,v,w\n1,2,3\n",
            {"source_column": "v", "target_column": "v"},
            "`e.csv` line 1: column `v` is named twice, for two parts of an edge",
            YAML.format("u", "v", "w}    # or none"),
        ),
        ("u,v,u\n1,2,3\n", {}, "`e.csv` line 1 has two columns `u`", "give each column its own name"),
        (
            "abc\n1\n",
            {"format": "csv"},
            "`e.csv` line 1: `abc` has no comma, semicolon, `|` or tab between columns",
            "columns that white space separates are read by `graph.format: text`",
        ),
        (
            "#\n",
            {"format": "csv"},
            "`e.csv` holds no edges, only comments and blank lines",
            "check that this is the file you mean",
        ),
    ],
)
def test_faults(write, refused, content, options, message, hint):
    assert refused(write("e.csv", content), **options) == (message, hint)


def test_a_fault_far_into_the_file_has_its_row(write, refused):
    name = write("e.csv", "u,v\n" + "1,2\n" * 1000 + "1,x\n")
    assert refused(name, block_bytes=128)[0] == "`e.csv` line 1002: `x` is not a vertex id"
    name = write("e.csv", "u,v\n" + "1,2\n" * 1000 + "1,2,3\n")
    assert refused(name, block_bytes=128)[0] == "`e.csv` line 1002 has 3 columns, wanted 2"


def test_names_that_are_not_utf8(write, refused):
    assert refused(write("e.csv", b"u,v\nanna,J\xfcrgen\n")) == (
        "`e.csv` line 2: `J\ufffdrgen` is not UTF-8",
        "set `graph.encoding: latin-1` if `J\xfcrgen` is meant; else save the file as UTF-8",
    )


def test_only_some_tables_have_weights(write, refused):
    assert refused(write("a.csv", "u,v,w\n1,2,3\n"), write("b.csv", "u,v\n1,2\n")) == (
        "`a.csv` has weights, `b.csv` has none",
        "set `graph.weights.column: none` to leave them out",
    )
