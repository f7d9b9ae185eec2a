"""Paths of runs and of calls: ids, length, other costs along them, and GeoJSON."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest

import sssp_pipeline as sp
from sssp_pipeline.api.runs import stored_run
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.results.folder.graph_of_run import store_from_run
from sssp_pipeline.pipeline.run.completed_run import verify_run

#: Ties, parallel edges, edges of length zero, and a vertex 9 that nothing leads to. `minutes` differs from `km`.
ROADS = """\
from,to,km,minutes
1,2,4,9
1,3,4,1
3,2,0,1
2,3,0,1
2,5,3,7
2,5,9,6
3,5,3,1
5,6,2.5,1
9,1,1,1
6,4,0,2
4,6,0,2
"""
OUTPUTS = {
    "predecessors": ({"predecessors": True}, {}),
    "long": ({}, {}),
    "wide": ({}, {"layout": "wide"}),
    "targets": ({}, {"targets": {"ids": [6]}}),
    "none": ({}, {"distances": "none"}),
    "unreached": ({"predecessors": True}, {"unreached": -1}),
}


@pytest.fixture
def run(tmp_path):
    """Give a function that runs all sources of `ROADS`."""
    (tmp_path / "roads.csv").write_text(ROADS)

    def make(solve=None, output=None, name="run", **graph):
        weights = {"column": "km", "unit": "km", "scale": 10}
        graph = {"input": str(tmp_path / "roads.csv"), "weights": weights, "duplicates": "keep-all"} | graph
        return sp.run(
            {
                "graph": graph | {"store": str(tmp_path / f"{name}-store")},
                "sources": {"all": True},
                "solve": solve or {},
                "output": {"path": str(tmp_path / name)} | (output or {}),
            }
        )

    return make


@pytest.fixture
def minutes(tmp_path):
    """Give the graph store of the same roads with their minutes."""
    (tmp_path / "roads.csv").write_text(ROADS)
    weights = {"column": "minutes", "unit": "min"}
    return sp.ingest(tmp_path / "roads.csv", tmp_path / "minutes", weights=weights, duplicates="keep-all")


@pytest.mark.parametrize(("solve", "output"), OUTPUTS.values(), ids=OUTPUTS)
def test_every_run_has_the_same_paths(run, solve, output):
    found = run(solve, output)
    ids = [1, 2, 3, 4, 5, 6, 9]
    whole = sp.solve(found.record["workflow"]["graph"]["store"], ids, predecessors=True)
    for source in ids:
        for target in ids:
            path = found.path(source, target)
            assert (path, path.length) == (whole.path(source, target), whole.path(source, target).length)
    path = found.path(1, 6)
    assert (path, path.length, path.unit) == ([1, 2, 5, 6], 9.5, "km")
    assert isinstance(path.length, float)
    assert (found.path(6, 1), found.path(6, 1).length) == ([], None)
    assert (found.path(4, 4), found.path(4, 4).length) == ([4], 0)


def test_a_cutoff_of_the_run_holds_for_its_paths(run):
    for name, solve in (("a", {}), ("b", {"predecessors": True})):
        found = run(solve | {"cutoff": 7.0}, name=name)
        assert found.path(1, 5).length == 7
        assert found.path(1, 6) == []


def test_more_paths_from_a_source_need_no_search(run, monkeypatch):
    found, solved, solve = run(), [], stored_run.solve
    monkeypatch.setattr(
        stored_run, "solve", lambda graph, s, **more: solved.append(s) or solve(graph, s, **more)
    )
    assert [found.path(s, t).length for s, t in ((1, 2), (1, 5), (9, 5), (9, 6))] == [4, 7, 8, 10.5]
    assert solved == [1, 9]


def test_paths_and_distances_are_pickled_without_their_graph(run, error_of):
    made = run()
    solved = pickle.loads(pickle.dumps(sp.solve(made.graph(), 1, targets=[6], predecessors=True)))
    assert solved.numpy().tolist() == [[9.5]]
    for path in (pickle.loads(pickle.dumps(made.path(1, 6))), solved.path(1, 6)):
        assert (path, path.length, path.unit) == ([1, 2, 5, 6], 9.5, "km")
        assert error_of(path.geojson).message.startswith("the graph has no coordinates")


# ---- other costs ----


def test_the_cost_is_that_of_the_cheapest_edges_between_neighbours(run, minutes):
    path = run().path(1, 5)
    assert path == [1, 2, 5]
    # The edge of 6 minutes from 2 to 5 is another one than that of 3 km.
    assert (path.cost(minutes), path.cost(minutes.store)) == (15, 15)
    assert path.to_dict(cost=minutes) == {
        "from": 1, "to": 5, "length": 7.0, "unit": "km", "cost": 15, "cost_unit": "min", "edges": 2, "ids": [1, 2, 5],
    }  # fmt: skip
    assert path.cost(path._graph()) == 7.0
    assert run().path(3, 3).cost(minutes) == 0


def test_costs_of_floats_are_added_exactly(tmp_path):
    (tmp_path / "e.txt").write_text("".join(f"{v} {v + 1} 0.1\n" for v in range(10)))
    store = sp.ingest(tmp_path / "e.txt", tmp_path / "floats", weights={"dtype": "float64"})
    assert sp.solve(store, 0, predecessors=True).path(0, 10).length == 0.9999999999999999
    assert sp.solve(store, 0, predecessors=True).path(0, 10).cost(store) == 1.0


def test_a_cost_that_cannot_be_added_up(run, tmp_path, error_of):
    path, neighbours = run().path(1, 6), "which are neighbours on the path"
    for name, edges, message in (
        ("a", "1 2 1\n2 5 1\n5 4 1\n4 6 1\n", f" has no edge from `5` to `6`, {neighbours}"),
        ("b", "1 2 1\n2 6 1\n", ": vertex `5` is not in the graph"),
        ("c", "7 8 1\n", ": 4 of 4 vertices are not in the graph: `1`, `2`, `5`, `6`"),
    ):
        (tmp_path / f"{name}.txt").write_text(edges)
        store = sp.ingest(tmp_path / f"{name}.txt", tmp_path / name)
        assert error_of(path.cost, store).message == f"`{store.store}`{message}"
    assert "is not a graph store" in error_of(path.cost, tmp_path).message


# ---- the graph store of a run ----


def test_the_graph_store_of_a_run_may_have_moved(run, tmp_path, error_of):
    run(name="a")
    with_predecessors = run({"predecessors": True}, name="b")
    (tmp_path / "a-store").rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "b-store")
    found = sp.open_run(tmp_path / "a")
    gone = error_of(found.path, 1, 6)
    assert "is not a graph store" in gone.message
    assert gone.hint == "name the run's graph store: `--store URL`, in Python `store=URL`"
    assert found.path(1, 6, store=tmp_path / "moved") == [1, 2, 5, 6]
    assert found.path(1, 6, store=sp.open_store(tmp_path / "moved")).length == 9.5
    assert with_predecessors.path(1, 6) == [1, 2, 5, 6]
    assert "is not a graph store" in error_of(with_predecessors.path(1, 6).geojson).message
    moved = with_predecessors.path(1, 6, store=tmp_path / "moved")
    assert "has no coordinates" in error_of(moved.geojson).message


def test_the_graph_store_is_found_from_the_run_folder(tmp_path, monkeypatch, error_of):
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    for folder in (home, elsewhere):
        folder.mkdir()
        (folder / "roads.csv").write_text(ROADS if folder == home else "1,6,1\n")
    graph = {"input": "roads.csv", "weights": {"column": "km"}, "store": "graph"}
    of_run = {"graph": graph, "sources": {"ids": [1]}, "output": {"path": "runs/a"}}
    monkeypatch.chdir(elsewhere)
    sp.ingest("roads.csv", "graph")  # another graph, where the workflow's path leads from here
    monkeypatch.chdir(home)
    sp.run(of_run)
    monkeypatch.chdir(elsewhere)
    assert sp.open_run(home / "runs/a").path(1, 6) == [1, 2, 5, 6]
    assert verify_run(str(home / "runs/a"), None, "certificate", Progress())["verify"]["refuted"] is None
    home.rename(tmp_path / "moved")
    moved = tmp_path / "moved" / "runs" / "a"
    assert sp.open_run(moved).path(1, 6) == [1, 2, 5, 6]
    shutil.rmtree(tmp_path / "moved" / "graph")
    content_id = sp.open_run(moved).record["identity"]["graph"]
    assert error_of(sp.open_run(moved).path, 1, 6).message == (
        f"`graph` holds no version of the graph with content id `{content_id}`; "
        f"`{tmp_path}/moved/graph` is not a graph store: it has no manifest.json"
    )


@pytest.mark.parametrize(
    ("run", "store", "path"),
    [
        ("/a/runs/x", "/a/graph", "../../graph"),
        ("runs/x", "runs/x-graph", "../x-graph"),
        ("s3://bucket/runs/x", "s3://bucket/graph", "../../graph"),
        ("s3://bucket/x", "s3://other/graph", None),
        ("s3://bucket/x", "/graph", None),
        ("${PLACE}/x", "${PLACE}/graph", "../graph"),
        ("${PLACE}/x", "/graph", None),
        ("/a/x", "/a/${NAME}", None),
    ],
)
def test_the_path_of_a_store_from_the_run_folder(run, store, path):
    assert store_from_run(run, store) == path


def test_a_store_of_another_graph_is_refused(run, minutes, error_of):
    found = run()
    assert "does not hold the graph of the run" in error_of(found.path, 1, 6, store=minutes).message
    assert "holds no version of the graph" in error_of(found.path, 1, 6, store=minutes.store).message


def test_a_run_keeps_its_version_of_the_graph(run, tmp_path):
    found = run()
    (tmp_path / "roads.csv").write_text(ROADS.replace("5,6,2.5,1", "5,6,90,1"))
    newer = run(name="newer", store=str(tmp_path / "run-store"))
    assert newer.path(1, 6).length == 97
    assert sp.open_run(found.url).path(1, 6).length == 9.5


# ---- GeoJSON ----

GR = "p sp 4 3\na 1 2 5\na 2 3 6\na 4 1 2\n"
CO = "p aux sp co 4\nv 1 -73530767 41085396\nv 2 -73530538 41086098\nv 3 -73519366 41048796\nv 4 0 0\n"


@pytest.fixture
def drawn(tmp_path):
    """Give a function that stores a DIMACS graph with coordinates."""

    def make(co=CO):
        (tmp_path / "g.gr").write_text(GR)
        (tmp_path / "g.co").write_text(co)
        shutil.rmtree(tmp_path / "g", ignore_errors=True)
        return sp.ingest(tmp_path / "g.gr", tmp_path / "g", coordinates=str(tmp_path / "g.co"))

    return make


def test_a_path_is_drawn(drawn):
    store = drawn()
    path = sp.solve(store, 1, targets=[3], predecessors=True).path(1, 3)
    assert path.geojson() == {
        "type": "Feature",
        "geometry": {
            "type": "LineString",
            "coordinates": [[-73.530767, 41.085396], [-73.530538, 41.086098], [-73.519366, 41.048796]],
        },
        "properties": {
            "from": 1, "to": 3, "length": 11, "unit": None, "edges": 2, "ids": [1, 2, 3], "coordinates": "microdegrees",
        },
    }  # fmt: skip
    assert path.geojson(store)["properties"]["cost"] == 11
    assert path.geojson(coordinates="microdegrees") == path.geojson()
    alone = sp.solve(store, 1, predecessors=True).path(1, 1)
    assert alone.geojson()["geometry"] == {"type": "Point", "coordinates": [-73.530767, 41.085396]}


@pytest.mark.parametrize(
    ("positions", "parts"),
    [
        ([(179, 10), (-179, 12), (-178, 12)], [[(179, 10), (180, 11)], [(-180, 11), (-179, 12), (-178, 12)]]),
        ([(-179, 10), (179, 12), (-178, 9)], [[(-179, 10), (-180, 11)], [(180, 11), (179, 12), (180, 11)],
                                              [(-180, 11), (-178, 9)]]),
        ([(178, 1), (180, 2), (-179, 3)], [[(178, 1), (180, 2)], [(-180, 2), (-179, 3)]]),
        ([(180, 1), (-179, 2), (-178, 2)], [[(-180, 1), (-179, 2), (-178, 2)]]),
        ([(180, 1), (-180, 1), (180, 1)], [[(180, 1), (-180, 1), (180, 1)]]),
        ([(90, 1), (-90, 1), (0, 1)], [[(90, 1), (-90, 1), (0, 1)]]),
    ],
    ids=["east", "there-and-back", "vertex", "begins", "one-place", "half-way-round"],
)  # fmt: skip
def test_a_line_is_cut_at_the_180th_meridian(drawn, positions, parts):
    lines = "".join(f"v {v} {lon:.3f} {lat}\n" for v, (lon, lat) in enumerate(positions, 1))
    store = drawn(f"p aux sp co 4\n{lines}v 4 0 0\n")
    path = sp.solve(store, 1, predecessors=True).path(1, 3)
    geometry = path.geojson(coordinates="degrees")["geometry"]
    is_cut = len(parts) > 1
    assert geometry["type"] == ("MultiLineString" if is_cut else "LineString")
    found = geometry["coordinates"] if is_cut else [geometry["coordinates"]]
    assert [list(map(tuple, part)) for part in found] == [
        [pytest.approx(position) for position in part] for part in parts
    ]


def test_a_run_with_coordinates_is_drawn(drawn, tmp_path):
    drawn()
    files = {"input": str(tmp_path / "g.gr"), "coordinates": str(tmp_path / "g.co")}
    graph = {**files, "store": str(tmp_path / "g")}
    found = sp.run({"graph": graph, "sources": {"ids": [1]}, "output": {"path": str(tmp_path / "r")}})
    assert found.path(1, 3).geojson()["geometry"]["coordinates"][2] == [-73.519366, 41.048796]


def test_degrees_are_degrees(drawn):
    store = drawn("p aux sp co 4\nv 1 -73.5 41.25\nv 2 -73 41\nv 3 -72.5 41\nv 4 0 0\n")
    feature = sp.solve(store, 1, predecessors=True).path(1, 3).geojson()
    assert feature["geometry"]["coordinates"] == [[-73.5, 41.25], [-73.0, 41.0], [-72.5, 41.0]]
    assert feature["properties"]["coordinates"] == "degrees"


def test_what_cannot_be_drawn(drawn, run, error_of):
    stored, in_memory = (sp.solve(graph, [1, 3], predecessors=True) for graph in (drawn(), np.ones((4, 4))))
    for path, message, hint in (
        (stored.path(3, 1), "there is no path to draw", "name two vertices that a path connects"),
        (run().path(1, 6), "has no coordinates", "`coordinates` in the section `graph`"),
        (in_memory.path(1, 3), "it is not in a graph store", '`coordinates="URL"`, and solve on the store'),
    ):
        error = error_of(path.geojson)
        assert message in error.message
        assert hint in error.hint


def test_a_generated_plane_is_not_the_globe(tmp_path):
    store = sp.ingest("generated:road?vertices=100", tmp_path / "g")
    with pytest.raises(InputError, match="are metres on a plane, since the graph is generated"):
        sp.solve(store, 0, predecessors=True).path(0, 99).geojson()
