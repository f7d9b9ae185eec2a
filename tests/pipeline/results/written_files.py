"""Files of distances in either layout, as the only batch of a run leaves them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.layouts import LAYOUTS
from sssp_pipeline.pipeline.results.layouts.wide import TiledRows, write_wide_files


def write_file(
    path: Path,
    sources: np.ndarray,
    solution: Solution,
    ids: VertexIds,
    form: DistanceFormat,
    vertices: np.ndarray | None = None,
) -> None:
    """Write the distances from `sources` to `vertices`, None for every vertex; a wide file must not be cut."""
    layout = LAYOUTS[form.layout](form, vertices)
    if form.layout == "long":
        with path.open("wb") as handle:
            layout.write(handle, sources, solution, ids)
        return
    with TemporaryDirectory() as folder:
        tiles = Path(folder, "tiles")
        with tiles.open("wb") as handle:
            layout.write(handle, sources, solution, ids)
        stored = TiledRows(str(tiles), solution.distances.shape, solution.distances.dtype)
        names = list(map(str, ids.originals(sources).to_pylist()))
        vertex = layout.vertex_column(ids)
        written = write_wide_files([stored], folder, names, vertex, form)
        assert [(end, name) for end, name, _ in written] == [(len(vertex), "wide-00000.parquet")]
        path.write_bytes(Path(folder, "wide-00000.parquet").read_bytes())
