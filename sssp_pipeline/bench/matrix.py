"""Runs a bench: for each graph it measures the variants without a line, and writes a line for each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sssp_pipeline.base.errors import InputError, RefutedError, SsspError, did_you_mean
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.bench import lines
from sssp_pipeline.bench.cases import Case, check_input, content_of, prepare, stored
from sssp_pipeline.bench.lines import Circumstances, Line, digest_of, writing
from sssp_pipeline.bench.measure import Trial, check, time_all, unsupported
from sssp_pipeline.bench.spec import Bench, BenchGraph
from sssp_pipeline.bench.variants import Variant, variants_of

#: In the output folder.
LINES_FILE, GRAPHS_FOLDER = "lines.jsonl", "graphs"


def run_bench(
    bench: Bench,
    output: Path,
    progress: Progress,
    *,
    graphs: Sequence[str] = (),
    again: bool = False,
    prepare_only: bool = False,
) -> Path:
    """Measure all of `bench` that has no line yet; return the file of lines.

    Parameters
    ----------
    bench
        The graphs, solvers and sources.
    output
        The folder of the lines and the graph stores, on this machine.
    progress
        Receives every stage.
    graphs
        Names of the graphs to measure; empty for all.
    again
        Measure also what has a line of the same commit and machine.
    prepare_only
        Only store the graphs, and return their folder.

    Raises
    ------
    InputError
        A graph cannot be read, a name is unknown, or the output cannot be written.
    RefutedError
        A distance is not the true one. The other variants are measured before.
    SsspError
        A variant failed. The other variants are measured before; another run tries the variant again.
    """
    entries = _chosen(bench, graphs)
    for entry in entries:
        check_input(entry)  # before the first graph is measured
    with writing(output):
        (output / GRAPHS_FOLDER).mkdir(parents=True, exist_ok=True)
    at = output / LINES_FILE
    if prepare_only:
        for entry in entries:
            stored(entry, output / GRAPHS_FOLDER, progress)
        return output / GRAPHS_FOLDER
    job = _Job(bench, output, at, progress, again)
    for entry in entries:
        job.measure(entry)
    job.judge()
    return at


class _Job:
    """The state of a running bench."""

    def __init__(self, bench: Bench, output: Path, at: Path, progress: Progress, again: bool) -> None:
        self._bench, self._at, self._progress = bench, at, progress
        self._graphs = output / GRAPHS_FOLDER
        self._variants = variants_of(bench)
        self._on = lines.circumstances(output)
        here = _same_place(self._on)
        earlier = [] if again else [line for line in lines.resume(at) if line.is_settled]
        self._settled = {line.asked for line in earlier if _same_place(line.on) == here}
        self._faults: list[tuple[str, SsspError]] = []

    def measure(self, entry: BenchGraph) -> None:
        """Write a line for each variant without one on this graph."""
        graph = stored(entry, self._graphs, self._progress)
        drawn = entry.sources or self._bench.sources
        content, how = content_of(entry, graph), drawn.model_dump()
        asked = {v.label: self._asked(v, content, how) for v in self._variants}
        missing = [v for v in self._variants if asked[v.label] not in self._settled]
        if len(missing) < len(self._variants):
            there = plural(len(self._variants) - len(missing), "variant")
            self._progress.say(f"{entry.name}: {there} there already (--again measures them anew)")
        if not missing:
            return
        case = prepare(entry, graph, drawn, self._progress)
        trials = []
        for variant in missing:
            if reason := unsupported(variant, case):
                self._write(case, variant, asked, state="unsupported", reason=reason)
                continue
            trial = Trial(variant)
            check(trial, case, self._progress)
            trials.append(trial)
        timed = [trial for trial in trials if trial.fault is None]
        if timed:
            time_all(timed, case, self._bench, self._progress)
        for trial in trials:
            self._conclude(trial, case, asked)

    def _conclude(self, trial: Trial, case: Case, asked: dict[str, str]) -> None:
        if (fault := trial.fault) is None:
            timing = trial.timing()
            self._write(case, trial.variant, asked, state="measured", checked_by=case.oracle, timing=timing)
            return
        self._faults.append((f"`{trial.variant.label}` on `{case.facts.name}`", fault))
        state = "refuted" if isinstance(fault, RefutedError) else "failed"
        self._write(case, trial.variant, asked, state=state, reason=fault.message)

    def _write(self, case: Case, variant: Variant, asked: dict[str, str], **found: Any) -> None:
        line = Line(
            bench=self._bench.name,
            baseline=self._bench.baseline,
            subject=self._bench.subject,
            on=self._on.model_copy(update={"date": lines.now()}),
            graph=case.facts,
            solver=variant.solver.name,
            device=variant.solver.device,
            options=dict(variant.options),
            changed=dict(variant.changed),
            together=variant.together,
            asked=asked[variant.label],
            sources=case.sources.tolist(),
            runs_asked=self._bench.runs,
            **found,
        )
        lines.append(self._at, line)
        timing = line.timing
        result = f"{line.state}: {line.reason}"
        if timing:
            result = f"{timing.median_ms:.4g} ms, {plural(timing.runs, 'run')}"
        self._progress.say(
            f"{line.graph.name}: {line.label}: {result}",
            "variant",
            graph=line.graph.name,
            variant=line.label,
            state=line.state,
            median_ms=timing.median_ms if timing else None,
            runs=timing.runs if timing else None,
        )

    def _asked(self, variant: Variant, content: str, drawn: dict[str, Any]) -> str:
        bench = self._bench
        how = (drawn, bench.runs, bench.warm_ups, bench.most_s)
        return digest_of(content, variant.solver.name, variant.options, variant.together, how)

    def judge(self) -> None:
        """Raise an error that names the variants that failed, if there are any."""
        if not self._faults:
            return
        is_refuted = any(isinstance(fault, RefutedError) for _, fault in self._faults)
        kind = RefutedError if is_refuted else SsspError
        message = "\n".join(f"{what}: {fault.message}" for what, fault in self._faults)
        raise kind(message, hint="the others are measured; the same command tries these again")


def _chosen(bench: Bench, names: Sequence[str]) -> list[BenchGraph]:
    by_name = {entry.name: entry for entry in bench.graphs}
    for name in names:
        if name not in by_name:
            hint = did_you_mean(name, list(by_name)) + "Graphs: " + ", ".join(by_name)
            raise InputError(f"the bench has no graph `{name}`", hint=hint)
    return [entry for entry in bench.graphs if not names or entry.name in names]


def _same_place(on: Circumstances) -> tuple[Any, ...]:
    """Return the facts that two measurements of the same code on the same machine have in common."""
    return on.commit, on.dirty, on.versions, *(on.machine[part] for part in ("cpu", "cores", "gpu"))
