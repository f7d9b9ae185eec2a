"""The graph that the program makes of an input, with the input's own ids."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.graph_store.loading import load_graph, load_ids
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.workflow.graph import Graph


@dataclass
class Stored:
    """A stored graph: (source id, target id, weight) of every edge, sorted; the weight as `weights_of` gives it."""

    edges: list[tuple]
    ids: list[int] | list[str]
    dtype: str
    manifest: Manifest


def graph_spec(path: Path | str, graph: dict) -> Graph:
    """Return the `graph` section that reads `path`."""
    return Graph.model_validate({"input": str(path), **graph})


def ingested(path: Path | str, graph: dict, store: Path) -> Stored:
    """Ingest `path` into the folder `store`, and read back what is there."""
    manifest = ingest(graph_spec(path, graph), str(store), Quiet())[0].first
    ids = load_ids(str(store), manifest).column().to_pylist()
    return as_stored(load_graph(str(store), manifest), ids, manifest)


def weights_of(graph: CsrGraph, manifest: Manifest) -> list[int | float]:
    """Return the weights as they are stored, but in the unit of the input if ingest chose the scale."""
    scale = manifest.weights.scale
    if scale is None or manifest.options["weights"]["scale"] != "auto":
        return graph.weights.tolist()
    return [weight / scale for weight in graph.weights.tolist()]


def as_stored(graph: CsrGraph, ids: list, manifest: Manifest) -> Stored:
    sources = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets)).tolist()
    edges = zip(sources, graph.col_indices.tolist(), weights_of(graph, manifest), strict=True)
    return Stored(sorted((ids[u], ids[v], w) for u, v, w in edges), ids, graph.weights.dtype.name, manifest)
