from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.kernels.contract.solver import TRACE, Solution, SourceMetrics
from sssp_pipeline.pipeline.results import batches, run_folder
from sssp_pipeline.pipeline.results.batch_metrics import Place, metrics_table
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.distance_outputs import AllDistances
from sssp_pipeline.pipeline.results.metrics_output import NO_DISTANCES, MetricsAlone
from sssp_pipeline.pipeline.results.run_folder import RunFolder
from sssp_pipeline.storage.lease import exclusive

INF = 2**32 - 1
OFFSET = VertexIds(IdMapping(kind="offset", type="int64", first_id=1), None, 4)
SPARSE = VertexIds(IdMapping(kind="table", type="int64"), pa.array([3, 7, 9, 50]), 4)
NAMES = VertexIds(IdMapping(kind="table", type="string"), pa.array(["a", "b", "c", "d"]), 4)
SOURCES = np.array([0, 2], np.uint32)
DISTANCES = np.array([[0, 5, INF, 7], [INF, 4, 0, 1]], np.uint32)
PREDECESSORS = np.array([[NO_VERTEX, 0, NO_VERTEX, 1], [NO_VERTEX, 3, NO_VERTEX, 2]], np.uint32)


PLACE = Place("w", "cpu", 1)


def a_metric(source: int, max_distance: int = 7) -> SourceMetrics:
    return SourceMetrics(source, "dijkstra", 0.5, 3, 4, 3, max_distance, 2.5, 8.0)


def some_metrics() -> list[SourceMetrics]:
    return [a_metric(int(source)) for source in SOURCES]


def form(layout="long", unreached=None, compression="none", predecessors=False) -> DistanceFormat:
    return DistanceFormat(layout, unreached, compression, predecessors)


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("unreached", [None, 4294967295, 999])
@pytest.mark.parametrize("ids", [OFFSET, SPARSE, NAMES])
def test_what_is_committed_is_read_back_as_the_solver_gave_it(tmp_path, layout, unreached, ids):
    folder, output = RunFolder(str(tmp_path)), AllDistances(form(layout, unreached))
    folder.begin(output.identity() | output.form.identity())
    (begun,) = (p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    n_bytes = folder.commit_batch(0, SOURCES, Solution(DISTANCES, None, some_metrics()), PLACE, ids, output)
    assert n_bytes == sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()) - begun
    assert folder.committed() == {0}
    if layout == "wide":
        folder.merge([SOURCES], output, ids, np.dtype(np.uint32), Quiet())
        assert folder.committed() == {0}
    else:
        folder.sums |= folder.commit(0).files
    read = list(output.read(folder.stored_batch(0), range(2), ids, np.dtype(np.uint32)))
    assert [name for name, _ in read] == ids.originals(SOURCES).to_pylist()
    np.testing.assert_array_equal([d for _, d in read], DISTANCES)
    (only,) = output.read(folder.stored_batch(0), [1], ids, np.dtype(np.uint32))
    assert only[0] == ids.original(2)


def test_a_folder_belongs_to_one_run(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))
    assert folder.begin({"graph": "a", "batch": 1}) is False
    assert folder.begin({"graph": "a", "batch": 1}) is False
    assert folder.begin({"graph": "b", "batch": 1}) is False  # nothing is solved yet
    assert folder.begin({"graph": "a", "batch": 1}) is False
    folder.commit_batch(
        0, SOURCES, Solution(DISTANCES, None, some_metrics()), PLACE, OFFSET, AllDistances(form())
    )
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
        folder.commit_batch(
            0, SOURCES, Solution(DISTANCES, None, some_metrics()), PLACE, OFFSET, AllDistances(form())
        )
        folder.abandon()
    assert list(tmp_path.iterdir()) == []


def test_metrics_hold_a_row_a_source_in_order(tmp_path):
    folder = RunFolder(str(tmp_path))
    folder.begin({})
    for batch, vertex in ((1, 2), (0, 0)):
        sources, solution = np.array([vertex], np.uint32), Solution(DISTANCES[:1], None, [a_metric(vertex)])
        folder.commit_batch(batch, sources, solution, Place("w", "cpu", 2), OFFSET, AllDistances(form()))
    table = folder.finish_metrics(2, OFFSET, None)
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
    files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*") if p.is_file())
    assert files == [
        "distances/batch-00000.parquet",
        "distances/batch-00001.parquet",
        "metrics.parquet",
        "run.json",
    ]
    assert folder.read_metrics().equals(table)


