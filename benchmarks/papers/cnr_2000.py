"""Writes cnr-2000 as an edge list in Parquet, which any workflow or bench can read.

    python benchmarks/papers/cnr_2000.py --data FOLDER --output FOLDER

The first line of its file is the number of vertices. Each later line lists the targets of one vertex.
"""

from __future__ import annotations

import argparse
import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


def adjacency_list(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
    """Return src, dst and the number of vertices of the adjacency list at `path`."""
    with gzip.open(path, "rt") as file:
        n_vertices = int(file.readline())
        rows = [np.array(line.split(), np.uint32) for line in file]
    src = np.repeat(np.arange(n_vertices, dtype=np.uint32), [len(row) for row in rows])
    return src, np.concatenate(rows), n_vertices


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--output", type=Path, required=True)
    given = parser.parse_args()
    if given.data is None:
        parser.error("set --data or SSSP_TEST_DATA")
    src, dst, _ = adjacency_list(given.data / "cnr-2000.graph-txt.gz")
    given.output.mkdir(parents=True, exist_ok=True)
    path = given.output / "cnr-2000.parquet"
    pq.write_table(pa.table({"source": src, "target": dst}), path)
    print(f"{path}: {len(src):,} edges")


if __name__ == "__main__":
    main()
