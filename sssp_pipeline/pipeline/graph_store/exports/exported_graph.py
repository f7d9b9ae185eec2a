"""What the writers of all formats share: the graph to be written, and what a format cannot hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.graph_store.edge_stream import EdgeBlock, EdgeStream
from sssp_pipeline.pipeline.graph_store.loading import load_ids, part_table
from sssp_pipeline.storage import files

#: Names of the columns of a Parquet file, unless the user names others.
COLUMNS = ("source", "target", "weight")
#: The most edges, and the most vertices, of a block. Each thread that makes text of blocks needs some 50 MB.
BLOCK_ROWS = 2**18


@dataclass(frozen=True, eq=False)
class ExportedGraph:
    """A stored graph, and how it is written to a file."""

    stream: EdgeStream
    #: The file.
    url: str
    #: The number that the format gives the first vertex; None if it has the ids.
    first_number: int | None
    #: The names of the columns in a Parquet file.
    columns: tuple[str, str, str]
    #: The number of threads that make text.
    threads: int
    progress: Progress

    @property
    def n_vertices(self) -> int:
        return self.stream.manifest.n_vertices

    @property
    def n_edges(self) -> int:
        return self.stream.manifest.n_edges

    @property
    def place(self) -> str:
        """The store, for messages."""
        return f"`{files.redacted(self.stream.store)}`"

    @cached_property
    def ids(self) -> VertexIds:
        """The ids of the vertices, which are all held in memory if they are a table."""
        return load_ids(self.stream.store, self.stream.manifest)

    @cached_property
    def weight_dtype(self) -> np.dtype:
        """The type of the weights in the unit of the input."""
        facts = self.stream.manifest.weights
        return np.dtype(np.float64 if facts.scale is not None else facts.dtype)

    @property
    def has_whole_weights(self) -> bool:
        return self.weight_dtype.kind != "f"

    def weights(self, stored: np.ndarray) -> np.ndarray:
        """Return stored weights (n,) in the unit of the input; `graph.weights.scale` makes the same integers again."""
        scale = self.stream.manifest.weights.scale
        return stored if scale is None else stored / np.float64(scale)

    def blocks(self) -> Iterator[EdgeBlock]:
        """Yield all edges in blocks."""
        return self.stream.blocks(BLOCK_ROWS)

    def written(self, n_edges: int) -> None:
        """Report that `n_edges` are written."""
        self.progress.advance(n_edges, self.n_edges, "edges")

    def refuse_repeats(self, block: EdgeBlock, format_name: str) -> None:
        """Raise `InputError` if an edge of `block` is listed twice."""
        if (found := block.first_repeat()) is not None:
            u, v = (self.ids.original(end) for end in found)
            raise InputError(
                f"{self.place} has parallel edges from `{u}` to `{v}`, and {format_name} has one",
                hint="write a `.parquet` file, or ingest the graph with `graph.duplicates: keep-min`",
            )

    def refuse_loops(self, block: EdgeBlock, format_name: str) -> None:
        """Raise `InputError` if an edge of `block` is a self-loop."""
        if (found := block.first_loop()) is not None:
            raise InputError(
                f"{self.place} has a self-loop of vertex `{self.ids.original(found)}`, and {format_name} has none",
                hint="write a `.parquet` or `.mtx` file, or ingest the graph with `graph.self_loops: drop`",
            )

    def refuse_decimals(self, format_name: str) -> None:
        """Raise `InputError` if weights are not integers."""
        if not self.has_whole_weights:
            scale = self.stream.manifest.weights.scale
            what = f"of type {self.weight_dtype}" if scale is None else f"with decimals (scale {scale})"
            raise InputError(
                f"{self.place} has weights {what}, and {format_name} has integers",
                hint="write a `.mtx` or `.parquet` file",
            )

    def refuse_large_integers(self, format_name: str) -> None:
        """Raise `InputError` if a weight is an integer above 2^63 - 1, which readers of `format_name` refuse."""
        largest = self.stream.manifest.weights.max
        if self.has_whole_weights and largest >= 2**63:
            raise InputError(
                f"{self.place} has the weight {largest}, and {format_name} has integers up to 2^63 - 1",
                hint="write a `.parquet` or `.npz` file",
            )

    def vertex_tables(self) -> Iterator[pa.Table]:
        """Yield the vertices in order: `id`, and the coordinates `x` and `y` if the store has them."""
        manifest = self.stream.manifest
        names = {"original_id": "id"} if manifest.ids.kind == "table" else {}
        names |= {"x": "x", "y": "y"} if manifest.coordinates else {}
        first = manifest.ids.first_id
        if not names:
            for begin in range(0, max(self.n_vertices, 1), BLOCK_ROWS):
                upto = min(begin + BLOCK_ROWS, self.n_vertices)
                yield pa.table({"id": np.arange(first + begin, first + upto)})
            return
        for part in manifest.vertices:
            rows = part_table(self.stream.store, part, *names).rename_columns(list(names.values()))
            if "id" not in rows.column_names:
                rows = rows.add_column(0, "id", pa.array(np.arange(first + part.first, first + part.last)))
            yield rows
