"""Inspect: what a graph store or a run folder holds, or how an edge list would be read, without reading it whole."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.results.run_folder import RunFolder
from sssp_pipeline.pipeline.storage import files as storage
from sssp_pipeline.pipeline.storage.lease import is_held

if TYPE_CHECKING:
    from sssp_pipeline.workflow.models import Graph


def describe_input(spec: Graph) -> dict[str, Any]:
    """Return how the input that `spec` names would be read; only the beginnings of its files are read for that.

    Raises
    ------
    InputError
        It cannot be read, or can be read in two ways.
    """
    from sssp_pipeline.pipeline.ingest.input import preview

    reading, files = preview(spec)
    return {
        "kind": "edge list",
        "files": ", ".join(str(file["url"]) for file in files),
        "bytes": sum(file.get("size") or 0 for file in files),
        **reading.facts(),
    }


def describe(url: str) -> dict[str, Any]:
    """Return the facts of the graph store or the run at `url`.

    Raises
    ------
    InputError
        There is neither, or it is damaged.
    """
    if storage.exists(storage.join(url, "manifest.json")):
        from sssp_pipeline.pipeline.graph_store.store import older_versions, read_manifest

        manifest = read_manifest(url)
        older = older_versions(url, manifest).values()
        parts = {"row_offsets", "edges", "vertices"}
        return {
            "kind": "graph store",
            **manifest.model_dump(exclude={*parts, "format", "version", "options", "inputs", "reading"}),
            "read": manifest.reading.facts() if manifest.reading is not None else None,
            "inputs": ", ".join(str(given["url"]) for given in manifest.inputs),
            "files": len(manifest.parts),
            "bytes": sum(part.bytes for part in manifest.parts),
            "older_versions": len(older),
            "older_versions_bytes": sum(part.bytes for version in older for part in version.parts),
        }
    folder = RunFolder(url)
    if folder.is_unfinished():
        try:
            return {"kind": "unfinished run", **_standing(folder)}
        except InputError:
            if folder.is_unfinished():  # it has not come to its end meanwhile
                raise
    if not folder.is_begun():
        raise InputError(
            f"`{storage.redacted(url)}` is neither a graph store nor a run, and no file",
            hint="name the folder of one, or an edge list",
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
    facts: dict[str, Any] = {"kind": "run", **{key: record.get(key) for key in shown}}
    if (read := facts["graph"].pop("reading", None)) is not None:  # runs of release 0.1.0 have none
        from sssp_pipeline.pipeline.formats.reading import Reading

        facts["graph"]["read"] = Reading.of_json(read).facts()
    return facts


def _standing(folder: RunFolder) -> dict[str, Any]:
    """Return what is done of an unfinished run, what is left, and how long that will take, with one listing.

    What takes a number of batches or a time is None until the first batch is given out.
    """
    held = is_held(folder.url)
    commits, noted = folder.commits(), folder.noted()
    now = datetime.now(UTC)
    last = max((when for when in commits.values() if when is not None), default=None)
    batches, sources = noted.get("batches"), noted.get("sources")
    left = sources_left = rate = None
    if batches is not None and sources is not None:
        left = batches - len(commits)
        size = noted["batch"]
        # All batches have so many sources but the last, which has the rest.
        sources_left = sources - sum(min(size, sources - size * number) for number in commits)
        # A driver that hangs is slow, one that is dead was as fast as it was.
        until = now if held else last
        seconds = (until - datetime.fromisoformat(noted["began"])).total_seconds() if until else 0.0
        fresh = len(commits) - noted["batches_before"]
        rate = fresh / seconds if fresh > 0 and seconds > 0 else None
    return {
        "name": noted.get("name"),
        "driver": _DRIVER[held],
        "driver_process": noted.get("driver"),
        "scheduler": noted.get("scheduler") if held is not False else None,
        "dashboard": noted.get("dashboard") if held is not False else None,
        "solver": noted.get("solver"),
        "batches": batches,
        "batches_committed": len(commits),
        "batches_left": left,
        "sources": sources,
        "sources_left": sources_left,
        "began": noted.get("began"),
        "batches_before": noted.get("batches_before"),
        "batches_per_s": rate,
        "last_commit": last.isoformat(timespec="milliseconds") if last else None,
        "last_commit_s_ago": (now - last).total_seconds() if last else None,
        "left_s": left / rate if left is not None and rate is not None else None,
        "next": _next_step(held, left),
    }


_DRIVER = {True: "alive", False: "none", None: "not known"}


def _next_step(held: bool | None, left: int | None) -> str:
    """Return what to do about an unfinished run."""
    if held:
        return "nothing: it goes on" if left != 0 else "nothing: metrics, verify and report remain"
    again = "the same `sssp-pipeline run` command goes on where it stopped"
    return again if held is False else f"if it has stopped, {again}"
