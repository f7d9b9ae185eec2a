"""What becomes of the GPUs in the benchmark of several."""

import pytest


def test_the_losses_multiply_to_the_speed_up(benchmark_module):
    speedup = benchmark_module("gpus").speedup
    one = {"span_s": 10.0, "device_s": 9.0, "busiest_s": 9.0}
    many = {"span_s": 4.0, "device_s": 10.0, "busiest_s": 3.0}
    found = speedup(one, many, 4)
    assert found == {"times": 2.5, "slower": 0.1, "unequal": 0.167, "idle": 0.167}
    left = 4 * (1 - found["slower"]) * (1 - found["unequal"]) * (1 - found["idle"])
    assert left == pytest.approx(found["times"], abs=0.01)
    assert speedup(one, one, 1) == {"times": 1.0, "slower": 0.0, "unequal": 0.0, "idle": 0.0}
