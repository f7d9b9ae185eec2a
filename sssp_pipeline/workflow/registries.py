"""The formats of inputs and the kinds of output: the only lists of them, by the names that a workflow uses.

An entry says what the check of a workflow, detection and messages need to know. A workflow is checked before anything
slow is imported. An entry therefore names its code as "module:name", and `code_of` imports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from sssp_pipeline.workflow.section import Section

Model = TypeVar("Model", bound=Section)

_FORMATS = "sssp_pipeline.pipeline.formats"
_RESULTS = "sssp_pipeline.pipeline.results"
_SECTIONS = "sssp_pipeline.workflow"


@dataclass(frozen=True)
class Format:
    """A format of edge lists."""

    #: The function that opens files as `InputEdges`.
    opens: str
    #: The keys of `graph` that it takes, of those that only some formats take.
    takes: tuple[str, ...] = ()
    #: A section whose keys become keys of `graph` that only this format takes.
    own_keys: str = ""
    #: A pattern of the first bytes of a file, after decompression and without a byte order mark.
    begins: bytes = b""
    #: A pattern that is searched in the first row that is no comment.
    first_row: str = ""
    #: A function that takes a `Beginning` for which a pattern holds, and says whether the file is in this format.
    sniffs: str = ""
    #: What its files are called if each is a whole graph, so that only one can be read.
    whole_graphs: str = ""
    #: The formats that files after the first one may seem to have.
    continues: tuple[str, ...] = ()
    #: The endings of files whose vertices may have positions.
    with_positions: tuple[str, ...] = ()
    #: What the list of formats in a message adds to the name.
    note: str = ""


def _xml_root(name: bytes) -> bytes:
    """Return a pattern of XML whose root has this name, after declarations and comments."""
    # Each part is atomic: otherwise many declarations would be tried in every combination.
    prolog = rb"(?s:(?:\s++|(?><\?.*?\?>)|(?><!--.*?-->)|(?><![A-Z].*?>)|\]>)*+)"
    return prolog + rb"<(?:[\w.-]+:)?(?P<root>" + name + rb")[\s/>]"


#: The beginning of any XML file; its group "root" is the name of the root.
XML = _xml_root(b"[A-Za-z]+")

_TABLE = ("columns", "weights.column", "ids", "unreadable")
_LINES = ("unreadable", "max_line_bytes")

#: The formats. The first two take every text that no other format knows.
FORMATS: dict[str, Format] = {
    "text": Format(
        f"{_FORMATS}.text.text:open_text", takes=(*_TABLE, "encoding", "header", "decimal", "max_line_bytes")
    ),
    "csv": Format(
        f"{_FORMATS}.tables.csv_table:open_csv",
        takes=(*_TABLE, "encoding", "delimiter", "header", "decimal", "max_line_bytes"),
    ),
    "dimacs": Format(
        f"{_FORMATS}.text.dimacs:open_dimacs",
        takes=("max_line_bytes",),
        begins=rb"(?:\s++|[#%].*+\n)*+(?:[cp]|[ae]\b)",
        sniffs=f"{_FORMATS}.text.dimacs:is_dimacs",
    ),
    "galois": Format(f"{_FORMATS}.binary.galois:open_galois", begins=rb"[\x01\x02]\x00{7}[\x00-\x08]\x00{7}"),
    "graphml": Format(
        f"{_FORMATS}.row_by_row.graphml:open_graphml",
        takes=("weights.column", "ids", *_LINES),
        begins=_xml_root(b"graphml"),
        with_positions=("graphml",),
    ),
    "lines": Format(
        f"{_FORMATS}.geometry.lines:open_lines",
        takes=_TABLE,
        own_keys=f"{_FORMATS}.geometry.keys:LinesKeys",
        begins=rb"SQLite format 3\x00|PAR1",
        sniffs=f"{_FORMATS}.geometry.lines:are_lines",
        with_positions=("gpkg", "parquet", "geoparquet"),
        note="GeoParquet and GeoPackage",
    ),
    "matrix": Format(
        f"{_FORMATS}.row_by_row.matrix:open_matrix",
        takes=("ids", "encoding", "delimiter", "header", "decimal", "max_line_bytes"),
        whole_graphs="matrices",
        note="only if named",
    ),
    "matrix-market": Format(
        f"{_FORMATS}.text.matrix_market:open_matrix_market",
        takes=("max_line_bytes",),
        begins=b"%%MatrixMarket",
    ),
    "metis": Format(
        f"{_FORMATS}.text.metis:open_metis",
        takes=("max_line_bytes",),
        first_row=r"^[ \t\v\f\r]*[0-9]",
        sniffs=f"{_FORMATS}.text.metis:is_metis",
        whole_graphs="METIS files",
    ),
    "neo4j": Format(
        f"{_FORMATS}.tables.neo4j:open_neo4j",
        takes=("weights.column", "ids", "encoding", "delimiter", "decimal", *_LINES),
        first_row=r":(?:START_ID|END_ID|ID)(?![A-Za-z_])",
        continues=("csv", "text"),
    ),
    "networkx": Format(
        f"{_FORMATS}.row_by_row.networkx_edgelist:open_networkx",
        takes=("weights.column", "ids", "encoding", *_LINES),
        first_row=r"^[ \t\v\f\r]*(?:[^ \t\v\f\r]+[ \t\v\f\r]+){2}\{",
        note="write_edgelist",
    ),
    "osm": Format(
        f"{_FORMATS}.openstreetmap.osm:open_osm",
        takes=("weights.column", "unreadable"),
        own_keys=f"{_FORMATS}.openstreetmap.keys:OsmKeys",
        begins=rb"(?s:.{4}\n\tOSMHeader)|" + _xml_root(b"osm"),
        with_positions=("pbf", "osm"),
        note="PBF and XML",
    ),
    "parquet": Format(
        f"{_FORMATS}.tables.parquet:open_parquet",
        takes=_TABLE,
        begins=rb"PAR1|ARROW1|\xff{4}",
        note="Arrow too",
    ),
    "scipy-npz": Format(
        f"{_FORMATS}.binary.scipy_npz:open_scipy_npz",
        begins=rb"PK\x03\x04",
        sniffs=f"{_FORMATS}.binary.scipy_npz:is_scipy_npz",
        whole_graphs="matrices",
    ),
    "tntp": Format(
        f"{_FORMATS}.row_by_row.tntp:open_tntp",
        takes=("weights.column", "max_line_bytes"),
        # The metadata are in no fixed order.
        begins=rb"(?:\s++|~.*+)*+<(?:NUMBER OF|FIRST THRU|ORIGINAL HEADER|TOTAL OD|END OF METADATA)[ >]",
        whole_graphs="TNTP networks",
    ),
}


@dataclass(frozen=True)
class OutputKind:
    """A value of `output.distances`."""

    #: The subclass of `RowOutput`.
    stores: str
    #: The keys of `output` that it takes, of those that only some kinds take.
    takes: tuple[str, ...] = ("compression",)
    #: A section whose keys become keys of `output` that only this kind takes. Keys without a default are needed.
    own_keys: str = ""
    #: An own key with a value, for messages.
    example: str = ""
    #: What to do about a key that it does not take, other than to remove it.
    instead: Mapping[str, str] = field(default_factory=dict)


#: The kinds of output.
OUTPUTS: dict[str, OutputKind] = {
    "full": OutputKind(
        f"{_RESULTS}.outputs.distance_outputs:AllDistances",
        takes=("targets", "layout", "columns_per_file", "unreached", "compression"),
    ),
    "none": OutputKind(f"{_RESULTS}.outputs.metrics_output:MetricsAlone", takes=()),
    "reached": OutputKind(f"{_RESULTS}.outputs.distance_outputs:ReachedPairs"),
    "reduced": OutputKind(
        f"{_RESULTS}.answers.reduced:Reduced",
        own_keys=f"{_SECTIONS}.reduce:ReducedKeys",
        example="reduce: {values: [closeness]}",
    ),
    "nearest": OutputKind(
        f"{_RESULTS}.outputs.table_output:NearestVertices",
        own_keys=f"{_SECTIONS}.reduce:NearestKeys",
        example="nearest: {k: 10}",
        instead={"targets": "name them as `output.nearest.of`"},
    ),
    "pairs": OutputKind(
        f"{_RESULTS}.outputs.pairs_output:PairDistances",
        own_keys=f"{_SECTIONS}.pairs:PairsKeys",
        example="pairs: pairs.csv",
        instead={"targets": "the file of pairs names the targets"},
    ),
    "flows": OutputKind(
        f"{_RESULTS}.answers.flows_output:EdgeFlows",
        own_keys=f"{_SECTIONS}.flows:FlowsKeys",
        example="flows: trips.csv",
        instead={"targets": "the table of trips names the targets"},
    ),
}


def code_of(entry: str) -> Any:
    """Return the function or class that `entry`, a "module:name", names."""
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)


def own_fields(record: Format | OutputKind) -> dict[str, Any]:
    """Return the keys that only this format or output has, with their pydantic fields."""
    return dict(code_of(record.own_keys).model_fields) if record.own_keys else {}


def with_own_keys(records: Iterable[Format | OutputKind]) -> Callable[[type[Model]], type[Model]]:
    """Make a section of the workflow have the keys that belong to one of `records`, after its own fields."""

    def extended(section: type[Model]) -> type[Model]:
        owners = [code_of(record.own_keys) for record in records if record.own_keys]
        names = {name: getattr(section, name) for name in ("__module__", "__qualname__", "__doc__")}
        # pydantic takes the fields of the last base first.
        joined: type[Model] = type(section)(section.__name__, (*reversed(owners), section), names)  # type: ignore[misc]
        return joined

    return extended


def misplaced(
    given: Iterable[str], name: str, records: Mapping[str, Format] | Mapping[str, OutputKind]
) -> Iterator[tuple[str, list[str]]]:
    """Yield each key of `given` that the record `name` does not take, with the names of the records that take it."""
    for key in given:
        takers = [other for other, record in records.items() if key in (*record.takes, *own_fields(record))]
        if takers and name not in takers:
            yield key, takers


class NameIn:
    """Makes `str` in a model one of `others` or a name in a registry, as `Annotated[str, NameIn(FORMATS, "auto")]`."""

    def __init__(self, registry: Mapping[str, Any], *others: str) -> None:
        self._registry, self._others = registry, others

    def _names(self) -> list[str]:
        return [*self._others, *self._registry]

    def _checked(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self._names():
            names = {"expected": ", ".join(self._names())}
            raise PydanticCustomError("literal_error", "Input should be one of {expected}", names)
        return value

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self._checked, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"enum": self._names(), "type": "string"}
