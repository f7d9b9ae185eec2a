"""How device batches become the parts of a call; see `batch_pipeline.py`."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.generators import road_like
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.answers.reductions import Reductions
from sssp_pipeline.kernels.contract.kept import EveryVertex, Nothing, Targets
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.compile import cupy_module
from sssp_pipeline.kernels.gpu.common.solvers import batch_solver
from sssp_pipeline.kernels.gpu.common.solvers.batch_pipeline import WordsOfParts


@given(n_sources=st.integers(1, 60), size=st.integers(1, 20), data=st.data())
def test_what_is_kept_over_sources_is_cut_where_parts_end(n_sources, size, data):
    inner = data.draw(st.sets(st.integers(1, n_sources))) | {n_sources}
    ends, added, taken = sorted(inner), [], []

    class OnDevice:
        def add(self, rows, first):
            assert rows.tolist() == list(range(first, first + len(rows)))
            added.extend(rows.tolist())

        def take(self):
            taken.append(list(added))
            added.clear()
            return len(taken)

    words = WordsOfParts(OnDevice(), ends)
    for first in range(0, n_sources, size):
        words.add(np.arange(first, min(first + size, n_sources)))
    assert taken == [list(range(first, end)) for first, end in zip([0, *ends], ends, strict=False)]
    assert list(words.ended) == list(range(1, len(ends) + 1))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["adds-slots", "adds-lanes"])
@pytest.mark.parametrize("batch", [(7, 2), (64, 2), (1, 1), (200, 1)])
def test_parts_and_device_batches_need_not_agree(monkeypatch, name, batch):
    graph = road_like(vertices=3000, seed=3).graph()
    sources = np.random.default_rng(1).integers(0, graph.n_vertices, 200).astype(np.uint32)
    true = SOLVERS["delta-stepping"].solve(graph, sources, SolveOptions())
    monkeypatch.setattr(batch_solver, "device_batch", lambda *_: batch)
    cuts = [200], [3, 50, 120, 121, 200], list(range(1, 201))
    for kept, columns in ((EveryVertex(), slice(None)), (Targets(np.array([5, 0])), [5, 0]), (Nothing(), [])):
        options = SolveOptions(kept=kept, row_facts=True)
        for ends in cuts:
            parts = list(SOLVERS[name].solve_parts(graph, sources, options, ends))
            assert_array_equal(np.concatenate([p.distances for p in parts]), true.distances[:, columns])
            reached = [m.reached for part in parts for m in part.metrics]
            assert reached == [m.reached for m in true.metrics]
            for part in parts:
                assert (part.facts is None) == (kept == Nothing())
                if part.facts is not None:
                    assert_array_equal(part.facts.largest[:, 0], part.distances.max(axis=1))
    over = OverSources(True, True, (1000, 5000))
    options = SolveOptions(kept=Reductions(over_sources=over))
    for ends in cuts:
        found = [SOLVERS[solver].solve_parts(graph, sources, options, ends) for solver in (name, "dijkstra")]
        for part, wanted in zip(*found, strict=True):
            assert_array_equal(part.over_sources, wanted.over_sources)
        into = cupy_module().empty(true.distances.shape, np.uint32)
        list(SOLVERS[name].solve_parts(graph, sources, SolveOptions(into=into), ends))
        assert_array_equal(into.get(), true.distances)
