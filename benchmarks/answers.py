"""What answers cost beside the search: the wall time of calls that keep answers over that of calls that keep nothing.

    python benchmarks/answers.py --data FOLDER [--cache FOLDER] [--graphs ny,ne,rmat-22] [--sources 1024]
        [--solvers auto,adds] [--rounds 5]

There is one line for each graph and solver. `auto` is the solver that a run would take. Each call has the same sources,
and the kinds of answers take turns, so that a machine that slows down slows all of them. The first round is not timed;
times are medians. `over_nothing` is the time of a kind over that of `nothing`, where only the metrics of each source
are made: 1.1 is 10 % more. The words that the first and the last source keep are compared with those of delta-stepping
on the CPU, and those of each vertex over these two sources. If one differs, the program ends.

On a CPU, `--solvers delta-stepping` measures the same.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np
from graphs import checked_names, load
from record import record
from sources import LARGE_REACH

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import KeptOfRow, Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.planning.choice import choose_solver
from sssp_pipeline.pipeline.planning.machine import this_machine
from sssp_pipeline.pipeline.planning.work import Work, batch_size
from sssp_pipeline.workflow.models import Solve


def kinds_for(graph: CsrGraph, radius: float) -> dict[str, KeptOfRow]:
    """Return what is kept, by the name in the lines; half of the vertices are within `radius`."""
    generator = np.random.default_rng(1)
    some = generator.permutation(graph.n_vertices).astype(np.uint32)
    amounts = generator.integers(0, 1000, (1, graph.n_vertices))
    return {
        "nothing": Nothing(),
        "targets_1000": Targets(some[:1000]),
        "sum_closeness_eccentricity": Reductions(),
        "harmonic": Reductions((), None, harmonic=True),
        "within_3": Reductions((radius / 4, radius / 2, radius)),
        "harmonic_within_3_amount": Reductions((radius / 4, radius / 2, radius), amounts, harmonic=True),
        "histogram_20": Reductions(bounds=tuple(np.linspace(0, 2 * radius, 21).tolist())),
        "quantiles_3": Reductions(shares=(0.1, 0.5, 0.9)),
        "vertices_nearest_source": Reductions(over_sources=OverSources(nearest=True)),
        "vertices_nearest_sum_within_3": Reductions(
            over_sources=OverSources(True, True, (radius / 4, radius / 2, radius))
        ),
        "nearest_10_of_500": NearestOfRow(10, some[:500]),
        "nearest_10": NearestOfRow(10),
    }


def sources_of(graph: CsrGraph, count: int) -> tuple[np.ndarray, float]:
    """Return random sources, the first of which has a large reach, and the median of its distances."""
    candidates = np.flatnonzero(np.diff(graph.row_offsets))
    candidates = np.random.default_rng(1).permutation(candidates)[: count + 64]
    for place in range(64):
        row = (
            solver_named("delta-stepping")
            .solve(graph, candidates[place : place + 1], SolveOptions())
            .distances[0]
        )
        reached = row[row != row.dtype.type(np.iinfo(row.dtype).max)]
        if len(reached) >= LARGE_REACH * graph.n_vertices:
            return candidates[place : place + count].astype(np.uint32), float(np.median(reached))
    sys.exit("no source has a large reach")


def measure(name: str, graph: CsrGraph, solver_name: str, n_sources: int, rounds: int) -> None:
    """Record a line; exits if an answer differs from that of the CPU."""
    sources, radius = sources_of(graph, n_sources)
    batch = batch_size(graph.traits, len(sources), Solve(), Nothing())
    work = Work(graph.traits, SolveOptions(kept=Nothing()), len(sources), batch)
    solver, *_ = choose_solver(solver_name, work, this_machine())
    kinds = kinds_for(graph, radius)
    ends = [0, len(sources) - 1]
    expected = {}
    for kind, kept in kinds.items():
        options = SolveOptions(kept=kept)
        true = solver_named("delta-stepping").solve(graph, sources[ends], options)
        expected[kind] = true.distances
        if kept.over_sources is not None:
            of_vertices = solver.solve(graph, sources[ends], options).over_sources
            if not np.array_equal(of_vertices, true.over_sources):
                sys.exit(f"{name}: {solver.name} and delta-stepping differ in {kind}")
    wall_s: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(1 + rounds):
        for kind, kept in kinds.items():
            began = time.perf_counter()
            found = solver.solve(graph, sources, SolveOptions(kept=kept))
            took_s = time.perf_counter() - began
            if not np.array_equal(found.distances[ends], expected[kind]):
                sys.exit(f"{name}: {solver.name} and delta-stepping differ in {kind}")
            if turn:
                wall_s[kind].append(took_s)
    medians = {kind: median(times) for kind, times in wall_s.items()}
    record(
        "answers",
        graph=name,
        asked_for=solver_name,
        solver=solver.name,
        n_sources=len(sources),
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        weight_dtype=graph.weight_dtype.name,
        rounds=rounds,
        wall_ms={kind: round(1e3 * s / len(sources), 5) for kind, s in medians.items()},
        over_nothing={kind: round(s / medians["nothing"], 3) for kind, s in medians.items()},
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--graphs", default="ny,ne,rmat-22")
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--cache", type=Path, help="folder in which prepared graphs are kept")
    parser.add_argument("--sources", type=int, default=1024)
    parser.add_argument("--solvers", default="auto", help="names with commas, `auto` among them")
    parser.add_argument("--rounds", type=int, default=5, help="timed calls of each kind")
    given = parser.parse_args()
    for name in checked_names(parser, given.graphs, given.data):
        graph = load(name, given.data, given.cache)
        for solver in given.solvers.split(","):
            measure(name, graph, solver, given.sources, given.rounds)


if __name__ == "__main__":
    main()
