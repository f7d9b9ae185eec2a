"""The site of `make site` as a browser shows it. The tests are skipped where it is not built."""

from __future__ import annotations

import asyncio
import threading
import time
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import sssp_pipeline

pytestmark = pytest.mark.slow
BUILT = Path(__file__).parents[2] / "build" / "site"
PAGES = (
    "index",
    "site/guides",
    "site/api",
    "guides/getting-started",
    "guides/formats",
    "reference/workflow",
    "concepts/exactness",
    "many-sources-on-an-h200",
    "notebooks/accessibility",
    "design/0002-adds-queue",
)
#: What a new user may ask, and the page that the first result is.
ERRANDS = {
    "my matrix from a CSV of points": "guides/points-to-matrix",
    "isochrones": "guides/isochrones",
    "closeness of a graph in NetworkX": "guides/networkx",
    "a SLURM job": "guides/clusters",
    "what does this error mean": "guides/troubleshooting",
    "holds another run: it differs in": "guides/troubleshooting",
    "solve": "site/api",
}


@pytest.fixture
def site():
    """Return the folder of the site."""
    if not (BUILT / "index.html").exists():
        pytest.skip("the site is not built: `make site`")
    return BUILT


class Handler(SimpleHTTPRequestHandler):
    """Answers as GitHub Pages does: 404.html in place of a page that is not there."""

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=BUILT)

    def send_error(self, code, message=None, explain=None):
        page = (BUILT / "404.html").read_bytes()
        self.send_response(code)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_):
        """Write nothing."""


@pytest.fixture
def served(site):
    """Return the address of the site."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def faults(page, address: str) -> list:
    """Return what the page reported since it was opened, and what it requested from elsewhere."""
    found = [p for m, p in page.heard if m in ("Log.entryAdded", "Runtime.exceptionThrown")]
    requested = [p["request"]["url"] for m, p in page.heard if m == "Network.requestWillBeSent"]
    return found + [url for url in requested if not url.startswith((address, "data:"))]


async def until(page, expression: str):
    """Return the value of `expression` as soon as there is one."""
    end = time.monotonic() + 20
    while (value := await page.value(expression)) is None:
        assert time.monotonic() < end, await page.value("document.body.innerText")
        await asyncio.sleep(0.05)
    return value


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_ten_pages_open_and_fit_the_window(served, browse, width, scheme):
    async def check(page):
        for name in PAGES:
            await page.open(f"{served}/{name}.html", width, 900, scheme)
            assert await page.value("document.querySelector('h1').innerText"), name
            assert await page.value("document.documentElement.scrollWidth") <= width, name
            background = await page.value("getComputedStyle(document.body).backgroundColor")
            assert (max(map(int, background[4:-1].split(","))) > 128) == (scheme == "light"), name
            assert faults(page, served) == [], name

    browse(check)


def test_the_search_of_any_page_leads_to_the_answer(served, browse):
    async def check(page):
        for words, answer in ERRANDS.items():
            await page.open(f"{served}/guides/results.html", 1280, 900)
            await page.value("document.querySelector('.search-button__button').click()")
            await page.send("Input.insertText", text=words)
            page.heard.clear()
            await page.press("Enter", 13)
            await page.loaded()
            link = await until(page, "document.querySelector('#search-results li a')?.href")
            assert urlsplit(link).path == f"/{answer}.html", words
            assert faults(page, served) == []

    browse(check)


def test_another_address_shows_a_page_that_leads_back(served, browse):
    async def check(page):
        await page.open(f"{served}/no/such/page.html", 1280, 900)
        assert await page.value("document.querySelector('h1').innerText") == "No such page"
        assert await page.value("document.querySelector('.navbar-brand').href") == f"{served}/index.html"
        assert await page.value("document.querySelector('.search-button__button').offsetWidth") > 0
        (missing,) = faults(page, served)
        assert missing["entry"]["url"] == f"{served}/no/such/page.html"

    browse(check)


class Links(HTMLParser):
    """What a page links to, and the places in it that links may lead to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = {""}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        self.links |= {given[name] for name in ("href", "src") if given.get(name)}


def test_every_link_inside_leads_to_a_place(site):
    pages = {path: Links(path) for path in site.rglob("*.html") if path.parent.name != "_static"}
    del pages[site / "404.html"]  # its links begin with the path of the site
    assert len(pages) > 80
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path} links to {link}"
            if target in pages:
                assert unquote(parts.fragment) in pages[target].places, f"{path} links to {link}"


def test_the_api_page_has_every_public_name(site):
    places = Links(site / "site" / "api.html").places
    names = {f"sssp_pipeline.{name}" for name in sssp_pipeline.__all__ if not name.startswith("__")}
    assert names - places == set()
