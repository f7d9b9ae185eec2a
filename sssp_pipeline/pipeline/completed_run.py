"""A run whose batches are all committed: its files are checked, its distances verified, and run.json is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from sssp_pipeline.errors import InputError, RefutedError
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.file_shapes import FileShape, check_files
from sssp_pipeline.pipeline.results.outputs import FileOutput, recorded_output
from sssp_pipeline.pipeline.results.overall import overall_fault
from sssp_pipeline.pipeline.results.report.page import render_report
from sssp_pipeline.pipeline.results.report.sample import read_sample
from sssp_pipeline.pipeline.results.run_files import (
    METRICS_FILE,
    OVERWRITE,
    REPORT_FILE,
    SNAPPED_FILE,
    VERTICES_FILE,
    batch_file,
)
from sssp_pipeline.pipeline.results.run_folder import RunFolder
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
        Gets each stage.
    cluster
        The workers that verify; None for the cluster of the run's workflow.

    Raises
    ------
    InputError
        The run or its graph store does not exist, the store holds another graph, the run lacks distances that the
        certificate needs, or the cluster cannot be used.
    RefutedError
        A stored distance is wrong. run.json has the verdict too.
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
        # run.json has no secrets and no values of the environment, so its URL may be incomplete.
        raise InputError(error.message, hint="name the run's graph store with --store") from error
    # A file of another size is accepted here, because its distances are verified.
    check_undamaged(folder, record, sizes_too=False)
    metrics = folder.read_metrics()
    place = f"`{files.redacted(folder.path(METRICS_FILE))}`: source"
    sources = stored.ids.vertices(metrics["source"].to_pylist(), place)
    # The metrics have a row for each source, in the order of the batches.
    batches = np.split(sources, np.searchsorted(metrics["batch"].to_numpy(), range(1, record["batches"])))
    retries = record["workflow"]["solve"]["retries"]
    verifying = Verifying(stored, batches, output, folder, identity, retries, progress, mode)
    with ExitStack() as resources:
        source = resources.enter_context(worker_source(cluster) if cluster else _source_of(record))
        still_ours = resources.enter_context(exclusive(folder.url))
        verdict = verifying.verify_on(source)
        if verdict.refuted is None:
            dtype = stored.manifest.traits.weight_dtype
            verdict = replace(verdict, refuted=overall_fault(folder, record, metrics, output, dtype))
        record["verify"] = verdict.record()
        still_ours()
        finish_run(folder, record, stored, report=files.exists(folder.path(REPORT_FILE)))
    return record


@contextmanager
def _source_of(record: dict[str, Any]) -> Iterator[WorkerSource]:
    """Give the workers of the cluster that the run's workflow describes."""
    with ExitStack() as resources:
        try:
            spec = Cluster.model_validate(record["workflow"]["cluster"])
            source = resources.enter_context(worker_source(spec))
        except (InputError, ValidationError) as error:
            # The record may be incomplete, and the cluster may have ended or be out of reach.
            raise InputError(
                f"the cluster of the run cannot be used: {getattr(error, 'message', error)}",
                hint="`--cluster here` verifies with threads of this process, "
                "`--cluster tcp://host:8786` on the workers of another scheduler",
            ) from error
        yield source


def check_undamaged(folder: RunFolder, record: dict[str, Any], *, sizes_too: bool = True) -> None:
    """Raise `InputError` if a file of a finished run is missing or cut. The distances are not read.

    Parameters
    ----------
    folder, record
        The run and the content of its run.json.
    sizes_too
        Whether the files must have the sizes in run.json.
    """
    sizes = record.get("files", {})  # release 0.1.0 has no sizes
    n_sources, identity = record["sources"], record["identity"]
    shapes = [FileShape(METRICS_FILE, n_sources)]
    if "snapped" in identity:
        shapes.append(FileShape(SNAPPED_FILE))
    if "per_vertex" in identity.get("reduce", {}):
        shapes.append(FileShape(VERTICES_FILE, record["graph"]["n_vertices"]))
    output = recorded_output(record)
    if isinstance(output, FileOutput):
        wide = [name for name in sizes if name.startswith("distances/wide-")]
        shapes += [FileShape(name, None, 1 + n_sources) for name in wide]
        n_batches = 0 if wide else record["batches"]
        n_left = n_sources
        for batch in range(n_batches):
            n_in_batch = min(identity["batch"], n_left)
            if output.form.layout == "wide":  # of an earlier release
                shapes.append(FileShape(batch_file(batch), None, 1 + n_in_batch))
            else:
                graph = record["graph"]
                dtype = np.dtype(graph["weights"]["dtype"])
                shapes.append(output.batch_shape(batch, n_in_batch, graph["n_vertices"], dtype))
            n_left -= n_in_batch
    if sizes_too:
        shapes = [replace(shape, bytes=sizes.get(shape.name)) for shape in shapes]
    check_files(folder.url, shapes)


def finish_run(folder: RunFolder, record: dict[str, Any], stored: StoredGraph, *, report: bool) -> None:
    """Write the report, then run.json. Raise `RefutedError` if the verdict in `record` is that a distance is wrong."""
    if report:
        page = render_report(record, folder.read_metrics(), read_sample(folder.url, record, stored))
        files.write_atomic(folder.path(REPORT_FILE), page.encode())
    folder.finish(record)
    if record["verify"] is not None and (refuted := record["verify"]["refuted"]) is not None:
        raise RefutedError(refuted, hint=f"{OVERWRITE}; if that does not help, report a bug")
