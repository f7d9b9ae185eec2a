"""Relationships of Neo4j: headers, ID spaces, and each error."""

import gzip

import pytest
from typer.testing import CliRunner

from sssp_pipeline.cli import app

HEADER = ":START_ID,:END_ID,km:double,:TYPE\n"
ROWS = "1,2,4.5,ROAD\n2,3,7,ROAD\n"
EDGES = [(1, 2, 4.5), (2, 3, 7)]


def rows(read, *names, **options):
    return sorted(read(*names, **options).rows())


def test_a_file(write, read):
    found = read(write("e.csv", HEADER + ROWS))
    assert sorted(found.rows()) == EDGES
    reading = found.edge_list.reading
    assert reading.lines() == [
        "neo4j, comma, header; source `:START_ID`, target `:END_ID`, weight `km`; integer ids"
    ]
    assert reading.unused == ()


@pytest.mark.parametrize(
    "content",
    [
        HEADER.replace(",", ";") + ROWS.replace(",", ";"),
        HEADER.replace(",", "\t") + ROWS.replace(",", "\t"),
        HEADER.replace(",", "|") + ROWS.replace(",", "|"),
        '":START_ID",":END_ID","km:double",":TYPE"\n' + '"1","2","4.5","ROAD"\n2,3,7,"A, ""B"""\n',
        "km:float,:END_ID(Stop),name,:START_ID(Stop)\n4.5,2,x,1\n7,3,y,2\n",
        ":START_ID,:END_ID,km,:TYPE\n" + ROWS,
        ":START_ID,:END_ID,km:double,lanes,:IGNORE\n1,2,4.5,x,9\n2,3,7,y,9\n",
        ":START_ID,:END_ID,km:double{unit:'km'},:TYPE\n" + ROWS,
        HEADER.replace("\n", "\r\n") + ROWS.replace("\n", "\r\n"),
        "\ufeff" + HEADER + ROWS,
    ],
    ids=[
        *("semicolon", "tab", "bar", "quotes", "another order", "no type", "ignored", "options"),
        *("carriage returns", "byte order mark"),
    ],
)
def test_headers(write, read, content):
    assert rows(read, write("e.csv", content)) == EDGES


def test_a_column_that_is_called_by_a_number(write, read):
    assert rows(read, write("e.csv", ":START_ID,:END_ID,km:double,3,1\n1,2,4.5,7,8\n")) == [(1, 2, 4.5)]


def test_a_header_of_its_own(write, read):
    names = write("h.csv", HEADER), write("1.csv", "1,2,4.5,ROAD\n"), write("2.csv", "2,3,7,ROAD\n")
    assert rows(read, *names) == EDGES


def test_a_compressed_part_without_types(write, read):
    names = write("h.csv", HEADER), write("1.csv.gz", gzip.compress(ROWS.encode()))
    assert rows(read, *names) == EDGES


def test_the_header_of_the_first_part(write, read):
    assert rows(read, write("1.csv", HEADER + "1,2,4.5,ROAD\n"), write("2.csv", "2,3,7,ROAD\n")) == EDGES


def test_two_headers(write, read):
    first = write("1.csv", HEADER + "1,2,4.5,ROAD\n")
    header, second = write("h.csv", ":TYPE,km:int,:END_ID,:START_ID\n"), write("2.csv", "RAIL,7,3,2\n")
    assert rows(read, first, header, second) == EDGES


def test_id_spaces(write, read):
    names = (
        write("1.csv", ":START_ID(Stop),:END_ID(Depot),km:double\n1,1,4.5\n2,1,7\n"),
        write("2.csv", ":START_ID(Depot),:END_ID(Depot),km:double\n1,2,3\n"),
        write("3.csv", ":START_ID,:END_ID(Stop),km:double\nX,007,2\n"),
    )
    found = read(*names)
    assert sorted(found.rows()) == [
        *(
            ("Depot:1", "Depot:2", 3),
            ("Stop:1", "Depot:1", 4.5),
            ("Stop:2", "Depot:1", 7),
            ("X", "Stop:007", 2),
        ),
    ]
    assert found.edge_list.reading.rules == ("ids with their ID space, of ``, `Depot`, `Stop`",)
    assert found.edge_list.reading.ids == "string"


def test_one_id_space(write, read):
    assert rows(read, write("e.csv", ":START_ID(Stop),:END_ID(Stop),km:long\n1,2,4\n")) == [(1, 2, 4)]


def test_no_properties(write, read):
    assert read(write("e.csv", ":START_ID,:TYPE,:END_ID\n1,A,2\n")).rows() == [(1, 2)]
    assert read(write("e.csv", HEADER + ROWS), weight_column="none").rows() == [edge[:2] for edge in EDGES]


