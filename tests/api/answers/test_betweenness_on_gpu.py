"""`betweenness` on a GPU: rows stay there, and the sums are those of the CPU, to the last bit."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import scipy.sparse as ss

import sssp_pipeline as sp
from sssp_pipeline.api.calls import along_hierarchy, along_paths
from sssp_pipeline.base.generators import road_like
from sssp_pipeline.kernels.answers.path_sums import PathSums
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.gpu.common.rows import path_sums_on_device
from sssp_pipeline.kernels.gpu.common.rows.path_sums_on_device import PathSumsOnDevice
from sssp_pipeline.kernels.gpu.common.solvers.gpu_solver import GPU_LOCK
from sssp_pipeline.kernels.gpu.path_sweep.path_sweep_on_device import PathSweepOnDevice
from sssp_pipeline.kernels.hierarchy.completion import costs
from sssp_pipeline.kernels.hierarchy.sweeps.path_sweep import PathSweep

pytestmark = pytest.mark.gpu
#: On a GPU, and on the CPU.
BOTH = ("near-far", "dijkstra")
AMOUNTS = {"vertex": range(0, 80, 2), "people": np.arange(40) * 1.3}


@pytest.fixture
def added_on_host(monkeypatch):
    """The sources of the rows that the CPU added."""
    sources, real = [], PathSums.add

    def add(self, rows, some):
        sources.extend(some.tolist())
        real(self, rows, some)

    monkeypatch.setattr(PathSums, "add", add)
    monkeypatch.setattr(along_paths, "usable_cores", lambda: 1)
    return sources


def random_matrix(n: int, seed: int) -> ss.csr_array:
    rng = np.random.default_rng(seed)
    made = ss.random_array((n, n), density=4 / n, rng=rng, format="csr")
    made.data = rng.integers(1, 6, made.nnz)
    return made


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"edges": True, "cutoff": 9},
        {"sample": 20, "endpoints": True},
        {"sources": [5, 5, 8], "targets": [3, 4, 70]},
        {"normalized": True, "dtype": "float64"},
        {"source_amounts": AMOUNTS, "target_amounts": AMOUNTS, "decay": 0.2, "endpoints": True},
        {"sample": 20, "target_amounts": AMOUNTS, "targets": [3, 4, 70], "edges": True},
    ],
    ids=lambda options: "-".join(options) or "none",
)
def test_the_values_are_those_of_the_cpu(options, added_on_host, monkeypatch):
    monkeypatch.setattr(path_sums_on_device, "_ROWS_OF_SLOT", 1)  # several batches
    graph = random_matrix(80, 1)
    on_gpu = sp.betweenness(graph, solver="near-far", **options)
    assert not added_on_host
    assert on_gpu == sp.betweenness(graph, solver="dijkstra", **options)
    assert added_on_host


@pytest.mark.slow
def test_a_hierarchy_on_the_gpu_gives_rows_of_a_sample(added_on_host):
    road = road_like(vertices=600, seed=3).graph("uint32")
    matrix = ss.csr_array((road.weights.astype(int), road.col_indices, road.row_offsets), shape=(600, 600))
    found = sp.betweenness(matrix, sample=90, solver="phast-gpu")
    assert not added_on_host
    assert found == sp.betweenness(matrix, sample=90, solver="dijkstra")


@pytest.mark.parametrize("faster", [PathSweepOnDevice, PathSweep])
@pytest.mark.parametrize("counted", [{}, {"target_amounts": AMOUNTS}], ids=["every", "amounts"])
def test_auto_sums_over_a_hierarchy_where_that_is_expected_to_be_faster(faster, counted, monkeypatch):
    taken = set()
    methods = (PathSweepOnDevice, "run", PathSweepOnDevice.run), (PathSweep, "add", PathSweep.add)
    for sweep, method, real in methods:

        def add(self, *arguments, sweep=sweep, real=real):
            taken.add(sweep)
            return real(self, *arguments)

        monkeypatch.setattr(sweep, method, add)
    # Forecasts of a graph that is far larger.
    monkeypatch.setattr(Reductions, "sum_s", lambda self, *_: float(not self.paths.on_hierarchy))
    monkeypatch.setattr(costs, "gpu_pass_s", lambda _: 0.0 if faster is PathSweepOnDevice else 1.0)
    road = road_like(vertices=600, seed=3).graph("uint32")
    matrix = ss.csr_array((road.weights.astype(int), road.col_indices, road.row_offsets), shape=(600, 600))
    found = sp.betweenness(matrix, **counted)["betweenness"]
    assert taken == {faster}
    expected = sp.betweenness(matrix, solver="dijkstra", **counted)["betweenness"]
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("solver", "sums", "method"),
    [("near-far", PathSumsOnDevice, "add"), ("phast-gpu", PathSweepOnDevice, "run")],
)
def test_no_other_thread_uses_the_gpu_while_a_call_sums(solver, sums, method, monkeypatch):
    has_lock, real = [], getattr(sums, method)

    def locked(*args):
        has_lock.append(GPU_LOCK.locked())
        return real(*args)

    monkeypatch.setattr(sums, method, locked)
    monkeypatch.setattr(Reductions, "sum_s", lambda *_: 1.0)
    road = road_like(vertices=200, seed=3).graph("uint32")
    matrix = ss.csr_array((road.weights.astype(int), road.col_indices, road.row_offsets), shape=(200, 200))
    sp.betweenness(sp.prepare(matrix, hierarchy=solver == "phast-gpu"), solver=solver)
    assert set(has_lock) == {True}


@pytest.mark.medium
@pytest.mark.parametrize("edges", [False, True])
def test_a_hierarchy_on_a_gpu_gives_a_sample_the_errors_of_its_groups(edges, monkeypatch):
    monkeypatch.setattr(along_hierarchy, "SWEPT_AT_ONCE", 160)  # several launches
    monkeypatch.setattr(Reductions, "sum_s", lambda *_: 1.0)
    road = road_like(vertices=1200, seed=3).graph("uint32")
    matrix = ss.csr_array((road.weights.astype(int), road.col_indices, road.row_offsets), shape=(1200, 1200))
    graph = sp.prepare(matrix, hierarchy=True)
    on_gpu, on_cpu = (
        sp.betweenness(graph, sample=1024, edges=edges, solver=s) for s in ("phast-gpu", "phast")
    )
    np.testing.assert_allclose(on_gpu["betweenness"], on_cpu["betweenness"], rtol=1e-13)
    np.testing.assert_allclose(on_gpu["standard_error"], on_cpu["standard_error"], rtol=1e-6, atol=1e-3)
    along_rows = sp.betweenness(graph, sample=1024, edges=edges, solver="dijkstra")
    assert along_rows["standard_error"] != on_cpu["standard_error"]


def test_auto_takes_rows_of_a_gpu_for_a_sample(added_on_host, monkeypatch):
    # The forecast of a CPU for a graph that is far larger.
    monkeypatch.setattr(Reductions, "sum_s", lambda *arguments: float(arguments[-1] == "cpu"))
    graph = random_matrix(80, 4)
    found = sp.betweenness(graph, sample=70)
    assert not added_on_host
    assert found == sp.betweenness(graph, sample=70, solver="dijkstra")


@pytest.mark.slow
def test_the_cpu_takes_rows_with_too_many_paths(added_on_host):
    """A chain of 130 diamonds: from the first three tops, 2^127 paths or more lead to the end."""
    tops = 3 * np.arange(130)
    src = np.concatenate([tops, tops, tops + 1, tops + 2])
    dst = np.concatenate([tops + 1, tops + 2, tops + 3, tops + 3])
    chain = ss.csr_array((np.ones(520, int), (src, dst)), shape=(391, 391))
    found = sp.betweenness(chain, solver="near-far")
    # From the two middle vertices of a diamond lead as many paths as from the top behind them.
    assert sorted(added_on_host) == [v for v in range(391) if (390 - v) // 3 >= 127]
    assert found == sp.betweenness(chain, solver="dijkstra")


def test_what_cannot_be_counted_is_the_same_error():
    lost = ss.csr_array((np.array([1.0, 1e-30]), ([0, 1], [1, 2])), shape=(3, 3))
    messages = []
    for solver in BOTH:
        with pytest.raises(sp.InputError, match="an edge to `2` is too short") as caught:
            sp.betweenness(lost, solver=solver)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_without_memory_on_the_gpu_the_cpu_adds(added_on_host, monkeypatch, caplog):
    monkeypatch.setattr(path_sums_on_device, "free_bytes", lambda: 100)
    graph = random_matrix(40, 2)
    with caplog.at_level(logging.INFO, "sssp_pipeline"):
        found = sp.betweenness(graph, solver="near-far")
    # A thread of an earlier call that failed may still add a row.
    assert set(added_on_host) == set(range(40))
    assert "does not fit the GPU, so the CPU adds it up" in caplog.text
    assert found == sp.betweenness(graph, solver="dijkstra")
