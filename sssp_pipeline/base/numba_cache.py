"""Kernels on the CPU: functions that numba compiles, with a disk cache, and that load numba only when they are called.

numba takes longer to load than all modules of this package, and to prepare a function for it takes time too. So a
kernel is a stand-in until its first call. Before numba compiles a kernel, the stand-ins that it uses are replaced in
its module by what they stand for. A kernel that is in the cache does not need what it was compiled from.

`numba_files.py` has the cache, and `numba_digests.py` what its files are checked by.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cache, update_wrapper
from types import CodeType
from typing import Any

from sssp_pipeline.base.lazy import hidden, left_out


class _StandIn(ABC):
    """Stands for an object of numba, which is made when it is first needed."""

    _made: Any = None

    def made(self) -> Any:
        """Return what this stands for."""
        if self._made is None:
            with _making:
                if self._made is None:
                    self._made = self._make()
        return self._made

    @abstractmethod
    def _make(self) -> Any:
        """Return a new object; this thread holds `_making`."""


#: Held by a thread that makes an object of numba. It may make others for it.
_making = threading.RLock()


class _Kernel(_StandIn):
    """Stands for a function that numba compiles."""

    def __init__(self, py_func: Callable[..., Any], options: dict[str, Any]) -> None:
        self.py_func, self._options = py_func, options
        update_wrapper(self, py_func)

    def __call__(self, *arguments: Any) -> Any:
        return (self._made or self.made())(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what copies or inspects this asks for them
            raise AttributeError(name)
        return getattr(self.made(), name)

    def _make(self) -> Any:
        load_numba()
        import numba

        from sssp_pipeline.base.numba_files import Cache

        made = numba.njit(**self._options)(self.py_func)
        if hasattr(made, "_cache"):  # not with NUMBA_DISABLE_JIT
            made._cache = Cache(self.py_func, replace_stand_ins)
        return made


class _Named(_StandIn):
    """Stands for a function of numba that kernels call."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _make(self) -> Any:
        import numba

        return getattr(numba, self._name)


class _Intrinsic(_StandIn):
    """Stands for an intrinsic, which has instructions for LLVM."""

    def __init__(self, define: Callable[..., Any]) -> None:
        self._define = define
        self.__doc__ = define.__doc__

    def _make(self) -> Any:
        from numba.extending import intrinsic

        return intrinsic(self._define)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator like `numba.njit(**options)`, with our cache."""
    return lambda function: _Kernel(function, options)


def intrinsic(define: Callable[..., Any]) -> Any:
    """Return an intrinsic for kernels, as the decorator `numba.extending.intrinsic` does."""
    return _Intrinsic(define)


#: The function of numba with this name, for kernels.
carray: Any = _Named("carray")


def cached_signatures(kernel: Any) -> list[tuple[Any, ...]]:
    """Return the types of the arguments for which numba's cache has machine code of a kernel."""
    cache_of = getattr(kernel.made(), "_cache", None)  # None with NUMBA_DISABLE_JIT
    return [] if cache_of is None else [key[0] for key in cache_of.index()]


def replace_stand_ins(function: Any) -> None:
    """Replace the stand-ins that a kernel uses, in its module and in those of the kernels that it calls."""
    with _making:
        for name in _names(function.__code__):
            stand_in = function.__globals__.get(name)
            if isinstance(stand_in, _StandIn):
                function.__globals__[name] = stand_in.made()
                if isinstance(stand_in, _Kernel):  # numba may write its code into the caller
                    replace_stand_ins(stand_in.py_func)


def _names(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function uses, and the functions in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


@cache
def load_numba() -> None:
    """Load numba without the packages that it is to do without. It looks for them only once, when it is loaded."""
    with hidden(*left_out):
        from numba.core import entrypoints

    if left_out:
        # Otherwise numba searches all installed packages for extensions; the kernels of this package use none.
        entrypoints._already_initialized = True
