"""Bytes out of files: decompressed by content, whole lines at a time, with one clear error when cut short."""

from __future__ import annotations

import codecs
import io
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from typing import IO, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import MAX_LINE_BYTES
from sssp_pipeline.pipeline.storage import files as storage

NEWLINE = 10
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def _by_arrow(codec: str) -> Callable[[IO[bytes]], Any]:
    """Return what opens a stream of Arrow's `codec`: for gzip 1.7 times as fast as Python's own module."""
    return lambda raw: io.BufferedReader(pa.CompressedInputStream(raw, codec))


#: The first bytes of a compressed file, and what opens it. All of them read concatenated streams.
_DECOMPRESSORS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": _by_arrow("gzip"),
    b"BZh": _by_arrow("bz2"),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"\x28\xb5\x2f\xfd": _by_arrow("zstd"),
}
#: Of a zip file with members, and of one without.
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
#: Where a tar file, which has no first bytes of its own, says what it is.
_TAR_AT, _TAR_MAGIC = 257, b"ustar"
_MAGIC_BYTES = _TAR_AT + len(_TAR_MAGIC)
#: Byte order marks of UTF-16, which name the encoding.
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_ARROW_STREAM = b"\xff\xff\xff\xff"
_LINE_END = re.compile(b"\n")


def is_compressed(url: str) -> bool:
    """Return whether the content of `url` is compressed as a whole, or packed into a zip or tar file."""
    with storage.reading(url), storage.open_read(url) as raw:
        magic = raw.read(_MAGIC_BYTES)
    return _decompressor(magic) is not None or magic.startswith(_ZIP_MAGIC) or _is_tar(magic)


@contextmanager
def open_decompressed(url: str, encoding: str = "auto") -> Iterator[IO[bytes]]:
    """Give `url` opened for reading its decompressed bytes, those of its only member if it is a zip or tar file.

    Text in another `encoding`, or in UTF-16 with a byte order mark, is given as UTF-8.

    Raises
    ------
    InputError
        The file may not be read, or has several members; or, while it is being read, it is cut short or damaged, or
        is not in the encoding.
    """
    with storage.reading(url), ExitStack() as stack:
        stream: Any = stack.enter_context(_raw(url))
        try:
            for _ in range(_MOST_LAYERS):
                magic = _peeked(stream)
                if (decompress := _decompressor(magic)) is not None:
                    stream = stack.enter_context(_buffered(decompress(stream)))
                elif magic.startswith(_ZIP_MAGIC):
                    stream = stack.enter_context(_buffered(_zip_member(url, stream)))
                elif _is_tar(magic):
                    stream = stack.enter_context(io.BufferedReader(_TarMember(url, stream)))
                else:
                    break
            if encoding == "auto" and magic.startswith(_UTF_16_MARKS) and not magic.startswith(_ARROW_STREAM):
                encoding = "utf-16"
            if encoding not in ("auto", "utf-8"):
                _check_encoding(encoding)
                stream = stack.enter_context(io.BufferedReader(_Transcoded(url, stream, encoding)))
            yield stream
        except _DAMAGES as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise _damaged(url, error) from error


def _check_encoding(encoding: str) -> None:
    try:
        codecs.getincrementaldecoder(encoding)().decode(b"").encode()
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise InputError(
            f"`graph.encoding: {encoding}` is no encoding of text that Python knows",
            hint="write `utf-8`, `utf-16`, `latin-1`, `cp1252` or another one",
        ) from error


def text_encoding(url: str, asked: str) -> str | None:
    """Return the encoding of a text that is not UTF-8: the one `asked` for, or UTF-16 by its byte order mark."""
    with open_decompressed(url, asked) as stream:
        transcoded = getattr(stream, "raw", None)
        return transcoded.encoding if isinstance(transcoded, _Transcoded) else None


#: The exceptions for a damaged compressed file; a zip file may also need a newer version of the format.
_DAMAGES = (
    *(EOFError, lzma.LZMAError, zipfile.BadZipFile, zlib.error, tarfile.TarError, OSError),
    NotImplementedError,
)


#: A tar file in a gzip file in a zip file; more is no data.
_MOST_LAYERS = 4


@contextmanager
def _raw(url: str) -> Iterator[IO[bytes]]:
    # Not every file of fsspec reads lines, or fills a buffer, without going back.
    with storage.open_read(url) as raw, io.BufferedReader(raw) as stream:  # type: ignore[type-var]
        yield stream


