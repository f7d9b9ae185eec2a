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


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Let imports of the packages `names` fail in the block, unless they are imported already."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent, None))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)


def leave_out_optional_packages() -> None:
    """Let pyarrow work without pandas, and numba without SciPy: each takes 0.3 s to import, and neither is used here.

    Both look for the other once. For a process of its own only: pyarrow does not look for pandas again.
    """
    with hidden("pandas", "scipy"):
        import numba.np.arraymath  # noqa: F401
        import pyarrow as pa

        pa.array([0])
