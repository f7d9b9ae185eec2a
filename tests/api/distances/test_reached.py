"""`solve` with a cutoff holds reached vertices only, and every form of its `Distances` is as if it held all."""

from __future__ import annotations

import pickle
import subprocess
import sys

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import scipy.sparse as ss

import sssp_pipeline as sp
from sssp_pipeline.api.calls import calls
from sssp_pipeline.api.distances import reached
from sssp_pipeline.api.distances.distances import Distances
from sssp_pipeline.api.distances.reached import ReachedParts, ReachedRows
from sssp_pipeline.api.graphs.graphs import graph_of
from sssp_pipeline.api.graphs.ids import sources_of
from sssp_pipeline.base.generators import rmat
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.pipeline.graph_store.units import scaled_limit

ROADS = pd.DataFrame(
    {
        "from": ["a", "b", "c", "x", *"efghijk"],
        "to": ["b", "c", "d", "a", *"fghijkl"],
        "km": [0.5, 1.5, 2.0, 0.0, *[3.5] * 7],
    },
)


def random_matrix(dtype, zeros: bool = False, edge_factor: int = 2):
    """Return 64 vertices, of which some have no edges."""
    made = rmat(scale=6, edge_factor=edge_factor)
    weights = made.weights.astype(dtype) / 7 if dtype in ("float32", "float64") else made.weights
    weights = np.where(np.arange(len(weights)) % 3, weights, 0) if zeros else weights
    edges = weights.astype(dtype), (made.src, made.dst)
    return ss.coo_array(edges, shape=(made.n_vertices,) * 2).tocsr()


def scaled_store(folder):
    ROADS.to_csv(folder / "roads.csv", index=False)
    return sp.ingest(folder / "roads.csv", folder / "store", weights={"scale": 10})


#: Graph, sources and cutoff.
CASES = {
    **{
        dtype: (lambda _, dtype=dtype: random_matrix(dtype), range(64), 20)
        for dtype in ("uint32", "uint64", "float32", "float64")
    },
    "zero weights": (lambda _: random_matrix("uint32", zeros=True), range(64), 0),
    "zero cutoff": (lambda _: random_matrix("uint32"), range(64), 0),
    "repeated sources": (lambda _: random_matrix("uint32"), [5, 9, 5, 5, 0, 9], 15),
    "table": (lambda _: ROADS, ["d", "a", "d", "x"], 2),
    "scale": (scaled_store, ["d", "x", "a"], 2),
    "objects": (lambda _: nx.path_graph(9), [4, 0], 1),
}


@pytest.fixture
def several_parts(monkeypatch):
    """Cut sources into parts, which threads solve, and tables into small batches."""
    monkeypatch.setattr(calls, "_DIRECT_S", 0)
    monkeypatch.setattr(calls, "_PART_S", 1e-4)
    monkeypatch.setattr(reached, "_GROUP", 50)


def in_both_forms(graph, sources, cutoff, predecessors):
    """Return the distances that `solve` gives, and the same ones in whole rows."""
    named = graph_of(graph)
    vertices = sources_of(sources, named.ids, named.graph.n_vertices)
    options = SolveOptions(cutoff=scaled_limit(cutoff, named.scale), predecessors=predecessors)
    whole = SOLVERS["dijkstra"].solve(named.graph, vertices, options)
    found = sp.solve(graph, sources, cutoff=cutoff, predecessors=predecessors)
    return found, Distances(named, vertices, None, whole, cutoff=cutoff)


