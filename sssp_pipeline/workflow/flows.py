"""The key `output.flows` of the workflow, and what contradicts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from sssp_pipeline.workflow.section import ColumnKey, Contradiction, OwnKeys, Plain, Section, Text

#: The value of `output.distances` whose sources are in the table of trips.
FLOWS = "flows"


class Flows(Section):
    """A table of trips, and which paths they take."""

    file: Text
    """URL of the table: CSV, text, Parquet or Arrow, with a row for each trip. A pair of a source and a target may
    occur twice. `-` is standard input."""

    source: ColumnKey | None = None
    """Column of the vertices where trips begin: its name, or its number from 1. `null` takes the one whose name means
    it, such as `source`, `from` or `origin`, or the first column."""

    target: ColumnKey | None = None
    """Column of the vertices where trips end. `null` takes the one whose name means it, such as `target`, `to` or
    `destination`, or the second column."""

    amount: ColumnKey = "amount"
    """Column of the amounts: numbers of zero or more, such as people or tonnes."""

    header: bool | None = None
    """Whether the first line of a text or CSV file names the columns. `null` looks at that line, unless a column is
    given by its name: then it does."""

    paths: Literal["one", "all"] = "one"
    """`one` sends each trip along one shortest path, the one with the smallest predecessors. `all` divides it evenly
    among all shortest paths, which takes longer."""

    unknown: Literal["error", "skip"] = "error"
    """What to do with trips that have an id that is not in the graph. `error` stops and names the ids. `skip` leaves
    the trips out and counts them."""


class FlowsKeys(OwnKeys):
    """The key of `output` that only `distances: flows` has."""

    flows: Text | Flows | None = None
    """The table of trips, as a URL or as a section. It goes with `distances: flows`. The sources of the run are the
    vertices where trips begin."""


def trips_of(given: str | Flows) -> Flows:
    """Return the section for a value of `output.flows`."""
    return given if isinstance(given, Flows) else Flows(file=given)


def flows_contradictions(output: Plain, dtype: Any) -> Iterator[Contradiction]:
    """Yield what contradicts flows, if `graph.weights.dtype` is `dtype`."""
    if output.get("distances") == FLOWS and dtype == "float32":
        text = "`graph.weights.dtype` is `float32`, in which rounding makes some paths equally long"
        hint = "set `graph.weights.dtype: float64`, or set another `output.distances`"
        yield Contradiction(("graph", "weights", "dtype"), text, hint)
