"""The kernels of a hierarchy in groups, so that children compile them ahead (`base/compile_children.py`).

Each group is compiled for a tiny graph. What the groups before it would make of this graph is written below, so a group
needs no kernel of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from sssp_pipeline.base.compile_children import KernelGroup, start, stop, wait_for
from sssp_pipeline.base.csr import NO_VERTEX, CsrGraph
from sssp_pipeline.base.host_memory import free_memory_bytes
from sssp_pipeline.kernels.hierarchy.completion import arc_completion, arcs, customization
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import Completion
from sssp_pipeline.kernels.hierarchy.completion.subtrees import Division
from sssp_pipeline.kernels.hierarchy.dividing import cuts, flows, look
from sssp_pipeline.kernels.hierarchy.dividing.coarsening import coarsening_kernels
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes, thinning
from sssp_pipeline.kernels.hierarchy.ordering.order import core_of, neighbours_of
from sssp_pipeline.kernels.hierarchy.ordering.simplicial import simplicial_kernels
from sssp_pipeline.kernels.hierarchy.sweeps import sweep
from sssp_pipeline.kernels.hierarchy.sweeps.region import Region
from sssp_pipeline.kernels.host.kernel_threads import KernelThreads, usable_cores
from sssp_pipeline.kernels.host.search_graph import as_searched


def compile_look(dtype: np.dtype) -> None:
    """Compile the look at a graph."""
    look.width_of(four_vertices(dtype), 1, 1)


def compile_core(dtype: np.dtype) -> None:
    """Compile what eliminates low degrees."""
    core_of(*neighbours_of(four_vertices(dtype)))


def compile_cuts(dtype: np.dtype) -> None:
    """Compile what cuts a core for METIS, for a path that is cut in the middle."""
    ends = np.arange(32)
    offsets = np.concatenate([[0], np.cumsum(1 + ((ends > 0) & (ends < 31)))]).astype(np.uint64)
    neighbours = np.stack([ends - 1, ends + 1], axis=1).ravel()[1:-1].astype(np.uint32)
    flows.separated(offsets, neighbours, ends >= 16)


def compile_thinning(dtype: np.dtype) -> None:
    """Compile what thins a core."""
    thinning.thinned(*_around(four_vertices(dtype)))


def compile_dissection(dtype: np.dtype) -> None:
    """Compile what orders a core where METIS is not installed."""
    from sssp_pipeline.kernels.hierarchy.ordering.dissection import dissected

    dissected(*_around(four_vertices(dtype)), n_threads=1)


def compile_counts(dtype: np.dtype) -> None:
    """Compile what counts the arcs of a completion."""
    arc_completion.count(*_around(four_vertices(dtype)), np.arange(4, dtype=np.uint32))


def compile_completion(dtype: np.dtype) -> None:
    """Compile what lists the arcs of a completion."""
    made = one_arc()
    counted = arc_completion.Counted(made.ranks, made.parents, np.diff(made.arc_offsets), made.n_arcs, 0)
    arc_completion.fill(np.arange(3, dtype=np.uint64), np.array([1, 0], np.uint32), counted, n_threads=1)


def compile_weights(dtype: np.dtype) -> None:
    """Compile what finds the weights of the arcs, up to step 2 of `customization.py`."""
    graph = CsrGraph(np.array([0, 1, 1]), np.array([1], np.uint32), np.ones(1, dtype))
    division = _one_range()
    weights = customization.of_edges(one_arc(), graph, division)
    customization.lower_from_below(customization.Tree.of(one_arc(), division), weights, division)


def compile_arcs(dtype: np.dtype) -> None:
    """Compile step 3, and what takes the arcs that shortest paths need."""
    division, weights = _one_range(), np.ones(1, dtype)
    tree, both = customization.Tree.of(one_arc(), division), customization.Both(weights, weights)
    customization.lower_from_above(tree, both, division)
    arcs.marked_arcs(one_arc(), weights, np.ones(1, np.bool_), division)


def compile_sweeps(dtype: np.dtype) -> None:
    """Compile the climbs, sweeps and copies of `phast`."""
    completion = one_arc()
    up = arcs.Arcs(completion.arc_offsets, completion.arc_heads, np.ones(1, dtype))
    hierarchy = customization.Hierarchy(completion, up, up)
    every = np.arange(2, dtype=np.uint32)
    swept = sweep.Sweep(hierarchy, Region(every, every, every, up, every))
    swept.reserve(1)
    unreached = swept.dtype.type(np.iinfo(swept.dtype).max)
    swept.run(np.array([0], np.uint32), unreached)
    swept.copy(unreached, unreached, 0, np.empty((1, 2), swept.dtype))


def four_vertices(dtype: np.dtype) -> CsrGraph:
    """Return a graph whose vertices have three neighbours each, so that an order leaves them to METIS."""
    every = np.arange(4, dtype=np.uint32)
    heads = np.concatenate([every[every != v] for v in every])
    return CsrGraph(np.arange(0, 13, 3), heads, np.ones(12, dtype))


def one_arc() -> Completion:
    """Return the completion of a graph of one edge."""
    return Completion(
        ranks=np.array([0, 1], np.uint32),
        parents=np.array([1, NO_VERTEX], np.uint32),
        arc_offsets=np.array([0, 1, 1], np.uint64),
        arc_heads=np.array([1], np.uint32),
        n_triangles=0,
    )


def _around(graph: CsrGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbours of each vertex of a graph without loops whose edges lead in both directions."""
    return graph.row_offsets.view(np.uint64), graph.col_indices


