"""Distances as the kernels store them: as unsigned integers of their bits."""

from __future__ import annotations

import math

import numpy as np

from sssp_pipeline.base.csr import distance_limit, unreached_distance
from sssp_pipeline.kernels.host.search_graph import bits_of_distances


def bits_type(dtype: np.dtype) -> np.dtype:
    """Return the unsigned type in which the kernels keep distances of `dtype`."""
    return np.dtype(f"u{dtype.itemsize}")


def limit_bits(dtype: np.dtype, cutoff: float | None) -> np.generic:
    """Return the bits of `distance_limit` as a kernel's argument."""
    return distance_limit(dtype, cutoff).view(bits_type(dtype))


def search_limit(dtype: np.dtype, cutoff: float | None, signed: bool) -> np.generic:
    """Return the bits of the limit of a search as a kernel's argument.

    With negative weights (`signed`) the limit is "unreached", since a path may leave the cutoff and come back.
    """
    if not signed:
        return limit_bits(dtype, cutoff)
    bits: np.generic = bits_of_distances(np.array([unreached_distance(dtype)]))[0]
    return bits


def delta_bits(dtype: np.dtype, delta: float) -> tuple[np.generic, float]:
    """Return the bits of `delta` rounded to the weights' type, and the rounded delta. It is never rounded to zero."""
    if dtype.kind == "f":
        info = np.finfo(dtype)
        value = dtype.type(min(max(delta, float(info.tiny)), float(info.max)))
        return value.view(bits_type(dtype)), float(value)
    whole = min(max(round(delta), 1) if math.isfinite(delta) else 1, int(unreached_distance(dtype)) - 1)
    return bits_type(dtype).type(whole), float(whole)
