"""What an edge list means: a slow and plain reader of every format.

It is written from docs/design/0010-reading-an-input.md, not from the program, so that the two can be compared. It reads
the whole input before it decides. Whatever has two readings, or none, is refused.

`understood(data, name, graph)` takes the bytes of a file, its name, and the `graph` section of a workflow as a dict. It
returns a `Graph`, or a `Refused` with the reason.
"""

from __future__ import annotations

import ast
import bz2
import gzip
import io
import lzma
import re
import struct
import tarfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def _set(words_: str) -> set[str]:
    return set(words_.split())


SOURCE_WORDS = _set("source src from tail start origin orig begin u fromnodeid node1")
TARGET_WORDS = _set("target tgt dst dest destination to head end v sink tonodeid node2")
WEIGHT_WORDS = _set(
    "weight weights w wt length len distance dist cost costs time duration value price impedance "
    "km kilometers kilometres m meters metres miles mi minutes min mins seconds secs sec s hours hour hrs h ms"
)
DELIMITERS = {",": ",", ";": ";", "|": "|", "tab": "\t"}
MAX_ID = 2**63 - 1
#: Rules that need values look at so many rows; every later row must agree with what they decided.
SAMPLE = 1000

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
NATURAL = re.compile(r"0|[1-9]\d*", re.ASCII)
ODD_NATURAL = re.compile(r"\+?\d+", re.ASCII)
DIGITS = re.compile(r"\d+", re.ASCII)
#: Not blanks, not text: a row with one of these is damaged.
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f]")
#: What bytes that are not UTF-8 become.
UNDECODED = re.compile(r"[\ud800-\udfff]")


class Refused(Exception):
    """Why the input has no meaning, or more than one."""


@dataclass
class Graph:
    """What the input says.

    Attributes
    ----------
    edges
        (source id, target id, weight) as listed; the weight is exact, None where the input has none.
    ids
        "integer" or "string".
    mirrored
        Whether the reverse of every edge belongs to the graph as well.
    vertices
        The range of ids that the file declares; None where the vertices are the ids that occur.
    decimals
        Whether a weight is written with a point or an exponent, or its column holds floats.
    inexact
        Whether a weight that is written as an integer is one that float64 does not hold.
    typed
        The type of the column of weights, where the format has types.
    skipped
        How many rows were left out because they cannot be read.
    """

    edges: list[tuple[int | str, int | str, Fraction | None]]
    ids: str = "integer"
    mirrored: bool = False
    vertices: range | None = None
    decimals: bool = False
    inexact: bool = False
    typed: str | None = None
    skipped: int = 0


def understood(data: bytes, name: str, graph: dict) -> Graph | Refused:
    """Return what the file means, or why it is refused."""
    try:
        return _checked(_read(data, name, graph), graph)
    except Refused as refusal:
        return refusal


def _read(data: bytes, name: str, graph: dict) -> Graph:
    data, name = unwrapped(data, name)
    if not data:
        raise Refused("empty")
    asked = graph.get("format", "auto")
    found = _binary_format(data)
    if found in ("parquet", "scipy-npz") or asked in ("parquet", "scipy-npz"):
        if asked not in ("auto", found):
            raise Refused(f"the file is {found}, not {asked}")
        return read_parquet(data, graph) if found == "parquet" else read_npz(data, graph)
    if asked == "galois" or (asked == "auto" and found == "galois"):
        return read_galois(data, graph)
    text = decoded(data, graph.get("encoding", "auto"))
    kind = asked if asked != "auto" else _text_format(text, name, graph)
    if kind not in READERS:
        raise Refused(f"no format {kind}")
    return READERS[kind](text, graph)


# Containers and encodings.


def unwrapped(data: bytes, name: str) -> tuple[bytes, str]:
    """Return the file inside of compressed files and archives, and its name."""
    for _ in range(4):
        try:
            if data.startswith(b"\x1f\x8b"):
                data, name = gzip.decompress(data), name.removesuffix(".gz")
            elif data.startswith(b"BZh"):
                data, name = bz2.decompress(data), name.removesuffix(".bz2")
            elif data.startswith(b"\xfd7zXZ\x00"):
                data, name = lzma.decompress(data), name.removesuffix(".xz")
            elif data.startswith(b"\x28\xb5\x2f\xfd"):
                with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
                    data, name = stream.read(), name.removesuffix(".zst")
            elif data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
                with zipfile.ZipFile(io.BytesIO(data)) as archive:
                    names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
                    if any(member.endswith(".npy") for member in names):
                        return data, name
                    if len(names) != 1:
                        raise Refused(f"{len(names)} members")
                    data, name = archive.read(names[0]), names[0]
            elif data[257:262] == b"ustar":
                with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
                    members = [member for member in archive if not member.isdir()]
                    if len(members) != 1 or not members[0].isfile():
                        raise Refused(f"{len(members)} members")
                    stream = archive.extractfile(members[0])
                    data, name = stream.read(), members[0].name
                    if len(data) != members[0].size:
                        raise Refused("cut short")
            else:
                return data, name
        except Refused:
            raise
        except Exception as error:  # each of these modules has errors of its own
            raise Refused(f"damaged: {error}") from None
    return data, name


