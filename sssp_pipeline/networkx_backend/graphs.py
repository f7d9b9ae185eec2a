"""Graphs of NetworkX as the backend keeps them: numbered vertices, edges in the order of NetworkX, and weights.

Every edge of an undirected graph is held once for each direction, as in the adjacency of NetworkX. A weight function
may give both directions different weights.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, cast

import networkx as nx
import numpy as np

from sssp_pipeline.api.distances.like_scipy import searched_weights
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.networkx_backend.info import NAME
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import reversed_graph

#: The types of weights whose sums are the same here and in NetworkX. Sums of float32, for example, are rounded
#: differently.
_WHOLE = frozenset({int, bool, np.int64})
_DECIMAL = frozenset({float, np.float64})
#: Integers up to here are exact as float64.
EXACT = 2**53

#: An attribute of edges, a function of both ends and the attributes, or None for a weight of 1.
Weight = Hashable | Callable[[Any, Any, Any], Any] | None


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """The edges of a graph with one kind of weight."""

    graph: CsrGraph
    #: Whether a weight is a float, so that distances are floats too. `graph` may hold whole floats as integers.
    is_float: bool
    #: Whether the weight of some edge is None, which hides the edge.
    has_hidden: bool


class BackendGraph:
    """A graph of NetworkX with its edges in arrays.

    Parameters
    ----------
    original
        The graph. It is kept, for `convert_to_nx` and for the attributes of its edges.
    """

    __networkx_backend__ = NAME

    def __init__(self, original: nx.Graph) -> None:
        adjacency: Mapping[Any, Mapping[Any, Any]] = original._adj
        self.original = original
        self.nodes: list[Any] = list(adjacency)
        self.vertex_of: dict[Any, int] = {node: vertex for vertex, node in enumerate(self.nodes)}
        n_vertices = len(self.nodes)
        self._row_offsets = np.zeros(n_vertices + 1, np.int64)
        np.cumsum(np.fromiter(map(len, adjacency.values()), np.int64, n_vertices), out=self._row_offsets[1:])
        ends = map(self.vertex_of.__getitem__, chain.from_iterable(adjacency.values()))
        self._col_indices = np.fromiter(ends, np.uint32, int(self._row_offsets[-1]))
        attributes = [found for of_node in adjacency.values() for found in of_node.values()]
        addresses = np.fromiter(map(id, attributes), np.uint64, len(attributes))
        _, first, self._place_of_edge = np.unique(addresses, return_index=True, return_inverse=True)
        #: The attributes of the edges, each dictionary once: both directions of an edge share one. Of a multigraph, a
        #: dictionary of the attributes of parallel edges. They are in the order of memory, so that reading is fast.
        self._attributes = [attributes[edge] for edge in first.tolist()]
        self._weighted: dict[tuple[Any, bool], _Kept] = {}
        self._is_used = False

    def current(self) -> BackendGraph:
        """Return the graph for one call: itself, or, of a view that an earlier call used, a new conversion.

        NetworkX keeps a converted graph with its original, and drops it when a method changes the original. A view
        changes with the graph behind it, and is not told.
        """
        if self._is_used and hasattr(self.original, "_graph"):
            return BackendGraph(self.original)
        self._is_used = True
        return self

    # ---- what NetworkX and the functions of the backend ask of a graph ----

    @property
    def _adj(self) -> dict[Any, int]:
        return self.vertex_of

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.nodes)

    def __contains__(self, node: Any) -> bool:
        try:
            return node in self.vertex_of
        except TypeError:  # it cannot be hashed
            return False

    def is_directed(self) -> bool:
        return bool(self.original.is_directed())

    def is_multigraph(self) -> bool:
        return bool(self.original.is_multigraph())

    #: It reads only `_adj` and `in`.
    nbunch_iter = nx.Graph.nbunch_iter

    # ---- edges with weights ----

    def weighted(self, weight: Weight, *, inward: bool = False) -> WeightedGraph:
        """Return the edges with their weights, each reversed if `inward`; an edge whose weight is None is left out.

        The weights are read at each call, since a program may change them in the dictionaries of the graph.

        Raises
        ------
        NotImplementedError
            A weight is not a number, or sums of the weights are not the same here as in NetworkX.
        """
        inward = inward and self.is_directed()
        try:
            if callable(weight):  # it may return something else at the next call
                return self._made(self._values_of_function(weight, inward), None, inward)
            values = None if weight is None else self._values(weight)
            # 1 and 1.0 are equal, and make integers and floats of distances.
            kinds = set(map(type, values or ()))
            kept = self._weighted.get((weight, inward))
            if kept is None or kept.kinds != kinds or kept.values != values:
                kept = _Kept(self._made(values, self._place_of_edge, inward), values, kinds)
                self._weighted[weight, inward] = kept
            return kept.graph
        except _UnusableError as error:
            raise NotImplementedError(str(error)) from error

    def for_dijkstra(self, weight: Weight, *, inward: bool = False) -> WeightedGraph:
        """Return `weighted`; raises `NotImplementedError` also if a weight is negative."""
        found = self.weighted(weight, inward=inward)
        if (least := found.graph.traits.min_weight) < 0:
            raise NotImplementedError(
                f"an edge has the weight {least}, and Dijkstra's algorithm takes none below 0"
            )
        return found

    def for_bellman_ford(self, weight: Weight) -> WeightedGraph:
        """Return `weighted`; raises `NotImplementedError` also if a weight is None."""
        found = self.weighted(weight)
        if found.has_hidden:
            raise NotImplementedError(
                "the weight of an edge is None, which only Dijkstra's algorithm leaves out"
            )
        return found

    def _made(self, found: list[Any] | None, place_of_edge: np.ndarray | None, inward: bool) -> WeightedGraph:
        """Return the edges with the weights `found`, at `place_of_edge` (E,) or in the order of the edges."""
        offsets, ends = self._row_offsets, self._col_indices
        values, is_float, is_edge = np.ones(len(ends), np.uint32), False, None
        if found is not None:
            values, is_float, is_edge = _as_array(found, len(self))
            if place_of_edge is not None:
                values = values[place_of_edge]
                is_edge = None if is_edge is None else is_edge[place_of_edge]
        if is_edge is not None:
            offsets = np.concatenate([[0], np.cumsum(is_edge)])[offsets]
            ends, values = ends[is_edge], values[is_edge]
        graph = CsrGraph(offsets, ends, searched_weights(values, len(self)))
        return WeightedGraph(reversed_graph(graph) if inward else graph, is_float, is_edge is not None)

    def _values(self, weight: Hashable) -> list[Any]:
        """Return the weight in each of `_attributes` as NetworkX finds it; else raise `_UnusableError`."""
        with _as_unusable():
            if self.is_multigraph():
                return [min(edge.get(weight, 1) for edge in edges.values()) for edges in self._attributes]
            return [found.get(weight, 1) for found in self._attributes]

    def _values_of_function(self, weight: Callable[[Any, Any, Any], Any], inward: bool) -> list[Any]:
        """Return the weight of each edge; raises `_UnusableError` if the function raises."""
        function = weight if not inward else lambda u, v, found: weight(v, u, found)
        degrees = np.diff(self._row_offsets)
        starts = chain.from_iterable(map(repeat, self.nodes, degrees.tolist()))
        ends = map(self.nodes.__getitem__, self._col_indices.tolist())
        with _as_unusable():
            return list(
                map(function, starts, ends, map(self._attributes.__getitem__, self._place_of_edge.tolist()))
            )


@dataclass(frozen=True, eq=False)
class _Kept:
    """The edges of an earlier call, and the weights that it read with their types."""

    graph: WeightedGraph
    values: list[Any] | None
    kinds: set[type]


@contextmanager
def _as_unusable() -> Iterator[None]:
    """Raise `_UnusableError` for any error of a weight: NetworkX raises the same, if its search comes to this edge."""
    try:
        yield
    except Exception as error:
        raise _UnusableError(f"the weight of an edge raises {type(error).__name__}: {error}") from error


class _UnusableError(Exception):
    """Weights cannot be used; the message says why."""


def _as_array(values: list[Any], n_vertices: int) -> tuple[np.ndarray, bool, np.ndarray | None]:
    """Return `values` (E,) as an array, whether one of them is a float, and which are not None if one is."""
    is_edge = None
    kinds = set(map(type, values))
    if type(None) in kinds:
        kinds.remove(type(None))
        is_edge = np.array([value is not None for value in values], bool)
        values = [0 if value is None else value for value in values]
    if unknown := kinds - _WHOLE - _DECIMAL:
        names = ", ".join(sorted(kind.__qualname__ for kind in unknown))
        raise _UnusableError(f"weights are of type {names}, and only int and float are added as in NetworkX")
    is_float = bool(kinds & _DECIMAL)
    try:
        whole = [int(value) for value in values if type(value) in _WHOLE] if is_float else values
        integers = np.array(whole, np.int64)
    except OverflowError:
        raise _UnusableError("a weight is an integer of more than 64 bits") from None
    longest = n_vertices * max(int(np.max(integers, initial=0)), -int(np.min(integers, initial=0)))
    if longest >= (EXACT if is_float else 2**62):
        kind = "beside floats " if is_float else ""
        raise _UnusableError(f"integers {kind}may add up to {longest}, which is not exact")
    if not is_float:
        return integers, False, is_edge
    floats = np.array(values, np.float64)
    if not np.isfinite(floats).all():
        raise _UnusableError("a weight is infinite or not a number")
    if n_vertices * float(np.abs(floats).max()) > sys.float_info.max:
        raise _UnusableError("the longest path may be infinite")
    return floats, True, is_edge


def convert_from_nx(graph: Any) -> BackendGraph:
    """Return a graph of NetworkX for the backend; one of the backend is returned as it is."""
    return graph if isinstance(graph, BackendGraph) else BackendGraph(cast(nx.Graph, graph))
