"""The tables of a bench. Most have the form of a table in a paper; docs/guides/bench.md says which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sssp_pipeline.bench.layout import (
    NONE,
    Table,
    geometric_mean,
    range_names,
    shares,
)
from sssp_pipeline.bench.results import Results

#: The ends of the ranges in which speed-ups and ratios of work are counted, as in the ADDS paper's tables 3 to 5.
SPEEDUP_ENDS = (0.9, 1.1, 1.5, 2, 3, 5)
WORK_ENDS = (0.25, 0.5, 0.75, 1, 1.5, 3)


def all_tables(results: Results, baseline: str | None, subject: str | None) -> list[Table]:
    """Return all tables that have rows; `baseline` and `subject` are variants."""
    found = [_graphs(results), _times(results), _mteps(results), _work(results)]
    if baseline in results.variants:
        found += [_speedups(results, baseline), _speedup_ranges(results, baseline)]
    if subject in results.variants:
        found += [_ranges_of_subject(results, subject), _work_ranges(results, subject)]
    found += [_effects(results, baseline), _not_measured(results), _long(results)]
    return [table for table in found if table.rows]


def _graphs(results: Results) -> Table:
    return Table(
        "graphs",
        "Graphs",
        "As H-BF's table 1. The diameter is a lower bound in hops: from breadth-first searches that start at\n"
        "the sources, and then where the one before ended.",
        ["graph", "vertices", "edges", "weights", "mean degree", "deviation", "most", "diameter, at least"],
        [
            [
                g.name,
                f"{g.n_vertices:,}",
                f"{g.n_edges:,}",
                f"{g.weight_dtype}, {g.min_weight:g} to {g.max_weight:g}",
                f"{g.mean_degree:.1f}",
                f"{g.degree_deviation:.1f}",
                f"{g.max_degree:,}",
                f"{g.diameter_hops:,}",
            ]
            for g in results.graphs.values()
        ],
    )


def _by_variant(results: Results, table: tuple[str, str, str], attribute: str, form: str) -> Table:
    """Return a table (name, title, text) of one attribute of `Timing`, a row a graph and a column a variant."""
    rows = []
    for graph in results.graphs:
        timings = [results.timing(graph, variant) for variant in results.variants]
        rows.append([graph, *(format(getattr(t, attribute), form) if t else NONE for t in timings)])
    return Table(*table, ["graph", *results.variants], rows if results.variants else [])


def _times(results: Results) -> Table:
    return _by_variant(
        results,
        (
            "times",
            "Time",
            "Milliseconds of one source, as H-BF's table 2: the median over the runs, the mean over the sources.",
        ),
        "median_ms",
        ".4g",
    )


def _mteps(results: Results) -> Table:
    return _by_variant(
        results,
        (
            "mteps",
            "Throughput",
            "Millions of edges a second, as H-BF's table 2: the edges of all vertices reached, once, over the time.",
        ),
        "mteps",
        ".4g",
    )


def _work(results: Results) -> Table:
    return _by_variant(
        results,
        ("work", "Work", "Vertices processed over vertices reached: 1 for Dijkstra's algorithm."),
        "work",
        ".3f",
    )


def _speedups(results: Results, baseline: str) -> Table:
    others = [v for v in results.variants if v != baseline]
    rows = [
        [graph, *(times_text(results.speedup(graph, v, baseline)) for v in others)]
        for graph in results.graphs
    ]
    each = [results.speedups(v, baseline) for v in others]
    rows.append(["geometric mean", *(times_text(geometric_mean(s)) if s else NONE for s in each)])
    rows.append(["mean", *(times_text(float(np.mean(s))) if s else NONE for s in each)])
    return Table(
        "speedups",
        f"Speed-up over `{baseline}`",
        f"How many times as fast each variant is as `{baseline}`.",
        ["graph", *others],
        rows if others else [],
    )


def _speedup_ranges(results: Results, baseline: str) -> Table:
    rows = [
        _ranged(v, results.speedups(v, baseline), SPEEDUP_ENDS) for v in results.variants if v != baseline
    ]
    return Table(
        "speedup-ranges",
        f"Distribution of the speed-up over `{baseline}`",
        "How many graphs have which speed-up, as the ADDS paper's table 5.",
        ["", *range_names(SPEEDUP_ENDS), "geometric mean", "mean"],
        rows,
    )


def _ranges_of_subject(results: Results, subject: str) -> Table:
    others = [v for v in results.variants if v != subject]
    return Table(
        "subject-speedup-ranges",
        f"Distribution of the speed-up of `{subject}` over each other",
        "How many graphs have which speed-up, as the ADDS paper's table 3.",
        ["", *range_names(SPEEDUP_ENDS), "geometric mean", "mean"],
        [_ranged(f"over {other}", results.speedups(subject, other), SPEEDUP_ENDS) for other in others],
    )


def _work_ranges(results: Results, subject: str) -> Table:
    others = [v for v in results.variants if v != subject]
    return Table(
        "subject-work-ranges",
        f"Distribution of the work of `{subject}`, over that of each other",
        f"How many graphs have `{subject}` process how many times the vertices of the other: the ADDS paper's table 4.",
        ["", *range_names(WORK_ENDS), "geometric mean", "mean"],
        [_ranged(f"over {other}", results.works(subject, other), WORK_ENDS) for other in others],
    )


def _effects(results: Results, baseline: str | None) -> Table:
    rows = []
    for default, other, option in results.effects():
        is_on = other.changed[option] is True
        without, with_it = (default, other) if is_on else (other, default)
        assert without.timing
        assert with_it.timing
        base = results.timing(default.graph.name, baseline)
        rows.append(
            [
                default.graph.name,
                default.solver,
                option,
                *(
                    f"{_value(line.options[option])}: {line.timing.median_ms:.4g}"
                    for line in (without, with_it)
                    if line.timing
                ),
                times_text(without.timing.median_ms / with_it.timing.median_ms),
                *(
                    times_text(base.median_ms / t.median_ms if base else None)
                    for t in (without.timing, with_it.timing)
                ),
            ]
        )
    over = f"over {baseline}" if baseline else "over baseline"
    return Table(
        "effects",
        "Effect of each option",
        "Milliseconds without and with an option, all others alike, as H-BF's table 3. `with` is a switch that is\n"
        "on, or another option at its default.",
        [
            "graph",
            "solver",
            "option",
            "without, ms",
            "with, ms",
            "times as fast",
            f"without, {over}",
            f"with, {over}",
        ],
        rows,
    )


def _not_measured(results: Results) -> Table:
    rows = []
    for line in results.lines:
        if line.timing is None:
            rows.append([line.graph.name, line.label, line.state, line.reason or NONE])
        elif line.timing.runs < line.runs_asked:
            why = f"{line.timing.runs} of {line.runs_asked} runs: its time was over"
            rows.append([line.graph.name, line.label, "cut short", why])
    return Table(
        "not-measured",
        "Not measured, or less often",
        "Variants that were not timed on a graph, and those that had fewer runs than asked for.",
        ["graph", "variant", "what", "why"],
        rows,
    )


def _long(results: Results) -> Table:
    """Return a row for each measurement, for programs; the table is too long for a page."""
    rows = []
    for line in results.lines:
        if (t := line.timing) is None:
            continue
        g = line.graph
        values = (g.name, g.n_vertices, g.n_edges, g.weight_dtype, g.mean_degree, g.diameter_hops, line.label)
        measured = (t.median_ms, t.mean_ms, t.runs, len(line.sources), t.mteps, round(t.work, 4))
        of_all = round(sum(t.edges_relaxed) / len(t.edges_relaxed), 1)
        cells = (*values, line.processor, *measured, of_all, t.supersteps, t.filter_share)
        rows.append([NONE if value is None else str(value) for value in cells])
    return Table(
        "results",
        "Everything",
        "A row a graph and variant.",
        [
            *(
                "graph",
                "n_vertices",
                "n_edges",
                "weight_dtype",
                "mean_degree",
                "diameter_hops",
                "variant",
                "processor",
            ),
            *("median_ms", "mean_ms", "runs", "sources", "mteps", "work", "edges_relaxed", "supersteps"),
            "filter_share",
        ],
        rows,
    )


def _ranged(name: str, values: list[float], ends: Sequence[float]) -> list[str]:
    if not values:
        return [name, *[NONE] * (len(ends) + 3)]
    return [
        name,
        *shares(values, ends),
        times_text(geometric_mean(values)),
        times_text(float(np.mean(values))),
    ]


def times_text(times: float | None) -> str:
    """Return how many times as fast as text."""
    return NONE if times is None else f"{times:.2f}"


def _value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
