"""Expected costs of a hierarchy: seconds on two cores, which more cores hardly shorten, and bytes. What is too much.

Fitted to `benchmarks/results/hierarchy.jsonl` and `benchmarks/results/hierarchy_auto.jsonl`. What a GPU makes itself is
taken from one H200.
"""

from __future__ import annotations

from math import isqrt

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.progress import in_bytes
from sssp_pipeline.kernels.hierarchy import metis_processes

#: Seconds to eliminate vertices of low degree and to find the width of the core: to load the compiled kernels, and for
#: each vertex and edge.
_LOAD_S, _LOW_DEGREES_S = 0.1, 25e-9
#: Seconds of thinning and METIS for each vertex and each pair of neighbours of the core. Meshes and lattices keep most
#: vertices when they are thinned, so a pair takes longer there.
_METIS_VERTEX_S, _METIS_PAIR_S, _MESH_PAIR_S = 0.1e-6, 0.5e-6, 0.8e-6
#: Where METIS is not installed, these seconds are multiplied by this. Processor times are 0.9 to 1.3 times those with
#: METIS (`benchmarks/results/hierarchy_order.jsonl`).
_OWN_ORDER = 1.5
#: Seconds to start METIS, and to load the other kernels.
_START_S = 0.2
#: Seconds to list an arc, and to find its weights: for each arc and each triangle. Where there are many triangles, as
#: in social networks, one takes 1 to 2 ns.
_LIST_S, _ARC_S, _TRIANGLE_S = 40e-9, 55e-9, 1.6e-9
#: The most arcs: kernels of the GPU add the numbers of two arcs in 32 bits. Triangles have 64 bits everywhere.
MOST_ARCS = 2**31
#: The most seconds for the weights of arcs.
MOST_WEIGHTS_S = 24 * 3600.0
#: Seconds of a GPU for a triangle: with an H200 the whole preparation took 6.5 s for 5e10 triangles, and 24 s for 2e11.
#: It makes 1.2e13 sums and minima a second in products of dense matrices, but the customization looks up each arc.
_GPU_TRIANGLE_S = 1e-10
#: Seconds of a GPU for an arc and a source of a full batch, beyond the arcs of roads.
_GPU_SWEEP_ARC_S = 1e-12
#: Words of a GPU for each arc, with the matrices in both directions, and for each vertex. Graphs of all kinds have 1.1
#: to 2.2 words an arc in each direction, and 43 to 81 a vertex; roads, with few arcs, take as much as the third says.
_GPU_ARC_WORDS, _GPU_VERTEX_WORDS, _GPU_ROAD_WORDS = 6.4, 80, 32
#: Bytes of host memory for each arc while a hierarchy is made: all of it, the order with its arcs and chunks, the arcs.
_BUILD_ARC_BYTES, _CHUNK_ARC_BYTES, _LIST_ARC_BYTES = 48, 16, 4
#: Memory of the process of METIS without a graph.
_METIS_BYTES = 10**8
#: Seconds to read a byte of a stored hierarchy.
_READ_S = 1e-9
#: Seconds of a sweep and its copy for each vertex, and for each arc that is listed. Some are left out of the sweep.
_SWEEP_VERTEX_S, _SWEEP_ARC_S = 0.7e-9, 0.06e-9

#: For roads: edges of a vertex, at most, and the skew of degrees.
_ROAD_EDGES, _ROAD_SKEW = 3.5, 1.5
#: For roads: a core has this share of the vertices and these pairs for each of its vertices.
_ROAD_CORE, _ROAD_PAIRS = 0.45, 3.3
#: For roads: arcs and triangles of each vertex.
_ROAD_ARCS, _ROAD_TRIANGLES = 5, 35
#: Up to this many pairs for each vertex of a core, the graph is taken for one of roads. Up to the second number it may
#: be planar, and its width tells about the separators.
ROAD_DEGREE, PLANAR_DEGREE = 3.5, 7.5
#: The core of a road network is wider than its separators, and still has at most this share of its vertices. Made roads
#: have 6 %, and random graphs with three edges for each vertex 20 %.
_ROAD_WIDTH = 0.1
#: For planar graphs: triangles, divided by the vertices and the width of the core: 10 on a lattice, 8 on a mesh, 5 on a
#: triangulation. The width is at most the square root of the vertices, since levels of a search may be wider than
#: separators. Arcs, divided by the vertices and the logarithm of their number: 1.5 to 2.1.
_PLANAR_TRIANGLES, _PLANAR_ARCS = 10, 1.6
#: A core whose width is more than this multiple of the square root of its vertices is solid. Lattices in two dimensions
#: have at most 1, triangulations 2.4, cubes of 32, 64 and 128 vertices each way 3.6, 5.1 and 7.1. Such cubes have
#: arcs of 13 to 18 times the square of the width, and triangles of 7 to 10 times its third power.
_SOLID_WIDTH, _SOLID_ARCS, _SOLID_TRIANGLES = 3, 13, 7


