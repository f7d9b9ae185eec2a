"""`solve` takes every kind of graph, and its `Distances` have every form."""

from __future__ import annotations

import os
import signal
import threading
import time
import tracemalloc
from itertools import product

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as ss

import sssp_pipeline as sp
from sssp_pipeline.api.calls import calls
from sssp_pipeline.base import interrupts
from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError, NegativeCycleError, PathTooLongError
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu import bits
from sssp_pipeline.kernels.cpu.phast import Phast
from sssp_pipeline.pipeline.planning.machine import Machine

MATRIX = ss.csr_array([[0, 1, 2, 0], [0, 0, 0, 1], [0, 0, 0, 3], [0, 0, 0, 0]])
ROADS = pd.DataFrame({"from": ["a", "b", "c"], "to": ["b", "c", "d"], "km": [0.5, 1.5, 2.0]})
U32 = 2**32 - 1


# ---- graphs ----


@pytest.mark.parametrize("graph", [MATRIX, MATRIX.tocoo(), ss.csr_matrix(MATRIX), MATRIX.toarray()], ids=type)
def test_a_matrix(graph):
    found = sp.solve(graph, [0, 3])
    assert found.numpy().tolist() == [[0, 1, 2, 2], [U32, U32, U32, 0]]
    assert found.numpy().dtype == np.uint32
    assert found.unreached == U32
    assert (found.sources.to_pylist(), found.vertices.to_pylist()) == ([0, 3], [0, 1, 2, 3])


def test_a_matrix_keeps_its_floats_and_its_stored_zeros():
    graph = ss.csr_array((np.array([0, 0.1], np.float32), ([0, 1], [1, 2])), (3, 3))
    found = sp.solve(graph, 0).numpy()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.array([[0, 0, 0.1]], np.float32))
    assert sp.solve(graph, 0, weight=None).numpy().tolist() == [[0, 1, 2]]
    assert sp.solve(graph, 2, directed=False, dtype="float64").numpy().dtype == np.float64


@pytest.mark.parametrize("table", [ROADS, pl.from_pandas(ROADS), pa.table(ROADS)], ids=type)
def test_a_table_of_edges(table):
    found = sp.solve(table, ["a", "d"])
    assert found.vertices.to_pylist() == ["a", "b", "c", "d"]
    assert found.numpy().tolist() == [[0, 0.5, 2, 4], [np.inf, np.inf, np.inf, 0]]
    assert sp.solve(table, "d", directed=False).numpy().tolist() == [[4, 3.5, 2, 0]]


def test_a_table_with_integers_in_several_chunks(error_of):
    part = pa.table({"u": [70, 7], "v": [7, 9], "minutes": [3, 4], "metres": [1.5, 2.5]})
    table = pa.concat_tables([part, pa.table({"u": [9], "v": [10**12], "minutes": [5], "metres": [1.0]})])
    assert "2 columns could be the weight" in error_of(sp.solve, table, 70).message
    found = sp.solve(table, np.array([70]), weight="minutes")
    assert found.vertices.to_pylist() == [7, 9, 70, 10**12]
    assert found.numpy().tolist() == [[3, 7, 0, 12]]
    assert sp.solve(table, 70, columns=("v", "u"), weight=None).numpy().tolist() == [[U32, U32, 0, U32]]
    null = pa.table({"u": [1], "v": [2], "minutes": pa.array([None], pa.int64())})
    longer = pa.concat_tables([table.drop_columns("metres"), null])
    assert "`table` row 4: column `minutes` is null" in error_of(sp.solve, longer, 70).message
    empty = ROADS[:0].astype({"from": "str", "to": "str"})
    assert sp.solve(empty, []).numpy().shape == (0, 0)


def test_a_graph_of_networkx():
    graph = nx.grid_2d_graph(3, 3)
    nx.set_edge_attributes(graph, 2, "minutes")
    found = sp.solve(graph, [(0, 0), (2, 2)], weight="minutes", predecessors=True)
    lengths = nx.single_source_dijkstra_path_length(graph, (0, 0), weight="minutes")
    assert dict(zip(graph, found.numpy()[0].tolist(), strict=True)) == lengths
    path = found.path((0, 0), (2, 1))
    assert nx.path_weight(graph, path, "minutes") == lengths[2, 1]
    assert sp.solve(graph, [(0, 0)], weight=None, targets=[(2, 2)]).numpy().tolist() == [[4]]


