"""The output that stores no distance, only the metrics of each source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.kernels.contract import kept
from sssp_pipeline.pipeline.results.folder.batch_metrics import OF_LENGTHS
from sssp_pipeline.pipeline.results.folder.run_files import METRICS_FILE
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput

if TYPE_CHECKING:
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract.solver import Solution

#: What stands under "targets" in the identity of a run that writes no distances.
NO_DISTANCES = "none"
#: The metrics that follow from the distances.
OF_DISTANCES = ("reached", "max_distance", "mean_distance")


class MetricsAlone(RowOutput):
    """No distance: the metrics of each source say how many vertices it reaches, and how far they are."""

    name = "none"
    has_files = False
    shows_overall = True
    without_distances = "metrics only, no distances", "run it with `output.distances: full`"
    judged = "reach, largest and mean distance"

    @classmethod
    def wrote(cls, identity: dict[str, Any]) -> bool:
        return "output" not in identity and identity.get("targets") == NO_DISTANCES

    def identity(self) -> dict[str, Any]:
        return {"targets": NO_DISTANCES}

    @property
    def n_targets(self) -> int | None:
        return 0

    @property
    def kept(self) -> kept.KeptOfRow:
        return kept.Nothing()

    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        """Return the sentence on the first wrong metric; lengths in `stored` are in the input's unit."""
        for name in OF_DISTANCES:
            exact = getattr(true.metrics[0], name)
            if self.form.scale is not None and name in OF_LENGTHS:
                exact = float(exact) / self.form.scale
            if stored[name] != float(exact):
                return f"source `{source}`: stored {name} {stored[name]}, true {name} {exact}"
        return None

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "targets", "none: metrics only"

    def query(self, url: str) -> str:
        return f"SELECT source, reached, max_distance, mean_distance FROM {parquet_files(url, METRICS_FILE)}"
