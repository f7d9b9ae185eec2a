"""Isochrones: areas with known answers, a definition by brute force, the file, and wrong input."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import struct
import sys
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.cli import app
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.formats.geometry.great_circle import EARTH_RADIUS_M
from sssp_pipeline.pipeline.formats.geometry.line_tables import open_geopackage
from sssp_pipeline.pipeline.graph_store.coordinates import LonLat
from sssp_pipeline.pipeline.results.exports.areas import geoparquet
from sssp_pipeline.pipeline.results.exports.areas.reached_area import ReachedAreas
from sssp_pipeline.pipeline.verification.task import oracle_for

shapely = pytest.importorskip("shapely", reason="the extra `places` is not installed")

#: Metres of a degree of latitude.
DEGREE_M = EARTH_RADIUS_M * np.pi / 180
#: An area lies between this share of the buffer and the whole of it, as circles have 16 corners.
LEAST_SHARE = np.cos(np.pi / 16)


def graph_of(n_vertices, edges, dtype=np.uint32):
    """Return the graph with `edges` (u, v, weight)."""
    u, v, w = (np.array(column) for column in zip(*edges, strict=True)) if edges else ([], [], [])
    u = np.array(u, np.int64)
    order = np.argsort(u, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(u, minlength=n_vertices))])
    return CsrGraph(offsets, np.array(v, np.uint32)[order], np.array(w, dtype)[order])


def metres_to_reached(graph, positions, distances, limit, lon, lat):
    """Return how far places (n,) are from the reached part of a graph, by looking at every edge."""
    nearest = np.full(len(lon), np.inf)
    unreached = np.inf if distances.dtype.kind == "f" else np.iinfo(distances.dtype).max
    for u in range(graph.n_vertices):
        if distances[u] == unreached or distances[u] > limit:
            continue
        ends = [(u, 0.0)]
        for edge in range(graph.row_offsets[u], graph.row_offsets[u + 1]):
            weight = float(graph.weights[edge])
            left = limit - float(distances[u])
            ends.append((int(graph.col_indices[edge]), 1.0 if weight <= left else left / weight))
        for v, share in ends:
            # A plane around the place, in metres.
            shrink = np.cos(np.radians(lat))
            ax, ay = (positions.lon[u] - lon) * shrink * DEGREE_M, (positions.lat[u] - lat) * DEGREE_M
            bx = ax + share * (positions.lon[v] - positions.lon[u]) * shrink * DEGREE_M
            by = ay + share * (positions.lat[v] - positions.lat[u]) * DEGREE_M
            dx, dy = bx - ax, by - ay
            squared = dx * dx + dy * dy
            along = np.where(squared > 0, -(ax * dx + ay * dy) / np.where(squared > 0, squared, 1), 0)
            along = np.clip(along, 0, 1)
            nearest = np.minimum(nearest, np.hypot(ax + along * dx, ay + along * dy))
    return nearest


# ---- known answers ----


@pytest.mark.parametrize("lat", [0.0, 60.0, -33.5])
@pytest.mark.parametrize("is_two_way", [False, True])
def test_a_straight_street_is_reached_up_to_the_limit(lat, is_two_way):
    edges = [(0, 1, 100), (1, 2, 100)] + [(1, 0, 100), (2, 1, 100)] * is_two_way
    positions = LonLat(np.array([10.0, 10.01, 10.02]), np.full(3, lat), "degrees")
    area = ReachedAreas(graph_of(3, edges), positions, 200).around(np.array([0, 100, 200], np.uint32), 150)
    radius = 200 / DEGREE_M
    wide = radius / np.cos(np.radians(lat))
    west, south, east, north = area.bounds
    assert (west, south, east, north) == pytest.approx(
        (10 - wide, lat - radius, 10.015 + wide, lat + radius), abs=1e-12
    )
    assert area.geom_type == "Polygon"
    assert area.exterior.is_ccw
    circle = 0.5 * 16 * np.sin(np.pi / 8) * radius * wide
    assert area.area == pytest.approx(2 * radius * 0.015 + circle, rel=1e-9)


def lattice(n, centre):
    """Return an n by n grid of unit edges, both ways, and the distances from the vertex at (centre, centre).

    Neighbours are 0.01 degrees apart, on the equator.
    """
    edges = []
    for x in range(n):
        for y in range(n):
            near = [(x + dx, y + dy) for dx, dy in ((0, 1), (1, 0), (0, -1), (-1, 0))]
            edges += [(x * n + y, a * n + b, 1) for a, b in near if 0 <= a < n and 0 <= b < n]
    x, y = np.divmod(np.arange(n * n), n)
    distances = (np.abs(x - centre) + np.abs(y - centre)).astype(np.uint32)
    return graph_of(n * n, edges), LonLat(x / 100, y / 100 - n / 200, "degrees"), distances


@pytest.mark.parametrize("shift", [170.0, 175.0, 179.95, 180.0, 184.0, -180.0], ids=str)
@pytest.mark.parametrize("limit", [0, 1, 2.5, 3, 20])
def test_an_area_is_cut_at_the_180th_meridian(limit, shift):
    """The same city is moved along the equator: the area is the same, moved as far and cut."""
    graph, positions, distances = lattice(11, 5)
    expected = ReachedAreas(graph, positions, 100).around(distances, limit)
    moved = LonLat((positions.lon + shift + 180) % 360 - 180, positions.lat, "degrees")
    area = ReachedAreas(graph, moved, 100).around(distances, limit)
    assert shapely.is_valid(area)
    assert area.area == pytest.approx(expected.area, rel=1e-9)
    west, _, east, _ = area.bounds
    assert -180 <= west <= east <= 180
    moves = [np.array([turn - shift, 0]) for turn in (-360, 0, 360)]
    back = shapely.union_all([shapely.transform(area, lambda at, by=by: at + by) for by in moves])
    back = shapely.intersection(back.buffer(1e-9), shapely.box(-1, -1, 1, 1))
    assert shapely.symmetric_difference(back, expected).area < 1e-8 * expected.length
    polygons = shapely.get_parts(area)
    assert all(polygon.geom_type == "Polygon" and polygon.exterior.is_ccw for polygon in polygons)
    if shift == 179.95 and limit >= 1:  # the meridian is at the centre of the city
        assert (len(polygons), west, east) == (2, -180, 180)


@pytest.mark.parametrize("limit", [0, 1, 2.5, 3, 20])
def test_a_grid_of_unit_edges(limit):
    graph, positions, distances = lattice(11, 5)
    area = ReachedAreas(graph, positions, 100).around(distances, limit)
    inside = shapely.contains_xy(area, positions.lon, positions.lat)
    # The next vertex is half an edge away at least, which is 556 m.
    np.testing.assert_array_equal(inside, distances <= limit)
    assert area.geom_type == "Polygon"
    assert area.is_valid
    # A block is a hole when all its corners are reached; at 2.5 some of the roads around it end halfway.
    corner = (distances <= np.floor(limit)).reshape(11, 11)
    n_blocks = int((corner[1:, 1:] & corner[:-1, 1:] & corner[1:, :-1] & corner[:-1, :-1]).sum())
    assert len(area.interiors) == n_blocks == {0: 0, 1: 0, 2.5: 4, 3: 12, 20: 100}[limit]
    # Blocks are 1,112 m wide: from 560 m on they are filled.
    filled = ReachedAreas(graph, positions, 560).around(distances, limit)
    assert not filled.interiors
    assert filled.covers(area)


def test_larger_limits_hold_smaller_ones():
    graph, positions, distances = lattice(9, 0)
    areas = ReachedAreas(graph, positions, 50)
    found = [areas.around(distances, limit) for limit in (0.5, 1, 4.25, 9, 16)]
    for inner, outer in pairwise(found):
        assert inner.difference(outer).area < 1e-9 * inner.area


@pytest.mark.parametrize("edges", [[], [(0, 0, 3)], [(1, 0, 3)]], ids=["no-edge", "loop", "incoming"])
def test_a_vertex_without_a_road_away_from_it_is_a_circle(edges):
    positions = LonLat(np.array([7.0, 8.0]), np.array([50.0, 50.0]), "degrees")
    area = ReachedAreas(graph_of(2, edges), positions, 30).around(np.array([0, 2**32 - 1], np.uint32), 5)
    assert (area.bounds[1], area.bounds[3]) == pytest.approx((50 - 30 / DEGREE_M, 50 + 30 / DEGREE_M))
    assert shapely.contains_xy(area, 7, 50)
    assert not shapely.contains_xy(area, 8, 50)


# ---- brute force ----


@st.composite
def cases(draw):
    n = draw(st.integers(1, 12))
    dtype = draw(st.sampled_from([np.uint32, np.int64, np.float32, np.float64]))
    weight = st.integers(0, 9) if np.dtype(dtype).kind != "f" else st.floats(0, 9, width=16)
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), weight), max_size=4 * n))
    seed = draw(st.integers(0, 2**32 - 1))
    limit = draw(st.integers(0, 30)) + draw(st.sampled_from([0, 0.5, 1 / 3]))
    return n, edges, dtype, seed, limit


@settings(max_examples=60, deadline=None)
@given(cases())
def test_a_place_is_in_the_area_if_it_is_near_a_reached_road(case):
    n, edges, dtype, seed, limit = case
    rng = np.random.default_rng(seed)
    lat = rng.uniform(-70, 70)
    positions = LonLat(20 + rng.uniform(0, 0.02, n), lat + rng.uniform(0, 0.01, n), "degrees")
    graph = graph_of(n, edges, dtype)
    distances = oracle_for(graph).solve(graph, np.array([0], np.uint32), SolveOptions()).distances[0]
    area = ReachedAreas(graph, positions, 60).around(distances, limit)
    lon, lat = 20 + rng.uniform(-0.003, 0.023, 300), lat + rng.uniform(-0.002, 0.012, 300)
    lon, lat = np.concatenate([lon, positions.lon]), np.concatenate([lat, positions.lat])
    metres = metres_to_reached(graph, positions, distances, limit, lon, lat)
    inside = shapely.contains_xy(area, lon, lat)
    # The planes of the place and of the edge differ by a few millionths.
    assert inside[metres < 60 * LEAST_SHARE - 0.1].all()
    assert not inside[metres > 60.1].any()
    assert inside[300:][distances <= dtype(limit)].all()


# ---- runs ----

#: Three streets in Bude from a to d, 0.001 degrees of latitude each, and e in another county.
ROADS = "from,to,minutes\na,b,2\nb,c,3\nc,d,4\ne,e,1\n"
PLACES = "id,lon,lat\na,-4.5,50.8\nb,-4.5,50.801\nc,-4.5,50.802\nd,-4.5,50.803\ne,-5.5,50.5\n"


def write_input():
    Path("roads.csv").write_text(ROADS)
    Path("places.csv").write_text(PLACES)


def make_run(path="run", **sections):
    graph = {"input": "roads.csv", "coordinates": "places.csv", "directed": False, "self_loops": "keep"}
    workflow = {
        "graph": graph | {"weights": {"unit": "minutes"}},
        "sources": {"ids": ["c", "a", "e"], "order": "given"},
        "solve": {"batch": 2},
        "output": {"path": path},
        "verify": "off",
        "report": False,
    }
    return sp.run(workflow | {name: workflow[name] | section for name, section in sections.items()})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Go to a folder of its own with the input."""
    monkeypatch.chdir(tmp_path)
    write_input()


