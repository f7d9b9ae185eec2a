"""Renders the published pages and their figures from the stored lines in `results/`; it measures nothing.

    python benchmarks/pages.py [NAME …]

Without a name it renders all pages. The figures need matplotlib: `pip install '.[figures]'`.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import adds_page
import auto_page
import many_sources_page
import other_tools_page
import scaling_page
from page_text import filled
from papers import report

from sssp_pipeline.bench.figures import has_matplotlib

#: Each module has `PAGE`, the path of the page, and `values()` for its template. One with a figure also has `FIGURE`
#: and `draw(path)`.
PAGES: dict[str, ModuleType] = {
    "adds": adds_page,
    "auto": auto_page,
    "many-sources": many_sources_page,
    "other-tools": other_tools_page,
    "scaling": scaling_page,
}


def text(name: str) -> str:
    """Return the page `name` of `PAGES` as Markdown."""
    return filled(name.replace("-", "_"), PAGES[name].values())


def render(name: str) -> None:
    """Write the page `name` of `PAGES`, and its figure."""
    module = PAGES[name]
    module.PAGE.write_text(text(name), encoding="utf-8")
    if hasattr(module, "FIGURE"):
        module.draw(module.FIGURE)


def render_papers() -> None:
    """Write the reports of the papers' matrices, without the tables as CSV."""
    for name in report.REPORTS:
        with tempfile.TemporaryDirectory() as folder:
            page = report.write_page(name, Path(folder))
            for file in (page, *page.parent.glob("*.svg")):
                shutil.copyfile(file, report.PAGES / name / file.name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*PAGES, "papers"]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    given = parser.parse_args()
    if unknown := set(given.names) - set(names):
        parser.error(f"unknown page {', '.join(sorted(unknown))}; pages: {', '.join(names)}")
    if not has_matplotlib():
        sys.exit("the figures need matplotlib: pip install '.[figures]'")
    for name in given.names or names:
        render_papers() if name == "papers" else render(name)


if __name__ == "__main__":
    main()
