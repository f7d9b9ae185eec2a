"""A file that is written in whole buffers, which are not copied."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any


class BufferFile(io.RawIOBase):
    """A file open for writing. A subclass says where the buffers go."""

    #: Whether the file refers to written buffers until it is closed.
    keeps_buffers = False
    #: How many bytes were written.
    n_bytes = 0

    @abstractmethod
    def take(self, buffers: list[memoryview]) -> None:
        """Write `buffers`, none of which is empty."""

    def write(self, buffer: Any, /) -> int:
        self.writelines([buffer])
        return memoryview(buffer).nbytes

    def writelines(self, buffers: Iterable[Any], /) -> None:
        views = [memoryview(buffer).cast("B") for buffer in buffers if memoryview(buffer).nbytes]
        self.n_bytes += sum(map(len, views))
        self.take(views)

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.n_bytes
