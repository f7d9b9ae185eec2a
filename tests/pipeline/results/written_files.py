"""Files of distances in either layout, as a batch of a run leaves them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.layouts import LAYOUTS


def write_file(
    path: Path,
    sources: np.ndarray,
    solution: Solution,
    ids: VertexIds,
    form: DistanceFormat,
    vertices: np.ndarray | None = None,
) -> None:
    """Write the distances from `sources` to `vertices`, None for every vertex."""
    with path.open("wb") as handle:
        LAYOUTS[form.layout](form, vertices).write(handle, sources, solution, ids)
