"""Vector instructions of the sweep: one operation on the distances from several sources.

A lane is one source. The distances of `LANES` lanes to one vertex lie side by side, so LLVM makes them one vector or a
few, whatever the machine has. numba 0.68 makes scalar code of its own loops over lanes.

All integers are unsigned, of 32 or 64 bits, and sums saturate: the largest value stands for "unreached".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

#: Lanes of a block: the distances that one instruction of this module handles.
LANES: Any = np.uint64(16)
#: Bytes of the lanes of `lower_many_lanes`: half of the vector registers of AVX2.
MANY_BYTES: Any = np.uint64(256)
#: Vertices and lanes of a tile, the square that `copy_tile` turns.
TILE: Any = np.uint64(8)


@intrinsic
def saturating_sum(typing_context: Any, left: Any, right: Any) -> Any:
    """Return the sum of two unsigned integers of one type, or the largest value of the type if the sum is larger."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _call(builder, "llvm.uadd.sat", *arguments)

    return (left(left, left), generate) if left == right else None


def _lower(
    rows: Any, heads: Any, weights: Any, largest: Any, sums: Any, n_lanes: int
) -> tuple[Any, Callable[..., Any]]:
    """Return the signature and the generator of `lower_lanes`, for blocks of `n_lanes`."""
    number = rows.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = dict(zip(_NAMES, arguments, strict=True))
        kinds = dict(zip(_NAMES, signature.args, strict=True))
        element, int64 = ir.IntType(number.bitwidth), ir.IntType(64)
        vector, wide = ir.VectorType(element, n_lanes), ir.VectorType(int64, n_lanes)
        align = element.width // 8

        def data(name: str) -> Any:
            return context.make_array(kinds[name])(context, builder, values[name]).data

        def lanes_at(array: Any, index: Any, kind: Any) -> Any:
            return builder.bitcast(builder.gep(array, [index]), kind.as_pointer())

        rows_data, heads_data, weights_data = data("rows"), data("heads"), data("weights")
        at = builder.add(builder.mul(values["row"], values["stride"]), values["block"])
        own = lanes_at(rows_data, at, vector)
        best = cgutils.alloca_once(builder, vector)
        builder.store(_all(vector, 2**element.width - 1), best)
        with builder.if_then(builder.icmp_unsigned("!=", values["is_filled"], values["is_filled"].type(0))):
            builder.store(builder.load(own, align=align), best)
        with cgutils.for_range_slice(builder, values["first"], values["end"], int64(1), int64) as (arc, _):
            head = builder.zext(builder.load(builder.gep(heads_data, [arc])), int64)
            weight = _splat(builder, builder.load(builder.gep(weights_data, [arc])), vector)
            upper = builder.add(builder.mul(head, values["stride"]), values["block"])
            upper_lanes = builder.load(lanes_at(rows_data, upper, vector), align=align)
            found = _call(builder, "llvm.uadd.sat", upper_lanes, weight)
            builder.store(_call(builder, "llvm.umin", builder.load(best), found), best)
        lanes = builder.load(best)
        builder.store(lanes, own, align=align)

        # ---- the results of each lane ----
        is_reached = builder.icmp_unsigned("<", lanes, _splat(builder, values["limit"], vector))
        reached = builder.select(is_reached, lanes, _all(vector, 0))
        of_largest = lanes_at(data("largest"), values["block"], vector)
        so_far = builder.load(of_largest, align=align)
        builder.store(_call(builder, "llvm.umax", so_far, reached), of_largest, align=align)
        sums_data = data("sums")

        def add(lane: Any, numbers: Any) -> None:
            place = lanes_at(sums_data, lane, wide)
            builder.store(builder.add(builder.load(place, align=8), numbers), place, align=8)

        if element.width == 32:
            add(values["block"], builder.zext(reached, wide))
        else:
            add(values["block"], builder.and_(reached, _all(wide, 2**32 - 1)))
            upper_bits = builder.lshr(reached, _all(wide, 32))
            add(builder.add(values["block"], values["stride"]), upper_bits)
        bits = builder.bitcast(is_reached, ir.IntType(n_lanes))
        return builder.icmp_unsigned("==", bits, bits.type(-1))

    uint64 = types.uint64
    signature = types.boolean(
        rows, uint64, types.boolean, uint64, uint64, heads, weights, uint64, uint64, number, largest, sums
    )
    return signature, generate


_NAMES = (
    "rows",
    "row",
    "is_filled",
    "stride",
    "block",
    "heads",
    "weights",
    "first",
    "end",
    "limit",
    "largest",
    "sums",
)


@intrinsic
def lower_lanes(
    typing_context: Any,
    rows: Any,
    row: Any,
    is_filled: Any,
    stride: Any,
    block: Any,
    heads: Any,
    weights: Any,
    first: Any,
    end: Any,
    limit: Any,
    largest: Any,
    sums: Any,
) -> Any:
    """Set `LANES` lanes of a row to the least sums over the arcs into it; return whether all of them are reached.

    Parameters
    ----------
    rows
        The distances of all lanes, `stride` for each vertex.
    row
        The vertex.
    is_filled
        Whether its row has distances already, which then take part.
    block
        The first of the lanes.
    heads, weights, first, end
        The arcs into the vertex are `first` to `end` of these arrays.
    limit
        A lane is reached if its distance is below this.
    largest
        (lanes,) like `rows`; raised to the distance of each reached lane.
    sums
        (2 * lanes,) uint64: the sums of the lower and of the upper 32 bits of the distances of reached lanes; of the
        distances themselves, in the first part, if they have 32 bits.
    """
    return _lower(rows, heads, weights, largest, sums, int(LANES))


