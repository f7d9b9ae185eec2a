"""The order in which a heap settles vertices, beside a search with a heap."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

import numpy as np
import pytest

from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph, csr_from_edges, unreached_distance
from sssp_pipeline.kernels.host.search_order import settled_order


def heap_search(graph: CsrGraph, sources: list[int]) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Return the order, the distances and the predecessors of Dijkstra's algorithm with a heap and a count."""
    distances = np.full(graph.n_vertices, unreached_distance(graph.weight_dtype))
    predecessors = np.full(graph.n_vertices, NO_VERTEX)
    counter, heap, order, settled = count(), [], [], set()
    for source in sources:
        distances[source] = 0
        heappush(heap, (distances[source], next(counter), source))
    while heap:
        d, _, u = heappop(heap)
        if u in settled:
            continue
        settled.add(u)
        order.append(u)
        for e in range(graph.row_offsets[u], graph.row_offsets[u + 1]):
            v = int(graph.col_indices[e])
            if d + graph.weights[e] < distances[v]:
                distances[v], predecessors[v] = d + graph.weights[e], u
                heappush(heap, (distances[v], next(counter), v))
    return order, distances, predecessors


@pytest.mark.parametrize("dtype", ["uint32", "uint64", "float64"])
@pytest.mark.parametrize("largest", [0, 1, 5])
def test_the_order_of_a_heap(dtype, largest):
    rng = np.random.default_rng(largest)
    n_unreached = 0
    for n_vertices in (1, 2, 7, 40, 40, 40):
        n_edges = 2 * n_vertices
        ends = rng.integers(0, n_vertices, (2, n_edges))
        weights = rng.integers(0, largest + 1, n_edges).astype(dtype) / (7 if dtype == "float64" else 1)
        weights[0] += 2.0**40 if dtype == "float64" else 0  # absorbs the weights behind it
        graph = csr_from_edges(*ends, weights.astype(dtype), n_vertices)
        sources = rng.permutation(n_vertices)[: 1 + n_vertices // 10]
        order, distances, predecessors = heap_search(graph, sources.tolist())
        found = settled_order(graph, sources.astype(np.uint32), distances)
        np.testing.assert_array_equal(found[0], order)
        np.testing.assert_array_equal(found[1], predecessors)
        n_unreached += n_vertices - len(order)
    assert n_unreached > 0
