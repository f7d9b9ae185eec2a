"""Finished: what a run is judged by once its batches are committed, and the writing of its run.json."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np

from sssp_pipeline.errors import InputError, RefutedError
from sssp_pipeline.pipeline import storage
from sssp_pipeline.pipeline.distance_files import DistanceFormat, read_targets
from sssp_pipeline.pipeline.graph_store import read_manifest
from sssp_pipeline.pipeline.lease import exclusive
from sssp_pipeline.pipeline.progress import Progress, plural
from sssp_pipeline.pipeline.report import render_report
from sssp_pipeline.pipeline.results import METRICS_FILE, NO_DISTANCES, REPORT_FILE, RunFolder, judged
from sssp_pipeline.pipeline.run_files import OVERWRITE, ParquetShape, check_files
from sssp_pipeline.pipeline.stored_graph import StoredGraph
from sssp_pipeline.pipeline.units import scaled_limit
from sssp_pipeline.pipeline.verify import verify_distances, verify_metrics


def verify_run(run_url: str, store: str | None, mode: str, progress: Progress) -> dict[str, Any]:
    """Return the content of a finished run's run.json after verifying its distances anew.

    Parameters
    ----------
    run_url
        The run folder.
    store
        URL of the graph store, None for the one the run used.
    mode
        "sample" or "certificate".
    progress
        Told of every stage.

    Raises
    ------
    InputError
        The run or its graph store is not there, the store holds another graph, or the run holds too little for the
        certificate.
    RefutedError
        A stored distance is not the true one; run.json says so too.
    """
    folder = RunFolder(run_url)
    record = folder.read_run()
    identity = record["identity"]
    if mode == "certificate" and record["identity"].get("targets") is not None:
        raise InputError(
            f"`{storage.redacted(run_url)}` does not hold the distances to every vertex, which the certificate needs",
            hint="leave out --certificate: the sample can be verified",
        )
    store = store or record["workflow"]["graph"]["store"]
    try:
        stored = StoredGraph(store, read_manifest(store, identity["graph"]))
    except InputError as error:
        # run.json holds neither secrets nor what came from the environment, so the URL may be incomplete there.
        raise InputError(error.message, hint="name the run's graph store with --store") from error
    # Whether a file was written anew since, and has another size, is not asked here: its distances are judged.
    check_undamaged(folder, record, sizes_too=False)
    metrics = folder.read_metrics()
    what = f"`{storage.redacted(folder.path(METRICS_FILE))}`: source"
    sources = stored.ids.vertices(metrics["source"].to_pylist(), what)
    # A row a source, batch after batch.
    batches = np.split(sources, np.searchsorted(metrics["batch"].to_numpy(), range(1, record["batches"])))
    targets = _stored_targets(stored, batches, folder, identity)
    with exclusive(folder.url) as still_ours:
        record["verify"] = verify_stage(stored, batches, targets, folder, identity, mode, progress)
        still_ours()
        finish_run(folder, record, report=storage.exists(folder.path(REPORT_FILE)))
    return record


def verify_stage(
    stored: StoredGraph,
    batches: list[np.ndarray],
    targets: np.ndarray | None,
    folder: RunFolder,
    identity: dict[str, Any],
    mode: str,
    progress: Progress,
) -> dict[str, Any]:
    """Return the verdict on the distances in storage, or on the metrics alone, as it stands in run.json."""
    progress.stage("verify")
    form = _form_of(identity)
    graph, cutoff = stored.graph(), scaled_limit(identity["cutoff"], form.scale)
    if targets is not None and len(targets) == 0:
        metrics = folder.read_metrics()
        verdict = verify_metrics(graph, stored.ids, metrics, cutoff, form.scale, progress)
    else:
        verdict = verify_distances(graph, stored.ids, folder, batches, form, cutoff, mode, progress, targets)
    if verdict.refuted is None:
        checked = plural(verdict.checked_sources, "source")
        what = judged(None if targets is None else len(targets))
        progress.say(
            f"verified {checked} ({mode}): every {what} is exact",
            "verified",
            checked_sources=verdict.checked_sources,
        )
    return asdict(verdict)


def digest_of(*vertices: np.ndarray) -> str:
    """Return what tells these vertices, each (n,), one list after the other, from any others."""
    digest = hashlib.sha256()
    for some in vertices:
        digest.update(some.astype("<u4").tobytes())
    return digest.hexdigest()[:16]


def identity_of(targets: np.ndarray | None) -> str | None:
    """Return what stands for `targets` in a run's identity: a digest, None for every vertex."""
    if targets is None:
        return None
    return digest_of(targets) if len(targets) else NO_DISTANCES


