"""Shortest paths of NetworkX: the functions of Dijkstra's algorithm and of Bellman and Ford's.

Each has the arguments, the result and the errors of its namesake in NetworkX, whose documentation describes them. Where
the result could differ, `BackendGraph` raises `NotImplementedError`, and NetworkX then calls its own function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import networkx as nx

from sssp_pipeline.networkx_backend.graphs import BackendGraph, Weight
from sssp_pipeline.networkx_backend.rows import Row, row_from_nearest, rows_from

Cutoff = float | None
Pairs = Iterator[tuple[Any, Any]]


def _both(row: Row) -> tuple[dict[Any, Any], dict[Any, Any]]:
    return row.lengths(), row.paths()


def _reached(row: Row, target: Any, message: str) -> int:
    """Return the vertex of `target`; raises `NetworkXNoPath` with `message` if no path leads to it."""
    vertex = row.of.vertex_of.get(target)
    if vertex is None or not row.reaches(vertex):
        raise nx.NetworkXNoPath(message)
    return vertex


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
        return _both(row)
    vertex = _reached(row, target, f"No path to {target}.")
    return row.length(vertex), row.path(vertex)


def _multi_source(part: Callable[[Row], Any]) -> Callable[..., Any]:
    """Return the function that returns `part` of the row of several sources."""

    def run(G: BackendGraph, sources: Any, cutoff: Cutoff = None, weight: Weight = "weight") -> Any:
        _check_sources(G, sources)
        return part(_from_nearest(G, sources, cutoff, weight))

    return run


multi_source_dijkstra_path = _multi_source(Row.paths)
multi_source_dijkstra_path_length = _multi_source(Row.lengths)


def _single_source(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that calls `function` with one source."""
    return lambda G, source, *args, **kwargs: function(G, {source}, *args, **kwargs)


single_source_dijkstra = _single_source(multi_source_dijkstra)
single_source_dijkstra_path = _single_source(multi_source_dijkstra_path)
single_source_dijkstra_path_length = _single_source(multi_source_dijkstra_path_length)


def dijkstra_path(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a path."""
    return single_source_dijkstra(G, source, target, weight=weight)[1]


def dijkstra_path_length(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a length."""
    _check_sources(G, [source])
    if source == target:
        return 0
    row = _from_nearest(G, [source], None, weight)
    return row.length(_reached(row, target, f"Node {target} not reachable from {source}"))


def _all_pairs(part: Callable[[Row], Any]) -> Callable[..., Pairs]:
    """Return the function that returns an iterator of each node and `part` of its row."""

    def run(G: BackendGraph, cutoff: Cutoff = None, weight: Weight = "weight") -> Pairs:
        # Outside of the iterator, so that a call which cannot be run is refused before NetworkX has an iterator.
        weighted = G.for_dijkstra(weight)
        rows = rows_from(G, weighted, range(len(G)), cutoff=cutoff)
        return ((node, part(row)) for node, row in zip(G.nodes, rows, strict=True))

    return run


all_pairs_dijkstra = _all_pairs(_both)
all_pairs_dijkstra_path = _all_pairs(Row.paths)
all_pairs_dijkstra_path_length = _all_pairs(Row.lengths)


def _check_sources(G: BackendGraph, sources: Any) -> None:
    if not sources:
        raise ValueError("sources must not be empty")
    for source in sources:
        if source not in G:
            raise nx.NodeNotFound(f"Node {source} not found in graph")


def _from_nearest(G: BackendGraph, sources: Iterable[Any], cutoff: Cutoff, weight: Weight) -> Row:
    vertices = [G.vertex_of[source] for source in dict.fromkeys(sources)]
    return row_from_nearest(G, G.for_dijkstra(weight), vertices, cutoff)


# ---- Bellman and Ford's algorithm ----


def single_source_bellman_ford(
    G: BackendGraph, source: Any, target: Any = None, weight: Weight = "weight"
) -> Any:
    """Return lengths and paths, or the length and the path to `target`."""
    if source == target:
        if source not in G:
            raise nx.NodeNotFound(f"Node {source} is not found in the graph")
        return 0, [source]
    row = _by_bellman_ford(G, source, weight)
    if target is None:
        return _both(row)
    vertex = _reached(row, target, f"Target {target} cannot be reached from given sources")
    return row.length(vertex), row.path(vertex)


def single_source_bellman_ford_path(G: BackendGraph, source: Any, weight: Weight = "weight") -> Any:
    """Return paths."""
    return _by_bellman_ford(G, source, weight).paths()


def single_source_bellman_ford_path_length(G: BackendGraph, source: Any, weight: Weight = "weight") -> Any:
    """Return lengths."""
    return _by_bellman_ford(G, source, weight, predecessors=False).lengths()


def bellman_ford_path(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a path."""
    return single_source_bellman_ford(G, source, target, weight)[1]


def bellman_ford_path_length(G: BackendGraph, source: Any, target: Any, weight: Weight = "weight") -> Any:
    """Return a length."""
    if source == target:
        _check_sources(G, [source])
        return 0
    row = _by_bellman_ford(G, source, weight, predecessors=False)
    return row.length(_reached(row, target, f"node {target} not reachable from {source}"))


def _all_pairs_by_bellman_ford(part: Callable[[Row], Any], *, predecessors: bool) -> Callable[..., Pairs]:
    """Return the function that returns an iterator of each node and `part` of its row."""

    def run(G: BackendGraph, weight: Weight = "weight") -> Pairs:
        rows = _rows_by_bellman_ford(G, range(len(G)), weight, predecessors)
        return ((node, part(row)) for node, row in zip(G.nodes, rows, strict=True))

    return run


all_pairs_bellman_ford_path = _all_pairs_by_bellman_ford(Row.paths, predecessors=True)
all_pairs_bellman_ford_path_length = _all_pairs_by_bellman_ford(Row.lengths, predecessors=False)


def _by_bellman_ford(G: BackendGraph, source: Any, weight: Weight, *, predecessors: bool = True) -> Row:
    if source not in G:
        raise nx.NodeNotFound(f"Source {source} not in G")
    return next(_rows_by_bellman_ford(G, [G.vertex_of[source]], weight, predecessors))


def _rows_by_bellman_ford(
    G: BackendGraph, sources: Sequence[int], weight: Weight, predecessors: bool
) -> Iterator[Row]:
    weighted = G.for_bellman_ford(weight)
    return rows_from(G, weighted, sources, bellman_ford=True, predecessors=predecessors)
