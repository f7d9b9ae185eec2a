"""Hierarchies of real graphs: the quality of their order, and distances where fronts are large."""

from __future__ import annotations

import numpy as np
import pytest

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.generators import hashed_weights
from sssp_pipeline.kernels import SOLVERS
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import count
from sssp_pipeline.kernels.hierarchy.ordering.order import elimination_order, neighbours_of
from sssp_pipeline.pipeline.formats.detect import open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions

pytestmark = [
    pytest.mark.data,
    pytest.mark.slow,
]


def read_both_ways(path):
    """Return the graph in a file, with every edge in both directions and weights of 1 to 100."""
    edges = open_edge_list([str(path)], ReadOptions())
    chunks = list(edges.chunks())
    src, dst = (np.concatenate([getattr(c, end) for c in chunks]) - edges.first_id for end in ("src", "dst"))
    weights = hashed_weights(src, dst, 100).astype(np.uint32)
    src, dst, weights = np.append(src, dst), np.append(dst, src), np.append(weights, weights)
    return csr_from_edges(src, dst, weights, int(src.max()) + 1)


@pytest.mark.parametrize(
    ("name", "most_triangles"),
    [
        ("USA-road-d.NY.gr.gz", 9.5e6),
        ("wing.graph", 1.3e9),
        ("Email-Enron.txt", 2.1e9),
        ("web-NotreDame.txt.gz", 3.2e9),
    ],
)
def test_orders_keep_their_quality(data_file, name, most_triangles):
    around = neighbours_of(read_both_ways(data_file(name)))
    assert count(*around, elimination_order(*around)).n_triangles < most_triangles


def test_distances_are_exact_where_fronts_are_large(data_file):
    graph = read_both_ways(data_file("web-NotreDame.txt.gz"))
    sources = np.random.default_rng(4).integers(0, graph.n_vertices, 20).astype(np.uint32)
    found, expected = (
        SOLVERS[name].solve(graph, sources, SolveOptions()).distances for name in ("phast", "delta-stepping")
    )
    np.testing.assert_array_equal(found, expected)
