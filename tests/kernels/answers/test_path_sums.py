"""What passes vertices and edges on shortest paths: fractions of Python are the oracle."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
from passed_paths import random_amounts

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges, unreached_distance
from sssp_pipeline.base.errors import InputError, UncountablePathsError
from sssp_pipeline.base.generators import grid
from sssp_pipeline.base.vertex_amounts import VertexAmounts
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.path_sums import PathSums, decayed, squares_of, sums_of
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.path_sums_asked import PathAmounts, PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra

DTYPES = ("uint32", "int32", "uint64", "int64", "float64")
#: Bits behind the point of a sum, so this is what a row may lose.
LAST_BIT = Fraction(1, 2**64)


def random_graph(rng: np.random.Generator, dtype: str) -> CsrGraph:
    """Return a graph with ties, parallel edges, self-loops and unreachable vertices."""
    n_vertices, n_edges = int(rng.integers(1, 13)), int(rng.integers(0, 40))
    src, dst = rng.integers(0, n_vertices, (2, n_edges))
    weights = rng.integers(1, 4, n_edges).astype(dtype)
    return csr_from_edges(src, dst, weights, n_vertices)


def solved(graph: CsrGraph, sources: np.ndarray, cutoff: float | None = None) -> np.ndarray:
    return Dijkstra().solve(graph, sources, SolveOptions(cutoff=cutoff)).distances


def exact(graph: CsrGraph, row: np.ndarray, source: int, asked: PathSumsAsked) -> tuple[list, list]:
    """Return what passes each vertex and each edge on the paths from `source`, by Brandes in fractions."""
    unreached = unreached_distance(row.dtype)
    order = sorted((v for v in range(graph.n_vertices) if row[v] != unreached), key=lambda v: row[v])
    tight = {
        u: [
            (e, v)
            for e in range(graph.row_offsets[u], graph.row_offsets[u + 1])
            if (v := int(graph.col_indices[e])) in order and row[u].item() + graph.weights[e].item() == row[v]
        ]
        for u in order
    }
    paths = {v: int(v == source) for v in order}
    for u in order:
        for _, v in tight[u]:
            paths[v] += paths[u]
    passing, of_edges = [Fraction(0)] * graph.n_vertices, [Fraction(0)] * graph.n_edges
    amount = {v: int(v != source and (asked.is_target is None or asked.is_target[v])) for v in order}
    if (given := asked.amounts) is not None:
        for v in order:
            share = Fraction(math.exp(-given.decay * row[v]))
            amount[v] *= Fraction(given.of_sources[source]) * Fraction(given.of_targets[v]) * share
    for u in reversed(order):
        for e, v in tight[u]:
            of_edges[e] = (amount[v] + passing[v]) * Fraction(paths[u], paths[v])
        passing[u] = sum((of_edges[e] for e, _ in tight[u]), Fraction(0))
    if not asked.endpoints:
        passing[source] = Fraction(0)
    else:
        passing = [part + amount.get(v, 0) for v, part in enumerate(passing)]
    return passing, of_edges


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("endpoints", [False, True])
@pytest.mark.parametrize("counted", ["every", "targets", "amounts"])
def test_sums_are_those_of_fractions(dtype, endpoints, counted):
    rng = np.random.default_rng(5)
    for _ in range(25):
        graph = random_graph(rng, dtype)
        sources = rng.integers(0, graph.n_vertices, 5).astype(np.uint32)
        is_target = rng.random(graph.n_vertices) < 0.5 if counted == "targets" else None
        amounts = random_amounts(rng, graph.n_vertices) if counted == "amounts" else None
        asked = PathSumsAsked(
            *(True, True, True, endpoints, is_target), is_weighted=amounts is not None, amounts=amounts
        )
        rows = solved(graph, sources, cutoff=rng.choice([3, 1000]))
        sums = PathSums(graph, asked)
        sums.add(rows, sources)
        expected = [exact(graph, *pair, asked) for pair in zip(rows, sources.tolist(), strict=True)]
        for place, words in enumerate((sums.vertex_words, sums.edge_words)):
            columns = list(zip(*(part[place] for part in expected), strict=True))
            totals = np.array([float(sum(column)) for column in columns])
            np.testing.assert_allclose(sums_of(words), totals, rtol=1e-14)
            squares = np.array([float(sum(part * part for part in column)) for column in columns])
            np.testing.assert_allclose(squares_of(words), squares, rtol=1e-13, atol=5 * 2.0**-32)


@pytest.mark.parametrize("scale", [1e-130, 1, 1e130])
def test_amounts_of_any_size_are_scaled_to_the_sums(scale):
    columns = np.array([2.5, 0, 1]) * scale, np.array([0, 3.0, 0.5]) * scale
    each = (VertexAmounts.of({"x": column}, np.arange(3), 3) for column in columns)
    found = PathAmounts.of(*each, 0.0)
    for row, column in zip((found.of_sources, found.of_targets), columns, strict=True):
        np.testing.assert_allclose(row / row.sum(), column / column.sum(), rtol=1e-15)
    assert found.of_sources.max() * found.of_targets.sum() * found.unit == pytest.approx(8.75 * scale * scale)
    assert 2**30 < found.of_sources.max() * found.of_targets.sum() < 2**32


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_amounts_whose_products_float64_does_not_hold(scale):
    amounts = VertexAmounts.of({"x": np.array([scale])}, np.array([0]), 1)
    with pytest.raises(
        InputError, match=r"the amount of a source times all amounts of targets is about 2\^"
    ) as caught:
        PathAmounts.of(amounts, amounts, 0.0)
    assert caught.value.hint == "write the amounts in another unit"


def test_no_amount_at_all_gives_zero():
    none = VertexAmounts(np.zeros((1, 2), np.int64), (None,))
    amounts = PathAmounts.of(none, none, 0.5)
    graph = csr_from_edges(np.array([0]), np.array([1]), np.ones(1, np.uint32), 2)
    sums = PathSums(graph, PathSumsAsked(endpoints=True, is_weighted=True, amounts=amounts))
    assert sums.add(solved(graph, np.arange(2)), np.arange(2, dtype=np.uint32)).tolist() == [[0], [0]]


def test_a_decay_is_exact_to_the_last_bits():
    with localcontext(prec=40):
        for x in (0.0, 1e-300, 1e-9, 0.3465, 0.3466, 1.0, 20.5, 300.0, 707.9):
            assert decayed(x) == pytest.approx(float((-Decimal(x)).exp()), rel=2**-51, abs=0)
    assert decayed(0.0) == 1
    assert 0 < decayed(744.0) < 1e-322
    assert (decayed(745.0), decayed(np.inf)) == (0, 0)


def test_any_order_of_rows_in_any_parts_gives_the_same_words():
    rng = np.random.default_rng(6)
    graph = csr_from_edges(*rng.integers(0, 60, (2, 400)), rng.integers(1, 4, 400).astype(np.uint32), 60)
    sources = np.arange(60, dtype=np.uint32)
    rows = solved(graph, sources)
    asked = PathSumsAsked(edges=True, squares=True, is_weighted=True, amounts=random_amounts(rng, 60))
    whole = PathSums(graph, asked)
    whole.add(rows, sources)
    assert (whole.vertex_words[:, 0] > 0).sum() > 30  # fractions, which floats would round
    for n_parts in (2, 7):
        total = PathSums(graph, asked)
        for part in np.array_split(rng.permutation(60), n_parts):
            sums = PathSums(graph, asked)
            sums.add(rows[part], sources[part])
            total.merge(sums)
        np.testing.assert_array_equal(total.vertex_words, whole.vertex_words)
        np.testing.assert_array_equal(total.edge_words, whole.edge_words)


def test_a_fraction_is_carried_into_the_whole_part():
    """Three paths of equal length: each third is cut, so the sum over sources stays a little below."""
    src, dst = [0, 0, 0, 1, 2, 3], [1, 2, 3, 4, 4, 4]
    graph = csr_from_edges(np.array(src), np.array(dst), np.ones(6, np.uint32), 5)
    sources = np.zeros(3000, np.uint32)
    sums = PathSums(graph, PathSumsAsked())
    sums.add(solved(graph, sources), sources)
    fraction, whole = sums.vertex_words[1].tolist()
    found = whole + fraction * LAST_BIT
    assert 0 <= 1000 - found < 3000 * (LAST_BIT + Fraction(1, 2**54))


def test_a_wide_sum_that_wraps_is_not_tight():
    """The edge from 2 to 1 leads to 2^64 + 5, which is 5 in 64 bits, the distance of 1."""
    weights = np.array([5, 10, 2**64 - 5], np.uint64)
    graph = CsrGraph(np.array([0, 2, 2, 3]), np.array([1, 2, 1], np.uint32), weights)
    sources = np.zeros(1, np.uint32)
    sums = PathSums(graph, PathSumsAsked(edges=True))
    sums.add(np.array([[0, 5, 10]], np.uint64), sources)
    np.testing.assert_array_equal(sums_of(sums.edge_words), [1, 1, 0])


@pytest.mark.parametrize("dtype", ["uint32", "int32"])
def test_an_edge_whose_sum_is_the_value_of_unreached_is_not_tight(dtype):
    weights = np.array([5, np.iinfo(dtype).max - 5], dtype)
    graph = CsrGraph(np.array([0, 1, 2, 2]), np.array([1, 2], np.uint32), weights)
    sources = np.zeros(1, np.uint32)
    sums = PathSums(graph, PathSumsAsked(edges=True))
    sums.add(solved(graph, sources, cutoff=100), sources)
    np.testing.assert_array_equal(sums_of(sums.edge_words), [1, 0])
    np.testing.assert_array_equal(sums_of(sums.vertex_words), [0, 0, 0])


def chain_of_diamonds(n: int) -> CsrGraph:
    """Return a graph with 2^n shortest paths from its first to its last vertex."""
    tops = 3 * np.arange(n)
    src = np.concatenate([tops, tops, tops + 1, tops + 2])
    dst = np.concatenate([tops + 1, tops + 2, tops + 3, tops + 3])
    return csr_from_edges(src, dst, np.ones(4 * n, np.uint32), 3 * n + 1)


def test_very_many_paths():
    graph, source = chain_of_diamonds(1000), np.zeros(1, np.uint32)
    sums = PathSums(graph, PathSumsAsked())
    sums.add(solved(graph, source), source)
    behind = 3000 - np.arange(3001)
    passing = np.where(np.arange(3001) % 3 == 0, behind, (behind - 2 + np.arange(3001) % 3) / 2)
    passing[0] = 0
    np.testing.assert_allclose(sums_of(sums.vertex_words), passing, rtol=1e-14)


@pytest.mark.parametrize("side", [32, 44])
def test_numbers_of_paths_that_float64_rounds_are_exact_before(side):
    """The lattices have up to 2^59 and 2^82 paths. All words follow from Python's integers, step by step."""
    road = grid(rows=side, cols=side, keep=0.95, seed=3).graph("uint32")
    graph = CsrGraph(road.row_offsets, road.col_indices, np.ones(road.n_edges, np.uint32))
    source = np.zeros(1, np.uint32)
    row = solved(graph, source)[0]
    order = [v for v in np.argsort(row, kind="stable").tolist() if row[v] != unreached_distance(row.dtype)]
    tight = {
        u: [
            v
            for v in graph.col_indices[slice(*graph.row_offsets[u : u + 2])].tolist()
            if row[v] == row[u] + 1
        ]
        for u in order
    }
    paths = dict.fromkeys(order, 0) | {0: 1}
    for u in order:
        for v in tight[u]:
            paths[v] += paths[u]
    assert max(paths.values()) > 2**53
    rates, expected = {}, [0] * graph.n_vertices
    for u in reversed(order[1:]):
        upper, lower = divmod(paths[u], 2**64)
        to_u = float(upper) * 2.0**64 + float(lower)
        dependency = to_u * reduce(add, (rates[v] for v in tight[u]), 0.0)
        rates[u] = (1.0 + dependency) / to_u
        expected[u] = int(Fraction(dependency) * 2**64)
    sums = PathSums(graph, PathSumsAsked())
    sums.add(row[None], source)
    assert [low | high << 64 for low, high in sums.vertex_words.tolist()] == expected


