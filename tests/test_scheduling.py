"""The benchmark of scheduling measures a real run, and the page computed from what was recorded is fresh."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sssp_pipeline.pipeline.run import ingest_stage
from sssp_pipeline.progress import Quiet

pytestmark = pytest.mark.medium


@pytest.fixture
def scheduling(benchmark_module, monkeypatch, tmp_path):
    """Give the benchmark with results in a folder of their own, and its graph ingested."""
    module = benchmark_module("scheduling")
    monkeypatch.setattr(benchmark_module("record"), "RESULTS", tmp_path)
    ingest_stage(module.workflow_of(tmp_path, 1, "tcp://127.0.0.1:1"), Quiet())
    return module


def test_a_run_and_its_tasks_without_work_are_measured(scheduling, tmp_path):
    for variant, batches in (("run", 500), ("idle", 50)):
        scheduling.measure(variant, batches, 4, 1, tmp_path, every_s=0.05)
    ran, idle = map(json.loads, (tmp_path / "scheduling.jsonl").read_text().splitlines())
    assert len(list((tmp_path / "scheduling-run" / "distances").iterdir())) == 500
    assert not (tmp_path / "scheduling-run" / "_run").exists()
    assert (ran["batches"], ran["tasks"]) == (500, 250)  # two batches share a task
    assert set(ran["calls_s"]) == set(scheduling.AT_THE_END)
    assert (idle["batches"], idle["tasks"], idle["calls_s"]) == (50, 50, {})
    for line in (ran, idle):
        assert line["span_s"] > 0
        assert min(line["cpu_ms"][role] for role in ("client", "scheduler")) > 0
        # Numbers and sources of its batches, URLs and names: never a graph, distances or targets.
        assert 100 < line["bytes_a_batch"]["received"] < 10_000
        assert 100 < line["bytes_a_batch"]["sent"] < 10_000
        assert 50 < line["peak_mb"]["scheduler"] < 1000


def test_the_committed_page_is_what_the_recorded_lines_give(benchmark_module):
    scaling = benchmark_module("scaling")
    assert scaling.PAGE.read_text(encoding="utf-8") == scaling.page()


def test_what_is_short_limits(benchmark_module):
    scaling = benchmark_module("scaling")
    m = scaling.Measured(
        road_s=20e-12,
        smaller_road_s=20e-12,
        rmat_s={"adds": {1: 30e-12}, "adds-lanes": {1: 100e-12, 64: 3e-12}},
        written_bytes_per_s=1e9,
        scheduler_s=1e-4,
        client_s=1e-3,
        batch_end_s=1e-4,
        batch_client_bytes=1e3,
    )
    metrics_alone, _, every_distance, *_ = scaling.workloads(m)
    few, many = (scaling.outcome(metrics_alone, n, m) for n in (10, 4096))
    assert (few.limit, many.limit) == ("solving", "too few tasks")
    slow = replace(m, scheduler_s=5e-3)
    assert scaling.outcome(metrics_alone, 4096, slow).limit == "the scheduler"
    assert few.seconds == pytest.approx(23_947_347 * 20e-12 * 81_655_971 / 10, rel=0.01)
    assert many.efficiency < 0.6 < 0.98 < few.efficiency
    # 2.3 PB through 100 GB/s.
    assert scaling.outcome(every_distance, 1000, m).parts["the store"] == pytest.approx(22_939, rel=1e-3)
    # 256 rows of R-MAT 27 fit beside what lanes take of 139 GiB, and not of R-MAT 28.
    assert scaling._fastest(scaling.rmat(27), m, scaling.H200_BYTES)[0] == "adds-lanes"
    assert scaling._fastest(scaling.rmat(28), m, scaling.H200_BYTES)[0] == "adds"
    assert scaling._fastest(scaling.rmat(30), m, scaling.H200_BYTES) is None
