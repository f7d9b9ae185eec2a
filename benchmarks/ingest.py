"""Text ingest: MB/s of the input and peak memory, in a process of its own, for a generated edge list.

python benchmarks/ingest.py [--mb 1000] [--folder .bench]
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from record import record

#: Bytes of a line: two ids of up to eight digits, a weight of up to three, white space.
BYTES_A_LINE = 19.2
EDGES_A_VERTEX = 10


def write_edge_list(path: Path, megabytes: int) -> int:
    """Write a text edge list of about that size, skewed like a social graph; return its number of lines."""
    n_edges = int(megabytes * 1e6 / BYTES_A_LINE)
    n_vertices = n_edges // EDGES_A_VERTEX
    rng = np.random.default_rng(1)
    options = pacsv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    schema = pa.schema([("src", pa.uint32()), ("dst", pa.uint32()), ("weight", pa.uint32())])
    with pacsv.CSVWriter(path, schema, write_options=options) as writer:
        for begin in range(0, n_edges, 2**20):
            n = min(2**20, n_edges - begin)
            # Squaring a uniform number makes low ids popular; the multiplication scatters them over all ids.
            popular = (rng.random(n) ** 2 * n_vertices).astype(np.uint64) * 2654435761 % n_vertices
            columns = (
                popular.astype(np.uint32),
                rng.integers(0, n_vertices, n, np.uint32),
                rng.integers(1, 1000, n, np.uint32),
            )
            writer.write_table(pa.table(list(columns), schema=schema))
    return n_edges


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=1000)
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    text = given.folder / f"edges-{given.mb}.txt"
    if not text.exists():
        write_edge_list(text, given.mb)
    workflow = given.folder / "ingest.yaml"
    store = given.folder / "ingest-graph"
    # JSON is YAML, and its quotes are always right.
    workflow.write_text(
        json.dumps(
            {
                "graph": {"input": str(text), "store": str(store)},
                "sources": {"all": True},
                "output": {"path": str(given.folder / "unused")},
            }
        )
    )
    command = [sys.executable, "-m", "sssp_pipeline.cli", "ingest", str(workflow), "--json"]
    for _ in range(3):
        shutil.rmtree(store, ignore_errors=True)
        began = time.perf_counter()
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        wall_s = time.perf_counter() - began
        manifest = json.loads(done.stdout)
        csr_bytes = 8 * (manifest["n_vertices"] + 1) + 8 * manifest["n_edges"]
        peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        record(
            "ingest",
            input_bytes=text.stat().st_size,
            n_vertices=manifest["n_vertices"],
            n_edges=manifest["n_edges"],
            wall_s=round(wall_s, 3),
            mb_per_s=round(text.stat().st_size / wall_s / 1e6, 1),
            peak_bytes=peak_bytes,
            csr_bytes=csr_bytes,
            peak_gib_beside_csr=round((peak_bytes - csr_bytes) / 2**30, 3),
        )
    shutil.rmtree(store)


if __name__ == "__main__":
    main()
