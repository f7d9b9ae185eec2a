"""Flows of trips on the roads of New York: a run of them beside a run without distances, and the memory of a trip.

    python benchmarks/flows.py --data FOLDER [--trips 1000000,10000000] [--sources 512] [--solvers delta-stepping,phast]
                               [--paths one,all]

Trips lead from some sources to any vertex, with random amounts, in a Parquet file. Both runs have the same sources and
solver, and neither a report nor verification. `flows_s` and `distances_s` are their processor times, `read_s` the part
of the first that reads and sorts the trips. `bytes_a_trip` is by how much the run of the flows raised the peak of the
memory of its process, divided by the number of trips; a run of 1,000 trips was before. The graph, its hierarchy and the
kernels are there before.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pairs import memory_kib
from record import record

import sssp_pipeline as sp
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.planning.selection import select
from sssp_pipeline.pipeline.run.graphs import Graphs
from sssp_pipeline.workflow.models import Workflow


def write_trips(folder: Path, n_trips: int, sources: np.ndarray, n_vertices: int) -> None:
    """Write trips, a million at a time; at least one begins at each of `sources`."""
    generator = np.random.default_rng(n_trips)
    with pq.ParquetWriter(folder / "trips.parquet", pa.schema([
        ("source", pa.int64()), ("target", pa.int64()), ("amount", pa.float64()),
    ])) as writer:  # fmt: skip
        for first in range(0, n_trips, 10**6):
            n = min(10**6, n_trips - first)
            ends = np.resize(sources, n), generator.integers(1, n_vertices + 1, n), generator.random(n)
            writer.write_table(pa.table(dict(zip(writer.schema.names, ends, strict=True))))


def workflow(data: Path, folder: Path, solver: str, paths: str | None) -> dict[str, Any]:
    """Return a run of flows along `paths`, or of no distances if that is None."""
    output: dict[str, Any] = {"path": str(folder / "out"), "distances": "none"}
    if paths is not None:
        output |= {"distances": "flows", "flows": {"file": str(folder / "trips.parquet"), "paths": paths}}
    return {
        "graph": {"input": str(data / "USA-road-d.NY.gr.gz"), "store": str(folder / "graph")},
        **({"sources": {"file": str(folder / "sources.txt")}} if paths is None else {}),
        "solve": {"solver": solver},
        "output": output,
        "verify": "off",
        "report": False,
    }


def run(folder: Path, given: dict[str, Any]) -> tuple[float, float]:
    """Return the processor time and the time of a run."""
    began, began_s = time.process_time(), time.perf_counter()
    sp.run(given)
    took = time.process_time() - began, time.perf_counter() - began_s
    shutil.rmtree(folder / "out")
    return took


def measure(data: Path, folder: Path, n_trips: int, n_sources: int, solver: str, paths: str) -> None:
    """Print and store the line of one number of trips."""
    n_vertices = 264_346
    sources = np.sort(np.random.default_rng(2).permutation(n_vertices)[:n_sources]) + 1
    (folder / "sources.txt").write_text("\n".join(map(str, sources)))
    of_flows, of_distances = (workflow(data, folder, solver, each) for each in (paths, None))
    write_trips(folder, 1000, sources, n_vertices)
    run(folder, of_flows)  # compiles
    run(folder, of_distances)
    distances_s, _ = run(folder, of_distances)
    write_trips(folder, n_trips, sources, n_vertices)
    before = memory_kib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    flows_s, wall_s = run(folder, of_flows)
    peak = memory_kib("VmHWM")
    asked, began = Workflow.model_validate(of_flows), time.process_time()
    select(asked, Graphs(asked, Quiet()).graph(None), Quiet())
    record(
        "flows",
        graph="NY",
        solver=solver,
        paths=paths,
        trips=n_trips,
        n_sources=n_sources,
        flows_s=flows_s,
        flows_wall_s=wall_s,
        read_s=time.process_time() - began,
        distances_s=distances_s,
        ratio=flows_s / distances_s,
        bytes_a_trip=1024 * (peak - before) / n_trips,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--trips", default="1000000,10000000")
    parser.add_argument("--sources", type=int, default=512)
    parser.add_argument("--solvers", default="delta-stepping,phast")
    parser.add_argument("--paths", default="one,all")
    parser.add_argument("--folder", type=Path, help="of this process only; it has the graph")
    given = parser.parse_args()
    if given.folder is not None:
        data, solver, paths = given.data, given.solvers, given.paths
        measure(data, given.folder, int(given.trips), given.sources, solver, paths)
        return
    with tempfile.TemporaryDirectory() as folder:
        for solver in given.solvers.split(","):
            for paths in given.paths.split(","):
                for n_trips in given.trips.split(","):
                    own = {"folder": folder, "trips": n_trips, "solvers": solver, "paths": paths}
                    own |= {"data": given.data, "sources": given.sources}
                    arguments = [text for name, value in own.items() for text in (f"--{name}", str(value))]
                    subprocess.run([sys.executable, __file__, *arguments], check=True)


if __name__ == "__main__":
    main()
