"""NetworkX edge lists: lines `u v {'weight': 5, 'name': 'x'}`, as `write_edgelist` writes them, and comments with `#`.

Python parses the lines one by one. That is fast enough for graphs that fitted into NetworkX.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.columns.edge_columns import choose_weight
from sssp_pipeline.pipeline.formats.columns.layout import (
    BLANKS,
    FirstRows,
    cells_of_text,
    decide_layout,
    is_number,
    read_sample,
)
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions, SkippedRows
from sssp_pipeline.pipeline.formats.parsing.fault_errors import line_place, mark_error
from sssp_pipeline.pipeline.formats.parsing.line_blocks import read_lines
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.row_by_row.python_rows import (
    Edge,
    InexactWeightError,
    chunks_of_edges,
    read_id,
    read_weight,
)
from sssp_pipeline.pipeline.formats.streams.decompressed import text_encoding

#: The longest line that is parsed, in bytes. `ast` needs about a hundred times as much memory.
_LONGEST_LINE = 1 << 20


def open_networkx(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the files `urls`, one after the other.

    Raises
    ------
    InputError
        A file has no edges, a row is not an edge of NetworkX, or more than one attribute could be the weight.
    """
    samples = [read_sample(url, options, True) for url in urls]
    keys = _attribute_names(samples, options)
    first = samples[0]
    pairs = FirstRows(
        first.url, [" ".join(cells_of_text(row)[:2]) for row in first.rows], first.lines, 0, b""
    )
    layout = decide_layout(pairs, cells_of_text, replace(options, header=False, weight_column="none"))
    named = choose_weight(first.place, list(keys), {key for key in keys if keys[key]}, options)
    weight = named.weight_name
    skipped = SkippedRows()

    def read(n_threads: int) -> Iterator[EdgeChunk]:
        edges = (edge for url in urls for edge in _edges_of(url, layout.ids, weight, options, skipped))
        return chunks_of_edges(edges, layout.ids, options.block_bytes, has_weights=weight is not None)

    return InputEdges(
        Reading(
            format="networkx",
            encoding=text_encoding(urls[0], options.encoding),
            delimiter="white space",
            header=False,
            ids=layout.ids,
            ids_why=layout.ids_why,
            **named.with_ends("1", "2", "by the format").reading_fields(),
        ),
        weight is not None,
        read,
        skipped=skipped,
    )


def _attribute_names(samples: list[FirstRows], options: ReadOptions) -> dict[str, bool]:
    """Return the names of the attributes in the samples, and for each whether any of its values is a number."""
    found: dict[str, bool] = {}
    for sample in samples:
        for line, row in zip(sample.lines, sample.rows, strict=True):
            try:
                attributes = _parse_row(line_place(sample.url, line), row)[2]
            except InputError:
                if not options.skips:
                    raise
                continue
            for key, text in attributes.items():
                found[key] = found.get(key, False) or is_number(text)
    return found


def _parse_row(place: str, row: str) -> tuple[str, str, dict[str, str]]:
    """Return source, target and the attributes of a row; the values of the attributes are source text."""
    words = _ENDS.fullmatch(row)
    if words is not None and len(row) <= _LONGEST_LINE:
        try:
            parsed = ast.parse(words[3], mode="eval").body
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            parsed = None
        if isinstance(parsed, ast.Dict):
            keys = [str(key.value) for key in parsed.keys if isinstance(key, ast.Constant)]
            texts = [ast.get_source_segment(words[3], value) or "" for value in parsed.values]
            if len(set(keys)) == len(texts) and all(map(_is_literal, texts)):
                return words[1], words[2], dict(zip(keys, texts, strict=True))
    raise InputError(
        f"{place}: `{row[:60]}` is not an edge as NetworkX writes it",
        hint="an edge reads `source target {'weight': 5}`, with ids that have no white space",
    )


_ENDS = re.compile(rf"[{BLANKS}]*([^{BLANKS}]+)[{BLANKS}]+([^{BLANKS}]+)[{BLANKS}]+(.*?)[{BLANKS}]*")


def _is_literal(text: str) -> bool:
    """Return whether `text` is a Python literal, or `nan` or `inf`."""
    try:
        ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return is_number(text)
    return True


def _edges_of(
    url: str, ids: str, weight: str | None, options: ReadOptions, skipped: SkippedRows
) -> Iterator[Edge]:
    for line, content in enumerate(read_lines(url, options.encoding, options.max_line_bytes), 1):
        row = content.decode("utf-8-sig" if line == 1 else "utf-8", "replace").strip(BLANKS)
        if row.startswith("\ufeff"):
            raise mark_error(line_place(url, line))
        if not row or row[0] in "#%":
            continue
        try:
            edge = _parse_edge(line_place(url, line), content, row, ids, weight, options)
        except InputError as error:
            if not options.skips or isinstance(error, InexactWeightError):
                raise
            skipped.add(1, [f"{error.message}: {row[:500]}"])
        else:
            yield edge


def _parse_edge(
    place: str, content: bytes, row: str, ids: str, weight: str | None, options: ReadOptions
) -> Edge:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{place}: `{row[:60]}` is not UTF-8", hint="set `graph.encoding` to the encoding of the file"
        ) from error
    *names, attributes = _parse_row(place, row)
    ends: list[int | str] = [*names] if ids == "string" else [read_id(place, name, options) for name in names]
    if weight is None:
        return ends[0], ends[1], None
    if weight not in attributes:
        raise InputError(
            f"{place}: `{row[:60]}` has no `{weight}`",
            hint="give every edge one, or set `graph.unreadable: skip` to leave such edges out",
        )
    return ends[0], ends[1], read_weight(place, attributes[weight], options)
