import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges, unreached_distance
from sssp_pipeline.base.generators import grid, rmat
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu import parallel_delta_stepping, parallel_search
from sssp_pipeline.kernels.cpu.delta_stepping import pick_delta
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.cpu.parallel_delta_stepping import (
    CORES_LOCK,
    EDGES_A_THREAD,
    ParallelDeltaStepping,
)
from sssp_pipeline.kernels.cpu.parallel_search import SharedSearch
from sssp_pipeline.kernels.host.kernel_threads import (
    BROKEN,
    FAILED,
    LAST,
    ROUND,
    KernelThreads,
    release_barrier,
    wait_at_barrier,
)
from sssp_pipeline.kernels.host.numba_tools import ONE, atomic_add, atomic_min

FOREVER = float("inf")


def graph_of(made, dtype="uint32"):
    return csr_from_edges(made.src, made.dst, made.weights.astype(dtype), made.n_vertices)


def every_magnitude(dtype):
    """A lattice of weights from 1 to 2^53, so that most entries wait on a level beyond the window."""
    made = grid(rows=30, cols=30)
    weights = np.uint64(1) << np.random.default_rng(5).integers(0, 54, len(made.src), np.uint64)
    return csr_from_edges(made.src, made.dst, weights.astype(dtype), 900)


def search_of(graph, n_threads, delta=None, slow_ns=FOREVER):
    search = SharedSearch(graph, pick_delta(graph) if delta is None else delta, n_threads)
    search.slow_ns = slow_ns
    return search


def assert_finds(search, graph, sources):
    expected = Dijkstra().solve(graph, np.array(sources), SolveOptions())
    for source, row, metrics in zip(sources, expected.distances, expected.metrics, strict=True):
        found = np.full(graph.n_vertices, unreached_distance(graph.weight_dtype), graph.weight_dtype)
        processed, edges_relaxed = search.run(found, source)
        assert_array_equal(found, row)
        assert processed >= metrics.reached
        assert edges_relaxed >= metrics.edges_relaxed


# With more threads than cores, a waiting thread must give its core away.
@pytest.mark.parametrize(
    ("n_threads", "dtype"), [(1, "float32"), (2, "uint32"), (3, "uint64"), (8, "float64")]
)
def test_several_threads_find_what_one_thread_finds(n_threads, dtype):
    for graph in (graph_of(grid(rows=40, cols=40, keep=0.7), dtype), graph_of(rmat(scale=11), dtype)):
        for delta in (None, 1e6):
            assert_finds(search_of(graph, n_threads, delta), graph, [0, 799])


@pytest.mark.medium
@pytest.mark.parametrize("dtype", ["uint64", "float64"])
def test_all_threads_move_their_windows_at_the_same_time(dtype):
    graph = every_magnitude(dtype)
    assert_finds(search_of(graph, 3, delta=1.0), graph, [0, 450])


@pytest.mark.parametrize("dtype", ["uint32", "float64"])
def test_each_thread_makes_itself_memory(dtype):
    n_vertices = 300_000
    leaves = np.arange(2, n_vertices)
    hub = leaves % 2  # two hubs with far more leaves each than there are places at first
    graph = csr_from_edges(
        np.concatenate([[0, 1], hub, leaves]),
        np.concatenate([[1, 0], leaves, hub]),
        np.concatenate([[1, 1], leaves, leaves]).astype(dtype),
        n_vertices,
    )
    assert n_vertices / 2 > parallel_search.FIRST_BLOCKS * 16
    assert_finds(search_of(graph, 2, delta=1e6), graph, [0])
    assert_finds(search_of(graph, 2), graph, [5])


@pytest.mark.parametrize("slow_ns", [0.0, 1.0, 10.0, 100.0])
def test_threads_slower_than_one_hand_their_entries_to_the_first(slow_ns, monkeypatch):
    done = []
    run = KernelThreads.run
    monkeypatch.setattr(KernelThreads, "run", lambda self, part: done.append(run(self, part)) or done[-1])
    for graph in (graph_of(grid(rows=40, cols=40)), every_magnitude("uint64")):
        assert_finds(search_of(graph, 3, 1.0, slow_ns), graph, [0, 799])
    assert_finds(search_of(graph_of(rmat(scale=11)), 3, None, slow_ns), graph_of(rmat(scale=11)), [0])
    if slow_ns == 0:
        # The other threads did nothing, not even in the second round.
        assert [others for _, *others in done] == [[(0, 0), (0, 0)]] * 5


@pytest.mark.medium
def test_a_vertex_is_processed_once_when_no_distance_is_lowered_twice():
    graph = graph_of(grid(rows=40, cols=40))
    row = np.full(graph.n_vertices, 2**32 - 1, np.uint32)
    assert search_of(graph, 3, delta=1.0).run(row, 0) == (1600, graph.n_edges)


def test_threads_grow_with_the_edges():
    assert [parallel_delta_stepping.threads_for(n * EDGES_A_THREAD - 1) for n in (0, 1, 2, 3, 65)] == [
        1,
        1,
        1,
        2,
        64,
    ]


