"""What 10, 100 and 1,000 GPUs would do, computed from what was measured on few: renders docs/scaling.md.

    python benchmarks/scaling.py

A run takes the longest of what goes on at the same time: the GPUs solve, copy and write task after task, the scheduler
gives tasks out, the storage takes what is written. Before it the graph is loaded, after it the client gathers the
metrics. Every number comes from a recorded line or is an assumption with a name; nothing here was run on such clusters.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from many_sources_page import GPU_SOLVERS, newest
from record import RESULTS

from sssp_pipeline.bench.layout import markdown as table
from sssp_pipeline.csr import GraphTraits
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.forecast import COPY_S_PER_BYTE, graph_device_bytes
from sssp_pipeline.kernels.kept import EveryVertex, Targets
from sssp_pipeline.pipeline.planning.plan import Work, batch_size, solve_options
from sssp_pipeline.pipeline.solving.workers.needs import Needs, with_shared_tasks
from sssp_pipeline.workflow.models import Solve

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
GPUS = (10, 100, 1000)

# ---- Assumptions: what was not measured ---------------------------------------------------------------------------

GPUS_A_MACHINE = 8
MACHINE_BYTES_PER_S = 10e9
STORE_BYTES_PER_S = 100e9
#: What CUDA shows of the memory of an H200.
H200_BYTES = 139 * 2**30

ASSUMED = [
    (
        "GPUs of a machine",
        f"{GPUS_A_MACHINE}",
        "as H200 machines are sold; 16 cores for each GPU, as measured on",
    ),
    ("storage, a machine", "10 GB/s", "a network port of 100 Gbit/s, a fifth of it lost"),
    ("storage, in all", "100 GB/s", "ten such machines; ask who runs the store"),
    ("memory of an H200", "139 GiB", "what CUDA shows of it"),
    (
        "reads of the graph",
        "one a machine",
        "[design 0006](design/0006-clusters.md); decoding it is left out",
    ),
    ("a source on a larger graph", "time for each vertex and edge stays", "an extrapolation, see below"),
]


# ---- What was measured --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The recorded numbers that the model takes.

    Attributes
    ----------
    road_s, smaller_road_s, rmat_s
        Seconds of an H200 for each vertex and edge of a graph, a source: on roads, large and smaller; on R-MAT by
        solver and sources at once.
    written_bytes_per_s
        Distances encoded and written beside one GPU.
    scheduler_s, client_s
        CPU seconds for a task.
    batch_end_s, batch_client_bytes
        For each batch: seconds of the client after the last one, and its memory.
    """

    road_s: float
    smaller_road_s: float
    rmat_s: dict[str, dict[int, float]]
    written_bytes_per_s: float
    scheduler_s: float
    client_s: float
    batch_end_s: float
    batch_client_bytes: float


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in (RESULTS / f"{name}.jsonl").read_text().splitlines()]


def scheduling_lines() -> dict[tuple[str, int], dict[str, Any]]:
    """Return the newest line of each variant and number of batches, on 64 workers."""
    return {(line["variant"], line["batches"]): line for line in lines("scheduling") if line["workers"] == 64}


def measured() -> Measured:
    graphs = {
        graph.name: graph for graph in newest((RESULTS / "many_sources.jsonl").read_text().splitlines())
    }
    north_east, grid, rmat = (graphs[name] for name in ("ne", "grid-4096", "rmat-24"))
    runs = [
        line
        for line in lines("pipeline_solvers")
        if line["targets"] is None and line["gpu_busy"] is not None and line["asked_for"] == "auto"
    ]
    by_size = scheduling_lines()
    one_by_one = by_size[max(key for key in by_size if key[0] == "idle")]
    small, large = (by_size["run", n] for n in (2_000, 100_000))
    return Measured(
        road_s=_element_s(grid.best(max(grid.numbers))),
        smaller_road_s=_element_s(north_east.best(max(north_east.numbers))),
        rmat_s={
            solver: {n: _element_s(line) for n in rmat.numbers if (line := rmat.line(n, solver))}
            for solver in rmat.solvers
        },
        written_bytes_per_s=1e6 * runs[-1]["written_mb_per_s"],
        scheduler_s=1e-3 * one_by_one["cpu_ms"]["scheduler"],
        client_s=1e-3 * one_by_one["cpu_ms"]["client"],
        batch_end_s=large["end_s"] / large["batches"],
        batch_client_bytes=1e6
        * (large["peak_mb"]["client"] - small["peak_mb"]["client"])
        / (large["batches"] - small["batches"]),
    )


