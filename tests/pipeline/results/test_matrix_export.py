"""The distances of a run as one file, in the order of the run: equal to what a solver gives."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.results import matrix_export
from sssp_pipeline.pipeline.results.run_folder import RunFolder
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.workflow.models import Workflow

SOURCES = [77, 3, 1639, 0, 500]
TARGETS = [1600, 3, 77]


def stored(tmp_path, **sections):
    """Return a run from sources in an order of their own, with some vertices out of reach."""
    data = {
        "graph": {
            "input": "generated:grid?rows=40&cols=41&keep=0.7&seed=3",
            "store": str(tmp_path / "graph"),
        },
        "sources": {"ids": SOURCES, "order": "given"},
        "solve": {"batch": 2, "solver": "dijkstra", "cutoff": 12000},
        "output": {"path": str(tmp_path / "run")},
        "verify": "off",
        "report": False,
    }
    for name, section in sections.items():
        data[name] = data[name] | section
    run(Workflow.model_validate(data), Quiet())
    return sp.open_run(tmp_path / "run")


def true_matrix(tmp_path, targets=None):
    return sp.solve(tmp_path / "graph", SOURCES, targets=targets, cutoff=12000).numpy()


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("targets", [None, TARGETS])
@pytest.mark.parametrize("block_bytes", [1, 4 * 1640 * 2, 2**24])
def test_a_matrix_has_the_order_of_the_run(tmp_path, monkeypatch, layout, targets, block_bytes):
    monkeypatch.setattr(matrix_export, "BLOCK_BYTES", block_bytes)
    output = {"layout": layout} | ({} if targets is None else {"targets": {"ids": targets}})
    found = stored(tmp_path, output=output)
    true = true_matrix(tmp_path, targets)
    assert (true == 2**32 - 1).any()
    found.export(tmp_path / "m.npy", unreached=2**32 - 1)
    np.testing.assert_array_equal(np.load(tmp_path / "m.npy"), true, strict=True)

    found.export(tmp_path / "m.parquet", columns=("otaz", "dtaz", "TIME"))
    table = pq.read_table(tmp_path / "m.parquet")
    vertices = list(range(1640)) if targets is None else targets
    assert table.schema == pa.schema([("otaz", pa.int64()), ("dtaz", pa.int64()), ("TIME", pa.uint32())])
    assert table["otaz"].to_pylist() == [source for source in SOURCES for _ in vertices]
    assert table["dtaz"].to_pylist() == vertices * len(SOURCES)
    np.testing.assert_array_equal(table["TIME"].fill_null(2**32 - 1).to_numpy().reshape(true.shape), true)

    found.export(tmp_path / "sparse.parquet", sparse=True)
    assert pq.read_table(tmp_path / "sparse.parquet") == table.filter(
        table["TIME"].is_valid()
    ).rename_columns(["source", "vertex", "distance"])


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_what_a_run_stored_for_no_path_is_no_distance(tmp_path, layout):
    found = stored(tmp_path, output={"layout": layout, "unreached": 999_999})
    true = true_matrix(tmp_path)
    found.export(tmp_path / "m.parquet")
    table = pq.read_table(tmp_path / "m.parquet")["distance"]
    np.testing.assert_array_equal(table.fill_null(2**32 - 1).to_numpy().reshape(true.shape), true)
    found.export(tmp_path / "sparse.parquet", sparse=True)
    assert pq.read_metadata(tmp_path / "sparse.parquet").num_rows == (true != 2**32 - 1).sum()
    found.export(tmp_path / "m.npy", unreached=7_000_000)
    np.testing.assert_array_equal(np.load(tmp_path / "m.npy"), np.where(true == 2**32 - 1, 7_000_000, true))


@pytest.mark.parametrize("name", ["m.npy", "m.parquet", "m.zarr"])
def test_a_stand_in_that_is_a_distance_is_refused(tmp_path, name):
    found = stored(tmp_path)
    with pytest.raises(InputError) as caught:
        found.export(tmp_path / name, unreached=0)
    assert caught.value.message == "`unreached` is 0, which is also the distance from `77` to `77`"
    assert not list(tmp_path.glob("*m.*"))


def test_floats_and_scaled_weights_are_in_the_unit_of_the_input(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.txt").write_text("a b 1.25\nb c 2.5\nd d 1\n")
    for name, weights in (("scaled", {"scale": 100}), ("floats", {})):
        graph = {"input": "edges.txt", "store": name, "weights": weights, "self_loops": "keep"}
        workflow = {
            "graph": graph,
            "sources": {"ids": ["c", "a", "d"], "order": "given"},
            "output": {"path": f"{name}-run"},
            "verify": "off",
            "report": False,
        }
        run(Workflow.model_validate(workflow), Quiet())
        sp.open_run(f"{name}-run").export(f"{name}.npy")
        true = np.array([[np.inf, np.inf, 0, np.inf], [0, 1.25, 3.75, np.inf], [np.inf, np.inf, np.inf, 0]])
        np.testing.assert_array_equal(np.load(f"{name}.npy"), true)
        sp.open_run(f"{name}-run").export(f"{name}.parquet", unreached=-1)
        table = pq.read_table(f"{name}.parquet")
        assert table["source"].to_pylist()[:4] == ["c"] * 4
        np.testing.assert_array_equal(
            table["distance"].to_numpy().reshape(3, 4), np.where(np.isinf(true), -1, true)
        )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("m.csv", {}, r"m\.csv` names no format: it must end in \.parquet, \.npy or \.zarr"),
        ("m", {}, r"m` names no format"),
        ("m.npy", {"sparse": True}, r"an array \(\.npy\) has no sparse form"),
        ("m.npy", {"columns": ("a", "b", "c")}, r"an array \(\.npy\) has no names of columns"),
        ("m.zarr", {"sparse": True}, r"an array \(\.zarr\) has no sparse form"),
        ("m.zarr", {"columns": ("a", "b", "c")}, r"an array \(\.zarr\) has no names of columns"),
        ("m.zarr", {}, "there is no path from `77` to `.*`, and an array of uint32 has no number for that"),
        (
            "m.zarr",
            {"unreached": 2**32},
            "`unreached` is 4294967296, which the distances' type uint32 cannot hold",
        ),
        ("taken.zarr", {"unreached": 2**32 - 1}, r"taken\.zarr` exists"),
        ("m.parquet", {"columns": ("a", "b")}, "`columns` is 'a, b', not three different names"),
        ("m.parquet", {"columns": ("a", "b", "a")}, "not three different names"),
        ("m.parquet", {"sparse": True, "unreached": 1}, "`sparse` and `unreached` contradict each other"),
        ("m.parquet", {"unreached": -1}, "`unreached` is -1, which the distances' type uint32 cannot hold"),
        ("m.npy", {}, "there is no path from `77` to `.*`, and an array of uint32 has no number for that"),
        ("taken.npy", {}, r"taken\.npy` exists"),
    ],
)
def test_what_cannot_be_written_is_one_error_and_leaves_nothing(tmp_path, name, options, message):
    found = stored(tmp_path)
    (tmp_path / "taken.npy").write_text("mine")
    (tmp_path / "taken.zarr").mkdir()
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(InputError, match=message):
        found.export(tmp_path / name, **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (tmp_path / "taken.npy").read_text() == "mine"


@pytest.mark.parametrize("distances", ["none", "reached"])
def test_a_run_without_whole_rows_has_no_matrix(tmp_path, distances):
    found = stored(tmp_path, output={"distances": distances})
    for name in ("m.zarr", "m.npy", "m.parquet"):
        with pytest.raises(InputError, match="run` holds no matrix of distances"):
            found.export(tmp_path / name, unreached=2**32 - 1)


@pytest.mark.parametrize(
    ("name", "unreached"), [("m.parquet", None), ("m.npy", 2**32 - 1), ("m.zarr", 2**32 - 1)]
)
def test_a_damaged_file_is_named_and_nothing_is_left(tmp_path, name, unreached, recorded_anew):
    found = stored(tmp_path)
    path = tmp_path / "run" / "distances" / "batch-00001.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(InputError, match=r"batch-00001\.parquet` was altered"):
        found.export(tmp_path / name, unreached=unreached)
    recorded_anew(RunFolder(found.url))
    with pytest.raises(
        InputError, match=r"batch-00001\.parquet` is damaged: it has 3279 rows, not 2 times 1640"
    ):
        found.export(tmp_path / name, unreached=unreached)
    assert not list(tmp_path.glob("*m.*"))


def test_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored(tmp_path)
    invoke = CliRunner().invoke
    done = invoke(app, ["export", "run", "skims.parquet", "--columns", "otaz,dtaz,TIME"])
    assert (done.exit_code, done.stdout) == (0, "skims.parquet\n")
    assert pq.read_schema("skims.parquet").names == ["otaz", "dtaz", "TIME"]
    again = invoke(app, ["export", "run", "skims.parquet"])
    assert again.exit_code == 2
    assert "error: `skims.parquet` exists" in again.stderr
    assert invoke(app, ["export", "nowhere", "m.npy"]).exit_code == 2
