"""A run folder: whose it is, the commits of its batches, and their metrics."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.kernels.contract.solver import TRACE, MetricsColumns, Solution, SourceMetrics
from sssp_pipeline.pipeline.results.folder import batches, run_folder
from sssp_pipeline.pipeline.results.folder.batch_metrics import BatchMetrics, Place, metrics_table
from sssp_pipeline.pipeline.results.folder.commits import Commit
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs.distance_outputs import AllDistances
from sssp_pipeline.pipeline.results.outputs.metrics_output import NO_DISTANCES, MetricsAlone
from sssp_pipeline.storage import files
from sssp_pipeline.storage.lease import exclusive

INF = 2**32 - 1
OFFSET = VertexIds(IdMapping(kind="offset", type="int64", first_id=1), None, 4)
DISTANCES = np.array([[0, 5, INF, 7], [INF, 4, 0, 1]], np.uint32)
LONG = DistanceFormat("long", None, "none", predecessors=False)
PLACE = Place("w", "cpu", 1)


def a_metric(source: int, max_distance: int = 7) -> SourceMetrics:
    return SourceMetrics(source, "dijkstra", 0.5, 3, 4, 3, max_distance, 2.5, 8.0)


def commit(folder: RunFolder, batch: int, metrics: list[SourceMetrics], place: Place = PLACE) -> None:
    """Commit a batch with a source for each of `metrics`."""
    sources = np.array([metric.source for metric in metrics], np.uint32)
    solution = Solution(DISTANCES[: len(metrics)], None, metrics)
    folder.commit_batch(batch, sources, solution, place, OFFSET, AllDistances(LONG))


def commit_metrics(folder: RunFolder, batch: int) -> None:
    """Commit a batch with one source and without distances."""
    nothing = Solution(np.empty((1, 0), np.uint32), None, [a_metric(batch)])
    folder.commit_batch(batch, np.array([batch], np.uint32), nothing, PLACE, OFFSET, MetricsAlone(LONG))


def test_a_folder_belongs_to_one_run(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    assert folder.begin({"graph": "a", "batch": 1}) is False
    assert folder.begin({"graph": "a", "batch": 1}) is False
    assert folder.begin({"graph": "b", "batch": 1}) is False  # nothing is solved yet
    assert folder.begin({"graph": "a", "batch": 1}) is False
    commit(folder, 0, [a_metric(0), a_metric(2)])
    with pytest.raises(InputError) as caught:
        folder.begin({"graph": "a", "batch": 2})
    assert caught.value.message == f"`{tmp_path}/run` holds another run: it differs in batch"
    assert caught.value.hint == "choose another `output.path`, or replace that run with `--overwrite`"


def test_distances_of_an_unknown_run_are_left_alone(tmp_path):
    (tmp_path / "distances").mkdir()
    (tmp_path / "distances" / "batch-00000.parquet").touch()
    with pytest.raises(InputError, match="is not empty and does not hold a run: it has distances"):
        RunFolder(str(tmp_path)).begin({})


def test_an_abandoned_run_leaves_nothing(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    with exclusive(folder.url):
        folder.begin({})
        commit(folder, 0, [a_metric(0), a_metric(2)])
        folder.abandon()
    assert list(tmp_path.iterdir()) == []


def finished(folder: RunFolder, n_batches: int) -> pa.Table:
    """Write `metrics.parquet` and return its content."""
    table = folder.joined_metrics(n_batches, OFFSET, None)
    folder.write_table("metrics.parquet", table)
    return table


def test_metrics_hold_a_row_a_source_in_order(tmp_path):
    folder = RunFolder(str(tmp_path))
    folder.begin({})
    for batch, vertex in ((1, 2), (0, 0)):
        commit(folder, batch, [a_metric(vertex)], Place("w", "cpu", 2))
    table = finished(folder, 2)
    assert table["source"].to_pylist() == [1, 3]
    assert table["batch"].to_pylist() == [0, 1]
    assert table.schema.field("delta_first").type == pa.float64()
    assert table.slice(0, 1).to_pylist()[0] == {
        "source": 1,
        "batch": 0,
        "worker": "w",
        "device": "cpu",
        "attempts": 2,
        "solved_at": None,
        "solver": "dijkstra",
        "solve_s": 0.5,
        "vertices_processed": 3,
        "edges_relaxed": 4,
        "reached": 3,
        "max_distance": 7,
        "mean_distance": 2.5,
        "teps": 8.0,
        "delta_first": None,
        "delta_last": None,
        "delta_changes": 0,
        "supersteps": None,
        "filter_s": None,
        "trace": None,
    }
    folder.finish({"format": run_folder.RUN_FORMAT, "version": 1})
    of_batches = [f"distances/batch-{batch:05d}.parquet" for batch in range(2)]
    assert files.list_files(folder.url) == [*of_batches, "metrics.parquet", "run.json"]
    assert folder.read_metrics().equals(table)


def test_metrics_of_many_batches_come_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_GATHERED", 2)
    folder = RunFolder(str(tmp_path))
    folder.begin({})
    for vertex in (4, 3, 2, 1, 0):
        commit(folder, vertex, [a_metric(vertex)])
    assert finished(folder, 5)["batch"].to_pylist() == [0, 1, 2, 3, 4]
    assert folder.read_metrics()["batch"].num_chunks == 1


def test_metrics_by_column_give_the_same_rows_as_entries(tmp_path):
    of_row = np.arange(300)
    tables = []
    for name, form in (("columns", lambda columns: columns), ("entries", list)):
        folder = RunFolder(str(tmp_path / name))
        folder.begin({})
        for batch, (solver, delta) in enumerate((("dijkstra", None), ("dijkstra", None), ("adds", 0.5))):
            shared = vars(a_metric(0)) | {"solver": solver, "delta_first": delta, "max_distance": 2**63 + 1}
            own = {"source": (300 * batch + of_row).astype(np.uint32), "mean_distance": of_row / 7}
            solution = Solution(np.empty((300, 0)), None, form(MetricsColumns(shared | own)))
            folder.commit_batch(batch, own["source"], solution, PLACE, OFFSET, MetricsAlone(LONG))
        tables.append(finished(folder, 3))
        assert folder.read_metrics().equals(tables[-1])
    assert tables[0].equals(tables[1])
    assert tables[0]["source"].to_pylist() == list(range(1, 901))
    assert tables[0]["batch"].to_pylist() == [0] * 300 + [1] * 300 + [2] * 300
    assert tables[0]["solver"].to_pylist() == ["dijkstra"] * 600 + ["adds"] * 300
    assert tables[0]["delta_first"].to_pylist() == [None] * 600 + [0.5] * 300
    assert tables[0]["max_distance"].to_pylist() == [2.0**63] * 900
    assert tables[0]["mean_distance"].to_pylist() == (of_row / 7).tolist() * 3


def test_a_distance_that_no_float_holds_is_rounded_in_the_metrics():
    metrics = [a_metric(0, max_distance=2**63 + 1)]
    assert metrics_table(metrics, pa.array([5]), 0, PLACE)["max_distance"].to_pylist() == [2.0**63]


def test_traces_are_lists_of_moments_and_null_where_none_was_recorded(tmp_path):
    folder = RunFolder(str(tmp_path))
    folder.begin({})
    trace = np.array([(0.5, 3, 20, 2, 8.0), (7.25, 0, 0, 3, 16.0)], TRACE)
    for batch, traces in enumerate(([None, trace[:1]], [trace, trace[:0]], [None])):
        commit(folder, batch, [replace(a_metric(vertex), trace=one) for vertex, one in enumerate(traces)])
    finished(folder, 3)
    first, second = (dict(zip(TRACE.names, moment.item(), strict=True)) for moment in trace)
    assert first == {"time_us": 0.5, "busy_workers": 3, "words_queued": 20, "head_buckets": 2, "delta": 8.0}
    assert folder.read_metrics()["trace"].to_pylist() == [None, [first], [first, second], [], None]


def test_without_distances_the_metrics_commit_a_batch(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    assert folder.begin({"targets": NO_DISTANCES}) is False
    commit_metrics(folder, 1)
    assert folder.committed() == {1}
    assert (folder.is_unfinished(), folder.read_start()) == (True, {})
    with pytest.raises(InputError, match="holds another run: it differs in targets"):
        folder.begin({"targets": None})
    commit_metrics(folder, 0)
    assert finished(folder, 2)["source"].to_pylist() == [1, 2]
    assert not (tmp_path / "run" / "distances").exists()


def test_distances_without_a_commit_are_no_batch(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    folder.begin({"cutoff": 5})
    (tmp_path / "run" / "distances").mkdir()
    (tmp_path / "run" / "distances" / "batch-00000.parquet").touch()  # as a run leaves it that is killed then
    assert folder.committed() == set()
    folder.begin({"targets": NO_DISTANCES})
    assert folder.committed() == set()


def test_a_commit_of_another_run_or_batch_is_damage(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    folder.begin({"cutoff": 5})
    late = RunFolder(folder.url, {"cutoff": 6})
    for place, batch in ((late, 0), (folder, 1), (folder, 2)):
        commit_metrics(place, batch)
    commits = tmp_path / "run" / "_run"
    (commits / "batch-00002.commit").write_bytes((commits / "batch-00001.commit").read_bytes())
    assert folder.damaged_batches(3) == {
        0: ("_run/batch-00000.commit", "is of another run"),
        2: ("_run/batch-00002.commit", "is of another run"),
    }


def test_a_folder_that_is_no_run_is_said(tmp_path):
    with pytest.raises(InputError) as caught:
        RunFolder(str(tmp_path)).read_run()
    assert caught.value.message == f"`{tmp_path}` is not a run"
    assert caught.value.hint == "name an `output.path`"
    RunFolder(str(tmp_path)).begin({})
    with pytest.raises(InputError, match="is an unfinished run"):
        RunFolder(str(tmp_path)).read_run()


# ---- the metrics of a batch ----

ONE = SourceMetrics(3, "dijkstra", 0.1, 3, 4, 3, 2**63 + 1, 2.5, math.inf)


def there_and_back(metrics):
    place = Place("höst:7", "NVIDIA H200", 2)
    found = BatchMetrics.of_bytes(BatchMetrics(place, metrics).to_bytes())
    assert found.place == place
    return list(found.metrics)


def test_each_value_comes_back():
    metrics = [
        ONE,
        replace(ONE, source=5, solve_s=0.3, delta_first=1.5),
        replace(ONE, source=3, supersteps=9),
    ]
    assert there_and_back(metrics) == metrics
    assert there_and_back(metrics[:1]) == metrics[:1]


def test_columns_of_a_gpu_come_back():
    numbers = np.arange(4, dtype=np.uint64)
    columns = {name: getattr(ONE, name) for name in vars(ONE)} | {
        "source": numbers.astype(np.uint32),
        "max_distance": numbers.astype(np.float32) / 3,
        "reached": numbers + np.uint64(2**60),
    }
    assert there_and_back(MetricsColumns(columns)) == list(MetricsColumns(columns))


@pytest.mark.parametrize("n_bytes", [0, 40, -1])
def test_a_file_cut_short_is_an_error_that_names_it(tmp_path, n_bytes):
    folder = RunFolder(str(tmp_path))
    content = Commit(0, "", {}, BatchMetrics(PLACE, [ONE]).to_bytes()).to_bytes()
    files.write_atomic(folder.path("_run/batch-00000.commit"), content[:n_bytes])
    with pytest.raises(InputError, match=r"_run/batch-00000.commit` is damaged: its checksum does not match"):
        finished(folder, 1)
