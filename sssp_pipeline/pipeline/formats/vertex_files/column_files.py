"""Files with columns: CSV as text or as Parquet and Arrow, in the forms that people write them in.

If a file could be read in two ways, the error says so.
"""

from __future__ import annotations

import csv
import re
from abc import ABC, abstractmethod
from typing import ClassVar

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed
from sssp_pipeline.pipeline.formats.streams.magic import ARROW_FILE_MAGIC, ARROW_STREAM_MAGIC, PARQUET_MAGIC
from sssp_pipeline.storage import files

_DELIMITERS = ",;|\t"
#: The delimiter must fit this many lines.
_SAMPLE_LINES = 1000
_QUOTED = re.compile('"((?:[^"]|"")*)"')


class ColumnFile(ABC):
    """A file with columns that a workflow names."""

    #: What a file should be like; a hint where it cannot be read.
    wanted: ClassVar[str]

    @property
    @abstractmethod
    def url(self) -> str:
        """The file."""

    @abstractmethod
    def _looks_like_header(self, cells: list[str]) -> bool:
        """Return whether one of the `cells` of the first line is the name of a column."""

    def _content(self) -> tuple[bytes, bool]:
        """Return the decompressed file, and whether it is Parquet or Arrow."""
        # The encoding is not `graph.encoding`, so `_decoded` reports errors of UTF-16.
        with open_decompressed(self.url, encoding="utf-8") as stream:
            content = stream.read()
        return content, content.startswith((PARQUET_MAGIC, ARROW_FILE_MAGIC, ARROW_STREAM_MAGIC))

    def _error(self, problem: str, hint: str) -> InputError:
        return InputError(f"`{files.redacted(self.url)}`{problem}", hint=hint)

    def _rows(self, content: bytes) -> list[tuple[int, list[str]]]:
        """Return the number and the cells of each line; a file without a delimiter has one cell in each line.

        Empty lines and lines of `#` are left out.
        """
        lines = [
            (number, line.strip())
            for number, line in enumerate(self._decoded(content).splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if not lines:
            return []
        delimiter = self._delimiter([line for _, line in lines[:_SAMPLE_LINES]])
        if delimiter is None:
            return [(number, [_unquoted(line)]) for number, line in lines]
        cells = csv.reader(
            (line for _, line in lines), delimiter=delimiter, skipinitialspace=True, strict=True
        )
        try:
            rows = [(lines[cells.line_num - 1][0], row) for row in cells]
        except csv.Error as error:
            number = lines[cells.line_num - 1][0]
            raise self._error(f" line {number} cannot be read: {error}", self.wanted) from error
        return rows

    def _delimiter(self, sample: list[str]) -> str | None:
        """Return the delimiter that splits the sample into columns; None if there is none."""
        fitting = []
        for delimiter in _DELIMITERS:
            if delimiter not in sample[0]:
                continue
            first = _split(sample[0], delimiter)
            if len(first) > 1 and self._looks_like_header(first):
                return delimiter
            if len(first) > 1 and all(len(_split(line, delimiter)) == len(first) for line in sample):
                fitting.append(delimiter)
        if len(fitting) > 1:
            names = " and ".join(f"`{found}`".replace("\t", "tab") for found in fitting)
            raise self._error(f" can be split into columns by {names}", self.wanted)
        return fitting[0] if fitting else None

    def _decoded(self, content: bytes) -> str:
        encoding = "utf-16" if content.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            name = encoding.removesuffix("-sig").upper()
            raise self._error(
                f" line {line}: byte 0x{content[error.start]:02x} is not {name} text",
                f"save the file as UTF-8; {self.wanted}",
            ) from error
        if "\0" in text:
            raise self._error(" is a binary file that is neither Parquet nor Arrow", self.wanted)
        return text


def _split(line: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        return []


def _unquoted(line: str) -> str:
    """Return a line without quotes around the whole line."""
    found = _QUOTED.fullmatch(line)
    return found[1].replace('""', '"') if found else line


def shortened(word: str) -> str:
    """Return the beginning of a cell, for a message."""
    return word if len(word) <= 60 else word[:60] + "…"