def expected_size(traits: GraphTraits) -> tuple[int, int]:
    """Return how many arcs and triangles a hierarchy has. Until they are counted, this is a guess, and a low one."""
    known, roads = traits.hierarchy, _ROAD_TRIANGLES * traits.n_vertices
    n_arcs = _ROAD_ARCS * traits.n_vertices
    if known is None:
        return n_arcs, roads
    if known.n_arcs is not None:
        assert known.n_triangles is not None
        return known.n_arcs, known.n_triangles
    if not ROAD_DEGREE < known.core_pairs / max(known.core_vertices, 1) <= PLANAR_DEGREE:
        return n_arcs, roads  # the levels of a search are much wider there than separators
    if known.core_width > _SOLID_WIDTH * isqrt(known.core_vertices):
        return _SOLID_ARCS * known.core_width**2, _SOLID_TRIANGLES * known.core_width**3
    width = min(known.core_width, isqrt(known.core_vertices))
    arcs_a_vertex = min(width, _PLANAR_ARCS * known.core_vertices.bit_length())
    return (
        n_arcs + int(arcs_a_vertex * known.core_vertices),
        roads + _PLANAR_TRIANGLES * known.core_vertices * width,
    )


def looks_like_roads(traits: GraphTraits) -> bool:
    """Return whether vertices have few edges, and none has many."""
    return traits.n_edges <= _ROAD_EDGES * traits.n_vertices and traits.degree_skew <= _ROAD_SKEW


def may_have_small_separators(traits: GraphTraits) -> bool:
    """Return whether the core speaks for small separators, or the arcs are counted."""
    known = traits.hierarchy
    assert known is not None
    if known.core_vertices == 0 or known.n_arcs is not None:
        return True
    degree = known.core_pairs / known.core_vertices
    if degree <= ROAD_DEGREE:
        return known.core_width <= max(_ROAD_WIDTH * known.core_vertices, 100)
    return degree <= PLANAR_DEGREE


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
    if known is None or known.n_arcs is None or known.is_customized:
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


def core_s(traits: GraphTraits) -> float:
    """Return the seconds until the core is known, in addition to the time to load the graph."""
    return _LOAD_S + _LOW_DEGREES_S * (traits.n_vertices + traits.n_edges)


def order_s(traits: GraphTraits) -> float:
    """Return the seconds until the arcs are counted."""
    known, core = traits.hierarchy, _ROAD_CORE * traits.n_vertices
    vertices, pairs = (core, _ROAD_PAIRS * core) if known is None else (known.core_vertices, known.core_pairs)
    is_mesh = known is not None and ROAD_DEGREE < pairs / max(vertices, 1) <= PLANAR_DEGREE
    pair_s = _MESH_PAIR_S if is_mesh else _METIS_PAIR_S
    factor = 1.0 if metis_processes.package() is not None else _OWN_ORDER
    return core_s(traits) + _START_S + factor * (_METIS_VERTEX_S * vertices + pair_s * pairs)


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


def host_bytes(traits: GraphTraits) -> int:
    """Return the memory of a hierarchy; of twice the arcs that are expected until they are counted."""
    n_arcs, _ = expected_size(traits)
    is_counted = traits.hierarchy is not None and traits.hierarchy.n_arcs is not None
    return 40 * traits.n_vertices + (12 + 2 * traits.weight_dtype.itemsize) * n_arcs * (
        1 if is_counted else 2
    )


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
    return 110 * traits.n_vertices + 4 * n_arcs + int(words * traits.weight_dtype.itemsize)
