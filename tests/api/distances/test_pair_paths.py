"""Paths of many pairs: the same as one path at a time, in the order of the pairs; files, and wrong input."""

from __future__ import annotations

import csv
import errno
import gzip
import json
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.api.distances import pair_paths
from sssp_pipeline.base.errors import DiskFullError, InputError
from sssp_pipeline.cli import app

#: A street from a to d, and e and f on both sides of the meridian at 180 degrees.
ROADS = "from,to,minutes\na,b,2\nb,c,3\nc,d,4\na,c,5\ne,f,1\n"
PLACES = (
    "id,lon,lat\na,-4.5,50.8\nb,-4.5,50.801\nc,-4.5,50.802\nd,-4.5,50.803\ne,179.999,-17\nf,-179.999,-17\n"
)
PAIRS = "source,target\nc,a\na,d\ne,f\na,a\na,f\nc,d\na,d\n"
PATHS = [
    *(("c", "a", 5, ["c", "b", "a"]), ("a", "d", 9, ["a", "c", "d"]), ("e", "f", 1, ["e", "f"])),
    *(
        ("a", "a", 0, ["a"]),
        ("a", "f", None, None),
        ("c", "d", 4, ["c", "d"]),
        ("a", "d", 9, ["a", "c", "d"]),
    ),
]


def invoke(*words):
    return CliRunner().invoke(app, list(words))


def rows_of(table):
    return [tuple(row.values()) for row in table.to_pylist()]


def make_run(edges, sources, coordinates=None, predecessors=False, cutoff=None, weights=None, **output):
    graph = {"input": edges, "store": "graph", "directed": False, "weights": weights or {}}
    return sp.run(
        {
            "graph": graph | ({"coordinates": coordinates} if coordinates else {}),
            "sources": sources,
            "solve": {"predecessors": predecessors, "batch": 2, "cutoff": cutoff},
            "output": {"path": "run", "distances": "full" if predecessors else "none"} | output,
            "verify": "off",
            "report": False,
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("roads.csv").write_text(ROADS)
        Path("places.csv").write_text(PLACES)
        Path("pairs.csv").write_text(PAIRS)
        make_run("roads.csv", {"ids": ["c", "a", "e"], "order": "given"}, "places.csv")
    return folder


@pytest.fixture
def run(made, monkeypatch):
    """Go to the folder of a run from c, a and e, and return the run."""
    monkeypatch.chdir(made)
    return sp.open_run("run")


@pytest.mark.medium
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"predecessors": True},
        {"predecessors": True, "unreached": 10**9},
        {"cutoff": 9000},
        {"predecessors": True, "cutoff": 9000},
        {"weights": {"dtype": "float32"}},
        {"weights": {"scale": 10}},
        {"weights": {"scale": 10}, "predecessors": True},
    ],
    ids=str,
)
def test_every_pair_has_the_path_that_path_gives(tmp_path, monkeypatch, how):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pair_paths, "_BLOCK_VERTICES", 100)
    monkeypatch.setattr(pair_paths, "_BLOCK_PAIRS", 7)
    monkeypatch.setattr(pair_paths, "_MEMORY_BYTES", 500)
    found = make_run(
        "generated:grid?rows=20&cols=21&keep=0.6&seed=3", {"random": {"count": 9, "seed": 1}}, **how
    )
    rng = np.random.default_rng(0)
    pairs = np.column_stack([rng.choice(found.sources.to_numpy(), 200), rng.integers(0, 420, 200)])
    table = found.paths(pairs)
    assert table.column_names == ["source", "target", "distance", "path"]
    expected = [found.path(*pair) for pair in pairs.tolist()]
    assert table["path"].to_pylist() == [list(path) or None for path in expected]
    assert table["distance"].to_pylist() == [path.length for path in expected]
    np.testing.assert_array_equal(np.column_stack([table["source"], table["target"]]), pairs)
    assert 0 < table["path"].null_count < 200
    assert max(map(len, expected)) > 20
    Path("bad.csv").write_text(f"source,target\n{pairs[0][0]},{pairs[0][1]}\n{pairs[0][0]},9999\n")
    with pytest.raises(sp.InputError, match=r"^`bad.csv`: target `9999` .* \(the first in line 3\)"):
        found.paths("bad.csv")


def test_a_file_of_pairs_becomes_one_file(run, tmp_path):
    for name in ("p.parquet", "p.csv", "p.csv.gz"):
        done = invoke("paths", "run", "pairs.csv", f"{tmp_path}/{name}")
        assert (done.exit_code, done.stdout) == (0, f"{tmp_path}/{name}\n"), done.stderr
        assert "pairs without a path: 1 of 7\n" in done.stderr
    assert rows_of(pq.read_table(tmp_path / "p.parquet")) == PATHS
    text = (tmp_path / "p.csv").read_text()
    assert gzip.decompress((tmp_path / "p.csv.gz").read_bytes()).decode() == text
    header, *rows = csv.reader(text.splitlines())
    assert header == ["source", "target", "distance", "path"]
    assert rows == [
        [source, target, "" if length is None else str(length), " ".join(path or [])]
        for source, target, length, path in PATHS
    ]


