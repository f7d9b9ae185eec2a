import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.ingest.ids import id_runs
from sssp_pipeline.pipeline.ingest.ids.id_mapping import BITMAP_IDS, IntegerIds, StringIds, collector
from sssp_pipeline.pipeline.ingest.spill import Spill

ids_near_and_far = st.lists(
    st.one_of(
        st.integers(0, 200), st.integers(BITMAP_IDS - 3, BITMAP_IDS + 3), st.integers(2**40, 2**40 + 9)
    ),
    min_size=1,
    max_size=60,
)


@pytest.fixture(params=["in memory", "on disk"])
def kept(request, monkeypatch):
    """Give a spill, and the bytes of memory for ids: all fits, or nothing does."""
    if request.param == "on disk":
        monkeypatch.setattr(id_runs, "SAMPLED_OF", 2)
        monkeypatch.setattr(id_runs, "_MERGED_BYTES", 1)
    with Spill(sys.maxsize if request.param == "in memory" else 0) as spill:
        yield spill, 2**40 if request.param == "in memory" else 70


def numbered(ids, chunks):
    """Return the ids of all vertices, and the ids of each chunk as its vertices say; `ids` collects them."""
    codes = []
    for one in chunks:
        src, dst, chunk = ids.add(one[::2], one[1::2])
        codes.append((src.copy(), dst.copy(), chunk))
    found = ids.finish()
    names = found.column().to_pylist()
    again = []
    for src, dst, chunk in codes:
        vertices = ids.vertices(src, chunk), ids.vertices(dst, chunk)
        assert {v.dtype for v in (*vertices, src, dst)} == {np.dtype(np.uint32)}
        for codes_of_end, ends in zip((src, dst), vertices, strict=True):
            order = np.argsort(codes_of_end, kind="stable")
            assert (np.diff(ends[order].astype(np.int64)) >= 0).all(), "codes and vertices differ in order"
        again.append([[names[v] for v in ends] for ends in vertices])
    return found, again


@pytest.mark.medium
@settings(deadline=None, max_examples=50)
@given(st.lists(ids_near_and_far, min_size=1, max_size=4), st.sampled_from([2**40, 70]))
def test_integer_ids_are_numbered_in_ascending_order(chunks, memory_bytes):
    # Ids just below the bitmap's limit would make it 256 MiB large, again and again.
    chunks = [[i if not BITMAP_IDS - 4 < i < BITMAP_IDS else i - BITMAP_IDS + 300 for i in c] for c in chunks]
    with Spill(0) as spill:
        ids = IntegerIds(spill, memory_bytes)
        found, again = numbered(ids, [np.array(chunk) for chunk in chunks])
    wanted = sorted({i for chunk in chunks for i in chunk})
    assert found.column().to_pylist() == wanted
    assert again == [[chunk[::2], chunk[1::2]] for chunk in chunks]
    contiguous = wanted[-1] - wanted[0] + 1 == len(wanted)
    assert found.mapping.kind == ("offset" if contiguous else "table")


def test_many_large_ids(kept):
    rng = np.random.default_rng(3)
    chunks = [rng.integers(0, 2**62, n) for n in (1000, 2, 600)] + [np.arange(100)]
    chunks.append(chunks[0][:500])
    found, again = numbered(IntegerIds(*kept), chunks)
    np.testing.assert_array_equal(found.column(), np.unique(np.concatenate(chunks)))
    assert again == [[chunk[::2].tolist(), chunk[1::2].tolist()] for chunk in chunks]


@pytest.mark.medium
def test_the_bitmap_reaches_its_limit_and_no_further():
    with Spill(0) as spill:
        ids = IntegerIds(spill, 2**40)
        src, dst, chunk = ids.add(np.array([BITMAP_IDS - 1, BITMAP_IDS]), np.array([5, 5]))
        assert ids.has_chunks
        assert ids.finish().column().to_pylist() == [5, BITMAP_IDS - 1, BITMAP_IDS]
        assert (ids.vertices(src, chunk).tolist(), ids.vertices(dst, chunk).tolist()) == ([1, 2], [0, 0])


