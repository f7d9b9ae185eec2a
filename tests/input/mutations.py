"""Inputs for the fuzzer: seeds of every format, and what happens to them. All follows from one `random.Random`."""

from __future__ import annotations

import gzip
import io
import random
import re
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import writers
from writers import CONTAINERS, Rows


def _words(text: str) -> list[str]:
    return text.split()


ODD_NUMBERS = _words("""
0 -0 +5 -5 007 00 +007 1e400 -1e400 1e-400 1e-310 1e308 1e39 1e-40 5e-324 499999999999999999999 999999999999999999999
18446744073709551615 18446744073709551614 9223372036854775808 9223372036854775807 4294967295 4294967294 4294967296
2147483647 -2147483648 -2147483649 16777217 9007199254740993 9007199254740992 0.1 0.5 0.1250 1. .5 . - + 1e 1e+ e5 --1
1.2.3 nan NaN -nan inf -inf Infinity 0x10 0b1 1_000 1,5 1.000,5 5km NULL None NA \u0661 \uff15 0e999999999
1e999999999999 1e0000000000000000000000005 16777216.5
1e22 1e23 123456789012345678 true ''
0.1000000000000000055511151231257827021181583404541015625
""")
ODD_NUMBERS += ["", '""', "1 000", "1\u00a0000", "0." + "0" * 400 + "1", "9" * 400]
ODD_NAMES = _words("""Köln A1 12B a c p e u #5 %5 "q" " ' { ß - €""")
ODD_NAMES += ["x y", "\ufeff", "a\u2028b", "\u3000", "\x7f"]
WORDS = _words("""
from to source target weight km length time id x y from_stop to_stop fromStop u v name cost duration FROM To "to"
start_time end_time lanes 1 Länge from_to
""")
WORDS += ["From Stop", " weight ", ""]
SEPARATORS = [" ", "  ", "\t", ",", ";", "|", ", ", " ,", ":", "\u00a0", "\x0b", "\x00", "\r"]
ODD_LINES = ["~ note", "<NUMBER OF NODES> 9", "<END OF METADATA>", "1 2 3 4 5 6 7 8 9 10 ;", "", " "]
ODD_LINES += [
    "# note",
    "% note",
    "c note",
    "p sp 3 3",
    "a 1 2 3",
    "1",
    "1 2",
    "1,2",
    ",,",
    '"',
    "{}",
    "1 2 {}",
]


def chance(rng: random.Random, share: float) -> bool:
    """Return True in this share of the calls."""
    return rng.random() < share


@dataclass
class Input:
    """One input: the bytes of a file, its name, and the options of the `graph` section."""

    file: str
    content: bytes
    graph: dict = field(default_factory=dict)


def rows(rng: random.Random, first_id: int = 0) -> Rows:
    """Return some edges between few vertices, so that ids repeat; weights of one of several kinds."""
    n = rng.randrange(2, 9)
    weight: Callable[[], str] = rng.choice(
        [
            lambda: str(rng.randrange(100)),
            lambda: str(rng.randrange(1000) / 8),
            lambda: f"{rng.randrange(10000) / 100:.2f}",
            lambda: str(rng.randrange(-50, 50)),
            lambda: str(rng.randrange(2**33)),
        ]
    )
    n_rows = 120 if rng.random() < 0.01 else rng.randrange(1, 12)
    return [
        (str(first_id + rng.randrange(n)), str(first_id + rng.randrange(n)), weight()) for _ in range(n_rows)
    ]


def named(rng: random.Random, edges: Rows) -> Rows:
    """Return the edges with names or with leading zeros for ids."""
    pattern = rng.choice(["A{}", "{:0>3}", "stop {}", "Köln{}", "{}B", "x-{}"])
    return [(pattern.format(u), pattern.format(v), w) for u, v, w in edges]


def mutated_rows(rng: random.Random, edges: Rows) -> Rows:
    """Return the edges with one thing changed in a cell or in the order of rows and cells."""
    out = [list(row) for row in edges]
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        row = rng.choice(out)
        kind = rng.randrange(7)
        if kind < 3:
            row[rng.randrange(len(row))] = rng.choice(ODD_NUMBERS if rng.random() < 0.7 else ODD_NAMES)
        elif kind == 3:
            a, b = rng.randrange(len(row)), rng.randrange(len(row))
            row[a], row[b] = row[b], row[a]
        elif kind == 4:
            row[rng.randrange(len(row))] = rng.choice(row)
        elif kind == 5:
            column = rng.randrange(3)
            value = rng.choice(ODD_NUMBERS + ODD_NAMES)
            for other in out:
                if len(other) > column:
                    other[column] = value
        else:
            out.append(list(rng.choice(out)))
    return [tuple(row) for row in out]


