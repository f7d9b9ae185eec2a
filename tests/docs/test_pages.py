"""The commands and examples of the README and the guides do what the pages say, word by word; see page_examples.py."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import closing
from pathlib import Path

import pytest

_spec = importlib.util.spec_from_file_location("page_examples", Path(__file__).with_name("page_examples.py"))
_spec.loader.exec_module(sys.modules.setdefault("page_examples", importlib.util.module_from_spec(_spec)))

from page_examples import ROOT, Examples, blocks_of  # noqa: E402

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "guides").glob("*.md"))]

#: How many blocks of a page say why they are not run. What can be run is run.
NOT_RUN = {
    "README.md": 2,
    "clusters.md": 1,
    "getting-started.md": 1,
    "networkx.md": 1,
    "operations.md": 4,
    "results.md": 1,
}


@pytest.fixture
def examples(tmp_path):
    (tmp_path / "page").mkdir()
    with closing(Examples(tmp_path / "page")) as made:
        yield made


@pytest.mark.medium
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_do_what_the_page_says(page, examples):
    assert first_fault(page, examples) is None


def first_fault(page: Path, examples: Examples) -> str | None:
    """Return where and how the first example that fails differs from what `page` says; None if all do as it says."""
    for block in blocks_of(page):
        try:
            examples.run(block)
        except AssertionError as error:
            return str(error)
    return None


def test_every_fence_belongs_to_a_block_and_few_blocks_are_not_run():
    for page in PAGES:
        blocks, lines = blocks_of(page), page.read_text(encoding="utf-8").splitlines()
        assert sum(line.lstrip().startswith("```") for line in lines) == 2 * len(blocks), page
        assert sum(block.not_run is not None for block in blocks) == NOT_RUN.get(page.name, 0), page


@pytest.fixture
def fault_of(examples, tmp_path):
    """Give the function that returns the `first_fault` of a page with a text."""

    def fault_of_text(text: str) -> str | None:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return first_fault(page, examples)

    return fault_of_text


GOOD = {
    "a command": "```console\n$ echo a; echo b\na\nb\n$ echo c\nc\n```",
    "a command that fails": "```console\n$ echo 'error: no'; false\nerror: no\n```",
    "lines left out": "```console\n$ seq 5\n1\n…\n4\n5\n```",
    "text left out": "```console\n$ echo one two three\none … three\n```",
    "what varies": "```console\n$ echo took 1.5 s, 20/s\ntook 0.7 s, 9.5/s\n```",
    "a moving line": "```console\n$ printf '\\r\\033[K1 of 2\\r\\033[K2 of 2\\r\\033[Kdone\\n'\ndone\n```",
    "a file": "```text\n# in.txt\n1\n```\n\n```console\n$ cat in.txt\n# in.txt\n1\n```",
    "a list": "- so\n\n  ```console\n  $ printf 'a\\n  b\\n'\n  a\n    b\n  ```",
    "a value behind": "```python\nx = [1]  # a list\nx + [2]  # [1, 2]\n```",
    "a value below": "```python\nprint('a\\nb')\n# a\n# b\n```",
    "names": "```python\nx = 1\n```\n\n```python\nx  # 1\n```",
    "a query": "```sql\n-- DuckDB: one\nSELECT 1; -- and another\nSELECT 2;\n```",
    "sections": "```yaml\nsources: {ids: [17]}   # so\nsources: {top_degree: 1}\noutput:\n  path: x\n```",
    "not run": "<!-- not run: needs a GPU -->\n```console\n$ false\n```",
}
BAD = {
    "another output": "```console\n$ echo a\nb\n```",
    "more output": "```console\n$ seq 3\n1\n2\n```",
    "a command that fails": "```console\n$ echo a; false\na\n```",
    "a command that does not fail": "```console\n$ echo 'error: no'\nerror: no\n```",
    "no command": "```console\nls\n```",
    "another value": "```python\n1 + 1  # 3\n```",
    "another value below": "```python\nprint('a')\n# b\n```",
    "an exception": "```python\nx = 1 / 0\n```",
    "no such table": "```sql\nSELECT * FROM 'results/*.parquet';\n```",
    "no rows": "```sql\nSELECT 1; SELECT 1 WHERE false;\n```",
    "an unknown key": "```yaml\nsources: {id: [17]}\n```",
    "an unknown section": "```yaml\nsource: {ids: [17]}\n```",
    "no language": "```\n$ echo a\n```",
    "another language": "```bash\nls\n```",
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_what_a_page_may_say(text, fault_of):
    assert fault_of(text) is None


def test_a_command_that_does_not_end_is_ended(fault_of, monkeypatch):
    monkeypatch.setattr(sys.modules["page_examples"], "TIME_LIMIT_S", 1)
    fault = fault_of("```console\n$ echo so; sleep 100; echo far\nso\n```")
    assert fault.startswith("page.md line 1: ")
    assert "exit code -9" in fault


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_is_not_as_a_page_says_is_found(text, fault_of):
    assert fault_of(text).startswith("page.md line 1")
