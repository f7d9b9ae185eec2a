"""Edge runs: what ranges of sources get of runs in memory and on disk, with weights of several types."""

import os
from itertools import pairwise

import numpy as np
import pytest

from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.pipeline.ingest.damage import DamagedFileError
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRuns, keep_run, limits_between
from sssp_pipeline.pipeline.ingest.spill import Spill
from sssp_pipeline.pipeline.ingest.weight_types import WeightType

#: The types of the weights of each run; or no run has weights.
TYPES = ["uint8", "uint16", "uint8", "float64", "float32"]
NO_TYPES = [None] * 5
DEFAULT = np.array([2.5])


def of_type(dtype) -> WeightType:
    return WeightType(np.dtype(dtype), None, "")


def kept_runs(spill, types=TYPES, n=4000):
    """Return runs with weights of these types, and all their edges."""
    random = np.random.default_rng(3)
    runs, edges = [], []
    for number, name in enumerate(types):
        src, dst = (random.integers(40 * number, 50_000, n).astype(np.uint32) for _ in range(2))
        weights = None if name is None else (4 * random.random(n)).astype(name)
        how = {"drop_loops": False, "add_reverses": False, "scratch": Scratch()}
        runs.append(keep_run(spill, (src, dst, 0), weights, **how)[0])
        given = np.full(n, DEFAULT[0]) if weights is None else weights.astype(np.float64)
        edges += zip(src.tolist(), dst.tolist(), given.tolist(), strict=True)
    return runs, edges


@pytest.mark.parametrize("types", [TYPES, NO_TYPES], ids=["weights", "no-weights"])
@pytest.mark.parametrize(
    ("memory", "are_in_memory"), [(0, {False}), (100_000, {True, False}), (1 << 30, {True})]
)
def test_a_range_has_all_its_edges(memory, are_in_memory, types):
    with Spill(memory) as spill:
        runs, edges = kept_runs(spill, types)
        assert {run.columns[0].memory is not None for run in runs} == are_in_memory
        table = EdgeRuns(runs)
        limits = [0, *limits_between(runs, 2000).tolist(), 50_000]
        assert len(limits) >= 8
        for first, last in [*pairwise(limits), (0, 0), (60_000, 70_000)]:
            src, dst, weights = table.edges_between(first, last, of_type(np.float64), DEFAULT)
            found = zip(src.tolist(), dst.tolist(), weights.tolist(), strict=True)
            inside = sorted(edge for edge in found if first <= edge[0] < last)
            assert inside == sorted(edge for edge in edges if first <= edge[0] < last)


def test_ranges_have_about_as_many_edges_as_asked():
    with Spill(1 << 30) as spill:
        runs = kept_runs(spill)[0]
        table, ranges = EdgeRuns(runs), pairwise(limits_between(runs, 2000).tolist())
        n_edges = [len(table.edges_between(*between, of_type(np.float32), DEFAULT)[0]) for between in ranges]
        # The groups of a range are read whole, and the runs begin at other sources.
        assert max(n_edges) < 2500


def test_no_runs_have_no_edges():
    table = EdgeRuns([])
    assert limits_between([], 10).tolist() == []
    assert [len(a) for a in table.edges_between(0, 9, of_type(np.uint32), DEFAULT)] == [0, 0, 0]


def test_a_temporary_file_that_was_cut_is_an_error():
    with Spill(0) as spill:
        runs = kept_runs(spill)[0]
        table = EdgeRuns(runs)
        os.truncate(spill._file.fileno(), 1000)
        with pytest.raises(DamagedFileError, match=r"temporary file .* is damaged"):
            table.edges_between(0, 1000, of_type(np.uint32), DEFAULT)
        with pytest.raises(DamagedFileError, match=r"temporary file .* is damaged"):
            runs[0].columns[0].read()