@pytest.fixture(scope="module")
def folder_of_a_run(tmp_path_factory):
    """The folder with a run that no test changes."""
    folder = tmp_path_factory.mktemp("isochrones")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_input()
        make_run(solve={"cutoff": 7})
    return folder


@pytest.fixture
def stored(folder_of_a_run, monkeypatch):
    """Go to the folder of a run with a cutoff of 7, and return the run."""
    monkeypatch.chdir(folder_of_a_run)
    return sp.open_run("run")


def extents(table):
    """Return source, limit, and the southern and northern ends in thousandths of a degree without the buffer."""
    buffer = json.loads(table.schema.metadata[b"isochrones"])["buffer_m"] / DEGREE_M
    found = []
    for row in table.select(["source", "limit", "bbox"]).to_pylist():
        south, north = row["bbox"]["ymin"] + buffer, row["bbox"]["ymax"] - buffer
        found.append((row["source"], row["limit"], *(round((end - 50) * 1000, 6) for end in (south, north))))
    return found


@pytest.mark.parametrize(
    "sections",
    [
        {},
        {"output": {"layout": "wide"}},
        {"output": {"distances": "reached"}},
        {"solve": {"cutoff": 4, "batch": 1}},
        {"solve": {"predecessors": True}},
        {"graph": {"weights": {"unit": "minutes", "scale": 10}}},
        {"graph": {"weights": {"unit": "minutes", "dtype": "float64"}}},
    ],
    ids=["long", "wide", "reached", "cutoff", "predecessors", "scale", "floats"],
)
def test_every_source_and_limit_in_the_order_of_the_run(folder, sections):
    run = make_run(**sections)
    table = run.isochrones([4, 1.5], buffer_m=10)
    assert extents(table) == [
        ("c", 1.5, 801.5, 802.375),
        ("c", 4.0, 800.5, 803.0),
        ("a", 1.5, 800.0, 800.75),
        ("a", 4.0, 800.0, pytest.approx(801 + 2 / 3, abs=1e-5)),
        ("e", 1.5, 500.0, 500.0),
        ("e", 4.0, 500.0, 500.0),
    ]
    some = extents(run.isochrones([4], ["e", "c"], buffer_m=10))
    assert some == [("c", 4, 800.5, 803.0), ("e", 4, 500.0, 500.0)]
    assert table.schema.field("limit").type == pa.float64()
    assert run.isochrones([4]).schema.field("limit").type == pa.int64()
    areas = shapely.from_wkb(table["geometry"].to_pylist())
    boxes = [list(box.values()) for box in table["bbox"].to_pylist()]
    np.testing.assert_array_equal(shapely.bounds(areas), boxes)
    # Every vertex within the limit is in the area.
    positions = run.graph().lon_lat()
    for (source, limit), area in zip(zip(table["source"], table["limit"], strict=True), areas, strict=True):
        found = sp.solve(run.graph(), source.as_py()).numpy()[0]
        is_near = found <= limit.as_py()
        assert shapely.contains_xy(area, positions.lon, positions.lat)[is_near].all()