@pytest.mark.parametrize(
    ("name", "begin", "columns"),
    [
        ("pairs.csv", "# from a survey\n\nsource,target\n", None),
        ("pairs.csv.gz", "source,target\n", None),
        ("pairs.txt", "from_stop to_stop\n", None),
        ("pairs.csv", "", None),
        ("pairs.csv", "Source Id,Target Id\n", None),
        ("pairs.csv", "home,work\n", "home,work"),
        ("pairs.csv", "c,a\n", "c,a"),
    ],
)
def test_spellings_of_a_file(run, tmp_path, name, begin, columns):
    rows = PAIRS.partition("\n")[2].replace(",", " " if name.endswith("txt") else ",")
    text = (begin + rows).encode()
    pairs = tmp_path / name
    pairs.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    options = ["--columns", columns] if columns else []
    done = invoke("paths", "run", str(pairs), f"{tmp_path}/p.parquet", *options)
    assert done.exit_code == 0, done.stderr
    assert rows_of(pq.read_table(tmp_path / "p.parquet")) == PATHS
    if not columns:
        assert rows_of(run.paths(pairs)) == rows_of(run.paths(str(pairs))) == PATHS


def test_geojson(run, tmp_path):
    done = invoke("paths", "run", "pairs.csv", f"{tmp_path}/p.geojson")
    assert done.exit_code == 0
    assert "coordinates read as longitude and latitude in degrees\n" in done.stderr
    found = json.loads((tmp_path / "p.geojson").read_text())
    for one, (source, target, length, path) in zip(found["features"], PATHS, strict=True):
        drawn = None if path is None else run.path(source, target).geojson()["geometry"]
        assert one == {
            "type": "Feature",
            "geometry": drawn,
            "properties": {"source": source, "target": target, "distance": length, "path": path or []},
        }
    kinds = [one["geometry"] and one["geometry"]["type"] for one in found["features"]]
    assert kinds == ["LineString"] * 2 + ["MultiLineString", "Point", None] + ["LineString"] * 2


@pytest.mark.parametrize(
    "pairs",
    [
        [row[:2] for row in PATHS],
        pa.table({"target": [row[1] for row in PATHS], "source": [row[0] for row in PATHS]}),
        pd.DataFrame([row[:2] for row in PATHS], columns=["source", "target"]),
        pd.DataFrame([(1, *row[:2]) for row in PATHS], columns=["nr", "From", "to"]),
    ],
    ids=["list", "arrow", "pandas", "other names"],
)
def test_pairs_in_python(run, pairs):
    assert rows_of(run.paths(pairs)) == PATHS
    assert run.paths([]).schema == run.paths(pairs).schema


@pytest.mark.medium
@pytest.mark.parametrize("predecessors", [False, True])
def test_points_have_their_own_ids(made, tmp_path, monkeypatch, predecessors):
    """Two homes stand at a, and paths have the ids of the graph."""
    monkeypatch.chdir(tmp_path)
    Path("homes.csv").write_text("id,lon,lat\nh1,-4.5,50.8\nh2,-4.50001,50.8\nh3,-4.5,50.802\n")
    Path("shops.csv").write_text("id,lon,lat\n7,-4.5,50.803\n5,-4.5,50.801\n")
    output = {} if predecessors else {"targets": {"points": {"file": "shops.csv"}}, "distances": "full"}
    found = make_run(
        f"{made}/roads.csv", {"points": {"file": "homes.csv"}}, f"{made}/places.csv", predecessors, **output
    )
    d, b = ("d", "b") if predecessors else (7, 5)
    table = found.paths([("h2", d), ("h3", b), ("h1", d)])
    assert rows_of(table) == [
        ("h2", d, 9, ["a", "c", "d"]),
        ("h3", b, 3, ["c", "b"]),
        ("h1", d, 9, ["a", "c", "d"]),
    ]
    Path("pairs.csv").write_text(f"from;to\nh2;{d}\nh3;{b}\nh1;{d}\n")
    assert invoke("paths", "run", "pairs.csv", "p.parquet").exit_code == 0
    assert pq.read_table("p.parquet") == table
    with pytest.raises(InputError, match=r"target `9` is not in the (run `run`|graph)"):
        found.paths([("h1", "9" if predecessors else 9)])
    one = found.path("h2", d)
    assert one == ["a", "c", "d"]
    facts = {"from": "h2", "to": d, "length": 9, "unit": None, "edges": 2, "ids": ["a", "c", "d"]}
    assert one.to_dict() == pickle.loads(pickle.dumps(one)).to_dict() == facts
    assert one.geojson()["properties"] == facts | {"coordinates": "degrees"}
    assert json.loads(invoke("path", "run", "--from", "h2", "--to", str(d), "--json").stdout) == facts


