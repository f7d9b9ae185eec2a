"""The choice of vertices, such as `sources` and `output.targets` of the workflow, and what contradicts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sssp_pipeline.workflow.section import Contradiction, Path, Plain, Positive, Section, Text, dotted, listed

VertexId = Annotated[int, Field(ge=0)] | Text


class RandomVertices(Section):
    """Vertices drawn at random. The same graph and seed give the same vertices."""

    count: Positive
    """How many different vertices to draw."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draw."""

    min_reach: Positive = 1
    """Draw only vertices that reach at least this many vertices, themselves included."""


class Points(Section):
    """Points on the globe. Each one stands for the nearest vertex of the graph, which must have coordinates."""

    file: Text
    """URL of a CSV file with a header, or of a Parquet, GeoParquet or Arrow file. `-` is standard input."""

    lon: Text | None = None
    """Column of the longitudes, in degrees. `null` takes the geometry of GeoParquet, or else the column named `lon`,
    `lng` or `longitude`."""

    lat: Text | None = None
    """Column of the latitudes, in degrees. `null` takes the geometry of GeoParquet, or else the column named `lat` or
    `latitude`."""

    id: Text | None = None
    """Column of the ids of the points, which results have. `null` takes the column `id`. Without one, points are
    numbered from 1."""

    max_snap_m: Annotated[int, Field(gt=0)] | Annotated[float, Field(gt=0)] | None = 1000
    """Largest distance from a point to its vertex, in metres. A point that is farther away stops the run. `null` means
    no limit."""

    coordinates: Literal["auto", "degrees", "microdegrees"] = "auto"
    """Unit of the coordinates of the graph. A microdegree is a millionth of a degree. `auto` takes the unit that fits
    the numbers."""


class Vertices(Section):
    """Some vertices: exactly one of `ids`, `file`, `points`, `random` and `top_degree`."""

    #: The keys that choose vertices. Exactly one is given. The other keys say how to read it.
    KINDS: ClassVar[tuple[str, ...]] = ("ids", "file", "points", "random", "top_degree")

    ids: Annotated[tuple[VertexId, ...], Field(min_length=1, strict=False)] | None = None
    """Vertex ids, as in the input."""

    file: Text | None = None
    """URL of a file with vertex ids: one on each line, or a column of a CSV, Parquet or Arrow file. `-` is standard
    input."""

    points: Points | None = None
    """Points on the globe, each of which stands for the nearest vertex."""

    random: RandomVertices | None = None
    """Vertices drawn at random."""

    top_degree: Positive | None = None
    """How many vertices to take, those with the most outgoing edges first."""

    column: Positive | Text | None = None
    """Column of `file` that holds the ids: its name, or its number from 1. `null` takes the only column, or the one
    named `source` (in `output.targets`: `target`), `id` or `vertex`."""

    header: bool | None = None
    """Whether the first line of `file` names its columns. `null` looks at that line."""

    unknown: Literal["error", "skip"] = "error"
    """What to do with ids that are not in the graph. `error` stops and names them. `skip` leaves them out and counts
    them."""

    repeated: Literal["error", "drop"] = "error"
    """What to do with ids that are named again. `error` stops and names them. `drop` keeps the first of each and counts
    the others."""

    @property
    def kind(self) -> str:
        """The key that is set."""
        return next(name for name in self.KINDS if getattr(self, name) is not None)


class Sources(Vertices):
    """The vertices to start from: exactly one of `ids`, `file`, `points`, `random`, `top_degree` and `all`."""

    KINDS: ClassVar[tuple[str, ...]] = (*Vertices.KINDS, "all")

    all: Literal[True] | None = None
    """Every vertex."""

    order: Literal["ascending", "given"] = "ascending"
    """Order of the sources in the results: by vertex, or the order of `ids` or `file`. Points always have the order of
    their file. `random` has the order in which it was drawn if betweenness is summed over a hierarchy."""


#: Keys that only some choices of vertices use: the default, and these choices.
_USED_BY: dict[str, tuple[Any, tuple[str, ...]]] = {
    "column": (None, ("file",)),
    "header": (None, ("file",)),
    "unknown": ("error", ("file", "ids")),
    "repeated": ("error", ("file", "ids")),
    "order": ("ascending", ("file", "ids", "points")),
}


def vertices_contradictions(
    path: Path, given: Any, section: type[Vertices] = Vertices
) -> Iterator[Contradiction]:
    """Yield the contradictions of `given`, the `section` at `path`: it must choose vertices in exactly one way."""
    if not isinstance(given, Mapping):
        return
    kinds = [kind for kind in section.KINDS if given.get(kind) is not None]
    name = dotted(path)
    if len(kinds) > 1:
        both = " and ".join(f"`{kind}`" for kind in kinds)
        hint = f"keep one; `--set '{name}={{…}}'` replaces all of a workflow file"
        yield Contradiction((*path, kinds[1]), f"`{name}` has {both}", hint)
    elif not kinds and not given.keys() - section.model_fields.keys():
        known = ", ".join(f"`{kind}`" for kind in section.KINDS)
        text = f"`{name}` {'chooses no vertices' if given else 'is empty'}"
        yield Contradiction(path, text, f"give one of {known}")
    elif kinds:
        yield from _unused_keys(path, given, kinds[0])


def _unused_keys(path: Path, given: Plain, kind: str) -> Iterator[Contradiction]:
    """Yield the keys that have no effect in a section that chooses vertices by `kind`."""
    for key, (default, kinds) in _USED_BY.items():
        if kind not in kinds and given.get(key) not in (None, default):
            text = f"`{dotted((*path, key))}` goes with {listed(kinds)}, not with `{kind}`"
            yield Contradiction((*path, key), text, f"remove `{key}`")
    if isinstance(given.get("column"), str) and given.get("header") is False:
        name = dotted((*path, "column"))
        text = f"`{name}` names a column, and `header: false` says that columns have no names"
        hint = "give the number of the column, from 1, or remove `header`"
        yield Contradiction((*path, "column"), text, hint)
