"""The examples in the docstrings of the public functions give what they say."""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path

import pytest

import sssp_pipeline

ROOT = Path(__file__).parents[2]
FUNCTIONS = [name for name in sssp_pipeline.__all__ if inspect.isfunction(getattr(sssp_pipeline, name))]


@pytest.mark.medium
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_examples_of_a_function_are_right(name, tmp_path, monkeypatch):
    (tmp_path / "workflows").symlink_to(ROOT / "workflows")
    monkeypatch.chdir(tmp_path)
    text = inspect.getdoc(getattr(sssp_pipeline, name))
    examples = doctest.DocTestParser().get_doctest(text, {"sp": sssp_pipeline}, name, None, None)
    assert examples.examples, f"`{name}` has no example"
    output: list[str] = []
    doctest.DocTestRunner().run(examples, out=output.append)
    if output:
        pytest.fail("".join(output), pytrace=False)
