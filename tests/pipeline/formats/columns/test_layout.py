"""What the first rows decide: header, delimiter, columns, type of the ids."""

from __future__ import annotations

import pytest

from sssp_pipeline.pipeline.formats.columns.layout import SAMPLE_ROWS


def lines(columns: str, weights: str) -> str:
    return f"name the columns, for example:\ngraph:\n  columns: {{{columns}}}\n  weights: {{column: {weights}"


def as_csv(content: str) -> str:
    return content.replace(" ", ",")


KINDS = pytest.mark.parametrize(("name", "convert"), [("e.txt", str), ("e.csv", as_csv)])


# ---- header


@KINDS
@pytest.mark.parametrize(
    ("content", "has_header", "rows"),
    [
        # Numbers below the name of a column, even of one column of three.
        ("von nach\n1 2\n", True, [(1, 2)]),
        ("von nach km\nBonn Ulm 3\nUlm Bonn 4\n", True, [("Bonn", "Ulm", 3), ("Ulm", "Bonn", 4)]),
        # The names of two ends, without any number.
        ("from to\nanna bob\ncarl anna\n", True, [("anna", "bob"), ("carl", "anna")]),
        ("start_station end_station\nanna bob\n", True, [("anna", "bob")]),
        # A number where all rows have one, or nothing else than names that come again.
        ("1 2\n3 4\n", False, [(1, 2), (3, 4)]),
        ("anna bob 3\ncarl dora 4\n", False, [("anna", "bob", 3), ("carl", "dora", 4)]),
        ("anna bob\nbob carl\n", False, [("anna", "bob"), ("bob", "carl")]),
        ("1 2 nan\n3 4 5\n", False, None),
        ("7 8\n", False, [(7, 8)]),
    ],
)
def test_a_header_that_only_one_reading_fits(write, read, refused, name, convert, content, has_header, rows):
    file = write(name, convert(content))
    if rows is None:  # an edge, but no good one
        assert "is not finite" in refused(file)[0]
        return
    found = read(file)
    assert found.reading.header is has_header
    assert found.rows() == rows


# ---- columns by name


@pytest.mark.parametrize(
    ("header", "rows", "weight", "why"),
    [
        ("from,to,name", "1,2,x", None, "no weight: no other column holds numbers"),
        ("from,to", "1,2", None, "no weight: there is no other column"),
        ("from,to,length_unit,length", "1,2,m,7", "length", "by its name"),
        ("from,to,km,stops", "1,2,3,4", "km", "by its name"),
    ],
)
def test_the_weight_and_why(write, read, header, rows, weight, why):
    reading = read(write("e.csv", f"{header}\n{rows}\n")).reading
    assert (reading.weight.column, reading.weight.why) == (weight, why)
    assert reading.unused == tuple(c for c in header.split(",")[2:] if c != weight)


def test_one_named_end_helps_to_find_the_other(write, read):
    name = write("e.csv", "from_stop,to_stop,from_zone,to_zone,km\n1,2,3,4,5\n")
    assert read(name, source_column="from_zone", target_column="to_zone").rows() == [(3, 4, 5)]
    assert read(write("e.csv", "x,from,to\n1,2,3\n"), source_column="x", weight_column="none").rows() == [
        (1, 3)
    ]


def test_the_reading_in_words(write, read):
    found = read(write("e.csv", "id;from_stop;to_stop;km\n1;10;11;0,5\n"), decimal="comma")
    reading = found.reading
    assert reading.delimiter == "semicolon"
    assert reading.lines() == [
        "csv, semicolon, header; source `from_stop`, target `to_stop`, weight `km`; not used: `id`; integer ids",
    ]


# ---- columns by number


@KINDS
def test_columns_without_a_header_go_by_their_place(write, read, name, convert):
    found = read(write(name, convert("1 2 3 x\n5 6 7 y\n")))
    reading = found.reading
    assert found.rows() == [(1, 2, 3), (5, 6, 7)]
    assert (reading.source.column, reading.target.column, reading.weight.column) == ("1", "2", "3")
    assert (reading.weight.why, reading.unused) == ("by its place", ("4",))


