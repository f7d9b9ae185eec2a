"""What the GPU solvers share: everything around a search.

`GpuSolver` checks the request and adds predecessors; `Summariser` counts what came of a search and refuses a shortest
path that the type cannot hold. `GpuSearchSolver` is for searches over one row of distances on the device: it times
each by CUDA events (a share if they run together) and copies the row to pinned host memory. Searches from many
sources at once are in `_gpu_batch.py`.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits, unreached_distance, wider_dtype
from sssp_pipeline.errors import InputError, PathTooLongError, SsspError
from sssp_pipeline.kernels import johnson
from sssp_pipeline.kernels._compile import Kernel, Unit, cupy_module, gpu_missing, load_kernels
from sssp_pipeline.kernels._cpu import checked_targets, checked_vertices
from sssp_pipeline.kernels._device_graph import (
    DeviceGraph,
    device_graph,
    drop_others,
    out_of_memory,
)
from sssp_pipeline.kernels._mean import mean_distances
from sssp_pipeline.kernels._queue_search import refuse_too_short
from sssp_pipeline.kernels._search import finish_row
from sssp_pipeline.kernels._views import distance_limit, from_words, largest_distance, to_words
from sssp_pipeline.kernels.predecessors import predecessors_of
from sssp_pipeline.kernels.solver import MetricsColumns, Solution, SolveOptions, SourceMetrics
from sssp_pipeline.kernels.tuning import Tunable

#: One call at a time computes on a process's GPU: each takes the whole device.
GPU_LOCK = threading.Lock()


class Holding:
    """Calls that hold memory of the device without `GPU_LOCK`; all is read and written under it."""

    n_calls = 0
    #: Told when a call gives back the memory it took.
    given_back = threading.Condition(GPU_LOCK)


def graph_on_device(graph: CsrGraph) -> DeviceGraph:
    """Return the `device_graph`, after waiting for calls that hold the room it needs; raises as that does."""
    while True:
        try:
            return device_graph(graph)
        except SsspError:
            if not Holding.n_calls:
                raise
        Holding.given_back.wait()


_SUMMARY = np.dtype(
    [
        ("reached", "u8"),
        ("edges_of_reached", "u8"),
        ("max_distance", "u8"),
        ("sum_lower", "u8"),
        ("sum_upper", "u8"),
        ("first_edge", "u8"),
    ]
)
_SUMMARY_BLOCK = 256
_GATHER_BLOCK = 256

SUMMARY = Unit("summary", ("summary_kernel", "sum_kernel", "too_long_kernel"))
GATHER = Unit("gather", ("gather_kernel",))


@dataclass(frozen=True)
class SearchCounts:
    """What a search took, or of a search from n sources what each took, (n,) or the same for all.

    `delta_last` and `delta_changes` are those of a solver that adapts it. `trace` is (M,) of `TRACE` where the options
    ask for one.
    """

    vertices_processed: int | np.ndarray
    edges_relaxed: int | np.ndarray
    delta_first: float | None = None
    delta_last: float | np.ndarray | None = None
    delta_changes: int | np.ndarray = 0
    supersteps: int | None = None
    filter_s: float | None = None
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
    """A solver on one GPU."""

    name: str
    device = "gpu"
    summary: str
    tunables: tuple[Tunable, ...] = ()
    #: Whether its search takes negative weights; others get reweighted edges (`johnson.py`).
    takes_negative = False
    #: Whether a search records a trace where the options ask for one.
    records_traces = False

    @property
    @abstractmethod
    def units(self) -> tuple[Unit, ...]:
        """What it compiles besides `SUMMARY`, `GATHER` and `UPLOAD`."""

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why not: negative weights, or a trace that it does not record."""
        if (reason := johnson.refusal(graph, options, self.takes_negative)) is not None:
            return reason
        return None if self.records_traces else options.no_trace

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
            There is no GPU here; the graph or the options are not supported; a source or a target is not in the graph;
            a shortest path within the cutoff is longer than the type holds.
        SsspError
            The GPU's memory is too small, or a search was given up.
        """
        if (reason := self.supports(graph.traits, options) or gpu_missing()) is not None:
            raise InputError(f"solver `{self.name}` cannot solve this: {reason}")
        sources = checked_vertices(sources, graph.n_vertices, "source")
        targets = checked_targets(options, graph.n_vertices)
        options = replace(options, targets=targets)
        if graph.traits.min_weight < 0 and not self.takes_negative:
            return johnson.solve(self, graph, sources, options)
        cupy = cupy_module()
        n_columns = graph.n_vertices if targets is None else len(targets)
        distances = pinned_array((len(sources), n_columns), graph.weight_dtype)
        metrics: Sequence[SourceMetrics] = []
        if len(sources):
            while True:
                try:
                    metrics = self._solve_in_turn(graph, sources, distances, options)
                    break
                except cupy.cuda.memory.OutOfMemoryError as error:
                    if not drop_others(graph):
                        raise out_of_memory(f"what `{self.name}` needs beside the graph", error) from error
        if not options.predecessors:
            return Solution(distances, None, metrics)
        predecessors = np.empty(distances.shape, np.uint32)
        for i, source in enumerate(sources):
            predecessors_of(graph, int(source), distances[i], predecessors[i])
        return Solution(distances, predecessors, metrics)

    @abstractmethod
    def _solve_in_turn(
        self, graph: CsrGraph, sources: np.ndarray, distances: np.ndarray, options: SolveOptions
    ) -> Sequence[SourceMetrics]:
        """Fill `distances` and return the metrics, both in the order of `sources`; takes `GPU_LOCK` itself.

        `sources` and the targets of `options` are checked.
        """


class GpuSearchSolver(GpuSolver):
    """A solver by searches from one source: it has the whole device, or shares it with others of the same call."""

    @abstractmethod
    def start(self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions) -> GpuSearch:
        """Return a search over a graph with scratch memory of its own, kernels compiled."""

    def start_many(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> list[GpuSearch]:
        """Return the searches that are to share the GPU, 1 to `n_sources`; together they must be resident."""
        del n_sources
        return [self.start(graph, on_device, options)]

    def _solve_in_turn(
        self, graph: CsrGraph, sources: np.ndarray, distances: np.ndarray, options: SolveOptions
    ) -> list[SourceMetrics]:
        if graph.traits.min_weight < 0:
            return self._solve_signed(graph, sources, distances, options)
        with GPU_LOCK:
            searches = self.start_many(graph, graph_on_device(graph), options, len(sources))
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

    def _solve_signed(
        self, graph: CsrGraph, sources: np.ndarray, distances: np.ndarray, options: SolveOptions
    ) -> list[SourceMetrics]:
        """Solve a graph with negative weights, source by source; what comes of a search is counted on the host."""
        cupy = cupy_module()
        metrics = []
        with GPU_LOCK:
            search = self.start(graph, graph_on_device(graph), options)
            on_device = cupy.empty(graph.n_vertices, bits_type(graph.weight_dtype))
            began, ended = cupy.cuda.Event(), cupy.cuda.Event()
            for source, into in zip(sources.tolist(), distances, strict=True):
                began.record()
                search.launch(on_device, source)
                ended.record()
                row = from_words(on_device.get(), graph.weight_dtype)
                counts = search.finish()
                refuse_too_short(graph, source, row)
                facts = finish_row(graph, source, row, options.cutoff)
                into[:] = row if options.targets is None else row[options.targets]
                solve_s = cupy.cuda.get_elapsed_time(began, ended) / 1e3
                metrics.append(
                    SourceMetrics(
                        source=source,
                        solver=self.name,
                        solve_s=solve_s,
                        vertices_processed=int(counts.vertices_processed),
                        edges_relaxed=int(counts.edges_relaxed),
                        reached=facts.reached,
                        max_distance=facts.max_distance,
                        mean_distance=facts.mean_distance,
                        teps=facts.edges_of_reached / solve_s,
                        supersteps=counts.supersteps,
                        filter_s=counts.filter_s,
                    )
                )
        return metrics


class _Lane:
    """One of the searches that are under way together: a stream, a row of distances on the device, its counts."""

    def __init__(
        self, name: str, search: GpuSearch, graph: CsrGraph, options: SolveOptions, share: int
    ) -> None:
        cupy = cupy_module()
        self._name, self._search, self._share = name, search, share
        self._rows = cupy.empty((1, graph.n_vertices), bits_type(graph.weight_dtype))
        self._summariser = Summariser(name, graph, options, 1)
        self._columns = Columns(graph, options, 1)
        self._began, self._ended = cupy.cuda.Event(), cupy.cuda.Event()
        self._source = -1
        self.stream = cupy.cuda.get_current_stream() if share == 1 else cupy.cuda.Stream(non_blocking=True)

    @property
    def is_busy(self) -> bool:
        return self._source >= 0

    def launch(self, source: int, into: np.ndarray) -> None:
        """Enqueue everything that writes the distances from `source` to `into` (V,), or (T,) with targets."""
        self._source = source
        with self.stream:
            self._began.record()
            self._search.launch(self._rows[0], source)
            self._ended.record()
            self._summariser.launch(self._rows)
            copy_to_host(self._columns.of(self._rows), into[np.newaxis])

    def finish(self) -> SourceMetrics:
        """Wait for the source under way and return what it took; raises as `solve` does."""
        self.stream.synchronize()
        sources, self._source = np.array([self._source]), -1
        with self.stream:
            counts = self._search.finish()
            summaries = self._summariser.finish(self._rows, sources)
        solve_s = cupy_module().cuda.get_elapsed_time(self._began, self._ended) / 1e3 / self._share
        return replace(self._summariser.metrics(sources, counts, summaries, solve_s)[0], trace=counts.trace)


class Columns:
    """What is copied of up to `n_rows` rows on the device: the targets' columns, laid side by side, or all."""

    def __init__(self, graph: CsrGraph, options: SolveOptions, n_rows: int) -> None:
        self._gathered: Any = None
        if options.targets is None:
            return
        cupy = cupy_module()
        dtype = graph.weight_dtype
        self._kernel = load_kernels(GATHER, dtype)["gather_kernel"]
        self._targets = cupy.empty(len(options.targets), np.uint32)
        self._targets.set(options.targets)
        self._gathered = cupy.empty((n_rows, len(options.targets)), bits_type(dtype))

    def of(self, rows: Any) -> Any:
        """Enqueue the gathering from `rows` (n, V); return the device array (n, T) that will hold it, or `rows`."""
        if self._gathered is None:
            return rows
        gathered = self._gathered[: len(rows)]
        if gathered.size:
            n_vertices, n_targets = np.uint32(rows.shape[1]), np.uint32(gathered.shape[1])
            args = (rows, n_vertices, self._targets, n_targets, np.uint64(gathered.size), gathered)
            self._kernel(min(-(-gathered.size // _GATHER_BLOCK), 2**16), _GATHER_BLOCK, args)
        return gathered


def copy_to_host(rows: Any, into: np.ndarray, stream: Any = None) -> None:
    """Enqueue the copy of `rows` (n, T) to `into` (n, T), host memory, on `stream` or else the current one."""
    if rows.size:
        rows.get(stream=stream, out=into.view(rows.dtype), blocking=False)


class Summariser:
    """What came of up to `n_rows` searches, counted over their rows on the device (`summary.cu`)."""

    def __init__(self, name: str, graph: CsrGraph, options: SolveOptions, n_rows: int) -> None:
        cupy = cupy_module()
        dtype = graph.weight_dtype
        self._name, self._graph, self._on_device = name, graph, device_graph(graph)
        self._limit = limit_bits(dtype, options.cutoff)
        self._may_be_too_long = options.cutoff is None or options.cutoff > largest_distance(dtype)
        self._kernels = load_kernels(SUMMARY, dtype, wide_offsets=self._on_device.wide_offsets)
        self._grid = {name: kernel.resident_blocks(_SUMMARY_BLOCK) for name, kernel in self._kernels.items()}
        self._words = cupy.empty(n_rows * _SUMMARY.itemsize, np.uint8)

    def launch(self, rows: Any) -> None:
        """Enqueue the counting over `rows` (n, V), and the writing of "unreached" over distances at the limit."""
        n_rows, n_vertices = rows.shape
        self._words.data.memset_async(0, n_rows * _SUMMARY.itemsize)
        most_blocks = -(-n_vertices // _SUMMARY_BLOCK)
        to_count = (self._on_device.row_offsets, np.uint32(n_vertices), self._limit)
        for name, args in (("summary_kernel", to_count), ("sum_kernel", (np.uint32(n_vertices),))):
            blocks_a_row = max(1, min(self._grid[name] // n_rows, most_blocks))
            self._kernels[name](
                n_rows * blocks_a_row, _SUMMARY_BLOCK, (*args, np.uint32(blocks_a_row), rows, self._words)
            )

    def finish(self, rows: Any, sources: np.ndarray) -> np.ndarray:
        """Wait for the counting over `rows`, and return the counts: (n,) records with the fields of `_SUMMARY`.

        Raises
        ------
        PathTooLongError
            From one of `sources` (n,), the first such, a shortest path within the cutoff does not fit the type.
        """
        summaries = self._words[: len(sources) * _SUMMARY.itemsize].get().view(_SUMMARY)
        if self._may_be_too_long:
            dtype = self._graph.weight_dtype
            # Where the sum of the two is no larger than this, no sum that was ever formed was too large.
            most = largest_distance(dtype) - self._graph.traits.max_weight
            for i, furthest in enumerate(self._furthest(summaries).tolist()):
                if furthest > most:
                    self._refuse_too_long(rows[i], int(sources[i]))
        return summaries

    def metrics(
        self, sources: np.ndarray, counts: SearchCounts, summaries: np.ndarray, solve_s: float
    ) -> MetricsColumns:
        """Return the metrics of searches from `sources` (n,) that took `solve_s` each, without their traces."""
        reached, furthest = summaries["reached"], summaries["max_distance"]
        lower, upper = summaries["sum_lower"], summaries["sum_upper"]
        return MetricsColumns(
            {
                "source": sources,
                "solver": self._name,
                "solve_s": solve_s,
                "vertices_processed": counts.vertices_processed,
                "edges_relaxed": counts.edges_relaxed,
                "reached": reached,
                "max_distance": self._furthest(summaries),
                "mean_distance": mean_distances(self._graph.weight_dtype, lower, upper, furthest, reached),
                "teps": summaries["edges_of_reached"] / solve_s,
                "delta_first": counts.delta_first,
                "delta_last": counts.delta_last,
                "delta_changes": counts.delta_changes,
                "supersteps": counts.supersteps,
                "filter_s": counts.filter_s,
                "trace": None,
            }
        )

    def _furthest(self, summaries: np.ndarray) -> np.ndarray:
        """Return the largest finite distance (n,) of each row."""
        dtype = self._graph.weight_dtype
        return summaries["max_distance"].astype(bits_type(dtype)).view(dtype)

    def _refuse_too_long(self, row: Any, source: int) -> None:
        """Raise `PathTooLongError` if a vertex is left unreached only because its distance does not fit."""
        self._words.data.memset_async(0xFF, _SUMMARY.itemsize)
        name, n_vertices = "too_long_kernel", np.uint32(self._graph.n_vertices)
        self._kernels[name](
            self._grid[name], _SUMMARY_BLOCK, (*self._on_device.args, n_vertices, row, self._words)
        )
        edge = int(self._words[: _SUMMARY.itemsize].get().view(_SUMMARY)[0]["first_edge"])
        if edge == 2**64 - 1:
            return
        dtype = self._graph.weight_dtype
        wider = wider_dtype(dtype)
        vertex = int(self._graph.col_indices[edge])
        raise PathTooLongError(int(source), vertex, dtype.name, wider.name if wider else None)


def pinned_array(shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
    """Return uninitialised host memory that the GPU copies at full speed, or plain memory if there is none left.

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


def bits_type(dtype: np.dtype) -> np.dtype:
    """Return the unsigned type in which the kernels keep distances of `dtype`."""
    return np.dtype(f"u{dtype.itemsize}")


def limit_bits(dtype: np.dtype, cutoff: float | None) -> np.generic:
    """Return the bits of `distance_limit`, as a kernel's argument."""
    return distance_limit(dtype, cutoff).view(bits_type(dtype))


def search_limit(dtype: np.dtype, cutoff: float | None, signed: bool) -> np.generic:
    """Return the word of the limit of a search, as a kernel's argument.

    Where weights are negative it is that of "unreached", since a path may go beyond the cutoff and come back.
    """
    if not signed:
        return limit_bits(dtype, cutoff)
    word: np.generic = to_words(np.array([unreached_distance(dtype)]))[0]
    return word


def delta_bits(dtype: np.dtype, delta: float) -> tuple[np.generic, float]:
    """Return the bits of `delta` in the weights' type, at least its smallest step, and the delta they stand for."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        value = dtype.type(min(max(delta, float(info.tiny)), float(info.max)))
        return value.view(bits_type(dtype)), float(value)
    whole = min(max(round(delta), 1) if math.isfinite(delta) else 1, int(unreached_distance(dtype)) - 1)
    return bits_type(dtype).type(whole), float(whole)


def largest_grid(kernel: Kernel, block: int, most: int | None = None) -> int:
    """Return how many blocks a cooperative launch may have: those that fit, at most `most`."""
    fits = kernel.resident_blocks(block)
    return fits if most is None else min(fits, most)
