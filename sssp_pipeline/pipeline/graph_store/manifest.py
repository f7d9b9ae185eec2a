"""Manifest: the record of a stored graph, its facts and its parts, in `manifest.json`."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.vertex_ids import IdMapping
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.storage import files

if TYPE_CHECKING:
    import numpy as np

    from sssp_pipeline.base.csr import GraphTraits
else:  # `inspect` reads a manifest without NumPy
    np = LazyModule("numpy")

FORMAT = "sssp-pipeline graph store"
VERSION = 1
#: The version of a store whose weights have names.
VERSION_OF_NAMED = 2
PART_PATTERN = r"^(row_offsets|edges|edge_weights|vertices|hierarchy)/part-[0-9a-f]{8}-\d{5}\.parquet$"
#: A part with more rows is refused before memory is taken for them. Parts that we write have at most one row a byte.
MOST_ROWS_A_BYTE = 64


def damaged_record(url: str, error: ValueError, hint: str) -> InputError:
    """Return the error for a record in the file `url`, which is not readable because of `error`."""
    where, problem = "", str(error)
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        where, problem = f" at {place_in_record(error)}", first["msg"]
    return InputError(f"`{files.redacted(url)}` is damaged{where}: {problem}", hint=hint)


def place_in_record(error: ValidationError) -> str:
    """Return the words for the place in a record where the first error was found."""
    return ".".join(str(step) for step in error.errors()[0]["loc"]) or "the top"


class StoredPart(BaseModel):
    """One Parquet file of the store."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    #: Path of the file below the store.
    path: str = Field(pattern=PART_PATTERN)
    #: The number of rows.
    rows: int = Field(ge=0)
    #: The half-open range of vertices in the file; in `row_offsets/`, of rows.
    first: int = Field(ge=0)
    last: int = Field(ge=0)
    #: The size of the file.
    bytes: int = Field(ge=0)
    #: The CRC-32 of the file, which is checked whenever the file is read.
    crc32: int
    #: The SHA-256 of the values in the file. It does not depend on the release of pyarrow that wrote them.
    content_sha256: str

    @model_validator(mode="after")
    def _rows_fit(self) -> Self:
        if self.rows > MOST_ROWS_A_BYTE * self.bytes:
            raise ValueError(f"{self.rows} rows do not fit a file of {self.bytes} bytes")
        return self


class WeightFacts(BaseModel):
    """Facts about the stored weights; all 0 and False if there are no edges.

    With a `scale`, the stored weights are the input's weights times that number.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    dtype: Literal["uint32", "int32", "float32", "uint64", "int64", "float64"]
    unit: str | None
    scale: int | None = Field(None, ge=1, le=10**9)
    min: int | float
    max: int | float
    mean: float
    zero: bool
    negative: bool

    @property
    def type_text(self) -> str:
        """The type, and the scale if there is one."""
        return f"{self.dtype} of 1/{self.scale}" if self.scale else self.dtype


class Counts(BaseModel):
    """What ingest did to the edges: `edges_read - self_loops_dropped + reverses_added - duplicates_dropped` remain.

    Of them, `Cleaning.edges_dropped` are then left out.

    `rows_skipped` counts the rows that were left out because they are not edges. `edges_read` does not include them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    edges_read: int
    self_loops_dropped: int
    reverses_added: int
    duplicates_dropped: int
    rows_skipped: int


