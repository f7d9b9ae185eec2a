"""The base of the GPU solvers of many sources at once: it waits for memory and cuts a call into device batches.

Up to three calls of a process hold device memory, so that a batch of the next call is enqueued before the last batch of
this call is over. `batch_pipeline.py` solves the batches of a call.
"""

from __future__ import annotations

import math
import traceback
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.kernels.contract.kept import EveryVertex
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked, RowSums
from sssp_pipeline.kernels.contract.solver import Parts, Solution, SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import load_ahead
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import DeviceGraph, drop_others, free_bytes
from sssp_pipeline.kernels.gpu.common.rows.facts_on_device import facts_bytes
from sssp_pipeline.kernels.gpu.common.rows.kept_on_device import over_sources_on_device
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import PathSumsOnDevice, path_sums_unit
from sssp_pipeline.kernels.gpu.common.rows.second_costs_on_device import SECOND_COSTS, SecondCostsOnDevice
from sssp_pipeline.kernels.gpu.common.solvers.batch_pipeline import Buffer, WordsOfParts, solve_batches
from sssp_pipeline.kernels.gpu.common.solvers.batch_search import BatchNeeds, BatchSearch
from sssp_pipeline.kernels.gpu.common.solvers.costs_of_rows import CostsOfRows
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GPU_LOCK, GpuSolver, Holding, graph_on_device
from sssp_pipeline.kernels.gpu.common.solvers.paths_of_parts import PathsOfParts
from sssp_pipeline.kernels.host.second_costs import SecondCosts
from sssp_pipeline.kernels.host.solver import accumulator_of

#: A call takes at most 1 / `_SHARE` of the free memory, since another thread may call too. A call that does not fit
#: that share takes all.
_SHARE = 2
#: Device memory for the counts of a source, rounded up.
_SUMMARY_BYTES = 512
#: The most calls of a process that hold device memory: one solves, one is enqueued behind it, and one copies its rows.
#: With sums along paths, no rows are copied, and a call takes half of the memory for the sums.
_MOST_CALLS, _MOST_WITH_PATHS = 3, 1


