"""Lines of GeoParquet and GeoPackage: ends and lengths, layers, and each error."""

import gzip
import json
import math
import sqlite3
import struct
import sys
from contextlib import closing

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely
from hypothesis import given, settings

from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.pipeline.formats.detect import detect_format

A, B, C, D = (7.42, 43.73), (7.42, 43.732), (7.424, 43.732), (7.43, 43.74)
ROADS = [shapely.LineString([A, (7.42, 43.731), B]), shapely.LineString([B, C]), shapely.LineString([C, D])]


def several(*lines):
    """Return the WKB of lines as one geometry; shapely drops parts without points."""
    return struct.pack("<BII", 1, 5, len(lines)) + b"".join(map(shapely.to_wkb, lines))


NAMES = [",".join(map(str, point)) for point in (A, B, C, D)]
WGS_84 = {"type": "GeographicCRS", "id": {"authority": "EPSG", "code": 4326}}


def geoparquet(path, shapes, crs=..., encoding="WKB", **columns):
    """Write shapes, which may be None or bytes, with other columns."""
    values = [shapely.to_wkb(shape) if isinstance(shape, shapely.Geometry) else shape for shape in shapes]
    table = pa.table({**columns, "geometry": pa.array(values, pa.binary())})
    about = {"encoding": encoding, **({} if crs is ... else {"crs": crs})}
    geo = {"version": "1.1.0", "primary_column": "geometry", "columns": {"geometry": about}}
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)
    return path


def blob(shape, envelope=0, srs=4326):
    """Return a geometry as a GeoPackage holds it."""
    if shape is None or (isinstance(shape, bytes) and len(shape) < 5):
        return shape
    wkb = shape if isinstance(shape, bytes) else shapely.to_wkb(shape)
    sizes = (0, 32, 48, 48, 64)
    return struct.pack("<2sBBi", b"GP", 0, 1 | envelope << 1, srs) + bytes(sizes[envelope]) + wkb


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def geopackage(path, layers, srs=("EPSG", 4326), envelope=0):
    """Write layers {name: (type of the geometry, shapes, {column: (SQL type, values)})}."""
    with sqlite3.connect(path) as database:
        database.execute(
            "CREATE TABLE gpkg_spatial_ref_sys (srs_id INTEGER, organization TEXT, organization_coordsys_id INTEGER)"
        )
        database.execute("INSERT INTO gpkg_spatial_ref_sys VALUES (4326, ?, ?)", srs)
        database.execute(
            "CREATE TABLE gpkg_geometry_columns "
            "(table_name TEXT, column_name TEXT, geometry_type_name TEXT, srs_id INTEGER)"
        )
        for name, (kind, shapes, columns) in layers.items():
            types = "".join(f', "{column}" {sql}' for column, (sql, _) in columns.items())
            database.execute(f"CREATE TABLE {quoted(name)} (fid INTEGER PRIMARY KEY, geom BLOB{types})")
            database.execute("INSERT INTO gpkg_geometry_columns VALUES (?, 'geom', ?, 4326)", (name, kind))
            values = [values for _, values in columns.values()]
            rows = zip(
                range(1, len(shapes) + 1), (blob(shape, envelope) for shape in shapes), *values, strict=True
            )
            marks = ", ".join("?" * (2 + len(values)))
            database.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", rows)
    database.close()
    return path


LENGTHS = list(zip(NAMES, NAMES[1:], (222.39, 321.39, 1011.777), strict=False))


@pytest.fixture(params=["geoparquet", "geopackage"])
def roads(request, tmp_path):
    """Write lines and columns {name: values} as either format, and return the path."""

    def write(shapes, **columns):
        if request.param == "geoparquet":
            return geoparquet(tmp_path / "roads.parquet", shapes, **columns)
        types = {int: "INTEGER", float: "REAL", str: "TEXT", bool: "BOOLEAN"}
        named = {
            name: (types[type(next(v for v in values if v is not None))], values)
            for name, values in columns.items()
        }
        return geopackage(tmp_path / "roads.gpkg", {"roads": ("LINESTRING", shapes, named)})

    return write


