"""Values that are valid alone and contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.yaml_file import workflow_from_dict

CASES = yaml.safe_load(Path(__file__).with_name("contradictions.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["message"])
def test_contradictions(case, described):
    sections = case["workflow"]
    with pytest.raises(InputError) as caught:
        workflow_from_dict(described(**sections))
    assert caught.value.message == f"workflow: {case['message']}"
    assert caught.value.hint == case["hint"]
    # The models refuse it too, for those who build them without `workflow_from_dict`.
    with pytest.raises(ValidationError, match="1 validation error"):
        Workflow.model_validate(described(**sections))


@pytest.mark.parametrize(
    ("sections", "is_refused"),
    [
        ({"graph": {"weights": {"dtype": "uint32", "default": 2**32 - 2}}}, False),
        ({"graph": {"weights": {"dtype": "float32", "default": 0.5}}}, False),
        ({"graph": {"store": "out-graph"}}, False),
        ({"graph": {"format": "csv", "columns": {"source": "a", "target": "b"}}}, False),
        ({"cluster": {"kind": "address", "address": "tcp://a:1", "in_flight": 4}}, False),
        ({"output": {"layout": "wide"}}, False),
        ({"output": {"layout": "wide", "columns_per_file": 300}, "solve": {"batch": "auto"}}, False),
        ({"output": {"layout": "wide", "columns_per_file": 0}}, True),
        (
            {"output": {"targets": {"ids": [1]}, "layout": "wide", "unreached": 0, "compression": "lz4"}},
            False,
        ),
        ({"output": {"distances": "none", "layout": "long", "targets": None}, "verify": "off"}, False),
        ({"output": {"targets": {"ids": []}}}, True),
        ({"output": {"targets": {"all": True}}}, True),
        ({"output": {"distances": "none"}, "solve": {"predecessors": True}}, True),
        ({"graph": {"store": "."}, "output": {"path": "./run"}}, True),
    ],
)
def test_where_contradictions_begin(sections, is_refused, described):
    if is_refused:
        with pytest.raises(InputError):
            workflow_from_dict(described(**sections))
    else:
        workflow_from_dict(described(**sections))
