"""Contradictions: values of a workflow that are valid alone and cannot be meant together.

The functions take the plain values of a file. The values may have other faults: a value of the wrong type is ignored
here, because the models report it. So one message can list every fault of a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from sssp_pipeline.storage.files import CHOOSE_A_FOLDER, STANDARD_INPUT, is_read_only, redacted
from sssp_pipeline.workflow.answers import answer_contradictions
from sssp_pipeline.workflow.cluster import ELASTIC_KINDS, KINDS, address_fault
from sssp_pipeline.workflow.registries import FORMATS, FORMATS_WITH_POSITIONS, NAMES_WITH_POSITIONS
from sssp_pipeline.workflow.section import Path, dotted
from sssp_pipeline.workflow.vertices import Sources, Vertices
from sssp_pipeline.workflow.weights import chosen_contradictions, several_weights, weight_contradictions

_WITHOUT_PREDECESSORS = "set `solve.predecessors: false`: `sssp-pipeline path` needs none"


class Contradiction(NamedTuple):
    """A value that another value of the same file rules out."""

    #: The key that the user is to change.
    path: Path
    #: What is wrong, and what to do.
    text: str
    hint: str


def contradictions(data: Mapping[str, Any]) -> Iterator[Contradiction]:
    """Yield the contradictions of a workflow, given as plain values."""
    sections = {key: value if isinstance(value, Mapping) else {} for key, value in data.items()}
    graph, solve, cluster, output = (sections.get(key, {}) for key in ("graph", "solve", "cluster", "output"))
    if isinstance(data.get("sources"), Mapping):
        yield from _vertices_contradictions(("sources",), data["sources"], Sources)
    yield from cluster_contradictions(cluster)
    yield from graph_contradictions(graph)
    if output.get("layout") == "wide" and solve.get("predecessors") is True:
        yield Contradiction(
            ("output", "layout"),
            "layout `wide` has no place for predecessors",
            f"set `output.layout: long`, or {_WITHOUT_PREDECESSORS}",
        )
    for path, given in (
        (("sources",), sections.get("sources", {})),
        (("output", "targets"), output.get("targets")),
    ):
        if isinstance(given, Mapping) and given.get("points") and not _may_have_positions(graph):
            yield Contradiction(
                (*path, "points"),
                f"`{dotted((*path, 'points'))}` needs the coordinates of the graph",
                "set `graph.coordinates` to a table with the columns `id`, `lon` and `lat`, or to a DIMACS `.co` file",
            )
    if solve.get("options") and solve.get("solver", "auto") == "auto":
        yield Contradiction(
            ("solve", "options"),
            "`solve.options` belong to one solver, and `solve.solver` is `auto`",
            "name the solver, or remove the options",
        )
    yield from (Contradiction(*fault) for fault in chosen_contradictions(graph, solve.get("weights")))
    yield from _output_contradictions(output, solve, data.get("verify"))
    yield from _standard_input_twice(data)
    yield from _unwritable_places(output, graph)


def files_read(data: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield each URL that a run of the workflow `data` reads, after the path of its key."""
    chosen: list[Path] = [("sources",), ("output", "targets"), ("output", "nearest", "of")]
    keys: list[Path] = [(*path, *name) for path in chosen for name in (("file",), ("points", "file"))]
    keys.append(("output", "reduce", "amounts", "file"))
    places: list[Path] = [
        ("graph", "input"),
        *((*path, "input") for path, _ in several_weights(data.get("graph"))),
    ]
    for path in [*places, ("graph", "coordinates"), ("graph", "coordinates", "file"), *keys]:
        value: Any = data
        for key in path:
            is_there = isinstance(value, Mapping) or (
                isinstance(value, list | tuple) and isinstance(key, int)
            )
            value = (value[key] if isinstance(key, int) else value.get(key)) if is_there else None
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list | tuple):
            yield from (((*path, i), url) for i, url in enumerate(value) if isinstance(url, str))


