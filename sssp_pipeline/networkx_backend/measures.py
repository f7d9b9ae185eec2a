"""Measures of NetworkX that need the distances between all nodes: eccentricity, closeness and others.

Each has the arguments, the result and the errors of its namesake in NetworkX. Rows are solved in batches, and a row is
dropped when it is summed up. Sums of floats have the order of NetworkX, so they have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import networkx as nx
import numpy as np

from sssp_pipeline.networkx_backend.graphs import EXACT, BackendGraph, Weight, WeightedGraph
from sssp_pipeline.networkx_backend.rows import Row, Totals, has_exact_totals, rows_from, totals_from

# ---- eccentricity, and what follows from it ----


def eccentricity(G: BackendGraph, v: Any = None, sp: Any = None, weight: Weight = None) -> Any:
    """Return the largest length of a shortest path from each node of `v`."""
    if len(G) == 0:  # an error since NetworkX 3.7
        return nx.eccentricity.orig_func(G.original, v, sp, weight)
    nodes = list(G.nbunch_iter(v))
    farthest = _of_given_lengths(G, nodes, sp) if sp is not None else _of_rows(G, nodes, weight)
    found = dict(zip(nodes, farthest, strict=True))
    return found[v] if v in G else found


def _of_eccentricities(part: Callable[[dict[Any, Any]], Any]) -> Callable[..., Any]:
    """Return the function that returns `part` of the eccentricities of all nodes."""

    def run(G: BackendGraph, e: Any = None, usebounds: bool = False, weight: Weight = None) -> Any:
        return part(eccentricity(G, weight=weight) if e is None else e)

    return run


def _nodes_with(choose: Callable[..., Any], found: dict[Any, Any]) -> list[Any]:
    """Return the nodes whose eccentricity is the one that `choose` chooses of all."""
    chosen = choose(found.values())
    return [node for node in found if found[node] == chosen]


diameter = _of_eccentricities(lambda found: max(found.values()))
radius = _of_eccentricities(lambda found: min(found.values()))
periphery = _of_eccentricities(partial(_nodes_with, max))


def center(G: BackendGraph, e: Any = None, usebounds: bool = False, weight: Weight = None) -> list[Any]:
    """Return the nodes whose eccentricity is the radius."""
    may_be_tree = not G.is_directed() and G.original.number_of_edges() == len(G) - 1
    if e is None and weight is None and (may_be_tree or len(G) == 0):
        # NetworkX finds the center of a tree without shortest paths, and lists two nodes in another order. It refuses
        # an empty graph.
        return nx.center.orig_func(G.original)
    return _nodes_with(min, eccentricity(G, weight=weight) if e is None else e)


def _of_rows(G: BackendGraph, nodes: list[Any], weight: Weight) -> Iterator[int | float]:
    weighted, vertices = G.for_dijkstra(weight), [G.vertex_of[node] for node in nodes]
    if has_exact_totals(weighted):
        for found in totals_from(weighted, vertices):
            _check_reaches_all(G, found.n_reached)
            yield found.largest
        return
    for row in rows_from(G, weighted, vertices):
        _check_reaches_all(G, row.n_reached)
        # NetworkX takes the first of equal values, which is the integer 0 of the source.
        yield row.length(int(np.argmax(row.distances))) or 0


def _of_given_lengths(G: BackendGraph, nodes: list[Any], given: Any) -> Iterator[int | float]:
    for node in nodes:
        try:
            lengths = given[node]
            n_reached = len(lengths)
        except TypeError as error:
            raise nx.NetworkXError('Format of "sp" is invalid.') from error
        _check_reaches_all(G, n_reached)
        yield max(lengths.values())


def _check_reaches_all(G: BackendGraph, n_reached: int) -> None:
    if n_reached != len(G):
        reason = "the digraph is not strongly connected" if G.is_directed() else "the graph is not connected"
        raise nx.NetworkXError(f"Found infinite path length because {reason}")


# ---- sums ----


def closeness_centrality(
    G: BackendGraph, u: Any = None, distance: Weight = None, wf_improved: bool = True, *, sp: Any = None
) -> Any:
    """Return the closeness of each node, or of `u`: from the lengths of paths to it. NetworkX has `sp` since 3.7."""
    if sp is not None:
        raise NotImplementedError("the lengths are given, so there is nothing to solve")
    if u is not None and u not in G:
        raise nx.NodeNotFound(
            f"Source {u} is not in G" if distance is None else f"Node {u} not found in graph"
        )
    nodes = G.nodes if u is None else [u]
    totals = _totals(G, G.for_dijkstra(distance, inward=True), [G.vertex_of[node] for node in nodes])
    found = {node: _closeness(one, len(G), wf_improved) for node, one in zip(nodes, totals, strict=True)}
    return found if u is None else found[u]


def _closeness(totals: Totals, n_nodes: int, wf_improved: bool) -> float:
    n_reached, total, _ = totals
    if not total > 0 or n_nodes <= 1:
        return 0.0
    others = n_reached - 1.0
    closeness = others / total
    return closeness * (others / (n_nodes - 1)) if wf_improved else closeness


def _totals(
    G: BackendGraph, weighted: WeightedGraph, vertices: list[int] | range, *, bellman_ford: bool = False
) -> Iterator[Totals]:
    """Yield what the distances of each vertex come to; a sum has the bits that Python's `sum` gives it in NetworkX."""
    if has_exact_totals(weighted):
        yield from totals_from(weighted, vertices)
        return
    for row in rows_from(G, weighted, vertices, bellman_ford=bellman_ford):
        lengths = row.ascending_lengths()
        yield Totals(row.n_reached, sum(lengths), lengths[-1])


