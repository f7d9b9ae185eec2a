"""Several weights: checks that their inputs hold the same edges, which the store keeps once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.graph_store.manifest import Counts
from sssp_pipeline.vertex_ids import VertexIds

_HINT = "every row of the input gives one edge and a value for each weight"


@dataclass(frozen=True, eq=False)
class SharedEdges:
    """The edges that were read with one weight."""

    #: The name of the weight.
    name: str
    #: (V+1,) int64 and (E,) uint32, as in a `CsrGraph`; the edges of a row ascend, and no two are parallel.
    row_offsets: np.ndarray
    col_indices: np.ndarray
    vertex_ids: VertexIds
    counts: Counts


def check_same_edges(first: SharedEdges, other: SharedEdges) -> None:
    """Raise `InputError` unless both weights have the same vertices and edges, from equally many rows."""
    ids = first.vertex_ids
    if (problem := _other_vertices(ids, other.vertex_ids, first.name)) is not None:
        raise InputError(problem, hint=_HINT)
    row = _first_different_row(first, other)
    if row is not None:
        ends = [each.col_indices[slice(*each.row_offsets[row : row + 2])] for each in (first, other)]
        lacking, found = np.setdiff1d(ends[0], ends[1]), np.setdiff1d(ends[1], ends[0])
        u, v = (ids.original(int(end)) for end in (row, (lacking if len(lacking) else found)[0]))
        verb = "has no edge" if len(lacking) else "has an edge"
        raise InputError(
            f"it {verb} from `{u}` to `{v}`, and the weight `{first.name}` {'has one' if len(lacking) else 'has none'}",
            hint=_HINT,
        )
    for name, count in first.counts.model_dump().items():
        if (here := getattr(other.counts, name)) != count:
            what = name.replace("_", " ")
            raise InputError(f"{here:,} {what}, and {count:,} of the weight `{first.name}`", hint=_HINT)


def _other_vertices(first: VertexIds, other: VertexIds, name: str) -> str | None:
    """Return what differs between the vertices of two weights; None if nothing does. `name` is that of `first`."""
    if first.n_vertices != other.n_vertices:
        return f"{other.n_vertices:,} vertices, and {first.n_vertices:,} of the weight `{name}`"
    if first.mapping == other.mapping and (first.table is None or first.table.equals(other.table)):
        return None
    pairs = zip(first.column().to_pylist(), other.column().to_pylist(), strict=True)
    ids = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if ids is None:
        return f"its ids are {other.mapping.type}, and those of the weight `{name}` are {first.mapping.type}"
    return f"it has the vertex `{ids[1]}` where the weight `{name}` has `{ids[0]}`"


def _first_different_row(first: SharedEdges, other: SharedEdges) -> int | None:
    """Return the first vertex whose edges may differ; None if all are equal."""
    if not np.array_equal(first.row_offsets, other.row_offsets):
        return int(np.argmax(first.row_offsets[1:] != other.row_offsets[1:]))
    differs = first.col_indices != other.col_indices
    if not differs.any():
        return None
    return int(np.searchsorted(first.row_offsets, np.argmax(differs), side="right")) - 1
