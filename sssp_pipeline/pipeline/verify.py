"""Verify: what stands in storage, read back and proved or refuted.

`sample` solves some sources again with Dijkstra's algorithm (Bellman and Ford's for negative weights) in the distances'
own type and compares every bit, of the distances or, where a run has none, of the metrics that follow from them;
`certificate` checks the three conditions that only true distances meet, for every source, in time linear in the edges.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.csr import CsrGraph, unreached_distance
from sssp_pipeline.errors import InputError
from sssp_pipeline.kernels._team import usable_cores
from sssp_pipeline.kernels.certificate import find_fault
from sssp_pipeline.kernels.dijkstra import Dijkstra
from sssp_pipeline.kernels.queue_bellman_ford import QueueBellmanFord
from sssp_pipeline.kernels.solver import SolveOptions, Solver
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.distance_files import DistanceFormat, read_distances
from sssp_pipeline.pipeline.progress import Progress
from sssp_pipeline.pipeline.results import OF_LENGTHS, RunFolder
from sssp_pipeline.pipeline.run_files import OVERWRITE
from sssp_pipeline.pipeline.units import in_input_unit
from sssp_pipeline.pipeline.vertex_ids import VertexIds
from sssp_pipeline.pipeline.wide_files import read_wide_files

#: Sources that `sample` solves again, spread evenly over all of them.
SAMPLE = 8


@dataclass(frozen=True)
class Verdict:
    """What verify found; `refuted` is None, or the sentence that says where storage is wrong."""

    mode: str
    checked_sources: int
    verify_s: float
    refuted: str | None


def verify_distances(
    graph: CsrGraph,
    ids: VertexIds,
    folder: RunFolder,
    batches: list[np.ndarray],
    form: DistanceFormat,
    cutoff: float | None,
    mode: str,
    progress: Progress,
    targets: np.ndarray | None = None,
) -> Verdict:
    """Return the verdict on the stored distances of `batches`, the sources (n,) uint32 of each.

    With `targets` (T,) they are those to the targets, and only mode "sample" can judge them.

    Raises
    ------
    InputError
        A file is missing or damaged.
    """
    began = time.perf_counter()
    options = SolveOptions(cutoff=cutoff, targets=targets)
    check = _against_oracle if mode == "sample" else _by_certificate
    wanted = _wanted(batches, mode)
    total = sum(len(places) for places in wanted)
    done = 0
    wide_paths = folder.wide_paths() if form.layout == "wide" else []
    firsts = np.cumsum([0, *map(len, batches)]).tolist()

    def read_batch(batch: int) -> Iterator[tuple[int | str, np.ndarray]]:
        dtype, places = graph.weight_dtype, wanted[batch]
        if not wide_paths:
            return read_distances(folder.batch_path(batch), ids, form, dtype, places, targets)
        places_of_run = [firsts[batch] + place for place in sorted(places)]
        return read_wide_files(wide_paths, ids, form, dtype, places_of_run, targets)

    def check_batch(batch: int) -> tuple[int, str | None]:
        stored = read_batch(batch)
        for place in sorted(wanted[batch]):
            source = int(batches[batch][place])
            name, distances = next(stored, (None, None))
            if name != ids.original(source) or distances is None:
                url = wide_paths[0] if wide_paths else folder.batch_path(batch)
                at = firsts[batch] + place if wide_paths else place
                raise InputError(
                    f"`{storage.redacted(url)}` holds source `{name}` at place {at}, not `{ids.original(source)}`",
                    hint=OVERWRITE,
                )
            if (refuted := check(graph, ids, source, distances, options, form.scale)) is not None:
                return len(wanted[batch]), refuted
        return len(wanted[batch]), None

    refuted = None
    with ThreadPoolExecutor(usable_cores()) as pool:
        for count, found in pool.map(check_batch, [b for b in range(len(batches)) if wanted[b]]):
            done += count
            refuted = refuted or found
            progress.advance(done, total, "sources")
    return Verdict(mode, total, time.perf_counter() - began, refuted)


def _wanted(batches: list[np.ndarray], mode: str) -> list[set[int]]:
    """Return, for each batch, the places of the sources to check."""
    if mode == "certificate":
        return [set(range(len(b))) for b in batches]
    ends = np.cumsum([0, *(len(b) for b in batches)])
    chosen = _sample(int(ends[-1]))
    return [set((chosen[(a <= chosen) & (chosen < z)] - a).tolist()) for a, z in pairwise(ends.tolist())]


def _sample(n: int) -> np.ndarray:
    """Return the places, of `n`, that `sample` looks at."""
    return np.unique(np.linspace(0, n - 1, SAMPLE).astype(int)) if n else np.empty(0, int)


def verify_metrics(
    graph: CsrGraph,
    ids: VertexIds,
    metrics: pa.Table,
    cutoff: float | None,
    scale: int | None,
    progress: Progress,
) -> Verdict:
    """Return the verdict of mode "sample" on what `metrics`, a row a source, say of the distances.

    `cutoff` is in the unit of the graph's weights, the metrics are in that of the input.
    """
    began = time.perf_counter()
    options = SolveOptions(cutoff=cutoff, targets=np.empty(0, np.uint32))
    of_distances = ["reached", "max_distance", "mean_distance"]
    told = metrics.select(["source", *of_distances]).take(pa.array(_sample(metrics.num_rows))).to_pylist()
    done = 0

    def check(row: dict[str, Any]) -> str | None:
        (source,) = ids.vertices([row["source"]], "`metrics.parquet`: source")
        (true,) = _oracle(graph).solve(graph, np.array([source]), options).metrics
        for name in of_distances:
            exact = getattr(true, name)
            if scale is not None and name in OF_LENGTHS:
                exact = float(exact) / scale
            if row[name] != float(exact):
                return f"source `{row['source']}`: stored {name} {row[name]}, true {name} {exact}"
        return None

    refuted = None
    with ThreadPoolExecutor(usable_cores()) as pool:
        for found in pool.map(check, told):
            done += 1
            refuted = refuted or found
            progress.advance(done, len(told), "sources")
    return Verdict("sample", len(told), time.perf_counter() - began, refuted)


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
