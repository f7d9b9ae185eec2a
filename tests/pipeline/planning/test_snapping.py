"""Points in files, and the vertices that they snap to."""

from __future__ import annotations

import json
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.geometry.great_circle import EARTH_RADIUS_M
from sssp_pipeline.pipeline.formats.vertex_files.point_files import PointFile
from sssp_pipeline.pipeline.graph_store.coordinates import LonLat
from sssp_pipeline.pipeline.planning.snapping import Nearby
from sssp_pipeline.workflow.vertices import Points

CRS84 = {"name": "WGS 84 (CRS84)", "id": {"authority": "OGC", "code": "CRS84"}}
UTM = {"name": "WGS 84 / UTM zone 18N", "id": {"authority": "EPSG", "code": 32618}}


# ---- the nearest vertex ----


def by_vectors(lon, lat, point_lon, point_lat):
    """The angles between points and vertices, (P, V), by their vectors in space."""

    def vectors(lon, lat):
        lon, lat = np.radians(lon), np.radians(lat)
        return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)

    a, b = vectors(point_lon, point_lat)[:, None], vectors(lon, lat)[None]
    return np.arctan2(np.linalg.norm(np.cross(a, b), axis=-1), (a * b).sum(axis=-1))


POSITION = st.tuples(
    st.one_of(st.sampled_from([-180.0, 180.0, 0.0, 179.9]), st.floats(-180, 180, width=32)),
    st.one_of(st.sampled_from([-90.0, 90.0, 0.0, 89.9]), st.floats(-90, 90, width=32)),
)


@pytest.mark.medium
@given(st.lists(POSITION, min_size=1, max_size=30), st.lists(POSITION, min_size=1, max_size=10))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_the_nearest_of_all_vertices_is_found(positions, points):
    (lon, lat), (point_lon, point_lat) = np.array(positions).T, np.array(points).T
    vertices, metres = Nearby(LonLat(lon, lat, "degrees")).nearest(point_lon, point_lat)
    angles = by_vectors(lon, lat, point_lon, point_lat)
    # Near the antipode of a point, half a millimetre is what float64 can tell.
    assert_allclose(metres, angles.min(axis=1) * EARTH_RADIUS_M, rtol=1e-9, atol=0.5)
    assert_allclose(angles[np.arange(len(points)), vertices], angles.min(axis=1), rtol=1e-9, atol=1e-7)


def test_the_nearest_of_many_vertices_is_found():
    random = np.random.default_rng(5)
    lon, lat = random.uniform(-74.5, -73.5, 20_000), random.uniform(40.3, 41.3, 20_000)
    point_lon, point_lat = random.uniform(-74.6, -73.4, 50), random.uniform(40.2, 41.4, 50)
    vertices, metres = Nearby(LonLat(lon, lat, "degrees")).nearest(point_lon, point_lat)
    angles = by_vectors(lon, lat, point_lon, point_lat)
    assert_array_equal(vertices, angles.argmin(axis=1))
    assert_allclose(metres, angles.min(axis=1) * EARTH_RADIUS_M, rtol=1e-6)


def test_the_smallest_of_vertices_at_one_place_is_taken():
    lon, lat = np.array([5.0, 1.0, 3.0, 1.0, 3.0]), np.array([2.0, 2.0, 2.0, 2.0, 2.0])
    vertices, metres = Nearby(LonLat(lon, lat, "degrees")).nearest(np.array([1.0, 2.0, 3.0]), np.full(3, 2.0))
    assert_array_equal(vertices, [1, 1, 2])
    assert metres[0] == metres[2] == 0


def test_a_limit():
    one_degree_m = EARTH_RADIUS_M * np.pi / 180
    nearby = Nearby(LonLat(np.array([0.0]), np.array([0.0]), "degrees"))
    near, far = np.array([0.0, 0.0]), np.array([1.0, 1.1])
    assert_allclose(nearby.nearest(near, far, one_degree_m)[1], [one_degree_m, np.inf])
    assert_allclose(nearby.nearest(near, far)[1], [one_degree_m, 1.1 * one_degree_m])
    assert_allclose(nearby.nearest(far, near, 1e9)[1], [one_degree_m, 1.1 * one_degree_m])


# ---- files ----


