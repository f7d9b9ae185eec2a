"""The page on what the parts of `adds` earn says what was recorded, and its benchmark records what the page needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping
from sssp_pipeline.kernels.solver import TRACE

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
MOMENTS = np.array([(0.5, 3, 20, 2, 8.0), (7.25, 0, 0, 3, 16.0)], TRACE)


class Traced(DeltaStepping):
    """Stands in for the GPU solvers: exact, takes any delta, and tells the same trace of every search."""

    def solve(self, graph, sources, options):
        solution = super().solve(graph, sources, replace(options, trace_every_us=None))
        if options.trace_every_us is not None:
            solution.metrics[:] = [replace(m, trace=MOMENTS) for m in solution.metrics]
        return solution


def test_the_committed_page_is_what_the_recorded_lines_give(benchmark_module):
    adds_page = benchmark_module("adds_page")
    lines = adds_page.newest((BENCHMARKS / "results" / "adds_tables.jsonl").read_text().splitlines())
    assert adds_page.PAGE.read_text(encoding="utf-8") == adds_page.page(lines)
    figure = adds_page.FIGURE.read_text(encoding="utf-8")
    for title in adds_page.TRACED.values():
        assert f">{title}<" in figure


def test_what_is_measured_is_recorded_and_rendered(benchmark_module, monkeypatch, tmp_path):
    adds_page, adds_tables, graphs, record = map(
        benchmark_module, ("adds_page", "adds_tables", "graphs", "record")
    )
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(adds_tables, "VARIANTS", dict.fromkeys(adds_tables.VARIANTS, Traced()))
    grid = graphs.made_by(graphs.grid, tmp_path, rows=20, cols=20)
    for name in ("rmat-22", "ny", "road", "ny"):
        adds_tables.measure(name, grid, n_sources=2, rounds=2)
    texts = (tmp_path / "adds_tables.jsonl").read_text().splitlines()
    assert len(texts) == 4
    told = json.loads(texts[3])
    assert [told["trace"][name] for name in TRACE.names] == [MOMENTS[name].tolist() for name in TRACE.names]
    assert json.loads(texts[2])["trace"] is None

    for text in texts:
        assert json.loads(text)["reached"] == [400, 400]
        assert all(run["ms"] >= run["ms_least"] > 0 for run in json.loads(text)["runs"])
    on_gpu = [
        json.dumps(json.loads(text) | {"machine": {"gpu": "some GPU"}, "commit": "abc", "dirty": True})
        for text in texts
    ]
    lines = adds_page.newest(on_gpu)
    assert [line.graph for line in lines] == ["ny", "road", "rmat-22"]
    assert lines[0].told == json.loads(on_gpu[3])  # the newer of two
    page = adds_page.page(lines)
    picked = {run["variant"]: run for run in told["runs"] if run["start"] == "picked"}
    assert (
        f"| ny \\* | {told['picked_over_mean_weight_by_degree']:g} | {picked['static']['ms']:.3g} |" in page
    )
    assert "GPU and driver: some GPU. Commit: abc+." in page


def test_a_wrong_distance_ends_the_benchmark(benchmark_module, monkeypatch, tmp_path):
    class Wrong(Traced):
        def solve(self, graph, sources, options):
            solution = super().solve(graph, sources, options)
            solution.distances[0, -1] += 1
            return solution

    adds_tables, graphs, record = map(benchmark_module, ("adds_tables", "graphs", "record"))
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(
        adds_tables, "VARIANTS", adds_tables.VARIANTS | {"near-far": Traced(), "full": Wrong()}
    )
    with pytest.raises(SystemExit, match=r"^road: full and delta-stepping differ$"):
        adds_tables.measure("road", graphs.made_by(graphs.grid, tmp_path, rows=5, cols=5), 1, 1)
    assert not (tmp_path / "adds_tables.jsonl").exists()
