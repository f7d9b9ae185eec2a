"""Files of amounts of vertices: what is read, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_amounts import VertexAmounts
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.pipeline.planning.amounts import read_amounts
from sssp_pipeline.pipeline.planning.sources import VertexSelection
from sssp_pipeline.workflow.reduce import Amounts

NUMBERS = VertexIds(IdMapping(kind="offset", type="int64", first_id=1), None, 4)
NAMES = VertexIds(
    IdMapping(kind="table", type="string"), pa.array(["Ayr", "Bude", "Cork"], pa.large_string()), 3
)


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def read(content, ids=NUMBERS, **spec):
    if isinstance(content, pa.Table):
        pq.write_table(content, "a")
    else:
        Path("a").write_bytes(content if isinstance(content, bytes) else content.encode())
    selection = VertexSelection(ids, no_graph)
    amounts = Amounts(file="a", **{"names": ("jobs",), **spec})
    return read_amounts(amounts, "output.reduce.amounts", selection), selection.skipped


def no_graph():
    raise AssertionError("amounts need no graph")


@pytest.mark.parametrize(
    "content",
    [
        "vertex,jobs\n1,5\n4,-7\n",
        "id;jobs\n4;-7\n\n# a comment\n1;5\n",
        "jobs\tvertex\tmore\n5\t1\ty\n-7\t4\tx\n",
        gzip.compress(b"vertex, jobs\n1, 5\n4, -7\n"),
        pa.table({"jobs": [5, -7], "vertex": [1, 4]}),
        pa.table({"jobs": pa.array([5, -7], pa.int8()), "vertex": ["1", "4"]}),
    ],
    ids=["comma", "semicolon", "tab", "gzip", "parquet", "parquet with text"],
)
def test_amounts_of_vertices_without_a_row_are_zero(content):
    found, _ = read(content)
    assert (found.values.tolist(), found.values.dtype, found.exponents) == (
        [[5, 0, 0, -7]],
        np.int64,
        (None,),
    )


def test_several_columns_in_the_order_of_the_workflow():
    found, _ = read("city,jobs,area\nCork,5,0.75\nAyr,1,2\n", NAMES, names=("area", "jobs"), column="city")
    assert found.exponents[1] is None
    assert np.ldexp(found.values[0].astype(float), found.exponents[0]).tolist() == [2, 0, 0.75]
    assert found.values[1].tolist() == [1, 0, 5]


@pytest.mark.parametrize(
    ("content", "spec", "message", "hint"),
    [
        ("", {}, "`a` is empty", "write a line with the names"),
        ("vertex,people\n1,2\n", {}, "`a` has no column `jobs`: its columns are `vertex`, `people`", "correct"),
        ("vertex,jobs,jobs\n1,2,3\n", {}, "`a` has 2 columns `jobs`", "correct `output.reduce.amounts.names`"),
        ("node,jobs\n1,2\n", {}, "it is not clear which one holds the vertices", "`output.reduce.amounts.column:"),
        ("vertex,jobs\n1,2\n3,many\n", {}, "`a` line 3: column `jobs` is `many`, wanted a number", "write a number"),
        ("vertex,jobs\n1,\n", {}, "`a` line 2: column `jobs` is empty, wanted a number", "write a number"),
        ("vertex,jobs\n1,nan\n", {}, "`a` line 2: column `jobs` is `nan`, wanted a number", "write a number"),
        ("vertex,jobs\n1,1_000\n", {}, "column `jobs` is `1_000`, wanted a number", "write a number"),
        ("vertex,jobs\nx,1\n", {}, "`a` line 2: `x` is not a vertex id of this graph", "correct it"),
        ("vertex,jobs\n1,1\n9,1\n", {}, "`a`: vertex `9` is not in the graph", "`output.reduce.amounts.unknown: skip`"),
        ("vertex,jobs\n8,1\n9,1\n", {"unknown": "skip"}, "none of the 2 vertices is in the graph", "the 4 ids"),
        ("vertex,jobs\n2,1\n2,1\n", {}, "`a`: vertex `2` is named 2 times", "name it once"),
        (f"vertex,jobs\n1,{2**62}\n2,{2**62}\n", {}, "column `jobs` add up to more than 64 bits hold", "larger unit"),
        ("vertex,jobs\n1,1.5e308\n2,1.5e308\n", {}, "add up to more than float64 holds", "larger unit"),
        (pa.table({"vertex": [1], "jobs": ["5"]}), {}, "column `jobs` has type string, wanted numbers", "store"),
        (pa.table({"vertex": [1], "jobs": [None]}, pa.schema({"vertex": pa.int64(), "jobs": pa.int64()})), {},
         "`a` row 1: column `jobs` is empty, wanted a number", "write a number"),
        (b"PAR1 and no more", {}, "`a` cannot be read as Parquet or Arrow", "write the file again"),
    ],
    ids=lambda value: None,
)  # fmt: skip
def test_what_is_no_amount_is_refused(content, spec, message, hint):
    with pytest.raises(InputError) as caught:
        read(content, **spec)
    assert message in caught.value.message
    assert hint in caught.value.hint


def test_unknown_ids_may_be_skipped_and_are_counted():
    found, skipped = read("vertex,jobs\n9,8\n2,3\n", unknown="skip")
    assert found.values.tolist() == [[0, 3, 0, 0]]
    assert list(skipped.sentences()) == ["skipped 1 vertex that is not in the graph: `9`"]


@pytest.mark.parametrize("scale", [1e-300, 1e-9, 1.0, 1e300])
def test_floats_become_multiples_of_a_power_of_two(scale):
    column = np.random.default_rng(0).random(1000) * scale
    found = VertexAmounts.of({"x": column}, np.arange(1000), 1000)
    assert 2**60 < sum(map(abs, found.values[0].tolist())) < 2**62 + 1000
    back = np.ldexp(found.values[0].astype(np.float64), found.exponents[0])
    np.testing.assert_allclose(back, column, rtol=2**-52, atol=column.sum() * 2**-61)


def test_floats_that_are_multiples_already_stay_exact():
    column = np.array([0.5, -3.25, 1e6, 0.0])
    found = VertexAmounts.of({"x": column}, np.array([3, 1, 0, 2]), 4)
    assert np.ldexp(found.values[0].astype(np.float64), found.exponents[0]).tolist() == [1e6, -3.25, 0, 0.5]
    assert VertexAmounts.of({"x": np.zeros(2)}, np.arange(2), 2).values.tolist() == [[0, 0]]
