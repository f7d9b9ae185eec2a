"""DIMACS graphs: a problem line such as `p sp V E`, then rows such as `a source target weight`.

| header | row | where it is used |
| --- | --- | --- |
| `p sp V E` | `a u v weight` | 9th DIMACS challenge, shortest paths |
| `p edge V E`, `p col V E` | `e u v` | 2nd DIMACS challenge, colouring |
| `p tw V E` | `u v` | PACE challenge, treewidth |

Comment lines begin with `c`. Ids count from 1. The graphs of `p edge`, `p col` and `p tw` are undirected and list each
edge once. Coordinates are in a separate file with the header `p aux sp co V` and rows `v id x y`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import islice

import numpy as np

from sssp_pipeline.base.csr import MAX_VERTICES
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.beginning import Beginning
from sssp_pipeline.pipeline.formats.edge_list import MAX_LINE_BYTES, Coordinates, InputEdges, ReadOptions
from sssp_pipeline.pipeline.formats.parsing import tokenizer
from sssp_pipeline.pipeline.formats.parsing.declared import (
    MAX_EDGES,
    DeclaredEdges,
    common_n_vertices,
    declared_count,
    header_lines,
    line_excerpt,
    numbered_syntax,
)
from sssp_pipeline.pipeline.formats.parsing.fault_errors import FaultAt, line_place
from sssp_pipeline.pipeline.formats.parsing.line_blocks import LineFile, read_lines
from sssp_pipeline.pipeline.formats.parsing.line_reader import Scanned, scan_files
from sssp_pipeline.pipeline.formats.parsing.tokenizer import LineSyntax
from sssp_pipeline.storage import files as storage

COMMENT = ord("c")


#: The letter in front of a row, or 0, for each second word of the problem line.
_LETTERS = {b"sp": ord("a"), b"edge": ord("e"), b"col": ord("e"), b"tw": 0}


def open_dimacs(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the DIMACS files `urls`, which declare the same number of vertices.

    Raises
    ------
    InputError
        A header is missing or wrong, or files differ in their headers.
    """
    headers = [_read_header(url, options.max_line_bytes) for url in urls]
    n_vertices = common_n_vertices(urls, [n for _, _, n, _ in headers])
    letter = headers[0][0]
    is_sp = letter == _LETTERS[b"sp"]  # directed, with weights
    for url, (other, _, _, _) in zip(urls, headers, strict=True):
        if other != letter:
            raise InputError(
                f"`{storage.redacted(url)}` and `{storage.redacted(urls[0])}` are different kinds of DIMACS file",
                hint="files read together have the same problem line",
            )
    has_weights = is_sp and options.weight_column != "none"
    syntax = numbered_syntax(options, b"c", n_vertices, 3 if is_sp else 2, has_weights, letter)
    edges = DeclaredEdges([(file, n_edges) for _, file, _, n_edges in headers], syntax, options)
    co = options.coordinates
    return replace(
        edges.edge_list("dimacs"),
        symmetric="as-listed" if is_sp else "mirror",
        read_coordinates=partial(read_coordinates, co, n_vertices, options.block_bytes) if co else None,
    )


#: How many comment lines are read in search of the problem line.
_MAX_COMMENT_LINES = 10_000


def is_dimacs(beginning: Beginning) -> bool:
    """Return whether a file has a problem line; raise `InputError` if only this line is missing."""
    if beginning.is_binary:
        return False
    if beginning.text.lstrip()[:1] in (b"c", b"p") and _has_problem_line(beginning.url):
        return True
    rows = [cells for cells in beginning.cells if cells and cells[0] != "c"]
    if rows and all(
        row[0] in ("a", "e") and len(row) in (3, 4) and all(cell.isdecimal() for cell in row[1:3])
        for row in rows
    ):
        letter = rows[0][0]
        raise InputError(
            f"{beginning.sample.place}: rows begin with `{letter}`, as those of DIMACS, but no line "
            "`p sp VERTICES EDGES` precedes them",
            hint=f"add the line `p {'sp' if letter == 'a' else 'edge'} VERTICES EDGES` before them; "
            "if these are vertices, set `graph.format: text` and `graph.ids: string`",
        )
    return False


def _has_problem_line(url: str) -> bool:
    # A text edge list may have vertices named `c`, `cat` or `p`. Only the first line without a leading `c` decides.
    for line in islice(read_lines(url), _MAX_COMMENT_LINES):
        words = line.split()
        if words and not words[0].startswith(b"c"):
            return words[0] == b"p" and len(words) > 1 and words[1] in (*_LETTERS, b"aux", b"max")
    return False


