"""An output with the reached vertices of each source alone: few rows where a cutoff is short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.pipeline.results import distance_files
from sssp_pipeline.pipeline.results.distance_outputs import VertexDistances
from sssp_pipeline.pipeline.results.outputs import StoredRow
from sssp_pipeline.storage import file_sums, files
from sssp_pipeline.storage.file_sums import StoredFile

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from sssp_pipeline.base import csr
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract import kept
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.pipeline.graph_store import units
else:  # `inspect` needs none of them
    np, csr = LazyModule("numpy"), LazyModule("sssp_pipeline.base.csr")
    pa, pc = LazyModule("pyarrow"), LazyModule("pyarrow.compute")
    kept = LazyModule("sssp_pipeline.kernels.contract.kept")
    units = LazyModule("sssp_pipeline.pipeline.graph_store.units")

#: The most rows of a row group. A reader of one source skips other groups.
_GROUP_ROWS = 2**20


class ReachedPairs(VertexDistances):
    """The distances to the reached vertices, a row for each. Every source reaches itself, so it has a row."""

    name = "reached"

    @property
    def kept(self) -> kept.KeptOfRow:
        return kept.EveryVertex()

    @property
    def reads_facts(self) -> bool:
        return True

    def vertex_column(self, ids: VertexIds) -> pa.Array:
        return ids.column()

    def vertex_at(self, column: int) -> int:
        return column

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        rows, facts, scale = solution.distances, solution.facts, self.form.scale
        if facts is None:
            is_reached = rows != csr.unreached_distance(rows.dtype)
            distances = rows[is_reached]
        else:
            is_reached, distances = facts.selected(rows)
        places, vertices = np.nonzero(is_reached)
        columns = {
            "source": ids.originals(sources[places]),
            "vertex": ids.originals(vertices),
            "distance": pa.array(
                distances if scale is None else units.distances_in_input_unit(distances, scale)
            ),
        }
        options = {"compression": self.form.compression, "row_group_size": _GROUP_ROWS}
        file_sums.write_parquet(pa.table(columns), handle, **options)

    def read(
        self, stored: Sequence[StoredFile], places: Sequence[int], ids: VertexIds, dtype: np.dtype
    ) -> Iterator[StoredRow]:
        place, whole = -1, np.empty(0, dtype)
        name: Any = None
        with distance_files.opened(stored[0]) as file:
            for group in range(file.num_row_groups):  # one at a time: a batch may have many rows
                table = file.read_row_group(group, columns=["source", "vertex", "distance"])
                runs = pc.run_end_encode(table["source"].combine_chunks())
                begin = 0
                for source, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                    if source != name:
                        if place in places:
                            yield name, whole
                        place, name = place + 1, source
                        whole = np.full(ids.n_vertices, csr.unreached_distance(dtype))
                    if place in places:
                        rows = table.slice(begin, end - begin)
                        vertices = ids.vertices(
                            rows["vertex"].to_pylist(), f"`{files.redacted(stored[0].url)}`: vertex"
                        )
                        whole[vertices] = distance_files.as_solved(rows["distance"], self.form, dtype)
                    begin = end
        if place in places:
            yield name, whole
