"""What GeoParquet says about its geometry: which column it is, and its reference system."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: What GeoParquet calls WGS 84.
_WGS_84 = {("OGC", "CRS84"), ("EPSG", "4326")}


def primary_geometry(metadata: Mapping[bytes, bytes] | None) -> tuple[str, dict[str, Any]] | None:
    """Return the name of the primary geometry in the metadata of a schema, and what is said about it.

    It is None for a table that is not GeoParquet.

    Raises
    ------
    ValueError
        The description is damaged.
    """
    described = (metadata or {}).get(b"geo")
    if described is None:
        return None
    try:
        facts = json.loads(described)
        name = facts["primary_column"]
        about = facts["columns"][name]
    except (LookupError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(name, str) or not isinstance(about, dict):
        raise ValueError("the description has another form")
    return name, about


def other_crs(about: Mapping[str, Any]) -> str | None:
    """Return the name of the reference system of a geometry; None if it is WGS 84, the default of GeoParquet."""
    if "crs" not in about:
        return None
    crs = about["crs"]
    given = crs.get("id") if isinstance(crs, dict) else None
    if isinstance(given, dict):
        authority, code = (str(given.get(key))[:60] for key in ("authority", "code"))
        return None if (authority, code) in _WGS_84 else f"{authority}:{code}"
    if crs is None:
        return "not known"
    name = str(crs.get("name") if isinstance(crs, dict) else crs)
    return f"`{name[:60]}{'…' if len(name) > 60 else ''}`"
