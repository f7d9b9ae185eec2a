"""Vector instructions of the sweep: one operation on the distances from several sources.

A lane is one source. The distances of `LANES` lanes to one vertex lie side by side, so LLVM makes them one vector or a
few, whatever the machine has. numba 0.68 makes scalar code of its own loops over lanes.

All integers are unsigned, of 32 or 64 bits, and sums saturate: the largest value stands for "unreached".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.numba_cache import intrinsic
from sssp_pipeline.kernels.host.numba_tools import call as call_function
from sssp_pipeline.kernels.host.vectors import constant, data_of, lanes_at, splat

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core import cgutils, types
else:
    ir, cgutils, types = map(LazyModule, ("llvmlite.ir", "numba.core.cgutils", "numba.core.types"))

#: Lanes of a block: the distances that one instruction of this module handles.
LANES: Any = np.uint64(16)
#: Bytes of the lanes of `lower_many_lanes`: half of the vector registers of AVX2.
MANY_BYTES: Any = np.uint64(256)
#: The most rows of `add_facts`. They are read again from the nearest cache.
FACT_ROWS: Any = np.uint64(32)


@intrinsic
def saturating_sum(typing_context: Any, left: Any, right: Any) -> Any:
    """Return the sum of two unsigned integers of one type, or the largest value of the type if the sum is larger."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return call(builder, "llvm.uadd.sat", *arguments)

    return (left(left, left), generate) if left == right else None


