"""Sums along the shortest paths of a call.

A hierarchy gives them without rows of distances. Otherwise a solver gives rows. If it runs on a GPU, its rows stay and
are added there. If it runs on a CPU, threads add its rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from sssp_pipeline.api.calls.along_hierarchy import Summed, options_of_rows, sums_on_hierarchy
from sssp_pipeline.api.calls.calls import Take, solver_of_call
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import in_bytes
from sssp_pipeline.kernels.answers.path_sums import PathSums, PathWords, add_words
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import PathSumsOnDevice
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GPU_LOCK
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph

_log = logging.getLogger(__name__)

#: The share of the free memory that the sums of all threads may take. The solver needs the rest.
_MEMORY_SHARE = 0.5


class Solve(Protocol):
    """Solves some sources, as `solve_sources` does for one graph."""

    def __call__(
        self, sources: np.ndarray, options: SolveOptions, solver: str, take: Take, *, n_expected: int
    ) -> Any: ...


def sums_along_paths(
    graph: CsrGraph,
    sources: np.ndarray,
    asked: PathSumsAsked,
    options: SolveOptions,
    solver: str,
    solve: Solve,
    stored: StoredGraph | None = None,
) -> Summed:
    """Return what is `asked` over the shortest paths from `sources` (S,) uint32, which are in random order if sampled.

    Parameters
    ----------
    options, solver, stored
        As in `solve_sources`.
    solve
        Solves sources, and gives each part of whole rows to its argument `take`.

    Raises
    ------
    InputError
        The sums are larger than the free memory. Also what `solve` raises.
    UncountablePathsError
        As `PathSums.add`.
    """
    summed = sums_on_hierarchy(graph, sources, asked, options, solver, stored)
    if summed is not None:
        return summed
    sources = np.sort(sources)  # neighbours share more of a search
    of_rows = options_of_rows(options, asked) if solver == "auto" else options
    chosen, *_ = solver_of_call(graph, sources, of_rows, solver, stored)
    solver = chosen.name
    if chosen.device == "gpu" and chosen.leaves_rows and len(sources):
        on_device = PathSumsOnDevice(graph, asked, len(sources))
        if on_device.size is not None:
            words = _sums_on_gpu(graph, sources, asked, options, solver, solve, on_device)
            return Summed(words, len(sources))
        _log.info("what is summed along the paths does not fit the GPU, so the CPU adds it up")
        del on_device
    on_host = OnHost(partial(PathSums, graph, asked), asked.n_bytes(graph.traits), len(sources))
    return Summed(sums_of_rows(on_host, sources, options, solver, solve).words, len(sources))


def sums_of_rows(
    on_host: OnHost[Sums], sources: np.ndarray, options: SolveOptions, solver: str, solve: Solve
) -> Sums:
    """Return the sums over the rows from `sources`.

    The other parameters and the errors are those of `sums_along_paths`.
    """
    with on_host:

        def take(first: int, solution: Solution) -> None:
            on_host.add(solution.distances, sources[first : first + len(solution.distances)])

        solve(sources, options, solver, take, n_expected=len(sources))
        return on_host.total()


def _sums_on_gpu(
    graph: CsrGraph,
    sources: np.ndarray,
    asked: PathSumsAsked,
    options: SolveOptions,
    solver: str,
    solve: Solve,
    on_device: PathSumsOnDevice,
) -> PathWords:
    """Return what is `asked` by rows that stay on the GPU. Rows that it cannot add go to the CPU."""
    assert on_device.size is not None, "there is memory for some rows"
    n_rows, rows = on_device.size.n_rows, on_device.empty_rows()
    with OnHost(partial(PathSums, graph, asked), asked.n_bytes(graph.traits), len(sources)) as on_host:
        for first in range(0, len(sources), n_rows):
            some = sources[first : first + n_rows]
            into = replace(options, into=rows[: len(some)])
            solve(some, into, solver, lambda *_: None, n_expected=len(sources))
            with GPU_LOCK:
                added = on_device.add(rows, some).wait()
            left = added.left()
            if len(left):
                on_host.add(added.rows_of(left), some[left])
        total = on_host.total()
    add_words(total.part_words, on_device.words())
    return total.words


class _RowSums(Protocol):
    """Sums over the rows that were added so far; one thread at a time adds to it."""

    def add(self, rows: np.ndarray, sources: np.ndarray, /) -> Any: ...

    def merge(self, other: Any, /) -> None: ...


Sums = TypeVar("Sums", bound=_RowSums)


class OnHost(Generic[Sums]):
    """Sums that threads of this process add up, each with what `make` returns, which takes `n_bytes`.

    It raises the `InputError` of `sums_along_paths`.
    """

    def __init__(self, make: Callable[[], Sums], n_bytes: int, n_sources: int) -> None:
        n_bytes, free = max(1, n_bytes), free_memory_bytes()
        if n_bytes > free:
            raise InputError(
                f"what is summed along the paths takes {in_bytes(n_bytes)}, and {in_bytes(free)} of memory are free",
                hint="end other programs, or take a machine with more memory",
            )
        most = int(_MEMORY_SHARE * free / n_bytes)
        self._make = make
        self._n_threads = max(1, min(usable_cores(), n_sources, most))
        # The solver may call `take` in one thread only.
        self._pool = ThreadPoolExecutor(self._n_threads, "sssp-paths")
        #: At most one of each thread.
        self._every: list[Sums] = []
        self._idle: SimpleQueue[Sums] = SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def add(self, rows: np.ndarray, sources: np.ndarray) -> None:
        """Add `rows` (n, V) from `sources` (n,), and wait for it. It raises as `add` of the sums."""
        size = -(-len(rows) // self._n_threads)
        parts = [slice(at, min(at + size, len(rows))) for at in range(0, len(rows), size)]
        for added in [self._pool.submit(self._add, rows[part], sources[part]) for part in parts]:
            added.result()

    def _add(self, rows: np.ndarray, sources: np.ndarray) -> None:
        try:
            sums = self._idle.get_nowait()
        except Empty:
            sums = self._new()
        try:
            sums.add(rows, sources)
        finally:
            self._idle.put(sums)

    def total(self) -> Sums:
        """Return all that was added. Nothing may be added afterwards."""
        total, *others = self._every or [self._new()]
        for sums in others:
            total.merge(sums)
        return total

    def _new(self) -> Sums:
        sums = self._make()
        self._every.append(sums)
        return sums