def test_the_file_is_geoparquet(folder, monkeypatch):
    monkeypatch.setattr(geoparquet, "_GROUP_BYTES", 1)
    make_run()
    words = "isochrones run areas.parquet --limits 4,9 --buffer-m 25 --from a --from e"
    done = CliRunner().invoke(app, words.split())
    assert (done.exit_code, done.stdout) == (0, "areas.parquet\n"), done.stderr
    assert "coordinates read as longitude and latitude in degrees" in done.stderr
    file = pq.ParquetFile("areas.parquet")
    assert file.num_row_groups == 2
    table = file.read()
    assert table.column_names == ["source", "limit", "geometry", "bbox"]
    assert table["source"].to_pylist() == ["a", "a", "e", "e"]
    assert table["limit"].to_pylist() == [4, 9, 4, 9]
    of_areas, about = (json.loads(file.schema_arrow.metadata[key]) for key in (b"isochrones", b"geo"))
    assert of_areas == {"buffer_m": 25.0, "limit_unit": "minutes"}
    assert (about["version"], about["primary_column"]) == ("1.1.0", "geometry")
    (column,) = about["columns"].values()
    areas = shapely.from_wkb(table["geometry"].to_pylist())
    assert shapely.is_valid(areas).all()
    assert all(area.exterior.is_ccw for area in areas)
    assert column.pop("bbox") == list(shapely.total_bounds(areas))
    assert column.pop("crs")["id"] == {"authority": "OGC", "code": "CRS84"}
    assert column == {
        "encoding": "WKB",
        "geometry_types": ["Polygon"],
        "edges": "planar",
        "orientation": "counterclockwise",
        "covering": {"bbox": {side: ["bbox", side] for side in ("xmin", "ymin", "xmax", "ymax")}},
    }
    # A table from Python has the same content, and pyarrow writes it as the same kind of file.
    same = sp.open_run("run").isochrones([4, 9], ["a", "e"], buffer_m=25)
    pq.write_table(same, "same.parquet")
    again = pq.read_table("same.parquet")
    assert again.to_pylist() == table.to_pylist()
    assert again.schema.metadata[b"geo"] == file.schema_arrow.metadata[b"geo"]
    assert duckdb.sql("SELECT count(*) FROM 'areas.parquet' WHERE bbox.ymin > 50.7").fetchall() == [(2,)]


