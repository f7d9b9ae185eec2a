"""Children compile the searches that `auto` times, and the search that verifies a sample."""

from __future__ import annotations

import pytest

#: Compiles the groups, and prints which kernels searches of a graph still need.
PROGRAM = """
import json, sys
import numpy as np
from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.compile_ahead import ORACLE, SEARCHES
from sssp_pipeline.kernels.host.search_graph import as_searched
made = grid(60, 40)
graph = csr_from_edges(made.src, made.dst, made.weights.astype(sys.argv[1]), made.n_vertices)
dtype = as_searched(graph, graph.weights).dtype
for group in (SEARCHES, ORACLE):
    assert not group.is_compiled(dtype)
    group.compile_for(dtype)
    assert group.is_compiled(dtype)
n_ahead = len(names)
for name in ("delta-stepping", "dijkstra"):
    found = SOLVERS[name].solve(graph, np.array([7]), SolveOptions(kept=Nothing()))
    assert found.metrics[0].reached == 2400
print(json.dumps([n_ahead, names[n_ahead:]]))
"""


@pytest.mark.medium
@pytest.mark.parametrize("dtype", ["uint32", pytest.param("int64", marks=pytest.mark.slow)])
def test_searches_need_no_other_kernels(printed, dtype):
    n_ahead, later = printed(PROGRAM, dtype)
    assert n_ahead > 0
    assert later == []
