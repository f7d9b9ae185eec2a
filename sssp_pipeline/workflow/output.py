"""The section `output` of a workflow: the place and the layout of the results, and what contradicts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from sssp_pipeline.workflow.registries import OUTPUTS, NameIn, code_of, misplaced, own_fields, with_own_keys
from sssp_pipeline.workflow.section import Auto, Contradiction, Plain, Positive, Section, Text, listed
from sssp_pipeline.workflow.vertices import Vertices, vertices_contradictions

#: The kinds of output that have second costs.
_WITH_COSTS = ("full", "reached", "nearest", "pairs")
#: What a user may do who asked for predecessors.
_WITHOUT_PREDECESSORS = "set `solve.predecessors: false`: `sssp-pipeline path` needs none"


@with_own_keys(OUTPUTS.values())
class Output(Section):
    """The place and the layout of the results."""

    path: Text
    """Folder of the results; it may contain `{date}` (YYYY-MM-DD), `{time}` (HHMMSS) and `{name}`. A second run of the
    same workflow continues where the first one stopped."""

    distances: Annotated[str, NameIn(OUTPUTS)] = "full"
    """`full` writes the distances from every source to every vertex, or to the `targets`. `none` writes only metrics:
    for each source the number of vertices reached, the largest distance and the mean. `reached` writes the distances to
    reached vertices, and no rows for the others. `reduced` writes the numbers that `reduce` asks for. `nearest` writes
    the nearest vertices of each source. `pairs` writes a distance for each pair of a file. `flows` writes how much
    passes each edge if the trips of a table take shortest paths."""

    targets: Vertices | None = None
    """Write only the distances to these vertices. They keep the order given. `random` and `top_degree` give ascending
    order. `null` means every vertex."""

    layout: Literal["long", "wide"] = "long"
    """`long` has a row per source and vertex. `wide` has a row per vertex and a column per source."""

    columns_per_file: Auto | Positive = "auto"
    """Number of sources in a file of the layout `wide`. Each file is a batch. `auto` takes up to 512 sources and up to
    128 MiB, and fewer of a run with few sources, so that there are about 32 files."""

    unreached: int | float | None = None
    """Number written as the distance of an unreached vertex. `null` writes NULL."""

    compression: Literal["none", "zstd", "snappy", "lz4"] = "none"
    """Compression of the Parquet files."""

    @property
    def own(self) -> dict[str, Any]:
        """The keys that belong to one kind of output, of all kinds."""
        return {key: getattr(self, key) for kind in OUTPUTS.values() for key in own_fields(kind)}


def output_contradictions(output: Plain, solve: Plain, verify: Any) -> Iterator[Contradiction]:
    """Yield the contradictions of a section `output`, and of what else needs whole rows of distances."""
    yield from vertices_contradictions(("output", "targets"), output.get("targets"))
    for kind in OUTPUTS.values():
        if kind.own_keys:
            yield from code_of(kind.own_keys).own_contradictions(output, solve)
    targets, distances = output.get("targets"), output.get("distances", "full")
    if isinstance(distances, str) and distances in OUTPUTS:
        yield from _keys_of_kind(output, distances)
    yield from _direction_contradictions(output, solve)
    if solve.get("along"):
        yield from _along_contradictions(output, solve)
    if output.get("layout") == "wide" and solve.get("predecessors") is True:
        hint = f"set `output.layout: long`, or {_WITHOUT_PREDECESSORS}"
        yield Contradiction(("output", "layout"), "layout `wide` has no place for predecessors", hint)
    if distances == "full":
        yield from _columns_contradictions(output, solve)
    if distances == "full" and targets is None:
        return
    cause, remedy = "`output.targets`", "remove the targets"
    if distances != "full":
        cause, remedy = f"`output.distances: {distances}`", "set `output.distances: full`"
    if solve.get("predecessors") is True:
        text = f"{cause} leaves no place for predecessors"
        yield Contradiction(("solve", "predecessors"), text, f"{remedy}, or {_WITHOUT_PREDECESSORS}")
    if verify == "certificate":
        text = f"`certificate` needs the distances to every vertex, which {cause} does not write"
        yield Contradiction(("verify",), text, f"set `verify: sample`, or {remedy}")


def _direction_contradictions(output: Plain, solve: Plain) -> Iterator[Contradiction]:
    """Yield what contradicts `solve.direction: backward`."""
    path = "solve", "direction"
    if solve.get("direction") != "backward":
        return
    distances = output.get("distances", "full")
    nearest = output.get("nearest")
    if distances not in ("full", "nearest"):
        text = f"`solve.direction: backward` goes with `output.distances: full` and `nearest`, not with `{distances}`"
        remedy = "remove `solve.direction`"
        if distances == "pairs":
            remedy = "set `output.pairs.direction: backward`, and remove `solve.direction`"
        yield Contradiction(path, text, remedy)
    elif distances == "nearest" and isinstance(nearest, Mapping) and nearest.get("of") is None:
        text = "`solve.direction: backward` searches from the vertices of `output.nearest.of`, and none are named"
        yield Contradiction(path, text, "name `output.nearest.of`, or remove `solve.direction`")
    elif distances == "full" and output.get("targets") is None:
        text = "`solve.direction: backward` searches from the targets, and none are named"
        yield Contradiction(path, text, "name `output.targets`, or remove `solve.direction`")
    if solve.get("predecessors") is True:
        text = "`solve.direction: backward` finds no predecessors"
        yield Contradiction(path, text, f"remove `solve.direction`, or {_WITHOUT_PREDECESSORS}")


def _along_contradictions(output: Plain, solve: Plain) -> Iterator[Contradiction]:
    """Yield what has no place for the second costs of `solve.along`."""
    distances, path = output.get("distances", "full"), ("solve", "along")
    if distances not in _WITH_COSTS and distances in OUTPUTS:
        text = f"`output.distances: {distances}` has no place for second costs"
        hint = "remove `solve.along`: `output.distances: full`, `reached`, `nearest` and `pairs` have them"
        yield Contradiction(path, text, hint)
    if solve.get("direction") == "backward":
        text = "`solve.direction: backward` searches from the targets, and `solve.along` needs paths from the sources"
        yield Contradiction(path, text, "remove `solve.direction`")
    pairs = output.get("pairs")
    if isinstance(pairs, Mapping) and pairs.get("direction") == "backward":
        text = "`output.pairs.direction: backward` searches from the targets, and `solve.along` needs paths from the "
        yield Contradiction(path, f"{text}sources", "remove `output.pairs.direction`")


def _columns_contradictions(output: Plain, solve: Plain) -> Iterator[Contradiction]:
    """Yield what contradicts `columns_per_file`."""
    path = "output", "columns_per_file"
    if output.get("columns_per_file") in (None, "auto"):
        return
    if output.get("layout", "long") == "long":
        text = "`output.columns_per_file` goes with `output.layout: wide`, not with `long`"
        yield Contradiction(path, text, "set `output.layout: wide`, or remove `columns_per_file`")
    elif solve.get("batch", "auto") != "auto":
        text = "`output.columns_per_file` and `solve.batch` both say how many sources a file has"
        yield Contradiction(path, text, "remove one of them")


def _keys_of_kind(output: Plain, distances: str) -> Iterator[Contradiction]:
    """Yield the keys that a kind of output needs and lacks, and those that it does not take."""
    kind = OUTPUTS[distances]
    for key, field in own_fields(kind).items():
        if field.default is None and output.get(key) is None:
            text = f"`output.distances: {distances}` needs `output.{key}`"
            yield Contradiction(("output", "distances"), text, f"add `{kind.example}`")
    defaults = {key: field.default for key, field in Output.model_fields.items()}
    given = [key for key, value in output.items() if value not in (None, defaults.get(key))]
    for key, takers in misplaced(given, distances, OUTPUTS):
        kinds = listed([f"output.distances: {takers[0]}", *takers[1:]])
        text = f"`output.{key}` goes with {kinds}, not with `{distances}`"
        remedy = f"set `output.distances: {takers[0]}`, or remove `{key}`"
        yield Contradiction(("output", key), text, kind.instead.get(key, remedy))
