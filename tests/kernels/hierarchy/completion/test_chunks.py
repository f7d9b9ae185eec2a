"""The chunks of a hierarchy: what a sweep by products needs of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sssp_pipeline.base.csr import NO_VERTEX, csr_from_edges
from sssp_pipeline.base.generators import dense, grid, path, road_like, star
from sssp_pipeline.kernels.hierarchy.completion import chunks
from sssp_pipeline.kernels.hierarchy.completion.arc_completion import completion_of
from sssp_pipeline.kernels.hierarchy.completion.chunks import cut

EXAMPLES = settings(
    deadline=None, derandomize=True, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)


def graph_of(made):
    return csr_from_edges(made.src, made.dst, made.weights, made.n_vertices)


@st.composite
def graphs(draw):
    """Trees with some more edges: separators are small, and chunks are many."""
    n = draw(st.integers(1, 60))
    parents = [draw(st.integers(max(0, v - 5), v - 1)) for v in range(1, n) if draw(st.integers(0, 9))]
    more = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=12))
    ends = [(v + 1, parent) for v, parent in enumerate(parents)] + more
    src, dst = np.array(ends, np.int64).reshape(-1, 2).T
    return csr_from_edges(src, dst, np.ones(len(src), np.uint32), n)


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
def test_small_chunks_are_within_their_sizes_and_need_only_earlier_bands(graph):
    completion = completion_of(graph)
    for sizes in ((4, 3, 2), (1, 1, 1), (chunks.MOST_TOP, chunks.MOST_OWN, chunks.MOST_LOW)):
        with pytest.MonkeyPatch.context() as patched:
            for name, size in zip(("MOST_TOP", "MOST_OWN", "MOST_LOW"), sizes, strict=True):
                patched.setattr(chunks, name, size)
            assert_sound(completion, cut(completion))
