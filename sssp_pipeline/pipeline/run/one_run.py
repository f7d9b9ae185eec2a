"""The run of one weight: its batches are solved, combined and verified, and run.json tells of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base.errors import InputError, UnsolvableError
from sssp_pipeline.base.progress import Level, Progress, StartUp, plural
from sssp_pipeline.base.vertex_ids import digest_of
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning.machine import hardware, versions
from sssp_pipeline.pipeline.planning.plan import make_plan
from sssp_pipeline.pipeline.planning.selection import Selected
from sssp_pipeline.pipeline.planning.work import work_of
from sssp_pipeline.pipeline.results.damage import recorded_files
from sssp_pipeline.pipeline.results.graph_of_run import STORE_FROM_RUN, store_from_run
from sssp_pipeline.pipeline.results.overall import overall_facts, overall_numbers
from sssp_pipeline.pipeline.results.run_files import SNAPPED_FILE
from sssp_pipeline.pipeline.results.run_folder import RUN_FORMAT, RUN_VERSION, RunFolder
from sssp_pipeline.pipeline.run.hierarchy_stage import prepare
from sssp_pipeline.pipeline.run.pace import Searches, pace_of_run
from sssp_pipeline.pipeline.run.repair import is_whole
from sssp_pipeline.pipeline.solving.stage import Solved, Solving
from sssp_pipeline.pipeline.solving.workers.source import OneCluster
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.models import Workflow

if TYPE_CHECKING:
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
    start_up: StartUp
    progress: Progress

    def __post_init__(self) -> None:
        self._batches, self._output = self.selected.batches, self.selected.output
        digest = self.selected.snapper.digest
        #: Everything that the bytes of the distances depend on. Another identity is another run.
        self._identity = {
            "graph": self.stored.manifest.content_id,
            "sources": digest_of(*self._batches),
            **self._output.identity(),
            "batch": len(self._batches[0]) if self._batches else 0,
            "cutoff": self.workflow.solve.cutoff,
            **self._output.layout.identity(),
            **({} if digest is None else {"snapped": digest}),
        }
        #: The values of a `TaskStage`.
        self._of_stages = (
            self.stored,
            self._batches,
            self._output,
            self.folder,
            self._identity,
            self.workflow.solve.retries,
            self.progress,
        )

    @cached_property
    def _verifying(self) -> Verifying:
        # Not at the top: a run that is not verified does not need it.
        from sssp_pipeline.pipeline.verification.stage import Verifying

        return Verifying(*self._of_stages, self.verify)

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
        damaged = self.folder.damaged_batches(len(self._batches))
        for name, fault in damaged.values():
            url = files.redacted(self.folder.path(name))
            self.progress.say(f"`{url}` {fault}: its batch is solved again", "damaged", level="warning")
        committed = self.folder.committed() - damaged.keys()
        missing = [number for number in range(len(self._batches)) if number not in committed]
        if committed:
            self.progress.say(
                f"going on: {len(committed)} of {len(self._batches)} batches are committed already",
                "going_on",
                done=len(committed),
                total=len(self._batches),
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
        source = self.cluster.source()
        solve, machine, kept = self.workflow.solve, source.machine, self._output.kept
        left = [self._batches[number] for number in missing]
        work = work_of(self.stored.manifest.traits, left, solve, kept)
        if (pace := pace_of_run(Searches.of_run(self.stored, solve, left), solve, work, machine)) is not None:
            work = work.at_pace(pace.pace)
        traits, no_hierarchy = prepare(self.stored, solve, work, machine, self.progress)
        plan = make_plan(traits, self._batches, solve, self._output, machine, no_hierarchy)
        why = "asked for" if plan.n_compared == 1 else f"`sssp-pipeline plan` compares {plan.n_compared}"
        line, total = f"solver: {plan.solver} ({why})", len(self._batches)
        self.progress.say(line, "solver", solver=plan.solver, total=total)
        self.progress.say(
            f"{plan.solver}: {plan.solver_reason}; {plural(len(self._batches), 'batch')}",
            "solver_reason",
            level="detail",
        )
        if self._output.layout.has_columns and total > 1:
            most = len(self._batches[0])
            line = f"{total:,} files with up to {plural(most, 'source')} as columns: join them by `vertex`"
            self.progress.say(line, "columns", files=total, columns=most)
        least_bytes = 0 if self.verify == "off" else self._verifying.task_bytes
        stage = Solving(
            *self._of_stages, self.workflow, missing, plan, self.still_ours, self.start_up, least_bytes
        )
        return stage.solve_on(source)

    def combined(self, solved: Solved) -> dict[str, Any]:
        """Return the content of run.json, after files of all batches are made of the files of each batch."""
        self.still_ours()
        self.folder.clean()  # a dead worker may have left a half-written file
        output, traits = self._output, self.stored.manifest.traits
        ids = self.folder.named_ids(self.stored.ids, self._identity)
        metrics = self.folder.finish_metrics(len(self._batches), ids, output.form.scale)
        overall = overall_numbers(self.folder, metrics, output, self._batches, traits)
        if facts := list(overall_facts(overall, self.stored.manifest.weights.unit)):
            line = "; ".join(f"{name} {text}" for name, text in facts)
            level: Level = "info" if output.shows_overall else "detail"
            self.progress.say(line, "overall", level=level, **overall)
        output.finish(self.folder, self._batches, self.stored, self.progress)
        self._write_inputs()
        self.folder.check_no_strays(self.folder.sums)
        return {**self._record(solved), "overall": overall}

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
