"""What the tests of graph stores share."""

from __future__ import annotations

import pytest

from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.pipeline.graph_store.manifest import Manifest
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.workflow.graph import Graph


@pytest.fixture
def ingested(tmp_path):
    """Give a function that ingests edges, or the ones that are there, and returns the manifest of the first weight."""

    def make(text: str | None = None, store: str = "graph", **options) -> Manifest:
        edges = tmp_path / "edges.txt"
        if text is not None:
            edges.write_text(text)
        spec = Graph.model_validate({"input": str(edges), **options})
        return ingest(spec, str(tmp_path / store), Quiet())[0].first

    return make
