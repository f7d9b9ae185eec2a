"""The keys `output.reduce` and `output.nearest` of the workflow, and what contradicts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field

from sssp_pipeline.workflow.section import (
    Contradiction,
    OwnKeys,
    Path,
    Plain,
    Positive,
    Section,
    Text,
    dotted,
)
from sssp_pipeline.workflow.vertices import Vertices, vertices_contradictions

ReducedValue = Literal["reached", "max_distance", "mean_distance", "sum_distance", "closeness", "harmonic"]
OverSourcesValue = Literal["reached_by", "nearest_source", "sum_distance", "mean_distance"]
VertexValue = Literal[OverSourcesValue, "betweenness"]
EdgeValue = Literal["betweenness"]
Radius = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)]
Share = Annotated[int, Field(ge=0, le=1)] | Annotated[float, Field(ge=0, le=1)]

#: The most columns for radii. A GPU has a counter for each of them in every thread.
MOST_WITHIN = 128
#: The most buckets of a histogram and the most quantiles: a block of a GPU counts them in its shared memory.
MOST_BUCKETS, MOST_QUANTILES = 1024, 32
#: The most radii of `per_vertex`: each takes 8 bytes of every vertex.
MOST_VERTEX_WITHIN = 32
#: The most decimals of a share.
_DECIMALS = 18


class Amounts(Section):
    """Numbers of each vertex, such as jobs or people."""

    file: Text
    """URL of a CSV, Parquet or Arrow file with a header, a column of vertex ids and columns of numbers. Vertices
    without a row have the amount 0."""

    names: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)]
    """Columns of `file` with the numbers. `source_amounts` and `target_amounts` take one."""

    column: Positive | Text | None = None
    """Column of `file` that holds the ids: its name, or its number from 1. `null` takes the one named `id` or
    `vertex`."""

    unknown: Literal["error", "skip"] = "error"
    """What to do with ids that are not in the graph. `error` stops and names them. `skip` leaves them out and counts
    them."""


class PerVertex(Section):
    """What is kept of each vertex over all sources, in `vertices.parquet`."""

    values: Annotated[tuple[VertexValue, ...], Field(strict=False)] = ()
    """Any of `reached_by` (how many sources reach the vertex), `nearest_source` (and its distance; of several, the
    smallest id), `sum_distance` and `mean_distance` (of the sources that reach it), and `betweenness` (how many
    shortest paths from the sources pass it). With `sources.random`, `betweenness` is an estimate for all sources, and
    there is a column `standard_error`."""

    within: Annotated[tuple[Radius, ...], Field(strict=False)] = ()
    """Radii in the unit of the weights. For each, the sources at most this far are counted."""

    endpoints: bool = False
    """Whether a path also passes its source and its target. It goes with `betweenness`."""

    normalized: bool = False
    """Whether `betweenness` is divided by the number of pairs: (V - 1)(V - 2), and V(V - 1) with `endpoints`. It needs
    every vertex as a source, or `sources.random`."""


class PerEdge(Section):
    """What is kept of each edge over all sources, in `edges.parquet`."""

    values: Annotated[tuple[EdgeValue, ...], Field(strict=False, min_length=1)]
    """`betweenness`: how many shortest paths from the sources pass the edge. With `sources.random` it is an estimate
    for all sources, and there is a column `standard_error`."""

    normalized: bool = False
    """Whether `betweenness` is divided by the number of pairs, V(V - 1). It needs every vertex as a source, or
    `sources.random`."""


class Paths(Section):
    """Which shortest paths `betweenness` counts, and how much each of them counts."""

    targets: Vertices | None = None
    """Only paths to these vertices count. `null` means every vertex."""

    source_amounts: Amounts | None = None
    """A path counts as much as the amount of its source. `null` means 1 for each."""

    target_amounts: Amounts | None = None
    """A path counts as much as the amount of its target, times the amount of its source. `null` means 1 for each."""

    decay: Annotated[int, Field(gt=0)] | Annotated[float, Field(gt=0)] | None = None
    """Longer paths count less: a path of length d counts exp(-`decay` · d) times as much, with d in the unit of the
    weights. 0.002 halves it every 347."""


class Reduce(Section):
    """Numbers made of all distances of a source."""

    values: Annotated[tuple[ReducedValue, ...], Field(strict=False)] = ()
    """Any of `reached`, `max_distance` (the eccentricity), `mean_distance`, `sum_distance`, `closeness` (Wasserman and
    Faust) and `harmonic` (the sum of 1/distance). All follow paths from the source. NetworkX's
    closeness follows the paths to it: for that, set `graph.directed: reversed`."""

    within: Annotated[tuple[Radius, ...], Field(strict=False)] = ()
    """Radii in the unit of the weights. For each, the vertices at most this far are counted, the source included."""

    amounts: Amounts | None = None
    """Numbers of each vertex that are summed within each radius."""

    histogram: Annotated[tuple[Radius, ...], Field(strict=False)] | None = None
    """Rising bounds of buckets, in the unit of the weights: `[0, 500, 1000]` counts the vertices from 0 to 500, and
    those beyond 500 up to 1000. Nearer and farther vertices are not counted."""

    quantiles: Annotated[tuple[Share, ...], Field(strict=False)] | None = None
    """Shares from 0 to 1. For each, the smallest distance within which this share of the reached vertices lies: 0.5
    gives the median."""

    per_vertex: PerVertex | None = None
    """What is kept of each vertex over all sources. Every batch takes memory and a file of 8 bytes for each vertex and
    number until the run is finished; of `betweenness` 16 bytes, and 32 with a standard error."""

    per_edge: PerEdge | None = None
    """What is kept of each edge over all sources. Every batch takes memory and a file of 16 bytes for each edge until
    the run is finished, and 32 with a standard error."""

    paths: Paths | None = None
    """Which shortest paths `betweenness` counts, and how much each of them counts. `null` counts each as 1."""


class Nearest(Section):
    """The nearest vertices of each source."""

    k: Annotated[int, Field(ge=1, le=1024)]
    """How many. Of vertices at the same distance, the one with the smallest id comes first."""

    of: Vertices | None = None
    """The vertices to choose from. `null` means every vertex, the source included."""


class ReducedKeys(OwnKeys):
    """The keys of `output` that only `distances: reduced` has."""

    reduce: Reduce | None = None
    """Numbers made of all distances of a source. It goes with `distances: reduced`."""

    @classmethod
    def own_contradictions(cls, section: Plain, solve: Plain) -> Iterator[Contradiction]:
        if isinstance(reduce := section.get("reduce"), Mapping):
            yield from reduce_contradictions(reduce, solve.get("cutoff"))


class NearestKeys(OwnKeys):
    """The keys of `output` that only `distances: nearest` has."""

    nearest: Nearest | None = None
    """The nearest vertices of each source. It goes with `distances: nearest`."""

    @classmethod
    def own_contradictions(cls, section: Plain, solve: Plain) -> Iterator[Contradiction]:
        del solve
        nearest = section.get("nearest")
        if isinstance(nearest, Mapping):
            yield from vertices_contradictions(("output", "nearest", "of"), nearest.get("of"))


def reduce_contradictions(reduce: Plain, cutoff: Any) -> Iterator[Contradiction]:
    """Yield the contradictions of a section `output.reduce`."""
    path: Path = ("output", "reduce")
    within, amounts, over = (reduce.get(key) for key in ("within", "amounts", "per_vertex"))
    of_edges = reduce.get("per_edge")
    bounds, shares = reduce.get("histogram"), reduce.get("quantiles")
    names = amounts.get("names") if isinstance(amounts, Mapping) else None
    if isinstance(over, Mapping):
        yield from _per_vertex_contradictions((*path, "per_vertex"), over, cutoff)
    if isinstance(of_edges, Mapping):
        yield from _named_twice((*path, "per_edge", "values"), of_edges.get("values"))
    is_empty = bounds is None and shares is None and over is None and of_edges is None
    if is_empty and not (reduce.get("values") or within):
        yield _asks_for_nothing(path, reduce, "closeness")
    elif amounts is not None and not within:
        text = "`output.reduce.amounts` are summed within radii, and `output.reduce.within` has none"
        hint = "add `within`, such as [500, 1000], or remove `amounts`"
        yield Contradiction((*path, "amounts"), text, hint)
    if isinstance(bounds, list | tuple):
        yield from _histogram_contradictions((*path, "histogram"), bounds)
    if isinstance(shares, list | tuple):
        yield from _quantiles_contradictions((*path, "quantiles"), shares)
    yield from _named_twice((*path, "values"), reduce.get("values"))
    yield from _named_twice((*path, "within"), within)
    yield from _named_twice((*path, "amounts", "names"), names)
    yield from _named_twice((*path, "quantiles"), shares)
    if isinstance(cutoff, int | float) and isinstance(bounds, list | tuple) and bounds:
        last = bounds[-1]
        if isinstance(last, int | float) and last > cutoff:
            text = f"the bound `{last}` is beyond `solve.cutoff`, which is `{cutoff}`"
            hint = "raise the cutoff to the last bound, or lower the bound"
            yield Contradiction((*path, "histogram", len(bounds) - 1), text, hint)
    if isinstance(within, list | tuple):
        n_columns = len(within) * (1 + (len(names) if isinstance(names, list | tuple) else 0))
        if n_columns > MOST_WITHIN:
            text = f"`output.reduce.within` and `amounts` ask for {n_columns} columns"
            hint = f"ask for at most {MOST_WITHIN}: fewer radii, or fewer amounts"
            yield Contradiction((*path, "within"), text, hint)
        yield from _beyond_cutoff((*path, "within"), within, cutoff)


def _asks_for_nothing(path: Path, section: Plain, example: str) -> Contradiction:
    text = f"`{dotted(path)}` {'asks for no value and no radius' if section else 'is empty'}"
    return Contradiction(path, text, f"give `values`, such as [{example}], or `within`, such as [500, 1000]")


def _per_vertex_contradictions(path: Path, over: Plain, cutoff: Any) -> Iterator[Contradiction]:
    values, within = over.get("values"), over.get("within")
    if not values and not within:
        yield _asks_for_nothing(path, over, "nearest_source")
    yield from _named_twice((*path, "values"), values)
    yield from _named_twice((*path, "within"), within)
    if values is None or (isinstance(values, list | tuple) and "betweenness" not in values):
        for key in ("endpoints", "normalized"):
            if over.get(key) is True:
                text = f"`{dotted((*path, key))}` is about `betweenness`, which `values` does not name"
                yield Contradiction((*path, key), text, f"add `betweenness` to `values`, or remove `{key}`")
    if isinstance(within, list | tuple):
        if len(within) > MOST_VERTEX_WITHIN:
            text = f"`{dotted((*path, 'within'))}` has {len(within)} radii"
            yield Contradiction((*path, "within"), text, f"give at most {MOST_VERTEX_WITHIN}")
        yield from _beyond_cutoff((*path, "within"), within, cutoff)


def _named_twice(path: Path, given: Any) -> Iterator[Contradiction]:
    if isinstance(given, list | tuple):
        for place, value in enumerate(given):
            if isinstance(value, int | float | str) and value in given[:place]:
                yield Contradiction((*path, place), f"`{dotted(path)}` has `{value}` twice", "name it once")


def _beyond_cutoff(path: Path, within: Sequence[Any], cutoff: Any) -> Iterator[Contradiction]:
    for place, radius in enumerate(within):
        if isinstance(radius, int | float) and isinstance(cutoff, int | float) and radius > cutoff:
            text = f"the radius `{radius}` is beyond `solve.cutoff`, which is `{cutoff}`"
            hint = "raise the cutoff to the largest radius, or remove the radius"
            yield Contradiction((*path, place), text, hint)


def _histogram_contradictions(path: Path, bounds: Sequence[Any]) -> Iterator[Contradiction]:
    if not 2 <= len(bounds) <= MOST_BUCKETS + 1:
        text = f"`{dotted(path)}` has {len(bounds)} bound{'' if len(bounds) == 1 else 's'}"
        hint = f"give 2 to {MOST_BUCKETS + 1:,} rising bounds, such as [0, 500, 1000]"
        yield Contradiction(path, text, hint)
    for place, (low, high) in enumerate(pairwise(bounds)):
        if isinstance(low, int | float) and isinstance(high, int | float) and low >= high:
            text = f"the bounds in `{dotted(path)}` do not rise: `{high}` comes after `{low}`"
            yield Contradiction((*path, place + 1), text, "give each bound once, in rising order")
            return


def _quantiles_contradictions(path: Path, shares: Sequence[Any]) -> Iterator[Contradiction]:
    if not 1 <= len(shares) <= MOST_QUANTILES:
        text = f"`{dotted(path)}` has {len(shares)} shares"
        yield Contradiction(path, text, f"give 1 to {MOST_QUANTILES} shares from 0 to 1, such as [0.5, 0.9]")
    for place, share in enumerate(shares):
        # A number that is out of range is reported by the model.
        if isinstance(share, float) and 0 < share < 1 and Decimal(str(share)) * 10**_DECIMALS % 1:
            text = f"the share `{share}` has more than {_DECIMALS} decimals"
            yield Contradiction((*path, place), text, "round it")
