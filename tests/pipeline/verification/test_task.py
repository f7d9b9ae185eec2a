import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import GENERATORS
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.answers.betweenness import Betweenness
from sssp_pipeline.pipeline.results.answers.reduced import Reduced
from sssp_pipeline.pipeline.results.folder.batch_metrics import Place
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.folder.run_files import batch_file
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs.distance_outputs import AllDistances
from sssp_pipeline.pipeline.results.outputs.metrics_output import MetricsAlone
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.solving import stage as solving
from sssp_pipeline.pipeline.solving.workers.source import worker_source
from sssp_pipeline.pipeline.verification import stage, task
from sssp_pipeline.pipeline.verification.ahead import row_ahead, solving_ahead
from sssp_pipeline.pipeline.verification.stage import Verifying
from sssp_pipeline.storage.file_sums import write_summed
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.models import Workflow

MADE = GENERATORS["grid"](rows=12, cols=11, keep=0.7, seed=1)
GRAPH = csr_from_edges(MADE.src, MADE.dst, MADE.weights, MADE.n_vertices)
IDS = VertexIds(IdMapping(kind="offset", type="int64", first_id=1), None, MADE.n_vertices)
BATCHES = [np.arange(a, min(a + 7, 30), dtype=np.uint32) for a in range(0, 30, 7)]


def committed(tmp_path: Path, form: DistanceFormat, cutoff=None) -> RunFolder:
    folder = RunFolder(str(tmp_path), {})
    for batch, sources in enumerate(BATCHES):
        solution = Dijkstra().solve(GRAPH, sources, SolveOptions(cutoff=cutoff))
        folder.commit_batch(batch, sources, solution, Place("worker", "cpu", 1), IDS, AllDistances(form))
        folder.sums |= folder.commit(batch).files
    return folder


class Stored(StoredGraph):
    """The graph of these tests, as if it were in a store."""

    ids = IDS

    def graph(self):
        return GRAPH

    proven = graph


STORED = Stored(
    "store",
    SimpleNamespace(
        content_id="grid",
        n_vertices=132,
        graph_bytes=10_000,
        traits=GRAPH.traits,
        vertices=(),
        weights=SimpleNamespace(dtype="uint32"),
    ),
)


def verifying(folder, form, mode="sample", cutoff=None, output=None) -> Verifying:
    identity = {"targets": None, "batch": 7, "cutoff": cutoff}
    return Verifying(STORED, BATCHES, output or AllDistances(form), folder, identity, 0, Quiet(), mode)


def verdict(folder, form, mode, cutoff=None):
    with worker_source(Cluster()) as source:
        return verifying(folder, form, mode, cutoff).verify_on(source)


def record(folder: RunFolder, batch: int) -> None:
    """Record the file of a batch as it is now."""
    path = folder.batch_path(batch)
    content = Path(path).read_bytes()
    folder.sums[batch_file(batch)] = write_summed(path, lambda file: file.write(content))


def tamper(folder: RunFolder, batch: int, source: int, vertex: int, distance: int | None) -> int | None:
    """Change one stored distance of the long layout; return the true one."""
    path = folder.batch_path(batch)
    table = pq.read_table(path)
    rows = table.to_pylist()
    (row,) = (r for r in rows if (r["source"], r["vertex"]) == (source, vertex))
    true, row["distance"] = row["distance"], distance
    pq.write_table(pa.Table.from_pylist(rows, table.schema), path)
    record(folder, batch)
    return true


@pytest.mark.parametrize("mode", ["sample", "certificate"])
@pytest.mark.parametrize(
    ("layout", "unreached", "cutoff"),
    [
        ("long", None, None),
        ("long", 4_000_000_000, 1500),
        ("wide", None, 1500),
        ("wide", 4_000_000_000, None),
    ],
)
def test_true_distances_pass(tmp_path, mode, layout, unreached, cutoff):
    form = DistanceFormat(layout, unreached, "none", False)
    found = verdict(committed(tmp_path, form, cutoff), form, mode, cutoff)
    assert found.refuted is None
    assert found.checked_sources == (30 if mode == "certificate" else 8)


LONG = DistanceFormat("long", None, "none", False)


@pytest.mark.parametrize("mode", ["sample", "certificate"])
@pytest.mark.parametrize("stored", [0, 1, 123_456, None])
def test_one_wrong_distance_is_named(tmp_path, mode, stored):
    folder = committed(tmp_path, LONG)
    true = tamper(folder, 4, 30, 77, stored)  # the last source, which the sample holds too
    assert true is not None
    shown = "unreached" if stored is None else stored
    assert verdict(folder, LONG, mode).refuted == (
        f"source `30`, vertex `77`: stored distance {shown}, true distance {true}"
    )


def test_the_certificate_sees_what_the_sample_leaves_out(tmp_path):
    folder = committed(tmp_path, LONG)
    tamper(folder, 0, 2, 77, 1)
    assert verdict(folder, LONG, "sample").refuted is None
    assert "source `2`, vertex `77`" in verdict(folder, LONG, "certificate").refuted


def test_a_cutoff_the_run_did_not_have_is_refuted(tmp_path):
    folder = committed(tmp_path, LONG, cutoff=1500)
    assert verdict(folder, LONG, "certificate", None).refuted is not None


def test_swapped_files_are_said(tmp_path):
    folder = committed(tmp_path, LONG)
    a, b = Path(folder.batch_path(1)), Path(folder.batch_path(2))
    swapped = b.read_bytes()
    b.write_bytes(a.read_bytes())
    a.write_bytes(swapped)
    for batch in (1, 2):
        record(folder, batch)
    with pytest.raises(InputError, match="holds source `15` at place 0, not `8`"):
        verdict(folder, LONG, "certificate")


