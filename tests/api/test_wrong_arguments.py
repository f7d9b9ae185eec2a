"""Arguments that a new user got wrong: each is refused, and the hint says what to write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sssp_pipeline as sp

ROADS = pd.DataFrame({"from": [1, 2], "to": [2, 3], "weight": [5, 6]})


@pytest.fixture
def roads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ROADS.to_csv("roads.csv", index=False)
    return sp.ingest("roads.csv", "store")


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (
            lambda store: sp.solve("roads.csv", 1),
            "`roads.csv` is a file, and a graph store is a folder",
            "make a graph store of an edge list: `sp.ingest(edges, store)`",
        ),
        (
            lambda store: sp.solve(np.array([[1, 2], [2, 3], [3, 4]]), 1),
            "the graph is an array of shape (3, 2)",
            "a graph is a square matrix of at most 4294967295 rows; for `sp.solve`, a list of edges is a data frame",
        ),
        (
            lambda store: sp.dijkstra(store),
            "the graph is of type StoredGraph, not a matrix",
            "give an array of SciPy or NumPy; `sp.solve` takes other graphs",
        ),
        (lambda store: sp.solve(store, 1, cutoff="5"), "cutoff is '5'", "cutoff is a number"),
        (
            lambda store: sp.solve(pd.DataFrame({"from": [1, "b"], "to": [2, 3]}), 1),
            "the table cannot be read: Could not convert 'b' with type str: tried to convert to int64; "
            "Conversion failed for column from with type object",
            "give each column one type: `frame[column].astype(str)` makes text of ids",
        ),
        (
            lambda store: sp.solve(pd.DataFrame({"from": ["all"], "to": ["b"]}), "all"),
            "`all` could be every vertex, or the vertex that is called `all`",
            'write `["all"]` for this vertex, or list the ids of all vertices',
        ),
    ],
    ids=["file", "array-of-edges", "store-as-matrix", "cutoff", "mixed-ids", "a-vertex-called-all"],
)
def test_the_hint_says_what_to_write(roads, call, message, hint, error_of):
    found = error_of(call, roads)
    assert (found.message, found.hint) == (message, hint)


def test_paths_may_be_objects_anywhere_in_a_workflow(roads):
    run = sp.run(
        {
            "graph": {"input": [Path("roads.csv")], "store": Path("store")},
            "sources": {"ids": [1]},
            "output": {"path": Path("run")},
        }
    )
    assert run.distances(1, 3)["distance"].to_pylist() == [11]
    positions = pd.DataFrame({"id": [1, 2, 3], "lon": [0, 1, 2], "lat": [0, 0, 0]})
    positions.to_csv("places.csv", index=False)
    store = sp.ingest(Path("roads.csv"), Path("with-places"), coordinates=Path("places.csv"))
    assert store.lon_lat().lon.tolist() == [0, 1, 2]
