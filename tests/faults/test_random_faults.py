"""Faults at places and moments that differ with each seed: the short forms of the programs of the same names.

`benchmarks/faulty_runs.py` damages and kills runs, `faulty_stores.py` damages stores, caches and ingests and kills
ingests, and `power_loss.py` makes the states in which a crash may leave a disk.
"""

import os

import pytest

from sssp_pipeline.storage.durability import syncing

SEED = int(os.environ.get("SSSP_KILL_SEED", "0"))

pytestmark = pytest.mark.timeout(600)


@pytest.mark.slow
def test_damaged_runs_give_the_same_bytes_or_a_clear_error(tmp_path, benchmark_module):
    faulty_runs = benchmark_module("faulty_runs")
    found = faulty_runs.damage(tmp_path, 80, SEED, list(faulty_runs.OUTPUTS))
    assert found["bad"] == []
    states = ("unfinished", "solved", "combined", "finished")
    assert {f"{state}: same" for state in states} <= set(found["outcomes"])


@pytest.mark.slow
def test_killed_runs_give_the_same_bytes(tmp_path, benchmark_module):
    faulty_runs = benchmark_module("faulty_runs")
    found = faulty_runs.kill(tmp_path, 10, SEED, ["long", "wide", "reduced"])
    assert found["bad"] == []
    assert found["kills"] == 10
    assert found["finished"] > 0  # or nothing was compared


# A damaged store gives the same distances or a clear error. A damaged cache is loaded again, and damaged parts of an
# interrupted ingest are made again.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "count", "outcomes"),
    [("store", 70, {"same", "error"}), ("cache", 100, {"same"}), ("ingest", 80, {"same"})],
)
def test_damaged_stores_caches_and_ingests(tmp_path, benchmark_module, act, count, outcomes):
    faulty_stores = benchmark_module("faulty_stores")
    faulty_stores.write_inputs(tmp_path)
    found = faulty_stores.ACTS[act](tmp_path, count, SEED)
    assert (found["count"], found["bad"]) == (count, [])
    assert {name.rpartition(": ")[2] for name in found["outcomes"]} == outcomes


@pytest.mark.slow
def test_a_killed_ingest_goes_on_to_the_same_graph(tmp_path, benchmark_module):
    faulty_stores = benchmark_module("faulty_stores")
    faulty_stores.write_inputs(tmp_path)
    found = faulty_stores.ACTS["kill"](tmp_path, 12, SEED)
    assert (found["kills"], found["bad"]) == (12, [])
    assert found["outcomes"]["ingest: same"] > 0  # or nothing was compared


@pytest.mark.slow
def test_a_power_loss_costs_work_and_nothing_else(tmp_path, benchmark_module):
    power_loss = benchmark_module("power_loss")
    found = power_loss.lose_power(tmp_path, 130, SEED, list(power_loss.SCENARIOS))
    assert found["bad"] == []
    assert found["outcomes"] == {f"{name}: same": 10 for name in sorted(power_loss.SCENARIOS)}


@pytest.mark.medium
@pytest.mark.parametrize(
    ("name", "count"), [("long", 8), ("by tasks", 8), ("newer version", 8), ("cut batch", 40)]
)
def test_each_command_ends_with_the_same_bytes_after_a_power_loss(name, count, tmp_path, benchmark_module):
    found = benchmark_module("power_loss").lose_power(tmp_path, count, SEED, [name])
    assert found["outcomes"] == {f"{name}: same": count}


@pytest.mark.medium
def test_without_syncs_a_power_loss_ends_in_a_clear_error_or_the_same_bytes(tmp_path, benchmark_module):
    power_loss = benchmark_module("power_loss")
    with syncing("off"):
        scenario = power_loss.Scenario(power_loss._run("long", storage={"sync": "off"}))
        power_loss.SCENARIOS["off"] = scenario
        found = power_loss.lose_power(tmp_path, 60, 1, ["off"])
    assert set(found["outcomes"]) == {"off: same", "off: error"}  # and no wrong number, no traceback
    assert any("is damaged" in what or "was altered" in what for *_, what in found["bad"])