def _standard_input_twice(data: Mapping[str, Any]) -> Iterator[Contradiction]:
    paths = [path for path, url in files_read(data) if url == STANDARD_INPUT]
    for path in paths[1:]:
        yield Contradiction(
            path,
            f"`{dotted(paths[0])}` and `{dotted(path)}` are both `-`, and standard input can be read once",
            "name a file for one of them",
        )


def _unwritable_places(output: Mapping[str, Any], graph: Mapping[str, Any]) -> Iterator[Contradiction]:
    """Yield folders that can never be written, and a graph store inside the results or around them."""
    run, store = output.get("path"), graph.get("store")
    for path, url in ((("output", "path"), run), (("graph", "store"), store)):
        if isinstance(url, str) and is_read_only(url):
            text = f"`{dotted(path)}` is `{redacted(url)}`, which cannot be written"
            yield Contradiction(path, text, CHOOSE_A_FOLDER)
    if isinstance(run, str) and isinstance(store, str):
        outer, inner = sorted((run.rstrip("/") + "/", store.rstrip("/") + "/"), key=len)
        if inner.startswith(outer):
            yield Contradiction(
                ("graph", "store"),
                "one of the folders `graph.store` and `output.path` is inside the other",
                "give each its own folder",
            )


# ---- sources and output ----


def _vertices_contradictions(
    path: Path, given: Mapping[str, Any], section: type[Vertices]
) -> Iterator[Contradiction]:
    """Yield the contradictions of `given`, the `section` at `path`: it must choose vertices in exactly one way."""
    kinds = [kind for kind in section.KINDS if given.get(kind) is not None]
    name = dotted(path)
    if len(kinds) > 1:
        listed = " and ".join(f"`{kind}`" for kind in kinds)
        hint = f"keep one; `--set '{name}={{…}}'` replaces all"
        yield Contradiction((*path, kinds[1]), f"`{name}` has {listed}", hint)
    elif not kinds and not given.keys() - section.model_fields.keys():
        known = ", ".join(f"`{kind}`" for kind in section.KINDS)
        text = f"`{name}` {'chooses no vertices' if given else 'is empty'}"
        yield Contradiction(path, text, f"give one of {known}")
    elif kinds:
        yield from _unused_keys(path, given, kinds[0])


#: Keys of a section that chooses vertices: the default, and the kinds of choice that use the key.
_KEYS_OF_VERTICES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "column": (None, ("file",)),
    "header": (None, ("file",)),
    "unknown": ("error", ("file", "ids")),
    "order": ("ascending", ("file", "ids", "points")),
}


def _unused_keys(path: Path, given: Mapping[str, Any], kind: str) -> Iterator[Contradiction]:
    """Yield the keys that have no effect in a section that chooses vertices by `kind`."""
    for key, (default, kinds) in _KEYS_OF_VERTICES.items():
        if kind not in kinds and given.get(key) not in (None, default):
            *others, last = (f"`{each}`" for each in kinds)
            used_by = f"{', '.join(others)} and {last}" if others else last
            text = f"`{dotted((*path, key))}` goes with {used_by}, not with `{kind}`"
            yield Contradiction((*path, key), text, f"remove `{key}`")
    if isinstance(given.get("column"), str) and given.get("header") is False:
        yield Contradiction(
            (*path, "column"),
            f"`{dotted((*path, 'column'))}` names a column, and `header: false` says that columns have no names",
            "give the number of the column, from 1, or remove `header`",
        )


#: Keys of `output` that say how distances are written, with their defaults.
_DISTANCE_KEYS = {"targets": None, "layout": "long", "unreached": None, "compression": "none"}
#: Those of them that have no effect with some values of `output.distances`.
_UNUSED_KEYS = {
    "none": ("targets", "layout", "unreached", "compression"),
    "reached": ("layout", "unreached"),
    "reduced": ("layout", "unreached"),
    "nearest": ("layout", "unreached"),
}


