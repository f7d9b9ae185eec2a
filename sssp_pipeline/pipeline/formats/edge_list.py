"""What every reader gives: a description of the edge list, and its edges in bounded chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from sssp_pipeline.pipeline.formats.reading import Reading

#: Bytes of the longest line that is read where `graph.max_line_bytes` does not say otherwise.
MAX_LINE_BYTES = 16 << 20

Coordinates: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ReadOptions:
    """How to read; every value has a meaning of its own in `workflow.Graph`, where users set it.

    Attributes
    ----------
    format
        A key of `registries.FORMATS`, or "auto" to look at the content.
    encoding, delimiter, header, decimal
        Of text and tables, as in `workflow.Graph`; `header` is "auto", True or False.
    source_column, target_column
        Columns of text and tables, by name or 1-based number; "auto" looks for the usual names.
    weight_column
        "auto", "none", or a column likewise. A format that says itself where its weights are takes only "auto"
        and "none".
    weight_dtype
        "auto" or a type. Galois weights are read in it. Integers that float64 does not hold exactly may stand beside
        decimals only if it is a float type. Otherwise readers give the weights as they stand in the file.
    scale
        What the weights will be multiplied by to become integers, or None.
    ids
        "auto", "integer" or "string"; "auto" looks at the first rows.
    unreadable
        "error", or "skip": rows that are no edge are left out.
    coordinates
        URL of a DIMACS `.co` file, or None.
    max_line_bytes
        The longest line of text that is read.
    block_bytes
        How much text, or how large an array, is read into one chunk.
    """

    format: str = "auto"
    encoding: str = "auto"
    delimiter: str = "auto"
    header: str | bool = "auto"
    decimal: str = "point"
    source_column: str = "auto"
    target_column: str = "auto"
    weight_column: str = "auto"
    weight_dtype: str = "auto"
    scale: int | None = None
    ids: str = "auto"
    unreadable: str = "error"
    coordinates: str | None = None
    max_line_bytes: int = MAX_LINE_BYTES
    block_bytes: int = 16 << 20

    @property
    def point(self) -> str:
        """What separates the decimals of a weight."""
        return "," if self.decimal == "comma" else "."

    @property
    def exact_scale(self) -> int:
        """The factor that must make every weight an integer: 1 for an integer type, 0 for no such rule."""
        return self.scale or (1 if "int" in self.weight_dtype else 0)

    @property
    def skips(self) -> bool:
        """Whether rows that are no edge are left out."""
        return self.unreadable == "skip"

    @property
    def rounds(self) -> bool:
        """Whether the workflow asks for a float type, to which weights may be rounded."""
        return self.weight_dtype.startswith("float")


class SkippedRows:
    """The rows that were left out because they are no edge: how many, and a line about each of the first.

    Only the thread that takes the chunks may add to it.
    """

    #: The number of rows that are described.
    KEPT = 1000

    def __init__(self) -> None:
        self.count = 0
        self.lines: list[str] = []

    def add(self, count: int, lines: Iterable[str]) -> None:
        """Note `count` more rows; `lines` describes them and is read only as far as there is room."""
        self.count += count
        self.lines += islice(lines, self.KEPT - len(self.lines))


@dataclass(frozen=True, eq=False)
class EdgeChunk:
    """Some edges, in the order of the file; host memory, owned by whoever receives it.

    Attributes
    ----------
    src, dst
        (n,) int64, never negative; or Arrow arrays of large_string where ids are strings.
    weights
        (n,); int64, uint64, float64 or the column's own type; None where the file has no weights. Text has
        no types, so that chunks of one file may differ: int64, uint64 where a value of the chunk is above
        2^63 - 1, float64 where one is no 64-bit integer. `numpy.result_type` over the chunks is the
        file's type, wherever the chunks were cut.
    """

    src: np.ndarray | pa.Array
    dst: np.ndarray | pa.Array
    weights: np.ndarray | None

    def __len__(self) -> int:
        return len(self.src)


@dataclass(frozen=True, eq=False)
class EdgeList:
    """An edge list that was recognised and whose beginning was read; the edges come through `chunks`.

    Attributes
    ----------
    reading
        How the input was understood, without what is known only after all edges are read.
    has_weights
        Whether chunks carry weights.
    n_vertices
        The count the format declares, or None where it declares none; ids then are
        `first_id .. first_id + n_vertices - 1`, which the reader has checked.
    first_id
        1 for DIMACS, Matrix Market and METIS, else 0.
    weight_dtype
        The type of the weights where the format is typed, else None.
    symmetric
        "mirror" where the file says that it lists each undirected edge once (Matrix Market's `symmetric`), so
        that the reverse of every edge but a self-loop is to be added; "both-listed" where the format lists both
        directions of every edge (METIS), which is to be checked; else "as-listed".
    skipped
        What was left out so far, where rows that are no edge are skipped.
    read
        Gives the chunks when called with a number of threads.
    read_coordinates
        Gives the coordinates, or None where there are none.
    """

    reading: Reading
    has_weights: bool
    read: Callable[[int], Iterator[EdgeChunk]]
    n_vertices: int | None = None
    first_id: int = 0
    weight_dtype: np.dtype | None = None
    symmetric: str = "as-listed"
    read_coordinates: Callable[[], Coordinates | None] | None = None
    skipped: SkippedRows = field(default_factory=SkippedRows)

    @property
    def format(self) -> str:
        """A key of `registries.FORMATS`, or "generated"."""
        return self.reading.format

    @property
    def id_kind(self) -> str:
        """Return "integer" or "string"."""
        return self.reading.ids

    def chunks(self, n_threads: int = 1) -> Iterator[EdgeChunk]:
        """Give all edges in file order, parsed on `n_threads` threads; decompression has a thread of its own.

        At most `n_threads + 3` chunks are held at a time.

        Raises
        ------
        InputError
            The file is cut short or damaged, or holds what is no edge; the message names the file, the line
            or row, and the value.
        """
        return self.read(n_threads)

    def coordinates(self) -> Coordinates | None:
        """Return x and y, (V,) int64 or float64 each, in vertex order; None where the input has none.

        Raises
        ------
        InputError
            The file of the coordinates cannot be used.
        """
        return self.read_coordinates() if self.read_coordinates else None
