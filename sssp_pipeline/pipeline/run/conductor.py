"""The conductor: the only module that knows the order of the stages.

ingest → select → solve → combine → verify → report and run.json. Each stage skips what an earlier run of the same
workflow has committed. So an interrupted run continues when it is started again.

A workflow has one weight or several. There is one ingest and one cluster, and a run with a folder of its own for each
weight. The runs are done one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base import compile_children
from sssp_pipeline.base.errors import (
    DiskFullError,
    InputError,
    PathTooLongError,
    ScaledTooLongError,
    StoreUnavailableError,
)
from sssp_pipeline.base.progress import Progress, StartUp
from sssp_pipeline.pipeline.graph_store.store import graph_with, read_newest
from sssp_pipeline.pipeline.graph_store.stores import in_use
from sssp_pipeline.pipeline.planning.selection import select
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.run.checks import check_before_ingest
from sssp_pipeline.pipeline.run.compile_ahead import compile_for_run
from sssp_pipeline.pipeline.run.completed_run import finish_run
from sssp_pipeline.pipeline.run.direction_of_run import in_direction
from sssp_pipeline.pipeline.run.graphs import Graphs
from sssp_pipeline.pipeline.run.ingest_workflow import compile_notice
from sssp_pipeline.pipeline.run.one_run import OneRun
from sssp_pipeline.pipeline.run.way_of_sums import with_way_of_sums
from sssp_pipeline.pipeline.solving.workers.source import OneCluster
from sssp_pipeline.storage import files
from sssp_pipeline.storage.durability import syncing
from sssp_pipeline.storage.lease import exclusive
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.weights import naming_weight

if TYPE_CHECKING:
    from distributed import Client

#: The run folder of each weight and the content of its run.json, by the name of the weight. The name is None if the
#: workflow has one weight without a name.
Runs = dict[str | None, tuple[RunFolder, dict[str, Any]]]


@dataclass
class _Timings:
    """Wall seconds of each stage, in the order of their first start."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - began


def run(workflow: Workflow, progress: Progress, **options: Any) -> tuple[RunFolder, dict[str, Any]]:
    """Return what `run_each` returns for a workflow with one weight; `options` are its keywords."""
    ((found),) = run_each(workflow, progress, **options).values()
    return found


def run_each(
    workflow: Workflow,
    progress: Progress,
    *,
    may_ingest: bool = True,
    finish: bool = True,
    overwrite: bool = False,
    began: float | None = None,
    client: Client | None = None,
) -> Runs:
    """Return the run of each weight, after the stages that are not done yet.

    A weight without a name has its run folder at `output.path`. A named weight has it below, at its name.

    Parameters
    ----------
    workflow
        What to do.
    progress
        Gets each stage.
    may_ingest
        False requires an existing graph store.
    finish
        False leaves out verify and report.
    overwrite
        Remove the files of earlier runs, and no others, from their folders before solving.
    began
        The value of `time.perf_counter()` when the command began, for the event `started`; None means now.
    client
        A client of a Dask cluster. Its workers do the run, and it stays open. None means the cluster of the workflow.

    Raises
    ------
    InputError
        The input or an option cannot be used. Committed batches stay, and half-written files are removed.
    RefutedError
        A stored distance is wrong. run.json has the verdict too.
    SsspError
        Batches failed on every attempt. A second run tries them again. If weights have names, the message of each
        error names the weight. The runs of earlier weights are finished then, and later ones have not begun.
    """
    start_up, timings = StartUp(began), _Timings()
    start_up.end("imports")
    spec = workflow.cluster
    if client is not None:
        # The import of Dask takes as long as the ingest of a small graph.
        from sssp_pipeline.pipeline.solving.workers.address import cluster_of_client

        spec = cluster_of_client(client, spec)
    weights = {name: workflow.with_weight(name) for name in workflow.weights}
    if workflow.graph.weights.several is not None:
        _check_no_run(workflow.output.path)
    for name, one in weights.items():
        with naming_weight(name):
            RunFolder(one.output.path).check_ours()
            on_spec = one.model_copy(update={"cluster": spec})
            check_before_ingest(on_spec, progress, cluster=client is None, overwrite=overwrite)
    done: Runs = {}
    with OneCluster(spec, client) as cluster, ExitStack() as using:
        using.callback(compile_children.stop)
        graphs = Graphs(workflow, progress, cluster, lambda: compile_for_run(workflow))
        if may_ingest:
            with timings.of("ingest"):
                graphs.ingest()
        using.enter_context(in_use(workflow.store))
        for number, (name, one) in enumerate(weights.items(), start=1):
            if name is not None:
                progress.say(f"weight {number} of {len(weights)}: {name}", "weight", weight=name)
            is_last = number == len(weights)
            stages = _Stages(one, graphs, cluster, is_last, may_ingest, finish, timings, start_up, progress)
            with naming_weight(name), _saying_what_is_kept():
                done[name] = stages.do(overwrite)
            start_up, timings = StartUp(), _Timings()
    return done


