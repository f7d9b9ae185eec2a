"""Id runs: the ids of each chunk of edges, sorted, and the numbers that all of them together have in the end.

A run is what one chunk of edges adds: its different ids in ascending order. Memory holds a sample of each run, and
`Spill` holds the rest. At the end all runs are merged range by range: the samples divide the ids into ranges, each
range is read from every run, and its different ids get the next numbers. So memory is bounded whatever the number of
ids, and no id is an object of Python, except in samples.

References
----------
Knuth, The Art of Computer Programming, volume 3, section 5.4: external sorting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.parquet.arrow_arrays import arrow_array
from sssp_pipeline.pipeline.ingest.spill import Column, Spill, SpilledArray

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = LazyModule("pyarrow.compute")

#: The sample of a run has one of this many ids.
SAMPLED_OF = 4096
#: The memory that an id takes while its range is merged: itself in its run and in the range, its place, hash tables.
_MERGED_BYTES = 256


def unique_strings(ids: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Return the different `ids` in ascending order of their bytes, and the place of each of `ids` among them."""
    encoded = ids.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    places = np.empty(len(order), np.uint32)
    places[order.to_numpy()] = np.arange(len(order), dtype=np.uint32)
    return encoded.dictionary.take(order), places[encoded.indices.to_numpy()]


@dataclass(frozen=True, eq=False)
class _Run:
    """The different ids of a chunk, ascending."""

    n_ids: int
    #: The ids; of strings, their bounds (n + 1,) and their bytes.
    columns: tuple[SpilledArray, ...]
    #: Its first id, and each `SAMPLED_OF`-th after that.
    sample: Sequence[Any]


