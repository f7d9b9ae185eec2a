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
from sssp_pipeline.kernels.hierarchy import arc_completion, arcs, customization, cuts, metis_processes, sweep
from sssp_pipeline.kernels.hierarchy.look import width_of
from sssp_pipeline.kernels.hierarchy.order import core_of, neighbours_of
from sssp_pipeline.kernels.hierarchy.region import Region
from sssp_pipeline.kernels.hierarchy.simplicial import without_simplicial
from sssp_pipeline.kernels.hierarchy.thinning import thinned
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.kernels.host.search_graph import as_searched


def compile_order(dtype: np.dtype) -> None:
    """Compile what makes an order, and the look before it."""
    graph = four_vertices(dtype)
    width_of(graph, 1, 1)
    core = core_of(*neighbours_of(graph))
    thinned(core.offsets, core.neighbours)
    without_simplicial(core.offsets, core.neighbours)
    cuts.divided(core, np.arange(len(core.vertices)) != 0)


def compile_dissection(dtype: np.dtype) -> None:
    """Compile what orders a core where METIS is not installed."""
    from sssp_pipeline.kernels.hierarchy.dissection import dissected

    dissected(*neighbours_of(four_vertices(dtype)), n_threads=1)


def compile_completion(dtype: np.dtype) -> None:
    """Compile what makes a completion in an order."""
    graph = four_vertices(dtype)
    offsets, order = graph.row_offsets.view(np.uint64), np.arange(4, dtype=np.uint32)
    arc_completion.complete(offsets, graph.col_indices, order)


def compile_weights(dtype: np.dtype) -> None:
    """Compile what finds the weights of the arcs."""
    customization.customize(
        one_arc(), CsrGraph(np.array([0, 1, 1]), np.array([1], np.uint32), np.ones(1, dtype))
    )


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


def one_arc() -> arc_completion.Completion:
    """Return the completion of a graph of one edge."""
    return arc_completion.Completion(
        ranks=np.array([0, 1], np.uint32),
        parents=np.array([1, NO_VERTEX], np.uint32),
        arc_offsets=np.array([0, 1, 1], np.uint64),
        arc_heads=np.array([1], np.uint32),
        n_triangles=0,
    )


ORDER = KernelGroup(compile_order, cuts._cut_edges)
COMPLETION = KernelGroup(compile_completion, arc_completion._list_arcs_of_tops)
WEIGHTS = KernelGroup(compile_weights, arcs._copy_marked, lambda types: types[2].types[2].dtype.name)
SWEEPS = KernelGroup(compile_sweeps, sweep._copy, lambda types: types[0].dtype.name)


def order_groups() -> list[KernelGroup]:
    """Return what makes an order on this machine. Where METIS is installed, `dissection.py` is not loaded."""
    if metis_processes.package() is not None:
        return [ORDER]
    from sssp_pipeline.kernels.hierarchy import dissection

    return [ORDER, KernelGroup(compile_dissection, dissection._order)]


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
    """Have children compile `WEIGHTS` and what a solver needs for `graph` during the block, which waits for `WEIGHTS`.

    If the block fails, they end. With one core no child is started.
    """
    dtype = searched_type(graph)
    start([WEIGHTS, of_solver], dtype, n_children())
    try:
        yield
        wait_for(WEIGHTS, dtype)
    except BaseException:
        stop()
        raise
