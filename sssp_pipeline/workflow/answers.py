"""Answers in place of distances: `output.reduce` and `output.nearest` of the workflow, and what contradicts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sssp_pipeline.workflow.section import Path, Positive, Section, Text, dotted
from sssp_pipeline.workflow.vertices import Vertices

ReducedValue = Literal["reached", "max_distance", "mean_distance", "sum_distance", "closeness", "harmonic"]
Radius = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)]

#: The most columns for radii. A GPU has a counter for each of them in every thread.
MOST_WITHIN = 128
#: The section that each of these values of `output.distances` needs, and an example of it.
_SECTIONS = {"reduced": ("reduce", "{values: [closeness]}"), "nearest": ("nearest", "{k: 10}")}


class Amounts(Section):
    """Numbers of each vertex that are summed within radii, such as jobs or people."""

    file: Text
    """URL of a CSV, Parquet or Arrow file with a header, a column of vertex ids and columns of numbers. Vertices
    without a row have the amount 0."""

    names: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)]
    """Columns of `file` to sum."""

    column: Positive | Text | None = None
    """Column of `file` that holds the ids: its name, or its number from 1. `null` takes the one named `id` or
    `vertex`."""

    unknown: Literal["error", "skip"] = "error"
    """What to do with ids that are not in the graph. `error` stops and names them. `skip` leaves them out and counts
    them."""


class Reduce(Section):
    """Numbers made of all distances of a source."""

    values: Annotated[tuple[ReducedValue, ...], Field(strict=False)] = ()
    """Any of `reached`, `max_distance` (the eccentricity), `mean_distance`, `sum_distance`, `closeness` (Wasserman and
    Faust) and `harmonic` (the sum of 1/distance)."""

    within: Annotated[tuple[Radius, ...], Field(strict=False)] = ()
    """Radii in the unit of the weights. For each, the vertices at most this far are counted, the source included."""

    amounts: Amounts | None = None
    """Numbers of each vertex that are summed within each radius."""


class Nearest(Section):
    """The nearest vertices of each source."""

    k: Annotated[int, Field(ge=1, le=1024)]
    """How many. Of vertices at the same distance, the one with the smallest id comes first."""

    of: Vertices | None = None
    """The vertices to choose from. `null` means every vertex, the source included."""


def answer_contradictions(
    output: Mapping[str, Any], solve: Mapping[str, Any]
) -> Iterator[tuple[Path, str, str]]:
    """Yield path, text and hint of each contradiction in `reduce` and `nearest` of a section `output`."""
    distances = output.get("distances", "full")
    for kind, (section, example) in _SECTIONS.items():
        if distances == kind and output.get(section) is None:
            yield (
                ("output", "distances"),
                f"`output.distances: {kind}` needs `output.{section}`",
                f"add `{section}: {example}`",
            )
        elif distances != kind and output.get(section) is not None and isinstance(distances, str):
            yield (
                ("output", section),
                f"`output.{section}` goes with `output.distances: {kind}`, not with `{distances}`",
                f"set `output.distances: {kind}`, or remove `{section}`",
            )
    if isinstance(reduce := output.get("reduce"), Mapping):
        yield from _reduce_contradictions(reduce, solve.get("cutoff"))


def _reduce_contradictions(reduce: Mapping[str, Any], cutoff: Any) -> Iterator[tuple[Path, str, str]]:
    path: Path = ("output", "reduce")
    values, within, amounts = (reduce.get(key) for key in ("values", "within", "amounts"))
    names = amounts.get("names") if isinstance(amounts, Mapping) else None
    if not values and not within:
        text = f"`{dotted(path)}` {'asks for no value and no radius' if reduce else 'is empty'}"
        yield path, text, "give `values`, such as [closeness], or `within`, such as [500, 1000]"
    elif amounts is not None and not within:
        text = "`output.reduce.amounts` are summed within radii, and `output.reduce.within` has none"
        yield (*path, "amounts"), text, "add `within`, such as [500, 1000], or remove `amounts`"
    for key, given in ((("values",), values), (("within",), within), (("amounts", "names"), names)):
        if not isinstance(given, list | tuple):
            continue
        for place, value in enumerate(given):
            if isinstance(value, int | float | str) and value in given[:place]:
                yield (*path, *key, place), f"`{dotted((*path, *key))}` has `{value}` twice", "name it once"
    if not isinstance(within, list | tuple):
        return
    n_columns = len(within) * (1 + (len(names) if isinstance(names, list | tuple) else 0))
    if n_columns > MOST_WITHIN:
        text = f"`output.reduce.within` and `amounts` ask for {n_columns} columns"
        yield (*path, "within"), text, f"ask for at most {MOST_WITHIN}: fewer radii, or fewer amounts"
    if isinstance(cutoff, int | float):
        for place, radius in enumerate(within):
            if isinstance(radius, int | float) and radius > cutoff:
                yield (
                    (*path, "within", place),
                    f"the radius `{radius}` is beyond `solve.cutoff`, which is `{cutoff}`",
                    "raise the cutoff to the largest radius, or remove the radius",
                )
