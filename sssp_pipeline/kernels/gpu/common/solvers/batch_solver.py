"""The base of the GPU solvers of many sources at once: everything around a search from a device batch.

The sources of a call are cut into device batches that fit the free memory. While one batch is solved, another stream
copies the rows of the batch before to pinned host memory, and the host makes the metrics of that batch.
"""

from __future__ import annotations

import math
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.errors import SsspError
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph, drop_others, free_bytes
from sssp_pipeline.kernels.gpu.common.rows.device_rows import (
    SearchCounts,
    Summariser,
    copy_to_host,
)
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import (
    GPU_LOCK,
    GpuSolver,
    Holding,
    graph_on_device,
)
from sssp_pipeline.kernels.solver import MetricsColumns, SolveOptions, SourceMetrics

#: A call takes at most 1 / `_SHARE` of the free memory, since another thread may call too. A call that does not fit
#: that share takes all.
_SHARE = 2
#: Device memory for the counts of a source, rounded up.
_SUMMARY_BYTES = 512


class BatchSearch(ABC):
    """A search from several sources at once; it owns its scratch memory on the device."""

    @abstractmethod
    def launch(self, rows: Any, sources: np.ndarray) -> None:
        """Enqueue the search from `sources`, without waiting for it.

        Parameters
        ----------
        rows
            (n, V) device array of the weights' bits, uninitialised, C order. The search writes the true distances,
            and the bits of the limit where no path is shorter than the limit.
        sources
            (n,) uint32, host memory.
        """

    @abstractmethod
    def finish(self) -> SearchCounts:
        """Wait for the last launch, and return the counts of each of its sources.

        Raises
        ------
        SsspError
            The search was given up; its distances are not valid.
        """


@dataclass(frozen=True)
class BatchNeeds:
    """Device memory of a batch search beside the rows of distances, and its largest useful batch."""

    #: Bytes that do not depend on the number of sources.
    fixed_bytes: int
    #: Bytes for each source of a device batch.
    bytes_a_source: int
    #: Sources of a full device batch. With more sources, each is not solved faster.
    full: int