def decoded(data: bytes, encoding: str) -> str:
    """Return the text; bytes that are not UTF-8 stay as lone surrogates, for they may stand in a comment."""
    if encoding == "auto":
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8"
    try:
        utf8 = encoding.lower().replace("_", "-") in ("utf-8", "utf8")
        text = data.decode(encoding, "surrogateescape" if utf8 else "strict")
    except (UnicodeError, LookupError) as error:
        raise Refused(f"not {encoding}: {error}") from None
    return text.removeprefix("\ufeff")


def _binary_format(data: bytes) -> str | None:
    if data.startswith((b"PAR1", b"ARROW1", b"\xff\xff\xff\xff")):
        return "parquet"
    if data.startswith(b"PK"):
        return "scipy-npz"
    if len(data) >= 16:
        version, weight_bytes = struct.unpack("<QQ", data[:16])
        if version in (1, 2) and weight_bytes <= 8:
            return "galois"
    return None


# Lines.


def rows_of(text: str, comments: str) -> list[tuple[int, str]]:
    """Return the number and the content of every line that is neither blank nor a comment."""
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip(" \t\r")
        if "\r" in line:
            raise Refused(f"line {number}: a carriage return without a line feed")
        if not line or line[0] in comments:
            continue
        if CONTROL.search(line):
            raise Refused(f"line {number}: a control character")
        rows.append((number, line))
    return rows


def words(line: str) -> list[str]:
    """Return the words of a line, which spaces and tabs separate."""
    return re.split("[ \t]+", line.strip(" \t"))


def cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line of a table, without the blanks and the quotes around them."""
    if delimiter == " ":
        return words(line)
    found, position = [], 0
    while True:
        if line[position : position + 1] == '"':
            quoted = re.compile(r'"((?:[^"]|"")*)"').match(line, position)
            if not quoted or line[quoted.end() : quoted.end() + 1] not in ("", delimiter):
                raise Refused("a quote that does not end its cell")
            found.append(quoted[1].replace('""', '"'))
            position = quoted.end()
        else:
            end = line.find(delimiter, position)
            end = len(line) if end < 0 else end
            if line[position:end].lstrip(" \t").startswith('"'):
                raise Refused("blanks before a quote")
            found.append(line[position:end])
            position = end
        if position >= len(line):
            return [cell.strip(" \t") for cell in found]
        position += 1


def _text_format(text: str, name: str, graph: dict) -> str:
    if text.startswith("%%MatrixMarket"):
        return "matrix-market"
    for line in text.split("\n"):
        first = line.split()
        if first and not first[0].startswith("c"):
            if (
                first[0] == "p"
                and len(first) >= 4
                and all(DIGITS.fullmatch(w) or w == "co" for w in first[-2:])
            ):
                return "dimacs"
            break
    rows = rows_of(text, "#%")
    if not rows:
        raise Refused("no edges")
    first = rows[0][1]
    if first[0] in "<{[":
        raise Refused("HTML, XML or JSON")
    if all(
        words(line)[0] in ("a", "e") and len(words(line)) > 2 and all(map(NUMBER.fullmatch, words(line)[1:]))
        for _, line in rows
    ):
        raise Refused("DIMACS without its p line")
    if (
        name.endswith((".graph", ".metis"))
        and all(map(DIGITS.fullmatch, words(first)))
        and len(words(first)) in (2, 3, 4)
    ):
        return "metis"
    if NETWORKX_ROW.fullmatch(first):
        return "networkx"
    return "table"


# Numbers and ids.


def number(cell: str, decimal: str = "point") -> Fraction | None:
    """Return the exact value of a number in decimal, or None if the cell is none."""
    if decimal == "comma":
        if "." in cell:
            return None
        cell = cell.replace(",", ".")
    if not NUMBER.fullmatch(cell):
        return None
    value = Decimal(cell)
    # Numbers that float64 would make infinite or zero; their fractions would be huge.
    if value and not -400 < value.adjusted() < 400:
        raise Refused(f"weight {cell} is beyond float64")
    return Fraction(value)


def as_ids(found: list[str], asked: str) -> tuple[list[int] | list[str], str]:
    """Return the ids and their kind, by the spelling of all of them."""
    if "" in found:
        raise Refused("an id is empty")
    if bad := next((i for i in found if UNDECODED.search(i)), None):
        raise Refused(f"id {bad!r} is not UTF-8")
    if asked == "string":
        return found, "string"
    spelled = [
        "natural" if NATURAL.fullmatch(i) else "odd" if ODD_NATURAL.fullmatch(i) else "name" for i in found
    ]
    sample = set(spelled[: 2 * SAMPLE])
    if asked == "integer" or sample == {"natural"}:
        if "name" in spelled or (asked != "integer" and "odd" in spelled):
            raise Refused("an id is no natural number")
        stripped = [i.lstrip("+0") or "0" for i in found]
        if any(len(i) > 19 or int(i) > MAX_ID for i in stripped):
            raise Refused("an id is above 2^63 - 1")
        return [int(i) for i in stripped], "integer"
    if "name" in spelled and (sample != {"name"} or any(NUMBER.fullmatch(i) for i in found)):
        raise Refused("ids are numbers and names, or numbers that are no ids")
    return found, "string"


def _edges(
    rows: list[tuple[str, str, str | None]], graph: dict, comma: bool = True, vertices: range | None = None
) -> Graph:
    """Return the graph of rows (source, target, weight) as they are written."""
    decimal = graph.get("decimal", "point") if comma else "point"
    if not rows and vertices is None:
        raise Refused("no edges")
    ids, kind = as_ids([end for row in rows for end in row[:2]], graph.get("ids", "auto"))
    weights, decimals, inexact = [], False, False
    for *_, cell in rows:
        value = None
        if cell is not None:
            value = number(cell, decimal)
            if value is None:
                raise Refused(f"{cell!r} is not a weight")
            whole = INTEGER.fullmatch(cell)
            decimals |= not whole
            inexact |= bool(whole) and not is_exact(value, "float64")
        weights.append(value)
    edges = list(zip(ids[::2], ids[1::2], weights, strict=True))
    return Graph(edges, kind, vertices=vertices, decimals=decimals, inexact=inexact)


# Text and tables.


def read_text(text: str, graph: dict) -> Graph:
    """`source target [weight]` a line; white space separates, and every line has as many columns."""
    if graph.get("delimiter", "auto") != "auto" or graph.get("header") is True:
        raise Refused("a text has neither a delimiter nor a header")
    rows = [words(line) for _, line in rows_of(text, "#%")]
    if not rows:
        raise Refused("no edges")
    if names_both_ends(rows[0]):
        raise Refused("the first line is a header")
    return _without_header(rows, graph)


def read_csv(text: str, graph: dict) -> Graph:
    """A table with or without a header, whose cells may stand in quotes."""
    return read_table(text, graph, must_be_csv=True)


def read_table(text: str, graph: dict, must_be_csv: bool = False) -> Graph:
    """A csv if a delimiter fits, else a text."""
    lines = [line for _, line in rows_of(_without_leading_comments(text), "")]
    if not lines:
        raise Refused("no edges")
    asked = graph.get("delimiter", "auto")
    header = graph.get("header", "auto")
    if asked != "auto":
        delimiter = {"space": " "}.get(asked) or DELIMITERS.get(asked, asked)
    else:
        fitting = [d for d in DELIMITERS.values() if _fits(lines, d, graph)]
        if len(fitting) > 1:
            raise Refused(f"the delimiters {fitting} both fit")
        delimiter = fitting[0] if fitting else None
        is_text = delimiter is None or (
            delimiter == "\t"
            and header is not True
            and not _is_header([cells(line, "\t") for line in lines], graph)
        )
        if is_text and (
            header is True or names_both_ends(words(lines[0])) or _names_asked(words(lines[0]), graph)
        ):
            delimiter = delimiter or " "
        elif is_text and not (must_be_csv and delimiter):
            if must_be_csv:
                raise Refused("no delimiter fits")
            return read_text(text, graph)
    if any(line[0] in "#%" for line in lines):
        raise Refused("a comment or an edge")
    rows = [cells(line, delimiter) for line in lines]
    if len(rows[0]) < 2:
        raise Refused("one column")
    if header == "auto":
        header = _is_header(rows, graph)
        if header is None:
            raise Refused("the first row may be a header or an edge")
    return _with_header(rows[0], rows[1:], graph) if header else _without_header(rows, graph)


def _without_leading_comments(text: str) -> str:
    lines = text.split("\n")
    while lines and (not lines[0].strip() or lines[0].strip()[0] in "#%"):
        if "\r" in lines[0].strip():
            raise Refused("a carriage return without a line feed")
        lines.pop(0)
    return "\n".join(lines)


def _fits(lines: list[str], delimiter: str, graph: dict) -> bool:
    if delimiter == "," and graph.get("decimal") == "comma":
        return False
    try:
        counts = Counter(len(cells(line, delimiter)) for line in lines[: SAMPLE + 1])
        first = len(cells(lines[0], delimiter))
    except Refused:
        return False
    if graph.get("unreadable") == "skip":
        return first > 1 and 2 * counts[first] >= sum(counts.values())
    return len(counts) == 1 and first > 1


def _is_header(rows: list[list[str]], graph: dict) -> bool | None:
    """Return whether the first row is a header; None if it may be a header or an edge."""
    first, rest = rows[0], [row for row in rows[1 : SAMPLE + 1] if len(row) == len(rows[0])]
    decimal = graph.get("decimal", "point")
    numeric = [_is_number(cell, decimal) for cell in first]
    speaks = any(
        not numeric[c] and rest and all(_is_number(row[c], decimal) for row in rest)
        for c in range(len(first))
    )
    if speaks or names_both_ends(first) or _names_asked(first, graph):
        return True
    return False if any(numeric) else None


def _is_number(cell: str, decimal: str) -> bool:
    try:
        return number(cell, decimal) is not None
    except Refused:
        return True


def name_words(name: str) -> list[str]:
    """Return the words of a column's name: `fromStop`, `from_stop` and `From Stop` are from, stop."""
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[\W_]+", apart) if word]


