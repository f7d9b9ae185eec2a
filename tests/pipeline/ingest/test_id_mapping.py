import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.ingest.id_mapping import (
    BITMAP_IDS,
    IntegerIds,
    StringIds,
    collector,
)

ids_near_and_far = st.lists(
    st.one_of(
        st.integers(0, 200), st.integers(BITMAP_IDS - 3, BITMAP_IDS + 3), st.integers(2**40, 2**40 + 9)
    ),
    min_size=1,
    max_size=60,
)


@settings(deadline=None, max_examples=50)
@given(st.lists(ids_near_and_far, min_size=1, max_size=4))
def test_integer_ids_are_numbered_in_ascending_order(chunks):
    # Ids just below the bitmap's limit would make it 256 MiB large, again and again.
    chunks = [[i if not BITMAP_IDS - 4 < i < BITMAP_IDS else i - BITMAP_IDS + 300 for i in c] for c in chunks]
    ids = IntegerIds()
    kept = [ids.add(np.array(chunk)) for chunk in chunks]
    found = ids.finish()
    wanted = sorted({i for chunk in chunks for i in chunk})
    assert found.column().to_pylist() == wanted
    for chunk, k in zip(chunks, kept, strict=True):
        vertices = ids.vertices(k)
        assert vertices.dtype == np.uint32
        assert [wanted[v] for v in vertices] == chunk
    contiguous = wanted[-1] - wanted[0] + 1 == len(wanted)
    assert found.mapping.kind == ("offset" if contiguous else "table")


def test_the_bitmap_reaches_its_limit_and_no_further():
    ids = IntegerIds()
    kept = ids.add(np.array([BITMAP_IDS - 1, BITMAP_IDS, 5]))
    assert ids.finish().column().to_pylist() == [5, BITMAP_IDS - 1, BITMAP_IDS]
    assert ids.vertices(kept).tolist() == [1, 2, 0]


def test_ids_without_a_gap_need_no_table():
    ids = IntegerIds()
    kept = ids.add(np.array([12, 10, 11], np.int64))
    found = ids.finish()
    assert (found.mapping.kind, found.mapping.first_id, found.table) == ("offset", 10, None)
    assert ids.vertices(kept.astype(np.uint32)).tolist() == [2, 0, 1]


@settings(deadline=None)
@given(st.lists(st.lists(st.text(max_size=4), min_size=1, max_size=30), min_size=1, max_size=3))
def test_string_ids_are_numbered_in_ascending_order(chunks):
    ids = StringIds()
    kept = [ids.add(pa.array(chunk, pa.large_string())) for chunk in chunks]
    found = ids.finish()
    wanted = sorted({s for chunk in chunks for s in chunk})
    assert found.column().to_pylist() == wanted
    for chunk, k in zip(chunks, kept, strict=True):
        assert [wanted[v] for v in ids.vertices(k)] == chunk


def test_no_edges_no_vertices():
    for kind in ("integer", "string"):
        assert collector(kind, None, 0).finish().n_vertices == 0


def test_declared_ids_begin_where_the_format_says():
    ids = collector("integer", 4, 1)
    assert ids.vertices(ids.add(np.array([1, 4, 2]))).tolist() == [0, 3, 1]
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
    ids = IntegerIds()
    ids.add(np.array(chunk))
    with pytest.raises(InputError) as caught:
        ids.finish().vertices(asked, "source")
    assert caught.value.message == message


def test_ids_are_found_again():
    ids = StringIds()
    ids.add(pa.array(["b", "a", "c"]))
    found = ids.finish()
    assert found.vertices(["c", "a"], "source").tolist() == [2, 0]
    assert found.originals(np.array([1, 1])).to_pylist() == ["b", "b"]
    with pytest.raises(InputError) as caught:
        found.vertices(["d"], "source")
    assert caught.value.hint == "the 3 ids of the graph run from 'a' to 'c'"
