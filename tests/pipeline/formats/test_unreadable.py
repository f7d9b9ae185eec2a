"""`graph.unreadable: skip`: rows that are no edge are left out, counted and described; all others stay."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sssp_pipeline.pipeline.formats.edge_list import SkippedRows

#: Arrow wants a row in two blocks at most.
BLOCKS = pytest.mark.parametrize("block_bytes", [32, 50, 1 << 20])


def described(found) -> list[str]:
    """Return the lines about rows that were left out, in the order of files and lines."""
    skipped = found.skipped
    assert skipped.count == len(skipped.lines)

    def place(line: str) -> tuple[str, int]:
        name, number = re.match(r"`([^`]*)` (?:line|row) (\d+)", line).groups()
        return name, int(number)

    return sorted(skipped.lines, key=place)


TEXT = """1 2 3

# a comment
x 4 5
5 6
7 8 9 9
1 2 nan
1 2 far
-1 2 3
3 4 1e999
9223372036854775808 1 1
10 11 0.5

12 1.5 3
0x1f 1 1
7
8 9 1"""
TEXT_FAULTS = [
    "`e.txt` line 4: `x` is not a vertex id: x 4 5",
    "`e.txt` line 5 has 2 columns, wanted 3: 5 6",
    "`e.txt` line 6 has 4 columns, wanted 3: 7 8 9 9",
    "`e.txt` line 7: weight `nan` is not finite: 1 2 nan",
    "`e.txt` line 8: `far` is not a weight: 1 2 far",
    "`e.txt` line 9: vertex id `-1` is negative: -1 2 3",
    "`e.txt` line 10: weight `1e999` is not finite: 3 4 1e999",
    "`e.txt` line 11: vertex id `9223372036854775808` is above 2^63 - 1: 9223372036854775808 1 1",
    "`e.txt` line 14: `1.5` is not a vertex id: 12 1.5 3",
    "`e.txt` line 15: `0x1f` is not a vertex id: 0x1f 1 1",
    "`e.txt` line 16 has 1 column, wanted 3: 7",
]
EDGES = [(1, 2, 3), (10, 11, 0.5), (8, 9, 1)]


@pytest.mark.parametrize("block_bytes", [1, 16, 40, 1 << 20])
def test_text(write, read, refused, block_bytes):
    name = write("e.txt", TEXT)
    assert refused(name, block_bytes=block_bytes)[0] == TEXT_FAULTS[0].rpartition(": ")[0]
    found = read(name, unreadable="skip", block_bytes=block_bytes)
    assert found.rows() == EDGES
    assert described(found) == TEXT_FAULTS


def test_text_with_names(write, read):
    content = b"anna bob\nbob carl\nbob J\xfcrgen\nx\n\n\xff y\ncarl anna\n"
    found = read(write("e.txt", content), unreadable="skip")
    assert found.rows() == [("anna", "bob"), ("bob", "carl"), ("carl", "anna")]
    assert described(found) == [
        "`e.txt` line 3: `J\ufffdrgen` is not UTF-8: bob J\ufffdrgen",
        "`e.txt` line 4 has 1 column, wanted 2: x",
        "`e.txt` line 6: `\ufffd` is not UTF-8: \ufffd y",
    ]


CSV = """from,to,name,km
1,2,n,3
0,1,"two
lines",3

4,5
6,7,x,1,1
x,8,n,4
1,,n,4
9,10,"a

