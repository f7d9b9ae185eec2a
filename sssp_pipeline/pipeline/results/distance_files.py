"""The form in which distances are written, and the Parquet file of a batch in the long layout.

Files are assembled from pages (`page_writer.py`). A source is one dictionary entry, vertices in order are differences
of 1 that take almost no space, and distances are plain. `wide_files.py` has the wide layout.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from operator import lt
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base.errors import InputError, UnsolvableError
from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.pipeline.results.run_files import REPAIR
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import StoredFile, checked_footer

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from sssp_pipeline.base import csr
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract import row_facts
    from sssp_pipeline.kernels.contract.row_facts import RowFacts
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.parquet import compaction, page_writer, pages
    from sssp_pipeline.pipeline.graph_store import units
else:
    np, csr = LazyModule("numpy"), LazyModule("sssp_pipeline.base.csr")
    pa, pc = LazyModule("pyarrow"), LazyModule("pyarrow.compute")
    pq, units = LazyModule("pyarrow.parquet"), LazyModule("sssp_pipeline.pipeline.graph_store.units")
    pages = LazyModule("sssp_pipeline.parquet.pages")
    page_writer = LazyModule("sssp_pipeline.parquet.page_writer")
    compaction = LazyModule("sssp_pipeline.parquet.compaction")
    row_facts = LazyModule("sssp_pipeline.kernels.contract.row_facts")

#: The key of an identity that says how files are written. Other bytes for the same distances need another value.
WRITER = "writer"
#: The most rows of a row group in the long layout, a multiple of `row_facts.SEGMENT`: several whole sources, or a part
#: of one. A reader of one source skips other groups. A group takes some 100 µs of Python, and in that time no other
#: thread writes, so smaller groups would make Python the limit.
GROUP_ROWS = 2**22


@dataclass(frozen=True)
class DistanceFormat:
    """How distances are written; part of the identity of a run.

    With a `scale`, solved distances are integers, and written distances are float64 in the input's unit (`units`).
    """

    layout: str
    unreached: float | None
    compression: str
    predecessors: bool
    scale: int | None = None

    def identity(self) -> dict[str, Any]:
        """Return the part of the format in the identity of a run."""
        return {**asdict(self), WRITER: "tiles" if self.layout == "wide" else "pages-3"}

    def dtype(self, solved: np.dtype) -> np.dtype:
        """Return the type of written distances, if they are solved in the type `solved`."""
        return solved if self.scale is None else np.dtype(np.float64)


def write_distances(
    handle: Any,
    sources: np.ndarray,
    solution: Solution,
    ids: VertexIds,
    form: DistanceFormat,
    vertex: pa.Array,
) -> None:
    """Write the distances (S, n) from `sources` (S,) to the vertices with the ids `vertex` (n,), as `form` says.

    Raises
    ------
    UnsolvableError
        `form.unreached` is the distance of a reached vertex.
    """
    kind = pa.from_numpy_dtype(form.dtype(solution.distances.dtype))
    columns = [("source", vertex.type), ("vertex", vertex.type), ("distance", kind)]
    if solution.predecessors is not None:
        columns.append(("predecessor", vertex.type))
    writer = page_writer.PageWriter(handle, pa.schema(columns), form.compression)
    names = ids.names(sources)
    ids_of_rows = pages.RepeatedColumn.of(vertex, form.compression)
    rows = _Rows.of(solution.distances, form, solution.facts)
    for some, vertices in _long_groups(len(sources), len(vertex)):
        n_sources, n_vertices = some.stop - some.start, vertices.stop - vertices.start
        chunks = [
            pages.source_chunk(names[some], n_vertices, form.compression),
            ids_of_rows.chunk(vertices, n_sources),
            rows.chunk(some, vertices),
        ]
        if solution.predecessors is not None:
            row = solution.predecessors[some, vertices].reshape(-1)
            chunks.append(_predecessor_chunk(row, ids, form.compression))
        sorted_by = (0, 1) if ids_of_rows.is_rising else (0,)
        writer.write_group(chunks, sorted_by if all(map(lt, names[some], names[some][1:])) else ())
    writer.close()


def _long_groups(n_sources: int, n_vertices: int) -> Iterator[tuple[slice, slice]]:
    """Yield the sources and the vertices of each row group: several whole sources, or part of one source."""
    per_group = max(1, GROUP_ROWS // n_vertices)
    for first in range(0, n_sources, per_group):
        some = slice(first, min(first + per_group, n_sources))
        for begin in range(0, n_vertices, GROUP_ROWS):
            yield some, slice(begin, min(begin + GROUP_ROWS, n_vertices))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of distances as they are written, before unreached ones become NULL or something else."""

    #: (S, n), packed if `facts` says so.
    values: np.ndarray
    form: DistanceFormat
    #: Of segments of `row_facts.SEGMENT` vertices. Without remainders if a GPU did not find them.
    facts: RowFacts

    @staticmethod
    def of(values: np.ndarray, form: DistanceFormat, facts: RowFacts | None = None) -> _Rows:
        """Return the rows `values` (S, n) as they were solved, with the `facts` that a GPU found."""
        if facts is not None:
            return _Rows(values, form, facts)
        values = as_written(values, form)
        # Threads that write take turns in Python, so all rows are read by two calls for each segment. `reduceat` needs
        # only two calls, and does not let other threads run.
        begins = range(0, values.shape[1], row_facts.SEGMENT)
        segments = [values[:, begin : begin + row_facts.SEGMENT] for begin in begins]
        least, largest = (
            np.stack([find(segment, axis=1) for segment in segments], axis=1) for find in (np.min, np.max)
        )
        return _Rows(values, form, row_facts.RowFacts(least, largest, None))

    def chunk(self, some: slice, vertices: slice) -> pages.Chunk:
        """Return the chunk with the distances from `some` sources to some `vertices`, which are whole segments.

        Raises as `write_distances`.
        """
        segments = slice(vertices.start // row_facts.SEGMENT, -(-vertices.stop // row_facts.SEGMENT))
        facts, compression = self.facts.part(some, segments), self.form.compression
        # In memory they follow each other: there is one source, or all vertices of each.
        row = self.values[some, vertices].reshape(-1)
        lengths = np.tile(self.lengths[segments], len(facts.least))
        if facts.bits is not None:
            return _packed_chunk(row, facts, lengths, compression)
        limits = facts.least.min(), facts.largest.max()
        # "Unreached" is the largest value of each type.
        unreached = csr.unreached_distance(row.dtype)
        if self.form.unreached is not None:
            return pages.plain_chunk(with_stand_in(row, self.form.unreached), compression)
        if limits[1] == unreached:
            return pages.plain_chunk(row, compression, null=unreached)
        if facts.remainders is None:
            return pages.plain_chunk(row, compression, pages.Known(limits))
        known = pages.Known(limits, facts.remainders.ravel(), 8 * row.itemsize * lengths)
        return pages.plain_chunk(row, compression, known)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The values of each segment, (K,) int64."""
        n_columns = self.values.shape[1]
        return np.diff(np.append(np.arange(0, n_columns, row_facts.SEGMENT), n_columns))


def _packed_chunk(row: np.ndarray, facts: RowFacts, lengths: np.ndarray, compression: str) -> pages.Chunk:
    """Return the chunk of the packed values `row` (n,) with `facts` about its segments, which have `lengths` (k,)."""
    assert facts.n_present is not None, "packed rows have it"
    assert facts.remainders is not None, "a GPU that packs finds them"
    assert facts.bit_remainders is not None, "and those of the bits"
    n_present = facts.n_present.ravel().astype(np.int64)
    begins = row.itemsize * (np.cumsum(lengths) - lengths)
    content, ends = row.data.cast("B"), begins + row.itemsize * n_present
    present = [content[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    bits, known, scratch = np.empty(0, np.uint8), None, None
    remainders, n_bits = facts.remainders.ravel(), 8 * row.itemsize * n_present
    if (n_values := int(np.sum(n_present))) < len(row):
        scratch = compaction.scratch_of(compaction.joined_bytes(len(row)))
        bits = compaction.joined_bits(facts.bits, n_present, lengths, scratch)
        # Zeros fill the last byte.
        remainders = np.concatenate([facts.bit_remainders.ravel(), np.zeros(1, np.uint32), remainders])
        n_bits = np.concatenate([lengths, [-len(row) % 8], n_bits])
    if (has_values := n_present > 0).any():
        limits = facts.least.ravel()[has_values].min(), facts.largest.ravel()[has_values].max()
        known = pages.Known(limits, remainders, n_bits)
    return pages.packed_chunk(present, n_values, len(row), bits, compression, known, scratch)


def with_stand_in(values: np.ndarray, unreached: float) -> np.ndarray:
    """Return written distances with `unreached` for unreached vertices.

    Raises
    ------
    UnsolvableError
        It is the distance of a reached vertex.
    """
    missing, stand_in = values == csr.unreached_distance(values.dtype), values.dtype.type(unreached)
    if ((values == stand_in) & ~missing).any():
        raise UnsolvableError(
            f"`output.unreached` is {unreached}, which is also the distance of a reached vertex",
            hint="choose a number that is no distance, or null",
        )
    return np.where(missing, stand_in, values)


def as_written(distances: np.ndarray, form: DistanceFormat) -> np.ndarray:
    """Return solved distances in the input's unit, with unreached ones as `csr.unreached_distance` gives them."""
    return distances if form.scale is None else units.distances_in_input_unit(distances, form.scale)


def _predecessor_chunk(predecessors: np.ndarray, ids: VertexIds, compression: str) -> pages.Chunk:
    none = predecessors == csr.NO_VERTEX
    named = ids.originals(np.where(none, 0, predecessors))
    if ids.mapping.type == "int64":
        return pages.plain_chunk(named.to_numpy(), compression, missing=none)
    return pages.encoded_chunk(pc.if_else(pa.array(none), None, named), compression, None)


def read_distances(
    stored: StoredFile,
    form: DistanceFormat,
    dtype: np.dtype,
    wanted: Container[int],
    vertex: pa.Array,
) -> Iterator[tuple[int | str, np.ndarray]]:
    """Yield the id and the distances (n,) of each source at the `wanted` places of the batch in a file.

    Unreached vertices have `csr.unreached_distance(dtype)`, as a solver gives them.

    Raises
    ------
    InputError
        The file is damaged, or the ids of its vertices are not `vertex` (n,).
    """
    with opened(stored) as file:
        for source, row in _stored_rows(file, vertex, wanted):
            yield source, as_solved(row, form, dtype)


def read_targets(stored: StoredFile, ids: VertexIds, n_sources: int, form: DistanceFormat) -> np.ndarray:
    """Return the vertices (T,) uint32 to which a file, with `n_sources` in the long layout, has distances.

    Raises
    ------
    InputError
        The file is damaged, or holds other vertices than the graph.
    """
    with opened(stored) as file:
        n_rows = file.metadata.num_rows
        n_targets = n_rows if form.layout == "wide" else n_rows // n_sources
        named = file.read(columns=["vertex"])["vertex"].slice(0, n_targets).to_pylist()
    return ids.vertices(named, f"`{files.redacted(stored.url)}`: vertex")


@contextmanager
def opened(stored: StoredFile) -> Iterator[pq.ParquetFile]:
    """Give a Parquet file; an error in the block is raised as `InputError` that names the file.

    Its length and its footer are compared before Parquet sees them. The footer has the checksum of the pages, and pages
    have checksums too. So whatever part of the file is read, it is what was written.
    """
    url = stored.url
    try:
        with files.open_read(url) as handle:
            footer, fault = checked_footer(handle, stored.sum)
            if fault is not None:
                raise InputError(f"`{files.redacted(url)}` {fault}", hint=REPAIR)
            metadata = pq.read_metadata(pa.BufferReader(footer))
            # On a disk it gains nothing, and its threads may outlive Python.
            ahead = not files.is_local(url)
            yield pq.ParquetFile(handle, metadata=metadata, pre_buffer=ahead, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(
            f"`{files.redacted(url)}` is damaged: {error}",
            hint=REPAIR,
        ) from error


def _stored_rows(
    file: pq.ParquetFile, vertex: pa.Array, wanted: Container[int]
) -> Iterator[tuple[int | str, pa.ChunkedArray]]:
    n = len(vertex)
    sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    starts = np.cumsum([0, *sizes])
    if starts[-1] % n:
        raise ValueError(f"it has {starts[-1]} rows, no multiple of {n} vertices")
    group, table = -1, pa.table({})
    for place in range(starts[-1] // n):
        if place not in wanted:
            continue
        first, last = place * n, (place + 1) * n
        holding = range(int(np.searchsorted(starts, first, "right")) - 1, int(np.searchsorted(starts, last)))
        source: Any = None
        distances: list[pa.Array] = []
        for number in holding:  # one group at a time: the ids of a long row are not held together
            if number != group:  # a group with several sources is read once
                group, table = number, file.read_row_group(number, columns=["source", "vertex", "distance"])
            begin = max(first - int(starts[group]), 0)
            rows = table.slice(begin, last - int(starts[group]) - begin)
            if not rows.num_rows:
                continue
            source = rows["source"][0] if source is None else source
            if pc.any(pc.not_equal(rows["source"], source)).as_py():
                raise ValueError(f"the rows of source {source} are not together")
            check_vertices(rows["vertex"], vertex.slice(int(starts[group]) + begin - first, rows.num_rows))
            distances += rows["distance"].chunks
        yield source.as_py(), pa.chunked_array(distances)


def check_vertices(stored: pa.ChunkedArray, vertex: pa.Array) -> None:
    """Raise `ValueError` unless a column holds the ids `vertex` (n,); texts may have offsets of another width."""
    if (
        stored.type != vertex.type
        and pa.types.is_string(stored.type)
        and pa.types.is_large_string(vertex.type)
    ):
        stored = stored.cast(vertex.type)
    if stored != pa.chunked_array([vertex]):
        raise ValueError("column vertex does not list the expected vertices in order")


def as_solved(column: pa.ChunkedArray, form: DistanceFormat, dtype: np.dtype) -> np.ndarray:
    """Return stored distances as they were solved in `dtype`, with `csr.unreached_distance(dtype)` for unreached ones.

    Raises
    ------
    ValueError
        They have another type, or cannot come from weights with this scale.
    """
    written = form.dtype(dtype)
    if column.type != pa.from_numpy_dtype(written):
        raise ValueError(f"distances have type {column.type}, wanted {written}")
    unreached = csr.unreached_distance(written)
    filled: np.ndarray = pc.fill_null(column, pa.scalar(unreached.item(), column.type)).to_numpy()
    if form.unreached is not None:
        filled = np.where(filled == written.type(form.unreached), unreached, filled)
    return (
        filled
        if form.scale is None
        else units.distances_as_solved(filled, filled == unreached, form.scale, dtype)
    )


def check_unreached(unreached: float | None, dtype: np.dtype) -> None:
    """Raise `InputError` unless `unreached` can stand in a column of `dtype`."""
    if unreached is not None and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not (float(unreached).is_integer() and limits.min <= unreached <= limits.max):
            raise InputError(
                f"`output.unreached` is {unreached}, which the distances' type {dtype} cannot hold",
                hint="null writes NULL; a wider or signed `graph.weights.dtype` holds more",
            )
