"""This release reads the stores and the runs of earlier ones. `tests/data/write_release.py` wrote them."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import sssp_pipeline as sp
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.run.completed_run import verify_run

DATA = Path(__file__).parents[1] / "data"
RELEASES = sorted(path.name for path in DATA.glob("release-*"))
#: Least minutes and least time of the rush hour from `A` and `F` to `A`, …, `F`.
MINUTES = [[0, 4, 7.5, 8.75, 14.75, None], [7, 11, 14.5, 15.75, 21.75, 0]]
RUSH = [[0, 5, 14, 17, 23, None], [7, 12, 21, 24, 30, 0]]


@pytest.fixture(params=[*RELEASES, pytest.param("this release", marks=pytest.mark.medium)])
def written(request, tmp_path, monkeypatch):
    """Go to a copy of what a release wrote, or to what this one writes."""
    monkeypatch.chdir(tmp_path)
    if request.param == "this release":
        runpy.run_path(str(DATA / "write_release.py"))["write"]()
        return
    shutil.copytree(DATA / request.param, "copy")
    monkeypatch.chdir("copy")


def test_there_are_files_of_a_release():
    assert "release-0.2.0" in RELEASES


def distances(run: str, sources: list[str]) -> list[list[float | None]]:
    table = sp.open_run(run).distances(sources=sources)
    return np.array(table["distance"].to_pylist(), object).reshape(len(sources), -1).tolist()


@pytest.mark.usefixtures("written")
def test_stores_are_read():
    reached = np.array(MINUTES, float)
    reached[np.isnan(reached)] = np.inf
    assert_array_equal(sp.solve(sp.open_store("store"), ["A", "F"]).numpy(), reached)
    several = sp.open_store("several-weights", weight="rush")
    assert_array_equal(sp.solve(several, "F").numpy(), [RUSH[1]])


@pytest.mark.usefixtures("written")
def test_runs_are_read():
    assert distances("distances", ["A", "F"]) == distances("wide", ["A", "F"]) == MINUTES
    assert distances("several/minutes", ["A", "F"]) == MINUTES
    assert distances("several/rush", ["A", "F"]) == RUSH
    assert list(sp.open_run("distances").path("A", "E")) == ["A", "B", "C", "D", "E"]
    assert sp.open_run("reduced").answers(["A"])["max_distance"].to_pylist() == [14.75]
    assert sp.open_run("nearest").answers(["C"])["vertex"].to_pylist() == ["C", "D"]
    assert sp.open_run("distances").metrics["source"].to_pylist() == ["A", "F"]


@pytest.mark.usefixtures("written")
@pytest.mark.parametrize("run", ["distances", "wide", "reduced", "nearest", "several/rush"])
def test_runs_are_verified(run):
    verdict = verify_run(run, None, "sample", Quiet())["verify"]
    assert (verdict["refuted"], verdict["checked_sources"] > 0) == (None, True)
