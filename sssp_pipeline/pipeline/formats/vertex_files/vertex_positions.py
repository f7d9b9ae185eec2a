"""The positions of the vertices in a table: CSV with a header, Parquet, Arrow or GeoParquet, with ids of vertices.

A graph of any format can have such a table. The `.co` file of a DIMACS graph, which has no ids but numbers, is read in
`text/dimacs.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import VertexIds, listed
from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed
from sssp_pipeline.pipeline.formats.vertex_files.point_files import PointFile, PointTable
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.graph import Coordinates
from sssp_pipeline.workflow.vertices import Points

#: The beginning of a file in which the problem line of DIMACS is searched.
_SNIFFED_BYTES = 1 << 16


def is_dimacs_coordinates(url: str) -> bool:
    """Return whether the file begins like one of DIMACS: with comments, and then a problem line.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    with open_decompressed(url) as stream:
        lines = stream.read(_SNIFFED_BYTES).splitlines()
    words = (line.split()[:1] for line in lines)
    return next((first for first in words if first not in ([], [b"c"])), None) == [b"p"]


class _PositionFile(PointFile):
    """A table of vertices."""

    wanted = "write a CSV file with a header, or a Parquet file, with the columns `id`, `lon` and `lat`; or GeoParquet"

    def _naming(self, part: str) -> str:
        return f"name the column: `graph.coordinates: {{file: {files.redacted(self.url)}, {part}: NAME}}`"


@dataclass(frozen=True, eq=False)
class VertexPositions:
    """A table of vertices that was read before the graph is known."""

    url: str
    points: PointTable

    @classmethod
    def read(cls, spec: Coordinates) -> VertexPositions:
        """Return the table that `spec` names.

        Raises
        ------
        InputError
            The file has no ids; or as `PointFile.read`.
        """
        url = spec.file
        file = _PositionFile("graph.coordinates", Points(file=url, id=spec.id, lon=spec.lon, lat=spec.lat))
        points = file.read()
        if points.id_column is None:
            raise InputError(
                f"`{files.redacted(url)}` has no column `id`, which says of which vertex a position is",
                hint=file._naming("id"),
            )
        if None in points.ids:
            raise InputError(
                f"`{files.redacted(url)}` {points.places[points.ids.index(None)]} has no `id`",
                hint="leave out positions of no vertex",
            )
        return cls(url, points)

    def of(self, ids: VertexIds) -> tuple[np.ndarray, np.ndarray, int]:
        """Return longitudes and latitudes (V,) in vertex order, and how many rows are of no vertex of the graph.

        Raises
        ------
        InputError
            A vertex has no row, or several.
        """
        names = [name for name in self.points.ids or [] if name is not None]  # `read` leaves no None
        found = ids.find(ids.typed(names))
        is_known = found >= 0
        rows = np.flatnonzero(is_known)
        counts = np.bincount(found[rows], minlength=ids.n_vertices)
        place = f"`{files.redacted(self.url)}`"
        if len(missing := np.flatnonzero(counts == 0)):
            first = ids.names(missing[:10])
            raise InputError(
                f"{place} has no position of {len(missing):,} of {ids.n_vertices:,} vertices: "
                + listed(first, len(missing)),
                hint="give every vertex of the graph a row; ids are compared as they are written",
            )
        if len(again := np.flatnonzero(counts > 1)):
            second = int(np.flatnonzero(found == again[0])[1])
            raise InputError(
                f"{place} {self.points.places[second]}: vertex `{names[second]}` has a position already",
                hint="give every vertex one row",
            )
        row_of = np.empty(ids.n_vertices, np.int64)
        row_of[found[rows]] = rows
        return self.points.lon[row_of], self.points.lat[row_of], len(names) - len(rows)
