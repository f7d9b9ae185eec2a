"""Lists of pairs of vertices: each chunk of ids becomes vertex numbers at once, so a list takes 8 bytes for each pair.

A file of pairs is read like an edge list without weights: in chunks, by threads, and in the same spellings. In a table
of trips, the amounts have the place of the weights. A run whose points have ids of their own takes the ids as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError, UnknownIdError
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.vertex_ids import MAX_LISTED, listed
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.formats.columns.layout import rows_of
from sssp_pipeline.pipeline.formats.detect import detect_format, open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, ReadOptions
from sssp_pipeline.storage import files

_WANTED = (
    "a row has the ids of a source and of a target, and a first line may name the columns, such as "
    "`source,target`; write CSV, text, Parquet or Arrow"
)
_WANTED_OF_TRIPS = (
    "a row has the ids of a source and of a target and an amount, and a first line may name the columns, such as "
    "`source,target,amount`; write CSV, text, Parquet or Arrow"
)
_AMOUNTS = "an amount is a number of zero or more"
_FORMATS = ("csv", "text", "parquet")
_INTEGER, _LARGEST = "^(0|[1-9][0-9]{0,18})$", str(2**63 - 1)

#: The ids of the sources and of the targets of some pairs: Arrow arrays of the type of the ids, or lists of objects.
Ends = tuple[Any, Any]


class Findable(Protocol):
    """The ids that an end of pairs may have: those of the vertices of a graph, or of points."""

    @property
    def owner(self) -> str:
        """What has these ids, for messages."""
        ...

    def find_column(self, column: Any) -> np.ndarray:
        """Return the vertices or the places of points (n,) int64 of a column of ids, -1 for an unknown id."""
        ...

    def range_hint(self) -> str:
        """Return a hint with some of these ids."""
        ...


@dataclass(frozen=True, eq=False)
class PairList:
    """Pairs of vertices in the order of the caller."""

    #: (n,) uint32 each: what `Findable.find_column` found, vertices or places of points.
    sources: np.ndarray
    targets: np.ndarray
    #: (m,) bool: which of the given pairs these are; None if they are all.
    is_known: np.ndarray | None = None
    #: The first ids that are unknown.
    unknown: tuple[int | str, ...] = ()

    @property
    def n_unknown(self) -> int:
        """How many pairs were left out because one of their ids is unknown."""
        return 0 if self.is_known is None else len(self.is_known) - len(self.sources)


@dataclass(frozen=True)
class PairReading:
    """A file of pairs or of trips, and how to read it."""

    url: str
    #: "int64" or "string".
    id_type: str
    #: The columns of the sources and of the targets: names, or numbers from 1; "auto" for those whose names mean that.
    columns: tuple[str, str] = ("auto", "auto")
    #: Whether the first line of a text names the columns, or "auto": it does if `columns` are names, else see the file.
    header: str | bool = "auto"
    #: How the user says which columns these are, and that the first line names them, for hints.
    naming: str = "name the columns `source` and `target`"
    has_header: str = "name the columns in the first line: `source` and `target`"
    #: Which ids are integers, if these are, for hints.
    integers: str = "the ids of the graph are integers"
    #: The column of the amounts, as `columns`; None for pairs without amounts.
    amount: str | None = None

    @property
    def place(self) -> str:
        """What messages about the pairs begin with."""
        return f"`{files.redacted(self.url)}`: "

    @property
    def one(self) -> str:
        """What a row is."""
        return "pair" if self.amount is None else "trip"

    @property
    def wanted(self) -> str:
        """Which file is wanted, for hints."""
        return _WANTED if self.amount is None else _WANTED_OF_TRIPS

    @property
    def options(self) -> ReadOptions:
        """How to read the file as an edge list."""
        source, target = self.columns
        columns = (*self.columns, *([] if self.amount is None else [self.amount]))
        header = self.header
        if header == "auto" and not all(column == "auto" or column.isdecimal() for column in columns):
            header = "auto" if detect_format(self.url) == "parquet" else True
        return ReadOptions(
            source_column=source,
            target_column=target,
            weight_column="none" if self.amount is None else self.amount,
            weight_dtype="auto" if self.amount is None else "float64",
            header=header,
            ids="string" if self.id_type == "string" else "integer",
        )

    def place_of(self, n_before: int) -> str:
        """Return "line 3" for the pair after `n_before` others, "row 2" in a table; a text is read again for it."""
        found = open_edge_list([self.url], self.options).reading
        line = None
        if found.format != "parquet":
            rows = rows_of(self.url, self.options, comments_anywhere=found.format == "text")
            line = next((row[0] for row in islice(rows, n_before + bool(found.header), None)), None)
        return f"row {n_before + 1}" if line is None else f"line {line}"


@contextmanager
def naming_lines(reading: PairReading | None, ids: Ends) -> Iterator[None]:
    """Give errors of the block about an unknown id the file and the line of the first pair that has it.

    `ids` are those of the pairs, which `reading` is the file of; None if they are in memory.
    """
    try:
        yield
    except UnknownIdError as error:
        if reading is not None:
            row = pc.index(ids[error.role == "target"], error.unknown).as_py()
            error.message = f"{reading.place}{error.message} (the first in {reading.place_of(row)})"
            error.args = (error.message,)
        raise


def find_pairs(
    chunks: Iterator[Ends],
    ids: tuple[Findable, Findable],
    *,
    skip: bool,
    skip_hint: str,
    reading: PairReading | None = None,
) -> PairList:
    """Return the pairs whose ids `chunks` gives.

    Parameters
    ----------
    ids
        The ids of the sources and of the targets.
    skip
        Whether pairs with an unknown id are left out.
    skip_hint
        How the user leaves such pairs out.
    reading
        The file of the pairs, for messages; None if they are in memory.

    Raises
    ------
    InputError
        A pair has an unknown id and `skip` is not set, or all pairs have one, or there is no pair.
    """
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    #: Which pairs of each chunk are known; only their number if they all are.
    known: list[np.ndarray | int] = []
    #: The first unknown ids by what should have them: once each, in their order.
    unknown: dict[str, dict[int | str, None]] = {}
    n_given = first_unknown = 0
    for chunk in chunks:
        ends = [of_end.find_column(column) for of_end, column in zip(ids, chunk, strict=True)]
        is_known = (ends[0] >= 0) & (ends[1] >= 0)
        known.append(len(is_known) if is_known.all() else is_known)
        if not is_known.all():
            rows = np.flatnonzero(~is_known)[:MAX_LISTED].tolist()
            first_unknown = first_unknown if unknown else n_given + rows[0]
            for row in rows:
                for of_end, column, found in zip(ids, chunk, ends, strict=True):
                    if found[row] < 0:
                        unknown.setdefault(of_end.owner, {})[_value(column[row])] = None
            ends = [found[is_known] for found in ends]
        parts.append((ends[0].astype(np.uint32), ends[1].astype(np.uint32)))
        n_given += len(is_known)
    place, one = ("", "pair") if reading is None else (reading.place, reading.one)
    none = np.empty(0, np.uint32)
    sources = np.concatenate([none, *(part[0] for part in parts)])
    parts = [(none, part[1]) for part in parts]
    targets = np.concatenate([none, *(part[1] for part in parts)])
    if not n_given:
        raise InputError(f"{place}there is no {one}", hint=_WANTED if reading is None else reading.wanted)
    if not unknown:
        return PairList(sources, targets)
    n_unknown = n_given - len(sources)
    if not skip or not len(sources):
        missing = ", or not in ".join(f"{owner}: {listed([*some])}" for owner, some in unknown.items())
        message = (
            f"{place}{n_unknown:,} of {plural(n_given, one)} {'have' if n_unknown > 1 else 'has'} "
            f"an id that is not in {missing}"
        )
        if reading is not None:
            message += f" (the first in {reading.place_of(first_unknown)})"
        hints = {of_end.owner: of_end.range_hint() for of_end in ids if of_end.owner in unknown}
        hint = "; ".join([*hints.values(), *([] if skip else [f"{skip_hint} leaves out such {one}s"])])
        raise InputError(message, hint=hint)
    masks = [np.ones(some, bool) if isinstance(some, int) else some for some in known]
    first = tuple(each for some in unknown.values() for each in some)[:MAX_LISTED]
    return PairList(sources, targets, np.concatenate(masks), first)


def read_pairs(reading: PairReading, n_threads: int) -> Iterator[Ends]:
    """Yield the ids of the pairs in a file, in its order.

    Raises
    ------
    InputError
        The file is missing, empty or damaged, is no table of pairs, or has a row without two ids of the type.
    """
    for chunk in _chunks(reading, n_threads):
        yield _ends(chunk)


def read_trips(reading: PairReading, n_threads: int, amounts: list[np.ndarray]) -> Iterator[Ends]:
    """Yield the ids of the trips in a table, as `read_pairs`; append the amounts (n,) float64 of each chunk.

    Raises
    ------
    InputError
        As `read_pairs`; or an amount is missing, no number, negative or not finite.
    """
    n_before = 0
    for chunk in _chunks(reading, n_threads):
        assert chunk.weights is not None, "`reading` names their column"
        amounts.append(chunk.weights.astype(np.float64))
        if (wrong := np.flatnonzero(amounts[-1] < 0)).size:
            row = int(wrong[0])
            raise InputError(
                f"`{files.redacted(reading.url)}` {reading.place_of(n_before + row)}: amount `{chunk.weights[row]}` is "
                "negative",
                hint=_AMOUNTS,
            )
        yield _ends(chunk)
        n_before += len(chunk)


def _ends(chunk: EdgeChunk) -> Ends:
    source, target = (end if isinstance(end, pa.Array) else pa.array(end) for end in (chunk.src, chunk.dst))
    return source, target


def _chunks(reading: PairReading, n_threads: int) -> Iterator[EdgeChunk]:
    """Yield the rows of a file of pairs or trips; raise as `read_pairs` and `read_trips`."""
    try:
        edge_list = open_edge_list([reading.url], reading.options)
        if (form := edge_list.reading.format) not in _FORMATS:
            raise InputError(f"`{files.redacted(reading.url)}` is a graph ({form})", hint=reading.wanted)
        yield from edge_list.chunks(n_threads)
    except InputError as error:
        raise _in_words_of_pairs(error, reading) from error


def typed_pairs(
    reading: PairReading, types: Sequence[pa.DataType], n_threads: int
) -> tuple[pa.Array, pa.Array]:
    """Return the ids of the pairs in a file of a run, (n,) each, in its order; as `typed_chunks`."""
    owner = "the run", "correct it"
    if not pa.types.is_integer(types[0]):  # sources are points with names, and targets no points
        owner = "the graph", "name a vertex of the graph, or run it with points as `output.targets`"
    sources, targets = zip(*typed_chunks(reading, types, (owner, owner), n_threads), strict=True)
    return pa.concat_arrays(sources), pa.concat_arrays(targets)


def typed_chunks(
    reading: PairReading,
    types: Sequence[pa.DataType],
    owners: tuple[tuple[str, str], tuple[str, str]],
    n_threads: int,
) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Yield the ids of the pairs in a file, as `read_pairs`: points may have names, and vertices numbers.

    Parameters
    ----------
    reading
        It reads strings.
    types
        The types of the ids of sources and of targets.
    owners
        What has the ids of the sources and of the targets, and the hint if one is no integer.

    Raises
    ------
    InputError
        As `read_pairs`; or an id is no integer where ids are integers.
    """
    n_before = 0
    for chunk in read_pairs(reading, n_threads):
        for ids, type_, (owner, hint) in zip(chunk, types, owners, strict=True):
            if pa.types.is_integer(type_) and (row := _first_of_text(ids)) >= 0:
                raise InputError(
                    f"`{files.redacted(reading.url)}` {reading.place_of(n_before + row)}: "
                    f"{listed([ids[row].as_py()])} is no id of {owner}, whose ids are integers",
                    hint=hint,
                )
        yield chunk[0].cast(types[0]), chunk[1].cast(types[1])
        n_before += len(chunk[0])


