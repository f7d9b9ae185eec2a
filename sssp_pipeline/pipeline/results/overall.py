"""Numbers over all sources of a run, made of what is stored of each source.

They are extremes and sums of integers, so they depend on no order: not on batches, workers or restarts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.kernels.contract.solver import metrics_column
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.graph_store.units import LARGEST
from sssp_pipeline.pipeline.results.folder.distance_files import opened
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs.outputs import RowOutput

#: The most buckets of a histogram in a line.
_SHOWN_BUCKETS = 12
#: What sums of columns are called.
_SUMMED = {
    "trips": "trips",
    "amount": "amount",
    "unreached_trips": "trips without a path",
    "unreached_amount": "amount without a path",
}


def overall_numbers(
    folder: RunFolder,
    metrics: pa.Table,
    output: RowOutput,
    batches: Sequence[np.ndarray],
    traits: GraphTraits,
) -> dict[str, Any]:
    """Return what `run.json` has under "overall", in the unit of the input.

    `largest_distance` is from a source to a vertex that it reaches; None without sources. `diameter` and `radius`, the
    largest and the least eccentricity, are there only if every vertex is a source and reaches every vertex.
    `histogram`, if the run has one, has a dictionary for each bucket.

    Parameters
    ----------
    metrics
        Of all sources.
    batches
        The sources of each batch, as vertex numbers.
    traits
        Of the graph.
    """
    if not output.counts_sources:
        return _sums(folder, output.summed_columns, len(batches))
    least, largest = _extremes(folder, metrics, len(batches))
    found: dict[str, Any] = {"largest_distance": largest}
    if batches and _is_all_pairs(metrics, batches, traits.n_vertices):
        found |= {"diameter": largest, "radius": least}
    if traits.weight_dtype.kind != "f" and output.form.scale is None and batches:
        found = {name: int(value) for name, value in found.items()}
    if buckets := output.histogram_columns:
        counts = np.zeros(len(buckets), np.int64)
        for batch in range(len(batches)):
            with opened(*folder.stored_batch(batch)) as file:
                table = file.read(columns=list(buckets))
            counts += [pc.sum(table[name]).as_py() or 0 for name in buckets]
        limits = zip(buckets.values(), counts.tolist(), strict=True)
        found["histogram"] = [{"from": low, "to": high, "count": n} for (low, high), n in limits]
    return found


def overall_fault(
    folder: RunFolder,
    record: dict[str, Any],
    metrics: pa.Table,
    output: RowOutput,
    batches: Sequence[np.ndarray],
    traits: GraphTraits,
) -> str | None:
    """Return the sentence on the first number in `record` that is not what the files of a finished run give, or None.

    NOTE: the exact integers above 2^53 were in files that are gone when a run is finished. Such runs are not checked.
    Nor are runs of earlier versions, whose `diameter` and `radius` were over any sources.
    """
    largest = pc.max(metrics["max_distance"]).as_py()
    stored = record.get("overall", {})
    has_distances = output.counts_sources
    if has_distances and ("largest_distance" not in stored or (largest is not None and largest > LARGEST)):
        return None
    true = overall_numbers(folder, metrics, output, batches, traits)
    for name in {**true, **stored}:
        if name not in true or stored.get(name) != true[name]:
            return f"`run.json`: stored {name} {stored.get(name)}, true {name} {true.get(name)}"
    return None


def overall_facts(overall: dict[str, Any], unit: str | None) -> Iterator[tuple[str, str]]:
    """Yield names and texts of what `overall_numbers` returned, or of {}; `unit` is the unit of the weights."""
    names = {"diameter": "diameter", "radius": "radius"}
    if "diameter" not in overall:
        names = {"largest_distance": "largest distance from these sources"}
    for name, text in names.items():
        if overall.get(name) is not None:
            yield text, f"{overall[name]:,}{f' {unit}' if unit else ''}"
    for name, text in _SUMMED.items():
        if name in overall:
            yield text, f"{overall[name]:,}"
    if buckets := overall.get("histogram"):
        shown = [f"{b['from']} to {b['to']}: {b['count']:,}" for b in buckets[:_SHOWN_BUCKETS]]
        yield "pairs by distance", ", ".join(shown) + (", …" if len(buckets) > _SHOWN_BUCKETS else "")


def _sums(folder: RunFolder, columns: Sequence[str], n_batches: int) -> dict[str, Any]:
    """Return the sum of each of `columns` over all sources: an integer, or a float64 that is rounded once."""
    if not columns:
        return {}
    tables = []
    for batch in range(n_batches):
        with opened(*folder.stored_batch(batch)) as file:
            tables.append(file.read(columns=list(columns), use_threads=False))
    of_run = pa.concat_tables(tables)
    return {
        name: math.fsum(column.to_numpy()) if pa.types.is_floating(column.type) else pc.sum(column).as_py()
        for name, column in zip(of_run.column_names, of_run.columns, strict=True)
    }


def _is_all_pairs(metrics: pa.Table, batches: Sequence[np.ndarray], n_vertices: int) -> bool:
    """Return whether every vertex is a source and reaches every vertex. Several points may be at one vertex."""
    if metrics.num_rows < n_vertices or pc.min(metrics["reached"]).as_py() < n_vertices:
        return False
    is_source = np.zeros(n_vertices, bool)
    is_source[np.concatenate(batches)] = True
    return bool(is_source.all())


def _extremes(folder: RunFolder, metrics: pa.Table, n_batches: int) -> tuple[Any, Any]:
    """Return the least and the largest eccentricity."""
    found = pc.min_max(metrics["max_distance"]).as_py()
    if found["max"] is None or found["max"] <= LARGEST:
        return found["min"], found["max"]
    # The metrics have float64, which may have rounded larger integers. The metrics of the batches are exact.
    each = [metrics_column(folder.batch_metrics(b).metrics, "max_distance") for b in range(n_batches)]
    return min(min(of_batch) for of_batch in each), max(max(of_batch) for of_batch in each)
