"""What the GPU solvers share: everything around the search from one source.

A solver here is a `search` over one row of distances on the device. This module checks the request, uploads the
graph once, times each source by CUDA events (a share if they run together), counts what came of it, refuses a
shortest path that the type cannot hold, and copies the row to pinned host memory.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits, unreached_distance, wider_dtype
from sssp_pipeline.errors import InputError, PathTooLongError
from sssp_pipeline.kernels._compile import Kernel, Unit, cupy_module, gpu_missing, load_kernels
from sssp_pipeline.kernels._cpu import checked_sources
from sssp_pipeline.kernels._device_graph import DeviceGraph, device_graph, out_of_memory
from sssp_pipeline.kernels._views import distance_limit, largest_distance
from sssp_pipeline.kernels.predecessors import predecessors_of
from sssp_pipeline.kernels.solver import NO_TRACE, Solution, SolveOptions, SourceMetrics

#: One search at a time on a process's GPU: each takes the whole device.
_gpu = threading.Lock()

_SUMMARY = np.dtype(
    [("reached", "u8"), ("edges_of_reached", "u8"), ("max_distance", "u8"), ("first_edge", "u8")]
)
_SUMMARY_BLOCK = 256

SUMMARY = Unit("summary", ("summary_kernel", "too_long_kernel"))


@dataclass(frozen=True)
class SearchCounts:
    """What a search took; `delta_last` and `delta_changes` are those of a solver that adapts it.

    `trace` is (M,) of `TRACE` where the options ask for one.
    """

    vertices_processed: int
    edges_relaxed: int
    delta_first: float | None = None
    delta_last: float | None = None
    delta_changes: int = 0
    trace: np.ndarray | None = None


class GpuSearch(ABC):
    """A search that is run from one source after another; it owns its scratch memory on the device."""

    @abstractmethod
    def launch(self, distances: Any, source: int) -> None:
        """Enqueue everything that lowers `distances` to the true ones; nothing is waited for.

        Parameters
        ----------
        distances
            (V,) device array of the weights' bits, uninitialised; afterwards the bits of the limit stand where
            there is no path shorter than it.
        """

    @abstractmethod
    def finish(self) -> SearchCounts:
        """Return the counts of the last launch, which is over.

        Raises
        ------
        SsspError
            The search was given up; distances mean nothing.
        """


class GpuSolver(ABC):
    """A solver on one GPU: a source has the whole device, or shares it with others of the same call."""

    name: str
    device = "gpu"
    summary: str
    #: Whether a search records a trace where the options ask for one.
    records_traces = False

    @property
    @abstractmethod
    def units(self) -> tuple[Unit, ...]:
        """What it compiles besides `SUMMARY` and `UPLOAD`."""

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why not: negative weights, a trace that it does not record, no GPU, no CuPy."""
        if graph.min_weight < 0:
            return f"it needs weights of zero or more, and the smallest is {graph.min_weight}"
        if options.trace_every_us is not None and not self.records_traces:
            return NO_TRACE
        return gpu_missing()

    @abstractmethod
    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> GpuSearch:
        """Return a search over a graph with scratch memory of its own, kernels compiled."""

    def start_many(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> list[GpuSearch]:
        """Return the searches that are to share the GPU, 1 to `n_sources`; together they must be resident."""
        del n_sources
        return [self.start(graph, on_device, options)]

    def solve(self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions) -> Solution:
        """Return exact distances from each of `sources`, in the type of the weights and added in that type.

        Parameters
        ----------
        sources
            (S,) integers; a source may stand there twice.

        Returns
        -------
        Solution
            Distances in pinned host memory, owned by the caller; the bits do not depend on the solver.

        Raises
        ------
        InputError
            The graph or the options are not supported; a source is not in the graph; a shortest path within
            the cutoff is longer than the type holds.
        SsspError
            The GPU's memory is too small, or a search was given up.
        """
        if (reason := self.supports(graph.traits, options)) is not None:
            raise InputError(f"solver `{self.name}` cannot solve this: {reason}")
        sources = checked_sources(sources, graph.n_vertices)
        cupy = cupy_module()
        distances = pinned_array((len(sources), graph.n_vertices), graph.weight_dtype)
        metrics: list[SourceMetrics] = []
        if len(sources):
            with _gpu:
                try:
                    metrics = self._solve_in_turn(graph, sources, distances, options)
                except cupy.cuda.memory.OutOfMemoryError as error:
                    raise out_of_memory(f"what `{self.name}` needs beside the graph", error) from error
        if not options.predecessors:
            return Solution(distances, None, metrics)
        predecessors = np.empty(distances.shape, np.uint32)
        for i, source in enumerate(sources):
            predecessors_of(graph, int(source), distances[i], predecessors[i])
        return Solution(distances, predecessors, metrics)

    def _solve_in_turn(
        self, graph: CsrGraph, sources: np.ndarray, distances: np.ndarray, options: SolveOptions
    ) -> list[SourceMetrics]:
        """Fill `distances` and return the metrics, both in the order of `sources`."""
        searches = self.start_many(graph, device_graph(graph), options, len(sources))
        lanes = [_Lane(self.name, search, graph, options, len(searches)) for search in searches]
        cupy_module().cuda.get_current_stream().synchronize()  # the upload, before other streams use it
        metrics = []
        try:
            for i, source in enumerate(sources):
                lane = lanes[i % len(lanes)]
                if lane.is_busy:
                    metrics.append(lane.finish())
                lane.launch(int(source), distances[i])
            for i in range(len(sources), len(sources) + len(lanes)):
                metrics.append(lanes[i % len(lanes)].finish())
        finally:
            for lane in lanes:  # an error must not free what another search still writes to
                lane.stream.synchronize()
        return metrics


class _Lane:
    """One of the searches that are under way together: a stream, a row of distances on the device, its counts."""

    def __init__(
        self, name: str, search: GpuSearch, graph: CsrGraph, options: SolveOptions, share: int
    ) -> None:
        cupy = cupy_module()
        on_device = device_graph(graph)
        self._name, self._search, self._graph, self._share = name, search, graph, share
        self._row = cupy.empty(graph.n_vertices, bits_type(graph.weight_dtype))
        self._limit = limit_bits(graph.weight_dtype, options.cutoff)
        self._may_be_too_long = options.cutoff is None or options.cutoff > largest_distance(
            graph.weight_dtype
        )
        self._summariser = Summariser(on_device)
        self._began, self._ended = cupy.cuda.Event(), cupy.cuda.Event()
        self._source = -1
        self.stream = cupy.cuda.get_current_stream() if share == 1 else cupy.cuda.Stream(non_blocking=True)

    @property
    def is_busy(self) -> bool:
        return self._source >= 0

    def launch(self, source: int, into: np.ndarray) -> None:
        """Enqueue everything that writes the distances from `source` to `into` (V,)."""
        self._source = source
        with self.stream:
            self._began.record()
            self._search.launch(self._row, source)
            self._ended.record()
            self._summariser.launch(self._row, self._limit)
            self._row.get(out=into.view(self._row.dtype), blocking=False)

    def finish(self) -> SourceMetrics:
        """Wait for the source under way and return what it took; raises as `solve` does."""
        self.stream.synchronize()
        source, self._source = self._source, -1
        with self.stream:
            counts = self._search.finish()
            summary = self._summariser.finish()
            dtype = self._graph.weight_dtype
            furthest = np.array(summary["max_distance"]).astype(self._row.dtype).view(dtype).item()
            if self._may_be_too_long and furthest + self._graph.traits.max_weight > largest_distance(dtype):
                self._refuse_too_long(source)
        solve_s = cupy_module().cuda.get_elapsed_time(self._began, self._ended) / 1e3 / self._share
        return SourceMetrics(
            source=source,
            solver=self._name,
            solve_s=solve_s,
            vertices_processed=counts.vertices_processed,
            edges_relaxed=counts.edges_relaxed,
            reached=int(summary["reached"]),
            max_distance=furthest,
            teps=int(summary["edges_of_reached"]) / solve_s,
            delta_first=counts.delta_first,
            delta_last=counts.delta_last,
            delta_changes=counts.delta_changes,
            trace=counts.trace,
        )

    def _refuse_too_long(self, source: int) -> None:
        """Raise `PathTooLongError` if a vertex is left unreached only because its distance does not fit."""
        if (edge := self._summariser.first_edge_to_unreached(self._row)) is None:
            return
        dtype = self._graph.weight_dtype
        wider = wider_dtype(dtype)
        vertex = int(self._graph.col_indices[edge])
        raise PathTooLongError(source, vertex, dtype.name, wider.name if wider else None)


class Summariser:
    """Counts over a row of distances on the device (`summary.cu`)."""

    def __init__(self, graph: DeviceGraph) -> None:
        cupy = cupy_module()
        self._graph = graph
        self._kernels = load_kernels(SUMMARY, graph.dtype, wide_offsets=graph.wide_offsets)
        self._grid = {name: kernel.resident_blocks(_SUMMARY_BLOCK) for name, kernel in self._kernels.items()}
        self._words = cupy.empty(_SUMMARY.itemsize, np.uint8)

    def launch(self, row: Any, limit: np.generic) -> None:
        """Enqueue the counting, and the writing of "unreached" over distances at the limit."""
        self._words.data.memset_async(0, _SUMMARY.itemsize)
        name, n_vertices = "summary_kernel", np.uint32(self._graph.n_vertices)
        args = (self._graph.row_offsets, n_vertices, limit, row, self._words)
        self._kernels[name](self._grid[name], _SUMMARY_BLOCK, args)

    def finish(self) -> Any:
        """Return the counts: a record with the fields of `_SUMMARY`."""
        return self._words.get().view(_SUMMARY)[0]

    def first_edge_to_unreached(self, row: Any) -> int | None:
        """Return the first edge from a reached vertex to an unreached one, or None."""
        self._words.data.memset(0xFF, _SUMMARY.itemsize)
        name, n_vertices = "too_long_kernel", np.uint32(self._graph.n_vertices)
        self._kernels[name](
            self._grid[name], _SUMMARY_BLOCK, (*self._graph.args, n_vertices, row, self._words)
        )
        edge = int(self.finish()["first_edge"])
        return None if edge == 2**64 - 1 else edge


def bits_type(dtype: np.dtype) -> np.dtype:
    """Return the unsigned type in which the kernels keep distances of `dtype`."""
    return np.dtype(f"u{dtype.itemsize}")


def limit_bits(dtype: np.dtype, cutoff: float | None) -> np.generic:
    """Return the bits of `distance_limit`, as a kernel's argument."""
    return distance_limit(dtype, cutoff).view(bits_type(dtype))


def delta_bits(dtype: np.dtype, delta: float) -> tuple[np.generic, float]:
    """Return the bits of `delta` in the weights' type, at least its smallest step, and the delta they stand for."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        value = dtype.type(min(max(delta, float(info.tiny)), float(info.max)))
        return value.view(bits_type(dtype)), float(value)
    whole = min(max(round(delta), 1) if math.isfinite(delta) else 1, int(unreached_distance(dtype)) - 1)
    return bits_type(dtype).type(whole), float(whole)


def pinned_array(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """Return uninitialised host memory that the GPU copies to at full speed, or plain memory if there is none left.

    It goes back to CuPy's pool when the array and all its views are gone.
    """
    cupy = cupy_module()
    count = shape[0] * shape[1]
    if count == 0:
        return np.empty(shape, dtype)
    try:
        memory = cupy.cuda.alloc_pinned_memory(count * dtype.itemsize)
    except cupy.cuda.runtime.CUDARuntimeError:
        return np.empty(shape, dtype)
    return np.frombuffer(memory, dtype, count).reshape(shape)


def largest_grid(kernel: Kernel, block: int, most: int | None = None) -> int:
    """Return how many blocks a cooperative launch may have: those that fit, at most `most`."""
    fits = kernel.resident_blocks(block)
    return fits if most is None else min(fits, most)
