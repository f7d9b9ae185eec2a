"""Machine instructions that numba lacks and the CPU kernels need, and names for unsigned constants.

Kernels count in uint64 throughout. numba turns the sum of a uint64 and an int64 into a float, and a signed index costs
a test for negative values. So every constant below is uint64 too.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.numba_cache import intrinsic, njit

if TYPE_CHECKING:
    from llvmlite import ir
    from numba.core import cgutils, types
else:
    ir, cgutils, types = map(LazyModule, ("llvmlite.ir", "numba.core.cgutils", "numba.core.types"))

ZERO: Any = np.uint64(0)
ONE: Any = np.uint64(1)


def call(builder: Any, result: Any, name: str, *arguments: Any) -> Any:
    """Return what a function of C or an intrinsic function of LLVM returns, which is of the type `result`."""
    function_type = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, name), arguments)


@intrinsic
def sum_of(typing_context: Any, d: Any, weight: Any) -> Any:
    """Return the sum of a distance and a weight: floats in their type, integers in 64 bits and modulo 2^64.

    numba's `+` cannot be used: its code assumes that no signed sum wraps.
    """
    is_float = isinstance(d, types.Float)
    result = d if is_float else types.int64 if d.signed else types.uint64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        ends = zip(arguments, signature.args, strict=True)
        left, right = (context.cast(builder, value, kind, result) for value, kind in ends)
        return builder.fadd(left, right) if is_float else builder.add(left, right)

    return result(d, weight), generate


@njit(nogil=True, inline="always")
def fits(d: Any, weight: Any, total: Any) -> Any:
    """Return whether `total`, made by `sum_of`, did not wrap: a wrapped sum lies on the other side of `d`."""
    return total >= d if weight >= 0 else total <= d


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of `array[index]`; never faults, whatever the index."""
    return types.void(array, index), _prefetch(nearness=3)


@intrinsic
def prefetch_to_l2(typing_context: Any, array: Any, index: Any) -> Any:
    """Prefetch the cache line of `array[index]` into the second cache only; never faults, whatever the index.

    More lines can be under way to the second cache than to the first.
    """
    return types.void(array, index), _prefetch(nearness=2)


def _prefetch(nearness: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte_pointer, int32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte_pointer)
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], function_type)
        for_reading, data_cache = int32(0), int32(1)
        builder.call(function, [address, for_reading, int32(nearness), data_cache])
        return context.get_dummy_value()

    return generate


@intrinsic
def bit_length(typing_context: Any, value: Any) -> Any:
    """Return how many bits the uint64 `value` takes: 0 for 0, 1 for 1, 64 for the largest."""
    return _of_word(lambda builder, word: builder.sub(word.type(64), builder.ctlz(word, ir.IntType(1)(0))))


@intrinsic
def trailing_zeros(typing_context: Any, value: Any) -> Any:
    """Return how many zero bits the uint64 `value`, which is not 0, ends with."""
    return _of_word(lambda builder, word: builder.cttz(word, ir.IntType(1)(0)))


@intrinsic
def one_bits(typing_context: Any, value: Any) -> Any:
    """Return how many bits of the uint64 `value` are 1."""
    return _of_word(lambda builder, word: builder.ctpop(word))


def _of_word(make: Callable[[Any, Any], Any]) -> Any:
    """Return the signature of a function from uint64 to uint64, and the generator of what `make` builds."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return make(builder, arguments[0])

    return types.uint64(types.uint64), generate


@intrinsic
def bits_of(typing_context: Any, value: Any) -> Any:
    """Return the int64 with the bits of the float64 `value`. A view of an array takes numba 0.2 s to compile."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def bytes_at(typing_context: Any, array: Any, index: Any) -> Any:
    """Return the 8 bytes of a uint8 array from `index` on as one little-endian uint64."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        index = context.cast(builder, arguments[1], signature.args[1], types.int64)
        address = builder.bitcast(builder.gep(data, [index]), ir.IntType(64).as_pointer())
        word = builder.load(address, align=1)
        return word if sys.byteorder == "little" else builder.bswap(word)

    return types.uint64(array, index), generate


@intrinsic
def other_than_digits(typing_context: Any, array: Any, index: Any) -> Any:
    """Return a bit for each of the 64 bytes of a uint8 array from `index` on: 1 if it is no digit. Bit 0 is the first.

    This is one comparison of vectors. On big-endian machines all bits are 1.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        index = context.cast(builder, arguments[1], signature.args[1], types.int64)
        byte, word = ir.IntType(8), ir.IntType(64)
        vector = ir.VectorType(byte, 64)
        address = builder.bitcast(builder.gep(data, [index]), vector.as_pointer())
        zeros, nines = (ir.Constant(vector, [ir.Constant(byte, value)] * 64) for value in (ord("0"), 9))
        is_other = builder.icmp_unsigned(">", builder.sub(builder.load(address, align=1), zeros), nines)
        return builder.bitcast(is_other, word) if sys.byteorder == "little" else word(-1)

    return types.uint64(array, index), generate


