"""Numbers over all sources of a run, made of what is stored of each source.

They are extremes and sums of integers, so they depend on no order: not on batches, workers or restarts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.kernels.contract.solver import metrics_column
from sssp_pipeline.pipeline.graph_store.units import LARGEST
from sssp_pipeline.pipeline.results.distance_files import opened
from sssp_pipeline.pipeline.results.outputs import RowOutput
from sssp_pipeline.pipeline.results.run_folder import RunFolder

#: The most buckets of a histogram in a line.
_SHOWN_BUCKETS = 12


def overall_numbers(
    folder: RunFolder, metrics: pa.Table, output: RowOutput, n_batches: int, dtype: np.dtype
) -> dict[str, Any]:
    """Return what `run.json` has under "overall", in the unit of the input.

    `diameter` is the largest distance from a source to a vertex that it reaches, `radius` the least eccentricity of a
    source; both None without sources. `histogram`, if the run has one, has a dictionary for each bucket.

    Parameters
    ----------
    metrics
        Of all sources.
    dtype
        The type of the weights.
    """
    radius, diameter = _extremes(folder, metrics, n_batches)
    found: dict[str, Any] = {"radius": radius, "diameter": diameter}
    if dtype.kind != "f" and output.form.scale is None and n_batches:
        found = {name: int(value) for name, value in found.items()}
    if buckets := output.histogram_columns:
        counts = np.zeros(len(buckets), np.int64)
        for batch in range(n_batches):
            with opened(*folder.stored_batch(batch)) as file:
                table = file.read(columns=list(buckets))
            counts += [pc.sum(table[name]).as_py() or 0 for name in buckets]
        limits = zip(buckets.values(), counts.tolist(), strict=True)
        found["histogram"] = [{"from": low, "to": high, "count": n} for (low, high), n in limits]
    return found


def overall_fault(
    folder: RunFolder, record: dict[str, Any], metrics: pa.Table, output: RowOutput, dtype: np.dtype
) -> str | None:
    """Return the sentence on the first number in `record` that is not what the files of a finished run give, or None.

    NOTE: the exact integers above 2^53 were in files that are gone when a run is finished. Such runs are not checked.
    """
    largest = pc.max(metrics["max_distance"]).as_py()
    if "overall" not in record or (largest is not None and largest > LARGEST):
        return None
    for name, true in overall_numbers(folder, metrics, output, record["batches"], dtype).items():
        stored = record["overall"].get(name)
        if stored != true:
            return f"`run.json`: stored {name} {stored}, true {name} {true}"
    return None


def overall_facts(overall: dict[str, Any], unit: str | None) -> Iterator[tuple[str, str]]:
    """Yield names and texts of what `overall_numbers` returned, or of {}; `unit` is the unit of the weights."""
    for name in ("diameter", "radius"):
        if overall.get(name) is not None:
            yield name, f"{overall[name]:,}{f' {unit}' if unit else ''}"
    if buckets := overall.get("histogram"):
        shown = [f"{b['from']} to {b['to']}: {b['count']:,}" for b in buckets[:_SHOWN_BUCKETS]]
        yield "pairs by distance", ", ".join(shown) + (", …" if len(buckets) > _SHOWN_BUCKETS else "")


def _extremes(folder: RunFolder, metrics: pa.Table, n_batches: int) -> tuple[Any, Any]:
    """Return the least and the largest eccentricity."""
    found = pc.min_max(metrics["max_distance"]).as_py()
    if found["max"] is None or found["max"] <= LARGEST:
        return found["min"], found["max"]
    # The metrics have float64, which may have rounded larger integers. The metrics of the batches are exact.
    each = [metrics_column(folder.batch_metrics(b).metrics, "max_distance") for b in range(n_batches)]
    return min(min(of_batch) for of_batch in each), max(max(of_batch) for of_batch in each)
