"""Lazy imports: modules that take long to import and that many commands do not use."""

from __future__ import annotations

import sys
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


def optional_module(name: str, needed_by: str, extra: str) -> ModuleType:
    """Return a module of an optional package; `needed_by` are the words of the error before "a package".

    Raises
    ------
    InputError
        The package is missing; the hint names the `extra` that installs it.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"{needed_by} a package that is missing: {error}", hint=f"pip install 'sssp-pipeline[{extra}]'"
        ) from error


class _Hidden:
    """A finder of modules that reports the packages `names` as missing."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in self._names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@contextmanager
def hidden(*names: str) -> Iterator[None]:
    """Make imports of the packages `names` fail in the block, unless they are already imported."""
    finder = _Hidden(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def leave_out_optional_packages() -> None:
    """Make pyarrow work without pandas, and numba without SciPy and cffi, which are slow to import and not used.

    Both look for these packages only once. So this is for the command line's own process: a notebook may need pandas.
    """
    with hidden("pandas", "scipy", "cffi"):
        import numba.core.typing.cffi_utils  # noqa: F401
        import pyarrow as pa

        pa.array([0])
    # Otherwise numba searches all installed packages for extensions; the kernels of this package use none.
    from numba.core import entrypoints

    entrypoints._already_initialized = True
