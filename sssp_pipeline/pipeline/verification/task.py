"""Verifies some sources of a run on a worker: reads what is stored and compares it with the truth.

`sample` solves some sources again with an oracle: Dijkstra's algorithm, or Bellman and Ford's for negative weights. It
works in the type of the distances, so every bit must be equal. A run without distances has its metrics compared.
`certificate` checks for every source three conditions that only true distances meet, in time linear in the edges.
`stage.py` sends the tasks and collects what they find.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.host_memory import memory_bytes
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.cpu.queue_bellman_ford import QueueBellmanFord
from sssp_pipeline.kernels.host.second_costs import SecondCosts
from sssp_pipeline.kernels.proofs.certificate import find_wrong_distance
from sssp_pipeline.pipeline.graph_store.stored_graph import resident_graph
from sssp_pipeline.pipeline.planning.searched_graph import searched_graph
from sssp_pipeline.pipeline.results.folder.run_files import METRICS_FILE, REPAIR
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.layouts.layout import StoredRow, StoredRows
from sssp_pipeline.pipeline.results.outputs.distance_outputs import VertexDistances, distance_fault
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput
from sssp_pipeline.pipeline.solving.task import Task
from sssp_pipeline.pipeline.verification.ahead import row_ahead
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import FileSum
from sssp_pipeline.storage.retries import mark_reachable


@dataclass(frozen=True, eq=False)
class VerifyTask(Task):
    """All that a worker needs to check some sources; `batches` has only these."""

    #: "sample" or "certificate".
    mode: str
    #: As `RowOutput.without_input` returns it.
    output: RowOutput
    #: In the unit of the graph's weights.
    cutoff: float | None
    #: For each of `batches`, the places of the sources in the whole batch, ascending.
    places: tuple[Sequence[int], ...]
    #: Differs each time a run is verified, so that a worker does not use what it read for an earlier verification.
    verification: str
    #: Memory that the task takes in addition to the graph.
    n_bytes: int
    #: The stored metrics of the sources by the number of their batch, for a run without distances.
    metrics: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    #: The sums of the files that it reads, as in `RunFolder.sums`.
    sums: dict[str, FileSum] = field(default_factory=dict)

    def folder(self) -> RunFolder:
        """Return the run folder, which knows the sums."""
        folder = RunFolder(self.run)
        folder.sums = self.sums
        return folder


@dataclass(frozen=True)
class Checked:
    """What a worker found: the number of the first refuted batch with the sentence on it, None if there is none."""

    n_sources: int
    refuted: tuple[int, str] | None


def verify_task(task: VerifyTask) -> Checked:
    """Return what is wrong in storage of the sources of a task; runs on a worker.

    Raises
    ------
    InputError
        The store does not hold the expected graph, or a file of the run is missing or damaged.
    """
    mark_reachable(files.redacted(task.store), files.redacted(task.run))
    stored = resident_graph(task.store, task.content_id)
    graph = searched_graph(stored.proven(), stored, task.output)
    ids = task.folder().named_ids(stored.ids, task.identity)
    along = tuple(stored.other_weights(cost.weights) for cost in task.output.form.along)
    loaded_bytes = stored.manifest.graph_bytes + sum(weights.nbytes for weights in along)
    with ROOM.held(task.n_bytes, memory_limit() - loaded_bytes):
        check = _Check(task, graph, ids, _output_of(task, ids), along)
        batches = zip(task.batches, task.places, strict=True)
        sentences = [(number, check.batch(number, sources, places)) for (number, sources), places in batches]
    refuted = next(((number, sentence) for number, sentence in sentences if sentence is not None), None)
    return Checked(sum(len(sources) for _, sources in task.batches), refuted)


def oracle_for(graph: CsrGraph) -> Dijkstra | QueueBellmanFord:
    """Return the solver that finds the true distances of `graph`."""
    return QueueBellmanFord() if graph.traits.min_weight < 0 else Dijkstra()


def true_row(
    graph: CsrGraph,
    source: int,
    cutoff: float | None,
    output: RowOutput,
    along: tuple[np.ndarray, ...] = (),
) -> Solution:
    """Return the oracle's solution for a source, with what `output` keeps; `along` as in `_Check`."""
    options = SolveOptions(cutoff=cutoff, kept=output.kept)
    if not isinstance(output, VertexDistances):
        options = replace(options, along=along)
    return oracle_for(graph).solve(graph, np.array([source], np.uint32), options)


class _Room:
    """The memory of this process for tasks. A task that does not fit together with others waits until they are done.

    A task of `verify` takes more memory than a task that solves, so a worker may have more threads than fit.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held_bytes = 0

    @contextmanager
    def held(self, n_bytes: int, room: int) -> Iterator[None]:
        """Hold `n_bytes` of `room` during the block; a task without others never waits."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held_bytes or self._held_bytes + n_bytes <= room)
            self._held_bytes += n_bytes
        try:
            yield
        finally:
            with self._changed:
                self._held_bytes -= n_bytes
                self._changed.notify_all()


