"""Betweenness from some sources, on one core: milliseconds of processor time of a source, here and in other programs.

    python benchmarks/betweenness.py --data FOLDER [--graphs NY,Enron,wiki-Vote] [--sources 32] [--rounds 3]
        [--programs sssp_pipeline,networkit,igraph,networkx]

The roads of New York have lengths; the others have no weights. Every program gets a graph in its own form, which is not
timed. Rounds of all programs alternate, and the median counts. The sources are the same, with one exception: NetworKit
draws as many itself. NetworkX solves two sources only. Where the sources are the same, so must the values be. A
program that is not installed is left out, and a line says so.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
import scipy.sparse as ss
from graphs import read
from record import record

FILES = {"NY": "USA-road-d.NY.gr.gz", "Enron": "Email-Enron.txt", "wiki-Vote": "wiki-Vote.txt"}
PROGRAMS = ("sssp_pipeline", "networkit", "igraph", "networkx")
#: So slow that two sources tell enough.
FEW = {"networkx": 2}

#: Returns the betweenness of every vertex, or None if the program takes other sources.
Call = Callable[[np.ndarray], "np.ndarray | None"]


def load(name: str, data: Path) -> ss.csr_array:
    """Return the adjacency matrix, each edge once: of parallel edges, the shortest."""
    src, dst, weights, n_vertices = read(data / FILES[name])
    if weights is None:
        weights = np.ones(len(src), np.int64)
    order = np.lexsort((weights, dst, src))
    src, dst, weights = src[order], dst[order], weights[order]
    is_first = np.append(True, (np.diff(src) != 0) | (np.diff(dst) != 0))
    kept = is_first & (src != dst)
    return ss.csr_array((weights[kept], (src[kept], dst[kept])), shape=(n_vertices, n_vertices))


def with_sssp_pipeline(matrix: ss.csr_array) -> Call:
    import sssp_pipeline as sp

    graph = sp.prepare(matrix)
    return lambda sources: sp.betweenness(graph, sources)["betweenness"].to_numpy()


def with_networkit(matrix: ss.csr_array) -> Call:
    import networkit as nk

    nk.setNumberOfThreads(1)
    edges = matrix.tocoo()
    is_weighted = bool(edges.data.max() > 1)
    graph = nk.Graph(matrix.shape[0], weighted=is_weighted, directed=True)
    for u, v, weight in zip(edges.row.tolist(), edges.col.tolist(), edges.data.tolist(), strict=True):
        graph.addEdge(u, v, weight)

    def call(sources: np.ndarray) -> None:
        nk.centrality.EstimateBetweenness(graph, len(sources), parallel=False).run()

    return call


def with_igraph(matrix: ss.csr_array) -> Call:
    import igraph

    edges = matrix.tocoo()
    graph = igraph.Graph(matrix.shape[0], np.column_stack([edges.row, edges.col]), directed=True)
    weights = edges.data.tolist() if edges.data.max() > 1 else None
    return lambda sources: np.array(graph.betweenness(weights=weights, sources=sources.tolist()))


def with_networkx(matrix: ss.csr_array) -> Call:
    import networkx as nx

    graph = nx.from_scipy_sparse_array(matrix, create_using=nx.DiGraph)
    weight = "weight" if matrix.data.max() > 1 else None
    return lambda sources: np.array(
        list(nx.betweenness_centrality_subset(graph, sources.tolist(), list(graph), weight=weight).values())
    )


def measure(name: str, data: Path, programs: list[str], n_sources: int, rounds: int) -> None:
    """Record a line for each of `programs` on a graph."""
    matrix = load(name, data)
    sources = np.random.default_rng(1).choice(matrix.shape[0], n_sources, replace=False)
    calls = {program: globals()[f"with_{program}"](matrix) for program in programs}
    times: dict[str, list[float]] = {program: [] for program in programs}
    values = {}
    for program, call in calls.items():
        some = sources[: FEW.get(program, n_sources)]
        values[program] = call(some)  # compiles, too
        if program != "sssp_pipeline" and values[program] is not None:
            np.testing.assert_allclose(calls["sssp_pipeline"](some), values[program], rtol=1e-9, atol=1e-9)
    for _ in range(rounds):
        for program, call in calls.items():
            some = sources[: FEW.get(program, n_sources)]
            began = time.process_time()
            call(some)
            times[program].append(1e3 * (time.process_time() - began) / len(some))
    ours = median(times["sssp_pipeline"])
    for program in programs:
        record(
            "betweenness",
            graph=name,
            program=program,
            n_vertices=matrix.shape[0],
            n_edges=matrix.nnz,
            n_sources=len(sources[: FEW.get(program, n_sources)]),
            source_ms=round(median(times[program]), 3),
            times_as_long=round(median(times[program]) / ours, 2),
            is_compared=values[program] is not None,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SSSP_TEST_DATA"))
    parser.add_argument("--graphs", default=",".join(FILES))
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--sources", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    asked = given.programs.split(",")
    installed = [program for program in asked if find_spec(program) is not None]
    for program in set(asked) - set(installed):
        print(f"{program} is not installed, and left out")
    for name in given.graphs.split(","):
        measure(name, given.data, installed, given.sources, given.rounds)


if __name__ == "__main__":
    main()
