"""The keys of `graph` that only lines have."""

from __future__ import annotations

from sssp_pipeline.workflow.section import OwnKeys, Text


class LinesKeys(OwnKeys):
    """The keys of `graph` that only lines have."""

    layer: Text = "auto"
    """Layer of a GeoPackage. `auto` works if exactly one layer holds lines."""
