"""A graph store and runs that release 0.1.0 wrote, in tests/data: they are read, verified and gone on with."""

import json
import os
import shutil
from pathlib import Path

import pytest

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.completed_run import verify_run
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.store import older_versions, read_manifest
from sssp_pipeline.pipeline.ingest.stage import ingest
from sssp_pipeline.pipeline.inspect import describe
from sssp_pipeline.pipeline.run import run
from sssp_pipeline.progress import Quiet
from sssp_pipeline.workflow.yaml_file import load_workflow


@pytest.fixture
def old(tmp_path, monkeypatch):
    """Give a copy of the folder in which release 0.1.0 ran, as the current folder."""
    shutil.copytree(Path(__file__).parent / "data" / "release-0.1.0", tmp_path / "old")
    monkeypatch.chdir(tmp_path / "old")
    os.utime("edges.txt", (1_700_000_000,) * 2)  # as it was ingested
    return tmp_path / "old"


class Stopped(Quiet):
    def advance(self, done: int, total: int | None, unit: str) -> None:
        if unit == "batches":
            raise KeyboardInterrupt


def test_a_store_is_read(old):
    manifest = read_manifest("graph")
    graph = load_graph("graph", manifest)
    assert (graph.n_vertices, graph.n_edges) == (40, 196)
    assert load_ids("graph", manifest).original(0) == 102
    assert describe("graph")["older_versions"] == 0


def test_a_store_takes_the_same_graph_and_refuses_another(old):
    spec = load_workflow("run.yaml").graph
    before = read_manifest("graph")
    manifest, fresh = ingest(spec, "graph", Quiet())
    assert fresh  # by a newer reader
    assert manifest.content_id != before.content_id  # by a checksum that no other graph has
    assert list(older_versions("graph", manifest)) == [before.content_id]
    assert ingest(spec, "graph", Quiet()) == (manifest, False)
    shutil.copytree(Path(__file__).parent / "data" / "release-0.1.0" / "graph", "again")
    with pytest.raises(InputError, match=r"`graph\.directed` is `false` there and `true` here"):
        ingest(spec.model_copy(update={"directed": True}), "again", Quiet())
    with pytest.raises(InputError, match=r"`graph\.input` is `edges\.txt` there and `other\.txt` here"):
        Path("other.txt").write_text("1 2\n")
        ingest(spec.model_copy(update={"input": "other.txt"}), "again", Quiet())
    Path("edges.txt").write_text("1 2 3\n")
    changed, _ = ingest(spec, "again", Quiet())
    assert list(older_versions("again", changed)) == [before.content_id]


@pytest.mark.parametrize("name", ["run", "wide"])
def test_a_finished_run_is_verified_and_left_as_it_is(old, name, digests):
    before = digests(name)
    for mode in ("sample", "certificate"):
        assert verify_run(name, None, mode, Quiet())["verify"]["refuted"] is None
    with pytest.raises(InputError, match="holds another run: it differs in graph"):
        run(load_workflow(f"{name}.yaml"), Quiet())
    assert verify_run(name, None, "certificate", Quiet())["verify"]["refuted"] is None
    assert digests(name) == before


@pytest.mark.parametrize("name", ["run", "wide"])
def test_a_finished_run_is_verified_after_its_input_changed(old, name, digests):
    begun = load_workflow("unfinished.yaml")
    run(begun, Quiet(), overwrite=True, finish=False)
    whole = digests("unfinished")
    with pytest.raises(KeyboardInterrupt):
        run(begun, Stopped(), overwrite=True, finish=False)
    lines = Path("edges.txt").read_text()
    Path("edges.txt").write_text(lines + "102 999999 1\n")
    ingest(load_workflow("run.yaml").graph, "graph", Quiet())
    assert verify_run(name, None, "certificate", Quiet())["verify"]["refuted"] is None
    # Solving without ingesting goes on with the graph with which the run began.
    run(begun, Quiet(), may_ingest=False, finish=False)
    assert digests("unfinished") == whole


@pytest.mark.parametrize(("name", "damage"), [("run", b""), ("wide", b"PAR1"), ("run", None)])
def test_a_damaged_finished_run_is_refused(old, name, damage):
    path = Path(name, "distances", "batch-00001.parquet")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if damage is None else damage)
    with pytest.raises(InputError, match=r"batch-00001\.parquet` is (empty|damaged)"):
        verify_run(name, None, "sample", Quiet())


@pytest.mark.parametrize("name", ["unfinished", "unfinished-wide"])
def test_an_unfinished_run_is_refused_as_its_other_files_would_be_written_in_another_way(old, name, digests):
    before = digests(name)
    for use in (lambda: run(load_workflow(f"{name}.yaml"), Quiet()), lambda: describe(name)):
        with pytest.raises(
            InputError, match="holds an unfinished run of another release, which writes other bytes"
        ):
            use()
    assert digests(name) == before
    _, record = run(load_workflow(f"{name}.yaml"), Quiet(), overwrite=True)
    assert record["verify"]["refuted"] is None
    assert not digests(name).items() & before.items()


def test_a_run_of_another_format_is_refused_with_what_to_do(old):
    file = Path("run", "run.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"version": 3}))
    with pytest.raises(InputError, match="this release reads 'sssp-pipeline run' 1 and 2") as caught:
        run(load_workflow("run.yaml"), Quiet())
    assert caught.value.hint == "use the release that wrote it, or choose another `output.path`"
