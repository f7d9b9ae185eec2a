"""Vector instructions of searches that share words: one operation on the bits of all lanes of a vertex.

A lane is one of the sources that are searched together. A row has a bit for each lane, in W words of 64 bits, and every
vertex has a row. An array of rows is (V W,) uint64. `full` is the row of a vertex that every lane has reached: a tuple
of W words. So a kernel is compiled for each W, and LLVM takes the widest registers of the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.numba_cache import intrinsic
from sssp_pipeline.kernels.host.vectors import constant, data_of, lanes_at, splat

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core import cgutils, types
else:
    ir, cgutils, types = map(LazyModule, ("llvmlite.ir", "numba.core.cgutils", "numba.core.types"))

#: Results of `settle_row` and `pull_row`: what is true of a row is added.
HAS_NEW: Any = np.uint64(1)
IS_FULL: Any = np.uint64(2)


@intrinsic
def merge_row(typing_context: Any, found: Any, v: Any, frontier: Any, u: Any, full: Any) -> Any:
    """Add the bits of row `u` of `frontier` to row `v` of `found`; return whether row `v` had none."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature, arguments)
        place = rows.place(0, arguments[1])
        before = rows.load(place)
        rows.store(builder.or_(before, rows.load(rows.place(2, arguments[3]))), place)
        return rows.is_zero(before)

    return types.boolean(found, types.uint64, frontier, types.uint64, full), generate


@intrinsic
def pull_row(
    typing_context: Any,
    found: Any,
    visited: Any,
    v: Any,
    frontier: Any,
    starts: Any,
    first: Any,
    end: Any,
    full: Any,
) -> Any:
    """Set row `v` of `found` to the bits that `frontier` has for its neighbours and that row `v` of `visited` lacks.

    The neighbours are `starts[first:end]`. The loop ends as soon as no bit is missing. The row is zero before. Return
    `HAS_NEW`, or `IS_FULL` if no bit was missing at all.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature, arguments)
        v, first, end = (arguments[i] for i in (2, 5, 6))
        neighbours = data_of(context, builder, signature, arguments, 4)
        int64 = ir.IntType(64)
        missing = builder.xor(rows.load(rows.place(1, v)), rows.full)
        merged = cgutils.alloca_once_value(builder, constant(rows.vector, 0))
        builder.store(constant(rows.vector, 0), merged)
        is_full = rows.is_zero(missing)
        n_edges = builder.select(is_full, int64(0), builder.sub(end, first))
        with cgutils.for_range(builder, n_edges, intp=int64) as loop:
            u = builder.load(builder.gep(neighbours, [builder.add(first, loop.index)]))
            row = builder.or_(builder.load(merged), rows.load(rows.place(3, builder.zext(u, int64))))
            builder.store(row, merged)
            with builder.if_then(rows.is_zero(builder.and_(missing, builder.not_(row)))):
                loop.do_break()
        new = builder.and_(builder.load(merged), missing)
        has_new = builder.not_(rows.is_zero(new))
        with builder.if_then(has_new):
            rows.store(new, rows.place(0, v))
        return rows.facts(has_new, is_full)

    uint64 = types.uint64
    return uint64(found, visited, uint64, frontier, starts, uint64, uint64, full), generate


@intrinsic
def settle_row(typing_context: Any, found: Any, visited: Any, v: Any, full: Any) -> Any:
    """Take the bits of row `v` of `visited` out of row `v` of `found`, and add what is left to `visited`.

    Return the sum of `HAS_NEW`, and of `IS_FULL` if the new bits were the last ones missing.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature, arguments)
        of_found, of_visited = rows.place(0, arguments[2]), rows.place(1, arguments[2])
        before = rows.load(of_visited)
        new = builder.and_(rows.load(of_found), builder.not_(before))
        after = builder.or_(before, new)
        rows.store(new, of_found)
        rows.store(after, of_visited)
        has_new = builder.not_(rows.is_zero(new))
        return rows.facts(has_new, builder.and_(has_new, rows.is_zero(builder.xor(after, rows.full))))

    return types.uint64(found, visited, types.uint64, full), generate


