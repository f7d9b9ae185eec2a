"""Chunk stream: an iterator of bytes that is read as a file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any


class ChunkStream(io.RawIOBase):
    """A stream of the bytes in `chunks`, which are not empty; `encoding` is what a text had before it became UTF-8.

    Closing it closes `chunks`, if that is a generator.
    """

    def __init__(self, chunks: Iterator[bytes], encoding: str | None = None) -> None:
        self._chunks, self.encoding = chunks, encoding
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready:
            self._ready = memoryview(next(self._chunks, b""))
        n = min(len(buffer), len(self._ready))
        buffer[:n], self._ready = self._ready[:n], self._ready[n:]
        return n

    def close(self) -> None:
        if hasattr(self._chunks, "close"):
            self._chunks.close()
        super().close()


def buffered(stream: Any) -> Any:
    """Return `stream`, with a buffer if it has none."""
    return stream if hasattr(stream, "peek") else io.BufferedReader(stream)
