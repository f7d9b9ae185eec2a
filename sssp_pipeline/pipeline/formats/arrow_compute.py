"""Arrow's functions on arrays, as `pc`: they take long to import, and many files need none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sssp_pipeline.base.lazy import LazyModule

if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = LazyModule("pyarrow.compute")

__all__ = ["pc"]
