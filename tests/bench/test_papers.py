"""The matrices of the papers can be run: their solvers, options and inputs are there."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sssp_pipeline.bench.cases import check_input
from sssp_pipeline.bench.lines import read
from sssp_pipeline.bench.report import write_report
from sssp_pipeline.bench.variants import load_bench, variants_of
from sssp_pipeline.generators import GENERATORS
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.pipeline.formats import generated
from sssp_pipeline.progress import Quiet

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
PAGES = Path(__file__).parents[2] / "docs" / "papers-on-an-h200"
FILES = ("papers.yaml", "hbf_table3.yaml")


def load(name, monkeypatch, data="."):
    monkeypatch.setenv("SSSP_TEST_DATA", str(data))
    return load_bench(str(BENCHMARKS / name))


def test_all_solvers_of_gpus_are_in_the_matrix_of_the_papers(monkeypatch):
    bench = load("papers.yaml", monkeypatch)
    assert {v.solver.name for v in variants_of(bench)} == {
        s.name for s in SOLVERS.values() if s.device == "gpu"
    }
    assert len(bench.graphs) >= 20


def test_each_optimisation_is_switched_alone_and_all_together(monkeypatch):
    changed = [set(v.changed) for v in variants_of(load("hbf_table3.yaml", monkeypatch))]
    optimisations = {"edge_classes", "remove_duplicates", "virtual_warps", "whole_blocks", "cache_hints"}
    assert {option for options in changed if len(options) == 1 for option in options} == optimisations
    assert optimisations - {"cache_hints"} in changed
    assert set() in changed


@pytest.mark.parametrize(
    ("page", "names", "baseline"),
    [
        ("matrix", ("papers", "papers_cpu"), None),
        ("hbf-table-3", ("hbf_table3", "hbf_table3_cpu"), "queue-bellman-ford"),
    ],
)
def test_the_pages_in_the_docs_are_what_the_lines_give(page, names, baseline, tmp_path):
    lines = [str(BENCHMARKS / "results" / f"{name}.jsonl") for name in names]
    made = write_report(lines, tmp_path, Quiet(), baseline=baseline)
    texts = [
        p.read_text(encoding="utf-8").partition("## Figures")[0] for p in (made, PAGES / page / made.name)
    ]
    assert texts[0] == texts[1]


def test_every_variant_of_the_matrix_was_measured_on_every_graph(monkeypatch):
    bench = load("papers.yaml", monkeypatch)
    measured = {(line.graph.name, line.label) for line in read(str(BENCHMARKS / "results" / "papers.jsonl"))}
    assert measured == {(graph.name, v.label) for graph in bench.graphs for v in variants_of(bench)}


@pytest.mark.parametrize("name", FILES)
def test_what_is_made_can_be_made(name, monkeypatch):
    for entry in load(name, monkeypatch).graphs:
        url = entry.graph.input
        if url.startswith(generated.SCHEME):
            generator, _, query = url.removeprefix(generated.SCHEME).partition("?")
            assert generated._parameters(url, GENERATORS[generator], query)


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_what_is_read_is_there(name, monkeypatch, tmp_path, data_file):
    folder = data_file("README.md").parent
    bench = load(name, monkeypatch, folder)
    for entry in bench.graphs:
        if not entry.graph.input.endswith("/cnr-2000.parquet"):  # which `paper_graphs.py` makes
            check_input(entry)


def test_an_adjacency_list_becomes_an_edge_list(benchmark_module, monkeypatch, tmp_path, capsys):
    (tmp_path / "cnr-2000.graph-txt.gz").write_bytes(gzip.compress(b"4\n1 3\n\n0 1 3\n\n"))
    arguments = ["--data", str(tmp_path), "--output", str(tmp_path / "made")]
    monkeypatch.setattr(sys, "argv", ["paper_graphs.py", *arguments])
    benchmark_module("paper_graphs").main()
    table = pq.read_table(tmp_path / "made" / "cnr-2000.parquet").to_pydict()
    assert table == {"source": [0, 0, 2, 2, 2], "target": [1, 3, 0, 1, 3]}
    assert capsys.readouterr().out.endswith("cnr-2000.parquet: 5 edges\n")
