"""Files of distances in either layout, as the only batch of a run leaves them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat, write_distances
from sssp_pipeline.pipeline.results.wide_files import StoredRows, write_rows, write_wide_files


def write_file(
    path: Path,
    sources: np.ndarray,
    solution: Solution,
    ids: VertexIds,
    form: DistanceFormat,
    vertex: pa.Array,
) -> None:
    """Write the distances from `sources` to the vertices with the ids `vertex`; a wide file must not be cut."""
    if form.layout == "long":
        with path.open("wb") as handle:
            write_distances(handle, sources, solution, ids, form, vertex)
        return
    with TemporaryDirectory() as folder:
        tiles = Path(folder, "tiles")
        with tiles.open("wb") as handle:
            write_rows(handle, sources, solution.distances, ids, form)
        stored = StoredRows(str(tiles), solution.distances.shape, solution.distances.dtype)
        names = list(map(str, ids.originals(sources).to_pylist()))
        written = write_wide_files([stored], folder, names, vertex, form)
        assert [(end, name) for end, name, _ in written] == [(len(vertex), "wide-00000.parquet")]
        path.write_bytes(Path(folder, "wide-00000.parquet").read_bytes())