def test_lengths(roads, read):
    path = roads(ROADS, name=["a", "b", None])
    assert detect_format(str(path)) == "lines"
    found = read(path)
    assert found.rows() == LENGTHS
    assert found.rows()[0][2] == 222.39
    assert found.edge_list.weight_unit == "metres"
    assert found.reading.weight.why == "the length of the line in metres: no column holds numbers"
    ids = VertexIds(IdMapping(kind="table", type="string"), pa.array(sorted(NAMES), pa.large_string()), 4)
    lon, lat = found.edge_list.positions_of(ids)
    assert list(zip(lon.tolist(), lat.tolist(), strict=True)) == sorted([A, B, C, D])


def test_a_column_is_the_weight(roads, read):
    found = read(roads(ROADS, km=[0.5, 2.25, 3.0], lanes=[1, 2, 1]))
    assert [row[2] for row in found.rows()] == [0.5, 2.25, 3.0]
    assert found.edge_list.weight_unit is None
    assert found.reading.weight.why == "by its name"


def test_an_integer_column_and_none(roads, read):
    path = roads(ROADS, minutes=[5, 2**40, 7])
    assert [row[2] for row in read(path).rows()] == [5, 2**40, 7]
    assert read(path, weight_column="none").rows() == [row[:2] for row in LENGTHS]


def test_the_length_beside_other_columns(roads, read, refused):
    path = roads(ROADS, lanes=[1, 2, 1])
    message, hint = refused(path)
    name = "geometry" if path.suffix == ".parquet" else "geom"
    assert message.endswith(
        f": of the columns `lanes`, `{name}` no column is known as the weight: `lanes`, `{name}`"
    )
    assert (
        hint == f"name the columns, for example:\ngraph:\n  weights: {{column: lanes}}    # or {name}, none"
    )
    assert read(path, weight_column=name).rows() == LENGTHS


def test_columns_for_the_ends(roads, read):
    path = roads(ROADS, u=[1, 2, 3], v=[2, 3, 4], length=[5.0, 6.0, 7.5])
    found = read(path)
    assert found.rows() == [(1, 2, 5), (2, 3, 6), (3, 4, 7.5)]
    assert found.edge_list.positions_of is None
    name = "geometry" if path.suffix == ".parquet" else "geom"
    by_lines = {"source_column": name, "target_column": name, "weight_column": name}
    assert read(path, **by_lines).rows() == LENGTHS
    named = read(path, source_column="v", target_column="u", format="lines")
    assert named.rows() == [(2, 1, 5), (3, 2, 6), (4, 3, 7.5)]


def test_lines_of_several_parts(roads, read, refused):
    shapes = [shapely.MultiLineString([ROADS[0], ROADS[2]]), ROADS[1]]
    assert read(roads(shapes)).rows() == [LENGTHS[0], LENGTHS[2], LENGTHS[1]]


def test_a_text_that_may_be_the_weight(roads, read, refused):
    """If a column may be meant, the length of the lines is not taken instead."""
    path = roads(ROADS, length=["1 km", "2 km", "3 km"])
    assert refused(path)[0].endswith(
        "column `length` has type string, weights are integers, floats or decimals"
    )
    geometry = "geometry" if path.suffix == ".parquet" else "geom"
    assert read(path, weight_column=geometry).rows() == LENGTHS


def test_parts_with_one_weight(roads, refused):
    path = roads([shapely.MultiLineString([ROADS[0], ROADS[2]]), ROADS[1]], km=[3.0, 4.0])
    message, _ = refused(path)
    assert message.endswith("row 1: its line has 2 parts, and `km` is that of all together")


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("flavor", ["iso", "extended"])
def test_many_parts(roads, read, metres, order, flavor):
    lines = [shapely.LineString([(x / 99, y, 1), (y, x / 99, 2)]) for x in range(40) for y in range(9)]
    shape = shapely.set_srid(shapely.MultiLineString(lines), 4326)
    wkb = shapely.to_wkb(shape, byte_order=order, flavor=flavor, include_srid=flavor == "extended")
    assert len(wkb) > 9000, "its parts are checked one by one"
    assert [row[2] for row in read(roads([wkb])).rows()] == [
        round(metres([point[:2] for point in line.coords]), 3) for line in lines
    ]