def names_both_ends(row: list[str]) -> bool:
    """Return whether a row has a word for a source and, in another cell, a word for a target."""
    having = [
        [i for i, cell in enumerate(row) if each & set(name_words(cell))]
        for each in (SOURCE_WORDS, TARGET_WORDS)
    ]
    return any(s != t for s in having[0] for t in having[1])


def _names_asked(row: list[str], graph: dict) -> bool:
    return any(isinstance(name, str) and not name.isdigit() and name in row for name in _asked(graph))


def _asked(graph: dict) -> list[str]:
    """Return the columns that the workflow names: source, target, weight; "auto" where it names none."""
    columns = graph.get("columns", {})
    return [
        str(columns.get("source", "auto")),
        str(columns.get("target", "auto")),
        str(graph.get("weights", {}).get("column", "auto")),
    ]


def choose_columns(names: list[str], numeric: list[bool], graph: dict) -> tuple[int, int, int | None]:
    """Return the positions of source, target and weight under a header; `numeric`: the column holds only numbers."""
    if len(set(names)) < len(names):
        raise Refused("two columns have one name")
    asked = _asked(graph)
    for name in asked:
        if name not in ("auto", "none", *names):
            raise Refused(f"no column {name}")
    source, target, weight = (names.index(name) if name in names else None for name in asked)
    cut = [name_words(name) for name in names]
    if source is None or target is None:
        starts = [source] if source is not None else [i for i, w in enumerate(cut) if SOURCE_WORDS & set(w)]
        ends = [target] if target is not None else [i for i, w in enumerate(cut) if TARGET_WORDS & set(w)]
        pairs = [(s, t) for s in starts for t in ends if s != t]
        if not (len(starts) == len(ends) == len(pairs) == 1):
            pairs = [(s, t) for s, t in pairs if _differ_in_one_word(cut[s], cut[t])]
        if len(pairs) != 1:
            raise Refused(f"ends are not clear: {names}")
        source, target = pairs[0]
    if source == target or weight in (source, target):
        raise Refused("one column for two things")
    if asked[2] == "none" or weight is not None:
        return source, target, weight
    left = [i for i in range(len(names)) if i not in (source, target)]
    named = [i for i in left if WEIGHT_WORDS & set(cut[i])]
    if len(named) > 1 or (not named and any(numeric[i] for i in left)):
        raise Refused(f"the weight is not clear: {names}")
    return source, target, named[0] if named else None


def _differ_in_one_word(source: list[str], target: list[str]) -> bool:
    differ = [(s, t) for s, t in zip(source, target, strict=False) if s != t]
    return (
        len(source) == len(target)
        and len(differ) == 1
        and differ[0][0] in SOURCE_WORDS
        and differ[0][1] in TARGET_WORDS
    )


def _with_header(names: list[str], rows: list[list[str]], graph: dict) -> Graph:
    if bad := next((name for name in names if UNDECODED.search(name)), None):
        raise Refused(f"column {bad!r} is not UTF-8")
    kept = [row for row in rows[:SAMPLE] if len(row) == len(names)]
    numeric = []
    for c in range(len(names)):
        column = [row[c] for row in kept if row[c]]
        numeric.append(
            bool(column) and all(_is_number(cell, graph.get("decimal", "point")) for cell in column)
        )
    return _from_columns(rows, len(names), choose_columns(names, numeric, graph), graph)


def _without_header(rows: list[list[str]], graph: dict) -> Graph:
    n_columns = len(rows[0])
    if n_columns < 2:
        raise Refused("one column")
    asked = _asked(graph)
    if any(name not in ("auto", "none") and not 1 <= _position(name) <= n_columns for name in asked):
        raise Refused("no such column")
    source, target, weight = (None if name in ("auto", "none") else int(name) - 1 for name in asked)
    if source is None and target is None and n_columns > 2 and _may_be_edge_ids(rows):
        raise Refused("the first column may be the id of an edge")
    source, target = 0 if source is None else source, 1 if target is None else target
    if weight is None and asked[2] == "auto" and n_columns > 2:
        weight = 2
    if len({source, target, weight}) < 3:
        raise Refused("one column for two things")
    return _from_columns(rows, n_columns, (source, target, weight), graph)


def _position(name: str) -> int:
    return int(name) if DIGITS.fullmatch(name) else 0


def _may_be_edge_ids(rows: list[list[str]]) -> bool:
    """Whether, in 100 rows or more, the first column never repeats, and the next two hold ids that do."""
    rows = [row for row in rows[:SAMPLE] if len(row) == len(rows[0])]
    first, second, third = ([row[c] for row in rows] for c in range(3))
    return (
        len(rows) >= 100
        and len(set(first)) == len(first)
        and len(set(second)) < len(second)
        and len(set(third)) < len(third)
        and not any(NUMBER.fullmatch(cell) and not ODD_NATURAL.fullmatch(cell) for cell in third)
    )