def _one_range() -> Division:
    """Return a division of the tree of `one_arc`: the root is above a range of the other vertex."""
    ranges, tops = np.array([[0, 1]], np.uint64), np.ones(1, np.uint32)
    return Division(ranges, tops, np.ones(2, np.uint32), KernelThreads(1))


LOOK = KernelGroup(compile_look, look._grow)
CORE = KernelGroup(compile_core, cuts._compact)
CUTS = KernelGroup(compile_cuts, flows._separate)
THINNING = KernelGroup(compile_thinning, thinning._list_left)
COUNTS = KernelGroup(compile_counts, arc_completion._count)
COMPLETION = KernelGroup(compile_completion, arc_completion._copy_arcs)
WEIGHTS = KernelGroup(
    compile_weights, customization._through_tops_up, lambda types: types[1].types[0].dtype.name
)
ARCS = KernelGroup(compile_arcs, arcs._copy_marked, lambda types: types[2].types[2].dtype.name)
SWEEPS = KernelGroup(compile_sweeps, sweep._copy, lambda types: types[0].dtype.name)


def order_groups() -> list[KernelGroup]:
    """Return what makes an order on this machine. Where METIS is installed, `dissection.py` is not loaded."""
    if metis_processes.package() is not None:
        return [CORE, THINNING, CUTS]
    from sssp_pipeline.kernels.hierarchy.ordering import dissection

    return [CORE, THINNING, KernelGroup(compile_dissection, dissection._order)]


def groups_after_order(of_solver: KernelGroup) -> tuple[list[KernelGroup], list[KernelGroup]]:
    """Return what a hierarchy and a solver need after the order, and what few runs need."""
    needed, weights = [COUNTS, COMPLETION], [WEIGHTS, ARCS]
    of_some_orders = [simplicial_kernels(), coarsening_kernels()]
    if of_solver is SWEEPS:
        return [*needed, *weights, of_solver], of_some_orders
    # A solver on a GPU mostly finds the weights there.
    return [*needed, of_solver], [*weights, *of_some_orders]


#: With this many children or more, there are cores for what may not be needed.
MANY_CHILDREN = 8
#: A child takes about 110 MB, and others want memory too.
_FREE_BYTES_A_CHILD = 2**29


def n_children() -> int:
    """Return how many processes may compile beside this one, by the cores and the free memory."""
    return int(min(usable_cores() - 1, free_memory_bytes() // _FREE_BYTES_A_CHILD))


def searched_type(graph: CsrGraph) -> np.dtype:
    """Return the type of the weights of the arcs of `graph`."""
    return as_searched(graph, graph.weights).dtype


@contextmanager
def compiling_ahead(graph: CsrGraph, of_solver: KernelGroup = SWEEPS) -> Iterator[None]:
    """Have children compile what follows the completion, with `of_solver`, for `graph` while the block runs.

    If the block fails, they end. With one core no child is started.
    """
    groups = [WEIGHTS, ARCS, of_solver] if of_solver is SWEEPS else [of_solver]
    start(groups, searched_type(graph), n_children())
    try:
        yield
    except BaseException:
        stop()
        raise


def wait_for_weights(graph: CsrGraph) -> None:
    """Return when no child is compiling what finds the weights of the arcs of `graph`."""
    for group in (WEIGHTS, ARCS):
        wait_for(group, searched_type(graph))
