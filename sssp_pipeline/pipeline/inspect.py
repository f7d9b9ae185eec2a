"""Inspect: what a graph store or a run folder holds, told without reading its large parts."""

from __future__ import annotations

from typing import Any

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.graph_store import MANIFEST, read_manifest
from sssp_pipeline.pipeline.results import RunFolder


def describe(url: str) -> dict[str, Any]:
    """Return the facts of the graph store or the run at `url`.

    Raises
    ------
    InputError
        There is neither, or it is damaged.
    """
    if storage.exists(storage.join(url, MANIFEST)):
        manifest = read_manifest(url)
        parts = {"row_offsets": manifest.row_offsets, "edges": manifest.edges, "vertices": manifest.vertices}
        return {
            "kind": "graph store",
            **manifest.model_dump(exclude={*parts, "format", "version", "options", "inputs"}),
            "inputs": ", ".join(str(given["url"]) for given in manifest.inputs),
            "files": sum(len(p) for p in parts.values()),
            "bytes": sum(part.bytes for p in parts.values() for part in p),
        }
    folder = RunFolder(url)
    if (progress := folder.unfinished()) is not None:
        return {"kind": "unfinished run", **progress}
    if not folder.is_begun():
        raise InputError(
            f"`{storage.redacted(url)}` is neither a graph store nor a run", hint="name the folder of one"
        )
    record = folder.read_run()
    shown = (
        "name",
        "solver",
        "solver_reason",
        "sources",
        "targets",
        "batches",
        "graph",
        "verify",
        "timings",
        "hardware",
        "finished",
    )
    return {"kind": "run", **{key: record.get(key) for key in shown}}
