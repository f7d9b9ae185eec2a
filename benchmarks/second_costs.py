"""Second costs on the roads of New York, on one core: how much longer a run takes with `solve.along` than without.

    python benchmarks/second_costs.py --data FOLDER [--sources 128] [--rounds 3] [--solvers delta-stepping,phast]

The lengths are solved, and the times of travel are the second cost. Both are in one Parquet file, and parallel edges
are kept. Runs write whole rows, or the distances to 1,000 targets. Runs with and without second costs alternate, and
the medians of their processor time count. The graph, its hierarchy and the kernels are there before. A line has the
times of a source and the ratio.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from graphs import read
from record import record

import sssp_pipeline as sp

N_TARGETS = 1000


def write_roads(data: Path, to: Path) -> None:
    """Write each road with its length and its time: the two files list the same roads in the same order."""
    src, dst, lengths, _ = read(data / "USA-road-d.NY.gr.gz")
    src_of_times, dst_of_times, times, _ = read(data / "USA-road-t.NY.gr.gz")
    assert (src == src_of_times).all()
    assert (dst == dst_of_times).all()
    pq.write_table(pa.table({"src": src, "dst": dst, "length": lengths, "time": times}), to)


def run(folder: Path, solver: str, n_sources: int, with_targets: bool, with_costs: bool) -> float:
    """Return the seconds of processor time of a run."""
    weights: dict[str, Any] = {"several": [{"name": "length"}, {"name": "time"}]}
    targets = {"random": {"count": N_TARGETS, "seed": 2}} if with_targets else None
    out = folder / "out"
    data = {
        "graph": {
            "input": str(folder / "roads.parquet"),
            "store": str(folder / "graph"),
            "duplicates": "keep-all",
            "weights": weights,
        },
        "sources": {"random": {"count": n_sources, "seed": 1}},
        "solve": {"weights": ["length"], "solver": solver, "along": ["time"] if with_costs else []},
        "output": {"path": str(out), "targets": targets},
        "verify": "off",
        "report": False,
    }
    began = time.process_time()
    sp.run_each(data)
    took_s = time.process_time() - began
    shutil.rmtree(out)
    return took_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--solvers", default="delta-stepping,phast")
    parser.add_argument("--sources", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_roads(given.data, folder / "roads.parquet")
        for solver in given.solvers.split(","):
            for with_targets in (False, True):
                ways = [(solver, given.sources, with_targets, with_costs) for with_costs in (False, True)]
                for way in ways:  # ingests, and compiles
                    run(folder, *way)
                times = [[run(folder, *way) for way in ways] for _ in range(given.rounds)]
                without_s, with_s = map(median, zip(*times, strict=True))
                record(
                    "second_costs",
                    graph="NY",
                    solver=solver,
                    n_sources=given.sources,
                    n_targets=N_TARGETS if with_targets else None,
                    source_ms=round(1e3 * without_s / given.sources, 3),
                    source_along_ms=round(1e3 * with_s / given.sources, 3),
                    times_as_long=round(with_s / without_s, 2),
                )


if __name__ == "__main__":
    main()
