"""The tables of a bench. Most have the form of a table in a paper; docs/guides/bench.md says which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sssp_pipeline.bench.layout import NONE, ResultTable, geometric_mean, range_names, shares
from sssp_pipeline.bench.lines import Line
from sssp_pipeline.bench.results import Results

#: The ends of the ranges in which speed-ups and ratios of work are counted, as in the ADDS paper's tables 3 to 5.
SPEEDUP_ENDS = (0.9, 1.1, 1.5, 2, 3, 5)
WORK_ENDS = (0.25, 0.5, 0.75, 1, 1.5, 3)

#: Tables with a row for each graph and a column for each variant: name, title, text, attribute of `Timing`, and format.
_BY_VARIANT = (
    (
        "times",
        "Time",
        "Milliseconds of one source, as H-BF's table 2: the median over the runs, the mean over the sources.",
        "median_ms",
        ".4g",
    ),
    (
        "mteps",
        "Throughput",
        "Millions of edges a second, as H-BF's table 2: the edges of all vertices reached, once, over the time.",
        "mteps",
        ".4g",
    ),
    ("work", "Work", "Vertices processed over vertices reached: 1 for Dijkstra's algorithm.", "work", ".3f"),
)


def all_tables(results: Results, baseline: str | None, subject: str | None) -> list[ResultTable]:
    """Return all tables that have rows; `baseline` and `subject` are variants."""
    found = [_graphs(results), *(_by_variant(results, *table) for table in _BY_VARIANT)]
    if baseline in results.variants:
        ranges = {v: results.speedups(v, baseline) for v in results.variants if v != baseline}
        title = f"Distribution of the speed-up over `{baseline}`"
        text = "How many graphs have which speed-up, as the ADDS paper's table 5."
        found += [_speedups(results, baseline), _ranges("speedup-ranges", title, text, ranges, SPEEDUP_ENDS)]
    if subject in results.variants:
        others = [v for v in results.variants if v != subject]
        title = f"Distribution of the speed-up of `{subject}` over each other"
        text = "How many graphs have which speed-up, as the ADDS paper's table 3."
        ranges = {f"over {other}": results.speedups(subject, other) for other in others}
        found.append(_ranges("subject-speedup-ranges", title, text, ranges, SPEEDUP_ENDS))
        title = f"Distribution of the work of `{subject}`, over that of each other"
        text = f"How many graphs have `{subject}` process how many times the vertices of the other: "
        text += "the ADDS paper's table 4."
        ranges = {f"over {other}": results.works(subject, other) for other in others}
        found.append(_ranges("subject-work-ranges", title, text, ranges, WORK_ENDS))
    found += [_effects(results, baseline), _not_measured(results), _long(results)]
    return [table for table in found if table.rows]


def _table(name: str, title: str, text: str, rows: Sequence[Mapping[str, str]]) -> ResultTable:
    """Return a table of `rows`, each with its cells by their headings."""
    return ResultTable(name, title, text, list(rows[0]) if rows else [], [list(row.values()) for row in rows])


def _graphs(results: Results) -> ResultTable:
    return _table(
        "graphs",
        "Graphs",
        "As H-BF's table 1. The diameter is a lower bound in hops: from breadth-first searches that start at\n"
        "the sources, and then where the one before ended.",
        [
            {
                "graph": g.name,
                "vertices": f"{g.n_vertices:,}",
                "edges": f"{g.n_edges:,}",
                "weights": f"{g.weight_dtype}, {g.min_weight:g} to {g.max_weight:g}",
                "mean degree": f"{g.mean_degree:.1f}",
                "deviation": f"{g.degree_deviation:.1f}",
                "most": f"{g.max_degree:,}",
                "diameter, at least": f"{g.diameter_hops:,}",
            }
            for g in results.graphs.values()
        ],
    )


def _by_variant(results: Results, name: str, title: str, text: str, attribute: str, form: str) -> ResultTable:
    rows = []
    for graph in results.graphs:
        timings = [results.timing(graph, variant) for variant in results.variants]
        rows.append([graph, *(format(getattr(t, attribute), form) if t else NONE for t in timings)])
    return ResultTable(name, title, text, ["graph", *results.variants], rows if results.variants else [])


def _speedups(results: Results, baseline: str) -> ResultTable:
    others = [v for v in results.variants if v != baseline]
    rows = [
        [graph, *(times_text(results.speedup(graph, v, baseline)) for v in others)]
        for graph in results.graphs
    ]
    each = [results.speedups(v, baseline) for v in others]
    rows.append(["geometric mean", *(times_text(geometric_mean(s)) if s else NONE for s in each)])
    rows.append(["mean", *(times_text(float(np.mean(s))) if s else NONE for s in each)])
    text = f"How many times as fast each variant is as `{baseline}`."
    headings = ["graph", *others]
    return ResultTable("speedups", f"Speed-up over `{baseline}`", text, headings, rows if others else [])


def _ranges(
    name: str, title: str, text: str, values_of: Mapping[str, list[float]], ends: Sequence[float]
) -> ResultTable:
    """Return a table that counts the values of each row by range, with their means."""
    rows = [
        [row, *shares(values, ends), times_text(geometric_mean(values)), times_text(float(np.mean(values)))]
        if values
        else [row, *[NONE] * (len(ends) + 3)]
        for row, values in values_of.items()
    ]
    return ResultTable(name, title, text, ["", *range_names(ends), "geometric mean", "mean"], rows)


def _effects(results: Results, baseline: str | None) -> ResultTable:
    over = f"over {baseline or 'baseline'}"
    rows = []
    for default, other, option in results.effects():
        is_on = other.changed[option] is True
        without, with_it = (default, other) if is_on else (other, default)
        assert without.timing
        assert with_it.timing
        before_ms, after_ms = without.timing.median_ms, with_it.timing.median_ms
        base = results.timing(default.graph.name, baseline)
        rows.append(
            {
                "graph": default.graph.name,
                "solver": default.solver,
                "option": option,
                "without, ms": f"{_value(without.options[option])}: {before_ms:.4g}",
                "with, ms": f"{_value(with_it.options[option])}: {after_ms:.4g}",
                "times as fast": times_text(before_ms / after_ms),
                f"without, {over}": times_text(base.median_ms / before_ms if base else None),
                f"with, {over}": times_text(base.median_ms / after_ms if base else None),
            }
        )
    return _table(
        "effects",
        "Effect of each option",
        "Milliseconds without and with an option, all others alike, as H-BF's table 3. `with` is a switch that is\n"
        "on, or another option at its default.",
        rows,
    )


def _not_measured(results: Results) -> ResultTable:
    rows = []
    for line in results.lines:
        if line.timing is None:
            rows.append([line.graph.name, line.label, line.state, line.reason or NONE])
        elif line.timing.runs < line.runs_asked:
            why = f"{line.timing.runs} of {line.runs_asked} runs: its time was over"
            rows.append([line.graph.name, line.label, "cut short", why])
    return ResultTable(
        "not-measured",
        "Not measured, or less often",
        "Variants that were not timed on a graph, and those that had fewer runs than asked for.",
        ["graph", "variant", "what", "why"],
        rows,
    )


def _long(results: Results) -> ResultTable:
    """Return a row for each measurement, for programs; the table is too long for a page."""
    rows = [_all_of(line) for line in results.lines if line.timing]
    return _table("results", "Everything", "A row a graph and variant.", rows)


def _all_of(line: Line) -> dict[str, str]:
    """Return what is known of a measurement, by heading."""
    graph, timing = line.graph, line.timing
    assert timing
    of_graph = ("n_vertices", "n_edges", "weight_dtype", "mean_degree", "diameter_hops")
    facts = {"graph": graph.name, **{name: getattr(graph, name) for name in of_graph}}
    facts |= {"variant": line.label, "processor": line.processor}
    facts |= {name: getattr(timing, name) for name in ("median_ms", "mean_ms", "runs")}
    facts |= {"sources": len(line.sources), "mteps": timing.mteps, "work": round(timing.work, 4)}
    facts |= {"edges_relaxed": round(sum(timing.edges_relaxed) / len(timing.edges_relaxed), 1)}
    facts |= {"supersteps": timing.supersteps, "filter_share": timing.filter_share}
    return {heading: NONE if value is None else str(value) for heading, value in facts.items()}


def times_text(times: float | None) -> str:
    """Return how many times as fast as text."""
    return NONE if times is None else f"{times:.2f}"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
