"""Sums along the shortest paths of rows on the device (`path_sums.cu`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.answers.path_sums import PathWords
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph, free_bytes, out_of_memory
from sssp_pipeline.kernels.gpu.common.graphs.edge_lists import edges_by_source
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent

#: Threads of a block. Many slots of few threads hide the latency of rounds, but each slot takes memory.
_THREADS = (256, 512, 1024)
#: Rows of a batch for each slot: slots that are done early take another row.
_ROWS_OF_SLOT = 4
#: A pass takes at most 1 / `_SHARE` of the free memory. The solver that makes the rows needs the rest.
_SHARE = 2

_KERNEL = "path_sums_kernel"
_CALL = struct_type(Path(__file__).with_name("path_sums.cu"), "Call")


def path_sums_unit(*, squares: bool) -> Unit:
    """Return the unit of the kernel, with sums of `squares` or without."""
    return Unit("path_sums", (_KERNEL,), (("SSSP_SQUARES", int(squares)),))


@dataclass(frozen=True)
class PassSize:
    """How many rows a pass takes at once."""

    #: Threads of a block.
    threads: int
    #: Rows that are worked on at the same time, a block each.
    n_slots: int
    #: Rows of a batch.
    n_rows: int

    @classmethod
    def fitting(
        cls, n_sources: int, resident: dict[int, int], slot_bytes: int, row_bytes: int, room: int
    ) -> PassSize | None:
        """Return the size for `n_sources` rows in `room` bytes; None if not even one row fits.

        `resident` tells how many blocks of so many threads the device can hold. The largest blocks are taken if all
        rows are resident with them, or if no others fit; else the smallest blocks.
        """
        rising = sorted(resident)
        for threads in [t for t in reversed(rising) if resident[t] >= n_sources] + rising:
            n_resident = resident[threads]
            n_slots = max(1, min(n_resident, n_sources))
            n_rows = max(1, min(_ROWS_OF_SLOT * n_slots, n_sources))
            if n_slots * slot_bytes + n_rows * row_bytes <= room:
                return cls(threads, n_slots, n_rows)
        n_slots = min(room // (slot_bytes + row_bytes), n_resident)
        return cls(threads, n_slots, min(n_slots, n_sources)) if n_slots > 0 else None


class PathSumsOnDevice:
    """The sums over the rows that were added so far, on the current device.

    Parameters
    ----------
    graph
        As for `PathSums`: all weights are above zero, and none is float32.
    asked
        What is summed.
    n_sources
        How many rows will be added in all.

    Raises
    ------
    SsspError
        The graph does not fit the device, or there is no GPU.
    """

    def __init__(self, graph: CsrGraph, asked: PathSumsAsked, n_sources: int) -> None:
        self._asked = asked
        self._graph = device_graph(graph)
        self._kernel = load_kernels(
            path_sums_unit(squares=asked.squares), self._graph.dtype, wide_offsets=self._graph.wide_offsets
        )[_KERNEL]
        #: What a batch takes; None if no row fits, and then nothing can be added.
        self.size = self._fitting_size(n_sources)
        if self.size is None:
            return
        try:
            self._allocate(self.size)
        except cupy_module().cuda.memory.OutOfMemoryError as error:
            raise out_of_memory("what is summed along the paths", error) from error
        # A solver writes to the rows on a stream of its own. What used their memory before may still run on this one.
        cupy_module().cuda.get_current_stream().synchronize()

    def _fitting_size(self, n_sources: int) -> PassSize | None:
        resident = {threads: self._kernel.resident_blocks(threads) for threads in _THREADS}
        n_vertices, n_edges = self._graph.n_vertices, self._graph.n_edges
        places = n_vertices * self._asked.vertices + n_edges * self._asked.edges
        room = free_bytes() // _SHARE - 8 * self._asked.n_words * places - 4 * n_edges
        slot_bytes = 24 * n_vertices + 4 * self._n_tight_words
        row_bytes = n_vertices * self._graph.dtype.itemsize + 8
        return PassSize.fitting(n_sources, resident, slot_bytes, row_bytes, room)

    @property
    def _n_tight_words(self) -> int:
        return -(-self._graph.n_edges // 32)

    def _allocate(self, size: PassSize) -> None:
        cupy = cupy_module()
        graph, asked = self._graph, self._asked
        n_vertices, n_edges = graph.n_vertices, graph.n_edges
        #: (n_rows, V) of the weights' type, device memory: the rows of a batch, which the caller fills.
        self.rows = cupy.empty((size.n_rows, n_vertices), graph.dtype)
        self._vertex_words = cupy.zeros((n_vertices * asked.vertices, asked.n_words), np.uint64)
        self._edge_words = cupy.zeros((n_edges * asked.edges, asked.n_words), np.uint64)
        #: The next row, and whether each row was refused.
        self._state = cupy.empty(1 + size.n_rows, np.uint32)
        self._targets = None if asked.is_target is None else Sent(_bitmap(asked.is_target))
        starts = edges_by_source(graph).rows
        self._held = {
            **dict(zip(("row_offsets", "edges", "weights"), graph.args, strict=True)),
            "starts": starts,
            "rows": self.rows,
            "target_words": None if self._targets is None else self._targets.on_device,
            "waiting": cupy.empty(size.n_slots * n_vertices, np.uint32),
            "paths": cupy.empty(size.n_slots * 2 * n_vertices, np.uint64),
            "order": cupy.empty(size.n_slots * n_vertices, np.uint32),
            "tight": cupy.empty(size.n_slots * self._n_tight_words, np.uint32),
            "vertex_words": self._vertex_words if asked.vertices else None,
            "edge_words": self._edge_words if asked.edges else None,
            "next_row": self._state,
            "refused": self._state[1:],
        }

    def add(self, sources: np.ndarray) -> np.ndarray:
        """Add the first of `rows`, which are those from `sources` (n,) uint32, and wait for it.

        Returns
        -------
        numpy.ndarray
            (k,) places of rows that were not added: a number of paths is 2^127 or more, or a float loses a weight.
        """
        assert self.size is not None, "there is no memory for a row"
        sent, call = Sent(sources), np.zeros(1, _CALL)
        for name, array in (self._held | {"sources": sent.on_device}).items():
            call[name] = 0 if array is None else array.data.ptr
        call["n_edges"], call["n_vertices"] = self._graph.n_edges, self._graph.n_vertices
        call["n_rows"], call["counts_ends"] = len(sources), self._asked.endpoints
        self._state.data.memset_async(0, self._state.nbytes)
        n_blocks = min(self.size.n_slots, len(sources))
        self._kernel(n_blocks, self.size.threads, (call.view(f"V{_CALL.itemsize}"),))
        return np.flatnonzero(self._state[1 : 1 + len(sources)].get())

    def rows_of(self, places: np.ndarray) -> np.ndarray:
        """Return a copy of some of `rows` (k, V) in host memory."""
        return np.stack([self.rows[place].get() for place in places.tolist()])

    def words(self) -> PathWords:
        """Return a copy of the sums in host memory."""
        return PathWords(self._vertex_words.get(), self._edge_words.get())


def _bitmap(is_target: np.ndarray) -> np.ndarray:
    """Return a bit for each vertex, (ceil(V / 32),) uint32."""
    padded = np.pad(is_target, (0, -len(is_target) % 32))
    return np.packbits(padded, bitorder="little").view(np.uint32)
