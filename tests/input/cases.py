"""The table of cases: an input, and the graph that it is or the error that refuses it.

A row of the table is one input. `over` writes the same edges in several formats, a case for each. An accepted case
names the stored edges with the input's own ids, and the type of the weights. A refused case names what the message and
the hint hold: the place, the offending value, and what to do.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import writers
from writers import CONTAINERS, DECLARED, TABLES, Rows, csv, dimacs, matrix_market, text


@dataclass(frozen=True)
class Case:
    """One input.

    Attributes
    ----------
    name
        Of the case; unique.
    file
        The name of the input.
    content
        Its bytes.
    graph
        The `graph` section of the workflow, without `input`.
    edges
        The stored edges, sorted; None if the input is refused.
    dtype
        The type of the stored weights; None if it does not matter here.
    says
        Fragments of the message, or several of which one is there; the name of the file is always one of them, unless
        `names_file` is False.
    hint
        Fragments of the hint.
    skipped
        The numbers of the lines (or rows) that were left out.
    """

    name: str
    file: str
    content: bytes
    graph: dict = field(default_factory=dict)
    edges: list[tuple] | None = None
    dtype: str | None = None
    says: tuple[str | tuple[str, ...], ...] = ()
    hint: tuple[str, ...] = ()
    names_file: bool = True
    skipped: tuple[int, ...] = ()


CASES: list[Case] = []


def good(
    name: str,
    file: str,
    content: bytes | str,
    edges: Sequence[tuple],
    dtype: str | None = None,
    skipped: tuple[int, ...] = (),
    **graph: object,
) -> None:
    data = content.encode() if isinstance(content, str) else content
    CASES.append(Case(name, file, data, graph, sorted(edges), dtype, skipped=skipped))


def bad(
    name: str,
    file: str,
    content: bytes | str,
    *says: str | tuple[str, ...],
    hint: str | tuple[str, ...] = (),
    names_file: bool = True,
    **graph: object,
) -> None:
    data = content.encode() if isinstance(content, str) else content
    hints = (hint,) if isinstance(hint, str) else hint
    CASES.append(Case(name, file, data, graph, None, None, says, hints, names_file))


ALL_TABLES = list(TABLES)
TYPED = ["parquet", "arrow", "arrow-stream"]
#: Tables whose cells are text, in which anything can stand.
LINES = [name for name in TABLES if name not in TYPED]
#: The same, without other encodings and containers.
PLAIN_LINES = [name for name in LINES if not re.search("utf|gz|bz2|xz|zst|zip|tar|crlf|mark", name)]
#: Tables in which a cell may be empty.
CELLS = ["csv", "csv-bare", "semicolon", "pipe", "tsv", "csv-gz", "csv-zip", "csv-utf16", "csv-quoted"]
#: Lines before the first row.
_BEFORE = {
    "text": 0,
    "tabs": 0,
    "csv-bare": 0,
    "networkx": 0,
    "text-utf16be": 0,
    "dimacs": 2,
    "matrix-market": 3,
}


def place(format_name: str, row: int) -> str:
    """Return the words that name a row of the table, which counts from 1."""
    if format_name in TYPED:
        return f"row {row}"
    return f"line {_BEFORE.get(format_name, 1) + row}"


def over(
    formats: Sequence[str],
    name: str,
    rows: Rows,
    *says: str | tuple[str, ...],
    edges: Sequence[tuple] | None = None,
    at: int | None = None,
    dtype: str | None = None,
    hint: str | tuple[str, ...] = (),
    **graph: object,
) -> None:
    """Add a case for each format; it is refused unless `edges` are given. `at` is the row that the message names."""
    for each in formats:
        file, write = TABLES[each] if each in TABLES else DECLARED[each][:2]
        content = write(rows)
        if edges is not None:
            good(f"{name}: {each}", file, content, edges, dtype, **graph)
        else:
            where = () if at is None else ((place(each, at), f"edge {at},"),)
            bad(f"{name}: {each}", file, content, *where, *says, hint=hint, **graph)


# Every format.


def both_ways(edges: Sequence[tuple]) -> list[tuple]:
    """Return the edges and their reverses."""
    return [(u, v, w) for a, b, w in edges for u, v in ((a, b), (b, a))]


def backwards(edges: Sequence[tuple]) -> list[tuple]:
    """Return the reverses of the edges."""
    return [(v, u, w) for u, v, w in edges]


PLAIN = [("1", "2", "5"), ("2", "3", "6"), ("3", "1", "7")]
PLAIN_EDGES = [(1, 2, 5), (2, 3, 6), (3, 1, 7)]
#: The edges of most small inputs: one with a weight, two with a weight each, two without weights.
ONE, TWO, NO_WEIGHTS = [(1, 2, 5)], [(1, 2, 5), (2, 3, 6)], [(1, 2, 1), (2, 3, 1)]
over(LINES, "integers", PLAIN, edges=PLAIN_EDGES, dtype="uint32")
over(TYPED, "integers", PLAIN, edges=PLAIN_EDGES)
over(ALL_TABLES, "reversed", PLAIN, edges=backwards(PLAIN_EDGES), directed="reversed")
over(ALL_TABLES, "undirected", PLAIN, edges=both_ways(PLAIN_EDGES), directed=False)
over(
    ALL_TABLES,
    "ids as strings because asked",
    PLAIN,
    edges=[(str(u), str(v), w) for u, v, w in PLAIN_EDGES],
    ids="string",
)
for each, (file, write, first_id) in DECLARED.items():
    if each == "metis":
        edges = both_ways(PLAIN_EDGES)
        content = write([(str(u), str(v), str(w)) for u, v, w in edges])
        good("integers: metis", file, content, edges, "uint32")
        good("reversed: metis", file, content, edges, directed="reversed")
        continue
    shift = 1 - first_id
    edges = [(u - shift, v - shift, w) for u, v, w in PLAIN_EDGES]
    content = write([(str(u), str(v), str(w)) for u, v, w in edges])
    good(f"integers: {each}", file, content, edges, None if each.startswith("npz") else "uint32")
    good(f"reversed: {each}", file, content, backwards(edges), directed="reversed")
    good(f"undirected: {each}", file, content, both_ways(edges), directed=False)
    bad(
        f"columns of a format without columns: {each}",
        file,
        content,
        "`graph.columns` belongs to formats",
        hint="remove `graph.columns`",
        columns={"source": "from"},
    )
MATRIX = "%%MatrixMarket matrix coordinate"
for name, file, content, edges in (
    ("text", "e.txt", "1 2\n2 3\n", NO_WEIGHTS),
    ("csv", "e.csv", "from,to\n1,2\n2,3\n", NO_WEIGHTS),
    ("parquet", "e.parquet", writers.parquet([("1", "2"), ("2", "3")]), NO_WEIGHTS),
    ("networkx", "e.edgelist", "1 2 {}\n2 3 {}\n", NO_WEIGHTS),
    ("dimacs colouring", "e.col", "p edge 3 2\ne 1 2\ne 2 3\n", both_ways(NO_WEIGHTS)),
    ("pattern", "e.mtx", f"{MATRIX} pattern general\n3 3 2\n1 2\n2 3\n", NO_WEIGHTS),
    ("metis by its name alone", "e.graph", "3 2\n2\n1 3\n2\n", both_ways(NO_WEIGHTS)),
):
    good(f"no weights: {name}", file, content, edges, "uint32")
good("metis by name of the format", "e.txt", "3 2\n2\n1 3\n2\n", both_ways(NO_WEIGHTS), format="metis")
good(
    "symmetric matrix",
    "e.mtx",
    f"{MATRIX} integer symmetric\n3 3 2\n2 1 5\n3 2 6\n",
    both_ways(TWO),
    "uint32",
)

# Ids come back unchanged.

ZEROS = [("007", "7", "5"), ("7", "010", "6"), ("010", "007", "7")]
over(ALL_TABLES, "leading zeros", ZEROS, edges=[("007", "7", 5), ("7", "010", 6), ("010", "007", 7)])
AS_INTEGERS = "leading zeros read as integers because asked"
over(PLAIN_LINES, AS_INTEGERS, ZEROS, edges=[(7, 10, 6), (10, 7, 7)], ids="integer")
over(PLAIN_LINES, "plus signs", [("+7", "7", "5"), ("7", "8", "6")], edges=[("+7", "7", 5), ("7", "8", 6)])
over(PLAIN_LINES, "zeros alone", [("00", "0", "5"), ("0", "1", "6")], edges=[("00", "0", 5), ("0", "1", 6)])
MANY = [(str(i), str(i + 1), "5") for i in range(1500)]
for late, what in (("007", "a late leading zero"), ("+7", "a late plus sign")):
    formats = ["text", "csv", "csv-bare", "semicolon", "networkx", "csv-gz", "csv-zip", "csv-utf16"]
    over(formats, what, [*MANY, (late, "8", "5")], f"`{late}`", at=1501, hint="graph.ids: string")
over(
    ["text", "csv", "csv-gz"],
    "a late leading zero, ids asked for as strings",
    [*MANY, ("007", "8", "5")],
    edges=[*((u, v, 5) for u, v, _ in MANY), ("007", "8", 5)],
    ids="string",
)
over(
    ["text", "csv", "csv-gz"],
    "a late leading zero, ids asked for as integers",
    [*MANY, ("00070", "8", "5")],
    edges=[*((i, i + 1, 5) for i in range(1500)), (70, 8, 5)],
    ids="integer",
)
NAMES = [("Köln", "A-1", "5"), ("A-1", "12B", "6")]
over(ALL_TABLES, "names", NAMES, edges=[("Köln", "A-1", 5), ("A-1", "12B", 6)])
STOPS = [("12B", "7A", "5"), ("7A", "3-1", "6")]
over(ALL_TABLES, "names that begin with digits", STOPS, edges=[("12B", "7A", 5), ("7A", "3-1", 6)])
# A no-break space is no white space: the two names are two vertices.
over(
    ["text", "csv", "networkx", "parquet", "pipe", "csv-gz"],
    "no-break spaces belong to names",
    [("A\u00a0", "A", "5"), ("A", "\u3000B\u00a0C", "6")],
    edges=[("A\u00a0", "A", 5), ("A", "\u3000B\u00a0C", 6)],
)
MIXED = [("1", "2", "5"), ("2", "depot", "6"), ("depot", "1", "7")]
MIXED_EDGES = [("1", "2", 5), ("2", "depot", 6), ("depot", "1", 7)]
over(LINES, "numbers and names", MIXED, "`depot`", at=2, hint="graph.ids: string")
over(PLAIN_LINES, "numbers and names, asked for as strings", MIXED, edges=MIXED_EDGES, ids="string")
LATE_NAME = [*MANY, ("depot", "8", "5")]
over(
    ["text", "csv", "networkx", "csv-gz"],
    "a late name",
    LATE_NAME,
    "`depot`",
    at=1501,
    hint="graph.ids: string",
)
over([*PLAIN_LINES, *TYPED], "a negative id", [*PLAIN, ("-3", "1", "8")], "`-3`", at=4)
over(["dimacs", "matrix-market"], "an id above the count", PLAIN, edges=PLAIN_EDGES)
over(PLAIN_LINES, "a decimal id", [*PLAIN, ("3.5", "1", "8")], "`3.5`", at=4)
BEYOND = [*PLAIN, (str(2**63), "1", "8")]
over(PLAIN_LINES, "an id beyond 64 bits", BEYOND, str(2**63), at=4, hint="graph.ids: string")
LARGEST = [(str(2**63 - 1), "0", "8")]
over(["text", "csv", "parquet", "networkx"], "the largest id", LARGEST, edges=[(2**63 - 1, 0, 8)])
over(["text", "csv", "networkx"], "an id of 5,000 digits", [("9" * 5000, "1", "8"), *PLAIN], "999", at=1)
over(["text", "csv"], "exponents as ids", [("1e3", "2", "5"), ("2", "3", "6")], "`1e3`", at=1)
over(CELLS, "an empty id", [*PLAIN, ("3", "", "8")], "empty", at=4)
NULL_ID = writers.parquet([("1", "2", "5"), ("", "3", "6")])
bad("a null id: parquet", "e.parquet", NULL_ID, "row 2", "null", hint="unreadable")
TWO_TYPES = writers.parquet([("1", "A", "5"), ("2", "B", "6")])
bad("ids of two types: parquet", "e.parquet", TWO_TYPES, "source", "target", hint="graph.ids: string")
good(
    "ids of two types, asked for as strings: parquet",
    "e.parquet",
    TWO_TYPES,
    [("1", "A", 5), ("2", "B", 6)],
    ids="string",
)
FLOATS = writers.parquet_of(pa.table({"source": [1.0, 2.0], "target": [2.0, 3.0], "weight": [5, 6]}))
bad("ids that are floats: parquet", "e.parquet", FLOATS, "source", "double")
CODED = {
    key: pa.array(ids).dictionary_encode() for key, ids in (("source", ["07", "8"]), ("target", ["8", "9"]))
}
good(
    "ids in a dictionary: parquet",
    "e.parquet",
    writers.parquet_of(pa.table({**CODED, "weight": [5, 6]})),
    [("07", "8", 5), ("8", "9", 6)],
)
for each in ("dimacs", "matrix-market"):
    file, write, _ = DECLARED[each]
    for value in ("0", "4", "-1", "x", "1.5", "99999999999999999999"):
        content = write(PLAIN).replace(b"3 1 7", f"3 {value} 7".encode())
        bad(f"id {value}: {each}", file, content, place(each, 3), value)

# Weights: exact, or refused. Each row of these tables has the weights of two edges.


def two(*weights: object) -> list[tuple]:
    """Return the rows of two edges with these weights, or the edges if these are numbers."""
    ends = [("1", "2"), ("2", "3")] if isinstance(weights[0], str) else [(1, 2), (2, 3)]
    return [(*end, weight) for end, weight in zip(ends, weights, strict=True)]


FEW, LETTERS = ["text", "csv", "networkx"], ["text", "csv"]
ROUNDED = float(np.float32(0.1))
for formats, name, written, weights, dtype, options in (
    (PLAIN_LINES, "decimals that floats hold", ("0.5", "1.25"), (0.5, 1.25), "uint32", {}),
    ([*PLAIN_LINES, *TYPED], "decimals that no float holds", ("0.1", "0.2"), (0.1, 0.2), None, {}),
    (PLAIN_LINES, "more than float32 holds", ("16777217", "0.5"), (16777217.0, 0.5), "uint32", {}),
    (
        LETTERS,
        "rounded to float64",
        ("9007199254740993", "0.5"),
        (2.0**53, 0.5),
        "float64",
        {"dtype": "float64"},
    ),
    (PLAIN_LINES, "rounded", ("0.1", "16777217"), (ROUNDED, 16777216.0), "float32", {"dtype": "float32"}),
    (FEW, "4294967294", ("4294967294", "1"), (4294967294, 1), "uint32", {}),
    (FEW, "4294967295", ("4294967295", "1"), (4294967295, 1), "uint64", {}),
    (FEW, "-1", ("-1", "1"), (-1, 1), "int32", {}),
    (FEW, "-2147483649", ("-2147483649", "1"), (-2147483649, 1), "int64", {}),
    (FEW, "18446744073709551614", ("18446744073709551614", "1"), (2**64 - 2, 1), "uint64", {}),
    (FEW, "0", ("0", "1"), (0, 1), "uint32", {}),
    (FEW, "-0", ("-0", "1"), (0, 1), "uint32", {}),
    (FEW, "+5", ("+5", "1"), (5, 1), "uint32", {}),
    (LETTERS, "5.", ("5.", "1"), (5.0, 1.0), "uint32", {}),
    (LETTERS, ".5", (".5", "1"), (0.5, 1.0), "uint32", {}),
    (LETTERS, "5e2", ("5e2", "1"), (500.0, 1.0), "uint32", {}),
    (LETTERS, "5E-1", ("5E-1", "1"), (0.5, 1.0), "uint32", {}),
    (LETTERS, "-0.5", ("-0.5", "1"), (-0.5, 1.0), "int32", {}),
    (LETTERS, "negative, scaled", ("-0.1", "0.2"), (-1, 2), "int32", {"scale": 10}),
    (LETTERS, "exponents, scaled", ("1e-3", "2.5e1"), (1, 25000), "uint32", {"scale": 1000}),
    (LETTERS, "above 32 bits, scaled", ("4294967295.5", "1"), (42949672955, 10), "uint64", {"scale": 10}),
):
    chosen = {"weights": options} if options else {}
    over(formats, f"weights {name}", two(*written), edges=two(*weights), dtype=dtype, **chosen)
over(
    FEW,
    "decimals late",
    [*MANY, ("0", "9", "0.1")],
    edges=[*((i, i + 1, 5.0) for i in range(1500)), (0, 9, 0.1)],
    dtype="uint32",
)
for formats, name, written, says, hint, options in (
    (LETTERS, "beyond float64", ("9007199254740993", "0.5"), ["9007199254740993"], "graph.weights", {}),
    (FEW, "between the integer types", ("-1", str(2**63)), [str(2**63)], "graph.weights.dtype", {}),
    (FEW, "of 21 digits", ("499999999999999999999", "1"), ["499999999999999999999"], (), {}),
    (
        ["text", "csv", "parquet", "semicolon"],
        "decimal, asked for as uint32",
        ("0.5", "1.5"),
        ["0.5", "uint32"],
        "graph.weights.dtype",
        {"dtype": "uint32"},
    ),
    (
        ["text", "csv", "parquet"],
        "negative, asked for as uint32",
        ("-5", "-5"),
        ["-5", "uint32"],
        "graph.weights.dtype: int32",
        {"dtype": "uint32"},
    ),
):
    over(
        formats,
        f"weights {name}",
        two(*written),
        *says,
        hint=hint,
        **({"weights": options} if options else {}),
    )
bad(
    "weights beyond float64: networkx",
    "e.edgelist",
    "0 1 {'weight': 9007199254740993}\n1 2 {'weight': 0.5}\n",
    "9007199254740993",
    hint="graph.weights",
)
for value in ("nan", "NaN", "inf", "-Infinity"):
    over(PLAIN_LINES, f"weight {value}", [*PLAIN, ("1", "3", value)], value, at=4)
for value in ("nan", "inf"):
    over(TYPED, f"weight {value}", [("1", "2", "0.5"), ("1", "3", value)], value, "finite", at=2)
    bad(f"weight {value}: dimacs", "e.gr", dimacs([*PLAIN, ("1", "3", value)]), "line 6", value)
    bad(
        f"weight {value}: matrix-market", "e.mtx", matrix_market([*PLAIN, ("1", "3", value)]), "line 7", value
    )
    for layout in ("csr", "csc", "coo"):
        content = writers.npz([("0", "1", "0.5"), ("1", "2", value)], layout)
        bad(f"weight {value}: npz-{layout}", "e.npz", content, value, "finite")
for formats, values in (
    (["semicolon", "csv-gz"], ("1e400", "1e-400", "1e-310", "123456789012345678901234567890e300")),
    (["pipe", "csv-zip"], ("abc", "0x10", "1_000", "5km", "--5", "1.2.3", "\u0661")),
):
    for value in values:
        rows = [*PLAIN, ("1", "3", value)]
        over([*FEW, *formats, "dimacs", "matrix-market"], f"weight {value}", rows, value, at=4)
over(CELLS, "an empty weight", [*PLAIN, ("1", "3", "")], at=4, hint="unreadable: skip")
over(TYPED, "a null weight", [*PLAIN, ("1", "3", "")], "null", at=4, hint="unreadable: skip")
SCALED = [("1", "2", "0.125"), ("2", "3", "7"), ("3", "4", "1.5")]
over(
    [*FEW, "semicolon", "csv-gz"],
    "three decimal places are exact",
    SCALED,
    edges=[(1, 2, 125), (2, 3, 7000), (3, 4, 1500)],
    dtype="uint32",
    weights={"scale": 1000},
)
over(
    [*FEW, "semicolon", "csv-gz"],
    "a third decimal place of two",
    SCALED,
    "0.125",
    at=1,
    hint="graph.weights.scale",
    weights={"scale": 100},
)
for name, options in (
    ("a scale that is no power of ten", {"scale": 60}),
    ("a scale and a float", {"scale": 1000, "dtype": "float32"}),
):
    over(["text"], name, SCALED, "scale", names_file=False, weights=options)
good("default weight", "e.txt", "1 2\n", [(1, 2, 2.5)], "uint32", weights={"default": 2.5})
over(
    [*FEW, "parquet"],
    "weights left out because asked",
    PLAIN,
    edges=[(u, v, 1) for u, v, _ in PLAIN_EDGES],
    dtype="uint32",
    weights={"column": "none"},
)

# Columns under a header: exactly one reading, or the run stops.

bad(
    "two numbers beside the ends",
    "e.csv",
    "edge_id,from_stop,to_stop,attr_x\n"
    + "".join(f"{i},{i % 50 + 9},{i * 7 % 50 + 9},{i % 90}\n" for i in range(300)),
    "`edge_id`",
    "`attr_x`",
    hint="weights: {column: ",
)
good(
    "travel_s among edges whose ids look like vertices",
    "e.csv",
    "edge_id,from_stop,to_stop,travel_s\n"
    + "".join(f"{i},{i % 7},{i % 11 + 50},{i % 5}\n" for i in range(77)),
    [(i % 7, i % 11 + 50, i % 5) for i in range(77)],
)
for header in (
    *("from_id,to_id,km", "node1,node2,km", "node_a,node_b,weight", "i,j,cost", "von,nach,km"),
    *("from_stop,to_stop,km", "fromStop,toStop,km", "From Stop,To Stop,KM", "FROM_STOP,TO_STOP,Km"),
    *('"from stop","to stop","km"', "origin,destination,minutes", "u,v,weight", "src,dst,cost"),
    *("tail,head,distance", "source_id,target_id,travel_time"),
):
    good(f"header {header}", "e.csv", f"{header}\n1,2,5\n2,3,6\n", TWO, "uint32")
XY, NAMED_ENDS = "x,y,z\n1,2,5\n", {"source": "x", "target": "y"}
for name, content, edges, options in (
    ("km under an id", "id,from,to,km\n1,10,20,5\n2,20,30,6\n", [(10, 20, 5), (20, 30, 6)], {}),
    (
        "travel_s",
        "edge_id,from_stop,to_stop,travel_s\n1,10,20,5\n2,20,30,6\n",
        [(10, 20, 5), (20, 30, 6)],
        {},
    ),
    ("columns in another order", "km,to,from\n5,2,1\n6,3,2\n", TWO, {}),
    ("ends that differ in one word", "from_stop,to_stop,end,km\n1,2,8,5\n2,3,9,6\n", TWO, {}),
    ("no ends, columns named", XY, ONE, {"columns": NAMED_ENDS, "weights": {"column": "z"}}),
    ("ends named, a word left", "x,y,z\n1,2,A\n", [(1, 2, 1)], {"columns": NAMED_ENDS}),
    (
        "words of another language, named",
        "zdroj,cil,km\n1,2,5\n",
        ONE,
        {"columns": {"source": "zdroj", "target": "cil"}},
    ),
    ("a column that is not wanted", "from,to,lanes\n1,2,5\n", [(1, 2, 1)], {"weights": {"column": "none"}}),
    ("a column of words is no weight", "from,to,road\n1,2,A1\n2,3,A2\n", NO_WEIGHTS, {}),
    ("words beside the weight", "from,road,to,km\n1,A1,2,5\n2,A2,3,6\n", TWO, {}),
    ("a header or an edge: an edge", "a,b\nc,d\n", [("a", "b", 1), ("c", "d", 1)], {"header": False}),
    (
        "a header or an edge: a header",
        "a,b\nc,d\n",
        [("c", "d", 1)],
        {"header": True, "columns": {"source": "a", "target": "b"}},
    ),
    ("an edge between names", "Ulm,Bonn,5\nBonn,Kiel,6\n", [("Bonn", "Kiel", 6), ("Ulm", "Bonn", 5)], {}),
    (
        "a header of numbers",
        "1,2,3\n10,20,5\n",
        [(10, 20, 5)],
        {"header": True, "columns": {"source": "1", "target": "2"}, "weights": {"column": "3"}},
    ),
):
    good(name, "e.csv", content, edges, **options)
for name, content, says, hint, options in (
    (
        "two pairs of ends",
        "from_stop,to_stop,from_zone,to_zone,km\n1,2,8,9,5\n",
        ("from_stop", "to_zone"),
        "columns: {source: ",
        {},
    ),
    ("no ends", XY, ("x", "y"), "columns: {source: ", {}),
    ("ends named, a number left", XY, ("z",), "weights: {column: z}", {"columns": NAMED_ENDS}),
    ("words of another language", "zdroj,cil,km\n1,2,5\n", ("`zdroj`", "`cil`"), "columns: {source: ", {}),
    ("a header or an edge", "a,b\nc,d\n", ("header",), "graph.header", {}),
):
    bad(name, "e.csv", content, *says, hint=hint, **options)
for name, file, content in (
    ("csv", "e.csv", "from,to,length,time\n1,2,5,50\n"),
    (
        "parquet",
        "e.parquet",
        writers.parquet_of(pa.table({"from": [1], "to": [2], "length": [5], "time": [50]})),
    ),
    ("semicolon", "e.csv", "from;to;length;time\n1;2;5;50\n"),
    ("tsv", "e.csv", "from\tto\tlength\ttime\n1\t2\t5\t50\n"),
    ("spaced", "e.csv", "from to length time\n1 2 5 50\n"),
    ("pipe", "e.csv", "from|to|length|time\n1|2|5|50\n"),
    ("gz", "e.csv", gzip.compress(b"from,to,length,time\n1,2,5,50\n")),
    ("utf16", "e.csv", writers.utf16(b"from,to,length,time\n1,2,5,50\n")),
    ("networkx", "e.edgelist", "1 2 {'length': 5, 'time': 50}\n"),
):
    bad(f"length and time: {name}", file, content, "length", "time", hint="weights: {column: length}")
    good(f"length and time, time named: {name}", file, content, [(1, 2, 50)], weights={"column": "time"})
for file, content in (
    ("e.parquet", writers.parquet_of(pa.table({"from": [1], "to": [2], "lanes": [5]}))),
    ("e.csv", "from,to,lanes\n1,2,5\n"),
    ("e.edgelist", "1 2 {'lanes': 5}\n"),
):
    bad(f"lanes: {file}", file, content, "lanes", hint="weights: {column: lanes}")
_STREAM = writers.arrow_stream([("Ulm", "Bonn", "5"), ("Bonn", "Kiel", "6")])
_OFFSETS = struct.pack("<3i", 0, 3, 7)
assert _OFFSETS in _STREAM
OUTSIDE = _STREAM.replace(_OFFSETS, struct.pack("<3i", 0, 2**30, 7))
bad("offsets of names that lead outside: arrow", "e.arrows", OUTSIDE)
bad("names that are not UTF-8: arrow", "e.arrows", _STREAM.replace(b"UlmBonn", b"U\xff\xfeBonn"), "UTF-8")
NO_ROWS = pa.table({"from": pa.array([], pa.int64()), "to": pa.array([], pa.int64())})
for name, content, says in (
    (
        "names of columns that are not UTF-8",
        writers.parquet([("1", "2", "5")]).replace(b"weight", b"w\xff\xfeght"),
        ["UTF-8"],
    ),
    (
        "two columns with one name",
        writers.parquet_of(pa.table([[1], [2], [5], [6]], names=["from", "to", "km", "km"])),
        ["km"],
    ),
    (
        "weights of text",
        writers.parquet_of(pa.table({"from": [1], "to": [2], "km": ["5"]})),
        ["km", "string"],
    ),
    ("no rows", writers.parquet_of(NO_ROWS), ["no edges"]),
):
    bad(f"{name}: parquet", "e.parquet", content, *says)

# Columns without a header: source, target, weight.

for name, separator in (("csv", ","), ("text", " "), ("semicolon", ";"), ("tabs", "\t")):

    def table(rows: Sequence[Sequence[object]], separator: str = separator) -> str:
        return "".join(separator.join(map(str, row)) + "\n" for row in rows)

    words = [(1, 2, 5, "a"), (2, 3, 6, "b")]
    good(f"further columns of words are not used: {name}", "e.txt", table(words), TWO)
    numbers = [(1, 2, 5, 9), (2, 3, 6, 9)]
    fourth = {"weights": {"column": 4}}
    good(
        f"the fourth column is the weight: {name}", "e.txt", table(numbers), [(1, 2, 9), (2, 3, 9)], **fourth
    )
    numbered = table([(i, i % 50 + 1000, i * 7 % 50 + 1000, i % 9 + 1) for i in range(200)])
    bad(f"the id of an edge first: {name}", "e.txt", numbered, "nothing says", hint="columns: {source: ")
    good(f"a row of 1,503 columns: {name}", "e.txt", table([(1, 2, 5, *["x"] * 1500)]), ONE)
    # A header of one letter each may be an edge between vertices of these names.
    letters = [("u", "v"), ("v", "w"), ("w", "u")]
    bad(f"vertices called u and v: {name}", "e.txt", table(letters), "line 1", hint="graph.header")
    edges = [(u, v, 1) for u, v in letters]
    good(f"vertices called u and v, no header: {name}", "e.txt", table(letters), edges, header=False)
lightest: dict[tuple[int, int], int] = {}
for i in range(200):
    ends = i % 50 + 1000, i * 7 % 50 + 1000
    lightest[ends] = min(i % 9 + 1, lightest.get(ends, 9))
good(
    "the id of an edge first, columns named: csv",
    "e.csv",
    "".join(f"{i},{i % 50 + 1000},{i * 7 % 50 + 1000},{i % 9 + 1}\n" for i in range(200)),
    [(u, v, w) for (u, v), w in lightest.items() if u != v],
    columns={"source": "2", "target": "3"},
    weights={"column": 4},
)
good("one row", "e.csv", "1,2,5\n", ONE)

# Delimiters, headers and decimal commas.

for format_name, separator in (
    ("text", " "),
    ("csv", ","),
    ("csv-bare", ","),
    ("semicolon", ";"),
    ("pipe", "|"),
):
    file, write = TABLES[format_name]
    for many, n_cells in (("few", 2), ("many", 4)):
        row = separator.join("3456"[:n_cells]).encode() + b"\n"
        says = place(format_name, 4), f"{n_cells} columns", "3"
        bad(f"too {many} cells: {format_name}", file, write(PLAIN) + row, *says, hint="unreadable: skip")
bad("comma or semicolon", "e.csv", "1,5;2,5;3\n1,6;2,7;4\n", "comma", "semicolon", hint="graph.delimiter")
COMMAS, HALVES = "1;2;1,5\n2;3;0,5\n", [(1, 2, 1.5), (2, 3, 0.5)]
for name, file, content, edges, options in (
    ("comma or semicolon: semicolon", "e.csv", COMMAS, HALVES, {"delimiter": ";"}),
    ("a decimal comma rules out the comma", "e.csv", COMMAS, HALVES, {}),
    ("a decimal comma: tabs", "e.tsv", "from\tto\tkm\n1\t2\t1,5\n", [(1, 2, 1.5)], {}),
    ("a decimal comma: text", "e.txt", "1 2 1,5\n2 3 2\n", [(1, 2, 1.5), (2, 3, 2.0)], {}),
    (
        "a decimal comma, scaled",
        "e.csv",
        "1;2;1,255\n2;3;0,5\n",
        [(1, 2, 1255), (2, 3, 500)],
        {"weights": {"scale": 1000}},
    ),
    ("a decimal comma in quotes between commas", "e.csv", 'from,to,w\n1,2,"1,5"\n2,3,"0,5"\n', HALVES, {}),
    ("the same without a header", "e.csv", '1,2,"1,5"\n2,3,"0,5"\n', HALVES, {}),
    ("the same with the delimiter", "e.csv", 'from,to,w\n1,2,"1,5"\n2,3,"0,5"\n', HALVES, {"delimiter": ","}),
    ("a decimal comma as asked for", "e.csv", 'from,to,w\n1,2,"1,200"\n', [(1, 2, 1.2)], {}),
    ("a decimal comma in quotes between semicolons", "e.csv", '1;2;"1,5"\n2;3;"0,5"\n', HALVES, {}),
):
    good(name, file, content, edges, "uint32", decimal="comma", **options)
for name, written, hint in (
    ("a decimal comma that is not announced", "1,5", "graph.decimal: comma"),
    ("a comma between thousands", "1,200", "if it is 1200, remove"),
    ("commas between thousands", "1,200,300", "thousands"),
    ("thousands and decimals", "1,200.50", "thousands"),
):
    bad(name, "e.csv", f'from,to,w\n1,2,"{written}"\n', "line 2", f"`{written}`", hint=hint)
bad("points between thousands", "e.csv", "1;2;1.200,5\n", "`1.200,5`", hint="thousands", decimal="comma")
bad("a number with a comma is not passed over", "e.csv", 'from,to,flow\n1,2,"1,5"\n', "`flow`", hint="flow")
for word, separator in ((",", ","), (";", ";"), ("|", "|"), ("tab", "\t")):
    content = separator.join("125") + "\n" + separator.join("236") + "\n"
    good(f"delimiter {word} named", "e.txt", content, TWO, delimiter=word)
OTHER = {"hint": "graph.delimiter", "delimiter": ";"}
bad("another delimiter than named", "e.csv", "1,2,5\n2,3,6\n", "line 1", **OTHER)
bad("a delimiter that is not known", "e.csv", "from^to^w\nA^B^1\n", "`from^to^w`", hint="graph.delimiter")
INDEXED = {"columns": {"source": "0", "target": "1"}, "weights": {"column": "2"}}
good("the index of a data frame", "e.csv", ",0,1,2\n0,1,2,5\n1,2,3,6\n", TWO, **INDEXED)
for name, file, content, edges in (
    (
        "tabs around names with blanks",
        "e.tsv",
        "from\tto\tkm\nNew York\tSan José\t5\n",
        [("New York", "San José", 5)],
    ),
    (
        "quotes around names with commas",
        "e.csv",
        'from,to,km\n"Ulm, Donau","5"" West",5\n',
        [("Ulm, Donau", '5" West', 5)],
    ),
    ("blanks around cells", "e.csv", "from , to , km\n1 , 2 , 5\n", ONE),
    ("comments before the header", "e.csv", "# made in 2026\nfrom,to,km\n1,2,5\n", ONE),
    ("comments and blank lines: text", "e.txt", "# made\n\n1 2 5\n% more\n2 3 6\n\n", TWO),
    ("a header in a comment: text", "e.txt", "# FromNodeId\tToNodeId\n1\t2\n2\t3\n", NO_WEIGHTS),
    ("a header in a text", "e.txt", "von nach km\n1 2 5\n", ONE),
    ("vertices called a and b", "e.csv", "a,b\nb,c\nc,a\n", [("a", "b", 1), ("b", "c", 1), ("c", "a", 1)]),
    ("vertices called i and j, weighted", "e.csv", "i,j,5\nj,k,6\n", [("i", "j", 5), ("j", "k", 6)]),
    ("an empty last cell: tabs", "e.tsv", "from\tto\tkm\troad\n1\t2\t5\t\n2\t3\t6\tA1\n", TWO),
    ("an empty last cell: csv", "e.csv", "from,to,km,road\n1,2,5,\n2,3,6,A1\n", TWO),
    ("names that a program made up: csv", "e.csv", "f0,f1,f2\n1,2,5\n", ONE),
    (
        "names that a program made up: parquet",
        "e.parquet",
        writers.parquet_of(pa.table([[1], [2], [5]], names=["0", "1", "2"])),
        ONE,
    ),
):
    good(name, file, content, edges)
good(
    "header false with a header of words",
    "e.csv",
    "from,to\nulm,bonn\n",
    [("from", "to", 1), ("ulm", "bonn", 1)],
    header=False,
)
good("names that are numbers are no names", "e.csv", "0,1,2\n2,3,6\n", [(2, 3, 6)], header=True)
ENDS_HINT = "columns: {source: "
bad(
    "a header of other words in a text", "e.txt", "zdroj cil km\n1 2 5\n", "line 1", "`zdroj`", hint=ENDS_HINT
)
bad("a header that is not announced", "e.csv", "from,to,km\n1,2,5\n", "line 1", header=False)

# Encodings.

for name, encoding, ends in (
    ("latin-1 named", "latin-1", ("Köln", "Jülich")),
    ("utf-16 without a mark, named", "utf-16-le", ("Köln", "B")),
):
    content = "from,to,km\n{},{},5\n".format(*ends).encode(encoding)
    good(name, "e.csv", content, [(*ends, 5)], encoding=encoding)
LATIN = "von,nach,Länge\nA,B,5\n".encode("latin-1")
bad("latin-1 not named, in a header", "e.csv", LATIN, "UTF-8", hint="Länge")
bad("utf-16 cut in the middle of a character", "e.csv", writers.utf16(b"from,to,km\n1,2,5\n")[:-1], "UTF-16")
bad("utf-32", "e.csv", "from,to,km\n1,2,5\n".encode("utf-32"), hint="graph.")
bad(
    "an unknown encoding",
    "e.csv",
    "from,to,km\n1,2,5\n",
    "graph.encoding",
    hint="utf-8",
    names_file=False,
    encoding="klingon",
)
KOELN = "from,to,km\nKöln,B,5\n".encode("latin-1")
bad("not the encoding that is named", "e.csv", KOELN, "UTF-8", hint="graph.encoding", encoding="utf-8")
good("a mark: text", "e.txt", b"\xef\xbb\xbf1 2 5\n", ONE)
good("a mark: networkx", "e.edgelist", b"\xef\xbb\xbf1 2 {'weight': 5}\n", ONE)

# Rows that cannot be read.

ODD = "from,to,km\n1,2,5\n2,3\n3,4,x\n4,5,nan\n,6,7\n6,7,\n7,1,8,9\n7,8,9\n"
NETWORKX_ODD = "1 2 {'weight': 5}\n2 3\n3 4 {}\n4 5 {'weight': nan}\n7 8 {'weight': 9}\n"
for file, content, skipped in (
    ("e.csv", ODD, (3, 4, 5, 6, 7, 8)),
    ("e.csv.gz", gzip.compress(ODD.encode()), (3, 4, 5, 6, 7, 8)),
    ("e.txt", "1 2 5\n2 3\n3 4 x\n4 5 inf\n6 7 8 9\n7 8 9\n", (2, 3, 4, 5)),
    ("e.edgelist", NETWORKX_ODD, (2, 3, 4)),
):
    good(f"skipped: {file}", file, content, [(1, 2, 5), (7, 8, 9)], "uint32", skipped, unreadable="skip")
TYPED_ODD = [("1", "2", "0.5"), ("", "3", "6"), ("3", "4", ""), ("4", "5", "nan"), ("7", "8", "9.5")]
good(
    "skipped: parquet",
    "e.parquet",
    writers.parquet(TYPED_ODD),
    [(1, 2, 0.5), (7, 8, 9.5)],
    None,
    (2, 3, 4),
    unreadable="skip",
)
good("nothing to skip", "e.csv", csv(PLAIN), PLAIN_EDGES, "uint32", unreadable="skip")
for each in ("dimacs", "matrix-market", "galois", "npz-csr"):
    file, write, first_id = DECLARED[each]
    bad(
        f"skip for a format that declares its counts: {each}",
        file,
        write(PLAIN),
        "unreadable",
        hint="graph.unreadable",
        names_file=False,
        unreadable="skip",
    )

# Declared, and checked.

bad("an edge without its reverse: metis", "e.graph", "3 2\n2 3\n1\n2\n", "1", "3", hint="graph.format")
bad("two weights for one edge: metis", "e.graph", "2 1 001\n2 5\n1 6\n", "`1`", "`2`")
NO_P_LINE = "a 1 2 5\na 2 3 6\n"
bad("dimacs without its p line, ids as strings", "e.gr", NO_P_LINE, "DIMACS", hint="p sp", ids="string")
HUGE, QUADRILLION = "499999999999999999999", "1" + "0" * 15
MOST_VERTICES, MOST_EDGES = str(2**32 - 1), str(2**48)
for what, file, content, most in (
    ("vertices: dimacs", "e.gr", "p sp {} 3\na 1 2 5\n", MOST_VERTICES),
    ("edges: dimacs", "e.gr", "p sp 3 {}\na 1 2 5\n", MOST_EDGES),
    ("vertices: matrix-market", "e.mtx", MATRIX + " real general\n{0} {0} 1\n1 2 5\n", MOST_VERTICES),
    ("vertices: metis", "e.graph", "{} 1\n2\n1\n", MOST_VERTICES),
):
    for count in (HUGE, QUADRILLION):
        bad(f"{count} {what}", file, content.format(count), count, most)
bad("too many vertices: dimacs", "e.gr", "p sp 5000000000 1\na 1 2 5\n", "5000000000")
bad("a header of 4 billion vertices with 2: metis", "e.graph", "4000000000 1\n2\n1\n", "4000000000", "2")
bad("a decimal among integers", "e.mtx", f"{MATRIX} integer general\n3 3 1\n1 2 2.5\n", "integer")
bad("bytes after the end: galois", "e.gr", writers.galois([("0", "1", "5"), ("1", "2", "6")]) + b"\0" * 8)
good(
    "floats because asked: galois",
    "e.gr",
    writers.galois([("0", "1", "0.5"), ("1", "2", "1.5")], "f"),
    [(0, 1, 0.5), (1, 2, 1.5)],
    "float32",
    weights={"dtype": "float32"},
)
SQUARE = {
    "format": np.array(b"csr"),
    "shape": np.array([3, 3]),
    "data": np.array([5, 6]),
    "indices": np.array([1, 2], np.int32),
    "indptr": np.array([0, 1, 2, 2], np.int32),
}
NPZ_FAULTS: dict[str, tuple[dict, tuple[str, ...]]] = {
    "not square": ({"shape": np.array([3, 4])}, ("3 rows", "4 columns")),
    "a column that is no vertex": ({"indices": np.array([1, 3], np.int32)}, ("3",)),
    "a negative column": ({"indices": np.array([1, -1], np.int32)}, ("-1",)),
    "rows that fall": ({"indptr": np.array([0, 2, 1, 2], np.int32)}, ("indptr",)),
    "rows that end early": ({"indptr": np.array([0, 1, 1, 1], np.int32)}, ("indptr",)),
    "too few rows": ({"indptr": np.array([0, 1, 2], np.int32)}, ("indptr",)),
    "fewer weights than columns": ({"data": np.array([5])}, ("data",)),
    "a layout that is no graph": ({"format": np.array(b"dia")}, ("dia",)),
    "complex weights": ({"data": np.array([5j, 6j])}, ("complex",)),
    "columns that are no integers": ({"indices": np.array([1.0, 2.0])}, ("indices",)),
    "no indptr": ({"indptr": None}, ("indptr",)),
    "3 dimensions": ({"shape": np.array([3, 3, 3])}, ("3",)),
}
for name, (change, says) in NPZ_FAULTS.items():
    arrays = {key: array for key, array in (SQUARE | change).items() if array is not None}
    bad(f"{name}: npz", "e.npz", writers.savez(**arrays), *says)
bad("arrays of another program: npz", "e.npz", writers.savez(a=np.arange(3), b=np.arange(3)), "scipy.sparse")
WIDE = {"indices": np.array([1, 2]), "indptr": np.array([0, 1, 2, 2])}
for name, change, weights, dtype in (
    ("64-bit indices", WIDE, (5, 6), None),
    ("decimals", {"data": np.array([0.1, 0.2])}, (0.1, 0.2), "float64"),
    ("32-bit decimals", {"data": np.array([0.5, 0.1], np.float32)}, (0.5, ROUNDED), "float32"),
):
    edges = [(u, u + 1, weight) for u, weight in enumerate(weights)]
    good(f"{name}: npz", "e.npz", writers.savez(**(SQUARE | change)), edges, dtype)

# NetworkX.

for name, content, edges, dtype in (
    (
        "cities",
        "Ulm Bonn {'weight': 5}\nBonn Kiel {'weight': 6}\n",
        [("Bonn", "Kiel", 6), ("Ulm", "Bonn", 5)],
        None,
    ),
    ("comments", "# made by hand\n1 2 {'weight': 5}\n", ONE, None),
    ("other keys", "1 2 {'road': 'A, 1', 'weight': 5}\n2 3 {'road': 'B {2}', 'weight': 6}\n", TWO, None),
    ("decimals", "1 2 {'weight': 0.1}\n", [(1, 2, 0.1)], "uint32"),
):
    good(f"{name}: networkx", "e.edgelist", content, edges, dtype)

# Containers.

BIG = csv([(str(i), str(i + 1), str(i % 97)) for i in range(4000)])
for name, (suffix, wrap) in CONTAINERS.items():
    whole = wrap(BIG)
    n = 5000 if name == "tar" else len(whole) * 2 // 3
    bad(f"cut short: csv-{name}", f"e.csv{suffix}", whole[:n])
    bad(f"cut to 20 bytes: csv-{name}", f"e.csv{suffix}", whole[:20])
for name in TYPED:
    file, write = TABLES[name]
    whole = write(PLAIN)
    for n in (len(whole) // 3, len(whole) - 9, 8):
        bad(f"cut to {n} bytes: {name}", file, whole[:n])
NUMBERS_SHORT = [uuid.UUID(int=i) for i in (1, 2)]
IDS = [f"00000000-0000-0000-0000-00000000000{i}" for i in (1, 2)]
for name, weights, stored, dtype in (
    ("decimals", pa.array([Decimal("1.50"), Decimal("0.25")], pa.decimal128(5, 2)), (1.5, 0.25), "uint32"),
    (
        "whole decimals",
        pa.array([Decimal(2**53 + 1), Decimal(2)], pa.decimal128(30, 9)),
        (2**53 + 1, 2),
        "uint64",
    ),
    (
        "tiny decimals",
        pa.array([Decimal("1E-12"), Decimal(1)], pa.decimal128(38, 20)),
        (1e-12, 1.0),
        "float64",
    ),
):
    table = pa.table(
        {
            "from": pa.array([each.bytes for each in NUMBERS_SHORT], pa.uuid()),
            "to": pa.array([each.bytes for each in NUMBERS_SHORT[::-1]], pa.uuid()),
            "km": weights,
        }
    )
    edges = [(*IDS, stored[0]), (*IDS[::-1], stored[1])]
    good(f"uuids and {name}", "e.parquet", writers.parquet_of(table), edges, dtype)
    good(f"uuids and {name}: arrow", "e.arrow", writers.arrow_of(table, pa.ipc.new_file), edges, dtype)
INEXACT = pa.array([Decimal("12345678901234567890123"), Decimal("0.5")], pa.decimal128(38, 9))
bad(
    "a decimal beside a large one",
    "e.parquet",
    writers.parquet_of(pa.table({"from": [1, 2], "to": [2, 3], "km": INEXACT})),
    "row 1",
    "12345678901234567890123",
    hint="float64",
)
for name in ("galois", "npz-csr"):
    file, write, _ = DECLARED[name]
    whole = write([("0", "1", "5"), ("1", "2", "6")])
    for n in (len(whole) // 2, len(whole) - 3):
        bad(f"cut to {n} bytes: {name}", file, whole[:n])
for name, several in (("zip", writers.zipped), ("tar", writers.tarred)):
    two_members = several(text(PLAIN), "a.txt", **{"b.txt": text(PLAIN)})
    bad(f"two members: {name}", f"e.{name}", two_members, "a.txt", "b.txt")
    good(f"a member in a folder: {name}", f"e.{name}", several(text(PLAIN), "data/a.txt"), PLAIN_EDGES)
    bad(f"a member that is empty: {name}", f"e.{name}", several(b""), "empty")
    good(f"a matrix: {name}", f"e.{name}", several(matrix_market(PLAIN), "a.mtx"), PLAIN_EDGES)
bad("no member: zip", "e.zip", b"PK\x05\x06" + bytes(18), "zip archive without a file")
for name, after in (
    ("one byte", b"x"),
    ("a line end", b"\n"),
    ("zeros and text", b"\0\0garbage that is longer"),
):
    shown = after.strip(b"\0").decode().replace("\n", "\\n")[:20]
    bad(
        f"after gzip: {name}",
        "e.csv.gz",
        gzip.compress(BIG) + after,
        "after its",
        f"`{shown}`",
        hint="gzip -dc",
    )
for name, cut in (("a header", 5), ("its data", 30)):
    member = gzip.compress(BIG)
    bad(f"a second member of gzip that is cut in {name}", "e.csv.gz", member + member[:cut], "cut short")
good("zeros after gzip", "e.txt.gz", gzip.compress(b"1 2 5\n2 3 6\n") + bytes(99), TWO)
DAMAGED = bytes(b ^ (i == 2000) * 255 for i, b in enumerate(gzip.compress(BIG, mtime=0)))
bad("damaged in the middle: csv-gz", "e.csv.gz", DAMAGED)
for suffix, compress in (("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)):
    good(f"two members: {suffix}", f"e.txt.{suffix}", compress(b"1 2 5\n") + compress(b"2 3 6\n"), TWO)
bad("gzip of nothing", "e.txt.gz", gzip.compress(b""), "empty")

# No edge list at all.

bad("empty", "e.txt", b"", "empty")
FORMATS = ("csv", "parquet", "dimacs", "metis")
bad("random bytes", "e.bin", bytes(np.random.default_rng(5).integers(0, 256, 4096, np.uint8)), hint=FORMATS)
bad("two control characters", "e.txt", b"\x1f\x1f")
MARK = "\ufeff"
for name, file, content in (
    ("a text", "e.txt", f"1 2 5\n{MARK}2 3 6\n"),
    ("a text of names", "e.txt", f"{MARK}A B 5\n{MARK}B C 6\n"),
    ("a text, before a comment", "e.txt", f"A B 5\n{MARK}# C\n"),
    ("a table", "e.csv", f"{MARK}A,B,5\n{MARK}C,D,6\n"),
    ("a table with Windows line ends", "e.csv", f"A,B,5\r\n{MARK}C,D,6\r\n"),
    ("an edge list of NetworkX", "e.txt", f"1 2 {{'weight': 5}}\n{MARK}2 3 {{'weight': 5}}\n"),
    ("a DIMACS file", "e.gr", f"p sp 3 2\n{MARK}a 1 2 5\na 2 3 6\n"),
    ("a matrix", "e.mtx", f"{MATRIX} real general\n3 3 1\n1 2 5\n{MARK}\n"),
    ("a METIS graph", "e.graph", f"2 1\n2\n{MARK}1\n"),
    ("a text that begins with two of them", "e.txt", f"{MARK}{MARK}A B 5\n"),
    ("a table that begins with two of them", "e.csv", f"{MARK}{MARK}A,B,5\n"),
):
    bad(f"a byte order mark inside of {name}", file, content, "line", "byte order mark", hint="one by one")
good("a byte order mark inside of a name", "e.txt", f"A B{MARK} 5\n", [("A", f"B{MARK}", 5)])
bad("a control character in a text", "e.txt", b"1 2 5\n2\x013 6\n", "line 2")
bad("an unknown format", "e.txt", b"1 2 5\n", "`txt`", hint="`text`", names_file=False, format="txt")
bad("text named as scipy-npz", "e.txt", b"1 2 5\n", format="scipy-npz")

# Lines that no memory holds.

LONG = " " * 2**24
TOO_LONG = "16,777,216 bytes"
RAISE = "graph.max_line_bytes"
bad("a long line without an end: text", "e.txt", b"1" * (2**24 + 1), "line 1", TOO_LONG, hint=RAISE)
bad("a long row: csv", "e.csv", f"1,2,5\n2,3,6{LONG}\n", "line 2", TOO_LONG, hint=RAISE)
bad("a long line: dimacs", "e.gr", f"p sp 3 1\na 1 2 5{LONG}\n", "after 9 bytes", TOO_LONG, hint=RAISE)
ASKED = {"format": "metis", "max_line_bytes": 2**25}
good("a long line that is asked for: metis", "e.graph", f"2 1\n2{LONG}\n1\n", [(1, 2, 1), (2, 1, 1)], **ASKED)

NAMES_OF_CASES = [case.name for case in CASES]
_TWICE = {name for name in NAMES_OF_CASES if NAMES_OF_CASES.count(name) > 1}
assert not _TWICE, f"two cases are called {_TWICE}"
