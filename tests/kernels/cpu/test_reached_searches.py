"""Solvers that make no rows: what differs from rows. `tests/conformance/` compares what they find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sssp_pipeline.base.csr import WEIGHT_DTYPES, CsrGraph, csr_from_edges, unreached_distance
from sssp_pipeline.base.errors import DeadlineError, InputError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import Targets
from sssp_pipeline.kernels.contract.row_facts import RowFacts
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.host.reached_values import reached_of, reached_values

LISTING = pytest.mark.parametrize("name", ["delta-stepping", "dijkstra"])
REACHED = SolveOptions(reached_only=True)


def line(n_vertices: int, dtype: str = "uint32") -> CsrGraph:
    """A path both ways with weights of 1."""
    first = np.arange(n_vertices - 1)
    ends = np.concatenate([first, first + 1]), np.concatenate([first + 1, first])
    return csr_from_edges(*ends, np.ones(2 * len(first), dtype), n_vertices)


def assert_same(solver, graph, sources, options, ends):
    rows = solver.solve(graph, sources, replace(options, reached_only=False)).distances
    parts = list(solver.solve_parts(graph, sources, options, ends))
    for first, end, part in zip([0, *ends], ends, parts, strict=False):
        for found, true in zip(
            vars(part.reached).values(), vars(reached_values(rows[first:end])).values(), strict=True
        ):
            np.testing.assert_array_equal(found, true)


@LISTING
@pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)
def test_a_source_that_reaches_much_leaves_nothing_for_the_next(name, dtype):
    graph, sources = line(1000, dtype), np.array([500, 3, 500, 3, 999, 0])
    for cutoff in (0, 31, 32, 64, 70, 400, 998, None):  # a list has room for 64 vertices
        assert_same(SOLVERS[name], graph, sources, replace(REACHED, cutoff=cutoff), [1, 2, 6])


def test_a_vertex_that_is_processed_twice_is_reached_once():
    n = 60
    edges = [(i, j, 4 * (j - i) ** 2) for i in range(n) for j in range(i + 1, n)]
    src, dst, weights = np.array(edges).T
    graph = csr_from_edges(src, dst, weights.astype(np.uint32), 10 * n)
    solver, options = SOLVERS["delta-stepping"], replace(REACHED, delta=1e9)
    metrics = solver.solve(graph, np.array([0, 36]), options).metrics
    assert metrics[0].vertices_processed > 64 > metrics[0].reached == n
    assert 64 > metrics[1].vertices_processed > metrics[1].reached == 24
    assert_same(solver, graph, np.array([0, 36, 0]), options, [3])


@LISTING
def test_a_path_too_long_is_an_error_and_one_that_just_fits_is_not(name):
    graph = csr_from_edges(
        np.array([0, 1, 3]), np.array([1, 2, 0]), np.array([2**32 - 3, 5, 1], np.uint32), 4
    )
    solver = SOLVERS[name]
    with pytest.raises(InputError) as caught:
        solver.solve(graph, np.array([1, 3]), REACHED)
    assert caught.value.message == "the shortest path from `3` to `2` is longer than uint32 holds"
    assert_same(solver, graph, np.array([3, 1, 3]), replace(REACHED, cutoff=2**32 - 2), [3])
    cut = CsrGraph(np.array([0, 1, 1, 1, 2]), np.array([1, 0], np.uint32), graph.weights[[0, 2]])
    assert_same(solver, cut, np.array([3, 1, 3]), REACHED, [3])


@LISTING
def test_a_search_beyond_its_deadline_is_an_error(name):
    with pytest.raises(DeadlineError):
        SOLVERS[name].solve(line(1000), np.array([7]), replace(REACHED, deadline_s=1e-9))


@LISTING
def test_rows_are_made_for_what_needs_them(name):
    graph, solver = line(10), SOLVERS[name]
    for options, shape in (
        (replace(REACHED, predecessors=True), (1, 10)),
        (replace(REACHED, kept=Targets(np.array([2, 3]))), (1, 2)),
    ):
        solution = solver.solve(graph, np.array([1]), options)
        assert solution.reached is None
        assert solution.distances.shape == shape
    assert solver.solve(graph, np.array([], int), REACHED).reached.counts.shape == (0,)


def test_packed_rows_reach_the_same():
    unreached = unreached_distance(np.dtype("uint32"))
    rows = np.array([[5, unreached, 7], [unreached, unreached, 9]], np.uint32)
    packed = np.array([[5, 7, 0], [9, 0, 0]], np.uint32)
    bits, n_present = np.array([[0b101], [0b100]], np.uint32), np.array([[2], [1]], np.uint32)
    facts = RowFacts(packed[:, :1], packed[:, :1], None, n_present, n_present, bits)
    expected = reached_values(rows)
    for solution in (Solution(packed, None, facts=facts), Solution(rows, None)):
        for found, true in zip(vars(reached_of(solution)).values(), vars(expected).values(), strict=True):
            np.testing.assert_array_equal(found, true)
            assert found.dtype == true.dtype
