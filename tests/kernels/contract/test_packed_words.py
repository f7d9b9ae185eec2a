"""Sums are packed without the places that no path passes."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.kernels.contract import packed_words
from sssp_pipeline.kernels.contract.packed_words import PackedWords, packed


def words_of(n_places: int, share: float) -> np.ndarray:
    rng = np.random.default_rng(1)
    words = rng.integers(1, 99, (n_places, 4)).astype(np.uint64)
    words[:, :2] = 0  # one word is enough
    words[rng.random(n_places) > share] = 0
    return words


@pytest.mark.parametrize(("share", "n_packed"), [(0.0, 0), (0.3, 12), (0.9, 37)])
def test_places_without_words_are_left_out_if_they_are_many(share, n_packed):
    words = words_of(37, share)
    found = PackedWords.of(words)
    assert found.words.shape == (n_packed, 4)
    assert found.bits.shape == (5,)
    assert np.bitwise_count(found.bits).sum() == n_packed
    assert found.nbytes == 5 + 32 * n_packed
    assert_array_equal(found.unpacked(37), words)


def test_half_of_the_places_are_packed():
    words = np.zeros((8, 2), np.uint64)
    words[:4, 1] = 7
    assert PackedWords.of(words).bits.tolist() == [15]
    words[4, 0] = 7
    assert PackedWords.of(words).bits.tolist() == [255]


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_places_that_are_packed_at_a_time_change_no_byte(monkeypatch, share):
    words = words_of(37, share)
    whole = [array.tobytes() for array in packed(words)]
    monkeypatch.setattr(packed_words, "_PLACES", 8)
    divided = [array.tobytes() for array in packed(words)]
    assert b"".join(divided) == b"".join(whole)
    assert [array.tobytes() for array in packed(PackedWords.of(words))] == whole


def test_to_pack_takes_little_memory(monkeypatch):
    monkeypatch.setattr(packed_words, "_PLACES", 2**16)
    words = np.zeros((2**19, 2), np.uint64)
    words[::3] = 5
    tracemalloc.start()
    try:
        for array in packed(words):
            del array
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < words.nbytes / 4
