"""Runs whose sources and targets are named one by one: their order, and those that the graph does not have."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.completed_run import verify_run
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.workflow.yaml_file import workflow_from_dict

GIVEN = [9, 3, 7, 0, 5]


def made(folder: Path, **changes):
    (folder / "edges.txt").write_text(
        "".join(f"{i} {(i * 7 + 3) % 10} {i + 1}\n{i} {(i + 1) % 10} 4\n" for i in range(10))
    )
    data = {
        "graph": {"input": str(folder / "edges.txt")},
        "sources": {"ids": GIVEN, "order": "given"},
        "solve": {"batch": 2},
        "output": {"path": str(folder / "run")},
    }
    return workflow_from_dict(data | changes)


@pytest.mark.parametrize("layout", ["long", "wide"])
def test_the_results_keep_the_order_of_the_sources(tmp_path, layout):
    output = {"path": str(tmp_path / "run"), "layout": layout}
    run(made(tmp_path, output=output), Quiet())
    batches = [pq.read_table(p) for p in sorted(tmp_path.glob("run/distances/*"))]
    if layout == "wide":
        found = [int(name) for batch in batches for name in batch.column_names[1:]]
    else:
        found = [source for batch in batches for source in dict.fromkeys(batch["source"].to_pylist())]
    assert found == GIVEN
    assert pq.read_table(tmp_path / "run/metrics.parquet")["source"].to_pylist() == GIVEN
    assert verify_run(str(tmp_path / "run"), None, "certificate", Quiet())["verify"]["refuted"] is None


def test_in_either_order_the_distances_are_the_same(tmp_path):
    for order in ("given", "ascending"):
        (tmp_path / order).mkdir()
        run(made(tmp_path / order, sources={"ids": GIVEN, "order": order}), Quiet())
    rows = [
        sorted(
            tuple(row.values())
            for p in tmp_path.glob(f"{order}/run/distances/*")
            for row in pq.read_table(p).to_pylist()
        )
        for order in ("given", "ascending")
    ]
    assert rows[0] == rows[1]


@pytest.mark.medium
def test_a_stopped_run_goes_on_in_the_order_given(tmp_path, monkeypatch, digests):
    (tmp_path / "whole").mkdir()
    run(made(tmp_path / "whole"), Quiet())
    (tmp_path / "stopped").mkdir()
    commit = RunFolder.commit_batch
    done = []

    def failing(self, batch, *args, **kwargs):
        if batch == 1:
            raise RuntimeError("stopped")
        done.append(batch)
        return commit(self, batch, *args, **kwargs)

    with monkeypatch.context() as patch, pytest.raises(SsspError, match="stopped"):
        patch.setattr(RunFolder, "commit_batch", failing)
        run(made(tmp_path / "stopped"), Quiet())
    assert 1 not in done
    run(made(tmp_path / "stopped"), Quiet())
    assert digests(tmp_path / "stopped" / "run") == digests(tmp_path / "whole" / "run")
    with pytest.raises(InputError, match="it differs in sources"):
        run(made(tmp_path / "whole", sources={"ids": GIVEN}), Quiet())


def test_what_is_skipped_is_told_and_recorded(tmp_path, listener):
    (tmp_path / "targets.csv").write_text("name,target\nx,4\ny,12\nz,1\n")
    workflow = made(
        tmp_path,
        sources={"ids": [11, 3, 20, 3], "unknown": "skip", "repeated": "drop"},
        output={
            "path": str(tmp_path / "run"),
            "targets": {"file": str(tmp_path / "targets.csv"), "unknown": "skip"},
        },
    )
    said = listener()
    run(workflow, said)
    assert "skipped 2 sources that are not in the graph: `11`, `20`" in said.lines
    assert "skipped 1 target that is not in the graph: `12`" in said.lines
    assert "dropped 1 source that had been named before" in said.lines
    assert [event.get("level") for event in said.events].count("warning") == 3
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["skipped"] == {
        "sources": 2,
        "targets": 1,
        "vertices": 0,
        "pairs": 0,
        "trips": 0,
        "first": {"sources": ["11", "20"], "targets": ["12"]},
        "repeated": {"sources": 1},
    }
    assert (record["sources"], record["targets"]) == (1, 2)
    report = (tmp_path / "run/report.html").read_text()
    assert "Skipped 2 sources not in the graph: 11, 20." in report
    assert "Dropped 1 source that had been named before." in report
    assert "Skipped 1 target not in the graph: 12." in report
    assert pq.read_table(tmp_path / "run/distances")["vertex"].to_pylist() == [4, 1]
