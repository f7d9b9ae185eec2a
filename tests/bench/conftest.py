"""Solvers and lines that the tests of the bench share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.tunable import Tunable
from sssp_pipeline.kernels.cpu.delta_stepping import DeltaStepping

# Modules beside this one are found by name only when they are loaded already.
_spec = importlib.util.spec_from_file_location("made_lines", Path(__file__).with_name("made_lines.py"))
_spec.loader.exec_module(sys.modules.setdefault("made_lines", importlib.util.module_from_spec(_spec)))


class Tuned(DeltaStepping):
    """Stands in for the solvers that have options."""

    name = "tuned"
    tunables = (
        Tunable("sorts", False, "Sorts.", choices=(True, False)),
        Tunable("lanes", "auto", "Lanes.", choices=("auto",), least=2, most=64, multiple_of=2),
    )

    def __init__(self, *, sorts: bool = False, lanes: int | str = "auto") -> None:
        if sorts and lanes == 8:
            raise InputError("8 lanes cannot sort", hint="take more")
        super().__init__()


@pytest.fixture
def tuned(monkeypatch):
    """Register a solver that has options."""
    monkeypatch.setitem(SOLVERS, "tuned", Tuned())
