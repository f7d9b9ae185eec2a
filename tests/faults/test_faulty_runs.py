"""Damaged and killed runs: the short form of `benchmarks/faulty_runs.py`, with other places and moments each seed."""

import os

import pytest

SEED = int(os.environ.get("SSSP_KILL_SEED", "0"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_damaged_runs_give_the_same_bytes_or_a_clear_error(tmp_path, benchmark_module):
    faulty_runs = benchmark_module("faulty_runs")
    found = faulty_runs.damage(tmp_path, 120, SEED, list(faulty_runs.OUTPUTS))
    assert found["bad"] == []
    states = ("unfinished", "solved", "merged", "finished")
    assert {f"{state}: same" for state in states} <= set(found["outcomes"])


def test_killed_runs_give_the_same_bytes(tmp_path, benchmark_module):
    faulty_runs = benchmark_module("faulty_runs")
    found = faulty_runs.kill(tmp_path, 10, SEED, ["long", "wide", "reduced"])
    assert found["bad"] == []
    assert found["kills"] == 10
    assert found["finished"] > 0  # or nothing was compared
