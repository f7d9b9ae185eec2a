"""Verify: what stands in storage, read back on a worker and proved or refuted.

`sample` solves some sources again with Dijkstra's algorithm (Bellman and Ford's for negative weights) in the distances'
own type and compares every bit, of the distances or, where a run has none, of the metrics that follow from them;
`certificate` checks the three conditions that only true distances meet, for every source, in time linear in the edges.

`verifying` gives out the tasks and collects what they found.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sssp_pipeline.csr import CsrGraph, unreached_distance
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.cpu.queue_bellman_ford import QueueBellmanFord
from sssp_pipeline.kernels.proofs.certificate import find_fault
from sssp_pipeline.kernels.solver import SolveOptions, Solver
from sssp_pipeline.pipeline.graph_store.stored_graph import resident_graph
from sssp_pipeline.pipeline.graph_store.units import in_input_unit
from sssp_pipeline.pipeline.machine import memory_bytes
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat, read_distances, read_targets
from sssp_pipeline.pipeline.results.run_files import OVERWRITE
from sssp_pipeline.pipeline.results.run_folder import NO_DISTANCES, OF_LENGTHS, RunFolder
from sssp_pipeline.pipeline.results.wide_files import read_wide_files
from sssp_pipeline.pipeline.solving.task import Task
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.pipeline.storage.retries import mark_reachable
from sssp_pipeline.vertex_ids import VertexIds, digest_of

#: The metrics that follow from the distances alone.
OF_DISTANCES = ("reached", "max_distance", "mean_distance")


@dataclass(frozen=True, eq=False)
class VerifyTask(Task):
    """All a worker needs to check some sources; `batches` has only these.

    Attributes
    ----------
    mode
        "sample" or "certificate".
    form
        How the distances are written.
    cutoff
        In the unit of the graph's weights.
    places
        For each of `batches` where in it the sources stand, ascending.
    verification
        Another name each time a run is verified: what a worker keeps of the run is read anew.
    n_bytes
        Memory that the task takes beside the graph.
    metrics
        Of a run without distances, the stored rows of the sources by the number of their batch.
    """

    mode: str
    form: DistanceFormat
    cutoff: float | None
    places: tuple[Sequence[int], ...]
    verification: str
    n_bytes: int
    metrics: dict[int, list[dict[str, Any]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Checked:
    """What a worker found in some batches: the first that is refuted, by its number, and the sentence that says so."""

    n_sources: int
    refuted: tuple[int, str] | None


def verify_task(task: VerifyTask) -> Checked:
    """Return what is stored wrong of a task's sources; runs on a worker.

    Raises
    ------
    InputError
        The store does not hold the expected graph, or a file of the run is missing or damaged.
    """
    mark_reachable(files.redacted(task.store), files.redacted(task.run))
    stored = resident_graph(task.store, task.content_id)
    graph, ids = stored.graph(), stored.ids
    with _room.held(task.n_bytes, _memory_limit() - stored.manifest.graph_bytes):
        return _checked(task, graph, ids)


class _Room:
    """The memory of this process for tasks: one that does not fit beside the others waits until they are done.

    A worker may have more threads than it can verify with: a task takes more memory than one that solves.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held_bytes = 0

    @contextmanager
    def held(self, n_bytes: int, room: int) -> Iterator[None]:
        """Hold `n_bytes` of `room` during the block; one task alone always may."""
        with self._changed:
            self._changed.wait_for(lambda: not self._held_bytes or self._held_bytes + n_bytes <= room)
            self._held_bytes += n_bytes
        try:
            yield
        finally:
            with self._changed:
                self._held_bytes -= n_bytes
                self._changed.notify_all()


_room = _Room()


def _memory_limit() -> int:
    """Return the bytes that this process may use for the graph and its tasks."""
    if (dask := sys.modules.get("distributed")) is not None:
        with suppress(ValueError):  # this process is no worker
            worker = dask.get_worker()
            from sssp_pipeline.pipeline.solving.workers.memory import limit_of, usable_bytes

            return usable_bytes(*limit_of(worker))
    return memory_bytes()


def _checked(task: VerifyTask, graph: CsrGraph, ids: VertexIds) -> Checked:
    targets = _targets_of(task, ids)
    options = SolveOptions(cutoff=task.cutoff, targets=targets)
    refuted: tuple[int, str] | None = None
    for (number, sources), places in zip(task.batches, task.places, strict=True):
        if task.metrics:
            sentence = _metrics_refuted(graph, ids, task.metrics[number], options, task.form.scale)
        else:
            sentence = _batch_refuted(task, graph, ids, number, sources, places, options)
        if sentence is not None and refuted is None:
            refuted = number, sentence
    return Checked(sum(len(sources) for _, sources in task.batches), refuted)


