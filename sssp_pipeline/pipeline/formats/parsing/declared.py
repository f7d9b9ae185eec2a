"""Declared counts: checks for the formats that declare their numbers of vertices and edges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import MAX_LINE_BYTES, EdgeChunk, ReadOptions, Result
from sssp_pipeline.pipeline.formats.parsing.line_blocks import (
    BYTE_ORDER_MARK,
    LineFile,
    check_not_endless,
    read_lines,
)
from sssp_pipeline.pipeline.formats.parsing.line_reader import read_edges, work_on_edges
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
    """The edges of files that declare their number.

    Both functions raise `InputError` if a file has more or fewer edges than it declares; or as `read_edges`.
    """

    #: The rows of each file, and the number of edges that it declares.
    files: list[tuple[LineFile, int]]
    syntax: LineSyntax
    options: ReadOptions
    #: A function that raises `InputError` if a chunk of a file cannot be right.
    check: Callable[[LineFile, EdgeChunk], None] = lambda file, chunk: None

    def read(self, n_threads: int) -> Iterator[EdgeChunk]:
        """Give the chunks: `InputEdges.read`."""
        for file, declared in self.files:
            chunks = read_edges([file], self.syntax, self.options.block_bytes, n_threads)
            for chunk in _counted(((len(chunk), chunk) for chunk in chunks), file, declared):
                self.check(file, chunk)
                yield chunk

    def read_and_work(self, work: Callable[[EdgeChunk], Result], n_threads: int) -> Iterator[Result]:
        """Give `work(chunk)` for each chunk: `InputEdges.read_and_work`."""
        for file, declared in self.files:

            def checked(chunk: EdgeChunk, file: LineFile = file) -> Result:
                self.check(file, chunk)
                return work(chunk)

            found = work_on_edges(checked, [file], self.syntax, self.options.block_bytes, n_threads)
            yield from _counted(found, file, declared)


def _counted(found: Iterator[tuple[int, Result]], file: LineFile, declared: int) -> Iterator[Result]:
    """Give the results of a file, each of which comes with its number of edges, and check the sum of these."""
    n_read = 0
    place = f"`{storage.redacted(file.url)}` declares {declared} edges but lists"
    for n_edges, result in found:
        n_read += n_edges
        if n_read > declared:
            raise InputError(f"{place} {n_read} or more", hint="correct the count at its beginning")
        yield result
    if n_read < declared:
        raise InputError(f"{place} {n_read}", hint="the file may be cut short: fetch it again")
