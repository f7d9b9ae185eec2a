"""A graph prepared for a bench: stored, with its weights or hashed ones, its sources, and the true distances."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import hashed_weights, is_generated
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.bench.lines import GraphFacts, digest_of
from sssp_pipeline.bench.spec import BenchGraph, RandomSources
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.solver import SolveOptions, SourceMetrics
from sssp_pipeline.pipeline.graph_store.store import graph_with, read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.planning.sources import VertexSelection
from sssp_pipeline.storage import files

#: The solvers that find the true distances: for weights of zero or more, and for other weights.
ORACLE, SIGNED_ORACLE = "delta-stepping", "queue-bellman-ford"
#: How many breadth-first searches follow each other, and from how many sources such a sequence starts.
SWEEPS, SWEPT_SOURCES = 3, 2


@dataclass(frozen=True, eq=False)
class Case:
    """The input of every variant: a graph, its sources and the true distances."""

    facts: GraphFacts
    graph: CsrGraph
    #: (S,) uint32.
    sources: np.ndarray
    #: The solver that found `rows` and `outcomes`.
    oracle: str
    #: (S, V), the true distances.
    rows: np.ndarray
    #: Of each source: vertices reached, largest and mean distance. Every solver gives the same bits.
    outcomes: list[tuple[int, float, float]]


def check_input(entry: BenchGraph) -> None:
    """Raise an `InputError` that names the graph if a file of its input is missing."""
    if entry.graph is None or any(is_generated(url) for url in entry.graph.inputs):
        return
    with _naming(entry):
        files.expand(entry.graph.inputs)


def stored(entry: BenchGraph, folder: Path, progress: Progress) -> StoredGraph:
    """Return the graph of `entry`, ingested into `folder` unless it is there already.

    The store is named after the entry and the digest of its `graph` section.

    Raises
    ------
    InputError
        As `ingest`, or `entry.store` is no graph store; the message names the graph.
    """
    progress.stage(f"{entry.name}: graph")
    with _naming(entry):
        if entry.graph is None:
            return StoredGraph(str(entry.store), read_manifest(str(entry.store)))
        graph = entry.graph
        if graph.weights.several is not None:
            raise InputError(
                "a bench takes graphs with one weight, and `weights.several` has more",
                hint="name one: `weights: {column: time}`",
            )
        if entry.hashed_weights is not None:  # they replace the weights of the input, which are not read
            weights = graph.weights.model_copy(update={"column": "none"})
            graph = graph.model_copy(update={"weights": weights})
        store = graph.store or str(folder / f"{entry.name}-{graph.digest_in(str(folder))}")
        return StoredGraph(store, graph_with(None, ingest(graph, store, progress)[0], store))


def content_of(entry: BenchGraph, graph: StoredGraph) -> str:
    """Return a digest of the content of `graph` and of the weights that replace its own."""
    return digest_of(graph.manifest.content_id, entry.hashed_weights)


def prepare(entry: BenchGraph, graph: StoredGraph, drawn: RandomSources, progress: Progress) -> Case:
    """Return `graph` with sources as `drawn` describes them, and the true distances from these.

    Raises
    ------
    InputError
        There are too few such sources, or a shortest path is longer than the weights' type holds; the message names
        the graph.
    """
    progress.stage(f"{entry.name}: true distances")
    with _naming(entry):
        loaded = graph.graph()
        if entry.hashed_weights is not None:
            loaded = with_hashed_weights(loaded, entry.hashed_weights)
        sources = VertexSelection(graph.ids, lambda: loaded).sources(drawn.of(loaded.n_vertices))
        oracle = ORACLE if loaded.traits.min_weight >= 0 else SIGNED_ORACLE
        rows, metrics = _true_distances(loaded, sources, oracle)
    facts = _facts(entry.name, content_of(entry, graph), loaded, sources)
    return Case(facts, loaded, sources, oracle, rows, [outcome(m) for m in metrics])


def outcome(metrics: SourceMetrics) -> tuple[int, float, float]:
    """Return the outcome of a source, as in `Case.outcomes`."""
    return metrics.reached, metrics.max_distance, metrics.mean_distance


def diameter_at_least(graph: CsrGraph, sources: np.ndarray) -> int:
    """Return the most hops along outgoing edges from the start of a search to any vertex.

    The first searches start at `sources`. Each later search starts at a vertex that was farthest in the one before it.
    """

    def swept(start: int) -> int:
        most = 0
        for _ in range(SWEEPS):
            hops, end = _farthest(graph.row_offsets, graph.col_indices, start)
            most = max(most, hops)
            if end == start:
                break
            start = end
        return most

    with ThreadPoolExecutor(SWEPT_SOURCES) as pool:
        return max(pool.map(swept, sources[:SWEPT_SOURCES].tolist()))


@njit(nogil=True)
def _farthest(row_offsets: np.ndarray, col_indices: np.ndarray, start: int) -> tuple[int, int]:
    """Return the hops from `start` to a farthest vertex, and this vertex."""
    is_seen = np.zeros(len(row_offsets) - 1, np.bool_)
    queue = np.empty(len(row_offsets) - 1, np.uint32)
    queue[0] = start
    is_seen[start] = True
    hops, first, end = -1, 0, 1
    while first < end:
        hops += 1
        level_end = end
        for i in range(first, level_end):
            u = np.intp(queue[i])
            for e in range(row_offsets[u], row_offsets[u + np.intp(1)]):
                v = np.intp(col_indices[e])
                if not is_seen[v]:
                    is_seen[v] = True
                    queue[end] = v
                    end += 1
        first = level_end
    return hops, int(queue[end - 1])


def _true_distances(
    graph: CsrGraph, sources: np.ndarray, oracle: str
) -> tuple[np.ndarray, list[SourceMetrics]]:
    solver = solver_named(oracle)
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        solutions = list(pool.map(lambda s: solver.solve(graph, s, SolveOptions()), sources[:, np.newaxis]))
    return np.concatenate([s.distances for s in solutions]), [s.metrics[0] for s in solutions]


def with_hashed_weights(graph: CsrGraph, largest: int) -> CsrGraph:
    """Return `graph` with weights from 1 to `largest` that depend only on the ends of an edge, in its weight type."""
    src = np.repeat(np.arange(graph.n_vertices, dtype=np.uint32), np.diff(graph.row_offsets))
    weights = hashed_weights(src, graph.col_indices, largest).astype(graph.weight_dtype)
    return CsrGraph(graph.row_offsets, graph.col_indices, weights)


def _facts(name: str, content: str, graph: CsrGraph, sources: np.ndarray) -> GraphFacts:
    degrees, traits = np.diff(graph.row_offsets), graph.traits
    return GraphFacts(
        name=name,
        content=content,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        weight_dtype=graph.weight_dtype.name,
        min_weight=traits.min_weight,
        max_weight=traits.max_weight,
        mean_degree=round(graph.n_edges / graph.n_vertices, 4),
        max_degree=int(degrees.max()),
        degree_deviation=round(float(degrees.std()), 4),
        diameter_hops=diameter_at_least(graph, sources),
    )


@contextmanager
def _naming(entry: BenchGraph) -> Iterator[None]:
    """Put the name of a graph before the message of an `InputError` in the block."""
    try:
        yield
    except InputError as error:
        raise InputError(f"graph `{entry.name}`: {error.message}", hint=error.hint) from error
