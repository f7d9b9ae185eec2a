"""The report of a run: one HTML page from `page.html.j2`. It has no scripts, and links only to files of the run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import yaml

from sssp_pipeline.base.progress import in_bytes, plural
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.graph_store.units import in_input_unit
from sssp_pipeline.pipeline.results.folder.run_files import BACKWARD, DIRECTION, METRICS_FILE
from sssp_pipeline.pipeline.results.outputs.outputs import recorded_output
from sssp_pipeline.pipeline.results.overall import overall_facts
from sssp_pipeline.pipeline.results.report import figures
from sssp_pipeline.pipeline.results.report.sample import SampledDistances

if TYPE_CHECKING:
    from jinja2 import Template

#: The most files of distances that have a link.
_MOST_LINKS = 20
#: The heading and the first sentences of the ranking of each column.
_PASSED = {
    "betweenness": (
        "Betweenness",
        "How many shortest paths pass a vertex or an edge. A pair of a source and a target adds the share of its "
        "shortest paths.",
    ),
    "flow": ("Flows", "How much passes an edge if each trip takes a shortest path."),
}


def report_facts(
    run: dict[str, Any],
    metrics: pa.Table,
    sample: SampledDistances,
    passed: Mapping[str, pa.Table] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return what the template shows of the metrics and of the sample. A report takes nearly all of its time here.

    Parameters
    ----------
    run
        The content of `run.json`. The verdict, the times and the sizes of the files may come later.
    metrics
        The content of `metrics.parquet`, a row a source.
    sample
        Distances of a few sources.
    passed
        The rows with the largest values of each table of `RowOutput.ranked`.
    """
    has_rows = metrics.num_rows > 0
    is_backward = run.get(DIRECTION) == BACKWARD and "target" in metrics.column_names
    start = "target" if is_backward else "source"
    if is_backward:  # each row is of a target that was searched from
        metrics = metrics.rename_columns({"target": "source"})
    output = recorded_output(run)
    attempts, again = figures.attempts_tables(metrics)
    return {
        "unreached": None if run.get(DIRECTION) == BACKWARD else figures.unreached_pairs(run, metrics),
        "start": start,
        "solve_facts": list(_solve_facts(run, metrics, start)),
        "workers": figures.workers_table(metrics, start),
        "attempts": attempts,
        "again": again,
        "throughput": figures.throughput(metrics, start),
        "sample": sample,
        "distance_charts": figures.distance_charts(run, sample),
        "distributions": figures.distributions(run, metrics, start) if has_rows else [],
        "central": None if is_backward else figures.central_sources(run, metrics),
        "passed": [figures.passed_table(name, table) for name, table in passed.items()],
        "passed_as": next((_PASSED[column] for column, *_ in output.ranked.values()), None),
        "traces": figures.trace_charts(run, metrics, start),
    }


@cache
def template() -> Template:
    """Return the compiled template of the page. To make it takes longer than to fill it."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["with_commas"] = lambda value: f"{value:,}" if isinstance(value, int) else str(value)
    return templates.get_template("page.html.j2")


def render_report(run: dict[str, Any], facts: Mapping[str, Any]) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    run
        The content of `run.json`.
    facts
        As `report_facts` returned them.
    """
    output = recorded_output(run)
    stored = [(name, size) for name, size in run.get("files", {}).items() if name != METRICS_FILE]
    machine = {key: value for key, value in run["hardware"].items() if value is not None}
    return template().render(
        facts,
        run=run,
        judged=output.judged,
        verdict=output.verdict(run["graph"]["weights"]["dtype"]),
        checked=output.searched,
        summary=list(_summary(run, facts["unreached"], output.searched)),
        metrics_file=METRICS_FILE,
        files=[(quote(name), name, f"{size:,} bytes") for name, size in stored[:_MOST_LINKS]],
        n_files=len(stored),
        stored_bytes=in_bytes(sum(size for _, size in stored)),
        query=output.query(run["workflow"].get("output", {}).get("path", "results")),
        skipped=list(_skipped(run)),
        time_charts=figures.time_charts(run, facts["throughput"]),
        input_facts=list(_input_facts(run)),
        graph_facts=list(_graph_facts(run["graph"])),
        machine=list({**machine, **run["versions"]}.items()),
        workflow=yaml.safe_dump(run["workflow"], sort_keys=False, allow_unicode=True),
    )


