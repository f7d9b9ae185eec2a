"""TNTP networks: the links, what is shown, and each error."""

import gzip
import json

import pytest
from typer.testing import CliRunner

from sssp_pipeline.cli import app
from sssp_pipeline.pipeline.formats.detect import open_edge_list
from sssp_pipeline.pipeline.formats.edge_list import ReadOptions

HEAD = """<NUMBER OF ZONES> 2
<NUMBER OF NODES> 4
<FIRST THRU NODE> 1
<NUMBER OF LINKS> 3
<ORIGINAL HEADER>~ \tInit node \tTerm node ;
<END OF METADATA>


~ \tinit_node\tterm_node\tcapacity\tlength\tfree_flow_time\tb\tpower\tspeed\ttoll\tlink_type\t;
"""
LINKS = """\t1\t2\t25900.20064\t6\t4.5\t0.15\t4\t0\t0\t1\t;
\t2\t3\t23403.47319\t4\t4\t0.15\t4\t0\t0\t1;
 3 4 1e4 5 2.25 0.15 4 0 7 1 ; ~ a note
"""
NET = HEAD + LINKS


@pytest.mark.parametrize(
    ("column", "weights"),
    [
        ("length", [6, 4, 5]),
        ("free_flow_time", [4.5, 4, 2.25]),
        ("toll", [0, 0, 7]),
        ("capacity", [25900.20064, 23403.47319, 1e4]),
    ],
)
def test_links(write, read, column, weights):
    found = read(write("a_net.tntp", NET), weight_column=column)
    assert sorted(found.rows()) == [(u, u + 1, w) for u, w in enumerate(weights, 1)]
    assert found.edge_list.n_vertices == 4
    assert found.edge_list.first_id == 1
    assert found.edge_list.symmetric == "as-listed"


def test_without_weights(write, read):
    assert read(write("a_net.tntp", NET), weight_column="none").rows() == [(1, 2), (2, 3), (3, 4)]


def test_small_chunks(write, read):
    found = read(write("a_net.tntp", NET), weight_column="length", block_bytes=1)
    assert found.n_chunks == 3
    assert [row[2] for row in found.rows()] == [6, 4, 5]


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(NET.encode()),
        NET.replace("\n", "\r\n").encode(),
        ("\ufeff" + NET).encode(),
        NET.encode("utf-16"),
        ("~ a note\n" + NET).encode(),
        NET.rstrip().encode(),
    ],
    ids=["gzip", "carriage returns", "byte order mark", "utf-16", "a comment first", "no last line end"],
)
def test_other_files(write, read, content):
    assert sorted(read(write("a_net.tntp", content), weight_column="length").rows()) == [
        *((1, 2, 6), (2, 3, 4), (3, 4, 5)),
    ]


def test_what_is_shown(write):
    name = write("a_net.tntp", NET.replace("THRU NODE> 1", "THRU NODE> 3"))
    reading = open_edge_list([name], ReadOptions(weight_column="free_flow_time")).reading
    assert reading.lines() == [
        "tntp; weight `free_flow_time`; paths may pass zones 1 to 2, which `<FIRST THRU NODE> 3` forbids; not used: "
        "`capacity`, `length`, `b`, `power`, `speed`, `toll`, `link_type`; integer ids"
    ]
    assert not open_edge_list([write("b_net.tntp", NET)], ReadOptions(weight_column="none")).reading.rules


