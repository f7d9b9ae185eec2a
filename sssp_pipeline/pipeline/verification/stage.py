"""The stage that verifies a run: tasks go to the workers, and their findings become one verdict.

This process reads neither the graph nor distances, unless its own threads are the workers.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.base.progress import plural, shortened
from sssp_pipeline.kernels.contract.kept import EveryVertex
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.second_costs import call_bytes, process_bytes
from sssp_pipeline.pipeline.graph_store.stored_graph import share_with_tasks
from sssp_pipeline.pipeline.graph_store.units import scaled_limit
from sssp_pipeline.pipeline.planning.searched_graph import searched_graph
from sssp_pipeline.pipeline.results.folder.run_files import VERTICES_FILE
from sssp_pipeline.pipeline.results.layouts.long import GROUP_ROWS
from sssp_pipeline.pipeline.results.outputs.metrics_output import OF_DISTANCES
from sssp_pipeline.pipeline.results.outputs.vertex_table import PerVertex
from sssp_pipeline.pipeline.solving.dispatch import scatter
from sssp_pipeline.pipeline.solving.task import TaskStage
from sssp_pipeline.pipeline.solving.workers.interface import Workers, WorkerSource
from sssp_pipeline.pipeline.solving.workers.needs import Needs
from sssp_pipeline.pipeline.verification.ahead import solving_ahead
from sssp_pipeline.pipeline.verification.task import Checked, VerifyTask, true_row, verify_task
from sssp_pipeline.pipeline.verification.vertices import CheckedVertices, VertexTask, verify_vertices
from sssp_pipeline.storage.file_sums import FileSum

#: Sources that `sample` solves again, spread evenly over all sources; and vertices whose numbers it computes again.
SAMPLE = 8
#: The most bytes of distances that small batches may have in one task. To send a task takes as long as to verify a few
#: thousand distances.
SHARED_BYTES = 2**20
#: Each thread gets at least this many tasks.
TASKS_EACH = 8


@dataclass(frozen=True)
class Verdict:
    """What `verify` found; `refuted` is the sentence on the first wrong value in storage, None if there is none."""

    mode: str
    checked_sources: int
    verify_s: float
    refuted: str | None
    #: Of a run with numbers of vertices over all sources: how many vertices were compared, and if none were, why.
    checked_vertices: int | None = None
    unchecked: str | None = None

    def record(self) -> dict[str, Any]:
        """Return what `run.json` has of it."""
        return {key: value for key, value in asdict(self).items() if value is not None or key == "refuted"}


@dataclass(eq=False)
class Verifying(TaskStage):
    """Verifies a run whose batches are all committed."""

    #: "sample" or "certificate". The certificate needs whole rows.
    mode: str
    #: Names this verification.
    name: str = field(init=False, default_factory=lambda: uuid.uuid4().hex)

    def ahead(self) -> AbstractContextManager[None]:
        """Solve the sources of the sample on a quarter of the cores during the block; `mode` is "sample".

        This does nothing if the memory is too small, or if a row needs an input or second costs.
        """
        output, n_threads = self.output, usable_cores() // 4
        chosen = _places_to_check(self.batches, self.mode)
        sources = [
            batch[place] for batch, places in zip(self.batches, chosen, strict=True) for place in places
        ]
        n_bytes = n_threads * self.task_bytes + len(sources) * self._row_bytes
        is_plain = output.digest is None and not output.form.along
        if not n_threads or not is_plain or n_bytes > free_memory_bytes() // 4:
            return nullcontext()
        of_rows = output.for_verifying([], self.stored.ids, partial(self.folder.read_input, stays=True))

        def solve(source: int) -> tuple[CsrGraph, Solution]:
            graph = searched_graph(self.stored.proven(), self.stored, output)
            # Only the totals of the row are compared.
            return graph, replace(true_row(graph, source, self._cutoff, of_rows), path_words=None)

        return solving_ahead(self.name, n_threads, map(int, sources), solve)

    def verify_on(self, source: WorkerSource) -> Verdict:
        """Return the verdict on what is in storage, found by the workers of `source`.

        Raises
        ------
        InputError
            A file is missing or damaged, or a task does not fit the memory of the workers.
        SsspError
            A task failed for good, no worker is left, or the storage cannot be reached any more.
        """
        self.progress.stage("verify")
        began = time.perf_counter()
        wanted = _places_to_check(self.batches, self.mode)
        chosen = [number for number, places in enumerate(wanted) if len(places)]
        total, done = sum(map(len, wanted)), 0
        refuted: tuple[int, str] | None = None

        def on_done(checked: Checked) -> None:
            nonlocal done, refuted
            done += checked.n_sources
            if checked.refuted is not None:
                refuted = min(refuted or checked.refuted, checked.refuted)
            self.progress.advance(done, total, "sources")

        manifest = self.stored.manifest
        batch_bytes = self._row_bytes * max(map(len, wanted), default=0)
        graph_bytes = manifest.graph_bytes
        if n_costs := len(self.output.form.along):
            graph_bytes += process_bytes(manifest.traits, n_costs)
        needs = source.fitted(
            Needs(
                *self.for_tasks[:3],
                Dijkstra.name,
                len(chosen),
                graph_bytes,
                batch_bytes,
                least_bytes=self.task_bytes,
            )
        )
        with share_with_tasks(self.stored), source.workers(needs) as workers:
            shared = min(SHARED_BYTES // max(batch_bytes, 1), len(chosen) // (TASKS_EACH * workers.n_threads))
            tasks = self._tasks(wanted, chosen, max(needs.batches_per_task, shared))
            failed = scatter(workers, tasks, self.retries, on_done, self.progress, work=verify_task)
            of_vertices = CheckedVertices()
            if not failed and refuted is None and self.batches and self.output.per_vertex is not None:
                of_vertices = self._verify_vertices(workers, self.output.per_vertex)
        sums_fault = None
        if not failed and refuted is None:
            of_run = len(self.batches), manifest.n_vertices, sum(map(len, self.batches))
            sums_fault = self.output.fault_of_sums(self.folder, *of_run)
        if failed:
            number, reason = min(failed.items())
            raise SsspError(
                f"{len(failed)} of {len(chosen)} batches cannot be verified: {shortened(sorted(failed))}; "
                f"batch {number}: {reason}",
                hint="run the same command again",
            )
        sentence = (of_vertices.refuted or sums_fault) if refuted is None else refuted[1]
        n_vertices = of_vertices.n_checked
        facts: dict[str, Any] = {} if n_vertices is None else {"checked_vertices": n_vertices}
        if sentence is None:
            what = plural(total, self.output.searched) + (
                f" and {plural(n_vertices, 'vertex')}" if n_vertices else ""
            )
            self.progress.say(
                f"verified {what} ({self.mode}): every {self.output.verdict(manifest.weights.dtype)}",
                "verified",
                checked_sources=total,
                **facts,
            )
        if of_vertices.unchecked is not None:
            line = f"the numbers of `{VERTICES_FILE}` were not verified: {of_vertices.unchecked}"
            self.progress.say(line, level="warning")
        took_s = time.perf_counter() - began
        return Verdict(self.mode, total, took_s, sentence, n_vertices, of_vertices.unchecked)

    def _verify_vertices(self, workers: Workers, output: PerVertex) -> CheckedVertices:
        """Return what a worker found of a sample of the vertices."""
        found: list[CheckedVertices] = []
        vertices = _spread(self.stored.manifest.n_vertices).astype(np.uint32)
        of_run, stored = tuple(enumerate(self.batches)), self.folder.stored(VERTICES_FILE)
        task = VertexTask(*self.for_tasks, of_run, output, self._cutoff, vertices, stored)
        failed = scatter(workers, [task], self.retries, found.append, self.progress, work=verify_vertices)
        if failed:
            problem = f"`{VERTICES_FILE}` cannot be verified: {failed[0]}"
            raise SsspError(problem, hint="run the same command again")
        return found[0]

    @property
    def _cutoff(self) -> float | None:
        """The cutoff in the unit of the graph's weights."""
        return scaled_limit(self.identity["cutoff"], self.output.form.scale)

    @property
    def _row_bytes(self) -> int:
        traits = self.stored.manifest.traits
        return self.output.row_bytes(traits.n_vertices, traits.weight_dtype)

    @property
    def task_bytes(self) -> int:
        """Host memory of a task in bytes, without the graph."""
        manifest, form = self.stored.manifest, self.output.form
        n_vertices, dtype = manifest.n_vertices, manifest.traits.weight_dtype
        n_columns = self.output.n_columns(n_vertices)
        id_bytes = 8 + sum(part.bytes for part in manifest.vertices) // max(n_vertices, 1)
        at_once = 1
        if self.output.layout.has_columns:  # the rows of a task are read at once
            at_once = max(map(len, _places_to_check(self.batches, self.mode)), default=0)
        # A row is held as stored, without NULLs, and as solved. Its ids are held twice: as stored and as expected.
        rows_bytes = (at_once + 2) * self._row_bytes + 2 * n_columns * id_bytes
        largest = max(map(len, self.batches), default=0)
        group_rows = min(GROUP_ROWS, n_columns * largest)
        group_bytes = group_rows * 2 * (id_bytes + form.dtype(dtype).itemsize)
        # The oracle holds a row, a heap, keys and places; the certificate takes less.
        held_bytes = self.output.held_bytes(manifest.traits)
        if (paths := self.output.paths) is not None:
            held_bytes += paths.n_bytes(manifest.traits)
        if n_costs := len(form.along):
            rows_bytes += n_costs * 8 * (at_once + 2) * n_columns
            held_bytes += (
                call_bytes(manifest.traits, EveryVertex(), n_costs, n_rows=1) + 8 * n_costs * n_vertices
            )
        return rows_bytes + group_bytes + held_bytes + n_vertices * (8 + 2 * dtype.itemsize)

    def _tasks(self, wanted: list[Sequence[int]], chosen: list[int], n_each: int) -> Iterator[VerifyTask]:
        """Yield the tasks, each with `n_each` of the `chosen` batches; `wanted` has the places of every batch."""
        metrics = {} if self.output.has_files else self._metrics(wanted)
        task_bytes = self.task_bytes
        for first in range(0, len(chosen), n_each):
            numbers = chosen[first : first + n_each]
            yield VerifyTask(
                *self.for_tasks,
                tuple((number, self.batches[number][np.array(wanted[number])]) for number in numbers),
                self.mode,
                self.output.without_input(),
                self._cutoff,
                tuple(wanted[number] for number in numbers),
                self.name,
                task_bytes,
                {number: metrics[number] for number in numbers if metrics},
                self._sums({0, *numbers}),
            )

    def _sums(self, numbers: set[int]) -> dict[str, FileSum]:
        """Return the sums of the files of some batches, as far as they are known."""
        names = {name for number in numbers for name in self.folder.batch_names(number)}
        return {name: self.folder.sums[name] for name in sorted(names) if name in self.folder.sums}

    def _metrics(self, wanted: list[Sequence[int]]) -> dict[int, list[dict[str, Any]]]:
        """Return the stored metrics of the sources at the `wanted` places of each batch, by its number."""
        table = self.folder.read_metrics(["source", *OF_DISTANCES])
        firsts = np.cumsum([0, *map(len, self.batches)])
        chosen = {number: np.array(places) + firsts[number] for number, places in enumerate(wanted) if places}
        rows = iter(table.take(pa.array(np.concatenate([*chosen.values(), firsts[:0]]))).to_pylist())
        return {number: list(islice(rows, len(places))) for number, places in chosen.items()}


def _places_to_check(batches: list[np.ndarray], mode: str) -> list[Sequence[int]]:
    """Return, for each batch, the places in it of the sources to check."""
    if mode == "certificate":
        return [range(len(b)) for b in batches]
    ends = np.cumsum([0, *map(len, batches)]).tolist()
    chosen = _spread(ends[-1])
    return [(chosen[(a <= chosen) & (chosen < z)] - a).tolist() for a, z in pairwise(ends)]


def _spread(count: int) -> np.ndarray:
    """Return up to `SAMPLE` of the numbers below `count`, (n,) int64, spread evenly and rising."""
    return np.unique(np.linspace(0, count - 1, SAMPLE).astype(np.int64)) if count else np.empty(0, np.int64)
