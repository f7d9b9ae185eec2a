"""Lists of pairs of vertices: each chunk of ids becomes vertex numbers at once, so a list takes 8 bytes for each pair.

A file of pairs is read like an edge list without weights: in chunks, by threads, and in the same spellings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.vertex_ids import MAX_LISTED, listed
from sssp_pipeline.pipeline.formats.detect import open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions
from sssp_pipeline.storage import files

_WANTED = (
    "a row has the ids of a source and of a target, and a first line may name the columns, such as "
    "`source,target`; write CSV, text, Parquet or Arrow"
)
_FORMATS = ("csv", "text", "parquet")

#: The ids of the sources and of the targets of some pairs: Arrow arrays of the type of the ids, or lists of objects.
Ends = tuple[Any, Any]


class Findable(Protocol):
    """Ids of the vertices of a graph."""

    def find_column(self, column: Any) -> np.ndarray:
        """Return the vertices (n,) int64 of a column of ids, -1 for an id that no vertex has."""
        ...

    def range_hint(self) -> str:
        """Return a hint with ids of the graph."""
        ...


@dataclass(frozen=True, eq=False)
class PairList:
    """Pairs of vertices in the order of the caller."""

    #: (n,) uint32 each.
    sources: np.ndarray
    targets: np.ndarray
    #: (m,) bool: which of the given pairs these are; None if they are all.
    is_known: np.ndarray | None = None
    #: The first ids that no vertex has.
    unknown: tuple[int | str, ...] = ()

    @property
    def n_unknown(self) -> int:
        """How many pairs were left out because no vertex has one of their ids."""
        return 0 if self.is_known is None else len(self.is_known) - len(self.sources)


def find_pairs(chunks: Iterator[Ends], ids: Findable, *, skip: bool, place: str, skip_hint: str) -> PairList:
    """Return the pairs whose ids `chunks` gives.

    Parameters
    ----------
    skip
        Whether pairs with an unknown id are left out.
    place
        What messages begin with: empty, or the file.
    skip_hint
        How the user leaves such pairs out.

    Raises
    ------
    InputError
        A pair has an unknown id and `skip` is not set, or all pairs have one, or there is no pair.
    """
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    known: list[np.ndarray] = []
    unknown: dict[int | str, None] = {}
    for chunk in chunks:
        ends = [ids.find_column(column) for column in chunk]
        is_known = (ends[0] >= 0) & (ends[1] >= 0)
        known.append(is_known)
        if not is_known.all():
            rows = np.flatnonzero(~is_known)[:MAX_LISTED].tolist()
            missing = (
                (column[row], found[row]) for row in rows for column, found in zip(chunk, ends, strict=True)
            )
            unknown |= {_value(given): None for given, vertex in missing if vertex < 0}
            ends = [found[is_known] for found in ends]
        parts.append((ends[0].astype(np.uint32), ends[1].astype(np.uint32)))
    n_given = sum(map(len, known))
    none = np.empty(0, np.uint32)
    sources = np.concatenate([none, *(part[0] for part in parts)])
    parts = [(none, part[1]) for part in parts]
    targets = np.concatenate([none, *(part[1] for part in parts)])
    if not n_given:
        raise InputError(f"{place}there is no pair", hint=_WANTED)
    if not unknown:
        return PairList(sources, targets)
    n_unknown, first = n_given - len(sources), listed([*unknown], len(unknown))
    if not skip or not len(sources):
        message = (
            f"{place}{n_unknown:,} of {plural(n_given, 'pair')} {'have' if n_unknown > 1 else 'has'} "
            f"an id that is not in the graph: {first}"
        )
        hint = ids.range_hint() + ("" if skip else f"; {skip_hint} leaves out such pairs")
        raise InputError(message, hint=hint)
    return PairList(sources, targets, np.concatenate(known), tuple(unknown)[:MAX_LISTED])


def read_pairs(
    url: str,
    id_type: str,
    n_threads: int,
    columns: tuple[str, str] = ("auto", "auto"),
    naming: str = "name the columns of source and target in the first line",
) -> Iterator[Ends]:
    """Yield the ids of the pairs in a file, in its order.

    Parameters
    ----------
    id_type
        "int64" or "string".
    columns
        The columns of the sources and of the targets: names, or numbers from 1; "auto" for those whose names mean that.
    naming
        How the user says which columns these are, for a hint.

    Raises
    ------
    InputError
        The file is missing, empty or damaged, is no table of pairs, or has a row without two ids of `id_type`.
    """
    kind = "string" if id_type == "string" else "integer"
    options = ReadOptions(source_column=columns[0], target_column=columns[1], weight_column="none", ids=kind)
    try:
        edge_list = open_edge_list([url], options)
        if edge_list.reading.format not in _FORMATS:
            raise InputError(f"`{files.redacted(url)}` is a graph ({edge_list.reading.format})", hint=_WANTED)
        for chunk in edge_list.chunks(n_threads):
            yield tuple(end if isinstance(end, pa.Array) else pa.array(end) for end in (chunk.src, chunk.dst))
    except InputError as error:
        raise _in_words_of_pairs(error, url, kind, naming) from error


def _in_words_of_pairs(error: InputError, url: str, kind: str, naming: str) -> InputError:
    """Return an error on an edge list as one on a file of pairs, whose hint names no key of a graph."""
    message = error.message
    if "`graph." in message:  # an option that only tables take
        message = f"`{files.redacted(url)}` is no table of pairs"
    parts = message.split("`")
    # The texts between backticks are of the user.
    parts[::2] = [part.replace("an edge", "a pair").replace("edge", "pair") for part in parts[::2]]
    hint = error.hint or ""
    if "graph.columns" in hint or "columns:" in hint:
        hint = naming
    elif "graph." in hint or "a row holds" in hint:
        hint = "the ids of the graph are integers" if "graph.ids" in hint and kind == "integer" else _WANTED
    return InputError("`".join(parts), hint=hint)


def _value(given: Any) -> Any:
    return given.as_py() if isinstance(given, pa.Scalar) else given
