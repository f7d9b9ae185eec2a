"""How distances are arranged in files: a class for each layout."""

from __future__ import annotations

from sssp_pipeline.pipeline.results.layouts.layout import DistanceLayout
from sssp_pipeline.pipeline.results.layouts.long import LongLayout
from sssp_pipeline.pipeline.results.layouts.wide import WideLayout

#: The layout for each value of `output.layout`. `ReachedLayout` belongs to one output.
LAYOUTS: dict[str, type[DistanceLayout]] = {"long": LongLayout, "wide": WideLayout}
