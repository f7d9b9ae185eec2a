"""Ingest: makes a graph store of the input, unless the store is up to date.

The store changes only after the whole input has been read and checked (`new_graph.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from sssp_pipeline.base.progress import Progress, in_bytes, plural
from sssp_pipeline.pipeline.graph_store.manifest import StoreManifest
from sssp_pipeline.pipeline.graph_store.store import (
    is_complete,
    newest_version,
    older_versions,
    remove_older_versions,
)
from sssp_pipeline.pipeline.ingest.graph_identity import check_same_graph, input_files, is_up_to_date
from sssp_pipeline.pipeline.ingest.job import Given
from sssp_pipeline.storage import files
from sssp_pipeline.storage.lease import exclusive
from sssp_pipeline.workflow.graph import Graph

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.ingest.tasks.edge_reader import IngestWorkers


def ingest(
    spec: Graph,
    store: str,
    progress: Progress,
    *,
    remove_old_versions: bool = False,
    workers: IngestWorkers | None = None,
    wider: Mapping[str | None, str] | None = None,
    before_reading: Callable[[], None] | None = None,
) -> tuple[StoreManifest, bool]:
    """Return the manifest of the stored graph, and whether it had to be ingested.

    An unchanged input is not ingested again. If the content of the input has changed, the graph becomes a new version.
    Older versions are kept unless `remove_old_versions` is set. If another process is ingesting into the store, this
    function waits.

    The input is read once for each weight, so that each is read exactly as an only weight is. With `workers`, they read
    it and make the rows, if it has several files and is large; the graph store is the same.

    `wider` has the types that some weights need, by the names of the weights: a path is too long for the type that
    `graph.weights.dtype: auto` chose. Weights that are stored in another type are ingested again.

    `before_reading` is called if the graph has to be ingested, before the input is read.

    Raises
    ------
    InputError
        The input cannot be used, the store has another graph or other files, or the store cannot be written. The
        store is left as it was.
    """
    wider = wider or {}
    given = {
        name: Given(graph, *input_files(graph, whole=graph.changes == "whole"), wider.get(name))
        for name, graph in spec.by_weight.items()
    }
    current = _stored_if_current(given, store)
    if current is not None and not remove_old_versions:
        return current, False
    checked = None
    if current is None:
        # Not at the top: most runs find the graph in the store.
        from sssp_pipeline.pipeline.ingest.new_graph import check_inputs

        checked = check_inputs(given)  # raises for a wrong input before the folder of the store is created

    def report_wait(holder: str) -> None:
        place = files.redacted(store)
        progress.say(f"{holder} is writing to the graph store `{place}`: waiting until it ends", "waiting")

    with exclusive(store, report_wait) as check_held:
        current = _stored_if_current(given, store)  # another process may have ingested it meanwhile
        if (manifest := current) is None:
            from sssp_pipeline.pipeline.ingest.new_graph import ingest_into

            if before_reading is not None:
                before_reading()
            manifest = ingest_into(given, store, check_held, progress, workers)
            del checked  # held until here, so that a generated graph is made once
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
    """Return the manifest of the stored graph if it is the graph of `given` and up to date; raises as `ingest`."""
    newest = newest_version(store)
    if newest is None:
        return None
    check_same_graph(store, newest, {name: one.spec for name, one in given.items()})
    graphs = newest.by_weight
    is_current = all(
        is_up_to_date(graphs[name], one.inputs) and one.wider in (None, graphs[name].weights.dtype)
        for name, one in given.items()
    )
    return newest if is_current and is_complete(store, newest) else None
