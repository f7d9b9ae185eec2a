"""A workflow as the text of a file."""

from __future__ import annotations

from pathlib import Path

from sssp_pipeline.workflow.from_command_line import workflow_from_options
from sssp_pipeline.workflow.yaml_file import load_workflow
from sssp_pipeline.workflow.yaml_text import workflow_yaml


def test_a_written_workflow_reads_back_as_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PLACE", "a secret place")
    monkeypatch.setenv("COUNT", "7")
    names = [
        "0o17",
        "1e3",
        "null",
        "~",
        "yes",
        "a: b",
        "#x",
        "ü",
        "${PLACE}",
        '"q"',
        "\x7f",
        "-",
        "😀",
        "1_000",
    ]
    made = workflow_from_options(
        ["edges.txt", "b[0-9].txt"],
        [f"id:{name}" for name in names],
        output="r",
        overrides=[
            "name=${PLACE}", "solve.batch=${COUNT}", "solve.cutoff=1e-07", "solve.retries=0",
            "solve.solver=bellman-ford", "solve.options={block_size: 256}", "report=false",
        ],
    )  # fmt: skip
    Path("made.yaml").write_text(workflow_yaml(made), encoding="utf-8")
    assert "a secret place" not in Path("made.yaml").read_text(encoding="utf-8")
    read = load_workflow("made.yaml")
    assert read == made
    assert read.sources.ids == tuple(names)
    assert read.resolved() == made.resolved()