def _first_of_text(ids: pa.Array) -> int:
    """Return the place of the first of `ids` (n,) that is not written as an integer of 63 bits; -1 if all are."""
    fits = pc.or_(pc.less(pc.binary_length(ids), len(_LARGEST)), pc.less_equal(ids, _LARGEST))
    return int(pc.and_(pc.match_substring_regex(ids, _INTEGER), fits).index(False).as_py())


def _in_words_of_pairs(error: InputError, reading: PairReading) -> InputError:
    """Return an error on an edge list as one on a file of pairs or trips, whose hint names no key of a graph."""
    message, hint = error.message, error.hint or ""
    for end in ("source", "target"):
        message = message.replace(f" in `graph.columns.{end}`", "")
        message = message.replace(f"`graph.columns.{end}` asks for", f"the {end} is to be in")
    message = message.replace(" in `graph.weights.column`", "")
    message = message.replace("`graph.weights.column` asks for", "the amount is to be in")
    if "`graph." in message:  # an option that only tables take
        message = f"`{files.redacted(reading.url)}` is no table of {reading.one}s"
    parts = message.split("`")
    # The texts between backticks are of the user.
    is_of_amounts = reading.amount is not None and any("weight" in part for part in parts[::2])
    of_pairs = ("an edge", f"a {reading.one}"), ("edge", reading.one)
    of_amounts = (("a weight", "an amount"), ("weight", "amount")) if is_of_amounts else ()
    for old, new in (*of_pairs, *of_amounts):
        parts[::2] = [part.replace(old, new) for part in parts[::2]]
    if "ids are integers, strings or UUIDs" in message:
        hint = "store the ids as integers or as strings"
    elif "graph.columns" in hint or "columns:" in hint:
        hint = reading.naming
    elif "may be a header" in message:
        hint = reading.has_header
    elif "graph.ids" in hint and reading.id_type == "int64":
        hint = reading.integers
    elif is_of_amounts:
        hint = _AMOUNTS
    elif "graph." in hint or "a row holds" in hint:
        hint = reading.wanted
    return InputError("`".join(parts), hint=hint)


def _value(given: Any) -> Any:
    return given.as_py() if isinstance(given, pa.Scalar) else given
