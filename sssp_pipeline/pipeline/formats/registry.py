"""Registry: all formats of edge lists, and the reader that opens each."""

from __future__ import annotations

from collections.abc import Callable

from sssp_pipeline.errors import InputError, did_you_mean
from sssp_pipeline.pipeline.formats.csv_table import open_csv
from sssp_pipeline.pipeline.formats.detect import detect_format
from sssp_pipeline.pipeline.formats.dimacs import open_dimacs
from sssp_pipeline.pipeline.formats.edge_list import (
    Coordinates,
    EdgeChunk,
    EdgeList,
    ReadOptions,
    SkippedRows,
)
from sssp_pipeline.pipeline.formats.galois import open_galois
from sssp_pipeline.pipeline.formats.generated import is_generated, open_generated
from sssp_pipeline.pipeline.formats.matrix_market import open_matrix_market
from sssp_pipeline.pipeline.formats.metis import open_metis
from sssp_pipeline.pipeline.formats.networkx_edgelist import open_networkx
from sssp_pipeline.pipeline.formats.parquet import open_parquet
from sssp_pipeline.pipeline.formats.scipy_npz import open_scipy_npz
from sssp_pipeline.pipeline.formats.text import open_text
from sssp_pipeline.pipeline.storage import files

__all__ = [
    "READERS",
    "Coordinates",
    "EdgeChunk",
    "EdgeList",
    "ReadOptions",
    "SkippedRows",
    "is_generated",
    "open_edge_list",
]

#: The formats of files, and the function that opens each. A new format is added here.
READERS: dict[str, Callable[[list[str], ReadOptions], EdgeList]] = {
    "text": open_text,
    "csv": open_csv,
    "dimacs": open_dimacs,
    "galois": open_galois,
    "matrix-market": open_matrix_market,
    "metis": open_metis,
    "networkx": open_networkx,
    "parquet": open_parquet,
    "scipy-npz": open_scipy_npz,
}


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
    edge_list = READERS[_format_of(urls, options)](urls, options)
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
        if asked not in READERS:
            raise InputError(
                f"unknown format `{asked}`",
                hint=did_you_mean(asked, list(READERS)) + "Formats: auto, " + ", ".join(READERS),
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
