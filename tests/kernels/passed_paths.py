"""Graphs with many shortest paths, and what passes their vertices and edges by rows: for tests of sweeps of paths."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, csr_from_edges
from sssp_pipeline.base.generators import road_like
from sssp_pipeline.base.vertex_amounts import VertexAmounts
from sssp_pipeline.kernels.answers.path_sums import PathSums, PathWords, sums_of
from sssp_pipeline.kernels.contract.path_sums_asked import PathAmounts, PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import completion_of
from sssp_pipeline.kernels.hierarchy.completion.customization import customize
from sssp_pipeline.kernels.hierarchy.sweeps.path_counts import PathCounts


def random_amounts(rng: np.random.Generator, n_vertices: int, *, with_decay: bool = True) -> PathAmounts:
    """Return amounts, some of them zero: integers of sources, and fractions of targets."""
    of_sources, of_targets = (
        rng.integers(0, 4, n_vertices),
        rng.random(n_vertices) * rng.integers(0, 2, n_vertices),
    )
    every = np.arange(n_vertices)
    each = (VertexAmounts.of({"x": column}, every, n_vertices) for column in (of_sources, of_targets))
    return PathAmounts.of(*each, float(rng.choice([0, 0.3])) if with_decay else 0.0)


def random_graph(rng: np.random.Generator, dtype: str, n_vertices: int, n_edges: int) -> CsrGraph:
    """Return a graph with ties, parallel edges, self-loops and unreachable vertices; half are nearly symmetric."""
    src, dst = rng.integers(0, n_vertices, (2, n_edges))
    weights = rng.integers(1, 5, n_edges)
    if rng.random() < 0.5:
        src, dst, weights = np.r_[src, dst], np.r_[dst, src], np.r_[weights, weights]
        weights[: len(weights) // 8] = 1
    return csr_from_edges(src, dst, weights.astype(dtype), n_vertices)


def grid(rng: np.random.Generator, side: int, most: int) -> CsrGraph:
    """Return a square grid with weights from 1 to `most`, the same in both directions."""
    at = np.arange(side * side).reshape(side, side)
    src = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    dst = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    weights = rng.integers(1, most + 1, len(src)).astype(np.uint32)
    return csr_from_edges(np.r_[src, dst], np.r_[dst, src], np.r_[weights, weights], side * side)


def diamonds(n: int) -> CsrGraph:
    """Return a graph with 2^n shortest paths from its first to its last vertex."""
    tops = 3 * np.arange(n)
    src = np.concatenate([tops, tops, tops + 1, tops + 2])
    dst = np.concatenate([tops + 1, tops + 2, tops + 3, tops + 3])
    return csr_from_edges(src, dst, np.ones(4 * n, np.uint32), 3 * n + 1)


def counts_of(graph: CsrGraph) -> PathCounts | None:
    return PathCounts.of(graph, customize(completion_of(graph), graph))


def along_rows(
    graph: CsrGraph, sources: np.ndarray, asked: PathSumsAsked, cutoff: int | None = None
) -> PathWords:
    sums = PathSums(graph, asked)
    sums.add(Dijkstra().solve(graph, sources, SolveOptions(cutoff=cutoff)).distances, sources)
    return sums.words


def assert_close(found: PathWords | None, expected: PathWords) -> None:
    assert found is not None
    for some, others in zip(found, expected, strict=True):
        values = sums_of(others)
        np.testing.assert_allclose(sums_of(some), values, rtol=1e-13, atol=1e-15)
        # Nothing is subtracted, so what no path passes is exactly zero.
        np.testing.assert_array_equal(sums_of(some) == 0, values == 0)


def graph_for(name: str) -> CsrGraph:
    """Return a graph that the solver takes: `bits-gpu` wants equal weights."""
    graph = road_like(vertices=300, seed=3).graph("uint32")
    weights = np.full(graph.n_edges, 7, np.uint32) if name == "bits-gpu" else graph.weights
    return CsrGraph(graph.row_offsets, graph.col_indices, weights)
