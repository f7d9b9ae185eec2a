"""The outputs of a run backward: a batch searches from some targets, and stores their distances from all sources.

A batch writes a part to `_run/`, with a row for each source. When all batches are there, threads of the process that
was started read some rows of all parts, and write the files that a run forward writes, byte by byte.
`docs/design/0030-fastest-by-default.md` has the idea.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.base.vertex_ids import digest_of
from sssp_pipeline.kernels.answers.nearest import merge_nearest, no_nearest, words_of
from sssp_pipeline.kernels.contract import kept
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.kernels.host.kernel_threads import KernelThreads, usable_cores
from sssp_pipeline.pipeline.results.folder.run_files import AGAIN, SOURCES_FILE, batch_file, turned_part
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput
from sssp_pipeline.pipeline.results.outputs.table_output import NearestVertices
from sssp_pipeline.storage import file_sums, files

if TYPE_CHECKING:
    from sssp_pipeline.base.csr import GraphTraits
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder

T = TypeVar("T")
R = TypeVar("R")

#: The most bytes of distances that are turned at a time, and of the parts that a thread reads at a time.
TURNED_BYTES, READ_BYTES = 2**24, 2**26
#: The most threads that write files, and the memory of each, as a multiple of `READ_BYTES`.
MOST_THREADS, THREAD_READS = 16, 6


@dataclass(frozen=True, eq=False)
class TurnedOutput(RowOutput):
    """What a run backward stores of each searched target. `words` has the sources (S,) in the order of the run.

    A source may stand twice.
    """

    counts_sources = False

    n_sources: int = 0
    #: How many edges are reversed for the searches.
    n_reversed: int = 0
    #: What the run stores in the end, and the sources of each of its files. Only the process that finishes the run has
    #: them.
    of_run: tuple[RowOutput, list[np.ndarray]] | None = None

    @classmethod
    def of(cls, output: RowOutput, batches: list[np.ndarray], n_reversed: int) -> Self:
        """Return what a run backward stores for `output` and its `batches` of sources."""
        sources = np.concatenate(batches)
        return cls(output.form, digest_of(sources), sources, len(sources), n_reversed, (output, batches))

    @property
    def follows_reversed(self) -> bool:
        return True

    @property
    def searched(self) -> str:
        return "target"

    def without_input(self) -> Self:
        return replace(self, words=None, of_run=None)

    @property
    def kept(self) -> kept.KeptOfRow:
        assert self.words is not None, "the sources are read first: `for_solving`"
        return kept.Targets(self.words)

    def n_columns(self, n_vertices: int) -> int:
        return self.n_sources

    def held_bytes(self, traits: GraphTraits) -> int:
        # A reversed edge has its end and a weight of up to 64 bits, and its start while it is made.
        reversed_bytes = 16 * (self.n_reversed + traits.n_vertices) if self.n_reversed else 0
        return 4 * self.n_sources + reversed_bytes

    def covered(self, n_vertices: int) -> str:
        return plural(self.n_sources, "source")

    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        raise NotImplementedError("`verify` reads the files of the run, which are those of a run forward")

    # ---- batches ----

    def batch_file(self, batch: int) -> str | None:
        return turned_part(batch)

    def row_of_part(self, n_searched: int, dtype: np.dtype) -> np.dtype:
        """Return the type of a row of a part with `n_searched` targets; `dtype` is the type of the weights."""
        return np.dtype([("distances", dtype.newbyteorder("<"), (n_searched,))])

    def parts_bytes(self, batches: Sequence[np.ndarray], dtype: np.dtype) -> int:
        """Return the bytes of the parts of all `batches` of targets."""
        return self.n_sources * sum(self.row_of_part(len(batch), dtype).itemsize for batch in batches)

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        columns = solution.distances
        for some in _slices(self.n_sources, TURNED_BYTES // max(columns[:, 0].nbytes, 1)):
            self._write_some(handle, sources, columns[:, some])

    def _write_some(self, handle: Any, searched: np.ndarray, columns: np.ndarray) -> None:
        """Write the rows of some sources. `columns` (n, S) has their distances to the `searched` targets (n,)."""
        handle.write(np.ascontiguousarray(columns.T))

    # ---- when all batches are committed ----

    def finish(
        self, folder: RunFolder, batches: Sequence[np.ndarray], stored: StoredGraph, progress: Progress
    ) -> None:
        assert self.of_run is not None, "the run was planned in this process"
        progress.stage("merge")
        _check_parts(folder, len(batches))
        output, of_sources = self.of_run
        dtype = stored.manifest.traits.weight_dtype
        columns = self._columns(batches)
        ids = folder.named_ids(stored.ids, folder.identity)
        at_once = max(1, READ_BYTES // (len(of_sources[0]) * self._bytes_at_once(batches, dtype)))
        before = np.cumsum([0, *map(len, of_sources)])
        names: list[Any] = []

        def write_group(group: slice) -> list[tuple[str, file_sums.FileSum, Any]]:
            first, end = int(before[group.start]), int(before[group.stop])
            rows = self._rows(folder, batches, first, end - first, dtype)
            written = []
            for number, sources in enumerate(of_sources[group], start=group.start):
                begin, of_batch = before[number], ids.of_places(np.arange(*before[number : number + 2]))
                part = Solution(rows[begin - first :][: len(sources)][:, columns], None)
                name = batch_file(number)
                write = partial(output.write, sources=sources, solution=part, ids=of_batch)
                summed = file_sums.write_summed(folder.path(name), write)
                written.append((name, summed, of_batch.of_sources(sources)))
            return written

        for group, written in _in_threads(write_group, _slices(len(of_sources), at_once)):
            for name, summed, of_batch in written:
                folder.sums[name] = summed
                names.append(of_batch)
            progress.advance(group.stop, len(of_sources), "files")
        numbers = np.repeat(np.arange(len(of_sources)), np.diff(before))
        folder.write_table(SOURCES_FILE, pa.table({"source": pa.chunked_array(names), "batch": numbers}))

    @abstractmethod
    def _rows(
        self, folder: RunFolder, batches: Sequence[np.ndarray], first: int, n: int, dtype: np.dtype
    ) -> np.ndarray:
        """Return what all parts have of the `n` sources at `first`, (n, C)."""

    @abstractmethod
    def _columns(self, batches: Sequence[np.ndarray]) -> np.ndarray | slice:
        """Return the columns of `_rows` that the output of the run takes."""

    @abstractmethod
    def _bytes_at_once(self, batches: Sequence[np.ndarray], dtype: np.dtype) -> int:
        """Return the memory that `_rows` takes for a source."""

    def _parts(
        self, folder: RunFolder, batches: Sequence[np.ndarray], first: int, n: int, dtype: np.dtype
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the targets of each part, and its rows of the `n` sources at `first`."""
        for batch, searched in enumerate(batches):
            row = self.row_of_part(len(searched), dtype)
            begin = first * row.itemsize
            content = files.read_range(folder.path(turned_part(batch)), begin, begin + n * row.itemsize)
            yield searched, np.frombuffer(content, row)