def _output_contradictions(
    output: Mapping[str, Any], solve: Mapping[str, Any], verify: Any
) -> Iterator[Contradiction]:
    """Yield what needs whole rows of distances, which `output` does not keep."""
    targets, distances = output.get("targets"), output.get("distances", "full")
    has_no_distances, is_reduced = distances == "none", distances != "full"
    if isinstance(targets, Mapping):
        yield from _vertices_contradictions(("output", "targets"), targets, Vertices)
    nearest = output.get("nearest")
    if isinstance(nearest, Mapping) and isinstance(nearest.get("of"), Mapping):
        yield from _vertices_contradictions(("output", "nearest", "of"), nearest["of"], Vertices)
    yield from (Contradiction(*fault) for fault in answer_contradictions(output, solve))
    if targets is None and not is_reduced:
        return
    cause = f"`output.distances: {distances}`" if is_reduced else "`output.targets`"
    remedy = "set `output.distances: full`" if is_reduced else "remove the targets"
    if solve.get("predecessors") is True:
        yield Contradiction(
            ("solve", "predecessors"),
            f"{cause} leaves no place for predecessors",
            f"{remedy}, or {_WITHOUT_PREDECESSORS}",
        )
    if verify == "certificate":
        yield Contradiction(
            ("verify",),
            f"`certificate` needs the distances to every vertex, which {cause} does not write",
            f"set `verify: sample`, or {remedy}",
        )
    if is_reduced and not has_no_distances and targets is not None:
        yield Contradiction(
            ("output", "targets"),
            f"`output.targets` goes with `output.distances: full`, not with `{distances}`",
            "name them as `output.nearest.of`"
            if distances == "nearest"
            else f"remove `targets`, or {remedy}",
        )
    for key in _UNUSED_KEYS.get(distances, ()) if isinstance(distances, str) else ():
        if output.get(key, default := _DISTANCE_KEYS[key]) != default:
            yield Contradiction(
                ("output", key),
                f"`output.{key}` says how distances are written, and {cause} writes none",
                f"remove `{key}`, or {remedy}",
            )


# ---- graph ----


def _may_have_positions(graph: Mapping[str, Any]) -> bool:
    """Return whether the vertices may have positions: a file with them is named, or the input may hold them."""
    if graph.get("coordinates") is not None or graph.get("format") in FORMATS_WITH_POSITIONS:
        return True
    given = graph.get("input")
    urls = given if isinstance(given, list | tuple) else [given]
    return graph.get("format", "auto") == "auto" and any(
        isinstance(url, str) and NAMES_WITH_POSITIONS.search(url.lower()) for url in urls
    )


#: Keys of the graph section that only some formats have: the default, and these formats.
_KEYS_OF_FORMATS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "columns": ("auto", ("text", "csv", "lines", "parquet")),
    "encoding": ("auto", ("text", "csv", "neo4j", "networkx")),
    "delimiter": ("auto", ("csv", "neo4j")),
    "header": ("auto", ("text", "csv")),
    "decimal": ("point", ("text", "csv", "neo4j")),
    "unreadable": ("error", ("text", "csv", "graphml", "lines", "neo4j", "networkx", "osm", "parquet")),
    "layer": ("auto", ("lines",)),
    "profile": ("auto", ("osm",)),
    "max_line_bytes": (
        2**24,
        ("text", "csv", "graphml", "neo4j", "networkx", "metis", "matrix-market", "dimacs", "tntp"),
    ),
}


def graph_contradictions(graph: Mapping[str, Any]) -> Iterator[Contradiction]:
    """Yield the contradictions of a `graph` section, given as plain values."""
    # Other values are not printed: one may be a secret from the environment.
    known = graph.get("format") if graph.get("format") in FORMATS else None
    for key, (default, formats) in _KEYS_OF_FORMATS.items():
        value = graph.get(key, default)
        if isinstance(value, Mapping):
            value = next((name for name in value.values() if name != "auto"), default)
        if value != default and known is not None and known not in formats:
            *others, last = (f"`{name}`" for name in formats)
            listed = f"formats {', '.join(others)} and {last}" if others else f"format {last}"
            text = f"`graph.{key}` belongs to {listed}, not `{known}`"
            yield Contradiction(("graph", key), text, "remove one of them")
    encoding = graph.get("encoding", "auto")
    if isinstance(encoding, str) and encoding != "auto" and not _is_encoding(encoding):
        yield Contradiction(
            ("graph", "encoding"),
            "`graph.encoding` names no text encoding that Python knows",
            "write `utf-8`, `utf-16`, `latin-1`, `cp1252` or another of Python's standard encodings",
        )
    if graph.get("decimal") == "comma" and graph.get("delimiter") == ",":
        yield Contradiction(
            ("graph", "decimal"),
            "a comma cannot separate both columns and decimals",
            "set `graph.delimiter` to what separates the columns, or remove `graph.decimal`",
        )
    if isinstance(graph.get("weights"), Mapping):
        yield from (Contradiction(*fault) for fault in weight_contradictions(graph, graph["weights"]))