@pytest.mark.parametrize("predecessors", [False, True], ids=["distances", "paths"])
@pytest.mark.parametrize("case", CASES)
def test_every_form_is_that_of_whole_rows(case, predecessors, several_parts, tmp_path):
    make, sources, cutoff = CASES[case]
    found, whole = in_both_forms(make(tmp_path), sources, cutoff, predecessors)
    assert isinstance(found._made, ReachedRows)
    assert repr(found) == repr(whole)
    for again in (found, pickle.loads(pickle.dumps(found))):
        table = whole.to_arrow()
        assert again.to_arrow().equals(table)
        assert again.to_arrow().column("distance").num_chunks == table.column("distance").num_chunks
        assert pa.table(again).equals(table)
        is_reached = pc.is_valid(table["distance"])
        for of_reached in (again, whole):
            assert of_reached.to_arrow(reached_only=True).equals(table.filter(is_reached))
            assert of_reached.to_polars(reached_only=True).equals(whole.to_polars().drop_nulls("distance"))
            frame = whole.to_pandas().dropna(subset="distance", ignore_index=True)
            pd.testing.assert_frame_equal(of_reached.to_pandas(reached_only=True), frame)
        assert again.to_polars().equals(whole.to_polars())
        pd.testing.assert_frame_equal(again.to_pandas(), whole.to_pandas())
        is_reached = whole.numpy() != whole.unreached
        for pairs in (again.to_scipy(), whole.to_scipy()):
            assert (pairs.shape, pairs.dtype, pairs.indices.dtype) == (
                is_reached.shape,
                whole.numpy().dtype,
                np.int32,
            )
            np.testing.assert_array_equal(pairs.data, whole.numpy()[is_reached])
            np.testing.assert_array_equal(pairs.indices, np.nonzero(is_reached)[1])
            np.testing.assert_array_equal(pairs.indptr, np.cumsum([0, *is_reached.sum(axis=1)]))
        assert "_rows" not in vars(again), "these forms need no whole rows"
        assert (again.numpy().dtype, again.unreached) == (whole.numpy().dtype, whole.unreached)
        np.testing.assert_array_equal(again.numpy(), whole.numpy())
        np.testing.assert_array_equal(again.numpy(np.inf), whole.numpy(np.inf))
        np.testing.assert_array_equal(np.from_dlpack(again), whole.numpy())
        assert again.numpy() is again.numpy()
    assert 0 < found.to_scipy().nnz < whole.numpy().size


@pytest.mark.parametrize("predecessors", [False, True], ids=["distances", "paths"])
def test_rows_are_whole_if_they_are_smaller(predecessors, several_parts):
    dense = random_matrix("float64", edge_factor=16)
    for graph, sources, cutoff in (
        (dense, range(64), 30),
        (dense, [], 20),
        (nx.cycle_graph(9), [4, 0, 4], 3),
    ):
        found, whole = in_both_forms(graph, sources, cutoff, predecessors)
        assert isinstance(found._made, np.ndarray)
        assert found.numpy().tobytes() == whole.numpy().tobytes()
        assert found.to_arrow().equals(whole.to_arrow())
        assert not len(found.sources) or (found.numpy() == found.unreached).any()


def test_the_array_of_scipy_is_a_copy():
    found = sp.solve(random_matrix("uint32"), range(64), cutoff=20)
    pairs, before = found.to_scipy(), found.to_scipy().toarray()
    pairs.data[:] = 7
    np.testing.assert_array_equal(found.to_scipy().toarray(), before)


@pytest.mark.parametrize("case", ["uint32", "float64", "zero weights", "table", "scale", "objects"])
def test_paths_are_those_of_whole_rows(case, several_parts, tmp_path):
    make, sources, cutoff = CASES[case]
    found, whole = in_both_forms(make(tmp_path), sources, cutoff, predecessors=True)
    lengths = set()
    for source in found.sources.to_pylist():
        for vertex in found.vertices.to_pylist():
            path, wanted = (form.path(source, vertex) for form in (found, whole))
            assert (path, path.length) == (wanted, wanted.length)
            lengths.add(min(len(path), 3))
    assert lengths >= {0, 1, 2}
    assert "_rows" not in vars(found), "paths need no whole rows"


def test_indices_of_scipy_hold_any_vertex():
    for n, index in ((2**31 - 1, np.int32), (2**31, np.int64)):
        named = graph_of(random_matrix("uint32"))
        columns = np.array([n - 1], np.uint32)
        rows = ReachedRows(n, np.uint32(2**32 - 1), np.array([0, 1]), columns, np.array([4], np.uint32))
        pairs = Distances(named, np.array([0], np.uint32), None, Solution(rows, None)).to_scipy()
        assert (pairs.shape, pairs.indices.dtype, pairs.indptr.dtype) == ((1, n), index, index)
        assert (pairs.indices.tolist(), pairs.data.tolist()) == ([n - 1], [4])


