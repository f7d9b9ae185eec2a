"""Lazy imports: modules that take long to import and that many commands do not use."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from sssp_pipeline.base.errors import InputError


class LazyModule:
    """A stand-in for the module `name`, which is imported when one of its attributes is first used.

    Modules import the real module under `TYPE_CHECKING`, so that type checkers know its attributes.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> Any:
        # `import_module` takes a microsecond even if the module is there, and a batch asks for hundreds of attributes.
        if self._module is None:
            self._module = import_module(self._name)
        return getattr(self._module, attribute)


def optional_package(name: str, needing: str, extra: str) -> ModuleType:
    """Return the package `name`; raise `InputError` if it is missing.

    `needing` begins the message: "isochrones need". `extra` is the extra of this package that installs it.
    """
    try:
        return import_module(name)
    except ImportError as error:
        hint = f"pip install 'sssp-pipeline[{extra}]'"
        raise InputError(f"{needing} a package that is missing: {error}", hint=hint) from error


class _Hidden:
    """A finder of modules that reports the packages `names` as missing, to the thread that makes it."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names, self._thread = names, threading.get_ident()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self._names and threading.get_ident() == self._thread:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Make imports of the packages `names` by this thread fail in the block, unless they are already imported."""
    finder = _Hidden(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


#: The packages that this process does without. `numba_cache` loads numba without them.
left_out: list[str] = []


def leave_out_optional_packages() -> None:
    """Make pyarrow work without pandas, and numba without SciPy, cffi and coverage: slow to import and not used.

    Both look for these packages only once. So this is for the command line's own process: a notebook may need pandas.
    """
    left_out[:] = ["pandas", "scipy", "cffi", "coverage"]
    with hidden(*left_out):
        import pyarrow as pa

        pa.array([0])