def _element_s(line: dict[str, Any]) -> float:
    return 1e-3 * line["ms"] / (line["n_vertices"] + line["n_edges"])


# ---- The model ----------------------------------------------------------------------------------------------------


def road_usa() -> GraphTraits:
    return GraphTraits(23_947_347, 57_708_624, np.dtype("uint32"), 1, 10**5, 3000.0, 1.2)


def rmat(scale: int) -> GraphTraits:
    return GraphTraits(2**scale, 2 ** (scale + 4), np.dtype("uint32"), 1, 100, 50.0, 128.0)


@dataclass(frozen=True)
class Workload:
    """Something to solve.

    Attributes
    ----------
    title
        For people.
    traits, solver, source_s
        The graph, the solver, and its seconds of a GPU for a source.
    n_sources, n_targets
        `n_targets` is None for every vertex, 0 for metrics alone.
    batch
        `solve.batch`; None leaves it to the pipeline.
    """

    title: str
    traits: GraphTraits
    solver: str
    source_s: float
    n_sources: int
    n_targets: int | None
    batch: int | None = None

    @property
    def kept_bytes(self) -> int:
        """Distances that are kept of a source, with the targets beside them."""
        if self.n_targets is None:
            return self.traits.n_vertices * self.traits.weight_dtype.itemsize
        return self.n_targets * (self.traits.weight_dtype.itemsize + 4)

    @property
    def graph_bytes(self) -> int:
        return 8 * (self.traits.n_vertices + 1) + 8 * self.traits.n_edges


@dataclass(frozen=True)
class Outcome:
    """What a workload takes on so many GPUs, all in seconds.

    Attributes
    ----------
    parts
        What goes on at the same time, by name: the longest decides.
    before, after
        Loading the graph, and gathering the metrics.
    efficiency
        Share of the GPUs' time in which they solve.
    """

    n_batches: int
    n_tasks: int
    parts: dict[str, float]
    before: float
    after: float
    efficiency: float

    @property
    def seconds(self) -> float:
        return self.before + max(self.parts.values()) + self.after

    @property
    def limit(self) -> str:
        """What takes longest."""
        parts = {**self.parts, "loading the graph": self.before, "gathering metrics": self.after}
        return max(parts, key=parts.__getitem__)


def outcome(workload: Workload, n_gpus: int, m: Measured) -> Outcome:
    """Return what `workload` would take on `n_gpus`."""
    n_batches, n_tasks = _shares(workload, n_gpus)
    n_machines = ceil(n_gpus / GPUS_A_MACHINE)
    source_s = workload.source_s + workload.kept_bytes * COPY_S_PER_BYTE
    on_all_s = workload.n_sources * source_s / n_gpus
    in_rounds_s = ceil(n_tasks / n_gpus) * workload.n_sources / n_tasks * source_s
    written_per_s = min(m.written_bytes_per_s, MACHINE_BYTES_PER_S / min(n_gpus, GPUS_A_MACHINE))
    parts = {
        "solving" if in_rounds_s < 1.25 * on_all_s else "too few tasks": in_rounds_s,
        "encoding and writing": workload.n_sources * workload.kept_bytes / written_per_s / n_gpus,
        "the store": workload.n_sources * workload.kept_bytes / STORE_BYTES_PER_S,
        "the scheduler": n_tasks * m.scheduler_s,
    }
    before = workload.graph_bytes * max(1 / MACHINE_BYTES_PER_S, n_machines / STORE_BYTES_PER_S)
    after = n_batches * m.batch_end_s
    whole = before + max(parts.values()) + after
    return Outcome(
        n_batches, n_tasks, parts, before, after, workload.n_sources * workload.source_s / (n_gpus * whole)
    )


def _shares(workload: Workload, n_gpus: int) -> tuple[int, int]:
    """Return the batches and tasks into which the pipeline cuts it."""
    traits, n_sources = workload.traits, workload.n_sources
    solve = Solve() if workload.batch is None else Solve(batch=workload.batch)
    every = workload.n_targets is None
    kept = EveryVertex() if every else Targets(np.empty(workload.n_targets, np.uint32))
    size = batch_size(traits, n_sources, solve, kept)
    work = Work(traits, solve_options(solve, kept), n_sources, size)
    expected_s = n_sources * workload.source_s / n_gpus
    needs = Needs(
        "",
        "",
        "",
        "adds-slots",
        work.n_batches,
        workload.graph_bytes,
        work.batch_bytes,
        work.batches_per_call(workload.solver),
        expected_s=expected_s,
    )
    return work.n_batches, with_shared_tasks(needs, n_gpus).n_tasks


