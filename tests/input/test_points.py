"""Runs whose sources or targets are points."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.formats.geometry.great_circle import EARTH_RADIUS_M

#: 1 to 4 are a street to the east, 0.001 degrees apart.
GR = "p sp 4 3\na 1 2 5\na 2 3 6\na 3 4 2\n"
CO = "p aux sp co 4\nv 1 10000000 0\nv 2 10001000 0\nv 3 10002000 0\nv 4 10003000 0\n"
DEPOTS = "id,lon,lat\nmill,10.0021,0\npier,10.0,0.0001\npark,10.0019,0\n"


@pytest.fixture
def workflow(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("g.gr").write_text(GR)
    Path("g.co").write_text(CO)
    Path("depots.csv").write_text(DEPOTS)

    def make(sources=None, **output):
        return {
            "graph": {"input": "g.gr", "coordinates": "g.co", "store": "g"},
            "sources": sources or {"points": {"file": "depots.csv"}},
            "output": {"path": "run"} | output,
        }

    return make


def test_points_are_sources_and_snapping_is_recorded(workflow):
    run = sp.run(workflow())
    assert run.sources.to_pylist() == ["mill", "pier", "park"]
    degree_m = EARTH_RADIUS_M * 3.141592653589793 / 180
    rows = pq.read_table("run/snapped.parquet").to_pylist()
    assert [row.pop("distance_m") for row in rows] == pytest.approx([1e-4 * degree_m] * 3)
    assert rows == [
        {"role": "source", "row": 1, "id": "mill", "lon": 10.0021, "lat": 0.0, "vertex": 3},
        {"role": "source", "row": 2, "id": "pier", "lon": 10.0, "lat": 0.0001, "vertex": 1},
        {"role": "source", "row": 3, "id": "park", "lon": 10.0019, "lat": 0.0, "vertex": 3},
    ]
    assert run.record["files"]["snapped.parquet"] == Path("run/snapped.parquet").stat().st_size
    assert run.distances("park", [3, 4])["distance"].to_pylist() == [0, 2]
    assert (run.path("pier", 4), run.path("pier", 4).length) == ([1, 2, 3, 4], 13)
    with pytest.raises(InputError, match="source `3` is not in the run"):
        run.path("3", 4)


def test_points_are_targets_in_the_order_of_their_file(workflow):
    run = sp.run(workflow({"ids": [1]}, targets={"points": {"file": "depots.csv"}}))
    distances = {"source": [1] * 3, "vertex": ["mill", "pier", "park"], "distance": [11, 0, 11]}
    assert run.distances(1).to_pydict() == distances
    assert run.distances(1, "park")["distance"].to_pylist() == [11]
    assert run.path(1, "park") == [1, 2, 3]
    with pytest.raises(InputError, match="target `3` is not in the run"):
        run.path(1, "3")


def write_shops():
    """Write points with whole numbers as ids, two of them at the vertex 3."""
    Path("shops.csv").write_text("shop,lon,lat\n7,10.0021,0\n5,10.0029,0\n9,10.0019,0\n")
    return {"points": {"file": "shops.csv", "id": "shop"}}


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_a_matrix_has_a_row_and_a_column_for_each_point(workflow, layout):
    shops = write_shops()
    run = sp.run(workflow(targets=shops, layout=layout) | {"solve": {"batch": 1}, "verify": "sample"})
    rows = run.distances().to_pylist()
    assert [(row["source"], row["vertex"], row["distance"]) for row in rows] == [
        ("mill", 7, 0), ("mill", 5, 2), ("mill", 9, 0),
        ("pier", 7, 11), ("pier", 5, 13), ("pier", 9, 11),
        ("park", 7, 0), ("park", 5, 2), ("park", 9, 0),
    ]  # fmt: skip
    run.export("matrix.parquet")
    assert pq.read_table("matrix.parquet").to_pylist() == rows
    assert run.metrics["source"].to_pylist() == ["mill", "pier", "park"]
    assert invoke("verify", "run").exit_code == 0
    with pytest.raises(
        InputError, match="the ids `mill` are not those of the run `run`, whose ids are integers"
    ):
        run.distances("mill", "mill")


def test_points_without_ids_are_numbered_and_stay_apart_in_every_output(workflow):
    Path("depots.csv").write_text("lon,lat\n10.0021,0\n10.0,0\n10.0019,0\n")
    per_vertex = {"values": ["nearest_source", "reached_by"]}
    run = sp.run(workflow(distances="reduced", reduce={"values": ["reached"], "per_vertex": per_vertex}))
    assert run.answers().to_pydict() == {"source": [1, 2, 3], "reached": [2, 4, 2]}
    assert run.per_vertex()["nearest_source"].to_pylist() == [2, 2, 1, 1]
    assert run.per_vertex()["reached_by"].to_pylist() == [1, 1, 3, 3]
    reached = sp.run(workflow(path="reached", distances="reached")).distances()
    assert reached["source"].to_pylist() == [1, 1, 2, 2, 2, 2, 3, 3]
    assert invoke("verify", "run").exit_code == invoke("verify", "reached").exit_code == 0


def test_isochrones_have_the_ids_of_points(workflow):
    run = sp.run(workflow())
    assert run.isochrones([3], ["park", "pier"])["source"].to_pylist() == ["pier", "park"]


def test_a_run_with_points_goes_on_where_it_stopped(workflow):
    data = workflow(targets=write_shops()) | {"solve": {"batch": 1}}
    rows = sp.run(data).distances().to_pylist()
    Path("run/distances/batch-00001.parquet").write_bytes(b"")
    Path("run/snapped.parquet").write_bytes(b"PAR1")
    assert sp.run(data).distances().to_pylist() == rows


def test_the_nearest_points_of_each_source(workflow):
    nearest = {"k": 2, "of": {"points": {"file": "depots.csv"}}}
    run = sp.run(workflow({"ids": [1, 2, 4]}, distances="nearest", nearest=nearest) | {"verify": "sample"})
    found = run.answers().select(["vertex", "distance"]).to_pydict()
    assert found["vertex"] == ["pier", "mill", "mill", "park", None, None]
    assert found["distance"] == [0, 11, 6, 6, None, None]
    assert invoke("verify", "run").exit_code == 0
    assert {row["role"] for row in pq.read_table("run/snapped.parquet").to_pylist()} == {"target"}


@pytest.mark.medium
def test_a_run_is_found_again_unless_the_points_change(workflow):
    first = sp.run(workflow())
    written = Path("run/snapped.parquet").stat().st_mtime_ns
    assert sp.run(workflow()).record["finished"] == first.record["finished"]
    assert Path("run/snapped.parquet").stat().st_mtime_ns == written
    Path("depots.csv").write_text(DEPOTS.replace("10.0021", "10.0022"))
    with pytest.raises(InputError, match=r"holds another run: it differs in snapped\nhint: "):
        sp.run(workflow())
    sp.run(workflow(), overwrite=True)
    assert pq.read_table("run/snapped.parquet")["lon"].to_pylist()[0] == 10.0022
    sp.run(workflow({"ids": [1]}), overwrite=True)
    assert not Path("run/snapped.parquet").exists()


def test_a_damaged_record_of_points_is_written_again(workflow):
    sp.run(workflow())
    whole = Path("run/snapped.parquet").read_bytes()
    Path("run/snapped.parquet").write_bytes(b"")
    sp.run(workflow())
    assert Path("run/snapped.parquet").read_bytes() == whole
    Path("run/snapped.parquet").unlink()
    sp.run(workflow())
    assert Path("run/snapped.parquet").read_bytes() == whole


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_the_command_line(workflow):
    graph = ("--set", "graph.coordinates=g.co", "--set", "graph.store=g")
    result = invoke(
        "run", "g.gr", "--from", "points:depots.csv", "--to", "points:depots.csv", "--out", "run", *graph
    )
    assert result.exit_code == 0, result.stderr
    for what in ("source", "target"):
        assert re.search(
            rf"^snapped 3 {what} points to 2 vertices, at most 11\.1 m away \(depots\.csv line \d\); "
            "ids in column `id`; coordinates of the graph in microdegrees$",
            result.stderr,
            re.MULTILINE,
        )
    plan = json.loads(
        invoke("plan", "g.gr", "--from", "points:depots.csv", "--out", "x", *graph, "--json").stdout
    )
    assert plan["sources"] == 3


@pytest.mark.parametrize(
    ("depots", "options", "message", "hint"),
    [
        (
            "id,lon,lat\npier,10,0\nmill,10,0.5\nfarm,10,0.6\n",
            {},
            "`depots.csv` line 3: the point `mill` at longitude 10, latitude 0.5 is 55,598 m from the nearest vertex, "
            "farther than `sources.points.max_snap_m: 1000` allows; the same is true of 1 more point",
            "leave such points out, or set `sources.points.max_snap_m` higher",
        ),
        (
            "lon,lat\n0,10.0001\n",
            {},
            "`depots.csv` line 2: the point at longitude 0, latitude 10.0001 is 1,568,",
            "its longitude and latitude are exchanged, it seems: "
            "name the columns with `sources.points.lon` and `sources.points.lat`",
        ),
        (
            DEPOTS,
            {"max_snap_m": 5},
            "`depots.csv` line 2: the point `mill` at longitude 10.0021, latitude 0 is 11 m from the nearest vertex, "
            "farther than `sources.points.max_snap_m: 5` allows; the same is true of 2 more points",
            "leave such points out, or set `sources.points.max_snap_m` higher",
        ),
        (
            DEPOTS + "pier,10,0\n",
            {},
            "`depots.csv`: line 3 and line 5 have the id `pier`",
            "give each point an id of its own, or name another column with `sources.points.id`",
        ),
        (
            DEPOTS + ",10,0\n",
            {},
            "`depots.csv` line 5 has no id in column `id`",
            "give each point an id, or name another column with `sources.points.id`",
        ),
        (
            DEPOTS,
            {"coordinates": "degrees"},
            "the coordinates of `g`, x from 10000000 to 10003000, y from 0 to 0, "
            "are no longitudes and latitudes in degrees",
            "they fit microdegrees",
        ),
    ],
)
def test_refused(workflow, depots, options, message, hint):
    Path("depots.csv").write_text(depots)
    with pytest.raises(InputError) as caught:
        sp.run(workflow({"points": {"file": "depots.csv"} | options}))
    assert caught.value.message.startswith(message)
    assert caught.value.hint == hint


def test_no_limit(workflow):
    Path("depots.csv").write_text("lon,lat\n0,10\n")
    run = sp.run(workflow({"points": {"file": "depots.csv", "max_snap_m": None}}))
    assert run.sources.to_pylist() == [1]


def test_a_file_that_is_missing_is_found_before_ingest(workflow):
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        sp.run(workflow({"points": {"file": "nowhere.csv"}}))
    assert not Path("g").exists()