def without_first_row(path: Path) -> None:
    pq.write_table(pq.read_table(path).slice(1), path)


@pytest.mark.parametrize(
    ("damage", "is_recorded", "message"),
    [
        (Path.unlink, False, r"batch-00002\.parquet` does not exist"),
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), False, r"batch-00002\.parquet` was altered"),
        (without_first_row, True, "is damaged: it has 923 rows, no multiple of 132 vertices"),
    ],
    ids=["missing", "cut", "without-a-vertex"],
)
def test_a_damaged_file_is_said(tmp_path, damage, is_recorded, message):
    folder = committed(tmp_path, LONG)
    damage(Path(folder.batch_path(2)))
    if is_recorded:
        record(folder, 2)
    with pytest.raises(InputError, match=message):
        verdict(folder, LONG, "certificate")


# ---- sources that are solved before `verify` begins ----

OTHER_GRAPH = csr_from_edges(*(np.zeros(1, np.uint32),) * 3, MADE.n_vertices)


def refuted(of_run: Verifying) -> str | None:
    with worker_source(Cluster()) as source:
        return of_run.verify_on(source).refuted


def row_of(source: int):
    return Dijkstra().solve(GRAPH, np.array([source], np.uint32), SolveOptions())


def test_verify_compares_with_a_row_that_was_solved_ahead(tmp_path):
    begun = threading.Event()

    def solve(source):
        begun.set()
        return GRAPH, row_of(source + 1)

    of_run = verifying(committed(tmp_path, LONG), LONG)
    with solving_ahead(of_run.name, 1, [0], solve):
        assert begun.wait(10)
        assert "source `1`, vertex `1`: stored distance 0, true distance" in refuted(of_run)
    assert refuted(of_run) is None


def test_verify_solves_what_is_of_another_graph_or_failed(tmp_path):
    def solve(source):
        if source:
            raise MemoryError
        return OTHER_GRAPH, row_of(5)

    of_run = verifying(committed(tmp_path, LONG), LONG)
    with solving_ahead(of_run.name, 1, range(30), solve):
        assert refuted(of_run) is None


def test_a_row_that_no_thread_has_begun_is_not_waited_for():
    begun, go_on = threading.Event(), threading.Event()

    def solve(source):
        begun.set()
        go_on.wait(10)
        return GRAPH, row_of(source)

    with solving_ahead("a", 1, [3, 4], solve):
        assert begun.wait(10)
        assert row_ahead("a", GRAPH, 4) is None
        go_on.set()
        np.testing.assert_array_equal(row_ahead("a", GRAPH, 3).distances, row_of(3).distances)
    assert row_ahead("a", GRAPH, 3) is None


def test_ctrl_c_waits_for_no_search_ahead():
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def solve(source):
        begun.set()
        go_on.wait(2)
        ended.append(source)
        return GRAPH, row_of(source)

    with pytest.raises(KeyboardInterrupt), solving_ahead("a", 1, [3, 4], solve):
        assert begun.wait(10)
        raise KeyboardInterrupt
    assert not ended
    go_on.set()


@pytest.fixture
def search_begun(monkeypatch):
    """Give an event that is set when a search for `verify` begins ahead; one thread solves."""
    begun = threading.Event()

    def true_row(*arguments):
        begun.set()
        return task.true_row(*arguments)

    monkeypatch.setattr(stage, "true_row", true_row)
    monkeypatch.setattr(stage, "usable_cores", lambda: 4)
    return begun


def test_spare_cores_solve_the_sources_of_the_sample(tmp_path, monkeypatch, search_begun):
    folder = committed(tmp_path, LONG)
    passed = Betweenness(True, True, False, False, False, False, "none")
    for output in (
        AllDistances(LONG),
        MetricsAlone(LONG),
        Reduced(LONG, weights="uint32", values=("reached",), betweenness=passed),
    ):
        of_run = verifying(folder, LONG, output=output)
        search_begun.clear()
        with of_run.ahead():
            assert search_begun.wait(10)
            found = row_ahead(of_run.name, GRAPH, 0)
        assert (found.distances.shape[1], found.metrics[0].source) == (output.kept.n_columns(132), 0)
        assert found.path_words is None
    search_begun.clear()
    for cores, room in ((3, 2**40), (8, 1000)):
        monkeypatch.setattr(stage, "usable_cores", lambda cores=cores: cores)
        monkeypatch.setattr(stage, "free_memory_bytes", lambda room=room: room)
        of_run = verifying(folder, LONG)
        with of_run.ahead():
            assert row_ahead(of_run.name, GRAPH, 0) is None
    assert not search_begun.is_set()


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_a_run_begins_to_verify_while_a_gpu_solves(tmp_path, monkeypatch, search_begun, device):
    found = []

    def asked(*arguments):
        assert device == "cpu" or search_begun.wait(10)
        found.append(row_ahead(*arguments))
        return found[-1]

    monkeypatch.setattr(solving, "SOLVERS", SimpleNamespace(device_of=lambda _: device))
    monkeypatch.setattr(task, "row_ahead", asked)
    workflow = {
        "graph": {"input": "generated:grid?rows=9&cols=9&seed=3", "store": f"{tmp_path}/graph"},
        "sources": {"all": True},
        "solve": {"solver": "dijkstra", "batch": 9},
        "output": {"path": f"{tmp_path}/run", "distances": "none"},
        "report": False,
    }
    record = run(Workflow.model_validate(workflow), Quiet())[1]
    assert (record["verify"]["refuted"], len(found)) == (None, 8)
    assert any(row is not None for row in found) == (device == "gpu")
