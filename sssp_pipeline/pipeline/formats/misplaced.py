"""Options of readers that only some formats take."""

from __future__ import annotations

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions
from sssp_pipeline.storage.redaction import redacted
from sssp_pipeline.workflow.graph import misplaced_keys

#: The options that only some formats take, and whose keys in `graph` have the same names.
_SAME_NAMES = ("encoding", "delimiter", "header", "decimal", "ids", "unreadable", "max_line_bytes")


def refuse_misplaced(options: ReadOptions, url: str, format_name: str) -> None:
    """Raise `InputError` if a format does not take one of the `options`; `url` is its first file."""
    given = {name: getattr(options, name) for name in _SAME_NAMES}
    columns = {"source": options.source_column, "target": options.target_column}
    graph = {**given, "columns": columns, "weights": {"column": options.weight_column}, **options.own}
    for key, text in misplaced_keys(graph, format_name):
        raise InputError(f"`{redacted(url)}`: {text}", hint=f"remove `graph.{key}`, or set `graph.format`")
