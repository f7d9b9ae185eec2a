"""Arrow's functions on arrays, as `pc`: they take long to import, and many files need none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.lazy import LazyModule

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = LazyModule("pyarrow.compute")

__all__ = ["pc", "true_rows"]


def true_rows(flags: pa.Array) -> list[int]:
    """Return the indices at which `flags` (n,) is true."""
    return np.flatnonzero(flags.to_numpy(zero_copy_only=False)).tolist()