@intrinsic
def pointer_to(typing_context: Any, address: Any) -> Any:
    """Return the address of an array in memory, an integer, as the pointer that `numba.carray` takes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(address), generate


@intrinsic
def read_file(typing_context: Any, file: Any, offset: Any, address: Any, n_bytes: Any) -> Any:
    """Read at most `n_bytes` of a file from `offset` on to an address; return how many, or -1 (POSIX `pread`)."""
    int64 = types.int64

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        file, offset, address, n_bytes = arguments
        descriptor, to = builder.trunc(file, ir.IntType(32)), builder.inttoptr(address, cgutils.voidptr_t)
        return call(builder, ir.IntType(64), "pread", descriptor, to, n_bytes, offset)

    return int64(int64, int64, int64, int64), generate


# ---- memory that several threads write ----
#
# The memory orders are named as in C++. A relaxed access is never torn, and guarantees no more. A load that acquires
# and reads a value that was stored with release also sees all writes before that store.


@intrinsic
def load_relaxed(typing_context: Any, array: Any, index: Any) -> Any:
    """Return `array[index]`."""
    return array.dtype(array, index), _load("monotonic")


@intrinsic
def load_acquire(typing_context: Any, array: Any, index: Any) -> Any:
    """Return `array[index]`, and see all writes before the store that released it."""
    return array.dtype(array, index), _load("acquire")


@intrinsic
def store_release(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Set `array[index]`. A thread that loads it with acquire sees all writes before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, stored = _as_integers(context, builder, signature, arguments)
        builder.store_atomic(stored, address, "release", stored.type.width // 8)
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic
def atomic_add(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Add to the integer `array[index]` and return its old value; acquires and releases."""
    return array.dtype(array, index, value), _read_modify_write("add", "acq_rel")


@intrinsic
def atomic_or(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Set the bits of `value` in the integer `array[index]` and return its old value; relaxed."""
    return array.dtype(array, index, value), _read_modify_write("or", "monotonic")


@intrinsic
def atomic_min(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Lower `array[index]` to `value` if that is less, and return its old value; relaxed.

    For unsigned integers, and for floats of zero or more, whose order is that of their bits.
    """
    return array.dtype(array, index, value), _read_modify_write("umin", "monotonic")


def _load(order: str) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, _ = _as_integers(context, builder, signature, arguments)
        loaded = builder.load_atomic(address, order, address.type.pointee.width // 8)
        return builder.bitcast(loaded, context.get_value_type(signature.return_type))

    return generate


def _read_modify_write(operation: str, order: str) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, operand = _as_integers(context, builder, signature, arguments)
        before = builder.atomic_rmw(operation, address, operand, order)
        return builder.bitcast(before, context.get_value_type(signature.return_type))

    return generate


def _as_integers(context: Any, builder: Any, signature: Any, arguments: Any) -> tuple[Any, Any]:
    """Return the address of `array[index]` as an integer pointer, and the value as an integer, or None without one."""
    array_type, index_type, *value_type = signature.args
    data = context.make_array(array_type)(context, builder, arguments[0]).data
    index = context.cast(builder, arguments[1], index_type, types.uint64)
    word = ir.IntType(array_type.dtype.bitwidth)
    address = builder.bitcast(builder.gep(data, [index]), word.as_pointer())
    if not value_type:
        return address, None
    value = context.cast(builder, arguments[2], value_type[0], array_type.dtype)
    return address, builder.bitcast(value, word)


# ---- time ----

#: The instruction that tells a core that its thread only waits, by machine: LLVM's name and its arguments.
_PAUSES = {
    "x86_64": ("llvm.x86.sse2.pause", ()),
    "aarch64": ("llvm.aarch64.hint", (1,)),
    "arm64": ("llvm.aarch64.hint", (1,)),
}


@intrinsic
def pause(typing_context: Any) -> Any:
    """Wait for some ten cycles, if the machine has an instruction for that."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine() in _PAUSES:
            name, numbers = _PAUSES[platform.machine()]
            call(builder, ir.VoidType(), name, *map(ir.IntType(32), numbers))
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def yield_core(typing_context: Any) -> Any:
    """Let a waiting thread use this core first (POSIX `sched_yield`)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        call(builder, ir.IntType(32), "sched_yield")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def clock_ns(typing_context: Any) -> Any:
    """Return the nanoseconds of a monotonic clock, uint64 (POSIX `clock_gettime`)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        int32, int64 = ir.IntType(32), ir.IntType(64)
        time_type = ir.ArrayType(int64, 2)  # seconds, nanoseconds
        time_spec = cgutils.alloca_once(builder, time_type)
        call(builder, int32, "clock_gettime", int32(time.CLOCK_MONOTONIC), time_spec)
        seconds, nanoseconds = (builder.extract_value(builder.load(time_spec), i) for i in range(2))
        return builder.add(builder.mul(seconds, int64(10**9)), nanoseconds)

    return types.uint64(), generate
