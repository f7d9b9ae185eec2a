"""A matrix of distances as a Zarr group of format 3, which xarray opens.

```
<url>/zarr.json     written last: without it Zarr finds no group
<url>/distance/     (S, n), dimensions `source` and `vertex`
<url>/source/       (S,) ids
<url>/vertex/       (n,) ids
```

zarr-python encodes a chunk into a dictionary. From there it goes to storage through `files`, as every other file of
this package does, so any URL can be written. The descriptions of the arrays stay in the dictionary until all chunks
are written.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.lazy import optional_package
from sssp_pipeline.pipeline.results.exports.matrices.matrix import Matrix
from sssp_pipeline.storage import files

#: Bytes of the rows that are held until they are written. One row may be larger.
_ROWS_BYTES = 2**24
#: Bytes of a chunk of distances before compression.
_CHUNK_BYTES = 2**22
#: Ids in a chunk.
_CHUNK_IDS = 2**20
_GROUP = "zarr.json"


def write_zarr(url: str, matrix: Matrix) -> None:
    """Write a matrix as the group `url`, which must not exist.

    Raises
    ------
    InputError
        The package zarr is missing, or the place cannot be written. What was written is removed, as it is if
        `matrix.blocks` raises.
    """
    zarr = optional_package("zarr", "a Zarr file needs", "zarr")
    encoded: dict[str, Any] = {}
    group = zarr.create_group(zarr.storage.MemoryStore(encoded), zarr_format=3)
    (n_sources, n_columns), dtype = matrix.shape, matrix.dtype
    row_bytes = max(1, n_columns * dtype.itemsize)
    n_rows = max(1, min(n_sources, _ROWS_BYTES // row_bytes))
    distances = group.create_array(
        "distance",
        shape=matrix.shape,
        chunks=(n_rows, max(1, min(n_columns, _CHUNK_BYTES // (n_rows * dtype.itemsize)))),
        dtype=dtype,
        dimension_names=("source", "vertex"),
        # A chunk with nothing but this value is not written.
        fill_value=matrix.no_path or 0,
        attributes={} if matrix.unreached is None else {"unreached": dtype.type(matrix.unreached).item()},
    )
    try:
        held, n_held, n_written = np.empty((n_rows, n_columns), dtype), 0, 0
        for rows in matrix.rows():
            while len(rows):
                taken = rows[: n_rows - n_held]
                held[n_held : n_held + len(taken)] = taken
                rows, n_held = rows[len(taken) :], n_held + len(taken)
                if n_held == n_rows:
                    distances[n_written : n_written + n_held] = held
                    n_written, n_held = n_written + n_held, 0
                    _move_chunks(encoded, url)
        distances[n_written:] = held[:n_held]
        for name, ids in matrix.ids().items():
            _add_ids(group, name, ids)
        _move_chunks(encoded, url)
        with warnings.catch_warnings():
            # The extension of format 3 with which xarray reads one file in place of four.
            warnings.filterwarnings("ignore", "Consolidated metadata")
            zarr.consolidate_metadata(group.store)
        described = encoded.pop(_GROUP)
        for name in encoded:
            files.write_atomic(files.join(url, name), encoded[name].to_bytes())
        files.sync(url, files.list_files(url))
        files.write_atomic(files.join(url, _GROUP), described.to_bytes(), synced=True)
    except BaseException:
        files.remove(url)
        raise


def _add_ids(group: Any, name: str, ids: pa.Array) -> None:
    values = ids.to_numpy(zero_copy_only=False)
    array = group.create_array(
        name,
        shape=values.shape,
        chunks=(max(1, min(len(values), _CHUNK_IDS)),),
        dtype=str if values.dtype == object else values.dtype,
        dimension_names=(name,),
    )
    array[:] = values


def _move_chunks(encoded: dict[str, Any], url: str) -> None:
    """Write the chunks in `encoded` to storage and drop them; the descriptions of arrays stay."""
    for name in [name for name in encoded if not name.endswith(_GROUP)]:
        files.write_atomic(files.join(url, name), encoded.pop(name).to_bytes())
