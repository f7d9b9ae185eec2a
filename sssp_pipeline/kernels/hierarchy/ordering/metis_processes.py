"""METIS in processes of its own.

While METIS works, its wrapper holds Python's lock, and METIS handles SIGTERM itself: in a thread, that signal ends the
process with a segmentation fault. So a child does what METIS does (`metis_child.py`). The calling thread waits without
Python's lock. Ctrl-C on a terminal does not reach the child, so the batches under way can be finished. The memory that
METIS takes is given back with the child.

METIS orders on one core. So a large graph is cut into four parts (`cuts.py`), and large parts into halves. Threads make
a graph with many neighbours coarse before that (`coarsening.py`). Several children, at most one for each core, cut and
order the parts at the same time. Separators get the highest ranks. The order does not depend on the number of cores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from functools import cache, cached_property
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from threading import Event

import numpy as np

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.kernels.hierarchy.dividing.coarsening import coarsened
from sssp_pipeline.kernels.hierarchy.dividing.cuts import Subgraph, cut, divided
from sssp_pipeline.kernels.hierarchy.ordering.metis_child import (
    COARSE_HALVES,
    COARSE_QUARTERS,
    FINE_HALVES,
    FINE_ORDER,
    HALVES,
    N_QUARTERS,
    ORDER,
    QUARTERS,
)
from sssp_pipeline.kernels.host.kernel_threads import usable_cores

#: METIS counts with 32 signed bits.
MOST = 2**31 - 1
#: From how many vertices on a graph is cut into four parts. A part is halved from three quarters of that on.
CUT_VERTICES = 2**15
#: From how many neighbours on METIS cuts a coarse graph first, where it would take 0.1 s and more. A web of fewer
#: neighbours gets up to a fifth more triangles.
COARSE_NEIGHBOURS, COARSE_NEIGHBOURS_OF_DENSE = 2**20, 2**21
#: The same for halves of dense graphs. METIS takes 0.03 s and more for them, and a coarse graph a sixth of it.
COARSE_NEIGHBOURS_OF_HALVES = 3 * 2**17
#: How often a part is halved after the first cut. Halves are halved from twice as many vertices on. Three times gives a
#: grid a tenth more triangles.
MOST_HALVINGS = 2
#: Settings of the C library, as far as it knows them. METIS allocates and frees large arrays all the time, and reads
#: them in any order: memory is given back only after a cut, and pages are large. That saves a tenth of the time.
_ALLOCATION = ":".join(
    f"glibc.malloc.{name}={value}"
    for name, value in [
        ("hugetlb", 1),
        ("mmap_threshold", 2**30),
        ("trim_threshold", 2**40),
        ("top_pad", 2**24),
    ]
)


@cache
def package() -> ModuleSpec | None:
    """Return where `pymetis` is installed, or None. A search takes as long as a small call of a solver."""
    return find_spec("pymetis")


class MetisProcess:
    """A process of METIS, which takes one part of a graph after the other. It ends with the `with` block."""

    def __enter__(self) -> MetisProcess:
        program = str(Path(__file__).with_name("metis_child.py"))
        found = package()
        folders = found.submodule_search_locations if found is not None else None
        self._errors = tempfile.TemporaryFile()
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-S", program, *(folders or ["."])],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
                env=os.environ | {"GLIBC_TUNABLES": _ALLOCATION},
            )
        except BaseException:
            self._errors.close()
            raise
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._requests, self._answers = self._child.stdin, self._child.stdout
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        with suppress(BrokenPipeError), self._errors, self._child:  # closes its pipes and waits for it
            pass

    def kill(self) -> None:
        """End the process; a thread that waits for an answer gets an error."""
        self._child.kill()

    def send(self, request: int, part: Subgraph, *weights: np.ndarray) -> None:
        """Have METIS work on a part; `request` and `weights` are as in `metis_child.py`.

        It raises the errors of `receive`.
        """
        lengths = len(part.offsets), len(part.neighbours)
        arrays = (array.astype(self._index_type) for array in (part.offsets, part.neighbours, *weights))
        with suppress(BrokenPipeError):  # then there is no answer
            for array in (np.array([request, *lengths], np.int64), *arrays):
                self._requests.write(array.data)
            self._requests.flush()

    def receive(self, n_vertices: int) -> np.ndarray:
        """Return the answer (n_vertices,) int32 to what was sent.

        Raises
        ------
        SsspError
            METIS failed, for example for lack of memory.
        """
        return np.frombuffer(
            self._read(4 * n_vertices, f"METIS failed to order {n_vertices:,} vertices"), np.int32
        )

    @cached_property
    def _index_type(self) -> np.dtype:
        """The type of the numbers that METIS takes."""
        return np.dtype(f"i{self._read(1, 'METIS does not start')[0]}")

    def _read(self, n_bytes: int, failure: str) -> bytes:
        found = self._answers.read(n_bytes)
        if len(found) == n_bytes:
            return found
        exit_code = self._child.wait()
        self._errors.seek(0)
        last_line = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
        raise SsspError(
            f"{failure}: exit code {exit_code}; {last_line}",
            hint="give it more memory, or choose another solver",
        )


class Metis:
    """Several processes of METIS, which order one graph.

    The first one starts with the `with` block, while the calling thread makes the graph. All end when the block ends.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._processes: list[MetisProcess] = []
        self._is_killed = False
        #: Set from when the processes order the parts of the graph. The calling thread has little to do then.
        self.is_busy = Event()

    def __enter__(self) -> Metis:
        self._start(1)
        return self

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            process.kill()  # all of them, before the stack waits for one after the other
        self._stack.close()

    def order(self, offsets: np.ndarray, neighbours: np.ndarray, *, is_dense: bool = False) -> np.ndarray:
        """Return the vertices (V,) uint32 of a graph in the order in which METIS eliminates them.

        Parameters
        ----------
        offsets
            (V+1,) uint64; the neighbours of vertex `v` are `offsets[v]:offsets[v + 1]`.
        neighbours
            (N,) uint32; each pair of neighbours stands there in both directions.
        is_dense
            Whether fewer triangles are worth more than the time of METIS.

        Raises
        ------
        InputError
            The graph is too large for METIS.
        SsspError
            METIS failed, for example for lack of memory.
        """
        if max(len(offsets), len(neighbours)) > MOST:
            raise InputError(
                f"the graph has {len(neighbours)} pairs of neighbours, more than METIS takes ({MOST})",
                hint="choose another solver; `sssp-pipeline solvers` lists all",
            )
        whole = Subgraph(np.arange(len(offsets) - 1, dtype=np.uint32), offsets, neighbours)
        first, size = self._processes[0], len(whole.vertices)
        halves, ordered = (FINE_HALVES, FINE_ORDER) if is_dense else (HALVES, ORDER)
        if size >= CUT_VERTICES:
            n_parts = max(N_QUARTERS, 3 * size // CUT_VERTICES)
            n_processes = min(usable_cores(), n_parts, N_QUARTERS * 2**MOST_HALVINGS)
            parts, separators = cut(whole, self._quarters(whole, n_processes, is_dense), 0, N_QUARTERS)
            if separators:
                order = np.concatenate([*(part.vertices for part in parts), *reversed(separators)])
                self.is_busy.set()
                self._order_parts(parts, order, halves, ordered)
                return order
        self.is_busy.set()
        first.send(ordered, whole)
        return first.receive(size).view(np.uint32)

    def _quarters(self, whole: Subgraph, n_processes: int, is_dense: bool) -> np.ndarray:
        """Return the part (V,) int32 of each vertex. Meanwhile processes start, until there are `n_processes`."""
        first, n_asked, names = self._processes[0], len(whole.vertices), None
        if len(whole.neighbours) < (COARSE_NEIGHBOURS_OF_DENSE if is_dense else COARSE_NEIGHBOURS):
            first.send(QUARTERS, whole)
        else:
            n_asked, names = _send_coarse(first, COARSE_QUARTERS, whole, usable_cores())
        self._start(n_processes)
        found = first.receive(n_asked)
        return found if names is None else found[names]

    def _order_parts(self, parts: list[Subgraph], order: np.ndarray, halves: int, ordered: int) -> None:
        """Order the vertices of `parts` within `order` (V,) uint32, which begins with one part after the other.

        `halves` and `ordered` are the requests for the halves of a part, and for its order.
        """
        idle: SimpleQueue[MetisProcess] = SimpleQueue()
        for process in self._processes:
            idle.put(process)

        def order_part(part: Subgraph, first: int, n_halvings: int) -> list[tuple[Subgraph, int, int]]:
            """Order what begins at place `first`. Of a large part only the separator is ordered; return its halves."""
            size, process = len(part.vertices), idle.get()
            try:
                if n_halvings < MOST_HALVINGS and size >= 3 * CUT_VERTICES // 4 << n_halvings:
                    n_threads = max(1, usable_cores() // (N_QUARTERS << n_halvings))
                    if (found := divided(part, _sides(process, halves, part, n_threads))) is not None:
                        (one, other), separator = found
                        order[first + size - len(separator) : first + size] = separator
                        return [
                            (one, first, n_halvings + 1),
                            (other, first + len(one.vertices), n_halvings + 1),
                        ]
                process.send(ordered, part)
                order[first : first + size] = part.vertices[process.receive(size)]
                return []
            finally:
                idle.put(process)

        firsts = accumulate((len(part.vertices) for part in parts), initial=0)
        pool = ThreadPoolExecutor(len(self._processes), "sssp-metis")
        try:
            running = {pool.submit(order_part, *each, 0) for each in zip(parts, firsts, strict=False)}
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(order_part, *half) for task in done for half in task.result()}
        except BaseException:
            for process in self._processes:
                process.kill()  # so that the threads go on
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def kill(self) -> None:
        """End all processes, now or when they start. A thread that orders a graph with them gets an `SsspError`."""
        self._is_killed = True
        for process in self._processes.copy():
            process.kill()

    def _start(self, n_processes: int) -> None:
        while len(self._processes) < n_processes:
            self._processes.append(process := self._stack.enter_context(MetisProcess()))
            if self._is_killed:  # maybe before the list had this process
                process.kill()


def _sides(process: MetisProcess, request: int, part: Subgraph, n_threads: int) -> np.ndarray:
    """Return in which half (P,) bool each vertex of a part is; `request` is for halves."""
    if request == HALVES or len(part.neighbours) < COARSE_NEIGHBOURS_OF_HALVES:
        process.send(request, part)
        return process.receive(len(part.vertices)) == 1
    n_asked, names = _send_coarse(process, COARSE_HALVES, part, n_threads)
    return process.receive(n_asked)[names] == 1


def _send_coarse(
    process: MetisProcess, request: int, part: Subgraph, n_threads: int
) -> tuple[int, np.ndarray]:
    """Have METIS work on a coarse graph of a part; return its size, and its vertex (P,) uint32 of each vertex."""
    coarse, names = coarsened(part.offsets, part.neighbours, n_threads)
    vertices = np.arange(len(coarse.weights), dtype=np.uint32)
    process.send(
        request, Subgraph(vertices, coarse.starts, coarse.heads), coarse.weights, coarse.edge_weights
    )
    return len(vertices), names
