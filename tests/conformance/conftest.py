"""What the tests of all solvers share: the solvers with the types of weights, an oracle, and checks of a solution."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.sparse import csr_array

import sssp_pipeline as sp
from sssp_pipeline.base.csr import (
    NO_VERTEX,
    WEIGHT_DTYPES,
    CsrGraph,
    GraphTraits,
    csr_from_edges,
    unreached_distance,
)
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.host.reached_values import reached_values
from sssp_pipeline.kernels.proofs.certificate import find_wrong_distance
from sssp_pipeline.workflow.section import Direction


def pytest_generate_tests(metafunc):
    """Give a test that takes a `solver` each one. With `dtype` or `integer`: each type, or type of integers, it takes.

    `LEAST_WEIGHT` of a module is the least weight of its graphs.
    """
    if "solver" not in metafunc.fixturenames:
        return
    taken = {name for mark in metafunc.definition.iter_markers("parametrize") for name in mark.args[:1]}
    types = [name for name in ("dtype", "integer") if name in metafunc.fixturenames and name not in taken]
    least = getattr(metafunc.module, "LEAST_WEIGHT", 1)
    cases = []
    for name, solver in SOLVERS.items():
        marks = [pytest.mark.gpu] if solver.device == "gpu" else []
        if not types:
            cases.append(pytest.param(solver, id=name, marks=marks))
        for dtype in WEIGHT_DTYPES if types else []:
            traits = GraphTraits(2, 1, dtype, least, 1, 1, 1)
            is_wanted = dtype.kind in ("iuf" if types == ["dtype"] else "iu") and (
                least > 0 or dtype.kind != "u"
            )
            if is_wanted and solver.supports(traits, SolveOptions()) is None:
                cases.append(pytest.param(solver, dtype, id=f"{dtype}-{name}", marks=marks))
    metafunc.parametrize(("solver", *types), cases)


def make(n_vertices, edges, dtype, tenths=True):
    """The graph of (src, dst, weight) triples; floating weights become tenths, so that sums are rounded."""
    src, dst, weights = np.array(edges, np.int64).reshape(-1, 3).T
    if dtype.kind == "f" and tenths:
        weights = weights / 10
    return csr_from_edges(src, dst, weights.astype(dtype), n_vertices)


@lru_cache(maxsize=1024)
def fitted(solver, graph):
    """The `graph`, or its edges with equal weights for a solver that takes no others."""
    weights = np.full_like(graph.weights, 0.7 if graph.weight_dtype.kind == "f" else 7)
    equal = CsrGraph(graph.row_offsets, graph.col_indices, weights)
    able = [some for some in (graph, equal) if solver.supports(some.traits, SolveOptions()) is None]
    return able[0] if able else graph


@lru_cache(maxsize=1024)
def oracle(graph, source, cutoff=None):
    """The distances from `source`; those beyond the cutoff are unreached."""
    distances = np.full(graph.n_vertices, unreached_distance(graph.weight_dtype), graph.weight_dtype)
    for v, d in lengths(graph, source).items():
        if cutoff is None or d <= cutoff:
            distances[v] = d
    distances.flags.writeable = False
    return distances


@lru_cache(maxsize=1024)
def lengths(graph, source):
    """Rounds over all edges; sums of integers are exact, sums of floats are numpy's in the weights' type."""
    dtype = graph.weight_dtype
    number = dtype.type if dtype.kind == "f" else int
    unreached = unreached_distance(dtype)
    best = {source: number(0)}
    src = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets)).tolist()
    edges = list(zip(src, graph.col_indices.tolist(), map(number, graph.weights), strict=True))
    was_lowered = True
    with np.errstate(over="ignore"):
        for _ in range(graph.n_vertices + 1):
            if not was_lowered:
                break
            was_lowered = False
            for u, v, weight in edges:
                if u in best and (candidate := best[u] + weight) < best.get(v, unreached):
                    best[v] = candidate
                    was_lowered = True
    assert not was_lowered
    return best


def assert_predecessors(graph, source, distances, predecessors):
    """Each reached vertex hangs on a tight edge, the right one is taken, and the way back ends at the source."""
    reached = distances != unreached_distance(distances.dtype)
    assert predecessors.dtype == np.uint32
    assert_array_equal(predecessors != NO_VERTEX, reached & (np.arange(graph.n_vertices) != source))
    assert_array_equal(predecessors, right_predecessors(graph, source, distances))
    is_done = np.zeros(graph.n_vertices, bool)
    is_done[source] = True
    for v in np.flatnonzero(reached).tolist():
        way = [v]
        while not is_done[way[-1]]:
            way.append(int(predecessors[way[-1]]))
            assert len(way) <= graph.n_vertices, "the predecessors run in a circle"
        is_done[way] = True


def right_predecessors(graph, source, distances):
    """The smallest vertex on a tight edge from a nearer one; else the smallest on the fewest edges of length 0.

    With negative weights, the smallest on the fewest edges.
    """
    src = np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))
    dst, weights = graph.col_indices, graph.weights
    with np.errstate(over="ignore"):
        sums = distances[src] + weights
    fits = np.where(weights >= 0, sums >= distances[src], sums <= distances[src])  # a wrapped sum does not
    is_tight = (sums == distances[dst]) & fits & (sums != unreached_distance(sums.dtype))
    is_nearer = is_tight & (distances[src] < distances[dst]) & (graph.traits.min_weight >= 0)
    found = np.full(graph.n_vertices, NO_VERTEX)
    np.minimum.at(found, dst[is_nearer], src[is_nearer])
    is_level = found != NO_VERTEX
    is_level[source] = True
    while is_level.any():
        is_next = is_tight & is_level[src] & (found[dst] == NO_VERTEX) & (dst != source)
        np.minimum.at(found, dst[is_next], src[is_next])
        is_level[:] = False
        is_level[dst[is_next]] = True
    return found


def mean_of(finite):
    """The mean; magnitudes of floats are rounded down to multiples of 2^-62 of the power of two below the largest."""
    if finite.dtype.kind != "f":
        return float(Fraction(sum(finite.tolist()), len(finite)))
    power = max(math.frexp(np.abs(finite).max())[1] - 1, int(np.finfo(finite.dtype).minexp))
    units = sum(int(math.ldexp(d, 62 - power)) for d in finite.tolist())
    return float(units * Fraction(2) ** (power - 62) / len(finite))


def assert_solves(solver, graph, sources, options):
    solution = solver.solve(graph, np.array(sources, np.uint32), options)
    assert solution.distances.dtype == graph.weight_dtype
    assert solution.distances.shape == (len(sources), graph.n_vertices)
    assert len(solution.metrics) == len(sources)
    assert (solution.predecessors is not None) == options.predecessors
    for i, source in enumerate(sources):
        row, metrics = solution.distances[i], solution.metrics[i]
        assert_array_equal(row, oracle(graph, source, options.cutoff))
        assert find_wrong_distance(graph, source, row, options.cutoff) is None
        if solution.predecessors is not None:
            assert_predecessors(graph, source, row, solution.predecessors[i])
        reached = row != unreached_distance(row.dtype)
        edges = int(np.diff(graph.row_offsets)[reached].sum())
        assert (metrics.source, metrics.solver, metrics.reached) == (source, solver.name, reached.sum())
        assert metrics.max_distance == row[reached].max()
        assert metrics.mean_distance == mean_of(row[reached])
        assert metrics.vertices_processed >= metrics.reached
        assert metrics.edges_relaxed >= (0 if solver.counts_arcs else edges)
        assert metrics.solve_s > 0
        assert math.isclose(metrics.teps * metrics.solve_s, edges)
    assert_reached(solver, graph, solution, options)
    return solution


def assert_reached(solver, graph, full, options):
    """A solver that makes no rows finds the same: what the rows of the solution `full` reach, and its metrics."""
    options = replace(options, predecessors=False, reached_only=True)
    if not solver.yields_reached(graph.traits, options):
        return
    sources = np.array([m.source for m in full.metrics], int)
    ends = sorted({1, len(sources)}) if len(sources) else [0]
    first = 0
    for end, part in zip(ends, solver.solve_parts(graph, sources, options, ends), strict=True):
        assert part.distances.shape == (end - first, 0)
        expected = reached_values(full.distances[first:end])
        for name in ("counts", "vertices", "distances"):
            found, true = getattr(part.reached, name), getattr(expected, name)
            assert (found.dtype, found.tobytes()) == (true.dtype, true.tobytes()), name
        for one, other in zip(part.metrics, full.metrics[first:end], strict=True):
            assert math.isclose(one.teps * one.solve_s, other.teps * other.solve_s)
            assert one.solve_s > 0
            times = {"solve_s": 0, "teps": 0}
            assert replace(one, **times) == replace(other, **times)
        first = end


def assert_columns(solver, graph, full, options, targets):
    """Compare what is kept for `targets` with the columns of the solution `full`, and the metrics of both."""
    some = solver.solve(graph, np.array([m.source for m in full.metrics], int), options)
    assert some.distances.dtype == graph.weight_dtype
    assert_array_equal(some.distances, full.distances[:, np.array(targets, int)])
    assert some.predecessors is None
    for one, other in zip(some.metrics, full.metrics, strict=True):
        for name in ("source", "solver", "reached", "max_distance", "mean_distance"):
            assert getattr(one, name) == getattr(other, name)


def assert_backward(solver, graph, sources, targets, cutoff=None):
    """Searches from the targets find what searches from the sources find: distances, and the nearest targets."""
    matrix = csr_array((graph.weights, graph.col_indices, graph.row_offsets), (graph.n_vertices,) * 2)
    prepared = sp.prepare(matrix, dtype=graph.weight_dtype)
    options = {"targets": targets, "cutoff": cutoff, "solver": solver.name, "direction": "backward"}
    expected = [oracle(graph, source, cutoff)[targets] for source in sources]
    found = sp.solve(prepared, sources, **options)
    shape = len(sources), len(targets)
    assert_array_equal(found.numpy(), np.array(expected, graph.weight_dtype).reshape(shape))
    nearest = [
        sp.nearest(prepared, sources, 3, **options | {"direction": way}) for way in get_args(Direction)
    ]
    assert nearest[0] == nearest[1] == nearest[2]
    return found


@pytest.fixture(scope="session")
def exact():
    """Give the functions of this file."""
    return SimpleNamespace(
        make=make,
        fitted=fitted,
        oracle=oracle,
        assert_solves=assert_solves,
        assert_columns=assert_columns,
        assert_backward=assert_backward,
    )
