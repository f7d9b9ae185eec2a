"""Whether searches from the targets gain, by forecasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.kernels.contract.kept import Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.planning.choice import refusals
from sssp_pipeline.pipeline.planning.direction import gains, turned
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work

N_VERTICES = 1_000_000
TRAITS = GraphTraits(N_VERTICES, 2_500_000, np.dtype("uint32"), 1.0, 1000.0, 500.0, 1.1)
TARGETS, SOURCES = np.arange(10, dtype=np.uint32), np.arange(N_VERTICES // 2, dtype=np.uint32)
FORWARD = Work(TRAITS, SolveOptions(kept=Targets(TARGETS)), len(SOURCES), batch=1000)


@pytest.mark.parametrize("solver", ["auto", "dijkstra"])
def test_few_targets_gain_and_many_do_not(solver):
    machine = Machine(2, None)
    assert gains(solver, FORWARD, turned(FORWARD, SOURCES, len(TARGETS)), machine, is_reversed=True)
    many = turned(FORWARD, SOURCES, len(SOURCES) // 2 + 1)
    assert not gains(solver, FORWARD, many, machine, is_reversed=True)


def test_a_solver_that_cannot_search_backward_gains_nothing():
    backward = turned(FORWARD, SOURCES, len(TARGETS))
    # On a GPU, the distances to the sources take memory that the distances to a few targets do not.
    machines = (Machine(2, gpu_free_bytes=size * 2**20) for size in range(1, 2**10))
    machine = next(m for m in machines if "adds" not in refusals(FORWARD, m))
    assert "adds" in refusals(backward, machine)
    assert not gains("adds", FORWARD, backward, machine, is_reversed=True)
    roomy = replace(machine, gpu_free_bytes=2**34)
    assert gains("adds", FORWARD, backward, roomy, is_reversed=True)
