"""The facts of a graph store, a run folder or an edge list, without reading all of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.storage import files as storage
from sssp_pipeline.storage.lease import is_held
from sssp_pipeline.workflow.weights import naming_weight

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.graph_store.manifest import Manifest
    from sssp_pipeline.workflow.graph import Graph


def describe(url: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the facts of the graph store, the run or the edge list at `url`.

    Parameters
    ----------
    url
        A folder or a file.
    overrides
        `key=value` each: how to read an edge list.

    Raises
    ------
    InputError
        There is nothing at `url`, it is damaged, or an edge list can be read in two ways; or there are `overrides` and
        no edge list.
    """
    if storage.is_file(url):
        from sssp_pipeline.workflow.from_command_line import workflow_from_options

        if other := next(
            (o for o in overrides if o.partition("=")[0].split(".")[0] in ("sources", "output")), None
        ):
            raise InputError(
                f"`--set {other.partition('=')[0]}` does not say how an edge list is read",
                hint="leave it out",
            )
        return _input_facts(workflow_from_options([url], ["0"], (), "unused", overrides).graph)
    if overrides:
        raise InputError(
            f"`--set` says how an edge list is read, and `{storage.redacted(url)}` is a folder or missing",
            hint="leave it out, or name an edge list",
        )
    if storage.exists(storage.join(url, "manifest.json")):
        return _store_facts(url)
    folder = RunFolder(url)
    if folder.is_begun():
        return _facts_of_run(folder)
    if below := folder.runs_of_weights():
        return {"kind": "runs of several weights"} | {name: _facts_of_run(run) for name, run in below.items()}
    from sssp_pipeline.pipeline.graph_store.store import INGEST_FOLDER

    if any(name.startswith(INGEST_FOLDER) for name in storage.list_names(url)):
        raise InputError(
            f"`{storage.redacted(url)}` is no graph store yet: an ingest into it runs, or was interrupted",
            hint="the same `sssp-pipeline ingest WORKFLOW` goes on with it",
        )
    raise InputError(
        f"`{storage.redacted(url)}` is neither a graph store nor a run, and no file",
        hint="name the folder of one, or an edge list",
    )


def _facts_of_run(folder: RunFolder) -> dict[str, Any]:
    """Return the facts of a run, finished or not."""
    if folder.is_unfinished():
        try:
            return {"kind": "unfinished run", **_progress_facts(folder)}
        except InputError:
            if folder.is_unfinished():  # else the run has ended meanwhile
                raise
    return _run_facts(folder)


def _input_facts(spec: Graph) -> dict[str, Any]:
    """Return how the input of `spec` would be read, from the beginnings of its files."""
    from sssp_pipeline.pipeline.ingest.input import preview

    found: dict[Any, Any] = {}
    for name, graph in spec.by_weight.items():
        with naming_weight(name):
            reading, files = preview(graph)
        found[name] = {
            "files": ", ".join(str(file["url"]) for file in files),
            "bytes": sum(file.get("size") or 0 for file in files),
            **reading.facts(),
        }
    return {"kind": "edge list", **found.get(None, found)}


def _store_facts(url: str) -> dict[str, Any]:
    from sssp_pipeline.pipeline.graph_store.hierarchy_record import read_record
    from sssp_pipeline.pipeline.graph_store.store import older_versions, read_newest

    manifest = read_newest(url)
    older = older_versions(url, manifest).values()
    facts = {name: _graph_facts(graph) for name, graph in manifest.by_weight.items()}
    return {
        "kind": "graph store",
        **(facts.get(None) or _joined(facts)),
        "files": len(manifest.parts),
        "bytes": sum(part.bytes for part in manifest.parts),
        "hierarchy": read_record(url).facts(manifest.by_weight.values()),
        "older_versions": len(older),
        "older_versions_bytes": sum(part.bytes for version in older for part in version.parts),
    }


def _joined(facts: dict[str | None, dict[str, Any]]) -> dict[str, Any]:
    """Return the facts of a graph with several weights. Facts that a weight has of its own are below its name."""
    own = ("symmetric", "read", "inputs")
    weights = {
        name: of_weight["weights"] | {key: of_weight[key] for key in own} for name, of_weight in facts.items()
    }
    shared = {key: value for key, value in next(iter(facts.values())).items() if key not in own}
    return shared | {"weights": weights}


def _graph_facts(manifest: Manifest) -> dict[str, Any]:
    """Return the facts of a stored graph with one weight."""
    parts = {"row_offsets", "edges", "edge_weights", "vertices"}
    return {
        **manifest.model_dump(exclude={*parts, "format", "version", "options", "inputs", "reading"}),
        "read": manifest.reading.facts(),
        "inputs": ", ".join(str(given["url"]) for given in manifest.inputs),
    }


#: The entries of run.json that describe a finished run.
_RUN_KEYS = (
    "name",
    "solver",
    "solver_reason",
    "sources",
    "targets",
    "direction",
    "batches",
    "overall",
    "graph",
    "verify",
    "timings",
    "hardware",
    "finished",
)


def _run_facts(folder: RunFolder) -> dict[str, Any]:
    record = folder.read_run()
    facts: dict[str, Any] = {"kind": "run", **{key: record.get(key) for key in _RUN_KEYS}}
    if (read := facts["graph"].pop("reading", None)) is not None:
        from sssp_pipeline.pipeline.formats.reading import Reading

        facts["graph"]["read"] = Reading.of_json(read).facts()
    return facts


def _progress_facts(folder: RunFolder) -> dict[str, Any]:
    """Return how much of an unfinished run is done, how much is left, and how long that will take.

    Numbers of batches and times are None until the first batch is submitted. The folder is listed once.
    """
    folder.stored_identity()  # raises if another release began the run: its batches are committed in another way
    held = is_held(folder.url)
    commits, noted = folder.commits(), folder.read_start()
    now = datetime.now(UTC)
    last = max((when for when in commits.values() if when is not None), default=None)
    batches, sources = noted.get("batches"), noted.get("sources")
    left = sources_left = rate = None
    if batches is not None and sources is not None:
        left = batches - len(commits)
        size = noted["batch"]
        # Every batch has `size` sources, except that the last one has the rest.
        sources_left = sources - sum(min(size, sources - size * number) for number in commits)
        # The time of a driver that hangs counts. The time after the death of a driver does not.
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
    """Return what the user can do about an unfinished run."""
    if held:
        return "nothing: it goes on" if left != 0 else "nothing: metrics, verify and report remain"
    again = "the same `sssp-pipeline run` command goes on where it stopped"
    return again if held is False else f"if it has stopped, {again}"
