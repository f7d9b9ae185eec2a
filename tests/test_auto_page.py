"""The page on what `auto` takes says what was recorded, and its benchmark finds the graphs that it names."""

import json
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "benchmarks" / "results" / "auto.jsonl"


def test_the_committed_page_is_what_the_recorded_lines_give(benchmark_module):
    auto = benchmark_module("auto")
    lines = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    assert auto.PAGE.read_text(encoding="utf-8") == auto.page(lines)


def test_every_graph_has_a_name_of_its_own(benchmark_module, monkeypatch):
    monkeypatch.setenv("SSSP_TEST_DATA", "data")
    auto = benchmark_module("auto")
    names = [entry.name for entry in auto.entries()]
    assert len(set(names)) == len(names) == 29 + len(auto.OTHERS)


def test_a_line_tells_what_auto_took_beside_the_best(benchmark_module, monkeypatch):
    auto = benchmark_module("auto")
    monkeypatch.setattr(auto, "ON_GPU", ("dijkstra", "delta-stepping"))
    from sssp_pipeline.csr import csr_from_edges
    from sssp_pipeline.generators import grid

    made = grid(20, 20)
    graph = csr_from_edges(made.src, made.dst, made.weights, made.n_vertices)
    short, long = auto.cells(graph, [8], [0.02])
    assert (short["n_sources"], short["run_s"], long["run_s"]) == (8, None, 0.02)
    assert sum(short["auto_solved"].values()) == 8
    assert short["best_s"] == min(short["solver_s"].values())
    assert long["auto_chose"] in auto.ON_GPU
