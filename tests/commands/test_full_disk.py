"""A disk that is full while a command writes one file: nothing stays there, and the hint promises nothing else."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner

import sssp_pipeline as sp
from sssp_pipeline.cli import app

pytest.importorskip("shapely", reason="the extra `places` is not installed")

EXPORT, PATHS, AREAS = ("export", "run"), ("paths", "run", "pairs.csv"), ("isochrones", "run")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A finished run in the current folder, and a file of pairs."""
    monkeypatch.chdir(tmp_path)
    Path("roads.csv").write_text("from,to,minutes\na,b,2\nb,c,3\n")
    Path("places.csv").write_text("id,lon,lat\na,-4.5,50.8\nb,-4.5,50.801\nc,-4.5,50.802\n")
    Path("pairs.csv").write_text("source,target\na,c\n")
    graph = {"input": "roads.csv", "coordinates": "places.csv", "directed": False}
    sp.run({"graph": graph, "sources": {"all": True}, "output": {"path": "run"}})


def fill(disk):
    with suppress(OSError), Path(disk, "other").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass


@pytest.mark.medium
@pytest.mark.parametrize(
    ("words", "name"),
    [
        *((EXPORT, f"matrix{end}") for end in (".parquet", ".csv", ".npy", ".omx", ".zarr")),
        *((PATHS, f"paths{end}") for end in (".parquet", ".csv.gz", ".geojson")),
        *((AREAS, f"areas{end}") for end in (".parquet", ".geojson", ".gpkg")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_does_not_fit(run, small_disk, words, name):
    fill(small_disk)
    options = ["--limits", "3"] if words is AREAS else []
    done = CliRunner().invoke(app, [*words, str(small_disk / name), *options])
    assert done.exit_code == 1, done.output
    assert "cannot be written: " in done.stderr
    assert done.stderr.endswith("\n\nhint: free some space and run the same command again\n")
    assert [path.name for path in small_disk.iterdir()] == ["other"]
