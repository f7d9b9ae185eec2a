from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sssp_pipeline.pipeline.results.report import charts
from sssp_pipeline.pipeline.results.report.charts import Axis, Heading, histogram, number, tick_texts, ticks


def parsed(chart):
    return ElementTree.fromstring(str(chart.svg))


def rects(chart):
    return [shape for shape in parsed(chart) if shape.tag == "rect" and shape.get("class") == "bar"]


@pytest.mark.parametrize(
    ("low", "high", "whole", "wanted"),
    [
        (0, 10, False, [0, 2, 4, 6, 8, 10]),
        (0, 1, False, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 2, True, [0, 1, 2]),
        (-3, 3, False, [-2, 0, 2]),
        (1234, 5678, False, [2000, 3000, 4000, 5000]),
    ],
)
def test_ticks_are_round_numbers_in_the_range(low, high, whole, wanted):
    np.testing.assert_allclose(ticks(low, high, whole=whole), wanted)


@given(st.floats(-1e15, 1e15), st.floats(1e-6, 1e12))
def test_every_range_has_few_ticks_with_different_texts(low, span):
    high = low + span
    if high - low <= abs(high) * 1e-9:
        return
    found = ticks(low, high)
    assert 1 <= len(found) <= 6
    assert len(set(tick_texts(found))) == len(found)
    assert low - span * 1e-6 <= found[0]
    assert found[-1] <= high + span * 1e-6


def test_ticks_share_a_suffix():
    assert tick_texts([0, 500_000, 1_000_000]) == ["0", "0.5M", "1M"]
    assert tick_texts([1_000_000, 1_000_001]) == ["1,000,000", "1,000,001"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.125, "0.125"), (1234567.75, "1,234,568"), (999.5, "999.5"), (np.inf, "inf")],
)
def test_numbers(value, text):
    assert number(value) == text


def counted(chart):
    return [int(row[2].replace(",", "")) for row in chart.values.rows]


def test_a_histogram_counts_every_value_once():
    values = np.random.default_rng(3).lognormal(3, 1, 1000)
    chart = histogram("k", "Title", values, Axis("x"))
    counts, edges = np.histogram(values, charts.N_BINS)
    assert counted(chart) == counts[counts > 0].tolist()
    assert [row[0] for row in chart.values.rows] == [number(e) for e in edges[:-1][counts > 0]]
    heights = np.array([float(rect.get("height")) for rect in rects(chart)])
    assert len(heights) == np.count_nonzero(counts)
    tall = counts[counts > 0]
    np.testing.assert_allclose(heights, np.maximum(tall / tall.max() * heights.max(), 1), atol=0.1)


def test_whole_numbers_in_a_short_range_have_a_bar_each():
    chart = histogram("k", "Title", np.array([1, 1, 2, 5]), Axis("x"))
    assert counted(chart) == [2, 1, 1]
    assert len(rects(chart)) == 3


def test_equal_values_are_one_bar_and_a_sentence():
    chart = histogram("k", "Title", np.full(7, 42.0), Axis("x"))
    assert counted(chart) == [7]
    assert len(rects(chart)) == 1
    assert chart.caption == "All 7 sources have 42."


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_no_values_make_a_broken_picture(values):
    chart = histogram("k", "Title", np.array(values), Axis("x"))
    assert sum(counted(chart)) == len(values)
    assert not re.search(r"nan|inf", str(chart.svg).split("</desc>")[1])


@pytest.mark.parametrize("values", [[], [np.nan], [np.inf]])
def test_without_finite_values_there_is_no_histogram(values):
    assert histogram("k", "Title", np.array(values), Axis("x")) is None


def test_a_chart_has_a_name_a_description_and_axes():
    chart = histogram("k", "Ti<tle", np.arange(100.0), Axis("seconds & more"))
    svg = parsed(chart)
    by_id = {shape.get("id"): shape.text for shape in svg}
    assert svg.get("role") == "img"
    assert by_id[svg.get("aria-labelledby")] == "Ti<tle"
    assert by_id[svg.get("aria-describedby")] == chart.caption
    texts = [shape.text for shape in svg if shape.tag == "text"]
    assert {"seconds & more", "sources", "0", "20", "80"} <= set(texts)


def test_stages_have_lengths_in_proportion():
    chart = charts.stages(Heading("k", "Time", "Seconds."), {"solve": 3.0, "write": 1.0, "load": 0.0})
    widths = [float(rect.get("width")) for rect in rects(chart)]
    assert widths[0] == pytest.approx(3 * widths[1])
    assert chart.values.rows == [
        ("solve", "3.00", "75.0%"),
        ("write", "1.00", "25.0%"),
        ("load", "0.00", "0.0%"),
    ]


def test_a_map_has_each_reached_point_in_the_colour_of_its_distance():
    x, y = np.array([0.0, 1, 0, 1]), np.array([0.0, 0, 1, 1])
    values = np.array([0.0, 12, 6, np.nan])
    chart = charts.coloured_map(Heading("k", "Map", "Distances."), x, y, values, 0, "metres")
    svg = parsed(chart)
    colours = {shape.get("d"): shape.get("stroke") for shape in svg if shape.tag == "path"}
    legend = [shape.get("fill") for shape in svg if shape.tag == "rect" and shape.get("fill")]
    assert colours == {
        "M10 630h0": legend[-1],
        "M630 630h0": legend[0],
        "M10 10h0": legend[5],
        "M630 10h0": charts._UNREACHED,
    }
    ring = next(shape for shape in svg if shape.tag == "circle")
    assert (ring.get("cx"), ring.get("cy")) == ("10", "630")
    assert [row for row in chart.values.rows if row[2] != "0"] == [
        ("0", "1", "1"),
        ("6", "7", "1"),
        ("11", "12", "1"),
        ("unreached", "", "1"),
    ]


@pytest.mark.parametrize("n", [1, 2])
def test_a_map_of_vertices_at_one_place(n):
    same = np.zeros(n)
    heading = Heading("k", "Map", "Distances.")
    assert charts.coloured_map(heading, same, same, same, None, "") is not None
    assert charts.coloured_map(heading, same, same, same * np.nan, 0, "") is None
