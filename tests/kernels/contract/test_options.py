"""The options of each solver."""

from __future__ import annotations

import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.tunable import Tunable
from sssp_pipeline.kernels.host.solver import tuned


class Whole:
    name = "whole"
    tunables = (
        Tunable("block_size", 256, "Threads.", least=32, most=1024, multiple_of=32),
        Tunable("sync", "in-core", "How.", ("in-core", "out-of-core")),
        Tunable("leaves", True, "Whether.", (False, True)),
        Tunable("lanes", "dynamic", "How many.", ("dynamic", 1, 32)),
        Tunable("threshold_us", "auto", "When.", ("auto",), least=0.5, most=1e6),
    )

    def __init__(self, **given):
        self.given = given


def test_a_solver_is_set_up_with_what_is_given():
    solver = Whole()
    assert tuned(solver, {}) is solver
    given = {"block_size": 64, "sync": "out-of-core", "leaves": False, "threshold_us": 1.5}
    assert tuned(solver, given).given == given
    assert tuned(solver, {"threshold_us": "auto", "lanes": 32}).given == {"threshold_us": "auto", "lanes": 32}


@pytest.mark.parametrize(
    ("name", "value", "message", "hint"),
    [
        ("block_size", 48, "is 48", "it is a multiple of 32, 32 to 1,024"),
        ("block_size", 64.0, "is 64.0", "it is a multiple of 32, 32 to 1,024"),
        ("block_size", 2048, "is 2048", "it is a multiple of 32, 32 to 1,024"),
        ("block_size", True, "is true", "it is a multiple of 32, 32 to 1,024"),
        ("sync", "outcore", "is `outcore`", "it is `in-core` or `out-of-core`"),
        ("leaves", 1, "is 1", "it is false or true"),
        ("lanes", 16, "is 16", "it is `dynamic` or 1 or 32"),
        ("lanes", True, "is true", "it is `dynamic` or 1 or 32"),
        ("threshold_us", 0.1, "is 0.1", "it is `auto` or a number, 0.5 to 1,000,000"),
        ("threshold_us", float("nan"), "is nan", "it is `auto` or a number, 0.5 to 1,000,000"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_refused(name, value, message, hint):
    with pytest.raises(InputError) as caught:
        tuned(Whole(), {name: value})
    assert caught.value.message == f"option `{name}` of solver `whole` {message}"
    assert caught.value.hint == hint


def test_an_option_that_there_is_not_is_refused():
    with pytest.raises(InputError) as caught:
        tuned(Whole(), {"block_sise": 64})
    assert caught.value.message == "solver `whole` has no option `block_sise`"
    assert caught.value.hint == (
        "did you mean `block_size`? Options: block_size, lanes, leaves, sync, threshold_us"
    )
    with pytest.raises(InputError) as caught:
        solver_named("dijkstra", {"heap": 4})
    assert caught.value.message == "solver `dijkstra` has no option `heap`"
    assert caught.value.hint == "it has no options"


@pytest.mark.parametrize("solver", SOLVERS.values(), ids=lambda solver: solver.name)
def test_every_solver_takes_its_own_defaults(solver):
    defaults = {t.name: t.default for t in solver.tunables}
    assert all(t.takes(t.default) for t in solver.tunables)
    assert solver_named(solver.name, defaults).name == solver.name
