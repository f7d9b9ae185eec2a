"""The report as a browser shows it: nothing fails, every chart has a picture, and keys and screen readers reach all."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image
from report_data import HOSTILE, a_sample, many_metrics, page_of, run_record

pytestmark = pytest.mark.slow
#: The place of every chart.
_BOXES = """[...document.querySelectorAll('svg')].map(chart => {
  const box = chart.getBoundingClientRect(); return [box.x, box.y, box.right, box.bottom]; })"""
#: How far labels reach over the edges of their picture.
_OVERFLOW = """[...document.querySelectorAll('svg text')].map(text => {
  const inner = text.getBoundingClientRect(), outer = text.closest('svg').getBoundingClientRect();
  return [Math.max(outer.left - inner.left, inner.right - outer.right, outer.top - inner.top,
                   inner.bottom - outer.bottom), text.textContent]; })"""
_N_CHARTS = 2 + 1 + 2 + 6 + 6


@pytest.fixture
def in_browser(browse, tmp_path):
    """Give a function that runs `check(page, url)` on a report; skipped without Chromium."""
    report = tmp_path / "report.html"
    report.write_text(page_of(run_record(name=HOSTILE), many_metrics(2000), a_sample()))
    return lambda check: browse(lambda page: check(page, report.as_uri()))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_has_a_picture(in_browser, tmp_path, scheme):
    async def check(page, url):
        await page.open(url, 1100, 900, scheme)
        boxes = await page.value(_BOXES)
        background = await page.value("getComputedStyle(document.body).backgroundColor")
        await page.screenshot(tmp_path / "page.png")
        with Image.open(tmp_path / "page.png") as image:
            pixels = np.asarray(image.convert("RGB")).astype(int)
        assert pixels.shape[1] == 1100
        colour = np.array(list(map(int, background[4:-1].split(","))))
        assert (colour.mean() > 128) == (scheme == "light")
        assert len(boxes) == _N_CHARTS
        for left, top, right, bottom in boxes:
            part = pixels[int(top) : int(bottom), int(left) : int(right)]
            differs = np.abs(part - colour).sum(axis=2) > 60
            # A line and the labels of its axes cover little; an empty picture has nothing.
            assert differs.mean() > 0.01
            assert len(np.unique(part[differs], axis=0)) > 1

    in_browser(check)


def test_nothing_fails_and_nothing_else_is_requested(in_browser):
    async def check(page, url):
        await page.open(url, 1100, 900)
        methods = [method for method, _ in page.heard]
        problems = [p for m, p in page.heard if m in ("Log.entryAdded", "Runtime.consoleAPICalled")]
        assert problems == []
        assert "Runtime.exceptionThrown" not in methods
        requests = [p["request"]["url"] for m, p in page.heard if m == "Network.requestWillBeSent"]
        assert requests == [url]
        assert await page.value("document.querySelector('h1').textContent") == HOSTILE

    in_browser(check)


@pytest.mark.parametrize("width", [360, 1100])
def test_the_page_fits_the_window_and_labels_fit_their_charts(in_browser, width):
    async def check(page, url):
        await page.open(url, width, 900)
        assert await page.value("document.documentElement.scrollWidth") <= width
        for overflow, text in await page.value(_OVERFLOW):
            assert overflow <= 1, text

    in_browser(check)


def test_a_screen_reader_gets_names_and_landmarks(in_browser):
    async def check(page, url):
        await page.open(url, 1100, 900)
        nodes = (await page.send("Accessibility.getFullAXTree"))["nodes"]
        named = [(n["role"]["value"], n.get("name", {}).get("value", "")) for n in nodes if not n["ignored"]]
        roles = [role for role, _ in named]
        assert {"banner", "main", "navigation"} <= set(roles)
        pictures = [name for role, name in named if role in ("image", "img")]
        assert len(pictures) == _N_CHARTS
        assert len(set(pictures)) == _N_CHARTS
        assert all(
            name for role, name in named if role in ("image", "img", "region", "table", "link", "heading")
        )

    in_browser(check)


def test_keys_reach_the_sections_and_open_the_values(in_browser):
    async def check(page, url):
        await page.open(url, 1100, 900)
        focused = []
        for _ in range(60):
            await page.press("Tab", 9)
            focused.append(await page.value("document.activeElement.textContent.slice(0, 40)"))
            if focused[-1].startswith("Values of"):
                break
        assert focused[0] == "Skip to the content"
        assert "Central sources" in focused
        await page.press("Enter", 13)
        assert await page.value("document.activeElement.parentElement.open") is True
        await page.press("Tab", 9)
        assert await page.value("document.activeElement.getAttribute('role')") == "region"

    in_browser(check)
