"""The layout of reached pairs: a file for each batch, with a row for each source and each vertex that it reaches.

It has few rows where a cutoff is short. Every source reaches itself, so it has a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.base import csr
from sssp_pipeline.pipeline.results.distance_files import opened
from sssp_pipeline.pipeline.results.layouts.layout import Files, StoredRows
from sssp_pipeline.pipeline.results.layouts.long import LongLayout
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import write_parquet

if TYPE_CHECKING:
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract.solver import Solution

#: The most rows of a row group. A reader of one source skips other groups.
GROUP_ROWS = 2**20


class ReachedLayout(LongLayout):
    """A row for each source and reached vertex."""

    @property
    def reads_facts(self) -> bool:
        return True

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        rows, facts = solution.distances, solution.facts
        if facts is None:
            is_reached = rows != csr.unreached_distance(rows.dtype)
            distances = rows[is_reached]
        else:
            is_reached, distances = facts.selected(rows)
        places, reached = np.nonzero(is_reached)
        columns = {
            "source": ids.originals(sources[places]),
            "vertex": ids.originals(reached),
            "distance": pa.array(self.form.as_written(distances)),
        }
        options = {"compression": self.form.compression, "row_group_size": GROUP_ROWS}
        write_parquet(pa.table(columns), handle, **options)

    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        place, row = -1, np.empty(0, dtype)
        name: Any = None
        with opened(stored[0]) as file:
            for group in range(file.num_row_groups):  # one at a time: a batch may have many rows
                table = file.read_row_group(group, columns=["source", "vertex", "distance"])
                runs = pc.run_end_encode(table["source"].combine_chunks())
                begin = 0
                for source, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
                    if source != name:
                        if place in places:
                            yield name, row
                        place, name = place + 1, source
                        row = np.full(ids.n_vertices, csr.unreached_distance(dtype))
                    if place in places:
                        rows = table.slice(begin, end - begin)
                        reached = ids.vertices(
                            rows["vertex"].to_pylist(), f"`{files.redacted(stored[0].url)}`: vertex"
                        )
                        row[reached] = self.form.as_solved(rows["distance"], dtype)
                    begin = end
        if place in places:
            yield name, row
