"""The points in a file of sources or targets: CSV with a header, Parquet, Arrow, or GeoParquet.

Longitudes and latitudes are degrees of WGS 84. GeoParquet has x before y whatever its CRS says, so a geometry cannot
be read the wrong way round. A CSV file is read by the names of its columns, never by their order.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.vertex_ids import listed, typed_ids
from sssp_pipeline.pipeline.formats.geometry.geometry_metadata import other_crs, primary_geometry
from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed
from sssp_pipeline.pipeline.formats.streams.magic import ARROW_FILE_MAGIC, PARQUET_MAGIC
from sssp_pipeline.pipeline.formats.vertex_files.column_files import ColumnFile, shortened
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.vertices import Points

#: Names of columns that are taken without being named in the workflow.
_NAMES = {"lon": ("lon", "lng", "longitude"), "lat": ("lat", "latitude"), "id": ("id",)}
_LONGEST_HEADER = 1 << 12
_LIMITS = {"lon": 180, "lat": 90}
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def points_hint(url: str, key: str) -> str:
    """Return the hint for a file of points that was given as a file of ids at `key` of the workflow.

    It is empty if the first line names no columns of longitudes and latitudes.
    """
    first = b""
    with suppress(SsspError), open_decompressed(url) as stream:
        first = stream.readline(_LONGEST_HEADER)
    names = {name.strip('" \r\n') for name in re.split(r"[,;|\t]", first.decode(errors="replace").casefold())}
    if names.isdisjoint(_NAMES["lon"]) or names.isdisjoint(_NAMES["lat"]):
        return ""
    return (
        f"to take its rows as points, write `points:{files.redacted(url)}` after `--from` or `--to`, "
        f"or set `{key}.points.file`"
    )


class Places(Sequence[str]):
    """Where the points are in a file, such as "line 2"; one number is kept for each."""

    def __init__(self, unit: str, numbers: Sequence[int]) -> None:
        self._unit, self._numbers = unit, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, i: Any) -> Any:
        return f"{self._unit} {self._numbers[i]}"


@dataclass(frozen=True, eq=False)
class PointTable:
    """The points of a file, in its order."""

    #: (P,) float64, degrees.
    lon: np.ndarray
    lat: np.ndarray
    #: (P,) None for a point without one. Results have them as integers if `has_whole_ids`.
    ids: list[str | None]
    has_whole_ids: bool
    #: The column of the ids; None if the file has none, and points are numbered from 1.
    id_column: str | None
    #: Where the points are in the file: "line 2" or "row 1".
    places: Sequence[str]

    def name(self, i: int) -> str:
        """Return the place of a point, its id and its position, for a message."""
        point_id = None if self.id_column is None else self.ids[i]
        named = f" `{shortened(point_id)}`" if point_id is not None else ""
        return (
            f"{self.places[i]}: the point{named} at longitude {self.lon[i]:.10g}, latitude {self.lat[i]:.10g}"
        )


@dataclass(frozen=True)
class PointFile(ColumnFile):
    """A file of points and what the workflow says about it."""

    #: The key of its section in the workflow: `sources.points` or `output.targets.points`.
    key: str
    spec: Points

    wanted = (
        "write a CSV file with a header, or a Parquet file, with the columns `lon` and `lat`; or GeoParquet"
    )

    @property
    def url(self) -> str:
        return self.spec.file

    def read(self) -> PointTable:
        """Return the points.

        Raises
        ------
        InputError
            The file does not exist or has no point, it is not clear which columns hold the points, a coordinate is
            missing or beyond the globe, or a geometry is no point or not in WGS 84.
        """
        content, is_table = self._content()
        try:
            found = self._of_table(content) if is_table else self._of_text(content)
        except (pa.ArrowException, OSError) as error:
            raise self._error(
                f" cannot be read as Parquet or Arrow: {error}", "write the file again"
            ) from error
        if not len(found.lon):
            raise self._error(" has no point", self.wanted)
        self._check(found)
        return found

    def _looks_like_header(self, cells: list[str]) -> bool:
        known = {name for names in _NAMES.values() for name in names}
        named = {self.spec.lon, self.spec.lat, self.spec.id}
        return any(cell.strip() in named or cell.strip().casefold() in known for cell in cells)

    def _column(self, part: str, names: Sequence[str]) -> int | None:
        """Return the index of the column of `part`, a key of `_NAMES`; None for ids if there are none."""
        given: str | None = getattr(self.spec, part)
        if given is not None:
            found = [i for i, name in enumerate(names) if name == given]
        else:
            found = [i for i, name in enumerate(names) if name.casefold() in _NAMES[part]]
        if len(found) == 1:
            return found[0]
        if part == "id" and given is None and not found:
            return None
        what = {"lon": "longitudes", "lat": "latitudes", "id": "ids"}[part]
        which = f"{len(found)} columns" if found else "no column"
        asked = f"{which} `{given}`" if given is not None else f"{which} that may hold the {what}"
        raise self._error(
            f" has {asked}: its columns are {listed(names)}",
            self._naming(part) + "; the first line must name the columns" * (not found),
        )

    def _naming(self, part: str) -> str:
        """Return how to say which column holds `part`, for a hint."""
        return f"name the column with `{self.key}.{part}`"

    # ---- text ----

    def _of_text(self, content: bytes) -> PointTable:
        rows = self._rows(content)
        if not rows:
            return self._named(np.empty(0), np.empty(0), None, None, Places("line", []))
        names = [cell.strip() for cell in rows[0][1]]
        lon, lat, point_id = (self._column(part, names) for part in _NAMES)
        assert lon is not None
        assert lat is not None
        rows, places = rows[1:], Places("line", [number for number, _ in rows[1:]])
        found: dict[str, list[float]] = {"lon": [], "lat": []}
        for place, (_, row) in zip(places, rows, strict=True):
            if len(row) != len(names):
                raise self._error(
                    f" {place} has {len(row)} columns, the first line has {len(names)}",
                    "put a value that has a delimiter in quotes",
                )
            for part, i in (("lon", lon), ("lat", lat)):
                found[part].append(self._number(row[i].strip(), names[i], place))
        column, ids = None, None
        if point_id is not None:
            column, ids = names[point_id], [row[point_id].strip() or None for _, row in rows]
        return self._named(np.array(found["lon"]), np.array(found["lat"]), column, ids, places)

    def _number(self, word: str, column: str, place: str) -> float:
        if not word:
            raise self._missing(column, place)
        if not _NUMBER.fullmatch(word):
            raise self._error(
                f" {place}: `{shortened(word)}` in column `{column}` is not a number",
                "write degrees with a point before the decimals, such as -73.98",
            )
        return float(word)

    def _missing(self, column: str, place: str) -> InputError:
        return self._error(f" {place} has no `{column}`", "leave out points without a position")

    # ---- Parquet and Arrow ----

    def _of_table(self, content: bytes) -> PointTable:
        buffer = pa.BufferReader(content)
        if content.startswith(PARQUET_MAGIC):
            table = pq.ParquetFile(buffer).read()
        else:
            is_file = content.startswith(ARROW_FILE_MAGIC)
            table = (pa.ipc.open_file if is_file else pa.ipc.open_stream)(buffer).read_all()
        names = table.column_names
        point_id, column, ids = self._column("id", names), None, None
        if point_id is not None:
            column, ids = names[point_id], table.column(point_id).to_pylist()
        places = Places("row", range(1, table.num_rows + 1))
        if b"geo" in (table.schema.metadata or {}) and self.spec.lon is None and self.spec.lat is None:
            lon, lat = self._of_geometry(table, places)
        else:
            lon, lat = (self._values(table, part, places) for part in ("lon", "lat"))
        return self._named(lon, lat, column, ids, places)

    def _values(self, table: pa.Table, part: str, places: Sequence[str]) -> np.ndarray:
        i = self._column(part, table.column_names)
        assert i is not None
        name, column = table.column_names[i], table.column(i)
        if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            raise self._error(
                f": column `{name}` has type {column.type}, not numbers",
                self._naming(part),
            )
        if column.null_count:
            raise self._missing(name, places[column.is_null().to_pylist().index(True)])
        return np.asarray(column.cast(pa.float64()).to_numpy())

    def _of_geometry(self, table: pa.Table, places: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the longitudes and latitudes of the primary geometry of a GeoParquet file."""
        try:
            found = primary_geometry(table.schema.metadata)
            assert found is not None
            name, about = found
            column = table[name]
        except (ValueError, LookupError) as error:
            raise self._error(" has no usable description of its geometry", "write the file again") from error
        self._check_crs(name, about)
        if about.get("encoding") not in ("WKB", "point"):
            raise self._error(
                f": the geometry `{name}` is encoded as {about.get('encoding')}",
                "write points, encoded as WKB",
            )
        if column.null_count:
            raise self._missing(name, places[column.is_null().to_pylist().index(True)])
        if about["encoding"] == "point":
            parts = column.combine_chunks()
            return tuple(np.asarray(parts.field(axis).cast(pa.float64()).to_numpy()) for axis in "xy")  # type: ignore[return-value]
        xy = np.array(
            [self._of_wkb(value, place) for value, place in zip(column.to_pylist(), places, strict=True)]
        )
        return xy.reshape(-1, 2)[:, 0], xy.reshape(-1, 2)[:, 1]

    def _check_crs(self, name: str, about: dict[str, Any]) -> None:
        shown = other_crs(about)
        if shown is None:
            return
        raise self._error(
            f": the CRS of the geometry `{name}` is {shown}, not WGS 84",
            "convert it to longitude and latitude: OGC:CRS84 or EPSG:4326",
        )

    def _of_wkb(self, value: Any, place: str) -> tuple[float, float]:
        try:
            order = {0: ">", 1: "<"}[value[0]]
            (kind,) = struct.unpack_from(f"{order}I", value, 1)
            # Bits of extended WKB stand for Z, M and an SRID. The thousands of ISO WKB stand for Z and M.
            start = 9 if kind & 0x20000000 else 5
            if (kind & 0x0FFFFFFF) % 1000 != 1:
                raise self._error(f" {place}: its geometry is no point", "give one point in each row")
            x, y = struct.unpack_from(f"{order}dd", value, start)
        except (struct.error, LookupError, TypeError) as error:
            raise self._error(f" {place}: its geometry is no WKB", "write the file again") from error
        return x, y

    # ---- both ----

    def _named(
        self, lon: np.ndarray, lat: np.ndarray, column: str | None, ids: list[Any] | None, places: Places
    ) -> PointTable:
        """Return the points with the `ids` of a `column`; without one they are numbered from 1."""
        if ids is None:
            return PointTable(lon, lat, list(map(str, range(1, len(lon) + 1))), True, None, places)
        texts = [None if value is None else str(value) for value in ids]
        is_whole = all(isinstance(value, int) and value < 2**63 for value in typed_ids(ids))
        return PointTable(lon, lat, texts, is_whole, column, places)

    def _check(self, points: PointTable) -> None:
        """Raise `InputError` for the first point that is not on the globe."""
        for part, values in (("lon", points.lon), ("lat", points.lat)):
            wrong = np.flatnonzero(~(np.abs(values) <= _LIMITS[part]))
            if not len(wrong):
                continue
            i = int(wrong[0])
            what, limit = {"lon": "longitude", "lat": "latitude"}[part], _LIMITS[part]
            is_swapped = part == "lat" and abs(points.lat[i]) <= 180 and abs(points.lon[i]) <= 90
            hint = f"a {what} is from -{limit} to {limit} degrees"
            if is_swapped:
                hint += "; the columns of longitude and latitude may be exchanged"
            raise self._error(f" {points.places[i]}: {what} {values[i]:.10g} is not on the globe", hint)
