import io
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from written_files import write_file

from sssp_pipeline.base.csr import NO_VERTEX
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.kernels.contract import row_facts
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat, check_unreached
from sssp_pipeline.pipeline.results.layouts import LAYOUTS, long, wide
from sssp_pipeline.storage.file_sums import StoredFile, SummedFile

INF = 2**32 - 1
OFFSET = VertexIds(IdMapping(kind="offset", type="int64", first_id=1), None, 4)
SPARSE = VertexIds(IdMapping(kind="table", type="int64"), pa.array([3, 7, 9, 50]), 4)
NAMES = VertexIds(
    IdMapping(kind="table", type="string"), pa.array(["a", "b", "c", "d"], pa.large_string()), 4
)
SOURCES = np.array([0, 2], np.uint32)
DISTANCES = np.array([[0, 5, INF, 7], [INF, 4, 0, 1]], np.uint32)
PREDECESSORS = np.array([[NO_VERTEX, 0, NO_VERTEX, 1], [NO_VERTEX, 3, NO_VERTEX, 2]], np.uint32)


def form(layout="long", unreached=None, compression="none", predecessors=False) -> DistanceFormat:
    return DistanceFormat(layout, unreached, compression, predecessors)


def written(solution: Solution, ids: VertexIds, how: DistanceFormat) -> pq.ParquetFile:
    with TemporaryDirectory() as folder:
        write_file(path := Path(folder, "file"), SOURCES, solution, ids, how)
        return pq.ParquetFile(pa.BufferReader(path.read_bytes()))


def stored(url) -> StoredFile:
    """Return a file with its present sum."""
    summed = SummedFile(io.BytesIO())
    summed.write(Path(url).read_bytes())
    return StoredFile(str(url), summed.with_footer())


def read_back(url, ids: VertexIds, how: DistanceFormat, vertices=None, wanted=range(2)) -> list:
    """Return what is read of the sources at the places `wanted`."""
    layout = LAYOUTS[how.layout](how, vertices)
    return list(layout.read([stored(url)], wanted, ids, np.dtype(np.uint32)))


def test_the_encodings_keep_the_files_small(tmp_path):
    n = 100_000
    ids = VertexIds(IdMapping(kind="offset", type="int64"), None, n)
    distances = np.random.default_rng(0).integers(0, 2**32 - 1, (2, n), np.uint32)
    for layout in ("long", "wide"):
        write_file(tmp_path / "file", SOURCES, Solution(distances, None), ids, form(layout))
        assert (tmp_path / "file").stat().st_size < 1.05 * distances.nbytes


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("distances", [DISTANCES, np.where(DISTANCES == INF, 9, DISTANCES)])
def test_a_stand_in_that_is_a_true_distance_is_refused(distances, layout):
    with pytest.raises(InputError) as caught:
        written(Solution(distances, None), OFFSET, form(layout, unreached=5))
    assert caught.value.message == "`output.unreached` is 5, which is also the distance of a reached vertex"


@pytest.mark.parametrize(("unreached", "dtype"), [(-1, "uint32"), (0.5, "int32"), (2**32, "uint32")])
def test_a_stand_in_the_type_cannot_hold_is_refused(unreached, dtype):
    with pytest.raises(InputError) as caught:
        check_unreached(unreached, np.dtype(dtype))
    expected = f"`output.unreached` is {unreached}, which the distances' type {dtype} cannot hold"
    assert caught.value.message == expected


def test_the_wide_layout_has_one_column_of_vertices():
    ids = VertexIds(IdMapping(kind="table", type="string"), pa.array(["a", "b", "vertex", "z"]), 4)
    with pytest.raises(InputError, match="a source has the id `vertex`"):
        written(Solution(DISTANCES, None), ids, form("wide"))
    assert written(Solution(DISTANCES, None), ids, form()).read().num_rows == 8


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("ids", [OFFSET, NAMES])
def test_a_source_may_take_several_row_groups(tmp_path, monkeypatch, layout, ids):
    for module in (long, wide):
        monkeypatch.setattr(module, "GROUP_ROWS", 3)
    monkeypatch.setattr(row_facts, "SEGMENT", 3)
    url = tmp_path / "file"
    write_file(url, SOURCES, Solution(DISTANCES, PREDECESSORS), ids, form(layout))
    assert pq.ParquetFile(url).num_row_groups > 1
    read = read_back(url, ids, form(layout))
    assert [name for name, _ in read] == ids.originals(SOURCES).to_pylist()
    np.testing.assert_array_equal([d for _, d in read], DISTANCES)


@pytest.mark.parametrize("layout", ["long", "wide"])
@pytest.mark.parametrize("unreached", [None, 999])
@pytest.mark.parametrize("ids", [OFFSET, SPARSE, NAMES])
def test_targets_are_written_and_read_in_their_order(tmp_path, layout, unreached, ids):
    targets, how = np.array([3, 0, 2], np.uint32), form(layout, unreached)
    url = str(tmp_path / "batch.parquet")
    some = Solution(DISTANCES[:, targets], None)
    write_file(Path(url), SOURCES, some, ids, how, targets)
    named = ids.originals(targets).to_pylist()
    assert pq.read_table(url)["vertex"].to_pylist() == (named if layout == "wide" else named * 2)
    read = read_back(url, ids, how, targets)
    assert [name for name, _ in read] == ids.originals(SOURCES).to_pylist()
    np.testing.assert_array_equal([d for _, d in read], some.distances)
    found = LAYOUTS[layout](how, None).vertex_ids(stored(url), len(targets))
    assert found.to_pylist() == named
    with pytest.raises(InputError, match="column vertex does not list the expected vertices in order"):
        read_back(url, ids, how, targets[::-1])


def test_several_sources_share_a_row_group_of_targets(monkeypatch, tmp_path):
    monkeypatch.setattr(long, "GROUP_ROWS", 5)
    targets, sources = np.array([3, 1], np.uint32), np.arange(4, dtype=np.uint32)
    url = str(tmp_path / "batch.parquet")
    distances = np.arange(8, dtype=np.uint32).reshape(4, 2)
    with Path(url).open("wb") as handle:
        LAYOUTS["long"](form(), targets).write(handle, sources, Solution(distances, None), OFFSET)
    assert pq.ParquetFile(url).metadata.num_row_groups == 2
    read = read_back(url, OFFSET, form(), targets, [1, 2])
    np.testing.assert_array_equal([d for _, d in read], distances[1:3])