@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph, nx.MultiGraph])
def test_kinds_of_networkx(kind):
    graph = kind()
    graph.add_weighted_edges_from([("x", "y", 5), ("x", "y", 2), ("y", "z", 0.5)])
    lengths = nx.single_source_dijkstra_path_length(graph, "z")
    found = sp.solve(graph, "z")
    assert {k: v for k, v in zip(graph, found.numpy()[0], strict=True) if v < np.inf} == lengths


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "roads.csv"
    ROADS.to_csv(path, index=False)
    return sp.ingest(str(path), str(tmp_path / "store"), weights={"scale": 10})


def test_a_graph_store_keeps_the_unit_of_the_input(store):
    for graph in (store, store.store):
        found = sp.solve(graph, ["a"], cutoff=2)
        assert found.numpy().tolist() == [[0, 0.5, 2, np.inf]]
        assert found.metrics["max_distance"].to_pylist() == [2.0]


# ---- options and solvers ----


@pytest.fixture(scope="module")
def random_graph():
    made = rmat(scale=6, edge_factor=4)
    graph = csr_from_edges(made.src, made.dst, made.weights, made.n_vertices)
    matrix = ss.csr_array((graph.weights, graph.col_indices, graph.row_offsets), shape=(made.n_vertices,) * 2)
    return graph, matrix


@pytest.fixture
def several_parts(monkeypatch):
    """Cut the sources of a call into parts, which threads solve."""
    monkeypatch.setattr(calls, "_DIRECT_S", 0)
    monkeypatch.setattr(calls, "_PART_S", 1e-4)


#: `bits` takes equal weights only.
CPU_SOLVERS = [solver.name for solver in SOLVERS.values() if solver.device == "cpu" and solver.name != "bits"]


def test_the_distances_of_a_call_are_not_in_memory_twice():
    made = grid(150, 150)
    edges = np.ones_like(made.weights), (made.src, made.dst)
    graph = sp.prepare(ss.csr_array(edges, (made.n_vertices, made.n_vertices)))
    sp.solve(graph, [0], solver="bits")
    tracemalloc.start()
    found = sp.solve(graph, range(512), solver="bits", metrics=False).numpy()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.7 * found.nbytes


@pytest.mark.parametrize("solver", ["auto", *CPU_SOLVERS])
def test_every_solver_gives_the_same_bits(solver, random_graph, several_parts):
    graph, matrix = random_graph
    true = SOLVERS["dijkstra"].solve(graph, np.arange(64), SolveOptions(predecessors=True))
    found = sp.solve(matrix, range(64), predecessors=True, solver=solver)
    np.testing.assert_array_equal(found.numpy(), true.distances)
    assert [m["source"] for m in found.metrics.to_pylist()] == list(range(64))
    assert found.metrics["reached"].to_pylist() == [m.reached for m in true.metrics]
    some = sp.solve(matrix, [5, 9], targets=[7, 50, 7], solver=solver).numpy()
    np.testing.assert_array_equal(some, true.distances[[5, 9]][:, [7, 50, 7]])


def test_auto_takes_bits_where_weights_are_equal(random_graph, several_parts, monkeypatch):
    monkeypatch.setattr(bits, "_LOAD_S", 0)
    _, matrix = random_graph
    for weight, solver in ((None, "bits"), ("auto", "delta-stepping")):
        found = sp.solve(matrix, list(range(64)) * 9, weight=weight)
        assert set(found.metrics["solver"].to_pylist()) == {solver}
        true = sp.solve(matrix, range(64), weight=weight, solver="dijkstra")
        np.testing.assert_array_equal(found.numpy(), np.tile(true.numpy(), (9, 1)))


