"""The report says what the lines say: every table from lines that are known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made_lines import LINES, ON, line
from typer.testing import CliRunner

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.bench import report
from sssp_pipeline.bench.figures import has_matplotlib
from sssp_pipeline.bench.layout import range_names, shares
from sssp_pipeline.bench.lines import append
from sssp_pipeline.bench.results import Results
from sssp_pipeline.bench.tables import all_tables
from sssp_pipeline.cli import app

FBF = "frontier-bellman-ford"
VARIANTS = (
    f"near-far,adds,dijkstra,{FBF},{FBF} edge_classes=false,{FBF} virtual_warps=8,{FBF} sorts=true,"
    f"{FBF} edge_classes=false virtual_warps=8"
)
CSV = {
    "graphs": """\
graph,vertices,edges,weights,mean degree,deviation,most,"diameter, at least"
road,"1,000","2,500","uint32, 1 to 100",2.5,1.5,99,700
web,"5,000","80,000","uint32, 1 to 100",16.0,1.5,99,9
""",
    "times": f"""\
graph,{VARIANTS}
road,10,4,40,20,50,25,16,60
web,1,2,,0.5,,,,
""",
    "mteps": f"""\
graph,{VARIANTS}
road,0.5,1.25,0.125,0.25,0.1,0.2,0.3125,0.08333
web,5,2.5,,10,,,,
""",
    "work": f"""\
graph,{VARIANTS}
road,1.500,3.000,1.000,3.000,3.000,3.000,3.000,3.000
web,2.000,1.000,,3.000,,,,
""",
    "speedups": f"""\
graph,{VARIANTS.removeprefix("near-far,")}
road,2.50,0.25,0.50,0.20,0.40,0.62,0.17
web,0.50,,2.00,,,,
geometric mean,1.12,0.25,1.00,0.20,0.40,0.62,0.17
mean,1.50,0.25,1.25,0.20,0.40,0.62,0.17
""",
    "effects": f"""\
graph,solver,option,"without, ms","with, ms",times as fast,"without, over near-far","with, over near-far"
road,{FBF},edge_classes,false: 50,true: 20,2.50,0.20,0.50
road,{FBF},virtual_warps,8: 25,auto: 20,1.25,0.40,0.50
road,{FBF},sorts,false: 20,true: 16,1.25,0.50,0.62
road,{FBF},edge_classes,false: 60,true: 25,2.40,0.17,0.40
road,{FBF},virtual_warps,8: 60,auto: 50,1.20,0.17,0.20
""",
    "not-measured": """\
graph,variant,what,why
web,adds,cut short,1 of 2 runs: its time was over
web,dijkstra,unsupported,it takes no hubs
""",
}
#: The first rows of longer tables.
BEGINNINGS = {
    "speedup-ranges": """\
,< 0.9,0.9 to 1.1,1.1 to 1.5,1.5 to 2,2 to 3,3 to 5,≥ 5,geometric mean,mean
adds,1 (50 %),0 (0 %),0 (0 %),0 (0 %),1 (50 %),0 (0 %),0 (0 %),1.12,1.50
dijkstra,1 (100 %),0 (0 %),0 (0 %),0 (0 %),0 (0 %),0 (0 %),0 (0 %),0.25,0.25
""",
    "subject-speedup-ranges": """\
,< 0.9,0.9 to 1.1,1.1 to 1.5,1.5 to 2,2 to 3,3 to 5,≥ 5,geometric mean,mean
over near-far,1 (50 %),0 (0 %),0 (0 %),0 (0 %),1 (50 %),0 (0 %),0 (0 %),1.12,1.50
over dijkstra,0 (0 %),0 (0 %),0 (0 %),0 (0 %),0 (0 %),0 (0 %),1 (100 %),10.00,10.00
""",
    "subject-work-ranges": """\
,< 0.25,0.25 to 0.5,0.5 to 0.75,0.75 to 1,1 to 1.5,1.5 to 3,≥ 3,geometric mean,mean
over near-far,0 (0 %),0 (0 %),1 (50 %),0 (0 %),0 (0 %),1 (50 %),0 (0 %),1.00,1.25
""",
    "results": """\
