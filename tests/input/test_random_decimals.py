"""Random decimals against Python's `fractions`: the short form of `benchmarks/decimals.py`."""

import os

import pytest

SEED = int(os.environ.get("SSSP_KILL_SEED", "0"))


@pytest.mark.medium
def test_distances_are_the_exact_decimals_or_the_least_sums_of_floats(tmp_path, benchmark_module):
    found = benchmark_module("decimals").compare(tmp_path, 120, 8, SEED)
    assert found["bad"] == []
    assert {"right, scaled", "right, float64", "run: right, scaled"} <= found["outcomes"].keys()
