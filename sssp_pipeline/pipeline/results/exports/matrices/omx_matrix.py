"""A matrix of distances as an Open Matrix file (OMX 0.2), which models of travel demand read. It is an HDF5 file.

```
OMX_VERSION, SHAPE    attributes of the file: "0.2", and (S, n)
/data/distance        (S, n), in chunks; its attribute NA is the number for "no path", if there is one
/lookup/source        (S,) ids, with the attribute DIM: 0
/lookup/vertex        (n,) ids, with the attribute DIM: 1
```

https://github.com/osPlanning/omx/wiki/Specification
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.lazy import optional_package
from sssp_pipeline.pipeline.results.exports.matrices.matrix import Matrix
from sssp_pipeline.storage import files

#: Numbers in a chunk before compression, which are 1 MiB.
_CHUNK_NUMBERS = 2**17
#: Ids that are converted at once.
_SOME_IDS = 2**16
#: The bytes of chunks that HDF5 keeps until they are complete.
_CACHE_BYTES = 2**24


def write_omx(url: str, matrix: Matrix) -> None:
    """Write a matrix.

    Integers are stored as int64 and floats as float64: the types that the validator of openmatrix accepts.

    Raises
    ------
    InputError
        The package h5py is missing, `url` is not on this machine, or a distance is above 2^63 - 1.
    """
    h5py = optional_package("h5py", "an OMX file needs", "omx")
    n_sources, n_columns = matrix.shape
    width = min(n_columns, _CHUNK_NUMBERS)
    with (
        files.atomic_path(url, "an OMX file") as path,
        _WrittenFile(path, "w+") as written,
        h5py.File(written, "w", rdcc_nbytes=_CACHE_BYTES) as file,
    ):
        file.attrs["OMX_VERSION"] = np.bytes_(b"0.2")
        file.attrs["SHAPE"] = np.array(matrix.shape, np.int32)
        distances = file.create_dataset(
            "data/distance",
            matrix.shape,
            np.float64 if matrix.dtype.kind == "f" else np.int64,
            chunks=(min(n_sources, _CHUNK_NUMBERS // width), width),
            compression="gzip",
            compression_opts=1,
            shuffle=True,
        )
        if matrix.no_path is not None:
            distances.attrs["NA"] = distances.dtype.type(matrix.no_path)
        done = 0
        for rows in matrix.rows():
            if matrix.dtype == np.uint64 and rows.size and rows.max() >= 2**63:
                raise InputError(
                    f"a distance is {rows.max()}, and an OMX file has whole numbers up to 2^63 - 1",
                    hint="write a `.parquet` file",
                )
            distances[done : done + len(rows)] = rows
            written.check()
            done += len(rows)
        for axis, (name, ids) in enumerate(matrix.ids().items()):
            _add_ids(file, name, ids, axis)


class _WrittenFile(io.FileIO):
    """A file that HDF5 writes. HDF5 ends the process if a write fails, so errors wait until it has closed its file."""

    _error: OSError | None = None

    def write(self, content: Any) -> int:
        left = memoryview(content).cast("B")
        n_bytes = len(left)
        try:
            while left and self._error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self._error = error
        return n_bytes

    def check(self) -> None:
        """Raise the first error."""
        if self._error is not None:
            raise self._error

    def __exit__(self, *raised: Any) -> None:
        super().__exit__(*raised)
        self.check()


def _add_ids(file: Any, name: str, ids: pa.Array, axis: int) -> None:
    """Add ids as int64, or as UTF-8 of a fixed length, which PyTables reads."""
    is_text = not pa.types.is_integer(ids.type)
    kind = f"S{pc.max(pc.binary_length(ids)).as_py()}" if is_text else np.int64
    lookup = file.create_dataset(f"lookup/{name}", (len(ids),), kind)
    lookup.attrs["DIM"] = np.int32(axis)
    for start in range(0, len(ids), _SOME_IDS):
        some = ids[start : start + _SOME_IDS]
        values = some.cast(pa.large_binary()) if is_text else some
        lookup[start : start + len(some)] = np.array(values.to_numpy(zero_copy_only=False), kind)
