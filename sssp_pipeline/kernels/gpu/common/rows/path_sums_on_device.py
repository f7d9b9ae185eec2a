"""Sums along the shortest paths of rows on the device (`path_sums.cu`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.answers.path_sums import sums_of
from sssp_pipeline.kernels.contract.packed_words import PackedWords, bits_of_all, is_sparse
from sssp_pipeline.kernels.contract.path_sums_asked import PLACES_PACKED, PathSumsAsked
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph, free_bytes, out_of_memory
from sssp_pipeline.kernels.gpu.common.graphs.edge_lists import edges_by_source
from sssp_pipeline.kernels.gpu.common.rows.transfers import Sent, copy_to_host, fetch, pinned_array

#: Threads of a block. Many slots of few threads hide the latency of rounds, but each slot takes memory.
_THREADS = (256, 512, 1024)
#: Rows of a batch for each slot: slots that are done early take another row.
_ROWS_OF_SLOT = 4
#: A pass takes at most 1 / `_SHARE` of the free memory. The solver that makes the rows needs the rest.
_SHARE = 2

#: Bytes of a row of a batch besides its distances, rounded up. Shared memory of a thread.
_ROW_BYTES, _SHARED_BYTES = 64, 32

#: The sums of several parts take at most 1 / `_SETS_SHARE` of the memory of a pass.
_SETS_SHARE = 4

_KERNEL, _FIND, _PACK = "path_sums_kernel", "present_places_kernel", "pack_words_kernel"
#: Host memory for packed sums comes in few sizes, so that it can be used again. Its number of rows is rounded up to
#: this many binary digits.
_SIZE_BITS = 3
#: As in `packed_words.cuh`.
_PLACES_A_BLOCK = 1024
_CALL = struct_type(Path(__file__).with_name("path_sums.cu"), "Call")


def path_sums_unit(asked: PathSumsAsked) -> Unit:
    """Return the unit of the kernel for what is `asked`. The amounts need not be read."""
    macros = ("SSSP_SQUARES", int(asked.squares)), ("SSSP_AMOUNTS", int(asked.is_weighted))
    return Unit("path_sums", (_KERNEL, _FIND, _PACK), macros)


@dataclass(frozen=True, eq=False)
class AddedRows:
    """Rows whose addition is enqueued. What it returns is valid when the launch is over."""

    asked: PathSumsAsked
    dtype: np.dtype
    #: (n, V) of the bits of `dtype`, device memory.
    rows: Any
    #: (n,) uint32.
    sources: np.ndarray
    #: Kept as long as the launch reads them.
    sent: tuple[Sent, ...]
    #: The fetched bytes of the state, and of the totals.
    state: np.ndarray
    words: np.ndarray

    def wait(self) -> AddedRows:
        """Wait until the launch is over, and return this."""
        cupy_module().cuda.get_current_stream().synchronize()
        return self

    def left(self) -> np.ndarray:
        """Return the places of rows that were not added: too many paths, or a weight that a float loses."""
        return np.flatnonzero(self.state.view(np.uint32)[1:])

    def rows_of(self, places: np.ndarray) -> np.ndarray:
        """Return a copy of some of `rows` (k, V) in host memory. They must still be there."""
        found = np.stack([self.rows[place].get() for place in places.tolist()])
        return found.view(self.dtype)

    def totals(self) -> np.ndarray:
        """Return the totals of each row, as `PathSums.add` does. A row that was not added has 0."""
        words = self.words.view(np.uint64).reshape(-1, 3, 2)[:, :2]  # not what all paths count
        found = sums_of(words.reshape(-1, 2)).reshape(-1, 2) * self.asked.unit
        return found[:, [self.asked.vertices, self.asked.edges]]


@dataclass(frozen=True)
class PassSize:
    """How many rows a pass takes at once."""

    #: The least threads of a block.
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

    def threads_for(self, n_rows: int, resident: dict[int, int]) -> int:
        """Return the threads of a block in a launch of `n_rows`: the most with which all rows are resident."""
        return max([self.threads, *(threads for threads, most in resident.items() if most >= n_rows)])


class PathSumsOnDevice:
    """The sums over rows on the current device. Its launches follow each other on one stream.

    There may be several sets of sums. A launch adds each row to one of them. So rows of several parts fill the device.

    Parameters
    ----------
    graph
        As for `PathSums`: all weights are above zero, and none is float32.
    asked
        What is summed.
    n_sources
        How many rows will be added in all.
    reserved
        Bytes of the free memory that are left to the solver of the rows, if half of it is not enough.
    n_parts
        How many sets are wanted. There are fewer if they would take too much memory.

    Raises
    ------
    SsspError
        The graph does not fit the device, or there is no GPU.
    """

    def __init__(
        self, graph: CsrGraph, asked: PathSumsAsked, n_sources: int, reserved: int = 0, n_parts: int = 1
    ) -> None:
        assert asked.is_weighted == (asked.amounts is not None), "the amounts are read first"
        self._asked = asked
        self._graph = device_graph(graph)
        self._kernels = load_kernels(
            path_sums_unit(asked), self._graph.dtype, wide_offsets=self._graph.wide_offsets
        )
        self._resident = {threads: self._kernels[_KERNEL].resident_blocks(threads) for threads in _THREADS}
        self._n_places = asked.n_places(self._graph.n_vertices, self._graph.n_edges)
        room = self._room(reserved)
        #: How many sets there are.
        self.n_sets = max(1, min(n_parts, room // (_SETS_SHARE * max(1, self._set_bytes))))
        #: What a batch takes; None if no row fits, and then nothing can be added.
        self.size = self._fitting_size(n_sources, room - (self.n_sets - 1) * self._set_bytes)
        if self.size is None:
            return
        try:
            self._allocate(self.size)
        except cupy_module().cuda.memory.OutOfMemoryError as error:
            raise out_of_memory("what is summed along the paths", error) from error

    @property
    def _set_bytes(self) -> int:
        return self._asked.place_bytes * self._n_places

    def _room(self, reserved: int) -> int:
        """Return the bytes for rows and for more sets than one."""
        free = free_bytes()
        fixed = self._asked.fixed_device_bytes(self._graph.n_vertices, self._graph.n_edges)
        return min(free // _SHARE, free - reserved) - fixed

    def _fitting_size(self, n_sources: int, room: int) -> PassSize | None:
        n_vertices = self._graph.n_vertices
        row_bytes = n_vertices * self._graph.dtype.itemsize + _ROW_BYTES
        slot_bytes = self._asked.slot_device_bytes(n_vertices, self._graph.n_edges)
        return PassSize.fitting(n_sources, self._resident, slot_bytes, row_bytes, room)

    def _allocate(self, size: PassSize) -> None:
        cupy = cupy_module()
        graph, asked, n_places = self._graph, self._asked, self._n_places
        n_vertices, n_edges = graph.n_vertices, graph.n_edges
        self._words = cupy.zeros((self.n_sets, n_places, asked.n_words), np.uint64)
        self._edge_words = self._words.reshape(-1, asked.n_words)[n_vertices * asked.vertices :]
        #: What `take` needs: a stream, the bits of all places, and packed words of some places.
        self._packing = cupy.cuda.Stream(non_blocking=True)
        self._bits = cupy.empty(-(-n_places // 32), np.uint32)
        self._packed = cupy.empty((min(n_places, PLACES_PACKED), asked.n_words), np.uint64)
        #: What paths to each vertex count: amounts, or bits.
        self._targets: dict[str, Sent] = {}
        if asked.amounts is not None:
            self._targets["target_amounts"] = Sent(asked.amounts.of_targets)
        elif asked.is_target is not None:
            self._targets["target_words"] = Sent(_bitmap(asked.is_target))
        starts = edges_by_source(graph).rows
        self._held = {
            **dict(zip(("row_offsets", "edges", "weights"), graph.args, strict=True)),
            "starts": starts,
            **{name: values.on_device for name, values in self._targets.items()},
            "waiting": cupy.empty(size.n_slots * n_vertices, np.uint32),
            "paths": cupy.empty(size.n_slots * 2 * n_vertices, np.uint64),
            "order": cupy.empty(size.n_slots * n_vertices, np.uint32),
            "tight": cupy.empty(size.n_slots * -(-n_edges // 32), np.uint32),
            "vertex_words": self._words if asked.vertices else None,
            "edge_words": self._edge_words if asked.edges else None,
        }

    def empty_rows(self) -> Any:
        """Return device memory (n_rows, V) of the weights' type for the rows of a batch."""
        assert self.size is not None, "there is no memory for a row"
        cupy = cupy_module()
        rows = cupy.empty((self.size.n_rows, self._graph.n_vertices), self._graph.dtype)
        # A solver writes to the rows on a stream of its own. What used their memory before may still run on this one.
        cupy.cuda.get_current_stream().synchronize()
        return rows

    def add(self, rows: Any, sources: np.ndarray, sets: np.ndarray | None = None) -> AddedRows:
        """Enqueue the addition of `rows` (n, V) on the device, which are those from `sources` (n,) uint32.

        `sets` (n,) uint32 has the number of the set that each is added to; None is the first one.
        """
        assert self.size is not None, "there is no memory for a row"
        cupy = cupy_module()
        n_rows, amounts, call = len(sources), self._asked.amounts, np.zeros(1, _CALL)
        sets = np.zeros(n_rows, np.uint32) if sets is None else sets
        sent = {"sources": Sent(sources), "sets": Sent(sets)}
        if amounts is not None:
            sent["source_amounts"], call["decay"] = Sent(amounts.of_sources[sources]), amounts.decay
        # The next row, and whether each row was refused.
        state, totals = cupy.empty(1 + n_rows, np.uint32), cupy.empty((n_rows, 6), np.uint64)
        for array in (state, totals):
            array.data.memset_async(0, array.nbytes)
        of_rows = {"rows": rows, "totals": totals, "next_row": state, "refused": state[1:]}
        of_rows |= {name: values.on_device for name, values in sent.items()}
        for name, array in (self._held | of_rows).items():
            call[name] = 0 if array is None else array.data.ptr
        call["n_edges"], call["n_vertices"] = self._graph.n_edges, self._graph.n_vertices
        call["set_words"] = self._n_places * self._asked.n_words
        call["n_rows"], call["counts_ends"] = n_rows, self._asked.endpoints
        threads = self.size.threads_for(n_rows, self._resident)
        n_blocks, shared_bytes = min(self.size.n_slots, n_rows), _SHARED_BYTES * threads
        self._kernels[_KERNEL](n_blocks, threads, (call.view(f"V{_CALL.itemsize}"),), shared_bytes)
        fetched = (fetch(array.ravel().view(np.uint8)) for array in (state, totals))
        return AddedRows(self._asked, self._graph.dtype, rows, sources, tuple(sent.values()), *fetched)

    def wait(self) -> None:
        """Wait until all is done that was enqueued."""
        cupy_module().cuda.get_current_stream().synchronize()

    def take(self, number: int = 0) -> PackedWords:
        """Return the sums of the set with this `number`, and begin it anew. No launch that adds to it is under way."""
        words, shape = self._words[number], (self._n_places, self._asked.n_words)
        if not self._n_places:
            return PackedWords.of(np.empty(shape, np.uint64))
        with self._packing:  # another launch may be under way
            bits, n_present = self._found(words)
            if is_sparse(int(n_present.sum()), self._n_places):
                found = PackedWords(bits, self._packed_words(words, n_present))
            else:
                found = PackedWords(bits_of_all(self._n_places), pinned_array(shape, np.dtype(np.uint64)))
                copy_to_host(words, found.words)
            words.data.memset_async(0, words.nbytes)
            self._packing.synchronize()
        return found

    def _found(self, words: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the bits of the places of `words`, and how many places of each block have any."""
        n_blocks = -(-self._n_places // _PLACES_A_BLOCK)
        counts = cupy_module().empty(n_blocks, np.uint32)
        counts.data.memset_async(0, counts.nbytes)
        self._kernels[_FIND](
            n_blocks, _PLACES_A_BLOCK, (words, np.uint64(self._n_places), self._bits, counts)
        )
        bits, n_present = (fetch(array.view(np.uint8)) for array in (self._bits, counts))
        self._packing.synchronize()
        return np.array(bits[: -(-self._n_places // 8)]), n_present.view(np.uint32)

    def _packed_words(self, words: Any, n_present: np.ndarray) -> np.ndarray:
        """Return the words (n, W) of the places that have any."""
        ends = np.cumsum(n_present, dtype=np.uint64)
        starts, n_rows = ends - n_present, int(ends[-1])
        # Rounded up, so that parts of about the same size take turns in the same memory.
        spare_bits = max(0, n_rows.bit_length() - _SIZE_BITS)
        n_held = -(-n_rows >> spare_bits) << spare_bits
        found = pinned_array((n_held, self._asked.n_words), np.dtype(np.uint64))[:n_rows]
        on_device = Sent(starts)
        step = PLACES_PACKED // _PLACES_A_BLOCK
        for first in range(0, len(ends), step):
            n_blocks = min(step, len(ends) - first)
            row, end = int(starts[first]), int(ends[first + n_blocks - 1])
            args = (words, np.uint64(self._n_places), self._bits, on_device.on_device, np.uint64(first))
            self._kernels[_PACK](n_blocks, _PLACES_A_BLOCK, (*args, np.uint64(row), self._packed))
            copy_to_host(self._packed[: end - row], found[row:end])
        self._packing.synchronize()
        return found

    def words(self) -> np.ndarray:
        """Return the sums (P, W) of the first set, and begin it anew."""
        on_device = self._words[0]
        words = pinned_array(on_device.shape, on_device.dtype)
        copy_to_host(on_device, words)
        on_device.data.memset_async(0, on_device.nbytes)
        self.wait()
        return words


def _bitmap(is_target: np.ndarray) -> np.ndarray:
    """Return a bit for each vertex, (ceil(V / 32),) uint32."""
    padded = np.pad(is_target, (0, -len(is_target) % 32))
    return np.packbits(padded, bitorder="little").view(np.uint32)