def test_metrics_and_reached_rows_agree():
    found = sp.solve(random_matrix("uint32"), range(64), cutoff=20)
    assert found.metrics["reached"].to_pylist() == np.diff(found.to_scipy().indptr).tolist()


def test_targets_and_no_limit_keep_whole_rows():
    matrix = random_matrix("uint32")
    for options in ({"targets": [3, 5], "cutoff": 20}, {"cutoff": np.inf}, {}):
        assert isinstance(sp.solve(matrix, [0, 9], **options)._made, np.ndarray)
    assert sp.solve(matrix, [0, 9], targets=[3], cutoff=20).to_arrow(reached_only=True).num_rows < 3


# ---- memory ----


def test_rows_that_memory_cannot_hold(error_of):
    n = 3_000_000
    named = graph_of(ss.csr_array((n, n), dtype=np.uint32))
    vertices = np.arange(n, dtype=np.uint32)
    rows = ReachedRows(n, np.uint32(2**32 - 1), np.arange(n + 1), vertices, np.zeros(n, np.uint32))
    found = Distances(named, vertices, None, Solution(rows, None), cutoff=1)
    hint = "use `.to_scipy()` or `.to_arrow(reached_only=True)`, which hold reached vertices only"
    for form, size in (
        (found.numpy, "36,000.0"),
        (found.to_arrow, "108,000.0"),
        (found.to_pandas, "108,000.0"),
    ):
        error = error_of(form)
        assert error.message.startswith(f"3,000,000 sources x 3,000,000 values take {size} GB, and ")
        assert error.hint == hint
    assert found.to_scipy().nnz == found.to_arrow(reached_only=True).num_rows == n
    assert next(iter(found._by_row)).tolist()[:2] == [0, 2**32 - 1]


def test_more_is_reached_than_memory_holds(monkeypatch, error_of, several_parts):
    monkeypatch.setattr(reached, "_LOOK_BYTES", 4000)
    monkeypatch.setattr(reached, "free_memory_bytes", lambda: 1999)
    matrix = random_matrix("uint32")
    assert sp.solve(matrix, range(64), cutoff=0).to_scipy().nnz == 64
    error = error_of(sp.solve, matrix, range(64), cutoff=10**6)
    assert error.message.endswith(" of 64 sources reach takes 0.0 MB, and 0.0 MB of memory are free")
    assert error.hint == "lower `cutoff`, solve fewer sources in a call, or write files with `sp.run`"
    monkeypatch.setattr(reached, "free_memory_bytes", lambda: 2**40)
    assert sp.solve(matrix, range(64), cutoff=10**6).to_scipy().nnz > 600


def test_parts_may_come_in_any_order():
    rows = np.array([[0, 9, 1], [9, 9, 9], [2, 9, 9], [3, 4, 5]], np.uint32)
    rows[rows == 9] = 2**32 - 1
    for joined in (ReachedParts.as_reached, ReachedParts.as_rows):
        parts = ReachedParts(4, 3, rows.dtype, predecessors=False)
        for part in ((2, 4), (0, 1), (1, 2)):
            parts.take(part[0], Solution(rows[slice(*part)], None))
        found, before = joined(parts)
        assert before is None
        if joined is ReachedParts.as_reached:
            assert found.offsets.tolist() == [0, 2, 2, 3, 6]
        np.testing.assert_array_equal(list(found), rows)


PEAK = """
import os, tracemalloc
import numpy as np, scipy.sparse as ss
import sssp_pipeline as sp

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
n = 200_000
line = ss.csr_array((np.ones(n - 1, np.uint32), (np.arange(n - 1), np.arange(1, n))), (n, n))
sp.solve(line, 0, cutoff=9)
tracemalloc.start()
found = sp.solve(line, range(1000), cutoff=9, metrics=False)
assert found.to_scipy().nnz == found.to_arrow(reached_only=True).num_rows == 10_000
print(tracemalloc.get_traced_memory()[1])
"""


@pytest.mark.medium
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds a process to a core")
def test_memory_holds_a_part_of_the_rows_and_what_is_reached():
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 150e6  # all rows take 800 MB, and a part at most 64 MiB
