"""What the tests of ingest share: ids of every kind, and all that a graph store holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.ingest.into_store import ingest
from sssp_pipeline.pipeline.ingest.tasks.edge_reader import IngestWorkers
from sssp_pipeline.workflow.graph import Graph


@pytest.fixture(scope="session")
def ends():
    """Give a function that returns `n` ids of a kind, of up to 400 different ones."""

    def ids_of(kind: str, rng: np.random.Generator, n: int) -> list:
        numbers = (rng.random(n) ** 3 * 400).astype(int)
        sparse = (numbers.astype(np.uint64) * np.uint64(2654435761) ** 2 % np.uint64(2**62)).tolist()
        kinds = {
            "dense": numbers.tolist(),
            "from 7": (numbers + 7).tolist(),
            "with gaps": (numbers * 1000 + 13).tolist(),
            "sparse": sparse,
            "small and large": [n if n % 3 else s for n, s in zip(numbers.tolist(), sparse, strict=True)],
            "dense and beyond 2^31": (numbers + 2**31 - 100).tolist(),
            "strings": [f"stop-{'é' * (i % 3)}{i}" for i in numbers.tolist()],
        }
        return kinds[kind]

    return ids_of


@pytest.fixture(scope="session")
def stored():
    """Give a function that ingests, and returns the files of the store, without the name of the ingest in them."""

    def ingested(
        store: Path, spec: dict, progress: Progress | None = None, workers: IngestWorkers | None = None
    ) -> dict:
        manifest, _ = ingest(Graph.model_validate(spec), str(store), progress or Progress(), workers=workers)
        assert all(path.name[0] != "." for path in store.iterdir())
        text = manifest.content
        for graph in text.get("graphs", {"": text}).values():
            for folder in ("row_offsets", "edges", "vertices", "edge_weights"):
                for part in graph.get(folder) or ():
                    part.pop("path")
        parts = [path for path in store.glob("*/*") if path.is_file()]
        skipped = store / "skipped.txt"
        return {
            "files": {f"{path.parent.name}/{path.name[-13:]}": path.read_bytes() for path in parts},
            "manifest": text,
            "skipped": skipped.exists() and skipped.read_text(),
        }

    return ingested
