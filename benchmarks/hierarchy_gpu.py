"""`phast-gpu`: its preparation, and microseconds of the device a source beside `adds-slots`, by sources of a call.

    python benchmarks/hierarchy_gpu.py --data FOLDER [--graphs ny,ne,road-1m,grid-2048,delaunay] [--sources 1,32,1024]
        [--words 16,32] [--answers]

Each graph gives one line for each number of `--words`: words have at least so many bits. `word_bits` says how many they
have. `order_s` is the host's part of the preparation, `weights_s` the device's part, after a first one that compiles. A
call keeps `nothing` but its metrics, the distances to 1,000 `targets`, with metrics or without (`targets_alone`), or
whole `rows`; `near` keeps metrics within a cutoff that reaches about 1 % of the graph. All are timed without copies to
the host. A call of one source is the row "one source, prepared". `all_pairs_s` is the wall time for the metrics of many
sources, and what it would be for all. The rows of `adds-slots` must be the same.

`--answers` measures the kinds of answers of `answers.py` instead, as lines of `hierarchy_gpu_answers`: the search and
the reduction of a device batch, of several that are enqueued together. Few sources wait for the host. The words of the
first and the last source must be those of `delta-stepping`.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from answers import kinds_for, sources_of
from graphs import checked_names, load
from record import record

from sssp_pipeline.base.csr import CsrGraph, largest_distance
from sssp_pipeline.base.generators import path
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow, Nothing, Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions, metrics_column
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph, drop_others
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import Holding
from sssp_pipeline.kernels.gpu.phast_gpu import device_hierarchy, host_hierarchy
from sssp_pipeline.kernels.gpu.phast_gpu.phast_gpu import PhastGpu

ROUNDS = 5
#: Device batches that are enqueued together.
BATCHES = 8
OTHER = path(1).graph()


def device_us(solver: str, graph: CsrGraph, sources: np.ndarray, kept: KeptOfRow, **asked: Any) -> float:
    """Return the least microseconds of the device a source, of some calls; short calls vary more."""
    options = SolveOptions(kept=kept, **asked)
    took = [
        float(np.mean(metrics_column(SOLVERS[solver].solve(graph, sources, options).metrics, "solve_s")))
        for _ in range(1 + max(ROUNDS, 1024 // len(sources)))
    ]
    return 1e6 * min(took[1:])


def measure(name: str, graph: CsrGraph, counts: list[int], n_rival: int, n_all: int) -> None:
    rng = np.random.default_rng(1)
    began = time.perf_counter()
    host = host_hierarchy.host_hierarchy(graph)
    order_s = time.perf_counter() - began
    on_device = device_graph(graph)
    hierarchy = device_hierarchy.device_hierarchy(on_device, host)
    cupy_module().cuda.runtime.deviceSynchronize()
    began = time.perf_counter()
    device_hierarchy._make(on_device, host, max(32, hierarchy.bits), is_sure=True)
    cupy_module().cuda.runtime.deviceSynchronize()
    weights_s = time.perf_counter() - began

    targets = rng.choice(graph.n_vertices, 1000, replace=False).astype(np.uint32)
    row = SOLVERS["phast-gpu"].solve(graph, rng.integers(0, graph.n_vertices, 1), SolveOptions()).distances[0]
    cutoff = float(np.quantile(row[row < largest_distance(row.dtype)], 0.01))
    us = {}
    for count in counts:
        sources = rng.integers(0, graph.n_vertices, count)
        us[count] = {
            "nothing": device_us("phast-gpu", graph, sources, Nothing()),
            "near": device_us("phast-gpu", graph, sources, Nothing(), cutoff=cutoff),
            "targets": device_us("phast-gpu", graph, sources, Targets(targets)),
            "targets_alone": device_us("phast-gpu", graph, sources, Targets(targets), metrics=False),
            "rows": device_us("phast-gpu", graph, sources, EveryVertex()),
        }
    few = rng.choice(graph.n_vertices, n_rival, replace=False)
    rival_us = device_us("adds-slots", graph, few, Nothing())
    some = few[:64]
    rows = [SOLVERS[s].solve(graph, some, SolveOptions()).distances for s in ("phast-gpu", "adds-slots")]
    np.testing.assert_array_equal(*rows)
    many = rng.integers(0, graph.n_vertices, min(n_all, graph.n_vertices))
    began = time.perf_counter()
    SOLVERS["phast-gpu"].solve(graph, many, SolveOptions(kept=Nothing()))
    many_s = time.perf_counter() - began
    record(
        "hierarchy_gpu",
        graph=name,
        vertices=graph.n_vertices,
        edges=graph.n_edges,
        arcs=host.completion.n_arcs,
        order_s=order_s,
        weights_s=weights_s,
        word_bits=hierarchy.bits,
        hierarchy_bytes=hierarchy.bits // 8 * sum(int(words[-1]) for words in host.words_before),
        us=us,
        adds_slots_us=rival_us,
        rival_sources=n_rival,
        metrics={
            "sources": len(many),
            "wall_s": many_s,
            "all_pairs_s": many_s * graph.n_vertices / len(many),
        },
    )


def answer_us(graph: CsrGraph, sources: np.ndarray, kept: KeptOfRow) -> float:
    """Return the least microseconds of the device a source, of some device batches that keep `kept`."""
    cupy, solver, options = cupy_module(), SOLVERS["phast-gpu"], SolveOptions(kept=kept)
    assert isinstance(solver, PhastGpu)
    n_batches = ROUNDS * (1 + BATCHES)
    end = n_batches * len(sources)
    search, buffers = solver._begin(graph, np.tile(sources, n_batches), options, [end])
    try:
        assert buffers[0].n_rows >= len(sources)
        took = []
        for _ in range(ROUNDS):
            held = []  # the host memory of launches, until all are over
            began, ended = cupy.cuda.Event(), cupy.cuda.Event()
            for i in range(1 + BATCHES):
                if i == 1:
                    began.record()
                buffers[0].launch(search, sources)
                held.append((buffers[0]._counts, buffers[0]._summariser._fetched))
            ended.record()
            ended.synchronize()
            took.append(cupy.cuda.get_elapsed_time(began, ended))
    finally:
        Holding.n_calls -= 1
    return 1e3 * min(took) / BATCHES / len(sources)


def measure_answers(name: str, graph: CsrGraph, counts: list[int]) -> None:
    us: dict[int, dict[str, float]] = {}
    for count in counts:
        sources, radius = sources_of(graph, count)
        us[count] = {}
        for kind, kept in kinds_for(graph, radius).items():
            options, ends = SolveOptions(kept=kept), [0, len(sources) - 1]
            found = SOLVERS["phast-gpu"].solve(graph, sources, options).distances[ends]
            expected = SOLVERS["delta-stepping"].solve(graph, sources[ends], options).distances
            np.testing.assert_array_equal(found, expected, kind)
            us[count][kind] = round(answer_us(graph, sources, kept), 3)
    bits = device_hierarchy.device_hierarchy(device_graph(graph), host_hierarchy.host_hierarchy(graph)).bits
    record(
        "hierarchy_gpu_answers",
        graph=name,
        vertices=graph.n_vertices,
        edges=graph.n_edges,
        word_bits=bits,
        us=us,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--graphs", default="ny,ne,road-1m,grid-2048,delaunay")
    parser.add_argument("--sources", default="1,8,32,64,256,1024", help="numbers of sources of a call")
    parser.add_argument("--rival", type=int, default=1024, help="sources of adds-slots")
    parser.add_argument("--all", type=int, default=2**18, help="the most sources for metrics alone")
    parser.add_argument("--words", default="16", help="the least bits of a word: 16, 32 or 64")
    parser.add_argument("--answers", action="store_true", help="measure answers instead")
    given = parser.parse_args()
    for name in checked_names(parser, given.graphs, given.data):
        graph = load(name, given.data, given.cache)
        counts = [int(count) for count in given.sources.split(",")]
        for bits in given.words.split(","):
            device_hierarchy.LEAST_BITS = int(bits)
            if given.answers:
                measure_answers(name, graph, counts)
            else:
                measure(name, graph, counts, given.rival, given.all)
            drop_others(OTHER)  # its hierarchy too, which has words of this width


if __name__ == "__main__":
    main()
