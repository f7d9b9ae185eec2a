"""Registry: all formats of edge lists, and the reader that opens each."""

from __future__ import annotations

from sssp_pipeline.errors import InputError, did_you_mean
from sssp_pipeline.pipeline.formats.detect import detect_format
from sssp_pipeline.pipeline.formats.edge_list import (
    Coordinates,
    EdgeChunk,
    EdgeList,
    ReadOptions,
    SkippedRows,
)
from sssp_pipeline.pipeline.formats.generated import is_generated, open_generated
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.workflow.registries import FORMATS, code_of

__all__ = [
    "Coordinates",
    "EdgeChunk",
    "EdgeList",
    "ReadOptions",
    "SkippedRows",
    "is_generated",
    "open_edge_list",
]


def open_edge_list(urls: list[str], options: ReadOptions) -> EdgeList:
    """Return the edge list in the files `urls`, which are read one after the other.

    Only the beginnings of the files are read and checked here.

    Parameters
    ----------
    urls
        One or more URLs without globs (see `files.expand`), or a single `generated:` URL.

    Raises
    ------
    InputError
        A file is missing, empty or in an unknown format; files are in different formats; or the options do not fit
        the format.
    """
    if any(is_generated(url) for url in urls):
        return open_generated(urls, options)
    edge_list: EdgeList = code_of(FORMATS[_format_of(urls, options)])(urls, options)
    if options.coordinates is not None and edge_list.read_coordinates is None:
        raise InputError(
            f"coordinates are given in `{files.redacted(options.coordinates)}`, "
            f"but a {edge_list.format} edge list takes none",
            hint="remove `graph.coordinates`: it goes with a DIMACS graph",
        )
    return edge_list


def _format_of(urls: list[str], options: ReadOptions) -> str:
    asked = options.format
    if asked != "auto":
        if asked not in FORMATS:
            raise InputError(
                f"unknown format `{asked}`",
                hint=did_you_mean(asked, list(FORMATS)) + "Formats: auto, " + ", ".join(FORMATS),
            )
        return asked
    found = [detect_format(url, options) for url in urls]
    for url, name in zip(urls, found, strict=True):
        if name != found[0]:
            raise InputError(
                f"`{files.redacted(urls[0])}` is in format {found[0]}, `{files.redacted(url)}` in format {name}",
                hint="files read together are in one format; where this is a mistake, set `graph.format`",
            )
    return found[0]
