"""The parts of a hierarchy against slow definitions of them: elimination, ways through triangles, distances."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import NO_VERTEX, csr_from_edges
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.generators import dense, grid, path, road_like, star
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.hierarchy.completion import arc_completion, costs, customization
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import complete, completion_of, count
from sssp_pipeline.kernels.hierarchy.completion.arcs import marked_arcs
from sssp_pipeline.kernels.hierarchy.completion.customization import customize
from sssp_pipeline.kernels.hierarchy.dividing import coarsening, cuts, flows
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes, order
from sssp_pipeline.kernels.hierarchy.ordering.order import elimination_order, neighbours_of

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=100, suppress_health_check=[HealthCheck.too_slow]
)

NEEDS_METIS = pytest.mark.skipif(metis_processes.package() is None, reason="`pymetis` is not installed")


def graph_of(made):
    return csr_from_edges(made.src, made.dst, made.weights, made.n_vertices)


@st.composite
def graphs(draw):
    """Any edges with loops, parallels and zeros."""
    n = draw(st.integers(1, 25))
    vertex, weight = st.integers(0, n - 1), st.sampled_from([0, 0, 1, 1, 2, 5, 2**32 - 2])
    edges = draw(st.lists(st.tuples(vertex, vertex, weight), max_size=70))
    src, dst, weights = np.array(edges, np.int64).reshape(-1, 3).T
    return csr_from_edges(src, dst, weights.astype(np.uint32), n)


def upper_neighbours(made):
    """Return the set of upper neighbours of each rank."""
    return [set(made.arc_heads[a:b].tolist()) for a, b in pairwise(made.arc_offsets)]


def eliminated(graph, ranks):
    """Return what `upper_neighbours` returns, by the game of eliminating one vertex after the other."""
    around = [set() for _ in range(graph.n_vertices)]
    for u in range(graph.n_vertices):
        for v in graph.col_indices[graph.row_offsets[u] : graph.row_offsets[u + 1]].tolist():
            if u != v:
                around[ranks[u]].add(int(ranks[v]))
                around[ranks[v]].add(int(ranks[u]))
    for v in range(graph.n_vertices):
        around[v] = {u for u in around[v] if u > v}
        for u in around[v]:
            around[u] |= around[v] - {u}
    return around


@pytest.mark.medium
@EXAMPLES
@given(graph=graphs())
def test_arcs_are_those_of_the_elimination_game(graph):
    made = completion_of(graph)
    assert sorted(made.ranks.tolist()) == list(range(graph.n_vertices))
    expected = eliminated(graph, made.ranks)
    assert upper_neighbours(made) == expected
    assert made.parents.tolist() == [min(above, default=int(NO_VERTEX)) for above in expected]
    assert made.n_triangles == sum(len(above) * (len(above) - 1) // 2 for above in expected)
    for v, above in enumerate(expected):
        heads = made.arc_heads[made.arc_offsets[v] : made.arc_offsets[v + np.uint64(1)]]
        assert heads.tolist() == sorted(above)


def test_what_metis_orders_is_eliminated_right_too(monkeypatch):
    monkeypatch.setattr(order, "FEW", 0)
    for graph in (graph_of(grid(6, 7)), graph_of(dense(9)), graph_of(grid(5, 5, keep=0.8))):
        made = completion_of(graph)
        assert upper_neighbours(made) == eliminated(graph, made.ranks)


@pytest.mark.medium
@EXAMPLES
@given(graph=graphs())
def test_kept_arcs_are_distances_and_left_out_arcs_are_longer(graph):
    made = completion_of(graph)
    hierarchy = customize(made, graph)
    by_vertex = Dijkstra().solve(graph, np.arange(graph.n_vertices), _ANY)
    distances = np.empty_like(by_vertex.distances)
    distances[np.ix_(made.ranks, made.ranks)] = by_vertex.distances
    for arcs, between in ((hierarchy.up, distances), (hierarchy.down, distances.T)):
        tails = np.repeat(np.arange(graph.n_vertices), np.diff(arcs.offsets.astype(np.int64)))
        assert_array_equal(arcs.weights, between[tails, arcs.heads])
    # Each edge that is as long as the distance between its ends is kept: ties must not be left out.
    src = np.repeat(np.arange(graph.n_vertices), np.diff(graph.row_offsets))
    for u, v, weight in zip(src, graph.col_indices, graph.weights, strict=True):
        low, high = sorted((int(made.ranks[u]), int(made.ranks[v])))
        if u != v and weight == by_vertex.distances[u, v]:
            arcs = hierarchy.up if made.ranks[u] < made.ranks[v] else hierarchy.down
            assert high in arcs.heads[arcs.offsets[low] : arcs.offsets[low + 1]]


@pytest.mark.medium
@pytest.mark.parametrize("dtype", ["uint32", "int64"])
def test_threads_that_share_a_large_graph_make_the_same_hierarchy(dtype):
    for made in (road_like(20_000), grid(70, 90, keep=0.7), dense(40), star(50), path(3000)):
        made_graph = csr_from_edges(made.src, made.dst, made.weights.astype(dtype), made.n_vertices)
        one_way = csr_from_edges(
            made.src[::3], made.dst[::3], made.weights[::3].astype(dtype), made.n_vertices
        )
        for graph in (made_graph, one_way):
            around = neighbours_of(graph)
            order = elimination_order(*around)
            first = customize(complete(*around, order, 1), graph, 1)
            for n_threads in (2, 3, 7):
                assert_same_hierarchies(
                    first, customize(complete(*around, order, n_threads), graph, n_threads)
                )


def assert_same_hierarchies(one, other):
    assert (one.up is one.down) == (other.up is other.down)
    assert one.completion.n_triangles == other.completion.n_triangles
    parts = [(*vars(h.completion).values(), *h.up, *h.down) for h in (one, other)]
    for array, expected in zip(*parts, strict=True):
        assert_array_equal(array, expected)


#: The largest distance that fits would be an error of another test.
_ANY = SolveOptions(cutoff=2**32 - 2)


def test_directions_are_one_if_every_weight_is_the_same_both_ways():
    both = graph_of(grid(12, 12, keep=0.7))
    hierarchy = customize(completion_of(both), both)
    assert hierarchy.up is hierarchy.down
    one_way = csr_from_edges(np.array([0, 1]), np.array([1, 2]), np.array([3, 4], np.uint32), 3)
    hierarchy = customize(completion_of(one_way), one_way)
    assert len(hierarchy.up.heads) + len(hierarchy.down.heads) == 2


def depth(made):
    """Return the vertices on the longest path of the elimination tree."""
    depths = np.ones(made.n_vertices, int)
    for v in range(made.n_vertices - 1, -1, -1):
        if made.parents[v] != NO_VERTEX:
            depths[v] = depths[made.parents[v]] + 1
    return depths.max()


def test_a_long_path_becomes_a_low_tree():
    assert depth(completion_of(graph_of(path(2**14)))) <= 2 * 14


def test_a_star_takes_one_arc_a_leaf():
    made = completion_of(graph_of(star(300_000)))
    assert (made.n_arcs, made.n_triangles, depth(made)) == (299_999, 0, 2)


def test_ways_round_a_hub_are_left_to_metis():
    # Each of 2,000 vertices of degree 2 lies between the same two hubs.
    leaves = np.arange(2, 2002)
    src, dst = np.concatenate([leaves, leaves]), np.concatenate([np.zeros_like(leaves), np.ones_like(leaves)])
    made = completion_of(csr_from_edges(src, dst, np.ones(4000, np.uint32), 2002))
    assert made.n_arcs <= 4000 + 2001


def test_nested_dissection_keeps_roads_sparse():
    graph = graph_of(road_like(20_000))
    made = completion_of(graph)
    assert made.n_arcs < 6 * graph.n_vertices
    in_given_order = complete(*neighbours_of(graph), np.arange(graph.n_vertices, dtype=np.uint32))
    assert made.n_arcs < in_given_order.n_arcs / 3


def test_the_order_is_the_same_every_time():
    offsets, neighbours = neighbours_of(graph_of(grid(40, 40)))
    assert_array_equal(elimination_order(offsets, neighbours), elimination_order(offsets, neighbours))


@pytest.mark.medium
@EXAMPLES
@given(graph=graphs(), data=st.data())
def test_arcs_are_counted_without_listing_them(graph, data):
    order = np.array(data.draw(st.permutations(range(graph.n_vertices))), np.uint32)
    around = neighbours_of(graph)
    counted, made = count(*around, order), complete(*around, order)
    expected = list(map(len, eliminated(graph, made.ranks)))
    assert counted.counts.tolist() == np.diff(made.arc_offsets).tolist() == expected
    assert counted.n_arcs == made.n_arcs == sum(expected)
    assert counted.n_triangles == made.n_triangles
    assert counted.largest_front == made.largest_front == max(expected)


def test_separators_that_are_too_large_are_refused(monkeypatch):
    graph = graph_of(grid(20, 20))
    monkeypatch.setattr(costs, "MOST_ARCS", 100)
    message = r"^no hierarchy of this graph can be made: it would have [\d,]+ arcs, and 100 is the most"
    with pytest.raises(InputError, match=message) as caught:
        completion_of(graph)
    assert "use `delta-stepping` or `auto`" in caught.value.hint
    monkeypatch.undo()
    monkeypatch.setattr(arc_completion, "free_memory_bytes", lambda: 1000)
    with pytest.raises(InputError, match=r"its [\d,]+ arcs take about 0.0 MB of memory, and 0.0 MB are free"):
        completion_of(graph)


def ordered_by_metis(graph, monkeypatch, n_parts, least=40):
    """Return the order that METIS gives. Graphs and parts of `least` vertices are cut, if `n_parts` is not 1."""
    monkeypatch.setattr(metis_processes, "CUT_VERTICES", 2**31 if n_parts == 1 else least)
    monkeypatch.setattr(metis_processes, "N_QUARTERS", n_parts)
    monkeypatch.setattr(flows, "MOST_IN_SEPARATOR", 1.0)
    with metis_processes.Metis() as processes:
        return processes.order(*neighbours_of(graph))


def test_threads_list_the_same_neighbours(monkeypatch):
    random = np.random.default_rng(3)
    graph = csr_from_edges(*random.integers(0, 60, (2, 300)), np.ones(300, np.uint32), 60)
    monkeypatch.setattr(order, "_LEAST_PART", 10)
    offsets, neighbours = neighbours_of(graph, 7)
    for one, other in zip(neighbours_of(graph, 1), (offsets, neighbours), strict=True):
        assert_array_equal(one, other)
    src = np.repeat(np.arange(60), np.diff(graph.row_offsets))
    for v, found in enumerate(np.split(neighbours, offsets[1:-1].astype(int))):
        around = {*graph.col_indices[src == v], *src[graph.col_indices == v]} - {v}
        assert sorted(found.tolist()) == sorted(around)


@pytest.mark.medium
@NEEDS_METIS
def test_large_graphs_are_cut_before_metis_orders_the_parts(monkeypatch):
    one_part, parts = graph_of(grid(20, 30, keep=0.9)), graph_of(grid(9, 40, keep=0.45))
    for graph in (one_part, parts, graph_of(dense(60)), graph_of(star(100)), graph_of(path(300))):
        for n_parts in (1, 2, 4):
            order = ordered_by_metis(graph, monkeypatch, n_parts)
            assert sorted(order.tolist()) == list(range(graph.n_vertices))
            made = complete(*neighbours_of(graph), order)
            assert upper_neighbours(made) == eliminated(graph, made.ranks)
    uncut, cut = (
        complete(*neighbours_of(one_part), ordered_by_metis(one_part, monkeypatch, n)) for n in (1, 4)
    )
    assert cut.n_arcs < 1.1 * uncut.n_arcs
    assert_array_equal(*(ordered_by_metis(graph_of(dense(60)), monkeypatch, n) for n in (1, 4)))


@NEEDS_METIS
def test_the_order_does_not_depend_on_the_number_of_cores(monkeypatch):
    graph, orders = graph_of(grid(30, 40)), []
    for n_cores in (1, 5):
        monkeypatch.setattr(metis_processes, "usable_cores", lambda n=n_cores: n)
        orders.append(ordered_by_metis(graph, monkeypatch, 4, least=250))
    assert_array_equal(*orders)


@NEEDS_METIS
def test_a_graph_without_small_separators_is_not_cut_again(monkeypatch):
    send, requests = metis_processes.MetisProcess.send, []
    monkeypatch.setattr(
        metis_processes.MetisProcess, "send", lambda *given: requests.append(given[1]) or send(*given)
    )
    monkeypatch.setattr(metis_processes, "CUT_VERTICES", 50)
    graph = graph_of(dense(60))
    with metis_processes.Metis() as processes:
        order = processes.order(*neighbours_of(graph))
    assert sorted(order.tolist()) == list(range(60))
    assert requests == [metis_processes.QUARTERS, metis_processes.ORDER]


@pytest.mark.medium
@given(data=st.data())
@EXAMPLES
def test_halves_are_separated_and_keep_their_edges(data):
    graph = data.draw(graphs())
    n = graph.n_vertices
    sides = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.bool_)
    names = np.arange(n, dtype=np.uint32) * np.uint32(3)
    offsets, neighbours = neighbours_of(graph)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(flows, "MOST_IN_SEPARATOR", 1.0)
        found = cuts.divided(cuts.Subgraph(names, offsets, neighbours), sides)
        by_side = flows.separated(offsets, neighbours, sides)
    pairs = [(u, int(v)) for u in range(n) for v in neighbours[offsets[u] : offsets[u + 1]]]
    if found is None:
        assert 0 in np.bincount(by_side, minlength=3)[:2]
        return
    halves, separator = found
    of_halves = [half.vertices.tolist() for half in halves]
    assert sorted([*of_halves[0], *of_halves[1], *separator.tolist()]) == names.tolist()
    assert not any((3 * u in of_halves[0]) and (3 * v in of_halves[1]) for u, v in pairs)
    for half, vertices in zip(halves, of_halves, strict=True):
        kept = {
            (vertices[u], vertices[v])
            for u in range(len(vertices))
            for v in half.neighbours[half.offsets[u] : half.offsets[u + 1]]
        }
        assert kept == {(3 * u, 3 * v) for u, v in pairs if {3 * u, 3 * v} <= set(vertices)}


class Interrupted(BaseException):
    pass


@pytest.mark.medium
@pytest.mark.parametrize("after_s", [0.02, 0.7])
@NEEDS_METIS
def test_an_interrupt_ends_every_process_of_metis(monkeypatch, after_s):
    def interrupted(*_):
        if started:
            signal.setitimer(signal.ITIMER_REAL, 0)  # only once
            raise Interrupted

    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        subprocess, "Popen", lambda *given, **named: started.append(popen(*given, **named)) or started[-1]
    )
    around = neighbours_of(graph_of(grid(600, 600)))
    coarsening.compile_coarsening(np.dtype(np.uint32))  # numba loses an interrupt while it loads kernels
    before = signal.signal(signal.SIGALRM, interrupted)
    try:
        with pytest.raises(Interrupted):
            signal.setitimer(signal.ITIMER_REAL, after_s, 0.2)
            with metis_processes.Metis() as processes:
                processes.order(*around)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert all(process.returncode == -signal.SIGKILL for process in started)
    assert not any(psutil.pid_exists(process.pid) for process in started)


@NEEDS_METIS
def test_more_neighbours_than_metis_counts_are_refused(monkeypatch):
    monkeypatch.setattr(metis_processes, "MOST", 100)
    with pytest.raises(
        InputError, match=r"the graph has \d+ pairs of neighbours, more than METIS takes \(100\)"
    ):
        completion_of(graph_of(grid(20, 20)))


def test_a_metis_that_does_not_start_is_an_error(monkeypatch, tmp_path):
    (tmp_path / "_internal.py").write_text("raise ImportError('no such library')")
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(metis_processes, "package", lambda: found)
    with pytest.raises(SsspError, match=r"^METIS does not start: exit code 1; ImportError: no such library$"):
        completion_of(graph_of(grid(20, 20)))


@pytest.mark.parametrize("n_parts", [1, 4])
@NEEDS_METIS
def test_a_metis_that_fails_is_an_error(monkeypatch, n_parts):
    send, receive, requests = metis_processes.MetisProcess.send, metis_processes.MetisProcess.receive, []

    def sent(process, request, part):
        requests.append(request)
        send(process, request, part)

    def killed(process, n_vertices):
        if requests[-1] == metis_processes.ORDER:
            process._child.kill()
        return receive(process, n_vertices)

    monkeypatch.setattr(metis_processes.MetisProcess, "send", sent)
    monkeypatch.setattr(metis_processes.MetisProcess, "receive", killed)
    with pytest.raises(SsspError, match=r"^METIS failed to order [\d,]+ vertices: exit code -9; $"):
        ordered_by_metis(graph_of(grid(200, 200)), monkeypatch, n_parts)


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc gives memory back")
@NEEDS_METIS
def test_after_a_cut_metis_gives_its_memory_back():
    offsets, neighbours = neighbours_of(graph_of(grid(200, 200)))
    whole = cuts.Subgraph(np.arange(40_000, dtype=np.uint32), offsets, neighbours)
    with metis_processes.MetisProcess() as metis:
        memory = psutil.Process(metis._child.pid).memory_info
        metis.send(metis_processes.ORDER, whole)
        metis.receive(40_000)
        held_bytes, until = memory().rss, time.monotonic() + 10
        metis.send(metis_processes.QUARTERS, whole)
        metis.receive(40_000)
        while memory().rss > 0.8 * held_bytes and time.monotonic() < until:
            time.sleep(0.01)
        assert memory().rss <= 0.8 * held_bytes


@pytest.mark.medium
@NEEDS_METIS
def test_sigterm_and_other_threads_go_on_while_metis_orders(tmp_path):
    offsets, neighbours = neighbours_of(graph_of(grid(150, 150)))
    np.savez(tmp_path / "graph.npz", offsets=offsets, neighbours=neighbours)
    program = """if True:
        import os, signal, sys, threading, time
        import numpy as np
        from sssp_pipeline.kernels.hierarchy.ordering.metis_processes import Metis
        signals = []
        signal.signal(signal.SIGTERM, lambda *_: signals.append(time.monotonic()))
        graph = np.load(sys.argv[1])
        found = []
        def order():
            with Metis() as metis:
                found.append(metis.order(graph["offsets"], graph["neighbours"]))
        thread = threading.Thread(target=order)
        thread.start()
        while thread.is_alive():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.01)
        assert len(signals) > 3
        assert sorted(found[0].tolist()) == list(range(len(graph["offsets"]) - 1))
    """
    command = [sys.executable, "-c", program, tmp_path / "graph.npz"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def fuzz(monkeypatch):
    """Give the fuzzer as a module."""
    pytest.importorskip("pymetis")
    spec = spec_from_file_location("hierarchy_fuzz", Path(__file__).with_name("fuzz.py"))
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.medium
def test_random_graphs_equal_dijkstra(fuzz, capsys):
    assert fuzz.run(7, range(250), "phast") == 0, capsys.readouterr().out


@pytest.mark.medium
def test_the_fuzzer_finds_an_arc_that_is_missing(fuzz, monkeypatch, capsys):
    def without_last(completion, weights, keeps, division):
        keeps[-1:] = False
        return marked_arcs(completion, weights, keeps, division)

    monkeypatch.setattr(customization, "marked_arcs", without_last)
    assert fuzz.run(1, range(20), "phast") > 0
    assert "FAILURE seed 1 graph" in capsys.readouterr().out
