"""Tables, as the reference reader reads them: text, csv, NetworkX, Parquet and Arrow."""

from __future__ import annotations

import ast
import io
import re
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from reference_graph import (
    BLANKS,
    DIGITS,
    MAX_ID,
    NUMBER,
    ODD_NATURAL,
    SAMPLE,
    UNDECODED,
    Graph,
    Refused,
    asked_columns,
    cells,
    exact,
    graph_of,
    is_float64,
    is_number,
    rows_of,
    words,
)


def _pairs_of(text: str) -> set[tuple[str, ...]]:
    return {tuple(pair.split("-")) for pair in text.split()}


#: Words for source and target of an edge.
PAIRS = _pairs_of("""
source-target source-dest source-destination src-dst src-dest src-tgt src-trg origin-destination origin-dest orig-dest
from-to tail-head start-end begin-end u-v von-nach fromnode-tonode fromid-toid fromnodeid-tonodeid sourceid-targetid
srcid-dstid
""")
SOURCE_WORDS = {source for source, _ in PAIRS}
TARGET_WORDS = {target for _, target in PAIRS}
#: Words that mean the ends only where two names in a header differ in nothing else.
WEAK_PAIRS = _pairs_of("1-2 a-b i-j o-d first-second row-col row-column")
WEIGHT_WORDS = {
    *(
        "weight",
        "weights",
        "w",
        "wt",
        "length",
        "len",
        "distance",
        "dist",
        "cost",
        "costs",
        "time",
        "duration",
    ),
    *("value", "travel", "traveltime", "impedance", "price", "delay", "latency", "minutes", "minute", "mins"),
    *("seconds", "secs", "hours", "km", "metres", "meters", "miles"),
}
#: Names that programs make up for columns without one: 0, f0, _c0, column_1.
NUMBERED = re.compile(r"(f|_c|c|col|column_?)?\d+", re.IGNORECASE | re.ASCII)
#: The index of a data frame of pandas, in a CSV and in Parquet.
INDEX_NAMES = {"", "Unnamed: 0", "__index_level_0__"}
DELIMITERS = {",": ",", ";": ";", "|": "|", "tab": "\t"}


def read_text(text: str, graph: dict) -> Graph:
    """`source target [weight]` a line; white space separates, and every line has as many columns."""
    if graph.get("delimiter", "auto") != "auto":
        raise Refused("a text has no delimiter")
    rows = [words(line) for _, line in rows_of(text, "#%")]
    if not rows:
        raise Refused("no edges")
    return _with_or_without_header(rows, graph)


def _with_or_without_header(rows: list[list[str]], graph: dict) -> Graph:
    header = graph.get("header", "auto")
    if header == "auto":
        header = _is_header(rows, graph)
        if header is None:
            raise Refused("the first row may be a header or an edge")
    return _with_header(rows[0], rows[1:], graph) if header else _without_header(rows, graph)


def read_csv(text: str, graph: dict) -> Graph:
    """A table with or without a header, whose cells may stand in quotes."""
    return read_table(text, graph, must_be_csv=True)


def read_table(text: str, graph: dict, must_be_csv: bool = False) -> Graph:
    """A csv if a delimiter fits, else a text."""
    lines = _with_quoted_lines([line for _, line in rows_of(_without_leading_comments(text), "")])
    if not lines:
        raise Refused("no edges")
    asked = graph.get("delimiter", "auto")
    if asked != "auto":
        delimiter = DELIMITERS.get(asked, asked)
    else:
        fitting = [d for d in DELIMITERS.values() if _fits(lines, d, graph)]
        if "," in fitting and graph.get("decimal") == "comma":
            fitting = [d for d in fitting if d != ","] or fitting
        if len(fitting) > 1:
            raise Refused(f"the delimiters {fitting} both fit")
        delimiter = fitting[0] if fitting else None
        if must_be_csv and delimiter is None:
            raise Refused("no delimiter fits")
        if not must_be_csv and (delimiter is None or (delimiter == "\t" and not _is_table_of_tabs(lines))):
            return read_text(text, graph)
    if graph.get("ids") != "string" and any(line.strip(BLANKS)[:1] in ("#", "%") for line in lines):
        raise Refused("a comment or an edge")
    rows = [cells(line, delimiter) for line in lines]
    if len(rows[0]) < 2:
        raise Refused("one column")
    return _with_or_without_header(rows, graph)