def test_three_dimensions_and_a_closed_line(roads, read, metres):
    ring = shapely.LineString([(0, 0, 9), (1, 0, 9), (0, 0, 9)])
    assert read(roads([ring])).rows() == [("0,0", "0,0", round(metres([(0, 0), (1, 0), (0, 0)]), 3))]


def test_minus_zero_is_zero(roads, read):
    assert [row[:2] for row in read(roads([shapely.LineString([(-0.0, 1), (0.0, 2)])])).rows()] == [
        ("0,1", "0,2")
    ]


def test_small_batches(roads, read):
    found = read(roads(ROADS), block_bytes=1)
    assert found.n_chunks == 3
    assert found.rows() == LENGTHS


points = st.tuples(st.integers(-4, 4).map(lambda i: i / 8), st.integers(-4, 4).map(lambda i: i / 8))


@pytest.mark.medium
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.lists(points, min_size=2, max_size=5), min_size=1, max_size=3), min_size=1, max_size=6
    )
)
def test_any_lines(tmp_path_factory, read, metres, rows):
    path = geoparquet(
        tmp_path_factory.mktemp("lines") / "a.parquet", [shapely.MultiLineString(lines) for lines in rows]
    )
    wanted = [(line[0], line[-1], metres(line)) for lines in rows for line in lines]
    texts = [[",".join(f"{value:g}" for value in end) for end in edge[:2]] for edge in wanted]
    found = read(path).rows()
    assert [list(edge[:2]) for edge in found] == texts
    assert [edge[2] for edge in found] == pytest.approx([edge[2] for edge in wanted], abs=1.01e-3)


@pytest.mark.parametrize("envelope", range(5))
def test_envelopes(tmp_path, read, envelope):
    path = geopackage(tmp_path / "a.gpkg", {"r": ("LINESTRING", ROADS, {})}, envelope=envelope)
    assert read(path).rows() == LENGTHS


def test_a_compressed_geopackage(package, write, read):
    assert read(write("a.gpkg.gz", gzip.compress(package.read_bytes()))).rows() == LENGTHS


# ---- layers ----

SKIP_HINT = "`graph.unreadable: skip` leaves such rows out and counts them"

LAYERS = {
    "nodes": ("POINT", [shapely.Point(A)], {}),
    "main roads": ("LINESTRING", ROADS[:1], {}),
    'the "paths"': ("MULTILINESTRING", ROADS[1:], {}),
}


def test_the_only_layer_of_lines(tmp_path, read):
    path = geopackage(tmp_path / "a.gpkg", {name: LAYERS[name] for name in ("nodes", "main roads")})
    found = read(path)
    assert found.rows() == LENGTHS[:1]
    assert found.reading.rules == (
        *("layer `main roads`", "lines meet where their ends are equal", "coordinates of the ends"),
    )


def test_a_layer_by_name(tmp_path, read):
    path = geopackage(tmp_path / "a.gpkg", LAYERS)
    assert read(path, own={"layer": 'the "paths"'}).rows() == LENGTHS[1:]


