"""The order of a graph for a hierarchy, made by a thread before the run knows whether it wants it.

The idea: before the first batch, a run on a GPU loads CuPy and searches from some sources. Most cores wait meanwhile.
An order takes longer than that, and most of its time is METIS, in processes of its own. So the thread begins the order
as soon as the sources are known, if a hierarchy may pay as far as the size of the graph tells, on a GPU with as much
memory as this machine has free. The run decides with a look at the graph and what it has measured. Then it takes the
order or ends the thread. METIS has mostly not begun by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from sssp_pipeline.base import compile_children
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import has_device_files
from sssp_pipeline.kernels.hierarchy.compile_ahead import (
    COUNTS,
    MANY_CHILDREN,
    n_children,
    order_groups,
)
from sssp_pipeline.kernels.hierarchy.ordering.metis_processes import Metis, package
from sssp_pipeline.kernels.hierarchy.ordering.order import neighbours_of
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work
from sssp_pipeline.pipeline.run.hierarchy_stage import is_free, known_traits, why_not_wanted
from sssp_pipeline.pipeline.run.hierarchy_steps import CountedAhead, Found, count_arcs, nothing_ahead
from sssp_pipeline.pipeline.solving.workers.process_wide import switching_sooner
from sssp_pipeline.workflow.models import Workflow


class _EndedError(Exception):
    """The order is not wanted any more."""


@contextmanager
def order_ahead(workflow: Workflow, stored: StoredGraph, work: Work) -> Iterator[CountedAhead]:
    """Begin to order the graph of a run if a hierarchy may pay. The thread ends with the block.

    The block gets a `CountedAhead`. Only the first call gets what the thread found, so its memory is free when the
    caller has used it.
    """
    if not _may_begin(workflow):
        yield nothing_ahead
        return
    ahead = _Ahead(workflow, stored, work)
    pool = ThreadPoolExecutor(1, "sssp-order")
    try:
        # The thread needs Python's lock for a short time between its kernels, and the run holds it meanwhile.
        with switching_sooner:
            found = [pool.submit(ahead.found)]

            def counted(meanwhile: Callable[[], None]) -> Found | None:
                ahead.waits.wait()
                meanwhile()
                return found.pop().result() if found else None

            yield counted
    finally:
        ahead.end()
        pool.shutdown(wait=False)


def _may_begin(workflow: Workflow) -> bool:
    """Return whether a run may solve on a GPU of this machine, with cores and METIS for an order."""
    return (
        workflow.cluster.is_here
        and why_not_wanted(workflow.solve) is None
        and has_device_files()
        and n_children() >= MANY_CHILDREN
        and package() is not None
    )


class _Ahead(Progress):
    """What the thread does. It ends where the next stage would begin."""

    def __init__(self, workflow: Workflow, stored: StoredGraph, work: Work) -> None:
        self._solve, self._stored, self._work = workflow.solve, stored, work
        self._metis, self._is_ended = Metis(), threading.Event()
        #: Set when the thread waits for processes of METIS, and when it ends.
        self.waits = self._metis.is_busy

    def end(self) -> None:
        self._is_ended.set()
        self._metis.kill()

    def stage(self, name: str) -> None:
        if self._is_ended.is_set():
            raise _EndedError

    def found(self) -> Found | None:
        """Return the counted arcs; None if the order is not to be made, or after an error: the run meets it again."""
        try:
            return self._found()
        except Exception:  # for example too little memory while the run loads the graph
            return None
        finally:
            self.waits.set()

    def _found(self) -> Found | None:
        traits = known_traits(self._stored)
        groups = [*order_groups(), COUNTS]
        # A first run compiles. It has children for that, and waits for the kernels that it needs first.
        if (
            traits.hierarchy is not None
            or compile_children.are_running()
            or not all(group.is_compiled(np.dtype(np.uint32)) for group in groups)
        ):
            return None
        # The run asks for the free memory again while this thread has taken some of it.
        free_bytes = free_memory_bytes() // 2
        if hierarchy.why_never(traits, self._work.options, free_bytes, for_gpu=True) is not None:
            return None
        if is_free(self._solve):
            machine = Machine(usable_cores(), gpu_free_bytes=free_bytes)
            if hierarchy.why_not(self._work, machine, free_bytes) is not None:
                return None
        self.stage("neighbours")
        around = neighbours_of(self._stored.graph())
        return around, count_arcs(around, self, self._metis)
