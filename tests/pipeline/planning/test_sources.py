import bz2
import gzip
import lzma

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.base.csr import csr_from_edges
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.pipeline.planning.sources import Skipped, select_sources, select_targets
from sssp_pipeline.workflow.models import Sources, Vertices

# A path 0-1-…-9, and 10 to 19 on their own; vertex 4 has edges to all of the path.
GRAPH = csr_from_edges(
    np.array([*range(9), *[4] * 9]),
    np.array([*range(1, 10), 0, 1, 2, 3, 5, 6, 7, 8, 9]),
    np.ones(18, np.uint32),
    20,
)
IDS = VertexIds(IdMapping(kind="offset", type="int64", first_id=100), None, 20)
NAMES = VertexIds(IdMapping(kind="table", type="string"), pa.array([f"v{i:02}" for i in range(20)]), 20)


def zstd(content: bytes) -> bytes:
    return pa.compress(content, "zstd", asbytes=True)


def chosen(known=IDS, **spec) -> list[int]:
    found = select_sources(Sources(**spec), known, lambda: GRAPH)
    assert found.dtype == np.uint32
    return found.tolist()


def test_ids_are_those_of_the_input_and_come_back_sorted():
    assert chosen(ids=(119, 100, 104)) == [0, 4, 19]
    assert chosen(NAMES, ids=("v03", "v01")) == [1, 3]


def test_all_and_top_degree():
    assert chosen(all=True) == list(range(20))
    assert chosen(top_degree=1) == [4]
    assert chosen(top_degree=4) == [0, 1, 2, 4]  # of equal degrees the lower vertex first


def test_random_sources_depend_on_the_seed_alone():
    first = chosen(random={"count": 5, "seed": 3})
    assert first == chosen(random={"count": 5, "seed": 3})
    assert first != chosen(random={"count": 5, "seed": 4})
    assert len(set(first)) == 5
    assert chosen(random={"count": 20}) == list(range(20))


def test_random_sources_are_the_same_on_every_machine():
    assert chosen(random={"count": 5, "seed": 3}) == [0, 1, 4, 7, 9]


@pytest.mark.parametrize(
    ("reach", "eligible"), [(1, range(20)), (2, range(9)), (5, range(6)), (10, (0, 1, 2, 3, 4))]
)
def test_random_sources_reach_enough(reach, eligible):
    assert chosen(random={"count": len(eligible), "min_reach": reach}) == list(eligible)
    with pytest.raises(InputError) as caught:
        chosen(random={"count": len(eligible) + 1, "min_reach": reach})
    assert f"there are {len(eligible)}" in caught.value.message


def test_no_vertex_reaches_more_than_there_are():
    with pytest.raises(InputError) as caught:
        chosen(random={"count": 1, "min_reach": 10**15})
    assert caught.value.message == (
        "`sources.random` asks for 1 sources that reach 1000000000000000 vertices, but there are 0"
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"ids": (100, 99)}, "source `99` is not in the graph"),
        ({"ids": (100, 120)}, "source `120` is not in the graph"),
        ({"ids": ("x",)}, "source `x` is not in the graph, whose ids are integers"),
        ({"ids": (105, 100, 105)}, "source `105` is named 2 times"),
        ({"top_degree": 21}, "`sources.top_degree` asks for 21 sources, but there are 20"),
        ({"random": {"count": 21}}, "`sources.random.count` asks for 21 sources, but there are 20"),
    ],
)
def test_what_cannot_be_chosen_is_said(spec, message):
    with pytest.raises(InputError) as caught:
        chosen(**spec)
    assert caught.value.message == message


def test_a_file_holds_an_id_a_line(tmp_path):
    file = tmp_path / "sources.txt"
    file.write_text("\ufeff# depots\n104\n\n  101  \n")
    assert chosen(file=str(file)) == [1, 4]
    file.write_text("v02\nv00")
    assert chosen(NAMES, file=str(file)) == [0, 2]
    sharp = VertexIds(IdMapping(kind="table", type="string"), pa.array(["C", "C#"]), 2)
    file.write_text("C#\n")
    assert chosen(sharp, file=str(file)) == [1]


