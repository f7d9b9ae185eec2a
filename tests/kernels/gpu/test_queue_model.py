"""The protocol of the `adds` queue, checked exhaustively on a small model: it holds, and no part of it is spare."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.medium

ROOT = Path(__file__).parents[3]
_spec = importlib.util.spec_from_file_location("adds_queue_check", ROOT / "model" / "check.py")
model = importlib.util.module_from_spec(_spec)
sys.modules[_spec.name] = model
_spec.loader.exec_module(model)


#: Small searches of the model; `make test-slow` makes the others.
SMALL = {"chains", "rebinning", "F1 dropped", "F5 dropped", "no poison"}


@pytest.mark.parametrize(
    "name", [name if name in SMALL else pytest.param(name, marks=pytest.mark.slow) for name in model.CASES]
)
def test_the_protocol_holds_and_every_mutation_is_found_out(name):
    if (lacks := model.missing()) is not None:
        pytest.skip(lacks)
    case = model.CASES[name]
    outcome = model.check(case)
    assert model.verdict(case, outcome) is None
    if case.found is None:
        assert outcome.states > 1000, "the model does next to nothing"


def test_the_mutations_the_model_knows_are_those_that_are_checked():
    known = set(re.findall(r"#ifn?def ([A-Z]\w+)", model.MODEL.read_text()))
    used = {option for case in model.CASES.values() for option in case.options if "=" not in option}
    sizes = {"N_WORKERS", "N_BUCKETS", "N_HEADS", "MAX_WORDS", "N_BLOCKS", "CHAIN"}
    assert known - sizes == used


def test_the_model_cites_invariants_that_the_design_defines():
    defined = set(
        re.findall(r"^\| (I\d+|F\d+)\b", (ROOT / "docs/design/0002-adds-queue.md").read_text(), re.M)
    )
    cited = set(re.findall(r"\b[IF]\d+\b", model.MODEL.read_text()))
    assert cited <= defined
    assert defined - cited <= {"F3", "F4", "I8"}