def _is_encoding(name: str) -> bool:
    try:
        return "\n".encode(name) != b""
    except (LookupError, ValueError):
        return False


# ---- cluster ----

_STARTED_KINDS = ("auto", "local-cpu", "local-cuda", *ELASTIC_KINDS)
#: Keys of the cluster section that only some kinds use.
_KINDS_OF_KEYS: dict[str, tuple[str, ...]] = {
    "address": ("address",),
    "slurm": ("slurm",),
    "kubernetes": ("kubernetes",),
    "workers": _STARTED_KINDS,
    "threads_per_worker": _STARTED_KINDS,
    "memory_limit": _STARTED_KINDS,
    "tls": _STARTED_KINDS,
    "dashboard_host": ELASTIC_KINDS,
}


def cluster_contradictions(cluster: Mapping[str, Any]) -> Iterator[Contradiction]:
    """Yield the contradictions of a `cluster` section, given as plain values."""
    kind, address = cluster.get("kind", "auto"), cluster.get("address")
    if kind not in KINDS:
        return
    for key, kinds in _KINDS_OF_KEYS.items():
        if kind not in kinds and cluster.get(key) not in (None, False, "auto"):
            if len(kinds) == 1:
                hint = f"set `cluster.kind: {kinds[0]}`, or remove it"
            elif kind == "address":
                hint = "remove it: the workers of that cluster run already"
            else:
                hint = "remove it"
            yield Contradiction(("cluster", key), f"`cluster.{key}` is not used with kind `{kind}`", hint)
    if isinstance(cluster.get("workers"), Mapping):
        yield from _range_contradictions(kind, cluster["workers"])
    if kind == "address" and address is None:
        text, hint = "kind `address` needs `cluster.address`", "add `address: tcp://host:8786`"
        yield Contradiction(("cluster", "kind"), text, hint)
    elif kind == "address" and isinstance(address, str) and (fault := address_fault(address)) is not None:
        yield Contradiction(("cluster", "address"), *fault)
    if kind in ELASTIC_KINDS and cluster.get("memory_limit", "auto") == "auto":
        yield Contradiction(
            ("cluster", "kind"),
            f"kind `{kind}` needs `cluster.memory_limit`: the memory of each worker",
            "add `memory_limit: 16GB`, or what `sssp-pipeline plan` says a worker needs",
        )
    if kind == "kubernetes" and not isinstance(cluster.get("kubernetes"), Mapping):
        yield Contradiction(
            ("cluster", "kind"),
            "kind `kubernetes` needs an image with sssp-pipeline",
            "add `kubernetes: {image: registry/sssp-pipeline:0.1.0}`",
        )


def _range_contradictions(kind: str, workers: Mapping[str, Any]) -> Iterator[Contradiction]:
    low, high = workers.get("minimum", 1), workers.get("maximum")
    if kind not in ELASTIC_KINDS:
        yield Contradiction(
            ("cluster", "workers"),
            f"kind `{kind}` has a fixed number of workers, not a range",
            "give a number, or set `cluster.kind: slurm` or `kubernetes`",
        )
    elif isinstance(low, int) and isinstance(high, int) and low > high:
        text = f"`minimum` is `{low}`, above `maximum`, which is `{high}`"
        yield Contradiction(("cluster", "workers"), text, "exchange them")
