"""The first tight edge into each vertex, for several rows of distances together.

The idea: an edge (u, v) is tight if `d[u] + w == d[v]`. The distances of `LANES` rows to one vertex lie side by side.
So one comparison of vectors takes an edge for all of these rows, and an edge is read once for all of them.

Phases, for up to `LANES` rows
    1. Turn: the rows become one array, with all lanes of a vertex next to each other.
    2. Scan: the edges into a vertex are taken from the last one to the first, so the first tight edge stays.
    3. Turn back: what is found for `LANES` vertices goes to the rows.

A scan of lanes takes as long as one of `_FEWEST` single rows. So fewer rows are scanned one by one.

Keeps
    I1. A tight edge counts only if it comes from a nearer vertex. So a sum that wraps never counts: it is below `d[u]`,
        which is below `d[v]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sssp_pipeline.base.csr import NO_VERTEX, GraphTraits
from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.numba_cache import intrinsic, njit
from sssp_pipeline.kernels.host.incoming import Incoming
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, prefetch, sum_of
from sssp_pipeline.kernels.host.vectors import SQUARE, constant, data_of, lanes_at, splat, turn

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core import cgutils, types
else:
    ir, cgutils, types = map(LazyModule, ("llvmlite.ir", "numba.core.cgutils", "numba.core.types"))

#: The most rows that are scanned together. 16 take 0.8 times as long a row, and twice the memory: to touch new memory
#: takes longer than to scan it.
LANES: Any = SQUARE
#: The fewest rows that are scanned together.
_FEWEST = 4
#: How many edges ahead the scan fetches distances.
_AHEAD: Any = np.uint64(64)


class EdgesByEnd(NamedTuple):
    """The edges of a graph in the order of `Incoming`. numba passes it like single arrays."""

    #: (V+1,) uint64, (E,) uint32, and (E,) weights: as in `Incoming`.
    offsets: np.ndarray
    starts: np.ndarray
    weights: np.ndarray
    #: (E,) uint32: where the edges end.
    ends: np.ndarray

    @classmethod
    def of(cls, incoming: Incoming) -> EdgesByEnd:
        n_vertices = len(incoming.offsets) - 1
        ends = np.repeat(np.arange(n_vertices, dtype=np.uint32), np.diff(incoming.offsets).astype(np.int64))
        return cls(incoming.offsets, incoming.starts, incoming.weights, ends)

    @staticmethod
    def n_bytes(traits: GraphTraits) -> int:
        """Return its memory."""
        return 8 * (traits.n_vertices + 1) + (8 + traits.weight_dtype.itemsize) * traits.n_edges


class TightEdges:
    """Finds tight edges; one thread at a time uses it.

    Parameters
    ----------
    edges
        Shared by all threads. Their weights are zero or more, as the kernels of a search have them.
    """

    def __init__(self, edges: EdgesByEnd) -> None:
        self._edges = edges
        self._lanes = np.empty(0, edges.weights.dtype)

    def of_rows(self, rows: np.ndarray, limit: Any, into: np.ndarray) -> None:
        """Write the first tight edge into each vertex to the last V columns of `into`.

        It is a place among the edges into the vertex; `csr.NO_VERTEX` if there is none from a nearer vertex.

        Parameters
        ----------
        rows
            (S, V) true distances, at most `LANES` rows, in the type of the weights.
        limit
            From this distance on, a vertex is unreached.
        into
            (S, more than V) uint32. Other columns are overwritten too.
        """
        if len(rows) < _FEWEST:
            for row, of_row in zip(rows, into, strict=True):
                _scan_row(self._edges, row, limit, of_row)
            return
        if not len(self._lanes):
            self._lanes = np.zeros(rows.shape[1] * int(LANES), rows.dtype)
        _scan_lanes(self._edges, rows, limit, self._lanes, into)


def scan_bytes(traits: GraphTraits, n_rows: int) -> int:
    """Return the memory of a `TightEdges` for up to `n_rows` at a time."""
    return 0 if n_rows < _FEWEST else int(LANES) * traits.weight_dtype.itemsize * traits.n_vertices


@intrinsic
def _take_first(
    typing_context: Any,
    lanes: Any,
    v: Any,
    starts: Any,
    weights: Any,
    first: Any,
    end: Any,
    limit: Any,
    found: Any,
    at: Any,
) -> Any:
    """Write the first tight edge into `v`, for each lane, to `found` from the element `at` on.

    The edges into `v` are `first` to `end`.
    """
    number, n = lanes.dtype, int(LANES)
    is_float = isinstance(number, types.Float)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        v, first, end, limit, at = (arguments[i] for i in (1, 4, 5, 6, 8))
        lanes_data, starts_data, weights_data, found_data = (
            data_of(context, builder, signature, arguments, i) for i in (0, 2, 3, 7)
        )
        int32, int64 = ir.IntType(32), ir.IntType(64)
        vector, places = ir.VectorType(context.get_value_type(number), n), ir.VectorType(int32, n)
        none = constant(places, int(NO_VERTEX))
        compare = builder.fcmp_ordered if is_float else builder.icmp_unsigned
        add = builder.fadd if is_float else builder.add

        def distances(vertex: Any) -> Any:
            place = lanes_at(builder, lanes_data, builder.mul(vertex, int64(n)), vector)
            return builder.load(place, align=number.bitwidth // 8)

        own = distances(v)
        best = cgutils.alloca_once_value(builder, none)
        last = builder.sub(builder.sub(end, first), int64(1))
        down = int64(-1)
        with cgutils.for_range_slice(builder, last, down, down, int64, inc=False) as (place, _):
            edge = builder.add(first, place)
            d = distances(builder.zext(builder.load(builder.gep(starts_data, [edge])), int64))
            weight = splat(builder, builder.load(builder.gep(weights_data, [edge])), vector)
            is_tight = builder.and_(compare("==", add(d, weight), own), compare("<", d, own))
            here = splat(builder, builder.trunc(place, int32), places)
            builder.store(builder.select(is_tight, here, builder.load(best)), best)
        is_reached = compare("<", own, splat(builder, limit, vector))
        taken = builder.select(is_reached, builder.load(best), none)
        builder.store(taken, lanes_at(builder, found_data, at, places), align=4)
        return context.get_dummy_value()

    uint64 = types.uint64
    return types.void(lanes, uint64, starts, weights, uint64, uint64, number, found, uint64), generate


@njit(nogil=True)
def _scan_lanes(edges: EdgesByEnd, rows: np.ndarray, limit: Any, lanes: np.ndarray, into: np.ndarray) -> None:
    """Do what `TightEdges.of_rows` does; `lanes` (V * LANES) is overwritten."""
    offsets, starts, weights, _ = edges
    n, n_edges, n_rows = np.uint64(rows.shape[1]), np.uint64(len(starts)), np.uint64(len(rows))
    in_squares = n - n % SQUARE if n_rows == LANES else ZERO
    flat = rows.reshape(rows.size)
    for v in range(ZERO, in_squares, SQUARE):
        turn(flat, v, n, lanes, v * LANES, LANES)
    for lane in range(n_rows):
        for v in range(in_squares, n):
            lanes[v * LANES + lane] = rows[lane, v]
    width, flat_into, buffer = (
        np.uint64(into.shape[1]),
        into.reshape(into.size),
        np.empty(SQUARE * LANES, np.uint32),
    )
    for begin in range(ZERO, n, SQUARE):
        end = min(begin + SQUARE, n)
        for e in range(min(offsets[begin] + _AHEAD, n_edges), min(offsets[end] + _AHEAD, n_edges)):
            prefetch(lanes, np.uint64(starts[e]) * LANES)
        for v in range(begin, end):
            at = (v - begin) * LANES
            _take_first(lanes, v, starts, weights, offsets[v], offsets[v + ONE], limit, buffer, at)
        column = width - n + begin
        if begin < in_squares:
            turn(buffer, ZERO, LANES, flat_into, column, width)
        else:
            for lane in range(n_rows):
                for i in range(end - begin):
                    into[lane, column + i] = buffer[i * LANES + lane]


@njit(nogil=True)
def _scan_row(edges: EdgesByEnd, row: np.ndarray, limit: Any, into: np.ndarray) -> None:
    """Do what `TightEdges.of_rows` does for one row (V,)."""
    offsets, starts, weights, ends = edges
    first = np.uint64(len(into) - len(row))
    nowhere = first - ONE
    into[first:] = NO_VERTEX
    e = np.uint64(len(starts))
    while e > ZERO:
        e -= ONE
        d, v = row[np.uint64(starts[e])], np.uint64(ends[e])
        total = sum_of(d, weights[e])
        is_tight = (total == row[v]) & (total < limit)
        is_tight &= total > d
        # No branch: whether an edge is tight cannot be predicted.
        into[first + v if is_tight else nowhere] = e - offsets[v]