def _from_columns(
    rows: list[list[str]], n_columns: int, columns: tuple[int, int, int | None], graph: dict
) -> Graph:
    source, target, weight = columns
    skip = graph.get("unreadable") == "skip"
    kept, skipped = [], 0
    for row in rows:
        readable = len(row) == n_columns and row[source] and row[target]
        if readable and weight is not None and skip:
            readable = _is_number(row[weight], graph.get("decimal", "point"))
        if readable:
            kept.append((row[source], row[target], None if weight is None else row[weight]))
        elif skip:
            skipped += 1
        else:
            raise Refused(f"the row {row} cannot be read")
    result = _edges(kept, graph)
    result.skipped = skipped
    return result


# Formats that declare their counts.


def _refuse_columns(graph: dict) -> None:
    if (
        set(_asked(graph)) - {"auto", "none"}
        or graph.get("ids") == "string"
        or graph.get("unreadable") == "skip"
    ):
        raise Refused("columns, string ids and skipping are for tables")
    if _asked(graph)[0] == "none" or _asked(graph)[1] == "none":
        raise Refused("no column none")


def _natural(word: str, low: int = 0, high: int = 2**32) -> int:
    if not DIGITS.fullmatch(word) or len(word.lstrip("0")) > 19 or not low <= int(word) <= high:
        raise Refused(f"{word} is not within {low} and {high}")
    return int(word)


def _weightless(graph: dict) -> bool:
    return _asked(graph)[2] == "none"


def read_dimacs(text: str, graph: dict) -> Graph:
    """`p sp V E` and `a u v w`; `p edge`, `p col` and `e u v`; `p tw` and `u v`. Lines of `c` are comments."""
    _refuse_columns(graph)
    rows = [words(line) for _, line in rows_of(text, "c")]
    if not rows or rows[0][0] != "p" or len(rows[0]) != 4 or rows[0][1] not in ("sp", "edge", "col", "tw"):
        raise Refused("no problem line")
    vertices = range(1, _natural(rows[0][2]) + 1)
    n_edges = _natural(rows[0][3], high=2**62)
    letter = {"sp": ["a"], "tw": []}.get(rows[0][1], ["e"])
    n_columns = 3 if rows[0][1] == "sp" else 2
    edges = []
    for row in rows[1:]:
        if row[: len(letter)] != letter or len(row) != len(letter) + n_columns:
            raise Refused(f"{row} is no edge")
        u, v, *weight = row[len(letter) :]
        edges.append((u, v, weight[0] if weight and not _weightless(graph) else None))
    return _declared(edges, vertices, n_edges, graph)


def _declared(edges: list[tuple[str, str, str | None]], vertices: range, n_edges: int, graph: dict) -> Graph:
    if len(edges) != n_edges:
        raise Refused(f"{n_edges} edges are declared, {len(edges)} are listed")
    plain = [
        (
            str(_natural(u, vertices.start, vertices.stop - 1)),
            str(_natural(v, vertices.start, vertices.stop - 1)),
            w,
        )
        for u, v, w in edges
    ]
    return _edges(plain, graph, comma=False, vertices=vertices)


def read_matrix_market(text: str, graph: dict) -> Graph:
    """A banner, comments, `ROWS COLUMNS ENTRIES`, then `row column [value]`."""
    _refuse_columns(graph)
    banner, _, rest = text.partition("\n")
    kind = banner.lower().split()
    if len(kind) != 5 or kind[:3] != ["%%matrixmarket", "matrix", "coordinate"]:
        raise Refused("no banner")
    field, symmetry = kind[3:]
    if field not in ("pattern", "integer", "real") or symmetry not in ("general", "symmetric"):
        raise Refused(f"{field} {symmetry} is no graph")
    rows = [words(line) for _, line in rows_of(rest, "%")]
    if not rows or len(rows[0]) != 3:
        raise Refused("no sizes")
    n_rows, n_columns, n_entries = (_natural(word, high=2**62) for word in rows[0])
    if n_rows != n_columns or n_rows > 2**32:
        raise Refused("no square matrix")
    edges = []
    for row in rows[1:]:
        if len(row) != (2 if field == "pattern" else 3):
            raise Refused(f"{row} is no entry")
        if field == "integer" and not INTEGER.fullmatch(row[2]):
            raise Refused(f"{row[2]} is no integer")
        edges.append((row[0], row[1], row[2] if field != "pattern" and not _weightless(graph) else None))
    result = _declared(edges, range(1, n_rows + 1), n_entries, graph)
    result.mirrored = symmetry == "symmetric"
    return result


