"""How the commands of a workflow load it."""

import re
import shlex
import sys
from pathlib import Path

from sssp_pipeline.commands import stages
from sssp_pipeline.commands.command_line import resume_command
from sssp_pipeline.commands.console import console
from sssp_pipeline.commands.session import process
from sssp_pipeline.workflow.yaml_file import load_workflow

WORKFLOW = """\
graph: {{input: "generated:grid?rows=3&cols=3", store: graph}}
sources: {{all: true}}
output: {{path: {path}}}
"""


def test_how_to_go_on_with_a_dated_run_names_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("w.yaml").write_text(WORKFLOW.format(path="'${OUT}/{name}-{time}'"))
    monkeypatch.setenv("OUT", "runs")
    monkeypatch.setattr(process, "dated_folder", None)
    monkeypatch.setattr(sys, "argv", ["sssp-pipeline", "run", "w.yaml", "--overwrite", "-q"])

    def loaded():
        with console("text") as told:
            return stages._load(["w.yaml"], [], [], None, [], None, told)

    def command_again():
        return resume_command("sssp-pipeline", sys.argv[1:], process.dated_folder)

    begun = loaded()
    *command, override = shlex.split(command_again())
    assert command == ["sssp-pipeline", "run", "w.yaml", "-q", "--set"]
    assert re.fullmatch(r"output\.path=\$\{OUT\}/w-\d{6}", override)
    assert load_workflow("w.yaml", [override]).output.path == begun.output.path
    process.dated_folder = None
    Path("w.yaml").write_text(WORKFLOW.format(path="run"))
    loaded()
    assert command_again() == "sssp-pipeline run w.yaml -q"
    words = [
        "run",
        "e.csv",
        "--from",
        "1",
        "--out={date}",
        "--overwrite",
        "--set",
        "output.path={date}",
        "-q",
    ]
    assert (
        resume_command("sssp-pipeline", words, "2026-01-02")
        == "sssp-pipeline run e.csv --from 1 -q --set output.path=2026-01-02"
    )
