"""Sums along the paths of the parts of a call whose rows stay on the device; see `paths_of_parts.py`."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from passed_paths import graph_for, random_amounts

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.generators import road_like
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.answers.trip_sums import TripSumsAsked
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.packed_words import PackedWords, packed
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.rows import path_sums_on_device
from sssp_pipeline.kernels.gpu.common.solvers import batch_solver
from sssp_pipeline.kernels.gpu.common.solvers.paths_of_parts import PathsOfParts

EVERYTHING = PathSumsAsked(edges=True, squares=True, endpoints=True)
SOLVERS_OF_ROWS = ("adds-slots", "adds-lanes", "bits-gpu", "phast-gpu")

# ---- without a GPU ----


@given(n_sources=st.integers(1, 60), size=st.integers(1, 20), data=st.data())
def test_each_row_is_in_the_sums_of_its_part(n_sources, size, data):
    """A row has one value, which is added to the words; the device leaves some rows."""
    ends = sorted(data.draw(st.sets(st.integers(1, n_sources))) | {n_sources})
    is_left = np.array(data.draw(st.lists(st.booleans(), min_size=n_sources, max_size=n_sources)))

    class OnDevice:
        n_sets = data.draw(st.integers(1, 5))
        size = None
        words = np.zeros((n_sets, 1, 2), np.uint64)

        def add(self, rows, sources, sets):
            left = is_left[sources]
            np.add.at(self.words[:, 0, 1], sets[~left], rows[~left, 0].astype(np.uint64))
            return SimpleNamespace(
                sources=sources,
                left=lambda: np.flatnonzero(left),
                rows_of=lambda places: rows[places],
                totals=lambda: np.where(left[:, np.newaxis], 0.0, rows),
            )

        def wait(self):
            pass

        def take(self, number):
            words, self.words[number] = self.words[number].copy(), 0
            return PackedWords.of(words)

    class OnHost:
        def __init__(self):
            self.part_words = np.zeros((1, 2), np.uint64)

        def add(self, rows, sources):
            assert_array_equal(rows[:, 0], 7 + sources)
            self.part_words[0, 1] += np.sum(rows, dtype=np.uint64)
            return rows

    rows = 7.0 + np.arange(n_sources)[:, np.newaxis]
    paths = PathsOfParts(OnDevice(), np.arange(n_sources, dtype=np.uint32), ends, OnHost)
    # As `solve_batches`: a batch is launched before the one before it is finished.
    launched, totals = [], []
    for first in range(0, n_sources, size):
        launched.append(paths.add(rows[first : first + size]))
        if len(launched) == 2:
            totals.append(paths.finish(launched.pop(0)))
    totals += map(paths.finish, launched)
    assert_array_equal(np.concatenate(totals), rows)
    for first, end in zip([0, *ends], ends, strict=False):
        assert paths.words_of_part().unpacked(1).tolist() == [[0, rows[first:end].sum()]]


@pytest.mark.parametrize("name", [name for name in SOLVERS if SOLVERS.device_of(name) == "gpu"])
def test_solvers_of_many_sources_sum_and_no_gpu_takes_trips(name):
    traits = road_like(vertices=400, seed=2).graph("uint32").traits
    solver = SOLVERS[name]
    reason = solver.supports(traits, SolveOptions(kept=Reductions(paths=EVERYTHING)))
    if name in SOLVERS_OF_ROWS:
        assert reason is None or "weights" in reason
    else:
        assert reason == "it cannot sum along the shortest paths"
    trips = solver.supports(traits, SolveOptions(kept=Reductions(paths=TripSumsAsked())))
    assert trips == "solvers on a GPU take no trips"


# ---- with a GPU ----


def assert_as_by_dijkstra(name: str, graph: CsrGraph, sources, ends, cutoff=None, asked=EVERYTHING) -> None:
    over = OverSources(True, True, (1000,))
    options = SolveOptions(cutoff=cutoff, kept=Reductions((300,), over_sources=over, paths=asked))
    found, wanted = (SOLVERS[s].solve_parts(graph, sources, options, ends) for s in (name, "dijkstra"))
    for part, expected in zip(found, wanted, strict=True):
        for array, wanted_array in zip(packed(part.path_words), packed(expected.path_words), strict=True):
            assert_array_equal(array, wanted_array)
        assert_array_equal(part.over_sources, expected.over_sources)
        assert_array_equal(part.distances, expected.distances)


@pytest.mark.gpu
@pytest.mark.parametrize("name", SOLVERS_OF_ROWS)
def test_words_and_totals_are_those_of_the_cpu(name):
    graph = graph_for(name)
    sources = np.random.default_rng(1).integers(0, graph.n_vertices, 70).astype(np.uint32)
    for cuts in ([70], [3, 50, 51, 70]):
        assert_as_by_dijkstra(name, graph, sources, cuts)
    assert_as_by_dijkstra(name, graph, sources, [70], cutoff=graph.traits.max_weight * 3)
    assert_as_by_dijkstra(name, graph, sources, [70], asked=PathSumsAsked(vertices=False, edges=True))
    amounts = random_amounts(np.random.default_rng(2), graph.n_vertices)
    weighted = replace(EVERYTHING, is_weighted=True, amounts=replace(amounts, decay=0.001))
    assert_as_by_dijkstra(name, graph, sources, [3, 70], asked=weighted)
    assert_as_by_dijkstra(name, graph, sources[:0], [0])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["adds-slots", "adds-lanes"])
@pytest.mark.parametrize("batch", [(7, 2), (1, 1), (70, 1)])
def test_parts_and_device_batches_need_not_agree(monkeypatch, name, batch):
    monkeypatch.setattr(batch_solver, "device_batch", lambda *_: batch)
    graph = graph_for(name)
    sources = np.random.default_rng(1).integers(0, graph.n_vertices, 70).astype(np.uint32)
    for cuts in ([70], [3, 50, 51, 70], list(range(1, 71))):
        assert_as_by_dijkstra(name, graph, sources, cuts)


def diamonds(n: int, last: float = 1.0) -> CsrGraph:
    """Return a chain: 2^n shortest paths lead from end to end. Its last two edges have the weight `last`."""
    tops = 3 * np.arange(n)[:, np.newaxis]
    ends = np.concatenate([tops + 1, tops + 2, tops + 3, tops + 3], axis=1).ravel()
    weights = np.ones(len(ends), np.uint32 if last == 1 else np.float64)
    weights[-2:] = last
    counts = np.tile([2, 1, 1], n)
    return CsrGraph(np.append(np.append(0, np.cumsum(counts)), len(ends)), ends.astype(np.uint32), weights)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["adds-slots", "phast-gpu", "bits-gpu"])
def test_the_cpu_adds_rows_that_the_gpu_leaves(name):
    graph = diamonds(130)
    sources = np.array([300, 0, 3, 390, 1, 30, 0], np.uint32)
    amounts = random_amounts(np.random.default_rng(3), graph.n_vertices)
    assert not amounts.of_sources[sources].all()
    weighted = replace(EVERYTHING, is_weighted=True, amounts=amounts)
    for cuts, asked in product(([7], [1, 3, 4, 7]), (EVERYTHING, weighted)):
        assert_as_by_dijkstra(name, graph, sources, cuts, asked=asked)


@pytest.mark.gpu
def test_what_cannot_be_counted_is_the_same_error():
    messages = []
    for name in ("adds-slots", "dijkstra"):
        with pytest.raises(InputError) as caught:
            options = SolveOptions(kept=Reductions(paths=EVERYTHING))
            SOLVERS[name].solve(diamonds(3, last=1e-30), np.array([9, 0]), options)
        messages.append(caught.value.message)
    assert messages[0] == messages[1]
    # The memory of the call was given back: another one can begin.
    assert_as_by_dijkstra("adds-slots", diamonds(3), np.array([0], np.uint32), [1])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["adds-slots", "bits-gpu"])
def test_sums_that_do_not_fit(monkeypatch, name):
    monkeypatch.setattr(path_sums_on_device, "free_bytes", lambda: 1000)
    with pytest.raises(SsspError, match=f"one source of `{name}` does not fit the GPU beside the graph"):
        assert_as_by_dijkstra(name, graph_for(name), np.array([0], np.uint32), [1])
