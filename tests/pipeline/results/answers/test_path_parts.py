"""What batches sum along paths is merged by several threads, each of which has some places of all parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Quiet
from sssp_pipeline.kernels.answers.path_sums import add_group, add_words
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.pipeline.results.answers import path_parts
from sssp_pipeline.pipeline.results.answers.path_parts import merged_words, most_passed
from sssp_pipeline.pipeline.results.folder.batches import write_present
from sssp_pipeline.pipeline.results.folder.run_files import EDGES_FILE, paths_part
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder

TRAITS = csr_from_edges(np.arange(6), np.arange(1, 7), np.ones(6, np.uint32), 7).traits
BATCHES = [np.zeros(3, np.uint32), np.zeros(2, np.uint32)]


def write(folder, batch, words):
    with Path(folder.path(paths_part(batch))).open("wb") as file:
        write_present(words, file)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(path_parts, "_RANGE_BYTES", 48)
    (tmp_path / "_run").mkdir()
    return RunFolder(str(tmp_path))


@pytest.mark.parametrize(
    ("squares", "on_hierarchy"), [(False, False), (True, False), (True, True)], ids=["sums", "rows", "groups"]
)
def test_a_part_has_more_ranges_than_a_thread_takes(folder, monkeypatch, squares, on_hierarchy):
    monkeypatch.setattr(path_parts, "_TOGETHER", 1 + squares)
    asked = PathSumsAsked(edges=True, squares=squares, on_hierarchy=on_hierarchy)
    rng = np.random.default_rng(1)
    parts = rng.integers(0, 2**62, (2, 13, asked.n_words), np.uint64) * (rng.random((2, 13, 1)) < 0.7)
    parts[1, 4:] = 0
    parts[0, 2] = [0, 1] + [0] * (asked.n_words - 2)
    expected = np.zeros((13, 4 if squares else 2), np.uint64)
    for batch, part in enumerate(parts):
        write(folder, batch, part)
        if on_hierarchy:
            add_group(expected, part, len(BATCHES[batch]))
        else:
            add_words(expected, part)
    np.testing.assert_array_equal(merged_words(folder, BATCHES, asked, TRAITS, Quiet()), expected)
    n_present = np.count_nonzero(parts[1].any(axis=1))
    sizes = [Path(folder.path(paths_part(batch))).stat().st_size for batch in range(2)]
    assert sizes == [2 + n * asked.place_bytes for n in (13, n_present)]


@pytest.mark.parametrize("change", [-210, -200, -8, -1, 1, 16])
def test_a_part_of_another_size_is_damaged(folder, change):
    asked, path = PathSumsAsked(edges=True), Path(folder.path(paths_part(0)))
    write(folder, 0, np.full((13, 2), 5, np.uint64))
    content = path.read_bytes()
    path.write_bytes(content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(InputError) as caught:
        merged_words(folder, BATCHES[:1], asked, TRAITS, Quiet())
    assert caught.value.message == f"`{path}` is damaged: it has {210 + change} bytes"
    assert caught.value.hint == path_parts.AGAIN


def test_nothing_is_read_of_a_part_without_places(folder):
    asked = PathSumsAsked(vertices=False, edges=True)
    write(folder, 0, np.empty((0, 2), np.uint64))
    traits = replace(TRAITS, n_edges=0)
    assert len(merged_words(folder, BATCHES[:1], asked, traits, Quiet())) == 0


def test_bits_behind_the_last_place_are_damage(folder):
    asked, path = PathSumsAsked(edges=True), Path(folder.path(paths_part(0)))
    write(folder, 0, np.full((13, 2), 5, np.uint64))
    content = bytearray(path.read_bytes())
    content[1] |= 32
    path.write_bytes(content + bytes(16))
    with pytest.raises(InputError, match="is damaged: it has 226 bytes"):
        merged_words(folder, BATCHES[:1], asked, TRAITS, Quiet())


@pytest.mark.parametrize("n", [0, 1, 9, 10, 11, 200])
def test_of_equal_values_the_first_rows_are_ranked(folder, n):
    values = np.random.default_rng(n).integers(0, 4, n).astype(np.float64)
    rows = np.arange(n)
    folder.write_table(EDGES_FILE, pa.table({"source": rows, "target": rows, "flow": values}))
    found = most_passed(folder, EDGES_FILE, ["flow"])
    assert found["source"].to_pylist() == sorted(range(n), key=lambda row: -values[row])[:10]
