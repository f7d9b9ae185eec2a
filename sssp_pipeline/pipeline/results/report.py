"""The report of a run: one HTML page that needs nothing else, no network, no script, no image file."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.graph_store.units import in_input_unit
from sssp_pipeline.pipeline.results.outputs import recorded_output

_BINS = 32
_WIDTH, _HEIGHT = 640, 120

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } td { padding: .15rem 1rem .15rem 0; vertical-align: top; }
td:first-child { opacity: .7; white-space: nowrap; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886; }
svg { width: 100%; height: auto; } rect { fill: #3b7dd8; } text { fill: currentColor; font-size: 12px; }
.verdict { padding: .5rem .75rem; border-left: 4px solid #888; }
.proved { border-color: #2a9d4a; } .refuted { border-color: #c8321f; font-weight: bold; }
"""


def render_report(run: dict[str, Any], metrics: pa.Table) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    run
        The content of `run.json`.
    metrics
        The content of `metrics.parquet`, a row a source.
    """
    name = escape(run["name"])
    body = [
        f"<h1>{name}</h1>",
        _verdict(run["verify"], recorded_output(run).judged),
        _section("Input", _rows(_input_facts(run["workflow"], run["graph"]))),
        _section("Graph", _rows(_graph_facts(run["graph"]))),
        _section("Solve", _rows(_solve_facts(run, metrics))),
        _section("Time", _rows((stage, f"{seconds:,.2f} s") for stage, seconds in run["timings"].items())),
        "<p>Wall time by stage, of the call that finished the run.</p>",
    ]
    unit = f" ({escape(run['graph']['weights']['unit'])})" if run["graph"]["weights"]["unit"] else ""
    if metrics.num_rows:
        body += [
            _section("Vertices reached", _histogram(metrics["reached"])),
            _section(f"Largest distance{unit}", _histogram(metrics["max_distance"])),
            _section(f"Mean distance{unit}", _histogram(metrics["mean_distance"])),
            _section("Seconds per source", _histogram(metrics["solve_s"])),
        ]
    machine = {key: value for key, value in run["hardware"].items() if value is not None}
    body += [
        _section("Machine", _rows({**machine, **run["versions"]}.items())),
        _section("Workflow", f"<pre>{escape(yaml.safe_dump(run['workflow'], sort_keys=False))}</pre>"),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _verdict(verify: dict[str, Any] | None, what: str) -> str:
    if verify is None:
        return f'<p class="verdict">The {what}s were not verified.</p>'
    if verify["refuted"] is not None:
        return f'<p class="verdict refuted">Refuted: {escape(verify["refuted"])}</p>'
    how = {"sample": "solved again with the oracle", "certificate": "proved by the certificate"}[
        verify["mode"]
    ]
    return (
        f'<p class="verdict proved">Every checked {what} is exact: {verify["checked_sources"]:,} sources '
        f"{how} in {verify['verify_s']:,.2f} s.</p>"
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
    for name in ("sources", "targets"):
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


def _section(title: str, content: str) -> str:
    return f"<h2>{title}</h2>\n{content}"


def _rows(facts: Iterable[tuple[str, Any]]) -> str:
    shown = (
        f"<tr><td>{escape(name)}</td><td>{escape(f'{fact:,}' if isinstance(fact, int) else str(fact))}</td></tr>"
        for name, fact in facts
    )
    return f"<table>{''.join(shown)}</table>"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.4g}"


def _histogram(column: pa.ChunkedArray) -> str:
    """Return how often each range of values occurs, as inline SVG with its limits written below."""
    values = column.to_numpy().astype(np.float64)
    low, high = values.min(), values.max()
    # The range of equal, or almost equal, values is too narrow to be divided.
    even = high - low <= abs(high) * 1e-12
    counts = np.array([len(values)]) if even else np.histogram(values, bins=_BINS, range=(low, high))[0]
    step = _WIDTH / len(counts)
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{_HEIGHT * (1 - count / counts.max()):.1f}" '
        f'width="{step - 1:.1f}" height="{_HEIGHT * count / counts.max():.1f}"/>'
        for i, count in enumerate(counts)
        if count
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + 18}" role="img">{bars}'
        f'<text x="0" y="{_HEIGHT + 14}">{_number(low)}</text>'
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT + 14}" text-anchor="middle">median {_number(float(np.median(values)))}; '
        f"tallest bar {counts.max():,} of {len(values):,} sources</text>"
        f'<text x="{_WIDTH}" y="{_HEIGHT + 14}" text-anchor="end">{_number(high)}</text></svg>'
    )
