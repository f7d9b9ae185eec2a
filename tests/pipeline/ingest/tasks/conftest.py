"""Edge lists in several files, and tasks that few edges fill."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv as pa_csv

from sssp_pipeline.pipeline.graph_store.writing import part_files
from sssp_pipeline.pipeline.ingest.tasks import edge_reader, on_workers, read_by_tasks

#: Edges of a file.
N = 200


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch):
    """Let few edges fill a task, a range and a part."""
    monkeypatch.setattr(edge_reader, "_LEAST_INPUT_BYTES", 0)
    monkeypatch.setattr(read_by_tasks, "_FEWEST_TASK_BYTES", 1)
    monkeypatch.setattr(on_workers, "_FEWEST_ROW_EDGES", 100)
    monkeypatch.setattr(part_files, "PART_EDGES", 300)
    monkeypatch.setattr(part_files, "PART_ROWS", 100)


@pytest.fixture(scope="session")
def edge_files(ends):
    """Give a function that writes an edge list in five files, and returns the section that reads them."""

    def write(
        folder: Path, ids: str = "with gaps", suffix: str = "txt", weights: Sequence[str] = ("km",)
    ) -> dict:
        rng = np.random.default_rng(3)
        for number in range(5):
            # The ids of some tasks are their own codes, and the ids of others are not.
            kind = {"small and large": "sparse" if number == 2 else "dense"}.get(ids, ids)
            columns = {"from": ends(kind, rng, N), "to": ends(kind, rng, N)}
            for name in weights:
                whole = rng.integers(0, 9, N)
                columns[name] = (whole / 4 if number == 3 else whole).tolist()
            path = folder / f"edges-{number}.{suffix}"
            if suffix == "parquet":
                pq.write_table(pa.table(columns), path, row_group_size=70)
            elif suffix == "csv":
                pa_csv.write_csv(pa.table(columns), path)
            else:
                rows = [columns] if len(weights) > 1 else []
                rows += zip(*columns.values(), strict=True)
                text = "".join(" ".join(map(str, row)) + "\n" for row in rows).encode()
                path.write_bytes(gzip.compress(text, mtime=0) if suffix.endswith("gz") else text)
        return {"input": str(folder / f"edges-*.{suffix}")}

    return write
