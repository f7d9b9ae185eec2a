"""Edges files: the files of a part of the edges of a graph, which are written together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.parquet.arrow_arrays import arrow_array
from sssp_pipeline.pipeline.graph_store.manifest import StoredPart
from sssp_pipeline.pipeline.graph_store.writing.part_files import PartFile, WeightSums
from sssp_pipeline.pipeline.graph_store.writing.writer import StoreWriter


@dataclass(frozen=True)
class WantedParts:
    """Which parts `cut.write_edges` writes."""

    #: Whether to write the row offsets and the edges. Further weights of a store share the parts of the first weight.
    structure: bool = True
    #: Whether the weights are in `edge_weights/`, and not in `edges/`.
    weights_apart: bool = False


@dataclass(frozen=True, eq=False)
class WrittenEdges:
    """The parts of a graph, and the facts about it."""

    row_offsets: list[StoredPart]
    edges: list[StoredPart]
    #: None if the weights are in the parts of `edges`.
    edge_weights: list[StoredPart] | None
    traits: GraphTraits
    #: Whether a weight is 0.
    zero: bool


#: The targets (n,) uint32 and the weights (n,) of edges.
Columns: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class EdgesPart:
    """The rows of a part of the edges, written to the folders of the `WantedParts`."""

    parts: dict[str, StoredPart]
    #: None if no row has an edge.
    sums: WeightSums | None


class EdgesFiles:
    """The files of a part of the edges, which are written row group by row group; raises as `write_edges`."""

    def __init__(self, writer: StoreWriter, wanted: WantedParts, number: int, columns: Columns) -> None:
        self._columns, self._written = columns, 0
        self._files: dict[str, tuple[PartFile, tuple[str, ...]]] = {}
        weights = () if wanted.weights_apart else ("weight",)
        try:
            if wanted.structure:
                self._open(writer, "edges", number, ("col_index", *weights))
            if wanted.weights_apart:
                self._open(writer, "edge_weights", writer.first_weight_part + number, ("weight",))
        except BaseException:
            self.abandon()
            raise

    def _open(self, writer: StoreWriter, folder: str, number: int, names: tuple[str, ...]) -> None:
        schema = self._table(names, 0, 0).schema
        self._files[folder] = writer.part_file(folder, number, schema), names

    def _table(self, names: tuple[str, ...], begin: int, end: int) -> pa.Table:
        arrays = dict(zip(("col_index", "weight"), self._columns, strict=True))
        return pa.table({name: arrow_array(arrays[name][begin:end]) for name in names})

    def write_until(self, end: int) -> None:
        """Write the next edges, those before `end`; each call but the last one writes whole row groups."""
        for file, names in self._files.values():
            file.add(self._table(names, self._written, end))
        self._written = end

    def finish(self, vertices: tuple[int, int], n: int) -> EdgesPart:
        """Write the remaining edges and return the part. It has `n` edges: the rows of `vertices`."""
        if self._written < n or n == 0:
            self.write_until(n)
        col_indices, weights = (column[:n] for column in self._columns)
        parts = {
            folder: file.finish(
                self._table(names, 0, n), *vertices, None if "col_index" in names else col_indices
            )
            for folder, (file, names) in self._files.items()
        }
        return EdgesPart(parts, WeightSums.of(weights) if n else None)

    def abandon(self) -> None:
        """Remove the files that are not finished."""
        for file, _ in self._files.values():
            file.abandon()
