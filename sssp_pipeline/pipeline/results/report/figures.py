"""What the report shows of the metrics and of a sample of the distances, as charts and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.results.report.charts import (
    Axis,
    Chart,
    Heading,
    Table,
    bars,
    coloured_map,
    histogram,
    line,
    number,
    stages,
)
from sssp_pipeline.pipeline.results.report.sample import SampledDistances

#: The most rows of a table of sources, workers or batches.
_MOST_ROWS = 20
#: The sources at each end of the order by closeness.
_ENDS = 10
#: The most bars of the throughput, and the fewest batches for a bar.
_MOST_SPANS, _LEAST_BATCHES = 60, 3
#: Traced sources that are shown, and the spans into which the time of each is cut.
_MOST_TRACES, _TRACE_SPANS = 4, 300


def time_charts(run: dict[str, Any], throughput: Chart | None) -> list[Chart]:
    """Return where the time went: stages, work of the threads, and what `throughput` returned."""
    stages_of_run = Heading("stages", "Time of the stages", "Wall time, of the call that finished the run.")
    shown = [stages(stages_of_run, run["timings"]), throughput]
    if sum((threads := run.get("thread_s", {})).values()):
        caption = "Seconds of all threads together: they load the graph, solve, and write."
        shown.insert(1, stages(Heading("threads", "Time of the threads that solve", caption), threads))
    return [chart for chart in shown if chart is not None]


def throughput(metrics: pa.Table, start: str) -> Chart | None:
    """Return searches a second over time; None if the run is too short, or a batch has no time.

    Here and below, `start` says what each search begins at: a "source", or a "target" in a run backward.
    """
    if not metrics.num_rows or metrics["solved_at"].null_count:
        return None
    batch, first = np.unique(metrics["batch"].to_numpy(), return_index=True)
    moments = metrics["solved_at"].cast(pa.int64()).to_numpy()
    ends = (moments - moments.min()) / 1000
    # The first batch began before it was solved.
    ends -= (ends[first] - np.add.reduceat(metrics["solve_s"].to_numpy(), first)).min()
    whole = float(ends.max())
    n_spans = min(_MOST_SPANS, len(batch) // _LEAST_BATCHES)
    if n_spans < 2 or whole <= 0:
        return None
    edges = np.linspace(0, whole, n_spans + 1)
    counts = np.bincount(np.searchsorted(edges[1:-1], ends), minlength=n_spans)
    rates = counts / (whole / n_spans)
    caption = (
        f"{metrics.num_rows:,} {start}s in {number(whole)} s: {number(metrics.num_rows / whole)} a second on "
        f"average. A {start} counts when its batch is solved. A run that was interrupted shows the pause."
    )
    rows = [
        (number(a), number(b), f"{count:,}", number(rate))
        for a, b, count, rate in zip(edges[:-1], edges[1:], counts.tolist(), rates.tolist(), strict=True)
    ]
    table = Table(("from second", "to second", f"{start}s", f"{start}s a second"), rows)
    axes = Axis("seconds since the first batch began"), Axis(f"{start}s a second")
    return bars(Heading("throughput", "Throughput over time", caption), edges, rates, *axes, table, None)


def distributions(run: dict[str, Any], metrics: pa.Table, start: str) -> list[Chart]:
    """Return how time, work, reach and distances differ from search to search."""
    unit = unit_of(run)
    columns = {name: _numbers(metrics, name) for name in ("vertices_processed", "edges_relaxed", "reached")}
    with np.errstate(divide="ignore", invalid="ignore"):
        work = columns["vertices_processed"] / columns["reached"]
    seconds, largest, mean = (_numbers(metrics, n) for n in ("solve_s", "max_distance", "mean_distance"))
    eccentricity = f"Eccentricity: the largest distance of a {start}"
    # The definition of `solve_s`, for a GPU.
    notes = {"solve-s": f"If a GPU solves several {start}s together, each has an equal share."}
    charts = (
        ("solve-s", f"Time of a {start}", seconds, Axis("seconds (solve_s)")),
        ("work", f"Work of a {start}", work, Axis("vertices processed per vertex reached")),
        ("relaxed", "Edges relaxed", columns["edges_relaxed"], Axis("edges (edges_relaxed)", whole=True)),
        ("reach", "Reach", columns["reached"], Axis("vertices reached (reached)", whole=True)),
        ("eccentricity", eccentricity, largest, Axis(f"largest distance{unit} (max_distance)")),
        ("mean-distance", f"Mean distance of a {start}", mean, Axis(f"mean distance{unit} (mean_distance)")),
    )
    found = (
        histogram(key, title, values, axis, notes.get(key, ""), f"{start}s")
        for key, title, values, axis in charts
    )
    return [chart for chart in found if chart is not None]


def unit_of(run: dict[str, Any]) -> str:
    """Return the unit of the weights in brackets, after a space; empty without one."""
    unit = run["graph"]["weights"]["unit"]
    return f" ({unit})" if unit else ""


def _numbers(metrics: pa.Table, name: str) -> np.ndarray:
    """Return a column (n,) float64, NaN for NULL."""
    return metrics[name].cast(pa.float64(), safe=False).to_numpy()


def distance_charts(run: dict[str, Any], sample: SampledDistances) -> list[Chart]:
    """Return the histogram of the distances of a sample, and the map of its first source."""
    unit = unit_of(run)
    n_sources = len(sample.sources)
    listed = ", ".join(map(str, sample.sources))
    note = (
        f"These are the distances to reached vertices from {n_sources} of {run['sources']:,} sources, "
        f"spread evenly over the run: {listed}."
    )
    axis = Axis(f"distance{unit}")
    shown = [histogram("distances", "Distances", sample.distances, axis, note, of="distances")]
    if (row := sample.placed) is not None:
        some = "every vertex" if row.step == 1 else f"one of {row.step} vertices"
        caption = (
            f"Distance from source {row.source} to {some}, {len(row.x):,} points at the coordinates of the input. "
            "The ring is the source."
        )
        if np.isnan(row.distances).any():
            caption += " Grey points are unreached."
        of_row = row.x, row.y, row.distances, row.source_point
        shown.append(coloured_map(Heading("map", "Map", caption), *of_row, f"distance{unit}"))
    return [chart for chart in shown if chart is not None]


def central_sources(run: dict[str, Any], metrics: pa.Table) -> tuple[Table, Table] | None:
    """Return the most and the least central sources, the second table empty if the first has all of them.

    None without sources, and with negative distances, which no closeness is defined for.

    Notes
    -----
    The closeness of a source that reaches n of N vertices, itself included, is (n - 1)² / ((N - 1) × the sum of its
    distances).

    References
    ----------
    Wasserman and Faust, Social Network Analysis, 1994, section 5.2.2.
    """
    if not metrics.num_rows or pc.min(metrics["mean_distance"]).as_py() < 0:
        return None
    closeness = closeness_of(metrics, run["graph"]["n_vertices"])
    if len(closeness) <= 2 * _ENDS:
        order = np.argsort(-closeness, kind="stable")
        return _central(metrics, closeness, order), _central(metrics, closeness, order[:0])
    most = _least(-closeness)
    # Of equal sources, the first are the most central and the last are the least.
    least = len(closeness) - 1 - _least(closeness[::-1])
    return _central(metrics, closeness, most), _central(metrics, closeness, least)


def _least(values: np.ndarray) -> np.ndarray:
    """Return the places of the `_ENDS` least of `values` (n,), the least first, and of equal values the first one.

    To sort all values of many sources takes as long as the rest of a report.
    """
    limit = np.partition(values, _ENDS - 1)[_ENDS - 1]
    places = np.flatnonzero(values <= limit)
    return places[np.argsort(values[places], kind="stable")[:_ENDS]]


def passed_table(name: str, table: pa.Table) -> tuple[str, Table]:
    """Return a caption and a table of the most passed vertices or edges, from `table` of the file `name`."""
    rows = [
        tuple(number(value) if isinstance(value, float) else value for value in row.values())
        for row in table.to_pylist()
    ]
    header = tuple(column.replace("_", " ") for column in table.column_names)
    return f"The largest values of {name}", Table(header, rows)


def closeness_of(metrics: pa.Table, n_vertices: int) -> np.ndarray:
    """Return the closeness of each source (n,) float64; 0 for a source that reaches only itself."""
    reached, mean = _numbers(metrics, "reached"), _numbers(metrics, "mean_distance")
    with np.errstate(divide="ignore", invalid="ignore"):
        closeness = (reached - 1) ** 2 / (max(n_vertices - 1, 1) * (reached * mean))
    return np.where(reached <= 1, 0.0, closeness)


def _central(metrics: pa.Table, closeness: np.ndarray, order: np.ndarray) -> Table:
    names = ("reached", "mean_distance", "max_distance")
    ranked = metrics.select(["source", *names]).take(pa.array(order)).to_pylist()
    rows = [
        (row["source"], number(value), *(number(row[name]) for name in names))
        for row, value in zip(ranked, closeness[order].tolist(), strict=True)
    ]
    return Table(("source", "closeness", "reached", "mean distance", "largest distance"), rows)


def unreached_pairs(run: dict[str, Any], metrics: pa.Table) -> tuple[int, int]:
    """Return how many pairs of a source and a vertex have no distance, and how many pairs there are."""
    n_pairs = metrics.num_rows * run["graph"]["n_vertices"]
    return n_pairs - int(metrics["reached"].to_numpy().sum()), n_pairs


def workers_table(metrics: pa.Table, start: str) -> Table:
    """Return what ran on what: a row for each worker, device and solver, those with the most time first."""
    groups = metrics.group_by(["worker", "device", "solver"]).aggregate(
        [("batch", "count_distinct"), ("source", "count"), ("solve_s", "sum")]
    )
    rows = groups.sort_by([("solve_s_sum", "descending")]).to_pylist()
    sums = ("batch_count_distinct", "source_count", "solve_s_sum")
    shown = [
        (row["worker"], row["device"], row["solver"], *(number(row[key]) for key in sums))
        for row in rows[:_MOST_ROWS]
    ]
    if rest := rows[_MOST_ROWS:]:
        totals = (number(sum(row[key] for row in rest)) for key in sums)
        shown.append((f"{len(rest):,} more", "", "", *totals))
    return Table(("worker", "device", "solver", "batches", f"{start}s", "solve_s"), shown)


def attempts_tables(metrics: pa.Table) -> tuple[Table, Table]:
    """Return how many batches took how many attempts, and the batches with the most attempts if any took several."""
    batches = metrics.group_by(["batch", "worker"]).aggregate([("attempts", "max")])
    attempts = batches["attempts_max"].to_numpy()
    counts = zip(*np.unique(attempts, return_counts=True), strict=True)
    again = batches.filter(pc.greater(batches["attempts_max"], 1))
    again = again.sort_by([("attempts_max", "descending"), ("batch", "ascending")]).slice(0, _MOST_ROWS)
    columns = ("batch", "attempts", "worker of the last attempt")
    rows = [(row["batch"], row["attempts_max"], row["worker"]) for row in again.to_pylist()]
    numbers = [(f"{n}", f"{count:,}") for n, count in counts]
    return Table(("attempts", "batches"), numbers), Table(columns, rows)


def trace_charts(run: dict[str, Any], metrics: pa.Table, start: str) -> list[Chart]:
    """Return parallelism, waiting work and delta over time of the first traced searches."""
    traced = metrics.filter(pc.greater(pc.list_value_length(metrics["trace"]), 1)).slice(0, _MOST_TRACES)
    shown = []
    for i in range(traced.num_rows):
        moments = traced["trace"][i].values.flatten()
        names = [field.name for field in traced.schema.field("trace").type.value_type]
        columns = dict(zip(names, (moment.to_numpy(zero_copy_only=False) for moment in moments), strict=True))
        for name, what, label in (
            ("busy_workers", "Parallelism", "warps that have work"),
            ("words_queued", "Waiting work", "words in the queue"),
            ("delta", "Delta", f"delta{unit_of(run)}"),
        ):
            title = f"{what} over time, {start} {traced['source'][i].as_py()}"
            shown.append(_trace_line(f"trace-{i}-{name}", title, columns["time_us"], columns[name], label))
    return [chart for chart in shown if chart is not None]


def _trace_line(key: str, title: str, time_us: np.ndarray, values: np.ndarray, label: str) -> Chart | None:
    """Return `values` (n,) over time; of many moments, the largest in each span."""
    step = -(-len(values) // _TRACE_SPANS)
    first = np.arange(0, len(values), step)
    largest = np.maximum.reduceat(values.astype(np.float64), first)
    at = time_us[first]
    if at[-1] < time_us[-1]:
        at, largest = np.append(at, time_us[-1]), np.append(largest, values[-1])
    if at[-1] <= at[0] or not np.isfinite(largest).all():
        return None
    each = "" if step == 1 else f" Each step is the largest of {step} moments."
    caption = (
        f"{number(values.min())} to {number(values.max())}, mean of the moments {number(values.mean())}, "
        f"{len(values):,} moments in {number(time_us[-1])} µs.{each}"
    )
    places = np.unique(np.linspace(0, len(at) - 1, _MOST_ROWS).astype(int))
    rows = [(number(at[place]), number(largest[place])) for place in places]
    table = Table(("time in µs", label), rows)
    axes = Axis("µs since the search began"), Axis(label)
    return line(Heading(key, title, caption), at, largest, *axes, table)
