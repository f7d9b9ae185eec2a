"""The graph of a run: `run.json` says where its store lies, as the workflow wrote it and seen from the run folder."""

from __future__ import annotations

import posixpath
from typing import Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.graph_store.stores import mark_used
from sssp_pipeline.storage.filesystems import parts_of, path_from

#: The key of `run.json` with the path of the graph store that begins in the run folder, None if there is no such path.
STORE_FROM_RUN = "store_from_run"


def store_from_run(run: str, store: str) -> str | None:
    """Return the path of the folder `store` that begins in the folder `run`, such as `../roads-graph-02eb58a7`.

    None means that they are on different storage, or that the path would need a value of the environment: in both
    URLs, `${NAME}` stands for such a value.
    """
    if store.startswith(f"{run}/"):
        return store.removeprefix(f"{run}/")
    path = path_from(run, store)
    if path is None or "${" in path:
        return None
    up = path.split("/").count("..")
    return None if any("${" in name for name in run.rstrip("/").split("/")[-up:]) else path


def graph_of_run(run: str, record: dict[str, Any], store: str | None = None) -> StoredGraph:
    """Return the graph with which a run was solved, in the version that the run used.

    Parameters
    ----------
    run
        URL of the run folder.
    record
        The content of its run.json.
    store
        URL of the graph store. None means the place that the workflow names, or else the same place seen from `run`.

    Raises
    ------
    InputError
        None of these places has the graph; the message names each.
    """
    places = [record["workflow"]["graph"]["store"] if store is None else store]
    if store is None and (path := record.get(STORE_FROM_RUN)) is not None:
        root, folder = parts_of(run)
        moved = root + posixpath.normpath(f"{folder}/{path}")
        if parts_of(moved) != parts_of(places[0]):
            places.append(moved)
    problems = []
    for place in places:
        try:
            stored = StoredGraph(place, read_manifest(place, record["identity"]["graph"]))
            mark_used(place)
            return stored
        except InputError as error:
            problems.append(error.message)
    hint = "name the run's graph store: `--store URL`, in Python `store=URL`"
    raise InputError("; ".join(problems), hint=hint)