def stops_at(workload: Workload, m: Measured) -> tuple[int, str]:
    """Return the fewest GPUs, of powers of two, of which less than half is used for solving, and what limits them."""
    for power in range(21):
        found = outcome(workload, 2**power, m)
        if found.efficiency < 0.5:
            return 2**power, found.limit
    raise AssertionError("a million GPUs are busy")


def fits(traits: GraphTraits, solver: str) -> int:
    """Return the device memory that a graph and one source of `solver` take."""
    one = SOLVERS[solver].forecast(traits, 1)
    return graph_device_bytes(traits) + one.fixed_bytes + one.source_bytes


# ---- The page -----------------------------------------------------------------------------------------------------


def workloads(m: Measured) -> list[Workload]:
    road = road_usa()
    road_s = m.road_s * _elements(road)
    all_pairs = [
        Workload(f"road-USA, all pairs, {kept}", road, "adds-slots", road_s, road.n_vertices, n_targets)
        for kept, n_targets in (
            ("metrics alone", 0),
            ("1,000 targets", 1000),
            ("every distance", None),
        )
    ]
    return [*all_pairs, *(_rmat_workload(scale, m, batch) for scale in (28, 29, 30) for batch in (None, 64))]


def _rmat_workload(scale: int, m: Measured, batch: int | None) -> Workload:
    traits = rmat(scale)
    gpu_bytes, where = H200_BYTES, ""
    if _fastest(traits, m, H200_BYTES) is None:
        gpu_bytes = fits(traits, "adds")
        where = f" (GPUs of {gpu_bytes / 2**30:,.0f} GiB)"
    found = _fastest(traits, m, gpu_bytes)
    assert found is not None
    solver, source_s = found
    cut_by_hand = "" if batch is None else f", `solve.batch: {batch}`"
    title = f"R-MAT {scale}{where}, 65,536 sources, metrics alone{cut_by_hand}"
    return Workload(title, traits, solver, source_s, 2**16, 0, batch)


def _fastest(traits: GraphTraits, m: Measured, gpu_bytes: int) -> tuple[str, float] | None:
    """Return the solver that is fastest with as many sources at once as fit, and its seconds a source; or None."""
    able = []
    for solver, element_s in m.rmat_s.items():
        one = SOLVERS[solver].forecast(traits, 1)
        fit = (gpu_bytes - graph_device_bytes(traits) - one.fixed_bytes) // one.source_bytes
        able += [(solver, s * _elements(traits)) for at_once, s in element_s.items() if at_once <= fit]
    return min(able, key=lambda found: found[1], default=None)


def _least_bytes(traits: GraphTraits) -> tuple[str, int]:
    """Return the solver that takes the least device memory, and that."""
    needed = {solver: fits(traits, solver) for solver in GPU_SOLVERS}
    return min(needed.items(), key=lambda found: found[1])


def _elements(traits: GraphTraits) -> int:
    return traits.n_vertices + traits.n_edges


def page() -> str:
    """Return the page as Markdown."""
    m = measured()
    parts = [_opening(), _one_machine(), _scheduling(), _inputs(m), _memory(m), _times(m), _readings(m)]
    return "\n\n".join(paragraph for part in parts for paragraph in part) + "\n"


def _opening() -> Iterator[str]:
    yield "<!-- Rendered by `python benchmarks/scaling.py`: do not edit. -->\n# Ten, a hundred, a thousand GPUs"
    yield _wrapped(
        "What one machine of several GPUs does was measured, what one scheduler takes for a batch, with 64 workers "
        "and 100,000 batches, and what a source takes on one H200. **Computed, not run** is the rest: from these "
        "`benchmarks/scaling.py` computes what more GPUs would do with two large tasks, and where more would no "
        "longer help."
    )


