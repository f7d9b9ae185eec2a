"""The programs of benchmarks/ import and print their help, and the published pages are what the stored lines give."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from sssp_pipeline.base.generators import random_edges
from sssp_pipeline.kernels import SOLVERS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PROGRAMS = [
    ".".join(path.relative_to(BENCHMARKS).with_suffix("").parts)
    for path in sorted(BENCHMARKS.rglob("*.py"))
    if "def main()" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_its_help(benchmark_module, monkeypatch, capsys, name):
    program = benchmark_module(name)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--help"])
    with patch.dict(SOLVERS), pytest.raises(SystemExit) as ended:  # a program may register a solver
        program.main()
    assert ended.value.code == 0
    assert "usage:" in capsys.readouterr().out.lower()


@pytest.mark.medium
def test_the_steps_of_an_ingest_are_timed(tmp_path):
    """In a process of its own: the program wraps functions of the package, by their names."""
    (tmp_path / "edges.txt").write_text("1 2 3\n2 5 4\n")
    command = [sys.executable, BENCHMARKS / "ingest_stages.py", "edges.txt", "--store", "store"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    lines = done.stdout.partition("step, over all threads")[2].splitlines()[1:]
    calls = {line[:24].strip(): int(line[24:].split()[0]) for line in lines}
    assert all(calls[step] for step in calls if step != "read: streams")


@pytest.mark.medium
def test_every_program_of_jobs_finds_the_same(benchmark_module, monkeypatch, tmp_path):
    jobs, record = benchmark_module("jobs"), benchmark_module("record")
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    names = "sssp-pipeline,sssp-pipeline-prepared,scipy,igraph,networkx"
    small = [
        "jobs.py",
        "--jobs",
        "made-10k,made-nearest-all,radii",
        "--share",
        "0.01",
        "--seconds",
        "0.01",
        "--with",
        names,
    ]
    monkeypatch.setattr(sys, "argv", small)
    jobs.main()
    lines = [json.loads(line) for line in (tmp_path / "jobs.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line.get("failed") for line in lines] == [None] * len(lines)
    assert Counter(line["graph"] for line in lines) == {"made": 4 * 2, "radii": 4}
    for line in lines:
        assert line["is_extrapolated"] == (line["solved"] < line["sources"])
        assert line["total_s"] >= line["read_s"] >= 0


def test_jobs_compares_answers(benchmark_module):
    with pytest.raises(SystemExit, match="scipy finds another max_distance"):
        benchmark_module("jobs").check_same(
            "scipy", {"max_distance": np.ones(2)}, {"max_distance": np.zeros(2)}
        )


@pytest.mark.parametrize("shape", [(7, 3), (3, 7)])
def test_programs_of_jobs_take_the_smaller_side(benchmark_module, tmp_path, shape):
    """The answers are the same as those from whole rows, and a part of the question has fewer of the smaller side."""
    jobs, programs = benchmark_module("jobs"), benchmark_module("programs")
    network = jobs.network_of(
        "small", jobs.simple(random_edges(vertices=50, edge_factor=2), 1.0), tmp_path / "edges"
    )
    sources, targets = (np.arange(n) for n in shape)
    for name in ("scipy", "igraph"):
        program = programs.PROGRAMS[name](network)
        question = programs.Question(sources, targets, distances=True, nearest=2)
        rows = program.answers(programs.Question(sources, distances=True))["distances"]
        found = program.answers(question)
        np.testing.assert_array_equal(found["distances"], rows[:, targets])
        np.testing.assert_array_equal(found["nearest"], np.sort(rows[:, targets])[:, :2])
        part = program.part(question, 2)
        assert (len(part.sources), len(part.targets)) == tuple(2 if n == 3 else n for n in shape)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--with", "scippy"], "unknown program `scippy`; programs: sssp-pipeline, sssp-pipeline-prepared"),
        (["--jobs", "citty"], "unknown job `citty`; jobs: ny-one, ny-1k"),
        (
            ["--jobs", "ny-one", "--with", "scipy"],
            "graph `ny` is read from a file: set --data or SSSP_TEST_DATA",
        ),
    ],
)
def test_jobs_names_what_it_does_not_know(benchmark_module, monkeypatch, capsys, arguments, message):
    monkeypatch.setattr(sys, "argv", ["jobs.py", *arguments])
    monkeypatch.delenv("SSSP_TEST_DATA", raising=False)
    with pytest.raises(SystemExit):
        benchmark_module("jobs").main()
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("name", ["adds", "auto", "many-sources", "other-tools", "scaling"])
def test_a_page_is_what_the_stored_lines_give(benchmark_module, name):
    pages = benchmark_module("pages")
    assert pages.PAGES[name].PAGE.read_text(encoding="utf-8") == pages.text(name)


@pytest.mark.medium
@pytest.mark.parametrize("name", ["matrix", "hbf-table-3"])
def test_a_report_of_the_papers_is_what_the_stored_lines_give(benchmark_module, tmp_path, name):
    report = benchmark_module("papers.report")
    written = report.write_page(name, tmp_path)
    texts = [
        path.read_text(encoding="utf-8").partition("## Figures")[0]
        for path in (written, report.PAGES / name / written.name)
    ]
    assert texts[0] == texts[1]
