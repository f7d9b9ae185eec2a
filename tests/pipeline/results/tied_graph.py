"""A small graph with ties in the present folder, and runs that sum along its paths: what their tests share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from named_graph import run_of

import sssp_pipeline as sp

N_VERTICES = 40
VERTICES, EDGES = "vertices.parquet", "edges.parquet"


def write_edges(scale: float = 1, seed: int = 1, parallel: int = 5) -> pd.DataFrame:
    """Write `edges.csv` and return it: ties, `parallel` edges that occur twice, vertices that are not reached."""
    rng = np.random.default_rng(seed)
    ends = np.unique(rng.integers(0, N_VERTICES - 2, (100, 2)), axis=0)
    edges = pd.DataFrame(ends, columns=["source", "target"])
    edges["weight"] = rng.integers(1, 4, len(edges)) * scale
    island = pd.DataFrame({"source": [N_VERTICES - 2], "target": [N_VERTICES - 1], "weight": [scale]})
    every = pd.concat([edges, edges[:parallel], island])
    every.map(lambda x: f"{x:.10g}").to_csv("edges.csv", index=False)
    return every


def solved(*overrides: str, **options) -> sp.StoredRun:
    """Run `w.yaml`, and return the run."""
    _, record = run_of(*overrides, **options)
    assert record["verify"]["refuted"] is None
    return sp.open_run(record["workflow"]["output"]["path"])


def stored_bytes(path: str = "run") -> tuple[bytes, bytes]:
    """Return the two tables of a run that keeps betweenness."""
    return Path(path, VERTICES).read_bytes(), Path(path, EDGES).read_bytes()
