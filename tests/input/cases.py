"""The table of cases: an input, and the graph that it is or the error that refuses it.

A row of the table is one input. `over` writes the same edges in several formats, a case for each. An accepted case
names the stored edges with the input's own ids, and the type of the weights. A refused case names what the message and
the hint hold: the place, the offending value, and what to do.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

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
    in_process
        Whether the input is read by the tests' own process; False if an earlier release ended by a signal there.
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
    in_process: bool = True


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
#: Tables whose cells are text, in which anything can stand.
LINES = [name for name in TABLES if name not in ("parquet", "arrow", "arrow-stream")]
TYPED = ["parquet", "arrow", "arrow-stream"]
#: Tables in which the number of cells of a row may differ, and in which a cell may be empty.
RAGGED = ["text", "csv", "csv-bare", "semicolon", "pipe", "csv-gz", "csv-zip", "csv-utf16"]
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

PLAIN = [("1", "2", "5"), ("2", "3", "6"), ("3", "1", "7")]
PLAIN_EDGES = [(1, 2, 5), (2, 3, 6), (3, 1, 7)]
over(LINES, "integers", PLAIN, edges=PLAIN_EDGES, dtype="uint32")
over(TYPED, "integers", PLAIN, edges=PLAIN_EDGES)
over(ALL_TABLES, "reversed", PLAIN, edges=[(v, u, w) for u, v, w in PLAIN_EDGES], directed="reversed")
BOTH_WAYS = [(u, v, w) for a, b, w in PLAIN_EDGES for u, v in ((a, b), (b, a))]
over(ALL_TABLES, "undirected", PLAIN, edges=BOTH_WAYS, directed=False)
over(
    ALL_TABLES,
    "ids as strings because asked",
    PLAIN,
    edges=[(str(u), str(v), w) for u, v, w in PLAIN_EDGES],
    ids="string",
)
for each, (file, write, first_id) in DECLARED.items():
    if each == "metis":
        rows = [(str(u), str(v), str(w)) for u, v, w in BOTH_WAYS]
        good("integers: metis", file, write(rows), BOTH_WAYS, "uint32")
        good("reversed: metis", file, write(rows), BOTH_WAYS, directed="reversed")
        continue
    shift = 1 - first_id
    rows = [(str(int(u) - shift), str(int(v) - shift), w) for u, v, w in PLAIN]
    edges = [(u - shift, v - shift, w) for u, v, w in PLAIN_EDGES]
    good(
        f"integers: {each}",
        file,
        write(rows),
        edges,
        "uint32" if each in ("dimacs", "matrix-market", "galois") else None,
    )
    good(f"reversed: {each}", file, write(rows), [(v, u, w) for u, v, w in edges], directed="reversed")
    good(
        f"undirected: {each}",
        file,
        write(rows),
        [(a, b, w) for u, v, w in edges for a, b in ((u, v), (v, u))],
        directed=False,
    )
    bad(
        f"columns of a format without columns: {each}",
        file,
        write(rows),
        "`graph.columns` belongs to formats",
        hint="remove `graph.columns`",
        columns={"source": "from"},
    )
good("no weights: text", "e.txt", "1 2\n2 3\n", [(1, 2, 1), (2, 3, 1)], "uint32")
good("no weights: csv", "e.csv", "from,to\n1,2\n2,3\n", [(1, 2, 1), (2, 3, 1)], "uint32")
good(
    "no weights: parquet",
    "e.parquet",
    writers.parquet([("1", "2"), ("2", "3")]),
    [(1, 2, 1), (2, 3, 1)],
    "uint32",
)
good("no weights: networkx", "e.edgelist", "1 2 {}\n2 3 {}\n", [(1, 2, 1), (2, 3, 1)], "uint32")
good(
    "no weights: dimacs colouring",
    "e.col",
    "p edge 3 2\ne 1 2\ne 2 3\n",
    [(1, 2, 1), (2, 1, 1), (2, 3, 1), (3, 2, 1)],
    "uint32",
)
good(
    "no weights: pattern",
    "e.mtx",
    "%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n2 3\n",
    [(1, 2, 1), (2, 3, 1)],
    "uint32",
)
good(
    "symmetric matrix",
    "e.mtx",
    "%%MatrixMarket matrix coordinate integer symmetric\n3 3 2\n2 1 5\n3 2 6\n",
    [(1, 2, 5), (2, 1, 5), (2, 3, 6), (3, 2, 6)],
    "uint32",
)

# Ids come back unchanged.

ZEROS = [("007", "7", "5"), ("7", "010", "6"), ("010", "007", "7")]
over(ALL_TABLES, "leading zeros", ZEROS, edges=[("007", "7", 5), ("7", "010", 6), ("010", "007", 7)])
over(
    LINES,
    "leading zeros read as integers because asked",
    ZEROS,
    edges=[(7, 10, 6), (10, 7, 7)],
    ids="integer",
)
over(LINES, "plus signs", [("+7", "7", "5"), ("7", "8", "6")], edges=[("+7", "7", 5), ("7", "8", 6)])
over(LINES, "zeros alone", [("00", "0", "5"), ("0", "1", "6")], edges=[("00", "0", 5), ("0", "1", 6)])
LONG = [(str(i), str(i + 1), "5") for i in range(1500)]
for late, what in (("007", "a late leading zero"), ("+7", "a late plus sign")):
    over(
        ["text", "csv", "csv-bare", "semicolon", "networkx", "csv-gz", "csv-zip", "csv-utf16"],
        what,
        [*LONG, (late, "8", "5")],
        f"`{late}`",
        at=1501,
        hint="graph.ids: string",
    )
over(
    ["text", "csv", "csv-gz"],
    "a late leading zero, ids asked for as strings",
    [*LONG, ("007", "8", "5")],
    edges=[*((str(i), str(i + 1), 5) for i in range(1500)), ("007", "8", 5)],
    ids="string",
)
over(
    ["text", "csv", "csv-gz"],
    "a late leading zero, ids asked for as integers",
    [*LONG, ("00070", "8", "5")],
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
over(LINES, "numbers and names", MIXED, "`depot`", at=2, hint="graph.ids: string")
over(
    LINES,
    "numbers and names, asked for as strings",
    MIXED,
    edges=[("1", "2", 5), ("2", "depot", 6), ("depot", "1", 7)],
    ids="string",
)
over(
    ["text", "csv", "networkx", "csv-gz"],
    "a late name",
    [*LONG, ("depot", "8", "5")],
    "`depot`",
    at=1501,
    hint="graph.ids: string",
)
over([*LINES, *TYPED], "a negative id", [*PLAIN, ("-3", "1", "8")], "`-3`", at=4)
over(["dimacs", "matrix-market"], "an id above the count", PLAIN, edges=PLAIN_EDGES)
over(LINES, "a decimal id", [*PLAIN, ("3.5", "1", "8")], "`3.5`", at=4)
over(
    [*LINES],
    "an id beyond 64 bits",
    [*PLAIN, ("9223372036854775808", "1", "8")],
    "9223372036854775808",
    at=4,
    hint="graph.ids: string",
)
over(
    ["text", "csv", "parquet", "networkx"],
    "the largest id",
    [("9223372036854775807", "0", "8")],
    edges=[(9223372036854775807, 0, 8)],
)
over(["text", "csv", "networkx"], "an id of 5,000 digits", [("9" * 5000, "1", "8"), *PLAIN], "999", at=1)
over(["text", "csv"], "exponents as ids", [("1e3", "2", "5"), ("2", "3", "6")], "`1e3`", at=1)
over(CELLS, "an empty id", [*PLAIN, ("3", "", "8")], "empty", at=4)
bad(
    "a null id: parquet",
    "e.parquet",
    writers.parquet([("1", "2", "5"), ("", "3", "6")]),
    "row 2",
    "null",
    hint="unreadable",
)
bad(
    "ids of two types: parquet",
    "e.parquet",
    writers.parquet([("1", "A", "5"), ("2", "B", "6")]),
    "source",
    "target",
    hint="graph.ids: string",
)
good(
    "ids of two types, asked for as strings: parquet",
    "e.parquet",
    writers.parquet([("1", "A", "5"), ("2", "B", "6")]),
    [("1", "A", 5), ("2", "B", 6)],
    ids="string",
)
bad(
    "ids that are floats: parquet",
    "e.parquet",
    writers.parquet_of(pa.table({"source": [1.0, 2.0], "target": [2.0, 3.0], "weight": [5, 6]})),
    "source",
    "double",
)
good(
    "ids in a dictionary: parquet",
    "e.parquet",
    writers.parquet_of(
        pa.table(
            {
                "source": pa.array(["07", "8"]).dictionary_encode(),
                "target": pa.array(["8", "9"]).dictionary_encode(),
                "weight": [5, 6],
            }
        )
    ),
    [("07", "8", 5), ("8", "9", 6)],
)
for each in ("dimacs", "matrix-market"):
    file, write, _ = DECLARED[each]
    for value in ("0", "4", "-1", "x", "1.5", "99999999999999999999"):
        bad(
            f"id {value}: {each}",
            file,
            write(PLAIN).replace(b"3 1 7", f"3 {value} 7".encode()),
            place(each, 3),
            value,
        )

# Weights: exact, or refused.

over(
    LINES,
    "decimals that floats hold",
    [("1", "2", "0.5"), ("2", "3", "1.25")],
    edges=[(1, 2, 0.5), (2, 3, 1.25)],
    dtype="uint32",
)
over(
    [*LINES, *TYPED],
    "decimals that no float holds",
    [("1", "2", "0.1"), ("2", "3", "0.2")],
    edges=[(1, 2, 0.1), (2, 3, 0.2)],
)
over(
    LINES,
    "an integer that float32 does not hold",
    [("0", "1", "16777217"), ("1", "2", "0.5")],
    edges=[(0, 1, 16777217.0), (1, 2, 0.5)],
    dtype="uint32",
)
over(
    ["text", "csv"],
    "an integer that float64 does not hold",
    [("0", "1", "9007199254740993"), ("1", "2", "0.5")],
    "9007199254740993",
    at=1,
    hint="graph.weights",
)
bad(
    "an integer that float64 does not hold: networkx",
    "e.edgelist",
    "0 1 {'weight': 9007199254740993}\n1 2 {'weight': 0.5}\n",
    "9007199254740993",
    hint="graph.weights",
)
over(
    ["text", "csv"],
    "an integer that float64 does not hold, asked for as float64",
    [("0", "1", "9007199254740993"), ("1", "2", "0.5")],
    edges=[(0, 1, 9007199254740992.0), (1, 2, 0.5)],
    dtype="float64",
    weights={"dtype": "float64"},
)
over(
    LINES,
    "decimals rounded because asked",
    [("1", "2", "0.1"), ("2", "3", "16777217")],
    edges=[(1, 2, float(np.float32(0.1))), (2, 3, 16777216.0)],
    dtype="float32",
    weights={"dtype": "float32"},
)
over(
    ["text", "csv", "networkx"],
    "decimals late",
    [*LONG, ("0", "9", "0.1")],
    edges=[*((i, i + 1, 5.0) for i in range(1500)), (0, 9, 0.1)],
    dtype="uint32",
)
for value, dtype in (
    ("4294967294", "uint32"),
    ("4294967295", "uint64"),
    ("-1", "int32"),
    ("-2147483649", "int64"),
    ("18446744073709551614", "uint64"),
    ("0", "uint32"),
    ("-0", "uint32"),
    ("+5", "uint32"),
):
    over(
        ["text", "csv", "networkx"],
        f"weight {value}",
        [("1", "2", value), ("2", "3", "1")],
        edges=[(1, 2, int(value)), (2, 3, 1)],
        dtype=dtype,
    )
for value in ("5.", ".5", "5e2", "5E-1", "-0.5"):
    over(
        ["text", "csv"],
        f"weight {value}",
        [("1", "2", value), ("2", "3", "1")],
        edges=[(1, 2, float(value)), (2, 3, 1.0)],
        dtype="int32" if value.startswith("-") else "uint32",
    )
over(
    ["text", "csv", "networkx"],
    "a weight between the integer types",
    [("1", "2", "-1"), ("2", "3", "9223372036854775808")],
    "9223372036854775808",
    hint="graph.weights.dtype",
)
for value in ("nan", "NaN", "inf", "-Infinity"):
    over([*LINES], f"weight {value}", [*PLAIN, ("1", "3", value)], value, at=4)
for value in ("nan", "inf"):
    over(TYPED, f"weight {value}", [("1", "2", "0.5"), ("1", "3", value)], value, "finite", at=2)
    bad(f"weight {value}: dimacs", "e.gr", dimacs([*PLAIN, ("1", "3", value)]), "line 6", value)
    bad(
        f"weight {value}: matrix-market", "e.mtx", matrix_market([*PLAIN, ("1", "3", value)]), "line 7", value
    )
    for layout in ("csr", "csc", "coo"):
        bad(
            f"weight {value}: npz-{layout}",
            "e.npz",
            writers.npz([("0", "1", "0.5"), ("1", "2", value)], layout),
            value,
            "finite",
        )
for value in ("1e400", "1e-400", "1e-310", "123456789012345678901234567890e300"):
    over(
        ["text", "csv", "networkx", "semicolon", "csv-gz", "dimacs", "matrix-market"],
        f"weight {value}",
        [*PLAIN, ("1", "3", value)],
        value,
        at=4,
    )
for value in ("abc", "0x10", "1_000", "5km", "--5", "1.2.3", "\u0661"):
    over(
        ["text", "csv", "networkx", "pipe", "csv-zip", "dimacs", "matrix-market"],
        f"weight {value}",
        [*PLAIN, ("1", "3", value)],
        value,
        at=4,
    )
over(CELLS, "an empty weight", [*PLAIN, ("1", "3", "")], at=4, hint="unreadable: skip")
over(TYPED, "a null weight", [*PLAIN, ("1", "3", "")], "null", at=4, hint="unreadable: skip")
over(
    ["text", "csv", "networkx"],
    "a 21-digit weight",
    [("1", "2", "499999999999999999999"), ("2", "3", "1")],
    "499999999999999999999",
)
over(
    ["text", "csv", "parquet", "semicolon"],
    "asked for as uint32: a decimal",
    [("1", "2", "0.5")],
    "0.5",
    "uint32",
    hint="graph.weights.dtype",
    weights={"dtype": "uint32"},
)
over(
    ["text", "csv", "parquet"],
    "asked for as uint32: a negative weight",
    [("1", "2", "-5")],
    "-5",
    "uint32",
    hint="graph.weights.dtype: int32",
    weights={"dtype": "uint32"},
)
SCALED = [("1", "2", "0.125"), ("2", "3", "7"), ("3", "4", "1.5")]
over(
    ["text", "csv", "networkx", "semicolon", "csv-gz"],
    "three decimal places are exact",
    SCALED,
    edges=[(1, 2, 125), (2, 3, 7000), (3, 4, 1500)],
    dtype="uint32",
    weights={"scale": 1000},
)
over(
    ["text", "csv", "networkx", "semicolon", "csv-gz"],
    "a third decimal place of two",
    SCALED,
    "0.125",
    at=1,
    hint="graph.weights.scale",
    weights={"scale": 100},
)
over(
    ["text", "csv"],
    "scaled negative weights",
    [("1", "2", "-0.1"), ("2", "3", "0.2")],
    edges=[(1, 2, -1), (2, 3, 2)],
    dtype="int32",
    weights={"scale": 10},
)
over(
    ["text", "csv"],
    "exponents scaled",
    [("1", "2", "1e-3"), ("2", "3", "2.5e1")],
    edges=[(1, 2, 1), (2, 3, 25000)],
    dtype="uint32",
    weights={"scale": 1000},
)
over(
    ["text", "csv"],
    "scaled above 32 bits",
    [("1", "2", "4294967295.5"), ("2", "3", "1")],
    edges=[(1, 2, 42949672955), (2, 3, 10)],
    dtype="uint64",
    weights={"scale": 10},
)
over(["text"], "a scale that is no power of ten", SCALED, "scale", names_file=False, weights={"scale": 60})
over(
    ["text"],
    "a scale and a float",
    SCALED,
    "scale",
    names_file=False,
    weights={"scale": 1000, "dtype": "float32"},
)
good("default weight", "e.txt", "1 2\n", [(1, 2, 2.5)], "uint32", weights={"default": 2.5})
over(
    ["text", "csv", "parquet", "networkx"],
    "weights left out because asked",
    PLAIN,
    edges=[(u, v, 1) for u, v, _ in PLAIN_EDGES],
    dtype="uint32",
    weights={"column": "none"},
)

# Columns under a header: exactly one reading, or the run stops.

bad(
    "two columns may be the weight",
    "e.csv",
    "from,to,length,time\n1,2,5,50\n2,3,6,60\n",
    "length",
    "time",
    hint="weights: {column: length}",
)
good(
    "two columns may be the weight, one is named",
    "e.csv",
    "from,to,length,time\n1,2,5,50\n2,3,6,60\n",
    [(1, 2, 50), (2, 3, 60)],
    weights={"column": "time"},
)
good("km under an id", "e.csv", "id,from,to,km\n1,10,20,5\n2,20,30,6\n", [(10, 20, 5), (20, 30, 6)])
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
    "travel_s",
    "e.csv",
    "edge_id,from_stop,to_stop,travel_s\n1,10,20,5\n2,20,30,6\n",
    [(10, 20, 5), (20, 30, 6)],
)
good(
    "travel_s among edges whose ids look like vertices",
    "e.csv",
    "edge_id,from_stop,to_stop,travel_s\n"
    + "".join(f"{i},{i % 7},{i % 11 + 50},{i % 5}\n" for i in range(77)),
    [(i % 7, i % 11 + 50, i % 5) for i in range(77)],
)
bad(
    "a time of departure beside the weight",
    "e.csv",
    "start_time,from,to,km\n8,1,2,5\n",
    "`start_time`",
    "`km`",
    hint="start_time",
)
for word in ("from_id,to_id,km", "node1,node2,km", "node_a,node_b,weight", "i,j,cost", "von,nach,km"):
    good(f"header {word}", "e.csv", f"{word}\n1,2,5\n2,3,6\n", [(1, 2, 5), (2, 3, 6)], "uint32")
for header in (
    "from_stop,to_stop,km",
    "fromStop,toStop,km",
    "From Stop,To Stop,KM",
    "FROM_STOP,TO_STOP,Km",
    '"from stop","to stop","km"',
    "origin,destination,minutes",
    "u,v,weight",
    "src,dst,cost",
    "tail,head,distance",
    "source_id,target_id,travel_time",
):
    good(f"header {header}", "e.csv", f"{header}\n1,2,5\n2,3,6\n", [(1, 2, 5), (2, 3, 6)], "uint32")
good("columns in another order", "e.csv", "km,to,from\n5,2,1\n6,3,2\n", [(1, 2, 5), (2, 3, 6)])
good(
    "ends that differ in one word",
    "e.csv",
    "from_stop,to_stop,end,km\n1,2,8,5\n2,3,9,6\n",
    [(1, 2, 5), (2, 3, 6)],
)
bad(
    "two pairs of ends",
    "e.csv",
    "from_stop,to_stop,from_zone,to_zone,km\n1,2,8,9,5\n",
    "from_stop",
    "to_zone",
    hint="columns: {source: ",
)
bad("no ends", "e.csv", "x,y,z\n1,2,5\n", "x", "y", hint="columns: {source: ")
good(
    "no ends, columns named",
    "e.csv",
    "x,y,z\n1,2,5\n",
    [(1, 2, 5)],
    columns={"source": "x", "target": "y"},
    weights={"column": "z"},
)
bad(
    "ends named, a number left",
    "e.csv",
    "x,y,z\n1,2,5\n",
    "z",
    hint="weights: {column: z}",
    columns={"source": "x", "target": "y"},
)
good(
    "ends named, a word left", "e.csv", "x,y,z\n1,2,A\n", [(1, 2, 1)], columns={"source": "x", "target": "y"}
)
bad(
    "words of another language",
    "e.csv",
    "zdroj,cil,km\n1,2,5\n",
    "`zdroj`",
    "`cil`",
    hint="columns: {source: ",
)
good(
    "words of another language, named",
    "e.csv",
    "zdroj,cil,km\n1,2,5\n",
    [(1, 2, 5)],
    columns={"source": "zdroj", "target": "cil"},
)
bad("an unknown column", "e.csv", "from,to,km\n1,2,5\n", "`fram`", hint="`from`", columns={"source": "fram"})
bad("an unknown weight", "e.csv", "from,to,km\n1,2,5\n", "`kn`", hint="km", weights={"column": "kn"})
bad(
    "a numeric column without a known word",
    "e.csv",
    "from,to,lanes\n1,2,5\n",
    "lanes",
    hint="weights: {column: lanes}",
)
good(
    "a numeric column without a known word, not wanted",
    "e.csv",
    "from,to,lanes\n1,2,5\n",
    [(1, 2, 1)],
    weights={"column": "none"},
)
good("a column of words is no weight", "e.csv", "from,to,road\n1,2,A1\n2,3,A2\n", [(1, 2, 1), (2, 3, 1)])
good("words beside the weight", "e.csv", "from,road,to,km\n1,A1,2,5\n2,A2,3,6\n", [(1, 2, 5), (2, 3, 6)])
bad("two columns with one name", "e.csv", "from,to,km,km\n1,2,5,6\n", "`km`")
bad("two ends with one name", "e.csv", "from,from,km\n1,2,5\n", "`from`")
bad(
    "one column for both ends",
    "e.csv",
    "from,to,km\n1,2,5\n",
    "`from`",
    columns={"source": "from", "target": "from"},
)
bad("a header alone", "e.csv", "from,to,km\n", "no edges")
bad("a header or an edge", "e.csv", "a,b\nc,d\n", "header", hint="graph.header")
good("a header or an edge: an edge", "e.csv", "a,b\nc,d\n", [("a", "b", 1), ("c", "d", 1)], header=False)
good(
    "a header or an edge: a header",
    "e.csv",
    "a,b\nc,d\n",
    [("c", "d", 1)],
    header=True,
    columns={"source": "a", "target": "b"},
)
good("an edge between names", "e.csv", "Ulm,Bonn,5\nBonn,Kiel,6\n", [("Bonn", "Kiel", 6), ("Ulm", "Bonn", 5)])
good(
    "a header of numbers",
    "e.csv",
    "1,2,3\n10,20,5\n",
    [(10, 20, 5)],
    header=True,
    columns={"source": "1", "target": "2"},
    weights={"column": "3"},
)
for name, content in (
    ("parquet", writers.parquet_of(pa.table({"from": [1], "to": [2], "length": [5], "time": [50]}))),
    ("semicolon", "from;to;length;time\n1;2;5;50\n"),
    ("tsv", "from\tto\tlength\ttime\n1\t2\t5\t50\n"),
    ("spaced", "from to length time\n1 2 5 50\n"),
    ("pipe", "from|to|length|time\n1|2|5|50\n"),
    ("gz", gzip.compress(b"from,to,length,time\n1,2,5,50\n")),
    ("utf16", writers.utf16(b"from,to,length,time\n1,2,5,50\n")),
    ("networkx", "1 2 {'length': 5, 'time': 50}\n"),
):
    file = {"parquet": "e.parquet", "networkx": "e.edgelist"}.get(name, "e.csv")
    bad(f"length and time: {name}", file, content, "length", "time", hint="weights: {column: length}")
    good(f"length and time, time named: {name}", file, content, [(1, 2, 50)], weights={"column": "time"})
for name, content in (
    ("parquet", writers.parquet_of(pa.table({"from": [1], "to": [2], "lanes": [5]}))),
    ("csv", "from,to,lanes\n1,2,5\n"),
    ("networkx", "1 2 {'lanes': 5}\n"),
):
    bad(
        f"lanes: {name}",
        {"parquet": "e.parquet", "csv": "e.csv", "networkx": "e.edgelist"}[name],
        content,
        "lanes",
        hint="weights: {column: lanes}",
    )
_STREAM = writers.arrow_stream([("Ulm", "Bonn", "5"), ("Bonn", "Kiel", "6")])
_OFFSETS = struct.pack("<3i", 0, 3, 7)
assert _OFFSETS in _STREAM
CASES.append(
    Case(
        "offsets of names that lead outside: arrow",
        "e.arrows",
        _STREAM.replace(_OFFSETS, struct.pack("<3i", 0, 2**30, 7)),
        in_process=False,
    )
)
bad("names that are not UTF-8: arrow", "e.arrows", _STREAM.replace(b"UlmBonn", b"U\xff\xfeBonn"), "UTF-8")
bad(
    "names of columns that are not UTF-8: parquet",
    "e.parquet",
    writers.parquet([("1", "2", "5")]).replace(b"weight", b"w\xff\xfeght"),
    "UTF-8",
)
bad(
    "two columns with one name: parquet",
    "e.parquet",
    writers.parquet_of(pa.table([[1], [2], [5], [6]], names=["from", "to", "km", "km"])),
    "km",
)
bad(
    "weights of text: parquet",
    "e.parquet",
    writers.parquet_of(pa.table({"from": [1], "to": [2], "km": ["5"]})),
    "km",
    "string",
)
bad(
    "no rows: parquet",
    "e.parquet",
    writers.parquet_of(pa.table({"from": pa.array([], pa.int64()), "to": pa.array([], pa.int64())})),
    "no edges",
)

# Columns without a header: source, target, weight.

good("further columns of words are not used", "e.csv", "1,2,5,a\n2,3,6,b\n", [(1, 2, 5), (2, 3, 6)])
good("further columns of words are not used: text", "e.txt", "1 2 5 a\n2 3 6 b\n", [(1, 2, 5), (2, 3, 6)])
bad(
    "a further column of numbers",
    "e.csv",
    "1,2,5,9\n2,3,6,9\n",
    "nothing says which is the weight",
    hint="column: ",
)
bad("a further column of numbers: text", "e.txt", "1 2 5 9\n2 3 6 9\n", "nothing says which", hint="column: ")
good(
    "the fourth column is the weight: text",
    "e.txt",
    "1 2 5 9\n2 3 6 9\n",
    [(1, 2, 9), (2, 3, 9)],
    weights={"column": 4},
)
good(
    "the fourth column is the weight: csv",
    "e.csv",
    "1,2,5,9\n2,3,6,9\n",
    [(1, 2, 9), (2, 3, 9)],
    weights={"column": 4},
)
EDGE_IDS = [(i, i % 50 + 1000, i * 7 % 50 + 1000, i % 9 + 1) for i in range(200)]
for name, separator in (("csv", ","), ("text", " "), ("semicolon", ";"), ("tabs", "\t")):
    content = "".join(separator.join(map(str, row)) + "\n" for row in EDGE_IDS)
    bad(f"the id of an edge first: {name}", "e.txt", content, "nothing says", hint="columns: {source: ")
ends = {}
for _, u, v, w in EDGE_IDS:
    ends[u, v] = min(w, ends.get((u, v), w))
good(
    "the id of an edge first, columns named: csv",
    "e.csv",
    "".join(",".join(map(str, row)) + "\n" for row in EDGE_IDS),
    [(u, v, w) for (u, v), w in ends.items() if u != v],
    columns={"source": "2", "target": "3"},
    weights={"column": 4},
)
for name, separator in (("text", " "), ("csv", ","), ("tabs", "\t")):
    wide = separator.join(["1", "2", "5", *["x"] * 1500]) + "\n"
    good(f"a row of 1,503 columns: {name}", "e.txt", wide, [(1, 2, 5)])
good("one row", "e.csv", "1,2,5\n", [(1, 2, 5)])
bad("one column", "e.txt", "1\n2\n", "line 1", "1 column")
bad("one column: csv", "e.csv", "1,\n2,\n", "line 1")

# Delimiters, headers and decimal commas.

for format_name, row in (
    ("text", "3 4"),
    ("csv", "3,4"),
    ("csv-bare", "3,4"),
    ("semicolon", "3;4"),
    ("pipe", "3|4"),
):
    file, write = TABLES[format_name]
    bad(
        f"too few cells: {format_name}",
        file,
        write(PLAIN) + row.encode() + b"\n",
        place(format_name, 4),
        "2 columns",
        "3",
        hint="unreadable: skip",
    )
    long = row + row[1] + "5" + row[1] + "6"
    bad(
        f"too many cells: {format_name}",
        file,
        write(PLAIN) + long.encode() + b"\n",
        place(format_name, 4),
        "4 columns",
        "3",
        hint="unreadable: skip",
    )
bad("comma or semicolon", "e.csv", "1,5;2,5;3\n1,6;2,7;4\n", "comma", "semicolon", hint="graph.delimiter")
good(
    "comma or semicolon: semicolon",
    "e.csv",
    "1;2;1,5\n2;3;0,5\n",
    [(1, 2, 1.5), (2, 3, 0.5)],
    "uint32",
    delimiter=";",
    decimal="comma",
)
good(
    "a decimal comma rules out the comma",
    "e.csv",
    "1;2;1,5\n2;3;0,5\n",
    [(1, 2, 1.5), (2, 3, 0.5)],
    "uint32",
    decimal="comma",
)
good("a decimal comma: tabs", "e.tsv", "from\tto\tkm\n1\t2\t1,5\n", [(1, 2, 1.5)], "uint32", decimal="comma")
good(
    "a decimal comma: text",
    "e.txt",
    "1 2 1,5\n2 3 2\n",
    [(1, 2, 1.5), (2, 3, 2.0)],
    "uint32",
    decimal="comma",
)
good(
    "a decimal comma, scaled",
    "e.csv",
    "1;2;1,255\n2;3;0,5\n",
    [(1, 2, 1255), (2, 3, 500)],
    "uint32",
    decimal="comma",
    weights={"scale": 1000},
)
bad(
    "a decimal comma that is not announced",
    "e.csv",
    "from;to;km\n1;2;1,5\n2;3;4\n",
    "line 2",
    "`1,5`",
    hint="graph.decimal: comma",
)
bad(
    "a decimal comma that is not announced: tabs",
    "e.tsv",
    "from\tto\tkm\n1\t2\t1,5\n2\t3\t4\n",
    "line 2",
    "`1,5`",
    hint="graph.decimal: comma",
)
bad(
    "a point where commas are announced",
    "e.csv",
    "from;to;km\n1;2;1,5\n2;3;4.5\n",
    "line 3",
    "`4.5`",
    decimal="comma",
)
for word, separator in ((",", ","), (";", ";"), ("|", "|"), ("tab", "\t")):
    good(
        f"delimiter {word} named",
        "e.txt",
        f"1{separator}2{separator}5\n2{separator}3{separator}6\n",
        [(1, 2, 5), (2, 3, 6)],
        delimiter=word,
    )
bad(
    "another delimiter than named", "e.csv", "1,2,5\n2,3,6\n", "line 1", hint="graph.delimiter", delimiter=";"
)
good(
    "tabs around names with blanks",
    "e.tsv",
    "from\tto\tkm\nNew York\tSan José\t5\n",
    [("New York", "San José", 5)],
)
good(
    "quotes around names with commas",
    "e.csv",
    'from,to,km\n"Ulm, Donau","5"" West",5\n',
    [("Ulm, Donau", '5" West', 5)],
)
good("blanks around cells", "e.csv", "from , to , km\n1 , 2 , 5\n", [(1, 2, 5)])
bad("a quote that does not end", "e.csv", 'from,to,km\n1,2,5\n"3,4,6\n', hint="quote")
good("comments before the header", "e.csv", "# made in 2026\nfrom,to,km\n1,2,5\n", [(1, 2, 5)])
good("comments and blank lines: text", "e.txt", "# made\n\n1 2 5\n% more\n2 3 6\n\n", [(1, 2, 5), (2, 3, 6)])
good("a header in a comment: text", "e.txt", "# FromNodeId\tToNodeId\n1\t2\n2\t3\n", [(1, 2, 1), (2, 3, 1)])
good("a header in a text", "e.txt", "von nach km\n1 2 5\n", [(1, 2, 5)])
bad(
    "a header of other words in a text",
    "e.txt",
    "zdroj cil km\n1 2 5\n",
    "line 1",
    "`zdroj`",
    hint="columns: {source: ",
)
good(
    "header false with a header of words",
    "e.csv",
    "from,to\nulm,bonn\n",
    [("from", "to", 1), ("ulm", "bonn", 1)],
    header=False,
)
good("names that are numbers are no names", "e.csv", "0,1,2\n2,3,6\n", [(2, 3, 6)], header=True)
for name, content in (
    ("parquet", writers.parquet_of(pa.table([[1], [2], [5]], names=["0", "1", "2"]))),
    ("csv", "f0,f1,f2\n1,2,5\n"),
):
    good(f"names that a program made up: {name}", f"e.{name}", content, [(1, 2, 5)])
# A header of one letter each may be an edge between vertices of these names.
for word, separator in (("csv", ","), ("text", " "), ("tabs", "\t"), ("semicolon", ";")):
    rows = [("u", "v"), ("v", "w"), ("w", "u")]
    content = "".join(separator.join(row) + "\n" for row in rows)
    bad(f"vertices called u and v: {word}", "e.txt", content, "line 1", hint="graph.header")
    good(
        f"vertices called u and v, no header: {word}",
        "e.txt",
        content,
        [(u, v, 1) for u, v in rows],
        header=False,
    )
good("vertices called a and b", "e.csv", "a,b\nb,c\nc,a\n", [("a", "b", 1), ("b", "c", 1), ("c", "a", 1)])
bad("two names that never come again", "e.csv", "a,b\nc,d\n", "line 1", hint="graph.header")
good("vertices called i and j, weighted", "e.csv", "i,j,5\nj,k,6\n", [("i", "j", 5), ("j", "k", 6)])
good(
    "an empty last cell: tabs",
    "e.tsv",
    "from\tto\tkm\troad\n1\t2\t5\t\n2\t3\t6\tA1\n",
    [(1, 2, 5), (2, 3, 6)],
)
good("an empty last cell: csv", "e.csv", "from,to,km,road\n1,2,5,\n2,3,6,A1\n", [(1, 2, 5), (2, 3, 6)])
bad("an empty first cell: tabs", "e.tsv", "from\tto\tkm\n1\t2\t5\n\t3\t6\n", "line 3")
bad("a header that is not announced", "e.csv", "from,to,km\n1,2,5\n", "line 1", header=False)

# Encodings.

good(
    "latin-1 named",
    "e.csv",
    "from,to,km\nKöln,Jülich,5\n".encode("latin-1"),
    [("Köln", "Jülich", 5)],
    encoding="latin-1",
)
bad(
    "latin-1 not named",
    "e.csv",
    "from,to,km\nKöln,Jülich,5\n".encode("latin-1"),
    "line 2",
    "UTF-8",
    hint=("graph.encoding: latin-1", "Köln"),
)
bad(
    "latin-1 not named: text",
    "e.txt",
    "Ulm Bonn 5\nKöln Jülich 5\n".encode("latin-1"),
    "line 2",
    "UTF-8",
    hint=("graph.encoding: latin-1", "Köln"),
)
bad(
    "latin-1 not named, in a header",
    "e.csv",
    "von,nach,Länge\nA,B,5\n".encode("latin-1"),
    "UTF-8",
    hint="Länge",
)
good(
    "utf-16 without a mark, named",
    "e.csv",
    "from,to,km\nKöln,B,5\n".encode("utf-16-le"),
    [("Köln", "B", 5)],
    encoding="utf-16-le",
)
bad("utf-16 without a mark", "e.csv", "from,to,km\nA,B,5\n".encode("utf-16-le"), hint="graph.")
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
bad(
    "not the encoding that is named",
    "e.csv",
    "from,to,km\nKöln,B,5\n".encode("latin-1"),
    "UTF-8",
    hint="graph.encoding",
    encoding="utf-8",
)
good("a mark: text", "e.txt", b"\xef\xbb\xbf1 2 5\n", [(1, 2, 5)])
good("a mark: networkx", "e.edgelist", b"\xef\xbb\xbf1 2 {'weight': 5}\n", [(1, 2, 5)])

# Rows that cannot be read.

ODD = "from,to,km\n1,2,5\n2,3\n3,4,x\n4,5,nan\n,6,7\n6,7,\n7,1,8,9\n7,8,9\n"
good("skipped: csv", "e.csv", ODD, [(1, 2, 5), (7, 8, 9)], "uint32", (3, 4, 5, 6, 7, 8), unreadable="skip")
good(
    "skipped: csv-gz",
    "e.csv.gz",
    gzip.compress(ODD.encode()),
    [(1, 2, 5), (7, 8, 9)],
    "uint32",
    (3, 4, 5, 6, 7, 8),
    unreadable="skip",
)
good(
    "skipped: text",
    "e.txt",
    "1 2 5\n2 3\n3 4 x\n4 5 inf\n6 7 8 9\n7 8 9\n",
    [(1, 2, 5), (7, 8, 9)],
    "uint32",
    (2, 3, 4, 5),
    unreadable="skip",
)
good(
    "skipped: networkx",
    "e.edgelist",
    "1 2 {'weight': 5}\n2 3\n3 4 {}\n4 5 {'weight': nan}\n7 8 {'weight': 9}\n",
    [(1, 2, 5), (7, 8, 9)],
    "uint32",
    (2, 3, 4),
    unreadable="skip",
)
good(
    "skipped: parquet",
    "e.parquet",
    writers.parquet(
        [("1", "2", "0.5"), ("", "3", "6"), ("3", "4", ""), ("4", "5", "nan"), ("7", "8", "9.5")]
    ),
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
bad("every row skipped", "e.csv", "from,to,km\n1,2\n2,3\n", unreadable="skip")

# Declared, and checked.

bad("an edge without its reverse: metis", "e.graph", "3 2\n2 3\n1\n2\n", "1", "3", hint="graph.format")
bad("two weights for one edge: metis", "e.graph", "2 1 001\n2 5\n1 6\n", "`1`", "`2`")
bad("too few neighbours: metis", "e.graph", "2 2\n2\n1\n", "2 edges", "2 neighbours")
bad("too few lines: metis", "e.graph", "3 1\n2\n1\n", "3 vertices")
good("metis by its name alone", "e.graph", "3 2\n2\n1 3\n2\n", [(1, 2, 1), (2, 1, 1), (2, 3, 1), (3, 2, 1)])
good(
    "metis by name of the format",
    "e.txt",
    "3 2\n2\n1 3\n2\n",
    [(1, 2, 1), (2, 1, 1), (2, 3, 1), (3, 2, 1)],
    format="metis",
)
bad("dimacs without its p line", "e.gr", "a 1 2 5\na 2 3 6\n", "DIMACS", hint="p sp")
bad("dimacs without its p line, with comments", "e.gr", "c roads\na 1 2 5\na 2 3 6\n", "DIMACS", hint="p sp")
bad("dimacs colouring without its p line", "e.col", "e 1 2\ne 2 3\n", "DIMACS", hint="p edge")
bad(
    "dimacs without its p line, ids asked for as strings",
    "e.gr",
    "a 1 2 5\na 2 3 6\n",
    "DIMACS",
    hint="p sp",
    ids="string",
)
bad(
    "a dimacs header of 21 digits",
    "e.gr",
    "p sp 499999999999999999999 3\na 1 2 5\n",
    "line 1",
    "499999999999999999999",
)
bad(
    "a dimacs header with 21 digits of edges",
    "e.gr",
    "p sp 3 499999999999999999999\na 1 2 5\n",
    "499999999999999999999",
)
bad("too many vertices: dimacs", "e.gr", "p sp 5000000000 1\na 1 2 5\n", "5000000000")
bad(
    "a matrix of 21 digits",
    "e.mtx",
    "%%MatrixMarket matrix coordinate real general\n499999999999999999999 499999999999999999999 1\n1 2 5\n",
    "499999999999999999999",
)
bad("a metis header of 21 digits", "e.graph", "499999999999999999999 1\n2\n1\n", "499999999999999999999")
bad("a negative count: dimacs", "e.gr", "p sp -3 1\na 1 2 5\n", "line 1", "-3")
bad("too few edges: dimacs", "e.gr", "p sp 3 2\na 1 2 5\n", "2 edges", "1", hint="cut short")
bad("too many edges: dimacs", "e.gr", "p sp 3 1\na 1 2 5\na 2 3 6\n", "1 edge", "2")
bad("another letter: dimacs", "e.gr", "p sp 3 2\na 1 2 5\nb 2 3 6\n", "line 3", "`b`")
bad("two problem lines: dimacs", "e.gr", "p sp 3 2\na 1 2 5\np sp 3 2\na 2 3 6\n", "line 3", "`p`")
bad(
    "not square: matrix-market",
    "e.mtx",
    "%%MatrixMarket matrix coordinate real general\n3 4 1\n1 2 5\n",
    "line 2",
    "3 rows",
    "4 columns",
)
bad(
    "complex numbers: matrix-market",
    "e.mtx",
    "%%MatrixMarket matrix coordinate complex general\n3 3 1\n1 2 5 0\n",
    "line 1",
    "complex",
)
bad(
    "a dense matrix: matrix-market",
    "e.mtx",
    "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n",
    "line 1",
    "array",
)
bad(
    "too few entries: matrix-market",
    "e.mtx",
    "%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 5\n",
    "2",
    "1",
)
bad(
    "a decimal in a matrix of integers: matrix-market",
    "e.mtx",
    "%%MatrixMarket matrix coordinate integer general\n3 3 1\n1 2 2.5\n",
    "integer",
)
GALOIS = writers.galois([("0", "1", "5"), ("1", "2", "6"), ("2", "0", "7")])
bad("another version: galois", "e.gr", struct.pack("<Q", 2) + GALOIS[8:], "version 2")
bad("weights of 2 bytes: galois", "e.gr", GALOIS[:8] + struct.pack("<Q", 2) + GALOIS[16:], "2 bytes")
bad("a target that is no vertex: galois", "e.gr", GALOIS[:56] + struct.pack("<I", 9) + GALOIS[60:], "`9`")
bad("rows that fall: galois", "e.gr", GALOIS[:32] + struct.pack("<Q", 3) + GALOIS[40:], "vertex 1")
bad("2^63 edges: galois", "e.gr", GALOIS[:24] + struct.pack("<Q", 2**63) + GALOIS[32:])
bad("2^60 vertices: galois", "e.gr", GALOIS[:16] + struct.pack("<Q", 2**60) + GALOIS[24:], str(2**60))
bad("bytes after the end: galois", "e.gr", GALOIS + b"\0" * 8)
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
good(
    "64-bit indices: npz",
    "e.npz",
    writers.savez(**(SQUARE | {"indices": np.array([1, 2]), "indptr": np.array([0, 1, 2, 2])})),
    [(0, 1, 5), (1, 2, 6)],
)
good(
    "decimals: npz",
    "e.npz",
    writers.savez(**(SQUARE | {"data": np.array([0.1, 0.2])})),
    [(0, 1, 0.1), (1, 2, 0.2)],
    "float64",
)
good(
    "32-bit decimals: npz",
    "e.npz",
    writers.savez(**(SQUARE | {"data": np.array([0.5, 0.1], np.float32)})),
    [(0, 1, 0.5), (1, 2, float(np.float32(0.1)))],
    "float32",
)

# NetworkX.

good(
    "cities: networkx",
    "e.edgelist",
    "Ulm Bonn {'weight': 5}\nBonn Kiel {'weight': 6}\n",
    [("Bonn", "Kiel", 6), ("Ulm", "Bonn", 5)],
)
good("comments: networkx", "e.edgelist", "# made by hand\n1 2 {'weight': 5}\n", [(1, 2, 5)])
good(
    "other keys: networkx",
    "e.edgelist",
    "1 2 {'road': 'A, 1', 'weight': 5}\n2 3 {'road': 'B {2}', 'weight': 6}\n",
    [(1, 2, 5), (2, 3, 6)],
)
good("decimals: networkx", "e.edgelist", "1 2 {'weight': 0.1}\n", [(1, 2, 0.1)], "uint32")
bad(
    "one row without a weight: networkx",
    "e.edgelist",
    "1 2 {'weight': 5}\n2 3 {}\n",
    "line 2",
    "weight",
    hint="unreadable: skip",
)
bad("a dict that does not end: networkx", "e.edgelist", "1 2 {'weight': 5}\n2 3 {'weight': 6\n", "line 2")
bad("a weight of text: networkx", "e.edgelist", "1 2 {'weight': '5'}\n", "line 1", "5")
bad(
    "a call in a dict: networkx",
    "e.edgelist",
    "1 2 {'weight': 5}\n1 2 {'weight': print(5)}\n",
    "line 2",
    "print(5)",
)

# Containers.

BIG = csv([(str(i), str(i + 1), str(i % 97)) for i in range(4000)])
for name, (suffix, wrap) in CONTAINERS.items():
    whole = wrap(BIG)
    if name != "tar":
        bad(f"cut short: csv-{name}", f"e.csv{suffix}", whole[: len(whole) * 2 // 3])
    bad(f"cut to 20 bytes: csv-{name}", f"e.csv{suffix}", whole[:20])
bad("cut short: csv-tar", "e.csv.tar", writers.tarred(BIG)[:5000])
for name in TYPED:
    file, write = TABLES[name]
    whole = write(PLAIN)
    for n in (len(whole) // 3, len(whole) - 9, 8):
        bad(f"cut to {n} bytes: {name}", file, whole[:n])
for name in ("galois", "npz-csr"):
    file, write, _ = DECLARED[name]
    whole = write([("0", "1", "5"), ("1", "2", "6")])
    for n in (len(whole) // 2, len(whole) - 3):
        bad(f"cut to {n} bytes: {name}", file, whole[:n])
for name, several in (("zip", writers.zipped), ("tar", writers.tarred)):
    bad(
        f"two members: {name}",
        f"e.{name}",
        several(text(PLAIN), "a.txt", **{"b.txt": text(PLAIN)}),
        "a.txt",
        "b.txt",
    )
    good(f"a member in a folder: {name}", f"e.{name}", several(text(PLAIN), "data/a.txt"), PLAIN_EDGES)
    bad(f"a member that is empty: {name}", f"e.{name}", several(b""), "empty")
    good(f"a matrix: {name}", f"e.{name}", several(matrix_market(PLAIN), "a.mtx"), PLAIN_EDGES)
bad("no member: zip", "e.zip", b"PK\x05\x06" + bytes(18))
bad(
    "damaged in the middle: csv-gz",
    "e.csv.gz",
    bytes(b ^ (i == 2000) * 255 for i, b in enumerate(gzip.compress(BIG, mtime=0))),
)
good(
    "two gzip members",
    "e.txt.gz",
    gzip.compress(b"1 2 5\n") + gzip.compress(b"2 3 6\n"),
    [(1, 2, 5), (2, 3, 6)],
)
good(
    "two bzip2 members",
    "e.txt.bz2",
    bz2.compress(b"1 2 5\n") + bz2.compress(b"2 3 6\n"),
    [(1, 2, 5), (2, 3, 6)],
)
good(
    "two xz members",
    "e.txt.xz",
    lzma.compress(b"1 2 5\n") + lzma.compress(b"2 3 6\n"),
    [(1, 2, 5), (2, 3, 6)],
)
bad("gzip of nothing", "e.txt.gz", gzip.compress(b""), "empty")

# No edge list at all.

bad("empty", "e.txt", b"", "empty")
bad("blank lines", "e.txt", b"\n \n\t\n", "no edges")
bad("comments alone", "e.txt", b"# a\n% b\n", "no edges")
FORMATS = ("csv", "parquet", "dimacs", "metis")
bad("random bytes", "e.bin", bytes(np.random.default_rng(5).integers(0, 256, 4096, np.uint8)), hint=FORMATS)
bad("zeros", "e.bin", bytes(4096), hint=FORMATS)
bad("two control characters", "e.txt", b"\x1f\x1f")
bad("a PNG", "e.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(40), hint=FORMATS)
bad("a PDF", "e.pdf", b"%PDF-1.7\n1 0 obj\n<</Type/Catalog>>\nendobj\n")
bad("JSON", "e.json", b'{"edges": [[1, 2, 5], [2, 3, 6]]}\n')
bad("HTML", "e.csv", b"<!DOCTYPE html>\n<html><body>Not found</body></html>\n")
bad("GraphML", "e.graphml", b'<?xml version="1.0"?>\n<graphml><edge source="1" target="2"/></graphml>\n')
bad("prose", "e.txt", b"The quick brown fox\njumps over the dog\n")
MARK = "\ufeff"
for _name, _file, _text in (
    ("a text", "e.txt", f"1 2 5\n{MARK}2 3 6\n"),
    ("a text of names", "e.txt", f"{MARK}A B 5\n{MARK}B C 6\n"),
    ("a text, before a comment", "e.txt", f"A B 5\n{MARK}# C\n"),
    ("a table", "e.csv", f"{MARK}A,B,5\n{MARK}C,D,6\n"),
    ("a table with Windows line ends", "e.csv", f"A,B,5\r\n{MARK}C,D,6\r\n"),
    ("an edge list of NetworkX", "e.txt", f"1 2 {{'weight': 5}}\n{MARK}2 3 {{'weight': 5}}\n"),
    ("a DIMACS file", "e.gr", f"p sp 3 2\n{MARK}a 1 2 5\na 2 3 6\n"),
    ("a matrix", "e.mtx", f"%%MatrixMarket matrix coordinate real general\n3 3 1\n1 2 5\n{MARK}\n"),
    ("a METIS graph", "e.graph", f"2 1\n2\n{MARK}1\n"),
    ("a text that begins with two of them", "e.txt", f"{MARK}{MARK}A B 5\n"),
    ("a table that begins with two of them", "e.csv", f"{MARK}{MARK}A,B,5\n"),
):
    bad(f"a byte order mark inside of {_name}", _file, _text, "line", "byte order mark", hint="one by one")
good("a byte order mark inside of a name", "e.txt", f"A B{MARK} 5\n", [("A", f"B{MARK}", 5)])
bad("a NUL in a text", "e.txt", b"1 2 5\n2 3\x006 7\n")
bad("a control character in a text", "e.txt", b"1 2 5\n2\x013 6\n", "line 2")
bad(
    "lines that end as on old Macs", "e.txt", b"1 2 5\r2 3 6\r", "line 1", "carriage return", hint="line feed"
)
bad("one line that ends as on old Macs", "e.txt", b"1 2 5\n2 3\r6\n", "line 2", "carriage return")
bad("an unknown format", "e.txt", b"1 2 5\n", "`txt`", hint="`text`", names_file=False, format="txt")
bad("another format than named", "e.txt", b"1 2 5\n", format="dimacs")
bad("text named as parquet", "e.txt", b"1 2 5\n", format="parquet")
bad("text named as scipy-npz", "e.txt", b"1 2 5\n", format="scipy-npz")

# Lines and counts that no memory holds.

LONG = " " * 2**24
TOO_LONG = "16,777,216 bytes"
RAISE = "graph.max_line_bytes"
bad("a long line without an end: text", "e.txt", b"1" * (2**24 + 1), "line 1", TOO_LONG, hint=RAISE)
bad("a long row: csv", "e.csv", f"1,2,5\n2,3,6{LONG}\n", "line 2", TOO_LONG, hint=RAISE)
bad("a long line: dimacs", "e.gr", f"p sp 3 1\na 1 2 5{LONG}\n", "after 9 bytes", TOO_LONG, hint=RAISE)
good(
    "a long line that is asked for: metis",
    "e.graph",
    f"2 1\n2{LONG}\n1\n",
    [(1, 2, 1), (2, 1, 1)],
    format="metis",
    max_line_bytes=2**25,
)
QUADRILLION = "1" + "0" * 15
bad("a quadrillion vertices: dimacs", "e.gr", f"p sp {QUADRILLION} 1\na 1 2 5\n", QUADRILLION, "4294967295")
bad("a quadrillion edges: dimacs", "e.gr", f"p sp 3 {QUADRILLION}\na 1 2 5\n", QUADRILLION, "281474976710656")
bad("a quadrillion vertices: metis", "e.graph", f"{QUADRILLION} 1\n2\n1\n", QUADRILLION, "4294967295")
bad(
    "a quadrillion vertices: matrix-market",
    "e.mtx",
    f"%%MatrixMarket matrix coordinate real general\n{QUADRILLION} {QUADRILLION} 1\n1 2 5\n",
    QUADRILLION,
    "4294967295",
)
bad("a header of 4 billion vertices with 2: metis", "e.graph", "4000000000 1\n2\n1\n", "4000000000", "2")
bad("a weight of 5,000 digits: csv", "e.csv", f"1,2,{'9' * 5000}\n", "line 1", "not finite")

NAMES_OF_CASES = [case.name for case in CASES]
_TWICE = {name for name in NAMES_OF_CASES if NAMES_OF_CASES.count(name) > 1}
assert not _TWICE, f"two cases are called {_TWICE}"
