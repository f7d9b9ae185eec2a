"""The workflow file as frozen pydantic models; its JSON schema and reference page are generated from them.

The models say what a workflow may hold and nothing about files: `workflow_loading` reads the YAML and
reports every fault with its line. Solver names are checked by the run, against the registry.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from sssp_pipeline.pipeline.storage.files import (
    CHOOSE_A_FOLDER,
    STANDARD_INPUT,
    is_never_written,
    redacted,
)
from sssp_pipeline.workflow.cluster import Cluster, cluster_contradictions
from sssp_pipeline.workflow.registries import FORMATS, OUTPUTS, NameIn
from sssp_pipeline.workflow.section import (
    Auto,
    Path,
    Positive,
    Section,
    Text,
)

VertexId = Annotated[int, Field(ge=0)] | Text
Dtype = Literal["uint32", "int32", "float32", "uint64", "int64", "float64"]


class Columns(Section):
    """Which columns of a CSV or Parquet input name the ends of an edge."""

    source: Text = "auto"
    """Column of the vertex an edge leaves, by name, or by number from 1 without a header; `auto` knows the usual names
    (source, src, from, …)."""

    target: Text = "auto"
    """Column of the vertex an edge leads to, likewise (target, dst, to, …)."""


class Weights(Section):
    """Where the weights come from and which type they have."""

    column: Positive | Text = "auto"
    """Name of the column, or its number from 1; `auto` takes it only if exactly one fits, `none` ignores weights."""

    dtype: Auto | Dtype = "auto"
    """Type of weights and distances; `auto`: uint32 or int32 where every weight is an integer, or their 64-bit types
    where needed; with decimals float32 where every weight is exact in it, else float64."""

    scale: (
        Literal[10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000] | None
    ) = None
    """Multiply every weight by this and compute with integers: 1000 makes decimals of at most three places exact and
    refuses others. Distances stay in the input's unit."""

    default: int | float = 1
    """Weight of every edge where the input has no weights."""

    unit: Text | None = None
    """Unit of the weights; only carried along, into the graph store and the results."""


