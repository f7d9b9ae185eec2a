from __future__ import annotations

from html.parser import HTMLParser

import pyarrow as pa
import pytest

from sssp_pipeline.pipeline.results.report import render_report


def run_record(**changes) -> dict:
    record = {
        "name": "road",
        "workflow": {"version": 1, "graph": {"input": "s3://bucket/road.gr"}},
        "graph": {
            "n_vertices": 262144,
            "n_edges": 733846,
            "weights": {"dtype": "uint32", "unit": "metres", "min": 1, "max": 36946, "mean": 1293.3},
            "symmetric": True,
            "ids": {"kind": "offset", "type": "int64", "first_id": 1},
            "counts": {"edges_read": 733850, "self_loops_dropped": 4},
        },
        "identity": {"layout": "long", "unreached": None, "compression": "none", "predecessors": False},
        "sources": 3,
        "batches": 2,
        "solver": "delta-stepping",
        "solver_reason": "weights are not negative",
        "timings": {"ingest": 1.5, "solve": 12.25},
        "hardware": {"cpu": "a processor", "cores": 2, "memory_bytes": 1, "gpu": None},
        "versions": {"python": "3.11.7"},
        "verify": {"mode": "sample", "checked_sources": 3, "verify_s": 0.5, "refuted": None},
    }
    return record | changes


def metrics(n: int = 3) -> pa.Table:
    return pa.table(
        {
            "source": pa.array(range(n), pa.int64()),
            "solve_s": pa.array([0.25 * (i + 1) for i in range(n)], pa.float64()),
            "vertices_processed": pa.array([150] * n, pa.int64()),
            "edges_relaxed": pa.array([1000] * n, pa.int64()),
            "reached": pa.array([100] * n, pa.int64()),
            "max_distance": pa.array([10.0 * i for i in range(n)], pa.float64()),
            "mean_distance": pa.array([4.5] * n, pa.float64()),
            "attempts": pa.array([1] * n, pa.int64()),
            "worker": pa.array(["tcp://one"] * n, pa.string()),
        }
    )


class Page(HTMLParser):
    """Collects what the page says, and checks that every element is closed where it should be."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_says_what_was_run_and_how_fast():
    text = " ".join(Page(render_report(run_record(), metrics())).text)
    for said in (
        "262,144",
        "uint32, 1 to 36,946, mean 1,293.3",
        "delta-stepping (weights are not negative)",
        "Largest distance (metres)",
        "median 0.5, largest 0.75",
        "12.25 s",
        "Every checked distance is exact: 3 sources solved again with the oracle in 0.50 s.",
        "input: s3://bucket/road.gr",
        "a processor",
    ):
        assert said in text


def test_work_efficiency_and_rates_come_from_the_metrics():
    text = " ".join(Page(render_report(run_record(), metrics())).text)
    assert "vertices processed per vertex reached 1.500" in text
    assert "distances per second of solving 200" in text
    assert "edges relaxed per second of solving 2,000" in text


def test_one_histogram_for_each_distribution():
    page = Page(render_report(run_record(), metrics()))
    assert page.tags.count("svg") == 4
    assert (
        page.tags.count("rect") == 1 + 3 + 1 + 3
    )  # equal values are one bar, three different ones are three


def test_limits_of_a_histogram_are_written_in_full():
    table = metrics().set_column(5, "max_distance", pa.array([0.125, 2.0, 1234567.75]))
    text = Page(render_report(run_record(), table)).text
    assert "0.125" in text
    assert "1,234,568" in text
    assert "median 2; tallest bar 2 of 3 sources" in text


def test_needs_nothing_from_elsewhere():
    page = Page(render_report(run_record(), metrics()))
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert not {"src", "href"} & {name for name, _ in page.attributes}


def test_markup_in_values_stays_text():
    hostile = '<script>alert(1)</script> & "x"'
    page = Page(render_report(run_record(name=hostile, solver_reason=hostile), metrics()))
    assert "script" not in page.tags
    assert hostile in page.text


@pytest.mark.parametrize(
    ("verify", "said"),
    [
        (None, "The distances were not verified."),
        (
            {"mode": "certificate", "checked_sources": 3, "verify_s": 1.0, "refuted": None},
            "Every checked distance is exact: 3 sources proved by the certificate in 1.00 s.",
        ),
        (
            {
                "mode": "sample",
                "checked_sources": 3,
                "verify_s": 1.0,
                "refuted": "source 1, vertex 2: 5, not 4",
            },
            "Refuted: source 1, vertex 2: 5, not 4",
        ),
    ],
)
def test_verdict(verify, said):
    assert said in Page(render_report(run_record(verify=verify), metrics())).text


def test_a_run_without_sources():
    page = Page(render_report(run_record(sources=0, batches=0), metrics(0)))
    assert "svg" not in page.tags
