"""Graphs of more than 2^32 edges on a GPU: row offsets take 64 bits, and every edge of interest lies beyond 2^32."""

from __future__ import annotations

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.generators import grid
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.forecast import MOST_EDGES_IN_32_BITS
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import cupy_module
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import device_graph, obtainable_bytes

#: Edges of vertex 0 to itself. They come first, so the rows of all other vertices begin beyond 2^32.
N_PADDED = 2**32 + 2**21


def padded(graph: CsrGraph) -> CsrGraph:
    """Return `graph` with a new vertex 0 in front of it, which no path reaches and which has `N_PADDED` self-loops.

    The self-loops are pages of zeros that nothing writes, so they take no host memory.
    """
    col_indices = np.zeros(N_PADDED + graph.n_edges, np.uint32)
    weights = np.zeros(N_PADDED + graph.n_edges, graph.weight_dtype)
    col_indices[N_PADDED:] = graph.col_indices + 1
    weights[N_PADDED:] = graph.weights
    return CsrGraph(np.concatenate([[0], graph.row_offsets + N_PADDED]), col_indices, weights)


@pytest.mark.gpu
def test_every_solver_finds_edges_beyond_2_to_the_32():
    if "PYTEST_XDIST_WORKER" in os.environ:
        pytest.skip("it takes all memory of the GPU: run it without -n")
    _, memory = cupy_module().cuda.runtime.memGetInfo()
    if memory < 100 * 2**30:
        pytest.skip(f"the GPU has {memory / 2**30:.0f} GiB of memory, this test needs 100")
    small = grid(rows=40, cols=50).graph()
    large = padded(small)
    assert large.n_edges > MOST_EDGES_IN_32_BITS
    sources = np.array([0, 999, 1999], np.uint32)
    expected = SOLVERS["delta-stepping"].solve(small, sources, SolveOptions()).distances
    # The mean weight and degree of the padded graph say nothing about the edges of interest.
    delta = SolveOptions(delta=small.traits.mean_weight)

    solved, refused = [], {}
    for solver in SOLVERS.values():
        if solver.device != "gpu" or solver.takes_equal_only:
            continue
        options = delta if solver.supports(large.traits, delta) is None else SolveOptions()
        forecast = solver.forecast(large.traits, len(sources))
        needed = device_graph(large).device_bytes + forecast.fixed_bytes + 3 * forecast.source_bytes
        if needed > obtainable_bytes():
            refused[solver.name] = f"{needed / 2**30:.0f} GiB"
            continue
        distances = solver.solve(large, sources + 1, options).distances
        assert_array_equal(distances[:, 1:], expected, err_msg=solver.name)
        assert (distances[:, 0] == np.iinfo(np.uint32).max).all(), solver.name
        solved.append(solver.name)
    assert len(solved) >= 6, f"too large for this GPU: {refused}"