def _with_quoted_lines(lines: list[str]) -> list[str]:
    """Join the lines that stand in one pair of quotes."""
    joined: list[str] = []
    for line in lines:
        if joined and joined[-1].count('"') % 2:
            joined[-1] += "\n" + line
        else:
            joined.append(line)
    return joined


def _is_table_of_tabs(lines: list[str]) -> bool:
    """Return whether tabs, and no other white space, separate the columns: a cell is empty or has blanks."""
    lines = [line for line in lines[:SAMPLE] if line.strip(BLANKS)[:1] not in ("#", "%")]
    rows = [line.split("\t") for line in lines]
    while len(rows[0]) > 1 and all(len(row) > 1 and not row[-1].strip(BLANKS) for row in rows):
        rows = [row[:-1] for row in rows]  # a tab at the end of every line
    if len(rows[0]) < 2 or len({len(row) for row in rows}) > 1:
        return False
    if all(cell.strip(BLANKS) and len(words(cell)) == 1 for row in rows for cell in row):
        return False
    if len({len(words(line)) for line in lines}) == 1:
        raise Refused("tabs or white space separate the columns")
    return True


def _without_leading_comments(text: str) -> str:
    lines = text.split("\n")
    while lines and lines[0].strip(BLANKS + "\r")[:1] in ("", "#", "%"):
        if "\r" in lines[0].strip():
            raise Refused("a carriage return without a line feed")
        lines.pop(0)
    return "\n".join(lines)


def _fits(lines: list[str], delimiter: str, graph: dict) -> bool:
    if delimiter == "," and graph.get("decimal") == "comma" and not _has_quoted_decimal(lines[:SAMPLE]):
        return False
    try:
        counts = Counter(len(cells(line, delimiter)) for line in lines[: SAMPLE + 1])
        first = len(cells(lines[0], delimiter))
        if first == 2 and not any(cells(line, delimiter)[1:] != [""] for line in lines[: SAMPLE + 1]):
            return False  # it only ends every line
    except Refused:
        return False
    if graph.get("unreadable") == "skip":
        return first > 1 and 2 * counts[first] >= sum(counts.values())
    return len(counts) == 1 and first > 1


def _has_quoted_decimal(lines: list[str]) -> bool:
    """Return whether a comma separates cells, one of which is a decimal with a comma in quotes."""
    found = [
        f'"{cell}"'
        for line in lines
        for cell in re.findall('"([^"]*,[^"]*)"', line)
        if is_number(cell, "comma")
    ]
    return any(f",{cell}" in line or f"{cell}," in line for line in lines for cell in found)


def _looks_numeric(cell: str, decimal: str) -> bool:
    """Return whether a cell is a number, or a word for one that is not finite."""
    return is_number(cell, decimal) or bool(re.fullmatch("[-+]?(nan|inf|infinity)", cell, re.IGNORECASE))


def _is_header(rows: list[list[str]], graph: dict) -> bool | None:
    """Return whether the first row is a header; None if it may be a header or an edge."""
    first, rest = rows[0], [row for row in rows[1 : SAMPLE + 1] if len(row) == len(rows[0])]
    decimal = graph.get("decimal", "point")
    if _has_index(first, rest):
        return True
    numeric = [_looks_numeric(cell, decimal) for cell in first]
    over = [
        any(row[c] for row in rest) and all(_looks_numeric(row[c], decimal) for row in rest if row[c])
        for c in range(len(first))
    ]
    speaks = any(over[c] and first[c] and not numeric[c] for c in range(len(first)))
    comes_again = {cell for row in rest for cell in row if not _looks_numeric(cell, decimal)} & set(first)
    against = bool(comes_again) or any(over[c] and numeric[c] for c in range(len(first)))
    named = names_both_ends(first) or _names_asked(first, graph)
    if speaks:
        return True if named or not against else None
    if any(numeric) or (against and not named):
        return False
    return True if named and not against else None


def _has_index(first: list[str], rest: list[list[str]]) -> bool:
    """Return whether a data frame was written with its index: only the first column has no name, and it counts."""
    counts = {tuple(str(i + start) for i in range(len(rest))) for start in (0, 1)}
    is_numbered = first[1:] == [str(i) for i in range(len(first) - 1)]
    is_named = all(cell and not _looks_numeric(cell, "point") for cell in first[1:])
    return (
        len(first) > 2
        and first[0] == ""
        and (is_numbered or is_named)
        and len(rest) > 0
        and tuple(row[0] for row in rest) in counts
    )


