"""The reference pages say what the code says, and links between pages lead somewhere."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from sssp_pipeline.cli import app
from sssp_pipeline.kernels import SOLVERS

ROOT = Path(__file__).parents[2]
PAGES = [page for place in ("*.md", "docs/**/*.md", "deploy/**/*.md") for page in sorted(ROOT.glob(place))]


def generate(docs: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(docs / "generate.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def docs(tmp_path):
    """Give a copy of the generator and its pages, to be changed."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path / "docs"


def test_the_committed_pages_are_fresh():
    done = generate(ROOT / "docs", "--check")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.medium
def test_a_stale_page_is_named_and_written_again(docs):
    page = docs / "reference" / "solvers.md"
    fresh = page.read_text(encoding="utf-8")
    page.write_text(fresh + "more", encoding="utf-8")
    (docs / "reference" / "cli.md").unlink()
    done = generate(docs, "--check")
    assert done.returncode == 1
    assert done.stderr == "error: stale in docs/reference: solvers.md, cli.md\n\nhint: run `make docs`\n"
    assert generate(docs).returncode == 0
    assert page.read_text(encoding="utf-8") == fresh


def test_another_argument_is_refused(docs):
    done = generate(docs, "--chekc")
    assert done.returncode == 2
    assert done.stderr == "error: unknown arguments `--chekc`\n\nhint: only --check is known\n"


def test_every_command_and_option_is_on_its_page():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    commands = get_command(app).commands
    inner = {
        f"{name} {c.name}": c
        for name, group in commands.items()
        for c in getattr(group, "commands", {}).values()
    }
    assert {"bench run", "bench report"} <= inner.keys()
    for name, command in (commands | inner).items():
        section = page.split(f"\n## `{name}`\n")[1].split("\n## ")[0]
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert parameter.opts[0] in section


def test_every_solver_and_section_is_on_its_page():
    page = (ROOT / "docs" / "reference" / "solvers.md").read_text(encoding="utf-8")
    for name, solver in SOLVERS.items():
        assert f"| `{name}` | {solver.device.upper()} | {solver.summary} |" in page
    schema = json.loads((ROOT / "docs" / "reference" / "workflow.schema.json").read_text(encoding="utf-8"))
    assert set(schema["required"]) == {"graph", "output"}
    assert schema["additionalProperties"] is False


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?://)([^)\s]+)\)", text):
            file, _, anchor = target.partition("#")
            linked = (page.parent / file).resolve() if file else page
            assert linked.exists(), f"{page} links to {target}"
            assert not anchor or anchor in anchors(linked), f"{page} links to {target}"


def test_the_index_names_every_page():
    docs = ROOT / "docs"
    targets = re.findall(r"\]\(([^)#]+)", (docs / "README.md").read_text(encoding="utf-8"))
    pages = [*docs.glob("*.md"), *docs.glob("[!p]*/*.md"), *docs.glob("notebooks/*.ipynb")]
    assert {docs / target for target in targets if not target.startswith("..")} == set(pages) - {
        docs / "README.md",
        docs / "index.md",
    }