@pytest.mark.parametrize(
    "write", [lambda t, url: t.to_csv(url, index=False), lambda t, url: t.to_parquet(url)]
)
def test_integers_in_a_file(tmp_path, monkeypatch, write):
    """They may stand as texts in Parquet. An id that is no integer is named with its place."""
    monkeypatch.chdir(tmp_path)
    Path("roads.csv").write_text("from,to,minutes\n1,2,2\n2,9223372036854775807,3\n")
    found = make_run("roads.csv", {"ids": [1, 2]})
    pairs = pd.DataFrame({"source": ["2", "1"], "target": ["9223372036854775807", "2"]})
    write(pairs, "pairs")
    assert rows_of(found.paths("pairs")) == [(2, 2**63 - 1, 3, [2, 2**63 - 1]), (1, 2, 2, [1, 2])]
    for wrong in ("x", "02", "-2", "9223372036854775808", "1.0"):
        write(pd.DataFrame({"source": ["2", "1"], "target": ["1", wrong]}), "pairs")
        with pytest.raises(
            InputError, match=rf"`pairs` (line 3|row 2): `{wrong}` is no id of the run, whose ids"
        ):
            found.paths("pairs")


def test_named_points_to_vertices_that_are_integers(tmp_path, monkeypatch):
    """The targets of a run without points as targets are vertices. The hint says how to name them otherwise."""
    monkeypatch.chdir(tmp_path)
    Path("roads.csv").write_text("from,to,minutes\n1,2,2\n2,3,3\n")
    Path("places.csv").write_text("id,lon,lat\n1,-4.5,50.8\n2,-4.5,50.801\n3,-4.5,50.802\n")
    Path("homes.csv").write_text("id,lon,lat\nh1,-4.5,50.8\nh2,-4.5,50.802\n")
    make_run("roads.csv", {"points": {"file": "homes.csv"}}, "places.csv")
    Path("pairs.csv").write_text("from,to\nh1,h2\n")
    done = invoke("paths", "run", "pairs.csv", "p.csv")
    assert done.exit_code == 2
    assert done.stderr == (
        "error: `pairs.csv` line 2: `h2` is no id of the graph, whose ids are integers\n\n"
        "hint: name a vertex of the graph, or run it with points as `output.targets`\n"
    )


LONG = [f"z{i}" for i in range(12)]
FIRST_TEN = ", ".join(f"`{name}`" for name in LONG[:10])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(name, "a") for name in LONG], rf"source {FIRST_TEN}, … is not in the run `run`"),
        (
            [("a", name) for name in [*LONG, "b", *LONG]],
            rf"12 of 13 targets are not in the graph: {FIRST_TEN}, …",
        ),
        ([("b", "a")], "source `b` is not in the run `run`"),
        ([(1, "a")], "the ids `1` are not those of the run `run`, whose ids are strings"),
        ([("a", None)], "a pair has no source or no target"),
        (["ab"], "`ab` is no pair"),
        ([("a", "b", "c")], r"`\('a', 'b', 'c'\)` is no pair"),
        (pa.table({"a": ["a"], "b": ["b"]}), "the table of pairs has the columns a, b"),
        ("none.csv", r"`none\.csv` does not exist"),
        (Path("roads.csv"), r"`roads\.csv`: source `b` is not in the run `run` \(the first in line 3\)"),
    ],
)
def test_wrong_pairs_in_python(run, pairs, message):
    with pytest.raises(InputError, match=message):
        run.paths(pairs)


