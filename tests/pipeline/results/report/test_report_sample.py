"""The sample of a run is what its files hold."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import sssp_pipeline as sp
from sssp_pipeline.pipeline.graph_store.loading import load_coordinates
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.report import sample as sampling
from sssp_pipeline.pipeline.results.report.sample import read_sample
from sssp_pipeline.pipeline.results.stored import StoredResults

GRAPH = "generated:grid?rows=12&cols=10&keep=0.7&seed=3"
#: A graph whose vertices have coordinates.
ROADS = "generated:road?vertices=120&seed=3"


def solved(folder: Path, graph: str = GRAPH, cutoff: int | None = None, **output) -> sp.StoredRun:
    """Return a run of 20 sources in batches of 3."""
    return sp.run(
        {
            "graph": {"input": graph, "store": str(folder / "store")},
            "sources": {"random": {"count": 20, "seed": 5}},
            "solve": {"batch": 3, "cutoff": cutoff},
            "output": {"path": str(folder / "run"), **output},
            "verify": "off",
        }
    )


def sampled(run):
    folder = RunFolder(run.url)
    return read_sample(StoredResults(folder, folder.read_run()), run.record, run.graph())


def stored_rows(run):
    """Return the distances of each source, NaN for unreached vertices."""
    if run.record["workflow"]["output"]["layout"] == "wide":
        tables = [pq.read_table(path).drop_columns("vertex") for path in Path(run.url, "distances").iterdir()]
        return {
            int(name): table[name].to_numpy().astype(float) for table in tables for name in table.column_names
        }
    table = pq.read_table(f"{run.url}/distances")
    source, distance = table["source"].to_numpy(), table["distance"].to_numpy().astype(float)
    return {of: distance[source == of] for of in np.unique(source).tolist()}


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("unreached", [None, 4_000_000_000])
def test_is_the_rows_of_sources_spread_over_the_run(tmp_path, layout, unreached):
    run = solved(tmp_path, layout=layout, unreached=unreached)
    sample = sampled(run)
    rows = stored_rows(run)
    sources = run.sources.to_pylist()
    # The first sources of 7 files in the long layout, and the most sources of 20 columns in the wide one.
    places = range(0, 20, 3) if layout == "long" else [0, 2, 5, 8, 10, 13, 16, 19]
    assert list(map(int, sample.sources)) == [sources[place] for place in places]
    wanted = np.concatenate([rows[int(source)] for source in sample.sources])
    is_reached = ~np.isnan(wanted) & (wanted != unreached)
    assert not is_reached.all()
    np.testing.assert_array_equal(sample.distances, wanted[is_reached])
    assert sample.missing == ""


def test_the_map_has_the_distances_of_the_first_source(tmp_path):
    run = solved(tmp_path, ROADS, cutoff=700)
    placed = sampled(run).placed
    assert np.isnan(placed.distances).any()
    np.testing.assert_array_equal(placed.distances, stored_rows(run)[placed.source])
    x, y = load_coordinates(run.graph().store, run.graph().manifest)
    np.testing.assert_array_equal((placed.x, placed.y), (x, y))
    assert placed.source_point == run.graph().ids.vertices([placed.source], "")[0]
    assert placed.distances[placed.source_point] == 0
    assert placed.step == 1
    assert "<h3>Map</h3>" in Path(run.url, "report.html").read_text()


def test_a_map_of_some_vertices_has_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr(sampling, "_MOST_POINTS", 7)
    run = solved(tmp_path, ROADS)
    placed = sampled(run).placed
    vertex = int(run.graph().ids.vertices([placed.source], "")[0])
    points = sorted({*range(0, run.graph().manifest.n_vertices, placed.step), vertex})
    assert len(points) <= 8
    assert points[placed.source_point] == vertex
    np.testing.assert_array_equal(placed.distances, stored_rows(run)[placed.source][points])
    np.testing.assert_array_equal(
        placed.x, load_coordinates(run.graph().store, run.graph().manifest)[0][points]
    )


def test_coordinates_that_are_gone_leave_out_the_map(tmp_path):
    run = solved(tmp_path, ROADS)
    for part in Path(run.graph().store, "vertices").iterdir():
        part.unlink()
    sample = sampled(run)
    assert (sample.placed, len(sample.sources)) == (None, 7)
    assert re.fullmatch(
        r"There is no map, because the coordinates cannot be read: `.*parquet` is gone\.", sample.missing
    )


def test_targets_have_a_histogram_and_no_map(tmp_path):
    run = solved(tmp_path, ROADS, targets={"ids": [5, 3, 8]})
    sample = sampled(run)
    assert len(sample.sources) == 7
    assert sample.placed is None
    page = Path(run.url, "report.html").read_text()
    assert "<h3>Distances</h3>" in page
    assert "<h3>Map</h3>" not in page


def test_a_run_without_distances_has_no_sample(tmp_path):
    run = solved(tmp_path, distances="none")
    sentence = "There is no histogram of distances, because the run stores none."
    assert sampled(run).missing == sentence
    assert sentence in Path(run.url, "report.html").read_text()


def test_a_source_with_too_many_distances_is_not_read(tmp_path, monkeypatch):
    run = solved(tmp_path)
    monkeypatch.setattr(sampling, "_FEW_VALUES", 250)
    assert len(sampled(run).sources) == 2
    monkeypatch.setattr(sampling, "_MOST_VALUES", 100)
    sample = sampled(run)
    assert sample.missing == "There is no histogram of distances, because a source has 120 of them."
    assert sample.sources == []


def test_a_damaged_file_is_a_sentence_and_no_error(tmp_path):
    run = solved(tmp_path)
    Path(run.url, "distances", "batch-00000.parquet").write_bytes(b"no Parquet")
    missing = sampled(run).missing
    assert re.fullmatch(
        r"There is no histogram of distances, because they cannot be read: `.*00000\.parquet` was altered: .*[^.]\.",
        missing,
    )


def test_throughput_is_recorded(tmp_path):
    run = solved(tmp_path)
    metrics = run.metrics
    assert metrics["solved_at"].null_count == 0
    of_batches = metrics.group_by("batch").aggregate([("solved_at", "count_distinct")])
    assert set(of_batches["solved_at_count_distinct"].to_pylist()) == {1}
    age_s = Path(run.url, "run.json").stat().st_mtime - metrics["solved_at"].to_pylist()[0].timestamp()
    assert -1 <= age_s < 60
    assert "<h3>Throughput over time</h3>" in Path(run.url, "report.html").read_text()
