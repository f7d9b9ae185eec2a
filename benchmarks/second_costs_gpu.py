"""Second costs on a GPU: microseconds of a source without them, with sums on the GPU, and with sums on the host.

    python benchmarks/second_costs_gpu.py --data FOLDER [--cache FOLDER] [--graphs ny,ne]
        [--solvers adds-slots,adds-lanes,phast-gpu] [--sources 1024] [--targets 1000,all] [--rounds 3] [--no-host]

There is a line for each graph, solver and number of targets. The second costs are random integers. Times are the least
wall times of `--rounds` calls of the solver, whose results come in parts of 64 sources. `kernel_us` is the time of the
kernel that sums, without copies. The sums of the GPU must be those of the host; if not, the program ends.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from graphs import checked_names, load
from record import record

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow, Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph
from sssp_pipeline.kernels.gpu.common.rows.second_costs_on_device import SecondCostsOnDevice
from sssp_pipeline.kernels.host.second_costs import SecondCosts

PART = 64


def call(name: str, graph: CsrGraph, sources: np.ndarray, kept: KeptOfRow, along: Any) -> tuple[float, int]:
    """Return the seconds of a call of the solver called `name`, and a sum over its second costs."""
    ends = [*range(PART, len(sources), PART), len(sources)]
    options = SolveOptions(kept=kept, along=along, metrics=False)
    began, total = time.perf_counter(), 0
    for part in SOLVERS[name].solve_parts(graph, sources, options, ends):
        for costs in part.along:
            total += int(np.sum(costs[:, ::101].view(np.uint64) >> np.uint64(3), dtype=np.uint64))
    return time.perf_counter() - began, total


def kernel_s(graph: CsrGraph, sources: np.ndarray, kept: KeptOfRow, along: Any) -> float:
    """Return the least seconds of the GPU to sum up the second costs of rows that are there."""
    cupy = cupy_module()
    rows = cupy.empty((len(sources), graph.n_vertices), graph.weight_dtype)
    SOLVERS["adds-slots"].solve(graph, sources, SolveOptions(into=rows, metrics=False))
    on_device = SecondCostsOnDevice(device_graph(graph), SecondCosts(graph, along), kept, len(sources))
    sums, took = on_device.empty_sums(len(sources)), []
    for _ in range(4):
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        began.record()
        on_device.add(rows, sources, None, sums)
        ended.record()
        ended.synchronize()
        took.append(cupy.cuda.get_elapsed_time(began, ended) / 1e3)
    return min(took)


def measure(name: str, graph: CsrGraph, solver: str, n: int, targets: str, rounds: int, host: bool) -> None:
    rng = np.random.default_rng(1)
    along = (rng.integers(1, 1000, graph.n_edges).astype(np.int32),)
    sources = rng.integers(0, graph.n_vertices, n).astype(np.uint32)
    kept: KeptOfRow = EveryVertex()
    if targets != "all":
        kept = Targets(rng.integers(0, graph.n_vertices, int(targets)).astype(np.uint32))

    def least_s(costs: tuple[np.ndarray, ...]) -> tuple[float, int]:
        call(solver, graph, sources, kept, costs)  # compiles, and makes a hierarchy
        return min(call(solver, graph, sources, kept, costs) for _ in range(rounds))

    (without_s, _), (with_s, total) = least_s(()), least_s(along)
    host_us = None
    if host:
        with patch.object(type(SOLVERS[solver]), "sums_costs", False):
            host_s, of_host = call(solver, graph, sources, kept, along)
        assert of_host == total, f"{name}, {solver}: the sums of the GPU differ from those of the host"
        host_us = round(1e6 * host_s / n, 1)
    record(
        "second_costs_gpu",
        graph=name,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        solver=solver,
        n_sources=n,
        n_targets=None if targets == "all" else int(targets),
        source_us=round(1e6 * without_s / n, 2),
        source_along_us=round(1e6 * with_s / n, 2),
        times_as_long=round(with_s / without_s, 2),
        kernel_us=round(1e6 * kernel_s(graph, sources[:256], kept, along) / min(n, 256), 2),
        source_host_us=host_us,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    parser.add_argument("--graphs", default="ny,ne")
    parser.add_argument("--solvers", default="adds-slots,adds-lanes,phast-gpu")
    parser.add_argument("--sources", type=int, default=1024)
    parser.add_argument("--targets", default="1000,all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-host", action="store_true", help="leave out the sums on the host")
    given = parser.parse_args()
    for name in checked_names(parser, given.graphs, given.data):
        graph = load(name, given.data, given.cache)
        for solver in given.solvers.split(","):
            for targets in given.targets.split(","):
                measure(name, graph, solver, given.sources, targets, given.rounds, not given.no_host)


if __name__ == "__main__":
    main()