@pytest.mark.parametrize(
    ("pairs", "words", "message"),
    [
        (
            "foo,bar,baz\na,d,2\n",
            "",
            "`bad.csv` line 1: of the columns `foo`, `bar`, `baz` none is known as source and target of a pair\n\n"
            "hint: name two of them: `--columns origin,destination`",
        ),
        (
            "home,work\na,d\n",
            "",
            "`bad.csv` line 1: `home,work` may be a header or a pair\n\n"
            "hint: if it names the columns, name two of them: `--columns origin,destination`; if it is a pair, "
            "write the line `source,target` above it",
        ),
        (
            "source,target,from,to,n\na,d,a,d,1\n",
            "",
            "`bad.csv` line 1: of the columns `source`, `target`, `from`, `to`, `n` more than one pair could be source",
        ),
        ("source,target\n", "", "`bad.csv` holds no pairs: `bad.csv` line 1 is its header"),
        ("", "", "`bad.csv` is empty"),
        ("source,target\na,d\na\n", "", "`bad.csv` line 3 has 1 column, wanted 2"),
        ("source,target\na,d\na,\n", "", "`bad.csv` line 3: a vertex id is empty"),
        (
            "source,target\na,b\na,x\n\nx,d\nx,d\n",  # `x` stands as a target first
            "",
            "`bad.csv`: source `x` is not in the run `run` (the first in line 5)\n\nhint: its sources are ",
        ),
        (
            "source,target\na,d\na,x\na,y\n",
            "",
            "`bad.csv`: 2 of 3 targets are not in the graph: `x`, `y` (the first in line 3)\n\nhint: the 6 ids",
        ),
        (
            PAIRS,
            "--columns source,targte",
            "`bad.csv` line 1: unknown column `targte`\n\nhint: did you mean `target`? Columns: source, target",
        ),
        (PAIRS, "--columns 1,3", "`bad.csv` line 1 has 2 columns, and the target is to be in column 3"),
        (PAIRS, "--columns a", "`--columns a` does not name two columns"),
        (PAIRS, "--coordinates degrees", "`--coordinates` goes with a `.geojson` file"),
        (PAIRS, "--store nowhere", "`nowhere` is not a graph store"),
    ],
)
def test_wrong_words(run, pairs, words, message):
    Path("bad.csv").write_text(pairs)
    done = invoke("paths", "run", "bad.csv", "bad.parquet", *words.split())
    assert done.exit_code == 2
    assert f"error: {message}" in done.stderr
    assert not Path("bad.parquet").exists()


def test_files_that_cannot_be_written(run, tmp_path):
    for name, message in (
        ("p.txt", "p.txt` names no format: it must end in .parquet, .csv, .csv.gz or .geojson"),
        ("pairs.csv", "`pairs.csv` exists"),
    ):
        done = invoke("paths", "run", "pairs.csv", name)
        assert (done.exit_code, message in done.stderr) == (2, True)
    assert Path("pairs.csv").read_text() == PAIRS


def test_an_id_with_a_space_is_refused_before_a_search(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("roads.csv").write_text("from,to,km\nNew York,Rye,4\n")
    Path("pairs.csv").write_text("source,target\nRye,New York\n")
    make_run("roads.csv", {"ids": ["Rye"]})
    done = invoke("paths", "run", "pairs.csv", "p.csv")
    assert done.exit_code == 2
    assert "the id `New York` has a space, which separates the ids of a path in `p.csv`" in done.stderr
    done = invoke("paths", "run", "pairs.csv", "p.geojson")
    assert "has no coordinates" in done.stderr
    assert not list(tmp_path.glob("*p.*"))
    assert invoke("paths", "run", "pairs.csv", "p.parquet").exit_code == 0


@pytest.mark.parametrize("write", ["parquet", "arrow", "stream"])
def test_pairs_in_parquet_and_arrow(run, tmp_path, write):
    columns = [[row[i] for row in PATHS] for i in (0, 1)]
    table = pa.table(
        {"weight": [1] * 7, "dest": pa.array(columns[1]).dictionary_encode(), "Origin": columns[0]}
    )
    pairs = tmp_path / "pairs"
    if write == "parquet":
        pq.write_table(table, pairs)
    else:
        new = pa.ipc.new_file if write == "arrow" else pa.ipc.new_stream
        with new(str(pairs), table.schema) as writer:
            writer.write_table(table)
    assert invoke("paths", "run", str(pairs), f"{tmp_path}/p.parquet").exit_code == 0
    assert rows_of(pq.read_table(tmp_path / "p.parquet")) == PATHS
    done = invoke("paths", "run", str(pairs), f"{tmp_path}/q.parquet", "--columns", "Origin,weight")
    assert f"`{pairs}`: target `1` is not in the graph (the first in row 1)" in done.stderr
    with_null = pa.table({"source": ["a", None], "target": ["b", "c"]})
    pq.write_table(with_null, pairs)
    done = invoke("paths", "run", str(pairs), f"{tmp_path}/q.parquet")
    assert "row 2: column `source` is null" in done.stderr
    pq.write_table(pa.table({"source": [1.0], "target": [2.0]}), pairs)
    done = invoke("paths", "run", str(pairs), f"{tmp_path}/q.parquet")
    assert "column `source` has type double, ids are integers, strings or UUIDs" in done.stderr
    assert "hint: store the ids as integers or as strings\n" in done.stderr


def test_a_full_disk_for_temporary_files_is_one_error(run, monkeypatch):
    class Full:
        def __init__(self, n_bytes):
            assert n_bytes == 2**26

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            pass

        def write(self, content):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tempfile.SpooledTemporaryFile", Full)
    with pytest.raises(
        DiskFullError, match=f"`{tempfile.gettempdir()}` cannot be written: No space left on device"
    ):
        run.paths([("a", "d")])