@intrinsic
def lower_many_lanes(
    typing_context: Any,
    rows: Any,
    row: Any,
    is_filled: Any,
    stride: Any,
    block: Any,
    heads: Any,
    weights: Any,
    first: Any,
    end: Any,
    limit: Any,
    largest: Any,
    sums: Any,
) -> Any:
    """Do what `lower_lanes` does for as many lanes as have `MANY_BYTES`: each arc is read once for all of them."""
    return _lower(rows, heads, weights, largest, sums, 8 * int(MANY_BYTES) // rows.dtype.bitwidth)


@intrinsic
def copy_tile(
    typing_context: Any,
    rows: Any,
    ranks: Any,
    stride: Any,
    vertex: Any,
    first: Any,
    lane: Any,
    n_lanes: Any,
    limit: Any,
    unreached: Any,
    into: Any,
) -> Any:
    """Copy the distances of `TILE` vertices and up to `TILE` lanes, from rows of lanes to rows of vertices.

    Parameters
    ----------
    rows
        The distances of all lanes, `stride` for each rank.
    ranks
        (V,) uint32: the rank of each vertex.
    vertex, lane
        The first column and the first row of `into`.
    first
        The lane of the first row of `into`.
    n_lanes
        How many lanes are copied, from 1 to `TILE`. `rows` has all `TILE`.
    limit, unreached
        A distance of `limit` or more is replaced by `unreached`.
    into
        (lanes, V).
    """
    number = rows.dtype
    tile = int(TILE)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = ir.IntType(number.bitwidth)
        vector, int64 = ir.VectorType(element, tile), ir.IntType(64)
        align = element.width // 8
        rows_type, ranks_type, into_type = signature.args[0], signature.args[1], signature.args[-1]
        rows_data = context.make_array(rows_type)(context, builder, arguments[0]).data
        ranks_data = context.make_array(ranks_type)(context, builder, arguments[1]).data
        into_array = context.make_array(into_type)(context, builder, arguments[-1])
        stride, vertex, first, lane, n_lanes = arguments[2:7]
        limit, unreached = (_splat(builder, value, vector) for value in arguments[7:9])
        n_vertices = builder.extract_value(into_array.shape, 1)

        from_lane = builder.add(first, lane)
        tiles = []
        for i in range(tile):
            rank = builder.load(builder.gep(ranks_data, [builder.add(vertex, int64(i))]))
            at = builder.add(builder.mul(builder.zext(rank, int64), stride), from_lane)
            place = builder.bitcast(builder.gep(rows_data, [at]), vector.as_pointer())
            lanes = builder.load(place, align=align)
            tiles.append(builder.select(builder.icmp_unsigned("<", lanes, limit), lanes, unreached))
        start = builder.add(builder.mul(lane, n_vertices), vertex)
        for i, of_lane in enumerate(_transposed(builder, tiles)):
            with builder.if_then(builder.icmp_unsigned(">", n_lanes, int64(i)), likely=True):
                at = builder.add(start, builder.mul(int64(i), n_vertices))
                place = builder.bitcast(builder.gep(into_array.data, [at]), vector.as_pointer())
                builder.store(of_lane, place, align=align)
        return context.get_dummy_value()

    signature = types.void(
        rows,
        ranks,
        types.uint64,
        types.uint64,
        types.uint64,
        types.uint64,
        types.uint64,
        number,
        number,
        into,
    )
    return signature, generate


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Return the columns of 8 vectors of 8, by the shuffles that x86 has within and between halves of 256 bits."""

    def shuffled(left: Any, right: Any, places: list[int]) -> Any:
        mask = ir.Constant(ir.VectorType(ir.IntType(32), 8), places)
        return builder.shuffle_vector(left, right, mask)

    pairs = [
        shuffled(rows[i], rows[i + 1], places)
        for i in range(0, 8, 2)
        for places in ([0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15])
    ]
    fours = [
        shuffled(pairs[i + j], pairs[i + j + 2], places)
        for i in (0, 4)
        for j in (0, 1)
        for places in ([0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
    ]
    return [
        shuffled(fours[i], fours[i + 4], places)
        for places in ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15])
        for i in range(4)
    ]


def _all(vector: Any, value: int) -> Any:
    return ir.Constant(vector, [value] * vector.count)


def _splat(builder: Any, value: Any, vector: Any) -> Any:
    """Return a vector with `value` in each place."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


def _call(builder: Any, name: str, *arguments: Any) -> Any:
    """Return the result of an intrinsic function of LLVM on arguments of one type."""
    kind = arguments[0].type
    suffix = f"v{kind.count}i{kind.element.width}" if isinstance(kind, ir.VectorType) else f"i{kind.width}"
    function_type = ir.FunctionType(kind, [kind] * len(arguments))
    return builder.call(
        cgutils.get_or_insert_function(builder.module, function_type, f"{name}.{suffix}"), arguments
    )
