"""Repeated launches: a sequence that was launched before becomes a CUDA graph, which takes the host one launch."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module

#: A call with two buffers has two sequences; a few calls may take turns.
_MOST = 8


@dataclass
class _Sequence:
    """A sequence of launches that is remembered."""

    #: How often it was launched since it is remembered.
    n_times: int = 0
    #: Its CUDA graph, if it was recorded.
    graph: Any = None


class RepeatedLaunches:
    """The last sequences of launches on one device. Only one thread at a time may use it.

    A graph holds the arguments of its launches. CuPy's memory pool gives equal calls the same addresses, so the next
    call often has the same arguments. To record a graph takes longer than to launch its kernels. So it is recorded when
    a sequence comes for the second time.

    If many sequences take turns, a graph may be forgotten before it is launched again. Then recording is a waste of
    time. So each recording takes one from a small budget, and each sequence that comes more than twice gives one back.
    """

    def __init__(self) -> None:
        #: By all arguments, the oldest first.
        self._sequences: dict[bytes, _Sequence] = {}
        #: How many graphs may be recorded before a sequence comes more than twice.
        self._budget = _MOST

    def run(self, arguments: bytes, launch: Callable[[], None]) -> None:
        """Do what `launch` enqueues on the current stream; its launches depend only on `arguments`."""
        sequence = self._sequences.pop(arguments, None) or _Sequence()
        sequence.n_times += 1
        if sequence.n_times > 2:
            self._budget = min(self._budget + 1, _MOST)
        if sequence.graph is None and sequence.n_times > 1 and self._budget > 0:
            self._budget -= 1
            sequence.graph = _recorded(launch)
        if sequence.graph is None:
            launch()
        else:
            sequence.graph.launch()
        self._sequences[arguments] = sequence
        if len(self._sequences) > _MOST:
            del self._sequences[next(iter(self._sequences))]


def _recorded(launch: Callable[[], None]) -> Any:
    """Return the graph of what `launch` enqueues, which is not run."""
    stream = cupy_module().cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        try:
            launch()
        except BaseException:
            with suppress(Exception):  # that the recording is not valid is no news; the first error says why
                stream.end_capture()
            raise
        return stream.end_capture()
