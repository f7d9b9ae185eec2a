"""Solves the sources of a sample before `verify` needs them, while a GPU solves the run and most cores wait.

`verify` reads what is stored as always. It takes a true row from here if the row is there, and else solves its source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.contract.solver import Solution


class SolvedAhead:
    """The true rows of some sources, which threads find."""

    def __init__(
        self,
        threads: ThreadPoolExecutor,
        sources: Iterable[int],
        solve: Callable[[int], tuple[CsrGraph, Solution]],
    ) -> None:
        self._solving: dict[int, Future[tuple[CsrGraph, Solution]]] = {
            source: threads.submit(solve, source) for source in sources
        }

    def row(self, graph: CsrGraph, source: int) -> Solution | None:
        """Return the solution for a source, and wait for it if a thread has begun it.

        None if no thread has, if the thread failed, or if it searched in another graph than this object.
        """
        solving = self._solving.get(source)
        if solving is None or solving.cancel() or solving.exception() is not None:
            return None
        searched, solution = solving.result()
        return solution if searched is graph else None


#: What was begun in this process, by the name of the verification.
_begun: dict[str, SolvedAhead] = {}


@contextmanager
def solving_ahead(
    verification: str,
    n_threads: int,
    sources: Iterable[int],
    solve: Callable[[int], tuple[CsrGraph, Solution]],
) -> Iterator[None]:
    """Let `n_threads` threads solve `sources` during the block, for the tasks of a `verification`.

    `solve` returns the graph in which it searched, and the solution. The end of the block waits for the searches under
    way. After Ctrl-C it does not: they may take minutes, and they write nothing.
    """
    threads = ThreadPoolExecutor(n_threads, "ahead")
    _begun[verification] = SolvedAhead(threads, sources, solve)
    waits = True
    try:
        yield
    except KeyboardInterrupt:
        waits = False
        raise
    finally:
        del _begun[verification]
        threads.shutdown(waits, cancel_futures=True)


def row_ahead(verification: str, graph: CsrGraph, source: int) -> Solution | None:
    """Return what `SolvedAhead.row` does; None if nothing was begun for this verification."""
    ahead = _begun.get(verification)
    return None if ahead is None else ahead.row(graph, source)
