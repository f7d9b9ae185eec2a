"""Reductions of rows on the device: `reduction_on_device` has a function for each `KeptOfRow`."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.kernels.answers import distribution
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow, Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources, low_exponent
from sssp_pipeline.kernels.gpu.common.rows.distribution_on_device import DistributionOnDevice
from sssp_pipeline.kernels.gpu.common.rows.gather import Gather
from sssp_pipeline.kernels.gpu.common.rows.nearest_on_device import NearestOnDevice
from sssp_pipeline.kernels.gpu.common.rows.over_sources_on_device import (
    OverSourcesOnDevice,
    over_sources_unit,
)
from sssp_pipeline.kernels.gpu.common.rows.reduce import ReduceOnDevice, StagedAmounts

#: Enqueues the reduction of rows (n, V) on the device, and returns the device array (n, columns) that will hold it. Its
#: second argument is the device memory with the `Summary` (`summary.cuh`) of each row.
DeviceReduction = Callable[[Any, Any], Any]

#: The amounts of reductions in pinned memory, which all calls with a reduction share.
_amounts: WeakKeyDictionary[Reductions, StagedAmounts] = WeakKeyDictionary()


@singledispatch
def reduction_on_device(
    kept: KeptOfRow, n_rows: int, n_vertices: int, weight_dtype: np.dtype, lane_bits: int = 0
) -> DeviceReduction:
    """Return the reduction of up to `n_rows` rows at a time; it owns the device memory of its result.

    If `kept.takes_lanes`, the rows may be `LaneRows` with words of `lane_bits`; 0 means rows by source.
    """
    raise TypeError(f"{type(kept).__name__} has no device form: register one with `reduction_on_device`")


@reduction_on_device.register
def _(kept: EveryVertex, *_: Any) -> DeviceReduction:
    return lambda rows, _: rows


@reduction_on_device.register
def _(kept: Nothing, *_: Any) -> DeviceReduction:
    return lambda rows, _: rows[:, :0]


@reduction_on_device.register
def _(kept: Targets, n_rows: int, n_vertices: int, weight_dtype: np.dtype, *_: Any) -> DeviceReduction:
    return Gather(kept.vertices, n_rows, weight_dtype)


@reduction_on_device.register
def _(kept: NearestOfRow, n_rows: int, n_vertices: int, weight_dtype: np.dtype, *_: Any) -> DeviceReduction:
    return NearestOnDevice(kept.k, kept.targets, n_rows, weight_dtype)


@reduction_on_device.register
def _(
    kept: Reductions, n_rows: int, n_vertices: int, weight_dtype: np.dtype, lane_bits: int = 0
) -> DeviceReduction:
    if kept not in _amounts:
        values = np.empty((0, n_vertices), np.int64) if kept.amounts is None else kept.amounts
        _amounts[kept] = StagedAmounts(values)
    limits, n_words = kept.limits(weight_dtype), kept.n_columns(n_vertices)
    reduce = ReduceOnDevice(
        limits, _amounts[kept], n_rows, n_words, harmonic=kept.harmonic, lane_bits=lane_bits
    )
    if not kept.bounds and not kept.shares:
        return reduce
    bounds = distribution.limits_of(kept.bounds, weight_dtype)
    distribute = DistributionOnDevice(bounds, distribution.numerators_of(kept.shares), lane_bits)

    def reduce_all(rows: Any, summaries: Any) -> Any:
        words = reduce(rows, summaries)
        distribute(rows, summaries, words, kept.n_sums)
        return words

    return reduce_all


def over_sources_on_device(
    over: OverSources, traits: GraphTraits, sources: np.ndarray, lane_bits: int = 0
) -> OverSourcesOnDevice:
    """Return what accumulates the rows of `sources` (S,) uint32 on the device.

    The rows are by place in words of `lane_bits` (`LaneRows`), or else by source.
    """
    dtype = traits.weight_dtype
    unit = over_sources_unit(len(over.radii), over.n_limbs(dtype), nearest=over.nearest, lane_bits=lane_bits)
    shape = over.n_words(dtype), traits.n_vertices
    return OverSourcesOnDevice(unit, shape, over.limits(dtype), low_exponent(traits), sources)
