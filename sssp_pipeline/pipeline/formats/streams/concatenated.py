"""Concatenated streams: the content of a bzip2 or xz file, which may consist of several compressed streams."""

from __future__ import annotations

import bz2
import lzma
from collections.abc import Callable, Iterator
from typing import IO, Any

from sssp_pipeline.pipeline.formats.streams.chunk_stream import ChunkStream, buffered

#: The most bytes that are decompressed at a time, and the compressed bytes that are read at a time.
READ_BYTES, SCAN_BYTES = 1 << 18, 1 << 14
#: How many bytes after the data an error shows.
SHOWN_BYTES = 20
#: The first bytes of the compressed streams, and of the frames of Zstandard.
BZIP2_MAGIC, XZ_MAGIC, ZSTD_MAGIC = b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


class BytesAfterError(Exception):
    """Bytes of another kind follow the compressed data.

    Parameters
    ----------
    program
        What unpacks the data and leaves these bytes out: `gzip`, `bzip2`, `xz` or `zstd`.
    after
        The first of these bytes; none if they are not known.
    """

    def __init__(self, program: str, after: bytes = b"") -> None:
        super().__init__(program, after)
        self.program = program
        #: The bytes as text, in backquotes after a comma.
        self.shown = (
            f", `{after[:SHOWN_BYTES].decode('latin-1').encode('unicode_escape').decode()}`" if after else ""
        )


def open_bzip2(stream: IO[bytes]) -> Any:
    """Return a stream of the decompressed bytes of a bzip2 file."""
    return buffered(ChunkStream(_content(stream, "bzip2", BZIP2_MAGIC, bz2.BZ2Decompressor)))


def open_xz(stream: IO[bytes]) -> Any:
    """Return a stream of the decompressed bytes of an xz file."""
    return buffered(ChunkStream(_content(stream, "xz", XZ_MAGIC, lzma.LZMADecompressor)))


def _content(stream: IO[bytes], program: str, magic: bytes, new: Callable[[], Any]) -> Iterator[bytes]:
    """Give the content of streams that begin with `magic`. Zeros may be between them and after the last one."""
    rest = stream.read(SCAN_BYTES)
    while rest:
        rest += stream.read(SHOWN_BYTES)
        if not magic.startswith(rest[: len(magic)]):
            raise BytesAfterError(program, rest)
        decompressor = new()
        while not decompressor.eof:
            if decompressor.needs_input and not rest and not (rest := stream.read(SCAN_BYTES)):
                raise EOFError("a compressed stream does not end")
            if content := decompressor.decompress(rest, READ_BYTES):
                yield content
            rest = b""
        rest = decompressor.unused_data.lstrip(b"\0")
        while not rest and (more := stream.read(SCAN_BYTES)):
            rest = more.lstrip(b"\0")
