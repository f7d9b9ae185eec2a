import bz2
import gzip
import lzma
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.pipeline.planning.sources import Skipped, VertexSelection, _lowest, as_drawn
from sssp_pipeline.workflow.vertices import RandomVertices, Sources, Vertices

# A path 0-1-…-9, and 10 to 19 on their own; vertex 4 has edges to all of the path.
GRAPH = csr_from_edges(
    np.array([*range(9), *[4] * 9]),
    np.array([*range(1, 10), 0, 1, 2, 3, 5, 6, 7, 8, 9]),
    np.ones(18, np.uint32),
    20,
)
IDS = VertexIds(IdMapping(kind="offset", type="int64", first_id=100), None, 20)
NAMES = VertexIds(IdMapping(kind="table", type="string"), pa.array([f"v{i:02}" for i in range(20)]), 20)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def zstd(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


def refused(call, *given, **spec) -> tuple[str, str]:
    """Return message and hint of the error that `call` raises."""
    with pytest.raises(InputError) as caught:
        call(*given, **spec)
    return caught.value.message, caught.value.hint


def chosen(known=IDS, **spec) -> list[int]:
    found = VertexSelection(known, lambda: GRAPH).sources(Sources(**spec))
    assert found.dtype == np.uint32
    return found.tolist()


def listed_in(content: str | bytes, known=IDS, **spec) -> list[int]:
    """Return the sources that a file with this `content` names, in its order."""
    Path("sources").write_bytes(content if isinstance(content, bytes) else content.encode())
    return chosen(known, file="sources", **{"order": "given", **spec})


def test_ids_are_those_of_the_input_and_come_back_sorted():
    assert chosen(ids=(119, 100, 104)) == [0, 4, 19]
    assert chosen(ids=(119, 100, 104), order="given") == [19, 0, 4]
    assert chosen(NAMES, ids=("v03", "v01")) == [1, 3]
    assert listed_in("119\n100\n104\n", order="ascending") == [0, 4, 19]


def test_all_and_top_degree():
    assert chosen(all=True) == list(range(20))
    assert chosen(top_degree=1) == [4]
    assert chosen(top_degree=4) == to(top_degree=4) == [0, 1, 2, 4]  # of equal degrees the lower vertex first


def test_random_vertices_depend_on_the_seed_only():
    first = chosen(random={"count": 5, "seed": 3})
    assert first == to(random={"count": 5, "seed": 3}) == [0, 1, 4, 7, 9]  # on every machine
    assert first != chosen(random={"count": 5, "seed": 4})
    assert chosen(random={"count": 20}) == list(range(20))


@pytest.mark.parametrize("n", [1, 2, 300])
def test_random_vertices_are_the_first_ones_of_the_whole_order(n):
    for keys in (np.random.PCG64(7).random_raw(n), np.arange(n, dtype=np.uint64) // 5 % 7):
        order = np.argsort(keys, kind="stable")
        for count in {1, min(2, n), n // 2 + 1, n}:
            assert_array_equal(_lowest(keys, count), order[:count])


def test_sources_in_the_order_in_which_they_were_drawn():
    spec = Sources(random=RandomVertices(count=5, seed=3), order="given")
    drawn = VertexSelection(IDS, lambda: GRAPH).sources(spec)
    assert drawn.tolist() == [0, 4, 9, 7, 1]
    assert_array_equal(as_drawn(spec.random, np.sort(drawn), 20), drawn)


@pytest.mark.parametrize(
    ("reach", "eligible"), [(1, range(20)), (2, range(9)), (5, range(6)), (10, (0, 1, 2, 3, 4))]
)
def test_random_sources_reach_enough(reach, eligible):
    assert chosen(random={"count": len(eligible), "min_reach": reach}) == list(eligible)
    message, _ = refused(chosen, random={"count": len(eligible) + 1, "min_reach": reach})
    assert f"there are {len(eligible)}" in message


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"ids": (100, 99)}, "{} `99` is not in the graph"),
        ({"ids": (100, 120)}, "{} `120` is not in the graph"),
        ({"ids": ("x",)}, "{} `x` is not in the graph, whose ids are integers"),
        ({"ids": (105, 100, 105)}, "{} `105` is named 2 times"),
        ({"top_degree": 21}, "`{key}.top_degree` asks for 21 {}s, but there are 20"),
        ({"random": {"count": 21}}, "`{key}.random.count` asks for 21 {}s, but there are 20"),
        (
            {"random": {"count": 1, "min_reach": 10**15}},
            "`{key}.random` asks for 1 {}s that reach 1000000000000000 vertices, but there are 0",
        ),
    ],
)
def test_vertices_that_cannot_be_chosen(spec, message):
    assert refused(chosen, **spec)[0] == message.format("source", key="sources")
    assert refused(to, **spec)[0] == message.format("target", key="output.targets")


