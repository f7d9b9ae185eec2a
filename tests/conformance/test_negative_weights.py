"""Every solver on graphs with negative weights, exact against Bellman and Ford in pure Python, and against SciPy."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy.sparse import csgraph, csr_array

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError, NegativeCycleError, PathTooLongError, PathTooShortError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.proofs.certificate import find_wrong_distance

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
#: Every solver is taken with every type of which it takes negative weights.
LEAST_WEIGHT = -1


def shifted(edges, heights):
    """The same paths are shortest if every edge is longer by the height it leaves and shorter by the one it gains."""
    return [(u, v, weight + heights[u] - heights[v]) for u, v, weight in edges]


def lattice(side):
    right = [(i, i + 1, 1 + i * 7919 % 50) for i in range(side * side) if (i + 1) % side]
    down = [(i, i + side, 1 + i * 104729 % 50) for i in range(side * (side - 1))]
    return [*right, *down, *((v, u, w) for u, v, w in right + down)]


HEIGHTS = [(i * 65537) % 1013 for i in range(1300)]
#: name -> (vertices, edges, sources)
GRAPHS = {
    "one edge": (2, [(0, 1, -7)], [0, 1]),
    "into leaves": (
        40,
        [(0, i, i) for i in range(1, 20)] + [(i, i + 19, -3 * i) for i in range(1, 20)] + [(1, 39, -500)],
        [0],
    ),
    "leaves of leaves": (
        7,
        [(0, 1, 5), (0, 2, 9), (2, 1, -8), (1, 3, -2), (2, 3, -4), (3, 4, -1), (0, 5, -9)],
        [0, 2],
    ),
    "parallel edges": (3, [(0, 1, 4), (0, 1, -3), (0, 1, -3), (1, 2, -8), (1, 2, 2)], [0, 1]),
    "long path down": (3000, [(i, i + 1, -1 - i % 7) for i in range(2999)], [0, 2990]),
    "down and up again": (300, [(i, i + 1, -9 if i < 150 else 11) for i in range(299)], [0, 149]),
    "shifted lattice": (400, shifted(lattice(20), HEIGHTS), [0, 210]),
    "shifted hubs": (
        1300,
        shifted(
            [(hub, 2 + i, 1 + (i * 7919 + hub * 31) % 2000) for hub in (0, 1) for i in range(1298)]
            + [(2 + i, i % 2, 3 + i % 5) for i in range(1298)],
            HEIGHTS,
        ),
        [0, 700],
    ),
    "shorter by many edges": (
        60,
        [(i, j, -(j - i)) for i in range(60) for j in range(i + 1, 60)] + [(i, i + 1, -2) for i in range(59)],
        [0],
    ),
    "negative cycle out of reach": (
        9,
        [(0, 1, 3), (1, 2, -2), (2, 0, 1), (3, 4, -1), (4, 3, -1), (3, 0, -5), (5, 5, -1), (0, 6, 4)],
        [0, 1],
    ),
    "2^16+1 vertices": (2**16 + 1, [(0, 2**16, -3), (2**16, 2**15, 4), (2**15, 1, -5)], [0, 2**16]),
}
#: Cycles of length zero, which floats round to something else.
ZERO_CYCLES = {
    "cycle": (5, [(0, 1, 4), (1, 2, -6), (2, 3, 1), (3, 1, 5), (3, 4, -1)], [0, 1, 3]),
    "edges both ways": (4, [(0, 1, -5), (1, 0, 5), (1, 2, 3), (2, 1, -3), (2, 3, 0), (3, 2, 0)], [0, 2, 3]),
    "self-loop": (2, [(0, 0, 0), (0, 1, -4), (1, 1, 0)], [0, 1]),
    "flat lattice": (100, shifted([(u, v, 0) for u, v, _ in lattice(10)], HEIGHTS), [0, 55]),
}
#: name -> (vertices, edges, source, the vertices of the only negative cycle)
NEGATIVE_CYCLES = {
    "self-loop at the source": (2, [(0, 0, -1), (0, 1, 3)], 0, {0}),
    "self-loop": (3, [(0, 1, 5), (1, 1, -1), (1, 2, 3)], 0, {1}),
    "through the source": (4, [(0, 1, 5), (1, 2, 4), (2, 0, -10), (2, 3, 1)], 0, {0, 1, 2}),
    "there and back": (3, [(0, 1, 1), (1, 2, -3), (2, 1, 2)], 0, {1, 2}),
    "near": (6, [(0, 1, 100), (1, 2, -3), (2, 3, 1), (3, 1, 1), (3, 4, 5), (0, 5, 1)], 0, {1, 2, 3}),
    "far": (2003, [(i, i + 1, 1 + i % 3) for i in range(2002)] + [(2002, 2000, -99)], 0, {2000, 2001, 2002}),
    "long": (600, [(i, (i + 1) % 600, 1 if i else -600) for i in range(600)], 300, set(range(600))),
    "in a lattice": (401, [*shifted(lattice(20), HEIGHTS), (399, 400, 7), (400, 399, -8)], 0, {399, 400}),
    "that a leaf hides": (5, [(0, 1, 2), (1, 2, -4), (2, 1, 3), (2, 3, -1), (0, 4, 1)], 0, {1, 2}),
}


@pytest.fixture(scope="session")
def graph_named(exact):
    """Give a function that returns one of `GRAPHS`. All solvers get the same, so that its oracle runs once."""
    return cache(lambda name, dtype: exact.make(*GRAPHS[name][:2], dtype))


@pytest.mark.parametrize("name", GRAPHS)
def test_negative_weights(solver, dtype, name, exact, graph_named):
    graph, sources = graph_named(name, dtype), GRAPHS[name][2]
    exact.assert_solves(solver, graph, sources, SolveOptions(predecessors=True))
    for cutoff in (0, 2.5, 40):
        exact.assert_solves(solver, graph, sources, SolveOptions(cutoff=cutoff))


@pytest.mark.parametrize("name", GRAPHS)
def test_backward_is_forward(solver, integer, name, exact, graph_named):
    n_vertices, _, sources = GRAPHS[name]
    vertices = [*range(n_vertices)][:: max(1, n_vertices // 7)]
    found = exact.assert_backward(
        solver, graph_named(name, integer), sources, [*vertices, *sources, vertices[0]]
    )
    # Backward, a cycle is in reach that no source reaches. Then the sources are searched from.
    assert found.direction == ("forward" if name == "negative cycle out of reach" else "backward")


@pytest.mark.parametrize("name", ZERO_CYCLES)
def test_cycles_of_length_zero(solver, dtype, name, exact):
    n_vertices, edges, sources = ZERO_CYCLES[name]
    graph = exact.make(n_vertices, edges, dtype, tenths=False)
    exact.assert_solves(solver, graph, sources, SolveOptions(predecessors=True))


@pytest.mark.medium
@EXAMPLES
@given(data=st.data())
def test_random_graphs(solver, dtype, data, exact):
    n_vertices = data.draw(st.integers(1, 25))
    vertex, weight = st.integers(0, n_vertices - 1), st.sampled_from([1, 1, 2, 3, 10, 999])
    heights = data.draw(
        st.lists(st.sampled_from([0, 0, 1, 5, 60, 2000]), min_size=n_vertices, max_size=n_vertices)
    )
    on_path = data.draw(st.integers(0, n_vertices - 1))
    edges = [(i, i + 1, data.draw(weight)) for i in range(on_path)]
    edges += data.draw(st.lists(st.tuples(vertex, vertex, weight), max_size=50))
    # Tenths would round a cycle of length zero to something else; these cycles are longer than any rounding.
    graph = exact.make(n_vertices, shifted(edges, heights), dtype)
    options = SolveOptions(cutoff=data.draw(st.sampled_from([None, None, 0, 3, 100.5])))
    exact.assert_solves(solver, graph, [data.draw(vertex), 0], options)


@pytest.mark.parametrize("name", NEGATIVE_CYCLES)
def test_a_negative_cycle_is_found_and_named(solver, dtype, name, exact):
    n_vertices, edges, source, vertices = NEGATIVE_CYCLES[name]
    graph = exact.make(n_vertices, edges, dtype)
    lone = csr_from_edges(  # a source before it that no negative cycle can be reached from
        *np.array([*((u, v) for u, v, _ in edges), (n_vertices, n_vertices + 1)]).T,
        np.append([w for *_, w in edges], 1).astype(dtype),
        n_vertices + 2,
    )
    for searched, sources in ((graph, [source]), (lone, [n_vertices, source])):
        with pytest.raises(NegativeCycleError) as caught:
            solver.solve(searched, np.array(sources), SolveOptions())
        error = caught.value
        assert error.source == source
        assert set(error.cycle) == vertices
        assert len(error.cycle) == len(vertices)
        total = Fraction(0)
        for u, v in zip(error.cycle, [*error.cycle[1:], error.cycle[0]], strict=True):
            row = slice(searched.row_offsets[u], searched.row_offsets[u + 1])
            total += Fraction(searched.weights[row][searched.col_indices[row] == v].min().item())
        assert total < 0
        assert error.length == pytest.approx(float(total), rel=1e-6)


def test_targets_are_columns_of_all_distances(solver, dtype, exact, graph_named):
    graph, sources = graph_named("shifted lattice", dtype), np.array(GRAPHS["shifted lattice"][2])
    full = solver.solve(graph, sources, SolveOptions(cutoff=300))
    for targets in ([399, 0, 7, 399], []):
        kept = Targets(np.array(targets)) if targets else Nothing()
        exact.assert_columns(solver, graph, full, SolveOptions(cutoff=300, kept=kept), targets)


def test_answers_are_those_of_numpy(solver, dtype, numpy_answers, graph_named):
    graph, sources = graph_named("shifted lattice", dtype), GRAPHS["shifted lattice"][2]
    for cutoff in (None, 300):
        full = solver.solve(graph, np.array(sources), SolveOptions(cutoff=cutoff)).distances
        amounts = np.arange(graph.n_vertices)[np.newaxis]
        for kept in (Reductions((0, 40, 250.5), amounts, True, (0, 40, 250.5), (0, 0.3, 1)), Reductions()):
            some = solver.solve(graph, np.array(sources), SolveOptions(cutoff=cutoff, kept=kept))
            numpy_answers.assert_reduced(kept, some.distances, full)
        over = OverSources(True, True, (0, 40, 250.5))
        options = SolveOptions(cutoff=cutoff, kept=Reductions(over_sources=over))
        parts = list(solver.solve_parts(graph, np.array(sources), options, [1, 2]))
        for i in range(2):
            of_part = full[[i]], sources[i : i + 1]
            numpy_answers.assert_over_sources(over, parts[i].over_sources, *of_part, graph.traits)
        for nearest in (NearestOfRow(5), NearestOfRow(2, np.array([399, 0, 7]))):
            some = solver.solve(graph, np.array(sources), SolveOptions(cutoff=cutoff, kept=nearest))
            numpy_answers.assert_nearest(nearest, some.distances, full)


def test_paths_that_do_not_fit_their_type(solver, integer, exact):
    most = int(np.iinfo(integer).max)
    graph = exact.make(5, [(0, 1, -(most - 1)), (0, 2, most - 5), (2, 3, 4), (3, 4, -most)], integer)
    exact.assert_solves(solver, graph, [0, 2], SolveOptions())
    for edges, error, message in (
        ([(0, 1, -most), (1, 2, -2)], PathTooShortError, f"is shorter than {integer}"),
        ([(0, 1, most - 1), (1, 2, 2), (0, 3, -1)], PathTooLongError, f"is longer than {integer} holds"),
    ):
        graph = exact.make(4, edges, integer)
        for cutoff in (None, 100):
            with pytest.raises(error, match=f"the shortest path from `0` to `2` {message}"):
                solver.solve(graph, np.array([3, 0]), SolveOptions(cutoff=cutoff))


def test_what_comes_back_from_beyond_the_cutoff_is_within_it(solver, integer, exact):
    graph = exact.make(4, [(0, 1, 50), (1, 2, -45), (2, 3, -20)], integer)
    solution = solver.solve(graph, np.array([0]), SolveOptions(cutoff=10))
    assert solution.distances[0].tolist() == [0, np.iinfo(integer).max, 5, -15]
    with pytest.raises(InputError, match="so there are predecessors only without a cutoff"):
        solver.solve(graph, np.array([0]), SolveOptions(cutoff=10, predecessors=True))


def test_the_same_as_scipy(solver, integer):
    random = np.random.default_rng(5)
    src, dst = np.unique(random.integers(0, 200, (2, 900)), axis=1)  # SciPy adds up parallel edges
    heights = random.integers(0, 500, 200)
    weights = random.integers(1, 100, len(src)) + heights[src] - heights[dst]
    graph = csr_from_edges(src, dst, weights.astype(integer), 200)
    matrix = csr_array((weights.astype(float), (src, dst)), shape=(200, 200))
    sources = np.arange(0, 200, 29)
    got = solver.solve(graph, sources, SolveOptions()).distances.astype(float)
    got[got == float(np.iinfo(integer).max)] = np.inf
    for theirs in (csgraph.bellman_ford, csgraph.johnson):
        assert_array_equal(got, theirs(matrix, indices=sources))


def test_floats_whose_cycle_rounding_makes_negative_are_told_so():
    graph = csr_from_edges(
        np.array([0, 1, 2, 3]), np.array([1, 2, 3, 1]), np.array([1e6, 0.1, 0.2, -0.3], np.float64), 4
    )
    with pytest.raises(NegativeCycleError) as caught:
        SOLVERS["queue-bellman-ford"].solve(graph, np.array([0]), SolveOptions())
    assert caught.value.length >= 0
    assert caught.value.message.endswith(" makes paths ever shorter by rounding")
    assert caught.value.hint == "use integer weights, or a wider type: `graph.weights.dtype: float64`"


def test_a_wrong_distance_is_found(exact):
    n_vertices, edges, _ = GRAPHS["shifted lattice"]
    graph = exact.make(n_vertices, edges, np.dtype("int32"))
    for cutoff in (None, 200):
        true = exact.oracle(graph, 0, cutoff)
        for vertex in range(1, 400, 37):
            wrong = true.copy()
            wrong[vertex] -= 3
            fault = find_wrong_distance(graph, 0, wrong, cutoff)
            assert (fault.vertex, fault.stored) == (vertex, wrong[vertex])
            assert fault.true == (None if true[vertex] == 2**31 - 1 else true[vertex])
