"""The formats of inputs and the kinds of output: the only lists of them, by the names that a workflow uses.

A workflow is checked before anything slow is imported. An entry therefore says where its code is, as "module:name", and
`code_of` imports it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

_FORMATS = "sssp_pipeline.pipeline.formats"
_RESULTS = "sssp_pipeline.pipeline.results"

#: The function of each format that opens files as an `EdgeList`.
FORMATS: dict[str, str] = {
    "text": f"{_FORMATS}.text.text:open_text",
    "csv": f"{_FORMATS}.tables.csv_table:open_csv",
    "dimacs": f"{_FORMATS}.text.dimacs:open_dimacs",
    "galois": f"{_FORMATS}.binary.galois:open_galois",
    "graphml": f"{_FORMATS}.row_by_row.graphml:open_graphml",
    "lines": f"{_FORMATS}.geometry.lines:open_lines",
    "matrix": f"{_FORMATS}.row_by_row.matrix:open_matrix",
    "matrix-market": f"{_FORMATS}.text.matrix_market:open_matrix_market",
    "metis": f"{_FORMATS}.text.metis:open_metis",
    "neo4j": f"{_FORMATS}.tables.neo4j:open_neo4j",
    "networkx": f"{_FORMATS}.row_by_row.networkx_edgelist:open_networkx",
    "osm": f"{_FORMATS}.openstreetmap.osm:open_osm",
    "parquet": f"{_FORMATS}.tables.parquet:open_parquet",
    "scipy-npz": f"{_FORMATS}.binary.scipy_npz:open_scipy_npz",
    "tntp": f"{_FORMATS}.row_by_row.tntp:open_tntp",
}

#: The formats in which vertices have positions, and the names of files that may be in one of them.
FORMATS_WITH_POSITIONS = ("graphml", "lines", "osm")
NAMES_WITH_POSITIONS = re.compile(r"\.(pbf|osm|graphml|gpkg|parquet|geoparquet)(\.\w{2,3})?$")

#: The subclass of `RowOutput` for each value of `output.distances`.
OUTPUTS: dict[str, str] = {
    "full": f"{_RESULTS}.distance_outputs:AllDistances",
    "none": f"{_RESULTS}.metrics_output:MetricsAlone",
    "reached": f"{_RESULTS}.distance_outputs:ReachedPairs",
    "reduced": f"{_RESULTS}.reduced:Reduced",
    "nearest": f"{_RESULTS}.table_output:NearestVertices",
}


def code_of(entry: str) -> Any:
    """Return the function or class that `entry` of a registry names."""
    module, _, name = entry.partition(":")
    return getattr(import_module(module), name)


class NameIn:
    """Makes `str` in a model one of `others` or a name in a registry, as `Annotated[str, NameIn(FORMATS, "auto")]`."""

    def __init__(self, registry: Mapping[str, str], *others: str) -> None:
        self._registry, self._others = registry, others

    def _names(self) -> list[str]:
        return [*self._others, *self._registry]

    def _checked(self, value: Any) -> str:
        if not isinstance(value, str) or value not in self._names():
            names = ", ".join(self._names())
            raise PydanticCustomError(
                "literal_error", "Input should be one of {expected}", {"expected": names}
            )
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