def read(path, **spec):
    return PointFile("sources.points", Points(file=str(path), **spec)).read()


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("id,lat,lon\na,40.5,-73.25\nb,-1e1,.5\n", {}),
        ("id;Longitude;Latitude;more\na;-73.25;40.5;x\nb;+0.5;-10;y\n", {}),
        ("# points\nname\tlng\tlat\na\t-73.25\t40.5\nb\t0.5\t-10\n", {"id": "name"}),
        ("x,y,id\n-73.25,40.5,a\n0.5,-10.0,b\n", {"lon": "x", "lat": "y"}),
        ("\ufefflon,lat,id\n-73.25,40.5,a\n0.5,-10.0,b\n", {}),
    ],
)
def test_text(tmp_path, text, spec):
    (tmp_path / "p.csv").write_text(text)
    found = read(tmp_path / "p.csv", **spec)
    assert (found.lon.tolist(), found.lat.tolist(), found.ids) == ([-73.25, 0.5], [40.5, -10], ["a", "b"])
    first = 3 if text.startswith("#") else 2
    assert list(found.places) == [f"line {first}", f"line {first + 1}"]


WRITE, NAME = "write a CSV file with a header, or a Parquet file, with the columns", "name the column with"
DEGREES = "write degrees with a point"


@pytest.mark.parametrize(
    ("text", "spec", "message", "hint"),
    [
        ("", {}, " has no point", WRITE),
        ("lon,lat\n", {}, " has no point", WRITE),
        ("-73.25,40.5\n", {}, " has no column that may hold the longitudes: its columns are `-73.25`, `40.5`",
         f"{NAME} `sources.points.lon`; the first line must name the columns"),
        ("lon,longitude,lat\n1,2,3\n", {}, " has 2 columns that may hold the longitudes: its columns are `lon`",
         f"{NAME} `sources.points.lon`"),
        ("lon,lat\n1,2\n", {"lat": "y"}, " has no column `y`", f"{NAME} `sources.points.lat`"),
        ("lon,lat\n1,2\n", {"id": "name"}, " has no column `name`", f"{NAME} `sources.points.id`"),
        ("lon,lat\n1,2\n3,\n", {}, " line 3 has no `lat`", "leave out points without a position"),
        ("lon,lat\n1,2\n3\n", {}, " line 3 has 1 columns, the first line has 2", "put a value that has"),
        ("lon,lat\n1,x\n", {}, " line 2: `x` in column `lat` is not a number", DEGREES),
        ("lon;lat\n1,5;2\n", {}, " line 2: `1,5` in column `lon` is not a number", DEGREES),
        ("lon,lat\nnan,2\n", {}, " line 2: `nan` in column `lon` is not a number", DEGREES),
        ("lon,lat\n1_0,2\n", {}, " line 2: `1_0` in column `lon` is not a number", DEGREES),
        ("lon,lat\n180.5,2\n", {}, " line 2: longitude 180.5 is not on the globe", "a longitude is from -180 to 180"),
        ("lon,lat\n40.5,-91\n", {}, " line 2: latitude -91 is not on the globe",
         "a latitude is from -90 to 90 degrees; the columns of longitude and latitude may be exchanged"),
        ("lon,lat\n-73530767,41085396\n", {}, " line 2: longitude -73530767 is not on the globe",
         "a longitude is from -180 to 180 degrees"),
    ],
)  # fmt: skip
def test_text_that_is_refused(tmp_path, text, spec, message, hint):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(InputError) as caught:
        read(tmp_path / "p.csv", **spec)
    assert caught.value.message.startswith(f"`{tmp_path}/p.csv`{message}")
    assert caught.value.hint.startswith(hint)


def wkb(x, y, order="<", kind=1, before=b""):
    return struct.pack(f"{order}BI", order == "<", kind) + before + struct.pack(f"{order}dd", x, y)


def geoparquet(path, geometry, crs=(), **more):
    """Write a file with the column `geometry`; `crs` is left out if it is ()."""
    about = {"encoding": "WKB", "geometry_types": ["Point"]} | ({} if crs == () else {"crs": crs}) | more
    meta = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": about}}
    table = pa.table(
        {"id": pa.array(range(len(geometry))), "geometry": geometry, "lon": [0.0] * len(geometry)}
    )
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(meta)}), path)
    return path


