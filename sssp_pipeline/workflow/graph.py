"""The section `graph` of a workflow: the input, its columns and weights, and the graph store."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PrivateAttr

from sssp_pipeline.storage.filesystems import parts_of, path_from
from sssp_pipeline.storage.redaction import without_password
from sssp_pipeline.workflow.registries import FORMATS, NameIn, misplaced, own_fields, with_own_keys
from sssp_pipeline.workflow.section import Auto, ColumnKey, Path, Section, Text, listed

#: What a weight may be called. A folder has the same name.
WEIGHT_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"

Dtype = Literal["uint32", "int32", "float32", "uint64", "int64", "float64"]


class Columns(Section):
    """The columns of a CSV or Parquet input that hold the two vertices of an edge."""

    source: ColumnKey = "auto"
    """Column of the vertex where an edge starts: its name, or its number from 1 if there is no header. `auto` knows the
    usual names (source, src, from, …)."""

    target: ColumnKey = "auto"
    """Column of the vertex where an edge ends, in the same way (target, dst, to, …)."""


class _Weight(Section):
    """The keys of a weight, both of the only one of a graph and of one of several."""

    column: ColumnKey | None = None

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
    """Return only the file if no column is named: both spellings mean the same graph."""
    return given.file if isinstance(given, Coordinates) and not given.names else given


class NamedWeight(_Weight):
    """One of several weights."""

    name: Annotated[str, Field(pattern=WEIGHT_NAME, examples=["time"])]
    """Name of the weight: letters, digits, `_`, `-` and `.`. Its results are in a folder of this name in
    `output.path`."""

    column: ColumnKey | None = None
    """Name of the column, or its number from 1. `null` means the column that is called like the weight. `auto` takes
    the only column that can hold weights. `none` gives every edge the weight `default`."""

    input: Text | Annotated[tuple[Text, ...], Field(min_length=1, strict=False)] | None = None
    """Files with the same edges and this weight, in the format of `graph.input`. `null` means `graph.input`."""


class Weights(_Weight):
    """The column and the type of the weights, or several weights of the same edges."""

    column: ColumnKey = "auto"
    """Name of the column, or its number from 1. `auto` works if exactly one column can hold weights. `none` ignores
    weights."""

    several: Annotated[tuple[NamedWeight, ...], Field(min_length=1, strict=False)] | None = None
    """Several weights, such as the distance and the time of each edge. They take the place of the other keys of this
    section. A run solves each of them."""


@with_own_keys(FORMATS.values())
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

    columns: Columns = Columns.model_construct()
    """Columns of a CSV or Parquet input."""

    coordinates: Annotated[Text | Coordinates | None, AfterValidator(_without_empty_names)] = None
    """URL of the positions of all vertices: a CSV, Parquet or GeoParquet file with the columns `id`, `lon` and `lat`,
    or the `.co` file of a DIMACS graph. `{file: URL, id: NAME, lon: NAME, lat: NAME}` names other columns."""

    directed: bool | Literal["reversed"] = True
    """Whether an edge leads one way only. `false` adds the reverse of every edge. `reversed` reverses every edge."""

    weights: Weights = Weights.model_construct()
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

    changes: Literal["sampled", "whole"] = "sampled"
    """How a changed input is noticed. `sampled` compares size, time and, of a local file, a digest of its head, its
    tail and 14 blocks between them; on an object store it compares the etag. `whole` reads every byte and compares the
    SHA-256: then a file that only has a new time is not ingested again."""

    store: Text | None = None
    """Folder of the graph store; it may contain `{name}`. `null` means the name of the input with `-graph-` and eight
    digits added, in the folder in which `output.path` lies. The digits depend on the input and the options of this
    section. So runs whose results lie in the same folder share the graph. A graph from a pipe is not shared."""

    def digest_in(self, folder: str) -> str:
        """Return eight hexadecimal digits of the input, seen from `folder`, and of every option that is no default."""
        options = self.model_dump(
            mode="json",
            exclude={"input", "store", "max_line_bytes", "memory", "changes"},
            exclude_defaults=True,
        )
        options["input"] = list(self.inputs)
        options = seen_from(folder, options)
        plain = json.dumps(without_secrets_in(options, (), {}), sort_keys=True)
        return hashlib.sha256(plain.encode()).hexdigest()[:8]

    @property
    def inputs(self) -> list[str]:
        """The URLs of `input` as a list, globs not yet expanded."""
        return [self.input] if isinstance(self.input, str) else list(self.input)

    @property
    def own(self) -> dict[str, Any]:
        """The keys that belong to one format, of all formats."""
        return {key: getattr(self, key) for record in FORMATS.values() for key in own_fields(record)}

    @property
    def positions(self) -> Coordinates | None:
        """`coordinates` as a section."""
        given = self.coordinates
        return Coordinates(file=given) if isinstance(given, str) else given

    # Whether `by_weight` made it of a section with several weights.
    _is_one_of_several: bool = PrivateAttr(default=False)

    @property
    def all_inputs(self) -> list[str]:
        """The `inputs` of all weights, each once."""
        return list(dict.fromkeys(url for graph in self.by_weight.values() for url in graph.inputs))

    @property
    def by_weight(self) -> dict[str | None, Graph]:
        """The graph with one weight each, by the name of the weight; None names an only weight."""
        if self.weights.several is None:
            return {None: self}
        return {weight.name: self._with(weight) for weight in self.weights.several}

    def _with(self, weight: NamedWeight) -> Graph:
        """Return the section of a graph that has only this weight."""
        shared = weight.model_dump(include={"dtype", "scale", "default", "unit"})
        column = weight.name if weight.column is None else weight.column
        given = {"weights": Weights(**shared, column=column), "input": weight.input or self.input}
        one = self.model_copy(update=given)
        one._is_one_of_several = True
        return one

    @property
    def keeps_order(self) -> bool:
        """Whether parallel edges stay in the order of the input, so that they are the same ones with each weight."""
        return self.duplicates == "keep-all" and self._is_one_of_several


def seen_from(folder: str, options: Any, key: str = "") -> Any:
    """Return options of a graph whose local files are paths that begin in `folder`, or absolute if none does.

    So they do not depend on the current folder, nor on a folder that holds both `folder` and the files.
    """
    if isinstance(options, dict):
        return {name: seen_from(folder, value, name) for name, value in options.items()}
    if isinstance(options, list):
        return [seen_from(folder, value, key) for value in options]
    is_path = isinstance(options, str) and key in ("input", "coordinates", "file") and not _URL.match(options)
    return (path_from(folder, options) or parts_of(options)[1]) if is_path else options


#: What is no local path: a URL, a generated graph, standard input.
_URL = re.compile("[A-Za-z][A-Za-z0-9+.-]*:|-$")


#: Values that every format takes, of keys that only some formats take.
_TAKEN_BY_ALL = {"ids": ("auto", "integer"), "weights.column": ("auto", "none")}


def misplaced_keys(graph: Mapping[str, Any], format_name: str) -> Iterator[tuple[str, str]]:
    """Yield each key of a section `graph` that the format does not take, and a text that says so.

    `graph` has plain values. A format without an entry in the registry, such as "generated", takes no such key.
    """
    weights = graph.get("weights")
    column = weights.get("column", "auto") if isinstance(weights, Mapping) else "auto"
    values = {**graph, "weights.column": column}
    given = [key for key, value in values.items() if not _is_default(key, value)]
    for key, takers in misplaced(given, format_name, FORMATS):
        word = "format" if len(takers) == 1 else "formats"
        yield key, f"`graph.{key}` belongs to {word} {listed(takers)}, not `{format_name}`"


def _is_default(key: str, value: Any) -> bool:
    if key == "columns" and isinstance(value, Mapping):
        return all(name == "auto" for name in value.values())
    if key in _TAKEN_BY_ALL:
        return value in _TAKEN_BY_ALL[key]
    field = Graph.model_fields.get(key)
    return field is not None and value == field.default


def without_secrets_in(value: Any, path: Path, unexpanded: Mapping[Path, str]) -> Any:
    """Return `value` with the texts of `unexpanded`, and without passwords; `path` is where it is in the workflow."""
    if isinstance(value, dict):
        return {key: without_secrets_in(item, (*path, key), unexpanded) for key, item in value.items()}
    if isinstance(value, list):
        return [without_secrets_in(item, (*path, i), unexpanded) for i, item in enumerate(value)]
    if isinstance(value, str):
        value = unexpanded.get(path, value)
        return without_password(value)
    return value
