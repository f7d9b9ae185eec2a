"""Second costs in plain Python: each path is walked, edge by edge."""

import numpy as np

from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.kernels.host.second_costs import cost_dtype


def walked(graph, along, source, row):
    """Return the second costs (K, V) by walking back from each vertex; the rule of `predecessors.py` in plain words."""
    n = graph.n_vertices
    unreached = unreached_distance(row.dtype)
    into = {v: {} for v in range(n)}  # for each vertex, the tight edges by where they start
    for u in range(n):
        for e in range(graph.row_offsets[u], graph.row_offsets[u + 1]):
            v = int(graph.col_indices[e])
            if row[u] != unreached and row[u] + graph.weights[e] == row[v] and row[v] != unreached:
                into[v].setdefault(u, []).append(e)
    before = {v: min((u for u in into[v] if row[u] < row[v]), default=None) for v in range(n)}
    level = [v for v in range(n) if before[v] is not None or v == source]
    while level:
        found = {}
        for v in range(n):
            if before[v] is None and v != source and (from_level := [u for u in into[v] if u in level]):
                found[v] = min(from_level)
        before |= found
        level = list(found)
    costs = np.array([np.full(n, unreached_distance(cost_dtype(w.dtype)), object) for w in along])
    for v in range(n):
        if row[v] == unreached:
            continue
        edges, at = [], v
        while at != source:
            edges.append(min(into[at][before[at]], key=lambda e: [w[e] for w in along]))
            at = before[at]
        for k, w in enumerate(along):
            total = cost_dtype(w.dtype).type(0)
            for e in reversed(edges):
                total += total.dtype.type(w[e])
            costs[k, v] = total
    return costs
