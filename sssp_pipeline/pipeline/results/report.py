"""The report of a run: one HTML page without scripts and without links to other files, from `report.html.j2`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.graph_store.units import in_input_unit
from sssp_pipeline.pipeline.results.outputs import recorded_output

_BINS = 32
_WIDTH, _HEIGHT = 640, 120


def render_report(run: dict[str, Any], metrics: pa.Table) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    run
        The content of `run.json`.
    metrics
        The content of `metrics.parquet`, a row a source.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined
    )
    templates.filters["with_commas"] = lambda value: f"{value:,}" if isinstance(value, int) else str(value)
    sections = (
        ("Input", _input_facts(run["workflow"], run["graph"])),
        ("Graph", _graph_facts(run["graph"])),
        ("Solve", _solve_facts(run, metrics)),
        ("Time", ((stage, f"{seconds:,.2f} s") for stage, seconds in run["timings"].items())),
    )
    unit = f" ({run['graph']['weights']['unit']})" if run["graph"]["weights"]["unit"] else ""
    columns = {
        "Vertices reached": "reached",
        f"Largest distance{unit}": "max_distance",
        f"Mean distance{unit}": "mean_distance",
        "Seconds per source": "solve_s",
    }
    machine = {key: value for key, value in run["hardware"].items() if value is not None}
    return templates.get_template("report.html.j2").render(
        run=run,
        judged=recorded_output(run).judged,
        sections=sections,
        histograms=[
            (title, _histogram(metrics[name])) for title, name in columns.items() if metrics.num_rows
        ],
        machine={**machine, **run["versions"]}.items(),
        workflow=yaml.safe_dump(run["workflow"], sort_keys=False),
    )


def _input_facts(workflow: dict[str, Any], graph: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    given = workflow["graph"]["input"]
    yield "input", given if isinstance(given, str) else ", ".join(given)
    if graph.get("reading") is not None:  # runs of release 0.1.0 have none
        yield from Reading.of_json(graph["reading"]).facts().items()


def _graph_facts(graph: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    weights = graph["weights"]
    yield "vertices", graph["n_vertices"]
    yield "edges", graph["n_edges"]
    low, high, mean = (in_input_unit(weights[key], weights.get("scale")) for key in ("min", "max", "mean"))
    yield "weights", f"{weights['dtype']}, {low:,} to {high:,}, mean {mean:,.6g}"
    if weights.get("scale") is not None:
        yield "scale", weights["scale"]
    yield "every edge has its reverse", "yes" if graph["symmetric"] else "no"
    yield "ids", f"{graph['ids']['type']}, {graph['ids']['kind']}"
    for key, count in graph["counts"].items():
        yield key.replace("_", " "), count


def _solve_facts(run: dict[str, Any], metrics: pa.Table) -> Iterable[tuple[str, Any]]:
    yield "solver", f"{run['solver']} ({run['solver_reason']})"
    yield "sources", run["sources"]
    yield from recorded_output(run).facts()
    for name in ("sources", "targets", "vertices"):
        if n_skipped := run.get("skipped", {}).get(name):
            yield f"{name} that are not in the graph, skipped", n_skipped
    yield "batches", run["batches"]
    if not metrics.num_rows:
        return
    solve_s, reached, processed, relaxed = (
        metrics[column].to_numpy() for column in ("solve_s", "reached", "vertices_processed", "edges_relaxed")
    )
    yield "solve_s per source", f"median {np.median(solve_s):.4g}, largest {solve_s.max():.4g}"
    yield "solve_s in all", f"{solve_s.sum():,.2f}"
    yield "distances per second of solving", f"{reached.sum() / max(solve_s.sum(), 1e-9):,.0f}"
    yield "edges relaxed per second of solving", f"{relaxed.sum() / max(solve_s.sum(), 1e-9):,.0f}"
    yield "vertices processed per vertex reached", f"{processed.sum() / max(reached.sum(), 1):.3f}"
    yield "attempts, most for one batch", int(metrics["attempts"].to_numpy().max())
    yield "workers", len(metrics["worker"].unique())


@dataclass(frozen=True)
class _Bar:
    """A bar of a histogram: its left edge and its size in units of the picture."""

    x: float
    width: float
    height: float


@dataclass(frozen=True)
class _Histogram:
    """How often each range of values occurs, and the texts below the bars."""

    bars: list[_Bar]
    low: str
    high: str
    caption: str
    width: int = _WIDTH
    height: int = _HEIGHT


def _histogram(column: pa.ChunkedArray) -> _Histogram:
    values = column.to_numpy().astype(np.float64)
    low, high = values.min(), values.max()
    # The range of equal, or almost equal, values is too narrow to be divided.
    even = high - low <= abs(high) * 1e-12
    counts = np.array([len(values)]) if even else np.histogram(values, bins=_BINS, range=(low, high))[0]
    step = _WIDTH / len(counts)
    return _Histogram(
        [_Bar(i * step, step - 1, _HEIGHT * count / counts.max()) for i, count in enumerate(counts) if count],
        _number(low),
        _number(high),
        f"median {_number(float(np.median(values)))}; "
        f"tallest bar {counts.max():,} of {len(values):,} sources",
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"
