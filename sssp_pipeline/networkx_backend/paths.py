"""Shortest paths of NetworkX: the functions of Dijkstra's algorithm and those of Bellman and Ford's.

Each has the arguments, the result and the errors of its namesake in NetworkX, whose documentation describes them. Where
the result could differ, `BackendGraph` raises `NotImplementedError`, and NetworkX then calls its own function.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import networkx as nx

from sssp_pipeline.networkx_backend.graphs import BackendGraph, Weight
from sssp_pipeline.networkx_backend.mappings import LazyMapping, Lengths, Paths
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
        return Lengths(row), Paths(row)
    message = f"No path to {target}."
    return _at(Lengths(row), target, message), _at(Paths(row), target, message)


def multi_source_dijkstra_path(
    G: BackendGraph, sources: Any, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Any:
    """Return paths."""
    return multi_source_dijkstra(G, sources, cutoff=cutoff, weight=weight)[1]


def multi_source_dijkstra_path_length(
    G: BackendGraph, sources: Any, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Any:
    """Return lengths."""
    return multi_source_dijkstra(G, sources, cutoff=cutoff, weight=weight)[0]


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
    lengths = Lengths(_from_nearest(G, [source], None, weight))
    return _at(lengths, target, f"Node {target} not reachable from {source}")


def all_pairs_dijkstra(
    G: BackendGraph, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Iterator[tuple[Any, tuple[LazyMapping, LazyMapping]]]:
    """Return an iterator of each node with its lengths and paths."""
    return ((node, (Lengths(row), Paths(row))) for node, row in _from_all(G, cutoff, weight))


def all_pairs_dijkstra_path(
    G: BackendGraph, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Iterator[tuple[Any, LazyMapping]]:
    """Return an iterator of each node with its paths."""
    return ((node, Paths(row)) for node, row in _from_all(G, cutoff, weight))


def all_pairs_dijkstra_path_length(
    G: BackendGraph, cutoff: Cutoff = None, weight: Weight = "weight"
) -> Iterator[tuple[Any, LazyMapping]]:
    """Return an iterator of each node with its lengths."""
    return ((node, Lengths(row)) for node, row in _from_all(G, cutoff, weight))


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


def _at(mapping: LazyMapping, target: Any, message: str) -> Any:
    try:
        return mapping[target]
    except KeyError as error:
        raise nx.NetworkXNoPath(message) from error


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
        return Lengths(row), Paths(row)
    message = f"Target {target} cannot be reached from given sources"
    return _at(Lengths(row), target, message), _at(Paths(row), target, message)


def single_source_bellman_ford_path(G: BackendGraph, source: Any, weight: Weight = "weight") -> Any:
    """Return paths."""
    return single_source_bellman_ford(G, source, weight=weight)[1]


def single_source_bellman_ford_path_length(G: BackendGraph, source: Any, weight: Weight = "weight") -> Any:
    """Return lengths."""
    return Lengths(_by_bellman_ford(G, source, weight, predecessors=False))


def bellman_ford_path(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a path."""
    return single_source_bellman_ford(G, source, target, weight)[1]


def bellman_ford_path_length(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a length."""
    if source == target:
        if source not in G:
            raise nx.NodeNotFound(f"Node {source} not found in graph")
        return 0
    lengths = Lengths(_by_bellman_ford(G, source, weight, predecessors=False))
    return _at(lengths, target, f"node {target} not reachable from {source}")


def all_pairs_bellman_ford_path(
    G: BackendGraph, weight: Weight = "weight"
) -> Iterator[tuple[Any, LazyMapping]]:
    """Return an iterator of each node with its paths."""
    return ((node, Paths(row)) for node, row in _all_by_bellman_ford(G, weight, predecessors=True))


def all_pairs_bellman_ford_path_length(
    G: BackendGraph, weight: Weight = "weight"
) -> Iterator[tuple[Any, LazyMapping]]:
    """Return an iterator of each node with its lengths."""
    return ((node, Lengths(row)) for node, row in _all_by_bellman_ford(G, weight, predecessors=False))


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
