"""The kernels of searches, as groups that children compile ahead (`base/compile_children.py`)."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu import delta_stepping, dijkstra
from sssp_pipeline.kernels.cpu.cpu_solver import CpuSolver
from sssp_pipeline.kernels.host.search import finish_row


def compile_searches(dtype: np.dtype) -> None:
    """Compile the searches that `auto` times."""
    _compile(delta_stepping.DeltaStepping(), dtype)


def compile_oracle(dtype: np.dtype) -> None:
    """Compile the searches that verify a sample."""
    _compile(dijkstra.Dijkstra(), dtype)


def _compile(solver: CpuSolver, dtype: np.dtype) -> None:
    """Compile what summarises a row, and then the searches of `solver`."""
    one_edge = CsrGraph(np.array([0, 1, 1]), np.array([1], np.uint32), np.ones(1, dtype))
    finish_row(one_edge, 0, np.array([0, 1], dtype), None)
    solver.solve(one_edge, np.zeros(1, np.uint32), SolveOptions(kept=Nothing()))


SEARCHES = KernelGroup(compile_searches, delta_stepping._search, lambda types: types[1].dtype.name)
ORACLE = KernelGroup(compile_oracle, dijkstra._search, lambda types: types[1].dtype.name)