def test_too_many_paths_are_refused():
    graph, source = chain_of_diamonds(1100), np.zeros(1, np.uint32)
    with pytest.raises(UncountablePathsError) as caught:
        PathSums(graph, PathSumsAsked()).add(solved(graph, source), source)
    assert (caught.value.source, caught.value.is_absorbed) == (0, False)
    assert caught.value.vertex > 3000


def test_a_weight_that_a_float_loses_is_refused():
    graph = CsrGraph(np.array([0, 1, 2, 2]), np.array([1, 2], np.uint32), np.array([1.0, 1e-30]))
    source = np.zeros(1, np.uint32)
    with pytest.raises(UncountablePathsError) as caught:
        PathSums(graph, PathSumsAsked()).add(solved(graph, source), source)
    assert (caught.value.source, caught.value.vertex, caught.value.is_absorbed) == (0, 2, True)


@pytest.mark.parametrize("endpoints", [False, True])
def test_the_totals_of_a_row_are_what_it_adds(endpoints):
    rng = np.random.default_rng(5)
    for _ in range(20):
        graph = random_graph(rng, "uint32")
        sources = np.arange(graph.n_vertices, dtype=np.uint32)
        rows, asked = solved(graph, sources), PathSumsAsked(edges=True, endpoints=endpoints)
        totals = PathSums(graph, asked).add(rows, sources)
        for place in range(len(sources)):
            one, own = PathSums(graph, asked), slice(place, place + 1)
            np.testing.assert_array_equal(one.add(rows[own], sources[own]), totals[own])
            each = [one.vertex_words, one.edge_words]
            sums = [sum(Fraction(int(w[0]), 2**64) + int(w[1]) for w in words) for words in each]
            np.testing.assert_allclose(totals[place], [float(total) for total in sums], rtol=2**-52)
        only = PathSums(graph, PathSumsAsked(vertices=False, edges=True)).add(rows, sources)
        np.testing.assert_array_equal(only, totals[:, 1:])