class Graph(Section):
    """The input, how to read it, and where the graph store goes."""

    input: Text | Annotated[tuple[Text, ...], Field(min_length=1, strict=False)]
    """One URL, a list of URLs, or a glob; a local path without a scheme starts at the current folder."""

    format: Annotated[str, NameIn(FORMATS, "auto")] = "auto"
    """Format of the input; `auto` looks at the content."""

    encoding: Text = "auto"
    """Encoding of a text or CSV input, such as `latin-1`; `auto`: UTF-8, or UTF-16 with a byte order mark."""

    delimiter: Literal["auto", ",", ";", "|", "tab"] = "auto"
    """What separates the columns of a CSV input; `auto` takes it only if exactly one fits."""

    header: Auto | bool = "auto"
    """Whether the first row of a text or CSV input names the columns; `auto` decides if exactly one reading fits."""

    decimal: Literal["point", "comma"] = "point"
    """What separates the decimals of a weight in a text or CSV input: `comma` reads `1,5` as 1.5."""

    columns: Columns = Columns()
    """Columns of a CSV or Parquet input."""

    coordinates: Text | None = None
    """URL of a DIMACS `.co` file with the position of every vertex."""

    directed: bool | Literal["reversed"] = True
    """Whether an edge leads one way only; `false` adds the reverse of every edge, `reversed` turns every edge round."""

    weights: Weights = Weights()
    """Weights of the edges."""

    ids: Literal["auto", "integer", "string"] = "auto"
    """Type of the vertex ids in the input; `auto` looks at the first rows. Digits with a leading zero are strings."""

    unreadable: Literal["error", "skip"] = "error"
    """What becomes of rows of text, CSV and Parquet that are no edge (an id missing, no number, null): stop at the
    first, or leave them out, count them, and keep the first 1,000 in `skipped.txt` of the graph store."""

    max_line_bytes: Annotated[int, Field(ge=2**24, le=2**30)] = 2**24
    """The longest line of an input of text, in bytes. Raise it for a METIS graph with a vertex of millions of
    neighbours; reading a line takes several times its size in memory."""

    duplicates: Literal["keep-min", "keep-all", "error"] = "keep-min"
    """What becomes of edges between the same two vertices: keep the lightest, keep all, or refuse."""

    self_loops: Literal["drop", "keep", "error"] = "drop"
    """What becomes of an edge from a vertex to itself."""

    store: Text | None = None
    """Folder of the graph store, which may contain `{name}`; `null` means `output.path` with `-graph-` added to its
    last name, and eight digits that depend on the input and the options of this section."""

    @property
    def digest(self) -> str:
        """Eight digits for the input and the options that are not their defaults: other ones make another graph."""
        told = self.model_dump(
            mode="json", exclude={"input", "store", "max_line_bytes"}, exclude_defaults=True
        )
        told["input"] = [url if "://" in url else posixpath.normpath(url) for url in self.inputs]
        plain = json.dumps(_without_secrets(told, (), {}), sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()[:8]

    @property
    def inputs(self) -> list[str]:
        """The URLs of `input` as a list, globs not yet expanded."""
        return [self.input] if isinstance(self.input, str) else list(self.input)


class RandomVertices(Section):
    """Vertices drawn at random, the same ones for the same graph and seed."""

    count: Positive
    """How many different vertices to draw."""

    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the draw."""

    min_reach: Positive = 1
    """Draw only vertices that reach at least this many vertices, themselves included."""


class Vertices(Section):
    """Some vertices: exactly one of `ids`, `file`, `random` and `top_degree`."""

    #: The keys that choose vertices, of which exactly one is given; the other keys say more about it.
    KINDS: ClassVar[tuple[str, ...]] = ("ids", "file", "random", "top_degree")

    ids: Annotated[tuple[VertexId, ...], Field(min_length=1, strict=False)] | None = None
    """Vertex ids, as in the input."""

    file: Text | None = None
    """URL of a file with vertex ids: one a line, or a column of a CSV, Parquet or Arrow file; `-` is standard input."""

    random: RandomVertices | None = None
    """Vertices drawn at random."""

    top_degree: Positive | None = None
    """The vertices with the most outgoing edges: how many."""

    column: Positive | Text | None = None
    """Column of `file` that holds the ids: its name, or its number from 1; `null` takes the only column, or the one
    called `source` (in `output.targets`: `target`), `id` or `vertex`."""

    header: bool | None = None
    """Whether the first line of `file` names its columns; `null` looks at that line."""

    unknown: Literal["error", "skip"] = "error"
    """What to do about ids that are not in the graph: `error` stops and names them, `skip` leaves them out and counts
    them."""

    @property
    def kind(self) -> str:
        """The key that is set."""
        return next(name for name in self.KINDS if getattr(self, name) is not None)


class Sources(Vertices):
    """The vertices to start from: exactly one of `ids`, `file`, `random`, `top_degree` and `all`."""

    KINDS: ClassVar[tuple[str, ...]] = (*Vertices.KINDS, "all")

    all: Literal[True] | None = None
    """Every vertex."""

    order: Literal["ascending", "given"] = "ascending"
    """Order of the sources in the results: by vertex, or as `ids` or `file` give them."""


class Solve(Section):
    """How to solve."""

    solver: Text = "auto"
    """Name of a solver, or `auto`; `sssp-pipeline solvers` lists them."""

    options: dict[str, bool | int | float | str] = {}  # noqa: RUF012 (pydantic copies it)
    """Options of the named solver; each solver has its own, listed among the [solvers](solvers.md)."""

    delta: Auto | Positive | Annotated[float, Field(gt=0)] = "auto"
    """Bucket width in the weights' unit; changes the speed, never the distances."""

    batch: Auto | Positive = "auto"
    """Sources in one batch, which is solved and committed as a whole."""

    cutoff: Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)] | None = None
    """Vertices farther than this count as unreached; `null` means no limit."""

    predecessors: bool = False
    """Whether to write the vertex before each one on a shortest path."""

    trace_every_us: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Record in the metrics, every so many microseconds, how each search goes on; only some solvers can."""

    deadline_s: Positive | Annotated[float, Field(gt=0)] = 86_400
    """Seconds that a search may take, from one source or from those that a GPU searches together; one that takes longer
    fails, on a GPU at once and on a CPU when the source is done."""

    retries: Annotated[int, Field(ge=0)] = 2
    """How many times a failed batch is tried again."""


class Output(Section):
    """Where the results go and how they are laid out."""

    path: Text
    """Folder of the results, which may contain `{date}` (YYYY-MM-DD), `{time}` (HHMMSS) and `{name}`; running the same
    workflow again goes on where it stopped."""

    distances: Annotated[str, NameIn(OUTPUTS)] = "full"
    """`full` writes the distances from every source to every vertex, or to the `targets`; `none` writes metrics alone:
    for each source the vertices reached, the largest distance and the mean."""

    targets: Vertices | None = None
    """Write only the distances to these vertices: in the order given, or ascending where they are drawn by the run;
    `null` means every vertex."""

    layout: Literal["long", "wide"] = "long"
    """`long`: a row per source and vertex; `wide`: a row per vertex and a column per source."""

    unreached: int | float | None = None
    """Number written as the distance of an unreached vertex; `null` writes NULL."""

    compression: Literal["none", "zstd", "snappy", "lz4"] = "none"
    """Compression of the Parquet files."""


class Workflow(Section):
    """One run from an edge list to verified distances."""

    version: Literal[1] = 1
    """Version of the workflow format."""

    name: Text = "workflow"
    """Name shown in logs and in the report; in a file the default is the file's name without its ending."""

    graph: Graph
    """The input and the graph store."""

    sources: Sources
    """The vertices to start from."""

    solve: Solve = Solve()
    """Solver, batches and what to compute."""

    cluster: Cluster = Cluster()
    """The machines that solve."""

    output: Output
    """The results."""

    verify: Literal["off", "sample", "certificate"] = "sample"
    """`sample` solves some sources again with the oracle, `certificate` proves every stored distance, which takes those
    to every vertex."""

    report: bool = True
    """Whether to write `report.html`."""

    # Strings that hold a value of the environment, as they were written: `resolved` shows these.
    _unexpanded: dict[Path, str] = PrivateAttr(default_factory=dict)

    # Whether the output path was made of the date or the time, so that loading the file again gives another.
    _is_dated: bool = PrivateAttr(default=False)

    @property
    def is_dated(self) -> bool:
        """Whether `{date}` or `{time}` stood in the output path."""
        return self._is_dated

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Self:
        for path, message, _ in contradictions(self.model_dump(exclude_none=True)):
            raise ValueError(f"`{dotted(path)}`: {message}")
        return self

    @property
    def store(self) -> str:
        """URL of the graph store, with the default filled in."""
        return self.graph.store or default_store(self.output.path, self.graph)

    def resolved(self) -> dict[str, Any]:
        """Return every value, defaults too, fit for `run.json`: plain JSON types and no secret.

        URLs lose their user, password and query; a string that took a value from the environment is given as
        it was written, with `${NAME}`.
        """
        plain: dict[str, Any] = _without_secrets(self.model_dump(mode="json"), (), self._unexpanded)
        plain["graph"]["store"] = plain["graph"]["store"] or default_store(
            plain["output"]["path"], self.graph
        )
        return plain


