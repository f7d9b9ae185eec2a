"""The keys of `graph` that only OpenStreetMap has."""

from __future__ import annotations

from typing import Literal

from sssp_pipeline.workflow.section import OwnKeys


class OsmKeys(OwnKeys):
    """The keys of `graph` that only OpenStreetMap has."""

    profile: Literal["auto", "car", "bicycle", "foot"] = "auto"
    """Who travels on the roads of OpenStreetMap: which ways are open, in which directions, and how fast. `auto` means
    `car`. See [OpenStreetMap](../guides/openstreetmap.md)."""