def harmonic_centrality(
    G: BackendGraph, nbunch: Any = None, distance: Weight = None, sources: Any = None
) -> dict[Any, int | float]:
    """Return for each node of `nbunch` the sum of 1 / length over the paths from `sources`."""
    # Sets, since NetworkX adds in the order of a set.
    ends = set(iter(G.nodes) if nbunch is None else G.nbunch_iter(nbunch))
    starts = set(iter(G.nodes) if sources is None else G.nbunch_iter(sources))
    found: dict[Any, int | float] = dict.fromkeys(ends, 0)
    if len(ends) < len(starts):
        into = _vertices(G, list(starts))
        weighted = G.for_dijkstra(distance, inward=True)
        for end, row in zip(ends, rows_from(G, weighted, _vertices(G, list(ends))), strict=True):
            terms = _inverses(np.sort(row.distances[into]), row)
            if terms.any():
                found[end] = float(np.add.accumulate(terms)[-1])
        return found
    into = _vertices(G, list(ends))
    totals = np.zeros(len(into))
    weighted = G.for_dijkstra(distance)
    for row in rows_from(G, weighted, _vertices(G, list(starts))):
        totals += _inverses(row.distances[into], row)
    found.update((end, total) for end, total in zip(ends, totals.tolist(), strict=True) if total)
    return found


def _vertices(G: BackendGraph, nodes: list[Any]) -> np.ndarray:
    return np.fromiter(map(G.vertex_of.__getitem__, nodes), np.int64, len(nodes))


def _inverses(distances: np.ndarray, row: Row) -> np.ndarray:
    """Return 1 / distance for `distances` (n,) of a row, and 0 where it is 0 or unreached."""
    counts = (distances != 0) & (distances != row.unreached)
    if distances.dtype.kind != "f" and distances.max(where=counts, initial=0) > EXACT:
        raise NotImplementedError(
            f"a length is an integer beyond {EXACT}, which NumPy rounds before it divides"
        )
    return np.divide(1.0, distances, out=np.zeros(len(distances)), where=counts)


def average_shortest_path_length(
    G: BackendGraph, weight: Weight = None, method: str | None = None
) -> int | float:
    """Return the mean length over all pairs of different nodes. `method` names no algorithm on a matrix."""
    n_nodes = len(G)
    if n_nodes == 0:
        message = "the null graph has no paths, thus there is no average shortest path length"
        raise nx.NetworkXPointlessConcept(message)
    if n_nodes == 1:
        return 0
    for inward in (False, True)[: 1 + G.is_directed()]:
        if next(rows_from(G, G.weighted(None, inward=inward), [0])).n_reached != n_nodes:
            kind = "strongly connected" if G.is_directed() else "connected"
            raise nx.NetworkXError(f"Graph is not {kind}.")
    if method == "unweighted" or (method is None and weight is None):
        weight = None
    is_bellman_ford = method == "bellman-ford"
    weighted = G.for_bellman_ford(weight) if is_bellman_ford else G.for_dijkstra(weight)
    if weighted.is_float:
        rows = rows_from(G, weighted, range(n_nodes), bellman_ford=is_bellman_ford)
        total = sum(chain.from_iterable(row.ascending_lengths() for row in rows))
    else:
        every = _totals(G, weighted, range(n_nodes), bellman_ford=is_bellman_ford)
        total = sum(found.total for found in every)
    return total / (n_nodes * (n_nodes - 1))