def name_words(name: str) -> list[str]:
    """Return the words of a column's name: `fromStop`, `from_stop` and `From Stop` are from, stop."""
    apart = re.sub(
        r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\d)(?=[^\W\d_])|(?<=[^\W\d_])(?=\d)", " ", name
    )
    return [word.lower() for word in re.split(r"[\W_]+", apart) if word]


def names_both_ends(row: list[str]) -> bool:
    """Return whether a row has a word for a source and, in another cell, a word for a target."""
    having = [
        [i for i, cell in enumerate(row) if each & set(name_words(cell))]
        for each in (SOURCE_WORDS, TARGET_WORDS)
    ]
    return any(s != t for s in having[0] for t in having[1])


def _names_asked(row: list[str], graph: dict) -> bool:
    return any(isinstance(name, str) and not name.isdigit() and name in row for name in asked_columns(graph))


def choose_columns(names: list[str], numeric: list[bool], graph: dict) -> tuple[int, int, int | None]:
    """Return the positions of source, target and weight under a header; `numeric`: the column holds only numbers."""
    if len(set(names)) < len(names):
        raise Refused("two columns have one name")
    asked = asked_columns(graph)
    for name in asked:
        if name not in ("auto", "none", *names):
            raise Refused(f"no column {name}")
    source, target, weight = (names.index(name) if name in names else None for name in asked)
    free = [i for i in range(len(names)) if i not in (source, target, weight)]
    has_index = any(name in INDEX_NAMES for name in names)
    by_place = all(NUMBERED.fullmatch(name) for name in names if name not in INDEX_NAMES)
    if source is None or target is None:
        found = [(source, target)]
        if by_place and has_index:
            raise Refused("a table with an index whose columns have no names")
        if by_place:
            source = free.pop(0) if source is None and free else source
            target = free.pop(0) if target is None and free else target
            found = [(source, target)] if source is not None and target is not None else []
        else:
            found = _pairs(names, free, source, target)
        if len(found) != 1:
            raise Refused(f"ends are not clear: {names}")
        source, target = found[0]
    if source == target or weight in (source, target):
        raise Refused("one column for two things")
    if asked[2] == "none" or weight is not None:
        return source, target, weight
    left = [i for i in range(len(names)) if i not in (source, target)]
    if by_place:
        left = [i for i in left if names[i] not in INDEX_NAMES]
        if any(numeric[i] for i in left[1:]):
            raise Refused("more than one column may be the weight")
        return source, target, left[0] if left else None
    known = [i for i in left if WEIGHT_WORDS & set(name_words(names[i]))]
    known = [i for i in known if numeric[i]] or known
    if len(known) > 1 or (not known and any(numeric[i] for i in left)):
        raise Refused(f"the weight is not clear: {names}")
    return source, target, known[0] if known else None


def _pairs(
    names: list[str], free: list[int], source: int | None, target: int | None
) -> list[tuple[int, int]]:
    """Return the pairs of columns that the names allow for the ends, of which one may be known."""
    cut = [name_words(name) for name in names]
    # A start_time is no end of an edge.
    free = [i for i in free if not WEIGHT_WORDS & set(cut[i])]
    starts = [i for i in free if SOURCE_WORDS & set(cut[i]) and not TARGET_WORDS & set(cut[i])]
    ends = [i for i in free if TARGET_WORDS & set(cut[i]) and not SOURCE_WORDS & set(cut[i])]
    if source is not None or target is not None or len(starts) == len(ends) == 1:
        starts, ends = [source] if source is not None else starts, [target] if target is not None else ends
        return [(s, t) for s in starts for t in ends]
    return [(s, t) for s in free for t in free if _differ_in_one_word(cut[s], cut[t])]


def _differ_in_one_word(source: list[str], target: list[str]) -> bool:
    differ = [(s, t) for s, t in zip(source, target, strict=False) if s != t]
    return len(source) == len(target) and len(differ) == 1 and differ[0] in PAIRS | WEAK_PAIRS


def _with_header(names: list[str], rows: list[list[str]], graph: dict) -> Graph:
    if bad := next((name for name in names if UNDECODED.search(name)), None):
        raise Refused(f"column {bad!r} is not UTF-8")
    kept = [row for row in rows[:SAMPLE] if len(row) == len(names)]
    numeric = []
    for c in range(len(names)):
        column = [row[c] for row in kept if row[c]]
        numeric.append(bool(column) and all(map(_is_number_with_any_sign, column)))
    source, target, weight = choose_columns(names, numeric, graph)
    return _from_columns(rows, len(names), (source, target, weight), graph)


