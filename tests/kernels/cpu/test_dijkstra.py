import numpy as np
import pytest

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.generators import rmat
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import NO_PLACE, Dijkstra


@pytest.fixture(scope="module")
def skewed():
    made = rmat(scale=11, edge_factor=8)
    return csr_from_edges(made.src, made.dst, made.weights, made.n_vertices)


def test_every_reached_vertex_is_processed_once(skewed):
    for metrics in Dijkstra().solve(skewed, np.arange(8), SolveOptions()).metrics:
        assert metrics.vertices_processed == metrics.reached
        assert metrics.delta_first is metrics.delta_last is None


def test_the_heap_is_empty_after_a_search(skewed):
    search = Dijkstra().start(skewed, SolveOptions())
    search.run(np.full(skewed.n_vertices, 50, np.uint32), int(np.diff(skewed.row_offsets).argmax()))
    assert (search._places == NO_PLACE).all()


def test_a_delta_is_refused(skewed):
    with pytest.raises(InputError) as caught:
        Dijkstra().solve(skewed, np.array([0]), SolveOptions(delta=5))
    assert caught.value.message == (
        "solver `dijkstra` cannot solve this: it has no buckets and takes no delta, and delta is 5"
    )
