"""What `output` of a workflow names on the graph of a run: vertices, and amounts of vertices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.vertex_amounts import VertexAmounts
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.planning.amounts import read_amounts
from sssp_pipeline.pipeline.planning.sources import Skipped, Snap, select_targets
from sssp_pipeline.workflow.answers import Amounts
from sssp_pipeline.workflow.vertices import Vertices


@dataclass(frozen=True, eq=False)
class Selection:
    """Finds what a workflow names: the `Chooser` of a stored graph."""

    ids: VertexIds
    #: Returns the graph.
    load: Callable[[], CsrGraph]
    weight_dtype: np.dtype
    #: Collects ids that are not in the graph.
    skipped: Skipped
    #: Finds the vertices of points.
    snap: Snap

    def vertices(self, spec: Vertices, key: str) -> np.ndarray:
        """Return (n,) uint32; as `select_targets`."""
        return select_targets(spec, self.ids, self.load, self.skipped, self.snap, key)

    def amounts(self, spec: Amounts) -> VertexAmounts:
        """Return the amounts; as `read_amounts`."""
        return read_amounts(spec, self.ids, self.skipped)