def default_store(output_path: str, graph: Graph) -> str:
    """Return where the graph store goes when the workflow does not say: beside the results, a place for each graph."""
    return f"{output_path.rstrip('/')}-graph-{graph.digest}"


def dotted(path: Path) -> str:
    """Return `path` as a user writes it: `graph.input[1]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def contradictions(data: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    """Yield where, what and a hint for every pair of values in `data` that cannot both be meant.

    `data` is a workflow as plain values, not necessarily valid: what has the wrong type is passed over, so
    that these faults can be reported beside the others.
    """
    sections = {key: value if isinstance(value, Mapping) else {} for key, value in data.items()}
    graph, solve, cluster, output = (sections.get(key, {}) for key in ("graph", "solve", "cluster", "output"))
    if isinstance(data.get("sources"), Mapping):
        yield from _vertices_contradictions(("sources",), data["sources"], Sources)
    yield from cluster_contradictions(cluster)
    yield from graph_contradictions(graph)
    if output.get("layout") == "wide" and solve.get("predecessors") is True:
        yield (
            ("output", "layout"),
            "layout `wide` has no place for predecessors",
            "set `output.layout: long` or `solve.predecessors: false`",
        )
    if solve.get("options") and solve.get("solver", "auto") == "auto":
        yield (
            ("solve", "options"),
            "`solve.options` are those of one solver, and `solve.solver` is `auto`",
            "name the solver, or remove the options",
        )
    yield from _reduction_contradictions(output, solve, data.get("verify"))
    yield from _standard_input_twice(data)
    yield from _places_never_written(output, graph)
    path, store = output.get("path"), graph.get("store")
    if isinstance(path, str) and isinstance(store, str):
        outer, inner = sorted((path.rstrip("/") + "/", store.rstrip("/") + "/"), key=len)
        if inner.startswith(outer):
            yield (
                ("graph", "store"),
                "`graph.store` and `output.path` lie in one another",
                "give each its own folder",
            )


def files_read(data: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield the place in `data` of each URL that a run reads, and the URL; `data` is a workflow as plain values."""
    places: list[Path] = [("graph", "input"), ("graph", "coordinates"), ("sources", "file")]
    for path in [*places, ("output", "targets", "file")]:
        value: Any = data
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        if isinstance(value, str):
            yield path, value
        elif isinstance(value, list | tuple):
            yield from (((*path, i), url) for i, url in enumerate(value) if isinstance(url, str))