@pytest.mark.parametrize(
    ("names", "layer", "problem", "hint"),
    [
        (
            LAYERS,
            "auto",
            ': 2 layers may hold lines: `main roads`, `the "paths"`',
            "set `graph.layer: main roads`, or to another one",
        ),
        (["nodes"], "auto", ": no layer holds lines", "layers: `nodes` (POINT)"),
        ([], "auto", ": no layer holds lines", "layers: none"),
        (
            LAYERS,
            "node",
            " has no layer `node`",
            'did you mean `nodes`? layers: `nodes`, `main roads`, `the "paths"`',
        ),
        (LAYERS, "nodes", " layer `nodes` row 1: its geometry is a Point, not a line", SKIP_HINT),
    ],
)
def test_layers_that_cannot_be_used(tmp_path, refused, names, layer, problem, hint):
    path = geopackage(tmp_path / "a.gpkg", {name: LAYERS[name] for name in names})
    assert refused(path, own={"layer": layer}) == (f"`{path}`{problem}", hint)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        (None, "its geometry is null"),
        (b"", "its geometry is no WKB"),
        (b"\x01\x02\0\0", "its geometry is no WKB"),
        (shapely.LineString(), "its geometry is empty"),
        (shapely.Point(1, 2), "its geometry is a Point, not a line"),
        (shapely.box(0, 0, 1, 1), "its geometry is a Polygon, not a line"),
        (shapely.LineString([(0, 0), (181, 0)]), "its point 181, 0 is not on the globe"),
        (shapely.LineString([(0, 0), (500_000, 5_000_000)]), "its point 500000, 5000000 is not on the globe"),
        (struct.pack("<BII4d", 1, 2, 2, 0, 0, math.nan, 0), "its point nan, 0 is not on the globe"),
        (struct.pack("<BII4d", 1, 4002, 2, 0, 0, 1, 1), "its geometry is no WKB"),
        (struct.pack("<BII", 1, 8, 0), "its geometry is a CircularString, not a line"),
        (several(ROADS[2], shapely.LineString()), "a part of its line is empty"),
        (several(shapely.LineString(), ROADS[2]), "a part of its line is empty"),
        # GEOS calls itself for each level. So many levels ended the process.
        (struct.pack("<BII", 1, 7, 1) * 10**5, "its geometry is a GeometryCollection, not a line"),
        (struct.pack("<BII", 1, 5, 1) * 10**5, "its geometry is no WKB"),
    ],
    ids=lambda value: value if isinstance(value, str) else "shape",
)
def test_shapes_that_are_no_lines(roads, read, refused, shape, why):
    path = roads([ROADS[0], shape, ROADS[1]])
    message, hint = refused(path)
    if path.suffix == ".gpkg":
        why = why.replace("WKB", "geometry of a GeoPackage")
    assert message.endswith(f" row 2: {why}")
    degrees = (
        "points are longitude and latitude in degrees, in this order: convert the file, or exchange them; "
    )
    assert hint == degrees * ("globe" in why) + SKIP_HINT
    found = read(path, unreadable="skip")
    assert found.rows() == LENGTHS[:2]
    assert found.skipped.lines == [message]


@pytest.mark.parametrize(
    ("value", "why"), [(None, "column `km` is null"), (math.inf, "weight `inf` is not finite")]
)
def test_weights_that_are_none(roads, read, refused, value, why):
    path = roads(ROADS, km=[1.0, value, 3.0])
    assert refused(path)[0].endswith(f" row 2: {why}")
    assert [row[2] for row in read(path, unreadable="skip").rows()] == [1, 3]


def test_two_columns_could_be_the_weight(roads, refused):
    message, hint = refused(roads(ROADS, km=[1.0, 2.0, 3.0], minutes=[1, 2, 3]))
    assert "2 columns could be the weight: `km`, `minutes`" in message
    assert "weights: {column: km}    # or minutes, none" in hint


CONVERT = "convert it to longitude and latitude: OGC:CRS84 or EPSG:4326"


@pytest.mark.parametrize(
    ("written", "options", "problem", "hint"),
    [
        *(
            ({"crs": crs}, {}, f": the CRS of the geometry `geometry` is {shown}, not WGS 84", CONVERT)
            for crs, shown in (
                ({"id": {"authority": "EPSG", "code": 32632}}, "EPSG:32632"),
                ({"name": "my plane"}, "`my plane`"),
                ({"id": {"authority": ["EPSG"], "code": 4326}}, "['EPSG']:4326"),
                (None, "not known"),
            )
        ),
        (
            {"encoding": "linestring"},
            {},
            ": the geometry `geometry` is encoded as linestring",
            "write lines encoded as WKB",
        ),
        ({"shapes": []}, {}, " holds no lines", "check that this is the file you mean"),
        (
            {},
            {"ids": "integer"},
            " has no columns for source and target, so the ids are texts such as `7.42,43.73`",
            "remove `graph.ids`, or name the columns: `graph.columns: {source: u, target: v}`",
        ),
    ],
)
def test_geoparquet_that_is_refused(tmp_path, refused, written, options, problem, hint):
    path = geoparquet(tmp_path / "a.parquet", **{"shapes": ROADS, **written})
    assert refused(path, **options) == (f"`{path}`{problem}", hint)