def mutated_lines(rng: random.Random, text: str) -> str:
    """Return the text with lines or the fields of lines changed."""
    lines = text.split("\n")
    kind = rng.randrange(13)
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    if kind == 0:
        lines.insert(i, lines[j])
    elif kind == 1:
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == 2:
        del lines[i]
    elif kind == 3:
        lines.insert(i, rng.choice(ODD_LINES))
    elif kind in (4, 5, 6, 7):
        i = 0 if kind == 7 else i
        separator = rng.choice([s for s in " \t,;|" if s in lines[i]] or ["," if kind == 7 else " "])
        fields = lines[i].split(separator)
        a = rng.randrange(len(fields))
        if kind == 4:
            b = rng.randrange(len(fields))
            fields[a], fields[b] = fields[b], fields[a]
        elif kind == 5:
            fields.insert(a, rng.choice(fields))
        else:
            fields[a] = rng.choice(WORDS if kind == 7 else ODD_NUMBERS + ODD_NAMES)
        lines[i] = separator.join(fields)
    elif kind == 8:
        found = [s for s in " \t,;|" if s in text]
        if found:
            return text.replace(rng.choice(found), rng.choice(SEPARATORS), rng.choice((1, -1, -1)))
    elif kind == 9:
        return text.replace(
            "\n", rng.choice(["\r\n", "\r", "\n\n", "\r\r\n", " \n", "\u2028"]), rng.choice((1, -1))
        )
    elif kind == 10:
        column = rng.choice([",5", ",x", ";5", " 5", "\t5", ",", "|7", ' "a"', "\t"])
        lines = [line + column for line in lines]
    elif kind == 11:
        lines[i] = (
            '"' + lines[i]
            if rng.random() < 0.5
            else lines[i].replace(rng.choice("0123456789"), rng.choice(ODD_NUMBERS))
        )
    else:
        lines[0] = rng.choice(["", "\ufeff", "# "]) + lines[0]
        lines[i] = rng.choice([" ", "\t", ""]) + lines[i]
    return "\n".join(lines)


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return the bytes with some flipped, cut, inserted or repeated."""
    if not data:
        return data
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        i = rng.randrange(len(out)) if out else 0
        kind = rng.randrange(7)
        if not out:
            break
        if kind == 0:
            out[i] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[i] = rng.randrange(256)
        elif kind == 2:
            del out[i : i + rng.choice((1, 1, 2, 8))]
        elif kind == 3:
            out[i:i] = bytes(rng.randrange(256) for _ in range(rng.choice((1, 1, 2, 8))))
        elif kind == 4:
            j = min(len(out), i + rng.choice((1, 4, 16, 64)))
            out[i:i] = out[i:j]
        elif kind == 5 and rng.random() < 0.3:
            del out[i:]
        else:
            out[i : i + 1] = rng.choice(
                (b"\n", b" ", b",", b"\t", b"-", b"+", b"0", b".", b"e", b'"', b"\r", b"\xff", b"\0", b"#")
            )
    return bytes(out)


def mutated_text(rng: random.Random, content: bytes, times: tuple[int, ...], of_lines: float) -> bytes:
    """Return a text changed as often as one of `times` says; the share `of_lines` of the changes are of lines."""
    for _ in range(rng.choice(times)):
        if chance(rng, of_lines):
            lines = mutated_lines(rng, content.decode("utf-8", "surrogateescape"))
            content = lines.encode("utf-8", "surrogateescape")
        else:
            content = mutated_bytes(rng, content)
    return content


OPTIONS: list[tuple[str, object]] = [
    *(("ids", word) for word in ("string", "integer")),
    *(("directed", word) for word in (False, "reversed")),
    *(("header", word) for word in (True, False)),
    *(("delimiter", word) for word in (",", ";", "tab")),
    ("decimal", "comma"),
    *(("weights", {"column": word}) for word in ("none", "time")),
    *(("weights", {"dtype": word}) for word in ("float32", "float64", "uint32", "int64")),
    *(("weights", {"scale": scale}) for scale in (10, 1000)),
    ("weights", {"default": 0.1}),
    ("columns", {"source": "from", "target": "to"}),
]


def options(rng: random.Random) -> dict:
    """Return options of the `graph` section; mostly none."""
    graph: dict = {}
    if rng.random() < 0.7:
        return graph
    for _ in range(rng.choice((1, 1, 2))):
        key, value = rng.choice(OPTIONS)
        graph[key] = value
    return graph


def _lines_format(
    write: Callable[[Rows], bytes], file: str, first_id: int, names: bool
) -> Callable[[random.Random], Input]:
    def make(rng: random.Random) -> Input:
        edges = rows(rng, first_id)
        if names and rng.random() < 0.3:
            edges = named(rng, edges)
        if file.endswith(".graph"):
            between = [(u, v, str(abs(int(float(w))))) for u, v, w in edges if u != v] or [("1", "2", "5")]
            edges = [(v, u, w) for u, v, w in between] + between
        content = write(mutated_rows(rng, edges) if names else edges)
        content = mutated_text(rng, content, (0, 0, 1, 1, 1, 2), 0.75)
        return _in_a_container(rng, Input(file, content, options(rng)))

    return make


def _in_a_container(rng: random.Random, made: Input, is_text: bool = True) -> Input:
    chance = rng.random()
    if chance < 0.03 and is_text:
        text = made.content.decode("utf-8", "replace")
        encoding = rng.choice(["utf-16", "utf-16-be", "latin-1", "utf-8-sig", "utf-32", "cp1252"])
        made.content = text.encode(encoding, "replace")
        if rng.random() < 0.4:
            made.graph["encoding"] = rng.choice([encoding, "latin-1", "utf-16", "utf-8"])
    elif chance < 0.1:
        suffix, wrap = CONTAINERS[rng.choice(list(CONTAINERS))]
        made.file += suffix
        made.content = wrap(made.content)
        if rng.random() < 0.6:
            made.content = mutated_bytes(rng, made.content)
        if rng.random() < 0.05:
            made.content = gzip.compress(made.content, mtime=0)
    return made


def graphml(rng: random.Random) -> Input:
    def write(edges: Rows) -> bytes:
        content = writers.graphml(edges).decode()
        if rng.random() < 0.2:
            content = content.replace('"directed"', '"undirected"')
        if rng.random() < 0.2:
            key = f'<key id="{rng.choice("wxy")}" for="{rng.choice(["edge", "node", "all"])}" attr.name="{{}}"/>'
            content = content.replace(
                "<graph ", key.format(rng.choice(["time", "note", "weight", "x"])) + "<graph "
            )
        if rng.random() < 0.1:
            content = content.replace("/><graph", "><default>7</default></key><graph").replace(
                '<data key="w">', rng.choice(['<data key="w">', '<data key="v">', "<data>"]), 1
            )
        return content.encode()

    return _lines_format(write, "edges.graphml", 0, True)(rng)


def csv(rng: random.Random) -> Input:
    separator, header = rng.choice([",", ",", ";", "|", "\t"]), rng.random() < 0.6
    make = _lines_format(lambda edges: writers.lines(edges, separator, header), "edges.csv", 0, True)
    return make(rng)


def metis(rng: random.Random) -> Input:
    return _lines_format(writers.metis, "edges.graph", 1, False)(rng)


def tntp(rng: random.Random) -> Input:
    """The workflow names the weight, mostly."""
    given = _lines_format(writers.tntp, "edges_net.tntp", 1, False)(rng)
    if rng.random() < 0.9:
        column = rng.choice(_words("length length length free_flow_time capacity toll none far"))
        given.graph["weights"] = {"column": column} | given.graph.get("weights", {})
    return given


#: Tags of ways: values with a meaning, and others.
TAGS = {
    "oneway": _words("yes no -1 1 true reverse reversible alternating maybe"),
    "oneway:bicycle": _words("no yes"),
    "oneway:foot": _words("no yes -1"),
    "maxspeed": [*_words("30 50 7.5 none signals 0 5mph 1e3 -5"), "30 mph", "5 knots", " 20 ", "20;30"],
    "maxspeed:forward": _words("20 walk"),
    "access": _words("yes no private destination customers"),
    "motor_vehicle": _words("no yes agricultural"),
    "bicycle": _words("no yes dismount use_sidepath designated"),
    "foot": _words("no yes designated"),
    "junction": _words("roundabout circular yes"),
    "area": _words("yes no"),
    "motorroad": _words("yes no"),
    "cycleway": _words("opposite opposite_lane lane"),
    "name": ['Köln & "x" <y>', ""],
}
HIGHWAYS = _words(
    "residential residential primary motorway trunk footway cycleway path track steps service proposed"
)


def osm(rng: random.Random) -> Input:
    n = rng.randrange(2, 9)
    ways = []
    for _ in range(rng.randrange(1, 5)):
        chosen = rng.sample(list(TAGS), rng.choice((0, 0, 1, 2, 4)))
        tags = {"highway": rng.choice(HIGHWAYS)} | {key: rng.choice(TAGS[key]) for key in chosen}
        ways.append(([rng.randrange(1, n + 1) for _ in range(rng.randrange(1, 7))], tags))
    nodes = [(f"{50 + rng.randrange(9999) / 1e4:.4f}", f"{rng.randrange(-999, 999) / 1e4}") for _ in range(n)]
    content = writers.osm(nodes, ways)
    content = mutated_text(rng, content, (0, 0, 0, 1, 1, 2), 0.6)
    graph = options(rng) if rng.random() < 0.1 else {}
    column = rng.choice(["length", "length", "time", "time", "none", "far"])
    graph["weights"] = {"column": column} | graph.get("weights", {})
    if rng.random() < 0.6:
        graph["profile"] = rng.choice(["car", "bicycle", "foot"])
    return Input("edges.osm", content, graph)


def matrix_market(rng: random.Random) -> Input:
    field_ = rng.choice(["real", "integer", "pattern", "complex"])
    symmetry = rng.choice(["general", "general", "symmetric", "hermitian"])

    def write(edges: Rows) -> bytes:
        if field_ == "pattern":
            edges = [row[:2] for row in edges]  # type: ignore[misc]
        return writers.matrix_market(edges).replace(b"real general", f"{field_} {symmetry}".encode())

    return _lines_format(write, "edges.mtx", 1, False)(rng)


def dimacs(rng: random.Random) -> Input:
    kind = rng.choice(["sp", "sp", "sp", "edge", "col", "tw"])

    def write(edges: Rows) -> bytes:
        content = writers.dimacs(edges).decode()
        if kind != "sp":
            letter = "" if kind == "tw" else "e "
            content = re.sub(r"(?m)^a (.*) .*$", rf"{letter}\1", content).replace("p sp", f"p {kind}")
        return content.encode()

    return _lines_format(write, "edges.gr", 1, False)(rng)


def galois(rng: random.Random) -> Input:
    edges = rows(rng)
    code = rng.choice("IIQfd")
    edges = [(u, v, str(abs(int(float(w))) % 2**32)) for u, v, w in edges]
    content = writers.galois(edges, code)
    if rng.random() < 0.2:
        weights_at = len(content) - struct.calcsize("<" + code) * len(edges)
        content = content[:8] + struct.pack("<Q", 0) + content[16:weights_at]
    if rng.random() < 0.5:
        i = 8 * rng.randrange(len(content) // 8)
        odd = rng.choice([0, 1, 2, 3, 2**31, 2**32 - 1, 2**32, 2**63, 2**64 - 1, 2**40, 5, 10**6])
        content = content[:i] + struct.pack("<Q", odd) + content[i + 8 :]
    if rng.random() < 0.5:
        content = mutated_bytes(rng, content)
    return _in_a_container(rng, Input("edges.gr", content, options(rng)), is_text=False)


def npz(rng: random.Random) -> Input:
    edges = rows(rng)
    seen = {(u, v): (u, v, w) for u, v, w in edges}
    content = writers.npz(list(seen.values()), rng.choice(["csr", "csc", "coo"]))
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for _ in range(rng.choice((0, 1, 1, 2))):
        name = rng.choice(list(arrays))
        array, kind = arrays[name], rng.randrange(9)
        if kind == 0 and array.ndim and array.size and array.dtype.kind in "iuf":
            odd = rng.choice([0, 1, -1, 2, 5, 2**31 - 1, 3, 7])
            array = array.copy()
            array.flat[rng.randrange(array.size)] = odd
        elif kind == 1 and array.dtype.kind in "iuf":
            types = _words("i1 u1 i2 u4 i8 u8 f2 f4 f8 >i4 >f8 c16 ? S5 U5 g")
            with np.errstate(all="ignore"):
                array = array.astype(rng.choice(types))
        elif kind == 2 and array.ndim:
            array = array[: rng.randrange(array.size + 1)]
        elif kind == 3 and array.ndim:
            array = np.concatenate([array, array[:1]])
        elif kind == 4:
            array = array.reshape(rng.choice([(-1, 1), (1, -1), (-1,)]))
        elif kind == 5 and name == "data" and array.dtype.kind in "iuf":
            array = array.astype(np.float64)
            array[:1] = rng.choice([np.nan, np.inf, 1e-310, 0.1, 1e300, -0.0, 2.0**64])
        elif kind == 6 and name == "format":
            array = np.array(rng.choice([b"bsr", b"dia", b"", b"CSR", "csr", b"csr\xff", 5, b"lil"]))
        elif kind == 7:
            arrays[rng.choice(["extra", "_is_array", "row", "col"])] = rng.choice(list(arrays.values()))
        elif kind == 8:
            del arrays[name]
            if not arrays:
                break
            continue
        arrays[name] = array
    content = writers.savez(**arrays)
    if rng.random() < 0.4:
        content = _inside_of_a_zip(rng, content)
    if rng.random() < 0.4:
        content = mutated_bytes(rng, content)
    return Input("edges.npz", content, options(rng))


def _inside_of_a_zip(rng: random.Random, content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(out, "w") as again:
        names = archive.namelist()
        changed = rng.choice(names) if names else ""
        for name in names:
            data = archive.read(name)
            again.writestr(zipfile.ZipInfo(name), mutated_bytes(rng, data) if name == changed else data)
    return out.getvalue()


def parquet(rng: random.Random) -> Input:
    edges = rows(rng)
    if rng.random() < 0.3:
        edges = named(rng, edges)
    content = _odd_table(rng, writers.table(edges)) if rng.random() < 0.6 else writers.table(edges)
    file, write = rng.choice(
        [
            ("edges.parquet", writers.parquet_of),
            ("edges.parquet", writers.parquet_of),
            ("edges.arrow", lambda table: writers.arrow_of(table, pa.ipc.new_file)),
            ("edges.arrows", lambda table: writers.arrow_of(table, pa.ipc.new_stream)),
        ]
    )
    data = write(content)
    if rng.random() < 0.5:
        data = mutated_bytes(rng, data)
    return Input(file, data, options(rng))


def _odd_table(rng: random.Random, table: pa.Table) -> pa.Table:
    for _ in range(rng.choice((1, 1, 2))):
        if not len(table):
            break
        i = rng.randrange(table.num_columns)
        column, name = table.column(i).combine_chunks(), table.column_names[i]
        kind = rng.randrange(6)
        if kind == 0:
            types = [pa.int8(), pa.uint64(), pa.int32(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()]
            types += [
                pa.string(),
                pa.large_string(),
                pa.binary(),
                pa.decimal128(20, 3),
                pa.date32(),
                pa.decimal128(38, 9),
            ]
            types += [pa.timestamp("us"), pa.dictionary(pa.int32(), pa.string())]
            try:
                column = column.cast(rng.choice(types), safe=False)
            except (pa.ArrowException, ValueError):
                continue
        elif kind == 1:
            column = pa.array(
                [None if rng.random() < 0.2 else value for value in column.to_pylist()], column.type
            )
        elif kind == 2:
            name = rng.choice(WORDS)
        elif kind == 3:
            table = table.append_column(rng.choice(WORDS), column)
            continue
        elif kind == 4:
            table = table.slice(0, rng.randrange(len(table) + 1))
            continue
        elif pa.types.is_floating(column.type):
            odd = rng.choice([float("nan"), float("inf"), 1e-310, 1e300, -0.0, 0.1, 5e-324])
            column = pa.array([odd, *column.to_pylist()[1:]], column.type)
        elif pa.types.is_integer(column.type):
            odd = rng.choice([-1, 0, 2**31, 2**32 - 1, 2**63 - 1, -(2**63)])
            try:
                column = pa.array([odd, *column.to_pylist()[1:]], pa.int64())
            except OverflowError:
                continue  # the others are too large for this type
        table = table.set_column(i, name, column)
    return table


text = _lines_format(writers.text, "edges.txt", 0, True)
neo4j = _lines_format(writers.neo4j, "edges.csv", 0, True)
networkx = _lines_format(writers.networkx, "edges.edgelist", 0, True)
