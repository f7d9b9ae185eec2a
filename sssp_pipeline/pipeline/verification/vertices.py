"""Verifies some vertices of `vertices.parquet` on a worker: computes their numbers over all sources anew.

A vertex needs its distances from all sources. A search from the vertex over the reversed edges finds all of them, for
integers: the sum of a path is the same in both directions. Floats are rounded in the order of the path, so another
direction may give other bits. A run of a few sources solves all of them again, whatever the type.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import NegativeCycleError, PathTooLongError
from sssp_pipeline.base.progress import in_bytes
from sssp_pipeline.kernels.contract.kept import Targets
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.host.accumulator import Accumulator
from sssp_pipeline.pipeline.graph_store.stored_graph import resident_graph
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import reversal_bytes, reversed_graph
from sssp_pipeline.pipeline.results.answers.betweenness import BETWEENNESS, ERROR
from sssp_pipeline.pipeline.results.folder.run_files import VERTICES_FILE
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs.vertex_table import PerVertex, read_vertex_rows
from sssp_pipeline.pipeline.solving.task import Task
from sssp_pipeline.pipeline.verification.task import ROOM, memory_limit, oracle_for
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import StoredFile
from sssp_pipeline.storage.retries import mark_reachable

#: Up to this many sources are all solved again: about as many searches as the sampled sources and vertices need.
FEW_SOURCES = 16


@dataclass(frozen=True, eq=False)
class VertexTask(Task):
    """All that a worker needs to check some vertices; `batches` has all sources of the run."""

    output: PerVertex
    #: In the unit of the graph's weights.
    cutoff: float | None
    #: (n,) uint32, rising.
    vertices: np.ndarray
    #: `vertices.parquet`.
    stored: StoredFile


@dataclass(frozen=True)
class CheckedVertices:
    """What a worker found of the numbers of vertices."""

    #: How many vertices were checked; None if the run has no such numbers.
    n_checked: int | None = None
    #: The sentence on the first wrong number; None if all are right.
    refuted: str | None = None
    #: Why no vertex was checked; None if some were.
    unchecked: str | None = None


def verify_vertices(task: VertexTask) -> CheckedVertices:
    """Return what is wrong in storage of the vertices of a task; runs on a worker.

    Raises
    ------
    InputError
        The store does not hold the expected graph, or `vertices.parquet` is missing or damaged.
    """
    mark_reachable(files.redacted(task.store), files.redacted(task.run))
    stored = resident_graph(task.store, task.content_id)
    graph, manifest = stored.proven(), stored.manifest
    sources = np.concatenate([of_batch for _, of_batch in task.batches])
    is_backwards, n_bytes = len(sources) > FEW_SOURCES, _search_bytes(graph.traits, len(sources))
    if is_backwards:
        if graph.weight_dtype.kind == "f":
            return CheckedVertices(
                0,
                unchecked=f"a sum of {graph.weight_dtype} depends on the direction of the path, and all "
                f"{len(sources):,} sources would have to be solved again",
            )
        n_bytes += 0 if manifest.symmetric else reversal_bytes(graph.traits)
    room = memory_limit() - manifest.graph_bytes
    if n_bytes > room:
        unchecked = f"it takes {in_bytes(n_bytes)} beside the graph, and a worker has {in_bytes(room)}"
        return CheckedVertices(0, unchecked=unchecked)
    with ROOM.held(n_bytes, room):
        options = SolveOptions(cutoff=task.cutoff)
        if is_backwards:
            backwards = graph if manifest.symmetric else reversed_graph(graph)
            try:
                found = _distances(backwards, task.vertices, sources, options)
            except (PathTooLongError, NegativeCycleError) as error:  # none of the sources may have met it
                return CheckedVertices(0, unchecked=f"from the vertices backwards, {error.message}")
            rows = np.ascontiguousarray(found.T)
        else:
            rows = _distances(graph, sources, task.vertices, options)
    accumulator = Accumulator(task.output.over, graph.traits, len(task.vertices))
    for row, source in zip(rows, sources.tolist(), strict=True):
        accumulator.add(row, source)
    ids = RunFolder(task.run).named_ids(stored.ids, task.identity)
    exact = task.output.table(accumulator.words, task.vertices, ids, graph.traits)
    found_rows = read_vertex_rows(task.stored, task.vertices, graph.n_vertices)
    found_rows = found_rows.drop_columns([n for n in (BETWEENNESS, ERROR) if n in found_rows.column_names])
    return CheckedVertices(len(task.vertices), _difference(found_rows, exact))


def _difference(stored: pa.Table, exact: pa.Table) -> str | None:
    """Return a sentence on the first number of `stored` that differs from `exact`, or None."""
    if stored.schema.names != exact.schema.names:
        return f"`{VERTICES_FILE}`: stored columns {stored.schema.names}, true columns {exact.schema.names}"
    for found, wanted in zip(stored.to_pylist(), exact.to_pylist(), strict=True):
        for name, value in wanted.items():
            if found[name] != value:
                return f"vertex `{wanted['vertex']}`: stored {name} {found[name]}, true {name} {value}"
    return None


def _distances(
    graph: CsrGraph, sources: np.ndarray, targets: np.ndarray, options: SolveOptions
) -> np.ndarray:
    """Return the true distances (S, T) from `sources` (S,) to `targets` (T,)."""
    of_targets = SolveOptions(cutoff=options.cutoff, kept=Targets(targets))
    return oracle_for(graph).solve(graph, sources, of_targets).distances


def _search_bytes(traits: GraphTraits, n_sources: int) -> int:
    """Return the memory of a search as `Verifying.task_bytes` has it, and of the distances of each source twice."""
    itemsize = traits.weight_dtype.itemsize
    return traits.n_vertices * (8 + 2 * itemsize) + 2 * 8 * n_sources * itemsize
