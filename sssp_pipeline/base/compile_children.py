"""Compiles kernels in processes of their own, while this process does something else.

numba compiles one kernel at a time in a process. So children compile groups of kernels, each by calls on tiny input,
and leave the machine code in numba's cache.

    python -P -m sssp_pipeline.base.compile_children PIPE

A child loads numba and its compiler. It may begin before it is known what to compile (`prepare`). Then it reads a line
`PROCESSES MODULE:FUNCTION:DTYPE...`, and forks. The pipe, a file descriptor, has the numbers of the groups that no
process has, each in a byte. Each process compiles one group after the other, and writes a line for each. A process that
is done takes the next group that no process has. So does the process that started them while it waits for a group, if
there are few processes. All of them end when their standard input ends: when that process ends, however it ends.

If a child fails or does not answer, nothing is lost: this process compiles what the cache lacks.
"""

from __future__ import annotations

import atexit
import gc
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from sssp_pipeline.base.compile_notice import compilation_began
from sssp_pipeline.base.lazy import leave_out_optional_packages
from sssp_pipeline.base.numba_cache import cached_signatures, load_numba


@dataclass(frozen=True)
class KernelGroup:
    """Kernels that are compiled together."""

    #: Compiles them for weights of a type, on tiny input. A child finds this function by its name.
    compile_for: Callable[[np.dtype], None]
    #: The kernel that this function compiles last.
    last: Any
    #: Returns the name of the type of the weights from the types of the arguments of `last`; None if the kernels do
    #: not depend on it.
    dtype_of: Callable[[tuple[Any, ...]], str] | None = None

    def task(self, dtype: np.dtype) -> str:
        """Return the text that tells a child what to compile. Types that share the kernels have the same text."""
        name = f"{self.compile_for.__module__}:{self.compile_for.__name__}"
        return f"{name}:{(_ANY if self.dtype_of is None else dtype).name}"

    def is_compiled(self, dtype: np.dtype) -> bool:
        """Return whether numba's cache has the last kernel for weights of `dtype`."""
        signatures = cached_signatures(self.last)
        if self.dtype_of is None:
            return bool(signatures)
        return any(self.dtype_of(signature) == dtype.name for signature in signatures)


class _Children:
    """Processes that compile. They load what this takes, and wait for `compile`."""

    def __init__(self) -> None:
        #: What is not known to be compiled.
        self.left: list[str] = []
        self._tasks: Sequence[str] = ()
        self._is_killed = self._are_many = False
        self._waiting, self._to_fill = os.pipe()
        try:
            self._child = self._started()
        except BaseException:
            self._close()
            raise

    def compile(self, tasks: Sequence[str], n_processes: int) -> None:
        """Have up to `n_processes` of them compile what `tasks` name. This is called once at most."""
        assert self._child.stdin is not None
        self._tasks, self.left = tasks, list(tasks)
        self._are_many = len(tasks) < 2 * n_processes
        os.write(self._to_fill, bytes(range(n_processes, len(tasks))))
        os.close(self._to_fill)  # a process that finds the pipe empty ends
        self._to_fill = -1
        with suppress(BrokenPipeError):  # the child has failed
            os.write(self._child.stdin.fileno(), f"{n_processes} {' '.join(tasks)}\n".encode())

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(self._waiting)],
            bufsize=0,  # so that no line waits where `_answers` does not see it
            pass_fds=[self._waiting],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for this process, which ends the children
        )

    def wait_for(self, task: str) -> None:
        """Return when `task` is done, or no child is left. If none has answered for `PATIENCE_S`, all are killed."""
        assert self._child.stdout is not None
        if task in self.left:
            compilation_began()
        while task in self.left:
            # With few cores, this process helps. With many, a group of its own would take longer than the wait.
            is_helping = not self._are_many and not self._is_killed
            if is_helping and (taken := os.read(self._waiting, 1)):
                done = self._tasks[taken[0]]
                with suppress(Exception):  # as in a child
                    _compile(done)
            elif self._answers() and (line := self._child.stdout.readline()):
                done = line.decode().rstrip("\n")
            else:
                self.kill()
                self.left.clear()
                return
            with suppress(ValueError):
                self.left.remove(done)

    def _answers(self) -> bool:
        """Wait for a line of a process, or for the end of all; return whether that took no longer than `PATIENCE_S`."""
        assert self._child.stdout is not None
        answer = select.poll()
        answer.register(self._child.stdout, select.POLLIN)
        return bool(answer.poll(1e3 * PATIENCE_S))

    def kill(self) -> None:
        self._is_killed = True
        if self._child.returncode is None:  # later the number of the group may be another one's
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)

    def end(self) -> None:
        with self._child:  # closes its pipes and waits for it
            self.kill()
        self._close()

    def _close(self) -> None:
        for end in {self._waiting, self._to_fill} - {-1}:
            os.close(end)