graph,n_vertices,n_edges,weight_dtype,mean_degree,diameter_hops,variant,processor,median_ms,mean_ms,runs,sources,\
mteps,work,edges_relaxed,supersteps,filter_share
road,1000,2500,uint32,2.5,700,near-far,"some GPU, 1.2",10.0,20.0,2,1,0.5,1.5,5000.0,,
""",
}


@pytest.fixture
def report_of(tmp_path, monkeypatch):
    """Make a report of lines; give the result of the command and the folder."""
    monkeypatch.chdir(tmp_path)

    def make(lines, *options):
        for one in lines:
            append(Path("lines.jsonl"), one)
        words = ["bench", "report", "lines.jsonl", "--output", "made", *options]
        return CliRunner().invoke(app, words), Path("made")

    return make


@pytest.mark.medium
def test_every_table_says_what_the_lines_say(report_of):
    result, folder = report_of(LINES)
    assert (result.exit_code, result.stdout) == (0, "made/report.md\n")
    found = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.csv")}
    assert found.keys() == CSV.keys() | BEGINNINGS.keys()
    assert {name: found[name] for name in CSV} == CSV
    assert {name: found[name][: len(text)] for name, text in BEGINNINGS.items()} == BEGINNINGS


@pytest.mark.medium
def test_the_page_shows_the_tables_and_where_they_are_from(report_of):
    _, folder = report_of(LINES)
    page = (folder / "report.md").read_text(encoding="utf-8")
    assert page.startswith("# made\n\n2 graphs, 8 variants. Every distance was compared, before anything\n")
    assert "Measured on: some CPU, 4 cores; some GPU, 1.2. Commit: abcdef0. Date: 2026-01-02.\n" in page
    assert "| graph | near-far | adds | dijkstra |" in page
    assert "| road | 10 | 4 | 40 | 20 | 50 | 25 | 16 | 60 |\n| web | 1 | 2 |  | 0.5 |  |  |  |  |\n" in page
    assert "n_vertices" not in page  # the table for programs


@pytest.mark.medium
def test_another_baseline_and_subject_can_be_named(report_of):
    _, folder = report_of(LINES, "--baseline", "dijkstra", "--subject", FBF)
    assert (folder / "speedups.csv").read_text().splitlines()[1].startswith("road,4.00,10.00,2.00")
    assert (folder / "subject-speedup-ranges.csv").read_text(encoding="utf-8").splitlines()[1] == (
        "over near-far,1 (50 %),0 (0 %),0 (0 %),0 (0 %),1 (50 %),0 (0 %),0 (0 %),1.00,1.25"
    )


def test_without_baseline_and_subject_there_are_fewer_tables():
    names = [table.name for table in all_tables(Results(LINES), None, None)]
    assert names == ["graphs", "times", "mteps", "work", "effects", "not-measured", "results"]


def test_nothing_measured_leaves_the_graphs_and_the_reasons():
    names = [t.name for t in all_tables(Results([line("road", "adds", reason="no GPU")]), "near-far", "adds")]
    assert names == ["graphs", "not-measured"]


def test_a_variant_that_nobody_measured_is_refused(report_of):
    result, _ = report_of(LINES, "--baseline", "near-fra")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[:3] == [
        "error: --baseline is `near-fra`, and no variant that was measured is called so",
        "",
        "hint: did you mean `near-far`? Variants: `near-far`, `adds`, `dijkstra`, `frontier-bellman-ford`, "
        "`frontier-bellman-ford edge_classes=false`, `frontier-bellman-ford virtual_warps=8`, "
        "`frontier-bellman-ford sorts=true`, `frontier-bellman-ford edge_classes=false virtual_warps=8`",
    ]


def test_lines_of_two_gpus_do_not_stand_in_one_table():
    other = ON.model_copy(update={"machine": ON.machine | {"gpu": "another GPU, 3"}})
    with pytest.raises(InputError) as caught:
        Results([*LINES, line("web", "near-far", 1, on=other), line("road", "adds-slots", 1, on=other)])
    assert caught.value.message == "the lines were measured on 2 GPUs: another GPU, 3; some GPU, 1.2"
    assert caught.value.hint == "make a report of each: name files that hold the lines of one"


def test_a_file_without_lines_is_refused(report_of):
    Path("lines.jsonl").write_text("")
    result, folder = report_of([])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: `lines.jsonl` holds no lines\n")
    assert not folder.exists()


def test_without_matplotlib_the_page_says_that_there_are_no_figures(report_of, monkeypatch):
    monkeypatch.setattr(report, "has_matplotlib", lambda: False)
    result, folder = report_of(LINES)
    assert result.exit_code == 0
    assert result.stderr == f"{report.NO_FIGURES}\n"
    assert f"## Figures\n\n{report.NO_FIGURES}\n" in (folder / "report.md").read_text(encoding="utf-8")
    assert not list(folder.glob("*.svg"))


@pytest.mark.medium
@pytest.mark.skipif(not has_matplotlib(), reason="the extra `figures` is not installed")
def test_figures_hold_every_graph(report_of):
    _, folder = report_of(LINES)
    figures = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}
    assert figures.keys() == {
        "speedups.svg",
        "speedup-and-degree.svg",
        "speedup-and-diameter.svg",
        "speedup-and-work.svg",
    }
    page = (folder / "report.md").read_text(encoding="utf-8")
    for name, text in figures.items():
        assert f"]({name})\n" in page
        assert {"road", "web"} <= set(re.findall(r"<text[^>]*>([^<]*)</text>", text))
        assert "times as fast as near-far" in text
    report_of([])
    assert figures == {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}


def test_shares_count_every_value_once_by_its_range():
    assert range_names((0.5, 2)) == ["< 0.5", "0.5 to 2", "≥ 2"]
    assert shares([0.1, 0.5, 1, 2], (0.5, 2)) == ["1 (25 %)", "2 (50 %)", "1 (25 %)"]
