"""Expected costs of a hierarchy: seconds on two cores, which more cores hardly shorten, and bytes. What is too much.

Fitted to `benchmarks/results/hierarchy.jsonl` and `benchmarks/results/hierarchy_auto.jsonl`. What a GPU makes itself is
taken from one H200.
"""

from __future__ import annotations

from math import isqrt

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.progress import in_bytes
from sssp_pipeline.kernels.hierarchy.ordering import metis_processes

#: Seconds for an entry of a neighbour list in a look, and the most entries. So a look takes at most 20 to 100 ms.
_STEP_S, MOST_STEPS = 15e-9, 2**22
#: Seconds of an order: to start METIS and load the kernels, for each edge, and for each edge of roads, whose core is
#: much smaller. An edge takes 0.3 to 1.3 us of a core, and children share them.
_START_S, _ORDER_EDGE_S, _ROAD_EDGE_S = 0.3, 0.7e-6, 0.4e-6
#: Where METIS is not installed, these seconds are multiplied by this. Processor times are 0.9 to 1.3 times those with
#: METIS (`benchmarks/results/hierarchy_order.jsonl`).
_OWN_ORDER = 1.5
#: Seconds to list an arc, and to find its weights: for each arc and each triangle. Where there are many triangles, one
#: takes 2.1 to 2.5 ns of a core.
_LIST_S, _ARC_S, _TRIANGLE_S = 40e-9, 55e-9, 2.2e-9
#: The most arcs: kernels of the GPU add the numbers of two arcs in 32 bits. Triangles have 64 bits everywhere.
MOST_ARCS = 2**31
#: The most seconds for the weights of arcs.
MOST_WEIGHTS_S = 24 * 3600.0
#: Seconds of a GPU for a triangle: an H200 took 80 ms for 5e10 triangles, 50 ms for 4e9, and 20 ms for 1e9.
_GPU_TRIANGLE_S = 2e-12
#: Seconds of a GPU for an arc and a source of a full batch, beyond the arcs of roads.
_GPU_SWEEP_ARC_S = 2e-13
#: Words of a GPU for each arc, with the matrices in both directions, and for each vertex. Graphs of all kinds have 1.1
#: to 2.2 words an arc in each direction, and 43 to 81 a vertex, with the boundaries of tiles. Roads, with few arcs,
#: take as much as the third says.
_GPU_ARC_WORDS, _GPU_VERTEX_WORDS, _GPU_ROAD_WORDS = 6.4, 80, 56
#: Bytes of host memory for each arc while a hierarchy is made: all of it, the order with its arcs and chunks, the arcs.
_BUILD_ARC_BYTES, _CHUNK_ARC_BYTES, _LIST_ARC_BYTES = 48, 16, 4
#: Memory of the process of METIS without a graph.
_METIS_BYTES = 10**8
#: Seconds to read a byte of a stored hierarchy.
_READ_S = 1e-9
#: Seconds of a sweep and its copy for each vertex, and for each arc that is listed. Some are left out of the sweep.
_SWEEP_VERTEX_S, _SWEEP_ARC_S = 0.7e-9, 0.06e-9
#: Seconds of a core for each arc and source when what passes the arcs is summed. Seconds for each arc and each triangle
#: to count the paths of the arcs, and as many to unpack the sums of a batch.
_PASS_ARC_S, _UNPACK_ARC_S, _UNPACK_TRIANGLE_S = 0.85e-9, 100e-9, 2.2e-9
#: The same of a GPU for each arc and source. It is three times what the memory of an H200 takes to read the rows of 32
#: sources of New York (`docs/design/0035-along-the-paths.md`).
_GPU_PASS_ARC_S = 15e-12
#: Bytes for each arc: of the numbers of paths, which a process has once; and of a call, with what it takes to unpack.
_COUNTS_ARC_BYTES, _PASS_ARC_BYTES = 72, 112
#: Bytes of a GPU that sums over the arcs: for each arc, with the sums of a part; and for each vertex, with the rows of
#: 32 sources.
_GPU_PASS_ARC_BYTES, _GPU_PASS_VERTEX_BYTES = 104, 560

