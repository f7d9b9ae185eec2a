"""The file with the metrics of a batch: what comes back, and what a damaged one does."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.kernels.contract.solver import MetricsColumns, SourceMetrics
from sssp_pipeline.pipeline.results.batch_metrics import BatchMetrics, Place
from sssp_pipeline.pipeline.results.commits import Commit
from sssp_pipeline.pipeline.results.run_folder import RunFolder

PLACE = Place("höst:7", "NVIDIA H200", 2)
ONE = SourceMetrics(3, "dijkstra", 0.1, 3, 4, 3, 2**63 + 1, 2.5, math.inf)
IDS = VertexIds(IdMapping(kind="offset", type="int64", first_id=1), None, 9)


def there_and_back(metrics):
    found = BatchMetrics.of_bytes(BatchMetrics(PLACE, metrics).to_bytes())
    assert found.place == PLACE
    return list(found.metrics)


def test_each_value_comes_back():
    metrics = [
        ONE,
        replace(ONE, source=5, solve_s=0.3, delta_first=1.5),
        replace(ONE, source=3, supersteps=9),
    ]
    assert there_and_back(metrics) == metrics
    assert there_and_back(metrics[:1]) == metrics[:1]


def test_columns_of_a_gpu_come_back():
    numbers = np.arange(4, dtype=np.uint64)
    columns = {name: getattr(ONE, name) for name in vars(ONE)} | {
        "source": numbers.astype(np.uint32),
        "max_distance": numbers.astype(np.float32) / 3,
        "reached": numbers + np.uint64(2**60),
    }
    assert there_and_back(MetricsColumns(columns)) == list(MetricsColumns(columns))


@pytest.mark.parametrize("n_bytes", [0, 40, -1])
def test_a_file_cut_short_is_an_error_that_names_it(tmp_path, n_bytes):
    folder = RunFolder(str(tmp_path))
    content = Commit(0, "", {}, BatchMetrics(PLACE, [ONE]).to_bytes()).to_bytes()
    (tmp_path / "_run").mkdir()
    (tmp_path / "_run" / "batch-00000.commit").write_bytes(content[:n_bytes])
    with pytest.raises(InputError, match=r"_run/batch-00000.commit` is damaged: its checksum does not match"):
        folder.finish_metrics(1, IDS, None)