class GpuBatchSolver(GpuSolver):
    """A solver of many sources at once on one GPU."""

    @abstractmethod
    def needs(self, graph: CsrGraph, on_device: DeviceGraph, n_sources: int) -> BatchNeeds:
        """Return the needs of a batch search over `graph` in a call with `n_sources`."""

    @abstractmethod
    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        """Return a search from up to `n_sources` at once, with its own scratch memory, and its kernels compiled."""

    def _solve_in_turn(
        self, graph: CsrGraph, sources: np.ndarray, distances: np.ndarray, options: SolveOptions
    ) -> Sequence[SourceMetrics]:
        with GPU_LOCK:  # no other call takes the memory that was found free
            on_device = graph_on_device(graph)
            size, n_buffers = self._wait_for_room(graph, on_device, options, len(sources))
            search = self.start_batch(graph, on_device, options, size)
            buffers = [_Buffer(self.name, graph, options, size) for _ in range(n_buffers)]
            Holding.n_calls += 1
        try:
            return _solve_with(search, buffers, sources, distances)
        except BaseException as error:
            # The frames would keep the memory for as long as the error is kept.
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            del search, buffers  # frees their memory before waiting calls are notified
            with GPU_LOCK:
                Holding.n_calls -= 1
                Holding.given_back.notify_all()

    def _wait_for_room(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> tuple[int, int]:
        """Return the `device_batch` of a call, after waiting for calls that hold the memory it needs.

        Raises
        ------
        SsspError
            Not even one source fits.
        """
        needs = self.needs(graph, on_device, n_sources)
        kept_bytes = 2 * options.kept.device_bytes(graph.weight_dtype)  # in each buffer
        needs = replace(needs, bytes_a_source=needs.bytes_a_source + kept_bytes)
        row_bytes = graph.n_vertices * graph.weight_dtype.itemsize
        while (batch := _fitting(n_sources, row_bytes, needs))[0] == 0:
            if drop_others(graph):
                continue
            if not Holding.n_calls:
                needed = needs.fixed_bytes + needs.bytes_a_source + row_bytes
                raise SsspError(
                    f"one source of `{self.name}` does not fit the GPU beside the graph: it takes "
                    f"{needed / 2**20:,.0f} MiB and {free_bytes() / 2**20:,.0f} are free",
                    hint="`near-far` and `adds` take less; `delta-stepping` needs no GPU",
                )
            Holding.given_back.wait()
        return batch


def _solve_with(
    search: BatchSearch, buffers: list[_Buffer], sources: np.ndarray, distances: np.ndarray
) -> Sequence[SourceMetrics]:
    """Fill `distances` and return the metrics, both in the order of `sources`, using the buffers in turn."""
    cupy = cupy_module()
    size = buffers[0].n_rows
    copying = cupy.cuda.Stream(non_blocking=True)
    metrics: list[MetricsColumns] = []
    make_metrics: Callable[[], list[MetricsColumns]] = list
    try:
        for i, first in enumerate(range(0, len(sources), size)):
            buffer = buffers[i % len(buffers)]
            part = slice(first, first + size)
            buffer.copied.synchronize()
            with GPU_LOCK:
                buffer.launch(search, sources[part])
                metrics += make_metrics()  # of the batch before, while the GPU is busy
                make_metrics = buffer.finish(search)
            buffer.copy(copying, distances[part])
        return MetricsColumns.joined(metrics + make_metrics())
    finally:  # after an error, no memory is freed that the device still reads or writes
        cupy.cuda.get_current_stream().synchronize()
        copying.synchronize()


def _fitting(n_sources: int, row_bytes: int, needs: BatchNeeds) -> tuple[int, int]:
    """Return the `device_batch` for a call's share of the free memory, or for all of it if none fits the share."""
    free = free_bytes()
    share = device_batch(n_sources, free // _SHARE, row_bytes, needs)
    return share if share[0] > 0 else device_batch(n_sources, free, row_bytes, needs)


def device_batch(n_sources: int, free: int, row_bytes: int, needs: BatchNeeds) -> tuple[int, int]:
    """Return the sources of a device batch and the number of buffers, which is 1 or 2; 0, 0 if no source fits.

    All sources are one batch if they fit `free` bytes and no more than fill the device. Otherwise there are two
    buffers, one for the batch that is solved and one for the batch that is copied, and batches of about equal size. If
    there is no memory for two buffers, one source is solved at a time.
    """
    free -= needs.fixed_bytes
    each = needs.bytes_a_source + _SUMMARY_BYTES
    if n_sources <= needs.full and n_sources * (each + row_bytes) <= free:
        return n_sources, 1
    if each + row_bytes > free:
        return 0, 0
    most = free // (each + 2 * row_bytes)
    if most == 0:
        return 1, 1
    n_batches = math.ceil(n_sources / min(most, needs.full))
    return math.ceil(n_sources / n_batches), 2


class _Buffer:
    """The rows of a device batch and their counts, on the device until they are copied."""

    def __init__(self, name: str, graph: CsrGraph, options: SolveOptions, n_rows: int) -> None:
        cupy = cupy_module()
        self.n_rows = n_rows
        self._rows = cupy.empty((n_rows, graph.n_vertices), bits_type(graph.weight_dtype))
        self._summariser = Summariser(name, graph, options, n_rows)
        self._reduce = options.kept.on_device(n_rows, graph.weight_dtype)
        #: What is copied of the rows.
        self._wanted = self._rows[:0]
        self._sources = np.empty(0, np.uint32)
        self._began, self._ended = cupy.cuda.Event(), cupy.cuda.Event()
        #: Recorded when the rows are on the host.
        self.copied = cupy.cuda.Event()

    def launch(self, search: BatchSearch, sources: np.ndarray) -> None:
        """Enqueue the search from `sources` and the counts of its results."""
        self._sources = sources
        rows = self._rows[: len(sources)]
        self._began.record()
        search.launch(rows, sources)
        self._ended.record()
        self._summariser.launch(rows)
        self._wanted = self._reduce(rows)

    def finish(self, search: BatchSearch) -> Callable[[], list[MetricsColumns]]:
        """Wait for the search and return a function that makes its metrics; raises as `solve` does."""
        sources = self._sources
        counts = search.finish()
        summaries = self._summariser.finish(self._rows[: len(sources)], sources)
        share_s = cupy_module().cuda.get_elapsed_time(self._began, self._ended) / 1e3 / len(sources)
        return lambda: [self._summariser.metrics(sources, counts, summaries, share_s)]

    def copy(self, stream: Any, distances: np.ndarray) -> None:
        """Enqueue on `stream` the copy of what is kept of the rows to `distances` (n, columns), host memory."""
        copy_to_host(self._wanted, distances, stream)
        self.copied.record(stream)