def test_wgs_84_by_name(tmp_path, read):
    assert read(geoparquet(tmp_path / "a.parquet", ROADS, crs=WGS_84)).rows() == LENGTHS


@pytest.mark.parametrize(
    "geo", [b"{", b"[" * 100_000, b"[]", b"{}", b'{"primary_column": 5, "columns": {"5": {}}}']
)
@pytest.mark.usefixtures("no_garbage_collection")
def test_a_damaged_description(tmp_path, refused, geo):
    table = pa.table({"geometry": pa.array([b""], pa.binary())}).replace_schema_metadata({"geo": geo})
    pq.write_table(table, path := tmp_path / "a.parquet")
    assert refused(path)[0].startswith(f"`{path}` has no usable description of its geometry: ")


@pytest.mark.parametrize("kind", [pa.large_binary(), pa.binary_view()])
def test_types_of_wkb(tmp_path, read, kind):
    path = geoparquet(tmp_path / "a.parquet", ROADS)
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "geometry", table["geometry"].cast(kind)), path)
    assert read(path).rows() == LENGTHS


def test_a_geometry_that_is_not_binary(tmp_path, refused):
    path = geoparquet(tmp_path / "a.parquet", ROADS)
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "geometry", pa.array([[1.0]] * 3)), path)
    assert refused(path) == (
        f"`{path}`: the geometry `geometry` has type list<element: double>, not binary",
        "write lines encoded as WKB",
    )


@pytest.mark.parametrize("name", ["geometry", "km"])
def test_two_columns_of_one_name(tmp_path, refused, name):
    path = geoparquet(tmp_path / "a.parquet", ROADS, km=[1.0, 2.0, 3.0])
    table = pq.read_table(path)
    pq.write_table(table.append_column(name, table[name]), path)
    assert refused(path) == (f"`{path}` has two columns `{name}`", "give each column its own name")


def test_a_table_without_a_geometry(tmp_path, refused):
    pq.write_table(pa.table({"u": [1], "v": [2]}), path := tmp_path / "a.parquet")
    assert refused(path, format="lines")[0].startswith(f"`{path}` is no GeoParquet file")


def test_a_database_that_is_no_geopackage(tmp_path, refused):
    with sqlite3.connect(path := tmp_path / "a.db") as database:
        database.execute("CREATE TABLE roads (u, v)")
    database.close()
    assert refused(path) == (
        f"`{path}` is a SQLite database and no GeoPackage: it has no table `gpkg_geometry_columns`",
        "write a GeoPackage, or export the edges as CSV or Parquet",
    )


def change(path, *commands):
    with sqlite3.connect(path) as database:
        for command in commands:
            database.execute(command)
    database.close()
    return path


@pytest.fixture
def package(tmp_path):
    return geopackage(tmp_path / "a.gpkg", {"r": ("LINESTRING", ROADS, {})})


def test_a_geopackage_with_a_log_of_writes(package, read):
    """Without the log of another program, no file appears beside the package."""
    change(package, "PRAGMA journal_mode = wal")
    assert read(package).rows() == LENGTHS
    assert [path.name for path in package.parent.iterdir()] == ["a.gpkg"]


def test_the_log_of_another_program_is_read(package, read):
    with closing(sqlite3.connect(package)) as other:
        other.execute("PRAGMA journal_mode = wal")
        other.execute("DELETE FROM r WHERE fid > 1")
        other.commit()
        assert read(package).rows() == LENGTHS[:1]


def test_names_in_upper_and_lower_case(package, read):
    change(package, "UPDATE gpkg_geometry_columns SET table_name = 'R', column_name = 'GEOM'")
    assert read(package).rows() == LENGTHS


