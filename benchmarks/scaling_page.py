"""The page docs/scaling.md: the times of 10, 100 and 1,000 GPUs, computed from measurements on a few.

A run takes as long as the longest of these concurrent parts: the GPUs solve, copy and write task after task; the
scheduler submits tasks; the storage receives what is written. Before, the graph is loaded. After, the client gathers
the metrics. Every number comes from a stored line or is a named assumption. Nothing was run on such clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from many_sources_page import GPU_SOLVERS, newest
from page_text import stored_lines

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.bench.layout import markdown as table
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.forecast import COPY_S_PER_BYTE, graph_device_bytes
from sssp_pipeline.kernels.contract.kept import EveryVertex, Targets
from sssp_pipeline.pipeline.planning.work import Work, batch_size, solve_options
from sssp_pipeline.pipeline.solving.workers.needs import Needs, with_shared_tasks
from sssp_pipeline.workflow.models import Solve

PAGE = Path(__file__).parents[1] / "docs" / "scaling.md"
GPUS = (10, 100, 1000)
#: Operations a second of DSNAPSHOT on 24,576 GPUs: osti.gov/biblio/1798621.
SUMMIT_FLOPS = 136e15

# ---- Assumptions: what was not measured ---------------------------------------------------------------------------

GPUS_A_MACHINE = 8
MACHINE_BYTES_PER_S = 10e9
STORE_BYTES_PER_S = 100e9
#: The memory of an H200 that CUDA shows.
H200_BYTES = 139 * 2**30


# ---- What was measured --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measured:
    """The stored numbers that the model uses.

    Attributes
    ----------
    road_s, smaller_road_s, rmat_s
        Seconds of an H200 for a source, over vertices and edges of the graph: on large and smaller roads; on R-MAT by
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


def scheduling_lines() -> dict[tuple[str, int], dict[str, Any]]:
    """Return the newest line of each variant and number of batches, on 64 workers."""
    return {
        (line["variant"], line["batches"]): line
        for line in stored_lines("scheduling")
        if line["workers"] == 64
    }


