"""Counts of the results of a search, made of rows of distances on the device (`summary.cu`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, largest_distance
from sssp_pipeline.base.errors import PathTooLongError
from sssp_pipeline.kernels.contract.solver import MetricsColumns, SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import HEADERS, struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type, limit_bits
from sssp_pipeline.kernels.gpu.common.rows.transfers import fetch
from sssp_pipeline.kernels.host.mean import mean_distances
from sssp_pipeline.kernels.host.search import path_error

_SUMMARY = struct_type(HEADERS / "summary.cuh", "Summary")
_SUMMARY_BLOCK = 256

SUMMARY = Unit("summary", ("summary_kernel", "too_long_kernel"), of_floats=("sum_kernel",))


@dataclass(frozen=True)
class SearchCounts:
    """Counts of a search, by their names in `SourceMetrics`; (n,) for a search from n sources, or one value for all.

    `delta_last` and `delta_changes` matter for a solver whose delta adapts. `trace` is (M,) of `TRACE` if the options
    ask for a trace.
    """

    vertices_processed: int | np.ndarray
    edges_relaxed: int | np.ndarray
    delta_first: float | None = None
    delta_last: float | np.ndarray | None = None
    delta_changes: int | np.ndarray = 0
    supersteps: int | None = None
    filter_s: float | None = None
    trace: np.ndarray | None = None


class Summariser:
    """Counts of the results of up to `n_rows` searches, made on the device (`summary.cu`)."""

    def __init__(self, name: str, graph: CsrGraph, options: SolveOptions, n_rows: int) -> None:
        cupy = cupy_module()
        dtype = graph.weight_dtype
        self._name, self._graph, self._on_device = name, graph, device_graph(graph)
        self._limit = limit_bits(dtype, options.cutoff)
        self._may_be_too_long = options.cutoff is None or options.cutoff > largest_distance(dtype)
        self._kernels = load_kernels(SUMMARY, dtype, wide_offsets=self._on_device.wide_offsets)
        self._grid = {name: kernel.resident_blocks(_SUMMARY_BLOCK) for name, kernel in self._kernels.items()}
        #: Device memory with the `Summary` of each row of the last launch.
        self.words = cupy.empty(n_rows * _SUMMARY.itemsize, np.uint8)
        self._fetched = np.empty(0, np.uint8)

    def launch(self, rows: Any) -> None:
        """Enqueue the counts of `rows` (n, V). Distances at the limit become "unreached"."""
        n_rows, n_vertices = rows.shape
        self.clear(n_rows)
        most_blocks = -(-n_vertices // _SUMMARY_BLOCK)
        to_count = (self._on_device.row_offsets, np.uint32(n_vertices), self._limit)
        for name, args in (("summary_kernel", to_count), ("sum_kernel", (np.uint32(n_vertices),))):
            if name not in self._kernels:
                continue
            blocks_a_row = max(1, min(self._grid[name] // n_rows, most_blocks))
            self._kernels[name](
                n_rows * blocks_a_row, _SUMMARY_BLOCK, (*args, np.uint32(blocks_a_row), rows, self.words)
            )

        self.fetch(n_rows)

    def clear(self, n_rows: int) -> None:
        """Set the counts of the first `n_rows` to zero, for a search that adds to them itself."""
        self.words.data.memset_async(0, n_rows * _SUMMARY.itemsize)

    def fetch(self, n_rows: int) -> None:
        """Enqueue the copy of the counts of the first `n_rows` to the host."""
        self._fetched = fetch(self.words[: n_rows * _SUMMARY.itemsize])

    def finish(self, row: Callable[[int], Any], sources: np.ndarray) -> np.ndarray:
        """Return the counts of the rows of the last launch, (n,) of `_SUMMARY`. The launch must be over.

        `row` returns one of these rows (V,), on the device.

        Raises
        ------
        PathTooLongError
            A shortest path within the cutoff is longer than the type holds. The error names the first such source of
            `sources` (n,).
        """
        summaries = self._fetched.view(_SUMMARY)
        if self._may_be_too_long:
            dtype = self._graph.weight_dtype
            # No distance above this: then no sum of a distance and a weight was too large for the type.
            most = largest_distance(dtype) - self._graph.traits.max_weight
            for i, furthest in enumerate(self._furthest(summaries).tolist()):
                if furthest > most:
                    self._refuse_too_long(row(i), int(sources[i]))
        return summaries

    def metrics(
        self, sources: np.ndarray, counts: SearchCounts, summaries: np.ndarray, solve_s: float
    ) -> MetricsColumns:
        """Return the metrics of searches from `sources` (n,) that took `solve_s` each. They have no traces."""
        reached, furthest = summaries["reached"], summaries["max_distance"]
        lower, upper = summaries["sum_lower"], summaries["sum_upper"]
        return MetricsColumns(
            {
                **vars(counts),
                "source": sources,
                "solver": self._name,
                "solve_s": solve_s,
                "reached": reached,
                "max_distance": self._furthest(summaries),
                "mean_distance": mean_distances(self._graph.weight_dtype, lower, upper, furthest, reached),
                "teps": summaries["edges_of_reached"] / solve_s,
                "trace": None,
            }
        )

    def _furthest(self, summaries: np.ndarray) -> np.ndarray:
        """Return the largest finite distance (n,) of each row."""
        dtype = self._graph.weight_dtype
        return summaries["max_distance"].astype(bits_type(dtype)).view(dtype)

    def _refuse_too_long(self, row: Any, source: int) -> None:
        """Raise `PathTooLongError` if a vertex is unreached only because its distance does not fit the type."""
        self.words.data.memset_async(0xFF, _SUMMARY.itemsize)
        name, n_vertices = "too_long_kernel", np.uint32(self._graph.n_vertices)
        self._kernels[name](
            self._grid[name], _SUMMARY_BLOCK, (*self._on_device.args, n_vertices, row, self.words)
        )
        edge = int(self.words[: _SUMMARY.itemsize].get().view(_SUMMARY)[0]["first_edge"])
        if edge == 2**64 - 1:
            return
        vertex = int(self._graph.col_indices[edge])
        raise path_error(PathTooLongError, self._graph.weight_dtype, int(source), vertex)