@pytest.mark.parametrize(
    ("n_sources", "sizes"),
    [(300, [75] * 4), (100, [25] * 4), (40, [10] * 4), (12, [12]), (3, [3])],
)
def test_a_call_of_a_solver_of_many_sources_has_a_part_for_each_core(n_sources, sizes, monkeypatch):
    monkeypatch.setattr(calls, "machine_of_call", lambda: Machine(4, None))
    monkeypatch.setattr(calls, "_DIRECT_S", 0)
    found, solve_parts = [], Phast.solve_parts

    def noted(self, graph, sources, *arguments):
        found.append(len(sources))
        return solve_parts(self, graph, sources, *arguments)

    monkeypatch.setattr(Phast, "solve_parts", noted)
    graph, sources = grid(9, 9).graph(), np.arange(n_sources) % 81
    matrix = ss.csr_array((graph.weights, graph.col_indices, graph.row_offsets))
    solved = sp.solve(matrix, sources, solver="phast")
    assert sorted(found, reverse=True) == sizes
    true = SOLVERS["dijkstra"].solve(graph, sources, SolveOptions())
    np.testing.assert_array_equal(solved.numpy(), true.distances)


def test_a_cutoff_includes_its_value(store):
    assert sp.solve(MATRIX, 0, cutoff=1).numpy().tolist() == [[0, 1, U32, U32]]
    assert sp.solve(MATRIX, 0, cutoff=np.inf).numpy().tolist() == [[0, 1, 2, 2]]
    assert sp.solve(store, "a", cutoff=np.inf).numpy().tolist() == [[0, 0.5, 2, 4]]


@pytest.mark.parametrize("dtype", ["float64", np.float64, np.dtype("float64")])
def test_a_type_as_numpy_names_it(dtype):
    for weight in ("auto", None):
        assert sp.solve(MATRIX, 0, dtype=dtype, weight=weight).numpy().dtype == np.float64
        assert sp.solve(nx.path_graph(2), 0, dtype=dtype, weight=weight).numpy().dtype == np.float64


@pytest.mark.parametrize(
    "ids",
    [2, np.int64(2), np.array(2), (2,), {2}, pd.Series([2]), pa.array([2])],
    ids=lambda ids: type(ids).__name__,
)
def test_one_id_and_sequences_of_ids(ids):
    found = sp.solve(MATRIX, ids, predecessors=True)
    assert found.sources.to_pylist() == [2]
    assert found.path(np.int64(2), 3) == [2, 3]


def test_a_tuple_may_be_one_node():
    square = nx.grid_2d_graph(2, 2)
    assert sp.solve(square, (0, 0), targets=(1, 1)).numpy().tolist() == [[2]]
    assert sp.solve(square, ((0, 0), (1, 1))).numpy().tolist() == [[0, 1, 1, 2], [2, 1, 1, 0]]


def test_columns_and_the_index_of_pandas():
    numbered = pd.DataFrame([[7, 8, 0.5], [8, 9, 0.5]])
    assert sp.solve(numbered, 7, columns=(0, 1), weight="2").numpy().tolist() == [[0, 0.5, 1]]
    # The index of a part of a table is no weight.
    assert sp.solve(ROADS[["from", "to"]][1:], "b").numpy().tolist() == [[0, 1, 2]]


# ---- forms ----

#: What `sp.solve(MATRIX, [0, 3], predecessors=True)` finds.
DISTANCES, BEFORE = [0, 1, 2, 2, None, None, None, 0], [None, 0, 0, 1, None, None, None, None]
ROWS = [
    {"source": source, "vertex": vertex, "distance": DISTANCES[row], "predecessor": BEFORE[row]}
    for row, (source, vertex) in enumerate(product([0, 3], range(4)))
]


def test_tables():
    found = sp.solve(MATRIX, [0, 3], predecessors=True)
    assert found.to_arrow().to_pylist() == pa.table(found).to_pylist() == ROWS
    assert found.to_arrow().schema.field("distance").type == pa.uint32()
    assert pl.DataFrame(found).to_dicts() == found.to_polars().to_dicts() == ROWS
    frame = found.to_pandas()
    assert frame["distance"].dtype == pd.ArrowDtype(pa.uint32())
    assert frame["distance"].tolist() == [0, 1, 2, 2, pd.NA, pd.NA, pd.NA, 0]
    assert repr(found) == "<Distances: 2 sources, 4 vertices, uint32>"
    assert sp.solve(MATRIX, []).to_arrow().num_rows == 0
    pairs = found.to_scipy()
    assert (pairs.shape, pairs.nnz) == ((2, 4), 5)
    np.testing.assert_array_equal(pairs.toarray(), [[0, 1, 2, 2], [0, 0, 0, 0]])
    row = found.metrics.to_pylist()[0]
    assert (row["source"], row["reached"], row["max_distance"], row["mean_distance"]) == (0, 4, 2.0, 1.25)
    assert row["solver"] in SOLVERS


