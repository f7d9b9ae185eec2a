"""`solve`: distances from some vertices of a graph in memory or in a graph store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from sssp_pipeline.api.calls.calls import Filling, check_memory
from sssp_pipeline.api.distances.backward import distances_backward, is_backward
from sssp_pipeline.api.distances.distances import Distances
from sssp_pipeline.api.distances.paths import PathTree
from sssp_pipeline.api.distances.reached import ReachedParts
from sssp_pipeline.api.graphs.graphs import NamedGraph, graph_of, naming_for, stays_on_device
from sssp_pipeline.api.graphs.ids import sources_of, vertices_of
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels import solver_named
from sssp_pipeline.kernels.contract.kept import EveryVertex, Targets
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import rows_on_device
from sssp_pipeline.kernels.host.second_costs import cost_dtype
from sssp_pipeline.pipeline.graph_store.units import scaled_limit
from sssp_pipeline.workflow.section import Direction

#: What to do if the result is too large.
_FEWER = (
    "solve fewer sources in a call, give `targets` or a `cutoff`, take `sp.reduce` or `sp.nearest`, "
    "or write files with `sp.run`"
)


def solve(
    graph: Any,
    sources: Any,
    *,
    targets: Any = None,
    cutoff: float | None = None,
    predecessors: bool = False,
    solver: str = "auto",
    weight: str | None = "auto",
    columns: tuple[str, str] | None = None,
    directed: bool | None = None,
    dtype: npt.DTypeLike | None = None,
    on_device: bool | None = None,
    metrics: bool | None = None,
    direction: Direction = "auto",
    along: str | Sequence[str] = (),
) -> Distances:
    """Return exact distances from `sources`, in the type of the weights and added in that type.

    Ctrl-C stops the call. The sources that are under way then end in the background.

    Parameters
    ----------
    graph
        One of these, which is not changed:

        - a sparse matrix of SciPy or CuPy, or a dense array. Entry (i, j) is the weight of an edge from i to j; stored
          zeros of a sparse one are edges of weight 0. Ids are row numbers. A GPU checks a CSR matrix of CuPy in
          its own memory and takes it from there.
        - a NetworkX graph. Ids are its nodes.
        - an igraph graph. Ids are the names of its vertices, or their numbers if they have no names.
        - a rustworkx graph. Ids are the indices of its nodes.
        - a table of edges: a pandas or Polars data frame, an Arrow table, or any object with `__arrow_c_stream__`. Ids
          are integers or strings.
        - the path or URL of a graph store, or what `open_store` returned.
        - what `prepare` returned. It keeps the edges and their hierarchy for the next calls.
    sources
        Ids of vertices: one id, or several in any kind of sequence. A source may occur twice. "all" means every vertex.
    targets
        Ids of the vertices whose distances are returned, in this order. None means every vertex.
    cutoff
        Vertices beyond this distance count as unreached. It is in the unit of the weights. Without targets, only the
        reached vertices are held in memory.
    predecessors
        Whether to find shortest paths too, for `Distances.path`. With `targets`, these are the paths to the targets.
    solver
        The name of a solver, or "auto". "auto" makes a hierarchy of the graph if this call is expected to gain, as a
        run does. A graph store keeps it, and so does a prepared graph.
    weight
        The attribute of an edge or the column of a table that holds the weight. "auto" takes the attribute `weight`, an
        edge of rustworkx that is a number, or the only column that can be the weight. It takes 1 if edges have no
        attribute and no such column. None gives every edge the weight 1. Of a graph store with several weights, it is
        the name of one.
    columns
        The columns of a table with the two ends of an edge. None takes the columns with the usual names.
    directed
        False adds the reverse of every edge. Graphs of NetworkX, igraph and rustworkx, and graph stores, know whether
        they are directed.
    dtype
        The type of the weights and distances: uint32, int32, uint64, int64, float32 or float64. None keeps floats as
        they are, and takes the first of the integer types that holds every integer weight.
    on_device
        Whether the distances stay in the memory of the GPU, so that `Distances.cupy` copies nothing; the solver then
        runs on the GPU. None means yes for a graph of CuPy if it is possible. It is not possible with predecessors,
        negative weights, or a scale, which are finished in host memory, or with a solver for the CPU.
    metrics
        Whether `Distances.metrics` is wanted. It counts all vertices. Without it, only what the `targets` need is
        computed. None means yes if there are no targets.
    direction
        "forward" searches from the sources. "backward" searches from the targets, along reversed edges: it needs
        targets and integer weights, and gives neither predecessors nor metrics. "auto" goes backward if that is
        expected to take at most half of the time. The distances are the same, and `Distances.direction` says which way
        they were found.
    along
        Names of other weights to sum along the shortest path to each vertex, for `Distances.along` and for tables:
        columns of a table of edges, or weights of a graph store with several. The path is that of `predecessors`; of
        parallel edges, the one with the smallest first of these weights. The searches go forward, in host memory.

    Returns
    -------
    Distances
        S rows, one for each source, of V or T distances, in host memory or in the memory of the GPU. With a cutoff and
        without targets, host memory has the distances to reached vertices only.

    Raises
    ------
    InputError
        The graph, an id or an option cannot be used; or a shortest path is longer than the type holds
        (`PathTooLongError`); or a source reaches a negative cycle (`NegativeCycleError`); or the result is larger than
        the free memory.
    SsspError
        The memory of the GPU is too small; or there is no GPU, and the distances are to stay on it.

    Examples
    --------
    >>> import pyarrow as pa
    >>> roads = pa.table({"from": ["A", "B", "A"], "to": ["B", "C", "C"], "minutes": [4, 5, 12]})
    >>> found = sp.solve(roads, "A", predecessors=True)
    >>> found.numpy()
    array([[0, 4, 9]], dtype=uint32)
    >>> found.path("A", "C")
    ['A', 'B', 'C']
    >>> sp.solve(roads, ["A", "B"], targets="C").to_arrow().to_pydict()
    {'source': ['A', 'B'], 'vertex': ['C', 'C'], 'distance': [9, 5]}
    """
    with naming_for(graph):
        named = graph_of(graph, weight, columns, directed, dtype, along)
        csr, ids = named.graph, named.ids
        of_sources = sources_of(sources, ids, csr.n_vertices)
        of_targets = None if targets is None else vertices_of(targets, ids, "target")
        wanted = EveryVertex() if of_targets is None else Targets(of_targets)
        # A path leads through other vertices than the targets. So predecessors need whole rows, which are cut below.
        kept = EveryVertex() if predecessors else wanted
        limit = scaled_limit(cutoff, named.scale)
        stays = on_device or (on_device is None and direction == "auto" and stays_on_device(graph))
        asked = {"predecessors": predecessors, "metrics": bool(metrics), "on_device": bool(stays)}
        asked["along"] = bool(named.along)
        metrics = of_targets is None if metrics is None else metrics
        options = SolveOptions(cutoff=limit, predecessors=predecessors, kept=kept, metrics=metrics)
        options = replace(options, along=tuple(each.weights for each in named.along))
        shape = len(of_sources), wanted.n_columns(csr.n_vertices)
        if is_backward(named, of_sources, of_targets, options, solver, direction, asked):
            assert of_targets is not None, "there is no way backward without targets"
            check_memory(*shape, csr.weight_dtype.itemsize, _FEWER)
            turned = distances_backward(named, of_sources, of_targets, options, solver)
            if turned is not None:
                solution = Solution(turned, None, [])
                return Distances(named, of_sources, of_targets, solution, [], cutoff, "backward")
        elif _stays_on_device(on_device, graph, named, solver, predecessors):
            options = replace(options, into=rows_on_device(csr, shape, csr.weight_dtype))
        trees: list[PathTree] = []
        is_bounded = of_targets is None and cutoff is not None and cutoff < np.inf
        if is_bounded and options.into is None and not named.along:
            solution = _reached(named, of_sources, options, solver)
        else:
            solution, trees = _whole_rows(named, of_sources, of_targets, options, solver, shape)
        return Distances(named, of_sources, of_targets, solution, trees, cutoff)


def _reached(named: NamedGraph, sources: np.ndarray, options: SolveOptions, solver: str) -> Solution:
    """Return the distances from `sources` (S,) to what they reach."""
    csr = named.graph
    parts = ReachedParts(len(sources), csr.n_vertices, csr.weight_dtype, options.predecessors)
    of_each = named.solve(sources, replace(options, reached_only=True), solver, parts.take)
    return Solution(*parts.joined(), of_each if options.metrics else [])


def _whole_rows(
    named: NamedGraph,
    sources: np.ndarray,
    targets: np.ndarray | None,
    options: SolveOptions,
    solver: str,
    shape: tuple[int, int],
) -> tuple[Solution, list[PathTree]]:
    """Return the distances in rows of this `shape`, (S, V) or (S, T), and the paths from each source to targets."""
    predecessors, into = options.predecessors, options.into
    dtype = named.graph.weight_dtype
    if into is None:
        check_memory(*shape, dtype.itemsize + 4 * predecessors + 8 * len(options.along), _FEWER)
    rows = np.empty(shape, dtype) if into is None else into
    before = np.empty(shape, np.uint32) if predecessors else None
    sums = [np.empty(shape, cost_dtype(weights.dtype)) for weights in options.along]
    cuts = predecessors and targets is not None
    trees: Any = [None] * len(sources) if cuts else []
    cut: Any = targets if cuts else slice(None)
    take = Filling(
        rows if into is None and not cuts else None,
        (rows if cuts else None, lambda part: part.distances[:, cut]),
        (before, lambda part: part.predecessors[:, cut]),
        (trees if cuts else None, lambda part: [PathTree.to_targets(row, cut) for row in part.predecessors]),
        *((whole, partial(_sums_of, place, cut)) for place, whole in enumerate(sums)),
    )
    of_each = named.solve(sources, options, solver, take)
    return Solution(rows, before, of_each if options.metrics else [], along=tuple(sums)), trees


def _sums_of(place: int, cut: Any, part: Solution) -> np.ndarray:
    """Return the sums of the weight at `place` of `SolveOptions.along`, in the columns that are kept."""
    return part.along[place][:, cut]


def _stays_on_device(
    asked: bool | None, graph: Any, named: NamedGraph, solver: str, predecessors: bool
) -> bool:
    """Return whether distances stay on the GPU; raise `InputError` if they are asked to, and cannot."""
    if asked is False or (asked is None and not stays_on_device(graph)):
        return False
    reason = None
    if predecessors:
        reason = "predecessors are found in host memory"
    elif named.along:
        reason = "sums along the paths are made in host memory"
    elif named.scale is not None:
        reason = "a store with a scale gives distances in the unit of the input, and the host makes these"
    elif named.graph.traits.min_weight < 0:
        reason = "the host finishes distances of negative weights"
    elif solver != "auto" and solver_named(solver).device == "cpu":
        reason = f"`{solver}` runs on the CPU"
    if asked and reason is not None:
        raise InputError(
            f"the distances cannot stay on the GPU: {reason}",
            hint="leave out `on_device=True`; `.cupy()` then copies them to the GPU",
        )
    return reason is None
