"""Expected costs of a hierarchy: seconds on two cores, which more cores hardly shorten, and bytes of host memory.

Fitted to `benchmarks/results/hierarchy.jsonl` and `benchmarks/results/hierarchy_auto.jsonl`.
"""

from __future__ import annotations

from math import isqrt

from sssp_pipeline.base.csr import GraphTraits

#: Seconds to eliminate vertices of low degree and to find the width of the core: to load the compiled kernels, and for
#: each vertex and edge.
_LOAD_S, _LOW_DEGREES_S = 0.1, 25e-9
#: Seconds of thinning and METIS for each vertex and each pair of neighbours of the core.
_METIS_VERTEX_S, _METIS_PAIR_S = 0.1e-6, 0.5e-6
#: Seconds to start METIS, and to load the other kernels.
_START_S = 0.2
#: Seconds to list an arc, and to find its weights: for each arc and each triangle. Where there are many triangles, as
#: in social networks, one takes 1 to 2 ns.
_LIST_S, _ARC_S, _TRIANGLE_S = 40e-9, 55e-9, 1.6e-9
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
#: For planar graphs: triangles, divided by the vertices and the width of the core. The width is at most the square root
#: of the vertices, since levels of a search may be wider than separators.
_PLANAR_TRIANGLES = 6


def expected_size(traits: GraphTraits) -> tuple[int, int]:
    """Return how many arcs and triangles a hierarchy has. Until they are counted, this is a guess, and a low one."""
    known, roads = traits.hierarchy, _ROAD_TRIANGLES * traits.n_vertices
    n_arcs = _ROAD_ARCS * traits.n_vertices
    if known is None:
        return n_arcs, roads
    if known.n_arcs is not None:
        return known.n_arcs, known.n_triangles or 4 * known.n_arcs
    if not ROAD_DEGREE < known.core_pairs / max(known.core_vertices, 1) <= PLANAR_DEGREE:
        return n_arcs, roads  # the levels of a search are much wider there than separators
    width = min(known.core_width, isqrt(known.core_vertices))
    return n_arcs + width**2, roads + _PLANAR_TRIANGLES * known.core_vertices * width


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


def core_s(traits: GraphTraits) -> float:
    """Return the seconds until the core is known, in addition to the time to load the graph."""
    return _LOAD_S + _LOW_DEGREES_S * (traits.n_vertices + traits.n_edges)


def order_s(traits: GraphTraits) -> float:
    """Return the seconds until the arcs are counted."""
    known, core = traits.hierarchy, _ROAD_CORE * traits.n_vertices
    vertices, pairs = (core, _ROAD_PAIRS * core) if known is None else (known.core_vertices, known.core_pairs)
    return core_s(traits) + _START_S + _METIS_VERTEX_S * vertices + _METIS_PAIR_S * pairs


def left_s(traits: GraphTraits) -> float:
    """Return the seconds until a process of this machine has the hierarchy. What is stored is read."""
    known = traits.hierarchy
    n_arcs, n_triangles = expected_size(traits)
    read_s = 0.0 if known is not None and known.is_loaded else _READ_S * host_bytes(traits)
    if known is not None and known.is_customized:
        return read_s
    customize_s = _ARC_S * n_arcs + _TRIANGLE_S * n_triangles
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


def build_bytes(traits: GraphTraits) -> int:
    """Return the most memory that making a hierarchy takes, in addition to the graph."""
    n_arcs, _ = expected_size(traits)
    return _METIS_BYTES + 300 * traits.n_vertices + 80 * traits.n_edges + 48 * n_arcs
