"""The real graphs whose files have a form of their own, written as edge lists that any workflow or bench can read.

    python benchmarks/paper_graphs.py --data FOLDER --output FOLDER

That is cnr-2000: its first line is the number of vertices, then each line lists where a vertex's edges lead.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from graphs import adjacency_list


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
