"""Relationships of Neo4j: headers, ID spaces, and each error."""

import gzip

import pytest

HEADER = ":START_ID,:END_ID,km:double,:TYPE\n"
ROWS = "1,2,4.5,ROAD\n2,3,7,ROAD\n"
EDGES = [(1, 2, 4.5), (2, 3, 7)]


def rows(read, *names, **options):
    return sorted(read(*names, **options).rows())


def test_a_file(write, read):
    found = read(write("e.csv", HEADER + ROWS))
    assert sorted(found.rows()) == EDGES
    reading = found.reading
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
    assert found.reading.rules == ("ids with their ID space, of ``, `Depot`, `Stop`",)
    assert found.reading.ids == "string"


def test_one_id_space(write, read):
    assert rows(read, write("e.csv", ":START_ID(Stop),:END_ID(Stop),km:long\n1,2,4\n")) == [(1, 2, 4)]


def test_no_properties(write, read):
    assert read(write("e.csv", ":START_ID,:TYPE,:END_ID\n1,A,2\n")).rows() == [(1, 2)]
    assert read(write("e.csv", HEADER + ROWS), weight_column="none").rows() == [edge[:2] for edge in EDGES]


def test_rows_that_are_left_out(write, read):
    names = write("1.csv", HEADER + ROWS + "3,,5,ROAD\n"), write("2.csv", "3,4,far,ROAD\n4,5\n4,1,2,ROAD\n")
    found = read(*names, unreadable="skip")
    assert sorted(found.rows()) == [*EDGES, (4, 1, 2)]
    assert found.skipped.count == 3
    assert [line.partition(":")[0] for line in found.skipped.lines] == [
        *("`1.csv` line 4", "`2.csv` line 1", "`2.csv` line 2 has 2 columns, wanted 4"),
    ]


def test_a_comma_is_no_delimiter_beside_decimals(write, refused, read):
    assert refused(write("e.csv", HEADER + ROWS), decimal="comma")[0] == (
        "`e.csv` line 1: `:START_ID,:END_ID,km:double,:TYPE` has no semicolon, `|` or tab between columns"
    )
    content = (HEADER + ROWS).replace(",", ";").replace("4.5", "4,5")
    assert rows(read, write("e.csv", content), decimal="comma") == EDGES


def test_a_run(write, ran):
    header = write("h.csv", ":START_ID(Stop),:END_ID(Depot),km:double\n")
    ran("run", header, write("1.csv", "1,1,4.5\n2,1,7.25\n"), "--from", "Stop:2", "--out", "r")
    assert "length  7.25" in ran("path", "r", "--from", "Stop:2", "--to", "Depot:1")
