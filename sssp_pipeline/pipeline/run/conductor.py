"""The conductor: the only module that knows the order of the stages.

ingest → sources → plan → scatter → metrics → verify → report → run.json. Each stage skips what an earlier run of the
same workflow has committed. So an interrupted run continues when it is started again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from sssp_pipeline.base.errors import InputError, PathTooLongError, ScaledTooLongError, UnsolvableError
from sssp_pipeline.base.progress import Level, Progress, StartUp, plural
from sssp_pipeline.base.vertex_ids import digest_of
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.pipeline.graph_store.store import graph_with, older_versions, read_newest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.machine import Machine, hardware, this_machine, versions
from sssp_pipeline.pipeline.planning.plan import Plan, cut, make_plan, work_of
from sssp_pipeline.pipeline.planning.selection import Selection
from sssp_pipeline.pipeline.planning.snapping import Snapper
from sssp_pipeline.pipeline.planning.sources import Skipped, select_sources
from sssp_pipeline.pipeline.results.answers import Reduced
from sssp_pipeline.pipeline.results.damage import recorded_files
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat, check_unreached
from sssp_pipeline.pipeline.results.distance_outputs import VertexDistances
from sssp_pipeline.pipeline.results.metrics_output import MetricsAlone
from sssp_pipeline.pipeline.results.outputs import RowOutput, output_of
from sssp_pipeline.pipeline.results.overall import overall_facts, overall_numbers
from sssp_pipeline.pipeline.results.run_files import SNAPPED_FILE
from sssp_pipeline.pipeline.results.run_folder import RUN_FORMAT, RUN_VERSION, RunFolder
from sssp_pipeline.pipeline.results.vertex_table import write_vertex_table
from sssp_pipeline.pipeline.run.checks import check_before_ingest
from sssp_pipeline.pipeline.run.completed_run import finish_run
from sssp_pipeline.pipeline.run.hierarchy_stage import planned, prepare
from sssp_pipeline.pipeline.run.ingest_workflow import compile_notice, ingest_all
from sssp_pipeline.pipeline.run.repair import is_whole
from sssp_pipeline.pipeline.solving.stage import Solved, Solving
from sssp_pipeline.pipeline.solving.workers.source import OneCluster
from sssp_pipeline.pipeline.verification.stage import Verifying
from sssp_pipeline.storage import files
from sssp_pipeline.storage.durability import syncing
from sssp_pipeline.storage.lease import exclusive
from sssp_pipeline.workflow.models import Workflow


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


def ingest_stage(workflow: Workflow, progress: Progress, cluster: OneCluster | None = None) -> StoredGraph:
    """Return the graph of a workflow with one weight. Ingest it if the store does not hold it, as `ingest_all`."""
    stored = ingest_all(workflow, progress, cluster=cluster)
    return StoredGraph(workflow.store, graph_with(None, stored, workflow.store))


def select_stage(
    workflow: Workflow, stored: StoredGraph, progress: Progress
) -> tuple[list[np.ndarray], RowOutput, Skipped, Snapper]:
    """Return the batches of a run on a stored graph, what it stores of each row, and what became of ids and points.

    The last two are the ids that were left out, and the vertices of the points.
    """
    progress.stage("plan")
    if stored.manifest.weights.scale is None:  # with a scale, distances are written as float64
        check_unreached(workflow.output.unreached, stored.manifest.traits.weight_dtype)
    skipped, snapper = Skipped(), Snapper(stored)
    sources = select_sources(workflow.sources, stored.ids, stored.graph, skipped, snapper)
    given, solve, manifest = workflow.output, workflow.solve, stored.manifest
    scale = manifest.weights.scale
    form = DistanceFormat(given.layout, given.unreached, given.compression, solve.predecessors, scale)
    choose = Selection(stored.ids, stored.graph, manifest.traits.weight_dtype, skipped, snapper)
    output = output_of(form, given, choose)
    for sentence in snapper.sentences():
        progress.say(sentence, "snapped")
    for sentence in skipped.sentences():
        progress.say(sentence, level="warning")
    batches = cut(manifest.traits, sources, solve, output.kept)
    if batches and solve.batch != "auto" and len(batches[0]) > solve.batch:
        progress.say(
            f"`solve.batch: {solve.batch}` would make {-(-len(sources) // solve.batch):,} small files: "
            f"a batch has {plural(len(batches[0]), 'source')}",
            "batches_joined",
            batch=len(batches[0]),
        )
    return batches, output, skipped, snapper


def plan_stage(workflow: Workflow, stored: StoredGraph, progress: Progress) -> Plan:
    """Return the plan of a run on a stored graph, for workers on this machine."""
    batches, output, _, _ = select_stage(workflow, stored, progress)
    solve, machine = workflow.solve, this_machine()
    work = work_of(stored.manifest.traits, batches, solve, output.kept)
    traits, no_hierarchy = planned(stored, solve, work, machine)
    return make_plan(traits, batches, solve, output, machine, no_hierarchy)


def run(
    workflow: Workflow,
    progress: Progress,
    *,
    may_ingest: bool = True,
    finish: bool = True,
    overwrite: bool = False,
    began: float | None = None,
    of_several: OfSeveral | None = None,
) -> tuple[RunFolder, dict[str, Any]]:
    """Return the run folder and the content of its run.json, after the stages that are not done yet.

    A workflow with several weights is run by `run_each`.

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
        Remove the files of an earlier run, and no others, from the folder before solving.
    began
        The value of `time.perf_counter()` when the command began, for the event `started`; None means now.
    of_several
        What `run_each` shares between the runs of several weights. `workflow` then has one of them.

    Raises
    ------
    InputError
        The input or an option cannot be used. Committed batches stay, and half-written files are removed.
    RefutedError
        A stored distance is wrong. run.json has the verdict too.
    SsspError
        Batches failed on every attempt. A second run tries them again.
    """
    given = workflow, progress
    try:
        with syncing(workflow.storage.sync):
            return _run(*given, may_ingest, finish, overwrite, began, of_several)
    except (PathTooLongError, ScaledTooLongError) as error:
        if not may_ingest or (wider := _wider_type(workflow, error)) is None:
            raise
        folder = RunFolder(workflow.output.path)
        progress.say(f"{error.message}: the run goes on with {wider}", "wider", dtype=wider)
        with exclusive(folder.url), syncing(workflow.storage.sync):
            folder.remove()  # its batches have the narrower type
        if of_several is not None:
            of_several.widen(workflow.weight, wider)
        else:
            ingest_all(workflow, progress, wider={None: wider})
        return run(*given, finish=finish, began=began, of_several=of_several)


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


def _run(
    workflow: Workflow,
    progress: Progress,
    may_ingest: bool,
    finish: bool,
    overwrite: bool,
    began: float | None,
    of_several: OfSeveral | None,
) -> tuple[RunFolder, dict[str, Any]]:
    """Do what `run` does, with the type of the weights that the store has."""
    timings, start_up = _Timings(), StartUp(began)
    if of_several is not None:
        timings.seconds["ingest"] = of_several.ingest_s
        start_up = of_several.start_up
    start_up.end("imports")
    folder = RunFolder(workflow.output.path)
    folder.check_ours()
    check_before_ingest(workflow, progress, overwrite=overwrite)
    cluster = OneCluster(workflow.cluster) if of_several is None else of_several.cluster
    with nullcontext() if of_several else cluster:
        with timings.of("ingest"):
            begun_with = None if overwrite or may_ingest else folder.graph()
            if of_several is not None:
                stored = of_several.graph(begun_with)
            elif may_ingest:
                stored = ingest_stage(workflow, progress, cluster)
            else:
                stored = StoredGraph(workflow.store, version_of(workflow.store, None, begun_with))
        start_up.end("ingest")
        with timings.of("plan"):
            batches, output, skipped, snapper = select_stage(workflow, stored, progress)
        with (
            compile_notice(progress),
            exclusive(folder.url) as still_ours,
            nullcontext() if of_several else cluster,  # it ends before another process may have the folder
        ):
            if overwrite:
                folder.check_ours()
                folder.check_no_strays(None)
                folder.remove()
            job = _Job(
                workflow,
                stored,
                batches,
                output,
                skipped,
                snapper,
                folder,
                timings,
                start_up,
                progress,
                still_ours,
                of_several,
                cluster,
            )
            return folder, job.carry_out(finish)


def version_of(store: str, weight: str | None, begun_with: str | None) -> Manifest:
    """Return the manifest of the graph version with which the run began, or of the newest if the store lacks it."""
    newest = read_newest(store)
    for version in (newest, *older_versions(store, newest).values()):
        graph = version.by_weight.get(weight)
        if graph is not None and graph.content_id == begun_with:
            return graph
    return graph_with(weight, newest, store)


@dataclass
class OfSeveral:
    """What the run of one weight has from a run of several."""

    #: The workflow with all weights.
    workflow: Workflow
    #: Returns the graph. It takes the content id of the graph with which the run began, or None.
    graph: Callable[[str | None], StoredGraph]
    #: Ingests the graph again with a wider type of the weight of this name.
    widen: Callable[[str | None, str], None]
    #: Ended by the last run, or by the caller.
    cluster: OneCluster
    is_last: bool
    start_up: StartUp
    #: Seconds of the ingest of all weights, for the first of them.
    ingest_s: float


@dataclass
class _Job:
    """One run, from its plan to its run.json. This process has exclusive access to the run folder meanwhile."""

    workflow: Workflow
    stored: StoredGraph
    batches: list[np.ndarray]
    output: RowOutput
    skipped: Skipped
    snapper: Snapper
    folder: RunFolder
    timings: _Timings
    start_up: StartUp
    progress: Progress
    still_ours: Callable[[], None]
    of_several: OfSeveral | None
    cluster: OneCluster

    def __post_init__(self) -> None:
        #: Everything that the bytes of the distances depend on. Another identity is another run.
        self._identity = {
            "graph": self.stored.manifest.content_id,
            "sources": digest_of(*self.batches),
            **self.output.identity(),
            "batch": len(self.batches[0]) if self.batches else 0,
            "cutoff": self.workflow.solve.cutoff,
            **self.output.form.identity(),
            # A run without points has the identity that it always had.
            **({} if (digest := self.snapper.digest) is None else {"snapped": digest}),
        }
        #: Whether no other run needs the cluster.
        self._ends_cluster = self.of_several is None or self.of_several.is_last
        #: The values of a `TaskStage`.
        self._of_stages = (
            self.stored,
            self.batches,
            self.output,
            self.folder,
            self._identity,
            self.workflow.solve.retries,
            self.progress,
        )
        self._verifying = Verifying(*self._of_stages, self.workflow.verify)

    def carry_out(self, finish: bool) -> dict[str, Any]:
        """Return the content of run.json after the missing batches are solved; verify and report only if `finish`."""
        will_verify = finish and self.workflow.verify != "off"
        is_finished = self.folder.begin(self._identity)
        self.folder.clean()
        if is_finished:
            record = self.folder.read_run()
            self.folder.check_no_strays(record["files"])

            def solve(batches: list[int]) -> None:
                with self.timings.of("solve"):
                    self._solve_missing(batches, will_verify)

            of_run = self.folder, record, self._identity, self.progress
            is_finished = is_whole(*of_run, solve, self._write_inputs)
        if not is_finished:
            self.folder.check_no_strays(None)
            record = self._solved_record(will_verify)
        if will_verify and self.workflow.verify not in _included(record["verify"]):
            with self.timings.of("verify"):
                record["verify"] = self._verifying.verify_on(self.cluster.source()).record()
            if self._ends_cluster:
                self.cluster.close()
        if not is_finished:
            record["timings"] = self.timings.seconds
            record["finished"] = datetime.now(UTC).isoformat(timespec="seconds")
        self.still_ours()
        finish_run(self.folder, record, self.stored, report=finish and self.workflow.report)
        return record

    def _solved_record(self, will_verify: bool) -> dict[str, Any]:
        """Return the content of run.json of an unfinished run after all of its batches are solved."""
        with self.timings.of("solve"):
            solved = self._solve(will_verify)
        if not will_verify and self._ends_cluster:
            self.cluster.close()
        self.still_ours()
        self.folder.clean()  # a dead worker may have left a half-written file
        scale, weights = self.output.form.scale, self.stored.manifest.weights
        metrics = self.folder.finish_metrics(len(self.batches), self.stored.ids, scale)
        dtype = self.stored.manifest.traits.weight_dtype
        overall = overall_numbers(self.folder, metrics, self.output, len(self.batches), dtype)
        if facts := list(overall_facts(overall, weights.unit)):
            line = "; ".join(f"{name} {text}" for name, text in facts)
            is_asked_for = isinstance(self.output, Reduced | MetricsAlone)
            level: Level = "info" if is_asked_for else "detail"
            self.progress.say(line, "overall", level=level, **overall)
        if isinstance(self.output, VertexDistances) and self.output.form.layout == "wide":
            self.progress.stage("merge")
            self.folder.merge(self.batches, self.output, self.stored.ids, dtype, self.progress)
        if isinstance(self.output, Reduced) and self.output.is_per_vertex:
            self.progress.stage("merge")
            ids, traits = self.stored.ids, self.stored.manifest.traits
            of_run = self.folder, self.output, len(self.batches)
            write_vertex_table(*of_run, ids, traits, metrics, self.progress)
        self._write_inputs()
        self.folder.check_no_strays(self.folder.sums)
        return {**self._record(solved), "overall": overall}

    def _write_inputs(self) -> None:
        """Write the files of results that follow from the workflow alone."""
        if (snapped := self.snapper.table) is not None:
            self.folder.write_table(SNAPPED_FILE, snapped)
        if self.output.note_stays and (note := self.output.note()) is not None:
            self.folder.note_output(note, stays=True)

    def _record(self, solved: Solved) -> dict[str, Any]:
        """Return the content of run.json after solving; later stages add to it."""
        of_weight = {}
        if self.of_several is None:
            resolved = self.workflow.resolved()
        else:
            resolved, weight = self.of_several.workflow.resolved(), str(self.workflow.weight)
            resolved["output"]["path"] = files.join(resolved["output"]["path"], weight)
            of_weight = {"weight": weight}
        described = {"n_vertices", "n_edges", "weights", "symmetric", "ids", "counts", "cleaning", "reading"}
        return {
            "format": RUN_FORMAT,
            "version": RUN_VERSION,
            "name": resolved["name"],
            **of_weight,
            "workflow": resolved,
            "identity": self._identity,
            "graph": self.stored.manifest.model_dump(mode="json", include=described),
            "sources": sum(len(b) for b in self.batches),
            "targets": self.output.n_targets,
            "skipped": asdict(self.skipped),
            "batches": len(self.batches),
            "solver": solved.solver,
            "solver_reason": solved.reason,
            "thread_s": solved.thread_s,
            "hardware": hardware(),
            "versions": versions(),
            "starts": self.folder.noted().get("starts", []),
            **recorded_files(self.folder.sums),
            "verify": None,
        }

    def _solve(self, will_verify: bool) -> Solved:
        """Solve and commit the batches that are missing or damaged."""
        damaged = self.folder.damaged_batches(len(self.batches))
        for name, fault in damaged.values():
            url = files.redacted(self.folder.path(name))
            self.progress.say(f"`{url}` {fault}: its batch is solved again", "damaged", level="warning")
        committed = self.folder.committed() - damaged.keys()
        missing = [number for number in range(len(self.batches)) if number not in committed]
        if committed:
            self.progress.say(
                f"going on: {len(committed)} of {len(self.batches)} batches are committed already",
                "going_on",
                done=len(committed),
                total=len(self.batches),
            )
        noted = self.folder.noted()
        if not missing and "solver" in noted:
            return Solved(noted["solver"], "chosen when the run was begun")
        try:
            return self._solve_missing(missing, will_verify)
        except InputError as error:
            self.cluster.close()  # its workers may still write, so it ends before files are removed
            self.still_ours()
            # A run that another process has finished meanwhile has no commits either.
            is_lost = isinstance(error, UnsolvableError) or not self.folder.committed()
            if is_lost and self.folder.awaits(self._identity):
                self.folder.abandon()
            raise

    def _solve_missing(self, missing: list[int], will_verify: bool) -> Solved:
        """Solve and commit the batches that are `missing`."""
        self.start_up.end("plan")
        source = self.cluster.source()
        plan = self._plan(source.machine, missing)
        why = "asked for" if plan.n_compared == 1 else f"`sssp-pipeline plan` compares {plan.n_compared}"
        self.progress.say(
            f"solver: {plan.solver} ({why})", "solver", solver=plan.solver, total=len(self.batches)
        )
        self.progress.say(
            f"{plan.solver}: {plan.solver_reason}; {plural(len(self.batches), 'batch')}",
            "solver_reason",
            level="detail",
        )
        least_bytes = self._verifying.task_bytes if will_verify else 0
        stage = Solving(
            *self._of_stages, self.workflow, missing, plan, self.still_ours, self.start_up, least_bytes
        )
        return stage.solve_on(source)

    def _plan(self, machine: Machine, missing: list[int]) -> Plan:
        """Return the plan; make the hierarchy of the graph before, if the batches that are `missing` are to use one."""
        solve, traits = self.workflow.solve, self.stored.manifest.traits
        left = work_of(traits, [self.batches[number] for number in missing], solve, self.output.kept)
        traits, no_hierarchy = prepare(self.stored, solve, left, machine, self.progress)
        return make_plan(traits, self.batches, solve, self.output, machine, no_hierarchy)


def _included(verdict: dict[str, Any] | None) -> tuple[str, ...]:
    """Return the modes of `verify` that need not run again after `verdict`."""
    if verdict is None:
        return ()
    return ("sample", "certificate") if verdict["mode"] == "certificate" else ("sample",)