@intrinsic
def is_same_row(typing_context: Any, array: Any, u: Any, v: Any, full: Any) -> Any:
    """Return whether the rows `u` and `v` of an array have the same bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature, arguments)
        one, other = (rows.load(rows.place(0, arguments[i])) for i in (1, 2))
        return rows.is_zero(builder.xor(one, other))

    return types.boolean(array, types.uint64, types.uint64, full), generate


@intrinsic
def clear_row(typing_context: Any, array: Any, v: Any, full: Any) -> Any:
    """Clear all bits of row `v` of an array."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature, arguments)
        rows.store(constant(rows.vector, 0), rows.place(0, arguments[1]))
        return context.get_dummy_value()

    return types.void(array, types.uint64, full), generate


@intrinsic
def count_row(typing_context: Any, array: Any, v: Any, counts: Any, full: Any) -> Any:
    """Add each bit of row `v` to the byte of its lane in `counts` (64 W,) uint8: an instruction a word with AVX-512."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature, arguments)
        lanes = ir.VectorType(ir.IntType(8), 64)
        for place, bits in rows.words(0, arguments[1], 2, lanes):
            counted = builder.sub(builder.load(place, align=1), builder.sext(bits, lanes))
            builder.store(counted, place, align=1)
        return context.get_dummy_value()

    return types.void(array, types.uint64, counts, full), generate


@intrinsic
def add_where_set(typing_context: Any, array: Any, v: Any, amount: Any, sums: Any, full: Any) -> Any:
    """Add `amount` to the sum of each lane in `sums` (64 W,) uint64 whose bit in row `v` is set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        rows = _Rows(context, builder, signature, arguments)
        lanes = ir.VectorType(ir.IntType(64), 64)
        amounts, none = splat(builder, arguments[2], lanes), constant(lanes, 0)
        for place, bits in rows.words(0, arguments[1], 3, lanes):
            added = builder.add(builder.load(place, align=8), builder.select(bits, amounts, none))
            builder.store(added, place, align=8)
        return context.get_dummy_value()

    return types.void(array, types.uint64, types.uint64, sums, full), generate


class _Rows:
    """Rows in the arrays that are arguments of an intrinsic; its last argument is `full`."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self._builder = builder
        self._arguments = context, builder, signature, arguments
        self._n_words = signature.args[-1].count
        self.vector = ir.VectorType(ir.IntType(64), self._n_words)
        self.full = ir.Constant(self.vector, ir.Undefined)
        for i in range(self._n_words):
            word = builder.extract_value(arguments[-1], i)
            self.full = builder.insert_element(self.full, word, ir.IntType(32)(i))

    def place(self, array: int, v: Any) -> Any:
        """Return the pointer to row `v` of the array that is argument number `array`."""
        first = self._builder.mul(v, v.type(self._n_words))
        return lanes_at(self._builder, data_of(*self._arguments, array), first, self.vector)

    def load(self, place: Any) -> Any:
        return self._builder.load(place, align=8)

    def store(self, row: Any, place: Any) -> None:
        self._builder.store(row, place, align=8)

    def is_zero(self, row: Any) -> Any:
        bits = self._builder.bitcast(row, ir.IntType(64 * self._n_words))
        return self._builder.icmp_unsigned("==", bits, bits.type(0))

    def facts(self, has_new: Any, is_full: Any) -> Any:
        """Return `HAS_NEW` and `IS_FULL`, as far as they are true."""
        int64 = ir.IntType(64)
        one, other = (self._builder.zext(fact, int64) for fact in (has_new, is_full))
        return self._builder.or_(one, self._builder.shl(other, int64(1)))

    def words(self, array: int, v: Any, of_lanes: int, lanes: Any) -> Iterator[tuple[Any, Any]]:
        """Yield for each word of row `v` the pointer to its 64 lanes of argument `of_lanes`, and its 64 booleans."""
        first = self._builder.mul(v, v.type(self._n_words))
        for i in range(self._n_words):
            index = self._builder.add(first, v.type(i))
            word = self._builder.load(self._builder.gep(data_of(*self._arguments, array), [index]))
            bits = self._builder.bitcast(word, ir.VectorType(ir.IntType(1), 64))
            yield lanes_at(self._builder, data_of(*self._arguments, of_lanes), v.type(64 * i), lanes), bits