@pytest.fixture
def across(folder):
    """Areas of the run `sea`, of a street across the meridian at 180 degrees and one in Bude; ids are numbers."""
    Path("sea.csv").write_text("1,2,4\n3,4,4\n")
    Path("places.csv").write_text("id,lon,lat\n1,179.999,-17\n2,-179.999,-17\n3,-4.5,50.8\n4,-4.5,50.801\n")
    graph = {"input": "sea.csv", "coordinates": "places.csv", "directed": False, "format": "csv"}
    workflow = {"graph": graph, "sources": {"ids": [1, 3]}, "output": {"path": "sea"}}
    return sp.run(workflow | {"verify": "off", "report": False}).isochrones([1.5, 4])


def test_geojson(across):
    done = CliRunner().invoke(app, ["isochrones", "sea", "areas.geojson", "--limits", "1.5,4"])
    assert (done.exit_code, done.stdout) == (0, "areas.geojson\n")
    text = Path("areas.geojson").read_text()
    assert len(text.splitlines()) == 6
    found = json.loads(text)
    features = found.pop("features")
    assert found == {"type": "FeatureCollection", "isochrones": {"buffer_m": 100.0, "limit_unit": None}}
    assert [set(feature) for feature in features] == [{"type", "geometry", "properties"}] * 4
    assert [feature["properties"] for feature in features] == across.select(["source", "limit"]).to_pylist()
    areas = [shapely.from_geojson(json.dumps(feature["geometry"])) for feature in features]
    assert [area.geom_type for area in areas] == ["MultiPolygon"] * 2 + ["Polygon"] * 2
    assert shapely.equals_exact(areas, shapely.from_wkb(across["geometry"].to_pylist())).all()


