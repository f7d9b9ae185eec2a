"""Declared counts: checks for the formats that declare their numbers of vertices and edges."""

from __future__ import annotations

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions
from sssp_pipeline.pipeline.formats.parsing.byte_streams import LineFile
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.storage import files as storage


def common_n_vertices(urls: list[str], counts: list[int]) -> int:
    """Return the number of vertices that all files declare.

    Raises
    ------
    InputError
        Two files declare different numbers.
    """
    for url, count in zip(urls, counts, strict=True):
        if count != counts[0]:
            raise InputError(
                f"`{storage.redacted(urls[0])}` declares {counts[0]} vertices, `{storage.redacted(url)}` {count}",
                hint="files read together are parts of one graph",
            )
    return counts[0]


def refuse_columns(options: ReadOptions, subject: str) -> None:
    """Raise `InputError` if an option needs columns, which this format lacks; `subject` is like "DIMACS files have"."""
    for key, column in (
        ("columns.source", options.source_column),
        ("columns.target", options.target_column),
        ("weights.column", options.weight_column),
    ):
        if column != "auto" and (column, key) != ("none", "weights.column"):
            raise InputError(
                f"unknown column `{column}`: {subject} no named columns",
                hint=f"remove `graph.{key}`",
            )
    if options.ids == "string":
        raise InputError(f"{subject} integer ids, not strings", hint="remove `graph.ids`")
    for key, usual in _OF_ROWS.items():
        if getattr(options, key) != usual:
            raise InputError(
                f"`graph.{key}` is set, but {subject} no columns of that kind", hint=f"remove `graph.{key}`"
            )


#: Options that apply only to text and tables, and their defaults.
_OF_ROWS = {
    "encoding": "auto",
    "delimiter": "auto",
    "header": "auto",
    "decimal": "point",
    "unreadable": "error",
}


def declared_reading(format_: str, ids_why: str) -> Reading:
    """Return the reading of a format in which the places of ids and weights are fixed."""
    return Reading(format=format_, ids="integer", ids_why=ids_why)


def declared_count(place: str, word: bytes, what: str, most: int) -> int:
    """Return the count of `what` that the header at `place` declares with the digits `word`.

    Raises
    ------
    InputError
        The count is more than `most`.
    """
    digits = word.lstrip(b"0") or b"0"
    if len(digits) > len(str(most)) or int(digits) > most:
        raise InputError(
            f"{place} declares {word[:40].decode()} {what}, at most {most} are possible",
            hint="the file may be damaged: fetch it again",
        )
    return int(digits)


def line_excerpt(line: bytes) -> str:
    """Return at most 60 characters of a header line, for a message."""
    text = line[:200].decode("utf-8", "replace").strip()
    return text if len(text) <= 60 else text[:60] + "…"


#: Why ids are integers in the formats that number their vertices from 1.
IDS_WHY = "the format numbers its vertices from 1"
#: The most edges that a header may declare.
MAX_EDGES = 2**48


class EdgeCounter:
    """Checks that every file has as many edges as it declares; the files are read one after the other."""

    def __init__(self, files: list[LineFile], declared: list[int]) -> None:
        self._declared = list(zip(files, declared, strict=True))
        self._n_read = 0

    def add(self, file: LineFile, n_edges: int) -> None:
        """Count `n_edges` more of `file`.

        Raises
        ------
        InputError
            An earlier file has too few edges, or this file has too many.
        """
        while self._declared[0][0] is not file:
            self._check_whole()
        self._n_read += n_edges
        declared = self._declared[0][1]
        if self._n_read > declared:
            raise InputError(
                f"`{storage.redacted(file.url)}` declares {declared} edges but lists {self._n_read} or more",
                hint="correct the count at its beginning",
            )

    def finish(self) -> None:
        """Raise `InputError` if the last file that was read, or a later one, has too few edges."""
        while self._declared:
            self._check_whole()

    def _check_whole(self) -> None:
        file, declared = self._declared.pop(0)
        if self._n_read < declared:
            raise InputError(
                f"`{storage.redacted(file.url)}` declares {declared} edges but lists {self._n_read}",
                hint="the file may be cut short: fetch it again",
            )
        self._n_read = 0
