"""Measures variants on one graph: checks the distances, warms up, then times rounds in which all take turns."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sssp_pipeline.base.errors import RefutedError, SsspError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.bench.cases import Case, outcome
from sssp_pipeline.bench.lines import Timing
from sssp_pipeline.bench.spec import Bench
from sssp_pipeline.bench.variants import Variant
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions, SourceMetrics
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module, gpu_missing

_REPORT = "report a bug with this message, the graph and `sssp-pipeline doctor`"
#: A timed run copies nothing from the device. Its metrics show whether it found the same as the check.
TIMED = SolveOptions(kept=Nothing())
#: How many times the size of the L2 cache is written before each timed run.
FLUSHED_CACHES = 2


@dataclass
class Trial:
    """A variant on one graph, and its runs so far."""

    variant: Variant
    #: The metrics of each source, by timed run.
    runs: list[Sequence[SourceMetrics]] = field(default_factory=list)
    #: Bytes written on the GPU before each of them.
    flushed_bytes: int = 0
    #: Wall seconds of all warm-ups and timed runs, and of the last run; before the first run, of the check.
    spent_s: float = 0.0
    last_s: float = 0.0
    #: The error that ended the trial, or None.
    fault: SsspError | None = None

    def timing(self) -> Timing:
        """Return the summary of the timed runs; there is at least one."""
        runs = np.array([[1e3 * m.solve_s for m in run] for run in self.runs]).T
        medians = np.median(runs, axis=1)
        flat = [m for run in self.runs for m in run]
        # Every run reaches the same vertices, and so the same edges.
        edges = np.array([m.teps * m.solve_s for m in self.runs[0]])
        return Timing(
            ms=runs.round(5).tolist(),
            median_ms=round(float(medians.mean()), 5),
            mean_ms=round(float(runs.mean()), 5),
            reached=[m.reached for m in self.runs[0]],
            vertices_processed=self._means("vertices_processed"),
            edges_relaxed=self._means("edges_relaxed"),
            mteps=round(float(np.mean(edges / medians)) / 1e3, 3),
            supersteps=_mean([m.supersteps for m in flat]),
            filter_share=_mean([None if m.filter_s is None else m.filter_s / m.solve_s for m in flat]),
            flushed_bytes=self.flushed_bytes,
        )

    def _means(self, name: str) -> list[float]:
        return np.mean([[getattr(m, name) for m in run] for run in self.runs], axis=0).round(2).tolist()


def unsupported(variant: Variant, case: Case) -> str | None:
    """Return why `variant` cannot run on this graph or machine, or None."""
    reason = variant.solver.supports(case.graph.traits, TIMED)
    return reason or (gpu_missing() if variant.solver.device == "gpu" else None)


def check(trial: Trial, case: Case, progress: Progress) -> None:
    """Compare every distance from every source with the true one; an error goes to `trial.fault`."""
    progress.stage(f"{case.facts.name}: check {trial.variant.label}")
    solver = trial.variant.solver
    began = time.perf_counter()
    try:
        for i, source in enumerate(case.sources):
            row = solver.solve(case.graph, case.sources[i : i + 1], SolveOptions()).distances[0]
            if len(wrong := np.flatnonzero(row != case.rows[i])):
                raise RefutedError(
                    f"the distance from vertex {source} to {wrong[0]} is {row[wrong[0]]}, and "
                    f"{case.rows[i][wrong[0]]} by `{case.oracle}`; {len(wrong)} distances differ",
                    hint=_REPORT,
                )
        if trial.variant.together > 1:
            _run(trial.variant, case, None)
    except SsspError as error:
        trial.fault = error
    trial.last_s = time.perf_counter() - began


def time_all(trials: Sequence[Trial], case: Case, bench: Bench, progress: Progress) -> None:
    """Warm up and time `trials`, whose distances are right, in rounds in which all take turns.

    A trial stops early if another run as long as the last would exceed `bench.most_s`, but it runs at least once. If a
    trial fails, its `fault` is set and it has no timing.
    """
    progress.stage(f"{case.facts.name}: time {len(trials)} variants")
    flush = _Flush() if any(t.variant.solver.device == "gpu" for t in trials) else None
    for turn in range(bench.warm_ups + bench.runs):
        progress.advance(turn, bench.warm_ups + bench.runs, "rounds")
        is_warm_up = turn < bench.warm_ups
        for trial in trials:
            is_over = trial.spent_s + trial.last_s > bench.most_s
            if trial.fault is not None or (is_over and (is_warm_up or trial.runs)):
                continue
            flushed = flush if trial.variant.solver.device == "gpu" else None
            began = time.perf_counter()
            try:
                run = _run(trial.variant, case, flushed)
            except SsspError as error:
                trial.fault = error
                continue
            trial.last_s = time.perf_counter() - began
            trial.spent_s += trial.last_s
            if not is_warm_up:
                trial.runs.append(run)
                trial.flushed_bytes = flushed.n_bytes if flushed else 0
    progress.advance(bench.warm_ups + bench.runs, bench.warm_ups + bench.runs, "rounds")


def _run(variant: Variant, case: Case, flush: _Flush | None) -> list[SourceMetrics]:
    """Return the metrics of one run from every source.

    Raises
    ------
    RefutedError
        An outcome does not belong to the true distances.
    """
    solver, graph, sources = variant.solver, case.graph, case.sources
    calls = [sources[i : i + 1] for i in range(len(sources))]
    if variant.together > 1:
        calls = [np.resize(sources, max(variant.together, len(sources)))]
    found: list[SourceMetrics] = []
    for call in calls:
        if flush is not None:
            flush()
        found += list(solver.solve(graph, call, TIMED).metrics)
    for i, metrics in enumerate(found):
        expected = case.outcomes[i % len(sources)]
        if outcome(metrics) != expected:
            raise RefutedError(
                f"from vertex {metrics.source} a run reached {metrics.reached} vertices, the farthest at "
                f"{metrics.max_distance}, the mean {metrics.mean_distance}; by `{case.oracle}` they are "
                f"{', '.join(map(str, expected))}",
                hint=_REPORT,
            )
    return found[: len(sources)]


class _Flush:
    """Writes more than the GPU's L2 cache holds, so that it has nothing of an earlier run."""

    def __init__(self) -> None:
        self._cupy: Any = cupy_module()
        cache = int(self._cupy.cuda.Device().attributes["L2CacheSize"])
        self.n_bytes = FLUSHED_CACHES * cache
        self._buffer = self._cupy.empty(max(self.n_bytes, 1), np.uint8)

    def __call__(self) -> None:
        self._buffer.data.memset_async(0, self.n_bytes)
        # The searches of a call may run on streams that do not wait for this stream.
        self._cupy.cuda.get_current_stream().synchronize()


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.mean(known)), 4) if known else None
