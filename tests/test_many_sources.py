"""The benchmark of many sources records what its page needs, checks distances, and leaves out what takes too long."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sssp_pipeline.errors import SsspError
from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping

pytestmark = pytest.mark.medium

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


class Wrong(DeltaStepping):
    """Errs in the last source of a call."""

    def solve(self, graph, sources, options):
        solution = super().solve(graph, sources, options)
        solution.distances[-1, 0] += 1
        return solution


class Full(DeltaStepping):
    def solve(self, graph, sources, options):
        raise SsspError("no memory left")


@pytest.fixture
def many(benchmark_module, monkeypatch, tmp_path):
    """Give the benchmark, with CPU solvers in the place of those for a GPU and results in a folder of their own."""
    module = benchmark_module("many_sources")
    monkeypatch.setattr(benchmark_module("record"), "RESULTS", tmp_path)
    monkeypatch.setattr(module, "GPU_SOLVERS", dict.fromkeys(module.GPU_SOLVERS, DeltaStepping()))
    return module


@pytest.fixture
def grid(benchmark_module):
    """Return a connected graph of 400 vertices."""
    graphs = benchmark_module("graphs")
    return graphs.made_by(graphs.grid, Path(), rows=20, cols=20)


@pytest.fixture
def recorded(tmp_path):
    """Give a function that returns the lines recorded so far, as if a GPU had given them."""
    gpu = {"machine": {"gpu": "some GPU", "cores": 16}, "commit": "abcdef0123", "dirty": True}

    def read():
        texts = (tmp_path / "many_sources.jsonl").read_text().splitlines()
        return [json.dumps(json.loads(text) | gpu) for text in texts]

    return read


def measured(many, cases, numbers, **limits):
    return many.measure_all(
        cases, numbers, many.Limits(**{"rounds": 2, "most_s": 60, "ends": float("inf")} | limits)
    )


def test_each_graph_solver_and_number_gives_a_line_the_most_sources_with_the_best_forecast_first(
    many, grid, recorded
):
    cases = [many.prepared(name, grid, [1, 16, 128]) for name in ("rmat-20", "ny")]
    assert measured(many, cases, [1, 16, 128]) == ([], [])
    lines = [json.loads(text) for text in recorded()]
    # All solvers from 1 and 16 sources; beyond 64 those that take many at once.
    assert len(lines) == 2 * (4 + 4 + 2)
    assert {line["solver"] for line in lines if line["n_sources"] == 128} == {"adds-slots", "adds-lanes"}
    best_first = [
        (n, name, min(lines[0]["forecast_ms"] if n == 128 else many.GPU_SOLVERS, key=of(lines, name, n)))
        for n in (128, 16, 1)
        for name in ("rmat-20", "ny")
    ]
    assert [(line["n_sources"], line["graph"], line["solver"]) for line in lines[:6]] == best_first
    assert [line["n_sources"] for line in lines[6:]] == [128] * 2 + [16] * 6 + [1] * 6
    for line in lines:
        assert (line["reached_least"], line["reached_mean"], line["rounds"]) == (400, 400, 2)
        assert line["compared"] == min(4, line["n_sources"])
        assert line["ms_with_copy_back"] >= line["ms"] >= line["ms_least"] > 0


def of(lines, graph, n_sources):
    (expected,) = {
        json.dumps(line["forecast_ms"])
        for line in lines
        if (line["graph"], line["n_sources"]) == (graph, n_sources)
    }
    return json.loads(expected).__getitem__


def test_the_sources_differ_and_reach_far_and_the_compared_rows_are_those_of_delta_stepping(
    many, benchmark_module
):
    # A path one way: only the first two thirds reach a third of it.
    n_vertices = 300
    src = np.arange(n_vertices - 1)
    path = benchmark_module("graphs").csr_of(src, src + 1, np.full(len(src), 2), n_vertices)
    case = many.prepared("ny", path, [1, 64])
    assert len(set(case.sources.tolist())) == 64
    assert case.sources.max() <= n_vertices * 2 // 3
    assert sorted(case.rows) == [0, 21, 42, 63]
    for place, row in case.rows.items():
        source = int(case.sources[place])
        np.testing.assert_array_equal(row[source:], 2 * np.arange(n_vertices - source))


def test_a_graph_with_fewer_such_sources_gives_shorter_calls(many, benchmark_module, recorded):
    src = np.arange(9)
    path = benchmark_module("graphs").csr_of(src, src + 1, np.ones(9, int), 10)
    case = many.prepared("ny", path, [1, 4, 16])
    assert 4 <= len(case.sources) < 16
    assert measured(many, [case], [1, 4, 16]) == ([], [])
    assert {json.loads(text)["n_sources"] for text in recorded()} == {1, 4}


def test_a_graph_without_such_sources_is_named_and_the_others_are_measured(
    many, grid, benchmark_module, monkeypatch, capsys, recorded
):
    no_edges = benchmark_module("graphs").csr_of(*np.empty((3, 0), int), 10)
    monkeypatch.setattr(many, "load", lambda name, data, cache: grid if name == "ny" else no_edges)
    arguments = ["measure", "--graphs=rmat-20,ny", "--data=.", "--numbers=1,4", "--rounds=1"]
    monkeypatch.setattr(sys, "argv", ["many_sources.py", *arguments])
    with pytest.raises(SystemExit, match=r"^rmat-20: of 0 vertices none has a large reach$"):
        many.main()
    assert {json.loads(text)["graph"] for text in recorded()} == {"ny"}
    assert "s in all" in capsys.readouterr().err


def test_a_wrong_distance_or_a_failure_costs_that_line_alone_and_is_told(many, grid, monkeypatch, recorded):
    case = many.prepared("ny", grid, [64])
    faulty = many.GPU_SOLVERS | {"adds": Wrong(), "adds-lanes": Full()}
    monkeypatch.setattr(many, "GPU_SOLVERS", faulty)
    left_out, faults = measured(many, [case], [64])
    assert left_out == []
    assert sorted(faults) == [
        "ny, adds, 64: distances from " + f"{case.sources[-1]} differ from delta-stepping's",
        "ny, adds-lanes, 64: no memory left",
    ]
    assert {json.loads(text)["solver"] for text in recorded()} == {"near-far", "adds-slots"}


def test_what_takes_too_long_or_comes_too_late_is_left_out(many, grid, tmp_path):
    case = many.prepared("ny", grid, [1])
    solvers = sorted(many.GPU_SOLVERS)
    too_slow, faults = measured(many, [case], [1], most_s=0)
    assert (sorted(too_slow), faults) == ([f"ny, {solver}, 1: too slow" for solver in sorted(solvers)], [])
    too_late, faults = measured(many, [case], [1], ends=0)
    assert (sorted(too_late), faults) == ([f"ny, {solver}, 1: no time" for solver in sorted(solvers)], [])
    assert not (tmp_path / "many_sources.jsonl").exists()


def test_a_slow_call_is_timed_once(many, grid, recorded):
    case = many.prepared("ny", grid, [1])
    many.measure(case, "adds", 1, many.Limits(rounds=3, most_s=0, ends=float("inf")))
    many.measure(case, "adds", 1, many.Limits(rounds=3, most_s=60, ends=float("inf")))
    told = [(line["rounds"], line["is_warm"]) for line in map(json.loads, recorded())]
    assert told == [(1, False), (3, True)]


def test_the_page_says_what_was_recorded(many, grid, benchmark_module, recorded, tmp_path):
    page_module = benchmark_module("many_sources_page")
    cases = [many.prepared(name, grid, [16]) for name in ("rmat-20", "ny")]
    measured(many, cases, [16])
    texts = [json.loads(text) for text in recorded()]

    def changed(graph, ms):
        """Return the lines of `graph` with these times, and the forecasts in the order of the solvers' names."""
        expected = {solver: place for place, solver in enumerate(sorted(ms), 1)}
        return [
            json.dumps(line | {"ms": ms[line["solver"]], "ms_with_copy_back": 2.0, "forecast_ms": expected})
            for line in texts
            if line["graph"] == graph
        ]

    ny = changed("ny", {"near-far": 3.0, "adds": 0.03, "adds-slots": 0.02, "adds-lanes": 5.0})
    rmat = changed("rmat-20", {"near-far": 3.0, "adds": 0.3, "adds-slots": 2.0, "adds-lanes": 9.0})
    graphs = page_module.newest([*recorded(), *rmat, *ny])
    assert [graph.name for graph in graphs] == ["ny", "rmat-20"]
    run = json.loads(ny[0]) | {
        "input": "NY.gr.gz",
        "layout": "long",
        "asked_for": "auto",
        "solver": "adds-slots",
        "sources": 1024,
        "targets": None,
        "solve_ms": 0.5,
        "sources_per_s": 1234.4,
        "gpu_busy": 0.251,
        "cores_writing": 12.34,
        "written_mb_per_s": 1300.0,
        "command_s": 2.04,
    }
    others = [run | {"targets": targets, "input": "other"} for targets in (1000, 0)]
    runs = page_module.newest_runs(map(json.dumps, [run | {"command_s": 9.0}, run, *others]))
    page = page_module.page(graphs, runs)
    for row in (
        "| ny | 0.02 `adds-slots` |",
        "| ny | `near-far` | 3 |",
        "| ny | 50 % `adds` |",
        "| rmat-20 | 0 % |",
        "| ny | 16 | `adds-slots` | 0.02 | 0.022 | yes | 1.05 |",
        "| rmat-20 | 16 | `adds` | 0.3 | 0.15 | 2.00 times | 1.05 |",
        "| NY.gr.gz | `adds-slots` (`auto`) | 1,024 | all, long | 1,234 | 25 % | 0.51 | 12.3 on 16 | 1,300 | 2.0 |",
        "| other | `adds-slots` (`auto`) | 1,024 | 1,000 | 1,234 |",
        "| other | `adds-slots` (`auto`) | 1,024 | none: metrics | 1,234 |",
        "- At most 10 % slower: 1 of 2.",
        "`near-far` 1.3 (1.3 to 1.3)",
        "GPU and driver: some GPU. Commit: abcdef0+.",
    ):
        assert row in page
    assert page.count("NY.gr.gz") == 1