def read_metis(text: str, graph: dict) -> Graph:
    """`V E [format [vertex weights]]`, then a line of neighbours for each vertex; each edge stands in two lines."""
    _refuse_columns(graph)
    lines = []
    for line in text.removesuffix("\n").split("\n"):
        line = line.strip(" \t\r")
        if line.startswith("%"):
            continue
        if CONTROL.search(line):
            raise Refused("a control character")
        if line or lines:
            lines.append(line)
    header = words(lines[0]) if lines else []
    if not 2 <= len(header) <= 4 or not all(map(DIGITS.fullmatch, header)):
        raise Refused("no header")
    n_vertices, n_edges = _natural(header[0]), _natural(header[1], high=2**62)
    layout = (header[2].lstrip("0") if len(header) > 2 else "").zfill(3)
    if len(layout) != 3 or set(layout) - set("01"):
        raise Refused(f"no format {layout}")
    n_weights = _natural(header[3]) if len(header) > 3 else 1
    n_skipped = int(layout[0]) + (n_weights if layout[1] == "1" else 0)
    if len(lines) - 1 < n_vertices or any(lines[1 + n_vertices :]):
        raise Refused("wrong number of lines")
    rows = []
    for u, line in enumerate(lines[1 : 1 + n_vertices], 1):
        entries = words(line) if line else []
        if not all(map(INTEGER.fullmatch, entries)) or (len(entries) < n_skipped and (entries or n_skipped)):
            raise Refused(f"the line of vertex {u}")
        entries = entries[n_skipped:]
        step = 1 + int(layout[2])
        if len(entries) % step:
            raise Refused(f"the last neighbour of vertex {u} has no weight")
        for i in range(0, len(entries), step):
            rows.append((str(u), entries[i], entries[i + 1] if step == 2 else None))
    result = _declared(rows, range(1, n_vertices + 1), 2 * n_edges, graph)
    there = Counter(result.edges)
    back = Counter((v, u, w) for u, v, w in result.edges)
    if there != back:
        raise Refused("an edge without its reverse")
    if _weightless(graph):
        result.edges = [(u, v, None) for u, v, _ in result.edges]
    return result


def read_galois(data: bytes, graph: dict) -> Graph:
    """Little-endian uint64 version, bytes a weight, V, E; V row ends; E targets of 4 bytes, padded to 8; E weights."""
    _refuse_columns(graph)
    if len(data) < 32:
        raise Refused("cut short")
    version, weight_bytes, n_vertices, n_edges = struct.unpack("<QQQQ", data[:32])
    if version != 1 or weight_bytes not in (0, 4, 8):
        raise Refused("another version")
    padding = 4 * (n_edges % 2)
    size = 32 + 8 * n_vertices + (4 + weight_bytes) * n_edges + padding
    if len(data) != size and not (weight_bytes == 0 and len(data) == size - padding):
        raise Refused(f"{len(data)} bytes, wanted {size}")
    row_ends = struct.unpack_from(f"<{n_vertices}Q", data, 32)
    targets = struct.unpack_from(f"<{n_edges}I", data, 32 + 8 * n_vertices)
    asked = graph.get("weights", {}).get("dtype", "auto")
    kind = "u" if asked == "auto" else np.dtype(asked).kind
    weights = [None] * n_edges
    if weight_bytes and not _weightless(graph):
        code = {"u4": "I", "i4": "i", "f4": "f", "u8": "Q", "i8": "q", "f8": "d"}[f"{kind}{weight_bytes}"]
        weights = [
            _exact(w) for w in struct.unpack_from(f"<{n_edges}{code}", data, size - weight_bytes * n_edges)
        ]
    if list(row_ends) != sorted(row_ends) or (row_ends[-1] if row_ends else 0) != n_edges:
        raise Refused("row ends")
    if any(target >= n_vertices for target in targets):
        raise Refused("a target that is no vertex")
    sources = [
        u for u, (a, b) in enumerate(zip((0, *row_ends), row_ends, strict=False)) for _ in range(b - a)
    ]
    typed = f"{kind}{weight_bytes}" if weight_bytes and not _weightless(graph) else None
    return Graph(
        list(zip(sources, targets, weights, strict=True)),
        vertices=range(n_vertices),
        decimals=bool(typed) and kind == "f",
        typed=typed and np.dtype(typed).name,
    )


def read_npz(data: bytes, graph: dict) -> Graph:
    """A matrix as `scipy.sparse.save_npz` writes it: csr, csc or coo; the entry (i, j) is an edge from i to j."""
    _refuse_columns(graph)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if len(archive.namelist()) != len(set(archive.namelist())):
                raise Refused("a member stands twice")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"damaged: {error}") from None
    layout = np.asarray(arrays.pop("format", "?")).ravel().tolist()
    arrays.pop("_is_array", None)
    layout = layout[0] if len(layout) == 1 else "?"
    layout = layout.decode("ascii", "replace") if isinstance(layout, bytes) else str(layout)
    wanted = {"csr": "indices indptr", "csc": "indices indptr", "coo": "row col"}.get(layout)
    if wanted is None or set(arrays) != {"shape", "data", *wanted.split()}:
        raise Refused(f"layout {layout} with {sorted(arrays)}")
    for name, array in arrays.items():
        if (
            not isinstance(array, np.ndarray)
            or array.ndim != 1
            or (name != "data" and array.dtype.kind not in "iu")
        ):
            raise Refused(f"{name} is no row of integers")
    shape = arrays["shape"].tolist()
    if len(shape) != 2 or shape[0] != shape[1] or not 0 <= shape[0] <= 2**32:
        raise Refused(f"no square matrix: {shape}")
    values, n = arrays["data"], shape[0]
    if values.dtype.kind not in "iuf" or values.dtype.itemsize > 8:
        raise Refused(f"weights of type {values.dtype}")
    if layout == "coo":
        sources, targets = arrays["row"].tolist(), arrays["col"].tolist()
    else:
        ends, targets = arrays["indptr"].tolist(), arrays["indices"].tolist()
        if len(ends) != n + 1 or ends != sorted(ends) or ends[0] != 0 or ends[-1] != len(targets):
            raise Refused("indptr")
        sources = [u for u in range(n) for _ in range(ends[u + 1] - ends[u])]
        if layout == "csc":
            sources, targets = targets, sources
    if not len(sources) == len(targets) == len(values) or any(not 0 <= i < n for i in (*sources, *targets)):
        raise Refused("indices")
    if len(set(zip(sources, targets, strict=True))) < len(sources):
        raise Refused("an entry stands twice: SciPy would add the two")
    weights = [None if _weightless(graph) else _exact(w) for w in values.tolist()]
    typed = None if _weightless(graph) else values.dtype.name
    return Graph(
        list(zip(sources, targets, weights, strict=True)),
        vertices=range(n),
        decimals=bool(typed) and values.dtype.kind == "f",
        typed=typed,
    )