COLUMNS = "init_node, term_node, capacity, length, free_flow_time, b, power, speed, toll, link_type"
LINK_HINT = f"a link is 10 numbers and a semicolon: {COLUMNS}"


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("<NUMBER OF NODES> 4\n", "", " has no `<NUMBER OF NODES>` in its metadata", ...),
        ("<NUMBER OF LINKS> 3\n", "", " has no `<NUMBER OF LINKS>` in its metadata", ...),
        ("LINKS> 3", "LINKS> 4", " declares 4 links but lists 3", ...),
        ("LINKS> 3", "LINKS> 2", " declares 2 links but lists 3", ...),
        ("<FIRST", "<NUMBER OF NODES> 5\n<FIRST", " line 3: `<NUMBER OF NODES>` stands a second time", ...),
        (
            " 3 4 1e4",
            " 3\u00a04 1e4",
            " line 12: `3\u00a04 1e4 5 2.25 0.15 4 0 7 1` is not a link",
            LINK_HINT,
        ),
        (" 3 4 1e4", " 3\r4 1e4", " line 12: `3\r4 1e4 5 2.25 0.15 4 0 7 1` is not a link", LINK_HINT),
        ("LINKS> 3", "LINKS> many", " line 4: `<NUMBER OF LINKS> many` gives no number", ...),
        ("LINKS> 3", "LINKS> -3", " line 4: `<NUMBER OF LINKS> -3` gives no number", ...),
        ("NODES> 4", "NODES> 99999999999", " line 2 declares 99999999999 number of nodes, at most", ...),
        (
            "NODES> 4",
            "NODES> 3",
            " line 12: vertex id `4` is outside 1 to 3",
            "correct the id, or `<NUMBER OF NODES>`",
        ),
        (
            "<END OF METADATA>\n",
            "",
            " line 9: `1\t2\t25900.20064\t6\t4.5\t0.15\t4\t0\t0\t1\t;` stands before",
            ...,
        ),
        (NET[NET.index("<END") :], "", " has no `<END OF METADATA>`", ...),
        (" 3 4 1e4", " 0 4 1e4", " line 12: vertex id `0` is outside 1 to 4", ...),
        (" 3 4 1e4", " A 4 1e4", " line 12: `A` is not a vertex id", ...),
        (" 3 4 1e4", " 3.0 4 1e4", " line 12: `3.0` is not a vertex id", ...),
        (" 3 4 1e4 5", " 3 4 1e4 far", " line 12: `far` is not a weight", ...),
        (" 3 4 1e4 5", " 3 4 1e4 nan", " line 12: weight `nan` is not finite", ...),
        (" 3 4 1e4", " 3 4", " line 12: `3 4 5 2.25 0.15 4 0 7 1` is not a link", LINK_HINT),
        ("7 1 ;", "7 1", " line 12: `3 4 1e4 5 2.25 0.15 4 0 7 1` is not a link", LINK_HINT),
        ("7 1 ;", "7 1 ; 5", " line 12: `3 4 1e4 5 2.25 0.15 4 0 7 1` is not a link", LINK_HINT),
    ],
)
def test_what_is_no_network(write, refused, old, new, message, hint):
    assert old in NET
    found, said = refused(write("a_net.tntp", NET.replace(old, new)), weight_column="length", format="tntp")
    assert found.startswith(f"`a_net.tntp`{message}")
    assert hint is ... or said == hint


def test_a_file_of_trips(write, refused):
    name = write(
        "a_trips.tntp", "<NUMBER OF ZONES> 24\n<TOTAL OD FLOW> 360600.0\n<END OF METADATA>\n\nOrigin 1\n"
    )
    assert refused(name, weight_column="length") == (
        "`a_trips.tntp` has no `<NUMBER OF NODES>` in its metadata",
        "name the file of the network, which ends in `_net.tntp`: others hold trips, flows or nodes",
    )


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        (
            {},
            "`a_net.tntp`: a link has several weights, such as its `length` and its `free_flow_time`",
            "choose one: `graph.weights.column: free_flow_time`, or length, toll or another of capacity, length, "
            "free_flow_time, b, power, speed, toll, link_type; or none",
        ),
        (
            {"weight_column": "free_flow_tme"},
            "`a_net.tntp`: unknown column `free_flow_tme` in `graph.weights.column`",
            "did you mean `free_flow_time`? Columns: " + ", ".join(COLUMNS.split(", ")[2:]),
        ),
        (
            {"weight_column": "length", "ids": "string"},
            "TNTP networks have integer ids, not strings",
            "remove `graph.ids`",
        ),
        (
            {"weight_column": "length", "source_column": "init_node"},
            "unknown column `init_node`: TNTP networks have no named columns",
            "set `graph.columns.source: auto`",
        ),
    ],
)
def test_options_that_do_not_fit(write, refused, options, message, hint):
    assert refused(write("a_net.tntp", NET), **options) == (message, hint)


def test_several_networks(write, refused):
    names = write("a_net.tntp", NET), write("b_net.tntp", NET)
    assert refused(*names, weight_column="length") == (
        "`a_net.tntp` and `b_net.tntp` are TNTP networks, each a whole graph",
        "name one of them",
    )


def test_a_run(write):
    write("a_net.tntp", NET)
    time = ("--set", "graph.weights.column=free_flow_time")
    result = CliRunner().invoke(app, ["run", "a_net.tntp", "--from", "1", "--out", "r", *time])
    assert result.exit_code == 0, result.stderr
    result = CliRunner().invoke(app, ["path", "r", "--from", "1", "--to", "4", "--json"])
    assert json.loads(result.stdout)["length"] == 10.75
