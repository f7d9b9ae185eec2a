"""SciPy matrices, as `scipy.sparse.save_npz` writes them: entry (i, j) is an edge from i to j. Ids count from 0.

A stored entry with the value 0 is an edge of weight 0, as in `scipy.sparse.csgraph`. The whole arrays are held in
memory.
"""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np

from sssp_pipeline.base.csr import MAX_VERTICES
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import in_bytes
from sssp_pipeline.pipeline.formats.beginning import Beginning, unreadable_error
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions
from sssp_pipeline.pipeline.formats.parsing.declared import declared_reading
from sssp_pipeline.storage import files

#: The arrays of each layout that is read.
_ARRAYS = {
    "csr": ("indices", "indptr", "data"),
    "csc": ("indices", "indptr", "data"),
    "coo": ("row", "col", "data"),
}

#: Bytes of row, column and place of an entry, and of the sorted places. The arrays of the file take their own.
_BYTES_OF_ENTRY = 32


def is_scipy_npz(beginning: Beginning) -> bool:
    """Return whether a zip file of NumPy arrays holds a matrix of SciPy; raise `InputError` if it holds others."""
    if {"format.npy", "shape.npy", "data.npy"} <= set(beginning.arrays):
        return True
    if beginning.arrays:
        raise unreadable_error(beginning.url, "is a NumPy archive that `scipy.sparse.save_npz` did not write")
    return False


def open_scipy_npz(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the only file of `urls`.

    Raises
    ------
    InputError
        The file is damaged, is not a square matrix of numbers, has a layout that cannot be
        read, or has an entry twice, which SciPy would add up.
    """
    n_vertices, row, col, data = _read(urls[0])
    has_weights = data.dtype != np.bool_ and options.weight_column != "none"
    rows = max(1, options.block_bytes // 24)

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        for start in range(0, len(row), rows):
            part = slice(start, start + rows)
            weights = data[part] if has_weights else None
            if weights is not None and weights.dtype.kind == "f" and not np.isfinite(weights).all():
                i = int(np.argmin(np.isfinite(weights)))
                raise InputError(
                    f"`{files.redacted(urls[0])}` entry ({row[start + i]}, {col[start + i]}): "
                    f"weight `{weights[i]}` is not finite",
                    hint="remove such entries before saving",
                )
            yield EdgeChunk(row[part], col[part], weights)

    return InputEdges(
        declared_reading("scipy-npz", "rows and columns of a matrix count from 0"),
        has_weights,
        read,
        n_vertices=n_vertices,
        weight_dtype=data.dtype if has_weights else None,
    )


#: The exceptions of NumPy for a damaged file. `MemoryError` means that an array is declared larger than any memory.
_DAMAGES = (
    *(zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, EOFError, OverflowError, OSError),
    *(MemoryError, AttributeError, RuntimeError, NotImplementedError, SyntaxError, tokenize.TokenError),
)


def _read(url: str) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """Return the number of vertices, and row, column and value of each entry."""
    name = files.redacted(url)
    layout, shape, first, second, data = _load_arrays(url)
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 0 or shape[0] > MAX_VERTICES:
        raise InputError(
            f"`{name}` is a matrix of {' rows and '.join(map(str, shape))} columns",
            hint=f"a graph is a square matrix of at most {MAX_VERTICES} rows",
        )
    n = shape[0]
    if data.ndim != 1 or data.dtype.kind not in "biuf" or data.dtype.itemsize > 8:
        raise InputError(f"`{name}` has values of type {data.dtype}", hint="weights are integers or floats")
    data = data.astype(np.float32 if data.dtype == np.float16 else data.dtype.newbyteorder("="), copy=False)
    for array in (first, second):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise _damaged(name, "its indices are not integers")
    _check_memory(name, _BYTES_OF_ENTRY * len(data))
    row, col = (first, second) if layout == "coo" else _expanded(name, n, first, second)
    if layout == "csc":
        row, col = col, row
    if not len(row) == len(col) == len(data):
        raise _damaged(name, "`data` and its indices differ in length")
    for indices in (row, col):
        if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= n):
            bad = int(indices[np.argmax((indices < 0) | (indices >= n))])
            raise _damaged(name, f"index {bad} is outside 0 to {n - 1}")
    row, col = row.astype(np.int64), col.astype(np.int64)
    if data.dtype == np.bool_ and not data.all():
        i = int(np.argmin(data))
        raise InputError(
            f"`{name}` has the entry ({row[i]}, {col[i]}) with the value False, which may mean that there is no edge",
            hint="call `matrix.eliminate_zeros()` before saving",
        )
    _refuse_repeats(name, n, row, col)
    return n, row, col, data


def _load_arrays(url: str) -> tuple[str, list[int], np.ndarray, np.ndarray, np.ndarray]:
    """Return the layout and the shape of a matrix, and the three arrays that `_ARRAYS` names for its layout."""
    name = files.redacted(url)
    try:
        with files.reading(url), files.open_read(url) as raw, np.load(raw, allow_pickle=False) as arrays:
            _check_memory(name, sum(member.file_size for member in arrays.zip.infolist()))
            layout = arrays["format"].item()
            layout = layout.decode() if isinstance(layout, bytes) else str(layout)
            if layout not in _ARRAYS:
                raise InputError(
                    f"`{name}` is a matrix of layout `{layout[:20]}`; csr, csc and coo are read",
                    hint="save `matrix.tocsr()`",
                )
            if arrays["shape"].dtype.kind not in "iu":
                raise ValueError("its shape is not made of integers")
            shape = [int(n) for n in arrays["shape"]]
            first, second, data = (arrays[key] for key in _ARRAYS[layout])
            if not all(isinstance(array, np.ndarray) for array in (first, second, data)):
                raise ValueError("a member of it is not an array")
    except InputError:
        raise
    except _DAMAGES as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _damaged(name, str(error) or type(error).__name__) from error
    return layout, shape, first, second, data


def _check_memory(name: str, needed: int) -> None:
    """Raise `InputError` if there is not enough free memory. A compressed file may hold a thousand times its size."""
    free = free_memory_bytes()
    if needed > free:
        raise InputError(
            f"the arrays of `{name}` take {in_bytes(needed)}, and {in_bytes(free)} of memory are free",
            hint="a matrix is read whole: write an edge list or a Parquet file, which are not",
        )


def _damaged(name: str, problem: str) -> InputError:
    return InputError(f"`{name}` is damaged: {problem}", hint="save or fetch it again")


def _expanded(name: str, n: int, indices: np.ndarray, indptr: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return row and column of each entry of compressed rows."""
    ends = indptr.astype(np.int64)
    if len(ends) != n + 1 or ends[0] != 0 or (np.diff(ends) < 0).any() or ends[-1] != len(indices):
        raise _damaged(name, f"`indptr` does not fit its {n} rows and {len(indices)} entries")
    return np.repeat(np.arange(n), np.diff(ends)), indices


def _refuse_repeats(name: str, n: int, row: np.ndarray, col: np.ndarray) -> None:
    places = np.sort(row.astype(np.uint64) * np.uint64(max(n, 1)) + col.astype(np.uint64))
    again = np.flatnonzero(places[1:] == places[:-1])
    if len(again):
        place = int(places[again[0]])
        raise InputError(
            f"`{name}` has the entry ({place // n}, {place % n}) twice, which SciPy would add up",
            hint="call `matrix.sum_duplicates()` before saving, or save an edge list",
        )
