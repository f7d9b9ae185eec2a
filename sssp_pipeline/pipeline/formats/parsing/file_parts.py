"""File parts: the text of files in pieces of whole lines; plain local files are read by the threads that parse them.

One thread cannot read as fast as many cores parse. So a plain local file is cut at multiples of the size of a block,
and each thread reads the lines that begin in its part. Streams, such as compressed files, are read by one
thread, in blocks.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.pipeline.formats.parsing.line_blocks import (
    BYTE_ORDER_MARK,
    NEWLINE,
    LineFile,
    TextBlock,
    after_last_newline,
    first_newline,
    long_line_error,
    read_blocks,
)
from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed
from sssp_pipeline.storage import files as storage

#: The bytes after a part that are read with it, for the end of its last line.
_TAIL_BYTES = 4096


class _Descriptor:
    """An open local file that is closed when nothing refers to it."""

    def __init__(self, number: int) -> None:
        self.number = os.dup(number)

    def __del__(self) -> None:
        os.close(self.number)

    @property
    def n_bytes(self) -> int:
        return os.fstat(self.number).st_size


@dataclass(frozen=True, eq=False)
class FilePart:
    """The lines of a plain local file that begin in the bytes [begin, end)."""

    file: LineFile
    descriptor: _Descriptor
    begin: int
    end: int
    #: The bytes of the file when it was opened.
    n_bytes: int

    @property
    def is_first(self) -> bool:
        """Whether the rows of the file begin here."""
        return self.begin == self.file.skip_bytes

    def read(self, scratch: Scratch) -> tuple[TextBlock, InputError | None]:
        """Return the lines, in memory of `scratch`; and an error if the line after them is too long."""
        # The byte before the part says whether a line begins with it.
        start = self.begin if self.is_first else self.begin - 1
        room = min(self.end + _TAIL_BYTES, self.n_bytes) - start
        buffer = scratch.array("text", room + 1, np.uint8)
        got = self._fill(buffer, 0, start, room)
        reach = min(self.end - start, got)
        begin = 0
        if not self.is_first:
            begin = first_newline(buffer, 0, reach) + 1 or reach
        if begin >= reach:
            return TextBlock(self.file, self.is_first, buffer[:0]), None
        last = max(begin, after_last_newline(buffer, begin, reach - 1))
        found = first_newline(buffer, reach - 1, got)
        while found < 0 and start + got < self.n_bytes and got - last <= self.file.max_line_bytes:
            room = min(2 * got, self.n_bytes - start)
            longer = np.empty(room + 1, np.uint8)
            longer[:got] = buffer[:got]
            buffer, before = longer, got
            got = self._fill(buffer, before, start, room)
            found = first_newline(buffer, before, got)
            if got < room:
                break
        stop = found + 1 if found >= 0 else got
        error = None
        if stop - last > self.file.max_line_bytes:
            place = f"`{storage.redacted(self.file.url)}`: the line that begins after {start + last:,} bytes"
            error, stop = long_line_error(place, self.file.max_line_bytes), last
        elif found < 0:
            buffer[stop] = NEWLINE
            stop += 1
        if self.begin == 0 and buffer[: len(BYTE_ORDER_MARK)].tobytes() == BYTE_ORDER_MARK:
            begin += len(BYTE_ORDER_MARK)
        return TextBlock(self.file, self.is_first, buffer[begin:stop]), error

    def _fill(self, buffer: np.ndarray, filled: int, start: int, room: int) -> int:
        """Read from the byte `start` of the file on until `room` bytes of `buffer` are filled; return how many are."""
        with storage.reading(self.file.url):
            while filled < room:
                n = os.preadv(self.descriptor.number, [buffer.data[filled:room]], start + filled)
                if not n:  # the file has become shorter: ingest refuses it when all was read
                    break
                filled += n
        return filled


def read_parts(files: list[LineFile], block_bytes: int) -> Iterator[FilePart | TextBlock]:
    """Give the rows of all files in order, in parts of about `block_bytes`; raise `InputError` like `read_blocks`."""
    for file in files:
        descriptor = _plain_file(file)
        if descriptor is None:
            yield from read_blocks([file], block_bytes)
            continue
        n_bytes, step = descriptor.n_bytes, min(block_bytes, file.max_line_bytes)
        first, end = max(file.begin, file.skip_bytes), n_bytes if file.end is None else min(file.end, n_bytes)
        for begin in range(first, end, step):
            yield FilePart(file, descriptor, begin, min(begin + step, end), n_bytes)


def _plain_file(file: LineFile) -> _Descriptor | None:
    """Return the descriptor of a local file whose bytes are the text; None for others."""
    with open_decompressed(file.url, file.encoding) as stream:
        # What comes through another stream is decompressed or converted.
        number = storage.descriptor_of(stream.raw) if isinstance(stream, io.BufferedReader) else None
        return None if number is None else _Descriptor(number)