def _scheduling() -> Iterator[str]:
    yield "## What scheduling costs"
    by_size = scheduling_lines()
    largest = by_size["run", 100_000]
    yield _wrapped(
        "`benchmarks/scheduling.py`, in `benchmarks/results/scheduling.jsonl`: a scheduler, 64 workers of a "
        "thread in "
        f"{largest['worker_processes']} processes, and a client, all on one machine of {largest['machine']['cores']} "
        "cores, which others used too (the load says how much: CPU times grow with it, wall times more). `run` "
        "is the "
        "pipeline, a source a batch; `idle` gives out as many tasks with nothing in them, a batch each; `dask` "
        "is Dask "
        "alone. CPU milliseconds a batch between the first done and the last; bytes through the scheduler a batch; "
        "memory at its most, and its growth a batch, of client and scheduler, while the second half was done."
    )
    names = (
        *("", "batches", "tasks", "client, ms", "scheduler, ms", "both, ms", "workers, ms", "wall, ms"),
        *("bytes", "client, MB", "scheduler, MB", "growth, B", "load"),
    )
    yield table(list(names), [_scheduling_row(line) for _, line in sorted(by_size.items(), key=_in_order)])
    calls = largest["calls_s"]
    yield _wrapped(
        f"Before the first of 100,000 batches was done, {largest['begin_s']:.0f} s went by: sources, plan, "
        "asking all "
        f"workers, and their start. After the last, {largest['end_s']:.0f} s: gathering the metrics from "
        "100,000 files "
        f"took {calls['finish_metrics']:.0f} s, removing these files {calls['finish']:.0f} s, looking for what "
        "killed "
        f"processes left, at the start too, {calls['clean']:.1f} s; the report the rest."
    )
    tenths = {
        role: " ".join(f"{mb:,.0f}" for mb in largest["tenths_mb"][role]) for role in ("client", "scheduler")
    }
    yield _wrapped(
        f"Memory while 100,000 batches were done, in MB from tenth to tenth: client {tenths['client']}; scheduler "
        f"{tenths['scheduler']}. Dask keeps the last thousand messages to each worker, here the bytes of its tasks, so "
        "the scheduler's grows until every worker has had so many."
    )
    yield _wrapped(
        "Small batches share a task, so that there are fewer tasks than batches: as many share one as it takes "
        "for client "
        "and scheduler to be busy for a twentieth of the time that is expected, while each thread keeps four "
        "tasks or "
        "more. A task carries the numbers of its batches and their sources; targets, like the graph, each "
        "worker reads "
        "from storage itself."
    )


def _one_machine() -> Iterator[str]:
    yield "## One machine: measured"
    found = lines("gpus")
    most = max(max(map(int, line["gpus"])) for line in found)
    machine = found[-1]["machine"]
    yield _wrapped(
        "`benchmarks/gpus.py`, in `benchmarks/results/gpus.jsonl`: the same runs on one GPU and on more of one "
        f"machine ({machine['gpu']}, {machine['cores']} cores), a worker for each GPU as `cluster.kind: local-cuda` "
        "starts it, from the first task given out to the last one told as done, files and all; distances to 1,000 "
        "targets, or metrics alone. The bytes are those of one GPU. Solving alone: the seconds that one GPU solves, "
        f"over those that the busiest of {most} does. Lost on the way from {most}: since the others wait for the "
        "busiest, and since it does not solve all the time."
    )
    rows = [_gpus_row(line, most) for line in found]
    head = ["", "sources", "targets", "1 GPU, s", *(f"{n} GPUs" for n in (2, most) if n > 1)]
    yield table([*head, "solving alone", "unequal", "idle"], rows)
    yield _wrapped(
        "What is lost does not grow with the run: some 50 ms at its beginning and end, until the first task has come "
        "to a GPU and the last files are written, beside which a fifth of a second of solving is short."
    )


def _gpus_row(line: dict[str, Any], most: int) -> list[str]:
    seconds, speedup = line["gpus"], line["speedup"]
    alone = seconds["1"]["busiest_s"] / seconds[str(most)]["busiest_s"]
    return [
        f"{line['graph']}, `{line['solver']}`",
        f"{line['sources']:,}",
        f"{line['targets']:,}" if line["targets"] else "none",
        f"{seconds['1']['span_s']:.2f}",
        *(f"{speedup[str(n)]['times']:.2f} ×" for n in (2, most)),
        f"{alone:.2f} ×",
        *(f"{100 * max(0.0, speedup[str(most)][loss]):.0f} %" for loss in ("unequal", "idle")),
    ]


def _in_order(item: tuple[tuple[str, int], Any]) -> tuple[bool, str, int]:
    (variant, batches), _ = item
    return variant != "run", variant, batches


