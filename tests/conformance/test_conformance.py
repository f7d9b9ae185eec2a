"""Every solver of the registry x graph x weight type x source x options, exact against an independent oracle.

A solver enters by being registered; one for the GPU is skipped where there is none.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import (
    WEIGHT_DTYPES,
    CsrGraph,
    GraphTraits,
    csr_from_edges,
    unreached_distance,
    wider_dtype,
)
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.answers import reductions
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import EveryVertex, Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes, order
from sssp_pipeline.kernels.proofs.certificate import find_wrong_distance
from sssp_pipeline.kernels.registry import SOLVERS

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=40, suppress_health_check=[HealthCheck.too_slow]
)
EVERY_DTYPE = pytest.mark.parametrize("dtype", WEIGHT_DTYPES, ids=lambda dtype: dtype.name)


def both_ways(edges):
    return [*edges, *((v, u, w) for u, v, w in edges)]


def lattice(side, weight):
    """A side x side lattice, both ways, with `weight(place)` on each edge."""
    right = [(i, i + 1) for i in range(side * side) if (i + 1) % side]
    down = [(i, i + side) for i in range(side * (side - 1))]
    return both_ways([(u, v, weight(k)) for k, (u, v) in enumerate(right + down)])


#: name -> (vertices, edges, sources)
SMALL_GRAPHS = {
    "no sources": (3, [(0, 1, 1)], []),
    "one vertex": (1, [], [0]),
    "no edges": (5, [], [0, 4]),
    "self-loops": (3, [(0, 0, 0), (0, 0, 5), (0, 1, 7), (1, 1, 1), (1, 2, 2)], [0, 1, 2]),
    "parallel edges": (3, [(0, 1, 9), (0, 1, 3), (0, 1, 3), (1, 2, 8), (1, 2, 4)], [0, 1]),
    "zero weights": (6, lattice(2, lambda k: 0), [0, 3, 5]),
    "zero cycle": (5, [(0, 1, 4), (1, 2, 0), (2, 3, 0), (3, 1, 0), (3, 4, 1)], [0, 1, 3]),
    "unreachable half": (20, both_ways([(i, i + 1, i + 1) for i in range(19) if i != 9]), [0, 9, 10]),
    "star": (300, both_ways([(0, i, 300 - i) for i in range(1, 300)]), [0, 299]),
    "two hubs": (
        1300,
        both_ways([(hub, 2 + i, 1 + (i * 7919 + hub * 31) % 2000) for hub in (0, 1) for i in range(1298)]),
        [0, 700],
    ),
    "hub of parallel roads": (40, [(0, 1 + i % 39, 1000 - i) for i in range(999)], [0]),
    "long path": (3000, [(i, i + 1, 1 + i % 7) for i in range(2999)], [0, 2990]),
    "path of the greatest weight": (300, [(i, i + 1, 5000) for i in range(299)] + [(0, 1, 1)], [0]),
    "ties": (64, lattice(8, lambda k: 1), [0, 27]),
    "lattice": (400, lattice(20, lambda k: 1 + k * 7919 % 1000), [0, 210]),
    "weights 1 and 1e8": (400, lattice(20, lambda k: 100_000_000 if k % 3 == 0 else 1), [0, 210]),
    "doubling weights": (24, both_ways([(i, i + 1, 2**i) for i in range(23)]), [0, 23]),
    "falling towards the target": (
        60,
        [(i, j, 4 * (j - i) ** 2) for i in range(60) for j in range(i + 1, 60)],
        [0],
    ),
    "2^16+1 vertices": (2**16 + 1, [(0, 2**16, 3), (2**16, 2**15, 4), (2**15, 1, 5)], [0, 2**16]),
}


@st.composite
def random_edges(draw):
    """A long path through the first vertices, then any edges: ties, zeros, loops, and vertices left out."""
    n_vertices = draw(st.integers(1, 30))
    weight = st.sampled_from([0, 0, 1, 1, 1, 2, 3, 10, 999, 2**24 + 1])
    on_path = draw(st.integers(0, n_vertices - 1))
    path = [(i, i + 1, draw(weight)) for i in range(on_path)]
    vertex = st.integers(0, n_vertices - 1)
    others = draw(st.lists(st.tuples(vertex, vertex, weight), max_size=60))
    return n_vertices, path + others, draw(st.integers(0, on_path))


@pytest.fixture(scope="session")
def small_graph(exact):
    """Give a function that returns one of `SMALL_GRAPHS`. All solvers get the same, so that its oracle runs once."""
    return cache(lambda name, dtype: exact.make(*SMALL_GRAPHS[name][:2], dtype))


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_small_graphs(solver, dtype, name, exact, small_graph):
    n_vertices, _, sources = SMALL_GRAPHS[name]
    graph = exact.fitted(solver, small_graph(name, dtype))
    largest = max(
        (int(exact.oracle(graph, s).astype(float).clip(max=1e12).max()) for s in sources), default=0
    )
    far = largest / 3
    for delta, cutoff in (
        (None, None),
        (None, 0),
        (None, far),
        (0.5, None),
        (3, 2.5),
        (1e9, None),
        (1e9, far),
    ):
        options = SolveOptions(delta=delta, cutoff=cutoff, predecessors=n_vertices < 1000)
        if solver.supports(graph.traits, options) is None:
            exact.assert_solves(solver, graph, sources, options)


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_phast_where_metis_is_not_installed(name, exact, monkeypatch):
    monkeypatch.setattr(metis_processes, "package", lambda: None)
    monkeypatch.setattr(order, "FEW", 0)
    n_vertices, edges, sources = SMALL_GRAPHS[name]
    graph = exact.make(n_vertices, edges, np.dtype("uint32"))
    exact.assert_solves(SOLVERS["phast"], graph, sources, SolveOptions())


@pytest.mark.medium
@EXAMPLES
@given(data=st.data())
def test_random_graphs(solver, dtype, data, exact):
    n_vertices, edges, source = data.draw(random_edges())
    graph = exact.fitted(solver, exact.make(n_vertices, edges, dtype))
    options = SolveOptions(
        delta=data.draw(st.sampled_from([None, None, 1e-3, 1.0, 7.5, 1e6])),
        cutoff=data.draw(st.sampled_from([None, None, 0, 0.3, 1, 5, 1000.5])),
        predecessors=True,
    )
    if solver.supports(graph.traits, options) is None:
        exact.assert_solves(solver, graph, [source, source], options)


@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_backward_is_forward(solver, integer, name, exact, small_graph):
    n_vertices, _, sources = SMALL_GRAPHS[name]
    graph = exact.fitted(solver, small_graph(name, integer))
    vertices = [*range(n_vertices)][:: max(1, n_vertices // 7)]
    targets = [*vertices[::-1], *sources, vertices[0]]  # some stand twice
    for cutoff in (None, 0, 40):
        found = exact.assert_backward(solver, graph, sources, targets, cutoff)
        assert found.direction == "backward"


@EXAMPLES
@given(data=st.data())
def test_backward_on_random_graphs(solver, data, exact):
    n_vertices, edges, source = data.draw(random_edges())
    dtype = np.dtype(data.draw(st.sampled_from(["uint32", "int64"])))
    graph = exact.fitted(solver, exact.make(n_vertices, edges, dtype))
    vertices = st.lists(st.integers(0, n_vertices - 1), max_size=6)
    sources, targets = [source, *data.draw(vertices)], data.draw(vertices)
    exact.assert_backward(solver, graph, sources, targets, data.draw(st.sampled_from([None, 0, 1, 5, 1000])))


@EVERY_DTYPE
@EXAMPLES
@given(data=st.data())
def test_certificate_accepts_true_distances_and_no_others(dtype, data, exact):
    n_vertices, edges, source = data.draw(random_edges())
    graph = exact.make(n_vertices, edges, dtype)
    cutoff = data.draw(st.sampled_from([None, None, 0, 0.3, 1, 5]))
    true = exact.oracle(graph, source, cutoff)
    assert find_wrong_distance(graph, source, true, cutoff) is None
    vertex = data.draw(st.integers(0, graph.n_vertices - 1))
    unreached = unreached_distance(dtype)
    wrong = data.draw(
        st.one_of(
            st.sampled_from([0, 1, 2, 10, unreached.item()]),
            st.sampled_from([d.item() for d in true]),
            st.sampled_from([0.1, 0.7, math.nan, -1.0] if dtype.kind == "f" else [3, 5]),
        )
    )
    changed = true.copy()
    changed[vertex] = wrong
    if changed[vertex] == true[vertex]:
        return
    fault = find_wrong_distance(graph, source, changed, cutoff)
    assert fault is not None
    assert fault.vertex == vertex
    assert fault.true == (None if true[vertex] == unreached else true[vertex])
    assert str(fault.stored) == str(None if wrong == unreached else changed[vertex].item())


# ---- paths that are too long for their type ----


def near_the_end(dtype):
    """Two weights of which the type holds each, but not the sum, and one that makes the sum just fit."""
    if dtype.kind == "f":
        return np.finfo(dtype).max, np.finfo(dtype).max / 2, dtype.type(0)
    last = int(np.iinfo(dtype).max) - 1
    return last, last // 2, 0


def weighted(solver, n_vertices, edges, dtype):
    """The graph of these edges, whose weights are near the end; skip a solver that takes equal weights only."""
    src, dst = np.array([(u, v) for u, v, _ in edges]).T
    graph = csr_from_edges(src, dst, np.array([w for *_, w in edges], dtype), n_vertices)
    if (reason := solver.supports(graph.traits, SolveOptions())) is not None:
        pytest.skip(reason)
    return graph


def test_a_shortest_path_too_long_is_an_error_that_names_the_wider_type(solver, dtype):
    large, half, _ = near_the_end(dtype)
    graph = weighted(solver, 4, [(0, 1, large), (1, 2, half), (0, 3, 1)], dtype)
    with pytest.raises(InputError) as caught:
        solver.solve(graph, np.array([1, 0]), SolveOptions())
    assert caught.value.message == f"the shortest path from `0` to `2` is longer than {dtype} holds"
    assert caught.value.hint == (
        "scale the weights down, or set a cutoff"
        if dtype.itemsize == 8
        else f"set `graph.weights.dtype: {wider_dtype(dtype)}`, or a cutoff"
    )


def test_the_longest_distance_that_fits_is_returned(solver, dtype, exact):
    large, half, nothing = near_the_end(dtype)
    graph = weighted(solver, 3, [(0, 1, large), (1, 2, nothing)], dtype)
    exact.assert_solves(solver, graph, [0], SolveOptions(predecessors=True))
    exact.assert_solves(solver, weighted(solver, 3, [(0, 1, half), (1, 2, half)], dtype), [0], SolveOptions())


def test_one_more_than_fits_is_too_long_whatever_is_kept(solver, integer):
    graph = weighted(solver, 3, [(0, 1, np.iinfo(integer).max - 1), (1, 2, 1)], integer)
    for kept in (
        EveryVertex(),
        Targets(np.array([0, 1])),
        Targets(np.array([])),
        Nothing(),
        Reductions((5,)),
        NearestOfRow(1),
    ):
        with pytest.raises(InputError, match="from `0` to `2` is longer"):
            solver.solve(graph, np.array([0]), SolveOptions(kept=kept))


def test_a_sum_too_large_is_no_error_where_a_shorter_path_exists(solver, dtype, exact):
    large, half, _ = near_the_end(dtype)
    graph = weighted(solver, 4, [(0, 1, large), (1, 2, half), (1, 3, large), (0, 3, 5), (3, 2, 5)], dtype)
    solution = exact.assert_solves(solver, graph, [0], SolveOptions(predecessors=True))
    assert_array_equal(solution.distances[0], np.array([0, large, 10, 5], dtype))


def test_a_path_too_long_beyond_the_cutoff_is_no_error(solver, dtype, exact):
    large, half, _ = near_the_end(dtype)
    graph = weighted(solver, 3, [(0, 1, large), (1, 2, half)], dtype)
    exact.assert_solves(solver, graph, [0], SolveOptions(cutoff=100))
    exact.assert_solves(solver, graph, [0], SolveOptions(cutoff=float(large) if dtype.kind == "f" else large))


# ---- some distances, or none ----


@pytest.mark.parametrize("name", ["one vertex", "zero cycle", "unreachable half", "two hubs", "lattice"])
def test_targets_are_columns_of_all_distances(solver, dtype, name, exact, small_graph):
    graph, sources = exact.fitted(solver, small_graph(name, dtype)), SMALL_GRAPHS[name][2]
    last, middle = graph.n_vertices - 1, graph.n_vertices // 2
    for cutoff in (None, 2.5, 300):
        options = SolveOptions(cutoff=cutoff)
        full = exact.assert_solves(solver, graph, sources, options)
        for targets in ([last], [last, 0, middle, last], [], np.arange(graph.n_vertices)[::-1]):
            kept = Targets(np.array(targets)) if len(targets) else Nothing()
            exact.assert_columns(solver, graph, full, replace(options, kept=kept), targets)


def test_every_solver_takes_every_integer_type(solver):
    integers = [dtype for dtype in WEIGHT_DTYPES if dtype.kind != "f"]
    traits = [GraphTraits(2, 1, dtype, 1, 1, 1, 1) for dtype in integers]
    assert [solver.supports(some, SolveOptions()) for some in traits] == [None] * 4


def test_targets_of_no_sources_and_many(solver, exact, small_graph):
    graph = exact.fitted(solver, small_graph("lattice", np.dtype("uint32")))
    nobody = solver.solve(graph, np.array([], int), SolveOptions(kept=Targets(np.array([3, 5]))))
    assert nobody.distances.shape == (0, 2)
    everyone = solver.solve(graph, np.arange(400), SolveOptions(kept=Targets(np.array([399, 7, 250]))))
    back = solver.solve(graph, np.array([399, 7, 250]), SolveOptions(kept=Targets(np.arange(400))))
    assert_array_equal(everyone.distances.T, back.distances)


# ---- answers in place of distances ----


def answers_for(n_vertices):
    """Reductions and nearest vertices that differ in what is computed."""
    amounts = (np.arange(2 * n_vertices).reshape(2, n_vertices) * 7919 % 1000) - 300
    some = np.array([n_vertices - 1, 0, n_vertices // 2, n_vertices - 1])
    reduced = [
        Reductions(),
        Reductions((), None, harmonic=True),
        Reductions((0, 2.5, 300), None),
        Reductions((1, 40, 40, 1e30), amounts, harmonic=True),
        Reductions(bounds=(0, 1, 2.5, 40, 300)),
        Reductions((5,), amounts, False, (0.5, 7, 1e30), (0, 0.1, 0.5, 0.95, 1)),
        Reductions(over_sources=OverSources(nearest=True)),
        Reductions((5,), over_sources=OverSources(True, True, (0, 2.5, 300))),
    ]
    return reduced, [
        NearestOfRow(1),
        NearestOfRow(7),
        NearestOfRow(1024),
        NearestOfRow(3, some),
        NearestOfRow(2, some[:0]),
    ]


def assert_answers(solver, graph, sources, options, numpy_answers):
    rows = solver.solve(graph, np.array(sources, np.uint32), options).distances
    reduced, nearest = answers_for(graph.n_vertices)
    for kept in reduced:
        found = solver.solve(graph, np.array(sources, np.uint32), replace(options, kept=kept))
        numpy_answers.assert_reduced(kept, found.distances, rows)
        if kept.over_sources is not None:
            over = kept.over_sources, found.over_sources
            numpy_answers.assert_over_sources(*over, rows, sources, graph.traits)
        means = reductions.means(found.distances, rows.dtype).tolist()
        assert [m.mean_distance for m in found.metrics] == means
    for kept in nearest:
        found = solver.solve(graph, np.array(sources, np.uint32), replace(options, kept=kept))
        numpy_answers.assert_nearest(kept, found.distances, rows)


@pytest.mark.parametrize(
    "name",
    ["no sources", "one vertex", "zero weights", "unreachable half", "two hubs", "ties", "weights 1 and 1e8"],
)
def test_answers_are_those_of_numpy(solver, dtype, name, numpy_answers, exact, small_graph):
    graph, sources = exact.fitted(solver, small_graph(name, dtype)), SMALL_GRAPHS[name][2]
    for cutoff in (None, 2.5):
        assert_answers(solver, graph, sources, SolveOptions(cutoff=cutoff), numpy_answers)


@pytest.mark.medium
@settings(EXAMPLES, max_examples=6)
@given(data=st.data())
def test_answers_on_random_graphs(solver, dtype, data, numpy_answers, exact):
    n_vertices, edges, source = data.draw(random_edges())
    graph = exact.fitted(solver, exact.make(n_vertices, edges, dtype))
    options = SolveOptions(cutoff=data.draw(st.sampled_from([None, None, 0, 5])))
    assert_answers(solver, graph, [source, 0, source], options, numpy_answers)


# ---- part by part ----


def test_parts_together_are_the_whole(solver, dtype, exact, small_graph):
    graph, sources = exact.fitted(solver, small_graph("lattice", dtype)), np.arange(60)[::-1]
    for options in (
        SolveOptions(predecessors=True),
        SolveOptions(cutoff=300, row_facts=True),
        SolveOptions(kept=Targets(np.array([7, 399])), row_facts=True),
        SolveOptions(kept=Nothing(), row_facts=True),
        SolveOptions(predecessors=True, row_facts=True),
        SolveOptions(kept=Reductions((5,), None, harmonic=True)),
        SolveOptions(kept=NearestOfRow(3)),
    ):
        whole = solver.solve(graph, sources, replace(options, row_facts=False))
        parts = list(solver.solve_parts(graph, sources, options, [1, 30, 31, 60]))
        assert [len(part.distances) for part in parts] == [1, 29, 1, 29]
        assert_array_equal(np.concatenate([unpacked(part) for part in parts]), whole.distances)
        assert [m.source for part in parts for m in part.metrics] == sources.tolist()
        assert [m.reached for part in parts for m in part.metrics] == [m.reached for m in whole.metrics]
        if options.predecessors:
            assert_array_equal(np.concatenate([part.predecessors for part in parts]), whole.predecessors)


def unpacked(part: Solution) -> np.ndarray:
    """Return the rows of `part` as they are without `row_facts`."""
    if part.facts is None or part.facts.n_present is None:
        return part.distances
    return part.facts.unpacked(part.distances, unreached_distance(part.distances.dtype))


def test_packed_rows_do_not_hide_a_path_that_is_too_long(solver, exact):
    edges = [(0, 1, 2**32 - 2), (1, 2, 1), (3, 4, 2**32 - 2)]
    graph = weighted(solver, 5, edges, np.dtype("uint32"))
    with pytest.raises(InputError, match="from `0` to `2` is longer"):
        solver.solve(graph, np.array([4, 0]), SolveOptions(row_facts=True))
    solution = solver.solve(graph, np.array([3]), SolveOptions(row_facts=True))
    assert_array_equal(unpacked(solution)[0], exact.oracle(graph, 3))


def test_each_part_has_what_is_kept_over_its_sources(solver, dtype, numpy_answers, exact, small_graph):
    graph, sources = exact.fitted(solver, small_graph("lattice", dtype)), np.arange(60)[::-1]
    rows = solver.solve(graph, sources, SolveOptions()).distances
    over = OverSources(True, True, (5, 300))
    options = SolveOptions(kept=Reductions(over_sources=over), row_facts=True)
    ends = [1, 30, 31, 60]
    parts = solver.solve_parts(graph, sources, options, ends)
    for first, end, part in zip([0, *ends], ends, parts, strict=False):
        of_part = rows[first:end], sources[first:end]
        assert len(part.distances) == end - first
        numpy_answers.assert_over_sources(over, part.over_sources, *of_part, graph.traits)


def test_a_call_that_is_not_finished_gives_back_what_it_holds(solver, exact, small_graph):
    graph = exact.fitted(solver, small_graph("lattice", np.dtype("uint32")))
    for _ in range(3):
        parts = solver.solve_parts(graph, np.arange(60), SolveOptions(), [10, 60])
        assert_array_equal(next(parts).distances[3], exact.oracle(graph, 3))
        parts.close()
    exact.assert_solves(solver, graph, [5], SolveOptions())


# ---- requests ----


def test_what_is_no_list_of_vertices_is_an_error(solver, exact):
    graph = exact.make(3, [(0, 1, 1)], np.dtype("uint32"))
    for vertices, message in (
        ([0, 3], "{} 3 is not in the graph"),
        ([0, -1], "{} -1 is not in the graph"),
        ([0.5], "{}s are 1-dimensional float64, wanted a list of integers"),
        ([[0]], "{}s are 2-dimensional int64, wanted a list of integers"),
    ):
        kept = Targets(np.array(vertices))
        for what, sources, options in (
            ("source", np.array(vertices), SolveOptions()),
            ("target", np.array([0]), SolveOptions(kept=kept)),
        ):
            with pytest.raises(InputError) as caught:
                solver.solve(graph, sources, options)
            assert caught.value.message == message.format(what)


def test_an_empty_graph_has_no_distances(solver, exact):
    graph = exact.make(0, [], np.dtype("uint32"))
    solution = solver.solve(graph, np.array([]), SolveOptions(predecessors=True))
    assert solution.distances.shape == solution.predecessors.shape == (0, 0)


@pytest.mark.parametrize("dtype", [d for d in WEIGHT_DTYPES if d.kind != "u"], ids=lambda dtype: dtype.name)
def test_what_is_not_supported_is_refused_with_the_reason(solver, dtype, exact):
    graph = exact.make(3, [(0, 1, 1), (1, 2, -30)], dtype)
    reason = solver.supports(graph.traits, SolveOptions())
    if reason is not None:
        assert f"{graph.weights.min()}" in reason
        with pytest.raises(InputError) as caught:
            solver.solve(graph, np.array([0]), SolveOptions())
        assert caught.value.message == f"solver `{solver.name}` cannot solve this: {reason}"


@pytest.mark.medium
def test_the_arrays_of_the_graph_may_be_read_only(solver, exact):
    graph = exact.fitted(solver, exact.make(*SMALL_GRAPHS["lattice"][:2], np.dtype("uint32")))
    for array in (graph.row_offsets, graph.col_indices, graph.weights):
        array.flags.writeable = False
    read_only = CsrGraph(graph.row_offsets, graph.col_indices, graph.weights)
    exact.assert_solves(solver, read_only, [0, 55], SolveOptions(predecessors=True))


def test_threads_do_not_disturb_each_other(solver, exact, small_graph):
    graph = exact.fitted(solver, small_graph("lattice", np.dtype("uint32")))
    sources = np.arange(0, 400, 7)
    alone = solver.solve(graph, sources, SolveOptions(predecessors=True))
    with ThreadPoolExecutor(4) as pool:
        together = list(
            pool.map(lambda s: solver.solve(graph, s, SolveOptions(predecessors=True)), np.split(sources, 58))
        )
    assert_array_equal(np.concatenate([t.distances for t in together]), alone.distances)
    assert_array_equal(np.concatenate([t.predecessors for t in together]), alone.predecessors)
