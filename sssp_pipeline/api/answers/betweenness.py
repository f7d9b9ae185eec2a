"""`betweenness`: how many shortest paths pass each vertex or each edge."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np
import pyarrow as pa

from sssp_pipeline.api.answers.answers import Options, amounts_of, named_by
from sssp_pipeline.api.calls.along_paths import sums_along_paths
from sssp_pipeline.api.graphs.graphs import naming_for
from sssp_pipeline.api.graphs.ids import Ids, sources_of, vertices_of
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.vertex_amounts import VertexAmounts
from sssp_pipeline.base.vertex_ids import listed
from sssp_pipeline.kernels.contract.path_sums_asked import PathAmounts, PathSumsAsked
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.pipeline.graph_store.units import scaled_limit
from sssp_pipeline.pipeline.results.answers.betweenness import check_weights, estimates, n_pairs
from sssp_pipeline.pipeline.results.answers.counted_paths import check_amounts
from sssp_pipeline.pipeline.results.answers.edge_table import ends_of_edges


def betweenness(
    graph: Any,
    sources: Any = "all",
    *,
    targets: Any = None,
    source_amounts: Any = None,
    target_amounts: Any = None,
    decay: float | None = None,
    edges: bool = False,
    sample: int | None = None,
    seed: int | None = None,
    endpoints: bool = False,
    normalized: bool = False,
    **options: Unpack[Options],
) -> pa.Table:
    """Return how many shortest paths pass each vertex, or each edge: its betweenness.

    It is a sum over all pairs of a source and another vertex, the target, that the source reaches. A pair adds the
    share of its shortest paths that pass. Two vertices are a pair in each direction. NetworkX and igraph count one
    direction of an undirected graph, so their values are half of these unless they are normalized.

    Parameters
    ----------
    graph, **options
        As for `solve`; `options` are its `cutoff`, `solver`, `weight`, `columns`, `directed` and `dtype`. Weights are
        above zero, and integers or float64. Of parallel edges with the same weight, each is a path of its own. Paths
        longer than the `cutoff` do not count.
    sources
        Ids of vertices, or "all". A source that is named twice counts twice.
    targets
        Ids of the vertices to which paths count. None means every vertex.
    source_amounts, target_amounts
        Tables with a column `vertex` of ids and a column of numbers of zero or more, such as people or jobs: a
        dictionary, a data frame or a table of Arrow. A pair counts as much as the amount of its source times that of
        its target. Vertices without a row have the amount 0. None means 1 for each vertex.
    decay
        A pair at distance d counts exp(-`decay` · d) times as much. None means that all count the same.
    edges
        Whether the edges are wanted, and not the vertices.
    sample
        How many vertices are drawn as the sources, all different. The values are then estimates for all sources: the
        sum over the sample times V / `sample`. None draws nothing.
    seed
        The seed of the drawing; None stands for 0. The same seed draws the same sources.
    endpoints
        Whether a path also passes its source and its target. It always passes their edges.
    normalized
        Whether values are divided by the number of pairs: (V - 1)(V - 2) for vertices, V(V - 1) for edges and with
        `endpoints`. They are then those of NetworkX.

    Returns
    -------
    pyarrow.Table
        V rows in the order of the vertices with the columns `vertex` and `betweenness`; or a row for each edge, in each
        direction, with `source`, `target` and `betweenness`, in the order of their ends. All are float64. With `sample`
        there is also `standard_error`, which is NULL for a sample of one. The number of cores does not change a bit of
        the values. Along rows of distances, neither does a GPU. Over a hierarchy, sums are added in another order, and
        values may differ by rounding, about 1e-13 of the value. There the standard error comes from the differences
        between 16 or more groups of the sample, and so it is less exact: with 16 groups, by about 18 %.

    Raises
    ------
    InputError, SsspError
        As `solve`; or a weight is zero or negative, the weights are float32, a float loses the weight of an edge, or
        there are more than 2^1000 shortest paths between two vertices; or an amount is missing or negative, or the
        products of amounts are out of the range of float64.

    Examples
    --------
    >>> import pyarrow as pa
    >>> roads = pa.table({"from": ["A", "B", "A"], "to": ["B", "C", "C"], "minutes": [4, 5, 12]})
    >>> sp.betweenness(roads).to_pydict()
    {'vertex': ['A', 'B', 'C'], 'betweenness': [0.0, 1.0, 0.0]}
    >>> people, jobs = {"vertex": ["A", "B"], "people": [30, 5]}, {"vertex": ["C"], "jobs": [8]}
    >>> sp.betweenness(roads, source_amounts=people, target_amounts=jobs)["betweenness"].to_pylist()
    [0.0, 240.0, 0.0]
    """
    with naming_for(graph):
        is_weighted = any(given is not None for given in (source_amounts, target_amounts, decay))
        counts_all = targets is None and not is_weighted
        _check_together(sources, counts_all, edges, sample, seed, endpoints, normalized)
        _check_decay(decay)
        named = named_by(graph, options)
        csr, ids, n_vertices = named.graph, named.ids, named.graph.n_vertices
        check_weights(named.graph.traits, lambda: csr, ids, named.scale)
        if sample is None:
            vertices = sources_of(sources, ids, n_vertices)
        else:
            vertices = _drawn(sample, seed or 0, n_vertices)
        is_target = amounts = None
        if targets is not None:
            is_target = np.zeros(n_vertices, np.bool_)
            is_target[vertices_of(targets, ids, "target")] = True
        if is_weighted:
            of_sources = _amounts(source_amounts, "source_amounts", ids, n_vertices)
            of_targets = _amounts(target_amounts, "target_amounts", ids, n_vertices)
            if is_target is not None:
                of_targets.values[:] *= is_target
            amounts = PathAmounts.of(of_sources, of_targets, (decay or 0.0) / (named.scale or 1))
        asked = PathSumsAsked(
            *(not edges, edges, sample is not None, endpoints, is_target),
            is_weighted=is_weighted,
            amounts=amounts,
        )
        limit = scaled_limit(options.get("cutoff"), named.scale)
        solve_options = SolveOptions(cutoff=limit, metrics=False)
        solver = options.get("solver", "auto")
        sums, n_groups = sums_along_paths(
            csr, vertices, asked, solve_options, solver, named.solve, named.stored
        )
        words = sums.edges if edges else sums.vertices
        factor = 1.0 / n_pairs(n_vertices, edges or endpoints) if normalized else asked.unit
        columns = ends_of_edges(csr, ids) if edges else {"vertex": ids.column()}
        return pa.table(columns | estimates(words, factor, sample, n_vertices, n_groups))


def _amounts(given: Any, argument: str, ids: Ids, n_vertices: int) -> VertexAmounts:
    """Return the amounts of all vertices; `argument` is the name of `given`, and None stands for 1 each."""
    if given is None:
        return VertexAmounts(np.ones((1, n_vertices), np.int64), (None,))
    names, found = amounts_of(given, argument, ids, n_vertices)
    if len(names) > 1:
        raise InputError(
            f"`{argument}` has the columns {listed(names)} beside `vertex`", hint="leave one of them"
        )
    check_amounts(found, ids, f"`{argument}`: ")
    return found


def _drawn(sample: int, seed: int, n_vertices: int) -> np.ndarray:
    """Return `sample` different vertices (sample,) uint32 in random order."""
    if sample > n_vertices:
        raise InputError(
            f"`sample` is {sample}, and the graph has {plural(n_vertices, 'vertex')}",
            hint="draw fewer, or leave out `sample` to take every vertex",
        )
    return np.random.default_rng(seed).choice(n_vertices, sample, replace=False).astype(np.uint32)


def _check_together(
    sources: Any,
    counts_all: bool,
    edges: bool,
    sample: int | None,
    seed: int | None,
    endpoints: bool,
    normalized: bool,
) -> None:
    """Raise `InputError` for arguments that cannot be used, or not together.

    `counts_all` says whether a path to every vertex counts as 1.
    """
    for name, number, least in (("sample", sample, 1), ("seed", seed, 0)):
        is_whole = isinstance(number, int | np.integer) and not isinstance(number, bool)
        if number is not None and (not is_whole or number < least):
            raise InputError(f"`{name}` is {number!r}", hint=f"`{name}` is an integer of {least} or more")
    takes_all = isinstance(sources, str) and sources == "all"
    if seed is not None and sample is None:
        raise InputError("`seed` is given without `sample`", hint="leave out `seed`, or give `sample` too")
    if sample is not None and not takes_all:
        raise InputError("both `sources` and `sample` are given", hint="leave out one of them")
    if normalized and not (takes_all and counts_all):
        raise InputError(
            "`normalized` divides by the pairs of all vertices, and not each of them counts as 1",
            hint="leave out `normalized`",
        )
    if endpoints and edges:
        raise InputError(
            "`endpoints` is for vertices, and `edges` asks for edges", hint="leave out `endpoints`"
        )


def _check_decay(decay: Any) -> None:
    """Raise `InputError` if `decay` is given and is not a number above zero."""
    is_number = isinstance(decay, int | float | np.number) and not isinstance(decay, bool)
    if decay is not None and not (is_number and 0 < decay < math.inf):
        raise InputError(f"`decay` is {decay!r}", hint="`decay` is a number above 0, such as 0.002")
