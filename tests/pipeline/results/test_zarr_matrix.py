"""A matrix as a Zarr group: equal to the array of `.npy`, and with the ids when xarray reads it."""

import sys

import fsspec
import numpy as np
import pyarrow as pa
import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results import matrix_export, zarr_matrix
from sssp_pipeline.pipeline.results.zarr_matrix import write_zarr
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Workflow

zarr = pytest.importorskip("zarr", reason="the extra `zarr` is not installed")
xarray = pytest.importorskip("xarray")

UNREACHED = 2**32 - 1
TARGETS = [1600, 3, 77]


def stored(sources, targets=None, **output):
    workflow = {
        "graph": {"input": "generated:grid?rows=40&cols=41&keep=0.7&seed=3", "store": "graph"},
        "sources": {"ids": sources, "order": "given"},
        "solve": {"batch": 2, "solver": "dijkstra", "cutoff": 12000},
        "output": {"path": "run"} | output | ({} if targets is None else {"targets": {"ids": targets}}),
        "verify": "off",
        "report": False,
    }
    run(Workflow.model_validate(workflow), Quiet())
    return sp.open_run("run")


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize(
    ("targets", "rows_bytes", "chunk_bytes"),
    [(None, 3 * 1640 * 4, 5000), (None, 2**24, 2**22), (TARGETS, 1, 1), (TARGETS, 3 * 3 * 4, 30)],
    ids=["cut", "whole", "each-number", "targets"],
)
def test_xarray_opens_what_numpy_loads(tmp_path, monkeypatch, layout, targets, rows_bytes, chunk_bytes):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(zarr_matrix, "_ROWS_BYTES", rows_bytes)
    monkeypatch.setattr(zarr_matrix, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(zarr_matrix, "_CHUNK_IDS", 100)
    monkeypatch.setattr(matrix_export, "BLOCK_BYTES", 4 * 1640 * 2)
    sources = [77, 3, 1639, 0, 500]
    found = stored(sources, targets, layout=layout)
    found.export("m.npy", unreached=UNREACHED)
    found.export("m.zarr", unreached=UNREACHED)
    true = np.load("m.npy")
    assert (true == UNREACHED).any()

    matrix = zarr.open_group("m.zarr", mode="r")["distance"]
    assert matrix.metadata.zarr_format == 3
    assert dict(matrix.attrs) == {"unreached": UNREACHED}
    np.testing.assert_array_equal(matrix[:], true, strict=True)

    opened = xarray.open_zarr("m.zarr").load()
    assert opened.distance.dims == ("source", "vertex")
    assert opened.source.values.tolist() == sources
    vertices = list(range(1640)) if targets is None else targets
    assert opened.vertex.values.tolist() == vertices
    np.testing.assert_array_equal(opened.distance.values, true, strict=True)
    assert opened.distance.sel(source=1639, vertex=77).item() == true[2, vertices.index(77)]


def test_floats_have_infinity_and_ids_may_be_strings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "edges.txt").write_text("å b 1.25\nb c 2.5\nd d 1\n")
    weights = {"dtype": "float32"}
    workflow = {
        "graph": {"input": "edges.txt", "store": "graph", "self_loops": "keep", "weights": weights},
        "sources": {"ids": ["c", "å"], "order": "given"},
        "output": {"path": "run"},
        "verify": "off",
        "report": False,
    }
    run(Workflow.model_validate(workflow), Quiet())
    sp.open_run("run").export("m.zarr")
    opened = xarray.open_zarr("m.zarr").load()
    assert opened.source.values.tolist() == ["c", "å"]
    assert dict(opened.distance.attrs) == {}
    assert opened.distance.dtype == np.float32
    found = opened.distance.sel(source="å", vertex=["å", "b", "c", "d"])
    assert found.values.tolist() == [0, 1.25, 3.75, np.inf]
    assert opened.distance.sel(source="c", vertex="å").item() == np.inf
    sp.open_run("run").export("filled.zarr", unreached=-1)
    assert zarr.open_group("filled.zarr", mode="r")["distance"].attrs["unreached"] == -1
    assert xarray.open_zarr("filled.zarr").load().distance.sel(source="c", vertex="å").item() == -1


def test_the_group_appears_when_everything_is_written(tmp_path, monkeypatch):
    written = []
    write = files.write_atomic
    monkeypatch.setattr(
        files, "write_atomic", lambda url, content, **how: (written.append(url), write(url, content, **how))
    )
    ids = pa.array([5, 6, 7])
    rows = np.arange(6, dtype=np.int64).reshape(2, 3)
    write_zarr(str(tmp_path / "m.zarr"), [(ids[:2], ids, rows)], rows.shape, rows.dtype, None)
    names = [url.removeprefix(f"{tmp_path}/m.zarr/") for url in written]
    described = [name.endswith("zarr.json") for name in names]
    assert described == sorted(described)
    assert names[-1] == "zarr.json"
    assert sum(described) == 4
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "m.zarr", mode="r")["distance"][:], rows)


def test_a_group_may_be_in_an_object_store(tmp_path):
    ids, rows = pa.array(["a", "b"]), np.array([[0.5, np.inf], [1, 0]])
    write_zarr("memory://zarr-test/m.zarr", [(ids, ids, rows)], rows.shape, rows.dtype, None)
    fsspec.filesystem("memory").get("/zarr-test/m.zarr", str(tmp_path / "m.zarr"), recursive=True)
    opened = xarray.open_zarr(tmp_path / "m.zarr").load()
    np.testing.assert_array_equal(opened.distance.values, rows)
    assert opened.vertex.values.tolist() == ["a", "b"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_what_fails_in_the_middle_leaves_nothing(tmp_path, monkeypatch, failure):
    monkeypatch.setattr(zarr_matrix, "_ROWS_BYTES", 1)
    ids = pa.array([5, 6, 7])
    rows = np.ones((2, 3), np.float32)

    def blocks():
        yield ids[:2], ids, rows
        assert (tmp_path / "m.zarr").exists()
        raise failure

    with pytest.raises(failure):
        write_zarr(str(tmp_path / "m.zarr"), blocks(), (4, 3), rows.dtype, None)
    assert not list(tmp_path.iterdir())


def test_the_missing_package_is_one_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = stored([0])
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(InputError) as caught:
        found.export("m.zarr", unreached=UNREACHED)
    assert caught.value.message.startswith("a Zarr file needs a package that is missing: ")
    assert caught.value.hint == "pip install 'sssp-pipeline[zarr]'"
    assert not (tmp_path / "m.zarr").exists()
