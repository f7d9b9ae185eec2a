"""Hierarchies that calls from Python make and keep, and graphs that `prepare` has read."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as ss
from numpy.testing import assert_array_equal

import sssp_pipeline as sp
from sssp_pipeline.api.calls import calls
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.networkx_backend.info import NAME
from sssp_pipeline.pipeline.graph_store.hierarchy_record import RECORD, read_record
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work
from sssp_pipeline.pipeline.run import hierarchy_of_call, hierarchy_stage, hierarchy_steps
from sssp_pipeline.pipeline.run.hierarchy_of_call import prepare_call
from sssp_pipeline.storage.lease import exclusive
from sssp_pipeline.workflow.models import Solve

SOURCES = list(range(40))


@pytest.fixture(scope="module")
def matrix() -> ss.csr_array:
    """A grid of 30 x 20 vertices with weights from 1 to 7, other ones in each direction."""
    ends = [(i, i + 1) for i in range(600) if i % 20 != 19] + [(i, i + 20) for i in range(580)]
    rows, columns = np.array(ends + [(v, u) for u, v in ends]).T
    return ss.csr_array((1 + (5 * rows + columns) % 7, (rows, columns)), shape=(600, 600))


@pytest.fixture
def store(tmp_path) -> str:
    url = str(tmp_path / "graph")
    sp.ingest("generated:grid?rows=30&cols=20&seed=3", url)
    return url


@pytest.fixture
def pays(monkeypatch):
    """Have `auto` find that a hierarchy pays for any call."""
    monkeypatch.setattr(calls, "LEAST_S", 0.0)
    monkeypatch.setattr(hierarchy, "why_not", lambda *_: None)


@pytest.fixture
def made(monkeypatch) -> list[str]:
    """The steps that are taken to make hierarchies, in order."""
    names: list[str] = []

    def note(module, name: str, counts) -> None:
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given: (counts(*given) and names.append(name)) or original(*given)
        )

    note(hierarchy_steps, "ordered", lambda *_: True)
    for module in (hierarchy_stage, shared):
        note(module, "customize", lambda _, graph: graph.n_edges > 1)  # `phast` compiles itself with one edge
    return names


def solvers_of(found: sp.Distances) -> set[str]:
    return set(found.metrics["solver"].to_pylist())


# ---- in memory ----


def test_a_prepared_graph_keeps_the_hierarchy_of_the_call_that_gains(matrix, pays, made):
    expected = sp.solve(matrix, SOURCES, solver="dijkstra").numpy()
    prepared = sp.prepare(matrix)
    assert repr(prepared) == "<PreparedGraph: 600 vertices, 2,300 edges, uint32, without a hierarchy>"
    for _ in range(2):
        found = sp.solve(prepared, SOURCES)
        assert solvers_of(found) == {"phast"}
        assert_array_equal(found.numpy(), expected)
    nearest = sp.nearest(prepared, SOURCES, 3, targets=[5, 300, 599])
    assert nearest == sp.nearest(matrix, SOURCES, 3, targets=[5, 300, 599], solver="dijkstra")
    assert sp.reduce(prepared, SOURCES, "mean_distance") == sp.reduce(
        matrix, SOURCES, "mean_distance", solver="dijkstra"
    )
    assert made == ["ordered", "customize"]
    assert repr(prepared).endswith("with a hierarchy>")


def test_a_small_call_makes_none(matrix, made):
    assert solvers_of(sp.solve(sp.prepare(matrix), SOURCES)) != {"phast"}
    assert made == []


def test_what_does_not_pay_is_found_out_once(matrix, monkeypatch, made):
    monkeypatch.setattr(calls, "LEAST_S", 0.0)
    asked, looks = [], []

    def why_not(work, *_):
        asked.append(work.traits.hierarchy)
        return None if asked[-1] is None else "it has too many arcs"

    monkeypatch.setattr(hierarchy, "why_not", why_not)
    monkeypatch.setattr(hierarchy, "look_at", lambda *_: looks.append(7) or 7)
    prepared = sp.prepare(matrix)
    for _ in range(2):
        assert solvers_of(sp.solve(prepared, SOURCES)) != {"phast"}
    assert made == ["ordered"]
    assert looks == [7]
    # Asked before each step of the first call; the second one begins with what the first one counted.
    assert asked[0] is None
    assert asked[-1].n_arcs == asked[-2].n_arcs


def test_prepare_makes_a_hierarchy_at_once_if_it_is_told_to(matrix, made):
    prepared = sp.prepare(matrix, hierarchy=True)
    assert made == ["ordered", "customize"]
    found = sp.solve(prepared, SOURCES, solver="phast")
    assert made == ["ordered", "customize"]
    assert_array_equal(found.numpy(), sp.solve(matrix, SOURCES, solver="dijkstra").numpy())


def test_a_named_solver_keeps_its_hierarchy_with_the_graph_and_auto_finds_it(matrix, made):
    prepared = sp.prepare(matrix)
    sp.solve(prepared, SOURCES, solver="phast")
    assert shared.known_hierarchy(prepared._named.graph).is_loaded
    sp.solve(prepared, SOURCES, solver="phast")
    assert made == ["ordered", "customize"]


def test_negative_weights_keep_the_arcs(matrix, pays, made):
    lowered = matrix.copy()
    potentials = np.arange(600) % 5
    rows = np.repeat(np.arange(600), np.diff(matrix.indptr))
    lowered.data = matrix.data + potentials[rows] - potentials[matrix.indices]
    assert lowered.data.min() < 0
    prepared = sp.prepare(lowered)
    for _ in range(2):
        found = sp.solve(prepared, SOURCES)
        assert solvers_of(found) == {"phast"}
        assert_array_equal(found.numpy(), sp.solve(lowered, SOURCES, solver="queue-bellman-ford").numpy())
    assert made.count("ordered") == 1


def test_threads_make_one_hierarchy(matrix, pays, made):
    prepared = sp.prepare(matrix)
    threads = [threading.Thread(target=sp.solve, args=(prepared, SOURCES)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == ["ordered", "customize"]


def test_without_the_memory_for_it_auto_makes_none_and_prepare_says_so(matrix, monkeypatch, made, error_of):
    monkeypatch.setattr(calls, "LEAST_S", 0.0)
    monkeypatch.setattr(hierarchy_stage, "free_memory_bytes", lambda: 1000)
    assert solvers_of(sp.solve(matrix, SOURCES)) != {"phast"}
    error = error_of(sp.prepare, matrix, hierarchy=True)
    assert error.message.startswith(
        "no hierarchy of this graph can be made: making a hierarchy takes about 100.5 MB of memory, and 0.0 MB"
    )
    assert error.hint == "leave out `hierarchy=True`"
    error = error_of(sp.solve, matrix, SOURCES, solver="phast")
    assert error.hint == '`solver="auto"` takes a solver that can; `sssp-pipeline solvers` lists all'
    assert made == []


def test_rows_of_networkx_count_all_that_are_left(monkeypatch):
    monkeypatch.setattr(calls, "LEAST_S", 0.0)
    asked = []
    monkeypatch.setattr(hierarchy, "why_not", lambda work, *_: asked.append(work.n_sources) or "no")
    graph = nx.grid_2d_graph(8, 8)
    nx.set_edge_attributes(graph, 3, "weight")
    found = nx.all_pairs_dijkstra_path_length(graph, backend=NAME)
    next(found)
    assert asked == [4]
    assert len(list(found)) == 63
    assert asked[1:] == [60, 52, 36, 4]


# ---- in a store ----


def test_a_store_keeps_what_a_call_makes(store, pays, made):
    found = sp.solve(store, SOURCES)
    assert solvers_of(found) == {"phast"}
    assert read_record(store).graphs
    again = sp.solve(sp.prepare(sp.open_store(store)), SOURCES)
    assert solvers_of(again) == {"phast"}
    assert made == ["ordered", "customize"]
    assert_array_equal(found.numpy(), sp.solve(store, SOURCES, solver="dijkstra").numpy())


def test_a_named_solver_keeps_its_hierarchy_in_the_store(store, made):
    sp.solve(store, SOURCES, solver="phast")
    assert read_record(store).graphs
    sp.solve(store, SOURCES, solver="phast")
    assert made == ["ordered", "customize"]


def test_ingest_makes_a_hierarchy_if_it_is_told_to(tmp_path, made):
    store = sp.ingest("generated:grid?rows=30&cols=20&seed=3", tmp_path / "graph", hierarchy=True)
    assert read_record(store.store).graphs
    sp.solve(store, SOURCES, solver="phast")
    assert made == ["ordered", "customize"]


def test_in_a_store_that_another_process_holds_it_stays_in_memory(store, pays, made, caplog):
    graph = sp.open_store(store)
    with exclusive(store), caplog.at_level(logging.INFO):
        for _ in range(2):
            assert solvers_of(sp.solve(graph, SOURCES)) == {"phast"}
    assert made == ["ordered", "customize"]
    assert not Path(store, RECORD).exists()
    assert caplog.messages == [
        f"another process is writing to `{store}`: the hierarchy stays in memory",
    ]


def test_in_a_store_that_cannot_be_written_it_stays_in_memory(store, pays, monkeypatch, caplog):
    def refuse(url):
        raise InputError(f"`{url}` cannot be written", hint="choose another folder")

    monkeypatch.setattr(hierarchy_of_call.files, "check_writable", refuse)
    with caplog.at_level(logging.INFO):
        assert solvers_of(sp.solve(store, SOURCES)) == {"phast"}
    assert caplog.messages == [f"`{store}` cannot be written: the hierarchy stays in memory"]
    assert not Path(store, RECORD).exists()


@pytest.mark.parametrize("hierarchy", ["auto", "off"])
def test_a_call_keeps_what_it_knows_of_the_levels(store, hierarchy):
    graph = sp.open_store(store).graph()
    work = Work(replace(graph.traits, levels=7.0), SolveOptions(), n_sources=2, batch=2)
    solve, machine = Solve(hierarchy=hierarchy), Machine(2, None)
    traits, _ = prepare_call(graph, None, np.arange(2, dtype=np.uint32), solve, work, machine, Quiet())
    assert replace(traits, hierarchy=None) == work.traits


@pytest.mark.parametrize("step", ["count", "fill", "customize"])
def test_an_interrupt_while_it_is_made_leaves_nothing(store, pays, monkeypatch, step):
    before = sorted(Path(store).rglob("*"))
    module = hierarchy_steps if step == "count" else hierarchy_stage

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            sp.solve(store, SOURCES)
    assert sorted(Path(store).rglob("*")) == before
    assert solvers_of(sp.solve(store, SOURCES)) == {"phast"}


# ---- what it refuses ----


@pytest.mark.parametrize(
    "given", [{"weight": None}, {"weight": "km"}, {"directed": False}, {"dtype": "uint64"}], ids=str
)
def test_the_arguments_of_prepare_are_not_set_again(matrix, error_of, given):
    (name,) = given
    error = error_of(sp.solve, sp.prepare(matrix), [0], **given)
    assert error.message == f"`{name}` cannot be set for a prepared graph, where `prepare` has set it"
    assert error.hint == f"leave out `{name}`"


def test_floats_have_no_hierarchy(matrix, error_of):
    error = error_of(sp.prepare, matrix.astype(np.float64), hierarchy=True)
    assert error.message.startswith(
        "no hierarchy of this graph can be made: it adds weights in another order"
    )
    assert error.hint == "leave out `hierarchy=True`"


def test_a_prepared_table_keeps_its_ids(error_of):
    table = {"source": ["a", "b"], "target": ["b", "c"], "weight": [1, 2]}
    import pyarrow as pa

    prepared = sp.prepare(pa.table(table), directed=False)
    assert sp.solve(prepared, "c").to_arrow().to_pydict()["distance"] == [3, 2, 0]
    assert error_of(sp.solve, prepared, "d").message == "source `d` is not in the graph"