class Cleaning(BaseModel):
    """Which vertices were kept, and how many vertices and edges were left out with the others."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    kept: Literal["with-edges", "largest-component"]
    vertices_dropped: int
    edges_dropped: int
    #: The number of components of the whole graph; None with `with-edges`.
    components: int | None = None

    def line(self) -> str:
        """Return what was kept and left out, for people."""
        which = "the vertices with edges"
        if self.components is not None:
            which = f"the largest of {plural(self.components, 'component')}"
        dropped = f"{plural(self.vertices_dropped, 'vertex')} and {plural(self.edges_dropped, 'edge')}"
        return f"kept {which}; left out {dropped}"


class Manifest(BaseModel):
    """The facts about a stored graph with one of its weights, and its parts."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    format: Literal["sssp-pipeline graph store"]
    version: Literal[1]
    n_vertices: int = Field(ge=0, le=2**32)
    n_edges: int = Field(ge=0)
    degree_skew: float
    #: `GraphTraits.levels`. None if the graph is large or ingest had little memory, and in older stores.
    levels: float | None = None
    weights: WeightFacts
    symmetric: bool
    ids: IdMapping
    coordinates: bool
    #: The unit of the coordinates, if the input says it.
    coordinates_unit: Literal["degrees"] | None = None
    counts: Counts
    #: None if all vertices are kept.
    cleaning: Cleaning | None = None
    inputs: list[dict[str, Any]]
    options: dict[str, Any]
    reading: Reading
    row_offsets: list[StoredPart]
    edges: list[StoredPart]
    vertices: list[StoredPart]
    #: The parts with the weights, if the weights have names; None if they are in the parts of `edges`. The
    #: `content_sha256` of such a part is the checksum of a part of `edges` with both columns.
    edge_weights: list[StoredPart] | None = None

    # Set by the `StoreManifest` that this manifest is an entry of.
    _weight: str | None = PrivateAttr(default=None)
    _by_weight: dict[str | None, Manifest] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _parts_cover_the_graph(self) -> Self:
        with_vertices = self.ids.kind == "table" or self.coordinates
        for name, parts, rows in (
            ("row_offsets", self.row_offsets, self.n_vertices + 1),
            ("edges", self.edges, self.n_vertices),
            ("vertices", self.vertices, self.n_vertices if with_vertices else 0),
        ):
            bounds = [0, *(p.last for p in parts)]
            if [p.first for p in parts] != bounds[:-1] or bounds[-1] != rows:
                raise ValueError(f"the parts of {name} do not cover the graph")
        if sum(p.rows for p in self.edges) != self.n_edges:
            raise ValueError("the parts of edges do not hold all edges")
        if self.edge_weights is not None:
            ranges = [[(p.first, p.last, p.rows) for p in parts] for parts in (self.edges, self.edge_weights)]
            if ranges[0] != ranges[1]:
                raise ValueError("the parts of edge_weights do not fit those of edges")
        return self

    @model_serializer(mode="wrap")
    def _plain(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what older stores lack if there is none of it."""
        plain: dict[str, Any] = handler(self)
        for name in ("edge_weights", "cleaning", "levels"):
            if getattr(self, name) is None:
                plain.pop(name, None)
        return plain

    def __eq__(self, other: object) -> bool:
        # The method of pydantic compares private attributes too, and `_by_weight` leads back here.
        return isinstance(other, Manifest) and self.__dict__ == other.__dict__

    @property
    def weight(self) -> str | None:
        """The name of the weight; None if the store has one weight without a name."""
        return self._weight

    @property
    def by_weight(self) -> dict[str | None, Manifest]:
        """The manifests of the same graph with each of its weights, by the name of the weight."""
        return self._by_weight

    @property
    def weight_parts(self) -> list[StoredPart]:
        """The parts that hold the weights."""
        return self.edges if self.edge_weights is None else self.edge_weights

    @property
    def traits(self) -> GraphTraits:
        from sssp_pipeline.base.csr import GraphTraits

        return GraphTraits(
            self.n_vertices,
            self.n_edges,
            np.dtype(self.weights.dtype),
            self.weights.min,
            self.weights.max,
            self.weights.mean,
            self.degree_skew,
            levels=self.levels,
        )

    @property
    def edge_columns(self) -> list[tuple[list[StoredPart], tuple[str, ...]]]:
        """The parts that hold the edges and the weights, with the columns of these parts."""
        if self.edge_weights is None:
            return [(self.edges, ("col_index", "weight"))]
        return [(self.edges, ("col_index",)), (self.edge_weights, ("weight",))]

    @property
    def content_id(self) -> str:
        """A digest of the graph; two stores with equal graphs have the same digest.

        It does not tell whether a store has further weights.
        """
        in_content = [*self.row_offsets, *self.weight_parts, *self.vertices]
        parts = [(p.first, p.last, p.content_sha256) for p in in_content]
        # The type is included, because the same bytes of another type are other weights.
        facts: list[Any] = [parts, self.ids.model_dump(), self.weights.dtype]
        if self.weights.scale is not None:
            facts.append(self.weights.scale)
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def parts(self) -> list[StoredPart]:
        """All files of the graph except the manifest."""
        return [*self.row_offsets, *self.edges, *(self.edge_weights or ()), *self.vertices]

    @property
    def arrays(self) -> dict[str, tuple[int, np.dtype]]:
        """Length and type of each array of the `CsrGraph`, by the name of the array."""
        return {
            "row_offsets": (self.n_vertices + 1, np.dtype(np.int64)),
            "col_indices": (self.n_edges, np.dtype(np.uint32)),
            "weights": (self.n_edges, np.dtype(self.weights.dtype)),
        }

    @property
    def graph_bytes(self) -> int:
        """Bytes of host memory that the `CsrGraph` takes."""
        return sum(length * dtype.itemsize for length, dtype in self.arrays.values())


class StoreManifest(BaseModel):
    """What a store holds: the manifest of a graph with each of its weights. All have the same other parts.

    If the only weight has no name, the file of the store has its manifest. Otherwise the file has the fields below.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)
    format: Literal["sssp-pipeline graph store"] = "sssp-pipeline graph store"
    version: Literal[2] = 2
    #: By the name of the weight; None for an only weight without a name.
    by_weight: dict[str | None, Manifest] = Field(min_length=1, alias="graphs")

    @classmethod
    def of_file(cls, content: dict[str, Any]) -> StoreManifest:
        """Return the manifest with the `content` of its file; raises `ValidationError`."""
        if content["version"] == VERSION:
            return cls(graphs={None: Manifest.model_validate(content)})
        return cls.model_validate(content)

    @property
    def content(self) -> dict[str, Any]:
        """The content of the file."""
        return (self.by_weight.get(None) or self).model_dump(mode="json", by_alias=True)

    @model_validator(mode="after")
    def _graphs_share_their_edges(self) -> Self:
        for name, graph in self.by_weight.items():
            if name is not None and graph.edge_weights is None:
                raise ValueError(f"the weight {name} has no parts")
            if _shared_parts(graph) != _shared_parts(self.first):
                raise ValueError(f"the weight {name} has other edges")
        return self

    def model_post_init(self, context: Any, /) -> None:
        """Tell each manifest the others."""
        for name, graph in self.by_weight.items():
            graph._weight, graph._by_weight = name, self.by_weight

    @property
    def first(self) -> Manifest:
        """The manifest with the first weight, or the only one."""
        return next(iter(self.by_weight.values()))

    @property
    def content_id(self) -> str:
        """A digest of the graphs and their names."""
        if None in self.by_weight:
            return self.first.content_id
        facts = {name: graph.content_id for name, graph in self.by_weight.items()}
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()

    @property
    def parts(self) -> list[StoredPart]:
        """All files of the store except the manifest."""
        return list({part.path: part for graph in self.by_weight.values() for part in graph.parts}.values())


def _shared_parts(graph: Manifest) -> tuple[list[StoredPart], ...]:
    return graph.row_offsets, graph.edges, graph.vertices
