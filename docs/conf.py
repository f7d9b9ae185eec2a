"""How Sphinx makes the site of the pages in this folder: `make site` writes it to build/site.

The pages are also read on GitHub. So they have no marks of Sphinx, and two things are done here: links that lead out of
`docs/` become links to the repository, and the index in `docs/README.md` becomes the navigation.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

import sssp_pipeline

DOCS = Path(__file__).parent
ROOT = DOCS.parent
#: GitHub sets these variables in its workflows. Other builds use this name: there is no public repository yet.
OWNER, _, REPOSITORY = os.environ.get("GITHUB_REPOSITORY", "sssp-pipeline/sssp-pipeline").partition("/")
SOURCE = f"{os.environ.get('GITHUB_SERVER_URL', 'https://github.com')}/{OWNER}/{REPOSITORY}"

project = "sssp-pipeline"
author = copyright = "sssp-pipeline developers"
version = release = sssp_pipeline.__version__

extensions = ["myst_nb", "notfound.extension", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["README.md"]
# A link that leads nowhere is a warning. Docstrings are left out: most words of code in them are no public names.
nitpicky = True
nitpick_ignore_regex = [("py:.*", ".*")]

# Headings have the anchors that GitHub gives them.
myst_heading_anchors = 4
# The outputs of the notebooks are committed; a test compares them with a fresh run.
nb_execution_mode = "off"

# Docstrings: `name` is a public name where there is one, a word of code elsewhere.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
python_maximum_signature_line_length = 88
napoleon_google_docstring = False

html_theme = "pydata_sphinx_theme"
html_title = f"sssp-pipeline {release}"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_search_scorer = str(DOCS / "site/scorer.js")
html_sidebars = {"index": [], "site/api": []}
html_copy_source = False
html_show_sourcelink = False
# The address under which the site is served. 404.html is shown for any address, so its links begin with the path.
html_baseurl = os.environ.get("SITE_URL", "")
notfound_urls_prefix = urlsplit(html_baseurl).path or "/"
notfound_context = {
    "title": "No such page",
    "body": "<h1>No such page</h1><p>It may have another name now. Search for a word of it.</p>",
}
html_context = {
    "github_user": OWNER,
    "github_repo": REPOSITORY,
    "github_version": "main",
    "doc_path": "docs",
}
html_theme_options = {
    "header_links_before_dropdown": 8,
    "logo": {"text": "sssp-pipeline"},
    "navbar_align": "left",
    "navigation_with_keys": False,
    "search_bar_text": "Search: a task, a name, the words of an error",
    "secondary_sidebar_items": ["page-toc", "edit-this-page"],
    "show_toc_level": 2,
    "use_edit_page_button": True,
}


def fill_in_sections(app: Sphinx, name: str, text: list[str]) -> None:
    """Replace `<!-- section: A -->` by this section of docs/README.md and a hidden toctree of its pages."""

    def section(match: re.Match[str]) -> str:
        title, index = match[1], DOCS / "README.md"
        app.env.note_dependency(str(index))
        found = re.search(
            rf"^## {title}\n(.*?)(?=^## |\Z)", index.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        assert found, f"docs/README.md has no section `{title}`"
        pages = dict.fromkeys(re.findall(r"\]\((?!\.\.)([^)#]+)\.(?:md|ipynb)", found[1]))
        tree = ["```{toctree}", f":caption: {title}", ":hidden:", "", *(f"/{page}" for page in pages), "```"]
        return "\n".join([found[1].replace("](", "](/"), *tree])

    text[0] = re.sub("<!-- section: (.+) -->", section, text[0])


def link_to_repository(app: Sphinx, page: nodes.document) -> None:
    """Turn links to files that are not part of the site into links to the repository."""
    links = page.findall(lambda node: isinstance(node, addnodes.pending_xref | addnodes.download_reference))
    for link in list(links):
        if link.get("reftype") != "myst" or link["reftarget"].startswith("#"):
            continue
        target, _, anchor = link["reftarget"].partition("#")
        anchor = anchor or link.get("reftargetid") or ""
        if link.get("refdomain") == "doc":
            path = DOCS / f"{target}.md"
        else:
            path = Path(app.env.relfn2path(target, link["refdoc"])[1])
        if not path.exists():
            # A page may include a part of the README, whose links begin at the root.
            path = ROOT / target
        path = path.resolve()
        inside = path.is_relative_to(DOCS) and path != DOCS / "README.md"
        if inside or not path.exists():
            continue  # Sphinx links to it, or warns
        kind = "tree" if path.is_dir() else "blob"
        address = f"{SOURCE}/{kind}/main/{path.relative_to(ROOT).as_posix()}{anchor and '#' + anchor}"
        link.replace_self(nodes.reference("", "", *link.children, refuri=address, internal=False))


def link_pages(app: Sphinx, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Turn the names of pages in a docstring into links."""
    lines[:] = [re.sub(r"`docs/([\w/-]+)\.md`", r":doc:`/\1`", line) for line in lines]


def hide_constructor(app: Sphinx, what: str, *_: object) -> tuple[str, str] | None:
    """Show no parameters of a class: functions make its objects."""
    return ("", "") if what in ("class", "exception") else None


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", fill_in_sections)
    # Before Sphinx looks for the files of download links.
    app.connect("doctree-read", link_to_repository, priority=100)
    app.connect("autodoc-process-docstring", link_pages)
    app.connect("autodoc-process-signature", hide_constructor)
