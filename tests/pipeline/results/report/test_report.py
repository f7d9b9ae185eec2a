from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from report_data import HOSTILE, NO_SAMPLE, a_sample, many_metrics, metrics, page_of, run_record

from sssp_pipeline.pipeline.results.report.figures import closeness_of

#: Elements without an end tag.
VOID = ("meta", "link", "img")


class Page(HTMLParser):
    """Collects what the page says, and checks that every element is closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open, self.elements, self.text, self.tables, self.said = [], [], [], {}, []
        self.feed(html)
        assert self.open == []

    @property
    def tags(self):
        return [tag for tag, _ in self.elements]

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.rows, self.caption = [], ""
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "table":
            self.tables[self.caption] = self.rows

    def handle_data(self, data):
        self.text.append(data)
        self.said.append((data, self.open[-1] if self.open else None))
        if self.open[-1:] == ["caption"]:
            self.caption += data
        elif self.open[-1:] in (["td"], ["th"]):
            self.rows[-1][-1] += data


def rendered(run=None, table=None, sample=NO_SAMPLE) -> Page:
    return Page(page_of(run or run_record(), metrics() if table is None else table, sample))


def test_says_what_was_run_and_how_fast():
    text = " ".join(rendered().text)
    for said in (
        "2026-03-04 05:06:07 UTC",
        "262,144",
        "uint32, 1 to 36,946, mean 1,293.3",
        "delta-stepping (weights are not negative)",
        "largest distance (metres) (max_distance)",
        "median 0.5, largest 0.75",
        "12.25 s, 89%",
        "Every checked distance is exact: 3 sources solved again with the oracle in 0.50 s.",
        "s3://bucket/road.gr",
        "a processor",
        "SELECT source, avg(distance) FROM 's3://bucket/run/distances/*.parquet'",
    ):
        assert said in text


def test_work_efficiency_and_rates_come_from_the_metrics():
    solving = dict(rendered().tables["Solving"])
    assert solving["vertices processed per vertex reached"] == "1.500"
    assert solving["distances per second of solving"] == "200"
    assert solving["edges relaxed per second of solving"] == "2,000"


def test_what_ran_on_what():
    table = metrics(5, worker=pa.array(["a:1", "b:1", "a:1", "b:1", "b:1"]))
    assert rendered(table=table).tables["Workers"] == [
        ["worker", "device", "solver", "batches", "sources", "solve_s"],
        ["b:1", "a GPU", "adds", "3", "3", "2.75"],
        ["a:1", "a GPU", "adds", "2", "2", "1"],
    ]


def test_further_workers_are_one_row():
    table = metrics(50, worker=pa.array([f"host:{i}" for i in range(50)]))
    rows = rendered(table=table).tables["Workers"][1:]
    assert len(rows) == 21
    assert rows[-1] == ["30 more", "", "", "30", "30", "116.25"]


def test_throughput_is_that_of_the_times_of_the_batches():
    # 12 batches of 2 sources, a quarter of a second apart.
    quick = metrics(24, solve_s=pa.array([0.125] * 24))
    rows = rendered(table=quick).tables["Throughput over time"][1:]
    assert sum(int(row[2]) for row in rows) == 24
    assert [row[3] for row in rows] == ["8"] * 4
    assert (rows[0][0], rows[-1][1]) == ("0", "3")


def test_a_run_backward_has_charts_of_targets():
    of_targets = many_metrics(100).rename_columns({"source": "target"})
    page = page_of(run_record(direction="backward"), of_targets, NO_SAMPLE)
    charts = "".join(re.findall(r"<figure.*?</figure>", page, re.DOTALL))
    for text in ("Time of a target", "over time, target 0", "targets a second", "% of 100 targets are from"):
        assert text in charts
    assert "source" not in charts
    for text in ("Targets compared", "a row for each target", "solve_s per target"):
        assert text in page
    assert "Time of a source" in page_of(run_record(), many_metrics(100), NO_SAMPLE)


def test_a_run_without_times_of_batches_has_no_throughput():
    page = rendered(table=metrics(24, solved_at=pa.nulls(24, pa.timestamp("ms"))))
    assert "Throughput over time" not in page.tables
    assert "Time of the stages" in page.tables


def test_every_chart_has_its_values_as_a_table():
    html = page_of(run_record(), many_metrics(1000), a_sample())
    page, headings = Page(html), re.findall("<h3>(.*?)</h3>", html)
    assert len(headings) == page.tags.count("svg") == 2 + 1 + 2 + 6 + 6
    assert all(len(page.tables[heading]) > 1 for heading in headings)


def test_unreached_pairs():
    assert "786,132 (99.96%)" in rendered().text
    limited = run_record(workflow={"graph": {"input": "a"}, "solve": {"cutoff": 7.5}})
    assert "pairs unreached or beyond 7.5" in rendered(limited).text


def test_the_most_and_least_central_sources():
    means = pa.array([float(1 + (i * 7) % 29) for i in range(29)] + [0.0])
    table = metrics(30, reached=pa.array([100] * 29 + [1]), mean_distance=means)
    tables = rendered(table=table).tables
    most = tables["The most central sources"]
    least = tables["The least central sources, the least central one first"]
    assert most[0] == ["source", "closeness", "reached", "mean distance", "largest distance"]
    assert [row[3] for row in most[1:]] == [str(i) for i in range(1, 11)]
    assert least[1][:4] == ["29", "0", "1", "0"]
    assert [row[3] for row in least[2:]] == [str(i) for i in range(29, 20, -1)]
    assert float(most[1][1]) == pytest.approx(99**2 / (262143 * 100 * 1.0), rel=1e-5)


def test_few_sources_are_all_in_one_table():
    rows = rendered().tables["All sources, the most central one first"][1:]
    assert [row[0] for row in rows] == ["0", "1", "2"]


def test_of_equally_central_sources_the_first_are_the_most_central_and_the_last_the_least():
    means = np.random.default_rng(1).integers(1, 9, 500)
    tables = rendered(table=metrics(500, mean_distance=pa.array(means.astype(float)))).tables
    ranked = sorted(range(500), key=lambda source: means[source])  # sources with equal means keep their order
    most = tables["The most central sources"][1:]
    least = tables["The least central sources, the least central one first"][1:]
    assert [int(row[0]) for row in most] == ranked[:10]
    assert [int(row[0]) for row in least] == ranked[:-11:-1]


def test_closeness_is_that_of_networkx():
    import networkx as nx

    graph = nx.gnp_random_graph(30, 0.06, seed=2, directed=True)
    lengths = [nx.single_source_shortest_path_length(graph, v) for v in graph]
    reached, means = [len(of) for of in lengths], [sum(of.values()) / len(of) for of in lengths]
    table = pa.table({"reached": reached, "mean_distance": means})
    wanted = nx.closeness_centrality(graph.reverse())  # NetworkX measures the way to a vertex
    np.testing.assert_allclose(closeness_of(table, 30), [wanted[v] for v in graph])


def test_negative_distances_have_no_closeness():
    assert "Central sources" not in rendered(table=metrics(mean_distance=pa.array([1.0, -2.0, 0.0]))).text


def test_failures_and_retries():
    table = metrics(6, attempts=pa.array([1, 1, 3, 3, 2, 2]))
    tables = rendered(table=table).tables
    assert tables["Attempts of the batches"][1:] == [["1", "1"], ["2", "1"], ["3", "1"]]
    assert tables["Batches that took several attempts"][1:] == [["1", "3", "host:1"], ["2", "2", "host:1"]]
    page = rendered(run_record(skipped={"sources": 5, "targets": 0, "first": {"sources": ["x", "<y>"]}}))
    assert "Every batch was solved at its first attempt." in page.text
    assert "Skipped 5 sources not in the graph: x, <y> and others." in page.text


def test_a_trace_is_shown_over_time():
    tables = rendered(table=many_metrics(10)).tables
    for source in (0, 1):
        parallelism = tables[f"Parallelism over time, source {source}"]
        assert parallelism[0] == ["time in µs", "warps that have work"]
        assert parallelism[-1][0] == "999"
        assert tables[f"Delta over time, source {source}"][-1] == ["999", "119"]


def test_distances_of_the_sample():
    page = rendered(sample=a_sample())
    rows = page.tables["Distances"][1:]
    assert sum(int(row[2].replace(",", "")) for row in rows) == 1600
    text = " ".join(page.text)
    assert "from 2 of 3 sources, spread evenly over the run: 7, 8." in text
    assert page.tables["Map"][-1] == ["unreached", "", "160"]
    assert NO_SAMPLE.missing in rendered().text


def test_links_only_to_files_beside_it_and_to_its_own_sections():
    files = {f"distances/batch-{i:05d}.parquet": 10 for i in range(100)} | {"metrics.parquet": 5}
    page = rendered(run_record(files=files), many_metrics(50), a_sample())
    assert not {"script", "link", "img", "iframe", "object", "base"} & set(page.tags)
    names = {attributes.get("id") for _, attributes in page.elements}
    links = [attributes["href"] for attributes in page.of("a")]
    assert "run.json" in links
    assert "metrics.parquet" in links
    assert sum(link.startswith("distances/") for link in links) == 20
    assert "The other 80 files are in the same folder." in page.text
    for link in links:
        assert link[1:] in names if link.startswith("#") else link in {*files, "run.json"}
    attributes = {name for _, of_element in page.elements for name in of_element}
    assert not {"src", "srcset", "style", "onclick", "onerror"} & attributes


def test_markup_in_values_stays_text():
    run = run_record(name=HOSTILE, solver=HOSTILE, solver_reason=HOSTILE, finished=HOSTILE)
    run["workflow"] = {"graph": {"input": HOSTILE}, "output": {"path": HOSTILE}}
    run["graph"]["weights"]["unit"] = HOSTILE
    run["hardware"]["cpu"] = HOSTILE
    run["files"] = {f"distances/{HOSTILE}": 5}
    run["verify"]["refuted"] = HOSTILE
    texts = dict.fromkeys(("worker", "device", "solver"), pa.repeat(HOSTILE, 3))
    source, traces = pa.array([HOSTILE, "b", "c"]), many_metrics(3)["trace"]
    table = metrics(source=source, attempts=pa.repeat(2, 3), trace=traces, **texts)
    sample = a_sample()
    sample.sources[0] = HOSTILE
    page = rendered(run, table, sample)
    plain = rendered(table=table.set_column(0, "source", pa.array(["a", "b", "c"])), sample=a_sample())
    assert not {"script", "img", "b"} & set(page.tags)
    # Only the elements of the verdict and of the list of files may differ.
    assert page.tags.count("svg") == plain.tags.count("svg") == 2 + 6 + 2 + 6
    assert HOSTILE in page.text
    assert f"Parallelism over time, source {HOSTILE}" in page.tables
    assert page.of("a")[-1]["href"].startswith("distances/%3Cscript%3E")


def test_can_be_used_with_keyboard_and_screen_reader():
    page = rendered(table=many_metrics(200), sample=a_sample())
    assert page.of("html") == [{"lang": "en"}]
    assert all(page.tags.count(tag) == 1 for tag in ("h1", "main", "header", "nav"))
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    identifiers = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(identifiers)) == len(identifiers)
    for attributes in page.of("svg"):
        assert attributes["role"] == "img"
        assert {attributes["aria-labelledby"], attributes["aria-describedby"]} <= set(identifiers)
    for attributes in page.of("section"):
        assert attributes["aria-labelledby"] in identifiers
    assert {attributes.get("scope") for attributes in page.of("th")} == {"row", "col"}
    assert page.tags.count("caption") == page.tags.count("table")
    scrolling = [a for tag, a in page.elements if "scroll" in (a.get("class") or "") or tag == "pre"]
    assert all(a["tabindex"] == "0" and a["role"] == "region" and a["aria-label"] for a in scrolling)
    landmarks = [a["aria-label"] for _, a in page.elements if "aria-label" in a]
    landmarks += [text for text, tag in page.said if tag == "h2"]
    assert len(set(landmarks)) == len(landmarks)
    assert page.of("a")[0] == {"class": "skip", "href": "#main"}


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_contrast_of_the_colours(scheme):
    html = page_of(run_record(), metrics(), NO_SAMPLE)
    found = re.findall(r":root \{(.*?)\}", html, re.DOTALL)[scheme]
    colours = {
        name: "#" + "".join(c * 2 for c in value) if len(value) == 3 else f"#{value}"
        for name, value in re.findall(r"--(\w+): #(\w+)", found)
    }
    wanted = {"text": 7, "quiet": 4.5, "link": 4.5, "bar": 3, "mark": 3, "good": 3, "bad": 3}
    for name, least in wanted.items():
        assert contrast(colours[name], colours["page"]) >= least, name


def test_contrast_of_the_map():
    html = page_of(run_record(), metrics(), a_sample())
    colours = set(re.findall(r'stroke="rgb\((\d+) (\d+) (\d+)\)"', html))
    assert len(colours) == 13  # one of them for unreached vertices
    for colour in colours:
        assert contrast("#" + "".join(f"{int(part):02x}" for part in colour), "#101014") >= 3, colour


@pytest.mark.parametrize("n", [10_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_the_page_is_small_for_any_number_of_sources(n):
    files = {f"distances/batch-{i:05d}.parquet": 10 for i in range(n // 8)}
    side = 141  # 19,881 points, about the most that a map has
    size = len(page_of(run_record(files=files), many_metrics(n), a_sample(side)).encode())
    assert size < 500_000


def test_verdict():
    proved = {"mode": "certificate", "checked_sources": 3, "verify_s": 1.0, "refuted": None}
    for verify, said in (
        (None, "The distances were not verified."),
        (proved, "Every checked distance is exact: 3 sources proved by the certificate in 1.00 s."),
        ({**proved, "refuted": "vertex 2: 5, not 4"}, "Refuted: vertex 2: 5, not 4"),
    ):
        assert said in rendered(run_record(verify=verify)).text


def test_a_run_without_sources():
    page = rendered(run_record(sources=0, batches=0), metrics(0))
    assert "There was nothing to solve." in page.text
    assert "Sources compared" not in page.text