def _without_header(rows: list[list[str]], graph: dict) -> Graph:
    n_columns = len(rows[0])
    if n_columns < 2:
        raise Refused("one column")
    asked = asked_columns(graph)
    if any(name not in ("auto", "none") and not 1 <= _position(name) <= n_columns for name in asked):
        raise Refused("no such column")
    source, target, weight = (None if name in ("auto", "none") else int(name) - 1 for name in asked)
    if source is None and target is None and n_columns > 2 and _may_be_edge_ids(rows):
        raise Refused("the first column may be the id of an edge")
    source, target = 0 if source is None else source, 1 if target is None else target
    if weight is None and asked[2] == "auto" and n_columns > 2:
        weight = next(c for c in range(n_columns) if c not in (source, target))
        kept = [row for row in rows[:SAMPLE] if len(row) == n_columns]
        others = set(range(n_columns)) - {source, target, weight}
        if any(_is_number_with_any_sign(row[c]) for row in kept for c in others):
            raise Refused("more than one column may be the weight")
    if len({source, target, weight}) < 3:
        raise Refused("one column for two things")
    return _from_columns(rows, n_columns, (source, target, weight), graph)


def _is_number_with_any_sign(cell: str) -> bool:
    return is_number(cell, "point") or is_number(cell, "comma")


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
            readable = is_number(row[weight], graph.get("decimal", "point"))
        if readable:
            kept.append((row[source], row[target], None if weight is None else row[weight]))
        elif skip:
            skipped += 1
        else:
            raise Refused(f"the row {row} cannot be read")
    result = graph_of(kept, graph)
    result.skipped = skipped
    return result


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
        return typed_graph(schema, read, graph)
    except Refused:
        raise
    except Exception as error:
        raise Refused(f"damaged: {error}") from None


def names_a_pair(names: list[str]) -> bool:
    """Return whether a pair of columns may be the ends."""
    return bool(_pairs(names, list(range(len(names))), None, None))


def typed_graph(schema: pa.Schema, read: Callable[[list[str]], pa.Table], graph: dict) -> Graph:
    """Return the graph of a table whose columns have types; `read` gives the columns with some names."""
    try:
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
        "integer" if pa.types.is_integer(t) else "string" if _is_string(t) or t == pa.uuid() else "other"
        for t in types[:2]
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
    weights = [None if w is None else exact(w, np.dtype(t.to_pandas_dtype()), graph) for *_, w in rows]
    result = Graph(
        [(u, v, w) for (u, v, _), w in zip(rows, weights, strict=True)], kind, skipped=readable.count(False)
    )
    note_type(result, t)
    return result


def note_type(graph: Graph, kind: pa.DataType | None) -> None:
    """Note what the type of the column of the weights, if there is one, says of them."""
    weights = [w for *_, w in graph.edges if w is not None]
    if kind is not None and pa.types.is_decimal(kind):  # as in text; zeros at the end are no places
        graph.decimals = any(w.denominator > 1 for w in weights)
        graph.inexact = any(w.denominator == 1 and not is_float64(w) for w in weights)
    elif kind is not None:
        graph.decimals = not pa.types.is_integer(kind)
        graph.typed = np.dtype(kind.to_pandas_dtype()).name


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


NETWORKX_ROW = re.compile(rf"([^{BLANKS}]+)[{BLANKS}]+([^{BLANKS}]+)[{BLANKS}]+(\{{.*)")


def read_networkx(text: str, graph: dict) -> Graph:
    """`u v {'weight': 5}` a line, as NetworkX's `write_edgelist` writes it: the keys are columns."""
    rows, skipped = [], 0
    for number_, line in rows_of(text, "#%"):
        found = NETWORKX_ROW.fullmatch(line.strip(BLANKS))
        try:
            if not found:
                raise Refused(f"line {number_}: no edge with a dict")
            rows.append((found[1], found[2], {} if asked_columns(graph)[2] == "none" else _dict_of(found[3])))
        except Refused:
            if graph.get("unreadable") != "skip":
                raise
            skipped += 1
    keys = sorted({key for *_, attributes in rows for key in attributes})
    numeric = [all(is_number(a.get(key, ""), "point") for *_, a in rows if key in a) for key in keys]
    if set(asked_columns(graph)[:2]) != {"auto"}:
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
    result = graph_of([(u, v, None if key is None else a[key]) for u, v, a in rows], graph, comma=False)
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
