"""Ingest: reads the input, once for each weight and in chunks, and writes a graph store.

The store changes only after the whole input has been read and checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.formats.edge_list import SkippedRows
from sssp_pipeline.pipeline.graph_store.manifest import (
    FORMAT,
    VERSION,
    Cleaning,
    Manifest,
    SeveralManifest,
    StoreManifest,
    WeightFacts,
)
from sssp_pipeline.pipeline.graph_store.store import (
    SKIPPED,
    is_complete,
    newest_version,
    older_versions,
    remove_older_versions,
)
from sssp_pipeline.pipeline.graph_store.writer import StoreWriter
from sssp_pipeline.pipeline.ingest.building import Built, Given, build
from sssp_pipeline.pipeline.ingest.cleaning import cleaned
from sssp_pipeline.pipeline.ingest.graph_identity import check_same_graph, is_up_to_date, options_of
from sssp_pipeline.pipeline.ingest.input import (
    input_files,
    open_input,
)
from sssp_pipeline.pipeline.ingest.same_edges import SharedEdges, check_same_edges
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.pipeline.storage.lease import exclusive
from sssp_pipeline.pipeline.storage.redaction import without_secrets
from sssp_pipeline.progress import Progress, in_bytes, plural
from sssp_pipeline.workflow import models as workflow
from sssp_pipeline.workflow.weights import naming_weight


def ingest(
    spec: workflow.Graph, store: str, progress: Progress, *, remove_old_versions: bool = False
) -> tuple[StoreManifest, bool]:
    """Return the manifest of the stored graph, and whether it had to be ingested.

    An unchanged input is not ingested again. If the content of the input has changed, the graph becomes a new version.
    Older versions are kept unless `remove_old_versions` is set. If another process is ingesting into the store, this
    function waits.

    The input is read once for each weight, so that each is read exactly as an only weight is.

    Raises
    ------
    InputError
        The input cannot be used, the store has another graph or other files, or the store cannot be written. The
        store is left as it was.
    """
    given = {name: Given(graph, *input_files(graph)) for name, graph in spec.by_weight.items()}
    current = _stored_if_current(given, store)
    if current is not None and not remove_old_versions:
        return current, False
    if current is None:
        _check_inputs(given)  # raises for a wrong input before the folder of the store is created

    def report_wait(holder: str) -> None:
        place = files.redacted(store)
        progress.say(f"{holder} is writing to the graph store `{place}`: waiting until it ends", "waiting")

    with exclusive(store, report_wait) as check_held:
        current = _stored_if_current(given, store)  # another process may have ingested it meanwhile
        manifest = current or _ingest_into(given, store, check_held, progress)
        if remove_old_versions:
            check_held()
            remove_older_versions(store)
    if current is None and (older := older_versions(store, manifest)):
        held = in_bytes(sum(part.bytes for version in older.values() for part in version.parts))
        progress.say(
            f"{plural(len(older), 'older version')} of the graph: {held}, kept for the runs that were solved on them; "
            "`sssp-pipeline ingest WORKFLOW --remove-old-versions` removes them"
        )
    return manifest, current is None


def _stored_if_current(given: dict[str | None, Given], store: str) -> StoreManifest | None:
    """Return the manifest of the stored graph if it is that of `given` and up to date; raises as `ingest`."""
    newest = newest_version(store)
    if newest is None:
        return None
    check_same_graph(store, newest, {name: one.spec for name, one in given.items()})
    graphs = newest.by_weight
    is_current = all(is_up_to_date(graphs[name], one.inputs) for name, one in given.items())
    return newest if is_current and is_complete(store, newest) else None


#: The most files whose beginnings are read before the folder of the store is created. Ingest opens all of them again.
_MOST_CHECKED = 100


def _check_inputs(given: dict[str | None, Given]) -> None:
    """Raise `InputError` if the beginning of an input cannot be read, or two weights are the same column."""
    seen: dict[Any, str | None] = {}
    for name, one in given.items():
        with naming_weight(name):
            read = open_input(one.spec, one.urls[:_MOST_CHECKED]).reading.weight
            if read is None or read.column is None:
                continue
            other = seen.setdefault((*one.urls, read.column), name)
            if other != name:
                raise InputError(
                    f"its column `{read.column}` is that of the weight `{other}` too",
                    hint="remove one of them, or name another column: `graph.weights.column`",
                )


def _ingest_into(
    given: dict[str | None, Given], store: str, check_held: Callable[[], None], progress: Progress
) -> StoreManifest:
    """Write the graph of `given` to the store and return its manifest; the caller holds the store."""
    files.check_writable(store)
    with StoreWriter(store) as writer:
        manifest: StoreManifest
        if None in given:
            built, cleaning = cleaned(build(given[None], progress))
            manifest = _write_graph(built, given[None], writer, cleaning, with_weights=True)
            skipped = built.job.edge_list.skipped
        else:
            manifest, skipped = _write_weights(given, writer, progress)
        _check_unchanged(given)
        _write_skipped(store, skipped)
        check_held()  # a commit by a process that lost the store would remove the files of the new holder
        writer.commit(manifest)
    return manifest


def _write_weights(
    given: dict[str | None, Given], writer: StoreWriter, progress: Progress
) -> tuple[SeveralManifest, SkippedRows]:
    """Write the edges once, and then each weight, of which memory holds one at a time."""
    graphs: dict[str, Manifest] = {}
    shared: SharedEdges | None = None
    skipped = SkippedRows()

    def add(name: str, one: Given) -> SharedEdges:
        nonlocal skipped
        built, cleaning = cleaned(build(one, progress, with_positions=shared is None))
        graph, skipped = built.graph, built.job.edge_list.skipped
        edges = SharedEdges(name, graph.row_offsets, graph.col_indices, built.vertex_ids, built.counts)
        if shared is None:
            manifest = _write_graph(built, one, writer, cleaning, with_weights=False)
        else:
            check_same_edges(shared, edges)
            manifest = _manifest(built, one, graphs[shared.name])
        parts = writer.write_edge_weights(graph, built.job.threads)
        graphs[name] = manifest.model_copy(update={"edge_weights": parts})
        return shared or edges

    for name, one in given.items():
        with naming_weight(name):
            shared = add(str(name), one)
    return SeveralManifest(graphs=_without_used_columns(graphs)), skipped


def _without_used_columns(graphs: dict[str, Manifest]) -> dict[str, Manifest]:
    """Return the manifests, of which none calls the column of another weight unused."""
    readings = [graph.reading for graph in graphs.values()]
    used = {read.weight.column for read in readings if read is not None and read.weight is not None}
    found = {}
    for name, graph in graphs.items():
        unused = () if graph.reading is None else graph.reading.unused
        reading = graph.reading and replace(graph.reading, unused=tuple(c for c in unused if c not in used))
        found[name] = graph.model_copy(update={"reading": reading})
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


def _write_graph(
    built: Built, given: Given, writer: StoreWriter, cleaning: Cleaning | None, *, with_weights: bool
) -> Manifest:
    """Write the parts of the graph, and return the manifest that names them; nothing is committed yet."""
    job, graph, vertex_ids = built.job, built.graph, built.vertex_ids
    job.progress.stage("write graph store")
    columns = {} if vertex_ids.table is None else {"original_id": vertex_ids.table}
    if built.coordinates is not None:
        columns |= {"x": pa.array(built.coordinates[0]), "y": pa.array(built.coordinates[1])}
    edges = writer.write_edges(graph, job.threads, with_weights=with_weights)
    row_offsets = writer.write_row_offsets(graph)
    # A table is in degrees. A file of DIMACS and a generator do not say what their numbers are.
    says_nothing = built.coordinates is None or job.edge_list.read_coordinates
    return Manifest(
        format=FORMAT,
        version=VERSION,
        n_vertices=graph.n_vertices,
        n_edges=graph.n_edges,
        degree_skew=graph.traits.degree_skew,
        weights=_weight_facts(built),
        symmetric=built.is_symmetric,
        ids=vertex_ids.mapping,
        coordinates=built.coordinates is not None,
        coordinates_unit=None if says_nothing else "degrees",
        counts=built.counts,
        cleaning=cleaning,
        inputs=given.inputs,
        options=options_of(job.spec),
        reading=built.reading,
        row_offsets=row_offsets,
        edges=edges,
        vertices=writer.write_vertices(pa.table(columns)) if columns else [],
    )


def _manifest(built: Built, given: Given, first: Manifest) -> Manifest:
    """Return the manifest of a further weight of the graph `first`."""
    own = {
        "weights": _weight_facts(built),
        "symmetric": built.is_symmetric,
        "inputs": given.inputs,
        "options": options_of(built.job.spec),
        "reading": built.reading,
    }
    return first.model_copy(update=own)


def _weight_facts(built: Built) -> WeightFacts:
    graph, spec, traits = built.graph, built.job.spec.weights, built.graph.traits
    return WeightFacts(
        dtype=graph.weight_dtype.name,
        unit=without_secrets(spec.unit) if spec.unit else built.job.edge_list.weight_unit,
        scale=spec.scale,
        min=traits.min_weight,
        max=traits.max_weight,
        mean=traits.mean_weight,
        zero=bool((graph.weights == 0).any()),
        negative=traits.min_weight < 0,
    )


def _write_skipped(store: str, skipped: SkippedRows) -> None:
    """Write a file with the first rows that were left out; if there are none, remove the file of an earlier ingest."""
    url = files.join(store, SKIPPED)
    if skipped.count:
        files.write_atomic(url, "".join(line + "\n" for line in skipped.lines).encode())
    else:
        files.remove(url)
