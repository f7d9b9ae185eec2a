"""Finished: what a run is judged by once its batches are committed, and the writing of its run.json."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from sssp_pipeline.errors import InputError, RefutedError
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.outputs import recorded_output
from sssp_pipeline.pipeline.results.report import render_report
from sssp_pipeline.pipeline.results.run_files import METRICS_FILE, OVERWRITE, ParquetShape, check_files
from sssp_pipeline.pipeline.results.run_folder import (
    REPORT_FILE,
    RunFolder,
)
from sssp_pipeline.pipeline.solving.workers.interface import WorkerSource
from sssp_pipeline.pipeline.solving.workers.source import worker_source
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.pipeline.storage.lease import exclusive
from sssp_pipeline.pipeline.verification.stage import Verifying
from sssp_pipeline.progress import Progress
from sssp_pipeline.workflow.cluster import Cluster


def verify_run(
    run_url: str, store: str | None, mode: str, progress: Progress, cluster: Cluster | None = None
) -> dict[str, Any]:
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
    cluster
        Where to verify, None for the cluster of the run's workflow.

    Raises
    ------
    InputError
        The run or its graph store is not there, the store holds another graph, or the run holds too little for the
        certificate; or the cluster cannot be used.
    RefutedError
        A stored distance is not the true one; run.json says so too.
    """
    folder = RunFolder(run_url)
    record = folder.read_run()
    identity = record["identity"]
    output = recorded_output(record)
    if mode == "certificate" and not output.has_whole_rows:
        raise InputError(
            f"`{files.redacted(run_url)}` does not hold the distances to every vertex, which the certificate needs",
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
    what = f"`{files.redacted(folder.path(METRICS_FILE))}`: source"
    sources = stored.ids.vertices(metrics["source"].to_pylist(), what)
    # A row a source, batch after batch.
    batches = np.split(sources, np.searchsorted(metrics["batch"].to_numpy(), range(1, record["batches"])))
    verifying = Verifying(
        stored,
        batches,
        output,
        folder,
        identity,
        mode,
        record["workflow"]["solve"]["retries"],
        progress,
    )
    with ExitStack() as held:
        source = held.enter_context(worker_source(cluster) if cluster else _source_of(record))
        still_ours = held.enter_context(exclusive(folder.url))
        record["verify"] = asdict(verifying.verify_on(source))
        still_ours()
        finish_run(folder, record, report=files.exists(folder.path(REPORT_FILE)))
    return record


@contextmanager
def _source_of(record: dict[str, Any]) -> Iterator[WorkerSource]:
    """Give the workers of the cluster that a finished run was solved on, or those of a new one like it."""
    with ExitStack() as held:
        try:
            spec = Cluster.model_validate(record["workflow"]["cluster"])
            source = held.enter_context(worker_source(spec))
        except (InputError, ValidationError) as error:
            # As above; the cluster may also be gone, or not be reached from here.
            raise InputError(
                f"the cluster of the run cannot be used: {getattr(error, 'message', error)}",
                hint="`--cluster here` verifies with threads of this process, "
                "`--cluster tcp://host:8786` on the workers of another scheduler",
            ) from error
        yield source


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
    output = recorded_output(record)
    if output.has_files:
        wide = [name for name in sizes if name.startswith("distances/wide-")]
        shapes += [ParquetShape(name, None, 1 + n_sources) for name in wide]
        n_batches = 0 if wide else record["batches"]
        left = n_sources
        for batch in range(n_batches):
            some = min(identity["batch"], left)
            shapes.append(output.batch_shape(batch, some, record["graph"]["n_vertices"]))
            left -= some
    if sizes_too:
        shapes = [replace(shape, bytes=sizes.get(shape.name)) for shape in shapes]
    check_files(folder.url, shapes)


def finish_run(folder: RunFolder, record: dict[str, Any], *, report: bool) -> None:
    """Write the report, then run.json; raise `RefutedError` when the record says that a distance is wrong."""
    if report:
        files.write_atomic(folder.path(REPORT_FILE), render_report(record, folder.read_metrics()).encode())
    folder.finish(record)
    if record["verify"] is not None and (refuted := record["verify"]["refuted"]) is not None:
        raise RefutedError(refuted, hint=f"{OVERWRITE}; if that does not help, report a bug")
