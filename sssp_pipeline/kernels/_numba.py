"""What numba lacks and the CPU kernels need: two machine instructions, and names for unsigned constants.

Kernels count in uint64 throughout. numba makes a float of uint64 and int64 added together, and a signed index
costs a test for negative values, so every constant below is uint64 too.

NOTE: numba's disk cache looks at the file a kernel stands in, not at this one. After an edit here, delete the
`__pycache__` folder of the package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import types
from numba.extending import intrinsic

ZERO: Any = np.uint64(0)
ONE: Any = np.uint64(1)


@intrinsic
def sum_of(typing_context: Any, d: Any, weight: Any) -> Any:
    """Return a distance and a weight added: floats in their type, integers in 64 bits and modulo 2^64.

    What numba makes of `+` counts on it that no signed sum wraps.
    """
    is_float = isinstance(d, types.Float)
    result = d if is_float else types.int64 if d.signed else types.uint64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        ends = zip(arguments, signature.args, strict=True)
        left, right = (context.cast(builder, value, kind, result) for value, kind in ends)
        return builder.fadd(left, right) if is_float else builder.add(left, right)

    return result(d, weight), generate


@njit(nogil=True, cache=True, inline="always")
def fits(d: Any, weight: Any, total: Any) -> Any:
    """Return whether `total`, formed by `sum_of`, is the sum: a 64-bit one that wrapped lies on the other side of d."""
    return total >= d if weight >= 0 else total <= d


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of `array[index]`; never faults, whatever the index."""
    signature = types.void(array, index)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte_pointer)
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], function_type)
        for_reading, keep_in_every_cache, data_cache = int32(0), int32(3), int32(1)
        builder.call(function, [address, for_reading, keep_in_every_cache, data_cache])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def bit_length(typing_context: Any, value: Any) -> Any:
    """Return how many bits the uint64 `value` takes: 0 for 0, 1 for 1, 64 for the largest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        zero_is_defined = ir.IntType(1)(0)
        return builder.sub(ir.IntType(64)(64), builder.ctlz(arguments[0], zero_is_defined))

    return types.uint64(types.uint64), generate
