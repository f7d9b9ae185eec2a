"""A thread orders the graph of a run before the run decides whether it wants a hierarchy."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from sssp_pipeline.base import compile_children
from sssp_pipeline.base.csr import CsrGraph, GraphTraits, csr_from_edges
from sssp_pipeline.base.errors import SsspError
from sssp_pipeline.base.generators import grid
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.phast_gpu import phast_gpu
from sssp_pipeline.kernels.hierarchy import shared
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes
from sssp_pipeline.kernels.hierarchy.ordering.metis_processes import Metis, MetisProcess
from sssp_pipeline.kernels.hierarchy.ordering.order import core_of, neighbours_of, ordered
from sssp_pipeline.pipeline.graph_store.hierarchies import HierarchyWriter
from sssp_pipeline.pipeline.graph_store.hierarchy_record import read_record
from sssp_pipeline.pipeline.graph_store.store import read_manifest, read_newest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.planning import hierarchy
from sssp_pipeline.pipeline.planning.machine import Machine
from sssp_pipeline.pipeline.planning.work import Work
from sssp_pipeline.pipeline.run import hierarchy_stage, one_run, order_ahead
from sssp_pipeline.pipeline.run.conductor import run
from sssp_pipeline.pipeline.run.hierarchy_steps import count_arcs, nothing_ahead
from sssp_pipeline.pipeline.solving.workers import local
from sssp_pipeline.workflow.cluster import Cluster
from sssp_pipeline.workflow.models import Solve, Workflow

pytestmark = pytest.mark.skipif(metis_processes.package() is None, reason="`pymetis` is not installed")


def graph_of_grid() -> CsrGraph:
    edges = grid(20, 20)
    return csr_from_edges(edges.src, edges.dst, edges.weights, edges.n_vertices)


def made(tmp_path: Path, **solve: str) -> Workflow:
    """Return a workflow on a generated grid of 900 vertices."""
    return Workflow.model_validate(
        {
            "graph": {"input": "generated:grid?rows=30&cols=30&seed=3", "store": str(tmp_path / "graph")},
            "sources": {"random": {"count": 20, "seed": 1}},
            "solve": solve,
            "output": {"path": str(tmp_path / "run")},
            "report": False,
            "verify": "off",
        }
    )


@pytest.fixture
def counted(monkeypatch):
    """Have a run find the files of a GPU and cores for an order. Return the threads that count arcs."""
    monkeypatch.setattr(compile_children.KernelGroup, "is_compiled", lambda *_: True)
    monkeypatch.setattr(order_ahead, "has_device_files", lambda: True)
    monkeypatch.setattr(order_ahead, "n_children", lambda: order_ahead.MANY_CHILDREN)
    threads = []

    def count(*args):
        threads.append(threading.current_thread().name)
        return count_arcs(*args)

    for module in (order_ahead, hierarchy_stage):
        monkeypatch.setattr(module, "count_arcs", count)
    return threads


@pytest.fixture
def pays(monkeypatch):
    """Have `auto` find that a hierarchy pays."""
    monkeypatch.setattr(hierarchy, "why_not", lambda *_: None)


def test_a_run_takes_the_order_of_the_thread(tmp_path, counted, pays, monkeypatch):
    _, record = run(made(tmp_path), Quiet())
    assert (record["solver"], counted) == ("phast", ["sssp-order_0"])
    ahead = read_record(str(tmp_path / "graph"))
    monkeypatch.setattr(order_ahead, "has_device_files", lambda: False)
    run(made(tmp_path / "without"), Quiet())
    assert counted == ["sssp-order_0", "MainThread"]
    assert [part.content_sha256 for part in ahead.parts] == [
        part.content_sha256 for part in read_record(str(tmp_path / "without" / "graph")).parts
    ]


def test_a_run_that_wants_no_hierarchy_ends_the_thread(tmp_path, counted, monkeypatch):
    begun, ended = threading.Event(), threading.Event()

    def why_not(*_):
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(20)
            return "it does not pay"
        return None

    def endless(around, progress, metis):
        begun.set()
        with pytest.raises(order_ahead._EndedError):
            while True:
                progress.stage("order")
        with pytest.raises(SsspError):
            ordered(core_of(*around), metis)
        ended.set()

    monkeypatch.setattr(hierarchy, "why_not", why_not)
    monkeypatch.setattr(order_ahead, "count_arcs", endless)
    _, record = run(made(tmp_path), Quiet())
    assert record["solver"] != "phast"
    assert ended.wait(20)
    assert counted == []


def test_an_error_of_the_thread_is_met_again_by_the_run(tmp_path, counted, pays, monkeypatch, listener):
    monkeypatch.setattr(metis_processes.sys, "executable", "/bin/false")
    progress = listener()
    run(made(tmp_path), progress)
    assert counted == ["sssp-order_0", "MainThread"]
    (line,) = [line for line in progress.lines if line.startswith("without a hierarchy: ")]
    assert line.startswith("without a hierarchy: METIS does not start")


@pytest.mark.parametrize(
    "error", [OSError("no process"), MemoryError(), RuntimeError("can't start new thread")]
)
def test_no_error_of_the_thread_ends_the_run(error, tmp_path, counted, pays, monkeypatch):
    def fail(*_):
        raise error

    monkeypatch.setattr(order_ahead, "count_arcs", fail)
    _, record = run(made(tmp_path), Quiet())
    assert (record["solver"], counted) == ("phast", ["MainThread"])


def test_the_neighbours_are_freed_when_arcs_are_made_of_them(tmp_path, counted, pays, monkeypatch):
    offsets, write = [], HierarchyWriter.write_completion

    def listed(graph):
        around = neighbours_of(graph)
        offsets.append(weakref.ref(around[0]))
        return around

    def written(writer, completion):
        assert [ref() is None for ref in offsets] == [True]
        return write(writer, completion)

    monkeypatch.setattr(order_ahead, "neighbours_of", listed)
    monkeypatch.setattr(HierarchyWriter, "write_completion", written)
    _, record = run(made(tmp_path), Quiet())
    assert (record["solver"], counted) == ("phast", ["sssp-order_0"])


@pytest.mark.parametrize("missing", ["cores", "METIS", "kernels", "children that are done", "a gain"])
def test_nothing_is_ordered_ahead_without(missing, tmp_path, counted, pays, monkeypatch):
    if missing == "cores":
        monkeypatch.setattr(order_ahead, "n_children", lambda: order_ahead.MANY_CHILDREN - 1)
    elif missing == "METIS":
        monkeypatch.setattr(order_ahead, "package", lambda: None)
    elif missing == "kernels":
        monkeypatch.setattr(compile_children.KernelGroup, "is_compiled", lambda *_: False)
    elif missing == "children that are done":
        monkeypatch.setattr(compile_children, "are_running", lambda: True)
    else:
        monkeypatch.setattr(hierarchy, "why_not", lambda *_: "it does not pay")
    run(made(tmp_path), Quiet())
    assert "sssp-order_0" not in counted


def test_a_stored_order_is_not_made_again(tmp_path, counted, pays):
    run(made(tmp_path), Quiet())
    again = made(tmp_path).model_dump() | {"output": {"path": str(tmp_path / "again")}}
    run(Workflow.model_validate(again), Quiet())
    assert counted == ["sssp-order_0"]


def test_another_solver_orders_nothing(tmp_path, counted):
    run(made(tmp_path, solver="dijkstra"), Quiet())
    assert counted == []


def test_metis_can_be_killed_before_it_starts():
    metis = Metis()
    metis.kill()
    with pytest.raises(SsspError, match="METIS"):
        ordered(core_of(*neighbours_of(graph_of_grid())), metis)


def test_nothing_is_ordered_ahead_if_the_memory_is_for_one(tmp_path, counted, monkeypatch):
    needed = costs.build_bytes(made_traits(tmp_path), on_gpu=False)
    monkeypatch.setattr(order_ahead, "free_memory_bytes", lambda: needed + 1)
    again = made(tmp_path, hierarchy="build").model_dump() | {"output": {"path": str(tmp_path / "again")}}
    run(Workflow.model_validate(again), Quiet())
    assert counted == ["MainThread"]


def made_traits(tmp_path: Path) -> GraphTraits:
    """Return the traits of the stored graph of `made`."""
    run(made(tmp_path, solver="dijkstra"), Quiet())
    (graph,) = read_newest(str(tmp_path / "graph")).by_weight.values()
    return graph.traits


def test_a_gpu_of_another_machine_is_not_loaded_here(monkeypatch):
    monkeypatch.setattr(hierarchy_stage, "n_children", lambda: hierarchy_stage.MANY_CHILDREN)
    monkeypatch.setattr(hierarchy_stage, "gpu_missing", lambda: "no NVIDIA driver")
    monkeypatch.setattr(phast_gpu, "load_for_graph", lambda *_: pytest.fail("this machine has no GPU"))
    graph = graph_of_grid()
    work = Work(graph.traits, SolveOptions(), n_sources=20, batch=20)
    hierarchy_stage._load_for_gpu(Solve(solver="phast-gpu"), work, Machine(16, gpu_free_bytes=2**34), None)


def test_a_run_loads_for_the_gpu_while_metis_works(tmp_path, counted, pays, monkeypatch):
    sent, loaded = threading.Event(), threading.Event()
    send, receive = MetisProcess.send, MetisProcess.receive

    def sent_first(process, *args):
        sent.set()
        send(process, *args)

    def received_late(process, n_vertices):
        assert loaded.wait(20)
        return receive(process, n_vertices)

    def load(*_):
        assert sent.wait(20)
        loaded.set()

    monkeypatch.setattr(MetisProcess, "send", sent_first)
    monkeypatch.setattr(MetisProcess, "receive", received_late)
    monkeypatch.setattr(hierarchy_stage, "_load_for_gpu", load)
    _, record = run(made(tmp_path), Quiet())
    assert (record["solver"], counted) == ("phast", ["sssp-order_0"])


@pytest.mark.parametrize("is_on_gpu", [True, False])
def test_a_gpu_of_this_process_gets_graph_and_hierarchy_ahead(is_on_gpu, tmp_path, monkeypatch):
    run(made(tmp_path, solver="dijkstra"), Quiet())
    store = str(tmp_path / "graph")
    stored = StoredGraph(store, read_manifest(store))
    found, is_made = [], threading.Event()

    def make_ahead(graph, limit_s):
        found.append((graph, limit_s, shared.known_hierarchy(graph).is_completed, read_record(store).parts))
        is_made.set()

    monkeypatch.setattr(hierarchy_stage, "n_children", lambda: hierarchy_stage.MANY_CHILDREN)
    monkeypatch.setattr(hierarchy_stage, "gpu_missing", lambda: None)
    monkeypatch.setattr(phast_gpu, "load_for_graph", lambda *_: None)
    monkeypatch.setattr(phast_gpu, "upload_ahead", found.append)
    monkeypatch.setattr(phast_gpu, "make_ahead", make_ahead)
    write = HierarchyWriter.commit_record

    def committed_late(*args):
        assert not is_on_gpu or is_made.wait(20)
        write(*args)

    monkeypatch.setattr(HierarchyWriter, "commit_record", committed_late)
    work, solve = (
        Work(stored.graph().traits, SolveOptions(preparation_s=90.0), n_sources=20, batch=20),
        Solve(solver="phast-gpu"),
    )
    machine = Machine(16, gpu_free_bytes=2**34)
    _, reason = hierarchy_stage.prepare(stored, solve, work, machine, Quiet(), is_on_gpu=is_on_gpu)
    graph = stored.graph()
    assert reason is None
    assert found == ([graph, (graph, 90.0, True, [])] if is_on_gpu else [])
    assert read_record(store).parts


@pytest.mark.parametrize("n_gpus", [0, 1, 2])
@pytest.mark.parametrize("cluster", [{}, {"workers": 2}, {"kind": "local-cuda"}])
def test_only_a_single_gpu_is_of_this_process(n_gpus, cluster, monkeypatch):
    monkeypatch.setattr(local, "gpu_count", lambda: n_gpus)
    assert local.has_one_gpu(Cluster.model_validate(cluster)) == (n_gpus == 1 and not cluster)


def test_the_report_is_loaded_after_what_a_gpu_needs(monkeypatch):
    done = []
    monkeypatch.setattr(one_run, "load_report", lambda: done.append("report"))
    with ThreadPoolExecutor(1) as aside:
        ahead = one_run.OneRun._loading_report(SimpleNamespace(_aside=aside), nothing_ahead)
        assert ahead(lambda: done.append("kernels")) is None
    assert done == ["kernels", "report"]
