"""A run as the report shows it: run.json, metrics and a sample, made without solving anything."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sssp_pipeline.pipeline.results.report.page import render_report, report_facts
from sssp_pipeline.pipeline.results.report.sample import PlacedRow, SampledDistances

#: A text that must be escaped.
HOSTILE = '<script>alert(1)</script> & "x" \'</svg><img src=x onerror=alert(2)>'
#: When the first batch began, in milliseconds since 1970.
BEGIN_MS = 1_700_000_000_000


def run_record(**changes) -> dict:
    record = {
        "name": "road",
        "workflow": {
            "version": 1,
            "graph": {"input": "s3://bucket/road.gr"},
            "solve": {"cutoff": None},
            "output": {"path": "s3://bucket/run"},
        },
        "graph": {
            "n_vertices": 262144,
            "n_edges": 733846,
            "weights": {"dtype": "uint32", "unit": "metres", "min": 1, "max": 36946, "mean": 1293.3},
            "symmetric": True,
            "ids": {"kind": "offset", "type": "int64", "first_id": 1},
            "counts": {"edges_read": 733850, "self_loops_dropped": 4},
        },
        "identity": {"layout": "long", "unreached": None, "compression": "none", "predecessors": False},
        "sources": 3,
        "batches": 2,
        "solver": "delta-stepping",
        "solver_reason": "weights are not negative",
        "timings": {"ingest": 1.5, "solve": 12.25},
        "thread_s": {"load": 0.25, "solve": 11.0, "write": 1.0},
        "finished": "2026-03-04T05:06:07+00:00",
        "hardware": {"cpu": "a processor", "cores": 2, "memory_bytes": 1, "gpu": None},
        "versions": {"python": "3.11.7"},
        "files": {"distances/batch-00000.parquet": 1234, "metrics.parquet": 567},
        "verify": {"mode": "sample", "checked_sources": 3, "verify_s": 0.5, "refuted": None},
    }
    return record | changes


def metrics(n: int = 3, **changes) -> pa.Table:
    numbers = np.arange(n)
    columns = {
        "source": pa.array(numbers, pa.int64()),
        "batch": pa.array(numbers // 2, pa.int64()),
        "worker": pa.repeat("host:1", n),
        "device": pa.repeat("a GPU", n),
        "attempts": pa.repeat(1, n),
        # A batch takes a quarter of a second.
        "solved_at": pa.array(BEGIN_MS + (numbers // 2 + 1) * 250, pa.timestamp("ms", "UTC")),
        "solver": pa.repeat("adds", n),
        "solve_s": pa.array(0.25 * (numbers + 1), pa.float64()),
        "vertices_processed": pa.array([150] * n, pa.int64()),
        "edges_relaxed": pa.array([1000] * n, pa.int64()),
        "reached": pa.array([100] * n, pa.int64()),
        "max_distance": pa.array(10.0 * numbers, pa.float64()),
        "mean_distance": pa.array([4.5] * n, pa.float64()),
        "trace": pa.nulls(n, pa.list_(pa.struct([("time_us", pa.float64())]))),
    }
    return pa.table(columns | changes)


def many_metrics(n: int) -> pa.Table:
    """Return metrics of `n` sources that differ, as those of a real run do; the first two have traces."""
    draw = np.random.default_rng(1)
    names = ("time_us", "busy_workers", "words_queued", "delta")
    moments = ((float(t), int(500 * np.sin(t / 300) ** 2), t % 77, float(100 + t // 50)) for t in range(1000))
    trace = [dict(zip(names, moment, strict=True)) for moment in moments]
    return metrics(
        n,
        worker=pa.array([f"host{i % 300}:1" for i in range(n)]),
        attempts=pa.array(np.where(np.arange(n) // 2 % 97, 1, 2)),
        solved_at=pa.array(BEGIN_MS + np.sort(draw.integers(0, 900_000, n)), pa.timestamp("ms", "UTC")),
        solve_s=pa.array(draw.lognormal(-5, 0.3, n)),
        vertices_processed=pa.array(draw.integers(200_000, 400_000, n)),
        edges_relaxed=pa.array(draw.integers(700_000, 800_000, n)),
        reached=pa.array(draw.integers(150_000, 200_000, n)),
        max_distance=pa.array(draw.normal(1e6, 1e5, n)),
        mean_distance=pa.array(draw.gamma(9, 5e4, n)),
        trace=pa.array([trace] * min(n, 2) + [None] * max(n - 2, 0)),
    )


NO_SAMPLE = SampledDistances([], np.empty(0), None, "There is no histogram of distances.")


def a_sample(n: int = 40) -> SampledDistances:
    """Return distances of a square of n x n vertices, of which every tenth is unreached, with the first as source."""
    x, y = (axis.ravel().astype(float) for axis in np.meshgrid(np.arange(n), np.arange(n)))
    distances = np.hypot(x, y)
    placed = np.where(np.arange(n * n) % 10 == 9, np.nan, distances)
    return SampledDistances([7, 8], distances, PlacedRow(7, x, y, placed, 0, 1))


def page_of(run: dict, table: pa.Table, sample: SampledDistances) -> str:
    """Return the report as HTML."""
    return render_report(run, report_facts(run, table, sample))
