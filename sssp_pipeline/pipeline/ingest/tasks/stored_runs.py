"""Stored runs: edge runs, ids and rows in storage, through which the tasks of an ingest on workers pass their work on.

All of them are in one folder for each ingest, which is removed at its end. A file has a new name for each attempt of a
task, and its place in a `Stored` array is part of what the task returns. So a task may be done twice.

What is read is checked. The edges of a run have checksums of their groups, which are read as a whole. Other arrays have
checksums of blocks.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.host.xxh64 import are_parts_whole, sums_of_parts
from sssp_pipeline.pipeline.ingest.damage import DamagedFileError
from sssp_pipeline.pipeline.ingest.ids.id_mapping import EVERYWHERE, Numbering
from sssp_pipeline.pipeline.ingest.ids.id_runs import buffers_of, strings_of
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun, group_sums, with_vertices_elsewhere
from sssp_pipeline.pipeline.ingest.rows.grouping import bits_of, grouped_by_source
from sssp_pipeline.pipeline.ingest.spill import Readable, SpilledArray
from sssp_pipeline.storage import files

#: A run is grouped by the highest bits of its sources. The more groups, the less is read twice, and by two tasks.
_GROUP_BITS = 13
#: Requests to the storage that a task makes at a time.
_REQUESTS = 8
#: The ids that are read at a time.
_ID_BLOCK = 1 << 20
#: The bytes that have a checksum. A part of an array is read with the rest of its first and last block.
_BLOCK_BYTES = 1 << 18


@dataclass(frozen=True)
class Stored:
    """A one-dimensional array in a file in storage; it is read as `spill.SpilledArray`."""

    url: str
    #: The first byte of its first block in the file.
    begin: int
    length: int
    dtype: np.dtype
    #: The checksums of its blocks, uint32; None if they are in its `EdgeRun`.
    sums: bytes | None
    #: Elements that precede this array in its first block, and that follow it in its last.
    before: int = 0
    after: int = 0

    def __len__(self) -> int:
        return self.length

    @property
    def place(self) -> str:
        """Words that name its file."""
        return f"`{files.redacted(self.url)}`"

    def read(self, first: int = 0, last: int | None = None) -> np.ndarray:
        """Return the elements [first, last), up to the end without `last`, which the caller does not change.

        Raises
        ------
        DamagedFileError
            The file is missing, or not what was written.
        """
        part = self.part(first, self.length if last is None else last)
        if not part.length:
            return np.empty(0, self.dtype)
        n_held = part.before + part.length + part.after
        try:
            end = part.begin + n_held * self.dtype.itemsize
            content = np.frombuffer(files.read_range(self.url, part.begin, end), np.uint8)
        except InputError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                raise DamagedFileError(self.place) from error
            raise
        if len(content) < n_held * self.dtype.itemsize:
            raise DamagedFileError(self.place)
        if part.sums is not None:
            sums = np.frombuffer(part.sums, np.uint32)
            if not are_parts_whole(content, _blocks(len(content)), 1, sums):
                raise DamagedFileError(self.place)
        return content.view(self.dtype)[part.before : part.before + part.length]

    def part(self, first: int, last: int) -> Stored:
        """Return the elements [first, last) as an array of its own."""
        size = self.dtype.itemsize
        first, last = first + self.before, last + self.before
        if self.sums is None:
            return replace(self, begin=self.begin + first * size, length=last - first)
        blocks = slice(first * size // _BLOCK_BYTES, -(-last * size // _BLOCK_BYTES))
        n_held = self.before + self.length + self.after
        begin, end = blocks.start * (_BLOCK_BYTES // size), blocks.stop * (_BLOCK_BYTES // size)
        sums = self.sums[_SUM_BYTES * blocks.start : _SUM_BYTES * blocks.stop]
        before, after = first - begin, min(end, n_held) - last
        return Stored(self.url, self.begin + begin * size, last - first, self.dtype, sums, before, after)

    def check(self) -> None:
        """Read all blocks; raises as `read`."""
        step = _CHECKED_BLOCKS * _BLOCK_BYTES // self.dtype.itemsize
        for first in range(0, self.length, step):
            self.read(first, min(first + step, self.length))


_SUM_BYTES = np.dtype(np.uint32).itemsize
#: The blocks that are read at a time only to check them.
_CHECKED_BLOCKS = 64


def _blocks(n_bytes: int) -> np.ndarray:
    """Return the bounds of the blocks of an array."""
    return np.minimum(np.arange(0, n_bytes + _BLOCK_BYTES, _BLOCK_BYTES), n_bytes)


def store_arrays(folder: str, name: str, *arrays: np.ndarray, in_blocks: bool = True) -> list[Stored]:
    """Write one-dimensional arrays to a new file of `folder`, one after the other; raises as `files.open_atomic`.

    Their blocks get checksums, unless `in_blocks` is False.
    """
    url = files.join(folder, f"{name}-{uuid.uuid4().hex[:12]}")
    places, at = [], 0
    with files.open_atomic(url, plain=True) as handle:
        for array in arrays:
            content = np.ascontiguousarray(array).view(np.uint8)
            handle.write(content.data)
            sums = sums_of_parts(content, _blocks(len(content)), 1).tobytes() if in_blocks else None
            places.append(Stored(url, at, len(array), array.dtype, sums))
            at += array.nbytes
    return places


@dataclass(frozen=True)
class StoredIds:
    """Different ids in ascending order: integers, or strings as their bounds (n + 1,) and their bytes."""

    ids: Stored
    content: Stored | None

    def blocks(self) -> Iterator[np.ndarray | pa.Array]:
        """Give the ids, some at a time."""
        n = len(self.ids) - (self.content is not None)
        for first in range(0, n, _ID_BLOCK):
            last = min(first + _ID_BLOCK, n)
            if self.content is None:
                yield self.ids.read(first, last)
            else:
                bounds = self.ids.read(first, last + 1)
                content = self.content.read(int(bounds[0]), int(bounds[-1]))
                yield strings_of(bounds - bounds[0], content)


def store_ids(folder: str, name: str, ids: pa.Array) -> StoredIds:
    """Write ids, int64 or large_string, to a new file of `folder`; raises as `files.open_atomic`."""
    if pa.types.is_integer(ids.type):
        return StoredIds(store_arrays(folder, name, ids.to_numpy())[0], None)
    return StoredIds(*store_arrays(folder, name, *buffers_of(ids)))


def store_runs(folder: str, name: str, runs: Sequence[EdgeRun], most_edges: int) -> list[EdgeRun]:
    """Write the edges of `runs`, whose codes are valid in all of them, to new files of `folder`, and return their runs.

    The new runs are few: each has about `most_edges` edges, or all edges of one run. Raises as `files.open_atomic`.
    """
    return [_store_run(folder, name, several) for several in _joined(runs, most_edges)]


def _joined(runs: Sequence[EdgeRun], most_edges: int) -> Iterator[list[EdgeRun]]:
    """Divide `runs` into lists whose weights one type represents exactly."""
    several: list[EdgeRun] = []
    n_edges = 0
    # In the input, integers and decimals may take turns.
    for run in sorted(runs, key=_kind_of_weights):
        n = run.n_edges
        if several and (n_edges + n > most_edges or _kind_of_weights(run) != _kind_of_weights(several[0])):
            yield several
            several, n_edges = [], 0
        if n:
            several.append(run)
            n_edges += n
    if several:
        yield several


def _kind_of_weights(run: EdgeRun) -> str:
    """Return a word for the types of weights that have a common type without rounding."""
    if run.weight_dtype is None:
        return "none"
    return "uint64" if run.weight_dtype == np.uint64 else run.weight_dtype.kind.replace("u", "i")


def _store_run(folder: str, name: str, runs: list[EdgeRun]) -> EdgeRun:
    src, dst = (np.concatenate([run.read(column) for run in runs]) for column in (0, 1))
    has_weights = runs[0].weight_dtype is not None
    values = np.concatenate([run.read(2) for run in runs]) if has_weights else np.empty(0, np.uint8)
    src, dst, bits, starts, low, shift, _ = grouped_by_source(
        src, dst, bits_of(values), False, False, group_bits=_GROUP_BITS
    )
    limits = int(low) + (np.arange(len(starts) - 1) << int(shift))
    columns = [src, dst, bits.view(values.dtype)][: 2 + has_weights]
    stored = store_arrays(folder, name, *columns, in_blocks=False)
    return EdgeRun(tuple(stored), limits, starts, EVERYWHERE, group_sums(columns, starts))


def part_of(run: EdgeRun, first: int, last: int) -> EdgeRun:
    """Return the groups of a stored run that may have sources in [first, last), as a run of its own."""
    begin = max(0, int(np.searchsorted(run.limits, first, "right")) - 1)
    end = max(begin, int(np.searchsorted(run.limits, last, "left")))
    starts = run.starts[begin : end + 1]
    edges = int(starts[0]), int(starts[-1])
    return replace(
        run,
        columns=tuple(_stored(column).part(*edges) for column in run.columns),
        limits=run.limits[begin:end],
        starts=starts - starts[0],
        sums=tuple(None if sums is None else sums[begin:end] for sums in run.sums),
    )


def check_files(result: Any) -> None:
    """Read all that the `result` of a task has in files; raises as `EdgeRun.read` and `Stored.read`."""
    if isinstance(result, EdgeRun):
        for column in range(len(result.columns)):
            result.read(column)
    elif isinstance(result, Stored):
        result.check()
    elif isinstance(result, list):
        for each in result:
            check_files(each)
    elif is_dataclass(result):
        for each in fields(result):
            check_files(getattr(result, each.name))


def _stored(column: Readable) -> Stored:
    assert isinstance(column, Stored), "the run is in storage"
    return column


#: The `chunk` of a stored run whose codes are vertices. The codes of other stored runs are valid `EVERYWHERE`.
NUMBERED = -2


def fetched(runs: Sequence[EdgeRun], numbering: Numbering) -> list[EdgeRun]:
    """Return stored runs with their edges in memory, and with vertices in place of codes; raises as `EdgeRun.read`."""

    def kept(array: np.ndarray) -> SpilledArray:
        return SpilledArray(array, array.dtype, len(array))

    def fetch(run: EdgeRun) -> EdgeRun:
        columns = [run.read(column) for column in range(len(run.columns))]
        if run.chunk != NUMBERED:
            columns[:2] = (numbering.vertices(codes, EVERYWHERE) for codes in columns[:2])
        return replace(run, columns=tuple(map(kept, columns)), sums=(None,) * len(columns))

    with ThreadPoolExecutor(_REQUESTS) as pool:
        return list(pool.map(fetch, runs))


def numbered(folder: str, name: str, run: EdgeRun, numbers: np.ndarray) -> EdgeRun:
    """Write a stored run anew with `numbers[code]`, (n,) uint32 ascending, for each code.

    Raises as `store_arrays` and `EdgeRun.read`.
    """
    return with_vertices_elsewhere(
        run,
        numbers.__getitem__,
        lambda ends: store_arrays(folder, name, *ends, in_blocks=False),
        chunk=NUMBERED,
    )


@dataclass(frozen=True)
class StoredBits:
    """A bitmap, (W,) uint64, compressed: often few bits are set."""

    content: Stored
    n_words: int

    def read(self) -> np.ndarray:
        """Return the bitmap; raises as `Stored.read`."""
        if not self.n_words:
            return np.empty(0, np.uint64)
        content = pa.decompress(pa.py_buffer(self.content.read()), 8 * self.n_words, _CODEC)
        return np.frombuffer(content, np.uint64)


_CODEC = "lz4"


def store_bits(folder: str, bits: np.ndarray) -> StoredBits:
    """Write a bitmap (W,) uint64 to a new file of `folder`; raises as `files.open_atomic`."""
    content = np.frombuffer(pa.compress(pa.py_buffer(np.ascontiguousarray(bits)), _CODEC), np.uint8)
    return StoredBits(store_arrays(folder, "bits", content)[0], len(bits))
