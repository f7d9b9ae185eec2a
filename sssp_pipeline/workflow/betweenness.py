"""What contradicts a workflow that asks for betweenness: sources, paths and the type of the weights must fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sssp_pipeline.workflow.section import Contradiction, Path, Plain, dotted
from sssp_pipeline.workflow.vertices import vertices_contradictions

BETWEENNESS = "betweenness"
#: The keys of `output.reduce` that may ask for it.
_SECTIONS = ("per_vertex", "per_edge")
#: The key that says which paths count, and how much.
PATHS: tuple[str, ...] = ("output", "reduce", "paths")
#: Its keys that are tables of amounts.
AMOUNTS = "source_amounts", "target_amounts"


def betweenness_contradictions(data: Plain) -> Iterator[Contradiction]:
    """Yield what contradicts `betweenness` in a workflow, given as plain values."""
    asked = dict(_asked(data))
    yield from _paths_contradictions(data, asked)
    if not asked:
        return
    sources, weights = (_section(data, *keys) for keys in (("sources",), ("graph", "weights")))
    if weights.get("dtype") == "float32":
        text = "`graph.weights.dtype` is `float32`, in which rounding makes some paths equally long"
        hint = f"set `graph.weights.dtype: float64`, or remove `{BETWEENNESS}`"
        yield Contradiction(("graph", "weights", "dtype"), text, hint)
    drawn = sources.get("random")
    least = drawn.get("min_reach", 1) if isinstance(drawn, Mapping) else 1
    if isinstance(least, int) and least > 1:
        leaves = "`sources.random.min_reach` leaves some out"
        text = f"`{BETWEENNESS}` is estimated from a sample of all vertices, and {leaves}"
        yield Contradiction(("sources", "random", "min_reach"), text, "remove `min_reach`")
    if drawn is None and sources.get("all") is not True:
        for path, section in asked.items():
            if section.get("normalized") is True:
                name = dotted((*path, "normalized"))
                text = f"`{name}` divides by the pairs of all vertices, and `sources` names some"
                hint = "set `sources: {all: true}`, draw them with `sources.random`, or remove `normalized`"
                yield Contradiction((*path, "normalized"), text, hint)


def _paths_contradictions(data: Plain, asked: Mapping[Path, Plain]) -> Iterator[Contradiction]:
    """Yield what contradicts the key `PATHS`, if the sections `asked` ask for betweenness."""
    paths = _section(data, *PATHS[:-1]).get(PATHS[-1])
    if not isinstance(paths, Mapping):
        return
    name = dotted(PATHS)
    yield from vertices_contradictions((*PATHS, "targets"), paths.get("targets"))
    if not asked:
        text = f"`{name}` is about `{BETWEENNESS}`, and neither `per_vertex` nor `per_edge` asks for it"
        yield Contradiction(PATHS, text, f"add `per_vertex: {{values: [{BETWEENNESS}]}}`, or remove `paths`")
    if not any(value is not None for value in paths.values()):
        text = f"`{name}` is empty"
        hint = "give `targets`, `source_amounts`, `target_amounts` or `decay`, or remove `paths`"
        yield Contradiction(PATHS, text, hint)
    for key in AMOUNTS:
        names = _section(paths, key).get("names")
        if isinstance(names, list | tuple) and len(names) > 1:
            text = f"`{dotted((*PATHS, key, 'names'))}` has {len(names)} columns"
            yield Contradiction((*PATHS, key, "names"), text, "name one")
    for path, section in asked.items():
        if section.get("normalized") is True:
            text = f"`{dotted((*path, 'normalized'))}` divides by the pairs of all vertices, and `{name}` does not "
            yield Contradiction(
                (*path, "normalized"), f"{text}count each pair as 1", "remove `normalized` or `paths`"
            )


def _asked(data: Plain) -> Iterator[tuple[Path, Plain]]:
    """Yield the path and the content of each section that asks for betweenness."""
    for name in _SECTIONS:
        path = "output", "reduce", name
        section = _section(data, *path)
        values = section.get("values")
        if isinstance(values, list | tuple) and BETWEENNESS in values:
            yield path, section


def _section(data: Plain, *path: str) -> Plain:
    """Return the section at `path`; an empty one if there is none."""
    value: Any = data
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
