"""The distances of a run as one file or Zarr group, in the order of the run: equal to what a solver gives."""

import csv
import gzip
import io
import subprocess
import sys
from pathlib import Path

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray
import zarr
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.results.exports.matrices import matrix_export, omx_matrix, zarr_matrix
from sssp_pipeline.pipeline.results.exports.matrices.matrix import Matrix
from sssp_pipeline.pipeline.results.exports.matrices.zarr_matrix import write_zarr
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.storage import files

SOURCES = [77, 3, 1639, 0, 500]
TARGETS = [1600, 3, 77]
UNREACHED = 2**32 - 1


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def stored(graph="generated:grid?rows=40&cols=41&keep=0.7&seed=3", sources=SOURCES, weights=None, **output):
    """Return a run from sources in an order of their own; with a cutoff on the grid, some vertices are out of reach."""
    return sp.run(
        {
            "graph": {"input": graph, "store": "graph", "weights": weights or {}, "self_loops": "keep"},
            "sources": {"ids": sources, "order": "given"},
            "solve": {"batch": 2, "solver": "dijkstra", "cutoff": 12000},
            "output": {"path": "run"} | output,
            "verify": "off",
            "report": False,
        }
    )


@pytest.fixture(scope="module")
def of_module(tmp_path_factory):
    """The folder of a run that no test changes."""
    folder = tmp_path_factory.mktemp("matrix")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        stored()
    return folder / "run"