def test_without_metrics_distances_are_the_same(error_of):
    for targets in (None, [2, 0, 2]):
        found = sp.solve(MATRIX, [0, 3], targets=targets, metrics=False, solver="phast")
        np.testing.assert_array_equal(found.numpy(), sp.solve(MATRIX, [0, 3], targets=targets).numpy())
        error = error_of(getattr, found, "metrics")
        assert error.message == "these distances have no metrics"
        assert error.hint == "call `solve` with `metrics=True`"
    assert sp.solve(MATRIX, [], metrics=False).metrics.num_rows == 0


@pytest.mark.parametrize("solver", CPU_SOLVERS)
def test_paths_to_targets_are_those_among_all_paths(solver, random_graph, several_parts):
    _, matrix = random_graph
    sources, targets = range(0, 64, 5), [7, 58, 7, 0, 63]
    whole = sp.solve(matrix, sources, predecessors=True, solver=solver)
    found = sp.solve(matrix, sources, predecessors=True, solver=solver, targets=targets)
    np.testing.assert_array_equal(found.numpy(), whole.numpy()[:, targets])
    paths = [[found.path(source, target) for target in targets] for source in sources]
    assert paths == [[whole.path(source, target) for target in targets] for source in sources]
    assert {True, False} <= {len(path) > 2 for of_source in paths for path in of_source}
    rows = whole.to_arrow().to_pylist()
    assert found.to_arrow().to_pylist() == [rows[64 * i + v] for i in range(len(sources)) for v in targets]


def test_paths_to_targets_by_name():
    found = sp.solve(ROADS, ["a", "d"], targets=["d", "b"], predecessors=True)
    assert found.path("a", "d") == ["a", "b", "c", "d"]
    assert found.path("d", "d") == ["d"]
    assert found.path("d", "b") == []
    assert found.to_arrow().to_pydict() == {
        "source": ["a", "a", "d", "d"],
        "vertex": ["d", "b", "d", "b"],
        "distance": [4, 0.5, 0, None],
        "predecessor": ["c", "a", None, None],
    }
    assert sp.solve(ROADS, "a", targets=[], predecessors=True).numpy().shape == (1, 0)


# ---- errors ----

PATH = nx.path_graph(2)
NOT_FINITE = "weight nan is not a finite number"
WITHOUT = "no predecessors were asked for"


def held():
    return sp.solve(MATRIX, 0, predecessors=True, targets=[1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sp.solve(3, 0), "`int` is not a graph that `solve` takes"),
        (lambda: sp.solve(MATRIX, 9), "source `9` is not in the graph"),
        (lambda: sp.solve(MATRIX, 0, targets=[4, 5]), "2 of 2 targets are not in the graph: `4`, `5`"),
        (lambda: sp.solve(MATRIX, "x"), "source `x` is not in the graph, whose ids are integers"),
        (lambda: sp.solve(MATRIX, 1.0), "source `1.0` is not in the graph, whose ids are integers"),
        (lambda: sp.solve(PATH, 5), "source `5` is not in the graph"),
        (lambda: sp.solve(PATH, [[0]]), "source `[0]` is not in the graph"),
        (
            lambda: sp.solve(MATRIX, 0, weight="k"),
            "`weight` is 'k', and a matrix has one value for each edge",
        ),
        (lambda: sp.solve(MATRIX, 0, columns=("a", "b")), "`columns` cannot be set for a matrix"),
        (lambda: sp.solve(PATH, 0, directed=True), "`directed` cannot be set for a graph of NetworkX"),
        (lambda: sp.solve(ROADS, "a", columns="from"), "`columns` is 'from'"),
        (lambda: sp.solve(MATRIX, 0, solver="dikstra"), "unknown solver `dikstra`"),
        (lambda: sp.solve(MATRIX, 0, cutoff=-1), "cutoff is -1"),
        (lambda: sp.solve(MATRIX, 0, dtype="int8"), "`dtype` is int8"),
        (lambda: sp.solve(MATRIX, 0, dtype="integer"), "`dtype` is integer"),
        (lambda: sp.solve(MATRIX, 0).path(0, 1), f"a path from `0` is asked for, and {WITHOUT}"),
        (lambda: held().path(1, 2), "source `1` was not solved"),
        (lambda: held().path(0, 2), "target `2` was not solved"),
        (lambda: sp.solve(MATRIX * np.nan, 0), f"the matrix: edge 1, from `0` to `1`: {NOT_FINITE}"),
        (lambda: sp.solve("nowhere", 0), "`nowhere` is not a graph store: it has no manifest.json"),
        (lambda: sp.solve(ROADS, "a", weight="length"), "`table`: unknown column `length` in `weight`"),
        (lambda: sp.solve(PATH, 0, weight="km"), "edge from `0` to `1`: `km` is None"),
    ],
)
def test_errors(call, message, error_of):
    assert error_of(call).message == message


