"""Every input of `refused.yaml` is refused with the message and the hint that stand there."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

CASES = [
    pytest.param(case, id=f"{reader}-{what}-{number}")
    for reader, groups in yaml.safe_load(
        Path(__file__).with_name("refused.yaml").read_text(encoding="utf-8")
    ).items()
    for what, cases in groups.items()
    for number, case in enumerate(cases)
]


@pytest.mark.parametrize("case", CASES)
def test_refused(write, refused, case):
    files = [write(name, content) for name, content in case["files"].items()]
    assert refused(*files, **case.get("options", {})) == (case["message"], case["hint"])