def test_geopackage(across):
    """The requirements of GeoPackage 1.3, by their numbers. GDAL 3.12 read such a file too."""
    done = CliRunner().invoke(app, ["isochrones", "sea", "areas.gpkg", "--limits", "1.5,4"])
    assert (done.exit_code, done.stdout) == (0, "areas.gpkg\n")
    assert not [path for path in Path().iterdir() if path.name.startswith((".sssp", "areas.gpkg-"))]
    areas = shapely.from_wkb(across["geometry"].to_pylist())
    with contextlib.closing(sqlite3.connect("file:areas.gpkg?mode=ro", uri=True)) as base:

        def rows(query):
            return base.execute(query).fetchall()

        assert (rows("PRAGMA application_id"), rows("PRAGMA user_version")) == (
            [(0x47504B47,)],
            [(10300,)],
        )  # 2
        assert (rows("PRAGMA integrity_check"), rows("PRAGMA foreign_key_check")) == ([("ok",)], [])  # 6, 7
        columns = "srs_id, organization, organization_coordsys_id"
        systems = {(-1, "NONE", -1), (0, "NONE", 0), (4326, "EPSG", 4326)}
        assert set(rows(f"SELECT {columns} FROM gpkg_spatial_ref_sys")) == systems  # 11
        columns = "table_name, data_type, srs_id, min_x, min_y, max_x, max_y, last_change"
        ((*contents, last_change),) = rows(f"SELECT {columns} FROM gpkg_contents")
        assert contents == ["isochrones", "features", 4326, *shapely.total_bounds(areas)]  # 13, 18
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", last_change)  # 15
        geometry = ("isochrones", "geometry", "MULTIPOLYGON", 4326, 0, 0)
        assert rows("SELECT * FROM gpkg_geometry_columns") == [geometry]  # 21
        assert [(name, kind, key) for _, name, kind, _, _, key in rows("PRAGMA table_info(isochrones)")] == [
            ("fid", "INTEGER", 1),
            ("geometry", "MULTIPOLYGON", 0),
            ("source", "INTEGER", 0),
            ("limit", "DOUBLE", 0),
        ]  # 29, 30
        found = rows('SELECT source, "limit", geometry FROM isochrones ORDER BY fid')
    assert [row[:2] for row in found] == [(1, 1.5), (1, 4.0), (3, 1.5), (3, 4.0)]
    for (_, _, blob), area in zip(found, areas, strict=True):
        magic, version, flags, srs, west, east, south, north = struct.unpack_from("<2sBBi4d", blob)  # 19
        assert (magic, version, flags, srs) == (b"GP", 0, 3, 4326)
        assert (west, south, east, north) == area.bounds
        read = shapely.from_wkb(blob[40:])
        assert read.geom_type == "MultiPolygon"
        assert shapely.equals_exact(shapely.get_parts(read), shapely.get_parts(area)).all()
    with pytest.raises(InputError, match=r"`areas\.gpkg`: no layer holds lines"):
        open_geopackage("areas.gpkg", "auto")