def test_a_file_has_an_id_on_each_line():
    assert listed_in("\ufeff# depots\n104\n\n  101  \n") == [4, 1]
    assert listed_in("104\r\n101\r\n".encode("utf-16")) == [4, 1]
    assert listed_in("104\r101\r") == [4, 1]
    assert listed_in("v02\nv00", NAMES) == [2, 0]
    assert listed_in("C#\n", VertexIds(IdMapping(kind="table", type="string"), pa.array(["C", "C#"]), 2)) == [
        1
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "names no source"),
        (b"# nothing\n", "names no source"),
        (b"101\n1o2\n", "line 2: `1o2` is not a vertex id of this graph, whose ids are integers"),
        (b"101\n999\n", "source `999` is not in the graph"),
        (b"\xff\xfe", "names no source"),
        (b"\xff\xfe1", "line 1: byte 0x31 is not UTF-16 text"),
        ("Z\xfcrich\n".encode("latin-1"), "line 1: byte 0xfc is not UTF-8 text"),
        (bytes(range(128)), "is a binary file that is neither Parquet nor Arrow"),
        (b"PAR1 and no more", "cannot be read as Parquet or Arrow: "),
        (b"007\n", "line 1: `007` has a leading zero, and the graph's ids are integers, which have none"),
        (b"+7\n", "line 1: `+7` is not a vertex id of this graph"),
        (b"7" * 5000, f"source `{'7' * 60}…` is not in the graph"),
        (b"source\n", "names no source"),
        (b"depot\n101\n", "line 1: `depot` is not a vertex id of this graph, whose ids are integers"),
        (b"101,Ost\n102,West\n", "line 1 has 2 columns, `101`, `Ost`, and none is known to hold the sources"),
        (b"101,5;7\n102,5;7\n", "can be split into columns by `,` and `;`"),
        (b"depot,name\n101,Ost\n", "line 1 has 2 columns, `depot`, `name`, and none is known to hold the sources"),
        (b"source,name\n101,Ost\n102\n", "line 3 has 1 column, the lines before it have 2"),
        (b"id,vertex\n101,102\n", "has the columns `id`, `vertex`, and it is not clear which one holds the sources"),
        (b"source,Source\n101,102\n", "it is not clear which one holds the sources"),
        (b'source,name\n101,"Ost\n', "line 2 cannot be read: "),
    ],
)  # fmt: skip
def test_a_bad_file(content, message):
    found, hint = refused(listed_in, content)
    assert found.startswith("`sources`")
    assert message in found
    assert hint


@pytest.mark.parametrize(
    ("content", "column"),
    [
        ("source\n104\n101\n", None),
        ("ID\n104\n101\n", None),
        ("vertex,name\n104,Ost\n101,West\n", None),
        ("name;source;id\nOst;104;1\nWest;101;2\n", None),
        ('"name"|"source"\n"a|b"|"104"\nWest|101\n', None),
        ("depot\tname\n104\tOst\n101\tWest\n", "depot"),
        ("depot, name\n104, Ost\n101, West\n", "depot"),
        ("depot\n104\n101\n", "depot"),
        ("Ost,104\nWest,101\n", 2),
        ("name,source\nOst,104\nWest,101\n", 2),
    ],
)
def test_a_column_of_a_table_is_found_or_named(content, column):
    assert listed_in(content, column=column) == [4, 1]


def test_a_header_is_what_the_workflow_says():
    assert listed_in("depot\n104\n", header=True) == [4]
    named = VertexIds(IdMapping(kind="table", type="string"), pa.array(["a", "id", "source"]), 3)
    message, hint = refused(listed_in, "id\na\n", named)
    assert message.endswith("line 1: `id` may be the name of a column or the vertex of this id")
    assert "`sources.header: true`" in hint
    assert listed_in("id\na\n", named, header=True) == [0]
    assert listed_in("id\na\n", named, header=False) == [1, 0]
    assert listed_in("vertex\na\n", named) == [0]  # no vertex of this name


