"""Edge list: the type that every reader returns, which gives the edges in chunks of limited size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.formats.reading import Reading

#: The default of `graph.max_line_bytes`.
MAX_LINE_BYTES = 16 << 20

Result = TypeVar("Result")
Coordinates: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ReadOptions:
    """How to read an edge list. Users set these values in `graph` of a workflow, which explains each of them."""

    format: str = "auto"
    encoding: str = "auto"
    delimiter: str = "auto"
    header: str | bool = "auto"
    decimal: str = "point"
    #: "auto", or a column by name or 1-based number; the weight may also be "none". Formats with fixed places accept
    #: only "auto" and "none".
    source_column: str = "auto"
    target_column: str = "auto"
    weight_column: str = "auto"
    #: "auto" or a type. Readers give the weights as they are in the file, with two exceptions. Galois weights are read
    #: as this type. Integers that float64 does not represent exactly may occur together with decimals only if this is a
    #: float type.
    weight_dtype: str = "auto"
    scale: int | None = None
    ids: str = "auto"
    unreadable: str = "error"
    coordinates: str | None = None
    #: The keys that belong to one format, such as "layer".
    own: Mapping[str, Any] = field(default_factory=dict)
    max_line_bytes: int = MAX_LINE_BYTES
    #: The number of bytes of text, or of an array, that are read into one chunk.
    block_bytes: int = 16 << 20
    #: The least bytes of a block of a table. Arrow cannot read a row that is longer than a block.
    table_row_bytes: int = 0

    @property
    def point(self) -> str:
        """The character before the decimals of a weight."""
        return "," if self.decimal == "comma" else "."

    @property
    def exact_scale(self) -> int:
        """The factor that must make every weight an integer: 1 for an integer type, 0 if decimals are allowed."""
        return self.scale or (1 if "int" in self.weight_dtype else 0)

    @property
    def skips(self) -> bool:
        """Whether rows that are not edges are left out."""
        return self.unreadable == "skip"

    @property
    def rounds(self) -> bool:
        """Whether the workflow asks for a float type, to which weights may be rounded."""
        return self.weight_dtype.startswith("float")


class SkippedRows:
    """The rows that were left out because they are not edges: their number, and a line about each of the first ones.

    Not thread-safe: only the thread that receives the chunks may call `add`.
    """

    #: The most rows that are described.
    KEPT = 1000

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[str] = []

    def add(self, count: int, lines: Iterable[str]) -> None:
        """Add `count` rows; `lines` describes them, and is read only until `KEPT` lines are kept."""
        self.count += count
        self.lines += islice(lines, self.KEPT - len(self.lines))

    def add_all(self, others: SkippedRows) -> None:
        """Add the rows of `others`."""
        self.add(others.count, others.lines)


@dataclass(frozen=True, eq=False)
class EdgeChunk:
    """Some edges, in the order of the file, in host memory. The receiver owns the arrays."""

    #: (n,) int64, never negative; or Arrow arrays of large_string if ids are strings.
    src: np.ndarray | pa.Array
    dst: np.ndarray | pa.Array
    #: (n,) of int64, uint64, float64 or the type of the column; None if the file has no weights. In text the type may
    #: differ between chunks: int64; uint64 if a value of the chunk is above 2^63 - 1; float64 if a value is not a
    #: 64-bit integer. `numpy.result_type` over all chunks does not depend on where the chunks begin and end.
    weights: np.ndarray | None
    #: Whether the text of a float64 weight has more digits than float64 keeps, so that the weight is a rounded one.
    is_rounded: bool = False

    def __len__(self) -> int:
        return len(self.src)

    def reversed(self) -> EdgeChunk:
        """Return the edges in the other direction, with the same arrays."""
        return replace(self, src=self.dst, dst=self.src)

    def copy(self) -> EdgeChunk:
        """Return the edges with arrays of their own."""
        src, dst = (end if isinstance(end, pa.Array) else end.copy() for end in (self.src, self.dst))
        return replace(self, src=src, dst=dst, weights=None if self.weights is None else self.weights.copy())


def _undivided(_: Sequence[int]) -> tuple[InputEdges, ...]:
    return ()


@dataclass(frozen=True, eq=False)
class InputEdges:
    """An edge list whose beginning was read and checked; `chunks` gives its edges."""

    #: How the input was understood. The fields that need all edges are still missing.
    reading: Reading
    #: Whether chunks have weights.
    has_weights: bool
    #: A function that gives the chunks, read with a number of threads.
    read: Callable[[int], Iterator[EdgeChunk]]
    #: A function that gives `work(chunk)` for each chunk, where the thread that read a chunk works on it; None if the
    #: format has none.
    read_and_work: Callable[[Callable[[EdgeChunk], Any], int], Iterator[Any]] | None = None
    #: The number that the format declares, or None. If it is declared, the reader checks that all ids are in `first_id
    #: .. first_id + n_vertices - 1`.
    n_vertices: int | None = None
    #: 1 for DIMACS, Matrix Market and METIS, else 0.
    first_id: int = 0
    #: The type of the weights if the format has types, else None.
    weight_dtype: np.dtype | None = None
    #: "mirror" if the file lists each undirected edge once (Matrix Market's `symmetric`): ingest then adds the reverse
    #: of every edge but self-loops. "both-listed" if the format lists both directions of every edge (METIS): ingest
    #: checks that. Otherwise "as-listed".
    symmetric: str = "as-listed"
    #: The unit of the weights if the format says it, such as "metres".
    weight_unit: str | None = None
    #: A function that returns the longitudes and latitudes (V,) of the given vertices, in degrees, after all edges were
    #: read, or None if the positions are not in degrees; None if the input has no positions.
    positions_of: Callable[[VertexIds], Coordinates | None] | None = None
    #: A function that returns the coordinates; None if the format has none.
    read_coordinates: Callable[[], Coordinates | None] | None = None
    #: The rows that were left out so far.
    skipped: SkippedRows = field(default_factory=SkippedRows)
    #: The edges of each file, in order, as edge lists that can be pickled and read on their own. Empty if the format
    #: can only be read as a whole.
    pieces: tuple[InputEdges, ...] = ()
    #: Of a piece, a function that divides it at some bytes of its file, which ascend; it returns nothing if the file
    #: can only be read from its beginning. The parts name wrong lines in messages: only the piece knows its lines.
    divide: Callable[[Sequence[int]], tuple[InputEdges, ...]] = _undivided

    def chunks(self, n_threads: int = 1) -> Iterator[EdgeChunk]:
        """Give all edges in file order; `n_threads` threads parse them, and another thread decompresses the file.

        At most `n_threads + 3` chunks are held at a time.

        Raises
        ------
        InputError
            The file is cut short or damaged, or has a row that is not an edge. The message names the file, the line or
            row, and the value.
        """
        return self.read(n_threads)

    def map_chunks(self, work: Callable[[EdgeChunk], Result], n_threads: int) -> Iterator[Result]:
        """Give `work(chunk)` for each chunk in file order, made by `n_threads` threads; raise what `chunks` raises.

        `work` may not keep the arrays of the chunk: the memory is used again.
        """
        if self.read_and_work is not None:
            return self.read_and_work(work, n_threads)
        return map_in_order(work, self.read(n_threads), n_threads)

    def coordinates(self) -> Coordinates | None:
        """Return x and y, (V,) int64 or float64 each, in vertex order; None if the input has no coordinates.

        Raises
        ------
        InputError
            The file with the coordinates cannot be used.
        """
        return self.read_coordinates() if self.read_coordinates else None
