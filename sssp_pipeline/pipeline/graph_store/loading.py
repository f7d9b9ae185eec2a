"""Loading: the graph and the ids are read from a store, several parts at a time, each checked against the manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, pairwise, repeat
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from isal.isal_zlib import crc32

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.graph_store.manifest import Manifest, StoredPart
from sssp_pipeline.pipeline.graph_store.store import INGEST_AGAIN
from sssp_pipeline.pipeline.graph_store.writing.part_files import PART_EDGES, ROW_GROUP_ROWS, content_sha256
from sssp_pipeline.storage import files

#: The most parts that are read at a time. An object store gives one reader only a fraction of the network's rate.
MOST_READERS = 16
#: The number of readers for small graphs.
_FEWEST_READERS = 4
#: Bytes that a reader needs in addition to the graph: a part and one decoded row group.
READER_BYTES = 8 * (PART_EDGES + ROW_GROUP_ROWS)
#: A part, and the array for each of its columns.
Target: TypeAlias = tuple[StoredPart, dict[str, np.ndarray]]


def load_graph(
    store: str, manifest: Manifest, into: CsrGraph | None = None, like: CsrGraph | None = None
) -> CsrGraph:
    """Return the stored graph in host memory; every part is checked against the manifest.

    Parameters
    ----------
    store, manifest
        `manifest` is what `read_manifest` returned for the URL `store`.
    into
        A graph with arrays of the lengths and types of `manifest.arrays`, which are filled; None for new arrays.
    like
        The graph of the same version with another weight. Then only the weights are read, and all else is shared, or
        is in `into` already.

    Raises
    ------
    InputError
        A part is missing, cut short or altered; the message names the file.
    """
    graph = into
    if graph is None and like is not None:
        graph = CsrGraph(like.row_offsets, like.col_indices, np.empty(*manifest.arrays["weights"]))
    elif graph is None:
        graph = CsrGraph(**new_arrays(manifest.arrays))
    arrays = {"weight": graph.weights}
    parts: list[Target] = []
    if like is None:
        arrays["col_index"] = graph.col_indices
        offsets = graph.row_offsets
        parts += [(part, {"row_offset": offsets[part.first : part.last]}) for part in manifest.row_offsets]
    bounds = _edge_bounds(manifest)
    for stored, columns in manifest.edge_columns:
        if wanted := [column for column in columns if column in arrays]:
            targets = ({column: arrays[column][begin:end] for column in wanted} for begin, end in bounds)
            parts += zip(stored, targets, strict=True)
    read_parts_into(store, parts, n_readers(manifest.graph_bytes))
    for part, (begin, end) in zip(manifest.edges, bounds, strict=True):
        if (begin, end) != (graph.row_offsets[part.first], graph.row_offsets[part.last]):
            raise _wrong(store, part, "does not fit row_offsets")
    try:
        return graph.check()
    except InputError as error:
        place = files.redacted(store)
        raise InputError(
            f"the graph store `{place}` holds no graph: {error.message}", hint=INGEST_AGAIN
        ) from error


def altered_part(manifest: Manifest, graph: CsrGraph) -> str | None:
    """Return the path of the first part whose values are not those in `graph`; None if there is none."""
    columns = [
        (graph.col_indices[begin:end], graph.weights[begin:end]) for begin, end in _edge_bounds(manifest)
    ]
    arrays: list[tuple[StoredPart, tuple[np.ndarray, ...]]] = [
        (part, (graph.row_offsets[part.first : part.last],)) for part in manifest.row_offsets
    ]
    arrays += zip(manifest.weight_parts, columns, strict=True)

    def is_altered(part: StoredPart, values: tuple[np.ndarray, ...]) -> bool:
        digest = hashlib.sha256()
        for each in values:
            digest.update(each.data)
        return part.content_sha256 != digest.hexdigest()

    with ThreadPoolExecutor(usable_cores()) as pool:
        altered = pool.map(lambda one: one[0].path if is_altered(*one) else None, arrays)
        return next((path for path in altered if path is not None), None)


def check_store(store: str, manifest: Manifest) -> None:
    """Read all parts of a graph, and compare the SHA-256 of their values; raises as `load_graph`."""

    def check(part: StoredPart, ends: StoredPart | None) -> None:
        preceding = None if ends is None else part_table(store, ends, "col_index")["col_index"].to_numpy()
        if part.content_sha256 != content_sha256(part_table(store, part), preceding):
            raise _wrong(store, part, "has other values than the manifest says")

    with ThreadPoolExecutor(n_readers(manifest.graph_bytes)) as pool:
        whole = [*manifest.row_offsets, *manifest.edges, *manifest.vertices]
        list(pool.map(check, whole, repeat(None)))
        list(pool.map(check, manifest.edge_weights or (), manifest.edges))


def n_readers(graph_bytes: int) -> int:
    """Return how many parts to read at a time, so that the readers need about an eighth of the graph's memory."""
    return max(_FEWEST_READERS, min(MOST_READERS, graph_bytes // 8 // READER_BYTES))


def load_ids(store: str, manifest: Manifest) -> VertexIds:
    """Return the input's ids of the stored graph; raises as `load_graph`."""
    table = None
    if manifest.ids.kind == "table":
        table = _of_vertices(store, manifest, "original_id")["original_id"].combine_chunks()
    return VertexIds(manifest.ids, table, manifest.n_vertices)


def load_coordinates(store: str, manifest: Manifest) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of all vertices, each (V,), as the input has them.

    Raises
    ------
    InputError
        The graph has no coordinates; or as `load_graph`.
    """
    if not manifest.coordinates:
        raise InputError(
            f"the graph store `{files.redacted(store)}` has no coordinates",
            hint="ingest the graph with the positions of its vertices: `coordinates` in the section `graph`",
        )
    table = _of_vertices(store, manifest, "x", "y")
    return table["x"].to_numpy(), table["y"].to_numpy()


def _of_vertices(store: str, manifest: Manifest, *columns: str) -> pa.Table:
    """Return columns of `vertices/`, a row for each vertex."""
    with ThreadPoolExecutor(_FEWEST_READERS) as pool:
        tables = pool.map(lambda part: part_table(store, part, *columns), manifest.vertices)
        return pa.concat_tables(list(tables))


def part_table(store: str, part: StoredPart, *columns: str) -> pa.Table:
    """Return columns of a part, or all; strings are large. It raises as `load_graph`."""
    _, file, _ = _opened(store, part)
    with _decoding(store, part):
        table = file.read(list(columns) or None, use_threads=False)
        table = table.select(list(columns)) if columns else table
    # Strings of 2 GiB or more in one array need offsets of 64 bits. Parquet has one type for both.
    large = [f.with_type(pa.large_string()) if pa.types.is_string(f.type) else f for f in table.schema]
    return table.cast(pa.schema(large))


def new_arrays(sizes: dict[str, tuple[int, np.dtype]]) -> dict[str, np.ndarray]:
    """Return new arrays of these lengths and types, by name."""
    return {name: np.empty(*size) for name, size in sizes.items()}


def read_parts_into(store: str, parts: Sequence[Target], readers: int) -> None:
    """Copy the columns of each part into the arrays, with at most this number of `readers`; raises as `load_graph`.

    If there are fewer parts than readers, several readers share the row groups of a part.
    """
    threads = min(2 * usable_cores(), readers)
    read = partial(read_part_into, store, threads=threads // max(1, len(parts)))
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda target: read(*target), parts))


def _edge_bounds(manifest: Manifest) -> list[tuple[int, int]]:
    """Return the first edge of each part of the edges, and the edge behind its last."""
    return list(pairwise([0, *accumulate(part.rows for part in manifest.edges)]))


def read_part_into(store: str, part: StoredPart, targets: dict[str, np.ndarray], threads: int) -> None:
    """Copy the columns of a part into the arrays `targets`, by name; `threads` row groups are decoded at a time."""
    content, opened, lengths = _opened(store, part)
    with _decoding(store, part):

        def copy(group: int, begin: int) -> None:
            file = pq.ParquetFile(pa.BufferReader(content), metadata=opened.metadata)
            table = file.read_row_group(group, list(targets), use_threads=False)
            for column, target in targets.items():
                _copy_column(table, column, target[begin : begin + lengths[group]])

        begins = list(accumulate(lengths, initial=0))[:-1]
        if threads <= 1:
            list(map(copy, range(len(lengths)), begins))
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(copy, range(len(lengths)), begins))


def row_groups(store: str, part: StoredPart, columns: dict[str, np.dtype]) -> Iterator[list[np.ndarray]]:
    """Yield the row groups of a part, each as the values of `columns`: names with their types.

    Raises
    ------
    InputError
        The part is missing, cut short or altered, before the first row group; or a column has another type.
    """
    _, file, lengths = _opened(store, part)
    for group in range(len(lengths)):
        with _decoding(store, part):
            table = file.read_row_group(group, list(columns), use_threads=False)
            values = [np.empty(table.num_rows, dtype) for dtype in columns.values()]
            for column, target in zip(columns, values, strict=True):
                _copy_column(table, column, target)
        yield values


def _opened(store: str, part: StoredPart) -> tuple[bytes, pq.ParquetFile, list[int]]:
    """Return the content of a part, the part opened as Parquet, and the number of rows of each row group."""
    content = _checked_content(store, part)
    with _decoding(store, part):
        file = pq.ParquetFile(pa.BufferReader(content))
        lengths = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    if sum(lengths) != part.rows:
        raise _wrong(store, part, f"has {sum(lengths)} rows, the manifest says {part.rows}")
    return content, file, lengths


def _checked_content(store: str, part: StoredPart) -> bytes:
    content = files.read_if_there(files.join(store, part.path))
    if content is None:
        raise _wrong(store, part, "is gone")
    if len(content) != part.bytes:
        raise _wrong(store, part, f"has {len(content)} bytes, the manifest says {part.bytes}")
    if (found := crc32(content)) != part.crc32:
        sums = f"its CRC-32 is {found:08x}, the manifest says {part.crc32:08x}"
        raise _wrong(store, part, f"was altered: {sums}")
    return content


def _wrong(store: str, part: StoredPart, problem: str) -> InputError:
    """Return the error for a part that has this problem."""
    url = files.redacted(files.join(store, part.path))
    return InputError(f"`{url}` {problem}", hint=INGEST_AGAIN)


@contextmanager
def _decoding(store: str, part: StoredPart) -> Iterator[None]:
    """Turn what Arrow raises while it decodes a part into an `InputError`."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise _wrong(store, part, f"is not readable Parquet: {error}") from error
    except (KeyError, ValueError) as error:  # a column is missing, or has another type or length
        what = f"it has no column {error}" if isinstance(error, KeyError) else error
        raise _wrong(store, part, f"does not fit the manifest: {what}") from error


def _copy_column(table: pa.Table, column: str, target: np.ndarray) -> None:
    at = 0
    for chunk in table[column].chunks:
        values = chunk.to_numpy()
        if values.dtype != target.dtype:
            raise ValueError(f"column {column} has type {values.dtype}, wanted {target.dtype}")
        target[at : at + len(values)] = values
        at += len(values)
