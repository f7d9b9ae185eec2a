"""Searches in supersteps that pause, so that the host can look for a negative cycle: with one they would never end."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from sssp_pipeline.csr import CsrGraph
from sssp_pipeline.kernels._gpu import GpuSearch
from sssp_pipeline.kernels._queue_search import finished_distances
from sssp_pipeline.kernels._views import from_words, to_words

#: The superstep of the first pause; each further one is twice as late, so that looking costs a few per cent.
FIRST_PAUSE = 256
_NO_PAUSE = 2**32 - 1


class PausingSearch(GpuSearch):
    """A search whose state stays on the device between launches.

    Where weights are negative its `launch` waits for the device.
    """

    def __init__(self, graph: CsrGraph) -> None:
        self._graph = graph
        self.signed = graph.traits.min_weight < 0

    @abstractmethod
    def begin(self, distances: Any, source: int) -> None:
        """Enqueue what must stand before the first superstep of a search from `source`."""

    @abstractmethod
    def advance(self, until: int) -> None:
        """Enqueue one launch: supersteps until the search is over, or the one numbered `until` is reached."""

    @abstractmethod
    def is_over(self) -> bool:
        """Wait for the device; return whether nothing is left to do."""

    def launch(self, distances: Any, source: int) -> None:
        self.begin(distances, source)
        if not self.signed:
            self.advance(_NO_PAUSE)
            return
        until = FIRST_PAUSE
        self.advance(until)
        while not self.is_over():
            row = from_words(distances.get(), self._graph.weight_dtype)
            if finished_distances(self._graph, source, row):
                distances.set(to_words(row))
                return
            until = min(2 * until, _NO_PAUSE)
            self.advance(until)
