"""Children compile the searches that `auto` times, and the search that verifies a sample."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

#: Compiles the groups, and prints which kernels searches of a graph still need.
PROGRAM = """
import json, sys
import numpy as np
from numba.core import event
from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.compile_ahead import ORACLE, SEARCHES
from sssp_pipeline.kernels.host.search_graph import as_searched
names = []
class Compiled(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        names.append(f"{function.__module__}.{function.__name__}")
    def on_end(self, event):
        pass
event.register("numba:compile", Compiled())
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
def test_searches_need_no_other_kernels(tmp_path, dtype):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, dtype]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    n_ahead, later = json.loads(done.stdout)
    assert n_ahead > 0
    assert later == []
