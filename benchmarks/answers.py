"""What answers cost beside the search: the wall time of calls that keep answers over that of calls that keep nothing.

    python benchmarks/answers.py --data FOLDER [--cache FOLDER] [--graphs ny,ne,rmat-22] [--sources 1024]
        [--solvers auto,adds] [--rounds 5]

There is one line for each graph and solver. `auto` is the solver that a run would take. Each call has the same sources,
and the kinds of answers take turns, so that a machine that slows down slows all of them. The first round is not timed;
times are medians. `over_nothing` is the time of a kind over that of `nothing`, where only the metrics of each source
are made: 1.1 is 10 % more. The words that the first and the last source keep are compared with those of delta-stepping
on the CPU, and those of each vertex over these two sources. If one differs, the program ends.

On a CPU, `--solvers delta-stepping` measures the same.

    python benchmarks/answers.py --data FOLDER --graphs ny --solvers delta-stepping,dijkstra --reached 10,100,1000,all

This measures instead what a source costs whose cutoff lets it reach so many vertices: microseconds of processor time on
one thread. `rows_us` are from rows, in calls of 8 sources; what is reached is taken out of them. `reached_us` are from
searches that make no rows. Both take turns, and what they find is compared. `all` has no cutoff. The lines are in
`reached.jsonl`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
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
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.host.reached_values import reached_of
from sssp_pipeline.pipeline.planning.choice import choose_solver
from sssp_pipeline.pipeline.planning.machine import this_machine
from sssp_pipeline.pipeline.planning.work import Work, batch_size
from sssp_pipeline.workflow.models import Solve

#: Sources of a call that makes rows: as many rows of New York as `sp.solve` takes at once.
ROWS_AT_ONCE = 8


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


def measure_reached(name: str, graph: CsrGraph, solver_name: str, wanted: str, rounds: int) -> None:
    """Record a line; exits if rows and searches without rows differ. `wanted` vertices are reached, or "all"."""
    solver = solver_named(solver_name)
    generator = np.random.default_rng(1)
    cutoff = None
    if wanted != "all":
        some = solver.solve(graph, generator.integers(0, graph.n_vertices, 64), SolveOptions()).distances
        cutoff = float(np.median(np.sort(some, axis=1)[:, int(wanted) - 1]))
    sources = generator.integers(0, graph.n_vertices, 32 if wanted == "all" else 1024)
    options = SolveOptions(cutoff=cutoff)
    parts = np.split(sources, range(ROWS_AT_ONCE, len(sources), ROWS_AT_ONCE))
    ends = np.cumsum([len(part) for part in parts]).tolist()
    reached_only = replace(options, reached_only=True)
    ways: dict[str, Callable[[], Iterable[Solution]]] = {
        "rows": lambda: (solver.solve(graph, part, options) for part in parts),
        "reached": lambda: solver.solve_parts(graph, sources, reached_only, ends),
    }
    cpu_s: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(1 + rounds):
        found = {}
        for way, solutions in ways.items():
            began = time.process_time()
            found[way] = [reached_of(solution) for solution in solutions()]
            if turn:
                cpu_s[way].append(time.process_time() - began)
        for rows, reached in zip(*found.values(), strict=True):
            for one, other in zip(vars(rows).values(), vars(reached).values(), strict=True):
                if not np.array_equal(one, other):
                    sys.exit(f"{name}: {solver.name} reaches something else without rows")
    rows_us, reached_us = (1e6 * median(cpu_s[way]) / len(sources) for way in ways)
    record(
        "reached",
        graph=name,
        solver=solver.name,
        n_sources=len(sources),
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        weight_dtype=graph.weight_dtype.name,
        cutoff=cutoff,
        reached=float(np.mean(np.concatenate([part.counts for part in found["rows"]]))),
        rounds=rounds,
        rows_us=round(rows_us, 2),
        reached_us=round(reached_us, 2),
        rows_over_reached=round(rows_us / reached_us, 3),
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
    parser.add_argument(
        "--reached", help="numbers of reached vertices with commas, or `all`; needs named solvers"
    )
    given = parser.parse_args()
    for name in checked_names(parser, given.graphs, given.data):
        graph = load(name, given.data, given.cache)
        for solver in given.solvers.split(","):
            if given.reached is None:
                measure(name, graph, solver, given.sources, given.rounds)
                continue
            for wanted in given.reached.split(","):
                measure_reached(name, graph, solver, wanted, given.rounds)


if __name__ == "__main__":
    main()
