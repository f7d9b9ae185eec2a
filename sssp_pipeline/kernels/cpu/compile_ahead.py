"""The kernels of searches that `auto` times, as a group that a child compiles ahead (`base/compile_children.py`)."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup
from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.kernels.contract.kept import Nothing
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu import delta_stepping
from sssp_pipeline.kernels.host.search import finish_row


def compile_searches(dtype: np.dtype) -> None:
    """Compile what summarises a row, and then the searches of `delta-stepping`."""
    one_edge = CsrGraph(np.array([0, 1, 1]), np.array([1], np.uint32), np.ones(1, dtype))
    finish_row(one_edge, 0, np.array([0, 1], dtype), None)
    solver = delta_stepping.DeltaStepping()
    solver.solve(one_edge, np.zeros(1, np.uint32), SolveOptions(kept=Nothing()))


SEARCHES = KernelGroup(compile_searches, delta_stepping._search, lambda types: types[1].dtype.name)