b",far
1,2,n,
1,2,n,nan
-1,2,n,3
10,11,"n, m",0.5
1,2x,n,1
8,9,n,1
"""
CSV_FAULTS = [
    ("`e.csv` line 6 has 2 columns, wanted 4: ", "4,5"),
    ("`e.csv` line 7 has 5 columns, wanted 4: ", "6,7,x,1,1"),
    ("`e.csv` line 8: `x` is not a vertex id: ", "x,8"),
    ("`e.csv` line 9: a vertex id is empty: ", "1,,"),
    ("`e.csv` line 10: `far` is not a weight: ", "9,10"),
    ("`e.csv` line 13: `` is not a weight: ", "1,2"),
    ("`e.csv` line 14: weight `nan` is not finite: ", "nan"),
    ("`e.csv` line 15: vertex id `-1` is negative: ", "-1"),
    ("`e.csv` line 17: `2x` is not a vertex id: ", "2x"),
]


@BLOCKS
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_csv(write, read, block_bytes, line_end):
    found = read(write("e.csv", CSV.replace("\n", line_end)), unreadable="skip", block_bytes=block_bytes)
    assert found.rows() == [EDGES[0], (0, 1, 3), *EDGES[1:]]
    lines = described(found)
    assert len(lines) == len(CSV_FAULTS)
    for line, (begin, shown) in zip(lines, CSV_FAULTS, strict=True):
        assert line.startswith(begin)
        assert shown in line


@BLOCKS
def test_csv_with_comments_before_its_header(write, read, block_bytes):
    content = "# made by hand\n\nu,v,w\n1,2,3\n\n4,5\n7,8,x\n9,10,11\n"
    found = read(write("e.csv", content), unreadable="skip", block_bytes=block_bytes)
    assert found.rows() == [(1, 2, 3), (9, 10, 11)]
    assert [line.partition(":")[0] for line in described(found)] == [
        "`e.csv` line 6 has 2 columns, wanted 3",
        "`e.csv` line 7",
    ]


def test_csv_with_names(write, read):
    content = b"u,v\nanna,bob\nbob,J\xfcrgen\n,x\ncarl,anna\n"
    found = read(write("e.csv", content), unreadable="skip")
    assert found.rows() == [("anna", "bob"), ("carl", "anna")]
    assert described(found) == [
        "`e.csv` line 3: `J\ufffdrgen` is not UTF-8: bob,J\ufffdrgen",
        "`e.csv` line 4: a vertex id is empty: ,x",
    ]


@pytest.mark.parametrize(("suffix", "between"), [("txt", " "), ("csv", ",")])
def test_several_files_have_lines_of_their_own(write, read, suffix, between):
    names = [
        write(f"{letter}.{suffix}", f"from to\n1 2\n{'3 4' * 1}\n{letter} 5\n6 7\n8\n".replace(" ", between))
        for letter in "ab"
    ]
    found = read(*names, unreadable="skip", block_bytes=16)
    assert found.rows() == 2 * [(1, 2), (3, 4), (6, 7)]
    assert [line.partition(f"{suffix}` ")[2][:6] for line in described(found)] == 2 * ["line 4", "line 6"]
    assert [line[1] for line in described(found)] == list("aabb")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("e.txt", "1 2 9007199254740993\n1 2 far\n3 4 7\n"),
        ("e.txt", "3 4 7\n1 2\n1 2 18446744073709551615\n1 2 nan\n"),
        ("e.csv", "u,v,w\n1,2,9007199254740993\n1,2,far\n3,4,7\n"),
        ("e.csv", "u,v,w\n3,4,7\n1,2\n1,2,18446744073709551615\n1,2,\n"),
        ("e.nx", "1 2 {'w': 9007199254740993}\n1 2 {'w': 'far'}\n3 4 {'w': 7}\n"),
    ],
)
def test_good_rows_are_what_they_are_without_the_bad_ones(write, read, name, content):
    found = read(write(name, content), unreadable="skip")
    assert found.weights.dtype.kind in "iu"
    assert {7, 9007199254740993} & set(found.weights.tolist()) >= {7}
    assert len(found.rows()) == 2


@pytest.mark.medium
def test_so_many_rows_are_described(write, read):
    n = SkippedRows.KEPT + 200
    for name, row in (("e.txt", "1 x\n"), ("e.csv", "1,x\n"), ("f.csv", "1,2,3\n")):
        good = "1,2\n" if name.endswith("csv") else "1 2\n"
        found = read(write(name, good + row * n), unreadable="skip", block_bytes=256, header=False)
        skipped = found.skipped
        assert (skipped.count, len(skipped.lines)) == (n, SkippedRows.KEPT)
        assert skipped.lines[0].startswith(f"`{name}` line 2")
        assert skipped.lines[-1].startswith(f"`{name}` line {SkippedRows.KEPT + 1}")


def test_parquet(write, read, refused):
    write("e.parquet", "")
    n = 1000
    columns = {
        "u": pa.array([None if i == 7 else -i if i == 500 else i for i in range(n)]),
        "v": pa.array([None if i == 8 else 2**63 if i == 501 else i for i in range(n)], pa.uint64()),
        "w": pa.array([None if i == 9 else float("nan") if i in (600, 500) else i / 2 for i in range(n)]),
    }
    pq.write_table(pa.table(columns), "e.parquet", row_group_size=300)
    assert refused("e.parquet")[0] == "`e.parquet` row 8: column `u` is null"
    found = read("e.parquet", unreadable="skip", block_bytes=240)
    bad = {7, 8, 9, 500, 501, 600}
    assert found.rows() == [(i, i, i / 2) for i in range(n) if i not in bad]
    assert described(found) == [
        "`e.parquet` row 8: column `u` is null: [None, 7, 3.5]",
        "`e.parquet` row 9: column `v` is null: [8, None, 4.0]",
        "`e.parquet` row 10: column `w` is null: [9, 9, None]",
        found.skipped.lines[3],
        f"`e.parquet` row 502: vertex id `{2**63}` is above 2^63 - 1: [501, {2**63}, 250.5]",
        "`e.parquet` row 601: weight `nan` is not finite: [600, 600, nan]",
    ]
    assert found.skipped.lines[3].startswith("`e.parquet` row 501: vertex id `-500` is negative")


def test_parquet_with_names(write, read):
    write("e.parquet", "")
    pq.write_table(pa.table({"u": ["a", None, "b", "c"], "v": ["b", "c", "", "d"]}), "e.parquet")
    found = read("e.parquet", unreadable="skip")
    assert found.rows() == [("a", "b"), ("c", "d")]
    assert described(found) == [
        "`e.parquet` row 2: column `u` is null: [None, 'c']",
        "`e.parquet` row 3: a vertex id is empty: ['b', '']",
    ]


def test_networkx(write, read):
    content = (
        "# c\n1 2 {'weight': 3}\n\n2 x {'weight': 3}\n2 3 {'weight': 'a'}\n3 4 {}\n4 5 {bad\n6 7 {'weight': True}\n"
        "7 8 {'weight': 4}\n9\n-1 2 {'weight': 4}\n"
    )
    found = read(write("e.nx", content), unreadable="skip")
    assert found.rows() == [(1, 2, 3), (7, 8, 4)]
    assert described(found) == [
        "`e.nx` line 4: `x` is not a vertex id: 2 x {'weight': 3}",
        "`e.nx` line 5: `'a'` is not a weight: 2 3 {'weight': 'a'}",
        "`e.nx` line 6: `3 4 {}` has no `weight`: 3 4 {}",
        "`e.nx` line 7: `4 5 {bad` is not an edge as NetworkX writes it: 4 5 {bad",
        "`e.nx` line 8: `True` is not a weight: 6 7 {'weight': True}",
        "`e.nx` line 10: `9` is not an edge as NetworkX writes it: 9",
        "`e.nx` line 11: `-1` is not a vertex id: -1 2 {'weight': 4}",
    ]


# ---- the rows that a plain filter would keep

NUMBER = re.compile(r"[-+]?(\d+([.]\d*)?|[.]\d+)([eE][-+]?\d+)?", re.ASCII)


def is_edge(words: list[str], n_columns: int) -> bool:
    ends_are_ids = all(re.fullmatch("0|[1-9][0-9]*", end) and int(end) < 2**63 for end in words[:2])
    if len(words) != n_columns or not ends_are_ids:
        return False
    return n_columns == 2 or (NUMBER.fullmatch(words[2]) is not None and np.isfinite(float(words[2])))


ids = st.one_of(
    st.integers(0, 99).map(str), st.sampled_from(["x", "-3", "007", "+4", "1.5", "0", "00", str(2**63)])
)
weights = st.one_of(
    st.integers(-9, 99).map(str),
    st.sampled_from(["far", "nan", "-inf", "1e999", "1.5", "1e", "0x1", "+7", "0.12345678901234567890"]),
)
lines = st.lists(
    st.one_of(
        st.just(["", "# c"]),
        st.tuples(ids, ids),
        st.tuples(ids, ids, weights),
        st.tuples(ids, ids, weights, weights),
    ),
    max_size=25,
)


@pytest.mark.medium
@pytest.mark.parametrize("between", [" ", ","])
@given(lines, st.sampled_from([2, 3]), st.sampled_from([100, 200, 1 << 20]), st.integers(1, 3))
@settings(deadline=None, max_examples=60)
def test_exactly_the_bad_rows_are_left_out(
    tmp_path_factory, read, between, rows, n_columns, block_bytes, n_threads
):
    rows = [
        ["0", "1", "2"][:n_columns],
        *([row[0] or ""] if row == ["", "# c"] else list(row) for row in rows),
    ]
    path = tmp_path_factory.mktemp("skip") / "edges"
    path.write_text("".join(between.join(row) + "\n" for row in rows))
    options = {
        "format": "csv" if between == "," else "text",
        "ids": "auto" if all(is_edge(row, n_columns) for row in rows if row != [""]) else "integer",
        "delimiter": "," if between == "," else "auto",
    }
    found = read(
        path, n_threads=n_threads, header=False, unreadable="skip", block_bytes=block_bytes, **options
    )
    skipped = found.skipped

    def good(row: list[str]) -> bool:
        # `graph.ids: integer` takes leading zeros.
        return is_edge(
            [w.lstrip("0") or w[-1:] if w.isdecimal() and i < 2 else w for i, w in enumerate(row)], n_columns
        )

    kept = [row for row in rows if row != [""] and good(row)]
    assert found.rows() == [(int(r[0]), int(r[1]), *(float(w) for w in r[2:])) for r in kept]
    bad = [i for i, row in enumerate(rows, 1) if row != [""] and not good(row)]
    assert skipped.count == len(bad)
    numbers = sorted(int(re.match(r".*?` line (\d+)", line)[1]) for line in skipped.lines)
    assert numbers == bad
