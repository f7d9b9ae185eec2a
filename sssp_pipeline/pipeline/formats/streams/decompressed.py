"""Decompressed streams: the bytes of a file, whatever it is compressed, packed or encoded with."""

from __future__ import annotations

import codecs
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from isal import isal_zlib

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.streams.chunk_stream import ChunkStream, buffered
from sssp_pipeline.pipeline.formats.streams.compressed_blocks import open_gzip, open_zstd
from sssp_pipeline.pipeline.formats.streams.concatenated import (
    BZIP2_MAGIC,
    XZ_MAGIC,
    ZSTD_MAGIC,
    BytesAfterError,
    open_bzip2,
    open_xz,
)
from sssp_pipeline.storage import files as storage

#: The first bytes of a compressed file, and a function that opens it. All of them also read concatenated streams.
_DECOMPRESSORS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": open_gzip,
    BZIP2_MAGIC: open_bzip2,
    XZ_MAGIC: open_xz,
    ZSTD_MAGIC: open_zstd,
    b"\x50\x2a\x4d\x18": open_zstd,  # a frame that is passed over: `pzstd` begins with it
}
#: The first bytes of a zip file with members, and of one without.
_ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
#: A tar file has its magic bytes at this position, not at its beginning.
_TAR_AT, _TAR_MAGIC = 257, b"ustar"
_MAGIC_BYTES = _TAR_AT + len(_TAR_MAGIC)
#: Byte order marks of UTF-16, which name the encoding.
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_ARROW_STREAM = b"\xff\xff\xff\xff"


def is_compressed(url: str) -> bool:
    """Return whether `url` is a compressed file, or a zip or tar file."""
    with storage.reading(url), storage.open_read(url) as raw:
        magic = raw.read(_MAGIC_BYTES)
    return _decompressor(magic) is not None or magic.startswith(_ZIP_MAGIC) or _is_tar(magic)


@contextmanager
def open_decompressed(url: str, encoding: str = "auto") -> Iterator[IO[bytes]]:
    """Open `url` and give a stream of its decompressed bytes; for a zip or tar file, the bytes of its only member.

    Text in another `encoding`, or in UTF-16 with a byte order mark, is converted to UTF-8.

    Raises
    ------
    InputError
        The file may not be read, has several members, is cut short or damaged, or is not in the encoding. The last
        three may be raised in the block, when the bytes are read.
    """
    with storage.reading(url), ExitStack() as stack:
        # Some fsspec files cannot read lines or fill a buffer without seeking; a `BufferedReader` can.
        raw: Any = stack.enter_context(storage.open_read(url))
        stream: Any = stack.enter_context(io.BufferedReader(raw))
        try:
            for _ in range(_MOST_LAYERS):
                magic = stream.peek(_MAGIC_BYTES)[:_MAGIC_BYTES]
                if (decompress := _decompressor(magic)) is not None:
                    stream = stack.enter_context(buffered(decompress(stream)))
                elif magic.startswith(_ZIP_MAGIC):
                    stream = stack.enter_context(buffered(_zip_member(url, stream)))
                elif _is_tar(magic):
                    stream = stack.enter_context(io.BufferedReader(ChunkStream(_tar_member(url, stream))))
                else:
                    break
            if encoding == "auto" and magic.startswith(_UTF_16_MARKS) and not magic.startswith(_ARROW_STREAM):
                encoding = "utf-16"
            if encoding not in ("auto", "utf-8"):
                _check_encoding(encoding)
                chunks = _transcoded(url, stream, encoding)
                stream = stack.enter_context(io.BufferedReader(ChunkStream(chunks, encoding)))
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
            f"`graph.encoding: {encoding}` is not a text encoding that Python knows",
            hint="write `utf-8`, `utf-16`, `latin-1`, `cp1252` or another one",
        ) from error


def text_encoding(url: str, asked: str) -> str | None:
    """Return the encoding `asked` for, or UTF-16 for a text with its byte order mark; None for UTF-8."""
    with open_decompressed(url, asked) as stream:
        raw = getattr(stream, "raw", None)
        return raw.encoding if isinstance(raw, ChunkStream) else None


_ISAL_ERROR: Any = isal_zlib.error
#: The exceptions for a damaged compressed file; a zip file may also need a newer version of the format.
_DAMAGES = (
    *(EOFError, lzma.LZMAError, zipfile.BadZipFile, zlib.error, _ISAL_ERROR, tarfile.TarError, OSError),
    NotImplementedError,
    BytesAfterError,
)


#: How many compressed or packed files may be nested, such as a tar file in a gzip file in a zip file.
_MOST_LAYERS = 4


def _decompressor(magic: bytes) -> Callable[[IO[bytes]], Any] | None:
    return next((opener for prefix, opener in _DECOMPRESSORS.items() if magic.startswith(prefix)), None)