@contextmanager
def _saying_what_is_kept() -> Iterator[None]:
    """Add to the hint of an error of the storage that committed batches are kept."""
    try:
        yield
    except (DiskFullError, StoreUnavailableError) as error:
        error.hint = f"{error.hint}: what is committed is kept"
        raise


def _check_no_run(path: str) -> None:
    """Raise `InputError` if the folder that is to hold a folder for each weight is itself a run."""
    if RunFolder(path).is_begun():
        raise InputError(
            f"`{files.redacted(path)}` holds the run of a single weight, and the workflow has several",
            hint="choose another `output.path`",
        )


@dataclass(frozen=True)
class _Stages:
    """The stages of the run of one weight."""

    #: The workflow with the weight of this run.
    workflow: Workflow
    graphs: Graphs
    cluster: OneCluster
    #: Whether no later run needs the cluster.
    is_last: bool
    may_ingest: bool
    finish: bool
    timings: _Timings
    start_up: StartUp
    progress: Progress

    def do(self, overwrite: bool) -> tuple[RunFolder, dict[str, Any]]:
        """Return the run folder and the content of its run.json.

        If a path is too long for a type that `auto` chose, the graph is ingested with a wider type, and the run begins
        again.
        """
        folder = RunFolder(self.workflow.output.path)
        try:
            with syncing(self.workflow.storage.sync):
                return folder, self._in_order(folder, overwrite)
        except (PathTooLongError, ScaledTooLongError) as error:
            wider = _wider_type(self.workflow, error) if self.may_ingest else None
            if wider is None:
                raise
            self.progress.say(f"{error.message}: the run goes on with {wider}", "wider", dtype=wider)
            with exclusive(folder.url), syncing(self.workflow.storage.sync):
                folder.remove()  # its batches have the narrower type
            with self.timings.of("ingest"):
                self.graphs.widen(self.workflow.weight, wider)
        return self.do(overwrite=False)

    def _in_order(self, folder: RunFolder, overwrite: bool) -> dict[str, Any]:
        """Return the content of run.json after all stages."""
        with self.timings.of("ingest"):
            begun_with = None if overwrite else folder.graph()
            stored = self.graphs.graph(self.workflow.weight, begun_with)
        self.start_up.end("ingest")
        with self.timings.of("plan"):
            selected = select(self.workflow, stored, self.progress)
        with (
            compile_notice(self.progress),
            exclusive(folder.url) as still_ours,
            self.cluster.closed_on_error(),  # before another process may have the folder
            ExitStack() as using,
        ):
            if overwrite:
                folder.check_ours()
                folder.check_no_strays(None)
                folder.remove()
            selected = in_direction(
                self.workflow, stored, selected, folder, lambda: self.cluster.source().machine
            )
            with self.timings.of("plan"):
                way = with_way_of_sums(
                    self.workflow,
                    stored,
                    selected,
                    folder,
                    lambda: self.cluster.source().machine,
                    self.progress,
                )
            if way.line is not None:
                self.progress.say(way.line, "way_of_sums")
            verify = self.workflow.verify if self.finish else "off"
            run = OneRun(
                self.workflow,
                stored,
                way.selected,
                verify,
                folder,
                still_ours,
                self.cluster,
                using,
                self.start_up,
                self.progress,
            )
            record = run.finished_record()
            is_finished = record is not None
            if record is None:
                with self.timings.of("solve"):
                    solved = run.solve_missing()
                if self.is_last and verify == "off":
                    self.cluster.close()
                record = run.combined(solved)
            facts = run.begin_report(record) if self.finish and self.workflow.report else None
            if not is_finished:
                record |= run.written_files()
            if run.is_unverified(record):
                with self.timings.of("verify"):
                    record["verify"] = run.verified()
                if self.is_last:
                    self.cluster.close()
            if not is_finished:
                record["timings"] = self.timings.seconds
                record["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
            still_ours()
            finish_run(folder, record, None if facts is None else facts.result())
            return record


def _wider_type(workflow: Workflow, error: PathTooLongError | ScaledTooLongError) -> str | None:
    """Return the type for a distance that the type in the store cannot hold; None if `auto` did not choose it.

    None also means that there is no such type.
    """
    weights = workflow.graph.weights
    if weights.dtype != "auto":
        return None
    if error.wider is None or isinstance(error, ScaledTooLongError):
        stored = graph_with(workflow.weight, read_newest(workflow.store), workflow.store).weights
        return "float64" if weights.scale == "auto" and stored.scale is not None else None
    return error.wider