def test_solvers_give_the_words_and_the_totals():
    rng = np.random.default_rng(6)
    graph = csr_from_edges(*rng.integers(0, 50, (2, 200)), np.full(200, 3, np.uint32), 50)
    sources = np.array([7, 0, 7, 31], np.uint32)
    asked = PathSumsAsked(edges=True)
    expected = PathSums(graph, asked)
    totals = expected.add(solved(graph, sources), sources)
    options = SolveOptions(kept=Reductions(paths=asked, shares=(0.5,)))
    for name in (
        "dijkstra",
        "delta-stepping",
        "parallel-delta-stepping",
        "queue-bellman-ford",
        "bits",
        "phast",
    ):
        solution = SOLVERS[name].solve(graph, sources, options)
        np.testing.assert_array_equal(solution.path_words, expected.part_words)
        np.testing.assert_array_equal(solution.distances[:, -2:].view(np.float64), totals)
        parts = list(SOLVERS[name].solve_parts(graph, sources, options, [1, 4]))
        words = [part.path_words for part in parts]
        np.testing.assert_array_equal(parts[1].distances, solution.distances[1:])
        assert not np.array_equal(words[0], words[1])


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        (
            np.array([2, 0], np.int64),
            "shortest paths are counted only where all weights are above zero, and one is 0",
        ),
        (
            np.array([2, 1], np.float32),
            "the weights are float32, in which rounding makes some paths equally long",
        ),
    ],
)
def test_solvers_refuse_what_cannot_be_counted(weights, reason):
    graph = CsrGraph(np.array([0, 1, 2, 2]), np.array([1, 2], np.uint32), weights)
    options = SolveOptions(kept=Reductions(paths=PathSumsAsked()))
    assert {solver.supports(graph.traits, options) for solver in SOLVERS.values()} == {reason}


def test_rows_that_stay_on_the_gpu_are_not_summed_along_paths():
    kept = Reductions(paths=PathSumsAsked())
    with pytest.raises(InputError, match="only distances can stay on the GPU"):
        SolveOptions(kept=kept, into=np.empty((1, 7)))
