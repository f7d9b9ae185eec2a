"""The ids of the vertices of a call: ids of a table or a matrix, or any objects."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import NamedPoints, VertexIds, listed


class Ids(Protocol):
    """The ids of all vertices of a graph."""

    @property
    def owner(self) -> str:
        """What has these ids, for messages."""
        ...

    @property
    def source_points(self) -> NamedPoints | None:
        """As in `VertexIds`."""
        ...

    @property
    def target_points(self) -> NamedPoints | None:
        """As in `VertexIds`."""
        ...

    def column(self) -> pa.Array:
        """Return the ids of all vertices in vertex order."""
        ...

    def originals(self, vertices: np.ndarray) -> pa.Array:
        """Return the ids of `vertices` (n,)."""
        ...

    def original(self, vertex: int) -> Any:
        """Return the id of one vertex."""
        ...

    def vertices(self, ids: Sequence[Any], what: str) -> np.ndarray:
        """Return the vertices (n,) uint32 with these ids.

        Raises `InputError` for an id that is not in the graph. Its message begins with `what`.
        """
        ...

    def find_column(self, column: Any) -> np.ndarray:
        """Return the vertices (n,) int64 of a column of ids, -1 for an id that no vertex has.

        It is a list, or for `VertexIds` an array of Arrow with the type of the ids.
        """
        ...

    def range_hint(self) -> str:
        """Return a hint with ids of the graph."""
        ...


class ObjectIds:
    """Ids that are any hashable objects, as the nodes of NetworkX are."""

    owner = VertexIds.owner
    source_points: NamedPoints | None = None
    target_points: NamedPoints | None = None

    def __init__(self, ids: Iterable[Hashable]) -> None:
        self._vertex_of = {vertex_id: vertex for vertex, vertex_id in enumerate(ids)}
        self._ids: list[Any] = list(self._vertex_of)

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, vertex_id: Any) -> bool:
        return self._find(vertex_id) >= 0

    def _find(self, vertex_id: Any) -> int:
        """Return the vertex with this id; -1 if there is none."""
        try:
            return self._vertex_of.get(vertex_id, -1)
        except TypeError:  # it cannot be hashed
            return -1

    def column(self) -> pa.Array:
        return _as_arrow(self._ids)

    def originals(self, vertices: np.ndarray) -> pa.Array:
        return _as_arrow([self._ids[vertex] for vertex in vertices.tolist()])

    def original(self, vertex: int) -> Any:
        return self._ids[vertex]

    def labels(self, vertices: np.ndarray) -> np.ndarray:
        """Return the ids of `vertices` (n,) as a NumPy array (n,), of objects unless all are integers or strings."""
        ids = [self._ids[vertex] for vertex in vertices.tolist()]
        if set(map(type, ids)) in ({int}, {str}):
            return np.array(ids)
        objects = np.empty(len(ids), object)
        objects[:] = ids
        return objects

    def vertices(self, ids: Sequence[Any], what: str) -> np.ndarray:
        found = self.find_column(ids)
        if unknown := [vertex_id for vertex_id, vertex in zip(ids, found, strict=True) if vertex < 0]:
            raise InputError(f"{what} {listed(unknown)} is not in the graph", hint=self.range_hint())
        return found.astype(np.uint32)

    def find_column(self, column: Sequence[Any]) -> np.ndarray:
        """Return the vertices (n,) int64 of a column of ids, -1 for an id that no vertex has."""
        return np.fromiter((self._find(vertex_id) for vertex_id in column), np.int64, len(column))

    def range_hint(self) -> str:
        """Return a hint with some ids of the graph."""
        return f"it has for example {listed(self._ids[:3])}" if self._ids else "the graph has no vertices"


def _as_arrow(ids: list[Any]) -> pa.Array:
    try:
        return pa.array(ids)
    except (pa.ArrowException, OverflowError) as error:
        raise InputError(
            f"the ids {listed(ids[:3])} do not fit one column of Arrow: {error}",
            hint="use `.numpy()`, `.to_scipy()` or `.path()`, or name the vertices with integers or strings",
        ) from error


def vertices_of(given: Any, ids: Ids, what: str) -> np.ndarray:
    """Return the vertices (n,) uint32 with the ids `given`: one id, or several in any kind of sequence.

    A tuple that is itself the id of a vertex is one id.

    Raises
    ------
    InputError
        An id is not in the graph. The message begins with `what`.
    """
    if given is None:
        raise InputError(
            f"{what} is None", hint="give an id or several; `store.ids.column()` has all ids of a graph store"
        )
    if hasattr(given, "to_pylist"):  # Arrow
        given = given.to_pylist()
    elif hasattr(given, "tolist"):  # NumPy and pandas
        given = given.tolist()
    if (
        isinstance(given, str)
        or not isinstance(given, Iterable)
        or (isinstance(ids, ObjectIds) and given in ids)
    ):
        given = [given]
    # NumPy's integers are no `int`.
    plain = [vertex_id.item() if isinstance(vertex_id, np.generic) else vertex_id for vertex_id in given]
    return ids.vertices(plain, what)


def sources_of(given: Any, ids: Ids, n_vertices: int) -> np.ndarray:
    """Return the sources (S,) uint32: as `vertices_of`, or every vertex if `given` is "all".

    Raises
    ------
    InputError
        An id is not in the graph, or a vertex is called "all".
    """
    if not (isinstance(given, str) and given == "all"):
        return vertices_of(given, ids, "source")
    try:
        ids.vertices(["all"], "source")
    except InputError:
        return np.arange(n_vertices, dtype=np.uint32)
    raise InputError(
        "`all` could be every vertex, or the vertex that is called `all`",
        hint='write `["all"]` for this vertex, or list the ids of all vertices',
    )
