"""Reading edge lists: MB/s of the file, by kind of file and number of threads. The edges are not used.

python benchmarks/formats.py [--mb 200] [--threads 1 2]
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from record import record

from sssp_pipeline.pipeline.formats.detect import open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions

#: The text of a row of each kind, from two ids below five million, a whole weight and a decimal weight.
ROWS: dict[str, Callable[[int, int, int, float], str]] = {
    "text-integers": lambda u, v, w, x: f"{u} {v} {w}\n",
    "text-no-weights": lambda u, v, w, x: f"{u}\t{v}\n",
    "text-decimals": lambda u, v, w, x: f"{u} {v} {x:.3f}\n",
    "text-17-digits": lambda u, v, w, x: f"{u} {v} {x!r}\n",
    "text-strings": lambda u, v, w, x: f"v{u} v{v} {w}\n",
    "text-gzip": lambda u, v, w, x: f"{u} {v} {w}\n",
    "csv": lambda u, v, w, x: f"{u},{v},{w}\n",
}
RUNS = 5


def file_content(kind: str, n_bytes: int) -> bytes:
    """Return rows of `kind`, `n_bytes` or a little more; 200,000 rows, repeated."""
    rng = np.random.default_rng(1)
    n = 200_000
    columns = (
        rng.integers(0, 5_000_000, n),
        rng.integers(0, 5_000_000, n),
        rng.integers(1, 1000, n),
        rng.random(n),
    )
    rows = "".join(map(ROWS[kind], *(column.tolist() for column in columns))).encode()
    return rows * (n_bytes // len(rows) + 1)


def read_s(path: Path, n_threads: int) -> float:
    """Return the seconds of reading all chunks."""
    began = time.perf_counter()
    for _ in open_edge_list([str(path)], ReadOptions()).chunks(n_threads):
        pass
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mb", type=int, default=200)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges"
        for kind in ROWS:
            content = file_content(kind, given.mb * 1_000_000)
            path.write_bytes(gzip.compress(content, 6) if kind == "text-gzip" else content)
            for n_threads in given.threads:
                read_s(path, n_threads)  # compiles, and brings the file into memory
                seconds = sorted(read_s(path, n_threads) for _ in range(RUNS))
                record(
                    "formats",
                    kind=kind,
                    threads=n_threads,
                    text_bytes=len(content),
                    median_s=round(seconds[RUNS // 2], 4),
                    mb_per_s=round(len(content) / seconds[RUNS // 2] / 1e6, 1),
                    best_mb_per_s=round(len(content) / seconds[0] / 1e6, 1),
                )


if __name__ == "__main__":
    main()