@pytest.mark.parametrize(
    "crs", [(), CRS84, {"id": {"authority": "EPSG", "code": 4326}}], ids=["none", "ogc", "epsg"]
)
def test_geoparquet(tmp_path, crs):
    geometry = [
        wkb(-73.25, 40.5),
        wkb(0.5, -10, ">"),
        wkb(1, 2, kind=1001) + b"\0" * 8,
        wkb(3, 4, kind=0x20000001, before=struct.pack("<I", 4326)),
    ]
    found = read(geoparquet(tmp_path / "p.parquet", geometry, crs))
    assert_array_equal(found.lon, [-73.25, 0.5, 1, 3])
    assert_array_equal(found.lat, [40.5, -10, 2, 4])
    assert (found.ids, list(found.places)) == (["0", "1", "2", "3"], ["row 1", "row 2", "row 3", "row 4"])


def test_geoparquet_with_native_points_and_parquet_with_columns(tmp_path):
    points = pa.array([{"x": 1.0, "y": 2.0}, {"x": 3.0, "y": 4.0}])
    found = read(geoparquet(tmp_path / "p.parquet", points, encoding="point"))
    assert (found.lon.tolist(), found.lat.tolist()) == ([1, 3], [2, 4])
    pq.write_table(pa.table({"lon": [1, 3], "lat": pa.array([2, 4], pa.float32())}), tmp_path / "q.parquet")
    found = read(tmp_path / "q.parquet")
    assert (found.lon.tolist(), found.lat.tolist(), found.ids) == ([1, 3], [2, 4], ["1", "2"])
    with (
        pa.OSFile(str(tmp_path / "q.arrow"), "wb") as file,
        pa.ipc.new_file(file, pa.schema({"x": pa.int8(), "y": pa.int8()})) as to,
    ):
        to.write_batch(pa.record_batch({"x": pa.array([5], pa.int8()), "y": pa.array([6], pa.int8())}))
    found = read(tmp_path / "q.arrow", lon="x", lat="y")
    assert (found.lon.tolist(), found.lat.tolist()) == ([5], [6])


@pytest.mark.parametrize(
    ("geometry", "more", "message"),
    [
        ([wkb(1, 2)], {"crs": UTM}, ": the CRS of the geometry `geometry` is EPSG:32618, not WGS 84"),
        ([wkb(1, 2)], {"crs": None}, ": the CRS of the geometry `geometry` is not known, not WGS 84"),
        ([wkb(1, 2)], {"crs": {"name": "Mars"}}, ": the CRS of the geometry `geometry` is `Mars`, not WGS 84"),
        ([wkb(1, 2)], {"encoding": "polygon"}, ": the geometry `geometry` is encoded as polygon"),
        ([wkb(1, 2), None], {}, " row 2 has no `geometry`"),
        ([wkb(1, 2), wkb(1, 2, kind=3)], {}, " row 2: its geometry is no point"),
        ([b"\x01\x01"], {}, " row 1: its geometry is no WKB"),
        ([b""], {}, " row 1: its geometry is no WKB"),
        # An empty point has NaN for coordinates.
        ([wkb(np.nan, np.nan)], {}, " row 1: longitude nan is not on the globe"),
    ],
)  # fmt: skip
def test_geoparquet_that_is_refused(tmp_path, geometry, more, message):
    path = geoparquet(tmp_path / "p.parquet", pa.array(geometry, pa.binary()), **more)
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.message == f"`{path}`{message}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"lon": ["1"], "lat": [2]}, ": column `lon` has type string, not numbers"),
        ({"lon": [1, None], "lat": [2, 3]}, " row 2 has no `lon`"),
        ({"x": [1], "y": [2]}, " has no column that may hold the longitudes: its columns are `x`, `y`"),
        ({"lon": [float("inf")], "lat": [0]}, " row 1: longitude inf is not on the globe"),
        ({"lon": pa.array([], pa.float64()), "lat": pa.array([], pa.float64())}, " has no point"),
    ],
)
def test_tables_that_are_refused(tmp_path, columns, message):
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(InputError) as caught:
        read(path)
    assert caught.value.message == f"`{path}`{message}"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(InputError, match="cannot be read as Parquet or Arrow"):
        read(path)
