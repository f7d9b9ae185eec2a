"""Several weights: one ingest and one cluster, and a run folder for each weight.

The runs are done one after the other, each as `run` does it. So each is resumed, verified and read like any other run.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress, StartUp
from sssp_pipeline.pipeline.graph_store.manifest import StoreManifest
from sssp_pipeline.pipeline.graph_store.store import graph_with
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.run_folder import RunFolder
from sssp_pipeline.pipeline.run.checks import check_before_ingest
from sssp_pipeline.pipeline.run.conductor import OfSeveral, run, version_of
from sssp_pipeline.pipeline.run.ingest_workflow import ingest_all
from sssp_pipeline.pipeline.run.plan_facts import describe_plan, facts_of_plan
from sssp_pipeline.pipeline.solving.workers.source import OneCluster
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.weights import naming_weight

#: The run folder of each weight and the content of its run.json, by the name of the weight; None names an only weight.
Runs = dict[str | None, tuple[RunFolder, dict[str, Any]]]


def run_each(
    workflow: Workflow,
    progress: Progress,
    *,
    may_ingest: bool = True,
    finish: bool = True,
    overwrite: bool = False,
    began: float | None = None,
) -> Runs:
    """Return what `run` returns, for each weight that the workflow solves.

    Each of several weights has its run folder below `output.path`, named like the weight.

    Parameters
    ----------
    workflow, progress, may_ingest, finish, overwrite, began
        As for `run`.

    Raises
    ------
    SsspError
        As `run`; the message names the weight. Runs of earlier weights are finished, and later ones have not begun.
    """
    if workflow.graph.weights.several is None:
        found = run(
            workflow, progress, may_ingest=may_ingest, finish=finish, overwrite=overwrite, began=began
        )
        return {None: found}
    start_up = StartUp(began)
    start_up.end("imports")
    alone = _one_by_one(workflow)
    _check_no_run(workflow.output.path)
    for name, one in alone.items():
        with naming_weight(name):
            RunFolder(one.output.path).check_ours()
            check_before_ingest(one, progress, overwrite=overwrite)
    done: Runs = {}
    with OneCluster(workflow.cluster, keeps=True) as cluster:
        began_ingest = time.perf_counter()
        manifest = ingest_all(workflow, progress, cluster=cluster) if may_ingest else None
        graphs = _Graphs(workflow.store, manifest)
        chosen: dict[str | None, str] = {}

        def widen(name: str | None, dtype: str) -> None:
            chosen[name] = dtype
            graphs.replace(ingest_all(workflow, progress, cluster=cluster, wider=chosen))

        ingest_s = time.perf_counter() - began_ingest
        start_up.end("ingest")
        for number, (name, one) in enumerate(alone.items(), start=1):
            progress.say(f"weight {number} of {len(alone)}: {name}", "weight", weight=name)
            is_last = number == len(alone)
            shared = OfSeveral(workflow, graphs.of(name), widen, cluster, is_last, start_up, ingest_s)
            with naming_weight(name):
                done[name] = run(
                    one,
                    progress,
                    may_ingest=may_ingest,
                    finish=finish,
                    overwrite=overwrite,
                    of_several=shared,
                )
            start_up, ingest_s = StartUp(), 0.0
    return done


def plan_each(workflow: Workflow, probe: int, progress: Progress) -> dict[str, Any]:
    """Return what `describe_plan` returns; for several weights by the name of the weight. It raises the same errors."""
    if workflow.graph.weights.several is None:
        return describe_plan(workflow, probe, progress)
    alone = _one_by_one(workflow)
    for name, one in alone.items():
        with naming_weight(name):
            check_before_ingest(one, progress, cluster=False)
    graphs = _Graphs(workflow.store, ingest_all(workflow, progress))
    facts = {}
    for name, one in alone.items():
        with naming_weight(name):
            facts[name] = facts_of_plan(one, graphs.of(name)(None), probe, progress)
    return facts


def _one_by_one(workflow: Workflow) -> dict[str, Workflow]:
    """Return the workflow of each weight alone."""
    return {str(name): workflow.with_weight(name) for name in workflow.weights}


def _check_no_run(path: str) -> None:
    """Raise `InputError` if the folder that is to hold a folder for each weight is itself a run."""
    if RunFolder(path).is_begun():
        raise InputError(
            f"`{files.redacted(path)}` holds the run of a single weight, and the workflow has several",
            hint="choose another `output.path`",
        )


class _Graphs:
    """The graphs of a store. What is loaded of one is not loaded again for the next."""

    def __init__(self, store: str, manifest: StoreManifest | None) -> None:
        """`manifest` has all weights; None lets each run choose the version with which it began."""
        self._store, self._manifest = store, manifest
        self._last: StoredGraph | None = None

    def replace(self, manifest: StoreManifest) -> None:
        """Take the graphs from now on from a newer `manifest`."""
        self._manifest, self._last = manifest, None

    def of(self, name: str) -> Callable[[str | None], StoredGraph]:
        """Return a function that returns the graph with this weight, as `OfSeveral.graph`."""

        def graph(begun_with: str | None) -> StoredGraph:
            if self._manifest is None:
                manifest = version_of(self._store, name, begun_with)
            else:
                manifest = graph_with(name, self._manifest, self._store)
            if self._last is None:
                self._last = StoredGraph(self._store, manifest)
            else:
                self._last = self._last.beside(manifest)
            return self._last

        return graph
