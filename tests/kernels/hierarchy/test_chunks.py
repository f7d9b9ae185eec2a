"""The chunks of a hierarchy: what a sweep by products needs of them, and such a sweep in NumPy against Dijkstra."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import NO_VERTEX, csr_from_edges
from sssp_pipeline.base.generators import dense, grid, path, road_like, star
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.cpu.dijkstra import Dijkstra
from sssp_pipeline.kernels.gpu.phast_gpu.device_hierarchy import HostHierarchy
from sssp_pipeline.kernels.hierarchy import chunks
from sssp_pipeline.kernels.hierarchy.arc_completion import completion_of
from sssp_pipeline.kernels.hierarchy.chunks import cut
from sssp_pipeline.kernels.hierarchy.customization import customize

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)


def graph_of(made):
    return csr_from_edges(made.src, made.dst, made.weights, made.n_vertices)


@st.composite
def graphs(draw):
    """Trees with some more edges: separators are small, and chunks are many."""
    n = draw(st.integers(1, 60))
    weight = st.sampled_from([0, 0, 1, 2, 5, 100])
    parents = [draw(st.integers(max(0, v - 5), v - 1)) for v in range(1, n) if draw(st.integers(0, 9))]
    more = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12))
    ends = [(v + 1, parent) for v, parent in enumerate(parents)] + more
    src, dst = np.array(ends, np.int64).reshape(-1, 2).T
    src, dst = np.concatenate((src, dst)), np.concatenate((dst, src))
    keep = np.array([draw(st.integers(0, 7)) > 0 for _ in src], bool)
    weights = np.array([draw(weight) for _ in range(keep.sum())], np.uint32)
    return csr_from_edges(src[keep], dst[keep], weights, n)


def assert_sound(completion, made):
    n = completion.n_vertices
    assert sorted(made.places.tolist()) == list(range(n))
    band_of = np.searchsorted(made.bands, np.arange(made.n_chunks), side="right") - 1
    assert made.bands[-1] == made.n_chunks
    for v in range(n):
        c = made.chunk_of[v]
        assert made.first_places[c] <= made.places[v] < made.first_places[c + 1]
        above = completion.parents[v]
        assert made.depths[v] == (0 if above == NO_VERTEX else made.depths[above] + 1)
        boundary = made.boundary[made.boundary_offsets[c] : made.boundary_offsets[c + 1]].tolist()
        own = made.first_places[c]
        for arc in range(completion.arc_offsets[v], completion.arc_offsets[v + 1]):
            head, local = completion.arc_heads[arc], int(made.local_heads[arc])
            if made.chunk_of[head] == c:
                assert local == len(boundary) + made.places[head] - own
                assert made.places[head] > made.places[v]
            else:
                assert boundary[local] == head
                assert band_of[made.chunk_of[head]] < band_of[c]
    sizes = np.diff(made.first_places.astype(np.int64))
    assert sizes[0] <= chunks.MOST_TOP
    assert sizes[1 : made.first_low].max(initial=0) <= chunks.MOST_OWN
    assert sizes[made.first_low :].max(initial=0) <= chunks.MOST_LOW
    assert sizes[1:].min(initial=1) > 0


@pytest.mark.parametrize("made", [path(700), star(300), grid(20, 30, keep=0.8), road_like(3000), dense(40)])
def test_chunks_are_within_their_sizes_and_need_only_earlier_bands(made):
    completion = completion_of(graph_of(made))
    assert_sound(completion, cut(completion))


@pytest.mark.medium
@EXAMPLES
@given(graph=graphs())
def test_a_sweep_by_products_finds_the_distances(graph):
    for sizes in ((4, 3, 2), (1, 1, 1), (chunks.MOST_TOP, chunks.MOST_OWN, chunks.MOST_LOW)):
        with pytest.MonkeyPatch.context() as patched:
            for name, size in zip(("MOST_TOP", "MOST_OWN", "MOST_LOW"), sizes, strict=True):
                patched.setattr(chunks, name, size)
            completion = completion_of(graph)
            made = cut(completion)
            assert_sound(completion, made)
        sources = np.arange(graph.n_vertices, dtype=np.uint32)
        found = swept(graph, completion, made, sources)
        assert_array_equal(found, Dijkstra().solve(graph, sources, SolveOptions()).distances)


def swept(graph, completion, made, sources):
    """Return the distances (n, V) as `phast-gpu` finds them, step by step, in NumPy."""
    infinity = 2**40
    hierarchy = customize(completion, graph)
    up, down = (np.full((graph.n_vertices,) * 2, infinity) for _ in range(2))
    for arcs, into, turned in ((hierarchy.up, up, False), (hierarchy.down, down, True)):
        lows = np.repeat(np.arange(graph.n_vertices), np.diff(arcs.offsets.astype(np.int64)))
        into[(arcs.heads, lows) if turned else (lows, arcs.heads)] = arcs.weights
    vertices_at = np.argsort(made.places)  # by place
    next_chunks = HostHierarchy(completion, made).next_chunks
    owns = [vertices_at[a:b] for a, b in pairwise(made.first_places)]
    boundaries = [made.boundary[a:b] for a, b in pairwise(made.boundary_offsets)]
    from_own, to_boundary = [], []
    for own, boundary in zip(owns, boundaries, strict=True):
        ways = np.where(np.eye(len(own), dtype=bool), 0, infinity)
        for i, v in enumerate(own):
            ways = np.minimum(ways, ways[:, i, np.newaxis] + up[v, own])
        to_boundary.append(
            np.min(ways[:, :, np.newaxis] + up[np.ix_(own, boundary)], axis=1, initial=infinity)
        )
        for i, v in reversed(list(enumerate(own))):
            ways = np.minimum(ways, ways[:, i, np.newaxis] + down[v, own])
        from_own.append(ways)

    rows = np.full((graph.n_vertices, len(sources)), infinity)  # by rank
    for lane, source in enumerate(sources):
        rank = completion.ranks[source]
        chunk = made.chunk_of[rank]
        known = np.full(graph.n_vertices, infinity)
        known[rank] = 0
        while True:
            entries = known[owns[chunk]]
            rows[owns[chunk], lane] = np.min(entries[:, np.newaxis] + from_own[chunk], axis=0)
            ways = np.min(entries[:, np.newaxis] + to_boundary[chunk], axis=0, initial=infinity)
            known[boundaries[chunk]] = np.minimum(known[boundaries[chunk]], ways)
            if next_chunks[rank] == NO_VERTEX:
                break
            chunk = next_chunks[rank]
            rank = owns[chunk][0]
    for own, boundary in zip(owns, boundaries, strict=True):
        for v in own[::-1]:
            above = np.concatenate((boundary, own[own > v]))
            rows[v] = np.min(rows[above] + down[above, v, np.newaxis], axis=0, initial=infinity).clip(
                max=rows[v]
            )
    by_source = rows[completion.ranks].T
    return np.where(by_source < infinity, by_source, np.iinfo(np.uint32).max).astype(np.uint32)
