"""Graphs of Python objects: NetworkX, igraph and rustworkx.

Each library has a function that returns the edges of its graph. No library is imported here: `library_of` looks at the
module of the graph's class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa

from sssp_pipeline.api.graphs.ids import Ids, ObjectIds
from sssp_pipeline.base.csr import MAX_VERTICES
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds, listed
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk

_COUNTS_EDGES = "`weight=None` counts edges"


class _Ends(Sequence):
    """The ids at one end of each edge, which are looked up on access."""

    def __init__(self, ids: Ids, vertices: np.ndarray) -> None:
        self._ids, self._vertices = ids, vertices

    def __len__(self) -> int:
        return len(self._vertices)

    def __getitem__(self, edge: Any) -> Any:
        return self._ids.original(int(self._vertices[edge]))


@dataclass(frozen=True, eq=False)
class ObjectEdges:
    """The edges of a graph of objects."""

    ids: Ids
    n_vertices: int
    #: (E,) uint32, the ends of each edge.
    src: np.ndarray
    dst: np.ndarray
    #: (E,) values as the graph holds them; None if edges are counted.
    values: Sequence[Any] | None
    #: What messages call a value.
    name: str
    is_directed: bool

    def chunk(self) -> tuple[EdgeChunk, list[np.ndarray]]:
        """Return the edges with their values as weights, and the values that NumPy converted from integers to floats.

        Raises
        ------
        InputError
            A value is not a number, or is an integer of more than 64 bits.
        """
        values = self.values or ()
        src, dst = _Ends(self.ids, self.src), _Ends(self.ids, self.dst)
        for edge, value in enumerate(values):
            if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
                raise InputError(
                    f"edge from `{src[edge]}` to `{dst[edge]}`: {self.name} is {value!r}",
                    hint=f"give every edge a number; {_COUNTS_EDGES}",
                )
        weights = np.array(values) if values else np.empty(0, np.int64)
        chunk = EdgeChunk(cast(Any, src), cast(Any, dst), weights)
        if weights.dtype.kind in "iu":
            return chunk, []
        whole = [int(value) for value in values if isinstance(value, int | np.integer)]
        if any(not -(2**63) <= value < 2**64 for value in whole):
            raise InputError(
                f"{self.name} holds an integer of more than 64 bits", hint="use floats, or smaller integers"
            )
        return chunk, [
            np.array([value for value in whole if value < 2**63], np.int64),
            np.array([value for value in whole if value >= 2**63], np.uint64),
        ]


def library_of(graph: Any) -> str | None:
    """Return "NetworkX", "igraph" or "rustworkx" if the graph is one of that library, or of a subclass."""
    roots = {cls.__module__.partition(".")[0] for cls in type(graph).__mro__}
    return next((name for name in _READERS if name.lower() in roots), None)


def edges_of(graph: Any, library: str, weight: str | None) -> ObjectEdges:
    """Return the edges of a graph of `library`.

    Parameters
    ----------
    weight
        The attribute with the weights. "auto" is the attribute `weight`, or no weight if no edge has an attribute; for
        rustworkx also an edge that is a number. None means no weight.

    Raises
    ------
    InputError
        The attribute is missing, two vertices have one name, or there are too many vertices.
    """
    found = _READERS[library](graph, weight)
    if found.n_vertices > MAX_VERTICES:
        raise InputError(
            f"the graph has {found.n_vertices:,} vertices", hint=f"at most {MAX_VERTICES:,} can be solved"
        )
    return found


def _of_networkx(graph: Any, weight: str | None) -> ObjectEdges:
    ids = ObjectIds(graph)
    edges = list(graph.edges(data=True))
    name = _attribute(weight, lambda: {name for *_, attributes in edges for name in attributes})
    src, dst = (ids.vertices([edge[end] for edge in edges], "vertex") for end in (0, 1))
    values = None if name is None else [attributes.get(name) for *_, attributes in edges]
    return ObjectEdges(ids, len(ids), src, dst, values, f"`{name}`", graph.is_directed())


def _of_igraph(graph: Any, weight: str | None) -> ObjectEdges:
    n_vertices = graph.vcount()
    ids: Ids = VertexIds.numbered(n_vertices)
    if graph.is_named():
        ids = named = ObjectIds(graph.vs["name"])
        if len(named) < n_vertices:
            raise InputError(
                f"{n_vertices:,} vertices have {len(named):,} names",
                hint='give each its own, or number them: `del graph.vs["name"]`',
            )
    name = _attribute(weight, graph.es.attributes)
    ends = np.array(graph.get_edgelist(), np.uint32).reshape(-1, 2)
    values = None
    if name is not None:
        values = graph.es[name] if name in graph.es.attributes() else [None] * len(ends)
    return ObjectEdges(ids, n_vertices, ends[:, 0], ends[:, 1], values, f"`{name}`", graph.is_directed())


def _of_rustworkx(graph: Any, weight: str | None) -> ObjectEdges:
    indices = np.asarray(graph.node_indices(), np.int64)  # ascending; removed nodes leave holes
    n_vertices = len(indices)
    ids = VertexIds.numbered(n_vertices)
    ends = np.asarray(graph.edge_list(), np.int64)
    if n_vertices and indices[-1] >= n_vertices:
        ids = VertexIds(IdMapping(kind="table", type="int64"), pa.array(indices), n_vertices)
        ends = np.searchsorted(indices, ends)
    src, dst = ends.astype(np.uint32).T
    edges, name = graph.edges(), "the edge"
    values: Sequence[Any] | None = edges
    if weight is None or (weight == "auto" and all(edge is None for edge in edges)):
        values = None
    elif weight != "auto" or all(isinstance(edge, Mapping) for edge in edges):
        attribute = _attribute(weight, lambda: {name for edge in edges for name in edge})
        name = f"`{attribute}`"
        values = None
        if attribute is not None:
            values = [edge.get(attribute) if isinstance(edge, Mapping) else None for edge in edges]
    return ObjectEdges(ids, n_vertices, src, dst, values, name, hasattr(graph, "in_degree"))


#: The function that reads a graph of each library.
_READERS: dict[str, Callable[[Any, str | None], ObjectEdges]] = {
    "NetworkX": _of_networkx,
    "igraph": _of_igraph,
    "rustworkx": _of_rustworkx,
}


def _attribute(weight: str | None, names: Callable[[], Iterable[Any]]) -> str | None:
    """Return the attribute with the weights; with "auto" it is "weight", or None if `names` returns none."""
    if weight != "auto":
        return weight
    there = set(names())
    if there and "weight" not in there:
        raise InputError(
            f"edges have no attribute `weight`, they have {listed(sorted(map(str, there)))}",
            hint=f"name the weight with `weight=`; {_COUNTS_EDGES}",
        )
    return "weight" if there else None
