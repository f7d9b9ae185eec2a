"""Contradictions: values of a workflow that are valid each, and that cannot be meant together.

The functions take the plain values of a file. The values may have other faults: a value of the wrong type is ignored
here, because the models report it. So one message can list every fault of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sssp_pipeline.storage.files import CHOOSE_A_FOLDER, STANDARD_INPUT, is_read_only, redacted
from sssp_pipeline.workflow.betweenness import AMOUNTS, PATHS, betweenness_contradictions
from sssp_pipeline.workflow.cluster import cluster_contradictions
from sssp_pipeline.workflow.flows import flows_contradictions
from sssp_pipeline.workflow.graph import misplaced_keys
from sssp_pipeline.workflow.output import output_contradictions
from sssp_pipeline.workflow.pairs import pairs_contradictions
from sssp_pipeline.workflow.registries import FORMATS
from sssp_pipeline.workflow.section import Contradiction, Path, Plain, dotted
from sssp_pipeline.workflow.vertices import Sources, vertices_contradictions
from sssp_pipeline.workflow.weights import (
    along_contradictions,
    chosen_contradictions,
    several_weights,
    weight_contradictions,
)

#: What `graph.coordinates` may name.
_POSITIONS = "a table with the columns `id`, `lon` and `lat`, or to a DIMACS `.co` file"
#: The sections that choose vertices, and those that are points.
_CHOSEN: tuple[Path, ...] = (
    ("sources",),
    ("output", "targets"),
    ("output", "nearest", "of"),
    (*PATHS, "targets"),
)
_POINTS: tuple[Path, ...] = (
    *((*path, "points") for path in _CHOSEN),
    *(("output", "pairs", key) for key in ("source_points", "target_points")),
)
#: The files of an output that name the sources, as a URL or in a section.
_TABLES: tuple[Path, ...] = tuple(
    path for key in ("pairs", "flows") for path in (("output", key), ("output", key, "file"))
)


def contradictions(data: Plain) -> Iterator[Contradiction]:
    """Yield the contradictions of a workflow, given as plain values."""
    sections = {key: value if isinstance(value, Mapping) else {} for key, value in data.items()}
    graph, solve, cluster, output = (sections.get(key, {}) for key in ("graph", "solve", "cluster", "output"))
    yield from vertices_contradictions(("sources",), data.get("sources"), Sources)
    yield from pairs_contradictions(data, output)
    yield from flows_contradictions(output, _at(data, ("graph", "weights", "dtype")))
    yield from cluster_contradictions(cluster)
    yield from graph_contradictions(graph)
    for path in _POINTS:
        if _at(data, path) and not _may_have_positions(graph):
            text = f"`{dotted(path)}` needs the coordinates of the graph"
            yield Contradiction(path, text, f"set `graph.coordinates` to {_POSITIONS}")
    if solve.get("options") and solve.get("solver", "auto") == "auto":
        text = "`solve.options` belong to one solver, and `solve.solver` is `auto`"
        yield Contradiction(("solve", "options"), text, "name the solver, or remove the options")
    yield from chosen_contradictions(graph, solve.get("weights"))
    yield from along_contradictions(graph, solve)
    yield from output_contradictions(output, solve, data.get("verify"))
    yield from betweenness_contradictions(data)
    yield from _standard_input_twice(data)
    yield from _unwritable_places(output, graph)


def files_read(data: Plain) -> Iterator[tuple[Path, str]]:
    """Yield each URL that a run of the workflow `data` reads, after the path of its key."""
    keys: list[Path] = [(*path, "file") for path in (*_CHOSEN, *_POINTS)]
    keys += [("output", "reduce", "amounts", "file"), *((*PATHS, key, "file") for key in AMOUNTS), *_TABLES]
    inputs = [("graph", "input"), *((*path, "input") for path, _ in several_weights(data.get("graph")))]
    for path in [*inputs, ("graph", "coordinates"), ("graph", "coordinates", "file"), *keys]:
        value = _at(data, path)
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list | tuple):
            yield from (((*path, i), url) for i, url in enumerate(value) if isinstance(url, str))


def _at(data: Plain, path: Path) -> Any:
    """Return the value at `path`, None if there is none."""
    value: Any = data
    for key in path:
        is_there = isinstance(value, Mapping) or (isinstance(value, list | tuple) and isinstance(key, int))
        value = (value[key] if isinstance(key, int) else value.get(key)) if is_there else None
    return value


def _standard_input_twice(data: Plain) -> Iterator[Contradiction]:
    paths = [path for path, url in files_read(data) if url == STANDARD_INPUT]
    for path in paths[1:]:
        text = f"`{dotted(paths[0])}` and `{dotted(path)}` are both `-`, and standard input can be read once"
        yield Contradiction(path, text, "name a file for one of them")


def _unwritable_places(output: Plain, graph: Plain) -> Iterator[Contradiction]:
    """Yield folders that can never be written, and a graph store inside the results or around them."""
    run, store = output.get("path"), graph.get("store")
    for path, url in ((("output", "path"), run), (("graph", "store"), store)):
        if isinstance(url, str) and is_read_only(url):
            text = f"`{dotted(path)}` is `{redacted(url)}`, which cannot be written"
            yield Contradiction(path, text, CHOOSE_A_FOLDER)
    if isinstance(run, str) and isinstance(store, str):
        outer, inner = sorted((run.rstrip("/") + "/", store.rstrip("/") + "/"), key=len)
        if inner.startswith(outer):
            text = "one of the folders `graph.store` and `output.path` is inside the other"
            yield Contradiction(("graph", "store"), text, "give each its own folder")


# ---- graph ----


def _may_have_positions(graph: Plain) -> bool:
    """Return whether the vertices may have positions: a file with them is named, or the input may hold them."""
    name = graph.get("format", "auto")
    if graph.get("coordinates") is not None or (name in FORMATS and FORMATS[name].with_positions):
        return True
    given = graph.get("input")
    urls = given if isinstance(given, list | tuple) else [given]
    endings = "|".join(ending for record in FORMATS.values() for ending in record.with_positions)
    has_ending = re.compile(rf"\.({endings})(\.\w{{2,3}})?$")
    return name == "auto" and any(isinstance(url, str) and has_ending.search(url.lower()) for url in urls)


def graph_contradictions(graph: Plain) -> Iterator[Contradiction]:
    """Yield the contradictions of a `graph` section, given as plain values."""
    # Other values are not printed: one may be a secret from the environment.
    known = graph.get("format") if graph.get("format") in FORMATS else None
    for key, text in misplaced_keys(graph, known) if known is not None else ():
        yield Contradiction(("graph", *key.split(".")), text, "remove one of them")
    encoding = graph.get("encoding", "auto")
    if isinstance(encoding, str) and encoding != "auto" and not _is_encoding(encoding):
        text = "`graph.encoding` names no text encoding that Python knows"
        hint = "write `utf-8`, `utf-16`, `latin-1`, `cp1252` or another of Python's standard encodings"
        yield Contradiction(("graph", "encoding"), text, hint)
    if isinstance(graph.get("weights"), Mapping):
        yield from weight_contradictions(graph, graph["weights"])


def _is_encoding(name: str) -> bool:
    try:
        return "\n".encode(name) != b""
    except (LookupError, ValueError):
        return False
