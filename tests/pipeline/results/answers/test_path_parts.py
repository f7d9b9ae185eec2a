"""What batches sum along paths is merged by several threads, each of which has some places of all parts."""

from __future__ import annotations

import numpy as np
import pytest

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.answers.path_sums import add_group, add_words
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.pipeline.results.answers import path_parts
from sssp_pipeline.pipeline.results.answers.path_parts import merged_words
from sssp_pipeline.pipeline.results.folder.run_files import paths_part
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder

TRAITS = csr_from_edges(np.arange(6), np.arange(1, 7), np.ones(6, np.uint32), 7).traits
BATCHES = [np.zeros(3, np.uint32), np.zeros(2, np.uint32)]


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(path_parts, "_RANGE_BYTES", 48)
    (tmp_path / "_run").mkdir()
    return RunFolder(str(tmp_path))


@pytest.mark.parametrize(
    ("squares", "on_hierarchy"), [(False, False), (True, False), (True, True)], ids=["sums", "rows", "groups"]
)
def test_a_part_has_more_ranges_than_a_thread_takes(folder, squares, on_hierarchy):
    asked = PathSumsAsked(edges=True, squares=squares, on_hierarchy=on_hierarchy)
    parts = np.random.default_rng(1).integers(0, 2**62, (2, 13, asked.n_words), np.uint64)
    expected = np.zeros((13, 4 if squares else 2), np.uint64)
    for batch, part in enumerate(parts):
        part.tofile(folder.path(paths_part(batch)))
        if on_hierarchy:
            add_group(expected, part, len(BATCHES[batch]))
        else:
            add_words(expected, part)
    np.testing.assert_array_equal(merged_words(folder, BATCHES, asked, TRAITS, Quiet()), expected)


@pytest.mark.parametrize("n_words", [0, 5, 25, 27])
def test_a_part_of_another_size_is_damaged(folder, n_words):
    path = folder.path(paths_part(0))
    np.zeros(n_words, np.uint64).tofile(path)
    with pytest.raises(InputError) as caught:
        merged_words(folder, BATCHES[:1], PathSumsAsked(edges=True), TRAITS, Quiet())
    assert caught.value.message == f"`{path}` has {8 * n_words} bytes, not 208"
    assert caught.value.hint == path_parts.AGAIN
