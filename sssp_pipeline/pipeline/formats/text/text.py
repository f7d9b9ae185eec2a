"""Text edge lists, as SNAP publishes them: a line `source target [weight]` for each edge, separated by white space.

Comment lines begin with `#` or `%` and may be anywhere. Every row has as many columns as the first one. The first row
may name the columns.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.columns.layout import (
    COMMENTS,
    RowLayout,
    cells_of_text,
    decide_layout,
    read_sample,
    refuse_different,
)
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, InputEdges, ReadOptions, SkippedRows
from sssp_pipeline.pipeline.formats.parsing.line_blocks import LineFile
from sssp_pipeline.pipeline.formats.parsing.line_reader import MAX_ID, read_edges
from sssp_pipeline.pipeline.formats.parsing.numbers_in_text import COMMA, POINT
from sssp_pipeline.pipeline.formats.parsing.tokenizer import LineSyntax
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.streams.decompressed import is_compressed, text_encoding
from sssp_pipeline.storage import files as storage


def open_text(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the text files `urls`, one after the other.

    Raises
    ------
    InputError
        A file has no edges, its first row can be read in two ways, files differ in their columns, or the options name
        a missing column.
    """
    layouts = [decide_layout(read_sample(url, options, True), cells_of_text, options) for url in urls]
    refuse_different(urls, layouts)
    _refuse_other_places(urls, layouts)
    first = layouts[0]
    columns = first.columns
    syntax = LineSyntax(
        letter=0,
        comment=COMMENTS[0],
        other_comment=COMMENTS[1],
        n_columns=len(columns.names),
        weight_column=-1 if columns.weight is None else columns.weight,
        min_id=0,
        max_id=MAX_ID,
        ids_are_strings=first.ids == "string",
        source_column=columns.source,
        target_column=columns.target,
        takes_zero_led_ids=options.ids == "integer",
        point=COMMA if options.decimal == "comma" else POINT,
        rounds=options.rounds,
        scale=options.exact_scale,
    )
    reading = Reading(
        format="text",
        encoding=text_encoding(urls[0], options.encoding),
        delimiter="white space",
        header=first.has_header,
        ids=first.ids,
        ids_why=first.ids_why,
        **columns.reading_fields(),
    )

    def edges_of(files: list[LineFile]) -> InputEdges:
        skipped = SkippedRows()
        read = partial(read_edges, files, syntax, options.block_bytes, skipped if options.skips else None)
        has_weights = columns.weight is not None
        copies = partial(read, EdgeChunk.copy)
        return InputEdges(reading, has_weights, copies, read_and_work=read, skipped=skipped)

    files = [_rows_of(layout, options) for layout in layouts]

    def piece_of(file: LineFile) -> InputEdges:
        def divide(bytes_at: Sequence[int]) -> tuple[InputEdges, ...]:
            if not _is_plain(file, options):
                return ()
            bounds = pairwise([0, *bytes_at, sys.maxsize])
            return tuple(edges_of([replace(file, begin=begin, end=end)]) for begin, end in bounds)

        return replace(edges_of([file]), divide=divide)

    return replace(edges_of(files), pieces=tuple(map(piece_of, files)))


def _is_plain(file: LineFile, options: ReadOptions) -> bool:
    """Return whether a file can be read from any byte on. Skipped lines are reported by number, so they forbid it."""
    if options.skips or is_compressed(file.url):
        return False
    return text_encoding(file.url, file.encoding) is None


def _refuse_other_places(urls: list[str], layouts: list[RowLayout]) -> None:
    """Raise `InputError` if source, target and weight are in different places in two files."""
    first = layouts[0].columns
    for url, layout in zip(urls, layouts, strict=True):
        if (layout.columns.used, len(layout.columns.names)) != (first.used, len(first.names)):
            raise InputError(
                f"`{storage.redacted(urls[0])}` and `{storage.redacted(url)}` have their columns in different places",
                hint="files of text read together have the same columns in the same order",
            )


def _rows_of(layout: RowLayout, options: ReadOptions) -> LineFile:
    """Return the file of `layout` as lines without its header."""
    sample = layout.sample
    skipped = (sample.first_bytes, sample.lines[0]) if layout.has_header else (0, 0)
    return LineFile(sample.url, *skipped, options.encoding, options.max_line_bytes)