#: The room of this process.
ROOM = _Room()


def memory_limit() -> int:
    """Return the bytes that this process may use for the graph and its tasks."""
    if (dask := sys.modules.get("distributed")) is not None:
        with suppress(ValueError):  # this process is no worker
            worker = dask.get_worker()
            from sssp_pipeline.pipeline.solving.workers.memory import limit_of

            return limit_of(worker).usable_bytes
    return memory_bytes()


@dataclass(frozen=True, eq=False)
class _Check:
    """The comparison of stored rows with the truth; `output` is the whole output of the task."""

    task: VerifyTask
    graph: CsrGraph
    ids: VertexIds
    output: RowOutput
    #: The weights of each of `output.form.along`.
    along: tuple[np.ndarray, ...] = ()

    def batch(self, number: int, sources: np.ndarray, places: Sequence[int]) -> str | None:
        """Return the sentence on the first of `sources` (n,) whose stored row is wrong, None if all are right."""
        url, rows = self._stored_rows(number, places)
        costs = self._stored_costs(number, places)
        of_run = number * self.task.identity["batch"] + np.array(places)
        wanted = self.ids.of_places(of_run).of_sources(sources).to_pylist()
        for place, source, its_id in zip(places, sources.tolist(), wanted, strict=True):
            name, stored = next(rows, (None, np.empty(0)))
            if name is None or name != its_id:
                raise InputError(
                    f"`{files.redacted(url)}` holds source `{name}` at place {place}, not `{its_id}`",
                    hint=REPAIR,
                )
            by_mode = self._by_oracle if self.task.mode == "sample" else self._by_certificate
            sentence = by_mode(source, name, stored)
            if sentence is None and costs:
                sentence = self._wrong_cost(source, name, stored, [next(rows)[1] for rows in costs])
            if sentence is not None:
                return sentence
        return None

    def _stored_costs(self, number: int, places: Sequence[int]) -> list[StoredRows]:
        """Return the second costs at `places` of a batch, the rows of each kind."""
        form, layouts = self.output.form, self.output.layout.of_costs
        if not layouts or not isinstance(self.output, VertexDistances):
            return []
        stored = self.task.folder().stored_batch(number)
        return [
            layout.read(stored, places, self.ids, np.dtype(cost.dtype))
            for cost, layout in zip(form.along, layouts, strict=True)
        ]

    def _wrong_cost(self, source: int, name: Any, distances: Any, stored: Sequence[Any]) -> str | None:
        """Return a sentence on a wrong second cost in rows of each kind, if the `distances` next to them are true."""
        assert isinstance(self.output, VertexDistances), "no other output has second costs"
        sources = np.array([source], np.uint32)
        if self.output.kept.is_whole_row:
            true = SecondCosts(self.graph, self.along).of_rows(sources, distances[None])
        else:
            options = SolveOptions(cutoff=self.task.cutoff, kept=self.output.kept, along=self.along)
            true = oracle_for(self.graph).solve(self.graph, sources, options).along
        return self.output.difference_of_costs(name, stored, [costs[0] for costs in true], self.ids)

    def _stored_rows(self, number: int, places: Sequence[int]) -> tuple[str, Iterator[StoredRow]]:
        """Return the URL of the file, or of the first file, with the rows at `places` of a batch, and these rows."""
        folder = self.task.folder()
        if not self.output.has_files:
            return folder.path(METRICS_FILE), ((row["source"], row) for row in self.task.metrics[number])
        stored = folder.stored_batch(number)
        if folder.wide_names() or self.output.is_in_input_order:  # so the places are places in the run
            places = [number * self.task.identity["batch"] + place for place in places]
        return stored[0].url, self.output.read(stored, places, self.ids, self.graph.weight_dtype)

    def _by_oracle(self, source: int, name: Any, stored: Any) -> str | None:
        true = row_ahead(self.task.verification, self.graph, source)
        if true is None:
            true = true_row(self.graph, source, self.task.cutoff, self.output, self.along)
        return self.output.difference(name, stored, true, self.ids)

    def _by_certificate(self, source: int, name: Any, stored: Any) -> str | None:
        fault = find_wrong_distance(self.graph, source, stored, self.task.cutoff)
        if fault is None:
            return None
        end = self.ids.original(fault.vertex)
        return distance_fault(name, end, fault.stored, fault.true, self.output.form.scale)


#: The output of the last verification of this process, by the name of the verification.
_outputs: dict[str, RowOutput] = {}
_reading_output = threading.Lock()


def _output_of(task: VerifyTask, ids: VertexIds) -> RowOutput:
    """Return the whole output of a task; the first thread that needs it reads it from the files of the run."""
    with _reading_output:
        if task.verification not in _outputs:
            folder = task.folder()
            stored = folder.stored_batch(0) if task.output.has_files else []
            read_input = partial(folder.read_input, stays=True)
            _outputs.clear()
            _outputs[task.verification] = task.output.for_verifying(stored, ids, read_input)
        return _outputs[task.verification]
