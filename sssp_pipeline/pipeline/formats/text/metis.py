"""METIS graphs: a header `V E [format [n_vertex_weights]]`, then a line for each vertex with its neighbours.

The digits of the format are flags: a line begins with the size of its vertex (100), continues with the weights of the
vertex (10), and has a weight after each neighbour (1). Comment lines begin with `%`. A blank line is a vertex without
neighbours. Each edge is listed in the lines of both its ends, so there are 2 E neighbours in all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import numpy as np

from sssp_pipeline.base.csr import MAX_VERTICES
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.beginning import Beginning
from sssp_pipeline.pipeline.formats.columns.layout import SAMPLE_ROWS
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions
from sssp_pipeline.pipeline.formats.parsing import tokenizer
from sssp_pipeline.pipeline.formats.parsing.declared import (
    IDS_WHY,
    MAX_EDGES,
    declared_count,
    declared_reading,
    header_row,
    line_excerpt,
)
from sssp_pipeline.pipeline.formats.parsing.fault_errors import FaultAt, line_place
from sssp_pipeline.pipeline.formats.parsing.line_blocks import LineFile
from sssp_pipeline.pipeline.formats.parsing.line_reader import Scanned, scan_files
from sssp_pipeline.pipeline.formats.parsing.tokenizer import LineSyntax
from sssp_pipeline.storage import files

_COMMENT = ord("%")
_NAME = re.compile(r"\.(graph|metis)(\.(gz|bz2|xz|zst|zip|tar|tgz))*$")
_FORMATS = ("0", "1", "10", "11", "100", "101", "110", "111")


@dataclass(frozen=True)
class _Header:
    """The header; in every later line, `n_skipped` numbers precede the neighbours."""

    file: LineFile
    n_vertices: int
    n_edges: int
    has_edge_weights: bool
    n_skipped: int


def open_metis(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the only METIS file of `urls`.

    Raises
    ------
    InputError
        The header is wrong.
    """
    header = _read_header(urls[0], options.max_line_bytes)
    has_weights = header.has_edge_weights and options.weight_column != "none"

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        return _read_edges(header, has_weights, options.block_bytes, n_threads)

    return InputEdges(
        declared_reading("metis", IDS_WHY),
        has_weights,
        read,
        n_vertices=header.n_vertices,
        first_id=1,
        symmetric="both-listed",
    )


def is_metis(beginning: Beginning) -> bool:
    """Return whether a file has the name and the first row of a METIS graph.

    Raises
    ------
    InputError
        The name is another one, and the rows may be a METIS graph, whose first row counts vertices and edges.
    """
    rows = beginning.cells
    if not 2 <= len(rows[0]) <= 4 or not all(cell.isdecimal() for cell in rows[0]):
        return False
    if _NAME.search(urlsplit(beginning.url).path.lower()):
        return True
    if beginning.options.delimiter == "auto" and _may_be_metis(rows, beginning.sample.rows):
        raise InputError(
            f"{beginning.sample.place}: `{beginning.sample.rows[0]}` may be an edge, or the header of a METIS graph",
            hint="set `graph.format: text` or `graph.format: metis`",
        )
    return False


def _may_be_metis(rows: list[list[str]], texts: list[str]) -> bool:
    """Return whether each edge of the `rows` of a small file is listed in both directions, as in METIS."""
    if len(rows) >= SAMPLE_ROWS or not all(cell.isdecimal() for row in rows for cell in row):
        return False
    if len({len(row) for row in rows}) > 1 or max(map(len, texts)) > 1000:
        return False
    n_vertices, n_edges = int(rows[0][0]), int(rows[0][1])
    has_weights = len(rows[0]) > 2 and rows[0][2].endswith("1")
    neighbours = [[int(cell) for cell in row[:: 2 if has_weights else 1]] for row in rows[1:]]
    listed = {(u, v) for u, row in enumerate(neighbours, 1) for v in row}
    return (
        len(neighbours) == n_vertices
        and len(listed) == 2 * n_edges
        and all((v, u) in listed for u, v in listed)
    )


