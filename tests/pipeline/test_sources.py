import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sssp_pipeline.csr import csr_from_edges
from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.sources import select_sources, select_targets
from sssp_pipeline.pipeline.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.workflow import Output, Sources, Vertices

# A path 0-1-…-9, and 10 to 19 on their own; vertex 4 has edges to all of the path.
GRAPH = csr_from_edges(
    np.array([*range(9), *[4] * 9]),
    np.array([*range(1, 10), 0, 1, 2, 3, 5, 6, 7, 8, 9]),
    np.ones(18, np.uint32),
    20,
)
IDS = VertexIds(IdMapping(kind="offset", type="int64", first_id=100), None, 20)
NAMES = VertexIds(IdMapping(kind="table", type="string"), pa.array([f"v{i:02}" for i in range(20)]), 20)


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
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"PAR1 and no more", "is not readable Parquet"),
    ],
)
def test_a_bad_file_is_said(tmp_path, content, message):
    (tmp_path / "sources").write_bytes(content)
    with pytest.raises(InputError) as caught:
        chosen(file=str(tmp_path / "sources"))
    assert f"`{tmp_path}/sources`" in caught.value.message
    assert message in caught.value.message


def test_an_empty_graph_has_no_sources():
    empty = VertexIds(IdMapping(kind="offset", type="int64"), None, 0)
    with pytest.raises(InputError) as caught:
        chosen(empty, all=True)
    assert caught.value.message == "there is nothing to solve: the graph has no vertices"


# ---- targets ----


def to(known=IDS, **spec) -> list[int]:
    found = select_targets(Output(path="x", targets=Vertices(**spec)), known, lambda: GRAPH)
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


def test_no_targets_are_every_vertex_or_no_distances_at_all():
    assert select_targets(Output(path="x"), IDS, lambda: GRAPH) is None
    assert select_targets(Output(path="x", distances="none"), IDS, lambda: GRAPH).tolist() == []


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