def measured() -> Measured:
    graphs = {graph.name: graph for graph in newest(stored_lines("many_sources"))}
    north_east, grid, rmat = (graphs[name] for name in ("ne", "grid-4096", "rmat-24"))
    runs = [
        line
        for line in stored_lines("pipeline_solvers")
        if line["targets"] is None and line["gpu_busy"] is not None and line["asked_for"] == "auto"
        if not (line.get("gpus") or line.get("cutoff")) and line["machine"]["cores"] == 16
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
    """A task for the model.

    Attributes
    ----------
    title
        Its name on the page.
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
        """Bytes of the distances of a source that are written, with their targets."""
        if self.n_targets is None:
            return self.traits.n_vertices * self.traits.weight_dtype.itemsize
        return self.n_targets * (self.traits.weight_dtype.itemsize + 4)

    @property
    def graph_bytes(self) -> int:
        return 8 * (self.traits.n_vertices + 1) + 8 * self.traits.n_edges


@dataclass(frozen=True)
class Outcome:
    """The times of a workload on some number of GPUs, in seconds.

    Attributes
    ----------
    parts
        The concurrent parts by name: the longest counts.
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
        """The name of the longest part."""
        parts = {**self.parts, "loading the graph": self.before, "gathering metrics": self.after}
        return max(parts, key=parts.__getitem__)


def outcome(workload: Workload, n_gpus: int, m: Measured) -> Outcome:
    """Return the times of `workload` on `n_gpus`."""
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
    """Return the numbers of batches and tasks into which the pipeline cuts `workload`."""
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
    """Return the least power of two of GPUs that solve for less than half of their time, and the limit."""
    for power in range(21):
        found = outcome(workload, 2**power, m)
        if found.efficiency < 0.5:
            return 2**power, found.limit
    raise AssertionError("a million GPUs are busy")


def fits(traits: GraphTraits, solver: str) -> int:
    """Return the bytes of device memory for a graph and one source of `solver`."""
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
    """Return the fastest solver with as many sources at once as fit, and its seconds a source; or None."""
    able = []
    for solver, element_s in m.rmat_s.items():
        one = SOLVERS[solver].forecast(traits, 1)
        fit = (gpu_bytes - graph_device_bytes(traits) - one.fixed_bytes) // one.source_bytes
        able += [(solver, s * _elements(traits)) for at_once, s in element_s.items() if at_once <= fit]
    return min(able, key=lambda found: found[1], default=None)


def _elements(traits: GraphTraits) -> int:
    return traits.n_vertices + traits.n_edges


def values() -> dict[str, Any]:
    """Return what `templates/scaling.md` shows."""
    m = measured()
    gpus, by_size = stored_lines("gpus"), scheduling_lines()
    most = max(max(map(int, line["gpus"])) for line in gpus)
    largest = by_size["run", 100_000]
    calls = largest["calls_s"]
    metrics_alone, _, full, *_, last = workloads(m)
    road = road_usa()
    n_files = outcome(full, 1, m).n_batches
    n_tasks = outcome(metrics_alone, GPUS[-1], m).n_tasks
    task_s = metrics_alone.n_sources * metrics_alone.source_s / n_tasks
    needed = {solver: fits(rmat(30), solver) for solver in GPU_SOLVERS}
    least_solver = min(needed, key=needed.__getitem__)
    fitting = [scale for scale in range(20, 31) if _fastest(rmat(scale), m, H200_BYTES)]
    row_bytes = rmat(30).n_vertices * 4
    large = stored_lines("all_sources")[-1]
    return {
        "all_sources": large,
        "n_commands": len(large["commands"]),
        "all_minutes": large["wall_s"] / 60,
        "all_solve_minutes": large["solve_s"] / 60,
        "all_source_ms": 1e3 * large["solve_s"] / large["n_sources"],
        "all_pairs": large["pairs_reached"] / 1e12,
        "dense_minutes": 2 * large["n_vertices"] ** 3 / SUMMIT_FLOPS / 60,
        "machine": gpus[-1]["machine"],
        "most": most,
        "gpus": _gpus_table(gpus, most),
        "largest": largest,
        "scheduling": _scheduling_table(by_size),
        # Lines of earlier commits have the name that the method had then.
        "calls": {"joined_metrics": calls.get("finish_metrics"), **calls},
        "client_mb": " ".join(f"{mb:,.0f}" for mb in largest["tenths_mb"]["client"]),
        "scheduler_mb": " ".join(f"{mb:,.0f}" for mb in largest["tenths_mb"]["scheduler"]),
        "m": m,
        "road": road,
        "road_ps": 1e12 * m.road_s,
        "road_ms": 1e3 * m.road_s * _elements(road),
        "rmat_rows": "\n".join(
            f"| on R-MAT by `{solver}`, {', '.join(map(str, element_s))} at once "
            f"| {', '.join(f'{1e12 * s:,.3g}' for s in element_s.values())} ps | rmat-24, `many_sources.jsonl` |"
            for solver, element_s in m.rmat_s.items()
        ),
        "written_mb_per_s": m.written_bytes_per_s / 1e6,
        "copied_gb_per_s": 1 / COPY_S_PER_BYTE / 1e9,
        "scheduler_ms": 1e3 * m.scheduler_s,
        "client_ms": 1e3 * m.client_s,
        "batch_end_ms": 1e3 * m.batch_end_s,
        "gpus_a_machine": GPUS_A_MACHINE,
        "machine_gb_per_s": MACHINE_BYTES_PER_S / 1e9,
        "store_gb_per_s": STORE_BYTES_PER_S / 1e9,
        "smaller_road_ps": 1e12 * m.smaller_road_s,
        "h200_gib": H200_BYTES / 2**30,
        "memory": _memory_table(),
        "fits_30": "fits" if 30 in fitting else "does not fit",
        "least_solver": least_solver,
        "least_gib": needed[least_solver] / 2**30,
        "adds_gib": needed["adds"] / 2**30,
        "lanes_gib": needed["adds-lanes"] / 2**30,
        "lanes_times": m.rmat_s["adds"][1] / min(m.rmat_s["adds-lanes"].values()),
        "largest_scale": max(fitting),
        "largest_lanes_scale": max(s for s in fitting if fits(rmat(s), "adds-lanes") <= H200_BYTES),
        "times": _times_table(m),
        "full_pb": full.n_sources * full.kept_bytes / 1e15,
        "full_files": n_files,
        "full_client_gb": n_files * m.batch_client_bytes / 1e9,
        "full_gather": _time_text(n_files * m.batch_end_s),
        "rmat_eb": rmat(30).n_vertices * row_bytes / 1e18,
        "row_gb": row_bytes / 1e9,
        "gpu_years": 2**30 * last.source_s / 86400 / 365,
        "tasks_per_s": 1 / m.scheduler_s,
        "road_tasks": n_tasks,
        "road_task_s": task_s,
        "road_gpus": task_s / m.scheduler_s,
    }


def _gpus_table(lines: list[dict[str, Any]], most: int) -> str:
    head = ["", "sources", "targets", "1 GPU, s", *(f"{n} GPUs" for n in (2, most) if n > 1)]
    return table([*head, "solving alone", "unequal", "idle"], [_gpus_row(line, most) for line in lines])


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


def _scheduling_table(by_size: dict[tuple[str, int], dict[str, Any]]) -> str:
    names = (
        *("", "batches", "tasks", "client, ms", "scheduler, ms", "both, ms", "workers, ms", "wall, ms"),
        *("bytes", "client, MB", "scheduler, MB", "growth, B", "load"),
    )
    return table(list(names), [_scheduling_row(line) for _, line in sorted(by_size.items(), key=_in_order)])


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


def _memory_table() -> str:
    graphs = {f"R-MAT {scale}": rmat(scale) for scale in range(26, 31)} | {"road-USA": road_usa()}
    rows = []
    for name, traits in graphs.items():
        needed = [fits(traits, solver) for solver in GPU_SOLVERS]
        cells = [f"**{n / 2**30:,.0f}**" if n <= H200_BYTES else f"{n / 2**30:,.0f}" for n in needed]
        edges, graph_bytes = f"{traits.n_edges / 1e9:,.2f}", graph_device_bytes(traits)
        rows.append([name, edges, f"{graph_bytes / 2**30:,.0f}", *cells])
    return table(["", "edges, 10⁹", "graph", *(f"`{s}`" for s in GPU_SOLVERS)], rows)


def _times_table(m: Measured) -> str:
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
    return table(["", *names], rows)


def _time_text(seconds: float) -> str:
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= 2 * length or (unit == "s" and seconds >= 1):
            return f"{seconds / length:,.1f} {unit}"
    return f"{1e3 * seconds:.3g} ms"
