"""The workflow file as frozen pydantic models; its JSON schema and reference page are generated from them.

The models hold no file. `yaml_file` reads the YAML and reports each fault with its line. The run compares solver names
with the registry.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from sssp_pipeline.storage.files import join
from sssp_pipeline.storage.redaction import without_password
from sssp_pipeline.workflow.answers import Nearest, Reduce
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.contradictions import contradictions
from sssp_pipeline.workflow.registries import FORMATS, OUTPUTS, NameIn
from sssp_pipeline.workflow.section import Auto, Path, Positive, Section, Text, dotted
from sssp_pipeline.workflow.vertices import Sources, Vertices

#: What a weight may be called. The name is also that of a folder.
WEIGHT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"

Dtype = Literal["uint32", "int32", "float32", "uint64", "int64", "float64"]


class Columns(Section):
    """The columns of a CSV or Parquet input that hold the two vertices of an edge."""

    source: Text = "auto"
    """Column of the vertex where an edge starts: its name, or its number from 1 if there is no header. `auto` knows the
    usual names (source, src, from, …)."""

    target: Text = "auto"
    """Column of the vertex where an edge ends, in the same way (target, dst, to, …)."""


class _Weight(Section):
    """The keys of a weight, both of the only one of a graph and of one of several."""

    column: Positive | Text | None = None

    dtype: Auto | Dtype = "auto"
    """Type of weights and distances. `auto` takes uint32 or int32 if every weight is an integer, or a 64-bit type if
    one is too large. Decimals that `scale` does not make integers are float64. A float column of a typed format, such
    as Parquet, keeps its type."""

    scale: (
        Auto
        | Literal[10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000]
        | None
    ) = "auto"
    """Multiply every weight by this and compute with integers, whose sums are exact: 1000 takes decimals of at most
    three places and refuses others. Distances stay in the input's unit. `auto` chooses it if the weights are numbers in
    text with at most nine places and about 15 digits. `null` computes decimals in float64, and rounds sums."""

    default: int | float = 1
    """Weight of every edge if the input has no weights."""

    unit: Text | None = None
    """Unit of the weights. It is copied to the graph store and the results, and changes nothing."""


class Coordinates(Section):
    """The file with the positions of all vertices, and the names of its columns."""

    file: Text
    """URL of a CSV file with a header, or of a Parquet, GeoParquet or Arrow file."""

    id: Text | None = None
    """Column of the vertex ids. `null` takes the one named `id`."""

    lon: Text | None = None
    """Column of the longitudes, in degrees. `null` takes the geometry of GeoParquet, or else the column named `lon`,
    `lng` or `longitude`."""

    lat: Text | None = None
    """Column of the latitudes, in degrees. `null` takes the geometry of GeoParquet, or else the column named `lat` or
    `latitude`."""

    @property
    def names(self) -> dict[str, str]:
        """The columns that are named, by their keys."""
        return self.model_dump(exclude={"file"}, exclude_none=True)


def _without_empty_names(given: str | Coordinates | None) -> str | Coordinates | None:
    """Return the file alone if no column is named: both spellings mean the same graph."""
    return given.file if isinstance(given, Coordinates) and not given.names else given


class NamedWeight(_Weight):
    """One of several weights."""

    name: Annotated[str, Field(pattern=WEIGHT_NAME, examples=["time"])]
    """Name of the weight: letters, digits, `_`, `-` and `.`. Its results are in a folder of this name in
    `output.path`."""

    column: Positive | Text | None = None
    """Name of the column, or its number from 1. `null` means the column that is called like the weight. `auto` takes
    the only column that can hold weights. `none` gives every edge the weight `default`."""

    input: Text | Annotated[tuple[Text, ...], Field(min_length=1, strict=False)] | None = None
    """Files with the same edges and this weight, in the format of `graph.input`. `null` means `graph.input`."""


class Weights(_Weight):
    """The column and the type of the weights, or several weights of the same edges."""

    column: Positive | Text = "auto"
    """Name of the column, or its number from 1. `auto` works if exactly one column can hold weights. `none` ignores
    weights."""

    several: Annotated[tuple[NamedWeight, ...], Field(min_length=1, strict=False)] | None = None
    """Several weights, such as the distance and the time of each edge. They take the place of the other keys of this
    section. A run solves each of them."""


class Graph(Section):
    """The input, how to read it, and the place of the graph store."""

    input: Text | Annotated[tuple[Text, ...], Field(min_length=1, strict=False)]
    """One URL, a list of URLs, or a glob. A local path without a scheme starts at the current folder."""

    format: Annotated[str, NameIn(FORMATS, "auto")] = "auto"
    """Format of the input; `auto` looks at the content."""

    encoding: Text = "auto"
    """Encoding of a text or CSV input, such as `latin-1`; `auto`: UTF-8, or UTF-16 with a byte order mark."""

    delimiter: Literal["auto", ",", ";", "|", "tab"] = "auto"
    """What separates the columns of a CSV input. `auto` works if exactly one delimiter fits."""

    header: Auto | bool = "auto"
    """Whether the first row of a text or CSV input names the columns. `auto` works if exactly one reading fits."""

    decimal: Literal["point", "comma"] = "point"
    """What separates the decimals of a weight in a text or CSV input: `comma` reads `1,5` as 1.5."""

    columns: Columns = Columns()
    """Columns of a CSV or Parquet input."""

    coordinates: Annotated[Text | Coordinates | None, AfterValidator(_without_empty_names)] = None
    """URL of the positions of all vertices: a CSV, Parquet or GeoParquet file with the columns `id`, `lon` and `lat`,
    or the `.co` file of a DIMACS graph. `{file: URL, id: NAME, lon: NAME, lat: NAME}` names other columns."""

    layer: Text = "auto"
    """Layer of a GeoPackage. `auto` works if exactly one layer holds lines."""

    profile: Literal["auto", "car", "bicycle", "foot"] = "auto"
    """Who travels on the roads of OpenStreetMap: which ways are open, in which directions, and how fast. `auto` means
    `car`. See [OpenStreetMap](../guides/openstreetmap.md)."""

    directed: bool | Literal["reversed"] = True
    """Whether an edge leads one way only. `false` adds the reverse of every edge. `reversed` reverses every edge."""

    weights: Weights = Weights()
    """Weights of the edges."""

    ids: Literal["auto", "integer", "string"] = "auto"
    """Type of the vertex ids in the input. `auto` looks at the first rows. Digits with a leading zero are strings."""

    unreadable: Literal["error", "skip"] = "error"
    """What to do with rows of text, CSV and Parquet that hold no edge: an id is missing, null or not a number. `error`
    stops at the first such row. `skip` leaves them out, counts them, and keeps the first 1,000 in `skipped.txt` of the
    graph store."""

    max_line_bytes: Annotated[int, Field(ge=2**24, le=2**30)] = 2**24
    """The longest line of a text input, in bytes. Raise it for a METIS graph with a vertex of millions of neighbours.
    Reading a line takes several times its size in memory."""

    duplicates: Literal["keep-min", "keep-all", "error"] = "keep-min"
    """What to do with edges between the same two vertices: keep the lightest, keep all, or stop with an error."""

    self_loops: Literal["drop", "keep", "error"] = "drop"
    """What to do with an edge from a vertex to itself."""

    vertices: Literal["all", "with-edges", "largest-component"] = "all"
    """Which vertices to keep: all, those with an edge, or those of the largest component, which ignores directions. Ids
    stay as they are. Applies after `self_loops` and `duplicates`."""
    memory: (
        Auto
        | Annotated[str, Field(pattern=r"^[0-9]{1,15}(\.[0-9]{1,15})? ?([kMGT]i?)?B$", examples=["2GiB"])]
    ) = "auto"
    """How much memory ingest may take, about: at least `256MiB`. Edges that do not fit are kept on disk meanwhile: in
    the graph store if the input is larger than the memory, otherwise in the temporary folder. `auto` is half of what is
    free. The graph store is the same with any memory. On the workers of a cluster it limits each of their threads,
    too."""

    store: Text | None = None
    """Folder of the graph store; it may contain `{name}`. `null` means `output.path` with `-graph-` and eight digits
    added. The digits depend on the input and the options of this section."""

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits of the input and of every option that is not its default."""
        options = self.model_dump(
            mode="json", exclude={"input", "store", "max_line_bytes", "memory"}, exclude_defaults=True
        )
        options["input"] = [url if "://" in url else posixpath.normpath(url) for url in self.inputs]
        plain = json.dumps(_without_secrets(options, (), {}), sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()[:8]

    @property
    def inputs(self) -> list[str]:
        """The URLs of `input` as a list, globs not yet expanded."""
        return [self.input] if isinstance(self.input, str) else list(self.input)

    @property
    def positions(self) -> Coordinates | None:
        """`coordinates` as a section."""
        given = self.coordinates
        return Coordinates(file=given) if isinstance(given, str) else given

    @property
    def all_inputs(self) -> list[str]:
        """The `inputs` of all weights, each once."""
        return list(dict.fromkeys(url for graph in self.by_weight.values() for url in graph.inputs))

    @property
    def by_weight(self) -> dict[str | None, Graph]:
        """The graph with each of its weights alone, by the name of the weight; None names an only weight."""
        if self.weights.several is None:
            return {None: self}
        return {weight.name: self._with(weight) for weight in self.weights.several}

    def _with(self, weight: NamedWeight) -> Graph:
        """Return the section of a graph that has this weight alone."""
        shared = weight.model_dump(include={"dtype", "scale", "default", "unit"})
        column = weight.name if weight.column is None else weight.column
        given = {"weights": Weights(**shared, column=column), "input": weight.input or self.input}
        return self.model_copy(update=given)


class Solve(Section):
    """How to solve."""

    weights: Annotated[tuple[Text, ...], Field(min_length=1, strict=False)] | None = None
    """Names of the weights to solve, of `graph.weights.several`. `null` means all of them."""

    solver: Text = "auto"
    """Name of a solver, or `auto`. `sssp-pipeline solvers` lists the solvers."""

    hierarchy: Literal["auto", "build", "off"] = "auto"
    """The hierarchy that `phast` and `phast-gpu` need. It is kept in the graph store. If it is missing, `auto` makes it
    if the run is expected to take less time with it, or if the solver is named. `build` makes it in any case. `off`
    uses none."""

    options: dict[str, bool | int | float | str] = {}  # noqa: RUF012 (pydantic copies it)
    """Options of the named solver; each solver has its own, listed among the [solvers](solvers.md)."""

    delta: Auto | Positive | Annotated[float, Field(gt=0)] = "auto"
    """Bucket width in the unit of the weights. It changes the speed and never the distances."""

    batch: Auto | Positive = "auto"
    """Number of sources in a batch. A batch is committed as a whole. More than 2,000 batches below 1 MiB are joined."""

    cutoff: Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0)] | None = None
    """Vertices farther than this count as unreached. `null` means no limit."""

    predecessors: bool = False
    """Whether to write the predecessor of each vertex: the vertex before it on a shortest path, the smallest id of
    several."""

    trace_every_us: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Record the state of each search in the metrics at this interval, in microseconds. Only some solvers can."""

    deadline_s: Positive | Annotated[float, Field(gt=0)] = 86_400
    """Seconds that a search may take. A search has one source, or the sources that share a GPU kernel. A longer search
    fails: on a GPU at once, on a CPU at the end of the source."""

    retries: Annotated[int, Field(ge=0)] = 2
    """How many times a failed batch is tried again."""


class Output(Section):
    """The place and the layout of the results."""

    path: Text
    """Folder of the results; it may contain `{date}` (YYYY-MM-DD), `{time}` (HHMMSS) and `{name}`. A second run of the
    same workflow continues where the first one stopped."""

    distances: Annotated[str, NameIn(OUTPUTS)] = "full"
    """`full` writes the distances from every source to every vertex, or to the `targets`. `none` writes only metrics:
    for each source the number of vertices reached, the largest distance and the mean. `reached` writes the distances to
    reached vertices, and no rows for the others. `reduced` writes the numbers that `reduce` asks for. `nearest` writes
    the nearest vertices of each source."""

    targets: Vertices | None = None
    """Write only the distances to these vertices. They keep the order given. `random` and `top_degree` give ascending
    order. `null` means every vertex."""

    reduce: Reduce | None = None
    """Numbers made of all distances of a source. It goes with `distances: reduced`."""

    nearest: Nearest | None = None
    """The nearest vertices of each source. It goes with `distances: nearest`."""

    layout: Literal["long", "wide"] = "long"
    """`long` has a row per source and vertex. `wide` has a row per vertex and a column per source."""

    unreached: int | float | None = None
    """Number written as the distance of an unreached vertex. `null` writes NULL."""

    compression: Literal["none", "zstd", "snappy", "lz4"] = "none"
    """Compression of the Parquet files."""


class Storage(Section):
    """How files are written."""

    sync: Literal["commit", "off"] = "commit"
    """`commit` waits until files are on the disk before a record commits them: the manifest of the graph store, and
    `run.json`. So a power loss loses no committed graph and no finished run. `off` leaves it to the operating system.
    It matters only for files on disks of this machine. An object store keeps what it has confirmed."""


class Workflow(Section):
    """One run from an edge list to verified distances."""

    version: Literal[1] = 1
    """Version of the workflow format."""

    name: Text = "workflow"
    """Name in logs and in the report. The default is the name of the workflow file without its extension."""

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

    storage: Storage = Storage()
    """How files are written."""

    verify: Literal["off", "sample", "certificate"] = "sample"
    """`sample` solves some sources again with the oracle and compares. `certificate` proves every stored distance and
    needs the distances to every vertex."""

    report: bool = True
    """Whether to write `report.html`."""

    # Strings with a value of the environment, as the file has them. `resolved` returns these.
    _unexpanded: dict[Path, str] = PrivateAttr(default_factory=dict)

    # The weight that `with_weight` has chosen, and the workflow with all weights.
    _weight: str | None = PrivateAttr(default=None)
    _of_all: Workflow | None = PrivateAttr(default=None)

    # Whether the output path has the date or the time in it, so that loading the file again gives another path.
    _is_dated: bool = PrivateAttr(default=False)

    @property
    def is_dated(self) -> bool:
        """Whether the output path was written with `{date}` or `{time}`."""
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

    @property
    def weights(self) -> list[str | None]:
        """The names of the weights to solve; None is that of an only weight."""
        return [*self.solve.weights] if self.solve.weights is not None else [*self.graph.by_weight]

    def with_weight(self, name: str | None) -> Workflow:
        """Return the workflow for one of `weights` alone, whose results are in a folder of its own."""
        if name is None:
            return self
        graph = self.graph.by_weight[name].model_copy(update={"store": self.store})
        output = self.output.model_copy(update={"path": join(self.output.path, name)})
        alone = self.model_copy(update={"graph": graph, "output": output})
        alone._weight, alone._of_all = name, self
        return alone

    @property
    def weight(self) -> str | None:
        """The name of the weight that `with_weight` has chosen."""
        return self._weight

    def resolved(self) -> dict[str, Any]:
        """Return every value, with defaults, as plain JSON types without secrets, for `run.json`.

        URLs lose their user, password and query. A string with a value of the environment keeps `${NAME}`. After
        `with_weight`, the section `graph` has all weights.
        """
        if self._of_all is not None:
            of_all = self._of_all.resolved()
            of_all["output"]["path"] = join(of_all["output"]["path"], str(self._weight))
            return of_all
        plain: dict[str, Any] = _without_secrets(self.model_dump(mode="json"), (), self._unexpanded)
        plain["graph"]["store"] = plain["graph"]["store"] or default_store(
            plain["output"]["path"], self.graph
        )
        return plain


def default_store(output_path: str, graph: Graph) -> str:
    """Return the folder of the graph store for a workflow without `graph.store`: beside the results."""
    return f"{output_path.rstrip('/')}-graph-{graph.digest}"


def _without_secrets(value: Any, path: Path, unexpanded: Mapping[Path, str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(item, (*path, key), unexpanded) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item, (*path, i), unexpanded) for i, item in enumerate(value)]
    if isinstance(value, str):
        value = unexpanded.get(path, value)
        return without_password(value)
    return value
