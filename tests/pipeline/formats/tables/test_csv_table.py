from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal


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


def test_a_fault_far_into_the_file_has_its_row(write, refused):
    name = write("e.csv", "u,v\n" + "1,2\n" * 1000 + "1,x\n")
    assert refused(name, block_bytes=128)[0] == "`e.csv` line 1002: `x` is not a vertex id"
    name = write("e.csv", "u,v\n" + "1,2\n" * 1000 + "1,2,3\n")
    assert refused(name, block_bytes=128)[0] == "`e.csv` line 1002 has 3 columns, wanted 2"