def true_matrix(targets=None):
    return sp.solve("graph", SOURCES, targets=targets, cutoff=12000).numpy()


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("targets", [None, TARGETS])
@pytest.mark.parametrize("block_bytes", [1, 4 * 1640 * 2, 2**24])
def test_a_matrix_has_the_order_of_the_run(monkeypatch, layout, targets, block_bytes):
    monkeypatch.setattr(matrix_export, "BLOCK_BYTES", block_bytes)
    found = stored(layout=layout, **({} if targets is None else {"targets": {"ids": targets}}))
    true = true_matrix(targets)
    assert (true == UNREACHED).any()
    found.export("m.npy", unreached=UNREACHED)
    np.testing.assert_array_equal(np.load("m.npy"), true, strict=True)

    found.export("m.parquet", columns=("otaz", "dtaz", "TIME"))
    table = pq.read_table("m.parquet")
    vertices = list(range(1640)) if targets is None else targets
    assert table.schema == pa.schema([("otaz", pa.int64()), ("dtaz", pa.int64()), ("TIME", pa.uint32())])
    assert table["otaz"].to_pylist() == [source for source in SOURCES for _ in vertices]
    assert table["dtaz"].to_pylist() == vertices * len(SOURCES)
    np.testing.assert_array_equal(table["TIME"].fill_null(UNREACHED).to_numpy().reshape(true.shape), true)

    found.export("sparse.parquet", sparse=True)
    reached = table.filter(table["TIME"].is_valid()).rename_columns(["source", "vertex", "distance"])
    assert pq.read_table("sparse.parquet") == reached


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize(
    ("targets", "rows_bytes", "chunk_bytes"),
    [(None, 3 * 1640 * 4, 5000), (None, 2**24, 2**22), (TARGETS, 1, 1), (TARGETS, 3 * 3 * 4, 30)],
    ids=["cut", "whole", "each-number", "targets"],
)
def test_xarray_opens_a_zarr_group(monkeypatch, layout, targets, rows_bytes, chunk_bytes):
    monkeypatch.setattr(zarr_matrix, "_ROWS_BYTES", rows_bytes)
    monkeypatch.setattr(zarr_matrix, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(zarr_matrix, "_CHUNK_IDS", 100)
    monkeypatch.setattr(matrix_export, "BLOCK_BYTES", 4 * 1640 * 2)
    found = stored(layout=layout, **({} if targets is None else {"targets": {"ids": targets}}))
    found.export("m.zarr", unreached=UNREACHED)
    true = true_matrix(targets)
    matrix = zarr.open_group("m.zarr", mode="r")["distance"]
    assert (matrix.metadata.zarr_format, dict(matrix.attrs)) == (3, {"unreached": UNREACHED})
    np.testing.assert_array_equal(matrix[:], true, strict=True)

    opened = xarray.open_zarr("m.zarr").load()
    vertices = list(range(1640)) if targets is None else targets
    assert (opened.source.values.tolist(), opened.vertex.values.tolist()) == (SOURCES, vertices)
    assert opened.distance.dims == ("source", "vertex")
    np.testing.assert_array_equal(opened.distance.values, true, strict=True)
    assert opened.distance.sel(source=1639, vertex=77).item() == true[2, vertices.index(77)]


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_what_a_run_stored_for_no_path_is_no_distance(layout):
    found = stored(layout=layout, unreached=999_999)
    true = true_matrix()
    found.export("m.parquet")
    table = pq.read_table("m.parquet")["distance"]
    np.testing.assert_array_equal(table.fill_null(UNREACHED).to_numpy().reshape(true.shape), true)
    found.export("sparse.parquet", sparse=True)
    assert pq.read_metadata("sparse.parquet").num_rows == (true != UNREACHED).sum()
    found.export("m.npy", unreached=7_000_000)
    np.testing.assert_array_equal(np.load("m.npy"), np.where(true == UNREACHED, 7_000_000, true))


@pytest.mark.parametrize("weights", [{}, {"scale": 100}], ids=["floats", "scaled"])
def test_floats_and_scaled_weights_are_in_the_unit_of_the_input(tmp_path, weights):
    (tmp_path / "edges.txt").write_text("å b 1.25\nb c 2.5\nd d 1\n")
    found = stored("edges.txt", ["c", "å", "d"], weights)
    true = np.array([[np.inf, np.inf, 0, np.inf], [0, 1.25, 3.75, np.inf], [np.inf, np.inf, np.inf, 0]])
    filled = np.where(np.isinf(true), -1, true)
    order = ["å", "b", "c", "d"]
    columns = [sp.open_run("run").graph().ids.column().to_pylist().index(name) for name in order]
    found.export("m.npy")
    np.testing.assert_array_equal(np.load("m.npy")[:, columns], true)
    found.export("m.parquet", unreached=-1)
    table = pq.read_table("m.parquet")
    assert table["source"].to_pylist()[:4] == ["c"] * 4
    np.testing.assert_array_equal(table["distance"].to_numpy().reshape(3, 4)[:, columns], filled)
    found.export("m.zarr")
    found.export("filled.zarr", unreached=-1)
    opened, of_filled = (xarray.open_zarr(name).load() for name in ("m.zarr", "filled.zarr"))
    assert (dict(opened.distance.attrs), dict(of_filled.distance.attrs)) == ({}, {"unreached": -1})
    assert opened.source.values.tolist() == ["c", "å", "d"]
    np.testing.assert_array_equal(opened.distance.sel(vertex=order).values, true)
    np.testing.assert_array_equal(of_filled.distance.sel(vertex=order).values, filled)


def test_csv_has_the_rows_of_parquet(tmp_path):
    """Texts that CSV must quote, an id that looks like a number, a pair without a path, floats to their last bit."""
    ends = ["a,b", 'say "å"', "e"], ['say "å"', "007", "line\nfeed"]
    pq.write_table(pa.table({"u": ends[0], "v": ends[1], "w": [0.1, 1e-7, 3]}), "edges.parquet")
    found = stored("edges.parquet", ["a,b", "007"], {"dtype": "float64"})
    columns = "from", "to", "km, at night"
    found.export("m.parquet", columns=columns)
    rows = [tuple(row.values()) for row in pq.read_table("m.parquet").to_pylist()]

    def written(name, **options):
        found.export(name, columns=columns, **options)
        content = (tmp_path / name).read_bytes()
        text = (gzip.decompress(content) if name.endswith("gz") else content).decode()
        header, *lines = csv.reader(io.StringIO(text, newline=""))
        assert tuple(header) == columns
        return [(*ids, float(km) if km else None) for *ids, km in lines]

    assert written("m.csv") == written("m.csv.gz") == rows
    reached = [row for row in rows if row[2] is not None]
    assert 0 < len(reached) < len(rows)
    assert written("sparse.csv", sparse=True) == reached
    assert written("filled.csv", unreached=-1) == [(*ids, -1 if km is None else km) for *ids, km in rows]


@pytest.mark.parametrize("chunk_numbers", [2**17, 1000, 1])
def test_an_open_matrix(monkeypatch, chunk_numbers):
    h5py = pytest.importorskip("h5py", reason="the extra `omx` is not installed")
    monkeypatch.setattr(matrix_export, "BLOCK_BYTES", 4 * 1640 * 2)
    monkeypatch.setattr(omx_matrix, "_CHUNK_NUMBERS", chunk_numbers)
    stored(targets={"ids": TARGETS}).export("m.omx", unreached=UNREACHED)
    with h5py.File("m.omx") as file:
        assert (file.attrs["OMX_VERSION"], file.attrs["SHAPE"].tolist()) == (b"0.2", [5, 3])
        assert (list(file), list(file["data"])) == (["data", "lookup"], ["distance"])
        matrix, lookup = file["data/distance"], file["lookup"]
        assert (matrix.dtype, matrix.attrs["NA"], matrix.compression) == (np.int64, UNREACHED, "gzip")
        np.testing.assert_array_equal(matrix[:], true_matrix(TARGETS))
        assert {name: (ids[:].tolist(), ids.attrs["DIM"]) for name, ids in lookup.items()} == {
            "source": (SOURCES, 0),
            "vertex": (TARGETS, 1),
        }


def test_an_open_matrix_of_floats_and_texts(tmp_path):
    h5py = pytest.importorskip("h5py", reason="the extra `omx` is not installed")
    (tmp_path / "edges.txt").write_text("å b 1.25\n")
    stored("edges.txt", ["b", "å"], {"dtype": "float32"}).export("m.omx")
    with h5py.File("m.omx") as file:
        matrix = file["data/distance"]
        assert (matrix.dtype, matrix.attrs["NA"]) == (np.float64, np.inf)
        at = {text.decode(): i for i, text in enumerate(file["lookup/vertex"][:].tolist())}
        assert file["lookup/source"][:].tolist() == [b"b", "å".encode()]
        assert matrix[1].tolist() == [{"å": 0, "b": 1.25}[name] for name in sorted(at, key=at.get)]


def test_what_an_open_matrix_refuses(of_module, tmp_path):
    pytest.importorskip("h5py", reason="the extra `omx` is not installed")
    found = sp.open_run(of_module)
    with pytest.raises(InputError, match="`unreached` is 0, which is also the distance from `77` to `77`"):
        found.export("m.omx", unreached=0)
    with pytest.raises(
        InputError, match=r"`memory://m\.omx` is not on this machine, and an OMX file can only be"
    ):
        found.export("memory://m.omx", unreached=UNREACHED)
    large = pa.array([1]), pa.array([2]), np.array([[2**63]], np.uint64)
    with pytest.raises(
        InputError, match=r"a distance is 9223372036854775808, and an OMX file has whole numbers up"
    ):
        omx_matrix.write_omx("m.omx", Matrix([large], (1, 1), np.dtype(np.uint64), None))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("n_bytes", [0, 3000])
def test_a_full_disk_leaves_no_open_matrix_and_no_crash(of_module, tmp_path, n_bytes):
    """HDF5 ends the process when it cannot write, at once or when Python ends."""
    pytest.importorskip("h5py", reason="the extra `omx` is not installed")
    code = (
        f"import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"import sssp_pipeline as sp; run = sp.open_run({str(of_module)!r}); run.sources\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({n_bytes}, {n_bytes}))\n"
        f"try: run.export('m.omx', unreached={UNREACHED})\n"
        f"except sp.SsspError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("`m.omx` cannot be written: File too large")
    assert not list(tmp_path.iterdir())


NO_NUMBER = "there is no path from `77` to `.*`, and an array of uint32 has no number for that"


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "m.txt",
            {},
            r"m\.txt` names no format: it must end in \.parquet, \.csv, \.csv\.gz, \.npy, \.zarr or \.omx",
        ),
        ("m", {}, r"m` names no format"),
        ("m.npy", {"sparse": True}, r"an array \(\.npy\) has no sparse form"),
        ("m.zarr", {"columns": ("a", "b", "c")}, r"an array \(\.zarr\) has no names of columns"),
        ("m.npy", {}, NO_NUMBER),
        ("m.zarr", {}, NO_NUMBER),
        ("m.zarr", {"unreached": 2**32}, "is 4294967296, which the distances' type uint32 cannot hold"),
        ("m.parquet", {"unreached": -1}, "`unreached` is -1, which the distances' type uint32 cannot hold"),
        ("taken.npy", {}, r"taken\.npy` exists"),
        ("taken.zarr", {"unreached": UNREACHED}, r"taken\.zarr` exists"),
        ("m.omx", {"sparse": True}, r"an array \(\.omx\) has no sparse form"),
        ("m.parquet", {"columns": ("a", "b")}, "`columns` is 'a, b', not three different names"),
        ("m.parquet", {"columns": ("a", "b", "a")}, "not three different names"),
        ("m.parquet", {"sparse": True, "unreached": 1}, "`sparse` and `unreached` contradict each other"),
        *(
            (name, {"unreached": 0}, "`unreached` is 0, which is also the distance from `77` to `77`")
            for name in ("m.npy", "m.parquet", "m.zarr", "m.csv.gz")
        ),
    ],
)
def test_what_cannot_be_written_is_one_error_and_leaves_nothing(of_module, tmp_path, name, options, message):
    (tmp_path / "taken.npy").write_text("mine")
    (tmp_path / "taken.zarr").mkdir()
    with pytest.raises(InputError, match=message):
        sp.open_run(of_module).export(name, **options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken.npy", "taken.zarr"]
    assert (tmp_path / "taken.npy").read_text() == "mine"


#: Outputs that are no matrix.
TABLES = {
    "reached": {"distances": "reached"},
    "nearest": {"distances": "nearest", "nearest": {"k": 3}},
    "reduced": {"distances": "reduced", "reduce": {"values": ["closeness"], "within": [5000]}},
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv.gz"])
def test_a_run_without_a_matrix_is_written_as_its_rows(kind, name):
    found = stored(**TABLES[kind])
    found.export(name)
    true = found.distances() if kind == "reached" else found.answers()
    assert len(true) >= len(SOURCES)
    if name.endswith(".parquet"):
        assert pq.read_table(name).equals(true)
        return
    header, *rows = csv.reader(gzip.decompress(Path(name).read_bytes()).decode().splitlines())
    assert header == true.column_names
    values = [[None if cell == "" else float(cell) for cell in row] for row in rows]
    assert values == [list(row.values()) for row in true.to_pylist()]


def test_what_a_run_without_a_matrix_refuses():
    found = stored(**TABLES["nearest"])
    for options in ({"sparse": True}, {"unreached": 7}, {"columns": ("a", "b", "c")}):
        with pytest.raises(
            InputError, match="`columns`, `sparse` and `unreached` go with a matrix, and `run`"
        ):
            found.export("m.csv", **options)
    with pytest.raises(InputError, match=r"`m\.npy` is an array of all distances, and `[^`]+` holds none"):
        found.export("m.npy")


def test_a_run_with_metrics_only_has_nothing_to_export():
    with pytest.raises(InputError, match=r"`run` holds metrics only, in `metrics\.parquet`"):
        stored(distances="none").export("m.csv")


def test_a_damaged_file_is_named_and_nothing_is_left(tmp_path, recorded_anew):
    found = stored()
    path = "run/distances/batch-00001.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    for fault in (r"was altered", "is damaged: it has 3279 rows, not 2 times 1640"):
        for name, unreached in (("m.parquet", None), ("m.npy", UNREACHED), ("m.zarr", UNREACHED)):
            with pytest.raises(InputError, match=rf"batch-00001\.parquet` {fault}"):
                found.export(name, unreached=unreached)
        recorded_anew(RunFolder(found.url))
        found = sp.open_run("run")
    assert not list(tmp_path.glob("*m.*"))


def test_on_the_command_line(of_module):
    invoke, run = CliRunner().invoke, str(of_module)
    done = invoke(app, ["export", run, "skims.parquet", "--columns", "otaz,dtaz,TIME"])
    assert (done.exit_code, done.stdout) == (0, "skims.parquet\n")
    assert pq.read_schema("skims.parquet").names == ["otaz", "dtaz", "TIME"]
    again = invoke(app, ["export", run, "skims.parquet"])
    assert again.exit_code == 2
    assert "error: `skims.parquet` exists" in again.stderr
    assert invoke(app, ["export", "nowhere", "m.npy"]).exit_code == 2


# ---- how a Zarr group is written ----


def test_the_group_appears_when_everything_is_written(monkeypatch):
    written, write = [], files.write_atomic
    monkeypatch.setattr(
        files, "write_atomic", lambda url, content, **how: (written.append(url), write(url, content, **how))
    )
    ids, rows = pa.array([5, 6, 7]), np.arange(6, dtype=np.int64).reshape(2, 3)
    write_zarr("m.zarr", Matrix([(ids[:2], ids, rows)], rows.shape, rows.dtype, None))
    described = [url.endswith("zarr.json") for url in written]
    assert (described, sum(described)) == (sorted(described), 4)
    assert written[-1] == "m.zarr/zarr.json"
    np.testing.assert_array_equal(zarr.open_group("m.zarr", mode="r")["distance"][:], rows)


def test_a_group_may_be_in_an_object_store():
    ids, rows = pa.array(["a", "b"]), np.array([[0.5, np.inf], [1, 0]])
    write_zarr("memory://zarr-test/m.zarr", Matrix([(ids, ids, rows)], rows.shape, rows.dtype, None))
    fsspec.filesystem("memory").get("/zarr-test/m.zarr", "m.zarr", recursive=True)
    opened = xarray.open_zarr("m.zarr").load()
    np.testing.assert_array_equal(opened.distance.values, rows)
    assert opened.vertex.values.tolist() == ["a", "b"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_what_fails_in_the_middle_leaves_nothing(tmp_path, monkeypatch, failure):
    monkeypatch.setattr(zarr_matrix, "_ROWS_BYTES", 1)
    ids, rows = pa.array([5, 6, 7]), np.ones((2, 3), np.float32)

    def blocks():
        yield ids[:2], ids, rows
        assert (tmp_path / "m.zarr").exists()
        raise failure

    with pytest.raises(failure):
        write_zarr("m.zarr", Matrix(blocks(), (4, 3), rows.dtype, None))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("package", "name", "what"), [("zarr", "m.zarr", "a Zarr"), ("h5py", "m.omx", "an OMX")]
)
def test_the_missing_package_is_one_error(of_module, tmp_path, monkeypatch, package, name, what):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(InputError, match=f"{what} file needs a package that is missing: ") as caught:
        sp.open_run(of_module).export(name, unreached=UNREACHED)
    assert caught.value.hint == f"pip install 'sssp-pipeline[{name[2:]}]'"
    assert not list(tmp_path.iterdir())
