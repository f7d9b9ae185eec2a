"""Searches in the bits of words: all weights are equal, so all searches go from depth to depth, many in step.

Returns the distances of every source, in the type of the weights.

The idea: `bit_search.py` searches from up to 512 sources together, and finds at each depth which vertices are new to
which source. How many they are tells the metrics and most answers (`host/equal_weights.py`). Distances are written only
if they are wanted, or an answer that depends on which vertices they belong to (`bit_outputs.py`).

Needs
    Weights that are all equal and above zero.
Keeps
    The edges by target of a graph, and the scratch memory of its threads, for all calls of this process, as long as the
    graph lives.

NOTE: a call searches from its sources in the order of their numbers. The numbers of neighbours are often near each
other, and then their searches share more.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits, unreached_distance
from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.contract.forecast import Forecast, depth
from sssp_pipeline.kernels.contract.kept import Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions, SourceMetrics
from sssp_pipeline.kernels.cpu.bit_outputs import Distances, OfVertices
from sssp_pipeline.kernels.cpu.bit_search import MOST_LANES, WORD_LANES, BitSearch, BothWays, words_for
from sssp_pipeline.kernels.host.equal_weights import (
    Depths,
    joined_metrics,
    metrics_of_depths,
    refuse_long_path,
    targets_that_end,
    why_not_equal,
)
from sssp_pipeline.kernels.host.kept_with_graph import kept_with_graph
from sssp_pipeline.kernels.host.row_memory import RowMemory
from sssp_pipeline.kernels.host.solver import WholeCall, WholeCalls

#: Loading these kernels takes so many seconds more than loading those of other searches. The second number is the
#: seconds for each vertex and edge when edges are listed by target.
_LOAD_S, _TRANSPOSE_S = 0.05, 10e-9
#: The most bytes of rows that a call holds to reduce them. With larger rows, fewer sources are searched together.
_SCRATCH_BYTES = 2**28


@dataclass(frozen=True, eq=False)
class _Prepared:
    """A graph for searches, shared by all threads."""

    edges: BothWays
    #: Scratch memory that no call uses now, and the memory of rows.
    idle: list[BitSearch] = field(default_factory=list)
    rows: RowMemory = field(default_factory=RowMemory)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def search(self, n_words: int) -> Iterator[BitSearch]:
        """Give the calling thread scratch memory with rows of `n_words`."""
        with self.lock:
            places = [i for i, one in enumerate(self.idle) if one.n_words == n_words]
            search = self.idle.pop(places[-1]) if places else None
        search = search or BitSearch(self.edges, n_words)
        yield search
        self.idle.append(search)


@kept_with_graph
def _prepared(graph: CsrGraph) -> _Prepared:
    """Return `graph` prepared for searches."""
    return _Prepared(BothWays.of(graph))


class Bits(WholeCalls):
    """The fastest CPU solver for many sources, if all weights are equal."""

    name = "bits"
    device = "cpu"
    summary = (
        "Breadth-first searches in the bits of words, 512 at a time; the fast one if all weights are equal"
    )
    no_delta = "it has no buckets and takes no delta"
    takes_equal_only = True
    unites_sources = True
    keeps_pace = False

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        return super().supports(graph, options) or why_not_equal(graph)

    def passed_over(self, options: SolveOptions) -> str | None:
        if options.cutoff is None or not options.kept.is_whole_row:
            return None
        return "it makes whole rows, and a cutoff may leave little of them"

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        lanes = max(1, min(n_sources, MOST_LANES))
        n_words, elements = words_for(lanes), traits.n_vertices + traits.n_edges
        # Fitted to 14 graphs (`benchmarks/kernel_constants.md`). Meshes and roads have even degrees and many depths.
        # Lower degrees mean more depths.
        degree = max(traits.n_edges, 1) / max(traits.n_vertices, 1)
        steps = depth(traits)
        ns = 25.0 + 0.25 * steps + 4.5 * steps**1.5 / (degree * traits.degree_skew**6)
        of_words, of_lanes = 0.12 + 0.11 * n_words, min(1.0, 0.3 + 0.7 * lanes / WORD_LANES)
        return Forecast(
            1e-9 * ns * elements * of_words * of_lanes / lanes,
            at_once=MOST_LANES,
            start_s=_LOAD_S + _TRANSPOSE_S * elements,
            host_bytes=4 * traits.n_edges + 8 * traits.n_vertices,
            call_bytes=(24 * n_words + 16) * traits.n_vertices,
            off_by=5.0,
        )

    def _rows(self, graph: CsrGraph, shape: tuple[int, int], dtype: np.dtype) -> np.ndarray:
        return _prepared(graph).rows.empty(shape, dtype)

    def _fill_rows(self, call: WholeCall) -> Sequence[SourceMetrics]:
        together = min(len(call.sources), _most_together(call))
        n_words = words_for(together)
        _compile(n_words, call.graph.weight_dtype)
        order = np.argsort(call.sources, kind="stable")
        with _prepared(call.graph).search(n_words) as search:
            parts = [
                self._solve_together(call, search, order[first : first + together])
                for first in range(0, len(order), together)
            ]
        return joined_metrics(self.name, parts, order)

    def _solve_together(self, call: WholeCall, search: BitSearch, places: np.ndarray) -> dict[str, Any]:
        """Solve the sources at `places` (n,) of `call`; return fields (n,) of their metrics.

        It raises the errors of `solve`.
        """
        graph, options, n = call.graph, call.options, len(places)
        began = time.perf_counter()
        sources = call.sources[places]
        depths, targets = Depths(graph, options), targets_that_end(call.graph, options)
        rows = _rows_to_reduce(call, n)
        outputs = _outputs(call, places, sources, rows)
        counts = search.start(sources)
        while counts.any():
            distance = depths.add(counts[:n])
            for output in outputs:
                output.add(search, distance)
            if targets is not None:
                targets = search.unfinished(targets)
            if search.is_over or (targets is not None and len(targets) == 0):
                break
            is_last = depths.next_distance is None
            if is_last and depths.is_limited:
                break
            counts = search.step()
            if is_last and counts.any():
                place = int(places[np.flatnonzero(counts)].min())
                refuse_long_path(self, graph, int(call.sources[place]))
        if options.kept.takes_counts:
            into = np.empty((n, call.distances.shape[1]), call.distances.dtype)
            options.kept.reduce_counts(depths.distances, depths.counts, into)
            call.distances[places] = into
        sums_s = 0.0
        for place, source, row in zip(places.tolist(), sources.tolist(), rows, strict=False):
            sums_s += call.reduce(row, source, call.distances[place])
        edges = search.edges_of_reached()[:n]
        solve_s = time.perf_counter() - began - sums_s
        if solve_s > options.deadline_s:
            raise DeadlineError(self.name, int(sources[0]), options.deadline_s)
        return metrics_of_depths(depths, sources, edges, solve_s)


def _most_together(call: WholeCall) -> int:
    """Return how many sources of `call` are searched together."""
    if not _is_reduced(call):
        return MOST_LANES
    row_bytes = call.graph.n_vertices * call.graph.weight_dtype.itemsize
    return max(1, min(MOST_LANES, _SCRATCH_BYTES // row_bytes))


def _is_reduced(call: WholeCall) -> bool:
    """Return whether something is kept that is made of whole rows."""
    kept = call.options.kept
    return not (kept.is_whole_row or kept.takes_counts or isinstance(kept, Targets))


def _rows_to_reduce(call: WholeCall, n: int) -> np.ndarray:
    """Return `n` rows of "unreached" distances, or none if no row is reduced."""
    graph = call.graph
    shape = n if _is_reduced(call) else 0, graph.n_vertices
    rows = _prepared(graph).rows.empty(shape, graph.weight_dtype)
    rows.fill(unreached_distance(graph.weight_dtype))
    return rows


def _outputs(
    call: WholeCall, places: np.ndarray, sources: np.ndarray, rows: np.ndarray
) -> list[Distances | OfVertices]:
    """Return what takes the new vertices of each depth, from the `sources` at `places`, or writes them to `rows`."""
    kept, outputs = call.options.kept, list[Distances | OfVertices]()
    if call.accumulator is not None:
        outputs.append(OfVertices(call.accumulator, sources))
    if len(rows):
        outputs.append(Distances(rows, np.arange(len(rows)), kept.read_vertices))
    elif not kept.takes_counts:
        call.distances[places] = unreached_distance(call.graph.weight_dtype)
        targets = kept.read_vertices
        columns = None if targets is None else np.arange(len(targets), dtype=np.uint32)
        outputs.append(Distances(call.distances, places, targets, columns))
    return outputs


@cache
def _compile(n_words: int, dtype: np.dtype) -> None:
    """Compile the kernels for rows of `n_words`, so that the time of the first sources does not include it."""
    offsets, path = np.minimum(np.arange(8), 6), np.arange(1, 7, dtype=np.uint32)
    graph = CsrGraph(offsets, path, np.ones(6, dtype))
    search = BitSearch(BothWays.of(graph), n_words)
    search.start(np.zeros(1, np.uint32))
    writer = Distances(np.empty((1, 7), dtype), np.zeros(1, np.uint32))
    while not search.is_over:
        search.step()
        writer.add(search, dtype.type(1))
    search.edges_of_reached()
