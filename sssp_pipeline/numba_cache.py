"""`njit` with a disk cache that also notices changes in helper modules, and is fast to read.

numba compiles the functions and constants of other modules into a kernel, but compares only the module that the kernel
stands in with what is in its cache. So the names of our cache files hold a digest of `HELPERS` as well. A new file
replaces those of other digests.

Before numba reads its cache, it imports all that its compiler knows, which takes 0.15 s. We leave that to the compiler.

Where the files lie is numba's choice: in `NUMBA_CACHE_DIR`, beside the module, or in the user's cache folder where the
package cannot be written.

NOTE: numba does not ask this module where `NUMBA_CACHE_LOCATOR_CLASSES` is set. Then empty the cache after an update.
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
    *(f"pipeline/formats/parsing/{name}.py" for name in ("byte_streams", "numbers_in_text")),
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
    """One of numba's locators, which says where the cache of a function lies, with the digest in the files' names."""

    def __init__(self, locator: Any) -> None:
        self._locator = locator

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> _Locator | None:
        """Return the locator of a function; None if numba finds no place for its cache."""
        found = (kind.from_function(py_func, py_file) for kind in CompileResultCacheImpl._locator_classes)
        return next((cls(locator) for locator in found if locator is not None), None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._locator, name)

    def get_disambiguator(self) -> str:
        """Return what tells the files of this function from those of others."""
        return f"{self._locator.get_disambiguator()}-{helpers_digest()}"

    def ensure_cache_path(self) -> None:
        """Make the folder if need be: numba calls this before it writes."""
        self._locator.ensure_cache_path()
        _remove_other_digests(self._locator.get_cache_path())


@cache
def _remove_other_digests(folder: str) -> None:
    """Remove the cache files of other digests from a folder that holds the cache of modules of this package alone."""
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