def test_a_solver_that_alone_was_measured_is_compared_with_none(many, grid, benchmark_module, recorded):
    page_module = benchmark_module("many_sources_page")
    measured(many, [many.prepared("ny", grid, [16])], [16])
    expected = json.loads(recorded()[0])["forecast_ms"]
    by_solver = {json.loads(text)["solver"]: text for text in recorded()}
    best, *_, worst = sorted(expected, key=expected.__getitem__)
    for solver, said in ((best, "alone"), (worst, f"`{best}` not measured")):
        page = page_module.page(page_module.newest([by_solver[solver]]), [])
        assert f"| ny | {said} |" in page
        assert "At most 10 % slower: 0 of 0." in page


def test_the_figure_has_a_panel_for_each_graph(many, grid, benchmark_module, recorded, tmp_path):
    pytest.importorskip("matplotlib", reason="the extra `figures` is not installed")
    page_module = benchmark_module("many_sources_page")
    measured(many, [many.prepared(name, grid, [1, 4]) for name in ("ny", "cnr")], [1, 4])
    page_module.draw(page_module.newest(recorded()), tmp_path / "figure.svg")
    figure = (tmp_path / "figure.svg").read_text(encoding="utf-8")
    for text in ("ny", "cnr", *many.GPU_SOLVERS):
        assert f">{text}<" in figure


