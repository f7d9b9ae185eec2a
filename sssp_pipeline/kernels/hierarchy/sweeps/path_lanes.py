"""Vector instructions of `path_sweep.py`: the numbers of paths and the rates of `LANES` sources at a vertex.

As in `lanes.py`, numba's own code for small loops over arrays is several times slower.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.numba_cache import intrinsic
from sssp_pipeline.kernels.hierarchy.completion.lanes import LANES, call
from sssp_pipeline.kernels.host.vectors import constant, data_of, lanes_at, splat

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core import cgutils, types
else:
    ir, cgutils, types = map(LazyModule, ("llvmlite.ir", "numba.core.cgutils", "numba.core.types"))


class _Lanes:
    """What both functions below build: vectors of distances and of float64, and the arcs of a vertex."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any, number: Any) -> None:
        self.builder, self.n = builder, int(LANES)
        self.data = [
            data_of(context, builder, signature, arguments, i)
            if isinstance(kind, types.Array)
            else arguments[i]
            for i, kind in enumerate(signature.args)
        ]
        self.distances = ir.VectorType(ir.IntType(number.bitwidth), self.n)
        self.floats = ir.VectorType(ir.DoubleType(), self.n)
        self.zeros = ir.Constant(self.floats, [0.0] * self.n)

    def at(self, array: Any, row: Any, vector: Any) -> Any:
        """Return the pointer to the lanes of `row`."""
        return lanes_at(self.builder, array, self.builder.mul(row, ir.IntType(64)(self.n)), vector)

    def load(self, pointer: Any) -> Any:
        element = pointer.type.pointee.element
        return self.builder.load(pointer, align=8 if element == ir.DoubleType() else element.width // 8)

    def store(self, value: Any, pointer: Any) -> None:
        element = value.type.element
        self.builder.store(value, pointer, align=8 if element == ir.DoubleType() else element.width // 8)

    def row_of(self, heads: Any, arc: Any) -> Any:
        return self.builder.zext(self.builder.load(self.builder.gep(heads, [arc])), ir.IntType(64))

    def over(self, distances: Any, weights: Any, arc: Any) -> Any:
        """Return `distances` and the weight of an arc; a sum that is too large is the largest value."""
        weight = self.builder.load(self.builder.gep(weights, [arc]))
        return call(self.builder, "llvm.uadd.sat", distances, splat(self.builder, weight, self.distances))

    def splat_of(self, floats: Any, arc: Any) -> Any:
        return splat(self.builder, self.builder.load(self.builder.gep(floats, [arc])), self.floats)

    def sum(self, lanes: Any) -> Any:
        """Return the sum of all lanes: halves are added, so the order is the same on every machine."""
        width = self.n
        while width > 1:
            width //= 2
            index = ir.VectorType(ir.IntType(32), width)
            low, high = (
                self.builder.shuffle_vector(
                    lanes,
                    ir.Constant(lanes.type, ir.Undefined),
                    ir.Constant(index, list(range(first, first + width))),
                )
                for first in (0, width)
            )
            lanes = self.builder.fadd(low, high)
        return self.builder.extract_element(lanes, ir.IntType(32)(0))


@intrinsic
def count_lanes(
    typing_context: Any,
    rows: Any,
    values: Any,
    row: Any,
    is_filled: Any,
    heads: Any,
    weights: Any,
    arc_paths: Any,
    first: Any,
    end: Any,
) -> Any:
    """Set the distances and the numbers of paths of a row by the arcs into it.

    Parameters
    ----------
    rows, values
        (V * LANES,): the distances, and the numbers of paths, float64.
    row
        The vertex.
    is_filled
        Whether the row has distances and numbers of paths already, which then take part.
    heads, weights, arc_paths, first, end
        The arcs into the vertex are `first` to `end` of these arrays; an arc has so many paths.
    """
    number = rows.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = _Lanes(context, builder, signature, arguments, number)
        of_rows, of_paths, own, filled, of_heads, of_weights, of_arcs, begin, stop = lanes.data
        int64 = ir.IntType(64)
        own_distances, own_paths = (
            lanes.at(array, own, kind)
            for array, kind in ((of_rows, lanes.distances), (of_paths, lanes.floats))
        )
        unreached = constant(lanes.distances, 2**number.bitwidth - 1)
        best, total = (
            cgutils.alloca_once(builder, lanes.distances),
            cgutils.alloca_once(builder, lanes.floats),
        )
        had = builder.icmp_unsigned("!=", filled, filled.type(0))
        builder.store(unreached, best)
        with builder.if_then(had):
            builder.store(lanes.load(own_distances), best)
        with cgutils.for_range_slice(builder, begin, stop, int64(1), int64) as (arc, _):
            at_head = lanes.load(lanes.at(of_rows, lanes.row_of(of_heads, arc), lanes.distances))
            found = lanes.over(at_head, of_weights, arc)
            builder.store(call(builder, "llvm.umin", builder.load(best), found), best)
        distances = builder.load(best)
        builder.store(lanes.zeros, total)
        with builder.if_then(had):
            is_own = builder.icmp_unsigned("==", lanes.load(own_distances), distances)
            builder.store(builder.select(is_own, lanes.load(own_paths), lanes.zeros), total)
        with cgutils.for_range_slice(builder, begin, stop, int64(1), int64) as (arc, _):
            head = lanes.row_of(of_heads, arc)
            at_head = lanes.load(lanes.at(of_rows, head, lanes.distances))
            is_tight = builder.icmp_unsigned("==", lanes.over(at_head, of_weights, arc), distances)
            to_head = lanes.load(lanes.at(of_paths, head, lanes.floats))
            more = builder.fmul(to_head, lanes.splat_of(of_arcs, arc))
            builder.store(
                builder.fadd(builder.load(total), builder.select(is_tight, more, lanes.zeros)), total
            )
        lanes.store(distances, own_distances)
        lanes.store(builder.load(total), own_paths)
        return context.get_dummy_value()

    uint64 = types.uint64
    signature = types.void(rows, values, uint64, types.boolean, heads, weights, arc_paths, uint64, uint64)
    return signature, generate


@intrinsic
def rate_lanes(
    typing_context: Any,
    rows: Any,
    values: Any,
    row: Any,
    limit: Any,
    amount: Any,
    of_sources: Any,
    at_end: Any,
    tails: Any,
    weights: Any,
    arc_paths: Any,
    inner: Any,
    first: Any,
    end: Any,
    passing: Any,
    most: Any,
    ended: Any,
    totals: Any,
) -> Any:
    """Set the rates of a row by those of the arcs down from it, and return what passes the vertex.

    Parameters
    ----------
    rows, values
        As for `count_lanes`. The rates of a row take the place of its numbers of paths; lower rows have theirs.
    row
        The vertex.
    limit
        A lane counts if its distance is below. One whose distance is 0 is that of the source.
    amount
        float64: what ends at the vertex from a source of amount 1.
    of_sources
        (LANES,) float64: the amount of each source.
    at_end
        float64: the multiple of what ends here that is added to what passes.
    tails, weights, arc_paths, inner, first, end
        The arcs down from the vertex are `first` to `end` of these arrays; `tails` are their lower ends, and `inner`
        the vertices between the ends of a path.
    passing
        float64: raised by what passes each of the arcs, `first` to `end`.
    most, ended
        (LANES,) float64: raised to the numbers of paths, and by what ends here.
    totals
        (2 * LANES,) float64: raised by what passes this vertex and the vertices within the arcs, then by what passes
        the edges of the arcs.
    """
    number = rows.dtype

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lanes = _Lanes(context, builder, signature, arguments, number)
        (
            of_rows, of_values, own, bound, ends, of_lanes, counts, of_tails, of_weights, of_arcs, of_inner, begin,
            stop, of_passing, of_most, of_ended, of_totals,
        ) = lanes.data  # fmt: skip
        int64 = ir.IntType(64)
        own_values = lanes.at(of_values, own, lanes.floats)
        distances, to_own = lanes.load(lanes.at(of_rows, own, lanes.distances)), lanes.load(own_values)
        rate, within, over = (cgutils.alloca_once(builder, lanes.floats) for _ in range(3))
        for sum_of_arcs in (rate, within, over):
            builder.store(lanes.zeros, sum_of_arcs)
        with cgutils.for_range_slice(builder, begin, stop, int64(1), int64) as (arc, _):
            tail = lanes.row_of(of_tails, arc)
            at_tail = lanes.load(lanes.at(of_rows, tail, lanes.distances))
            is_tight = builder.icmp_unsigned("==", lanes.over(distances, of_weights, arc), at_tail)
            of_tail = lanes.load(lanes.at(of_values, tail, lanes.floats))
            part = builder.select(is_tight, builder.fmul(of_tail, lanes.splat_of(of_arcs, arc)), lanes.zeros)
            builder.store(builder.fadd(builder.load(rate), part), rate)
            passed = builder.gep(of_passing, [arc])
            flow = builder.fmul(to_own, part)
            builder.store(builder.fadd(builder.load(passed), lanes.sum(flow)), passed)
            builder.store(builder.fadd(builder.load(over), flow), over)
            of_arc = builder.fmul(flow, lanes.splat_of(of_inner, arc))
            builder.store(builder.fadd(builder.load(within), of_arc), within)
        behind = builder.load(rate)
        is_near = builder.icmp_unsigned("<", distances, splat(builder, bound, lanes.distances))
        is_other = builder.icmp_unsigned("!=", distances, constant(lanes.distances, 0))
        is_end = builder.and_(is_near, is_other)
        scales = lanes.load(lanes_at(builder, of_lanes, int64(0), lanes.floats))
        amounts = builder.fmul(splat(builder, ends, lanes.floats), scales)
        ending = builder.select(is_end, amounts, lanes.zeros)
        own_most, own_ended = (
            lanes_at(builder, array, int64(0), lanes.floats) for array in (of_most, of_ended)
        )
        is_more = builder.fcmp_ordered(">", to_own, lanes.load(own_most))
        lanes.store(builder.select(is_more, to_own, lanes.load(own_most)), own_most)
        lanes.store(builder.fadd(lanes.load(own_ended), ending), own_ended)
        through = builder.select(is_other, builder.fmul(to_own, behind), lanes.zeros)
        through = builder.fadd(through, builder.fmul(ending, splat(builder, counts, lanes.floats)))
        for place, more in enumerate((through, builder.load(over))):
            total = lanes_at(builder, of_totals, int64(place * lanes.n), lanes.floats)
            more = builder.fadd(builder.load(within), more)
            lanes.store(builder.fadd(lanes.load(total), more), total)
        of_end = builder.select(is_end, builder.fdiv(ending, to_own), lanes.zeros)
        lanes.store(builder.fadd(behind, of_end), own_values)
        return lanes.sum(through)

    uint64, float64 = types.uint64, types.float64
    signature = float64(
        rows,
        values,
        uint64,
        number,
        float64,
        of_sources,
        float64,
        tails,
        weights,
        arc_paths,
        inner,
        uint64,
        uint64,
        passing,
        most,
        ended,
        totals,
    )
    return signature, generate
