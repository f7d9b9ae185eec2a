"""The papers' bench files can be run, and their report has the papers' own numbers beside ours."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from made_lines import LINES

from sssp_pipeline.base.generators import GENERATORS
from sssp_pipeline.bench.cases import check_input
from sssp_pipeline.bench.results import Results
from sssp_pipeline.bench.tables import SPEEDUP_ENDS, WORK_ENDS, all_tables
from sssp_pipeline.bench.variants import load_bench, variants_of
from sssp_pipeline.pipeline.formats import generated

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"
FILES = ("matrix.yaml", "hbf_table3.yaml")


@pytest.fixture
def claims(benchmark_module):
    return benchmark_module("papers.claims")


@pytest.fixture
def report(benchmark_module):
    return benchmark_module("papers.report")


def load(name, monkeypatch, data="."):
    monkeypatch.setenv("SSSP_TEST_DATA", str(data))
    return load_bench(str(PAPERS / name))


@pytest.mark.parametrize("name", FILES)
def test_every_generated_graph_can_be_generated(name, monkeypatch):
    bench = load(name, monkeypatch)
    assert variants_of(bench)
    for entry in bench.graphs:
        url = entry.graph.input
        if url.startswith(generated.SCHEME):
            generator, _, query = url.removeprefix(generated.SCHEME).partition("?")
            assert generated._parameters(url, GENERATORS[generator], query)


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_every_file_is_there(name, monkeypatch, tmp_path, data_file):
    folder = data_file("README.md").parent
    for entry in load(name, monkeypatch, folder).graphs:
        if not entry.graph.input.endswith("/cnr-2000.parquet"):  # `cnr_2000.py` writes it
            check_input(entry)


def test_an_adjacency_list_becomes_an_edge_list(benchmark_module, monkeypatch, tmp_path, capsys):
    (tmp_path / "cnr-2000.graph-txt.gz").write_bytes(gzip.compress(b"4\n1 3\n\n0 1 3\n\n"))
    arguments = ["--data", str(tmp_path), "--output", str(tmp_path / "made")]
    monkeypatch.setattr(sys, "argv", ["cnr_2000.py", *arguments])
    benchmark_module("papers.cnr_2000").main()
    table = pq.read_table(tmp_path / "made" / "cnr-2000.parquet").to_pydict()
    assert table == {"source": [0, 0, 2, 2, 2], "target": [1, 3, 0, 1, 3]}
    assert capsys.readouterr().out.endswith("cnr-2000.parquet: 5 edges\n")


def test_the_rows_of_the_papers_follow_ours(report):
    results = Results(LINES)
    plain = all_tables(results, "near-far", "adds")
    tables = {table.name: table.rows for table in report.with_claims(results, plain, "adds")}
    names = [table.name for table in plain]
    assert list(tables) == [*names[:-2], "claims", "hbf-table-2", *names[-2:]]
    added = {name: [row for row in tables[name] if row not in rows] for name, rows in by_name(plain).items()}
    assert {name: len(rows) for name, rows in added.items() if rows} == {
        "speedup-ranges": 4,
        "subject-speedup-ranges": 4,
        "subject-work-ranges": 4,
        "effects": 4,
    }
    first = [row[0] for row in tables["subject-speedup-ranges"]]
    assert first[:3] == ["over near-far", "paper: ADDS over NF", "paper: ADDS over Gun-NF"]
    assert tables["subject-speedup-ranges"][1][1] == "8 (4 %)"
    assert tables["effects"][-4][3:6] == ["4,100", "1,400", "2.93"]
    assert tables["claims"][0][:2] == ["ADDS over NF", "2.9"]
    assert tables["claims"][0][3:] == ["adds over near-far", "1.12", "1.5", "2"]
    assert tables["hbf-table-2"][0][:3] == ["asia.osm", "32,000 ms, 0.8", "5,200 ms, 4.9"]


def by_name(tables):
    return {table.name: table.rows for table in tables}


def test_the_rows_of_adds_stand_only_beside_adds(report):
    results = Results(LINES)
    tables = all_tables(results, None, "near-far")
    found = by_name(report.with_claims(results, tables, "near-far"))
    assert found["subject-speedup-ranges"] == by_name(tables)["subject-speedup-ranges"]


def test_the_papers_counts_are_of_all_their_graphs(claims):
    of_226 = [counts for _, counts in (*claims.ADDS_TABLE_3.values(), *claims.ADDS_TABLE_4.values())]
    assert {sum(counts) for counts in of_226} == {226}
    assert [sum(counts) for counts, _ in claims.ADDS_TABLE_5.values()] == [226, 222, 222, 222]
    assert {len(counts) for _, counts in claims.ADDS_TABLE_3.values()} == {len(SPEEDUP_ENDS) + 1}
    assert {len(counts) for _, counts in claims.ADDS_TABLE_4.values()} == {len(WORK_ENDS) + 1}
    assert {len(told) for told in claims.HBF_TABLE_2.values()} == {len(claims.HBF_SYSTEMS)}
    # H-BF's own table 2 has edges over time: what it reports of the same graph is the same number of edges.
    for told in claims.HBF_TABLE_2.values():
        edges = [ms * mteps for ms, mteps in told]
        assert max(edges) < 1.6 * min(edges)
    assert [round(claim.times, 1) for claim in claims.CLAIMS if claim.faster == "H-BF"] == [
        30.2,
        9.9,
        16.8,
        3.3,
    ]
