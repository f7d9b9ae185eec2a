"""The programs of benchmarks/ import and print their help, and the published pages are what the stored lines give."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from sssp_pipeline.kernels import SOLVERS

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
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


@pytest.mark.parametrize("name", ["adds", "auto", "many-sources", "scaling"])
def test_a_page_is_what_the_stored_lines_give(benchmark_module, name):
    pages = benchmark_module("pages")
    assert pages.PAGES[name].PAGE.read_text(encoding="utf-8") == pages.text(name)


@pytest.mark.parametrize("name", ["matrix", "hbf-table-3"])
def test_a_report_of_the_papers_is_what_the_stored_lines_give(benchmark_module, tmp_path, name):
    report = benchmark_module("papers.report")
    written = report.write_page(name, tmp_path)
    texts = [
        path.read_text(encoding="utf-8").partition("## Figures")[0]
        for path in (written, report.PAGES / name / written.name)
    ]
    assert texts[0] == texts[1]