def test_a_code_of_the_reference_system_that_is_text(package, read):
    change(
        package,
        "DROP TABLE gpkg_spatial_ref_sys",
        "CREATE TABLE gpkg_spatial_ref_sys (srs_id, organization, organization_coordsys_id)",
        "INSERT INTO gpkg_spatial_ref_sys VALUES (4326, 'epsg', '4326')",
    )
    assert read(package).rows() == LENGTHS


@pytest.mark.parametrize(
    ("command", "problem", "hint"),
    [
        (
            "ALTER TABLE r DROP COLUMN geom",
            " layer `r` has no column `geom`, which `gpkg_geometry_columns` names for its geometry",
            "write or fetch it again",
        ),
        (
            "INSERT INTO gpkg_geometry_columns VALUES ('r', 'geom', 'LINESTRING', 2056)",
            ": `gpkg_geometry_columns` describes the layer `r` twice, in different ways",
            "a layer has one geometry: write or fetch it again",
        ),
        (
            "INSERT INTO gpkg_spatial_ref_sys VALUES (4326, 'EPSG', 2056)",
            " layer `r`: its reference system is EPSG:2056, not WGS 84",
            CONVERT,
        ),
        ("DELETE FROM r", " layer `r` holds no lines", "check that this is the file you mean"),
    ],
)
def test_geopackages_that_are_refused(package, refused, command, problem, hint):
    change(package, command)
    assert refused(package) == (f"`{package}`{problem}", hint)


def test_a_name_in_a_geopackage_that_is_not_utf_8(package, refused):
    change(package, "ALTER TABLE r ADD COLUMN name_of_a_road TEXT")
    package.write_bytes(package.read_bytes().replace(b"name_of_a_road", b"name\xff\xfea_road"))
    assert refused(package)[0].startswith(f"`{package}` cannot be read as a GeoPackage: ")


def test_a_damaged_geopackage(tmp_path, refused):
    path = geopackage(tmp_path / "a.gpkg", {"r": ("LINESTRING", ROADS * 200, {})})
    path.write_bytes(path.read_bytes()[:9000])
    message, hint = refused(path)
    assert message.startswith(f"`{path}` cannot be read as a GeoPackage: ")
    assert hint == "write or fetch it again"


def test_a_value_of_another_type(tmp_path, refused):
    path = geopackage(tmp_path / "a.gpkg", {"r": ("LINESTRING", ROADS, {"km": ("REAL", [1.5, "far", 2.5])})})
    message, hint = refused(path)
    assert message.startswith(
        f"`{path}` layer `r`, rows 1 to 3: column `km` has a value that is not of its type"
    )
    assert hint == "correct the value, or the type of the column"


def test_a_missing_package(tmp_path, refused, monkeypatch):
    path = geoparquet(tmp_path / "a.parquet", ROADS)
    monkeypatch.setitem(sys.modules, "shapely", None)
    assert refused(path) == (
        f"`{path}` holds lines, and reading them needs a package that is missing: "
        "import of shapely halted; None in sys.modules",
        "pip install 'sssp-pipeline[places]'",
    )


def test_a_name_that_is_not_utf_8(tmp_path, refused):
    names = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, 1)), pa.py_buffer(b"\xff")]
    )
    path = geoparquet(tmp_path / "a.parquet", ROADS[:1], u=names, v=["b"])
    message, _ = refused(path, format="lines")
    assert message.startswith(f"`{path}` has text that is not UTF-8")


# ---- from the file to the answer ----


def test_a_run(roads, write, ran):
    path, points = roads(ROADS), write("points.csv", "lon,lat\n7.4201,43.7301\n")
    options = ("--set", "graph.directed=false", "--set", "graph.weights.scale=1000")
    ran("run", path.name, "--from", f"points:{points}", "--out", "r", *options)
    found = json.loads(ran("path", "r", "--from", "1", "--to", NAMES[3], "--geojson"))
    assert found["geometry"]["coordinates"] == [list(point) for point in (A, B, C, D)]
    assert found["properties"]["length"] == pytest.approx(sum(row[2] for row in LENGTHS))
    assert found["properties"]["unit"] == "metres"