def test_rows_that_are_left_out(write, read):
    names = write("1.csv", HEADER + ROWS + "3,,5,ROAD\n"), write("2.csv", "3,4,far,ROAD\n4,5\n4,1,2,ROAD\n")
    found = read(*names, unreadable="skip")
    assert sorted(found.rows()) == [*EDGES, (4, 1, 2)]
    assert found.edge_list.skipped.count == 3
    assert [line.partition(":")[0] for line in found.edge_list.skipped.lines] == [
        *("`1.csv` line 4", "`2.csv` line 1", "`2.csv` line 2 has 2 columns, wanted 4"),
    ]


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (
            "personId:ID(Person),name,:LABEL\n1,A,X\n",
            "`e.csv` line 1: `personId:ID(Person),name,:LABEL` is the header of nodes",
            "name the files of relationships",
        ),
        (
            ":START_ID,km:double\n1,2\n",
            "`e.csv` line 1: the header has no column `:END_ID`",
            "a header of relationships has one `:START_ID` and one `:END_ID`",
        ),
        (
            ":START_ID,:END_ID,:END_ID\n1,2,3\n",
            "`e.csv` line 1: the header has 2 columns `:END_ID`",
            "a header of relationships has one `:START_ID` and one `:END_ID`",
        ),
        (
            ":START_ID :END_ID\n1 2\n",
            "`e.csv` line 1: `:START_ID :END_ID` has no comma, semicolon, `|` or tab between columns",
            "write the header as `:START_ID;:END_ID;km:double`",
        ),
        (
            HEADER,
            "`e.csv` line 1 is a header, and no file with relationships follows it",
            "name the files that it describes after it",
        ),
        (
            ":START_ID,:END_ID,km:double,minutes:int\n1,2,3,4\n",
            "`e.csv` line 1: of the columns `km`, `minutes` 2 columns could be the weight: `km`, `minutes`",
            ...,
        ),
        (
            ":START_ID,:END_ID,lanes:int\n1,2,3\n",
            "`e.csv` line 1: of the columns `lanes` no column is known as the weight: `lanes`",
            ...,
        ),
        (
            HEADER + "1,A,5,ROAD\n",
            "`e.csv` line 2: `A` is not a vertex id, but the other id of the edge is a number",
            ...,
        ),
        (HEADER + ROWS + "1,-2,5,ROAD\n", "`e.csv` line 4: vertex id `-2` is negative", ...),
        (HEADER + ROWS + "1,2,far,ROAD\n", "`e.csv` line 4: `far` is not a weight", ...),
        (HEADER + ROWS + "1,2\n", "`e.csv` line 4 has 2 columns, wanted 4", ...),
    ],
)
def test_what_is_no_relationship(write, refused, content, message, hint):
    found, said = refused(write("e.csv", content))
    assert found == message
    assert hint is ... or said == hint


def test_a_part_before_its_header(write, refused):
    names = write("1.csv", ROWS), write("h.csv", HEADER)
    assert refused(*names, format="neo4j") == (
        "`1.csv` line 1: `1,2,4.5,ROAD` is no header of Neo4j",
        "a header names the ends of relationships: `:START_ID,:END_ID,km:double`; name its file first",
    )


def test_a_part_with_other_columns(write, refused):
    names = write("1.csv", HEADER + ROWS), write("2.csv", "1,2\n")
    message, _ = refused(*names)
    assert "`2.csv` line 1" in message


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            ":START_ID,:END_ID,miles:double\n1,2,3\n",
            "`a.csv` has the columns `source`, `target`, `km`, `b.csv`",
        ),
        (":START_ID,:END_ID\n1,2\n", "`a.csv` has weights, `b.csv` has none"),
        (HEADER + "A,B,3,ROAD\n", "`a.csv` has integer ids, another file has string ids"),
    ],
)
def test_files_that_differ(write, refused, other, message):
    assert refused(write("a.csv", HEADER + ROWS), write("b.csv", other))[0].startswith(message)


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            {"header": True},
            "`e.csv` has a header of Neo4j, so there is no header to choose",
            "remove it from the workflow",
        ),
        (
            {"source_column": "2"},
            "`e.csv` has a header of Neo4j, so there is no source column to choose",
            "remove it from the workflow",
        ),
        (
            {"ids": "integer"},
            "`e.csv` line 1: there are several ID spaces, so ids are texts such as `Person:7`",
            "remove `graph.ids`",
        ),
    ],
)
def test_options_that_do_not_fit(write, refused, options, message, hint):
    name = write("e.csv", ":START_ID(A),:END_ID(B),km:double\n1,2,5\n")
    assert refused(name, **options) == (message, hint)


def test_a_comma_is_no_delimiter_beside_decimals(write, refused, read):
    assert refused(write("e.csv", HEADER + ROWS), decimal="comma")[0] == (
        "`e.csv` line 1: `:START_ID,:END_ID,km:double,:TYPE` has no semicolon, `|` or tab between columns"
    )
    content = (HEADER + ROWS).replace(",", ";").replace("4.5", "4,5")
    assert rows(read, write("e.csv", content), decimal="comma") == EDGES


def test_a_run(write):
    names = (
        write("h.csv", ":START_ID(Stop),:END_ID(Depot),km:double\n"),
        write("1.csv", "1,1,4.5\n2,1,7.25\n"),
    )
    result = CliRunner().invoke(app, ["run", *names, "--from", "Stop:2", "--out", "r"])
    assert result.exit_code == 0, result.stderr
    result = CliRunner().invoke(app, ["path", "r", "--from", "Stop:2", "--to", "Depot:1"])
    assert "length  7.25" in result.stdout
