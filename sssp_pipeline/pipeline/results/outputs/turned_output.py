"""The output of a run backward: the distances from all sources to the targets that a batch searches from.

A batch writes a part to `_run/`, with a row for each source. When all batches are there, threads of the process that
was started read some rows of all parts at a time, and write the files that a run forward writes, byte by byte.
`docs/design/0030-fastest-by-default.md` has the idea.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.base.vertex_ids import digest_of
from sssp_pipeline.kernels.contract import kept
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.results.folder.run_files import AGAIN, SOURCES_FILE, batch_file, turned_part
from sssp_pipeline.pipeline.results.outputs.distance_outputs import TargetDistances
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput
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
class TurnedDistances(RowOutput):
    """The distances from all sources to each searched target. `words` has the sources (S,) in the order of the run.

    A source may stand twice.
    """

    name = "turned"
    counts_sources = False

    n_sources: int = 0
    #: How many edges are reversed for the searches.
    n_reversed: int = 0
    #: What the run stores in the end, and the sources of each of its files. Only the process that finishes the run has
    #: them.
    of_run: tuple[TargetDistances, list[np.ndarray]] | None = None

    @classmethod
    def of(cls, output: TargetDistances, batches: list[np.ndarray], n_reversed: int) -> TurnedDistances:
        """Return what a run backward stores for `output` and its `batches` of sources."""
        sources = np.concatenate(batches)
        return cls(output.form, digest_of(sources), sources, len(sources), n_reversed, (output, batches))

    @property
    def follows_reversed(self) -> bool:
        return True

    @property
    def searched(self) -> str:
        return "target"

    def without_input(self) -> TurnedDistances:
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

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        columns = solution.distances
        for some in _slices(self.n_sources, TURNED_BYTES // max(columns[:, 0].nbytes, 1)):
            handle.write(np.ascontiguousarray(columns[:, some].T))

    # ---- when all batches are committed ----

    def finish(
        self, folder: RunFolder, batches: Sequence[np.ndarray], stored: StoredGraph, progress: Progress
    ) -> None:
        assert self.of_run is not None, "the run was planned in this process"
        progress.stage("merge")
        _check_parts(folder, len(batches))
        output, of_sources = self.of_run
        assert output.words is not None, "as `of_run`"
        searched, dtype = np.concatenate(batches), stored.manifest.traits.weight_dtype
        places = np.searchsorted(searched, output.words)
        ids = folder.named_ids(stored.ids, folder.identity)
        at_once = max(1, READ_BYTES // (len(of_sources[0]) * len(searched) * dtype.itemsize))
        before = np.cumsum([0, *map(len, of_sources)])
        names: list[Any] = []

        def write_group(group: slice) -> list[tuple[str, file_sums.FileSum, Any]]:
            first, end = int(before[group.start]), int(before[group.stop])
            rows = self._rows(folder, batches, first, end - first, dtype)
            written = []
            for number, sources in enumerate(of_sources[group], start=group.start):
                begin, of_batch = before[number], ids.of_places(np.arange(*before[number : number + 2]))
                part = Solution(rows[begin - first :][: len(sources)][:, places], None)
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

    def _rows(
        self, folder: RunFolder, batches: Sequence[np.ndarray], first: int, n: int, dtype: np.dtype
    ) -> np.ndarray:
        """Return the distances from the `n` sources at `first` to all searched targets, (n, T)."""
        rows = np.empty((n, sum(map(len, batches))), dtype)
        column = 0
        for batch, searched in enumerate(batches):
            each = len(searched) * dtype.itemsize
            content = files.read_range(folder.path(turned_part(batch)), first * each, (first + n) * each)
            part = np.frombuffer(content, dtype.newbyteorder("<")).reshape(n, len(searched))
            rows[:, column : column + len(searched)] = part
            column += len(searched)
        return rows


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