def _buffered(stream: Any) -> Any:
    return stream if hasattr(stream, "peek") else io.BufferedReader(stream)


def _peeked(stream: Any) -> bytes:
    """Return the first bytes of a buffered stream, which is left at its beginning."""
    magic: bytes = stream.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
    return magic


def _decompressor(magic: bytes) -> Callable[[IO[bytes]], Any] | None:
    return next((opener for prefix, opener in _DECOMPRESSORS.items() if magic.startswith(prefix)), None)


def _is_tar(magic: bytes) -> bool:
    return magic[_TAR_AT:].startswith(_TAR_MAGIC)


def zip_members(stream: IO[bytes]) -> list[str]:
    """Return the names of the files in a zip file, without the extra files that macOS adds."""
    # `is_dir` fails for an entry without a name.
    names = [name for name in zipfile.ZipFile(stream).namelist() if not name.endswith("/")]
    return [name for name in names if not _is_extra(name)]


def _is_extra(name: str) -> bool:
    last = name.rpartition("/")[2]
    return name.startswith("__MACOSX/") or last.startswith("._") or last == ".DS_Store"


def _zip_member(url: str, stream: IO[bytes]) -> IO[bytes]:
    """Return the only member of a zip file, opened."""
    if not stream.seekable():
        raise InputError(
            f"`{storage.redacted(url)}` holds a zip file in a compressed file", hint="unpack it first"
        )
    names = zip_members(stream)
    if len(names) != 1:
        raise _several_members(url, "zip", names)
    try:
        return zipfile.ZipFile(stream).open(names[0])
    except (RuntimeError, NotImplementedError) as error:  # a password, or a rare method
        raise InputError(
            f"`{storage.redacted(url)}`: `{names[0]}` cannot be unpacked: {error}", hint="unpack it first"
        ) from error


def _several_members(url: str, kind: str, names: list[str]) -> InputError:
    shown = ", ".join(f"`{name}`" for name in names[:10]) + (", …" if len(names) > 10 else "")
    holds = f"{len(names)} files: {shown}" if names else "no file"
    return InputError(
        f"`{storage.redacted(url)}` is a {kind} file of {holds}", hint="unpack it, and name the files to read"
    )


class _TarMember(io.RawIOBase):
    """The only file in a tar stream; at its end another one is an error."""

    def __init__(self, url: str, stream: IO[bytes]) -> None:
        self._url, self._stream = url, stream
        self._tar = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115 - closed with the stream
        self._info = self._next()
        if self._info is None:
            raise _several_members(url, "tar", [])
        self._file = self._tar.extractfile(self._info)

    def _next(self) -> tarfile.TarInfo | None:
        while (info := self._tar.next()) is not None:
            if info.isreg() and not _is_extra(info.name):
                return info
        return None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        assert self._file is not None
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        if not content and len(buffer) and self._info is not None:
            first, self._info = self._info, None
            if (second := self._next()) is not None:
                raise _several_members(self._url, "tar", [first.name, second.name])
            while self._stream.read(1 << 20):
                pass  # a compressed file has the checksum of its content at its end
        return len(content)


class _Transcoded(io.RawIOBase):
    """A text in another encoding, as UTF-8."""

    def __init__(self, url: str, stream: IO[bytes], encoding: str) -> None:
        self._url, self._stream, self.encoding = url, stream, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready = b""
        self._n_lines = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            content = self._stream.read(1 << 16)
            try:
                self._ready = self._decoder.decode(content, not content).encode()
            except UnicodeError as error:
                place = f"`{storage.redacted(self._url)}` after line {self._n_lines}"
                raise InputError(
                    f"{place} is not {self.encoding.upper()}: {error}",
                    hint="set `graph.encoding` to the encoding of the file, or save it as UTF-8",
                ) from error
            self._n_lines += self._ready.count(b"\n")
            if not content:
                break
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n


def _damaged(url: str, error: Exception) -> InputError:
    hint = "fetch or compress it again"
    if isinstance(error, EOFError) or "Truncated" in str(error) or "unexpected end" in str(error):
        return InputError(
            f"`{storage.redacted(url)}` is cut short: its compressed data does not end", hint=hint
        )
    return InputError(f"`{storage.redacted(url)}` is damaged: {error}", hint=hint)


