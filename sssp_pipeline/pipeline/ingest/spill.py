"""Spill: keeps arrays that are read again later, the first ones in memory and the rest on local disk.

The file on disk has no name, so that even a killed process leaves nothing behind, or the name that the caller gives it.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import IO, Protocol

import numpy as np

from sssp_pipeline.pipeline.ingest.damage import DamagedFileError
from sssp_pipeline.storage import files

#: Bytes of the first slab of memory, and of the largest. Each slab is twice as large as the one before. The operating
#: system gives large pages for large slabs, if it can. To get a small page takes longer than to fill its 4 KiB.
_LEAST_SLAB, _LARGEST_SLAB = 1 << 20, 64 << 20
#: Each array begins at a multiple of this number of bytes.
_ALIGNED = 64


class Spill:
    """Arrays that take at most some bytes of memory; all further ones are on disk, in a nameless file or a new `path`.

    Several threads may call all methods of this class and of `SpilledArray`.
    """

    def __init__(self, memory_bytes: int, path: str | None = None) -> None:
        self._room = memory_bytes
        self._place = path or tempfile.gettempdir()
        named = f"`{files.redacted(self._place)}`"
        self._name = named if path else f"the temporary file of this ingest in {named}"
        with files.writing(self._place):
            if path is None:
                self._file: IO[bytes] = tempfile.TemporaryFile(prefix="sssp-ingest-")  # noqa: SIM115 - by `__exit__`
            else:
                self._file = Path(path).open("xb+")  # noqa: SIM115 - closed by `__exit__`
        self._end = 0
        self._slab = np.empty(0, np.uint8)
        self._slab_bytes = _LEAST_SLAB
        self._lock = Lock()

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # a full disk was already reported by the write
            self._file.close()

    def keep(self, array: np.ndarray) -> SpilledArray:
        """Keep a copy of a one-dimensional array.

        Raises
        ------
        InputError
            The disk is full.
        """
        kept = self.reserve(array.dtype, len(array))
        kept.write(0, array)
        return kept

    def reserve(self, dtype: np.dtype, length: int) -> SpilledArray:
        """Return a place for an array that is written later; its content is undefined until then."""
        memory = self._in_memory(dtype.itemsize * length)
        if memory is not None:
            return SpilledArray(memory.view(dtype), dtype, length)
        with self._lock:
            begin = self._end
            self._end += dtype.itemsize * length
        return SpilledArray(None, dtype, length, self._file.fileno(), begin, self._place, self._name)

    def _in_memory(self, n_bytes: int) -> np.ndarray | None:
        """Return memory (n_bytes,) uint8, or None if there is no room."""
        taken = -(-n_bytes // _ALIGNED) * _ALIGNED
        with self._lock:
            if taken > self._room:
                return None
            if taken > len(self._slab):
                self._slab = np.empty(max(taken, min(self._slab_bytes, self._room)), np.uint8)
                self._slab_bytes = min(2 * self._slab_bytes, _LARGEST_SLAB)
            self._room -= taken
            memory, self._slab = self._slab[:n_bytes], self._slab[taken:]
            return memory


class Readable(Protocol):
    """A one-dimensional array that is kept somewhere."""

    @property
    def dtype(self) -> np.dtype: ...

    @property
    def place(self) -> str:
        """Words that name its file."""
        ...

    def __len__(self) -> int: ...

    def read(self, first: int = 0, last: int | None = None) -> np.ndarray:
        """Return the elements [first, last), which the caller does not change; up to the end without `last`.

        Raises
        ------
        DamagedFileError
            The file is missing or shorter.
        """
        ...


class SpilledArray:
    """A one-dimensional array of a `Spill`, in memory or on disk."""

    def __init__(
        self,
        array: np.ndarray | None,
        dtype: np.dtype,
        length: int,
        file: int = -1,
        begin: int = 0,
        folder: str = "",
        place: str = "",
    ) -> None:
        #: The array itself, which may be changed; None if it is on disk.
        self.memory = array
        self.dtype, self._length = dtype, length
        #: The descriptor of the file of an array on disk, and where in it the array begins.
        self.on_disk = file, begin
        self._folder = folder
        #: Words that name its file.
        self.place = place

    def __len__(self) -> int:
        return self._length

    def shorten(self, length: int) -> None:
        """Leave out all elements but the first `length`."""
        self._length = length
        if self.memory is not None:
            self.memory = self.memory[:length]

    def read(self, first: int = 0, last: int | None = None) -> np.ndarray:
        """Return the elements [first, last), which the caller does not change; up to the end without `last`.

        Raises
        ------
        DamagedFileError
            The file has lost its end, or the disk does not give it back.
        """
        last = self._length if last is None else last
        if self.memory is not None:
            return self.memory[first:last]
        found = np.empty(last - first, self.dtype)
        left = memoryview(found.view(np.uint8).data)
        file, begin = self.on_disk
        at = begin + first * self.dtype.itemsize
        while left:
            try:
                n = os.preadv(file, [left], at)
            except OSError as error:
                raise DamagedFileError(self.place) from error
            if not n:
                raise DamagedFileError(self.place)
            left, at = left[n:], at + n
        return found

    def write(self, first: int, values: np.ndarray) -> None:
        """Set the elements from `first` on to `values`, converted to the type of this array; raises as `Spill.keep`."""
        if self.memory is not None:
            self.memory[first : first + len(values)] = values
            return
        left = memoryview(np.ascontiguousarray(values, self.dtype).view(np.uint8).data)
        file, begin = self.on_disk
        at = begin + first * self.dtype.itemsize
        with files.writing(self._folder):
            while left:
                n = os.pwrite(file, left, at)
                left, at = left[n:], at + n


class Column:
    """An array that grows at its end: in memory up to some bytes, and in a nameless file beyond them.

    Only one thread may use it.
    """

    def __init__(self, dtype: np.dtype, memory_bytes: int) -> None:
        self._dtype, self._room = dtype, memory_bytes
        self._pieces: list[np.ndarray] = []
        self._file: IO[bytes] | None = None
        self._length = 0

    def append(self, values: np.ndarray) -> None:
        """Add `values`, which the caller does not change; raises as `Spill.keep`."""
        values = np.ascontiguousarray(values, self._dtype)
        self._length += len(values)
        self._room -= values.nbytes
        self._pieces.append(values)
        if self._room < 0:
            with files.writing(tempfile.gettempdir()):
                if self._file is None:
                    self._file = tempfile.TemporaryFile(prefix="sssp-ingest-")  # noqa: SIM115 - mapped by `array`
                for piece in self._pieces:
                    self._file.write(piece.data)
            self._pieces.clear()

    def __len__(self) -> int:
        return self._length

    def array(self) -> np.ndarray:
        """Return the whole array, which is mapped if it is in a file; nothing may be added after that."""
        if self._file is None:
            if len(self._pieces) == 1:
                return self._pieces[0]
            return np.concatenate([np.empty(0, self._dtype), *self._pieces])
        with files.writing(tempfile.gettempdir()), self._file as file:
            file.flush()
            return np.memmap(file, self._dtype, "r")