#: A graph with at most so many edges a vertex is taken for one of roads if at most this share of its vertices separates
#: half of it, or this multiple of the square root of their number. The separators of roads are much smaller than what
#: a look finds. They have these arcs and triangles a vertex.
ROAD_EDGES, _ROAD_SHARE, _ROAD_WIDTH = 3.5, 1 / 64, 4
_ROAD_ARCS, _ROAD_TRIANGLES = 5, 35
#: For other graphs: triangles, divided by the vertices and the width, and by the third power of the width; the larger
#: number counts. On a plane the separators of all parts add up, elsewhere the first one is most of it.
_PLANE_TRIANGLES, _SOLID_TRIANGLES = 6, 1
#: Arcs, divided by the vertices and the logarithm of their number, and by the square of the width.
_PLANE_ARCS, _SOLID_ARCS = 1.6, 3


def expected_size(traits: GraphTraits) -> tuple[int, int]:
    """Return how many arcs and triangles a hierarchy has.

    Until they are counted, this is a guess from the width that a look has shown, and without a look a low guess. On the
    graphs of `benchmarks/results/hierarchy_order.jsonl` the triangles are mostly right up to a factor of ten.
    """
    n, known = traits.n_vertices, traits.hierarchy
    if known is not None:
        return known.n_arcs, known.n_triangles
    n_arcs, n_triangles = _ROAD_ARCS * n, _ROAD_TRIANGLES * n
    if traits.width is None or _is_like_roads(traits):
        return n_arcs, n_triangles
    # Where each vertex has many neighbours, there are no separators at all, and a look ends before it finds any.
    width = max(traits.width, traits.n_edges // (2 * max(n, 1)))
    n_arcs += int(min(width, _PLANE_ARCS * n.bit_length()) * n) + _SOLID_ARCS * width**2
    return n_arcs, n_triangles + max(_PLANE_TRIANGLES * n * width, _SOLID_TRIANGLES * width**3)


def _is_like_roads(traits: GraphTraits) -> bool:
    """Return whether vertices have few edges and separators are small; without a look, as far as edges tell."""
    n, width = traits.n_vertices, traits.width or 0
    return traits.n_edges <= ROAD_EDGES * n and width <= max(_ROAD_SHARE * n, _ROAD_WIDTH * isqrt(n))


def steps_of_look(seconds: float) -> int:
    """Return how many steps a look may take within this time."""
    return int(min(seconds / _STEP_S, MOST_STEPS))


def width_of_triangles(seconds: float, *, on_gpu: bool) -> int:
    """Return from which width on the triangles take longer than this time, as far as a look tells."""
    triangle_s = _GPU_TRIANGLE_S if on_gpu else _TRIANGLE_S
    return round((min(seconds, MOST_WEIGHTS_S) / triangle_s / _SOLID_TRIANGLES) ** (1 / 3))


def too_many_arcs(n_vertices: int, n_arcs: int, free_bytes: int) -> str | None:
    """Return why arcs that are counted cannot be listed in `free_bytes` of memory, or None."""
    if n_arcs > MOST_ARCS:
        return f"it would have {n_arcs:,} arcs, and {MOST_ARCS:,} is the most that there may be"
    if (needed := 20 * n_vertices + _LIST_ARC_BYTES * n_arcs) > free_bytes:
        return f"its {n_arcs:,} arcs take about {in_bytes(needed)} of memory, and {in_bytes(free_bytes)} are free"
    return None


def too_long(traits: GraphTraits) -> str | None:
    """Return why a CPU does not compute the weights of the arcs that are counted, or None."""
    known = traits.hierarchy
    if known is None or known.is_customized:
        return None
    n_arcs, n_triangles = expected_size(traits)
    if (expected_s := weights_s(n_arcs, n_triangles)) <= MOST_WEIGHTS_S:
        return None
    return (
        f"the weights of its {n_arcs:,} arcs follow from {n_triangles:,} triangles, which would take about "
        f"{expected_s / 3600:,.0f} hours on a CPU, and at most {MOST_WEIGHTS_S / 3600:.0f} are allowed"
    )


def weights_s(n_arcs: int, n_triangles: int) -> float:
    """Return the seconds that a CPU takes for the weights of arcs."""
    return _ARC_S * n_arcs + _TRIANGLE_S * n_triangles


def order_s(traits: GraphTraits) -> float:
    """Return the seconds until the arcs are counted."""
    edge_s = _ROAD_EDGE_S if _is_like_roads(traits) else _ORDER_EDGE_S
    factor = 1.0 if metis_processes.package() is not None else _OWN_ORDER
    return factor * (_START_S + edge_s * traits.n_edges)


def left_s(traits: GraphTraits, *, on_gpu: bool = False) -> float:
    """Return the seconds until a process of this machine has the hierarchy. What is stored is read.

    With `on_gpu`, a GPU computes the weights of the arcs, so those that are stored are not needed.
    """
    known = traits.hierarchy
    n_arcs, n_triangles = expected_size(traits)
    read_s = 0.0 if known is not None and known.is_loaded else _READ_S * host_bytes(traits)
    if known is not None and known.is_customized and not on_gpu:
        return read_s
    customize_s = _GPU_TRIANGLE_S * n_triangles if on_gpu else weights_s(n_arcs, n_triangles)
    if known is not None and known.is_completed:
        return read_s + customize_s
    return order_s(traits) + _LIST_S * n_arcs + customize_s


def sweep_s(traits: GraphTraits) -> float:
    """Return the seconds of a source in a sweep with all its lanes in use, and of its copy."""
    n_arcs, _ = expected_size(traits)
    return _SWEEP_VERTEX_S * traits.n_vertices + _SWEEP_ARC_S * n_arcs


def pass_s(traits: GraphTraits) -> float:
    """Return the seconds of a core to sum over the arcs along the paths of a source."""
    n_arcs, _ = expected_size(traits)
    return _PASS_ARC_S * n_arcs


def gpu_pass_s(traits: GraphTraits) -> float:
    """Return the seconds of a GPU to sum over the arcs along the paths of a source."""
    n_arcs, _ = expected_size(traits)
    return _GPU_PASS_ARC_S * n_arcs


def unpack_s(traits: GraphTraits) -> float:
    """Return the seconds of a core to count the paths of the arcs, or to unpack the sums of a batch."""
    n_arcs, n_triangles = expected_size(traits)
    return _UNPACK_ARC_S * n_arcs + _UNPACK_TRIANGLE_S * n_triangles


def counts_bytes(traits: GraphTraits) -> int:
    """Return the memory of the numbers of paths of the arcs, which a process has once."""
    n_arcs, _ = expected_size(traits)
    return _COUNTS_ARC_BYTES * n_arcs


def pass_bytes(traits: GraphTraits) -> int:
    """Return the memory of a call that sums over the arcs."""
    n_arcs, _ = expected_size(traits)
    of_vertex = 16 * (traits.weight_dtype.itemsize + 8) + traits.weight_dtype.itemsize + 53
    return of_vertex * traits.n_vertices + _PASS_ARC_BYTES * n_arcs


def gpu_pass_bytes(traits: GraphTraits) -> int:
    """Return the least memory of a GPU that sums over the arcs, in addition to the hierarchy of its solver."""
    n_arcs, _ = expected_size(traits)
    return _GPU_PASS_ARC_BYTES * n_arcs + _GPU_PASS_VERTEX_BYTES * traits.n_vertices


def host_bytes(traits: GraphTraits) -> int:
    """Return the memory of a hierarchy; of twice the arcs that are expected until they are counted."""
    n_arcs, _ = expected_size(traits)
    most_arcs = n_arcs * (2 if traits.hierarchy is None else 1)
    return 40 * traits.n_vertices + (12 + 2 * traits.weight_dtype.itemsize) * most_arcs


def build_bytes(traits: GraphTraits, *, on_gpu: bool = False) -> int:
    """Return the most host memory that making a hierarchy takes, in addition to the graph; `on_gpu` as in `left_s`."""
    n_arcs, _ = expected_size(traits)
    arc_bytes = _CHUNK_ARC_BYTES if on_gpu else _BUILD_ARC_BYTES
    return _METIS_BYTES + 300 * traits.n_vertices + 80 * traits.n_edges + arc_bytes * n_arcs


def gpu_sweep_s(traits: GraphTraits) -> float:
    """Return the seconds of a GPU for a source of a full batch that its arcs take, beyond those of roads."""
    n_arcs, _ = expected_size(traits)
    return _GPU_SWEEP_ARC_S * max(0, n_arcs - _ROAD_ARCS * traits.n_vertices)


def gpu_bytes(traits: GraphTraits) -> int:
    """Return the most memory of a GPU that a hierarchy takes, in addition to the graph."""
    n_arcs, _ = expected_size(traits)
    of_vertex = _GPU_ROAD_WORDS if n_arcs <= 2 * _ROAD_ARCS * traits.n_vertices else _GPU_VERTEX_WORDS
    words = _GPU_ARC_WORDS * n_arcs + of_vertex * traits.n_vertices
    return 110 * traits.n_vertices + 8 * n_arcs + int(words * traits.weight_dtype.itemsize)