def test_strings_are_compared_as_they_stand():
    ids = ["007", "7", "Rome, IT", 'the "X"', "x y"]
    named = VertexIds(IdMapping(kind="table", type="string"), pa.array(ids), 5)
    assert listed_in('7\n007\n"Rome, IT"\n"the ""X"""\nx y\n', named) == [1, 0, 2, 3, 4]
    assert "line 1 has 2 columns, `Rome`, `IT`" in refused(listed_in, "Rome, IT\n", named)[0]
    assert listed_in("x y\nRome, IT\n", named) == [4, 2]  # no table: the first line is not split


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_a_file_may_be_compressed(compress):
    assert listed_in(compress(b"source,name\n104,Ost\n101,West\n")) == [4, 1]


def test_tables_and_text_in_their_columns():
    table = pa.table({"name": ["x", "y"], "id": pa.array(["103", "102"]).dictionary_encode()})
    for kind, make in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        with make(kind, table.schema) as writer:
            writer.write_table(table)
        assert chosen(file=kind, order="given") == [3, 2]
    pq.write_table(pa.table({"depot": pa.array([103, 102], pa.uint16()), "n": [1, 2]}), "p")
    assert chosen(file="p", column="depot") == chosen(file="p", column=1) == [2, 3]
    pq.write_table(pa.table({"source": [103, 102], "target": [105, 101]}), "p")
    assert (chosen(file="p"), to(file="p")) == ([2, 3], [5, 1])


@pytest.mark.parametrize(
    ("columns", "spec", "message"),
    [
        ({"source": [101.0]}, {}, "column `source` has type double, and the graph's ids are integers"),
        ({"source": [101, None, None]}, {}, "row 2: `source` is null; 2 of 3 rows are"),
        ({"source": ["101", "007"]}, {}, "row 2: `007` has a leading zero"),
        ({"source": pa.array([], pa.int64())}, {}, "names no source"),
        ({"a": [101], "b": [102]}, {}, "has the columns `a`, `b`, and it is not clear which one holds the sources"),
        ({"a": [101], "b": [102]}, {"column": "c"}, "has no column `c`: its columns are `a`, `b`"),
        ({"a": [101], "b": [102]}, {"column": 3}, "has 2 columns, and `sources.column` is 3"),
        ({"source": [101]}, {"header": True}, "is a Parquet or Arrow file, whose columns always have names"),
        ({"source": [[101]]}, {}, "column `source` has type list"),
    ],
)  # fmt: skip
def test_a_bad_table(columns, spec, message):
    pq.write_table(pa.table(columns), "p")
    found, hint = refused(chosen, file="p", **spec)
    assert message in found
    assert hint


def test_uuids_in_a_table_are_strings():
    texts = [str(uuid.UUID(int=i)) for i in range(3)]
    known = VertexIds(IdMapping(kind="table", type="string"), pa.array(texts), 3)
    pq.write_table(pa.table({"source": pa.array([uuid.UUID(int=2).bytes], pa.uuid())}), "p")
    assert chosen(known, file="p") == [2]


def test_integers_in_a_table_are_no_strings():
    pq.write_table(pa.table({"source": [7]}), "p")
    message, _ = refused(chosen, NAMES, file="p")
    assert "column `source` has type int64, and the graph's ids are strings" in message


def test_unknown_ids_are_counted_and_the_first_ten_named():
    message, hint = refused(listed_in, "".join(f"{i}\n" for i in range(100, 132)))
    shown = ", ".join(f"`{i}`" for i in range(120, 130))
    assert message == f"`sources`: 12 of 32 sources are not in the graph: {shown}, …"
    assert hint == (
        "the 20 ids of the graph run from 100 to 119; "
        "`sources.unknown: skip` leaves out those that are not in the graph"
    )


