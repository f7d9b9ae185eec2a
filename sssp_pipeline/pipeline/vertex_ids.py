"""The ids that the input uses for its vertices, and how they correspond to vertex numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from sssp_pipeline.errors import InputError
from sssp_pipeline.lazy import LazyModule

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    np, pa, pc = LazyModule("numpy"), LazyModule("pyarrow"), LazyModule("pyarrow.compute")


class IdMapping(BaseModel):
    """How vertex numbers and the input's own ids correspond.

    With kind `offset`, vertex `v` has the id `v + first_id`; with kind `table`, its id is row `v` of `vertices/`,
    whose ids ascend.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["offset", "table"]
    type: Literal["int64", "string"]
    first_id: int = 0


@dataclass(frozen=True, eq=False)
class VertexIds:
    """The input's ids of all vertices: an offset, or a table in vertex order, whose ids ascend.

    Attributes
    ----------
    mapping
        Which of the two, and the ids' type.
    table
        (V,) int64 or large_string Arrow array; None with an offset.
    n_vertices
        How many vertices there are.
    """

    mapping: IdMapping
    table: pa.Array | None
    n_vertices: int

    def column(self) -> pa.Array:
        """Return the ids of all vertices in vertex order, (V,) int64 or large_string."""
        if self.table is not None:
            return self.table
        first = self.mapping.first_id
        return pa.array(np.arange(first, first + self.n_vertices, dtype=np.int64))

    def originals(self, vertices: np.ndarray) -> pa.Array:
        """Return the ids of `vertices` (n,)."""
        if self.table is not None:
            return self.table.take(pa.array(vertices, pa.int64()))
        return pa.array(vertices.astype(np.int64) + self.mapping.first_id)

    def original(self, vertex: int) -> int | str:
        """Return the id of one vertex."""
        value: int | str = self.originals(np.array([vertex]))[0].as_py()
        return value

    def typed(self, ids: Sequence[int | str]) -> Sequence[int | str]:
        """Return `ids` with integers for digits where the graph's ids are integers: a command line knows only text.

        `007` stays text, which no integer is: another id may be 7.
        """
        if self.mapping.type != "int64":
            return ids
        return [int(i) if isinstance(i, str) and re.fullmatch("0|[1-9][0-9]{0,18}", i) else i for i in ids]

    def vertices(self, ids: Sequence[int | str], what: str) -> np.ndarray:
        """Return the vertices (n,) uint32 that have these ids.

        Raises
        ------
        InputError
            An id has the wrong type or no vertex has it; the message begins with `what`.
        """
        wanted = int if self.mapping.type == "int64" else str
        ids = self.typed(ids)
        for given in ids:
            if not isinstance(given, wanted) or isinstance(given, bool):
                kind = "integers" if wanted is int else "strings"
                raise InputError(
                    f"{what} `{given}` is not in the graph, whose ids are {kind}",
                    hint=f"for example {self.original(0)!r}" if self.n_vertices else None,
                )
        if self.table is None:
            positions = np.array([int(i) - self.mapping.first_id for i in ids], dtype=object)
            good = np.array([0 <= p < self.n_vertices for p in positions], dtype=bool)
        else:
            # What no 64-bit integer holds is no id: -1 is none either.
            wanted_ids = [i if isinstance(i, str) or i < 2**63 else -1 for i in ids]
            found = pc.index_in(pa.array(wanted_ids, self.table.type), value_set=self.table)
            good = np.asarray(found.is_valid())
            positions = found.fill_null(0).to_numpy(zero_copy_only=False)
        if not good.all():
            raise InputError(f"{what} `{ids[int(np.argmin(good))]}` is not in the graph", hint=self._range())
        return positions.astype(np.uint32)

    def _range(self) -> str:
        if not self.n_vertices:
            return "the graph has no vertices"
        return f"its {self.n_vertices} ids run from {self.original(0)!r} to {self.original(self.n_vertices - 1)!r}"
