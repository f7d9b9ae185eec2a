"""The graph of a store is exported to one file: its format is chosen, what it would lose is refused, and it is written.

Edges stream from the store to the file, so memory holds some blocks of edges; a Parquet table needs the ids too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.edge_stream import EdgeStream
from sssp_pipeline.pipeline.graph_store.exports.dimacs import write_dimacs, write_dimacs_coordinates
from sssp_pipeline.pipeline.graph_store.exports.exported_graph import COLUMNS, ExportedGraph
from sssp_pipeline.pipeline.graph_store.exports.galois import write_galois
from sssp_pipeline.pipeline.graph_store.exports.matrix_market import write_matrix_market
from sssp_pipeline.pipeline.graph_store.exports.metis import write_metis
from sssp_pipeline.pipeline.graph_store.exports.parquet import write_edge_table, write_vertex_table
from sssp_pipeline.pipeline.graph_store.exports.scipy_npz import write_scipy_npz
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.storage import files


@dataclass(frozen=True)
class ExportFormat:
    """A format in which a graph can be written."""

    #: The ends of the names of its files.
    endings: tuple[str, ...]
    #: The number that it gives the first vertex; None if it has ids of any kind.
    first_number: int | None
    #: Writes the graph to its file.
    write: Callable[[ExportedGraph], None]


#: By the names that `graph.format` has for them.
EXPORT_FORMATS = {
    "dimacs": ExportFormat(("gr",), 1, write_dimacs),
    "galois": ExportFormat(("gr",), 0, write_galois),
    "matrix-market": ExportFormat(("mtx",), 1, write_matrix_market),
    "metis": ExportFormat(("graph", "metis"), 1, write_metis),
    "parquet": ExportFormat(("parquet",), None, write_edge_table),
    "scipy-npz": ExportFormat(("npz",), 0, write_scipy_npz),
}


def export_graph(
    store: str,
    manifest: Manifest,
    url: str,
    *,
    format: str | None,
    vertices: str | None,
    columns: Sequence[str],
    progress: Progress,
) -> list[str]:
    """Write a stored graph to the file `url`, and return what was written. `StoredGraph.export` describes the rest."""
    name = _format_of(url, format)
    chosen = EXPORT_FORMATS[name]
    graph = ExportedGraph(
        EdgeStream(store, manifest),
        url,
        chosen.first_number,
        _three_names(columns, name),
        usable_cores(),
        progress,
    )
    if vertices is not None and not vertices.endswith(".parquet"):
        raise InputError(
            f"`{files.redacted(vertices)}` is to hold a table of vertices, which is Parquet",
            hint="name a file such as `vertices.parquet`",
        )
    if manifest.ids.kind == "table" and chosen.first_number is not None and vertices is None:
        raise InputError(
            f"{graph.place} has ids of its own ({manifest.ids.type}), and {name} numbers the vertices "
            f"from {chosen.first_number}",
            hint="name a file for a table of number and id: `--vertices vertices.parquet`, in Python `vertices=`; "
            "or write a `.parquet` file, which has the ids",
        )
    has_coordinates = name == "dimacs" and manifest.coordinates
    coordinates = url.removesuffix(".gr") + ".co" if has_coordinates else None
    to_write = [u for u in (coordinates, vertices, url) if u is not None]
    for target in to_write:
        if files.exists(target):
            raise InputError(f"`{files.redacted(target)}` exists", hint="choose another name, or remove it")
    if len(set(to_write)) < len(to_write):
        raise InputError(
            f"`{files.redacted(url)}` is named for two tables", hint="name another file for the vertices"
        )
    _tell_numbers(graph)
    written: list[str] = []
    try:
        if coordinates is not None:
            if write_dimacs_coordinates(graph, coordinates):
                written.append(coordinates)
            else:
                progress.say(
                    "the coordinates are decimals, and a `.co` file has whole numbers: `--vertices FILE` writes them"
                )
        if vertices is not None:
            write_vertex_table(graph, vertices)
            written.append(vertices)
        chosen.write(graph)
    except BaseException:
        for done in written:
            files.remove(done)
        raise
    return [url, *written]


def _format_of(url: str, asked: str | None) -> str:
    """Return the format that `asked` or else the end of the name of `url` says."""
    place = f"`{files.redacted(url)}`"
    ending = urlsplit(url).path.rpartition("/")[2].rpartition(".")[2]
    fitting = [name for name, known in EXPORT_FORMATS.items() if ending in known.endings]
    if asked is not None and asked not in EXPORT_FORMATS:
        raise InputError(
            f"a graph cannot be written as `{asked}`",
            hint=f"{did_you_mean(asked, list(EXPORT_FORMATS))}Formats: {', '.join(EXPORT_FORMATS)}",
        )
    if asked is not None:
        if fitting and asked not in fitting:
            raise InputError(
                f"{place} is the name of a {fitting[0]} file, and the format is {asked}",
                hint=f"end the name in .{EXPORT_FORMATS[asked].endings[0]}, or leave the format out",
            )
        return asked
    if not fitting:
        endings = sorted({f".{end}" for known in EXPORT_FORMATS.values() for end in known.endings})
        raise InputError(
            f"{place} names no format of a graph: it ends in none of {', '.join(endings)}",
            hint="name a file such as `graph.mtx`, or name the format: `--format dimacs`, in Python `format=`",
        )
    if len(fitting) > 1:
        choices = " or ".join(f"`--format {name}`" for name in fitting)
        raise InputError(
            f"{place} may be a file of {' or of '.join(fitting)}", hint=f"add {choices}, in Python `format=`"
        )
    return fitting[0]


def _three_names(columns: Sequence[str], format_name: str) -> tuple[str, str, str]:
    names = tuple(columns)
    if format_name != "parquet" and names != COLUMNS:
        raise InputError(
            f"a file of {format_name} has no names of columns",
            hint="write a `.parquet` file, or leave them out",
        )
    if len(names) != len(COLUMNS) or len(set(names)) != len(COLUMNS) or "" in names:
        raise InputError(
            f"`columns` is {', '.join(names)!r}, not three different names",
            hint="name the columns of source, target and weight: `from,to,minutes`",
        )
    return names[0], names[1], names[2]


def _tell_numbers(graph: ExportedGraph) -> None:
    ids, first = graph.stream.manifest.ids, graph.first_number
    if ids.kind == "offset" and first is not None and first != ids.first_id:
        graph.progress.say(
            f"the file numbers the vertices from {first}: id {ids.first_id} of the graph is {first} there",
            first_id=ids.first_id,
            first_number=first,
        )
