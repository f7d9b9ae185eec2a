"""How the distances of a row are distributed: histograms and quantiles, by `docs/design/0015-reductions.md`.

The functions make words of a row on the host; `distribution.cu` makes the same words on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from sssp_pipeline.kernels.gpu.common.rows.distribution_on_device import UNIT
from sssp_pipeline.kernels.host.search_graph import distance_limit, largest_distance


def limits_of(bounds: Sequence[float], dtype: np.dtype) -> np.ndarray:
    """Return the limits (B,) of `dtype` for B `bounds`: a distance is in bucket b if limits[b] <= d < limits[b + 1].

    The first bucket holds both of its bounds, every other one its upper bound only.
    """
    if not bounds:
        return np.empty(0, dtype)
    above = [distance_limit(dtype, bound) for bound in bounds]
    first = bounds[0] if dtype.kind == "f" else math.ceil(bounds[0])
    if first <= largest_distance(dtype):
        above[0] = dtype.type(first)
    return np.array(above, dtype)


def bucket_counts(finite: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return how many of the distances `finite` (n,) are in each bucket, (B - 1,) int64; (0,) without limits."""
    n_buckets = max(len(limits) - 1, 0)
    places = np.searchsorted(limits, finite, side="right")
    return np.bincount(places, minlength=n_buckets + 2)[1 : n_buckets + 1]


def numerators_of(shares: Sequence[float]) -> np.ndarray:
    """Return `shares` times `UNIT`, (Q,) uint64. A share means the decimal number that Python prints."""
    return np.array([int(Decimal(str(share)) * UNIT) for share in shares], np.uint64)


def quantiles_of(finite: np.ndarray, numerators: np.ndarray) -> np.ndarray:
    """Return for each share the smallest of the distances `finite` (n,) that so large a share does not exceed, (Q,)."""
    ranks = np.array([max(1, -(-n * len(finite) // UNIT)) for n in numerators.tolist()], np.int64)
    return np.partition(finite, np.unique(ranks) - 1)[ranks - 1] if len(ranks) else finite[:0]
