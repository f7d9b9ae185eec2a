"""Threads that run one compiled kernel at the same time, and the barrier inside it.

A kernel is one `nogil` function. Each thread runs it from its beginning to its end, and the threads share memory.
numba's own parallel loops cannot be used: numba's portable threading layer aborts the process when two threads enter
it at once, and every solver is called from several threads.

The barrier: each thread that arrives adds one to a counter. The last one to arrive may do what one thread must do
alone, and then releases the others. A waiting thread polls. After a while it yields its core between two polls: there
may be more threads than cores, and the thread it waits for may need this core.

Memory order: each arrival adds to the counter with an acquiring and releasing operation, so the last thread sees what
all others wrote. It releases `ROUND`, which the others acquire, so they see that too and what the last thread wrote.

Ends: a failing thread breaks the barrier. Every waiting and every later thread sees that and leaves the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

from sssp_pipeline.base import cgroup
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.host.numba_tools import (
    ONE,
    ZERO,
    atomic_add,
    load_acquire,
    pause,
    store_release,
    yield_core,
)

T = TypeVar("T")

#: uint64 words in 128 bytes. That is two cache lines: a core may fetch the next one with the one it needs.
LINE = np.uint64(16)
#: Words of a barrier, each on a line of its own: the threads that have arrived, the rounds that are complete, and
#: whether the barrier is broken.
ARRIVED, ROUND, BROKEN = (np.uint64(i * 16) for i in range(3))
#: What `wait_at_barrier` returns.
LAST, RELEASED, FAILED = (np.uint64(i) for i in range(3))
#: Polls before a thread yields its core, about 20 us. To wake a thread takes longer.
POLLS = 1000


def usable_cores() -> int:
    """Return how many cores this process may use, by its affinity and its control group's share of time."""
    try:
        n_cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        n_cores = os.cpu_count() or 1
    return min(n_cores, cgroup.core_limit())


class KernelThreads:
    """The calling thread and `size - 1` more, which end with this object.

    Attributes
    ----------
    size
        The number of threads.
    barrier
        The barrier of the kernel that they run, as `wait_at_barrier` takes it.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = np.zeros(3 * int(LINE), np.uint64)
        self._others = ThreadPoolExecutor(size - 1, "sssp-kernel") if size > 1 else None

    def run(self, part: Callable[[int], T]) -> list[T]:
        """Return what `part(0)` to `part(size - 1)` return, each run by a thread of its own at the same time.

        Each of them must arrive at every barrier, or raise. If one raises, the others leave the kernel at their next
        barrier, and the error is raised here.
        """
        self.barrier[:] = 0

        def guarded(number: int) -> T:
            try:
                return part(number)
            except BaseException:
                self.barrier[BROKEN] = 1
                raise

        others = []
        try:
            if self._others is not None:
                others += [self._others.submit(guarded, number) for number in range(1, self.size)]
            first = part(0)
        except BaseException:
            self.barrier[BROKEN] = 1
            raise
        finally:
            wait(others)
        return [first, *(other.result() for other in others)]


@njit(nogil=True)
def wait_at_barrier(barrier: np.ndarray, n_threads: Any) -> Any:
    """Return when all `n_threads` threads have arrived.

    Returns
    -------
    uint64
        `LAST` to the last thread, at once: it must call `release_barrier`. `RELEASED` to the others, after that call.
        `FAILED` if the barrier is broken.
    """
    rounds = load_acquire(barrier, ROUND)
    if atomic_add(barrier, ARRIVED, ONE) == n_threads - ONE:
        return LAST
    polls = 0
    while load_acquire(barrier, ROUND) == rounds:
        if load_acquire(barrier, BROKEN) != ZERO:
            return FAILED
        polls += 1
        if polls < POLLS:
            pause()
        else:
            yield_core()
    return RELEASED


@njit(nogil=True)
def release_barrier(barrier: np.ndarray) -> None:
    """Release the threads that wait in `wait_at_barrier`."""
    store_release(barrier, ARRIVED, ZERO)
    store_release(barrier, ROUND, load_acquire(barrier, ROUND) + ONE)
