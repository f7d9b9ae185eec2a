"""Calls whose answers need no rows: they follow from counts by depth, or from the distances to some targets.

Sources are searched in groups, in the order of their numbers. The host works on a group while the next one is searched.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.kept import Targets
from sssp_pipeline.kernels.contract.solver import MetricsColumns, SolveOptions
from sssp_pipeline.kernels.gpu.bits_gpu.device_bits import DeviceBits, Launched, Settings, named
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.rows.distance_bits import bits_type
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, fetch
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GPU_LOCK, graph_on_device
from sssp_pipeline.kernels.host.equal_weights import (
    Depths,
    joined_metrics,
    metrics_of_depths,
    targets_that_end,
)


def is_counted(options: SolveOptions) -> bool:
    """Return whether a call is solved here.

    What stays on the device, second costs, and what is kept over sources are made of rows.
    """
    kept = options.kept
    without_rows = kept.takes_counts or isinstance(kept, Targets)
    needs_rows = options.into is not None or options.along or kept.over_sources is not None
    return without_rows and not needs_rows


class LongPathError(Exception):
    """The source at `place` reaches vertices beyond the largest distance of the type."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


@dataclass(frozen=True, eq=False)
class _Group:
    """The results of a group of sources, in host memory."""

    places: np.ndarray
    depths: Depths
    #: (n_sources,) uint64
    edges: np.ndarray
    #: (n_sources, columns), or None.
    distances: np.ndarray | None
    solve_s: float


class CountedCall:
    """A call on `graph` that fills `into` (S, columns), host memory."""

    def __init__(
        self,
        settings: Settings,
        graph: CsrGraph,
        sources: np.ndarray,
        options: SolveOptions,
        into: np.ndarray,
    ) -> None:
        self._settings, self._graph, self._options = settings, graph, options
        self._sources, self._into = sources, into
        self._targets = options.kept.read_vertices if isinstance(options.kept, Targets) else None
        self._ends = targets_that_end(graph, options)

    def solve(self) -> MetricsColumns:
        """Solve all sources; return their metrics. It raises the errors of `Solver.solve`, and `LongPathError`."""
        order = np.argsort(self._sources, kind="stable")
        size = self._settings.n_lanes
        groups = [order[first : first + size] for first in range(0, len(order), size)]
        parts = []
        waiting: _Search | None = None
        with GPU_LOCK:
            on_device = graph_on_device(self._graph)
            search = DeviceBits(self._settings, self._graph, on_device, self._options, is_counted=True)
            try:
                sent_targets = None if self._targets is None else Sent(self._targets)
                for places in groups:
                    begun = _Search(self, search, places, sent_targets)
                    if waiting is not None:
                        parts.append(self._finished(waiting.group))
                    begun.wait()
                    waiting = begun
            except BaseException:  # no memory is freed that the device still uses
                cupy_module().cuda.get_current_stream().synchronize()
                raise
        assert waiting is not None
        parts.append(self._finished(waiting.group))
        return joined_metrics(self._settings.name, parts, order)

    def _finished(self, group: _Group) -> dict[str, np.ndarray]:
        """Write what is kept of a group, and return the metrics."""
        kept, depths = self._options.kept, group.depths
        if group.distances is not None:
            self._into[group.places] = group.distances
        elif self._into.shape[1]:
            words = np.empty((len(group.places), self._into.shape[1]), self._into.dtype)
            kept.reduce_counts(depths.distances, depths.counts, words)
            self._into[group.places] = words
        return metrics_of_depths(depths, self._sources[group.places], group.edges, group.solve_s)


class _Search:
    """The search from one group, under way."""

    def __init__(
        self, call: CountedCall, search: DeviceBits, places: np.ndarray, targets: Sent | None
    ) -> None:
        cupy = cupy_module()
        graph = call._graph
        self._call, self._search, self._places = call, search, places
        self._sources = call._sources[places]
        self._sent, self._targets = Sent(self._sources), targets
        if call._ends is not None:
            search.end_at(call._ends, self._sources)
        self._rows: Any = None
        on_device, n_columns = None, 0
        if targets is not None and call._targets is not None:
            on_device, n_columns = targets.on_device, len(call._targets)
            self._rows = cupy.empty((len(places), n_columns), bits_type(graph.weight_dtype))
        self._began, self._ended = cupy.cuda.Event(), cupy.cuda.Event()
        self._began_s = time.monotonic()
        self._began.record()
        self._launched = search.launch(self._sources, self._sent.on_device, self._rows, on_device, n_columns)
        self._finish_launch()
        #: After `wait`.
        self.group: _Group

    def _finish_launch(self) -> None:
        """Enqueue what follows a launch."""
        if self._rows is not None and self._rows.size:
            self._fetched = fetch(self._rows.reshape(-1).view(np.uint8))
        self._ended.record()

    def wait(self) -> None:
        """Wait for the search, and launch it again as long as it stops."""
        call, options = self._call, self._call._options
        depths = Depths(call._graph, options)
        while True:
            self._ended.synchronize()
            state = self._launched.state()
            which = named(self._sources)
            self._search.raise_if_given_up(state, which)
            self._add(depths, self._launched)
            if state["is_over"]:
                break
            left_ns = options.deadline_ns - int(1e9 * (time.monotonic() - self._began_s))
            if left_ns <= 0:
                raise DeadlineError(call._settings.name, which, options.deadline_s)
            self._launched = self._search.resume(self._launched, left_ns)
            self._finish_launch()
        solve_s = cupy_module().cuda.get_elapsed_time(self._began, self._ended) / 1e3
        edges = self._launched.edges_of_reached()
        distances = None
        if self._rows is not None:
            of_rows = self._fetched if self._rows.size else np.empty(0, np.uint8)
            distances = of_rows.view(call._graph.weight_dtype).reshape(self._rows.shape)
        self.group = _Group(self._places, depths, edges, distances, solve_s)

    def _add(self, depths: Depths, launched: Launched) -> None:
        """Add the depths of a launch. It raises `LongPathError` if one of them has no distance."""
        for counts in launched.counts():
            if depths.next_distance is not None:
                depths.add(counts)
            elif counts.any():
                raise LongPathError(int(self._places[np.flatnonzero(counts)].min()))
