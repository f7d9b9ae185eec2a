"""The classes of numba's cache that this package extends; `numba_digests.py` describes its files.

Before numba reads its cache, it loads everything that its compiler may need. Our cache skips that, since a cache hit
needs no compiler.

numba chooses the folder: `NUMBA_CACHE_DIR`, or else the folder of the module, or else the user's cache folder if the
package's folder cannot be written.

NOTE: if `NUMBA_CACHE_LOCATOR_CLASSES` is set, numba does not use the digests. Then empty the cache after an update.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import event
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.runtime import rtsys
from numba.misc.appdirs import AppDirs

from sssp_pipeline.base.compile_notice import compilation_began
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_digests import digest_of, helpers_digest, whole_content


class _Compiling(event.Listener):
    """Listens to numba's compile events. A kernel that is loaded from the cache causes none."""

    def on_start(self, event: Any) -> None:
        compilation_began()

    def on_end(self, event: Any) -> None:
        pass


event.register("numba:compile", _Compiling())


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


class CheckedFiles(IndexDataCacheFile):
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
            file.write(digest_of(content.getvalue()) + content.getvalue())


class Cache(FunctionCache):
    """The cache of a function; `before_compiling` gets the function each time that it is to be compiled."""

    _impl_class = _Files

    def __init__(self, function: Any, before_compiling: Callable[[Any], None]) -> None:
        try:
            super().__init__(function)
        except RuntimeError as error:
            module = Path(function.__code__.co_filename)
            raise InputError(
                f"no folder for compiled kernels can be written: neither `{module.parent}` nor "
                f"`{AppDirs('numba', False).user_cache_dir}`",
                hint="set NUMBA_CACHE_DIR to a folder that can be written",
            ) from error
        self._before_compiling = before_compiling
        impl = self._impl
        self._cache_file = CheckedFiles(self._cache_path, impl.filename_base, impl.locator.get_source_stamp())

    def index(self) -> dict[Any, str]:
        """Return the files of the cache by what they hold: types of arguments first."""
        return self._cache_file._load_index()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the machine code for the types `sig`, or None if it is not in the cache."""
        rtsys.initialize(target_context)
        found = None
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
        if found is None:
            self._before_compiling(self._py_func)
        return found
