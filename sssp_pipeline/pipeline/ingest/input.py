"""Input: the files that the `graph` section of a workflow names, opened as it says, and a preview of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import is_generated
from sssp_pipeline.pipeline.formats.detect import open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.vertex_files.vertex_positions import (
    VertexPositions,
    is_dimacs_coordinates,
)
from sssp_pipeline.pipeline.ingest.graph_identity import input_files
from sssp_pipeline.storage import files as storage
from sssp_pipeline.storage.redaction import without_secrets
from sssp_pipeline.workflow.graph import Graph

#: The number of edges in a sample.
SAMPLE_EDGES = 3
#: What a user can do about an undirected graph whose edges are listed once.
BOTH_WAYS = "`--set graph.directed=false` reads each edge both ways"
#: The formats that do not say whether edges lead both ways.
_WITHOUT_DIRECTIONS = frozenset(("text", "csv", "parquet", "networkx"))
#: In fewer edges, none may have its reverse by chance.
LEAST_LISTED = 10
#: The bytes that are read for a preview.
_PREVIEW_BYTES = 1 << 18


def open_input(spec: Graph, urls: list[str], block_bytes: int, table_row_bytes: int = 0) -> InputEdges:
    """Return the edge list in the files `urls`, with the options of `spec`.

    A table of coordinates is not opened: `open_positions` does that.

    Raises
    ------
    InputError
        The weights have another unit than `spec` says; or as `open_edge_list`.
    """
    co = spec.positions.file if spec.positions else None
    if co is not None and not any(map(is_generated, urls)) and _has_position_table(spec):
        co = None
    options = ReadOptions(
        format=spec.format,
        encoding=spec.encoding,
        delimiter=spec.delimiter,
        header=spec.header,
        decimal=spec.decimal,
        source_column=str(spec.columns.source),
        target_column=str(spec.columns.target),
        weight_column=str(spec.weights.column),
        weight_dtype=spec.weights.dtype,
        scale=spec.weights.scale if isinstance(spec.weights.scale, int) else None,
        ids=spec.ids,
        unreadable=spec.unreadable,
        coordinates=co,
        own=spec.own,
        max_line_bytes=spec.max_line_bytes,
        block_bytes=block_bytes,
        table_row_bytes=table_row_bytes,
    )
    edge_list = open_edge_list(urls, options)
    given, known = spec.weights.unit, edge_list.weight_unit
    if given is not None and known is not None and given != known:
        raise InputError(
            f"`graph.weights.unit` is `{without_secrets(given)}`, and the weights of the {edge_list.reading.format} "
            f"input are in {known}",
            hint="remove `graph.weights.unit`",
        )
    return edge_list


def open_positions(spec: Graph, edge_list: InputEdges) -> VertexPositions | None:
    """Return the table with the coordinates of the vertices; None if `spec` names none.

    Raises
    ------
    InputError
        The table cannot be used, it is a file of DIMACS, or the input has positions itself; or as
        `VertexPositions.read`.
    """
    if spec.positions is None or edge_list.read_coordinates is not None:
        return None
    if edge_list.positions_of is not None:
        raise InputError(
            f"`graph.coordinates` is set, and the {edge_list.reading.format} input has positions of its own",
            hint="remove `graph.coordinates`",
        )
    return VertexPositions.read(spec.positions)


def _has_position_table(spec: Graph) -> bool:
    """Return whether the coordinates are a table; raise `InputError` if columns of a DIMACS file are named."""
    if spec.positions is None or not is_dimacs_coordinates(spec.positions.file):
        return spec.positions is not None
    if spec.positions.names:
        key = next(iter(spec.positions.names))
        raise InputError(
            f"`{storage.redacted(spec.positions.file)}` is a DIMACS file, whose columns have no names",
            hint=f"remove `graph.coordinates.{key}`",
        )
    return False


def preview(spec: Graph) -> tuple[Reading, list[dict[str, Any]]]:
    """Return how the input would be read, and the fingerprints of its files; reads only the beginning of the files.

    Raises
    ------
    InputError
        The beginning of the input cannot be read.
    """
    urls, files = input_files(spec)
    edge_list = open_input(spec, urls, _PREVIEW_BYTES)
    sample: list[tuple] = []
    weights = note = ""
    is_reversed = spec.directed == "reversed"
    chunks = (chunk.reversed() if is_reversed else chunk for chunk in edge_list.chunks(1))
    for chunk in chunks:
        sample += sample_of(chunk, SAMPLE_EDGES - len(sample))
        if chunk.weights is not None:
            kind = "integers" if chunk.weights.dtype.kind in "iu" else "with decimals"
            weights = f"{kind}, as far as read"
        if may_be_undirected(edge_list, spec, len(chunk)) and not _has_both_ways(chunk):
            note = f"of the first {len(chunk):,} edges none has its reverse: {BOTH_WAYS}"
        if len(sample) == SAMPLE_EDGES:
            break
    chunks.close()
    return replace(complete_reading(edge_list, spec, sample, weights), note=note), files


def _has_both_ways(chunk: EdgeChunk) -> bool:
    """Return whether an edge of a chunk has its reverse there; loops are left out."""
    if isinstance(chunk.src, pa.Array):
        codes = (
            pa.concat_arrays([chunk.src, chunk.dst]).dictionary_encode().indices.to_numpy().astype(np.int64)
        )
    else:
        codes = np.unique(np.concatenate([chunk.src, chunk.dst]), return_inverse=True)[1]
    src, dst = codes[: len(chunk)], codes[len(chunk) :]
    n = len(codes)  # more than the largest code
    return bool(np.isin((src * n + dst)[src < dst], dst * n + src).any())


def complete_reading(edge_list: InputEdges, spec: Graph, sample: list[tuple], weights: str) -> Reading:
    """Return the reading of `edge_list`, completed with a sample and the type of the weights."""
    if not edge_list.has_weights:
        weights = f"every edge weighs {spec.weights.default}"
    known: dict[str, Any] = {"edges": _directions(edge_list, spec), "sample": tuple(sample)}
    if spec.format != "auto":
        known["format_why"] = "as the workflow says"
    return replace(edge_list.reading, weights=weights, **known)


def may_be_undirected(edge_list: InputEdges, spec: Graph, n_edges: int) -> bool:
    """Return whether neither the user nor the format says that the edges lead one way, and there are some edges."""
    is_told = "directed" in spec.model_fields_set or edge_list.reading.format not in _WITHOUT_DIRECTIONS
    return not is_told and n_edges >= LEAST_LISTED


def _directions(edge_list: InputEdges, spec: Graph) -> str:
    if edge_list.symmetric == "mirror":
        return "both ways, as the file says"
    if edge_list.symmetric == "both-listed":
        return "both ways, as the format lists them"
    if spec.directed == "reversed":
        return "turned round"
    return "directed as listed" if spec.directed else "both ways"


def sample_of(chunk: EdgeChunk, count: int) -> list[tuple]:
    """Return the first `count` edges of a chunk: source, target, and the weight if there is one."""
    ends = [
        (end[:count].to_pylist() if isinstance(end, pa.Array) else np.asarray(end[:count]).tolist())
        for end in (chunk.src, chunk.dst)
    ]
    columns = [*ends, *([] if chunk.weights is None else [chunk.weights[:count].tolist()])]
    return list(zip(*columns, strict=True))
