"""Declared counts: checks for the formats that declare their numbers of vertices and edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import (
    MAX_LINE_BYTES,
    EdgeChunk,
    InputEdges,
    ReadOptions,
    Result,
)
from sssp_pipeline.pipeline.formats.parsing.line_blocks import (
    BYTE_ORDER_MARK,
    LineFile,
    check_not_endless,
    read_lines,
)
from sssp_pipeline.pipeline.formats.parsing.line_reader import read_edges
from sssp_pipeline.pipeline.formats.parsing.tokenizer import LineSyntax
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.storage import files as storage


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


def header_lines(url: str, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[tuple[LineFile, bytes]]:
    """Give the lines of `url` that are not blank, each with the part of the file that follows it."""
    n_bytes = 0
    for n_lines, line in enumerate(read_lines(url, max_line_bytes=max_line_bytes), 1):
        n_bytes += len(line)
        text = line.removeprefix(BYTE_ORDER_MARK) if n_lines == 1 else line
        check_not_endless(url, n_lines, n_bytes - len(line))
        if text.strip():
            yield LineFile(url, n_bytes, n_lines, max_line_bytes=max_line_bytes), text


def header_row(url: str, max_line_bytes: int, missing: str, hint: str) -> tuple[LineFile, bytes]:
    """Return the first line of `url` that is no comment with `%`, and the part of the file that follows it.

    Raises
    ------
    InputError
        There is no such line; `missing` follows the name of the file in the message.
    """
    for file, line in header_lines(url, max_line_bytes):
        if not line.split()[0].startswith(b"%"):
            return file, line
    raise InputError(f"`{storage.redacted(url)}` {missing}", hint=hint)


def numbered_syntax(
    options: ReadOptions, comment: bytes, n_vertices: int, n_columns: int, has_weights: bool, letter: int = 0
) -> LineSyntax:
    """Return the syntax of rows `[letter] source target [weight]` with ids from 1 to `n_vertices`."""
    return LineSyntax(
        letter=letter,
        comment=comment[0],
        other_comment=comment[0],
        n_columns=n_columns,
        weight_column=2 if has_weights else -1,
        min_id=1,
        max_id=n_vertices,
        ids_are_strings=False,
        rounds=options.rounds,
        scale=options.exact_scale,
    )


@dataclass(frozen=True)
class DeclaredEdges:
    """The edges of files that declare their number."""

    #: The rows of each file, and the number of edges that it declares.
    files: list[tuple[LineFile, int]]
    syntax: LineSyntax
    options: ReadOptions
    #: A function that raises `InputError` if a chunk of a file cannot be right.
    check: Callable[[LineFile, EdgeChunk], None] = lambda file, chunk: None

    def edge_list(self, format_: str) -> InputEdges:
        """Return the edge list, directed as listed."""
        return InputEdges(
            declared_reading(format_, IDS_WHY),
            self.syntax.weight_column >= 0,
            partial(self._read, EdgeChunk.copy),
            read_and_work=self._read,
            n_vertices=self.syntax.max_id,
            first_id=1,
        )

    def _read(self, work: Callable[[EdgeChunk], Result], n_threads: int) -> Iterator[Result]:
        """Give `work(chunk)` for each chunk; raise `InputError` unless each file has the edges that it declares."""
        for file, declared in self.files:

            def counted(chunk: EdgeChunk, file: LineFile = file) -> tuple[int, Result]:
                self.check(file, chunk)
                return len(chunk), work(chunk)

            n_read = 0
            place = f"`{storage.redacted(file.url)}` declares {declared} edges but lists"
            given = [file], self.syntax, self.options.block_bytes, None
            for n_edges, result in read_edges(*given, counted, n_threads):
                n_read += n_edges
                if n_read > declared:
                    raise InputError(f"{place} {n_read} or more", hint="correct the count at its beginning")
                yield result
            if n_read < declared:
                raise InputError(f"{place} {n_read}", hint="the file may be cut short: fetch it again")
