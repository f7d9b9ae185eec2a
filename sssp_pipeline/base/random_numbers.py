"""Random numbers from a seed: the same on every machine and with every release of NumPy.

NumPy does not promise that its random generators give the same numbers in later releases. So these numbers are hashes
of a counter (splitmix64), computed with integers. Threads can draw any of them, in any order.
"""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.errors import InputError

#: Numbers that are drawn at a time: few enough to stay in the cache of a core.
PART = 2**15


def random_bits(count: int, seed: int, stream: int, first: int = 0) -> np.ndarray:
    """Return the random uint64 [first, first + count) of a `stream`; every seed has many independent streams.

    They are the numbers of splitmix64, started at a hash of seed and stream.
    """
    check_seed(seed)
    start = _splitmix64(_splitmix64(np.array([seed % 2**64], np.uint64)) + np.uint64(stream))
    state = np.arange(first + 1, first + count + 1, dtype=np.uint64)
    state *= np.uint64(0x9E3779B97F4A7C15)
    state += start
    return _splitmix64(state)


def _splitmix64(state: np.ndarray) -> np.ndarray:
    """Apply the output function of splitmix64 (Steele, Lea, Flood, 2014) to every `state`, in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        state ^= state >> np.uint64(shift)
        state *= np.uint64(factor)
    state ^= state >> np.uint64(31)
    return state


def uniform(count: int, seed: int, stream: int, first: int = 0) -> np.ndarray:
    """Return `count` random float64 in [0, 1), multiples of 2**-53."""
    return (random_bits(count, seed, stream, first) >> np.uint64(11)) * 2.0**-53


def between(low: int, high: int, count: int, seed: int, stream: int, first: int = 0) -> np.ndarray:
    """Return the random uint32 [first, first + count) of a `stream`, from `low` to `high`, both included."""
    drawn = np.empty(count, np.uint32)
    for begin in range(0, count, PART):
        part = drawn[begin : begin + PART]
        bits = random_bits(len(part), seed, stream, first + begin)
        bits >>= np.uint64(32)
        bits *= np.uint64(high - low + 1)
        bits >>= np.uint64(32)
        bits += np.uint64(low)
        part[:] = bits
    return drawn


def check_seed(seed: float) -> None:
    """Raise `InputError` if `seed` is no whole number."""
    if not isinstance(seed, int):
        raise InputError(f"seed is {seed}", hint="a seed is a whole number")
