"""XXH64 has the published values, and finds each change of a part."""

import numpy as np
import pytest

from sssp_pipeline.kernels.host.xxh64 import are_parts_whole, sums_of_parts, xxh64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_published_values(text, expected):
    data = np.frombuffer(b"??" + text + b"?", np.uint8)
    assert int(xxh64(data, 2, 2 + len(text))) == expected


def test_each_flipped_bit_is_found():
    data = np.random.default_rng(1).integers(0, 256, 4 * 31, dtype=np.uint8)
    bounds = np.array([0, 0, 1, 4, 12, 31])
    sums = sums_of_parts(data, bounds, 4)
    assert are_parts_whole(data, bounds, 4, sums)
    assert are_parts_whole(data[4:48], bounds[2:5], 4, sums[2:4])
    for bit in range(8 * len(data)):
        data[bit // 8] ^= 1 << bit % 8
        assert not are_parts_whole(data, bounds, 4, sums)
        data[bit // 8] ^= 1 << bit % 8