#: Seconds without an answer after which children are killed, and this process compiles: one may be stopped, or wait for
#: a lock. A group takes 1 to 8 s of a core.
PATIENCE_S = 120.0
#: For groups that do not depend on the type of the weights.
_ANY = np.dtype(np.uint32)
_running: list[_Children] = []
#: At most one, which waits for what it is to compile.
_prepared: list[_Children] = []
#: Held by a thread that waits for a task. `stop` does not wait for it.
_lock = threading.RLock()


def prepare() -> None:
    """Have a child load numba and its compiler. The next `start` uses or ends it."""
    with _lock, suppress(OSError):  # no process can be started
        if not _prepared:
            _prepared.append(_Children())


def start(groups: Sequence[KernelGroup], dtype: np.dtype, n_processes: int) -> None:
    """Have up to `n_processes` children compile what numba's cache lacks of `groups`, until `stop` is called.

    The groups come in the order in which they are needed. What children compile already is left to them.
    """
    with _lock:
        begun = {task for children in _running for task in children.left}
        wanted = {group.task(dtype): group for group in groups} if n_processes > 0 else {}
        tasks = [task for task, group in wanted.items() if task not in begun and not group.is_compiled(dtype)]
        if tasks:
            with suppress(OSError):  # no process can be started: this one compiles
                children = _prepared.pop() if _prepared else _Children()
                _running.append(children)
                children.compile(tasks, min(n_processes, len(tasks)))
        elif _prepared:
            _prepared[0].kill()
            _prepared.pop().end()


def wait_for(group: KernelGroup, dtype: np.dtype = _ANY) -> None:
    """Return when no child is compiling `group`, for weights of `dtype` if it depends on them."""
    if not _running:
        return
    with _lock:
        for children in _running:
            children.wait_for(group.task(dtype))


def are_running() -> bool:
    """Return whether children compile, or have compiled and were not stopped."""
    return bool(_running)


def stop() -> None:
    """End all children. What they have compiled stays in numba's cache."""
    for children in [*_running, *_prepared]:
        children.kill()
    with _lock:
        for some in (_running, _prepared):
            while some:
                some.pop().end()


atexit.register(stop)


def _serve(waiting: int) -> None:
    """Read what to compile, and share the tasks among the processes, this one among them."""
    # What a compiler makes is seldom garbage: collections take an eighth of its time and free little.
    gc.disable()
    leave_out_optional_packages()
    load_numba()
    _load_compiler()
    if not (line := sys.stdin.buffer.readline()):
        return  # there is nothing to compile
    n_processes, *tasks = line.decode().split()
    forked = []
    for number in range(1, int(n_processes)):
        if (pid := os.fork()) == 0:
            try:
                _work(tasks, number, waiting)
            finally:
                os._exit(0)
        forked.append(pid)
    try:
        _work(tasks, 0, waiting)
    finally:
        for pid in forked:
            os.waitpid(pid, 0)


def _load_compiler() -> None:
    """Compile something, so that all processes share what numba loads and makes for it."""
    import numba

    numba.njit(nogil=True)(_numbers)(np.uint64(1))


def _numbers(n: Any) -> np.ndarray:
    return np.empty(n, np.uint32)


def _work(tasks: Sequence[str], number: int, waiting: int) -> None:
    """Compile task `number`, and then other tasks until each is taken."""
    threading.Thread(target=_end_with_input, daemon=True).start()
    while True:
        _compile(tasks[number])
        os.write(1, f"{tasks[number]}\n".encode())
        if not (taken := os.read(waiting, 1)):
            return
        number = taken[0]


def _compile(task: str) -> None:
    module, function, dtype = task.split(":")
    getattr(import_module(module), function)(np.dtype(dtype))


def _end_with_input() -> None:
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
