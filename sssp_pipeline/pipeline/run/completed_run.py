"""A run whose batches are all committed: its files are checked, its distances verified, and run.json is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import ValidationError

from sssp_pipeline.base.errors import InputError, RefutedError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.graph_store.loading import check_store
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.graph_store.stores import in_use
from sssp_pipeline.pipeline.results.folder.graph_of_run import graph_of_run
from sssp_pipeline.pipeline.results.folder.run_files import (
    AGAIN,
    METRICS_FILE,
    OVERWRITE,
    REPORT_FILE,
    SOURCES_FILE,
)
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.pipeline.results.outputs.outputs import recorded_output
from sssp_pipeline.pipeline.results.overall import overall_fault
from sssp_pipeline.pipeline.run.repair import noted_damage
from sssp_pipeline.pipeline.solving.workers.interface import WorkerSource
from sssp_pipeline.pipeline.solving.workers.source import worker_source
from sssp_pipeline.storage import files
from sssp_pipeline.storage.lease import exclusive
from sssp_pipeline.workflow.cluster import Cluster

if TYPE_CHECKING:
    import pyarrow as pa

    from sssp_pipeline.pipeline.verification.stage import Verdict


def verify_run(
    run_url: str, store: str | None, mode: str, progress: Progress, cluster: Cluster | None = None
) -> dict[str, Any]:
    """Return the content of a finished run's run.json after verifying its distances anew.

    Parameters
    ----------
    run_url
        The run folder.
    store
        URL of the graph store; None as for `graph_of_run`.
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
    if mode == "certificate" and not recorded_output(record).has_whole_rows:
        raise InputError(
            f"`{files.redacted(run_url)}` does not hold the distances to every vertex, which the certificate needs",
            hint="leave out --certificate: the sample can be verified",
        )
    stored = graph_of_run(folder.url, record, store)
    check_store(stored.store, stored.manifest)
    with ExitStack() as resources:
        source = resources.enter_context(worker_source(cluster) if cluster else _source_of(record))
        still_ours = resources.enter_context(exclusive(folder.url))
        resources.enter_context(in_use(stored.store))
        damage = noted_damage(folder, record)
        try:
            verdict = _verdict_on(source, stored, folder, record, mode, progress)
        except InputError as error:
            if damage is not None:
                raise damage from error
            raise
        record["verify"] = verdict.record()
        still_ours()
        has_report = files.exists(folder.path(REPORT_FILE))
        has_facts = has_report and damage is None
        finish_run(folder, record, report_facts_of(folder, record, stored) if has_facts else None)
        if damage is not None:
            raise damage
    return record


def _verdict_on(
    source: WorkerSource,
    stored: StoredGraph,
    folder: RunFolder,
    record: dict[str, Any],
    mode: str,
    progress: Progress,
) -> Verdict:
    """Return the verdict of the workers of `source` on a finished run. Raises the errors of `verify_on`."""
    from sssp_pipeline.pipeline.verification.stage import Verifying

    output, metrics, of_sources = recorded_output(record), folder.read_metrics(), folder.read_sources()
    if (points := folder.named_ids(stored.ids, record["identity"]).source_points) is not None:
        sources = points.vertices
    else:
        name = SOURCES_FILE if SOURCES_FILE in folder.sums else METRICS_FILE
        place = f"`{files.redacted(folder.path(name))}`: source"
        sources = stored.ids.vertices(of_sources.column(0).to_pylist(), place)
    # There is a row for each source, in the order of the batches.
    batches = np.split(sources, np.searchsorted(of_sources["batch"].to_numpy(), range(1, record["batches"])))
    retries = record["workflow"]["solve"]["retries"]
    verifying = Verifying(stored, batches, output, folder, record["identity"], retries, progress, mode)
    verdict = verifying.verify_on(source)
    if verdict.refuted is None:
        fault = overall_fault(folder, record, metrics, output, batches, stored.manifest.traits)
        verdict = replace(verdict, refuted=fault)
    return verdict


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


def load_report() -> None:
    """Load what makes a report. To do so takes as long as to make the report of a small run."""
    from sssp_pipeline.pipeline.formats.arrow_compute import pc
    from sssp_pipeline.pipeline.results.answers import path_parts
    from sssp_pipeline.pipeline.results.report.page import template

    del path_parts
    _ = pc.min_max
    template()


def report_facts_of(
    folder: RunFolder, record: dict[str, Any], stored: StoredGraph, metrics: pa.Table | None = None
) -> dict[str, Any]:
    """Return the facts of the report of a run whose files are written, as `report_facts` does.

    Parameters
    ----------
    folder, record
        The folder, which knows the sums of the files, and what run.json has of it so far.
    stored
        The graph.
    metrics
        The content of `metrics.parquet`; None to read it.
    """
    # Not at the top: a run imports this module before it solves.
    from sssp_pipeline.pipeline.results.answers.path_parts import most_passed
    from sssp_pipeline.pipeline.results.report.page import report_facts
    from sssp_pipeline.pipeline.results.report.sample import read_sample
    from sssp_pipeline.pipeline.results.stored import StoredResults

    results = StoredResults(folder, record, metrics)
    passed = {name: most_passed(folder, name, columns) for name, columns in results.output.ranked.items()}
    return report_facts(record, results.metrics, read_sample(results, record, stored), passed)


def finish_run(folder: RunFolder, record: dict[str, Any], facts: dict[str, Any] | None) -> None:
    """Write the report of these `facts`, None for no report; then run.json.

    Raise `RefutedError` if the verdict in `record` is that a distance is wrong.
    """
    if facts is not None:
        from sssp_pipeline.pipeline.results.report.page import render_report

        files.write_atomic(folder.path(REPORT_FILE), render_report(record, facts).encode())
    folder.finish(record)
    if record["verify"] is not None and (refuted := record["verify"]["refuted"]) is not None:
        hint = AGAIN if "damaged" in record else f"{OVERWRITE}; if that does not help, report a bug"
        raise RefutedError(refuted, hint=hint)
