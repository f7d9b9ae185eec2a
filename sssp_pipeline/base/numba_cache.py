"""Numba cache: `njit` with a disk cache that notices changes in helper modules and is fast to read.

numba compiles functions and constants of other modules into a kernel. But its cache checks only the module that
contains the kernel. So the names of our cache files also contain a digest of `HELPERS`, and a new file replaces those
with other digests. Each file begins with a SHA-256 of the rest: what a full disk or a kill damaged is compiled again.

Before numba reads its cache, it loads everything that its compiler may need. Our cache skips that, since a cache hit
needs no compiler.

numba chooses the folder: `NUMBA_CACHE_DIR`, or else the folder of the module, or else the user's cache folder if the
package's folder cannot be written.

NOTE: if `NUMBA_CACHE_LOCATOR_CLASSES` is set, numba does not use the digests. Then empty the cache after an update.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.runtime import rtsys

#: The modules from which kernels of other modules take functions or constants.
HELPERS = (
    "base/csr.py",
    *(f"kernels/cpu/{name}.py" for name in ("buckets", "delta_stepping")),
    "kernels/gpu/common/cuda/struct_types.py",
    *(f"kernels/host/{name}.py" for name in ("numba_tools", "kernel_threads", "search_graph", "xxh64")),
    *(f"kernels/hierarchy/{name}.py" for name in ("lanes", "subtrees", "tiles")),
    *(
        f"pipeline/formats/parsing/{name}.py"
        for name in ("faults", "line_blocks", "numbers_in_text", "plain_rows")
    ),
)

_PACKAGE = Path(__file__).parents[1]
_DIGEST_BYTES = 32


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


class _CheckedFiles(IndexDataCacheFile):
    """numba's index and data files, each behind a SHA-256 of its content. A damaged file counts as missing.

    numba takes a file for granted: a file that was cut ends every run, and other machine code would be run.
    """

    def _load_index(self) -> dict[Any, str]:
        if (data := whole_content(Path(self._index_path))) is None:
            return {}
        stream = io.BytesIO(data)
        if pickle.load(stream) != self._version:
            return {}
        stamp, overloads = pickle.load(stream)
        return overloads if stamp == self._source_stamp else {}

    def _load_data(self, name: str) -> Any:
        if (data := whole_content(Path(self._data_path(name)))) is None:
            raise OSError("compile it again")  # `load` takes it for a missing file
        return pickle.loads(data)

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        content = io.BytesIO()
        yield content
        with super()._open_for_write(filepath) as file:
            file.write(_digest(content.getvalue()) + content.getvalue())


def whole_content(path: Path) -> bytes | None:
    """Return the content of a file of the cache; None if the file is missing or damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, content = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    return content if digest == _digest(content) else None


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def damaged_files() -> list[Path]:
    """Return the files of this package's cache, next to its modules or in `NUMBA_CACHE_DIR`, that are damaged."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or _PACKAGE)
    found = (p for p in folder.rglob(f"*-{helpers_digest()}.*") if p.suffix in (".nbi", ".nbc"))
    return sorted(path for path in found if whole_content(path) is None)


class _Cache(FunctionCache):
    _impl_class = _Files

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        impl = self._impl
        self._cache_file = _CheckedFiles(
            self._cache_path, impl.filename_base, impl.locator.get_source_stamp()
        )

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