def test_the_index_of_a_geopackage(across):
    """Requirements 75 to 77 of GeoPackage 1.3."""
    CliRunner().invoke(app, ["isochrones", "sea", "areas.gpkg", "--limits", "1.5,4"])
    with contextlib.closing(sqlite3.connect("areas.gpkg")) as base:

        def rows(query):
            return base.execute(query).fetchall()

        if not rows("SELECT 1 FROM pragma_module_list WHERE name = 'rtree'"):
            pytest.skip("this SQLite has no R-trees")
        definition = "http://www.geopackage.org/spec130/#extension_rtree"
        index = ("isochrones", "geometry", "gpkg_rtree_index", definition, "write-only")
        assert rows("SELECT * FROM gpkg_extensions") == [index]
        names = rows("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'isochrones'")
        ends = ("insert", "update1", "update2", "update3", "update4", "delete")
        assert {name for (name,) in names} == {f"rtree_isochrones_geometry_{end}" for end in ends}
        columns = "id, minx, miny, maxx, maxy"
        tree = np.array(rows(f"SELECT {columns} FROM rtree_isochrones_geometry ORDER BY id"))
        bounds = shapely.bounds(shapely.from_wkb(across["geometry"].to_pylist()))
        assert tree[:, 0].tolist() == [1, 2, 3, 4]
        # SQLite keeps float32, rounded so that every area is inside.
        assert (tree[:, 1:3] <= bounds[:, :2]).all()
        assert (tree[:, 3:] >= bounds[:, 2:]).all()
        assert (np.abs(tree[:, 1:] - bounds) <= np.abs(bounds) * 2**-22).all()
        base.execute("DELETE FROM isochrones WHERE fid = 2")
        assert rows("SELECT id FROM rtree_isochrones_geometry") == [(1,), (3,), (4,)]


def test_a_geopackage_where_sqlite_has_no_r_trees(across, monkeypatch):
    class WithoutModules(sqlite3.Connection):
        def execute(self, query, *values):
            return super().execute(query.replace("pragma_module_list", "(SELECT '' AS name)"), *values)

    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **named: connect(*given, factory=WithoutModules, **named)
    )
    CliRunner().invoke(app, ["isochrones", "sea", "areas.gpkg", "--limits", "1.5,4"])
    with contextlib.closing(connect("areas.gpkg")) as base:
        assert base.execute("SELECT count(*) FROM isochrones").fetchone() == (4,)
        assert base.execute("SELECT name FROM sqlite_master WHERE name LIKE '%rtree%'").fetchall() == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.shp", r"`a\.shp` names no format: it must end in \.parquet, \.geojson or \.gpkg"),
        (
            "memory://a.gpkg",
            r"`memory://a\.gpkg` is not on this machine, and a GeoPackage can only be written there",
        ),
        ("/proc/a.gpkg", r"`/proc/a\.gpkg` cannot be written: "),
    ],
)
def test_a_file_that_cannot_be_written(stored, name, message):
    with pytest.raises(InputError, match=message):
        stored.isochrones_to_write([4], None, 100, "auto", None).write(name, Quiet())


