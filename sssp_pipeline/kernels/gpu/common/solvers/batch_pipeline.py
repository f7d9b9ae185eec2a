"""Solves the device batches of a call in turn, and copies the rows of one batch while the next one is solved.

All searches are on one stream. Another stream copies the rows of a solved batch to pinned host memory, part by part. A
batch is enqueued before the batch before it is over, so the GPU never waits for Python.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, unreached_distance
from sssp_pipeline.kernels.contract.packed_words import PackedWords
from sssp_pipeline.kernels.contract.row_facts import SEGMENT, RowFacts
from sssp_pipeline.kernels.contract.solver import MetricsColumns, Solution, SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts, Summariser
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.rows.facts_on_device import FactsOnDevice
from sssp_pipeline.kernels.gpu.common.rows.kept_on_device import DeviceReduction, reduction_on_device
from sssp_pipeline.kernels.gpu.common.rows.over_sources_on_device import OverSourcesOnDevice
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import AddedRows
from sssp_pipeline.kernels.gpu.common.rows.second_costs_on_device import SummedRows
from sssp_pipeline.kernels.gpu.common.rows.transfers import (
    copy_columns_to_host,
    copy_rows,
    copy_to_host,
    pinned_array,
)
from sssp_pipeline.kernels.gpu.common.solvers.batch_search import BatchSearch
from sssp_pipeline.kernels.gpu.common.solvers.costs_of_rows import CostsOfRows
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GPU_LOCK
from sssp_pipeline.kernels.gpu.common.solvers.paths_of_parts import PathsOfParts

#: Held by calls whose rows are copied. If all calls took turns, they would end together, and nothing would be copied
#: while the next calls solve.
_COPYING = threading.BoundedSemaphore(2)
#: Parts that are being copied while their receiver works on earlier ones. Each takes its memory when its copy begins.
_COPIES = 2


def solve_batches(
    search: BatchSearch,
    buffers: list[Buffer],
    sources: np.ndarray,
    ends: Sequence[int],
    rows_of: Callable[[int, int], Any],
) -> Generator[Solution, None, list[Solution]]:
    """Yield the solution of the sources before each of `ends`, using the buffers in turn.

    `rows_of` gives the memory for the rows of the sources from a first one to before an end.

    Returns the last solutions, for which the device is not needed any more.
    """
    cupy = cupy_module()
    size = buffers[0].n_rows
    copying = cupy.cuda.Stream(non_blocking=True)
    batches = [sources[first : first + size] for first in range(0, len(sources), size)]
    n_launched = n_done = 0
    waiting = iter(ends)
    part: _CallPart | None = None
    under_way: deque[tuple[Any, _CallPart]] = deque()

    def copied() -> Solution:
        event, done = under_way.popleft()
        event.synchronize()
        return done.solution()

    try:
        for i, batch in enumerate(batches):
            while n_launched < min(i + len(buffers), len(batches)):
                buffers[n_launched % len(buffers)].launch(search, batches[n_launched])
                n_launched += 1
            buffer = buffers[i % len(buffers)]
            buffer.finish()
            with _COPYING:
                n_taken = 0
                while n_taken < len(batch):
                    if part is None:
                        end = next(waiting)
                        part = _CallPart(end, rows_of(n_done, end), buffer.pinned_costs(end - n_done))
                    n_rows = min(part.end - n_done, len(batch) - n_taken)
                    part.take(buffer, slice(n_taken, n_taken + n_rows), copying)
                    n_taken, n_done = n_taken + n_rows, n_done + n_rows
                    if n_done == part.end:
                        part.over_sources, part.path_words = buffer.words_of_part()
                        under_way.append((copying.record(cupy.cuda.Event(block=True)), part))
                        part = None
                    if len(under_way) > _COPIES:
                        yield copied()
                while under_way and i < len(batches) - 1:
                    yield copied()
        return [copied() for _ in range(len(under_way))]
    except BaseException:  # no memory is freed that the device still reads or writes
        cupy.cuda.get_current_stream().synchronize()
        copying.synchronize()
        raise


class Buffer:
    """The rows of a device batch, their counts and facts, on the device until they are copied."""

    def __init__(
        self,
        name: str,
        search: BatchSearch,
        graph: CsrGraph,
        options: SolveOptions,
        n_rows: int,
        words: WordsOfParts | None,
        paths: PathsOfParts | None,
        costs: CostsOfRows | None,
    ) -> None:
        cupy = cupy_module()
        dtype, kept = graph.weight_dtype, options.kept
        n_columns = kept.n_columns(graph.n_vertices)
        self.n_rows, self._words, self._paths = n_rows, words, paths
        self._costs, self._sums = costs, [] if costs is None else costs.on_device.empty_sums(n_rows)
        row_size = graph.n_vertices if search.n_columns is None else search.n_columns
        self._rows = cupy.empty((n_rows, row_size), bits_type(dtype))
        self._summariser = Summariser(name, graph, options, n_rows)
        self._reduce: DeviceReduction | None = None
        if not search.writes_kept:
            self._reduce = reduction_on_device(kept, n_rows, graph.n_vertices, dtype, search.lane_bits)
        packs = not options.predecessors  # they are found in whole rows
        has_facts = options.row_facts and n_columns > 0
        self._finder = FactsOnDevice(n_rows, n_columns, dtype, packs=packs) if has_facts else None
        self._unreached = unreached_distance(dtype).view(bits_type(dtype))
        self._is_whole_row = kept.is_whole_row
        #: What is copied of the rows.
        self._wanted = self._rows[:0]
        self._sources = np.empty(0, np.uint32)
        #: Give what the launch found, once it is over.
        self._counts: Callable[[], SearchCounts]
        self._facts: Callable[[], RowFacts] | None = None
        self._added: list[AddedRows] = []
        self._summed: SummedRows
        #: Around the search.
        self._began, self._ended = cupy.cuda.Event(), cupy.cuda.Event()
        #: The first: counts and facts are on the host. The second: the rows are, too.
        self._ready, self._copied = (cupy.cuda.Event(block=True, disable_timing=True) for _ in range(2))
        #: Of the batch that was finished last.
        self.metrics: MetricsColumns
        self.facts: RowFacts | None = None
        #: The totals (n, T) of the rows along their paths; None if there are no such sums.
        self.totals: np.ndarray | None = None
        #: `RowFacts.bits` on the device, if an unreached vertex was left out of a row.
        self.bits: Any = None

    def launch(self, search: BatchSearch, sources: np.ndarray) -> None:
        """Enqueue the search from `sources`, its counts and its facts."""
        self._copied.synchronize()
        self._sources = sources
        rows = self._rows[: len(sources)]
        with GPU_LOCK:
            if search.summarises:
                self._summariser.clear(len(sources))
            search.stage(rows, sources, self._summariser.words)
            self._began.record()
            self._counts = search.launch(rows, sources, self._summariser.words)
            self._ended.record()
            if search.summarises:
                self._summariser.fetch(len(sources))
            else:
                self._summariser.launch(rows)
            found = search.left if search.lane_bits else rows
            self._wanted = self._reduce(found, self._summariser.words) if self._reduce else rows
            if self._words is not None:
                self._words.add(found)
            if self._paths is not None:
                self._added = self._paths.add(found)
            if self._costs is not None:
                self._summed = self._costs.on_device.add(rows, sources, self._wanted, self._sums)
            self._facts = self._finder.launch(self._wanted) if self._finder else None
            self._ready.record()

    def finish(self) -> None:
        """Wait for what was launched, and make its metrics and facts. It raises the errors of `solve`."""
        sources = self._sources
        self._ready.synchronize()
        counts = self._counts()
        self.facts = None if self._facts is None else self._facts()
        summaries = self._summariser.finish(self._row, sources)
        if self._paths is not None:
            self.totals = self._paths.finish(self._added)
        if self._costs is not None:
            self._costs.complete(self._summed, self._rows, sources, self._sums)
        share_s = cupy_module().cuda.get_elapsed_time(self._began, self._ended) / 1e3 / len(sources)
        self.metrics = self._summariser.metrics(sources, counts, summaries, share_s)
        self.bits = None
        if self._finder is not None and self.facts is not None and self.facts.n_present is not None:
            is_complete = int(np.sum(self.facts.n_present)) == self._wanted.size
            self.bits = None if is_complete else self._finder.bits

    def words_of_part(self) -> tuple[np.ndarray | None, PackedWords | None]:
        """Return `over_sources` and `path_words` of the part that ended next in what was finished."""
        return (
            None if self._words is None else self._words.ended.popleft(),
            None if self._paths is None else self._paths.words_of_part(),
        )

    def pinned_costs(self, n_rows: int) -> tuple[np.ndarray, ...]:
        """Return host memory for the second costs of `n_rows`, (n_rows, columns) each."""
        return () if self._costs is None else self._costs.pinned(n_rows)

    def copy_costs(self, rows: slice, into: Sequence[np.ndarray], stream: Any) -> None:
        """Enqueue on `stream` the copies of the second costs of `rows`; `copy` comes after it."""
        for sums, host in zip(self._sums, into, strict=True):
            copy_to_host(sums[rows], host, stream)

    def copy(self, rows: slice, into: Any, bits_into: np.ndarray | None, stream: Any) -> None:
        """Enqueue on `stream` the copy of what is kept of `rows` to `into` (n, columns).

        If `bits` is there, its rows are copied to `bits_into` (n, words), and only the front of each segment of `rows`.
        """
        if self.bits is None or bits_into is None or self.facts is None or self.facts.n_present is None:
            copy_rows(self._wanted[rows], into, stream)
        else:
            copy_to_host(self.bits[rows], bits_into, stream)
            for begin, n in zip(
                range(0, into.shape[1], SEGMENT),
                np.max(self.facts.n_present[rows], axis=0).tolist(),
                strict=True,
            ):
                copy_columns_to_host(self._wanted[rows], into, slice(begin, begin + n), stream)
        self._copied.record(stream)

    def _row(self, i: int) -> Any:
        """Return the distances (V,) of row `i` to every vertex, on the device."""
        if self._finder is None or self._finder.bits is None or self.facts is None or not self._is_whole_row:
            return self._rows[i]
        rows = slice(i, i + 1)
        facts = replace(self.facts.part(rows), bits=self._finder.bits[rows].get())
        return cupy_module().asarray(facts.unpacked(self._rows[rows].get(), self._unreached)[0])


class WordsOfParts:
    """What is kept of each vertex over the sources of each part, accumulated in the order of the launches."""

    def __init__(self, on_device: OverSourcesOnDevice, ends: Sequence[int]) -> None:
        self._on_device, self._ends = on_device, deque(ends)
        self._n_added = 0
        #: The words (W, V) of each part that has ended, valid when the launch that ended it is over.
        self.ended: deque[np.ndarray] = deque()

    def add(self, rows: Any) -> None:
        """Enqueue the accumulation of `rows` (n, V) of the next n sources."""
        first = 0
        while first < len(rows):
            end = min(len(rows), first + self._ends[0] - self._n_added)
            self._on_device.add(rows[first:end], self._n_added)
            self._n_added += end - first
            first = end
            if self._n_added == self._ends[0]:
                self.ended.append(self._on_device.take())
                self._ends.popleft()


@dataclass(eq=False)
class _CallPart:
    """Rows that are returned together, from one or more device batches."""

    end: int
    #: Host memory, or a part of `SolveOptions.into`.
    rows: Any
    #: Host memory for the second costs of these rows.
    along: tuple[np.ndarray, ...]
    n_filled: int = 0
    metrics: list[MetricsColumns] = field(default_factory=list)
    facts: list[RowFacts] = field(default_factory=list)
    #: As in `RowFacts`, of all its rows; None as long as every value is present.
    bits: np.ndarray | None = None
    over_sources: np.ndarray | None = None
    path_words: PackedWords | None = None
    totals: list[np.ndarray] = field(default_factory=list)

    def take(self, buffer: Buffer, rows: slice, stream: Any) -> None:
        """Enqueue the copy of `rows` of the batch that `buffer` holds."""
        places = slice(self.n_filled, self.n_filled + rows.stop - rows.start)
        self.n_filled = places.stop
        if buffer.bits is not None and self.bits is None:
            self.bits = pinned_array((len(self.rows), buffer.bits.shape[1]), np.dtype(np.uint32))
        buffer.copy_costs(rows, [costs[places] for costs in self.along], stream)
        buffer.copy(rows, self.rows[places], None if self.bits is None else self.bits[places], stream)
        self.metrics.append(buffer.metrics[rows])
        if buffer.facts is not None:
            self.facts.append(buffer.facts.part(rows))
        if buffer.totals is not None:
            self.totals.append(buffer.totals[rows])

    def solution(self) -> Solution:
        facts = replace(RowFacts.joined(self.facts), bits=self.bits) if self.facts else None
        if self.totals:
            totals = np.concatenate(self.totals)
            self.rows[:, self.rows.shape[1] - totals.shape[1] :] = totals.view(np.uint64)
        metrics = MetricsColumns.joined(self.metrics)
        words = self.over_sources, self.path_words
        return Solution(self.rows, None, metrics, facts, *words, along=self.along)
