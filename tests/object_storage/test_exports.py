"""Exports of a graph store that is on S3, to S3: the same bytes as on a disk, also when they are sent in parts."""

import pytest

import sssp_pipeline as sp
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage import files, parts_upload

pytestmark = pytest.mark.slow

FILES = {"g.gr": "dimacs", "b.gr": "galois", "g.mtx": None, "g.graph": None, "g.npz": None, "g.parquet": None}


@pytest.mark.parametrize("part_bytes", [None, 5 * 2**20])
def test_exports_are_the_same_as_on_local_files(place, tmp_path, monkeypatch, part_bytes):
    if part_bytes is not None:
        monkeypatch.setattr(parts_upload, "_WHOLE_BYTES", part_bytes)
        monkeypatch.setattr(parts_upload, "_PART_BYTES", part_bytes)
    generated = "generated:road?vertices=300000&seed=3"
    graph = sp.ingest(generated, f"{place}/exported-graph", directed=False)
    local = sp.ingest(generated, tmp_path / "graph", directed=False)
    for name, form in FILES.items():
        url = f"{place}/{name}"
        assert graph.export(url, format=form)[0] == url
        local.export(tmp_path / name, format=form)
        assert files.read_bytes(url) == (tmp_path / name).read_bytes()
        with pytest.raises(InputError, match="exists"):
            graph.export(url, format=form)


def test_an_export_that_fails_leaves_no_object(place):
    graph = sp.ingest("generated:road?vertices=1000&seed=3", f"{place}/exported-graph")
    before = files.list_files(place)
    damaged = graph.manifest.edges[0].path
    content = bytearray(files.read_bytes(f"{place}/exported-graph/{damaged}"))
    content[len(content) // 2] ^= 1
    files.write_atomic(f"{place}/exported-graph/{damaged}", bytes(content))
    with pytest.raises(InputError, match="was altered"):
        graph.export(f"{place}/g.mtx", vertices=f"{place}/v.parquet")
    assert files.list_files(place) == before
