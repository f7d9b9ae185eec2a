"""The key `output.pairs` of the workflow, and what contradicts it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from sssp_pipeline.workflow.flows import FLOWS
from sssp_pipeline.workflow.section import ColumnKey, Contradiction, Direction, OwnKeys, Plain, Section, Text
from sssp_pipeline.workflow.vertices import Points

#: The value of `output.distances` whose sources are in the file of pairs.
PAIRS = "pairs"


class Pairs(Section):
    """A file of pairs, and how to read it."""

    file: Text
    """URL of the file: CSV, text, Parquet or Arrow, with a row for each pair. A pair may stand twice. `-` is standard
    input."""

    source: ColumnKey | None = None
    """Column of the sources: its name, or its number from 1. `null` takes the one whose name means it, such as `source`
    or `from`, or the first of two columns."""

    target: ColumnKey | None = None
    """Column of the targets. `null` takes the one whose name means it, such as `target` or `to`, or the second of two
    columns."""

    header: bool | None = None
    """Whether the first line of a text or CSV file names the columns. `null` looks at that line, unless `source` or
    `target` is a name: then it does."""

    source_points: Points | None = None
    """Points that the sources are. The file of pairs and the results have their ids, so the points must have a column
    of ids. `null` means that the sources are vertices of the graph."""

    target_points: Points | None = None
    """Points that the targets are, in the same way. Both keys may name the same file."""

    direction: Direction = "auto"
    """`forward` searches from the sources. `backward` searches from the targets, along reversed edges: it needs integer
    weights of zero or more. `auto` goes backward if the targets are at most half as many as the sources, or fewer on a
    graph whose edges lead both ways. The distances are the same."""

    unknown: Literal["error", "skip"] = "error"
    """What to do with pairs that have an id that is not in the graph, or that no point has. `error` stops and names
    the ids. `skip` leaves the pairs out and counts them."""


class PairsKeys(OwnKeys):
    """The key of `output` that only `distances: pairs` has."""

    pairs: Text | Pairs | None = None
    """The file of pairs, as a URL or as a section. It goes with `distances: pairs`, and names the sources and the
    targets of the run."""


def section_of(given: str | Pairs) -> Pairs:
    """Return the section for a value of `output.pairs`."""
    return given if isinstance(given, Pairs) else Pairs(file=given)


def pairs_contradictions(data: Plain, output: Plain) -> Iterator[Contradiction]:
    """Yield what is wrong if the section `sources` and a file of the output both name the sources, or none does."""
    given, distances = data.get("sources"), output.get("distances")
    has_file = distances in (PAIRS, FLOWS)
    if has_file and given is not None:
        text = f"`sources` is given, and the file of `output.distances: {distances}` names the sources"
        yield Contradiction(("sources",), text, "remove `sources`, or set another `output.distances`")
    elif not has_file and given is None:
        yield Contradiction(("sources",), "no key `sources`", "add `sources`: The vertices to start from.")
