"""Compressed blocks: files whose parts are compressed on their own are decompressed on every core.

`bgzip` writes gzip members of at most 64 KiB, whose headers say where the next one begins. `pzstd` and the seekable
format of Zstandard write frames, whose blocks say that. A stream that turns out to be of another kind is decompressed
by one thread from there on: a gzip file with other members, or a frame that is large. So memory is bounded, whatever
the file expands to.

References
----------
SAM/BAM specification, section 4.1 (BGZF); RFC 1952 (gzip); RFC 8878 (Zstandard), section 3.1.1.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import IO, Any

import pyarrow as pa
from isal import igzip, isal_zlib

from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.streams.chunk_stream import ChunkStream, buffered
from sssp_pipeline.pipeline.formats.streams.concatenated import (
    READ_BYTES,
    SCAN_BYTES,
    SHOWN_BYTES,
    ZSTD_MAGIC,
    BytesAfterError,
)

#: The compressed bytes that one thread takes at a time.
_BATCH_BYTES = 1 << 20
#: The most bytes of a `bgzip` block, and of a block of Zstandard, when it is decompressed.
_BGZIP_BYTES, _ZSTD_BYTES = 1 << 16, 1 << 17
#: A larger frame is decompressed by one thread.
_MOST_ZSTD_BLOCKS = 256
_BGZIP_HEADER = 18
_ISAL_ERROR: Any = isal_zlib.error
_GZIP_MAGIC = b"\x1f\x8b"
#: The last bytes of the magic number of a frame for other programs.
_SKIPPED_MAGIC = b"\x2a\x4d\x18"
#: What Zstandard says of bytes that begin no frame.
_NO_FRAME = "Unknown frame descriptor"


def open_gzip(stream: IO[bytes]) -> Any:
    """Return a stream of the decompressed bytes of a gzip file, which may consist of several members."""
    if _is_bgzip(stream.peek(_BGZIP_HEADER)[:_BGZIP_HEADER]):  # type: ignore[attr-defined]
        return buffered(ChunkStream(_from_bgzip(stream)))
    return buffered(ChunkStream(_from_gzip(stream)))


def open_zstd(stream: IO[bytes]) -> Any:
    """Return a stream of the decompressed bytes of a Zstandard file, which may consist of several frames."""
    return buffered(ChunkStream(_from_zstd(stream)))


def _is_bgzip(header: bytes) -> bool:
    """Return whether a gzip member has the extra field of `bgzip`, and no other."""
    return (
        len(header) == _BGZIP_HEADER and header[2:4] == b"\x08\x04" and header[10:16] == b"\x06\x00BC\x02\x00"
    )


def _with(first: bytes, stream: IO[bytes]) -> Any:
    """Return a stream of `first` and then the bytes of `stream`."""
    return buffered(ChunkStream(chain([first] if first else [], iter(lambda: stream.read(READ_BYTES), b""))))


def _from_gzip(stream: IO[bytes]) -> Iterator[bytes]:
    start = stream.tell() if stream.seekable() else None
    first = stream.peek(2)[:2]  # type: ignore[attr-defined]
    if first.strip(b"\0") and not _is_gzip(first):  # a block of bgzip precedes it
        raise BytesAfterError("gzip", stream.read(SHOWN_BYTES))
    content = igzip.IGzipFile(fileobj=stream, mode="rb")  # type: ignore[no-untyped-call]
    try:
        yield from iter(lambda: content.read(READ_BYTES), b"")
    except (EOFError, gzip.BadGzipFile):
        if start is not None:
            stream.seek(start)
            if others := _bytes_after_gzip(stream):
                raise BytesAfterError("gzip", others) from None
        raise


def _is_gzip(beginning: bytes) -> bool:
    """Return whether a gzip member may begin with these bytes."""
    return _GZIP_MAGIC.startswith(beginning[:2])


def _bytes_after_gzip(stream: IO[bytes]) -> bytes:
    """Return the first bytes after the last member of a gzip file that are no member, and no zeros.

    Returns nothing if a member is cut short or damaged.
    """
    rest = b""
    while True:
        while not (rest := rest.lstrip(b"\0")):
            if not (rest := stream.read(SCAN_BYTES)):
                return b""
        rest += stream.read(SHOWN_BYTES)
        if not _is_gzip(rest):
            return rest
        member = isal_zlib.decompressobj(31)
        while not member.eof:
            try:
                member.decompress(rest, READ_BYTES)
            except _ISAL_ERROR:
                return b""
            rest = member.unused_data if member.eof else member.unconsumed_tail or stream.read(SCAN_BYTES)
            if not rest and not member.eof:
                return b""


def _by_blocks(
    stream: IO[bytes],
    read_block: Callable[[IO[bytes]], tuple[bytes, bool]],
    is_full: Callable[[list[bytes]], bool],
    content_of: Callable[[list[bytes]], bytes],
    others: Callable[[IO[bytes]], Iterator[bytes]],
) -> Iterator[bytes]:
    """Give the content of a stream of blocks, which `content_of` decompresses in batches that `is_full` ends.

    `read_block` returns a block and True, or the bytes of anything else and False; `others` decompresses from there on.
    """
    rest = b""

    def batches() -> Iterator[list[bytes]]:
        nonlocal rest
        batch: list[bytes] = []
        while True:
            block, is_whole = read_block(stream)
            if not is_whole:
                rest = block
                break
            batch.append(block)
            if is_full(batch):
                yield batch
                batch = []
        yield batch

    for content in map_in_order(content_of, batches(), usable_cores()):
        if content:
            yield content
    if rest:
        yield from others(_with(rest, stream))


def _from_bgzip(stream: IO[bytes]) -> Iterator[bytes]:
    most = 4 * _BATCH_BYTES // _BGZIP_BYTES
    return _by_blocks(stream, _read_bgzip, lambda batch: len(batch) > most, _bgzip_content, _from_gzip)


def _read_bgzip(stream: IO[bytes]) -> tuple[bytes, bool]:
    """Return the next block of bgzip and True, or the bytes of another member and False; b"" at the end."""
    header = stream.read(_BGZIP_HEADER)
    if not _is_bgzip(header):
        return header, False
    n_bytes = int.from_bytes(header[16:18], "little") + 1
    block = header + stream.read(max(0, n_bytes - _BGZIP_HEADER))
    if len(block) != n_bytes:
        raise EOFError("a block of bgzip does not end")
    return block, True


def _bgzip_content(blocks: list[bytes]) -> bytes:
    return b"".join(map(_block_content, blocks))


def _block_content(block: bytes) -> bytes:
    decompressor = isal_zlib.decompressobj(31)
    content: bytes = decompressor.decompress(block, _BGZIP_BYTES + 1)
    if len(content) > _BGZIP_BYTES or not decompressor.eof or decompressor.unused_data:
        raise zlib.error("a block of bgzip does not end where its header says")
    return content


def _from_zstd(stream: IO[bytes]) -> Iterator[bytes]:
    def is_full(frames: list[bytes]) -> bool:
        return sum(map(len, frames)) > _BATCH_BYTES or len(frames[-1]) > _BATCH_BYTES // 8

    return _by_blocks(stream, _read_frame, is_full, _zstd_content, _from_large_zstd)


def _from_large_zstd(stream: IO[bytes]) -> Iterator[bytes]:
    first = stream.peek(4)[:4]  # type: ignore[attr-defined]
    if not (
        ZSTD_MAGIC.startswith(first) or (first[0] & 0xF0 == 0x50 and _SKIPPED_MAGIC.startswith(first[1:]))
    ):
        raise BytesAfterError("zstd", stream.read(SHOWN_BYTES))
    content = pa.CompressedInputStream(stream, "zstd")
    try:
        yield from iter(lambda: content.read(READ_BYTES), b"")
    except OSError as error:
        if _NO_FRAME in str(error):
            raise BytesAfterError("zstd") from error
        raise


def _zstd_content(frames: list[bytes]) -> bytes:
    if not frames:
        return b""
    content: bytes = pa.CompressedInputStream(pa.BufferReader(b"".join(frames)), "zstd").read()
    return content


def _read_frame(stream: IO[bytes]) -> tuple[bytes, bool]:
    """Return the next frame and True, or the bytes of one that is large, odd or cut short and False; b"" at the end."""
    read = bytearray(stream.read(5))
    while len(read) == 5 and read[0] & 0xF0 == 0x50 and read[1:4] == _SKIPPED_MAGIC:
        left = int.from_bytes(read[4:] + stream.read(3), "little")
        while left and (passed := len(stream.read(min(left, READ_BYTES)))):
            left -= passed
        if left:
            raise EOFError("a frame that is passed over does not end")
        read = bytearray(stream.read(5))
    if len(read) < 5 or read[:4] != ZSTD_MAGIC:
        return bytes(read), False
    descriptor = read[4]
    in_one_segment = descriptor >> 5 & 1
    n_size = (in_one_segment, 2, 4, 8)[descriptor >> 6]
    n_header = (1 - in_one_segment) + (0, 1, 2, 4)[descriptor & 3] + n_size
    read += stream.read(n_header)
    for _ in range(_MOST_ZSTD_BLOCKS):
        block = stream.read(3)
        read += block
        number = int.from_bytes(block, "little")
        kind, size = number >> 1 & 3, number >> 3
        if len(block) < 3 or kind == 3 or size > _ZSTD_BYTES:
            break
        n_bytes = 1 if kind == 1 else size  # a block of one byte that is repeated
        content = stream.read(n_bytes)
        read += content
        if len(content) < n_bytes:
            break
        if number & 1:
            checksum = stream.read(4 * (descriptor >> 2 & 1))
            read += checksum
            return bytes(read), len(checksum) == 4 * (descriptor >> 2 & 1)
    return bytes(read), False
