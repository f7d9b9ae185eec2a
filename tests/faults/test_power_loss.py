"""Crash states of ingests and runs: the short form of `benchmarks/power_loss.py`, with other states each seed."""

import os

import pytest

from sssp_pipeline.storage.durability import syncing

SEED = int(os.environ.get("SSSP_KILL_SEED", "0"))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_power_loss_costs_work_and_nothing_else(tmp_path, benchmark_module):
    power_loss = benchmark_module("power_loss")
    found = power_loss.lose_power(tmp_path, 260, SEED, list(power_loss.SCENARIOS))
    assert found["bad"] == []
    assert found["outcomes"] == {f"{name}: same": 20 for name in sorted(power_loss.SCENARIOS)}


@pytest.mark.medium
@pytest.mark.parametrize("name", ["long", "by tasks", "newer version"])
def test_each_command_ends_with_the_same_bytes_after_a_power_loss(name, tmp_path, benchmark_module):
    found = benchmark_module("power_loss").lose_power(tmp_path, 8, SEED, [name])
    assert found["outcomes"] == {f"{name}: same": 8}


@pytest.mark.medium
def test_without_syncs_a_power_loss_ends_in_a_clear_error_or_the_same_bytes(tmp_path, benchmark_module):
    power_loss = benchmark_module("power_loss")
    with syncing("off"):
        scenario = power_loss.Scenario(power_loss._run("long", storage={"sync": "off"}))
        power_loss.SCENARIOS["off"] = scenario
        found = power_loss.lose_power(tmp_path, 60, 1, ["off"])
    assert set(found["outcomes"]) == {"off: same", "off: error"}  # and no wrong number, no traceback
    assert any("is damaged" in what or "was altered" in what for *_, what in found["bad"])
