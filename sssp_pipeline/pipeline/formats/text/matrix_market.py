"""Matrix Market coordinate files: `%%MatrixMarket matrix coordinate FIELD SYMMETRY`, sizes, then `row column [value]`.

Entry (i, j) is an edge from i to j. Ids count from 1. A symmetric matrix lists each pair once, so ingest adds the
reverse edges.
"""

from __future__ import annotations

from dataclasses import replace

from sssp_pipeline.base.csr import MAX_VERTICES
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions
from sssp_pipeline.pipeline.formats.parsing.declared import (
    MAX_EDGES,
    DeclaredEdges,
    common_n_vertices,
    declared_count,
    header_row,
    line_excerpt,
    numbered_syntax,
)
from sssp_pipeline.pipeline.formats.parsing.fault_errors import line_place
from sssp_pipeline.pipeline.formats.parsing.line_blocks import BYTE_ORDER_MARK, LineFile, read_lines
from sssp_pipeline.storage import files as storage

_FIELDS = ("pattern", "integer", "real")
_SYMMETRIES = ("general", "symmetric")


def open_matrix_market(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the Matrix Market files `urls`, which have the same size, field and symmetry.

    Raises
    ------
    InputError
        A header is wrong, a matrix is not square or cannot be read as a graph, or headers differ.
    """
    headers = [_read_banner(url) for url in urls]
    for url, kind in zip(urls, headers, strict=True):
        if kind != headers[0]:
            raise InputError(
                f"`{storage.redacted(urls[0])}` is {' '.join(headers[0])}, "
                f"`{storage.redacted(url)}` {' '.join(kind)}",
                hint="files read together are of one kind",
            )
    sizes = [_read_sizes(url, options.max_line_bytes) for url in urls]
    n_vertices = common_n_vertices(urls, [n for _, n, _ in sizes])
    field, symmetry = headers[0]
    has_weights = field != "pattern" and options.weight_column != "none"
    syntax = numbered_syntax(options, b"%", n_vertices, 2 if field == "pattern" else 3, has_weights)

    def check(file: LineFile, chunk: EdgeChunk) -> None:
        if field == "integer" and chunk.weights is not None and chunk.weights.dtype.kind == "f":
            raise InputError(
                f"`{storage.redacted(file.url)}` says that its values are integers, but some have decimals",
                hint="write `real` instead of `integer` in its first line",
            )

    edges = DeclaredEdges([(file, n_entries) for file, _, n_entries in sizes], syntax, options, check)
    mirrored = "mirror" if symmetry == "symmetric" else "as-listed"
    return replace(edges.edge_list("matrix-market"), symmetric=mirrored)


def _read_banner(url: str) -> tuple[str, str]:
    """Return field and symmetry."""
    banner = next(read_lines(url), b"").removeprefix(BYTE_ORDER_MARK)
    words = banner.decode("utf-8", "replace").lower().split()
    if len(words) != 5 or words[:2] != ["%%matrixmarket", "matrix"]:
        raise InputError(
            f"{line_place(url, 1)}: `{line_excerpt(banner)}` is not the header of a Matrix Market file",
            hint="it reads `%%MatrixMarket matrix coordinate real general`",
        )
    _, _, layout, field, symmetry = words
    for word, known in ((layout, ("coordinate",)), (field, _FIELDS), (symmetry, _SYMMETRIES)):
        if word not in known:
            raise InputError(
                f"{line_place(url, 1)}: a Matrix Market file that is `{word}` cannot be read as a graph",
                hint="coordinate files are read that are pattern, integer or real, and general or symmetric",
            )
    return field, symmetry


def _read_sizes(url: str, max_line_bytes: int) -> tuple[LineFile, int, int]:
    """Return the lines with the entries, the number of vertices and the number of entries."""
    hint = "it reads `ROWS COLUMNS ENTRIES`"
    file, line = header_row(url, max_line_bytes, "ends before the size of its matrix", hint)
    words, place = line.split(), line_place(url, file.n_lines)
    if len(words) != 3 or not all(word.isdigit() for word in words):
        raise InputError(f"{place}: `{line_excerpt(line)}` is not the size of a matrix", hint=hint)
    rows, columns = (declared_count(place, word, "vertices", MAX_VERTICES) for word in words[:2])
    entries = declared_count(place, words[2], "entries", MAX_EDGES)
    if rows != columns:
        raise InputError(
            f"{place}: the matrix has {rows} rows and {columns} columns, but a graph needs as many rows as columns",
            hint="only square matrices are graphs",
        )
    return file, rows, entries
