"""What every reader gives: a description of the edge list, and its edges in bounded chunks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

Coordinates: TypeAlias = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class ReadOptions:
    """How to read; every value has a meaning of its own in `workflow.Graph`, where users set it.

    Attributes
    ----------
    format
        A key of `formats.READERS`, or "auto" to look at the content.
    source_column, target_column
        Names of columns, for tables (csv, parquet); "auto" looks for the usual names.
    weight_column
        "auto", "none", the name of a column of a table, or the 1-based number of a column of a text edge
        list. A format that says itself where its weights are takes only "auto" and "none".
    weight_dtype
        "auto", or the type in which the four bytes of a Galois weight are read: "uint32", "int32", "float32".
        Other readers give the weights as they stand in the file, whatever is asked for here.
    ids
        "auto", "integer" or "string"; "auto" looks at the first edge.
    coordinates
        URL of a DIMACS `.co` file, or None.
    block_bytes
        How much text, or how large an array, is read into one chunk.
    """

    format: str = "auto"
    source_column: str = "auto"
    target_column: str = "auto"
    weight_column: str = "auto"
    weight_dtype: str = "auto"
    ids: str = "auto"
    coordinates: str | None = None
    block_bytes: int = 16 << 20


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
    format
        A key of `formats.READERS`, or "generated".
    id_kind
        "integer" or "string".
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
        that the reverse of every edge but a self-loop is to be added; else "as-listed".
    read
        Gives the chunks when called with a number of threads.
    read_coordinates
        Gives the coordinates, or None where there are none.
    """

    format: str
    id_kind: str
    has_weights: bool
    read: Callable[[int], Iterator[EdgeChunk]]
    n_vertices: int | None = None
    first_id: int = 0
    weight_dtype: np.dtype | None = None
    symmetric: str = "as-listed"
    read_coordinates: Callable[[], Coordinates | None] | None = None

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
