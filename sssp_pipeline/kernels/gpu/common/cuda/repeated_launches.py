"""Repeated launches: a sequence that was launched before becomes a CUDA graph, which takes the host one launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module

#: A call with two buffers has two sequences; a few calls may take turns.
_MOST = 8


class RepeatedLaunches:
    """The last sequences of launches on one device. Only one thread at a time may use it.

    A graph holds the arguments of its launches. CuPy's memory pool gives equal calls the same addresses, so the next
    call often has the same arguments. To record a graph takes longer than to launch its kernels: so this is done when
    a sequence comes for the second time.
    """

    def __init__(self) -> None:
        #: By all arguments, the oldest first; None for a sequence that came once.
        self._graphs: dict[bytes, Any] = {}

    def run(self, arguments: bytes, launch: Callable[[], None]) -> None:
        """Do what `launch` enqueues on the current stream; its launches depend only on `arguments`."""
        if arguments not in self._graphs:
            launch()
            graph = None
        elif (graph := self._graphs.pop(arguments)) is None:
            graph = _recorded(launch)
        if graph is not None:
            graph.launch()
        self._graphs[arguments] = graph
        if len(self._graphs) > _MOST:
            del self._graphs[next(iter(self._graphs))]


def _recorded(launch: Callable[[], None]) -> Any:
    """Return the graph of what `launch` enqueues, which is not run."""
    stream = cupy_module().cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            launch()
        finally:
            graph = stream.end_capture()
    return graph