def test_the_committed_page_is_what_the_recorded_lines_give(benchmark_module):
    page_module = benchmark_module("many_sources_page")
    results = BENCHMARKS / "results"
    graphs = page_module.newest((results / "many_sources.jsonl").read_text().splitlines())
    runs = results / "pipeline_solvers.jsonl"
    runs = page_module.newest_runs(runs.read_text().splitlines() if runs.exists() else [])
    assert page_module.PAGE.read_text(encoding="utf-8") == page_module.page(graphs, runs)
    figure = page_module.FIGURE.read_text(encoding="utf-8")
    for graph in graphs:
        assert f">{graph.name}<" in figure


@pytest.mark.parametrize("targets", [None, 5, 0])
def test_a_run_by_solver_gives_a_line_for_each(tmp_path, targets):
    program = tmp_path / "benchmarks"
    program.mkdir()
    for name in ("pipeline.py", "record.py"):
        (program / name).write_text((BENCHMARKS / name).read_text())
    command = [sys.executable, str(program / "pipeline.py"), "--input=generated:road?vertices=20000&seed=7"]
    options = ["--sources=64", "--rounds=1", f"--folder={tmp_path / 'work'}", "--solvers=auto,dijkstra"]
    options += [] if targets is None else [f"--targets={targets}"]
    subprocess.run([*command, *options], check=True, capture_output=True, timeout=120)
    lines = (program / "results" / "pipeline_solvers.jsonl").read_text().splitlines()
    auto, dijkstra = map(json.loads, lines)
    assert (auto["asked_for"], dijkstra["asked_for"], dijkstra["solver"]) == ("auto", "dijkstra", "dijkstra")
    for line in (auto, dijkstra):
        assert (line["sources"], line["gpu_busy"] is None) == (
            64,
            line["solver"] in ("delta-stepping", "dijkstra"),
        )
        assert line["targets"] == targets
        assert line["sources_per_s"] > 0
        assert line["cores_writing"] > 0
