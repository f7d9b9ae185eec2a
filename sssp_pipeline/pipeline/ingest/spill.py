"""A stream of arrays kept to be read again: the first in memory, the rest on local disk.

The file has no name from the start, so that even a killed process leaves nothing behind.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from sssp_pipeline.pipeline.storage import files

#: What is kept in memory: as much as the chunks being read and parsed take, so that memory stays bounded.
MEMORY_BYTES = 512 * 2**20


class Spill:
    """Appends groups of one-dimensional arrays, which it owns from then on, and yields them again, in order."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._room = memory_bytes
        self._kept: list[list[np.ndarray]] = []
        self._file = tempfile.TemporaryFile(prefix="sssp-ingest-")  # noqa: SIM115 - closed by __exit__
        self._written: list[list[tuple[np.dtype, int]]] = []

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.clear()
        with suppress(OSError):  # a full disk was told when it was written to
            self._file.close()

    def append(self, arrays: list[np.ndarray]) -> None:
        """Add one group.

        Raises
        ------
        InputError
            The temporary folder is full; TMPDIR names another one.
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