def test_a_parquet_file_is_a_list_of_sources_too(tmp_path):
    file = str(tmp_path / "sources.parquet")
    pq.write_table(pa.table({"label": ["x", "y"], "source": [103, 102]}), file)
    assert chosen(file=file) == [2, 3]


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
        (
            b"depot,name\n101,Ost\n",
            "line 1 has 2 columns, `depot`, `name`, and none is known to hold the sources",
        ),
        (b"source,name\n101,Ost\n102\n", "line 3 has 1 column, the lines before it have 2"),
        (
            b"id,vertex\n101,102\n",
            "has the columns `id`, `vertex`, and it is not clear which one holds the sources",
        ),
        (b"source,Source\n101,102\n", "it is not clear which one holds the sources"),
        (b'source,name\n101,"Ost\n', "line 2 cannot be read: "),
    ],
)
def test_a_bad_file_is_said(tmp_path, content, message):
    (tmp_path / "sources").write_bytes(content)
    with pytest.raises(InputError) as caught:
        chosen(file=str(tmp_path / "sources"))
    assert f"`{tmp_path}/sources`" in caught.value.message
    assert message in caught.value.message
    assert caught.value.hint


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
def test_a_column_of_a_table_is_found_or_named(tmp_path, content, column):
    file = tmp_path / "sources.csv"
    file.write_text(content)
    assert chosen(file=str(file), column=column, order="given") == [4, 1]


def test_a_header_is_what_the_workflow_says(tmp_path):
    file = tmp_path / "sources.csv"
    file.write_text("depot\n104\n")
    assert chosen(file=str(file), header=True) == [4]
    named = VertexIds(IdMapping(kind="table", type="string"), pa.array(["a", "id", "source"]), 3)
    file.write_text("id\na\n")
    with pytest.raises(InputError) as caught:
        chosen(named, file=str(file))
    assert caught.value.message.endswith("line 1: `id` may be the name of a column or the vertex of this id")
    assert "`sources.header: true`" in caught.value.hint
    assert chosen(named, file=str(file), header=True) == [0]
    assert chosen(named, file=str(file), header=False) == [0, 1]
    file.write_text("vertex\na\n")  # no vertex of this name
    assert chosen(named, file=str(file)) == [0]


def test_strings_are_compared_as_they_stand(tmp_path):
    ids = ["007", "7", "Rome, IT", 'the "X"', "x y"]
    named = VertexIds(IdMapping(kind="table", type="string"), pa.array(ids), 5)
    file = tmp_path / "sources.txt"
    file.write_text('7\n007\n"Rome, IT"\n"the ""X"""\nx y\n')
    assert chosen(named, file=str(file), order="given") == [1, 0, 2, 3, 4]
    file.write_text("Rome, IT\n")
    with pytest.raises(InputError, match="line 1 has 2 columns, `Rome`, `IT`"):
        chosen(named, file=str(file))
    file.write_text("x y\nRome, IT\n")  # no table: the first line is not split
    assert chosen(named, file=str(file)) == [2, 4]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress, zstd])
def test_a_file_may_be_compressed(tmp_path, compress):
    file = tmp_path / "sources"
    file.write_bytes(compress(b"source,name\n104,Ost\n101,West\n"))
    assert chosen(file=str(file)) == [1, 4]


def test_utf_16_with_a_byte_order_mark_is_read(tmp_path):
    file = tmp_path / "sources.txt"
    file.write_bytes("104\r\n101\r\n".encode("utf-16"))
    assert chosen(file=str(file)) == [1, 4]


def test_a_file_of_a_web_form_ends_its_lines_otherwise(tmp_path):
    file = tmp_path / "sources.txt"
    file.write_bytes(b"104\r101\r")
    assert chosen(file=str(file)) == [1, 4]


