"""TNTP networks: the links, what is shown, and each error."""

import gzip
import json

import pytest

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
    assert found.declared == ("tntp", 4, 1, "as-listed")


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


def test_what_is_shown(write, opened):
    name = write("a_net.tntp", NET.replace("THRU NODE> 1", "THRU NODE> 3"))
    reading = opened(name, weight_column="free_flow_time").reading
    assert reading.lines() == [
        "tntp; weight `free_flow_time`; paths may pass zones 1 to 2, which `<FIRST THRU NODE> 3` forbids; not used: "
        "`capacity`, `length`, `b`, `power`, `speed`, `toll`, `link_type`; integer ids"
    ]
    assert not opened(write("b_net.tntp", NET), weight_column="none").reading.rules


def test_a_run(write, ran):
    time = ("--set", "graph.weights.column=free_flow_time")
    ran("run", write("a_net.tntp", NET), "--from", "1", "--out", "r", *time)
    assert json.loads(ran("path", "r", "--from", "1", "--to", "4", "--json"))["length"] == 10.75