def _read_header(url: str, max_line_bytes: int) -> _Header:
    hint = "a METIS graph begins with `VERTICES EDGES`"
    file, line = header_row(url, max_line_bytes, "has no header", hint)
    words, place = line.split(), line_place(url, file.n_lines)
    if not (2 <= len(words) <= 4 and all(word.isdigit() for word in words)):
        raise InputError(
            f"{place}: `{line_excerpt(line)}` is not a METIS header",
            hint="it reads `VERTICES EDGES`, and perhaps a format such as 001",
        )
    n_vertices = declared_count(place, words[0], "vertices", MAX_VERTICES)
    n_edges = declared_count(place, words[1], "edges", MAX_EDGES)
    layout = (words[2].decode().lstrip("0") or "0") if len(words) > 2 else "0"
    if layout not in _FORMATS:
        raise InputError(
            f"{place}: unknown METIS format `{words[2].decode()[:20]}`",
            hint="known formats: " + ", ".join(name.zfill(3) for name in _FORMATS),
        )
    has_size, has_vertex_weights, has_edge_weights = (digit == "1" for digit in layout.zfill(3))
    n_vertex_weights = 1
    if len(words) > 3:
        n_vertex_weights = declared_count(place, words[3], "vertex weights", 2**20)
    n_skipped = has_size + (n_vertex_weights if has_vertex_weights else 0)
    return _Header(file, n_vertices, n_edges, has_edge_weights, n_skipped)


def _read_edges(header: _Header, has_weights: bool, block_bytes: int, n_threads: int) -> Iterator[EdgeChunk]:
    url = header.file.url
    syntax = LineSyntax(
        0, _COMMENT, _COMMENT, 0, 0 if header.has_edge_weights else -1, 1, header.n_vertices, False
    )
    scan = partial(_scan_block, syntax=syntax, n_skipped=header.n_skipped)
    n_seen = 0
    n_neighbours = 0
    for src, dst, weights, n_vertices in scan_files([header.file], scan, syntax, block_bytes, n_threads):
        beyond = np.flatnonzero(src >= header.n_vertices - n_seen)
        if len(beyond):
            vertex = n_seen + 1 + int(src[beyond[0]])
            raise InputError(
                f"`{files.redacted(url)}` declares {header.n_vertices} vertices but has a line of vertex {vertex}",
                hint="correct the count in the header",
            )
        if len(src):
            yield EdgeChunk(src + (n_seen + 1), dst, weights if has_weights else None)
        n_seen += n_vertices
        n_neighbours += len(src)
    if n_seen < header.n_vertices:
        raise InputError(
            f"`{files.redacted(url)}` declares {header.n_vertices} vertices but has lines of {n_seen}",
            hint="the file may be cut short: fetch it again",
        )
    if n_neighbours != 2 * header.n_edges:
        raise InputError(
            f"`{files.redacted(url)}` declares {header.n_edges} edges but lists {n_neighbours} neighbours, "
            f"wanted {2 * header.n_edges}",
            hint="each edge is listed in the lines of both its ends; for an edge list set `graph.format: text`",
        )


def _scan_block(
    data: np.ndarray, syntax: LineSyntax, n_skipped: int
) -> Scanned[tuple[np.ndarray, np.ndarray, np.ndarray, int]]:
    """Return source, counted from 0 in the block, target and weight of its edges, and its number of vertices."""
    # The shortest neighbour is one digit and a blank.
    most = len(data) // 2 + 1
    src = np.empty(most, np.int64)
    dst = np.empty(most, np.int64)
    weights = np.empty(most if syntax.weight_column >= 0 else 0, np.int64)
    n_edges, n_vertices, n_lines, code, position = tokenizer.scan_neighbours(
        data, syntax, n_skipped, src, dst, weights
    )
    found = src[:n_edges], dst[:n_edges], weights[:n_edges], n_vertices
    return Scanned(found, n_lines, FaultAt(code, position) if code else None)