def test_ids_without_a_gap_need_no_table():
    with Spill(0) as spill:
        ids = IntegerIds(spill, 2**40)
        src, _, chunk = ids.add(np.array([12, 10]), np.array([11, 11]))
        found = ids.finish()
        assert (found.mapping.kind, found.mapping.first_id, found.table) == ("offset", 10, None)
        assert not ids.has_chunks
        assert ids.vertices(src, chunk).tolist() == [2, 0]


def test_an_id_that_no_vertex_has_is_at_the_next_one():
    with Spill(0) as spill:
        ids = IntegerIds(spill, 2**40)
        _, _, chunk = ids.add(np.array([10, 30]), np.array([200, 30]))
        ids.finish()
        codes = np.array([9, 11, 30, 31, 201, 2**31], np.uint32)
        assert ids.vertices(codes, chunk).tolist() == [0, 1, 1, 2, 3, 3]


def assert_strings_are_numbered(ids, chunks):
    """Assert that `ids` numbers the strings of `chunks` in ascending order."""
    found, again = numbered(ids, [pa.array(chunk, pa.large_string()) for chunk in chunks])
    assert found.column().to_pylist() == sorted({s for chunk in chunks for s in chunk})
    assert again == [[chunk[::2], chunk[1::2]] for chunk in chunks]


@pytest.mark.medium
@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=4), min_size=1, max_size=30), min_size=1, max_size=3))
def test_string_ids_are_numbered_in_ascending_order(chunks):
    with Spill(0) as spill:
        assert_strings_are_numbered(StringIds(spill, 70), chunks)


def test_many_strings(kept):
    rng = np.random.default_rng(3)
    chunks = [[f"stop-{i}" for i in rng.integers(0, 900, n)] for n in (1000, 1, 600, 50)]
    assert_strings_are_numbered(StringIds(*kept), chunks)


@pytest.mark.parametrize("kind", ["integer", "string"])
def test_no_edges_no_vertices(kind):
    with Spill(0) as spill:
        assert collector(kind, None, 0, spill, 2**40).finish().n_vertices == 0


def test_declared_ids_begin_where_the_format_says():
    with Spill(0) as spill:
        ids = collector("integer", 4, 1, spill, 0)
        src, dst, chunk = ids.add(np.array([1, 4]), np.array([2, 2]))
        assert (ids.vertices(src, chunk).tolist(), ids.vertices(dst, chunk).tolist()) == ([0, 3], [1, 1])
        assert ids.finish().column().to_pylist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("chunk", "asked", "message"),
    [
        ([3, 5, 9], [5, 4], "source `4` is not in the graph"),
        ([0, 1, 2], [3], "source `3` is not in the graph"),
        ([1, 2], [0], "source `0` is not in the graph"),
        ([1, 2], ["01"], "source `01` is not in the graph, whose ids are integers"),
    ],
)
def test_an_id_that_is_not_there_is_named(chunk, asked, message):
    with Spill(0) as spill:
        ids = IntegerIds(spill, 2**40)
        ids.add(np.array(chunk), np.array(chunk))
        found = ids.finish()
    with pytest.raises(InputError) as caught:
        found.vertices(asked, "source")
    assert caught.value.message == message


def test_ids_are_found_again():
    with Spill(0) as spill:
        ids = StringIds(spill, 2**40)
        ids.add(pa.array(["b", "a"], pa.large_string()), pa.array(["c", "c"], pa.large_string()))
        found = ids.finish()
    assert found.vertices(["c", "a"], "source").tolist() == [2, 0]
    assert found.originals(np.array([1, 1])).to_pylist() == ["b", "b"]
    with pytest.raises(InputError) as caught:
        found.vertices(["d"], "source")
    assert caught.value.hint == "the 3 ids of the graph run from 'a' to 'c'"