def _is_tar(magic: bytes) -> bool:
    return magic[_TAR_AT:].startswith(_TAR_MAGIC)


def zip_members(stream: IO[bytes]) -> list[str]:
    """Return the names of the files in a zip file, without the extra files that macOS adds."""
    # Not by `ZipInfo.is_dir`, which fails for a member without a name.
    names = [name for name in zipfile.ZipFile(stream).namelist() if not name.endswith("/")]
    return [name for name in names if not _is_extra(name)]


def _is_extra(name: str) -> bool:
    last = name.rpartition("/")[2]
    return name.startswith("__MACOSX/") or last.startswith("._") or last == ".DS_Store"


def _zip_member(url: str, stream: IO[bytes]) -> IO[bytes]:
    """Open the only member of a zip file."""
    if not stream.seekable():
        raise InputError(
            f"`{storage.redacted(url)}` holds a zip file in a compressed file", hint="unpack it first"
        )
    names = zip_members(stream)
    if len(names) != 1:
        raise _several_members(url, "zip", names)
    try:
        return zipfile.ZipFile(stream).open(names[0])
    except (
        RuntimeError,
        NotImplementedError,
    ) as error:  # it needs a password, or has a rare compression method
        raise InputError(
            f"`{storage.redacted(url)}`: `{names[0]}` cannot be unpacked: {error}", hint="unpack it first"
        ) from error


def _several_members(url: str, kind: str, names: list[str]) -> InputError:
    first_names = ", ".join(f"`{name}`" for name in names[:10]) + (", …" if len(names) > 10 else "")
    if not names:
        return InputError(
            f"`{storage.redacted(url)}` is a {kind} archive without a file",
            hint="fetch or pack it again",
        )
    return InputError(
        f"`{storage.redacted(url)}` is a {kind} file of {len(names)} files: {first_names}",
        hint="unpack it, and name the files to read",
    )


def _tar_member(url: str, stream: IO[bytes]) -> Iterator[bytes]:
    """Give the only file in a tar stream; a second file is an error, which is raised at the end of the first."""
    with tarfile.open(fileobj=stream, mode="r|") as tar:
        infos = (info for info in tar if info.isreg() and not _is_extra(info.name))
        if (first := next(infos, None)) is None:
            raise _several_members(url, "tar", [])
        file = tar.extractfile(first)
        assert file is not None
        while chunk := file.read(1 << 20):
            yield chunk
        if (second := next(infos, None)) is not None:
            raise _several_members(url, "tar", [first.name, second.name])
    while stream.read(1 << 20):
        pass  # read to the end: a compressed file has the checksum of its content there


def _transcoded(url: str, stream: IO[bytes], encoding: str) -> Iterator[bytes]:
    """Give a text in another encoding, converted to UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()
    n_lines, is_end = 0, False
    while not is_end:
        content = stream.read(1 << 16)
        is_end = not content
        try:
            text = decoder.decode(content, is_end).encode()
        except UnicodeError as error:
            raise InputError(
                f"`{storage.redacted(url)}` after line {n_lines} is not {encoding.upper()}: {error}",
                hint="set `graph.encoding` to the encoding of the file, or save it as UTF-8",
            ) from error
        n_lines += text.count(b"\n")
        if text:
            yield text


def _damaged(url: str, error: Exception) -> InputError:
    hint = "fetch or compress it again"
    if isinstance(error, BytesAfterError):
        return InputError(
            f"`{storage.redacted(url)}` has bytes after its compressed data that are not {error.program}{error.shown}",
            hint=f"fetch it again; if nothing is missing, `{error.program} -dc` unpacks it without these bytes",
        )
    if isinstance(error, EOFError) or "Truncated" in str(error) or "unexpected end" in str(error):
        return InputError(
            f"`{storage.redacted(url)}` is cut short: its compressed data does not end", hint=hint
        )
    return InputError(f"`{storage.redacted(url)}` is damaged: {error}", hint=hint)


def read_exactly(stream: IO[bytes], buffer: memoryview) -> int:
    """Fill `buffer` from `stream` and return the number of bytes read; it is smaller only at the end of the stream."""
    filled = 0
    while filled < len(buffer):
        n = stream.readinto(buffer[filled:])  # type: ignore[attr-defined]
        if not n:
            break
        filled += n
    return filled


def move_to(stream: IO[bytes], position: int) -> None:
    """Move a stream from its beginning to `position`; if it cannot seek, read the bytes before."""
    if position == 0:
        return
    try:
        stream.seek(position)
    except (OSError, ValueError):
        while position > 0 and (passed := len(stream.read(min(position, 1 << 20)))):
            position -= passed