@pytest.fixture
def three_threads(monkeypatch):
    """Return a graph on which the solver starts three threads."""
    monkeypatch.setattr(parallel_delta_stepping, "EDGES_A_THREAD", 100)
    monkeypatch.setattr(parallel_delta_stepping, "usable_cores", lambda: 3)
    return graph_of(grid(rows=40, cols=40))


def kernel_threads():
    return [t for t in threading.enumerate() if t.name.startswith("sssp-kernel")]


@pytest.mark.medium
def test_threads_end_with_the_search(three_threads):
    search = ParallelDeltaStepping().start(three_threads, SolveOptions())
    assert_finds(search, three_threads, [0, 5])
    assert len(kernel_threads()) == 2
    del search
    gc.collect()
    for thread in kernel_threads():
        thread.join(timeout=60)
    assert not kernel_threads()


def test_calls_of_many_threads_take_turns(three_threads):
    sources = np.arange(0, 1600, 100)
    solver = ParallelDeltaStepping()
    alone = solver.solve(three_threads, sources, SolveOptions())
    with ThreadPoolExecutor(4) as pool:
        together = list(
            pool.map(lambda s: solver.solve(three_threads, s, SolveOptions()), np.split(sources, 8))
        )
    assert_array_equal(np.concatenate([t.distances for t in together]), alone.distances)


def test_waiting_for_the_cores_is_not_time_of_the_source(three_threads):
    solver = ParallelDeltaStepping()
    solver.solve(three_threads, np.array([0]), SolveOptions())
    with ThreadPoolExecutor(1) as pool:
        with CORES_LOCK:
            began = time.perf_counter()
            solving = pool.submit(solver.solve, three_threads, np.array([0]), SolveOptions())
            time.sleep(0.5)
            assert not solving.done()
            held_s = time.perf_counter() - began
        assert solving.result().metrics[0].solve_s < held_s


def test_a_graph_too_small_to_share_waits_for_nobody(three_threads, monkeypatch):
    monkeypatch.setattr(parallel_delta_stepping, "EDGES_A_THREAD", 10**9)
    with CORES_LOCK:
        assert ParallelDeltaStepping().solve(three_threads, np.array([0]), SolveOptions()).distances.any()


@pytest.mark.parametrize("failing", [0, 2])
def test_a_thread_that_fails_ends_the_search_for_all(three_threads, monkeypatch, failing):
    search = parallel_search._search

    def failing_search(number, *arguments):
        if number == failing:
            raise MemoryError("no more")
        return search(number, *arguments)

    monkeypatch.setattr(parallel_search, "_search", failing_search)
    solver = ParallelDeltaStepping()
    with pytest.raises(MemoryError, match="no more"):
        solver.solve(three_threads, np.array([0]), SolveOptions())
    monkeypatch.undo()
    assert solver.solve(three_threads, np.array([0]), SolveOptions()).metrics[0].reached == 1600


@njit(nogil=True)
def wait_often(barrier, n_threads, times, counts):
    """Return how often this thread was last, or a negative number if it missed a write from before the barrier."""
    lasts = 0
    for i in range(times):
        atomic_add(counts, 0, ONE)
        arrival = wait_at_barrier(barrier, n_threads)
        if arrival == FAILED:
            return -1
        if arrival == LAST:
            lasts += 1
            if counts[0] != n_threads * np.uint64(i + 1):
                return -2
            release_barrier(barrier)
        # No thread counts on before all have seen this.
        if counts[0] < n_threads * np.uint64(i + 1):
            return -3
    return lasts


@pytest.mark.medium
def test_all_threads_pass_the_barrier_and_one_is_the_last():
    threads = KernelThreads(3)
    counts = np.zeros(1, np.uint64)
    lasts = threads.run(lambda number: wait_often(threads.barrier, np.uint64(3), 2000, counts))
    assert min(lasts) >= 0
    assert sum(lasts) == threads.barrier[ROUND] == 2000
    assert counts[0] == 6000


def test_no_thread_waits_for_one_that_failed():
    threads = KernelThreads(3)

    def part(number):
        if number == 1:
            raise ValueError("not me")
        return wait_often(threads.barrier, np.uint64(3), 1, counts)

    counts = np.zeros(1, np.uint64)
    with pytest.raises(ValueError, match="not me"):
        threads.run(part)
    assert threads.barrier[BROKEN] == 1
    counts[0] = 0
    assert sum(threads.run(lambda number: wait_often(threads.barrier, np.uint64(3), 1, counts))) == 1


@pytest.mark.parametrize("dtype", ["uint32", "uint64", "float32", "float64"])
def test_the_least_of_what_all_threads_offer_is_kept(dtype):
    @njit(nogil=True)
    def lower(kept, offered):
        lowered = 0
        for i in range(np.uint32(len(offered))):
            lowered += offered[i] < atomic_min(kept, i % np.uint32(7), offered[i])
        return lowered

    offered = np.random.default_rng(3).permutation(300_000).astype(dtype)
    kept = np.full(7, unreached_distance(np.dtype(dtype)), dtype)
    parts = [offered[i * 70_000 : (i + 1) * 70_000] for i in range(4)]
    threads = KernelThreads(4)
    lowered = threads.run(lambda number: lower(kept, parts[number]))
    assert_array_equal(kept, [min(part[i::7].min() for part in parts) for i in range(7)])
    assert sum(lowered) >= 7