def _stored_targets(
    stored: StoredGraph, batches: list[np.ndarray], folder: RunFolder, identity: dict[str, Any]
) -> np.ndarray | None:
    """Return the targets of a finished run, as its first batch has them and its identity confirms them."""
    wanted = identity.get("targets")
    if wanted is None:
        return None
    if wanted == NO_DISTANCES:
        return np.empty(0, np.uint32)
    urls, form = folder.wide_paths() or [folder.batch_path(0)], _form_of(identity)
    targets = np.concatenate([read_targets(url, stored.ids, len(batches[0]), form) for url in urls])
    if digest_of(targets) != wanted:
        raise InputError(
            f"`{storage.redacted(urls[0])}` is damaged: it has not the targets that the run was asked for",
            hint=OVERWRITE,
        )
    return targets


def _form_of(identity: dict[str, Any]) -> DistanceFormat:
    return DistanceFormat(**{f.name: identity[f.name] for f in fields(DistanceFormat) if f.name in identity})


def check_undamaged(folder: RunFolder, record: dict[str, Any], *, sizes_too: bool = True) -> None:
    """Raise `InputError` unless the files of a finished run are there and whole; what is in them, `verify` tells.

    Parameters
    ----------
    folder, record
        The run and the content of its run.json.
    sizes_too
        Whether they must have the sizes that run.json says.
    """
    sizes = record.get("files", {})  # release 0.1.0 did not write them down
    n_sources, identity = record["sources"], record["identity"]
    shapes = [ParquetShape(METRICS_FILE, n_sources)]
    if identity.get("targets") != NO_DISTANCES:
        targets = record.get("targets")
        n_targets = record["graph"]["n_vertices"] if targets is None else targets
        wide = [name for name in sizes if name.startswith("distances/wide-")]
        shapes += [ParquetShape(name, None, 1 + n_sources) for name in wide]
        n_batches = 0 if wide else record["batches"]
        left = n_sources
        for batch in range(n_batches):
            some = min(identity["batch"], left)
            shapes.append(batch_shape(batch, some, n_targets, identity["layout"]))
            left -= some
    if sizes_too:
        shapes = [replace(shape, bytes=sizes.get(shape.name)) for shape in shapes]
    check_files(folder.url, shapes)


def batch_shape(batch: int, n_sources: int, n_targets: int, layout: str) -> ParquetShape:
    """Return what the file of a batch must be."""
    name = f"distances/batch-{batch:05d}.parquet"
    if layout == "wide":
        return ParquetShape(name, n_targets, 1 + n_sources)
    return ParquetShape(name, n_sources * n_targets)


def finish_run(folder: RunFolder, record: dict[str, Any], *, report: bool) -> None:
    """Write the report, then run.json; raise `RefutedError` when the record says that a distance is wrong."""
    if report:
        storage.write_atomic(folder.path(REPORT_FILE), render_report(record, folder.read_metrics()).encode())
    folder.finish(record)
    if record["verify"] is not None and (refuted := record["verify"]["refuted"]) is not None:
        raise RefutedError(refuted, hint=f"{OVERWRITE}; if that does not help, report a bug")