def test_distances_of_a_call_have_the_isochrones_of_a_run(folder):
    run = make_run()
    found = sp.solve(run.graph(), run.sources, cutoff=4).isochrones([4, 1.5], buffer_m=20)
    assert found.equals(run.isochrones([1.5, 4], buffer_m=20), check_metadata=True)
    scaled = sp.ingest("roads.csv", "scaled", coordinates="places.csv", directed=False, weights={"scale": 10})
    table = sp.solve(scaled, "a", cutoff=2.5).isochrones([2.5], buffer_m=20)
    assert extents(table) == [("a", 2.5, 800.0, pytest.approx(801 + 1 / 6, abs=1e-5))]


def test_wrong_questions_to_the_distances_of_a_call(stored):
    store = stored.graph()
    with pytest.raises(InputError, match=r"the limit 5 is above the cutoff, 4: ") as caught:
        sp.solve(store, "a", cutoff=4).isochrones([5])
    assert caught.value.hint == "set `cutoff` higher, or choose smaller limits"
    wanted = "isochrones need the distances to every vertex, and targets were asked for"
    with pytest.raises(InputError, match=wanted):
        sp.solve(store, "a", targets=["b"]).isochrones([5])
    with pytest.raises(InputError, match="the graph has no coordinates: it is not in a graph store"):
        sp.solve(np.array([[0, 1], [1, 0]]), 0).isochrones([5])


IN_UNIT = "name limits in the unit of the weights, such as 600,1200"
STREET = "a street needs about 50"
HIGHER = "set `solve.cutoff` higher, or choose smaller limits"


@pytest.mark.parametrize(
    ("limits", "options", "message", "hint"),
    [
        ([], {}, "the limits are missing: there must be one, and none twice", IN_UNIT),
        ([4, 4.0], {}, "the limits are 4, 4.0: there must be one, and none twice", IN_UNIT),
        *(
            ([limit], {}, f"the limit `{limit}` is not a number of zero or more", IN_UNIT)
            for limit in (-1, float("nan"), float("inf"), "5", True)
        ),
        ([3, 7.5], {}, "the limit 7.5 is above the cutoff, 7: longer distances are not known", HIGHER),
        ([4], {"buffer_m": 0}, "the buffer is `0`, not a positive number of metres", STREET),
        ([4], {"buffer_m": float("nan")}, "the buffer is `nan`, not a positive number of metres", STREET),
        ([4], {"sources": "z"}, "source `z` is not in the run `run`", "its sources are `c`, `a`, `e`"),
        ([4], {"coordinates": "microdegrees"}, "are in degrees, not in microdegrees", "leave out the unit"),
    ],
)
def test_wrong_questions(stored, limits, options, message, hint):
    with pytest.raises(InputError, match=message) as caught:
        stored.isochrones(limits, **options)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "output",
    [
        {"targets": {"ids": ["a", "b", "c", "d", "e"]}},
        {"distances": "none"},
        {"distances": "nearest", "nearest": {"k": 2}},
    ],
    ids=["targets", "none", "nearest"],
)
def test_a_run_without_whole_rows_is_refused(folder, output):
    with pytest.raises(InputError, match="`run` does not hold the distances to every reached vertex"):
        make_run(output=output).isochrones([4])


