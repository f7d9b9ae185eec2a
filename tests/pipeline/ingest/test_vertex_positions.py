"""Positions of vertices from a table, for graphs of any format."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet

ROADS = "from,to,km\nAyr,Bude,4\nBude,Cork,5\n"
PLACES = "id,lat,lon\nCork,51.9,-8.5\nAyr,55.5,-4.6\nBude,50.8,-4.5\n"


@pytest.fixture
def ingest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(edges=ROADS, places=PLACES, name="roads.csv", table="places.csv", progress=None):
        Path(name).write_text(edges)
        if places is not None:
            Path(table).write_text(places)
        return sp.ingest(name, "store", coordinates=table, progress=progress or Quiet())

    return make


def test_a_table_gives_the_positions_of_named_vertices(ingest):
    store = ingest()
    assert store.manifest.coordinates_unit == "degrees"
    for unit in ("auto", "degrees"):
        found = store.lon_lat(unit)
        assert (found.lon.tolist(), found.lat.tolist()) == ([-4.6, -4.5, -8.5], [55.5, 50.8, 51.9])
    path = sp.solve(store, "Ayr", predecessors=True).path("Ayr", "Cork")
    assert path.geojson()["geometry"]["coordinates"] == [[-4.6, 55.5], [-4.5, 50.8], [-8.5, 51.9]]
    with pytest.raises(InputError, match="the coordinates of `store` are in degrees, not in microdegrees"):
        path.geojson(coordinates="microdegrees")


@pytest.mark.parametrize(
    ("edges", "name"),
    [("17 4 1\n4 8 2\n", "e.txt"), ("p sp 17 2\na 17 4 1\na 4 8 2\n", "e.gr")],
    ids=["text", "dimacs"],
)
def test_a_table_gives_the_positions_of_numbered_vertices(ingest, edges, name):
    ids = [v for v in range(18) if name == "e.txt" or v > 0]
    pq.write_table(pa.table({"id": ids, "lon": [v + 0.5 for v in ids], "lat": ids}), "p.parquet")
    store = ingest(edges, None, name, "p.parquet")
    # Whole degrees are degrees, as the table says so.
    assert store.lon_lat().lat.tolist() == store.ids.column().to_pylist()


def test_a_changed_table_is_a_new_version(ingest):
    first = ingest().manifest
    assert ingest().manifest.content_id == first.content_id
    changed = ingest(places=PLACES.replace("51.9", "51.95"))
    assert changed.manifest.content_id != first.content_id
    assert changed.lon_lat().lat[2] == 51.95


def test_rows_of_no_vertex_are_counted(ingest, listener):
    heard = listener()
    ingest(places=PLACES + "Deal,51.2,1.4\n", progress=heard)
    assert "1 row of places.csv have positions of no vertex of the graph" in heard.lines


REFUSED = [
    (
        *("id,lon,lat\nAyr,1,2\n", "`places.csv` has no position of 2 of 3 vertices: `Bude`, `Cork`"),
        "give every vertex of the graph a row; ids are compared as they are written",
    ),
    (
        *(PLACES + "Ayr,1,2\n", "`places.csv` line 5: vertex `Ayr` has a position already"),
        "give every vertex one row",
    ),
    (
        *("lon,lat\n1,2\n", "`places.csv` has no column `id`, which says of which vertex a position is"),
        "name the column: `graph.coordinates: {file: places.csv, id: NAME}`",
    ),
    ("id,lon,lat\n,1,2\n", "`places.csv` line 2 has no `id`", "leave out positions of no vertex"),
    (
        "id,x,y\nAyr,1,2\n",
        "`places.csv` has no column that may hold the longitudes: its columns are `id`, `x`, `y`",
        "name the column: `graph.coordinates: {file: places.csv, lon: NAME}`; the first line must name the columns",
    ),
    (
        "id,ID,lon,lat\nAyr,Ayr,1,2\n",
        "`places.csv` has 2 columns that may hold the ids: its columns are `id`, `ID`, `lon`, `lat`",
        "name the column: `graph.coordinates: {file: places.csv, id: NAME}`",
    ),
    (
        *("id,lon,lat\nAyr,583960,4507523\n", "`places.csv` line 2: longitude 583960 is not on the globe"),
        "a longitude is from -180 to 180 degrees",
    ),
    (
        "c a comment\np aux sp co 3\nv 1 1 1\n",
        "coordinates are given in `places.csv`, but a csv edge list takes none",
        "name a table with the columns `id`, `lon` and `lat`: a `.co` file goes with a DIMACS graph",
    ),
]


@pytest.mark.parametrize(("places", "message", "hint"), REFUSED)
def test_refused(ingest, places, message, hint):
    with pytest.raises(InputError) as caught:
        ingest(places=places)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert not Path("store/manifest.json").exists()


#: No column has a usual name, and some have the usual name of another one.
ODD = "osmid,lat,x,id\nCork,-8.5,51.9,1\nAyr,-4.6,55.5,2\nBude,-4.5,50.8,3\n"
NAMES = {"id": "osmid", "lon": "lat", "lat": "x"}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_may_be_named(ingest, kind):
    given = {"file": f"odd.{kind}", **NAMES}
    Path("odd.csv").write_text(ODD)
    pq.write_table(csv.read_csv("odd.csv"), "odd.parquet")
    ingest()
    named = sp.ingest("roads.csv", "named", coordinates=given)
    true = sp.open_store("store").lon_lat()
    assert named.lon_lat().lon.tolist() == true.lon.tolist()
    assert named.lon_lat().lat.tolist() == true.lat.tolist()
    # The same graph again is not ingested again, other columns are another graph.
    written = Path("named/manifest.json").stat().st_mtime_ns
    sp.ingest("roads.csv", "named", coordinates=given)
    assert Path("named/manifest.json").stat().st_mtime_ns == written
    elsewhere = {**given, "file": str(Path(f"odd.{kind}").absolute())}
    moved = sp.ingest("roads.csv", "named", coordinates=elsewhere)
    assert moved.manifest.content_id == named.manifest.content_id
    other = "`named` holds another graph: `graph.coordinates.lon` is `lat` there and `id` here"
    with pytest.raises(InputError, match=re.escape(other)):
        sp.ingest("roads.csv", "named", coordinates={**given, "lon": "id"})


def test_a_file_without_names_is_the_file(ingest):
    ingest()
    written = Path("store/manifest.json").stat().st_mtime_ns
    for same in ({"file": "places.csv"}, {"file": "places.csv", "id": None}, Path("places.csv")):
        sp.ingest("roads.csv", "store", coordinates=same)
    assert Path("store/manifest.json").stat().st_mtime_ns == written


def test_one_name_is_enough_where_the_others_are_usual(ingest):
    Path("places.csv").write_text(PLACES.replace("id,", "osmid,"))
    Path("roads.csv").write_text(ROADS)
    store = sp.ingest("roads.csv", "store", coordinates={"file": "places.csv", "id": "osmid"})
    assert store.lon_lat().lat[1] == 50.8


@pytest.mark.parametrize(
    ("names", "message", "hint"),
    [
        (
            {**NAMES, "id": "osm"},
            "`odd.csv` has no column `osm`: its columns are `osmid`, `lat`, `x`, `id`",
            "name the column: `graph.coordinates: {file: odd.csv, id: NAME}`; the first line must name the columns",
        ),
        (
            {**NAMES, "lat": "osmid"},
            "`odd.csv` line 2: `Cork` in column `osmid` is not a number",
            "write degrees with a point before the decimals, such as -73.98",
        ),
        (
            {"column": "osmid"},
            "workflow: unknown key `column` in `graph.coordinates`",
            "Keys: file, id, lon, lat",
        ),
        (
            {"id": 1},
            "workflow: `graph.coordinates.id` is `1`, wanted text or `null`",
            "correct `graph.coordinates.id`",
        ),
    ],
)
def test_wrong_names(ingest, names, message, hint):
    ingest()
    Path("odd.csv").write_text(ODD)
    with pytest.raises(InputError) as caught:
        sp.ingest("roads.csv", "wrong", coordinates={"file": "odd.csv", **names})
    assert caught.value.message == message
    assert caught.value.hint.startswith(hint)
    assert not Path("wrong/manifest.json").exists()


def test_columns_without_a_file_and_columns_of_a_dimacs_file(ingest):
    with pytest.raises(InputError, match=r"no key `file` in `graph\.coordinates`"):
        sp.ingest("roads.csv", "wrong", coordinates={"id": "osmid"})
    Path("g.gr").write_text("p sp 2 1\na 1 2 5\n")
    Path("g.co").write_text("p aux sp co 2\nv 1 1 2\nv 2 3 4\n")
    with pytest.raises(InputError) as caught:
        sp.ingest("g.gr", "wrong", coordinates={"file": "g.co", "lon": "x"})
    assert caught.value.message == "`g.co` is a DIMACS file, whose columns have no names"
    assert caught.value.hint == "remove `graph.coordinates.lon`"
    assert sp.ingest("g.gr", "right", coordinates={"file": "g.co"}).manifest.coordinates


def test_standard_input_is_read_once(ingest):
    with pytest.raises(InputError, match=r"`graph\.input` and `graph\.coordinates\.file` are both `-`"):
        sp.ingest("-", "wrong", coordinates={"file": "-", "id": "osmid"})


def test_a_table_that_is_missing(ingest):
    with pytest.raises(InputError, match=r"places\.csv"):
        ingest(places=None)


def test_points_snap_to_vertices_of_a_csv_graph(ingest):
    ingest()
    Path("depots.csv").write_text("lon,lat\n-8.501,51.9\n")
    run = sp.run(
        {
            "graph": {"input": "roads.csv", "coordinates": "places.csv", "store": "store"},
            "sources": {"points": {"file": "depots.csv"}},
            "output": {"path": "run"},
        }
    )
    assert run.distances(1, "Cork")["distance"].to_pylist() == [0]
