"""What the names of columns say: ends of an edge, weights, numbers of rows, or nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: Words for the two ends of an edge, in lower case.
PAIRS = (
    *(("source", "target"), ("src", "dst"), ("src", "dest"), ("src", "tgt"), ("src", "trg")),
    *(("source", "dest"), ("source", "destination"), ("origin", "destination"), ("origin", "dest")),
    *(("orig", "dest"), ("from", "to"), ("tail", "head"), ("start", "end"), ("begin", "end")),
    *(("u", "v"), ("von", "nach"), ("fromnode", "tonode"), ("fromid", "toid")),
    *(("fromnodeid", "tonodeid"), ("sourceid", "targetid"), ("srcid", "dstid")),
)
#: Common words that mean an end only if two names differ in nothing else: `node1`, `node2`.
WEAK_PAIRS = (
    *(("1", "2"), ("a", "b"), ("i", "j"), ("o", "d")),
    *(("first", "second"), ("row", "col"), ("row", "column")),
)
WEIGHT_WORDS = frozenset(
    (
        *("weight", "weights", "w", "wt", "length", "len", "distance", "dist", "cost", "costs", "time"),
        *("duration", "value", "travel", "traveltime", "impedance", "price", "delay", "latency"),
        *("minutes", "minute", "mins", "seconds", "secs", "hours", "km", "metres", "meters", "miles"),
    )
)
SOURCE_WORDS = frozenset(source for source, _ in PAIRS)
TARGET_WORDS = frozenset(target for _, target in PAIRS)
_WORD = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+")
#: Words of columns that number or name something. Their numbers are no weights.
ID_WORDS = frozenset(
    (
        *("id", "ids", "fid", "gid", "oid", "osmid", "uuid", "objectid", "index", "idx", "key", "no", "nr"),
        *("number", "edge", "link", "arc", "row", "sequence", "x", "y", "lon", "lng", "lat"),
        *("longitude", "latitude", "code", "zip", "year"),
    )
)
#: The names that pandas gives to the index of a data frame. A CSV has no name for it.
INDEX_NAMES = frozenset(("", "Unnamed: 0", "__index_level_0__"))
#: Names that programs invent for columns without names: 0, 1, 2; f0, f1; _c0; column_1.
_NUMBERED = re.compile(r"(?:|f|_c|c|col|column_?)\d+", re.IGNORECASE)


def words(name: str) -> tuple[str, ...]:
    """Return the words of a column's name, in lower case."""
    return tuple(word.lower() for word in _WORD.findall(name))


def are_numbered(names: Sequence[str]) -> bool:
    """Return whether a program invented these names for columns that had none; the index of a data frame may be one."""
    named = [name for name in names if name not in INDEX_NAMES]
    return all(_NUMBERED.fullmatch(name) for name in named)


def has_index(names: Sequence[str]) -> bool:
    """Return whether one of the columns is the index of a data frame, which numbers the rows."""
    return not INDEX_NAMES.isdisjoint(names)
