from __future__ import annotations

import pytest


def test_quoted_names(write, read):
    found = read(write("e.csv", 'from,to,km\n"New York, NY","Kansas ""KC"" City",1.5\nKöln,Bonn,30\n'))
    assert found.reading.ids == "string"
    assert found.rows() == [("New York, NY", 'Kansas "KC" City', 1.5), ("Köln", "Bonn", 30.0)]


@pytest.mark.parametrize("content", ['"a b 1\n"b c 2\n', '"a" b 1\n"b" "c;" 2\n'])
def test_quotes_of_ids_in_a_text(write, read, content):
    names = [row.split()[:2] for row in content.splitlines()]
    assert [list(row[:2]) for row in read(write("e.txt", content)).rows()] == names
    odd = '"a;x b 1\n'
    assert read(write("e.txt", content + odd), format="text").rows()[-1] == ('"a;x', "b", 1)


def test_a_blank_behind_a_quote_is_left_out(write, read):
    assert read(write("e.csv", 'u,v,w\n"a" ,"b",1\n"c" ,"d" ,2\n')).rows() == [("a", "b", 1), ("c", "d", 2)]


def test_columns_asked_for(write, read):
    name = write("e.csv", "source,target,weight,a,b,c\n1,2,3,4,5,6.5\n")
    options = {"source_column": "b", "target_column": "a"}
    assert read(name, **options, weight_column="c").rows() == [(5, 4, 6.5)]
    assert read(name, **options).rows() == [(5, 4, 3)]
    assert read(name, **options, weight_column="none").rows() == [(5, 4)]


HEADER_HINT = "set `graph.header: true` if it names the columns, `graph.header: false` if it is an edge"


def test_names_that_come_again_are_no_header(write, read, refused):
    name = write("e.csv", "anna,bob\nbob,carl\n")
    found = read(name)
    assert found.reading.header is False
    assert found.rows() == [("anna", "bob"), ("bob", "carl")]
    # The workflow takes the row for a header, the rows after it do not.
    as_header = {"source_column": "bob", "target_column": "anna"}
    assert refused(name, **as_header)[1] == HEADER_HINT
    assert read(name, header=True, **as_header).rows() == [("carl", "bob")]


def test_columns_may_be_numbered_under_a_header(write, read, refused):
    name = write("e.csv", "from,to\na,b\n")
    assert read(name, source_column="2", target_column="1").rows() == [("b", "a")]
    assert refused(name, source_column="3", target_column="1") == (
        "`e.csv` line 1 has 2 columns, and `graph.columns.source` asks for column 3",
        "columns count from 1: from, to",
    )


def test_many_blocks_and_files(write, read):
    def table(start):
        return "u,v,w\n" + "".join(f"{i},{i + 1},{i * 7}\n" for i in range(start, start + 500))

    found = read(write("a.csv", table(0)), write("b.csv", table(500)), block_bytes=256)
    assert found.n_chunks > 10
    assert found.rows() == [(i, i + 1, i * 7) for i in range(1000)]


def test_a_fault_far_into_the_file_has_its_row(write, refused):
    name = write("e.csv", "u,v\n" + "1,2\n" * 1000 + "1,x\n")
    assert refused(name, block_bytes=128)[0] == "`e.csv` line 1002: `x` is not a vertex id"
    name = write("e.csv", "u,v\n" + "1,2\n" * 1000 + "1,2,3\n")
    assert refused(name, block_bytes=128)[0] == "`e.csv` line 1002 has 3 columns, wanted 2"
