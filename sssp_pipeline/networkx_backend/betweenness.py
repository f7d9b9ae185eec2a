"""Betweenness of nodes and edges of NetworkX.

Each function has the arguments, the result and the errors of its namesake in NetworkX. Values are equal up to rounding:
NetworkX adds floats in the order in which its search settles nodes. Where it counts other paths, or none, the function
raises `NotImplementedError`, and NetworkX runs its own.

`edge_betweenness_centrality_subset` is left to NetworkX. Behind a node that is no target, NetworkX divides what passes
evenly among the tight edges into the node, and not by the numbers of paths.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import networkx as nx
import numpy as np

from sssp_pipeline.api.calls.along_paths import sums_along_paths
from sssp_pipeline.api.calls.argument_names import naming, of_solve
from sssp_pipeline.api.calls.calls import solve_sources
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import UncountablePathsError
from sssp_pipeline.kernels.answers.path_sums import PathWords, sums_of
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.networkx_backend.graphs import BackendGraph, Weight
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import sources_of_edges

#: The first release that scales estimates from a sample as it is done here.
_SCALES_SAMPLES = (3, 6)


def betweenness_centrality(
    G: BackendGraph,
    k: int | None = None,
    normalized: bool = True,
    weight: Weight = None,
    endpoints: bool = False,
    seed: Any = None,
) -> dict[Any, float]:
    """Return the betweenness of each node; from `k` nodes that `seed` draws, an estimate."""
    graph = _countable(G, weight)
    drawn, draw = _drawn(G, None if k == len(G) else k, seed)
    sums = _sums(G, graph, drawn, PathSumsAsked(endpoints=endpoints))
    draw()
    n_ends = len(G) if endpoints else len(G) - 1
    values = sums_of(sums.vertices)
    scale = _scale(n_ends, None if drawn is None else len(drawn), normalized, G.is_directed())
    if drawn is None or endpoints or n_ends < 2:
        values *= scale
    else:
        # A node of the sample is passed by paths from the others in the sample only.
        values[drawn] *= len(drawn) / (len(drawn) - 1) if len(drawn) > 1 else math.nan
        values *= scale
    return dict(zip(G.nodes, values.tolist(), strict=True))


def betweenness_centrality_subset(
    G: BackendGraph,
    sources: Iterable[Any],
    targets: Iterable[Any],
    normalized: bool = False,
    weight: Weight = None,
) -> dict[Any, float]:
    """Return the betweenness of each node on the paths from `sources` to `targets`."""
    graph = _countable(G, weight)
    starts = list(sources)
    if unknown := [node for node in starts if node not in G]:
        raise NotImplementedError(f"the source {unknown[0]!r} is not in the graph")
    is_target = np.zeros(len(G), np.bool_)
    is_target[[G.vertex_of[node] for node in targets if node in G]] = True
    vertices = [G.vertex_of[node] for node in starts]
    sums = _sums(G, graph, vertices, PathSumsAsked(is_target=is_target))
    values = sums_of(sums.vertices) * _scale(len(G) - 1, None, normalized, G.is_directed())
    return dict(zip(G.nodes, values.tolist(), strict=True))


def edge_betweenness_centrality(
    G: BackendGraph,
    k: int | None = None,
    normalized: bool = True,
    weight: Weight = None,
    seed: Any = None,
) -> dict[Any, float]:
    """Return the betweenness of each edge; from `k` nodes that `seed` draws, an estimate."""
    graph = _countable(G, weight)
    drawn, draw = _drawn(G, k, seed)
    sums = _sums(G, graph, drawn, PathSumsAsked(vertices=False, edges=True))
    draw()
    values = sums_of(sums.edges)
    values *= _scale(len(G), None if drawn is None else len(drawn), normalized, G.is_directed())
    nodes = G.nodes
    starts, ends = (
        map(nodes.__getitem__, some.tolist()) for some in (sources_of_edges(graph), graph.col_indices)
    )
    of_direction = dict(zip(zip(starts, ends, strict=True), values.tolist(), strict=True))
    found = {}
    for u, v in G.original.edges():
        other = 0.0 if G.is_directed() or u == v else of_direction[v, u]
        found[u, v] = of_direction[u, v] + other
    return _with_keys(G, found, weight) if G.is_multigraph() else found


def _with_keys(G: BackendGraph, found: dict[Any, float], weight: Weight) -> dict[Any, float]:
    """Return the values of parallel edges: those with the least weight share the value of their ends."""

    def least(u: Any, v: Any, parallel: dict[Any, Any]) -> Any:
        if callable(weight):
            return weight(u, v, parallel)
        return min(attributes.get(weight, 1) for attributes in parallel.values())

    of_key: dict[Any, float] = dict.fromkeys(G.original.edges, 0.0)
    for (u, v), value in found.items():
        parallel = G.original[u][v]
        shortest = least(u, v, parallel)
        keys = [key for key in parallel if least(u, v, {key: parallel[key]}) == shortest]
        of_key.update(((u, v, key), value / len(keys)) for key in keys)
    return of_key


def _countable(G: BackendGraph, weight: Weight) -> CsrGraph:
    """Return the edges; raises `NotImplementedError` if NetworkX does not count the paths along tight edges."""
    weighted = G.for_dijkstra(weight)
    if weighted.has_hidden:
        raise NotImplementedError("the weight of an edge is None, which is an error in NetworkX")
    if weighted.graph.n_edges and weighted.graph.traits.min_weight <= 0:
        raise NotImplementedError("the weight of an edge is 0, and then NetworkX does not count every path")
    return weighted.graph


def _drawn(G: BackendGraph, k: int | None, seed: Any) -> tuple[list[int] | None, Callable[[], Any]]:
    """Return the vertices that NetworkX draws, or None for all, and what draws them from `seed`.

    They come from a copy of `seed`. If the call is left to NetworkX after all, it draws the same.
    """
    if k is None:
        return None, lambda: None
    if not isinstance(k, int) or not 1 <= k <= len(G):
        raise NotImplementedError(f"k is {k!r}, and the graph has {len(G)} nodes")
    if tuple(map(int, nx.__version__.split(".")[:2])) < _SCALES_SAMPLES:
        raise NotImplementedError(f"NetworkX {nx.__version__} scales estimates in another way")
    generator = nx.utils.create_py_random_state(seed)
    if type(generator) is not random.Random:
        raise NotImplementedError(
            f"seed is of type {type(seed).__name__}, and only Python's own can be copied"
        )
    nodes = copy.deepcopy(generator).sample(G.nodes, k)
    return [G.vertex_of[node] for node in nodes], partial(generator.sample, G.nodes, k)


def _sums(
    G: BackendGraph, graph: CsrGraph, vertices: Sequence[int] | None, asked: PathSumsAsked
) -> PathWords:
    sources = np.array(range(len(G)) if vertices is None else vertices, np.uint32)
    try:
        with naming(of_solve):
            solve = partial(solve_sources, graph)
            return sums_along_paths(graph, sources, asked, SolveOptions(metrics=False), "auto", solve).words
    except UncountablePathsError:
        raise NotImplementedError("the shortest paths of a node cannot be counted exactly") from None


def _scale(n_ends: int, n_drawn: int | None, normalized: bool, is_directed: bool) -> float:
    """Return by what NetworkX multiplies sums over the paths between `n_ends` nodes, from all or from `n_drawn`."""
    if n_ends < 2:
        return 1.0
    n_sources = n_ends if n_drawn is None else n_drawn
    if normalized:
        return 1 / (n_sources * (n_ends - 1))
    return n_ends / (n_sources * (1 if is_directed else 2))
