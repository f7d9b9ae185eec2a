"""The right numbers of vertices and edges in real graphs."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

pytestmark = pytest.mark.data

#: Name, format, vertices, edges as listed, least and greatest weight.
GRAPHS = [
    ("USA-road-d.NY.gr.gz", "dimacs", 264_346, 733_846, (1, 36_946)),
    ("USA-road-t.NY.gr.gz", "dimacs", 264_346, 733_846, (2, 92_366)),
    ("rome99.gr", "dimacs", 3_353, 8_870, None),
    ("pace16-NE.gr.xz", "dimacs", 1_524_453, 1_934_010, None),
    ("web-NotreDame.txt.gz", "text", 325_729, 1_497_134, None),
    ("wiki-Vote.txt", "text", 7_115, 103_689, None),
    ("p2p-Gnutella31.txt", "text", 62_586, 147_892, None),
    ("Email-Enron.txt", "text", 36_692, 367_662, None),
    ("facebook_combined.txt", "text", 4_039, 88_234, None),
    ("wing.graph", "metis", 62_032, 2 * 121_544, None),
    ("wave.graph.bz2", "metis", 156_317, 2 * 1_059_331, None),
]


@pytest.mark.medium
@pytest.mark.parametrize(("name", "format_name", "n_vertices", "n_edges", "weights"), GRAPHS)
def test_counts(read, data_file, name, format_name, n_vertices, n_edges, weights):
    found = read(data_file(name), block_bytes=1 << 20)
    assert found.reading.format == format_name
    assert len(found.src) == len(found.dst) == n_edges
    if found.edge_list.n_vertices is None:
        assert len(np.union1d(found.src, found.dst)) == n_vertices
    else:
        assert found.edge_list.n_vertices == n_vertices
    if weights is not None:
        assert (int(found.weights.min()), int(found.weights.max())) == weights


def test_coordinates(read, data_file):
    found = read(data_file("USA-road-d.NY.gr.gz"), coordinates=str(data_file("USA-road-d.NY.co.gz")))
    x, y = found.edge_list.coordinates()
    assert len(x) == len(y) == 264_346
    assert (x.dtype, x[0], y[0]) == (np.int64, -73530767, 41085396)


@pytest.mark.medium
def test_adjacency_text_turned_into_an_edge_list(read, data_file, write):
    n_vertices, *rows = gzip.decompress(data_file("cnr-2000.graph-txt.gz").read_bytes()).splitlines()
    content = b"".join(b"%d %b\n" % (i, target) for i, row in enumerate(rows) for target in row.split())
    found = read(write("cnr.txt", content), block_bytes=1 << 20)
    assert int(n_vertices) == len(rows) == 325_557
    assert len(found.src) == 3_216_152
    assert np.count_nonzero(found.src == found.dst) == 87_442
    assert len(np.union1d(found.src, found.dst)) <= 325_557