def table(*columns: object, n: int = 200) -> str:
    return "".join(" ".join(str(c(i)) for c in columns) + "\n" for i in range(n))


EDGE_IDS = table(lambda i: i, lambda i: i % 7, lambda i: 3 * i % 11)


@KINDS
def test_the_first_of_three_columns_may_number_the_edges(write, read, refused, name, convert):
    file = write(name, convert(EDGE_IDS))
    assert refused(file) == (
        f"`{name}` line 1: column 1 is different in each of the first 200 rows: "
        "it may number the edges, or be an end of them",
        "write one of the two:\ngraph:\n  columns: {source: 2, target: 3}\nor\n"
        "graph:\n  columns: {source: 1, target: 2}",
    )
    meant = read(file, source_column="2", target_column="3", weight_column="none").rows()
    assert meant[:3] == [(0, 0), (1, 3), (2, 6)]
    assert read(file, source_column="1", target_column="2").rows()[:3] == [(0, 0, 0), (1, 1, 3), (2, 2, 6)]


@KINDS
@pytest.mark.parametrize(
    "content",
    [
        table(lambda i: i, lambda i: i + 1, lambda i: i % 5),  # a path
        table(lambda i: i, lambda i: i + 1),
        table(lambda i: i, lambda i: i % 7, lambda i: f"{i % 5}.5"),  # no ids
        table(lambda i: i, lambda i: i % 7, lambda i: 3 * i % 11, n=99),  # too few rows to tell
        table(lambda i: i // 2, lambda i: i % 7, lambda i: 3 * i % 11),
    ],
)
def test_columns_that_are_ends(write, read, name, convert, content):
    found = read(write(name, convert(content)))
    assert (found.reading.source.column, found.reading.target.column) == ("1", "2")


@pytest.mark.parametrize("letters", ["", "f", "_c"])
def test_names_that_a_program_made_up(write, read, refused, letters):
    header = ",".join(f"{letters}{i}" for i in range(4))
    assert read(write("e", f"{header}\n0,1,2,x\n"), header=True).rows() == [(0, 1, 2)]
    name = write("e", f"{header}\n0,1,2,3\n")
    problem = f"the columns `{letters}2`, `{letters}3` hold numbers, and nothing says which is the weight"
    assert problem in refused(name, header=True)[0]
    assert read(name, weight_column=f"{letters}3", header=True).rows() == [(0, 1, 3)]


# ---- several files


def test_files_with_other_columns(write, read, refused):
    first = write("a.csv", "from,to,km\n1,2,3\n")
    assert refused(first, write("b.csv", "from,to\n3,4\n")) == (
        "`a.csv` has weights, `b.csv` has none",
        "set `graph.weights.column: none` to leave them out",
    )
    assert refused(first, write("b.csv", "from,to,time\n3,4,5\n")) == (
        "`a.csv` has the columns `from`, `to`, `km`, `b.csv` `from`, `to`, `time`",
        "files read together need equal column names: set `graph.columns` and `graph.weights.column`",
    )
    # In another place, or with other columns that are not used, they are the same columns.
    assert read(first, write("b.csv", "from,name,to,km\n3,x,4,5\n")).rows() == [(1, 2, 3), (3, 4, 5)]
    assert read(first, write("b.csv", "km,to,from\n5,4,3\n")).rows() == [(1, 2, 3), (3, 4, 5)]


def test_files_with_other_ids(write, read, refused):
    names = write("a.csv", "from,to\n1,2\n"), write("b.csv", "from,to\nanna,bob\n")
    assert refused(*names)[1]
    assert read(*names, ids="string").rows() == [("1", "2"), ("anna", "bob")]


# ---- ids


ZERO_LED_HINT = (
    "set `graph.ids: string` to keep ids as they are written, or `integer` to read them as numbers"
)


@KINDS
@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
@pytest.mark.parametrize("late", ["007 3", "3 007", "00 3"])
def test_leading_zeros_after_the_sample(write, read, refused, name, convert, block_bytes, late):
    rows = "".join(f"{i % 50} {i % 31}\n" for i in range(SAMPLE_ROWS + 499))
    file = write(name, convert(rows + late + "\n1 2\n"))
    id_ = next(id_ for id_ in late.split() if id_[0] == "0")
    assert refused(file, block_bytes=block_bytes) == (
        f"`{name}` line 1500: vertex id `{id_}` has a leading zero, which an integer would lose, "
        "and the ids before it are integers",
        ZERO_LED_HINT,
    )
    as_integers = tuple(int(id_) for id_ in late.split())
    assert read(file, ids="integer", block_bytes=block_bytes).rows()[-2:] == [as_integers, (1, 2)]
    assert read(file, ids="string", block_bytes=block_bytes).rows()[-2] == tuple(late.split())


@KINDS
def test_integers_where_asked(write, read, refused, name, convert):
    assert read(write(name, convert("1 007\n2 7\n")), ids="integer").rows() == [(1, 7), (2, 7)]
    assert refused(write(name, convert("1 +5\n2 7\n")), ids="integer")[0].startswith(
        f"`{name}` line 1: `+5` "
    )


@KINDS
def test_after_names_digits_are_names_too(write, read, name, convert):
    found = read(write(name, convert("from to\nOslo Bergen\n7 Oslo\n7 09\n")))
    assert found.rows() == [("Oslo", "Bergen"), ("7", "Oslo"), ("7", "09")]


# ---- delimiter


def test_the_delimiter_that_splits_all_rows_alike(write, read):
    found = read(write("e", "from;to;name;km\n1;2;a, b;3\n4;5;c;6\n"))
    assert found.rows() == [(1, 2, 3), (4, 5, 6)]
    found = read(write("e", "from;to;name, long;km\n1;2;a, b;3\n4;5;c;6\n"))
    assert (found.reading.delimiter, found.rows()) == ("semicolon", [(1, 2, 3), (4, 5, 6)])


def test_two_delimiters_that_fit(write, read, refused):
    name = write("e.csv", "a,b;c,d\ne,f;g,h\n")
    message, hint = refused(name)
    assert message == "`e.csv` line 1: the columns of `a,b;c,d` may be separated by comma or semicolon"
    assert hint.startswith("set `graph.delimiter` to the one that is meant")
    assert read(name, delimiter=";", header=False).rows() == [("a,b", "c,d"), ("e,f", "g,h")]
    assert refused(write("e.csv", "1|2;3\n4|5;6\n"))[0].endswith("separated by semicolon or vertical bar")


@pytest.mark.parametrize(
    ("content", "delimiter", "rows"),
    [
        ("1\t2\t3\n4\t5\t6\n", "white space", [(1, 2, 3), (4, 5, 6)]),
        ("from\tto\tname\tkm\n1\t2\t\t3\n4\t5\tx\t6\n", "tab", [(1, 2, 3), (4, 5, 6)]),
        ("from\tto\tname\tkm\n1\t2\tx y\t3\n4\t5\tx\t6\n", "tab", [(1, 2, 3), (4, 5, 6)]),
        (
            "New York\tOslo\t3\nOslo\tRome\t4\nRome\tNew York\t5\n",
            "tab",
            [("New York", "Oslo", 3), ("Oslo", "Rome", 4), ("Rome", "New York", 5)],
        ),
    ],
)
def test_tabs(write, read, content, delimiter, rows):
    found = read(write("e", content))
    assert (found.reading.delimiter, found.rows()) == (delimiter, rows)


@pytest.mark.parametrize("content", ["anna\tbob 3\nanna\tcarl 4\n", "1\t2 3\n4 5\t6\n"])
def test_tabs_and_blanks(write, read, refused, content):
    name = write("e", content)
    first = content.partition("\n")[0]
    assert refused(name) == (
        f"`e` line 1: the columns of `{first}` may be separated by tab, or by any white space",
        "set `graph.delimiter: tab` or `graph.format: text`",
    )
    assert len(read(name, format="text").rows()[0]) == 3
