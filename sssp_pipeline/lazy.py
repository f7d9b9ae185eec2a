"""Modules that take long to import, and that many commands never use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for the module `name`, which is imported when something of it is first used.

    A module that uses one imports the true module for type checkers only.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)


class _Hidden:
    """A finder of modules, asked before all others, that finds none of the packages `names`."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Let imports of the packages `names` fail in the block, unless they are imported already."""
    finder = _Hidden(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def leave_out_optional_packages() -> None:
    """Let pyarrow work without pandas, and numba without SciPy and cffi: they take 0.3 s to import and are not used.

    Each looks for the others once. For a process of its own only: pyarrow does not look for pandas again.
    """
    with hidden("pandas", "scipy", "cffi"):
        import numba.core.typing.cffi_utils  # noqa: F401
        import pyarrow as pa

        pa.array([0])
