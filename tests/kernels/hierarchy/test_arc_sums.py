"""Sums of batches over a hierarchy are equal to sums along rows. If there are none, an error says why."""

from __future__ import annotations

import numpy as np
import pytest
from passed_paths import along_rows, assert_close, diamonds, grid

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import UnsolvableError
from sssp_pipeline.kernels.answers.path_sums import PathWords
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.hierarchy.arc_sums import ArcSums, shared_counts
from sssp_pipeline.kernels.hierarchy.sweeps.path_counts import PathCounts

NO_ROWS = np.empty((0, 0), np.uint32)


def test_a_batch_has_the_words_and_the_totals_of_its_rows():
    graph, asked = grid(np.random.default_rng(1), 12, 3), PathSumsAsked(edges=True)
    sources = np.arange(140, dtype=np.uint32)  # more than a group
    sums = ArcSums(graph, asked, cutoff=9)
    totals = sums.add(NO_ROWS, sources)
    words = PathWords(*np.split(sums.part_words, [graph.n_vertices]))
    assert_close(words, along_rows(graph, sources, asked, 9))
    assert totals.shape == (140, 2)
    edges_only = ArcSums(graph, PathSumsAsked(vertices=False, edges=True), cutoff=9)
    np.testing.assert_array_equal(edges_only.add(NO_ROWS, sources), totals[:, 1:])
    np.testing.assert_array_equal(edges_only.part_words, words.edges)


def test_the_counts_are_made_once():
    graph = grid(np.random.default_rng(2), 4, 3)
    counts = shared_counts(graph)
    assert isinstance(counts, PathCounts)
    assert shared_counts(graph) is counts


HINT = "set `solve.hierarchy: off` to sum along rows of distances"


@pytest.mark.parametrize(
    ("graph", "why"),
    [
        (diamonds(2200), "an arc of the hierarchy has more than 2^1000 shortest paths"),
        (
            csr_from_edges(np.array([0, 1]), np.array([1, 2]), np.full(2, 2**31, np.uint32), 3),
            "a path may be longer than uint32 holds",
        ),
    ],
    ids=["paths", "distance"],
)
def test_a_graph_whose_hierarchy_cannot_be_used(graph, why):
    assert shared_counts(graph) == why
    with pytest.raises(UnsolvableError) as caught:
        ArcSums(graph, PathSumsAsked(), None)
    assert caught.value.message == f"nothing can be summed over the hierarchy: {why}"
    assert str(caught.value.hint) == HINT


def test_too_many_paths_from_a_source():
    sums = ArcSums(diamonds(1010), PathSumsAsked(), None)
    with pytest.raises(UnsolvableError) as caught:
        sums.add(NO_ROWS, np.array([90, 0], np.uint32))
    assert caught.value.message == (
        "nothing can be summed over the hierarchy: more than 2^1000 shortest paths lead from one source to a vertex"
    )
    assert str(caught.value.hint) == HINT