def _scheduling_row(line: dict[str, Any]) -> list[str]:
    cpu, growth = line["cpu_ms"], line["growth_bytes_a_batch"]
    return [
        f"`{line['variant']}`",
        f"{line['batches']:,}",
        f"{line['tasks']:,}",
        f"{cpu['client']:.2f}",
        f"{cpu['scheduler']:.2f}",
        f"{line['scheduling_ms']:.2f}",
        f"{cpu['workers']:.2f}",
        f"{line['wall_ms']:.2f}",
        f"{sum(line['bytes_a_batch'].values()):,}",
        f"{line['peak_mb']['client']:,.0f}",
        f"{line['peak_mb']['scheduler']:,.0f}",
        " and ".join(f"{growth[role]:,.0f}" for role in ("client", "scheduler")),
        f"{line['load'][0]:.0f}",
    ]


def _inputs(m: Measured) -> Iterator[str]:
    yield "## What goes in"
    road = road_usa()
    yield table(
        ["measured", "", "where"],
        [
            [
                "a source on roads, for each vertex and edge",
                f"{1e12 * m.road_s:.1f} ps",
                "grid-4096, the most sources, `many_sources.jsonl`",
            ],
            [
                f"so on road-USA ({road.n_vertices:,} vertices, {road.n_edges:,} edges)",
                f"{1e3 * m.road_s * _elements(road):.2f} ms",
                "",
            ],
            *(
                [
                    f"on R-MAT by `{solver}`, {', '.join(map(str, element_s))} at once",
                    ", ".join(f"{1e12 * s:,.3g}" for s in element_s.values()) + " ps",
                    "rmat-24, `many_sources.jsonl`",
                ]
                for solver, element_s in m.rmat_s.items()
            ),
            [
                "distances encoded and written beside a GPU",
                f"{m.written_bytes_per_s / 1e6:,.0f} MB/s",
                "all, long, 16 cores, `pipeline_solvers.jsonl`",
            ],
            ["distances copied from a GPU", f"{1 / COPY_S_PER_BYTE / 1e9:.0f} GB/s", "`kernels/forecast.py`"],
            [
                "scheduler, client, for a task",
                f"{1e3 * m.scheduler_s:.1f}, {1e3 * m.client_s:.1f} ms",
                "`idle`, the most batches, `scheduling.jsonl`",
            ],
            ["client, after the last batch, for each", f"{1e3 * m.batch_end_s:.2f} ms", "`run`, 100,000"],
            [
                "client, memory for each batch",
                f"{m.batch_client_bytes:,.0f} B",
                "`run`, 100,000 less 2,000",
            ],
        ],
    )
    yield table(["assumed", "", "why"], [list(row) for row in ASSUMED])
    yield _wrapped(
        f"On a smaller road network (ne, 1.5 million vertices) an element takes {1e12 * m.smaller_road_s:.1f} "
        "ps. Beyond "
        "a GPU's cache a graph is read from its memory whatever its size; still, nothing larger than grid-4096 and "
        "rmat-24 was measured, so what follows is extrapolated."
    )


def _memory(m: Measured) -> Iterator[str]:
    yield "## What fits on a GPU"
    yield _wrapped(
        "Device memory of graph and one source in GiB by `kernels/forecast.py`, 32-bit weights, edge factor "
        "16, beside "
        f"the {H200_BYTES / 2**30:.0f} GiB of an H200; bold fits:"
    )
    graphs = {f"R-MAT {scale}": rmat(scale) for scale in range(26, 31)} | {"road-USA": road_usa()}
    rows = []
    for name, traits in graphs.items():
        needed = [fits(traits, solver) for solver in GPU_SOLVERS]
        cells = [f"**{n / 2**30:,.0f}**" if n <= H200_BYTES else f"{n / 2**30:,.0f}" for n in needed]
        edges, graph_bytes = f"{traits.n_edges / 1e9:,.2f}", graph_device_bytes(traits)
        rows.append([name, edges, f"{graph_bytes / 2**30:,.0f}", *cells])
    yield table(["", "edges, 10⁹", "graph", *(f"`{s}`" for s in GPU_SOLVERS)], rows)
    solver, needed_bytes = _least_bytes(rmat(30))
    fitting = [scale for scale in range(20, 31) if _fastest(rmat(scale), m, H200_BYTES)]
    with_lanes = [scale for scale in fitting if fits(rmat(scale), "adds-lanes") <= H200_BYTES]
    yield _wrapped(
        f"An R-MAT of scale 30 {'fits' if 30 in fitting else 'does not fit'} on an H200. It would from "
        f"{needed_bytes / 2**30:,.0f} GiB on (`{solver}`, one source at a time, which is slow), from "
        f"{fits(rmat(30), 'adds') / 2**30:,.0f} GiB with `adds`, "
        f"and from {fits(rmat(30), 'adds-lanes') / 2**30:,.0f} GiB with `adds-lanes`, which is "
        f"{m.rmat_s['adds'][1] / min(m.rmat_s['adds-lanes'].values()):.0f} times as fast as `adds` on such "
        "graphs. The largest that fits "
        f"an H200 is scale {max(fitting)}, with `adds-lanes` scale {max(with_lanes)}. A graph is not divided "
        "among GPUs: "
        "each has all of it. What a source takes below is what it took on rmat-24 with as many at once as fit "
        "beside the graph."
    )


