"""The programs of benchmarks/: all can be imported, and a run in the wide layout is measured while it has batches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

PROGRAMS = sorted(path.stem for path in (Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_finds_all_that_it_imports(benchmark_module, name):
    assert benchmark_module(name).__doc__


@pytest.mark.medium
@pytest.mark.parametrize("layout", ["long", "wide"])
def test_the_batches_of_both_layouts_are_timed(benchmark_module, tmp_path, layout):
    pipeline = benchmark_module("pipeline")
    workflow, run = tmp_path / "pipeline.yaml", tmp_path / "run"
    workflow.write_text(
        json.dumps(
            {
                "graph": {"input": "generated:grid?rows=40&cols=40", "store": str(tmp_path / "graph")},
                "sources": {"random": {"count": 24}},
                "solve": {"batch": 4},
                "output": {"path": str(run), "layout": layout},
                "verify": "off",
                "report": False,
            }
        )
    )
    outcome = pipeline.run_command(workflow, run, solve__solver="dijkstra")
    assert sum(commit.n_batches for commit in outcome.commits) == outcome.printed["batches"] == 6
    assert sorted(outcome.commits, key=lambda commit: commit.at_s) == outcome.commits
    assert all(commit.n_bytes > 4 * 1600 for commit in outcome.commits)
    assert (outcome.merge_s is not None) == (layout == "wide")
    if outcome.merge_s is not None:
        assert 0 < outcome.merge_s < outcome.command_s
    solver, measured = pipeline.by_solver(workflow, run, "dijkstra")
    assert solver == "dijkstra"
    assert measured["sources_per_s"] > 0
    assert measured["written_mb_per_s"] > 0
