"""Every solver on graphs with negative weights, exact against Bellman and Ford in pure Python, and against SciPy."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import NO_VERTEX, WEIGHT_DTYPES, GraphTraits, csr_from_edges, unreached_distance
from sssp_pipeline.base.errors import InputError, NegativeCycleError, PathTooLongError, PathTooShortError
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.proofs.certificate import find_wrong_distance

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
SIGNED = [dtype for dtype in WEIGHT_DTYPES if dtype.kind != "u"]


def pairs(dtypes):
    """Every solver with every type of which it takes negative weights."""
    return pytest.mark.parametrize(
        ("solver", "dtype"),
        [
            pytest.param(
                solver, dtype, id=f"{name}-{dtype}", marks=[pytest.mark.gpu] if solver.device == "gpu" else []
            )
            for name, solver in SOLVERS.items()
            for dtype in dtypes
            if solver.supports(GraphTraits(2, 1, dtype, -1, -1, -1, 1), SolveOptions()) is None
        ],
    )


EVERY_PAIR = pairs(SIGNED)
INTEGERS = pairs([dtype for dtype in SIGNED if dtype.kind == "i"])


def make(n_vertices, edges, dtype, tenths=True):
    """The graph of (src, dst, weight) triples; floating weights become tenths, so that sums are rounded."""
    src, dst, weights = np.array(edges, np.int64).reshape(-1, 3).T
    if dtype.kind == "f" and tenths:
        weights = weights / 10
    return csr_from_edges(src, dst, weights.astype(dtype), n_vertices)


@lru_cache(maxsize=1024)
def oracle(graph, source, cutoff=None):
    """Rounds over all edges; sums of integers are exact, sums of floats are numpy's in the weights' type."""
    dtype = graph.weight_dtype
    number = dtype.type if dtype.kind == "f" else int
    best = {source: number(0)}
    edges = [
        (u, int(graph.col_indices[e]), number(graph.weights[e]))
        for u in range(graph.n_vertices)
        for e in range(graph.row_offsets[u], graph.row_offsets[u + 1])
    ]
    for _ in range(graph.n_vertices + 1):
        lowered = False
        for u, v, weight in edges:
            if u in best and (v not in best or best[u] + weight < best[v]):
                best[v] = best[u] + weight
                lowered = True
        if not lowered:
            break
    assert not lowered
    distances = np.full(graph.n_vertices, unreached_distance(dtype), dtype)
    for v, d in best.items():
        if cutoff is None or d <= cutoff:
            distances[v] = d
    distances.flags.writeable = False
    return distances


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


def assert_predecessors(graph, source, distances, predecessors):
    """Each reached vertex hangs on a tight edge, and the way back ends at the source after the fewest edges."""
    reached = distances != unreached_distance(distances.dtype)
    if graph.traits.min_weight < 0 and graph.n_vertices < 1000:
        assert_array_equal(predecessors, on_fewest_edges(graph, source, distances))
    assert_array_equal(predecessors != NO_VERTEX, reached & (np.arange(graph.n_vertices) != source))
    for v in np.flatnonzero(reached).tolist()[:400]:
        for _ in range(graph.n_vertices):
            if v == source:
                break
            above = int(predecessors[v])
            row = slice(graph.row_offsets[above], graph.row_offsets[above + 1])
            weights = graph.weights[row][graph.col_indices[row] == v]
            assert (distances[above] + weights == distances[v]).any()
            v = above
        assert v == source


def on_fewest_edges(graph, source, distances):
    """The predecessors on shortest paths of the fewest edges, the smallest vertex of several."""
    number = distances.dtype.type if distances.dtype.kind == "f" else int
    found = np.full(graph.n_vertices, NO_VERTEX)
    level, seen = [source], {source}
    while level:
        following = set()
        for u in sorted(level):
            for e in range(graph.row_offsets[u], graph.row_offsets[u + 1]):
                v = int(graph.col_indices[e])
                is_tight = number(distances[u]) + number(graph.weights[e]) == number(distances[v])
                if is_tight and v not in seen and found[v] == NO_VERTEX:
                    found[v] = u
                    following.add(v)
        seen |= following
        level = list(following)
    return found


def mean_of(finite):
    """The mean; magnitudes of floats are rounded down to multiples of 2^-62 of the power of two below the largest."""
    numbers = [Fraction(d) for d in finite.tolist()]
    if finite.dtype.kind == "f":
        power = max(math.frexp(np.abs(finite).max())[1] - 1, int(np.finfo(finite.dtype).minexp))
        unit = Fraction(2) ** (power - 62)
        numbers = [(abs(d) // unit) * unit * (1 if d >= 0 else -1) for d in numbers]
    return float(sum(numbers) / len(numbers))


def assert_solves(solver, graph, sources, options):
    solution = solver.solve(graph, np.array(sources, np.uint32), options)
    assert solution.distances.dtype == graph.weight_dtype
    for i, source in enumerate(sources):
        row = solution.distances[i]
        assert_array_equal(row, oracle(graph, source, options.cutoff))
        assert find_wrong_distance(graph, source, row, options.cutoff) is None
        if solution.predecessors is not None:
            assert_predecessors(graph, source, row, solution.predecessors[i])
        reached = row != unreached_distance(row.dtype)
        edges = int(np.diff(graph.row_offsets)[reached].sum())
        metrics = solution.metrics[i]
        assert (metrics.source, metrics.solver, metrics.reached) == (source, solver.name, reached.sum())
        if reached.any():
            assert metrics.max_distance == max(row[reached].max(), 0)
            assert metrics.mean_distance == mean_of(row[reached])
        assert metrics.vertices_processed >= metrics.reached
        assert metrics.edges_relaxed >= (0 if solver.counts_arcs else edges)
        assert math.isclose(metrics.teps * metrics.solve_s, edges)
    return solution


@lru_cache
def graph_named(name, dtype):
    """Return one of `GRAPHS`. All solvers get the same, so that its oracle runs once."""
    n_vertices, edges, _ = GRAPHS[name]
    return make(n_vertices, edges, dtype)


@EVERY_PAIR
@pytest.mark.parametrize("name", GRAPHS)
def test_negative_weights(solver, dtype, name):
    graph, sources = graph_named(name, dtype), GRAPHS[name][2]
    assert_solves(solver, graph, sources, SolveOptions(predecessors=True))
    for cutoff in (0, 2.5, 40):
        assert_solves(solver, graph, sources, SolveOptions(cutoff=cutoff))


@EVERY_PAIR
@pytest.mark.parametrize("name", ZERO_CYCLES)
def test_cycles_of_length_zero(solver, dtype, name):
    n_vertices, edges, sources = ZERO_CYCLES[name]
    graph = make(n_vertices, edges, dtype, tenths=False)
    assert_solves(solver, graph, sources, SolveOptions(predecessors=True))


@pytest.mark.medium
@EVERY_PAIR
@EXAMPLES
@given(data=st.data())
def test_random_graphs(solver, dtype, data):
    n_vertices = data.draw(st.integers(1, 25))
    vertex, weight = st.integers(0, n_vertices - 1), st.sampled_from([1, 1, 2, 3, 10, 999])
    heights = data.draw(
        st.lists(st.sampled_from([0, 0, 1, 5, 60, 2000]), min_size=n_vertices, max_size=n_vertices)
    )
    on_path = data.draw(st.integers(0, n_vertices - 1))
    edges = [(i, i + 1, data.draw(weight)) for i in range(on_path)]
    edges += data.draw(st.lists(st.tuples(vertex, vertex, weight), max_size=50))
    # Tenths would round a cycle of length zero to something else; these cycles are longer than any rounding.
    graph = make(n_vertices, shifted(edges, heights), dtype)
    options = SolveOptions(cutoff=data.draw(st.sampled_from([None, None, 0, 3, 100.5])))
    assert_solves(solver, graph, [data.draw(vertex), 0], options)


@EVERY_PAIR
@pytest.mark.parametrize("name", NEGATIVE_CYCLES)
def test_a_negative_cycle_is_found_and_named(solver, dtype, name):
    n_vertices, edges, source, vertices = NEGATIVE_CYCLES[name]
    graph = make(n_vertices, edges, dtype)
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
        cycle = list(error.cycle)
        total = Fraction(0)
        for u, v in zip(cycle, [*cycle[1:], cycle[0]], strict=True):
            row = slice(searched.row_offsets[u], searched.row_offsets[u + 1])
            total += Fraction(searched.weights[row][searched.col_indices[row] == v].min().item())
        assert total < 0
        assert error.length == pytest.approx(float(total), rel=1e-6)


@EVERY_PAIR
def test_targets_are_columns_of_all_distances(solver, dtype):
    n_vertices, edges, sources = GRAPHS["shifted lattice"]
    graph = make(n_vertices, edges, dtype)
    full = solver.solve(graph, np.array(sources), SolveOptions(cutoff=300))
    for targets in ([399, 0, 7, 399], []):
        kept = Targets(np.array(targets)) if targets else Nothing()
        options = SolveOptions(cutoff=300, kept=kept)
        some = solver.solve(graph, np.array(sources), options)
        assert_array_equal(some.distances, full.distances[:, np.array(targets, int)])
        for one, other in zip(some.metrics, full.metrics, strict=True):
            for told in ("source", "solver", "reached", "max_distance", "mean_distance"):
                assert getattr(one, told) == getattr(other, told)


@EVERY_PAIR
def test_answers_are_those_of_numpy(solver, dtype, numpy_answers):
    n_vertices, edges, sources = GRAPHS["shifted lattice"]
    graph = make(n_vertices, edges, dtype)
    for cutoff in (None, 300):
        full = solver.solve(graph, np.array(sources), SolveOptions(cutoff=cutoff)).distances
        amounts = np.arange(n_vertices)[np.newaxis]
        for kept in (Reductions((0, 40, 250.5), amounts, True, (0, 40, 250.5), (0, 0.3, 1)), Reductions()):
            some = solver.solve(graph, np.array(sources), SolveOptions(cutoff=cutoff, kept=kept))
            numpy_answers.assert_reduced(kept, some.distances, full)
        over = OverSources(True, True, (0, 40, 250.5))
        options = SolveOptions(cutoff=cutoff, kept=Reductions(over_sources=over))
        cut = len(sources) // 2
        parts = solver.solve_parts(
            graph, np.array(sources), options, [cut, len(sources)] if cut else [len(sources)]
        )
        for part, first in zip(parts, (0, cut), strict=False):
            of_part = slice(first, first + len(part.distances))
            words, rows = part.over_sources, full[of_part]
            numpy_answers.assert_over_sources(over, words, rows, sources[of_part], graph.traits)
        for nearest in (NearestOfRow(5), NearestOfRow(2, np.array([399, 0, 7]))):
            some = solver.solve(graph, np.array(sources), SolveOptions(cutoff=cutoff, kept=nearest))
            numpy_answers.assert_nearest(nearest, some.distances, full)


@INTEGERS
def test_paths_that_do_not_fit_their_type(solver, dtype):
    most = int(np.iinfo(dtype).max)
    graph = make(5, [(0, 1, -(most - 1)), (0, 2, most - 5), (2, 3, 4), (3, 4, -most)], dtype)
    assert_solves(solver, graph, [0, 2], SolveOptions())
    for edges, error, message in (
        (
            [(0, 1, -most), (1, 2, -2)],
            PathTooShortError,
            f"the shortest path from `0` to `2` is shorter than {dtype}",
        ),
        (
            [(0, 1, most - 1), (1, 2, 2), (0, 3, -1)],
            PathTooLongError,
            f"from `0` to `2` is longer than {dtype} holds",
        ),
    ):
        graph = make(4, edges, dtype)
        for cutoff in (None, 100):
            with pytest.raises(error, match=message):
                solver.solve(graph, np.array([3, 0]), SolveOptions(cutoff=cutoff))


@INTEGERS
def test_what_comes_back_from_beyond_the_cutoff_is_within_it(solver, dtype):
    graph = make(4, [(0, 1, 50), (1, 2, -45), (2, 3, -20)], dtype)
    solution = solver.solve(graph, np.array([0]), SolveOptions(cutoff=10))
    assert solution.distances[0].tolist() == [0, np.iinfo(dtype).max, 5, -15]
    with pytest.raises(InputError, match="so there are predecessors only without a cutoff"):
        solver.solve(graph, np.array([0]), SolveOptions(cutoff=10, predecessors=True))


@INTEGERS
def test_the_same_as_scipy(solver, dtype):
    sparse = pytest.importorskip("scipy.sparse")
    csgraph = pytest.importorskip("scipy.sparse.csgraph")
    random = np.random.default_rng(5)
    n_vertices, n_edges = 200, 900
    src, dst = random.integers(0, n_vertices, (2, n_edges))
    heights = random.integers(0, 500, n_vertices)
    weights = random.integers(1, 100, n_edges) + heights[src] - heights[dst]
    graph = csr_from_edges(src, dst, weights.astype(dtype), n_vertices)
    # SciPy adds up parallel edges: the lightest of them comes first in its row here.
    ends, first = np.unique(
        np.stack([np.repeat(np.arange(n_vertices), np.diff(graph.row_offsets)), graph.col_indices]),
        axis=1,
        return_index=True,
    )
    matrix = sparse.csr_array(
        (graph.weights[first].astype(float), tuple(ends)), shape=(n_vertices, n_vertices)
    )
    sources = np.arange(0, n_vertices, 29)
    got = solver.solve(graph, sources, SolveOptions()).distances.astype(float)
    got[got == float(np.iinfo(dtype).max)] = np.inf
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


def test_a_wrong_distance_is_found():
    n_vertices, edges, _ = GRAPHS["shifted lattice"]
    graph = make(n_vertices, edges, np.dtype("int32"))
    for cutoff in (None, 200):
        true = oracle(graph, 0, cutoff)
        for vertex in range(1, 400, 37):
            wrong = true.copy()
            wrong[vertex] -= 3
            fault = find_wrong_distance(graph, 0, wrong, cutoff)
            assert (fault.vertex, fault.stored) == (vertex, wrong[vertex])
            assert fault.true == (None if true[vertex] == 2**31 - 1 else true[vertex])