def _summary(
    run: dict[str, Any], unreached: tuple[int, int] | None, searched: str
) -> Iterable[tuple[str, Any]]:
    """Yield what a reader wants first; `searched` is as in `RowOutput`."""
    if "finished" in run:
        yield "finished", run["finished"].replace("T", " ").replace("+00:00", " UTC")
    if "weight" in run:  # of several
        yield "weight", run["weight"]
    yield f"{searched}s", run["sources"]
    yield "vertices", run["graph"]["n_vertices"]
    yield "edges", run["graph"]["n_edges"]
    yield "solver", run["solver"]
    yield from overall_facts(run.get("overall", {}), run["graph"]["weights"].get("unit"))
    yield "wall time", f"{sum(run['timings'].values()):,.2f} s"
    n_unreached, n_pairs = unreached or (0, 0)
    if n_pairs:
        cutoff = run["workflow"].get("solve", {}).get("cutoff")
        name = "unreached pairs" if cutoff is None else f"pairs unreached or beyond {cutoff}"
        yield name, f"{n_unreached:,} ({n_unreached / n_pairs:.2%})"


def _skipped(run: dict[str, Any]) -> Iterable[str]:
    skipped = run.get("skipped", {})
    for name, n in skipped.get("repeated", {}).items():
        yield f"Dropped {plural(n, name.removesuffix('s'))} that had been named before."
    for name, ids in skipped.get("first", {}).items():
        some = ", ".join(ids) + (" and others" if skipped[name] > len(ids) else "")
        one = "vertex" if name == "vertices" else name.removesuffix("s")
        why = "with an id that is not known" if name in ("pairs", "trips") else "not in the graph"
        yield f"Skipped {plural(skipped[name], one)} {why}: {some}."


def _input_facts(run: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    asked, graph = run["workflow"]["graph"], run["graph"]
    several = asked.get("weights", {}).get("several") or ()
    own = next((weight["input"] for weight in several if weight["name"] == run.get("weight")), None)
    given = own or asked["input"]
    yield "input", given if isinstance(given, str) else ", ".join(given)
    if graph.get("reading") is not None:
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


def _solve_facts(run: dict[str, Any], metrics: pa.Table, start: str) -> Iterable[tuple[str, Any]]:
    yield "solver", f"{run['solver']} ({run['solver_reason']})"
    output = recorded_output(run)
    yield f"{output.searched}s", run["sources"]
    yield from output.facts()
    if run.get(DIRECTION) == BACKWARD:
        yield (
            DIRECTION,
            f"{BACKWARD}: a search for each different target, which each row of the metrics is of",
        )
    yield "batches", run["batches"]
    if not metrics.num_rows:
        return
    solve_s, reached, processed, relaxed = (
        metrics[column].to_numpy() for column in ("solve_s", "reached", "vertices_processed", "edges_relaxed")
    )
    yield f"solve_s per {start}", f"median {np.median(solve_s):.4g}, largest {solve_s.max():.4g}"
    yield "solve_s in all", f"{solve_s.sum():,.2f}"
    yield "distances per second of solving", f"{reached.sum() / max(solve_s.sum(), 1e-9):,.0f}"
    yield "edges relaxed per second of solving", f"{relaxed.sum() / max(solve_s.sum(), 1e-9):,.0f}"
    yield "vertices processed per vertex reached", f"{processed.sum() / max(reached.sum(), 1):.3f}"
