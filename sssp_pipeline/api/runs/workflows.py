"""Runs and graph stores made from Python: what the commands `run` and `ingest` do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sssp_pipeline.api.calls.argument_names import naming
from sssp_pipeline.api.runs.stored_run import StoredRun
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress, Quiet
from sssp_pipeline.pipeline.graph_store.store import graph_with
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.run.conductor import run as run_pipeline
from sssp_pipeline.pipeline.run.conductor import run_each as run_each_pipeline
from sssp_pipeline.pipeline.run.ingest_workflow import ingest_all
from sssp_pipeline.workflow.inputs import check_exists
from sssp_pipeline.workflow.models import Workflow
from sssp_pipeline.workflow.yaml_file import load_workflow, workflow_from_dict

if TYPE_CHECKING:
    from distributed import Client

_QUIET = Quiet()
_CORRECT_INPUT = "correct `graph.input`, which names it, or create it"


@naming(str)
def run(
    workflow: str | os.PathLike[str] | Mapping[str, Any] | Workflow,
    *,
    overwrite: bool = False,
    progress: Progress = _QUIET,
    client: Client | None = None,
) -> StoredRun:
    """Return a run after all its stages: ingest, solve, verify, report. A second call continues where one stopped.

    Parameters
    ----------
    workflow
        The path or URL of a workflow file, its keys and values, or a `Workflow`.
    overwrite
        Remove an earlier run from `output.path` first.
    progress
        Gets each stage and the lines that the command line shows.
    client
        A `distributed.Client` of any Dask cluster. Its workers ingest, solve and verify. Client and cluster stay open.
        The section `cluster` of the workflow may then only have `in_flight` and `wait_s`.

    Raises
    ------
    InputError
        The workflow, its input or an option cannot be used. The message names every fault of the workflow. Or the
        workflow has several weights: `run_each` runs those. Or the client is closed or asynchronous, or the workflow
        has a cluster of its own.
    RefutedError
        A stored distance is wrong.
    SsspError
        Batches failed on every attempt.

    Examples
    --------
    >>> graph = {"input": "workflows/data/places.csv", "directed": False}
    >>> run = sp.run({"graph": graph, "sources": {"ids": ["Bralister"]}, "output": {"path": "results"}})
    >>> run.distances("Bralister", "Ulombe")["distance"].to_pylist()
    [22]
    """
    workflow = _loaded(workflow)
    if workflow.graph.weights.several is not None:
        raise InputError(
            "the workflow has several weights, and `run` returns one run", hint="call `sp.run_each`"
        )
    folder, record = run_pipeline(workflow, progress, overwrite=overwrite, client=client)
    return StoredRun(folder, record)


@naming(str)
def run_each(
    workflow: str | os.PathLike[str] | Mapping[str, Any] | Workflow,
    *,
    overwrite: bool = False,
    progress: Progress = _QUIET,
    client: Client | None = None,
) -> dict[str, StoredRun]:
    """Return the run of each of several weights, by the name of the weight; else as `run`.

    Raises
    ------
    SsspError
        As `run`; the message names the weight. `InputError` also if the workflow has only one weight.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from pyarrow import csv
    >>> csv.write_csv(pa.table({"from": ["A"], "to": ["B"], "minutes": [4], "km": [3]}), "roads.csv")
    >>> weights = {"several": [{"name": name, "column": name} for name in ("minutes", "km")]}
    >>> graph = {"input": "roads.csv", "weights": weights}
    >>> runs = sp.run_each({"graph": graph, "sources": {"ids": ["A"]}, "output": {"path": "results"}})
    >>> {name: run.distances("A", "B")["distance"].to_pylist() for name, run in runs.items()}
    {'minutes': [4], 'km': [3]}
    """
    workflow = _loaded(workflow)
    if workflow.graph.weights.several is None:
        raise InputError(
            "the workflow has one weight without a name",
            hint="call `sp.run`, or list the weights in `graph.weights.several`",
        )
    runs = run_each_pipeline(workflow, progress, overwrite=overwrite, client=client)
    return {str(name): StoredRun(*found) for name, found in runs.items()}


def _loaded(workflow: str | os.PathLike[str] | Mapping[str, Any] | Workflow) -> Workflow:
    """Return the workflow that `run` was given; raise `InputError` if its input does not exist."""
    if isinstance(workflow, str | os.PathLike):
        check_exists([str(workflow)], "check the path; `sssp-pipeline init` writes a workflow to start from")
        workflow = load_workflow(str(workflow))
    elif isinstance(workflow, Mapping):
        workflow = workflow_from_dict(_with_text(workflow))
    check_exists(workflow.graph.all_inputs, _CORRECT_INPUT)
    return workflow


def _with_text(value: Any) -> Any:
    """Return `value`, in which paths have become text."""
    if isinstance(value, Mapping):
        return {key: _with_text(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text(inner) for inner in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


@naming(str)
def ingest(
    edges: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    store: str | os.PathLike[str],
    *,
    weight: str | None = None,
    hierarchy: bool = False,
    progress: Progress = _QUIET,
    **options: Any,
) -> StoredGraph:
    """Return the graph store at `store`, made from edge lists. An unchanged input is not read again.

    Parameters
    ----------
    edges
        The path or URL of an edge list, several of them, or a glob.
    store
        The path or URL of the folder.
    weight
        The name of the weight that the returned graph has, if `options` list several. The store has all of them, and
        `.with_weight(name)` of the result gives the others.
    hierarchy
        Whether the store also gets the hierarchies that `phast` needs. Without, the first call or run that gains makes
        one.
    progress
        Gets the lines that the command line shows.
    **options
        Keys of the section `graph` of a workflow: `directed=False`, `weights={"column": "minutes"}`.

    Raises
    ------
    InputError
        The input or an option cannot be used, or the store holds another graph; or there are several weights and
        `weight` names none of them; or no hierarchy can be made, and one is asked for.

    Examples
    --------
    >>> sp.ingest("workflows/data/places.csv", "places", directed=False)
    <StoredGraph: places, 60 vertices, 228 edges>
    >>> sp.nearest("places", "Bralister", 2)["vertex"].to_pylist()
    ['Bralister', 'Cormombe']
    """
    urls = os.fspath(edges) if isinstance(edges, str | os.PathLike) else [os.fspath(url) for url in edges]
    graph = {"input": urls, "store": os.fspath(store), **_with_text(options)}
    # A workflow has sources and an output. Ingest uses neither.
    unused = {"sources": {"all": True}, "output": {"path": f"{os.fspath(store)}-run"}}
    workflow = workflow_from_dict({"graph": graph, **unused})
    check_exists(workflow.graph.all_inputs)
    names = [name for name in workflow.weights if name is not None]
    if weight not in workflow.weights:
        listed = f"the weights {', '.join(names)}" if names else "one weight without a name"
        raise InputError(
            f"`weight` is {weight!r}, and the graph has {listed}",
            hint=f'write `weight="{names[0]}"`' if names else "leave out `weight`",
        )
    manifest = ingest_all(workflow, progress, hierarchy=hierarchy)
    return StoredGraph(workflow.store, graph_with(weight, manifest, workflow.store))