def _exact(value: float | int | Decimal) -> Fraction:
    try:
        return Fraction(value)
    except (ValueError, OverflowError):
        raise Refused(f"weight {value} is not finite") from None


# Parquet, Arrow, NetworkX.


def read_parquet(data: bytes, graph: dict) -> Graph:
    """Parquet, or an Arrow file or stream: columns by name; each column has a type."""
    try:
        if data.startswith(b"PAR1"):
            file = pq.ParquetFile(io.BytesIO(data))
            schema, read = file.schema_arrow, lambda names: file.read(columns=names, use_threads=False)
        else:
            opened = pa.ipc.open_stream if data.startswith(b"\xff\xff\xff\xff") else pa.ipc.open_file
            table = opened(pa.BufferReader(data)).read_all()
            schema, read = table.schema, table.select
        names = [str(name) for name in schema.names]
        numeric = [
            pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t) for t in schema.types
        ]
        chosen = [None if c is None else names[c] for c in choose_columns(names, numeric, graph)]
        table = read([name for name in chosen if name is not None])
        table.validate(full=True)
        types = [None if name is None else _value_type(schema.field(name).type) for name in chosen]
        columns = [[None] * len(table) if name is None else table[name].to_pylist() for name in chosen]
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"damaged: {error}") from None
    rows = list(zip(*columns, strict=True))
    readable = [all(row[c] is not None for c in range(3) if chosen[c] is not None) for row in rows]
    if graph.get("unreadable") == "skip":
        readable = [ok and (w is None or w - w == 0) for ok, (*_, w) in zip(readable, rows, strict=True)]
        rows = [row for row, ok in zip(rows, readable, strict=True) if ok]
    elif not all(readable):
        raise Refused("a null")
    if not rows:
        raise Refused("no edges")
    kinds = {
        "integer" if pa.types.is_integer(t) else "string" if _is_string(t) else "other" for t in types[:2]
    }
    asked = graph.get("ids", "auto")
    if (
        "other" in kinds
        or (len(kinds) > 1 and asked != "string")
        or (asked == "integer" and kinds != {"integer"})
    ):
        raise Refused(f"ids of types {types[:2]}")
    kind = "string" if asked == "string" else kinds.pop()
    if kind == "integer" and any(not 0 <= end <= MAX_ID for row in rows for end in row[:2]):
        raise Refused("an id is negative or above 2^63 - 1")
    if kind == "string":
        rows = [(str(u), str(v), w) for u, v, w in rows]
    t = types[2]
    if t is not None and not (pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)):
        raise Refused(f"weights of type {t}")
    weights = [None if w is None else _exact(w) for *_, w in rows]
    return Graph(
        [(u, v, w) for (u, v, _), w in zip(rows, weights, strict=True)],
        kind,
        decimals=t is not None and not pa.types.is_integer(t),
        typed=None if t is None or pa.types.is_decimal(t) else np.dtype(t.to_pandas_dtype()).name,
        skipped=readable.count(False),
    )


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


NETWORKX_ROW = re.compile(r"([^ \t]+)[ \t]+([^ \t]+)[ \t]+(\{.*\})")


def read_networkx(text: str, graph: dict) -> Graph:
    """`u v {'weight': 5}` a line, as NetworkX's `write_edgelist` writes it: the keys are columns."""
    rows, skipped = [], 0
    for number_, line in rows_of(text, "#"):
        found = NETWORKX_ROW.fullmatch(line)
        try:
            if not found:
                raise Refused(f"line {number_}: no edge with a dict")
            rows.append((found[1], found[2], _dict_of(found[3])))
        except Refused:
            if graph.get("unreadable") != "skip":
                raise
            skipped += 1
    keys = sorted({key for *_, attributes in rows for key in attributes})
    numeric = [all(_is_number(a.get(key, ""), "point") for *_, a in rows if key in a) for key in keys]
    if set(_asked(graph)[:2]) != {"auto"}:
        raise Refused("the ends have no names")
    # The ends need names here that no key has.
    *_, weight = choose_columns(
        ["\0source", "\0target", *keys],
        [True, True, *numeric],
        graph | {"columns": {"source": "\0source", "target": "\0target"}},
    )
    key = None if weight is None else keys[weight - 2]
    missing = [key is not None and key not in attributes for *_, attributes in rows]
    if any(missing) and graph.get("unreadable") != "skip":
        raise Refused(f"a row without {key}")
    rows = [row for row, lacks in zip(rows, missing, strict=True) if not lacks]
    result = _edges([(u, v, None if key is None else a[key]) for u, v, a in rows], graph, comma=False)
    result.skipped = skipped + missing.count(True)
    return result