def test_unknown_ids_may_be_skipped():
    selection = VertexSelection(IDS, lambda: GRAPH)
    skipped = selection.skipped
    spec = Sources(ids=(119, 5, 100, 2**70, 5), unknown="skip", order="given")
    assert selection.sources(spec).tolist() == [19, 0]
    Path("targets").write_text("101\n" + "9" * 30)
    targets = Vertices(file="targets", unknown="skip")
    assert selection.vertices(targets, "output.targets").tolist() == [1]
    assert (skipped.sources, skipped.targets) == (3, 1)
    assert skipped.first == {"sources": ["5", str(2**70), "5"], "targets": ["9" * 30]}
    assert list(skipped.sentences()) == [
        f"skipped 3 sources that are not in the graph: `5`, `{2**70}`, `5`",
        f"skipped 1 target that is not in the graph: `{'9' * 30}`",
    ]


def test_a_first_line_that_is_no_id_may_be_a_header():
    message, hint = refused(listed_in, "depot\nv01\n", NAMES)
    assert message == "`sources`: source `depot` is not in the graph"
    assert hint.startswith("if the first line names the column, write `sources.header: true`; ")
    assert refused(listed_in, "99\n100\n")[1].startswith("the 20 ids of the graph run from ")


@pytest.mark.parametrize("ids", ["integers", "strings"])
@pytest.mark.parametrize("content", ["id,lon,lat\nh1,-4.5,50.8\n", 'ID;"Longitude";latitude\nh1;-4.5;50.8\n'])
def test_points_that_are_given_as_ids(ids, content):
    message, hint = refused(listed_in, content, *([NAMES] if ids == "strings" else []))
    assert "`h1` is not" in message
    assert (
        hint
        == "to take its rows as points, write `points:sources` after `--from` or `--to`, or set `sources.points.file`"
    )


def test_a_run_with_only_unknown_ids_is_an_error():
    message, _ = refused(chosen, ids=(1, 2), unknown="skip")
    assert message == "none of the 2 sources is in the graph: `1`, `2`"


def test_repeated_ids_are_counted():
    message, _ = refused(listed_in, "119\n105\n100\n105\n119\n")
    assert message == "`sources`: 2 sources are named more than once: `119`, `105`"


def test_repeated_ids_can_be_dropped():
    message, hint = refused(listed_in, "119\n105\n119\n")
    assert message == "`sources`: source `119` is named 2 times"
    assert hint == "name it once; `sources.repeated: drop` keeps the first of each"
    skipped = Skipped()
    selection = VertexSelection(IDS, lambda: GRAPH, skipped)
    named = {"ids": (119, 105, 100, 105, 119, 119), "repeated": "drop"}
    kept = selection.sources(Sources(**named, order="given"))
    assert IDS.names(kept) == [119, 105, 100]
    assert selection.sources(Sources(**named)).tolist() == sorted(kept.tolist())
    assert selection.vertices(Vertices(**named), "output.targets").tolist() == kept.tolist()
    assert skipped.repeated == {"sources": 3, "targets": 3}
    assert "dropped 3 sources that had been named before" in skipped.sentences()


def test_an_integer_for_a_graph_of_strings_is_told_how_to_write_it():
    message, hint = refused(chosen, NAMES, ids=(7,))
    assert message == "source `7` is not in the graph, whose ids are strings"
    assert hint == "in the workflow file write a string with quotes, for example 'v00'"


def test_an_empty_graph_has_no_sources():
    empty = VertexIds(IdMapping(kind="offset", type="int64"), None, 0)
    assert refused(chosen, empty, all=True)[0] == "there is nothing to solve: the graph has no vertices"


# ---- targets ----


def to(known=IDS, **spec) -> list[int]:
    found = VertexSelection(known, lambda: GRAPH).vertices(Vertices(**spec), "output.targets")
    assert found.dtype == np.uint32
    return found.tolist()


def test_targets_stand_in_the_order_in_which_they_are_named():
    assert to(ids=(119, 100, 104)) == [19, 0, 4]
    assert to(NAMES, ids=("v03", "v01")) == [3, 1]
    Path("targets").write_text("119\n100\n# depots\n104\n")
    assert to(file="targets") == [19, 0, 4]


def test_a_bad_file_of_targets():
    for content, message in (
        ("", "` names no target"),
        ("101\n999\n", "`: target `999` is not in the graph"),
    ):
        Path("targets").write_text(content)
        assert refused(to, file="targets")[0] == "`targets" + message