class GpuBatchSolver(GpuSolver):
    """A solver of many sources at once on one GPU."""

    accumulates_parts = True
    leaves_rows = True
    sums_rows = True
    sums_costs = True

    @abstractmethod
    def needs(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchNeeds:
        """Return the needs of a batch search over `graph` in a call with `n_sources`."""

    @abstractmethod
    def start_batch(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> BatchSearch:
        """Return a search from up to `n_sources` at once, with its own scratch memory, and its kernels compiled.

        Its launches follow each other on one stream, so they may share that memory.
        """

    def _attempt(
        self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions, ends: Sequence[int]
    ) -> Parts:
        n_columns, dtype = options.kept.n_columns(graph.n_vertices), options.kept.dtype(graph.weight_dtype)

        def rows_of(first: int, end: int) -> Any:
            if options.into is not None:
                return options.into[first:end]
            return self.empty_rows((end - first, n_columns), dtype)

        costs = SecondCosts(graph, options.along) if options.along else None
        if not len(sources):
            accumulator, sums = accumulator_of(graph, options), options.kept.path_sums(graph)
            words = None if accumulator is None else accumulator.words
            path_words = None if sums is None else sums.part_words
            n_costs, along = options.kept.n_costs(graph.n_vertices), costs.dtypes if costs is not None else ()
            none_along = tuple(np.empty((0, n_costs), dtype) for dtype in along)
            yield Solution(rows_of(0, 0), None, over_sources=words, path_words=path_words, along=none_along)
            return
        if costs is not None:
            load_ahead([SECOND_COSTS], graph.weight_dtype)
        if (asked := _asked_of_rows(options)) is not None:
            load_ahead([path_sums_unit(asked)], graph.weight_dtype)
        search, buffers = self._with_memory(graph, lambda: self._begin(graph, sources, options, ends, costs))
        try:
            rest = yield from solve_batches(search, buffers, sources, ends, rows_of)
        except BaseException as error:
            # The frames would keep the memory for as long as the error is kept.
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            del search, buffers  # frees their memory before waiting calls are notified
            with GPU_LOCK:
                Holding.n_calls -= 1
                Holding.given_back.notify_all()
        yield from rest

    def _begin(
        self,
        graph: CsrGraph,
        sources: np.ndarray,
        options: SolveOptions,
        ends: Sequence[int],
        costs: SecondCosts | None,
    ) -> tuple[BatchSearch, list[Buffer]]:
        """Return a search and its buffers, after waiting for calls that hold the memory it needs."""
        with GPU_LOCK:  # no other call takes the memory that was found free
            while Holding.n_calls >= (_MOST_CALLS if _asked_of_rows(options) is None else _MOST_WITH_PATHS):
                Holding.given_back.wait()
            on_device = graph_on_device(graph)
            paths = self._paths(graph, on_device, sources, options, ends)
            along = None if costs is None else self._costs(graph, on_device, costs, options, len(sources))
            least = 0 if paths is None else paths.n_rows
            size, n_buffers = self._wait_for_room(graph, on_device, options, len(sources), least)
            search = self.start_batch(graph, on_device, _of_search(options), size)
            over = options.kept.over_sources
            words = None
            if over is not None:
                on_words = over_sources_on_device(over, graph.traits, sources, search.lane_bits)
                words = WordsOfParts(on_words, ends)
            of_buffer = self.name, search, graph, options, size, words, paths, along
            buffers = [Buffer(*of_buffer) for _ in range(n_buffers)]
            Holding.n_calls += 1
            return search, buffers

    def _paths(
        self,
        graph: CsrGraph,
        on_device: DeviceGraph,
        sources: np.ndarray,
        options: SolveOptions,
        ends: Sequence[int],
    ) -> PathsOfParts | None:
        """Return what sums along the paths of rows; None if nothing does. It raises as `_wait_for_room`."""
        asked = _asked_of_rows(options)
        if asked is None:
            return None
        needs, row_bytes = self._all_needs(graph, on_device, options, 1)
        reserved = needs.fixed_bytes + needs.bytes_a_source + _SUMMARY_BYTES + row_bytes
        of_sums = graph, asked, len(sources), reserved, len(ends)
        while (sums := PathSumsOnDevice(*of_sums)).size is None:
            if not drop_others(graph):
                raise self._does_not_fit(reserved + 2 * asked.device_bytes(graph.n_vertices, graph.n_edges))

        def on_host() -> RowSums:
            of_part = options.kept.path_sums(graph)
            assert of_part is not None, "something is summed along the paths"
            return of_part

        return PathsOfParts(sums, sources, ends, on_host)

    def _costs(
        self,
        graph: CsrGraph,
        on_device: DeviceGraph,
        costs: SecondCosts,
        options: SolveOptions,
        n_sources: int,
    ) -> CostsOfRows:
        """Return what sums second costs. It waits and raises as `_wait_for_room`."""
        while (sums := SecondCostsOnDevice(on_device, costs, options.kept, n_sources)).size is None:
            if drop_others(graph):
                continue
            if not Holding.n_calls:
                needs, row_bytes = self._all_needs(graph, on_device, options, n_sources)
                raise self._does_not_fit(
                    needs.fixed_bytes + needs.bytes_a_source + row_bytes + sums.slot_bytes
                )
            Holding.given_back.wait()
        return CostsOfRows(graph, options.kept, costs, sums)

    def _wait_for_room(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int, least: int
    ) -> tuple[int, int]:
        """Return the `device_batch` of a call, after waiting for calls that hold the memory it needs.

        It has at least so many sources, if there is memory for them.

        Raises
        ------
        SsspError
            Not even one source fits.
        """
        needs, row_bytes = self._all_needs(graph, on_device, options, n_sources)
        needs = replace(needs, full=max(needs.full, least))
        while (batch := _fitting(n_sources, row_bytes, needs))[0] == 0:
            if drop_others(graph):
                continue
            if not Holding.n_calls:
                raise self._does_not_fit(needs.fixed_bytes + needs.bytes_a_source + row_bytes)
            Holding.given_back.wait()
        return batch

    def _all_needs(
        self, graph: CsrGraph, on_device: DeviceGraph, options: SolveOptions, n_sources: int
    ) -> tuple[BatchNeeds, int]:
        """Return the memory `needs` with two buffers for results, and the bytes of a row."""
        needs, kept = self.needs(graph, on_device, _of_search(options), n_sources), options.kept
        kept_bytes = kept.device_bytes(graph.n_vertices, graph.weight_dtype)
        kept_bytes += facts_bytes(kept.n_columns(graph.n_vertices))
        kept_bytes += 8 * len(options.along) * kept.n_costs(graph.n_vertices)
        needs = replace(
            needs,
            fixed_bytes=needs.fixed_bytes + 2 * kept.fixed_device_bytes(graph.n_vertices),
            bytes_a_source=needs.bytes_a_source + 2 * kept_bytes,
        )
        return needs, graph.n_vertices * graph.weight_dtype.itemsize if needs.has_rows else 0

    def _does_not_fit(self, needed: int) -> SsspError:
        return SsspError(
            f"one source of `{self.name}` does not fit the GPU beside the graph: it takes "
            f"{needed / 2**20:,.0f} MiB and {free_bytes() / 2**20:,.0f} are free",
            hint="`near-far` and `adds` take less; `delta-stepping` needs no GPU",
        )


def _of_search(options: SolveOptions) -> SolveOptions:
    """Return the options of a search. Second costs need whole rows: paths lead through other vertices."""
    return replace(options, kept=EveryVertex(), along=()) if options.along else options


def _asked_of_rows(options: SolveOptions) -> PathSumsAsked | None:
    """Return what is summed along the paths of rows; None if nothing is."""
    asked = options.kept.paths
    return None if asked is None or asked.on_hierarchy else asked


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