def read_exactly(stream: IO[bytes], buffer: memoryview) -> int:
    """Fill `buffer` from `stream` and return how many bytes there were: fewer than asked only at the end."""
    filled = 0
    while filled < len(buffer):
        n = stream.readinto(buffer[filled:])  # type: ignore[attr-defined]
        if not n:
            break
        filled += n
    return filled


def move_to(stream: IO[bytes], position: int) -> None:
    """Move a stream that is at its beginning to `position`, by reading up to there where it cannot jump."""
    if position == 0:
        return
    try:
        stream.seek(position)
    except (OSError, ValueError):
        while position > 0 and (passed := len(stream.read(min(position, 1 << 20)))):
            position -= passed


def read_lines(url: str, encoding: str = "auto", max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Give the lines of `url` with their ends, for the headers of files: the rest is read in blocks.

    A byte order mark is part of the first line.

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


def long_line_error(place: str, max_line_bytes: int) -> InputError:
    """Return the error of a line, named by `place`, that is longer than `max_line_bytes`."""
    return InputError(
        f"{place} is longer than {max_line_bytes:,} bytes",
        hint="check that this is text with line ends; if the line is right, raise `graph.max_line_bytes`",
    )


@dataclass(frozen=True)
class LineFile:
    """A file of lines and where its rows begin: after `skip_bytes` bytes, which are `n_lines` lines."""

    url: str
    skip_bytes: int = 0
    n_lines: int = 0
    encoding: str = "auto"
    max_line_bytes: int = MAX_LINE_BYTES


@dataclass(frozen=True, eq=False)
class TextBlock:
    """Whole lines of a file.

    Attributes
    ----------
    file
        The file they are from.
    is_first
        Whether these are the first rows of the file.
    data
        (n,) uint8; the last byte is a line end, whatever the file ends with.
    """

    file: LineFile
    is_first: bool
    data: np.ndarray


def read_blocks(files: list[LineFile], block_bytes: int) -> Iterator[TextBlock]:
    """Give the rows of all files in order, in blocks of about `block_bytes`, longer only where a line is.

    Raises
    ------
    InputError
        A line is longer than the `max_line_bytes` of its file.
    """
    for file in files:
        is_first = True
        for data in _cut_at_line_ends(file, block_bytes):
            at_beginning = is_first and not file.skip_bytes
            has_mark = at_beginning and data[: len(BYTE_ORDER_MARK)].tobytes() == BYTE_ORDER_MARK
            yield TextBlock(file, is_first, data[len(BYTE_ORDER_MARK) :] if has_mark else data)
            is_first = False


def _cut_at_line_ends(file: LineFile, block_bytes: int) -> Iterator[np.ndarray]:
    block_bytes = min(block_bytes, file.max_line_bytes)  # so that a line within a block is not too long
    with open_decompressed(file.url, file.encoding) as stream:
        move_to(stream, file.skip_bytes)
        carry = np.empty(0, np.uint8)
        n_given = file.skip_bytes
        while True:
            # A line longer than the block doubles it, so that it is not copied too often; the spare byte
            # is for a line end that the file lacks.
            room = max(block_bytes, len(carry))
            buffer = np.empty(len(carry) + room + 1, np.uint8)
            buffer[: len(carry)] = carry
            got = read_exactly(stream, buffer.data[len(carry) : -1])
            filled = len(carry) + got
            found = _LINE_END.search(buffer.data, len(carry), filled)
            if (found.end() if found else filled) > file.max_line_bytes:
                place = f"`{storage.redacted(file.url)}`: the line that begins after {n_given:,} bytes"
                raise long_line_error(place, file.max_line_bytes)
            if got < room:
                if filled and buffer[filled - 1] != NEWLINE:
                    buffer[filled] = NEWLINE
                    filled += 1
                if filled:
                    yield buffer[:filled]
                return
            end = _after_last_newline(buffer, len(carry), filled)
            carry = buffer[end:filled].copy()
            n_given += end
            if end:
                yield buffer[:end]


def _after_last_newline(buffer: np.ndarray, start: int, stop: int) -> int:
    """Return the position after the last line end in `buffer[start:stop]`, or 0 when there is none."""
    window = 4096
    while stop > start:
        low = max(start, stop - window)
        found = buffer[low:stop].tobytes().rfind(b"\n")
        if found >= 0:
            return low + found + 1
        stop, window = low, 2 * window
    return 0
