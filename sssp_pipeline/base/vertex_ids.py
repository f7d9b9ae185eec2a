"""Vertex ids: the ids that the input uses for its vertices, and the vertex numbers that they correspond to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from sssp_pipeline.base.error_text import Either, Text
from sssp_pipeline.base.errors import (
    DeadlineError,
    InputError,
    NegativeCycleError,
    PathTooLongError,
    SsspError,
    UncountablePathsError,
    UnknownIdError,
)
from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.progress import plural

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    np, pa, pc = LazyModule("numpy"), LazyModule("pyarrow"), LazyModule("pyarrow.compute")

#: The most ids that a message lists.
MAX_LISTED = 10


class IdMapping(BaseModel):
    """How vertex numbers and the input's own ids correspond.

    With kind `offset`, vertex `v` has the id `v + first_id`. With kind `table`, its id is row `v` of `vertices/`, where
    the ids are in ascending order.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    kind: Literal["offset", "table"]
    type: Literal["int64", "string"]
    first_id: int = 0


@lru_cache(2)
def _counted(first: int, n: int) -> pa.Array:
    """Return (n,) int64 the numbers from `first`. The last ones are kept, because each batch of a run asks for them."""
    return pa.array(np.arange(first, first + n, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class NamedPoints:
    """Points that stand for vertices, in the order of the user. Several may stand for one vertex."""

    #: (P,) int64 or string, all different.
    ids: pa.Array
    #: (P,) uint32.
    vertices: np.ndarray

    def find_column(self, column: pa.Array) -> np.ndarray:
        """Return the places (n,) int64 of the points with the ids of a column, -1 for an id that no point has.

        The column has the type of the ids: integers of any width, or strings.
        """
        found = pc.index_in(column.cast(self.ids.type, safe=False), value_set=self.ids)
        return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


@dataclass(frozen=True, eq=False)
class VertexIds:
    """The input's ids of all vertices."""

    #: What has these ids, for messages.
    owner: ClassVar[str] = "the graph"

    #: Whether the ids are an offset or a table, and their type.
    mapping: IdMapping
    #: (V,) int64 or large_string Arrow array in ascending order; None with an offset.
    table: pa.Array | None
    #: The number of vertices.
    n_vertices: int
    #: The sources of a run, or some of them, and its targets, as far as they are points: results have their ids.
    source_points: NamedPoints | None = None
    target_points: NamedPoints | None = None
    #: The points that the sources and the targets of pairs are. Pairs name them in any order.
    points_of_pairs: tuple[NamedPoints | None, NamedPoints | None] = (None, None)

    @classmethod
    def numbered(cls, n_vertices: int, first_id: int = 0) -> VertexIds:
        """Return the ids of vertices that are numbered from `first_id`."""
        return cls(IdMapping(kind="offset", type="int64", first_id=first_id), None, n_vertices)

    def column(self) -> pa.Array:
        """Return the ids of all vertices in vertex order, (V,) int64 or large_string."""
        if self.table is not None:
            return self.table
        return _counted(self.mapping.first_id, self.n_vertices)

    def originals(self, vertices: np.ndarray) -> pa.Array:
        """Return the ids of `vertices` (n,)."""
        if self.table is not None:
            return self.table.take(pa.array(vertices, pa.int64()))
        return pa.array(vertices.astype(np.int64) + self.mapping.first_id)

    def of_places(self, places: np.ndarray) -> VertexIds:
        """Return the ids for the sources at some `places` (n,) among all sources of the run."""
        if (points := self.source_points) is None:
            return self
        taken = NamedPoints(points.ids.take(pa.array(places, pa.int64())), points.vertices[places])
        return replace(self, source_points=taken)

    def of_sources(self, sources: np.ndarray) -> pa.Array:
        """Return the ids of `sources` (n,), which are all that these ids are for."""
        return self.originals(sources) if self.source_points is None else self.source_points.ids

    def of_targets(self, targets: np.ndarray) -> pa.Array:
        """Return the ids of `targets` (n,), which are all targets of the run."""
        return self.originals(targets) if self.target_points is None else self.target_points.ids

    @property
    def has_text_sources(self) -> bool:
        """Whether the ids of sources are strings."""
        if self.source_points is None:
            return self.mapping.type == "string"
        return not pa.types.is_integer(self.source_points.ids.type)

    def names(self, vertices: np.ndarray) -> list[int] | list[str]:
        """Return the ids of `vertices` (n,), which are few, as Python's own values."""
        if self.table is not None:
            return self.originals(vertices).to_pylist()
        return [vertex + self.mapping.first_id for vertex in vertices.tolist()]

    def original(self, vertex: int) -> int | str:
        """Return the id of one vertex."""
        return self.names(np.array([vertex]))[0]

    def typed(self, ids: Sequence[int | str]) -> Sequence[int | str]:
        """Return `ids` from a command line, as `typed_ids` does if the graph's ids are integers."""
        return typed_ids(ids) if self.mapping.type == "int64" else ids

    def vertices(self, ids: Sequence[int | str], what: str) -> np.ndarray:
        """Return the vertices (n,) uint32 that have these ids.

        Raises
        ------
        InputError
            An id has the wrong type, or no vertex has it. The message begins with `what`.
        """
        ids = self.typed(ids)
        if (misfit := self.misfit(ids)) is not None:
            problem, hint = misfit
            raise InputError(f"{what} {problem}", hint=hint)
        found = self.find(ids)
        if (unknown := [ids[int(i)] for i in np.flatnonzero(found < 0)]) != []:
            raise self.unknown_error(unknown, len(ids), what)
        return found.astype(np.uint32)

    def find(self, ids: Sequence[int | str]) -> np.ndarray:
        """Return the vertices (n,) int64 that have these ids, -1 for an id that no vertex has."""
        # -1 stands for values that cannot be an id.
        if self.mapping.type == "int64":
            ids = [i if isinstance(i, int) and 0 <= i < 2**63 else -1 for i in ids]
        if self.table is None:
            wanted = np.array(ids, np.int64)
            positions = wanted - self.mapping.first_id
            return np.where((wanted >= 0) & (positions >= 0) & (positions < self.n_vertices), positions, -1)
        found = pc.index_in(pa.array(ids, self.table.type), value_set=self.table)
        positions = found.fill_null(-1).to_numpy(zero_copy_only=False)
        return positions.astype(np.int64)

    def find_column(self, column: pa.Array) -> np.ndarray:
        """Return the vertices (n,) int64 of a column of ids, as `find`, without an object of Python for each id.

        The column has the type of the ids: integers of any width, or strings.
        """
        if self.mapping.type == "string":
            found = pc.index_in(column.cast(pa.large_string()), value_set=self.table)
            return found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        # Above 2^63 it becomes negative, and no id is.
        wanted = column.cast(pa.int64(), safe=False).to_numpy()
        if self.table is None:
            places = wanted - self.mapping.first_id
            return np.where((wanted >= 0) & (places >= 0) & (places < self.n_vertices), places, -1)
        known = self.table.to_numpy()
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[places] == wanted, places, -1) if len(known) else np.full(len(wanted), -1)

    def has(self, vertex_id: int | str) -> bool:
        """Return whether a vertex has the id `vertex_id`, which must have the type of the graph's ids."""
        return bool(self.find([vertex_id])[0] >= 0)

    def misfit(self, ids: Sequence[int | str]) -> tuple[str, str] | None:
        """Return a problem and a hint for the first of `ids` with a wrong type; None if all types are right."""
        wanted = int if self.mapping.type == "int64" else str
        given = next((i for i in ids if not isinstance(i, wanted) or isinstance(i, bool)), None)
        if given is None:
            return None
        if wanted is int:
            hint = f"write integers, for example {self.original(0)}" if self.n_vertices else "write integers"
            if "," in str(given):
                hint = "this is read as one id: give each id on its own"
        else:
            how = Either("in the workflow file write a string with quotes", "write a string")
            is_known = not self.n_vertices or self.has(str(given))
            hint = Text(how, f": '{str(given)[:60]}'" if is_known else f", for example {self.original(0)!r}")
        kind = "integers" if wanted is int else "strings"
        return f"{listed([given])} is not in the graph, whose ids are {kind}", hint

    def unknown_error(self, unknown: Sequence[int | str], n_named: int, what: str) -> InputError:
        """Return the error for the ids `unknown` among `n_named`; `what` ends with "source", "target" or "vertex"."""
        place, _, noun = what.rpartition(" ")
        message = f"{what} {listed(unknown)} is not in the graph"
        if len(unknown) > 1:
            counted = f"{len(unknown):,} of {plural(n_named, noun)}"
            message = f"{place}{' ' * bool(place)}{counted} are not in the graph: {listed(unknown)}"
        return UnknownIdError(message, unknown=unknown[0], role=noun, hint=self.range_hint())

    def range_hint(self) -> str:
        """Return a hint with the range of the graph's ids."""
        if not self.n_vertices:
            return Text(Either("check `graph.input`: "), "the graph has no vertices")
        first, last = self.original(0), self.original(self.n_vertices - 1)
        return f"the {self.n_vertices} ids of the graph run from {first!r} to {last!r}"


def typed_ids(ids: Sequence[int | str]) -> list[int | str]:
    """Return `ids` from a command line with digits converted to integers.

    `007` stays text, since it could be confused with the id 7.
    """
    return [int(i) if isinstance(i, str) and re.fullmatch("0|[1-9][0-9]{0,18}", i) else i for i in ids]


class Named(Protocol):
    """Ids of vertices, of any type."""

    def original(self, vertex: int) -> int | str:
        """Return the id of one vertex."""
        ...


def error_in_ids(error: SsspError, ids: Named, scale: int | None) -> SsspError:
    """Return `error` with the ids of the input in place of vertex numbers; `error` itself if it names no vertex.

    `scale` is the scale of the weights, if they have one.
    """
    if isinstance(error, PathTooLongError):
        ends = ids.original(int(error.source)), ids.original(int(error.vertex))
        return type(error)(*ends, error.dtype, error.wider, scale)
    if isinstance(error, UncountablePathsError):
        return UncountablePathsError(
            ids.original(int(error.source)), ids.original(int(error.vertex)), error.is_absorbed
        )
    if isinstance(error, NegativeCycleError):
        cycle = [ids.original(int(vertex)) for vertex in error.cycle]
        return NegativeCycleError(ids.original(int(error.source)), cycle, error.length)
    if isinstance(error, DeadlineError) and isinstance(error.source, int):
        return DeadlineError(
            error.solver, f"source {ids.original(error.source)}", error.deadline_s, error.state
        )
    return error


def digest_of(*vertices: np.ndarray) -> str:
    """Return a digest of lists of vertices, each (n,)."""
    digest = hashlib.sha256()
    for some in vertices:
        digest.update(np.ascontiguousarray(some, "<u4").data)
    return digest.hexdigest()


def listed(ids: Sequence[int | str], n: int | None = None) -> str:
    """Return the first `MAX_LISTED` of `ids` for a message; `n` is the number of all ids if `ids` lacks some."""
    first = [f"`{text if len(text) <= 60 else text[:60] + '…'}`" for text in map(str, ids[:MAX_LISTED])]
    return ", ".join([*first, "…"] if (n or len(ids)) > len(first) else first)
