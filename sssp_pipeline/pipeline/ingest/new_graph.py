"""A new graph: the input is read, once for each weight and in chunks, and written to the graph store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import DiskFullError, InputError
from sssp_pipeline.base.generators import is_generated
from sssp_pipeline.base.progress import Progress, in_bytes, plural
from sssp_pipeline.parquet.arrow_arrays import arrow_array
from sssp_pipeline.pipeline.formats.edge_list import InputEdges, SkippedRows
from sssp_pipeline.pipeline.graph_store.loading import load_graph
from sssp_pipeline.pipeline.graph_store.manifest import FORMAT, VERSION, Manifest, StoreManifest, WeightFacts
from sssp_pipeline.pipeline.graph_store.store import SKIPPED
from sssp_pipeline.pipeline.graph_store.writing.cut import write_edges
from sssp_pipeline.pipeline.graph_store.writing.edges_files import WantedParts, WrittenEdges
from sssp_pipeline.pipeline.graph_store.writing.writer import StoreWriter
from sssp_pipeline.pipeline.ingest.cleaning import clean
from sssp_pipeline.pipeline.ingest.damage import DamagedFileError
from sssp_pipeline.pipeline.ingest.edges import ReadEdges, Rows
from sssp_pipeline.pipeline.ingest.graph_identity import input_files, options_of
from sssp_pipeline.pipeline.ingest.input import open_input
from sssp_pipeline.pipeline.ingest.job import Given
from sssp_pipeline.pipeline.ingest.same_edges import SharedEdges
from sssp_pipeline.pipeline.ingest.searched_rows import SearchedRows
from sssp_pipeline.pipeline.ingest.tasks.edge_reader import EdgeReader, IngestWorkers, edge_reader
from sssp_pipeline.pipeline.ingest.tasks.on_workers import EdgesOnWorkers
from sssp_pipeline.storage import files
from sssp_pipeline.storage.redaction import without_secrets
from sssp_pipeline.workflow.weights import naming_weight

#: The most files whose beginnings are read before the folder of the store is created, and the bytes of each. Ingest
#: opens all of them again.
_MOST_CHECKED, _CHECKED_BYTES = 100, 1 << 18


def check_inputs(given: dict[str | None, Given]) -> list[InputEdges]:
    """Raise `InputError` if the beginning of an input cannot be read, or two weights are the same column.

    Return the generated inputs. As long as the caller holds them, they are not made again.
    """
    seen: dict[Any, str | None] = {}
    generated: list[InputEdges] = []
    for name, one in given.items():
        with naming_weight(name):
            opened = open_input(one.spec, one.urls[:_MOST_CHECKED], _CHECKED_BYTES)
            generated += [opened] if is_generated(one.urls[0]) else []
            read = opened.reading.weight
            if read is None or read.column is None:
                continue
            other = seen.setdefault((*one.urls, read.column), name)
            if other != name:
                raise InputError(
                    f"its column `{read.column}` is also the column of the weight `{other}`",
                    hint="remove one of them, or name another column: `graph.weights.column`",
                )
    return generated


def ingest_into(
    given: dict[str | None, Given],
    store: str,
    check_held: Callable[[], None],
    progress: Progress,
    workers: IngestWorkers | None,
    is_second: bool = False,
) -> StoreManifest:
    """Write the graph of `given` to the store and return its manifest; the caller holds the store.

    If what an earlier ingest left is found to be damaged, it is discarded, and there is a second attempt.
    """
    files.check_writable(store)
    try:
        with (
            StoreWriter(store) as writer,
            edge_reader(workers, store, given.values(), progress, check_held) as read_edges,
        ):
            graphs, skipped = _write_weights(given, store, writer, progress, read_edges)
            _check_unchanged(given)
            _write_skipped(store, skipped)
            check_held()  # a commit by a process that lost the store would remove the files of the new holder
            manifest = StoreManifest(graphs=graphs)
            writer.commit(manifest)
        return manifest
    except DamagedFileError as error:
        if is_second or not error.was_discarded:
            raise
    return ingest_into(given, store, check_held, progress, workers, is_second=True)


def _write_weights(
    given: dict[str | None, Given],
    store: str,
    writer: StoreWriter,
    progress: Progress,
    read_edges: EdgeReader,
) -> tuple[dict[str | None, Manifest], SkippedRows]:
    """Write the edges once, and then each further weight; nothing is committed yet.

    Return the manifest with each weight, and the rows of the last input that were left out.
    """
    graphs: dict[str | None, Manifest] = {}
    shared: SharedEdges | None = None
    skipped = SkippedRows()
    for name, one in given.items():
        with naming_weight(name), read_edges(one, progress, with_positions=not graphs) as edges:
            clean(edges)
            skipped = edges.job.edge_list.skipped
            if not graphs:
                if len(given) > 1:
                    shared = SharedEdges(str(name), edges.vertex_ids, edges.job.memory.n_bytes)
                graphs[name] = _write_graph(name, edges, store, writer, shared)
            else:
                assert shared is not None, "the first of several weights made it"
                graphs[name] = _write_weight(edges, writer, shared, next(iter(graphs.values())))
    return _without_used_columns(graphs), skipped


def _without_used_columns(graphs: dict[str | None, Manifest]) -> dict[str | None, Manifest]:
    """Return the manifests after the columns of all weights were removed from the unused columns of each."""
    used = {graph.reading.weight.column for graph in graphs.values() if graph.reading.weight is not None}
    found = {}
    for name, graph in graphs.items():
        unused = tuple(column for column in graph.reading.unused if column not in used)
        found[name] = graph.model_copy(update={"reading": replace(graph.reading, unused=unused)})
    return found


def _check_unchanged(given: dict[str | None, Given]) -> None:
    """Raise `InputError` if a file has changed while it was read: its last line may have been read in part."""
    for name, one in given.items():
        with naming_weight(name):
            now = input_files(one.spec)[1]
            if [file["url"] for file in now] != [file["url"] for file in one.inputs]:
                raise InputError(
                    f"the input had {plural(len(one.inputs), 'file')} and has {plural(len(now), 'file')} now: "
                    "it has changed while it was read",
                    hint=_WAIT,
                )
            for before, after in zip(one.inputs, now, strict=True):
                if files.has_changed(before, after):
                    how = "it was written again"
                    if before["size"] != after["size"]:
                        how = f"it had {before['size']} bytes and has {after['size']} now"
                    raise InputError(f"`{before['url']}` has changed while it was read: {how}", hint=_WAIT)


_WAIT = "ingest it again when no program writes to it"


def _written(
    edges: ReadEdges,
    writer: StoreWriter,
    wanted: WantedParts,
    see: Callable[[Rows], None] | None,
    searched: SearchedRows | None = None,
) -> WrittenEdges:
    """Write the rows of all edges. `see` is called with those that pass this process, and `searched` keeps them."""
    if see is None and edges.kept is None and isinstance(edges, EdgesOnWorkers):
        return edges.write(writer, wanted)  # no format that workers read lists both directions

    def rows() -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        for each in edges.rows():
            if see is not None:
                see(each)
            if searched is not None:
                searched.add(each)
            yield each.row_offsets, each.col_indices, each.weights

    written = write_edges(writer, rows(), wanted, edges.job.memory.parts_in_flight)
    edges.check_both_listed()
    return written


def _write_graph(
    name: str | None, edges: ReadEdges, store: str, writer: StoreWriter, shared: SharedEdges | None
) -> Manifest:
    """Write the parts of a graph with its first weight `name`, and return the manifest that names them.

    If other weights follow, `shared` receives the edges.
    """
    job, vertex_ids = edges.job, edges.vertex_ids
    job.progress.stage("write graph store")
    _check_room(edges, store)
    columns = {} if vertex_ids.table is None else {"original_id": vertex_ids.table}
    if edges.coordinates is not None:
        columns |= {"x": arrow_array(edges.coordinates[0]), "y": arrow_array(edges.coordinates[1])}
    wanted = WantedParts(weights_apart=name is not None)
    most_edges = sum(run.n_edges for run in edges.runs)
    searched = SearchedRows(job.memory.n_bytes, vertex_ids.n_vertices, most_edges)
    with ThreadPoolExecutor(1) as other_thread:
        vertices = other_thread.submit(writer.write_table, "vertices", pa.table(columns)) if columns else None
        written = _written(edges, writer, wanted, None if shared is None else shared.add, searched)
    if shared is not None:
        shared.finish(edges.counts)
    # Tables of coordinates are in degrees. DIMACS files and generators do not state a unit.
    has_no_unit = edges.coordinates is None or job.edge_list.read_coordinates
    manifest = Manifest(
        format=FORMAT,
        version=VERSION,
        n_vertices=written.traits.n_vertices,
        n_edges=written.traits.n_edges,
        degree_skew=written.traits.degree_skew,
        levels=searched.levels(),
        ids=vertex_ids.mapping,
        coordinates=edges.coordinates is not None,
        coordinates_unit=None if has_no_unit else "degrees",
        counts=edges.counts,
        cleaning=edges.cleaning,
        row_offsets=written.row_offsets,
        edges=written.edges,
        vertices=[] if vertices is None else vertices.result(),
        **_facts_of_weight(edges, written, store),
    )
    if manifest.levels is None and searched.is_wanted:  # only workers had the rows
        return manifest.model_copy(update={"levels": load_graph(store, manifest).levels})
    return manifest


def _write_weight(edges: ReadEdges, writer: StoreWriter, shared: SharedEdges, first: Manifest) -> Manifest:
    """Write the parts of a further weight of the graph `first`, and return the manifest that names them.

    Raises
    ------
    InputError
        The edges are not the `shared` ones.
    """
    shared.check_vertices(edges.vertex_ids)
    wanted = WantedParts(structure=False, weights_apart=True)
    written = _written(edges, writer, wanted, shared.check_rows)
    shared.check_counts(edges.counts)
    return first.model_copy(update=_facts_of_weight(edges, written, writer.store))


def _facts_of_weight(edges: ReadEdges, written: WrittenEdges, store: str) -> dict[str, Any]:
    """Return the fields of a manifest in which the weights of a graph differ."""
    traits, spec = written.traits, edges.job.spec.weights
    return {
        "weights": WeightFacts(
            dtype=traits.weight_dtype.name,
            unit=without_secrets(spec.unit) if spec.unit else edges.job.edge_list.weight_unit,
            scale=edges.facts.weight_type.scale,
            min=traits.min_weight,
            max=traits.max_weight,
            mean=traits.mean_weight,
            zero=written.zero,
            negative=traits.min_weight < 0,
        ),
        "symmetric": edges.is_symmetric,
        "inputs": edges.given.inputs,
        "options": options_of(edges.job.spec, store),
        "reading": edges.reading,
        "edge_weights": written.edge_weights,
    }


def _check_room(edges: ReadEdges, store: str) -> None:
    """Raise `DiskFullError` if the disk of the store has no room for the row offsets that a header may ask for."""
    n_vertices = edges.vertex_ids.n_vertices
    needed, free = 8 * (n_vertices + 1), files.free_bytes(store)
    if free is not None and needed > free:
        raise DiskFullError(
            f"a graph of {n_vertices:,} vertices takes at least {in_bytes(needed)}, and `{files.redacted(store)}` has "
            f"{in_bytes(free)} free",
            hint="name a `graph.store` with more room; if the input declares too many vertices, correct its header",
        )


def _write_skipped(store: str, skipped: SkippedRows) -> None:
    """Write a file with the first rows that were left out; if there are none, remove the file of an earlier ingest."""
    url = files.join(store, SKIPPED)
    if skipped.count:
        files.write_atomic(url, "".join(line + "\n" for line in skipped.lines).encode(), synced=True)
    else:
        files.remove(url)
