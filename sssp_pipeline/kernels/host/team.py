"""Threads that run one kernel together, and the barrier at which they meet inside it.

numba's own parallel loops are of no use here: its portable threading layer aborts the process when two threads call it
at once, and every solver is called from several threads. So a kernel is one `nogil` function that each thread of a team
runs from its beginning to its end, and what they share is memory.

The barrier: whoever arrives counts itself. The last one may do what one thread has to do alone, and lets the
others go on. These wait in a loop, and soon give the core away while they do: there may be more threads than cores,
and the one that is waited for may need this very core.

Memory order: each arrival adds to the count with an acquiring and releasing operation, so the last one sees
what all the others wrote; it releases `PASSED`, which they acquire, so they see that and what it wrote itself.

Ends: a thread that fails gives the meeting up, which all that wait there see, and so do those who come later. So no
thread waits for one that is gone.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

from sssp_pipeline import cgroup
from sssp_pipeline.kernels.host.numba_tools import (
    ONE,
    ZERO,
    atomic_add,
    give_core_away,
    load_acquire,
    pause,
    store_release,
)
from sssp_pipeline.numba_cache import njit

T = TypeVar("T")

#: uint64 words in 128 bytes: two cache lines, as a core may fetch the next one unasked.
LINE = np.uint64(16)
#: Words of a meeting, each on a line of its own: threads that are there, meetings that are over, and whether somebody
#: gave up.
ARRIVED, PASSED, GIVEN_UP = (np.uint64(i * 16) for i in range(3))
#: What `meet` returns.
LAST, WENT_ON, LEFT = (np.uint64(i) for i in range(3))
#: Looks at `PASSED` before the core is given away: some 20 us, and a thread that has to be woken takes longer.
LOOKS = 1000


def usable_cores() -> int:
    """Return how many cores this process may use, by its affinity and its control group's share of time."""
    try:
        n_cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        n_cores = os.cpu_count() or 1
    return min(n_cores, cgroup.core_limit())


class Team:
    """Some threads, the caller's among them; the others end with this object.

    Attributes
    ----------
    size
        How many there are.
    meeting
        What `meet` takes, for the kernel that the team runs.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.meeting = np.zeros(3 * int(LINE), np.uint64)
        self._others = ThreadPoolExecutor(size - 1, "sssp-team") if size > 1 else None

    def run(self, part: Callable[[int], T]) -> list[T]:
        """Return what `part(0)` to `part(size - 1)` return, all of them run at the same time.

        Each of them comes to every meeting, or raises. Raises what one of them raised; `meet` has sent the others home
        then.
        """
        self.meeting[:] = 0

        def guarded(number: int) -> T:
            try:
                return part(number)
            except BaseException:
                self.meeting[GIVEN_UP] = 1
                raise

        others = []
        try:
            if self._others is not None:
                others += [self._others.submit(guarded, number) for number in range(1, self.size)]
            first = part(0)
        except BaseException:
            self.meeting[GIVEN_UP] = 1
            raise
        finally:
            wait(others)
        return [first, *(other.result() for other in others)]


@njit(nogil=True)
def meet(meeting: np.ndarray, n_threads: Any) -> Any:
    """Return when all of `n_threads` are here.

    Returns
    -------
    uint64
        `LAST` for one of them, at once: the others wait until it calls `dismiss`. `WENT_ON` for those, or `LEFT`
        if somebody gave up.
    """
    passed = load_acquire(meeting, PASSED)
    if atomic_add(meeting, ARRIVED, ONE) == n_threads - ONE:
        return LAST
    looks = 0
    while load_acquire(meeting, PASSED) == passed:
        if load_acquire(meeting, GIVEN_UP) != ZERO:
            return LEFT
        looks += 1
        if looks < LOOKS:
            pause()
        else:
            give_core_away()
    return WENT_ON


@njit(nogil=True)
def dismiss(meeting: np.ndarray) -> None:
    """Let those who wait in `meet` go on."""
    store_release(meeting, ARRIVED, ZERO)
    store_release(meeting, PASSED, load_acquire(meeting, PASSED) + ONE)