def _times(m: Measured) -> Iterator[str]:
    yield "## What it would take"
    yield _wrapped(
        "Wall time, the share of the GPUs' time in which they solve, and what takes longest. The last columns: the "
        "fewest GPUs, by powers of two, that would solve for less than half of their time, and what takes "
        "longest then."
    )
    rows = []
    for workload in workloads(m):
        found = [outcome(workload, n, m) for n in GPUS]
        stop, why = stops_at(workload, m)
        rows.append(
            [
                workload.title,
                f"`{workload.solver}`",
                _time_text(workload.source_s),
                f"{found[0].n_batches:,}",
                *(f"{_time_text(o.seconds)}, {100 * o.efficiency:.0f} %, {o.limit}" for o in found),
                f"{stop:,}",
                why,
            ]
        )
    names = ("solver", "a source", "batches", *(f"{n:,} GPUs" for n in GPUS), "half at", "by")
    yield table(["", *names], rows)


def _readings(m: Measured) -> Iterator[str]:
    yield "## How to read it"
    metrics_alone, _, full, *_, last = workloads(m)
    n_files = outcome(full, 1, m).n_batches
    row_bytes = rmat(30).n_vertices * 4
    n_tasks = outcome(metrics_alone, GPUS[-1], m).n_tasks
    task_s = metrics_alone.n_sources * metrics_alone.source_s / n_tasks
    points = (
        f"**Every distance of all pairs is absurd.** Of road-USA it is "
        f"{full.n_sources * full.kept_bytes / 1e15:.1f} PB "
        f"in {n_files:,} files: the GPUs wait for storage, and the client alone would need about "
        f"{n_files * m.batch_client_bytes / 1e9:,.0f} GB of memory for the metrics, and "
        f"{_time_text(n_files * m.batch_end_s)} to gather them. Of an R-MAT of scale 30 it would be "
        f"{rmat(30).n_vertices * row_bytes / 1e18:.1f} EB; a row has {row_bytes / 1e9:.1f} GB. Ask for targets "
        "or metrics "
        "(`output.targets`, `output.distances: none`), which are reduced on the GPU.",
        f"**All pairs of R-MAT 30** would take {2**30 * last.source_s / 86400 / 365:,.0f} GPU years even with "
        "the memory "
        "for it; hence 65,536 sources.",
        "**Batches do not depend on the cluster**, so that the bytes do not: where sources are few the "
        "pipeline aims at "
        "64 batches. More GPUs than batches have nothing to do: set `solve.batch`, as in every second R-MAT row.",
        f"**The scheduler** gives out at most {1 / m.scheduler_s:,.0f} tasks a second, on one such core. All "
        "pairs of "
        f"road-USA, metrics alone, have {n_tasks:,} tasks of {task_s:.1f} s, enough for "
        f"{task_s / m.scheduler_s:,.0f} GPUs: there are too few tasks before the scheduler has too many.",
        "**The graph** of R-MAT is what the storage gives to every machine first; the more machines, the longer.",
        "Left out: workers that die, GPUs of different speed, kernels compiled on each machine (seconds, once), "
        "decoding the graph, the upload to the GPU, and what the store charges.",
    )
    yield "\n".join(_wrapped(f"- {point}", "  ") for point in points)


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _time_text(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= 2 * length or (unit == "s" and seconds >= 1):
            return f"{seconds / length:,.1f} {unit}"
    return f"{1e3 * seconds:.3g} ms"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
