"""The graphs of a workflow, one for each weight: ingested, or taken from the store."""

from __future__ import annotations

from collections.abc import Callable

from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.graph_store.manifest import Manifest, StoreManifest
from sssp_pipeline.pipeline.graph_store.store import graph_with, older_versions, read_newest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.ingest.graph_identity import is_up_to_date
from sssp_pipeline.pipeline.run.ingest_workflow import ingest_all
from sssp_pipeline.pipeline.solving.workers.source import OneCluster
from sssp_pipeline.workflow.models import Workflow


class Graphs:
    """The graphs of a workflow. A graph shares with the one before it what is loaded and the same.

    Parameters
    ----------
    workflow
        The workflow with all weights.
    progress
        Gets what an ingest reports.
    cluster
        Its workers ingest if they are on other machines. Without it, this machine ingests.
    before_reading
        As for `ingest_all`.
    """

    def __init__(
        self,
        workflow: Workflow,
        progress: Progress,
        cluster: OneCluster | None = None,
        before_reading: Callable[[], None] | None = None,
    ) -> None:
        self._workflow, self._progress, self._cluster = workflow, progress, cluster
        self._before_reading = before_reading
        #: The version of the graph that was ingested.
        self._manifest: StoreManifest | None = None
        #: The types that distances turned out to need, by weight.
        self._wider: dict[str | None, str] = {}
        self._last: StoredGraph | None = None

    def ingest(self) -> None:
        """Ingest the graph with all weights, if the store does not hold it. Raises the errors of `ingest_all`."""
        self._manifest = ingest_all(
            self._workflow,
            self._progress,
            cluster=self._cluster,
            wider=self._wider or None,
            before_reading=self._before_reading,
        )
        self._last = None

    def widen(self, name: str | None, dtype: str) -> None:
        """Ingest the graph again, with a wider type of one weight. Raises the errors of `ingest_all`."""
        self._wider[name] = dtype
        self.ingest()

    def graph(self, name: str | None, begun_with: str | None = None) -> StoredGraph:
        """Return the graph with a weight: of the version that `ingest` returned, or of a version in the store.

        Parameters
        ----------
        name
            The weight; None for a weight without a name.
        begun_with
            The content id of the graph with which a run began. If the store has lost this version, or without it, the
            newest one is taken. After `ingest`, only a version of the same input is taken: another run may have needed
            a wider type of the weights since.
        """
        store = self._workflow.store
        if self._manifest is None:
            manifest = _version(store, name, begun_with)
        else:
            manifest = graph_with(name, self._manifest, store)
            if begun_with not in (None, manifest.content_id):
                begun = _version(store, name, begun_with)
                manifest = begun if is_up_to_date(begun, manifest.inputs) else manifest
        self._last = StoredGraph(store, manifest) if self._last is None else self._last.beside(manifest)
        return self._last


def _version(store: str, name: str | None, begun_with: str | None) -> Manifest:
    """Return the manifest with the content id `begun_with`, or the newest one if the store lacks it."""
    newest = read_newest(store)
    for version in (newest, *older_versions(store, newest).values()):
        graph = version.by_weight.get(name)
        if graph is not None and graph.content_id == begun_with:
            return graph
    return graph_with(name, newest, store)