def test_metrics_of_many_batches_come_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "_GATHERED", 2)
    folder = RunFolder(str(tmp_path))
    folder.begin({})
    for vertex in (4, 3, 2, 1, 0):
        solution = Solution(DISTANCES[:1], None, [a_metric(vertex)])
        folder.commit_batch(
            vertex, np.array([vertex], np.uint32), solution, PLACE, OFFSET, AllDistances(form())
        )
    assert folder.finish_metrics(5, OFFSET, None)["batch"].to_pylist() == [0, 1, 2, 3, 4]
    assert folder.read_metrics()["batch"].num_chunks == 1


def test_a_distance_that_no_float_holds_is_rounded_in_the_metrics():
    metrics = [a_metric(0, max_distance=2**63 + 1)]
    assert metrics_table(metrics, pa.array([5]), 0, PLACE)["max_distance"].to_pylist() == [2.0**63]


def test_traces_are_lists_of_moments_and_null_where_none_was_recorded(tmp_path):
    folder = RunFolder(str(tmp_path))
    folder.begin({})
    trace = np.array([(0.5, 3, 20, 2, 8.0), (7.25, 0, 0, 3, 16.0)], TRACE)
    for batch, traces in enumerate(([None, trace[:1]], [trace, trace[:0]], [None])):
        metrics = [replace(a_metric(vertex), trace=recorded) for vertex, recorded in enumerate(traces)]
        n = len(traces)
        solution = Solution(DISTANCES[:n], None, metrics)
        folder.commit_batch(batch, SOURCES[:n], solution, PLACE, OFFSET, AllDistances(form()))
    folder.finish_metrics(3, OFFSET, None)
    first, second = (dict(zip(TRACE.names, moment.item(), strict=True)) for moment in trace)
    assert first == {
        "time_us": 0.5,
        "busy_workers": 3,
        "words_queued": 20,
        "head_buckets": 2,
        "delta": 8.0,
    }
    assert folder.read_metrics()["trace"].to_pylist() == [None, [first], [first, second], [], None]


def test_without_distances_the_metrics_commit_a_batch(tmp_path):
    folder = RunFolder(str(tmp_path / "run"))

    def commit(batch: int) -> None:
        sources = np.array([batch], np.uint32)
        nothing = Solution(np.empty((1, 0), np.uint32), None, [a_metric(batch)])
        folder.commit_batch(batch, sources, nothing, PLACE, OFFSET, MetricsAlone(form()))

    assert folder.begin({"targets": NO_DISTANCES}) is False
    commit(1)
    assert folder.committed() == {1}
    assert (folder.is_unfinished(), folder.noted()) == (True, {})
    with pytest.raises(InputError, match="holds another run: it differs in targets"):
        folder.begin({"targets": None})
    commit(0)
    assert folder.finish_metrics(2, OFFSET, None)["source"].to_pylist() == [1, 2]
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
        metrics = [a_metric(batch)]
        nothing = Solution(np.empty((1, 0), np.uint32), None, metrics)
        place.commit_batch(batch, np.array([batch], np.uint32), nothing, PLACE, OFFSET, MetricsAlone(form()))
    commits = tmp_path / "run" / "_run"
    (commits / "batch-00002.commit").write_bytes((commits / "batch-00001.commit").read_bytes())
    assert folder.damaged_batches(3) == {
        0: ("_run/batch-00000.commit", "is of another run"),
        2: ("_run/batch-00002.commit", "is of another run"),
    }


def test_a_folder_that_is_no_run_is_said(tmp_path):
    with pytest.raises(InputError) as caught:
        RunFolder(str(tmp_path)).read_run()
    assert (caught.value.message, caught.value.hint) == (
        f"`{tmp_path}` is not a run",
        "name an `output.path`",
    )
    RunFolder(str(tmp_path)).begin({})
    with pytest.raises(InputError, match="is an unfinished run"):
        RunFolder(str(tmp_path)).read_run()
