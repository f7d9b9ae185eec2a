"""What the tests of the workflow share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def described():
    """Give the function that returns the least a workflow must say, with keys of some sections added."""

    def with_sections(**sections) -> dict:
        least = {"graph": {"input": "edges.txt"}, "sources": {"all": True}, "output": {"path": "out"}}
        for name, values in sections.items():
            least[name] = {**least.get(name, {}), **values} if isinstance(values, dict) else values
        return least

    return with_sections
