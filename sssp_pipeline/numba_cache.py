"""Numba cache: `njit` with a disk cache that notices changes in helper modules and is fast to read.

numba compiles functions and constants of other modules into a kernel. But its cache checks only the module that
contains the kernel. So the names of our cache files also contain a digest of `HELPERS`, and a new file replaces those
with other digests.

Before numba reads its cache, it loads everything that its compiler may need. Our cache skips that, since a cache hit
needs no compiler.

numba chooses the folder: `NUMBA_CACHE_DIR`, or else the folder of the module, or else the user's cache folder if the
package's folder cannot be written.

NOTE: if `NUMBA_CACHE_LOCATOR_CLASSES` is set, numba does not use the digests. Then empty the cache after an update.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.runtime import rtsys

#: The modules from which kernels of other modules take functions or constants.
HELPERS = (
    "csr.py",
    *(
        f"kernels/{name}.py"
        for name in ("cpu/buckets", "cpu/delta_stepping", "host/numba_tools", "host/kernel_threads")
    ),
    *(f"kernels/hierarchy/{name}.py" for name in ("lanes", "subtrees", "tiles")),
    *(f"pipeline/formats/parsing/{name}.py" for name in ("line_blocks", "numbers_in_text", "plain_rows")),
)

_PACKAGE = Path(__file__).parent


@cache
def helpers_digest() -> str:
    """Return a digest of the source of all `HELPERS`."""
    digest = hashlib.sha256()
    for name in HELPERS:
        digest.update(name.encode() + b"\0" + (_PACKAGE / name).read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class _Locator:
    """A wrapper of one of numba's locators, which choose a cache file for a function; adds the digest to its name."""

    def __init__(self, locator: Any) -> None:
        self._locator = locator

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator | None:
        """Return the locator of a function; None if numba finds no folder for its cache."""
        found = (kind.from_function(py_func, py_file) for kind in CompileResultCacheImpl._locator_classes)
        return next((cls(locator) for locator in found if locator is not None), None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._locator, name)

    def get_disambiguator(self) -> str:
        """Return the part of the file name that differs between functions."""
        return f"{self._locator.get_disambiguator()}-{helpers_digest()}"

    def ensure_cache_path(self) -> None:
        """Create the folder if necessary; numba calls this before it writes."""
        self._locator.ensure_cache_path()
        _remove_other_digests(self._locator.get_cache_path())


@cache
def _remove_other_digests(folder: str) -> None:
    """Remove the cache files with other digests from a folder; only modules of this package have their cache there."""
    for file in Path(folder).iterdir():
        if file.suffix in (".nbi", ".nbc") and f"-{helpers_digest()}." not in file.name:
            with suppress(OSError):  # another process may have removed it
                file.unlink()


class _Files(CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _Cache(FunctionCache):
    _impl_class = _Files

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for the types `sig`, or None if it is not in the cache."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator `numba.njit(**options)`, with our cache."""
    compiled = numba.njit(**options)

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = compiled(function)
        dispatcher._cache = _Cache(function)
        return dispatcher

    return decorate
