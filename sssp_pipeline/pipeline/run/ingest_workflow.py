"""The ingest of a workflow: the first stage of a run, and a command of its own.

The import of solvers and results takes longer than the ingest of a small graph. So this module does not import them:
what only a cluster or a hierarchy needs is imported when the workflow has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from sssp_pipeline.base.compile_notice import COMPILING, on_first_compilation
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.pipeline.graph_store.manifest import StoreManifest
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.storage import files
from sssp_pipeline.storage.durability import syncing
from sssp_pipeline.workflow.models import Workflow

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.ingest.tasks.edge_reader import IngestWorkers
    from sssp_pipeline.pipeline.solving.workers.source import OneCluster


def compile_notice(progress: Progress) -> AbstractContextManager[None]:
    """Report compilation of kernels during the block through `progress`."""
    return on_first_compilation(lambda: progress.say(COMPILING, "compiling"))


def ingest_all(
    workflow: Workflow,
    progress: Progress,
    *,
    remove_old_versions: bool = False,
    hierarchy: bool = False,
    cluster: OneCluster | None = None,
    wider: Mapping[str | None, str] | None = None,
    before_reading: Callable[[], None] | None = None,
) -> StoreManifest:
    """Return the manifest of the workflow's store with all weights. Ingest the graph if the store does not hold it.

    With `hierarchy`, make what the store lacks of a hierarchy too. With a `cluster` of other machines, its workers
    ingest. Worker processes of this machine do not: threads of this process already use all of its cores. `wider` and
    `before_reading` are as for `ingest`.
    """
    if hierarchy:
        return _ingest_with_hierarchy(workflow, progress, remove_old_versions, cluster)
    workers: IngestWorkers | None = None
    if cluster is not None and not cluster.is_here:
        from sssp_pipeline.pipeline.solving.ingest_pool import ClusterForIngest

        workers = ClusterForIngest(cluster, workflow.solve.retries, progress)
    with compile_notice(progress), syncing(workflow.storage.sync):
        stored, fresh = ingest(
            workflow.graph,
            workflow.store,
            progress,
            remove_old_versions=remove_old_versions,
            workers=workers,
            wider=wider,
            before_reading=before_reading,
        )
    for name, manifest in stored.by_weight.items():
        if fresh:
            how, *edges = manifest.reading.lines()
            inputs = workflow.graph.by_weight[name].inputs
            given = ", ".join(map(files.redacted, inputs[:3]))
            progress.say(f"read {given}{', …' * (len(inputs) > 3)}: {how}", "read")
            for line in edges:
                progress.say(line, "read")
    manifest = stored.first
    size = f"{plural(manifest.n_vertices, 'vertex')}, {plural(manifest.n_edges, 'edge')}"
    counts = {name.replace("_", " "): n for name, n in manifest.counts.model_dump().items() if n}
    if len(counts) > 1:  # something was dropped or added
        size += f" ({', '.join(f'{n:,} {name}' for name, n in counts.items())})"
    if (cleaning := manifest.cleaning) is not None:
        progress.say(cleaning.line(), "cleaned", **cleaning.model_dump())
    weights = ", ".join(
        f"{graph.weights.type_text} weights" + ("" if name is None else f" `{name}`")
        for name, graph in stored.by_weight.items()
    )
    store = files.redacted(workflow.store)
    progress.say(
        f"graph: {size}, {weights} in {store}" + ("" if fresh else " (unchanged, not ingested again)"),
        "graph",
        vertices=manifest.n_vertices,
        edges=manifest.n_edges,
        store=store,
    )
    return stored


def _ingest_with_hierarchy(
    workflow: Workflow, progress: Progress, remove_old_versions: bool, cluster: OneCluster | None
) -> StoreManifest:
    """Do what `ingest_all` does with `hierarchy`."""
    from sssp_pipeline.base import compile_children
    from sssp_pipeline.pipeline.run.checks import check_before_making_hierarchy
    from sssp_pipeline.pipeline.run.compile_ahead import compile_for_hierarchy
    from sssp_pipeline.pipeline.run.hierarchy_stage import make_for_all

    check_before_making_hierarchy(workflow)
    try:
        stored = ingest_all(
            workflow,
            progress,
            remove_old_versions=remove_old_versions,
            cluster=cluster,
            before_reading=lambda: compile_for_hierarchy(workflow),
        )
        with compile_notice(progress), syncing(workflow.storage.sync):
            make_for_all(workflow.store, stored, progress)
    finally:
        compile_children.stop()
    return stored
