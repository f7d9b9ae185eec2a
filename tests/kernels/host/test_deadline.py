"""Deadlines: every solver ends a search that takes too long, and a clock that steps back ends none."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.generators import grid, path, star
from sssp_pipeline.kernels import SOLVERS, solver_named
from sssp_pipeline.kernels.contract.kept import EveryVertex
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.adds.adds import Adds
from sssp_pipeline.kernels.gpu.common.cuda import compile
from sssp_pipeline.kernels.gpu.frontier_bellman_ford.frontier_bellman_ford import FrontierBellmanFord
from sssp_pipeline.kernels.gpu.near_far.near_far import NearFar
from sssp_pipeline.kernels.gpu.papers.adaptive_threads.adaptive_threads import AdaptiveThreads
from sssp_pipeline.pipeline.planning.work import solve_options
from sssp_pipeline.workflow.models import Solve

ON = {
    device: pytest.mark.parametrize(
        "solver", [pytest.param(s, id=n) for n, s in SOLVERS.items() if s.device == device]
    )
    for device in ("cpu", "gpu")
}
ANY = SolveOptions()
HURRIED = SolveOptions(deadline_s=0.01)


def made(edges, weights=None, order=None):
    src, dst = (ends if order is None else order[ends] for ends in (edges.src, edges.dst))
    return csr_from_edges(src, dst, edges.weights if weights is None else weights, edges.n_vertices)


def long_path(weights=None):
    """A path that takes a GPU far longer than `HURRIED`, its vertices in no order."""
    edges = path(2**17)
    return made(edges, weights, np.random.default_rng(7).permutation(edges.n_vertices))


def assert_exact(solver, graph, sources):
    expected = solver_named("delta-stepping").solve(graph, np.array(sources), ANY).distances
    assert_array_equal(solver.solve(graph, np.array(sources), ANY).distances, expected)


# ---- what needs no GPU ----


@pytest.mark.parametrize(
    ("deadline_s", "ns"), [(0.5, 500_000_000), (86_400, 86_400 * 10**9), (math.inf, 2**63)]
)
def test_a_deadline_fits_the_kernels_64_bits(deadline_s, ns):
    assert SolveOptions(deadline_s=deadline_s).deadline_ns == ns


def test_the_workflows_deadline_reaches_the_solver():
    options = solve_options(Solve(deadline_s=2.5), EveryVertex())
    assert (options.deadline_s, options.preparation_s) == (2.5, 2.5)
    assert solve_options(Solve(), EveryVertex()).deadline_s == ANY.deadline_s == 86_400


@ON["cpu"]
def test_a_cpu_solver_raises_the_error_when_the_source_is_done(solver):
    edges = grid(20, 20)
    graph = made(edges, np.ones_like(edges.weights))
    with pytest.raises(SsspError) as caught:
        solver.solve(graph, np.array([3]), SolveOptions(deadline_s=1e-9))
    assert caught.value.message == (
        f"`{solver.name}` took longer for source 3 than `solve.deadline_s` allows, 1e-09 s"
    )
    assert caught.value.hint.startswith("set `solve.deadline_s` higher and run the same command again")
    assert_exact(solver, graph, [3])


# ---- on the GPU ----


@pytest.mark.gpu
@ON["gpu"]
def test_a_gpu_solver_gives_a_search_up_at_its_deadline_and_leaves_the_gpu_usable(solver):
    graph = long_path(np.ones(2 * (2**17 - 1), np.uint32) if solver.takes_equal_only else None)
    # A sweep takes as long for a path as for any tree. It is not given up, but its result is.
    hurried = SolveOptions(deadline_s=1e-6) if solver.counts_arcs else HURRIED
    with pytest.raises(SsspError, match=r"than `solve.deadline_s` allows, (0\.01|1e-06) s") as caught:
        solver.solve(graph, np.array([graph.n_vertices // 2]), hurried)
    assert caught.value.message.startswith(f"`{solver.name}` took longer for source")
    edges = grid(30, 30)
    weights = np.ones_like(edges.weights) if solver.takes_equal_only else None
    assert_exact(solver, made(edges, weights), [5, 6])


@pytest.mark.gpu
@pytest.mark.parametrize(
    "solver", [pytest.param(s, id=n) for n, s in SOLVERS.items() if s.device == "gpu" and s.takes_negative]
)
def test_a_search_that_pauses_has_one_deadline_in_all(solver):
    graph = long_path(np.where(np.arange(2 * (2**17 - 1)) == 0, -1, 1000).astype(np.int32))
    with pytest.raises(SsspError, match=r"than `solve.deadline_s` allows, 0\.01 s"):
        solver.solve(graph, np.array([graph.n_vertices // 2]), HURRIED)
    solver.solve(made(grid(30, 30)), np.array([5]), ANY)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "solver",
    [
        # One thread walks the hub, or one block the path; the others wait for it in a barrier.
        pytest.param(AdaptiveThreads(mode="all"), id="adaptive-threads"),
        pytest.param(FrontierBellmanFord(), id="frontier-bellman-ford"),
        pytest.param(NearFar(), id="near-far"),
        pytest.param(Adds(), id="adds"),
        pytest.param(solver_named("adds-slots"), id="adds-slots"),
        pytest.param(solver_named("adds-lanes"), id="adds-lanes"),
    ],
)
def test_a_clock_that_steps_back_gives_no_search_up(solver, monkeypatch):
    options = compile.kernel_options
    monkeypatch.setattr(
        compile, "kernel_options", lambda *a, **k: (*options(*a, **k), "-DSSSP_CLOCK_RUNS_BACK=1")
    )
    for graph in (made(star(200_000)), made(path(5000))):
        assert_exact(solver, graph, [0])
