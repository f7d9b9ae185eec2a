"""`dijkstra` with the signature and the results of `scipy.sparse.csgraph.dijkstra`."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.api.calls.argument_names import naming, of_dijkstra
from sssp_pipeline.api.calls.calls import Filling, check_memory, solve_sources
from sssp_pipeline.api.graphs.matrices import csr_with_reverses, edges_of_matrix
from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph, unreached_distance
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions

#: "No vertex" in the predecessors and sources that SciPy returns.
NONE = -9999
#: What to do if the result is too large.
_FEWER = "give fewer `indices`, take `sp.reduce` or `sp.nearest`, or write files with `sp.run`"


@naming(of_dijkstra)
def dijkstra(
    csgraph: Any,
    directed: bool = True,
    indices: Any = None,
    return_predecessors: bool = False,
    unweighted: bool = False,
    limit: float = np.inf,
    min_only: bool = False,
) -> Any:
    """Return shortest distances as `scipy.sparse.csgraph.dijkstra` does, solved on all cores or on a GPU.

    Integer weights are added as integers, so a distance is rounded once, when it becomes float64. Floats are added in
    float64, as in SciPy.

    Parameters
    ----------
    csgraph
        (N, N) sparse matrix or array of SciPy or CuPy, or dense array. A stored zero of a sparse one is an edge of
        weight 0. In a dense one 0, infinity and NaN mean that there is no edge; in a masked array only masked entries
        do.
    directed
        False adds the reverse of every edge.
    indices
        Sources, integers of any shape. Negative ones count from the end. None means every vertex.
    return_predecessors
        Whether to return predecessors too.
    unweighted
        Give every edge the weight 1.
    limit
        The largest distance that counts as reached.
    min_only
        Return for each vertex the distance from the nearest source.

    Returns
    -------
    dist_matrix : ndarray
        float64, the shape of `indices` and (N,), or (N,) with `min_only`; infinity for unreached vertices.
    predecessors : ndarray
        int32, the shape of `dist_matrix`; -9999 for sources and unreached vertices. Only with `return_predecessors`.
    sources : ndarray
        (N,) int32, the nearest source of each vertex; -9999 for unreached ones. Only with `return_predecessors` and
        `min_only`.

    Raises
    ------
    InputError
        The matrix is not square or does not hold real numbers, a source is not a vertex, `limit` is negative, an
        integer distance does not fit 64 bits, or the result is larger than the free memory.
    NegativeCycleError
        A source reaches a cycle of negative length. Other negative weights are solved exactly, which SciPy's function
        does not promise.

    Notes
    -----
    If several shortest paths exist, predecessors may be others than SciPy's.

    Examples
    --------
    >>> import numpy as np
    >>> sp.dijkstra(np.array([[0, 4, 12], [0, 0, 5], [0, 0, 0]]), indices=0)
    array([0., 4., 9.])
    """
    graph = _graph(csgraph, directed, unweighted)
    sources = _sources(indices, graph.n_vertices)
    if not limit >= 0:
        raise InputError(f"`limit` is {limit}", hint="`limit` is a distance of zero or more")
    options = SolveOptions(cutoff=None if limit == np.inf else limit, predecessors=bool(return_predecessors))
    if min_only:
        return _from_nearest(graph, np.unique(sources), options)
    shape = len(sources.ravel()), graph.n_vertices
    check_memory(*shape, 8 + 4 * bool(return_predecessors), _FEWER)
    distances = np.empty(shape)
    predecessors = np.empty(shape, np.int32) if return_predecessors else None
    take = Filling(
        None,
        (distances, lambda part: _as_float(part.distances)),
        (predecessors, lambda part: _as_signed(part.predecessors)),
    )
    solve_sources(graph, sources.ravel(), options, "auto", take)
    shape = (*sources.shape, graph.n_vertices)
    if predecessors is None:
        return distances.reshape(shape)
    return distances.reshape(shape), predecessors.reshape(shape)


def _graph(csgraph: Any, directed: bool, unweighted: bool) -> CsrGraph:
    row_offsets, col_indices, weights = edges_of_matrix(csgraph)
    if unweighted:
        weights = np.ones(len(col_indices), np.uint32)
    if weights.dtype.kind == "f" and not (finite := np.isfinite(weights)).all():
        row_offsets = np.concatenate([[0], np.cumsum(finite)])[row_offsets]
        col_indices, weights = col_indices[finite], weights[finite]
    graph = CsrGraph(row_offsets, col_indices, searched_weights(weights, len(row_offsets) - 1)).check()
    return graph if directed else csr_with_reverses(graph)


def searched_weights(weights: np.ndarray, n_vertices: int) -> np.ndarray:
    """Return `weights` (E,) in the type in which they are added: an integer type if no sum in it is rounded."""
    low, high = (weights.min().item(), weights.max().item()) if len(weights) else (0, 0)
    if low >= 0 and n_vertices * high < 2**32 - 1:
        small = weights.astype(np.uint32)
        if weights.dtype.kind != "f" or (small == weights).all():
            return small
    if weights.dtype.kind == "f":
        return weights.astype(np.float64, copy=False)
    return weights.astype(np.uint64 if low >= 0 else np.int64, copy=False)


def _sources(indices: Any, n_vertices: int) -> np.ndarray:
    """Return `indices` as vertices, in an array of the same shape."""
    if indices is None:
        return np.arange(n_vertices)
    sources = np.asarray(indices)
    if sources.size == 0:
        return np.empty(sources.shape, np.int64)
    if sources.dtype.kind not in "iu":
        raise InputError(f"indices are of type {sources.dtype}", hint="give the numbers of vertices, from 0")
    outside = sources[(sources < -n_vertices) | (sources >= n_vertices)]
    if len(outside):
        raise InputError(
            f"source {outside[0]} is not in the graph",
            hint=f"its {n_vertices} vertices are numbered from 0"
            if n_vertices
            else "the graph has no vertices",
        )
    return np.where(sources < 0, sources + n_vertices, sources)


def _from_nearest(graph: CsrGraph, sources: np.ndarray, options: SolveOptions) -> Any:
    """Return what `min_only` asks for: a search from one more vertex, with an edge of weight 0 to every source."""
    n = graph.n_vertices
    joined = joined_to(graph, sources)
    found: list[Solution] = []
    solve_sources(joined, np.array([n]), options, "auto", lambda _, solution: found.append(solution))
    distances = _as_float(found[0].distances[0, :n])
    if found[0].predecessors is None:
        return distances
    parents = found[0].predecessors[0, :n].astype(np.int64)
    reached = parents != NO_VERTEX
    roots = np.where(reached & (parents != n), parents, np.arange(n))
    # Each pass doubles the length of the path that was followed.
    while (roots != (further := roots[roots])).any():
        roots = further
    is_inner = reached & (parents != n)
    return distances, *(
        np.where(at, of, NONE).astype(np.int32) for at, of in ((is_inner, parents), (reached, roots))
    )


def joined_to(graph: CsrGraph, sources: np.ndarray) -> CsrGraph:
    """Return `graph` with one more vertex, from which an edge of weight 0 leads to each of `sources` (S,)."""
    return CsrGraph(
        np.append(graph.row_offsets, graph.row_offsets[-1] + len(sources)),
        np.concatenate([graph.col_indices, sources.astype(np.uint32)]),
        np.concatenate([graph.weights, np.zeros(len(sources), graph.weight_dtype)]),
    )


def _as_float(distances: np.ndarray) -> np.ndarray:
    unreached = distances == unreached_distance(distances.dtype)
    return np.where(unreached, np.inf, distances) if distances.dtype.kind != "f" else distances


def _as_signed(predecessors: np.ndarray) -> np.ndarray:
    return np.where(predecessors == NO_VERTEX, NONE, predecessors.astype(np.int64))
