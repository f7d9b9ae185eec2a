"""Damaged stores, caches and ingests, and killed ingests: the short form of `benchmarks/faulty_stores.py`."""

import os

import pytest

SEED = int(os.environ.get("SSSP_KILL_SEED", "0"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def act(tmp_path, benchmark_module):
    """Give a function that carries out one of the acts and returns what it found."""
    faulty_stores = benchmark_module("faulty_stores")
    faulty_stores.write_inputs(tmp_path)
    return lambda name, count: faulty_stores.ACTS[name](tmp_path, count, SEED)


def outcomes(found):
    return {name.rpartition(": ")[2] for name in found["outcomes"]}


def test_a_damaged_store_gives_the_same_distances_or_a_clear_error(act):
    found = act("store", 120)
    assert (found["count"], found["bad"]) == (120, [])
    assert outcomes(found) == {"same", "error"}


def test_a_damaged_cache_is_loaded_again(act):
    found = act("cache", 200)
    assert (found["count"], found["bad"]) == (200, [])
    assert outcomes(found) == {"same"}


def test_what_is_damaged_of_an_interrupted_ingest_is_made_again(act):
    found = act("ingest", 150)
    assert (found["count"], found["bad"]) == (150, [])
    assert outcomes(found) == {"same"}


def test_a_killed_ingest_goes_on_to_the_same_graph(act):
    found = act("kill", 12)
    assert (found["kills"], found["bad"]) == (12, [])
    assert found["outcomes"]["ingest: same"] > 0  # or nothing was compared
