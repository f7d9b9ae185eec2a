"""Shortest paths of NetworkX: the functions of Dijkstra's algorithm and those of Bellman and Ford's.

Each has the arguments, the result and the errors of its namesake in NetworkX, whose documentation describes them. Where
the result could differ, `BackendGraph` raises `NotImplementedError`, and NetworkX then calls its own function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import networkx as nx

from sssp_pipeline.networkx_backend.graphs import BackendGraph, Weight
from sssp_pipeline.networkx_backend.rows import Row, row_from_nearest, rows_from

Cutoff = float | None

# ---- Dijkstra's algorithm ----


def multi_source_dijkstra(
    G: BackendGraph, sources: Any, target: Any = None, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Any:
    """Return lengths and paths, or the length and the path to `target`."""
    _check_sources(G, sources)
    if target in sources:
        return 0, [target]
    row = _from_nearest(G, sources, cutoff, weight)
    if target is None:
        return row.lengths(), row.paths()
    vertex = _reached(row, target, f"No path to {target}.")
    return row.length(vertex), row.path(vertex)


def multi_source_dijkstra_path(
    G: BackendGraph, sources: Any, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Any:
    """Return paths."""
    _check_sources(G, sources)
    return _from_nearest(G, sources, cutoff, weight).paths()


def multi_source_dijkstra_path_length(
    G: BackendGraph, sources: Any, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Any:
    """Return lengths."""
    _check_sources(G, sources)
    return _from_nearest(G, sources, cutoff, weight).lengths()


def single_source_dijkstra(
    G: BackendGraph, source: Any, target: Any = None, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Any:
    """Return lengths and paths, or the length and the path to `target`."""
    return multi_source_dijkstra(G, {source}, target, cutoff, weight)


def single_source_dijkstra_path(
    G: BackendGraph, source: Any, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Any:
    """Return paths."""
    return multi_source_dijkstra_path(G, {source}, cutoff, weight)


def single_source_dijkstra_path_length(
    G: BackendGraph, source: Any, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Any:
    """Return lengths."""
    return multi_source_dijkstra_path_length(G, {source}, cutoff, weight)


def dijkstra_path(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a path."""
    return single_source_dijkstra(G, source, target, weight=weight)[1]


def dijkstra_path_length(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a length."""
    if source not in G:
        raise nx.NodeNotFound(f"Node {source} not found in graph")
    if source == target:
        return 0
    row = _from_nearest(G, [source], None, weight)
    return row.length(_reached(row, target, f"Node {target} not reachable from {source}"))


def all_pairs_dijkstra(
    G: BackendGraph, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Iterator[tuple[Any, tuple[dict[Any, Any], dict[Any, Any]]]]:
    """Return an iterator of each node with its lengths and paths."""
    return ((node, (row.lengths(), row.paths())) for node, row in _from_all(G, cutoff, weight))


def all_pairs_dijkstra_path(
    G: BackendGraph, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Return an iterator of each node with its paths."""
    return ((node, row.paths()) for node, row in _from_all(G, cutoff, weight))


def all_pairs_dijkstra_path_length(
    G: BackendGraph, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Return an iterator of each node with its lengths."""
    return ((node, row.lengths()) for node, row in _from_all(G, cutoff, weight))


def _check_sources(G: BackendGraph, sources: Any) -> None:
    if not sources:
        raise ValueError("sources must not be empty")
    for source in sources:
        if source not in G:
            raise nx.NodeNotFound(f"Node {source} not found in graph")


def _from_nearest(G: BackendGraph, sources: Iterable[Any], cutoff: Cutoff, weight: Weight) -> Row:
    vertices = [G.vertex_of[source] for source in dict.fromkeys(sources)]
    return row_from_nearest(G, G.for_dijkstra(weight), vertices, cutoff)


def _from_all(G: BackendGraph, cutoff: Cutoff, weight: Weight) -> Iterator[tuple[Any, Row]]:
    # Outside of the iterator, so that a call which cannot be run is refused before NetworkX has an iterator.
    weighted = G.for_dijkstra(weight)
    return zip(G.nodes, rows_from(G, weighted, range(len(G)), cutoff=cutoff), strict=True)


def _reached(row: Row, target: Any, message: str) -> int:
    """Return the vertex of `target`; raises `NetworkXNoPath` with `message` if no path leads to it."""
    vertex = row.of.vertex_of.get(target)
    if vertex is None or not row.reaches(vertex):
        raise nx.NetworkXNoPath(message)
    return vertex


# ---- Bellman and Ford's algorithm ----


def single_source_bellman_ford(
    G: BackendGraph, source: Any, target: Any = None, weight: Weight = "weight"
) -> Any:
    """Return lengths and paths, or the length and the path to `target`."""
    if source == target:
        if source not in G:
            raise nx.NodeNotFound(f"Node {source} is not found in the graph")
        return 0, [source]
    row = _by_bellman_ford(G, source, weight, predecessors=True)
    if target is None:
        return row.lengths(), row.paths()
    vertex = _reached(row, target, f"Target {target} cannot be reached from given sources")
    return row.length(vertex), row.path(vertex)


def single_source_bellman_ford_path(G: BackendGraph, source: Any, weight: Weight = "weight") -> Any:
    """Return paths."""
    return _by_bellman_ford(G, source, weight, predecessors=True).paths()


def single_source_bellman_ford_path_length(G: BackendGraph, source: Any, weight: Weight = "weight") -> Any:
    """Return lengths."""
    return _by_bellman_ford(G, source, weight, predecessors=False).lengths()


def bellman_ford_path(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a path."""
    return single_source_bellman_ford(G, source, target, weight)[1]


def bellman_ford_path_length(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a length."""
    if source == target:
        if source not in G:
            raise nx.NodeNotFound(f"Node {source} not found in graph")
        return 0
    row = _by_bellman_ford(G, source, weight, predecessors=False)
    return row.length(_reached(row, target, f"node {target} not reachable from {source}"))


def all_pairs_bellman_ford_path(
    G: BackendGraph, weight: Weight = "weight"
) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Return an iterator of each node with its paths."""
    return ((node, row.paths()) for node, row in _all_by_bellman_ford(G, weight, predecessors=True))


def all_pairs_bellman_ford_path_length(
    G: BackendGraph, weight: Weight = "weight"
) -> Iterator[tuple[Any, dict[Any, Any]]]:
    """Return an iterator of each node with its lengths."""
    return ((node, row.lengths()) for node, row in _all_by_bellman_ford(G, weight, predecessors=False))


def _by_bellman_ford(G: BackendGraph, source: Any, weight: Weight, *, predecessors: bool) -> Row:
    if source not in G:
        raise nx.NodeNotFound(f"Source {source} not in G")
    weighted = G.for_bellman_ford(weight)
    sources = [G.vertex_of[source]]
    return next(rows_from(G, weighted, sources, bellman_ford=True, predecessors=predecessors))


def _all_by_bellman_ford(G: BackendGraph, weight: Weight, *, predecessors: bool) -> Iterator[tuple[Any, Row]]:
    weighted = G.for_bellman_ford(weight)
    rows = rows_from(G, weighted, range(len(G)), bellman_ford=True, predecessors=predecessors)
    return zip(G.nodes, rows, strict=True)