def _lower(rows: Any, heads: Any, weights: Any, n_lanes: int) -> tuple[Any, Callable[..., Any]]:
    """Return the signature and the generator of `lower_lanes`, for blocks of `n_lanes`."""
    number = rows.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row, is_filled, stride, block, first, end, limit = (arguments[i] for i in (1, 2, 3, 4, 7, 8, 9))
        rows_data, heads_data, weights_data = (
            data_of(context, builder, signature, arguments, i) for i in (0, 5, 6)
        )
        element, int64 = ir.IntType(number.bitwidth), ir.IntType(64)
        vector = ir.VectorType(element, n_lanes)
        align = element.width // 8
        own = lanes_at(builder, rows_data, builder.add(builder.mul(row, stride), block), vector)
        best = cgutils.alloca_once(builder, vector)
        builder.store(constant(vector, 2**element.width - 1), best)
        with builder.if_then(builder.icmp_unsigned("!=", is_filled, is_filled.type(0))):
            builder.store(builder.load(own, align=align), best)
        with cgutils.for_range_slice(builder, first, end, int64(1), int64) as (arc, _):
            head = builder.zext(builder.load(builder.gep(heads_data, [arc])), int64)
            weight = splat(builder, builder.load(builder.gep(weights_data, [arc])), vector)
            upper = lanes_at(builder, rows_data, builder.add(builder.mul(head, stride), block), vector)
            found = call(builder, "llvm.uadd.sat", builder.load(upper, align=align), weight)
            builder.store(call(builder, "llvm.umin", builder.load(best), found), best)
        lanes = builder.load(best)
        builder.store(lanes, own, align=align)
        is_near = builder.icmp_unsigned("<", lanes, splat(builder, limit, vector))
        bits = builder.bitcast(is_near, ir.IntType(n_lanes))
        return builder.icmp_unsigned("!=", bits, bits.type(0))

    uint64 = types.uint64
    signature = types.boolean(
        rows, uint64, types.boolean, uint64, uint64, heads, weights, uint64, uint64, number
    )
    return signature, generate


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
) -> Any:
    """Set `LANES` lanes of a row to the least sums over the arcs into it; return whether any is below `limit`.

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
    """
    return _lower(rows, heads, weights, int(LANES))


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
) -> Any:
    """Do what `lower_lanes` does for as many lanes as have `MANY_BYTES`: each arc is read once for all of them."""
    return _lower(rows, heads, weights, 8 * int(MANY_BYTES) // rows.dtype.bitwidth)


@intrinsic
def add_facts(
    typing_context: Any,
    rows: Any,
    degrees: Any,
    first: Any,
    end: Any,
    stride: Any,
    block: Any,
    limit: Any,
    largest: Any,
    sums: Any,
    unreached: Any,
) -> Any:
    """Add the rows `first` to `end` to the facts about `LANES` lanes. A lane is reached if it is below `limit`.

    Usually all are, and no sum of `FACT_ROWS` distances is too large for their type. Then a row costs three
    instructions. Otherwise each lane is compared with `limit`, and sums are wider.

    Parameters
    ----------
    rows, stride, block
        As for `lower_lanes`.
    degrees
        (V,) uint32: the edges of each vertex of the graph.
    first, end
        At most `FACT_ROWS` rows.
    largest
        (lanes,) like `rows`; raised to the distance of each reached lane.
    sums
        (2 * lanes,) uint64: for all lanes a sum of lower 32 bits, and then for all lanes a sum of upper bits. Together
        they are the sum of the distances of the reached lane.
    unreached
        (2 * lanes,) uint64: how many vertices are not reached, for all lanes, and then how many edges they have.
    """
    number = rows.dtype
    n_lanes = int(LANES)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, end, stride, block, limit = arguments[2:7]
        rows_data, degrees_data, largest_data, sums_data, unreached_data = (
            data_of(context, builder, signature, arguments, i) for i in (0, 1, 7, 8, 9)
        )
        element, int64 = ir.IntType(number.bitwidth), ir.IntType(64)
        vector, wide = ir.VectorType(element, n_lanes), ir.VectorType(int64, n_lanes)
        align = element.width // 8
        zero = constant(vector, 0)
        upper_half = builder.add(block, stride)

        def lanes_of(row: Any) -> Any:
            at = builder.add(builder.mul(row, stride), block)
            return builder.load(lanes_at(builder, rows_data, at, vector), align=align)

        def zeros(kind: Any) -> Any:
            place = cgutils.alloca_once(builder, kind)
            builder.store(constant(kind, 0), place)
            return place

        def add(place: Any, numbers: Any, alignment: int | None = None) -> None:
            builder.store(builder.add(builder.load(place, align=alignment), numbers), place, align=alignment)

        def add_to(array: Any, at: Any, numbers: Any) -> None:
            wide_numbers = numbers if numbers.type == wide else builder.zext(numbers, wide)
            add(lanes_at(builder, array, at, wide), wide_numbers, 8)

        def raise_to(place: Any, lanes: Any, alignment: int | None = None) -> None:
            higher = call(builder, "llvm.umax", builder.load(place, align=alignment), lanes)
            builder.store(higher, place, align=alignment)

        def halves(lanes: Any) -> list[Any]:
            """Return the parts that are summed: lower and upper bits, or the lanes themselves if they have 32 bits."""
            if element.width == 32:
                return [lanes]
            return [builder.and_(lanes, constant(wide, 2**32 - 1)), builder.lshr(lanes, constant(wide, 32))]

        most, total = zeros(vector), zeros(vector)
        with cgutils.for_range_slice(builder, first, end, int64(1), int64) as (row, _):
            lanes = lanes_of(row)
            raise_to(most, lanes)
            add(total, lanes)
        summable = element(2**element.width // int(FACT_ROWS))
        bound = builder.select(builder.icmp_unsigned("<", limit, summable), limit, summable)
        is_usual = builder.icmp_unsigned("<", builder.load(most), splat(builder, bound, vector))
        bits = builder.bitcast(is_usual, ir.IntType(n_lanes))
        of_largest = lanes_at(builder, largest_data, block, vector)
        with builder.if_else(builder.icmp_unsigned("==", bits, bits.type(-1))) as (usual, unusual):
            with usual:
                raise_to(of_largest, builder.load(most), align)
                for place, half in zip((block, upper_half), halves(builder.load(total)), strict=False):
                    add_to(sums_data, place, half)
            with unusual:
                of_reached, out, out_edges = zeros(vector), zeros(vector), zeros(wide)
                parts = [zeros(wide) for _ in range(element.width // 32)]
                with cgutils.for_range_slice(builder, first, end, int64(1), int64) as (row, _):
                    lanes = lanes_of(row)
                    is_reached = builder.icmp_unsigned("<", lanes, splat(builder, limit, vector))
                    reached = builder.select(is_reached, lanes, zero)
                    raise_to(of_reached, reached)
                    for part, half in zip(parts, halves(reached), strict=True):
                        add(part, half if half.type == wide else builder.zext(half, wide))
                    add(out, builder.select(is_reached, zero, constant(vector, 1)))
                    degree = builder.zext(builder.load(builder.gep(degrees_data, [row])), int64)
                    add(
                        out_edges, builder.select(is_reached, constant(wide, 0), splat(builder, degree, wide))
                    )
                raise_to(of_largest, builder.load(of_reached), align)
                for place, part in zip((block, upper_half), parts, strict=False):
                    add_to(sums_data, place, builder.load(part))
                add_to(unreached_data, block, builder.load(out))
                add_to(unreached_data, upper_half, builder.load(out_edges))
        return context.get_dummy_value()

    uint64 = types.uint64
    signature = types.void(rows, degrees, uint64, uint64, uint64, uint64, number, largest, sums, unreached)
    return signature, generate


def call(builder: Any, name: str, *arguments: Any) -> Any:
    """Return the result of an intrinsic function of LLVM on arguments of one type."""
    kind = arguments[0].type
    suffix = f"v{kind.count}i{kind.element.width}" if isinstance(kind, ir.VectorType) else f"i{kind.width}"
    return call_function(builder, kind, f"{name}.{suffix}", *arguments)
