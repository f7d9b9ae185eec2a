"""Breadth-first searches in the bits of rows, for equal weights: `bits_gpu.cu` explains them.

Answers that follow from counts by depth are made without rows of distances (`counted_calls.py`). For all others the
kernel writes rows, and the code of all batch solvers reduces or copies them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.kernels.contract.forecast import Forecast, levels
from sssp_pipeline.kernels.contract.solver import Parts, Solution, SolveOptions
from sssp_pipeline.kernels.gpu.bits_gpu.bit_edges import bit_edges
from sssp_pipeline.kernels.gpu.bits_gpu.counted_calls import CountedCall, LongPathError, is_counted
from sssp_pipeline.kernels.gpu.bits_gpu.device_bits import (
    LANES,
    DeviceBits,
    Settings,
    named,
    scratch_bytes,
)
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph, free_bytes
from sssp_pipeline.kernels.gpu.common.graphs.edge_lists import TRANSPOSE
from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent
from sssp_pipeline.kernels.gpu.common.solvers.batch_search import BatchNeeds, BatchSearch
from sssp_pipeline.kernels.gpu.common.solvers.batch_solver import GpuBatchSolver
from sssp_pipeline.kernels.host.equal_weights import refuse_long_path, why_not_equal

#: Words of a row that a thread may have.
WORDS_EACH = (1, 2, 4)
#: Threads of a block and blocks of a multiprocessor.
THREADS, BLOCKS_PER_SM = 384, 2
#: Seconds of a depth, and the rows of 1,024 sources that an H200 reads in a second. Rows of 4,096 take 2.2 times as
#: long. Fitted to eight graphs (`benchmarks/results/equal_weights_gpu.jsonl`).
_DEPTH_S, _ROWS_PER_S, _LONGER = 20e-6, 35e9, 0.4
#: Some sources have more depths than a look at some vertices shows.
_MORE_DEPTHS, _FIRST_DEPTHS = 1.3, 5
#: Seconds for each vertex and edge when edges are listed by target.
_VERTEX_S, _EDGE_S = 40e-9, 1e-9

_KERNELS = ("bits_gpu_search_kernel", "bits_gpu_edges_kernel", "bits_gpu_starts_kernel")


@dataclass(kw_only=True, eq=False)
class BitsGpu(GpuBatchSolver):
    """Groups of 1,024 to 4,096 sources, a bit each, a group over the whole GPU."""

    #: Words of a row that each thread of a warp has: 1, 2 or 4, for groups of 1,024, 2,048 or 4,096 sources. Without a
    #: number, as many as the sources of a call fill, if half of the free memory is enough; 1 where rows are written.
    words_each: int | None = None
    #: A vertex with more edges than this is a hub: several warps share its edges.
    item_edges: int = 256
    #: The vertices that the frontier reaches are marked if its edges are less than this part of all edges.
    mark_share: int = 16
    #: Depths that a launch counts before it stops and the next one goes on.
    most_counted: int = 1024
    #: A search in which a block waits longer than this at a barrier is given up. The longest depth takes far less.
    barrier_timeout_s: float = 30.0
    #: For tests: the barrier waits for this many blocks more than there are, and there are at most so many.
    absent_blocks: int = 0
    most_blocks: int | None = None

    name = "bits-gpu"
    summary = "Breadth-first searches in the bits of rows, up to 4,096 at a time; the fast one if all weights are equal"
    no_delta = "it has no buckets and takes no delta"
    takes_equal_only = True
    unites_sources = True

    def unit(self, words_each: int) -> Unit:
        """Return the unit of the kernels."""
        size = ("SSSP_THREADS", THREADS), ("SSSP_BLOCKS_PER_SM", BLOCKS_PER_SM)
        items = ("SSSP_ITEM_EDGES", self.item_edges), ("SSSP_MARK_SHARE", self.mark_share)
        macros = (*size, ("SSSP_WORDS_EACH", words_each), *items)
        return Unit("bits_gpu", _KERNELS, macros, cooperative=True)

    @property
    def units(self) -> tuple[Unit, ...]:
        widths = WORDS_EACH if self.words_each is None else (self.words_each,)
        return *(self.unit(words) for words in widths), TRANSPOSE

    def _settings(self, words_each: int) -> Settings:
        waits = self.barrier_timeout_s, self.absent_blocks, self.most_blocks
        sizes = THREADS, words_each, self.item_edges, self.most_counted
        return Settings(self.name, self.unit(words_each), *sizes, *waits)

    def _words_for(self, n_sources: int) -> int:
        """Return how many words of a row a thread has if there is memory for them."""
        if self.words_each is not None:
            return self.words_each
        return next((words for words in WORDS_EACH if n_sources <= words * LANES), WORDS_EACH[-1])

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        return super().supports(graph, options) or why_not_equal(graph)

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        words = self._words_for(n_sources)
        at_once = max(1, min(n_sources, words * LANES))
        n_vertices, n_edges = traits.n_vertices, traits.n_edges
        n_depths = _FIRST_DEPTHS + _MORE_DEPTHS * levels(traits)
        pull_s = (n_vertices + n_edges) / _ROWS_PER_S * (1 + _LONGER * (words - 1))
        search_s = n_depths * (_DEPTH_S + pull_s)
        # Three rows of bits for each vertex, which are shorter if memory is short, and the edges by target.
        scratch = n_vertices * (3 * LANES // 8 + 1) + 4 * n_vertices + 4 * n_edges
        return Forecast(
            search_s / at_once,
            n_vertices * traits.weight_dtype.itemsize,
            at_once,
            scratch,
            off_by=5.0,
            most_in_search=words * LANES,
            start_s=_VERTEX_S * n_vertices + _EDGE_S * n_edges,
        )

    def _attempt(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        if not len(sources) or not is_counted(options):
            yield from super()._attempt(graph, sources, options, ends)
            return
        kept = options.kept
        shape = len(sources), kept.n_columns(graph.n_vertices)
        into = self.empty_rows(shape, kept.dtype(graph.weight_dtype))
        words = self._words_for(len(sources))
        while (
            self.words_each is None
            and words > 1
            and 3 * LANES // 8 * words * graph.n_vertices > free_bytes() // 2
        ):
            words //= 2
        call = CountedCall(self._settings(words), graph, sources, options, into)
        try:
            metrics = self._with_memory(graph, call.solve)
        except LongPathError as error:
            refuse_long_path(self, graph, int(sources[error.place]))
            raise
        yield from Solution(into, None, metrics).parts(ends)

    def needs(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchNeeds:
        del graph, options, n_sources
        settings = self._settings(self.words_each or 1)
        # Made before the free memory is counted, as the graph is.
        edges = bit_edges(on_device, settings.unit, settings.item_edges)
        fixed = sum(scratch_bytes(settings, on_device, edges.n_hubs).values())
        return BatchNeeds(fixed, 64, settings.n_lanes)

    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        del n_sources
        settings = self._settings(self.words_each or 1)
        return _RowsSearch(DeviceBits(settings, graph, on_device, options, is_counted=False))


class _RowsSearch(BatchSearch):
    """Writes the rows of a batch, which is one group."""

    def __init__(self, search: DeviceBits) -> None:
        self._search = search

    def launch(self, rows: Any, sources: np.ndarray, summaries: Any) -> Callable[[], SearchCounts]:
        del summaries
        sent = Sent(sources)
        launched = self._search.launch(sources, sent.on_device, rows, n_columns=rows.shape[1])

        def counts(sent: Sent = sent) -> SearchCounts:  # `sent` has to be kept until here
            self._search.raise_if_given_up(launched.state(), named(sources))
            return SearchCounts(launched.counts()[0], launched.edges_of_reached())

        return counts
