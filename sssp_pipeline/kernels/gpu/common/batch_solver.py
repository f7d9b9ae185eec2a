"""What the GPU solvers of many sources at once share: everything around a search from a batch of them.

A call's sources are cut into device batches that fit the memory that is free. While one is solved, the rows of the
one before are copied to pinned host memory by a stream of their own, and what came of it is written down.
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
from sssp_pipeline.kernels.gpu.common.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.device_graph import DeviceGraph, drop_others, free_bytes
from sssp_pipeline.kernels.gpu.common.device_rows import (
    SearchCounts,
    Summariser,
    copy_to_host,
)
from sssp_pipeline.kernels.gpu.common.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.gpu_solver import (
    GPU_LOCK,
    GpuSolver,
    Holding,
    graph_on_device,
)
from sssp_pipeline.kernels.solver import MetricsColumns, SolveOptions, SourceMetrics

#: Of the memory that is free, a call takes one half at most: another thread's call may be on its way. A call that
#: does not fit one half takes all.
_SHARE = 2
#: For each source on the device beside its row: its counts, and what they are rounded up to.
_SUMMARY_BYTES = 512


class BatchSearch(ABC):
    """A search from up to so many sources at once; it owns its scratch memory on the device."""

    @abstractmethod
    def launch(self, rows: Any, sources: np.ndarray) -> None:
        """Enqueue everything that fills `rows` with the distances from `sources`; nothing is waited for.

        Parameters
        ----------
        rows
            (n, V) device array of the weights' bits, uninitialised, C order; afterwards the bits of the limit stand
            where there is no path shorter than it.
        sources
            (n,) uint32, host memory.
        """

    @abstractmethod
    def finish(self) -> SearchCounts:
        """Wait for the last launch, and return what each of its sources took.

        Raises
        ------
        SsspError
            The search was given up; distances mean nothing.
        """


@dataclass(frozen=True)
class BatchNeeds:
    """What a batch search takes on the device beside the rows of distances.

    Attributes
    ----------
    fixed_bytes
        However many sources there are.
    bytes_a_source
        For each source of a device batch.
    full
        Sources of a device batch from which on more of them are solved no faster each.
    """

    fixed_bytes: int
    bytes_a_source: int
    full: int


class GpuBatchSolver(GpuSolver):
    """A solver of many sources at once on one GPU."""

    @abstractmethod
    def needs(self, graph: CsrGraph, on_device: DeviceGraph, n_sources: int) -> BatchNeeds:
        """Return what a batch search over `graph` takes, of a call with `n_sources`."""

    @abstractmethod
    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        """Return a search from up to `n_sources` at once, with scratch memory of its own, kernels compiled."""

    def _solve_in_turn(
        self, graph: CsrGraph, sources: np.ndarray, distances: np.ndarray, options: SolveOptions
    ) -> Sequence[SourceMetrics]:
        with GPU_LOCK:  # what is free is still free when it is taken
            on_device = graph_on_device(graph)
            needs = self.needs(graph, on_device, len(sources))
            kept_bytes = 2 * options.kept.device_bytes(graph.weight_dtype)  # in each buffer
            needs = replace(needs, bytes_a_source=needs.bytes_a_source + kept_bytes)
            row_bytes = graph.n_vertices * graph.weight_dtype.itemsize
            while (batch := _fitting(len(sources), row_bytes, needs))[0] == 0:
                if drop_others(graph):
                    continue
                if not Holding.n_calls:
                    break
                Holding.given_back.wait()
            size, n_buffers = batch
            if size == 0:
                raise SsspError(
                    f"one source of `{self.name}` does not fit the GPU beside the graph: it takes "
                    f"{(needs.fixed_bytes + needs.bytes_a_source + row_bytes) / 2**20:,.0f} MiB and "
                    f"{free_bytes() / 2**20:,.0f} are free",
                    hint="`near-far` and `adds` take less; `delta-stepping` needs no GPU",
                )
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
            del search, buffers  # before those are told that wait for the memory
            with GPU_LOCK:
                Holding.n_calls -= 1
                Holding.given_back.notify_all()


def _solve_with(
    search: BatchSearch, buffers: list[_Buffer], sources: np.ndarray, distances: np.ndarray
) -> Sequence[SourceMetrics]:
    """Fill `distances` and return the metrics, both in the order of `sources`, by a device batch a buffer in turn."""
    cupy = cupy_module()
    size = buffers[0].n_rows
    copying = cupy.cuda.Stream(non_blocking=True)
    metrics: list[MetricsColumns] = []
    write_down: Callable[[], list[MetricsColumns]] = list
    try:
        for i, first in enumerate(range(0, len(sources), size)):
            buffer = buffers[i % len(buffers)]
            part = slice(first, first + size)
            buffer.copied.synchronize()
            with GPU_LOCK:
                buffer.launch(search, sources[part])
                metrics += write_down()  # what came of the batch before, while the GPU is busy
                write_down = buffer.finish(search)
            buffer.copy(copying, distances[part])
        return MetricsColumns.joined(metrics + write_down())
    finally:  # an error must not free what is still read or written
        cupy.cuda.get_current_stream().synchronize()
        copying.synchronize()


def _fitting(n_sources: int, row_bytes: int, needs: BatchNeeds) -> tuple[int, int]:
    """Return the `device_batch` for the share of the free memory that is a call's, or for all of it if none fits."""
    free = free_bytes()
    share = device_batch(n_sources, free // _SHARE, row_bytes, needs)
    return share if share[0] > 0 else device_batch(n_sources, free, row_bytes, needs)


def device_batch(n_sources: int, free: int, row_bytes: int, needs: BatchNeeds) -> tuple[int, int]:
    """Return how many sources go into a device batch and how many batches have rows at once; 0, 0 if none fits.

    All sources in one batch, if they fit `free` bytes and are no more than fill the device. Otherwise two batches have
    rows, one that is solved and one that is copied, and the batches are about alike; one batch of one source, if
    there is no memory for more.
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
    """Rows of a device batch, and what is known of it: on the device, then on their way to the host."""

    def __init__(self, name: str, graph: CsrGraph, options: SolveOptions, n_rows: int) -> None:
        cupy = cupy_module()
        self.n_rows = n_rows
        self._rows = cupy.empty((n_rows, graph.n_vertices), bits_type(graph.weight_dtype))
        self._summariser = Summariser(name, graph, options, n_rows)
        self._reduce = options.kept.on_device(n_rows, graph.weight_dtype)
        #: What is to be copied of the rows.
        self._wanted = self._rows[:0]
        self._sources = np.empty(0, np.uint32)
        self._began, self._ended = cupy.cuda.Event(), cupy.cuda.Event()
        #: Its rows are on the host.
        self.copied = cupy.cuda.Event()

    def launch(self, search: BatchSearch, sources: np.ndarray) -> None:
        """Enqueue the search from `sources`, and the counting of what comes of it."""
        self._sources = sources
        rows = self._rows[: len(sources)]
        self._began.record()
        search.launch(rows, sources)
        self._ended.record()
        self._summariser.launch(rows)
        self._wanted = self._reduce(rows)

    def finish(self, search: BatchSearch) -> Callable[[], list[MetricsColumns]]:
        """Wait for the search, and return what makes its metrics; raises as `solve` does."""
        sources = self._sources
        counts = search.finish()
        summaries = self._summariser.finish(self._rows[: len(sources)], sources)
        share_s = cupy_module().cuda.get_elapsed_time(self._began, self._ended) / 1e3 / len(sources)
        return lambda: [self._summariser.metrics(sources, counts, summaries, share_s)]

    def copy(self, stream: Any, distances: np.ndarray) -> None:
        """Enqueue on `stream` the copy of what is kept of the rows to `distances` (n, columns), host memory."""
        copy_to_host(self._wanted, distances, stream)
        self.copied.record(stream)
