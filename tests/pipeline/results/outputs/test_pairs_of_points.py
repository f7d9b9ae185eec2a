"""Runs of pairs whose ends are points with ids of their own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from named_graph import EDGES, NAMES, verdict_of

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs import pairs_output
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.workflow.yaml_file import load_workflow

WORKFLOW = """\
graph: {input: edges.csv, coordinates: places.csv, store: graph, self_loops: keep, weights: {column: weight}}
solve: {batch: 3}
output:
  path: run
  distances: pairs
  pairs: {file: pairs.csv, source_points: {file: homes.csv}, target_points: {file: shops.csv}}
"""


def at(vertex):
    """The position of a vertex."""
    return 10 + vertex / 1000, 50.0


def write_points(url, ids, vertices):
    """Write points at some vertices, and return the vertex of each id."""
    frame = pd.DataFrame([at(v) for v in vertices], columns=["lon", "lat"])
    frame.assign(id=ids).to_csv(url, index=False)
    return dict(zip(ids, vertices, strict=True))


def write_pairs(homes, shops, n_pairs=200):
    """Write `pairs.csv` and return its rows; some stand twice."""
    rng = np.random.default_rng([len(homes), len(shops)])
    pairs = [(rng.choice(list(homes)).item(), rng.choice(list(shops)).item()) for _ in range(n_pairs)]
    pairs += pairs[:3]
    pd.DataFrame(pairs, columns=["source", "target"]).to_csv("pairs.csv", index=False)
    return pairs


def named(n, prefix="h"):
    """Ids in no order."""
    return [f"{prefix}{(7 * i) % n:03}" for i in range(n)]


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_graph(NAMES)


def write_graph(names):
    lines = [f"{names[v]},{names[w]},{weight}" for v, w, weight in [*EDGES, (39, 39, 1)]]
    Path("edges.csv").write_text("\n".join(["source,target,weight", *lines, ""]))
    places = pd.DataFrame([at(v) for v in range(len(names))], columns=["lon", "lat"])
    places.assign(id=names).to_csv("places.csv", index=False)
    Path("w.yaml").write_text(WORKFLOW)


def run_of(*overrides, said=None, **options):
    """The content of run.json."""
    return run(load_workflow("w.yaml", list(overrides)), said or Quiet(), **options)[1]


def expected(pairs, homes, shops, names=NAMES):
    """The rows of the pairs in the matrix of all distances."""
    solved = sp.solve("graph", list(names), solver="dijkstra")
    matrix = solved.numpy()
    found = [matrix[homes[source], shops[target]].item() for source, target in pairs]
    rows = ((*pair, None if d == solved.unreached else d) for pair, d in zip(pairs, found, strict=True))
    return [dict(zip(("source", "target", "distance"), row, strict=True)) for row in rows]


def rows_of(path="run"):
    return sp.open_run(path).answers().to_pylist()


@pytest.mark.parametrize(("n_homes", "n_shops"), [(30, 12), (5, 60), (60, 5)])
def test_rows_have_the_ids_of_points(n_homes, n_shops, monkeypatch):
    """Several points are at one vertex, and some have no path."""
    monkeypatch.setattr(pairs_output, "FILE_ROWS", 90)
    monkeypatch.setattr(pairs_output, "GROUP_ROWS", 40)
    rng = np.random.default_rng(n_homes)
    homes = write_points("homes.csv", named(n_homes), [39, *rng.integers(0, 20, n_homes - 1).tolist()])
    shops = write_points("shops.csv", [*range(n_shops)][::-1], rng.integers(0, 20, n_shops).tolist())
    pairs = write_pairs(homes, shops)
    record = run_of()
    is_backward = n_homes > n_shops
    assert (
        record["direction"]
        == record["identity"]["pairs"]["direction"]
        == ("backward" if is_backward else "forward")
    )
    assert record["verify"]["checked_sources"] > 0
    found = rows_of()
    assert found == expected(pairs, homes, shops)
    assert any(row["distance"] is None for row in found)
    assert any(row["distance"] for row in found)
    table = pq.read_table("run/distances")
    assert [str(kind) for kind in table.schema.types] == ["string", "int64", "uint32"]
    assert verdict_of()["refuted"] is None


def test_names_and_numbers_in_parquet():
    homes = write_points("homes.csv", named(12), list(range(12)))
    shops = write_points("shops.csv", [30, 10, 20], [3, 3, 7])
    pairs = write_pairs(homes, shops)
    pd.read_csv("pairs.csv").to_parquet("pairs.parquet")
    points = "source_points: {file: homes.csv}, target_points: {file: shops.csv}"
    run_of(f"output.pairs={{file: pairs.parquet, {points}}}")
    assert rows_of() == expected(pairs, homes, shops)


@pytest.mark.parametrize("end", ["source", "target"])
@pytest.mark.parametrize("names", [NAMES, range(1, 41)], ids=["strings", "integers"])
@pytest.mark.parametrize("ids", [named(9, "x"), [40, 7, 1, 9]], ids=["text", "numbers"])
def test_one_end_may_be_vertices(end, names, ids):
    write_graph(names)
    points = write_points("points.csv", ids, list(range(20, 20 + len(ids))))
    vertices = {name: vertex for vertex, name in enumerate(names)}
    homes, shops = (points, vertices) if end == "source" else (vertices, points)
    pairs = write_pairs(homes, shops)
    run_of(f"output.pairs={{file: pairs.csv, {end}_points: {{file: points.csv}}}}")
    assert rows_of() == expected(pairs, homes, shops, names)
    place = next(i for i, row in enumerate(rows_of()) if row["distance"])
    path = sp.open_run("run").path(*pairs[place])
    assert path.length == rows_of()[place]["distance"]
    assert (path[0], path[-1]) == (names[homes[pairs[place][0]]], names[shops[pairs[place][1]]])


@pytest.mark.parametrize("name", ["pairs.txt", "pairs.parquet", "other.csv"])
def test_files_of_pairs_and_of_points(name):
    """Both ends may have the same points."""
    places = write_points("points.csv", named(20), list(range(20)))
    pd.read_csv("points.csv").rename(columns={"id": "place"}).to_parquet("points.parquet")
    pairs = write_pairs(places, places)
    frame = pd.read_csv("pairs.csv")
    points = {"file": "points.parquet", "id": "place"}
    section = {"file": name, "source_points": points, "target_points": points}
    if name == "pairs.txt":
        frame.to_csv(name, sep=" ", header=False, index=False)
    elif name == "pairs.parquet":
        frame.to_parquet(name)
    else:
        frame.set_axis(["home", "work"], axis=1).assign(day=1).to_csv(name, index=False)
        section |= {"source": "home", "target": "work"}
    run_of(f"output.pairs={json.dumps(section)}")
    assert rows_of() == expected(pairs, places, places)


def made_run(**options):
    homes = write_points("homes.csv", named(12), list(range(12)))
    shops = write_points("shops.csv", [30, 10, 20], [3, 3, 7])
    pairs = write_pairs(homes, shops, 40)
    run_of(**options)
    return pairs, homes, shops


def test_a_finished_run_speaks_of_points():
    pairs, homes, shops = made_run()
    found = sp.open_run("run")
    assert found.sources.to_pylist() == list(dict.fromkeys(source for source, _ in pairs))
    assert found.metrics.column_names[0] == "target"
    assert found.metrics["target"].to_pylist() == ["v03", "v07"]
    source, target = pairs[5]
    rows = [row for row in expected(pairs, homes, shops) if row["source"] == source]
    assert found.answers(source).to_pylist() == rows
    with pytest.raises(InputError, match="source `h999` is not in the run"):
        found.answers("h999")
    found.export("all.csv")
    assert pd.read_csv("all.csv").to_dict("records") == pd.DataFrame(expected(pairs, homes, shops)).to_dict(
        "records"
    )
    path = found.path(source, target)
    assert (path[0], path[-1]) == (NAMES[homes[source]], NAMES[shops[target]])
    paths = found.paths("pairs.csv").to_pylist()
    assert [{**row, "path": None} for row in paths] == [{**row, "path": None} for row in rows_of()]
    snapped = pq.read_table("run/snapped.parquet").to_pydict()
    assert snapped["role"] == ["source"] * 12 + ["target"] * 3
    assert snapped["id"] == [*homes, *map(str, shops)]


def test_no_restart_changes_a_byte(run_interrupted):
    pairs, homes, shops = made_run()
    whole = Path("run/distances/pairs-00000.parquet").read_bytes()
    run_interrupted(load_workflow("w.yaml", ["output.path=again"]))
    Path("again/_run/pairs-00000.bin").unlink()
    Path("again/snapped.parquet").write_bytes(b"half")
    run_of("output.path=again")
    assert Path("again/distances/pairs-00000.parquet").read_bytes() == whole
    run_of("cluster.kind=local-cpu", overwrite=True)
    assert Path("run/distances/pairs-00000.parquet").read_bytes() == whole
    Path("run/snapped.parquet").unlink()
    Path("run/distances/pairs-00000.parquet").write_bytes(b"cut")
    run_of()
    assert Path("run/distances/pairs-00000.parquet").read_bytes() == whole
    assert rows_of() == expected(pairs, homes, shops)


def test_other_points_are_another_run():
    made_run()
    write_points("shops.csv", [30, 10, 20], [3, 3, 8])
    with pytest.raises(InputError, match="holds another run: it differs in"):
        run_of()


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("distance", 12345, "source `{source}`, vertex `{target}`: stored distance 12345, true distance"),
        ("source", "h011", "have not the pairs of"),
        ("target", 20, "have not the pairs of"),
        ("source", "nobody", "have not the pairs of"),
    ],
)
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_verify_finds_what_is_wrong(column, value, message, way, recorded_anew):
    homes = write_points("homes.csv", named(12), list(range(12)))
    shops = write_points("shops.csv", [30, 10, 20], [3, 3, 7])
    pairs = write_pairs(homes, shops, 8)
    points = "source_points: {file: homes.csv}, target_points: {file: shops.csv}"
    run_of(f"output.pairs={{file: pairs.csv, direction: {way}, {points}}}")
    table = sp.open_run("run").answers()
    rows = table.to_pylist()
    place = next(i for i, row in enumerate(rows) if shops[row["target"]] == 3 and row[column] != value)
    rows[place] = {**rows[place], column: value}
    pq.write_table(pa.Table.from_pylist(rows, table.schema), "run/distances/pairs-00000.parquet")
    recorded_anew(RunFolder("run"))
    with pytest.raises(RefutedError if column == "distance" else InputError) as caught:
        verdict_of()
    source, target = pairs[place]
    assert message.format(source=source, target=target) in caught.value.message


HOMES = "id,lon,lat\nh1,10.0,50\nh2,10.001,50\n"
SHOPS = "id,lon,lat\n10,10.002,50\n20,10.002,50\n"


@pytest.mark.parametrize(
    ("pairs", "homes", "shops", "message", "hint"),
    [
        ("h1,10\nh3,20\n10,h1\n", HOMES, SHOPS.replace("10,10", "x,10"),
         "`pairs.csv`: 3 of 3 pairs have an id that is not in `shops.csv`: `10`, `h1`, or not in `homes.csv`: `h3`, "
         "`10` (the first in line 2)",
         "`homes.csv` has 2 points: `h1`, `h2`; `shops.csv` has 2 points: `x`, `20`; `output.pairs.unknown: skip` "
         "leaves out such pairs"),
        ("h1,10\nh2,x\n", HOMES, SHOPS, "`pairs.csv` line 3: `x` is no id of `shops.csv`, whose ids are integers",
         "`shops.csv` has 2 points: `10`, `20`"),
        ("h1,10\n", HOMES.replace("id", "name"), SHOPS,
         "`homes.csv` has no column `id`, and pairs name points by their ids",
         "name the column with `output.pairs.source_points.id`"),
        ("h1,10\n", HOMES + "h1,10.003,50\n", SHOPS, "`homes.csv`: line 2 and line 4 have the id `h1`",
         "give each point an id of its own, or name another column with `output.pairs.source_points.id`"),
        ("h1,10\n", HOMES, SHOPS.replace("10,10.002,50", ",10.002,50"), "`shops.csv` line 2 has no id in column `id`",
         "give each point an id, or name another column with `output.pairs.target_points.id`"),
        ("h1,10\n", HOMES, "id,lon,lat\n", "`shops.csv` has no point", "write a CSV file with a header"),
        ("h1,10\n", "", SHOPS, "`homes.csv` has no point", "write a CSV file with a header"),
        ("h1,10\n", HOMES, SHOPS.replace("10.002,50", "50,10.002"), "`shops.csv` line 2: the point `10`",
         "its longitude and latitude are exchanged, it seems: name the columns with `output.pairs.target_points.lon`"),
        ("h1\n", HOMES, SHOPS, "`pairs.csv` line 2 has 1 column, wanted 2", "a row has the ids"),
        ("", HOMES, SHOPS, "`pairs.csv` holds no pairs", "a row has the ids"),
    ],
)  # fmt: skip
def test_wrong_files(pairs, homes, shops, message, hint):
    Path("pairs.csv").write_text("source,target\n" + pairs)
    Path("homes.csv").write_text(homes)
    Path("shops.csv").write_text(shops)
    with pytest.raises(InputError) as caught:
        run_of()
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert not Path("run").exists()


def test_a_missing_file_of_points_is_found_before_ingest():
    Path("pairs.csv").write_text("source,target\nh1,10\n")
    Path("homes.csv").write_text(HOMES)
    with pytest.raises(InputError, match=r"`shops\.csv` does not exist"):
        run_of()
    assert not Path("graph").exists()


def test_an_object_store_gets_the_same_rows():
    made_run()
    run_of("output.path=memory://pairs-of-points")
    assert sp.open_run("memory://pairs-of-points").answers().to_pylist() == rows_of()


def test_integers_on_both_sides_are_named_in_the_hint():
    Path("pairs.csv").write_text("source,target\n1,10\nx,20\n")
    Path("homes.csv").write_text(HOMES.replace("h", ""))
    Path("shops.csv").write_text(SHOPS)
    with pytest.raises(InputError) as caught:
        run_of()
    assert caught.value.hint == "the ids of `homes.csv` and `shops.csv` are integers"


def test_names_in_a_graph_of_integers_need_points():
    write_graph(range(1, 41))
    Path("pairs.csv").write_text("source,target\nh1,h2\n")
    with pytest.raises(InputError) as caught:
        run_of("output.pairs=pairs.csv")
    assert caught.value.hint == (
        "the ids of the graph are integers; `output.pairs.source_points` is for points with ids of their own"
    )


def test_unknown_ids_are_left_out_and_counted(listener):
    homes = write_points("homes.csv", named(12), list(range(12)))
    shops = write_points("shops.csv", [30, 10], [3, 5])
    pairs = write_pairs(homes, shops)
    with Path("pairs.csv").open("a") as file:
        file.write("h001,99\nnobody,10\nh001,10\n")
    said = listener()
    points = "source_points: {file: homes.csv}, target_points: {file: shops.csv}"
    record = run_of(f"output.pairs={{file: pairs.csv, unknown: skip, {points}}}", said=said)
    assert rows_of() == expected([*pairs, ("h001", 10)], homes, shops)
    assert record["skipped"]["pairs"] == 2
    assert "skipped 2 pairs with an id that is not known: `99`, `nobody`" in said.lines
    assert sum(line.startswith("snapped ") for line in said.lines) == 2
