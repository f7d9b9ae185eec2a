"""Line blocks: the text of a file, line by line and in blocks of whole lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import IO, Any

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import MAX_LINE_BYTES
from sssp_pipeline.pipeline.formats.streams.chunk_stream import ChunkStream
from sssp_pipeline.pipeline.formats.streams.decompressed import move_to, open_decompressed, read_exactly
from sssp_pipeline.storage import files as storage

NEWLINE = 10
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(b"\n")
#: The bytes of a part of a file that are read at a time.
_PIECE_BYTES = 1 << 20
#: The most lines, and bytes of them, that are searched for the first row or header. Python reads a line in a
#: microsecond, and a file of a megabyte can hold gigabytes of blank lines.
MOST_LINES_BEFORE = 10**6
MOST_BYTES_BEFORE = 2**26


def read_lines(url: str, encoding: str = "auto", max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Give the lines of `url` with their line ends.

    This is for headers and small files; `read_blocks` is faster. A byte order mark is part of the first line.

    Raises
    ------
    InputError
        A line is longer than `max_line_bytes`.
    """
    with open_decompressed(url, encoding) as stream:
        for number in count(1):
            line = stream.readline(max_line_bytes + 1)
            if len(line) > max_line_bytes:
                raise long_line_error(f"`{storage.redacted(url)}` line {number}", max_line_bytes)
            if not line:
                return
            yield line


def check_not_endless(url: str, n_lines: int, n_bytes: int) -> None:
    """Raise `InputError` if the file at `url` begins with too many lines that are neither rows nor a header."""
    if n_lines > MOST_LINES_BEFORE or n_bytes > MOST_BYTES_BEFORE:
        raise InputError(
            f"`{storage.redacted(url)}` has only comments and blank lines in its first {n_lines:,} lines",
            hint="check that this is the file you mean; if it is, remove them",
        )


def long_line_error(place: str, max_line_bytes: int) -> InputError:
    """Return the error for the line at `place`, which is longer than `max_line_bytes`."""
    return InputError(
        f"{place} is longer than {max_line_bytes:,} bytes",
        hint="check that this is text with line ends; if the line is right, raise `graph.max_line_bytes`",
    )


@dataclass(frozen=True)
class LineFile:
    """A file of lines; its rows begin after `skip_bytes` bytes, which are `n_lines` lines.

    With `end`, only the rows that begin in the bytes [begin, end); the file is plain then, and its line numbers are not
    known.
    """

    url: str
    skip_bytes: int = 0
    n_lines: int = 0
    encoding: str = "auto"
    max_line_bytes: int = MAX_LINE_BYTES
    begin: int = 0
    end: int | None = None


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Whole lines of a file."""

    #: The file that contains the lines.
    file: LineFile
    #: Whether these are the first rows of the file.
    is_first: bool
    #: (n,) uint8; the last byte is a line end, also if the file ends without one.
    data: np.ndarray


def read_blocks(files: list[LineFile], block_bytes: int) -> Iterator[TextBlock]:
    """Give the rows of all files in order, in blocks of about `block_bytes`; a longer line makes its block longer.

    Raises
    ------
    InputError
        A line is longer than the `max_line_bytes` of its file.
    """
    for file in files:
        is_first = True
        for data in _cut_at_line_ends(file, block_bytes):
            at_beginning = is_first and not file.skip_bytes and not file.begin
            has_mark = at_beginning and data[: len(BYTE_ORDER_MARK)].tobytes() == BYTE_ORDER_MARK
            yield TextBlock(file, is_first, data[len(BYTE_ORDER_MARK) :] if has_mark else data)
            is_first = False


def _cut_at_line_ends(file: LineFile, block_bytes: int) -> Iterator[np.ndarray]:
    block_bytes = min(block_bytes, file.max_line_bytes)  # then no line inside a block can be too long
    with open_decompressed(file.url, file.encoding) as whole:
        stream: Any = whole
        if file.end is None:
            move_to(stream, file.skip_bytes)
        else:
            stream = ChunkStream(_lines_between(whole, max(file.begin, file.skip_bytes), file))
        carry = np.empty(0, np.uint8)
        n_given = file.skip_bytes
        while True:
            # A line that does not fit doubles the block, so that the line is copied few times. The spare byte is for a
            # missing line end at the end of the file.
            room = max(block_bytes, len(carry))
            buffer = np.empty(len(carry) + room + 1, np.uint8)
            buffer[: len(carry)] = carry
            got = read_exactly(stream, buffer.data[len(carry) : -1])
            filled = len(carry) + got
            found = first_newline(buffer, len(carry), filled)
            if (found + 1 or filled) > file.max_line_bytes:
                place = f"`{storage.redacted(file.url)}`: the line that begins after {n_given:,} bytes"
                raise long_line_error(place, file.max_line_bytes)
            if got < room:
                if filled and buffer[filled - 1] != NEWLINE:
                    buffer[filled] = NEWLINE
                    filled += 1
                if filled:
                    yield buffer[:filled]
                return
            end = after_last_newline(buffer, len(carry), filled)
            carry = buffer[end:filled].copy()
            n_given += end
            if end:
                yield buffer[:end]


def _lines_between(stream: IO[bytes], begin: int, file: LineFile) -> Iterator[bytes]:
    """Give the lines of a plain file that begin in the bytes [begin, file.end)."""
    assert file.end is not None
    at = begin
    if begin > file.skip_bytes:
        # The byte before says whether a line begins here.
        at -= 1
        move_to(stream, at)
        while at < file.end and (content := stream.readline(_PIECE_BYTES)):
            at += len(content)
            if content[-1] == NEWLINE:
                break
    else:
        move_to(stream, at)
    content = b""
    while at < file.end and (got := stream.read(min(_PIECE_BYTES, file.end - at))):
        content, at = got, at + len(got)
        yield content
    while content and content[-1] != NEWLINE:
        content = stream.readline(_PIECE_BYTES)
        if content:
            yield content


def first_newline(buffer: np.ndarray, start: int, stop: int) -> int:
    """Return the position of the first line end in `buffer[start:stop]`, or -1 when there is none."""
    found = _LINE_END.search(buffer.data, start, stop)
    return found.start() if found else -1


def after_last_newline(buffer: np.ndarray, start: int, stop: int) -> int:
    """Return the position after the last line end in `buffer[start:stop]`, or 0 when there is none."""
    window = 4096
    while stop > start:
        low = max(start, stop - window)
        found = buffer[low:stop].tobytes().rfind(b"\n")
        if found >= 0:
            return low + found + 1
        stop, window = low, 2 * window
    return 0
