"""A child compiles the kernels after the completion, while this process makes the completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from sssp_pipeline.kernels.host.kernel_threads import usable_cores

#: Solves in an environment without compiled kernels. Prints which kernels this process compiles, and whether the cache
#: has those of the child, before and after.
PROGRAM = """
import json, sys
import numpy as np
from numba.core import event
from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy.compile_ahead import is_compiled
from sssp_pipeline.kernels.registry import SOLVERS
names = []
class Compiled(event.Listener):
    def on_start(self, event):
        function = event.data["dispatcher"].py_func
        names.append(f"{function.__module__}.{function.__name__}")
    def on_end(self, event):
        pass
event.register("numba:compile", Compiled())
made = grid(12, 9)
graph = csr_from_edges(made.src, made.dst, made.weights.astype(sys.argv[1]), made.n_vertices)
before = is_compiled(graph)
rows = [SOLVERS[name].solve(graph, np.arange(20), SolveOptions()).distances for name in ("phast", "dijkstra")]
print(json.dumps([before, is_compiled(graph), bool((rows[0] == rows[1]).all()), names]))
"""
OF_CHILD = ("customization", "arcs", "sweep", "tiles", "lanes")


@pytest.mark.medium
@pytest.mark.skipif(usable_cores() < 2, reason="one core compiles nothing ahead")
@pytest.mark.parametrize("dtype", ["int32", pytest.param("uint64", marks=pytest.mark.slow)])
def test_a_child_compiles_what_follows_the_completion(tmp_path, dtype):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM, dtype]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    before, after, is_equal, names = json.loads(done.stdout)
    assert (before, after, is_equal) == (False, True, True)
    here = [name.removeprefix("sssp_pipeline.kernels.hierarchy.") for name in names]
    assert "arc_completion._list_arcs" in here
    assert [name for name in here if name.partition(".")[0] in OF_CHILD] == []
