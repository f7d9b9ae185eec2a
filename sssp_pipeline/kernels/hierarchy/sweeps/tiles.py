"""Tiles of a copy: rows of lanes, one for each rank, become rows of vertices in their original order.

The idea: two things are slow in this copy. Rows of lanes lie anywhere in memory, so they are fetched early, into the
second cache: the first one has too few places for what is under way. And the rows of vertices are many, and written a
little each. So a few columns of all of them are collected in a buffer, from which whole cache lines go to memory,
past the caches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.numba_cache import intrinsic
from sssp_pipeline.kernels.host.vectors import data_of, lanes_at, splat, transposed

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core import types
else:
    ir, types = LazyModule("llvmlite.ir"), LazyModule("numba.core.types")

#: Vertices and lanes of a tile, the square that `turn_tile` turns.
TILE: Any = np.uint64(8)
#: Bytes of a cache line.
LINE_BYTES: Any = np.uint64(64)


@intrinsic
def turn_tile(
    typing_context: Any,
    rows: Any,
    ranks: Any,
    stride: Any,
    column: Any,
    lane: Any,
    limit: Any,
    unreached: Any,
    buffer: Any,
    at: Any,
    width: Any,
) -> Any:
    """Copy the distances of `TILE` vertices and `TILE` lanes from rows of lanes to a buffer of rows of vertices.

    Parameters
    ----------
    rows
        The distances of all lanes, `stride` for each rank.
    ranks, column
        The ranks of the vertices are `TILE` numbers of `ranks` from `column` on.
    lane
        The first lane.
    limit, unreached
        A distance of `limit` or more is replaced by `unreached`.
    buffer, at, width
        Lane `lane + i` is written from the element `at + i * width` on.
    """
    number = rows.dtype
    tile = int(TILE)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows_data, ranks_data, buffer_data = (
            data_of(context, builder, signature, arguments, i) for i in (0, 1, 7)
        )
        stride, column, lane = arguments[2:5]
        at, width = arguments[8:]
        element, int64 = ir.IntType(number.bitwidth), ir.IntType(64)
        vector = ir.VectorType(element, tile)
        align = element.width // 8
        limit, unreached = (splat(builder, value, vector) for value in arguments[5:7])
        read = []
        for i in range(tile):
            rank = builder.load(builder.gep(ranks_data, [builder.add(column, int64(i))]))
            place = builder.add(builder.mul(builder.zext(rank, int64), stride), lane)
            lanes = builder.load(lanes_at(builder, rows_data, place, vector), align=align)
            read.append(builder.select(builder.icmp_unsigned("<", lanes, limit), lanes, unreached))
        for i, of_lane in enumerate(transposed(builder, read)):
            place = builder.add(at, builder.mul(int64(i), width))
            builder.store(of_lane, lanes_at(builder, buffer_data, place, vector), align=align)
        return context.get_dummy_value()

    uint64 = types.uint64
    signature = types.void(rows, ranks, uint64, uint64, uint64, number, number, buffer, uint64, uint64)
    return signature, generate


@intrinsic
def copy_line(typing_context: Any, buffer: Any, at: Any, into: Any, place: Any) -> Any:
    """Copy as many elements as a cache line has from `buffer[at]` on to `into[place]` on, where a line begins.

    They bypass the caches. `finish_lines` must follow the last line.
    """
    number = buffer.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        buffer_data, into_data = (data_of(context, builder, signature, arguments, i) for i in (0, 2))
        vector = ir.VectorType(ir.IntType(number.bitwidth), 8 * int(LINE_BYTES) // number.bitwidth)
        line = builder.load(lanes_at(builder, buffer_data, arguments[1], vector), align=number.bitwidth // 8)
        stored = builder.store(
            line, lanes_at(builder, into_data, arguments[3], vector), align=int(LINE_BYTES)
        )
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.IntType(32)(1)]))
        return context.get_dummy_value()

    return types.void(buffer, types.uint64, into, types.uint64), generate


@intrinsic
def finish_lines(typing_context: Any) -> Any:
    """Have all lines in memory before anything that this thread writes later."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def past_line(typing_context: Any, array: Any, index: Any) -> Any:
    """Return how many elements `array[index]` lies past the beginning of its cache line, uint64."""
    number = array.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        int64 = ir.IntType(64)
        data = data_of(context, builder, signature, arguments, 0)
        address = builder.ptrtoint(builder.gep(data, [arguments[1]]), int64)
        past = builder.and_(address, int64(int(LINE_BYTES) - 1))
        return builder.udiv(past, int64(number.bitwidth // 8))

    return types.uint64(array, types.uint64), generate
