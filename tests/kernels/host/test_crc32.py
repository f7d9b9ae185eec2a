"""Checksums of parts against zlib's of the whole."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sssp_pipeline.kernels.host.crc32 import (
    advancing,
    appended,
    appended_of_any,
    correct_segments,
    of_ones,
    power_of_x,
    power_without_zeros,
    times,
)

ALL = 2**32 - 1
#: The first call of a function compiles it.
PATIENT = settings(deadline=None)
words = st.integers(0, ALL)


def remainder(part: bytes) -> int:
    """Return what a checksum of `part` is without its start and its end."""
    return zlib.crc32(part, ALL) ^ ALL


@PATIENT
@given(before=st.binary(max_size=20), parts=st.lists(st.binary(max_size=30), max_size=6))
def test_the_checksum_of_parts_is_that_of_the_whole(before, parts):
    remainders = np.array([remainder(part) for part in parts], np.uint32)
    n_bits = np.array([8 * len(part) for part in parts], np.int64)
    whole = zlib.crc32(before + b"".join(parts))
    assert appended(zlib.crc32(before), remainders, n_bits) == whole
    assert appended_of_any(zlib.crc32(before), remainders, n_bits) == whole


def test_parts_of_many_bytes():
    part = np.random.default_rng(1).bytes(3_000_001)
    remainders = np.full(3, remainder(part), np.uint32)
    assert appended(zlib.crc32(b"x"), remainders, np.full(3, 8 * len(part))) == zlib.crc32(b"x" + 3 * part)


def remainder_of_bits(bits: list[bool]) -> np.uint32:
    """Return the remainder of `bits`, one after the other."""
    state = 0
    for bit in bits:
        state ^= bit
        state = (state >> 1) ^ (0xEDB88320 if state & 1 else 0)
    return np.uint32(state)


def test_bits_are_those_of_bytes_from_the_lowest():
    part = np.frombuffer(b"some bytes", np.uint8)
    assert remainder_of_bits(np.unpackbits(part, bitorder="little").tolist()) == remainder(part.tobytes())


@PATIENT
@given(before=st.binary(max_size=9), parts=st.lists(st.lists(st.booleans(), max_size=40), max_size=6))
def test_the_checksum_of_bits_is_that_of_the_bytes_that_they_fill(before, parts):
    padding = [False] * (-sum(map(len, parts)) % 8)
    parts = [*parts, padding]
    remainders = np.array([remainder_of_bits(part) for part in parts], np.uint32)
    n_bits = np.array([len(part) for part in parts], np.int64)
    whole = np.packbits(np.array([bit for part in parts for bit in part], bool), bitorder="little").tobytes()
    for join in (appended, appended_of_any):
        assert join(zlib.crc32(before), remainders, n_bits) == zlib.crc32(before + whole)


@PATIENT
@given(bits=st.lists(st.booleans(), max_size=40), n_zeros=st.integers(0, 70))
def test_zeros_at_the_end_are_left_out(bits, n_zeros):
    padded = remainder_of_bits([*bits, *[False] * n_zeros])
    assert times(padded, power_without_zeros(n_zeros)) == remainder_of_bits(bits)


@pytest.mark.parametrize("width", [32, 64])
def test_bits_that_a_gpu_found_are_completed(width):
    segment, n_columns = 96, 2 * 96 + 5
    bits = np.random.default_rng(width).random((4, n_columns)) < 0.5
    bits[1] = bits[2, :segment] = True
    found = np.empty((4, 3), np.uint32)
    wanted, n_present = np.empty_like(found), np.empty_like(found)
    for i, k in np.ndindex(found.shape):
        some = bits[i, k * segment : (k + 1) * segment].tolist()
        padded = [*some, *[False] * (-len(some) % width)]
        n_present[i, k], wanted[i, k] = sum(some), remainder_of_bits(some)
        found[i, k] = 7 if all(some) else remainder_of_bits(padded)
    correct_segments(found, n_present, n_columns, segment, width)
    assert found.tolist() == wanted.tolist()


def test_ones():
    for n_bits in (*range(70), 1000):
        assert of_ones(n_bits) == remainder_of_bits([True] * n_bits)
    assert of_ones(2**19) == remainder(b"\xff" * 2**16)


@PATIENT
@given(a=words, b=words, c=words)
def test_products_are_those_of_a_commutative_ring(a, b, c):
    a, b, c = (np.uint32(word) for word in (a, b, c))
    assert times(a, b) == times(b, a)
    assert times(times(a, b), c) == times(a, times(b, c))
    assert times(a, b ^ c) == times(a, b) ^ times(a, c)
    assert times(a, power_of_x(0)) == a


@PATIENT
@given(first=st.integers(0, 2**40), second=st.integers(0, 2**40))
def test_powers_of_x_add(first, second):
    assert power_of_x(first + second) == times(power_of_x(first), power_of_x(second))


@PATIENT
@given(word=words, n_bits=st.integers(0, 10**6))
def test_tables_multiply_by_their_power(word, n_bits):
    tables = advancing(power_of_x(n_bits))
    looked_up = [tables[place, word >> (8 * place) & 255] for place in range(4)]
    assert np.bitwise_xor.reduce(looked_up) == times(np.uint32(word), power_of_x(n_bits))
