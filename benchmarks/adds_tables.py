"""The effect of each part of `adds` on a GPU, for docs/adds-on-an-h200.md.

    python benchmarks/adds_tables.py --data FOLDER [--cache FOLDER] [--graphs ny,rmat-22] [--sources 2] [--rounds 5]

It needs a GPU and the folder with the real graphs. Every distance is compared with the CPU's delta-stepping. There
is one line for each graph. It has `near-far`, and `adds` in full, with a static delta and with two buckets. The
first delta is the one that `adds` picks, the one of `near-far` (as in the paper's ablations), or up to 16 times
smaller or larger. The variants take turns. A time is the device time of one source by CUDA events: the median over
the rounds, the mean over the sources. For some graphs the line has a trace. `bench` cannot do this: it has neither
deltas nor traces. `pages.py adds` renders the newest line of each graph.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from adds_page import KINDS, STARTS, TRACED
from graphs import checked_names, load
from record import record
from sources import far_reaching_sources

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.contract.solver import TRACE, SolveOptions, SourceMetrics
from sssp_pipeline.kernels.gpu.adds.adds import STATIC_DELTA, TWO_BUCKETS, Adds, pick_delta
from sssp_pipeline.kernels.gpu.near_far.near_far import NearFar
from sssp_pipeline.kernels.host.solver import Solver

VARIANTS: dict[str, Solver] = {
    "near-far": NearFar(),
    "full": Adds(),
    "static": Adds(STATIC_DELTA),
    "two buckets": Adds(TWO_BUCKETS),
}
#: About how many moments of a search are recorded.
MOMENTS = 300


def measure(name: str, graph: CsrGraph, n_sources: int, rounds: int) -> None:
    """Record a line for one graph; exits if a distance differs."""
    sources, reference = far_reaching_sources(graph, n_sources)

    def solve(variant: str, i: int, options: SolveOptions) -> SourceMetrics:
        solution = VARIANTS[variant].solve(graph, sources[i : i + 1], options)
        if not np.array_equal(solution.distances[0], reference[i]):
            sys.exit(f"{name}: {variant} and delta-stepping differ")
        return solution.metrics[0]

    picked = pick_delta(graph)
    near_fars = solve("near-far", 0, SolveOptions()).delta_first
    starts = [(variant, "near-far", near_fars) for variant in VARIANTS]
    starts += [("two buckets", "picked", picked)]
    starts += [(v, start, picked * times) for start, times in STARTS.items() for v in ("full", "static")]

    taken: list[list[list[SourceMetrics]]] = [[] for _ in starts]
    for turn in range(rounds + 1):
        for metrics, (variant, _, delta) in zip(taken, starts, strict=True):
            run = [solve(variant, i, SolveOptions(delta=delta)) for i in range(n_sources)]
            if turn:  # the first compiles, uploads, warms up
                metrics.append(run)
    runs = [
        {"variant": variant, "start": start, "delta": delta, **summary(metrics)}
        for metrics, (variant, start, delta) in zip(taken, starts, strict=True)
    ]
    trace = None
    if name in TRACED:
        (took_ms,) = (run["ms"] for run in runs if (run["variant"], run["start"]) == ("full", "picked"))
        options = SolveOptions(delta=picked, trace_every_us=max(1, round(1e3 * took_ms / MOMENTS)))
        moments = solve("full", 0, options).trace
        trace = {f: np.round(moments[f], 3).tolist() for f in TRACE.names}
    record(
        "adds_tables",
        graph=name,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        weight_dtype=graph.weight_dtype.name,
        mean_weight=round(graph.traits.mean_weight, 4),
        sources=sources.tolist(),
        reached=[m.reached for m in taken[0][0]],
        rounds=rounds,
        picked_over_mean_weight_by_degree=round(
            picked * graph.n_edges / graph.n_vertices / graph.traits.mean_weight, 3
        ),
        runs=runs,
        trace=trace,
    )


def summary(metrics: list[list[SourceMetrics]]) -> dict[str, float]:
    """Return time and work of one variant, from what each round gave for each source."""
    ms = np.array([[1e3 * m.solve_s for m in run] for run in metrics])
    flat = [m for run in metrics for m in run]
    return {
        "ms": round(float(np.median(ms, axis=0).mean()), 4),
        "ms_least": round(float(ms.min()), 4),
        "processed_a_reached_vertex": round(
            float(np.mean([m.vertices_processed / m.reached for m in flat])), 3
        ),
        "last_delta_over_first": round(float(np.median([m.delta_last / m.delta_first for m in flat])), 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", default=",".join(g for graphs in KINDS.values() for g in graphs))
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    parser.add_argument("--sources", type=int, default=2, help="sources with a large reach")
    parser.add_argument("--rounds", type=int, default=5, help="timed runs of each source")
    given = parser.parse_args()
    for name in checked_names(parser, given.graphs, given.data):
        measure(name, load(name, given.data, given.cache), given.sources, given.rounds)


if __name__ == "__main__":
    main()