class Runs(ABC):
    """The runs of all chunks. Several threads may call `add`."""

    def __init__(self, spill: Spill, memory_bytes: int) -> None:
        self._spill, self._memory_bytes = spill, memory_bytes
        self._runs: list[_Run] = []
        self._numbers: list[SpilledArray] = []
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._runs) or len(self._numbers)

    def _keep(self, n_ids: int, columns: Sequence[np.ndarray], sample: Sequence[Any]) -> int:
        """Keep a run, and return its number."""
        run = _Run(n_ids, tuple(map(self._spill.keep, columns)), sample)
        with self._lock:
            self._runs.append(run)
            return len(self._runs) - 1

    def _position(self, run: _Run, value: Any) -> int:
        """Return how many ids of a run are smaller than `value`."""
        block = bisect_left(run.sample, value)
        if block == 0:
            return 0
        begin = (block - 1) * SAMPLED_OF
        return begin + self._below(self._read(run, begin, min(begin + SAMPLED_OF, run.n_ids)), value)

    def numbers(self, run: int) -> np.ndarray:
        """Return the number of each id of a run, (n,) uint32 ascending; only after `merge`."""
        return self._numbers[run].read()

    def merge(self, first_number: int) -> int:
        """Number all different ids from `first_number` on, and return how many they are; `append` gets them."""
        threads = usable_cores()
        self._numbers = [self._spill.reserve(np.dtype(np.uint32), run.n_ids) for run in self._runs]
        samples = sorted(value for run in self._runs for value in run.sample)
        step = max(1, self._memory_bytes // (_MERGED_BYTES * SAMPLED_OF * (threads + 3)))
        limits = sorted(set(samples[step::step]))

        def bounds_in(run: _Run) -> list[int]:
            return [0, *(self._position(run, limit) for limit in limits), run.n_ids]

        def merged(i: int) -> tuple[Any, np.ndarray]:
            return self._merged(
                [self._read(run, b[i], b[i + 1]) for run, b in zip(self._runs, bounds, strict=True)]
            )

        with ThreadPoolExecutor(threads) as pool:
            bounds = list(pool.map(bounds_in, self._runs))
        n_ranges = len(limits) + 1 if self._runs else 0
        n = 0
        for i, (unique, places) in enumerate(map_in_order(merged, iter(range(n_ranges)), threads)):
            self.append(unique)
            numbers = (first_number + n + places.astype(np.int64)).astype(np.uint32)
            sizes = [0, *np.cumsum([b[i + 1] - b[i] for b in bounds]).tolist()]
            for kept, b, (begin, end) in zip(self._numbers, bounds, pairwise(sizes), strict=True):
                kept.write(b[i], numbers[begin:end])
            n += len(unique)
        self._runs = []
        return n

    @abstractmethod
    def _read(self, run: _Run, first: int, last: int) -> Any:
        """Return the ids [first, last) of a run."""

    @staticmethod
    @abstractmethod
    def _below(block: Any, value: Any) -> int:
        """Return how many ids of `block` are smaller than `value`."""

    @abstractmethod
    def _merged(self, pieces: list[Any]) -> tuple[Any, np.ndarray]:
        """Return the different ids of `pieces` in ascending order, and the place of each of their ids among them."""

    @abstractmethod
    def append(self, unique: Any) -> None:
        """Add the next ids to the table of all ids, which ascend."""


class IntegerRuns(Runs):
    """Runs of int64."""

    def __init__(self, spill: Spill, memory_bytes: int) -> None:
        super().__init__(spill, memory_bytes)
        self._column = Column(np.dtype(np.int64), memory_bytes // 8)

    def add(self, unique: np.ndarray) -> int:
        """Keep the ids of a chunk, ascending and different; return the number of their run."""
        return self._keep(len(unique), [unique], unique[::SAMPLED_OF].tolist())

    def holds(self, n: int) -> bool:
        """Return whether `n` ids at once fit the memory of the table."""
        return 8 * n <= self._memory_bytes // 8

    def table(self) -> pa.Array:
        """Return the ids that were appended and merged, int64."""
        return arrow_array(self._column.array())

    def _read(self, run: _Run, first: int, last: int) -> np.ndarray:
        return run.columns[0].read(first, last)

    @staticmethod
    def _below(block: np.ndarray, value: int) -> int:
        return int(np.searchsorted(block, value))

    def _merged(self, pieces: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        unique, places = np.unique(np.concatenate(pieces), return_inverse=True)
        return unique, places

    def append(self, unique: np.ndarray) -> None:
        self._column.append(unique)


class StringRuns(Runs):
    """Runs of strings."""

    def __init__(self, spill: Spill, memory_bytes: int) -> None:
        super().__init__(spill, memory_bytes)
        self._ends = Column(np.dtype(np.int64), memory_bytes // 16)
        self._content = Column(np.dtype(np.uint8), memory_bytes // 16)

    def add(self, unique: pa.Array) -> int:
        """Keep the ids of a chunk, ascending and different; return the number of their run."""
        sample = unique.take(pa.array(np.arange(0, len(unique), SAMPLED_OF))).to_pylist()
        return self._keep(len(unique), buffers_of(unique), sample)

    def table(self) -> pa.Array:
        """Return the ids that were merged, large_string."""
        n = len(self._ends)
        begins = Column(np.dtype(np.int64), self._memory_bytes // 16)
        begins.append(np.zeros(1, np.int64))
        ends = self._ends.array()
        for i in range(0, n, 1 << 20):
            begins.append(ends[i : i + (1 << 20)])
        return strings_of(begins.array(), self._content.array())

    def _read(self, run: _Run, first: int, last: int) -> pa.Array:
        bounds, content = run.columns
        of_range = bounds.read(first, last + 1)
        return strings_of(of_range - of_range[0], content.read(int(of_range[0]), int(of_range[-1])))

    @staticmethod
    def _below(block: pa.Array, value: str) -> int:
        return bisect_left(range(len(block)), value, key=lambda i: block[i].as_py())

    def _merged(self, pieces: list[pa.Array]) -> tuple[pa.Array, np.ndarray]:
        return unique_strings(pa.concat_arrays(pieces))

    def append(self, unique: pa.Array) -> None:
        ends, content = buffers_of(unique)
        self._ends.append(ends[1:] + len(self._content))
        self._content.append(content)


def buffers_of(strings: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of `strings`, (n + 1,) int64 from 0, and their bytes, (B,) uint8."""
    _, bounds, content = strings.buffers()
    if not len(strings):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    first = np.frombuffer(bounds, np.int64)[strings.offset : strings.offset + len(strings) + 1]
    all_bytes = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    return first - first[0], all_bytes[first[0] : first[-1]]


def strings_of(bounds: np.ndarray, content: np.ndarray) -> pa.Array:
    """Return the large_string array with the bounds (n + 1,) int64 from 0 and the bytes (B,) uint8."""
    return pa.LargeStringArray.from_buffers(len(bounds) - 1, pa.py_buffer(bounds), pa.py_buffer(content))
