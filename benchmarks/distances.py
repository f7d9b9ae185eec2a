"""Distances to local Parquet on one thread: MB/s of distances and file bytes a distance byte, by layout.

    python benchmarks/distances.py [--vertices 264346] [--sources 32] [--folder .bench]

In the same run it measures a plain write of the same bytes, and pyarrow with its defaults: dictionaries and snappy
pages.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from record import record

from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.layouts import LAYOUTS
from sssp_pipeline.storage.files import open_atomic

ROUNDS = 5


def write_by_default(path: Path, distances: np.ndarray) -> None:
    """Write the long layout with pyarrow's defaults."""
    source, vertex = np.indices(distances.shape)
    columns = {"source": source.ravel(), "vertex": vertex.ravel(), "distance": distances.ravel()}
    pq.write_table(pa.table(columns), path)


def write_as_we_do(path: Path, distances: np.ndarray, layout: str) -> None:
    """Write `layout` as a run does it."""
    ids = VertexIds(IdMapping(kind="offset", type="int64"), None, distances.shape[1])
    sources = np.arange(len(distances), dtype=np.uint32)
    form = DistanceFormat(layout, None, "none", predecessors=False)
    with open_atomic(str(path), plain=True) as handle:
        LAYOUTS[layout](form, None).write(handle, sources, Solution(distances, None), ids)


def write_raw(path: Path, distances: np.ndarray) -> None:
    """Write the distances as they are in memory."""
    with open_atomic(str(path), plain=True) as handle:
        handle.write(distances)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--vertices", type=int, default=264_346)
    parser.add_argument("--sources", type=int, default=32)
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    path = given.folder / "distances.parquet"
    pa.set_cpu_count(1)
    distances = np.random.default_rng(0).integers(0, 2_000_000, (given.sources, given.vertices), np.uint32)
    with_nulls = np.where(distances % 10 == 0, unreached_distance(distances.dtype), distances)
    ways: dict[str, Callable[[], None]] = {
        "raw": lambda: write_raw(path, distances),
        "long": lambda: write_as_we_do(path, distances, "long"),
        "wide": lambda: write_as_we_do(path, distances, "wide"),
        "long, 10 % NULL": lambda: write_as_we_do(path, with_nulls, "long"),
        "wide, 10 % NULL": lambda: write_as_we_do(path, with_nulls, "wide"),
        "pyarrow defaults": lambda: write_by_default(path, distances),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    sizes = {}
    for _ in range(ROUNDS):
        for name, write in ways.items():
            path.unlink(missing_ok=True)
            began = time.perf_counter()
            write()
            seconds[name].append(time.perf_counter() - began)
            sizes[name] = path.stat().st_size
    path.unlink()
    record(
        "distances",
        n_vertices=given.vertices,
        sources=given.sources,
        mb_per_s={name: round(distances.nbytes / median(took) / 1e6, 1) for name, took in seconds.items()},
        file_bytes_per_distance_byte={
            name: round(size / distances.nbytes, 3) for name, size in sizes.items()
        },
    )


if __name__ == "__main__":
    main()
