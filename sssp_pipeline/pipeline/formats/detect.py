"""Which format a file is in: by its content; its name decides only where the content fits two formats."""

from __future__ import annotations

import csv
import struct
from itertools import islice
from urllib.parse import urlsplit

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.formats.byte_streams import BYTE_ORDER_MARK, opened, read_lines
from sssp_pipeline.pipeline.formats.magic import ARROW_FILE_MAGIC, ARROW_STREAM_MAGIC, PARQUET_MAGIC
from sssp_pipeline.pipeline.formats.tables import looks_like_header
from sssp_pipeline.pipeline.formats.text import first_row

_COMPRESSION_SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
_METIS_SUFFIXES = (".graph", ".metis")
#: Lines that may precede the one that tells DIMACS from text.
_MAX_COMMENT_LINES = 10_000


def detect_format(url: str) -> str:
    """Return the format of the file at `url`, a key of `formats.READERS`.

    Raises
    ------
    InputError
        The file is empty, holds only comments, or is in no known format.
    """
    with opened(url) as stream:
        head = stream.read(4096)
    if not head:
        raise InputError(f"`{storage.redacted(url)}` is empty", hint="check that this is the file you mean")
    if head.startswith((PARQUET_MAGIC, ARROW_FILE_MAGIC, ARROW_STREAM_MAGIC)):
        return "parquet"
    if _is_galois(head):
        return "galois"
    if b"\0" in head:
        raise _unknown(url)
    text = head.removeprefix(BYTE_ORDER_MARK)
    if text.startswith(b"%%MatrixMarket"):
        return "matrix-market"
    if text.lstrip()[:1] in (b"c", b"p") and _has_problem_line(url):
        return "dimacs"
    return _row_format(url)


def _row_format(url: str) -> str:
    """Return the format that the first row, comments apart, stands for."""
    found = first_row(read_lines(url))
    if found is None:
        raise InputError(
            f"`{storage.redacted(url)}` holds no edges, only comments and blank lines",
            hint="check that this is the file you mean",
        )
    try:
        row = found[1].decode()
    except UnicodeDecodeError:
        raise _unknown(url) from None
    if separator_of(row) is not None:
        return "csv"
    words = row.split()
    if _has_metis_name(url) and 2 <= len(words) <= 4 and all(word.isdecimal() for word in words):
        return "metis"
    return "text"


def separator_of(row: str) -> str | None:
    """Return the separator of a table whose first line is `row`, or None where it is none.

    White space separates the columns of a table only under a header of the usual names: else it is text.
    """
    for separator in (",", ";"):
        if separator in row and len(next(csv.reader([row], delimiter=separator))) > 1:
            return separator
    for separator in ("\t", " "):
        if looks_like_header(row.split(separator)):
            return separator
    return None


def _has_metis_name(url: str) -> bool:
    path = urlsplit(url).path.lower()
    for suffix in _COMPRESSION_SUFFIXES:
        path = path.removesuffix(suffix)
    return path.endswith(_METIS_SUFFIXES)


def _has_problem_line(url: str) -> bool:
    # A text edge list may have vertices called `c`, `cat` or `p`: only what follows the lines of `c` tells.
    for line in islice(read_lines(url), _MAX_COMMENT_LINES):
        words = line.split()
        if words and not words[0].startswith(b"c"):
            return words[0] == b"p" and len(words) >= 4 and all(w.isdigit() or w == b"co" for w in words[-2:])
    return False


def _is_galois(head: bytes) -> bool:
    if len(head) < 16:
        return False
    version, edge_bytes = struct.unpack("<QQ", head[:16])
    return version in (1, 2) and edge_bytes <= 8


def _unknown(url: str) -> InputError:
    return InputError(
        f"`{storage.redacted(url)}` is in no known format", hint="set `graph.format` to the format it is in"
    )