def _read_header(url: str, max_line_bytes: int) -> tuple[int, LineFile, int, int]:
    """Return the letter of rows, the lines after the header, and the declared numbers of vertices and edges."""
    file, words = _problem_line(url, max_line_bytes)
    place = line_place(url, file.n_lines)
    if len(words) != 4 or words[1] not in _LETTERS or not (words[2].isdigit() and words[3].isdigit()):
        raise InputError(
            f"{place}: `{line_excerpt(b' '.join(words))}` is not a problem line",
            hint="it reads `p sp VERTICES EDGES`, or has edge, col or tw in place of sp",
        )
    n_vertices = declared_count(place, words[2], "vertices", MAX_VERTICES)
    n_edges = declared_count(place, words[3], "edges", MAX_EDGES)
    return _LETTERS[words[1]], file, n_vertices, n_edges


def _problem_line(url: str, max_line_bytes: int = MAX_LINE_BYTES) -> tuple[LineFile, list[bytes]]:
    """Return the lines of `url` after its problem line, and the words of the problem line."""
    for file, line in header_lines(url, max_line_bytes):
        words = line.split()
        if words[0] == b"p":
            return file, words
        if not words[0].startswith(b"c"):
            raise InputError(
                f"{line_place(url, file.n_lines)} begins with `{line_excerpt(words[0])}` before any problem line",
                hint="a DIMACS file begins with comments and a line such as `p sp VERTICES EDGES`",
            )
    raise InputError(
        f"`{storage.redacted(url)}` has no problem line",
        hint="it reads `p sp VERTICES EDGES` and precedes the edges",
    )


def read_coordinates(url: str, n_vertices: int, block_bytes: int) -> Coordinates:
    """Return x and y, (V,) int64 or float64 each, from a `.co` file, in vertex order.

    Raises
    ------
    InputError
        The file is not a `.co` file, has another number of vertices, or does not list each vertex exactly once.
    """
    file, words = _problem_line(url)
    place = line_place(url, file.n_lines)
    if words[:4] != [b"p", b"aux", b"sp", b"co"] or len(words) != 5 or not words[4].isdigit():
        raise InputError(
            f"{place}: `{line_excerpt(b' '.join(words))}` is not the header of coordinates",
            hint="it reads `p aux sp co VERTICES`",
        )
    n_given = declared_count(place, words[4], "vertices", MAX_VERTICES)
    if n_given != n_vertices:
        raise InputError(
            f"`{storage.redacted(url)}` has coordinates of {n_given} vertices, the graph has {n_vertices}",
            hint="name the file that belongs to the graph",
        )
    syntax = LineSyntax(ord("v"), COMMENT, COMMENT, 3, 2, 1, n_vertices, False)
    xy = np.empty((2, n_vertices), np.float64)
    is_seen = np.zeros(n_vertices, bool)
    n_rows = 0
    scan = partial(_scan_coordinates, syntax=syntax)
    for ids, xy_of_block in scan_files([file], scan, syntax, block_bytes, 1):
        xy[:, ids - 1] = xy_of_block
        is_seen[ids - 1] = True
        n_rows += len(ids)
    if not is_seen.all():
        raise InputError(
            f"`{storage.redacted(url)}` has no coordinates of vertex {int(np.argmin(is_seen)) + 1}",
            hint="the file may be cut short: fetch it again",
        )
    if n_rows > n_vertices:
        raise InputError(
            f"`{storage.redacted(url)}` has {n_rows} coordinates of {n_vertices} vertices",
            hint="every vertex is listed once",
        )
    # DIMACS gives degrees in millionths, as whole numbers. Whole numbers up to 2^53 are exact in float64.
    whole = xy.astype(np.int64) if np.all(np.abs(xy) <= 2**53) and np.all(xy == np.floor(xy)) else xy
    return whole[0], whole[1]


def _scan_coordinates(data: np.ndarray, syntax: LineSyntax) -> Scanned[tuple[np.ndarray, np.ndarray]]:
    most_rows = len(data) // 8 + 1
    ids = np.empty(most_rows, np.int64)
    xy = np.empty((2, most_rows), np.float64)
    n_rows, n_lines, code, position = tokenizer.scan_coordinates(data, syntax, ids, xy)
    return Scanned((ids[:n_rows], xy[:, :n_rows]), n_lines, FaultAt(code, position) if code else None)