def test_a_graph_that_cannot_be_drawn_is_refused(folder):
    with pytest.raises(InputError, match="has no coordinates"):
        make_run("flat", graph={"coordinates": None}).isochrones([4])
    Path("negative.csv").write_text(ROADS.replace("b,c,3", "b,c,-1"))
    below = {"input": "negative.csv", "directed": True, "store": "negative", "weights": {"dtype": "int32"}}
    with pytest.raises(InputError, match="has negative weights: along such an edge the distance falls"):
        make_run("below", graph=below).isochrones([4])


def test_areas_around_a_pole_are_refused(folder):
    Path("places.csv").write_text("id,lon,lat\na,179.999,89.9999\nb,170,89.9999\nc,3,4\nd,3,4.01\ne,3,5\n")
    run = make_run()
    with pytest.raises(InputError) as caught:
        run.isochrones([4], "a")
    assert caught.value.message == "the isochrone of source `a` cannot be drawn: it is around a pole"
    assert len(run.isochrones([4], "e")) == 1


def test_shapely_may_be_missing(stored, monkeypatch):
    monkeypatch.setitem(sys.modules, "shapely", None)
    with pytest.raises(InputError, match="isochrones need a package that is missing: ") as caught:
        stored.isochrones([4])
    assert caught.value.hint == "pip install 'sssp-pipeline[places]'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["areas.parquet", "--limits", "4,x"], "error: `--limits 4,x`: `x` is not a number"),
        (["areas.parquet", "--limits", "4,"], "error: `--limits 4,`: `` is not a number"),
        (["areas.json", "--limits", "4"], "error: `areas.json` names no format"),
        (["taken.parquet", "--limits", "4"], "error: `taken.parquet` exists"),
        (["areas.parquet", "--limits", "4", "--from", "z"], "error: source `z` is not in the run `run`"),
        (["areas.parquet", "--limits", "4", "--store", "nowhere"], "error: `nowhere` is not a graph store"),
    ],
)
def test_wrong_words_on_the_command_line(stored, arguments, message):
    Path("taken.parquet").write_text("mine")
    done = CliRunner().invoke(app, ["isochrones", "run", *arguments])
    assert done.exit_code == 2
    assert message in done.stderr
    assert not list(Path().glob("*areas*"))
    assert Path("taken.parquet").read_text() == "mine"


def test_a_damaged_run_leaves_nothing(folder):
    make_run()
    path = Path("run/distances/batch-00000.parquet")
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(5), table.slice(0, 5)]), path)
    done = CliRunner().invoke(app, ["isochrones", "run", "areas.parquet", "--limits", "4"])
    assert done.exit_code == 2
    assert "batch-00000.parquet` was altered" in done.stderr
    assert not list(Path().glob("*areas*"))


@pytest.mark.medium
@pytest.mark.data
def test_the_roads_of_new_york(data_file, tmp_path):
    roads, places = data_file("USA-road-t.NY.gr.gz"), data_file("USA-road-d.NY.co.gz")
    store = sp.ingest(roads, tmp_path / "ny", coordinates=places)
    graph, positions, limit = store.graph(), store.lon_lat(), 30_000
    areas = ReachedAreas(graph, positions, 100)
    rng = np.random.default_rng(3)
    n_inside = 0
    for row in sp.solve(store, store.ids.originals(rng.integers(0, graph.n_vertices, 2)).to_pylist()).numpy():
        area = areas.around(row, limit)
        assert area.is_valid
        inside = shapely.contains_xy(area, positions.lon, positions.lat)
        assert inside[row <= limit].all()
        # Of the other vertices exactly those are inside that are near a reached road.
        west, south, east, north = area.bounds
        is_near = (positions.lon > west) & (positions.lon < east)
        is_near &= (positions.lat > south) & (positions.lat < north)
        others = np.flatnonzero((row > limit) & is_near)
        metres = metres_to_reached(graph, positions, row, limit, positions.lon[others], positions.lat[others])
        assert inside[others][metres < 100 * LEAST_SHARE - 0.1].all()
        assert not inside[others][metres > 100.1].any()
        assert not inside[(row > limit) & ~is_near].any()
        n_inside += inside[others].sum()
    assert n_inside