def _standard_input_twice(data: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    places = [path for path, url in files_read(data) if url == STANDARD_INPUT]
    for path in places[1:]:
        yield (
            path,
            f"`{dotted(places[0])}` and `{dotted(path)}` are both `-`, and standard input can be read once",
            "name a file for one of them",
        )


def _places_never_written(
    output: Mapping[str, Any], graph: Mapping[str, Any]
) -> Iterator[tuple[Path, str, str]]:
    for path, url in ((("output", "path"), output.get("path")), (("graph", "store"), graph.get("store"))):
        if isinstance(url, str) and is_never_written(url):
            yield path, f"`{dotted(path)}` is `{redacted(url)}`, which cannot be written", CHOOSE_A_FOLDER


def _vertices_contradictions(
    path: Path, given: Mapping[str, Any], section: type[Vertices]
) -> Iterator[tuple[Path, str, str]]:
    kinds = [kind for kind in section.KINDS if given.get(kind) is not None]
    name = dotted(path)
    if len(kinds) > 1:
        listed = " and ".join(f"`{kind}`" for kind in kinds)
        yield (*path, kinds[1]), f"`{name}` has {listed}", f"keep one; `--set '{name}={{…}}'` replaces all"
    elif not kinds and not given.keys() - section.model_fields.keys():
        known = ", ".join(f"`{kind}`" for kind in section.KINDS)
        yield path, f"`{name}` {'chooses no vertices' if given else 'is empty'}", f"give one of {known}"
    elif kinds:
        yield from _unused_keys(path, given, kinds[0])


def _unused_keys(path: Path, given: Mapping[str, Any], kind: str) -> Iterator[tuple[Path, str, str]]:
    """Yield the keys of a `Vertices` section that say nothing about its `kind` of choice."""
    of_kinds = {
        "column": ("file",),
        "header": ("file",),
        "unknown": ("file", "ids"),
        "order": ("file", "ids"),
    }
    usual = {"unknown": "error", "order": "ascending"}
    for key, kinds in of_kinds.items():
        if kind not in kinds and given.get(key) not in (None, usual.get(key)):
            yield (
                (*path, key),
                f"`{dotted((*path, key))}` goes with {' and '.join(f'`{k}`' for k in kinds)}, not with `{kind}`",
                f"remove `{key}`",
            )
    if isinstance(given.get("column"), str) and given.get("header") is False:
        yield (
            (*path, "column"),
            f"`{dotted((*path, 'column'))}` names a column, and `header: false` says that columns have no names",
            "give the number of the column, from 1, or remove `header`",
        )


def _reduction_contradictions(
    output: Mapping[str, Any], solve: Mapping[str, Any], verify: Any
) -> Iterator[tuple[Path, str, str]]:
    """Yield what does not go with rows that are not kept whole."""
    targets, distances = output.get("targets"), output.get("distances", "full")
    without = distances == "none"
    if isinstance(targets, Mapping):
        yield from _vertices_contradictions(("output", "targets"), targets, Vertices)
    is_reduced = distances != "full"
    if targets is None and not is_reduced:
        return
    asked = f"`output.distances: {distances}`" if is_reduced else "`output.targets`"
    remedy = "set `output.distances: full`" if is_reduced else "remove the targets"
    if solve.get("predecessors") is True:
        yield (
            ("solve", "predecessors"),
            f"{asked} leaves no place for predecessors",
            f"{remedy}, or set `solve.predecessors: false`",
        )
    if verify == "certificate":
        yield (
            ("verify",),
            f"{asked} leaves `certificate` nothing to prove: it needs the distances to every vertex",
            f"set `verify: sample`, or {remedy}",
        )
    if is_reduced and not without and targets is not None:
        yield (
            ("output", "targets"),
            f"`output.targets` goes with `output.distances: full`, not with `{distances}`",
            f"remove `targets`, or {remedy}",
        )
    of_files = {"targets": None, "layout": "long", "unreached": None, "compression": "none"}
    for key, usual in of_files.items():
        if without and output.get(key, usual) != usual:
            yield (
                ("output", key),
                f"`output.{key}` says how distances are written, and {asked} writes none",
                f"remove `{key}`, or {remedy}",
            )


def graph_contradictions(graph: Mapping[str, Any]) -> Iterator[tuple[Path, str, str]]:
    """Yield, as `contradictions` does, what cannot be meant together in a `graph` section."""
    # Only names known to be formats are shown: another value may be a secret that came from the environment.
    known = graph.get("format") if graph.get("format") in FORMATS else None
    if graph.get("coordinates") is not None and known not in (None, "dimacs"):
        yield (
            ("graph", "coordinates"),
            f"`graph.coordinates` belongs to format `dimacs`, not `{known}`",
            "remove one of them",
        )
    for key, (usual, belongs_to) in _OF_FORMATS.items():
        value = graph.get(key, usual)
        if isinstance(value, Mapping):
            value = next((name for name in value.values() if name != "auto"), usual)
        if value != usual and known is not None and known not in belongs_to:
            *others, last = (f"`{name}`" for name in belongs_to)
            named = f"{', '.join(others)} and {last}" if others else last
            plural = "s" if len(belongs_to) > 1 else ""
            yield (
                ("graph", key),
                f"`graph.{key}` belongs to format{plural} {named}, not `{known}`",
                "remove one of them",
            )
    encoding = graph.get("encoding", "auto")
    if isinstance(encoding, str) and encoding != "auto" and not _is_encoding(encoding):
        yield (
            ("graph", "encoding"),
            "`graph.encoding` names no text encoding that Python knows",
            "write `utf-8`, `utf-16`, `latin-1`, `cp1252` or another of Python's standard encodings",
        )
    if graph.get("decimal") == "comma" and graph.get("delimiter") == ",":
        yield (
            ("graph", "decimal"),
            "a comma cannot separate both columns and decimals",
            "set `graph.delimiter` to what separates the columns, or remove `graph.decimal`",
        )
    weights = graph.get("weights")
    if isinstance(weights, Mapping):
        default, dtype = weights.get("default", 1), weights.get("dtype")
        if weights.get("scale") is not None and dtype in ("float32", "float64"):
            yield (
                ("graph", "weights", "scale"),
                f"`scale` computes with integers, and `dtype` is `{dtype}`",
                "remove one of them",
            )
        scale = weights.get("scale")
        if type(default) in (int, float) and scale is None and not _fits(default, dtype):
            yield (
                ("graph", "weights", "default"),
                f"default weight `{default}` is no `{dtype}`",
                "change `default` or `dtype`",
            )


#: Keys of the graph section that only some formats have: the default, and these formats.
_OF_FORMATS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "columns": ("auto", ("text", "csv", "parquet")),
    "encoding": ("auto", ("text", "csv", "networkx")),
    "delimiter": ("auto", ("csv",)),
    "header": ("auto", ("text", "csv")),
    "decimal": ("point", ("text", "csv")),
    "unreadable": ("error", ("text", "csv", "networkx", "parquet")),
    "max_line_bytes": (2**24, ("text", "csv", "networkx", "metis", "matrix-market", "dimacs")),
}


def _is_encoding(name: str) -> bool:
    try:
        return "\n".encode(name) != b""
    except (LookupError, ValueError):
        return False


def _fits(value: int | float, dtype: Any) -> bool:
    if dtype not in ("uint32", "int32", "uint64", "int64"):
        return True
    bits = int(dtype[-2:])
    low, high = (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    # The largest value of an integer type means "unreachable".
    return value == int(value) and low <= value < high


def _without_secrets(value: Any, path: Path, unexpanded: Mapping[Path, str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item, (*path, key), unexpanded) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item, (*path, i), unexpanded) for i, item in enumerate(value)]
    if isinstance(value, str):
        value = unexpanded.get(path, value)
        return redacted(value) if "://" in value else value
    return value