def _batch_refuted(
    task: VerifyTask,
    graph: CsrGraph,
    ids: VertexIds,
    number: int,
    sources: np.ndarray,
    places: Sequence[int],
    options: SolveOptions,
) -> str | None:
    """Return what is wrong with the first of a batch's `sources` (n,) whose stored distances are, None if none is."""
    folder, form = RunFolder(task.run), task.form
    url, dtype = folder.batch_path(number), graph.weight_dtype
    wide_paths = folder.wide_paths() if form.layout == "wide" else []
    if wide_paths:
        url, places = wide_paths[0], [number * task.identity["batch"] + place for place in places]
        rows = read_wide_files(wide_paths, ids, form, dtype, places, options.targets)
    else:
        rows = read_distances(url, ids, form, dtype, places, options.targets)
    check = _against_oracle if task.mode == "sample" else _by_certificate
    for place, source in zip(places, sources.tolist(), strict=True):
        name, distances = next(rows, (None, None))
        if name != ids.original(source) or distances is None:
            raise InputError(
                f"`{files.redacted(url)}` holds source `{name}` at place {place}, not `{ids.original(source)}`",
                hint=OVERWRITE,
            )
        if (sentence := check(graph, ids, source, distances, options, form.scale)) is not None:
            return sentence
    return None


def _metrics_refuted(
    graph: CsrGraph,
    ids: VertexIds,
    rows: list[dict[str, Any]],
    options: SolveOptions,
    scale: int | None,
) -> str | None:
    """Return which stored metric in `rows` is wrong, None if none is; lengths there are in the input's unit."""
    for row in rows:
        (source,) = ids.vertices([row["source"]], "`metrics.parquet`: source")
        (true,) = _oracle(graph).solve(graph, np.array([source]), options).metrics
        for name in OF_DISTANCES:
            exact = getattr(true, name)
            if scale is not None and name in OF_LENGTHS:
                exact = float(exact) / scale
            if row[name] != float(exact):
                return f"source `{row['source']}`: stored {name} {row[name]}, true {name} {exact}"
    return None


#: The targets of the last verification of this process, by its name; each is read by one thread.
_targets: dict[str, np.ndarray] = {}
_reading_targets = threading.Lock()


def _targets_of(task: VerifyTask, ids: VertexIds) -> np.ndarray | None:
    """Return the targets (T,) of a run, None for every vertex; its files have them, its identity confirms them."""
    digest = task.identity.get("targets")
    if digest is None:
        return None
    if digest == NO_DISTANCES:
        return np.empty(0, np.uint32)
    with _reading_targets:
        if task.verification not in _targets:
            _targets.clear()
            _targets[task.verification] = _read_targets(task, ids, digest)
        return _targets[task.verification]


def _read_targets(task: VerifyTask, ids: VertexIds, digest: str) -> np.ndarray:
    folder = RunFolder(task.run)
    urls = folder.wide_paths() or [folder.batch_path(0)]
    n_sources = task.identity["batch"]
    targets = np.concatenate([read_targets(url, ids, n_sources, task.form) for url in urls])
    if digest_of(targets) != digest:
        raise InputError(
            f"`{files.redacted(urls[0])}` is damaged: it has not the targets that the run was asked for",
            hint=OVERWRITE,
        )
    return targets


def _oracle(graph: CsrGraph) -> Solver:
    return QueueBellmanFord() if graph.traits.min_weight < 0 else Dijkstra()


def _against_oracle(
    graph: CsrGraph,
    ids: VertexIds,
    source: int,
    distances: np.ndarray,
    options: SolveOptions,
    scale: int | None,
) -> str | None:
    true = _oracle(graph).solve(graph, np.array([source], np.uint32), options).distances[0]
    wrong = np.flatnonzero(true != distances)
    if not len(wrong):
        return None
    first = int(wrong[0])
    nobody = unreached_distance(true.dtype)
    stored, exact = (None if d == nobody else d.item() for d in (distances[first], true[first]))
    vertex = first if options.targets is None else int(options.targets[first])
    return _sentence(ids, source, vertex, stored, exact, scale)


def _by_certificate(
    graph: CsrGraph,
    ids: VertexIds,
    source: int,
    distances: np.ndarray,
    options: SolveOptions,
    scale: int | None,
) -> str | None:
    fault = find_fault(graph, source, distances, options.cutoff)
    return None if fault is None else _sentence(ids, source, fault.vertex, fault.stored, fault.true, scale)


def _sentence(
    ids: VertexIds, source: int, vertex: int, stored: float | None, true: float | None, scale: int | None
) -> str:
    shown = ("unreached" if d is None else str(in_input_unit(d, scale)) for d in (stored, true))
    return (
        f"source `{ids.original(source)}`, vertex `{ids.original(vertex)}`: "
        "stored distance {}, true distance {}".format(*shown)
    )