def test_more_errors_of_networkx_and_stores(store, error_of):
    graph = nx.Graph([("a", 1, {"km": 1})])
    assert error_of(sp.solve, graph, "a").message == "edges have no attribute `weight`, they have `km`"
    refused = error_of(sp.solve, store, "a", dtype="uint64").message
    assert refused.startswith("`dtype` cannot be set for a graph store")
    assert "do not fit one column of Arrow" in error_of(sp.solve(graph, "a", weight="km").to_arrow).message


def test_errors_name_the_ids_of_the_caller():
    roads = pd.DataFrame({"from": ["a", "b"], "to": ["b", "c"], "km": [2**32 - 2] * 2})
    with pytest.raises(PathTooLongError, match="from `a` to `c` is longer than uint32 holds"):
        sp.solve(roads, "a")
    assert sp.solve(roads, "a", dtype="uint64").numpy()[0, 2] == 2**33 - 4
    loop = pd.DataFrame({"from": ["a", "b"], "to": ["b", "a"], "km": [1, -2]})
    with pytest.raises(NegativeCycleError, match="which can be reached from `a`"):
        sp.solve(loop, "a")


def test_ctrl_c_stops_a_call(monkeypatch):
    began, released = [], threading.Event()

    class Endless:
        name, device = "delta-stepping", "cpu"
        uses_hierarchy = unites_sources = False

        def yields_reached(self, *_):
            return False

        def solve_parts(self, graph, sources, options, ends):
            began.append(sources)
            if len(began) == 1:
                os.kill(os.getpid(), signal.SIGINT)
            released.wait(30)
            raise InputError("released")
            yield

    made = grid(40, 40)
    matrix = ss.csr_array((made.weights, (made.src, made.dst)))
    monkeypatch.setattr(calls, "choose_solver", lambda *_: (Endless(), "", ()))
    monkeypatch.setattr(calls, "_PART_S", 0)  # a part for each source
    try:
        asked = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            sp.solve(matrix, range(1000))
        assert time.monotonic() - asked < 20
    finally:
        released.set()
        interrupts.handled()  # a command line of an earlier test remembers it for the next run
    assert len(began) <= calls.usable_cores()


def test_ctrl_c_ends_a_part_that_makes_no_rows(monkeypatch, wait_until):
    solver, yielded, closed, is_released = SOLVERS["delta-stepping"], [], [], threading.Event()

    class Interrupting:
        name, device = solver.name, solver.device
        uses_hierarchy = unites_sources = False
        yields_reached = solver.yields_reached

        def solve_parts(self, graph, sources, options, ends):
            assert len(ends) > 10
            try:
                for part in solver.solve_parts(graph, sources, options, ends):
                    if sources[0] == 0:
                        yielded.append(part)
                        os.kill(os.getpid(), signal.SIGINT)
                        is_released.wait(30)
                    yield part
            finally:
                closed.append(sources[0])

    made = grid(40, 40)
    matrix = ss.csr_array((made.weights, (made.src, made.dst)))
    monkeypatch.setattr(calls, "choose_solver", lambda *_: (Interrupting(), "", ()))
    monkeypatch.setattr(calls, "_PART_S", 0)  # each source ends a part of a call
    try:
        with pytest.raises(KeyboardInterrupt):
            sp.solve(matrix, range(1000), cutoff=3)
        assert 0 not in closed
        is_released.set()
        wait_until(lambda: 0 in closed)
        assert len(yielded) == 1
    finally:
        is_released.set()
        interrupts.handled()