def _dict_of(text: str) -> dict[str, str]:
    """Return the keys of a dict in Python's notation, and its values as they are written."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text, mode="eval").body
            ast.literal_eval(text)
    except Exception as error:
        raise Refused(f"no dict: {error}") from None
    if not isinstance(tree, ast.Dict) or not all(
        isinstance(key, ast.Constant) and isinstance(key.value, str) for key in tree.keys
    ):
        raise Refused("no dict of strings")
    keys = [key.value for key in tree.keys]
    if len(set(keys)) < len(keys):
        raise Refused("a key stands twice")
    return {
        key: ast.get_source_segment(text, value) or "" for key, value in zip(keys, tree.values, strict=True)
    }


READERS = {
    "text": read_text,
    "csv": read_csv,
    "table": read_table,
    "dimacs": read_dimacs,
    "matrix-market": read_matrix_market,
    "metis": read_metis,
    "networkx": read_networkx,
}


# Weights, and the graph that is stored.

_INTEGERS = {
    "uint32": (0, 2**32 - 2),
    "int32": (-(2**31), 2**31 - 2),
    "uint64": (0, 2**64 - 2),
    "int64": (-(2**63), 2**63 - 2),
}
#: The smallest normal number, the largest, and the bits of the mantissa.
_FLOATS = {
    "float32": (Fraction(2) ** -126, Fraction(2) ** 128, 24),
    "float64": (Fraction(2) ** -1022, Fraction(2) ** 1024, 53),
}


def is_exact(value: Fraction, dtype: str) -> bool:
    """Return whether a float type holds the value exactly, as a normal number."""
    low, high, bits = _FLOATS[dtype]
    if value == 0:
        return True
    odd = abs(value.numerator)
    odd //= odd & -odd
    denominator = value.denominator
    return denominator & (denominator - 1) == 0 and odd.bit_length() <= bits and low <= abs(value) < high


def _checked(graph_: Graph, graph: dict) -> Graph:
    weight_types(graph_, graph)
    return graph_


def weight_types(read: Graph, graph: dict) -> list[str]:
    """Return the types that the stored weights may have; a scale multiplies them first."""
    options = graph.get("weights", {})
    asked, scale = options.get("dtype", "auto"), options.get("scale")
    given = [w for *_, w in read.edges if w is not None]
    decimals = read.decimals
    if not given:
        default = str(options.get("default", 1))
        given, decimals = [Fraction(default)], not INTEGER.fullmatch(default)
    if scale:
        if asked.startswith("float"):
            raise Refused("a scale is for integers")
        given, decimals = [w * scale for w in given], False
        if any(w.denominator != 1 for w in given):
            raise Refused("more decimal places than the scale has")
    if asked in _INTEGERS:
        low, high = _INTEGERS[asked]
        if any(w.denominator != 1 or not low <= w <= high for w in given):
            raise Refused(f"{asked} does not hold every weight")
        return [asked]
    for dtype in ("float32", "float64") if asked == "auto" else (asked,):
        low, high, _ = _FLOATS[dtype]
        if dtype == "float32" and asked == "auto":
            continue
        # Rounding may carry a number to the limit, or below the smallest normal one up to it: both are refused here.
        if (decimals or asked != "auto") and any(w and not low <= abs(w) < high for w in given):
            raise Refused(f"{dtype} does not hold every weight")
    if asked != "auto":
        return [asked]
    if not decimals:
        fitting = [name for name, (low, high) in _INTEGERS.items() if all(low <= w <= high for w in given)]
        if fitting:
            return fitting if read.typed else fitting[:1]
        raise Refused("no integer type holds every weight")
    if read.typed:
        return ["float32", "float64"] if read.typed in ("float16", "float32") else ["float64"]
    if read.inexact:
        raise Refused("float64 does not hold an integer beside decimals")
    return ["float32"] if all(is_exact(w, "float32") for w in given) else ["float64"]


def stored_weight(value: Fraction, dtype: str, scale: int | None = None) -> int | float:
    """Return the number that is stored for an exact weight."""
    if not dtype.startswith("float"):
        return int(value * (scale or 1))
    rounded = value.numerator / value.denominator
    return rounded if dtype == "float64" else float(np.float32(rounded))


def stored_edges(read: Graph, graph: dict, dtype: str) -> Iterator[tuple[int | str, int | str, int | float]]:
    """Give the edges that the stored graph has, if loops and parallel edges are kept."""
    options = graph.get("weights", {})
    directed = graph.get("directed", True)
    for u, v, weight in read.edges:
        exact = Fraction(str(options.get("default", 1))) if weight is None else weight
        number_ = stored_weight(exact, dtype, options.get("scale"))
        if directed == "reversed":
            u, v = v, u
        yield u, v, number_
        if (read.mirrored or directed is False) and u != v:
            yield v, u, number_