def test_arrow_files_and_text_in_columns(tmp_path):
    table = pa.table({"name": ["x", "y"], "id": pa.array(["103", "102"]).dictionary_encode()})
    for kind, make in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        with make(str(tmp_path / kind), table.schema) as writer:
            writer.write_table(table)
        assert chosen(file=str(tmp_path / kind), order="given") == [3, 2]
    pq.write_table(pa.table({"depot": pa.array([103, 102], pa.uint16()), "n": [1, 2]}), tmp_path / "p")
    assert chosen(file=str(tmp_path / "p"), column="depot") == [2, 3]
    assert chosen(file=str(tmp_path / "p"), column=1) == [2, 3]


@pytest.mark.parametrize(
    ("columns", "spec", "message"),
    [
        ({"source": [101.0]}, {}, "column `source` has type double, and the graph's ids are integers"),
        ({"source": [101, None, None]}, {}, "row 2: `source` is null; 2 of 3 rows are"),
        ({"source": ["101", "007"]}, {}, "row 2: `007` has a leading zero"),
        ({"source": pa.array([], pa.int64())}, {}, "names no source"),
        (
            {"a": [101], "b": [102]},
            {},
            "has the columns `a`, `b`, and it is not clear which one holds the sources",
        ),
        ({"a": [101], "b": [102]}, {"column": "c"}, "has no column `c`: its columns are `a`, `b`"),
        ({"a": [101], "b": [102]}, {"column": 3}, "has 2 columns, and `sources.column` is 3"),
        ({"source": [101]}, {"header": True}, "is a Parquet or Arrow file, whose columns always have names"),
        ({"source": [[101]]}, {}, "column `source` has type list"),
    ],
)
def test_a_bad_table_is_said(tmp_path, columns, spec, message):
    file = tmp_path / "sources.parquet"
    pq.write_table(pa.table(columns), file)
    with pytest.raises(InputError) as caught:
        chosen(file=str(file), **spec)
    assert message in caught.value.message
    assert caught.value.hint


def test_integers_in_a_table_are_no_strings(tmp_path):
    pq.write_table(pa.table({"source": [7]}), tmp_path / "p")
    with pytest.raises(InputError) as caught:
        chosen(NAMES, file=str(tmp_path / "p"))
    assert "column `source` has type int64, and the graph's ids are strings" in caught.value.message


def test_unknown_ids_are_counted_and_the_first_ten_named(tmp_path):
    file = tmp_path / "sources.txt"
    file.write_text("".join(f"{i}\n" for i in range(100, 132)))
    with pytest.raises(InputError) as caught:
        chosen(file=str(file))
    shown = ", ".join(f"`{i}`" for i in range(120, 130))
    assert caught.value.message == f"`{file}`: 12 of 32 sources are not in the graph: {shown}, …"
    assert caught.value.hint == (
        "the 20 ids of the graph run from 100 to 119; "
        "`sources.unknown: skip` leaves out those that are not in the graph"
    )


def test_unknown_ids_may_be_skipped(tmp_path):
    skipped = Skipped()
    spec = Sources(ids=(119, 5, 100, 2**70, 5), unknown="skip", order="given")
    assert select_sources(spec, IDS, lambda: GRAPH, skipped).tolist() == [19, 0]
    file = tmp_path / "targets.txt"
    file.write_text("101\n" + "9" * 30)
    targets = Vertices(file=str(file), unknown="skip")
    assert select_targets(targets, IDS, lambda: GRAPH, skipped).tolist() == [1]
    assert (skipped.sources, skipped.targets) == (3, 1)
    assert skipped.first == {"sources": ["5", str(2**70), "5"], "targets": ["9" * 30]}
    assert list(skipped.sentences()) == [
        f"skipped 3 sources that are not in the graph: `5`, `{2**70}`, `5`",
        f"skipped 1 target that is not in the graph: `{'9' * 30}`",
    ]


def test_a_first_line_that_is_no_id_may_be_a_header(tmp_path):
    file = tmp_path / "sources.txt"
    file.write_text("depot\nv01\n")
    with pytest.raises(InputError) as caught:
        chosen(NAMES, file=str(file))
    assert caught.value.message == f"`{file}`: source `depot` is not in the graph"
    assert caught.value.hint.startswith("if the first line names the column, write `sources.header: true`; ")
    file.write_text("99\n100\n")
    with pytest.raises(InputError) as caught:
        chosen(file=str(file))
    assert caught.value.hint.startswith("the 20 ids of the graph run from ")


