"""Vectors in kernels: LLVM makes them one instruction or a few, whatever the machine has.

numba 0.68 makes scalar code of its own short loops over arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.numba_cache import intrinsic

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core import types
else:
    ir, types = LazyModule("llvmlite.ir"), LazyModule("numba.core.types")

#: Rows and columns of the square that `turn` turns.
SQUARE: Any = np.uint64(8)


@intrinsic
def turn(
    typing_context: Any, rows: Any, at: Any, stride: Any, into: Any, place: Any, into_stride: Any
) -> Any:
    """Write a square of `SQUARE` rows and columns to `into`, with rows and columns exchanged.

    Both arrays have one dimension and one type. A row begins `stride` elements behind the one before, from the element
    `at` on; what is written begins at the element `place`.
    """
    n = int(SQUARE)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, into_data = (data_of(context, builder, signature, arguments, i) for i in (0, 3))
        _, at, stride, _, place, into_stride = arguments
        int64 = ir.IntType(64)
        vector = ir.VectorType(ir.IntType(rows.dtype.bitwidth), n)
        align = rows.dtype.bitwidth // 8
        read = []
        for i in range(n):
            index = builder.add(at, builder.mul(int64(i), stride))
            read.append(builder.load(lanes_at(builder, data, index, vector), align=align))
        for i, column in enumerate(transposed(builder, read)):
            index = builder.add(place, builder.mul(int64(i), into_stride))
            builder.store(column, lanes_at(builder, into_data, index, vector), align=align)
        return context.get_dummy_value()

    uint64 = types.uint64
    return types.void(rows, uint64, uint64, into, uint64, uint64), generate


def data_of(context: Any, builder: Any, signature: Any, arguments: Any, i: int) -> Any:
    """Return the pointer to the elements of the array that is argument `i`."""
    return context.make_array(signature.args[i])(context, builder, arguments[i]).data


def lanes_at(builder: Any, array: Any, index: Any, vector: Any) -> Any:
    """Return the pointer to the `vector` that begins at an element of an array."""
    return builder.bitcast(builder.gep(array, [index]), vector.as_pointer())


def constant(vector: Any, value: int) -> Any:
    """Return a constant vector with `value` in each place."""
    return ir.Constant(vector, [value] * vector.count)


def splat(builder: Any, value: Any, vector: Any) -> Any:
    """Return a vector with `value` in each place."""
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


def transposed(builder: Any, rows: list[Any]) -> list[Any]:
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