class TurnedDistances(TurnedOutput):
    """The distances from all sources to each searched target."""

    name = "turned"

    def _rows(
        self, folder: RunFolder, batches: Sequence[np.ndarray], first: int, n: int, dtype: np.dtype
    ) -> np.ndarray:
        rows = np.empty((n, sum(map(len, batches))), dtype)
        column = 0
        for searched, part in self._parts(folder, batches, first, n, dtype):
            rows[:, column : column + len(searched)] = part["distances"]
            column += len(searched)
        return rows

    def _columns(self, batches: Sequence[np.ndarray]) -> np.ndarray | slice:
        assert self.of_run is not None, "as `finish`"
        wanted = self.of_run[0].words
        assert wanted is not None, "as `of_run`"
        return np.searchsorted(np.concatenate(batches), wanted)

    def _bytes_at_once(self, batches: Sequence[np.ndarray], dtype: np.dtype) -> int:
        return self.row_of_part(sum(map(len, batches)), dtype).itemsize


@dataclass(frozen=True, eq=False)
class TurnedNearest(TurnedOutput):
    """The nearest of the searched targets for each source. A part has them, or all distances if these are smaller."""

    name = "turned nearest"

    k: int = 1

    @classmethod
    def of(cls, output: RowOutput, batches: list[np.ndarray], n_reversed: int) -> Self:
        assert isinstance(output, NearestVertices)
        return replace(super().of(output, batches, n_reversed), k=output.k)

    def row_of_part(self, n_searched: int, dtype: np.dtype) -> np.dtype:
        distances = super().row_of_part(n_searched, dtype)
        fields = [("distances", dtype.newbyteorder("<"), (self.k,)), ("vertices", np.dtype("<u4"), (self.k,))]
        return min(distances, np.dtype(fields), key=lambda row: row.itemsize)

    def _write_some(self, handle: Any, searched: np.ndarray, columns: np.ndarray) -> None:
        row = self.row_of_part(len(searched), columns.dtype)
        if row.names == ("distances",):
            super()._write_some(handle, searched, columns)
            return
        distances, vertices = no_nearest(columns.shape[1], self.k, columns.dtype)
        merge_nearest(np.ascontiguousarray(columns), searched, distances, vertices, KernelThreads(1))
        part = np.empty(len(distances), row)
        part["distances"], part["vertices"] = distances, vertices
        handle.write(part.view(np.uint8))

    def _rows(
        self, folder: RunFolder, batches: Sequence[np.ndarray], first: int, n: int, dtype: np.dtype
    ) -> np.ndarray:
        distances, vertices = no_nearest(n, self.k, dtype)
        for searched, part in self._parts(folder, batches, first, n, dtype):
            named = searched if part.dtype.names == ("distances",) else part["vertices"].T
            rows = np.array(part["distances"].T, dtype, order="C")
            merge_nearest(rows, named, distances, vertices, KernelThreads(1))
        return words_of(distances, vertices)

    def _columns(self, batches: Sequence[np.ndarray]) -> np.ndarray | slice:
        return slice(None)

    def _bytes_at_once(self, batches: Sequence[np.ndarray], dtype: np.dtype) -> int:
        # A row of a part as it is read and as it is merged, and the nearest as they are merged and as words.
        largest = self.row_of_part(len(batches[0]), dtype).itemsize
        return 2 * largest + self.k * (dtype.itemsize + 4 + 16)


def _slices(n: int, size: int) -> list[slice]:
    """Return the slices of up to `size` that cover `n` things."""
    size = max(1, size)
    return [slice(first, min(first + size, n)) for first in range(0, n, size)]


def _check_parts(folder: RunFolder, n_batches: int) -> None:
    """Raise `InputError` if the part of a batch is missing or damaged."""

    def check(batch: int) -> None:
        name = turned_part(batch)
        fault = file_sums.fault_of(file_sums.sum_of(folder.path(name)), folder.commit(batch).files[name])
        if fault is not None:
            raise InputError(f"`{files.redacted(folder.path(name))}` {fault}", hint=AGAIN)

    for _ in _in_threads(check, range(n_batches)):
        pass


def _in_threads(work: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[T, R]]:
    """Yield each item with what `work` returns for it, in order. After an error, only what has begun is waited for."""
    n_fit = free_memory_bytes() // (THREAD_READS * READ_BYTES)
    pool = ThreadPoolExecutor(max(1, min(usable_cores(), MOST_THREADS, n_fit)), "sssp-merge")
    try:
        yield from zip(items, pool.map(work, items), strict=True)
    finally:
        pool.shutdown(cancel_futures=True)