def test_a_run_with_unknown_ids_alone_is_an_error():
    with pytest.raises(InputError) as caught:
        chosen(ids=(1, 2), unknown="skip")
    assert caught.value.message == "none of the 2 sources is in the graph: `1`, `2`"


def test_repeated_ids_are_counted(tmp_path):
    file = tmp_path / "sources.txt"
    file.write_text("119\n105\n100\n105\n119\n")
    with pytest.raises(InputError) as caught:
        chosen(file=str(file))
    assert caught.value.message == f"`{file}`: 2 sources are named more than once: `119`, `105`"


def test_sources_may_keep_their_order(tmp_path):
    assert chosen(ids=(119, 100, 104), order="given") == [19, 0, 4]
    file = tmp_path / "sources.txt"
    file.write_text("119\n100\n104\n")
    assert chosen(file=str(file), order="given") == [19, 0, 4]
    assert chosen(file=str(file)) == [0, 4, 19]


def test_an_integer_for_a_graph_of_strings_is_told_how_to_write_it():
    with pytest.raises(InputError) as caught:
        chosen(NAMES, ids=(7,))
    assert caught.value.message == "source `7` is not in the graph, whose ids are strings"
    assert (
        caught.value.hint
        == "in the workflow file write a string with quotes: '7'; the graph has for example 'v00'"
    )


def test_an_empty_graph_has_no_sources():
    empty = VertexIds(IdMapping(kind="offset", type="int64"), None, 0)
    with pytest.raises(InputError) as caught:
        chosen(empty, all=True)
    assert caught.value.message == "there is nothing to solve: the graph has no vertices"


# ---- targets ----


def to(known=IDS, **spec) -> list[int]:
    found = select_targets(Vertices(**spec), known, lambda: GRAPH)
    assert found.dtype == np.uint32
    return found.tolist()


def test_targets_stand_in_the_order_in_which_they_are_named(tmp_path):
    assert to(ids=(119, 100, 104)) == [19, 0, 4]
    assert to(NAMES, ids=("v03", "v01")) == [3, 1]
    file = tmp_path / "targets.txt"
    file.write_text("119\n100\n# depots\n104\n")
    assert to(file=str(file)) == [19, 0, 4]
    pq.write_table(pa.table({"source": [103, 102], "target": [105, 101]}), file)
    assert to(file=str(file)) == [5, 1]


def test_targets_that_are_drawn_ascend():
    assert to(top_degree=4) == [0, 1, 2, 4]
    assert to(random={"count": 5, "seed": 3}) == chosen(random={"count": 5, "seed": 3})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"ids": (100, 99)}, "target `99` is not in the graph"),
        ({"ids": ("x",)}, "target `x` is not in the graph, whose ids are integers"),
        ({"ids": (105, 100, 105)}, "target `105` is named 2 times"),
        ({"top_degree": 21}, "`output.targets.top_degree` asks for 21 targets, but there are 20"),
        ({"random": {"count": 21}}, "`output.targets.random.count` asks for 21 targets, but there are 20"),
        (
            {"random": {"count": 7, "min_reach": 10}},
            "`output.targets.random` asks for 7 targets that reach 10 vertices, but there are 5",
        ),
    ],
)
def test_targets_that_cannot_be_chosen_are_said(spec, message):
    with pytest.raises(InputError) as caught:
        to(**spec)
    assert caught.value.message == message


def test_a_bad_file_of_targets_is_said(tmp_path):
    file = tmp_path / "targets"
    for content, message in (("", "names no target"), ("101\n999\n", "target `999` is not in the graph")):
        file.write_text(content)
        with pytest.raises(InputError) as caught:
            to(file=str(file))
        assert f"`{file}`" in caught.value.message
        assert message in caught.value.message
