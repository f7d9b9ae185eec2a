"""What the reference reader's modules share: lines, numbers, ids, weights, and the graph that they make."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction

import numpy as np

MAX_ID = 2**63 - 1
#: Rows that decide the rules that depend on values. Every later row must agree with these rules.
SAMPLE = 1000

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
NATURAL = re.compile(r"0|[1-9]\d*", re.ASCII)
ODD_NATURAL = re.compile(r"\+?\d+", re.ASCII)
DIGITS = re.compile(r"\d+", re.ASCII)
#: Digits with what numbers have around them: such a first id is no name.
NUMERAL = re.compile(r"[-+.]*\d[\d.,]*([eE][-+]?\d+)?", re.ASCII)
#: Not blanks, not text: a row with one of these is damaged.
CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f]")
#: White space in a line of text; a carriage return ends a line.
BLANKS = " \t\x0b\x0c"
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
    both_ways
        Whether the file lists every edge in both directions.
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
    both_ways: bool = False
    vertices: range | None = None
    decimals: bool = False
    inexact: bool = False
    typed: str | None = None
    skipped: int = 0


# Lines.


def rows_of(text: str, comments: str) -> list[tuple[int, str]]:
    """Return the number and the content of every line that is neither blank nor a comment."""
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip("\r")
        if "\r" in line.strip(BLANKS + "\r"):
            raise Refused(f"line {number}: a carriage return without a line feed")
        line = line.replace("\r", " ")
        if not line.strip(BLANKS) or line.strip(BLANKS)[0] in comments:
            continue
        if CONTROL.search(line):
            raise Refused(f"line {number}: a control character")
        rows.append((number, line))
    return rows


def words(line: str) -> list[str]:
    """Return the words of a line, which spaces and tabs separate."""
    return re.split(f"[{BLANKS}]+", line.strip(BLANKS))


def cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line of a table, without the blanks and the quotes around them."""
    if delimiter == " ":
        return words(line)
    if "\x0b" in line or "\x0c" in line:
        raise Refused("a control character")
    found, position = [], 0
    while True:
        if line[position : position + 1] == '"':
            blanks = " " if delimiter == "\t" else "[ \t]"
            quoted = re.compile(rf'"((?:[^"]|"")*)"{blanks}*').match(line, position)
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


# Numbers and ids.


def number(cell: str, decimal: str = "point") -> Fraction | None:
    """Return the exact value of a number in decimal, or None if the cell is none."""
    if decimal == "comma":
        if "." in cell:
            return None
        cell = cell.replace(",", ".")
    if not NUMBER.fullmatch(cell):
        return None
    try:
        value = Decimal(cell)
    except InvalidOperation:
        raise Refused(f"weight {cell} is beyond all numbers") from None
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
    # The first edge decides: after names everything is a name.
    named = [not NUMERAL.fullmatch(i) for i in found[:2]]
    if asked == "auto" and found and all(named):
        return found, "string"
    if asked == "auto" and any(named):
        raise Refused("one end of the first edge is a number, the other a name")
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
    if "name" in spelled:
        raise Refused("ids are numbers and names, or numbers that are no ids")
    return found, "string"


def graph_of(
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
            inexact |= bool(whole) and not is_float64(value)
        weights.append(value)
    edges = list(zip(ids[::2], ids[1::2], weights, strict=True))
    return Graph(edges, kind, vertices=vertices, decimals=decimals, inexact=inexact)


def is_number(cell: str, decimal: str) -> bool:
    try:
        return number(cell, decimal) is not None
    except Refused:
        return True


def asked_columns(graph: dict) -> list[str]:
    """Return the columns that the workflow names: source, target, weight; "auto" where it names none."""
    columns = graph.get("columns", {})
    return [
        str(columns.get("source", "auto")),
        str(columns.get("target", "auto")),
        str(graph.get("weights", {}).get("column", "auto")),
    ]


def exact(value: float | int | Decimal, typed: np.dtype, graph: dict) -> Fraction:
    """Return the value of a weight in a typed column; a scale is about the decimals that a float stands for."""
    try:
        if isinstance(graph.get("weights", {}).get("scale"), int) and typed.kind == "f":
            return Fraction(str(typed.type(value)))
        return Fraction(value)
    except (ValueError, OverflowError):
        raise Refused(f"weight {value} is not finite") from None


def millimetres(value: float) -> Fraction:
    """Return a computed length or time, which is rounded to three places."""
    if not math.isfinite(value):
        raise Refused(f"weight {value} is not finite")
    return Fraction(str(round(value, 3)))


# Weights, and the graph that is stored.

_INTEGERS = {
    "uint32": (0, 2**32 - 2),
    "int32": (-(2**31), 2**31 - 2),
    "uint64": (0, 2**64 - 2),
    "int64": (-(2**63), 2**63 - 2),
}
#: The smallest normal number, and the power of two above the largest.
_FLOATS = {
    "float32": (Fraction(2) ** -126, Fraction(2) ** 128),
    "float64": (Fraction(2) ** -1022, Fraction(2) ** 1024),
}


def is_float64(value: Fraction) -> bool:
    """Return whether float64 holds the value exactly."""
    try:
        return Fraction(float(value)) == value
    except OverflowError:
        return False


def weight_types(read: Graph, graph: dict) -> list[str]:
    """Return the types that the stored weights may have; a scale multiplies them first."""
    options = graph.get("weights", {})
    asked, scale = options.get("dtype", "auto"), options.get("scale", "auto")
    given = [w for *_, w in read.edges if w is not None]
    decimals = read.decimals
    if not given:
        default = str(options.get("default", 1))
        given, decimals = [Fraction(default)], not INTEGER.fullmatch(default)
    if isinstance(scale, int):
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
    for dtype in ("float64",) if asked == "auto" else (asked,):
        low, high = _FLOATS[dtype]
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
    for factor in [10**places for places in range(10)] if scale == "auto" else ():
        scaled = [w * factor for w in given]
        if all(w.denominator == 1 and abs(w) <= 2**52 for w in scaled):
            return [name for name, (low, high) in _INTEGERS.items() if all(low <= w <= high for w in scaled)][
                :1
            ]
    if read.inexact:
        raise Refused("float64 does not hold an integer beside decimals")
    return ["float64"]


def stored_weight(value: Fraction, dtype: str, scale: int | str | None = "auto") -> int | float:
    """Return the number that is stored for an exact weight; with the scale "auto", in the unit of the input."""
    if not dtype.startswith("float") and (scale != "auto" or value.denominator == 1):
        return int(value) if scale == "auto" else int(value * (scale or 1))
    rounded = value.numerator / value.denominator
    return float(np.float32(rounded)) if dtype == "float32" else rounded


def stored_edges(read: Graph, graph: dict, dtype: str) -> Iterator[tuple[int | str, int | str, int | float]]:
    """Give the edges that the stored graph has, if loops and parallel edges are kept."""
    options = graph.get("weights", {})
    directed = graph.get("directed", True)
    for u, v, weight in read.edges:
        exact = Fraction(str(options.get("default", 1))) if weight is None else weight
        number_ = stored_weight(exact, dtype, options.get("scale", "auto"))
        if directed == "reversed":
            u, v = v, u
        yield u, v, number_
        if (read.mirrored or (directed is False and not read.both_ways)) and u != v:
            yield v, u, number_
