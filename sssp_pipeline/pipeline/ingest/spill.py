"""Spill: keeps a stream of arrays that is read again later, the first ones in memory and the rest on local disk.

The file never has a name, so that even a killed process leaves nothing behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from sssp_pipeline.pipeline.storage import files

#: The bytes that are kept in memory: about as many as the chunks take that are read and parsed at a time.
MEMORY_BYTES = 512 * 2**20


class Spill:
    """A list of groups of one-dimensional arrays, which can be iterated again; it owns the arrays."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._room = memory_bytes
        self._kept: list[list[np.ndarray]] = []
        self._file = tempfile.TemporaryFile(prefix="sssp-ingest-")  # noqa: SIM115 - closed by __exit__
        self._written: list[list[tuple[np.dtype, int]]] = []

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.clear()
        with suppress(OSError):  # a full disk was already reported by the write
            self._file.close()

    def append(self, arrays: list[np.ndarray]) -> None:
        """Add one group.

        Raises
        ------
        InputError
            The temporary folder is full.
        """
        size = sum(array.nbytes for array in arrays)
        if size <= self._room and not self._written:
            self._room -= size
            self._kept.append(arrays)
            return
        with files.writing(tempfile.gettempdir()):
            for array in arrays:
                self._file.write(np.ascontiguousarray(array).data)
        self._written.append([(array.dtype, len(array)) for array in arrays])

    def __iter__(self) -> Iterator[list[np.ndarray]]:
        yield from self._kept
        self._file.seek(0)
        for group in self._written:
            yield [np.fromfile(self._file, dtype, length) for dtype, length in group]
