"""The run of one weight: its batches are solved, combined and verified, and run.json tells of it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sssp_pipeline.base import compile_children
from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.errors import InputError, UnsolvableError
from sssp_pipeline.base.progress import Level, Progress, StartUp, plural
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.machine import hardware, versions
from sssp_pipeline.pipeline.planning.plan import make_plan
from sssp_pipeline.pipeline.planning.selection import Selected
from sssp_pipeline.pipeline.planning.work import work_of
from sssp_pipeline.pipeline.results.folder.damage import recorded_files
from sssp_pipeline.pipeline.results.folder.graph_of_run import STORE_FROM_RUN, store_from_run
from sssp_pipeline.pipeline.results.folder.run_files import (
    BACKWARD,
    DIRECTION,
    FORWARD,
    METRICS_FILE,
    SNAPPED_FILE,
)
from sssp_pipeline.pipeline.results.folder.run_folder import RUN_FORMAT, RUN_VERSION, RunFolder
from sssp_pipeline.pipeline.results.overall import overall_facts, overall_numbers
from sssp_pipeline.pipeline.run.compile_ahead import wait_until_compiled
from sssp_pipeline.pipeline.run.completed_run import load_report, report_facts_of
from sssp_pipeline.pipeline.run.direction_of_run import identity_of
from sssp_pipeline.pipeline.run.hierarchy_stage import prepare
from sssp_pipeline.pipeline.run.hierarchy_steps import CountedAhead, Found
from sssp_pipeline.pipeline.run.order_ahead import order_ahead
from sssp_pipeline.pipeline.run.pace import Searches, pace_of_run, reach_of_run
from sssp_pipeline.pipeline.run.repair import is_whole
from sssp_pipeline.pipeline.solving.stage import Solved, Solving
from sssp_pipeline.pipeline.solving.workers.local import has_one_gpu
from sssp_pipeline.pipeline.solving.workers.source import OneCluster
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import FileSum
from sssp_pipeline.workflow.models import Workflow

if TYPE_CHECKING:
    import pyarrow as pa

    from sssp_pipeline.pipeline.verification.stage import Verifying

#: The facts of a graph that run.json has.
_GRAPH_FACTS = {"n_vertices", "n_edges", "weights", "symmetric", "ids", "counts", "cleaning", "reading"}


@dataclass(eq=False)
class OneRun:
    """The run of one weight. This process has exclusive access to the run folder."""

    #: The workflow with the weight of this run.
    workflow: Workflow
    stored: StoredGraph
    selected: Selected
    #: "off", "sample" or "certificate": as the workflow, or "off" if the command leaves verification out.
    verify: str
    folder: RunFolder
    #: As `lease.exclusive` gives it.
    still_ours: Callable[[], None]
    cluster: OneCluster
    #: Ends what was begun, at the end of the run.
    using: ExitStack
    start_up: StartUp
    progress: Progress

    def __post_init__(self) -> None:
        #: What the run holds in the end, and what is solved for that.
        self._batches, self._output = self.selected.batches, self.selected.output
        self._searched = self.selected.searched
        self._identity = identity_of(self.workflow, self.stored, self.selected)
        #: The values of a `TaskStage` after the first three.
        self._of_stages = self.folder, self._identity, self.workflow.solve.retries, self.progress
        #: The content of `metrics.parquet`, and the sum of the file when it is written. Only if this run made them.
        self._metrics: pa.Table | None = None
        self._writing: Future[FileSum]

    @cached_property
    def _verifying(self) -> Verifying:
        # Not at the top: a run that is not verified does not need it.
        from sssp_pipeline.pipeline.verification.stage import Verifying

        return Verifying(self.stored, self._batches, self._output, *self._of_stages, self.verify)

    @cached_property
    def _aside(self) -> ThreadPoolExecutor:
        """Threads: one writes the metrics, and one makes what the report shows of them, while the run is verified."""
        return self.using.enter_context(ThreadPoolExecutor(2, "aside"))

    def finished_record(self) -> dict[str, Any] | None:
        """Return the content of run.json if the run was finished before. Damaged files are written again.

        None means that batches are missing, or that the damage makes all batches be solved again.
        """
        is_finished = self.folder.begin(self._identity)
        self.folder.clean()
        if is_finished:
            record = self.folder.read_run()
            self.folder.check_no_strays(record["files"])
            of_run = self.folder, record, self._identity, self.progress
            if is_whole(*of_run, self._solve, self._write_inputs):
                return record
        self.folder.check_no_strays(None)
        return None

    def solve_missing(self) -> Solved:
        """Solve and commit the batches that are missing or damaged."""
        total = len(self._searched.batches)
        damaged = self.folder.damaged_batches(total)
        for name, fault in damaged.values():
            url = files.redacted(self.folder.path(name))
            self.progress.say(f"`{url}` {fault}: its batch is solved again", "damaged", level="warning")
        committed = self.folder.committed() - damaged.keys()
        missing = [number for number in range(total) if number not in committed]
        if committed:
            self.progress.say(
                f"going on: {len(committed)} of {total} batches are committed already",
                "going_on",
                done=len(committed),
                total=total,
            )
        start = self.folder.read_start()
        if not missing and "solver" in start:
            return Solved(start["solver"], "chosen when the run was begun")
        try:
            return self._solve(missing)
        except InputError as error:
            self.cluster.close()  # its workers may still write, so it ends before files are removed
            self.still_ours()
            # A run that another process has finished meanwhile has no commits either.
            is_lost = isinstance(error, UnsolvableError) or not self.folder.committed()
            if is_lost and self.folder.awaits(self._identity):
                self.folder.abandon()
            raise

    def _solve(self, missing: list[int]) -> Solved:
        """Solve and commit the batches that are `missing`. Before, make the hierarchy if they are to use one."""
        self.start_up.end("plan")
        self._write_points()
        solve, (batches, output) = self.workflow.solve, self._searched
        traits, no_hierarchy = self._prepared([batches[number] for number in missing])
        source = self.cluster.source()
        machine = source.machine
        if no_hierarchy is not None:
            compile_children.stop()
        plan = make_plan(traits, batches, solve, output, machine, no_hierarchy)
        wait_until_compiled(plan.solver, traits.weight_dtype)
        why = "asked for" if plan.solver == solve.solver else "no other can"
        if plan.n_compared > 1:
            why = f"`sssp-pipeline plan` compares {plan.n_compared}"
        line, total = f"solver: {plan.solver} ({why})", len(batches)
        self.progress.say(line, "solver", solver=plan.solver, total=total)
        if output.paths is not None and not output.paths.is_for_gpus and machine.gpu_free_bytes is not None:
            self.progress.say("the GPU stays idle: solvers on a GPU take no trips")
        self.progress.say(
            f"{plan.solver}: {plan.solver_reason}; {plural(len(batches), 'batch')}",
            "solver_reason",
            level="detail",
        )
        if self.selected.turned is not None:
            n_targets = sum(map(len, batches))
            line = f"direction: backward, from {plural(n_targets, 'target')}; the metrics have a row for each"
            self.progress.say(f"{line} (`solve.direction`)", DIRECTION, direction=BACKWARD, targets=n_targets)
        if self._output.layout.has_columns and (total := len(self._batches)) > 1:
            most = len(self._batches[0])
            line = f"{total:,} files with up to {plural(most, 'source')} as columns: join them by `vertex`"
            self.progress.say(line, "columns", files=total, columns=most)
        least_bytes = 0 if self.verify == "off" else self._verifying.task_bytes
        of_stage = self.stored, *self._searched, *self._of_stages
        of_solving = self.workflow, missing, plan, self.still_ours, self.start_up
        stage = Solving(*of_stage, *of_solving, least_bytes, self._verify_ahead)
        return stage.solve_on(source)

    def _prepared(self, left: list[np.ndarray]) -> tuple[GraphTraits, str | None]:
        """Return what `prepare` does for the batches that are `left`."""
        solve = self.workflow.solve
        work = work_of(self.stored.manifest.traits, left, solve, self._searched.output)
        with order_ahead(self.workflow, self.stored, work) as ahead:
            machine = self.cluster.source().machine
            searches = Searches.of_run(self.stored, solve, left)
            if (pace := pace_of_run(searches, solve, work, machine)) is not None:
                work = work.at_pace(pace.pace)
            work = work.with_reach(reach_of_run(searches, solve, work, machine))
            is_on_gpu = (
                self.cluster.is_here
                and machine.gpu_free_bytes is not None
                and has_one_gpu(self.workflow.cluster)
                and self.stored.manifest.traits.min_weight >= 0  # otherwise a solver reweights another graph
                and not self._searched.output.follows_reversed
            )
            if is_on_gpu and self.workflow.report:
                ahead = self._loading_report(ahead)
            return prepare(self.stored, solve, work, machine, self.progress, ahead, is_on_gpu=is_on_gpu)

    def _loading_report(self, ahead: CountedAhead) -> CountedAhead:
        """Return a function that does what `ahead` does, and begins to load what makes the report.

        While a GPU solves, that would keep Python's lock from the threads that launch its work.
        """

        def counted(meanwhile: Callable[[], None]) -> Found | None:
            def both() -> None:
                meanwhile()
                self._aside.submit(load_report)

            return ahead(both)

        return counted

    def _verify_ahead(self) -> None:
        """Begin the searches of `verify`, if it samples sources."""
        if self.verify == "sample":
            self.using.enter_context(self._verifying.ahead())

    def combined(self, solved: Solved) -> dict[str, Any]:
        """Return the content of run.json, after files of all batches are made of the files of each batch.

        `metrics.parquet` may still be written then: `written_files` waits for it.
        """
        self.still_ours()
        self.folder.clean()  # a dead worker may have left a half-written file
        (batches, output), ids = self._searched, self.stored.ids
        if self.selected.turned is None:
            ids = self.folder.named_ids(ids, self._identity)
        self._metrics = metrics = self.folder.joined_metrics(
            len(batches), ids, output.form.scale, output.searched
        )
        # The thread has the context of this one: whether files are synced is a part of it.
        write = partial(copy_context().run, self.folder.written_table, METRICS_FILE, metrics)
        self._writing = self._aside.submit(write)
        overall = overall_numbers(self.folder, metrics, output, batches, self.stored.manifest.traits)
        if facts := list(overall_facts(overall, self.stored.manifest.weights.unit)):
            line = "; ".join(f"{name} {text}" for name, text in facts)
            level: Level = "info" if output.shows_overall else "detail"
            self.progress.say(line, "overall", level=level, **overall)
        if output.per_vertex is not None:  # its table is compared with the stored metrics
            self.written_files()
        output.finish(self.folder, batches, self.stored, self.progress)
        self._write_inputs()
        self.folder.check_no_strays(self.folder.sums)
        return {**self._record(solved), "overall": overall}

    def begin_report(self, record: dict[str, Any]) -> Future[dict[str, Any]]:
        """Return the future of the facts of the report; the verdict and the times in `record` may come later."""
        return self._aside.submit(report_facts_of, self.folder, record, self.stored, self._metrics)

    def written_files(self) -> dict[str, dict[str, Any]]:
        """Return what run.json has of the files, when all of them are written."""
        # A new dictionary: the report may be reading the old one.
        self.folder.sums = {**self.folder.sums, METRICS_FILE: self._writing.result()}
        return recorded_files(self.folder.sums)

    def _write_inputs(self) -> None:
        """Write the files of results that follow from the workflow only."""
        self._write_points()
        if self._output.input_stays and self._output.words is not None:
            self.folder.write_input(self._output.words, stays=True)

    def _write_points(self) -> None:
        if (table := self.selected.snapper.table) is not None:
            self.folder.write_table(SNAPPED_FILE, table)

    def _record(self, solved: Solved) -> dict[str, Any]:
        """Return the content of run.json after solving; later stages add to it."""
        resolved = self.workflow.resolved()
        weight = self.workflow.weight
        return {
            "format": RUN_FORMAT,
            "version": RUN_VERSION,
            "name": resolved["name"],
            **({} if weight is None else {"weight": weight}),
            "workflow": resolved,
            STORE_FROM_RUN: store_from_run(resolved["output"]["path"], resolved["graph"]["store"]),
            "identity": self._identity,
            "graph": self.stored.manifest.model_dump(mode="json", include=_GRAPH_FACTS),
            "sources": sum(len(b) for b in self._batches),
            "targets": self._output.n_targets,
            DIRECTION: BACKWARD if self._searched.output.follows_reversed else FORWARD,
            "skipped": asdict(self.selected.skipped),
            "batches": len(self._batches),
            "solver": solved.solver,
            "solver_reason": solved.reason,
            "thread_s": solved.thread_s,
            "hardware": hardware(),
            "versions": versions(),
            "starts": self.folder.read_start().get("starts", []),
            **recorded_files(self.folder.sums),
            "verify": None,
        }

    def is_unverified(self, record: dict[str, Any]) -> bool:
        """Return whether the run is to be verified, and `record` has no verdict that is at least as strict."""
        verdict = record["verify"]
        if self.verify == "off" or verdict is None:
            return self.verify != "off"
        return verdict["mode"] not in (self.verify, "certificate")

    def verified(self) -> dict[str, Any]:
        """Return the verdict on the stored distances, as run.json has it."""
        return self._verifying.verify_on(self.cluster.source()).record()
