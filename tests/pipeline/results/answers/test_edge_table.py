"""`edges.parquet` has a row for each edge, in the order of the graph."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.pipeline.results.answers import edge_table
from sssp_pipeline.pipeline.results.answers.edge_table import ends_of_edges, write_edges
from sssp_pipeline.pipeline.results.folder.distance_files import opened
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder

#: Vertices without edges are first, last, and between others. Vertex 3 has edges in three row groups.
SRC = np.array([1, 1, 3, 3, 3, 3, 3, 3, 6])
GRAPH = csr_from_edges(SRC, np.arange(9) % 8, np.ones(9, np.uint32), 8)
NAMES = VertexIds(IdMapping(kind="table", type="string"), pa.array(list("abcdefgh"), pa.large_string()), 8)
COLUMNS = {
    "mostly_zero": pa.array([0.0, 0, 0, 2.5, 0, 0, 0, 0, 1]),
    "different": pa.array(np.linspace(1, 9, 9)),
    "unknown": pa.nulls(9, pa.float64()),
}


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize("ids", [VertexIds.numbered(8, first_id=5), NAMES], ids=["numbers", "names"])
def test_threads_write_each_edge_once_and_in_order(monkeypatch, tmp_path, ids, compression):
    monkeypatch.setattr(edge_table, "ROWS_A_GROUP", 2)
    folder, stored = RunFolder(str(tmp_path)), SimpleNamespace(graph=lambda: GRAPH, ids=ids)

    def columns(some):
        return {name: values[some] for name, values in COLUMNS.items()}

    write_edges(folder, stored, compression, columns)
    expected = pa.table(ends_of_edges(GRAPH, ids) | COLUMNS)
    with opened(folder.stored("edges.parquet")) as file:  # compares the checksums
        assert file.num_row_groups == 5
        assert file.read().cast(expected.schema).equals(expected)
    limits = pq.read_metadata(tmp_path / "edges.parquet").row_group(1).column(2).statistics
    assert (limits.min, limits.max) == (0, 2.5)


def test_a_graph_without_edges(tmp_path):
    graph = csr_from_edges(SRC[:0], SRC[:0], np.ones(0, np.uint32), 8)
    stored = SimpleNamespace(graph=lambda: graph, ids=VertexIds.numbered(8))
    write_edges(RunFolder(str(tmp_path)), stored, "none", lambda some: {"flow": pa.array(np.ones(9)[some])})
    table = pq.read_table(tmp_path / "edges.parquet")
    assert table.num_rows == 0
    assert table.schema.types == [pa.int64(), pa.int64(), pa.float64()]
