"""The base of the GPU solvers: everything around a search.

`GpuSearchSolver` runs searches from one source each. It times a search by CUDA events (searches that share the GPU get
equal shares), has its results counted (`device_rows.py`), and copies the row of distances to pinned host memory.
Solvers of many sources at once are in `batch_solver.py`.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.kernels.contract.solver import Parts, SolveOptions, SourceMetrics
from sssp_pipeline.kernels.gpu.common.cuda.compile import Kernel, Unit, cupy_module, gpu_missing
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import (
    DeviceGraph,
    device_graph,
    drop_others,
    out_of_memory,
)
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts, Summariser
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.rows.kept_on_device import over_sources_on_device, reduction_on_device
from sssp_pipeline.kernels.gpu.common.rows.over_sources_on_device import OverSourcesOnDevice
from sssp_pipeline.kernels.gpu.common.rows.transfers import copy_rows, pinned_array
from sssp_pipeline.kernels.gpu.common.solvers.stalled import StalledError, stalled_twice
from sssp_pipeline.kernels.host.queue_search import refuse_too_short
from sssp_pipeline.kernels.host.search import finish_row
from sssp_pipeline.kernels.host.search_graph import distances_of_bits
from sssp_pipeline.kernels.host.solver import Solver, WholeCall, WholeCalls

Result = TypeVar("Result")

#: Only one call at a time enqueues work on the GPU of a process. Each call uses the whole device. A call of a batch
#: solver gives the lock back when its work is enqueued.
GPU_LOCK = threading.Lock()
#: The poison that a barrier sets past the deadline; as in `grid_barrier.cuh`.
PAST_DEADLINE = 2**32 - 1

_log = logging.getLogger(__name__)


class Holding:
    """How many calls hold device memory without holding `GPU_LOCK`; guarded by that lock."""

    n_calls = 0
    #: Notified when a call frees its device memory.
    given_back = threading.Condition(GPU_LOCK)


def graph_on_device(graph: CsrGraph) -> DeviceGraph:
    """Return `device_graph(graph)`; if it does not fit, wait for calls that hold memory, then raise as it does."""
    while True:
        try:
            return device_graph(graph)
        except SsspError:
            if not Holding.n_calls:
                raise
        Holding.given_back.wait()


class GpuSearch(ABC):
    """A search from one source after another; it owns its scratch memory on the device."""

    @abstractmethod
    def launch(self, distances: Any, source: int) -> None:
        """Enqueue the search from `source`, without waiting for it.

        Parameters
        ----------
        distances
            (V,) device array of the weights' bits, uninitialised. The search writes the true distances, and the bits
            of the limit where no path is shorter than the limit.
        """

    def grow(self) -> bool:
        """Allocate more memory if the last launch had too little; return whether it had. That launch must be over.

        Raises
        ------
        SsspError
            There is no more memory.
        """
        return False

    @abstractmethod
    def finish(self) -> SearchCounts:
        """Return the counts of the last launch. That launch must be over.

        Raises
        ------
        SsspError
            The search was given up; its distances are not valid. `StalledError` if some of its blocks did not run.
        """


class GpuSolver(Solver):
    """A solver on one GPU."""

    device = "gpu"
    sums_rows = False
    empty_rows = staticmethod(pinned_array)

    @property
    @abstractmethod
    def units(self) -> tuple[Unit, ...]:
        """What is compiled for it besides what all share; the search kernel is in the first."""

    def missing(self) -> str | None:
        return gpu_missing()

    def _solved(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        n_yielded = n_done = 0
        try:
            for part in self._attempt(graph, sources, options, ends):
                n_yielded, n_done = n_yielded + 1, n_done + len(part.distances)
                yield part
            return
        except StalledError as error:
            _log.warning("%s; what is left is tried once more", error.message)
        into = None if options.into is None else options.into[n_done:]
        left = [end - n_done for end in ends[n_yielded:]]
        try:
            yield from self._attempt(graph, sources[n_done:], replace(options, into=into), left)
        except StalledError as error:
            raise stalled_twice(error) from error

    @abstractmethod
    def _attempt(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        """Do what `_solved` does. After a `StalledError`, the parts that were not yielded are tried once more."""

    def _with_memory(self, graph: CsrGraph, function: Callable[[], Result]) -> Result:
        """Return what `function` does. If memory runs out, drop other graphs than `graph` from it, and try again."""
        while True:
            try:
                return function()
            except cupy_module().cuda.memory.OutOfMemoryError as error:
                if not drop_others(graph):
                    raise out_of_memory(f"what `{self.name}` needs beside the graph", error) from error


class GpuSearchSolver(GpuSolver, WholeCalls):
    """A solver whose searches have one source each. Several searches of a call may share the device."""

    leaves_rows = True

    def _attempt(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        return WholeCalls._solved(self, graph, sources, options, ends)

    @abstractmethod
    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> GpuSearch:
        """Return a search over a graph with its own scratch memory, and its kernels compiled."""

    def start_many(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> list[GpuSearch]:
        """Return the searches that share the GPU, 1 to `n_sources` of them. All must be resident at once."""
        del n_sources
        return [self.start(graph, on_device, options)]

    def _fill_rows(self, call: WholeCall) -> list[SourceMetrics]:
        def solve() -> list[SourceMetrics]:
            if call.accumulator is not None:
                call.accumulator.clear()  # an attempt that ran out of memory may have added rows
            return self._solve_in_turn(call)

        return self._with_memory(call.graph, solve)

    def _solve_in_turn(self, call: WholeCall) -> list[SourceMetrics]:
        graph, sources, options = call.graph, call.sources, call.options
        if graph.traits.min_weight < 0:
            return self._solve_signed(call)
        with GPU_LOCK:
            searches = self.start_many(graph, graph_on_device(graph), options, len(sources))
            over = options.kept.over_sources
            on_device = None if over is None else over_sources_on_device(over, graph.traits, sources)
            streams = [
                _StreamSearch(self.name, search, graph, options, len(searches), on_device)
                for search in searches
            ]
            # Other streams use the uploaded graph, and the whole device: what other calls enqueued ends first.
            cupy_module().cuda.get_current_stream().synchronize()
            metrics = []
            try:
                for i, source in enumerate(sources):
                    stream = streams[i % len(streams)]
                    if stream.is_busy:
                        metrics.append(stream.finish())
                    stream.launch(int(source), call.distances[i], i)
                for i in range(len(sources), len(sources) + len(streams)):
                    metrics.append(streams[i % len(streams)].finish())
            finally:
                for stream in streams:  # after an error, no memory is freed that another search still writes
                    stream.cuda_stream.synchronize()
            if call.accumulator is not None and on_device is not None:
                words = on_device.take()
                cupy_module().cuda.get_current_stream().synchronize()
                call.accumulator.merge(words)
            return metrics

    def _solve_signed(self, call: WholeCall) -> list[SourceMetrics]:
        """Solve a graph with negative weights, source by source; the host counts the results of a search."""
        graph, options, cupy = call.graph, call.options, cupy_module()
        metrics = []
        with GPU_LOCK:
            search = self.start(graph, graph_on_device(graph), options)
            on_device = cupy.empty(graph.n_vertices, bits_type(graph.weight_dtype))
            began, ended = cupy.cuda.Event(), cupy.cuda.Event()
            for source, into in zip(call.sources.tolist(), call.distances, strict=True):
                began.record()
                search.launch(on_device, source)
                ended.record()
                row = distances_of_bits(on_device.get(), graph.weight_dtype)
                counts = search.finish()
                refuse_too_short(graph, source, row)
                facts = finish_row(graph, source, row, options.cutoff)
                options.kept.reduce(row, into)
                if call.accumulator is not None:
                    call.accumulator.add(row, source)
                solve_s = cupy.cuda.get_elapsed_time(began, ended) / 1e3
                results = vars(counts) | facts.results(solve_s)
                metrics.append(SourceMetrics(source, self.name, solve_s, **results))
        return metrics


class _StreamSearch:
    """One of the searches that share the GPU: its CUDA stream, its row of distances on the device, its counts."""

    def __init__(
        self,
        name: str,
        search: GpuSearch,
        graph: CsrGraph,
        options: SolveOptions,
        share: int,
        over_sources: OverSourcesOnDevice | None,
    ) -> None:
        cupy = cupy_module()
        self._name, self._search, self._share = name, search, share
        self._over_sources = over_sources
        self._rows = cupy.empty((1, graph.n_vertices), bits_type(graph.weight_dtype))
        self._summariser = Summariser(name, graph, options, 1)
        self._reduce = reduction_on_device(options.kept, 1, graph.n_vertices, graph.weight_dtype)
        self._began, self._ended = cupy.cuda.Event(), cupy.cuda.Event()
        self._source, self._place = -1, 0
        self._into: Any = None
        self.cuda_stream = (
            cupy.cuda.get_current_stream() if share == 1 else cupy.cuda.Stream(non_blocking=True)
        )

    @property
    def is_busy(self) -> bool:
        return self._source >= 0

    def launch(self, source: int, into: Any, place: int) -> None:
        """Enqueue the search from `source`, and what writes the kept part of its row to `into` (columns,).

        The source is at `place` among the sources of the call.
        """
        self._source, self._into, self._place = source, into[np.newaxis], place
        with self.cuda_stream:
            self._began.record()
            self._search.launch(self._rows[0], source)
            self._ended.record()
            self._summariser.launch(self._rows)
            copy_rows(self._reduce(self._rows, self._summariser.words), self._into)

    def finish(self) -> SourceMetrics:
        """Wait for the search under way and return its metrics. It raises the errors of `solve`."""
        self.cuda_stream.synchronize()
        while self._search.grow():
            self.launch(self._source, self._into[0], self._place)
            self.cuda_stream.synchronize()
        sources, self._source = np.array([self._source]), -1
        with self.cuda_stream:
            counts = self._search.finish()
            summaries = self._summariser.finish(self._rows.__getitem__, sources)
        if self._over_sources is not None:
            # All searches add to the same words, so on one stream. The next search overwrites the row.
            self._over_sources.add(self._rows, self._place)
            self.cuda_stream.wait_event(cupy_module().cuda.get_current_stream().record())
        solve_s = cupy_module().cuda.get_elapsed_time(self._began, self._ended) / 1e3 / self._share
        return replace(self._summariser.metrics(sources, counts, summaries, solve_s)[0], trace=counts.trace)


def largest_grid(kernel: Kernel, block: int, most: int | None = None, n_searches: int = 1) -> int:
    """Return how many blocks of `block` threads, at most `most`, each of `n_searches` searches can have at once."""
    fits = kernel.resident_blocks(block)
    return max(1, min(fits // n_searches, most or fits))
