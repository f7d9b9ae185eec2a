"""GraphML of NetworkX, igraph and OSMnx, hostile XML, and each error."""

import json

import igraph
import networkx as nx
import pyarrow as pa
import pytest

from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.pipeline.formats.row_by_row import graphml_elements

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
WEIGHT = '<key id="w" for="edge" attr.name="weight" attr.type="double"/>\n'


def graphml(edges, keys=WEIGHT, direction="directed", nodes="", data=""):
    return f'{HEAD}{keys}<graph edgedefault="{direction}">\n{nodes}{edges}{data}</graph>\n</graphml>\n'


def edge(source, target, weight=None, more=""):
    data = "" if weight is None else f'<data key="w">{weight}</data>'
    return f'<edge source="{source}" target="{target}"{more}>{data}</edge>\n'


def osmnx_graph(crs="epsg:4326"):
    """Return a graph with the attributes that OSMnx gives; it writes all of them as strings."""
    graph = nx.MultiDiGraph(crs=crs)
    for node, (x, y) in {100: (7.42, 43.73), 200: (7.43, 43.73), 300: (7.43, 43.74)}.items():
        graph.add_node(node, x=str(x), y=str(y), street_count="3")
    graph.add_edge(100, 200, osmid="[1, 2]", length="803.5", oneway="True", highway="residential", lanes="2")
    graph.add_edge(200, 300, osmid="7", length="1112.25", oneway="False", name="Rue A & B")
    return graph


def vertices(*ids):
    is_text = isinstance(ids[0], str)
    table = pa.array(ids, pa.large_string() if is_text else pa.int64())
    return VertexIds(IdMapping(kind="table", type="string" if is_text else "int64"), table, len(ids))


def test_networkx(tmp_path, read):
    graph = nx.DiGraph()
    graph.add_edge("New York", "Łódź", weight=5)
    graph.add_edge("Łódź", "a<b", weight=2.5, note="x" * 70_000)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    found = read(tmp_path / "g.graphml")
    assert sorted(found.rows()) == [("New York", "Łódź", 5), ("Łódź", "a<b", 2.5)]
    assert found.reading.weight.column == "weight"
    assert found.reading.unused == ("note",)
    assert found.edge_list.positions_of is None


@pytest.mark.parametrize("block_bytes", [1, 7, 100])
def test_blocks_that_end_anywhere(tmp_path, read, monkeypatch, block_bytes):
    monkeypatch.setattr(graphml_elements, "_BLOCK_BYTES", block_bytes)
    nx.write_graphml(osmnx_graph(), path := tmp_path / "g.graphml")
    found = read(path)
    assert sorted(found.rows()) == [(100, 200, 803.5), (200, 300, 1112.25)]
    assert found.edge_list.positions_of(vertices(100, 300))[1].tolist() == [43.73, 43.74]


def test_igraph(tmp_path, read):
    graph = igraph.Graph.Ring(3)
    graph.vs["name"] = ["a", "b", "c"]
    graph.es["weight"] = [1, 2.5, 3]
    graph.write_graphml(str(tmp_path / "g.graphml"))
    found = read(tmp_path / "g.graphml")
    assert sorted(found.rows()) == [("n0", "n1", 1), ("n0", "n2", 3), ("n1", "n2", 2.5)]
    assert found.edge_list.symmetric == "mirror"
    assert "ids of nodes, not their `name`" in found.reading.rules


def test_osmnx(tmp_path, read):
    nx.write_graphml(osmnx_graph(), path := tmp_path / "g.graphml")
    found = read(path)
    assert sorted(found.rows()) == [(100, 200, 803.5), (200, 300, 1112.25)]
    assert found.reading.weight.column == "length"
    lon, lat = found.edge_list.positions_of(vertices(100, 200, 300))
    assert lon.tolist() == [7.42, 7.43, 7.43]
    assert lat.tolist() == [43.73, 43.73, 43.74]


@pytest.mark.parametrize("crs", ["epsg:32632", "", "EPSG:4326"])
def test_positions_in_another_reference_system(tmp_path, read, crs):
    nx.write_graphml(osmnx_graph(crs), path := tmp_path / "g.graphml")
    found = read(path).edge_list.positions_of(vertices(100, 200, 300))
    assert (found is not None) == (crs == "EPSG:4326")


def test_positions_without_a_reference_system(tmp_path, read):
    graph = osmnx_graph()
    del graph.graph["crs"]
    nx.write_graphml(graph, path := tmp_path / "g.graphml")
    edge_list = read(path).edge_list
    assert edge_list.positions_of is None
    assert "`x` and `y` of the nodes not used, because no `crs` says what they are" in edge_list.reading.rules


def test_positions_by_name_and_nodes_after_edges(write, read):
    keys = (
        '<key id="a" for="node" attr.name="Lat" attr.type="double"/><key id="b" for="node" attr.name="lng"/>'
    )
    nodes = '<node id="A"><data key="a">50</data><data key="b"> 7 </data></node><node id="B"/><node id="C"/>'
    nodes = nodes.replace('id="B"/>', 'id="B"><data key="b">8</data><data key="a">51</data></node>')
    found = read(write("g.graphml", graphml(edge("A", "B"), keys, data=nodes)), block_bytes=1).edge_list
    lon, lat = found.positions_of(vertices("A", "B"))
    assert (lon.tolist(), lat.tolist()) == ([7, 8], [50, 51])


KEYS = '<key id="a" for="node" attr.name="lat"/><key id="b" for="node" attr.name="lon"/>'


@pytest.mark.parametrize(
    ("nodes", "message", "hint"),
    [
        (
            '<node id="A"/><node id="B"/>',
            "`g.graphml`: node `A` has no `lon` or no `lat`",
            "give every node both, or give the attributes other names than `lon` and `lat`",
        ),
        (
            '<node id="A"><data key="a">1</data><data key="b">1</data></node>',
            "`g.graphml` has an edge of the node `B`, and no such node",
            "add the node",
        ),
        (
            '<node id="A"><data key="a">north</data><data key="b">1</data></node>',
            "`g.graphml` line 4: `north` of node `A` is no number for `lat`",
            "give every node a number",
        ),
    ],
)
def test_positions_that_cannot_be_used(write, read, refused, nodes, message, hint):
    name = write("g.graphml", graphml(edge("A", "B"), KEYS, nodes=nodes))
    ids = vertices("A", "B")
    assert refused(lambda: read(name).edge_list.positions_of(ids)) == (message, hint)


def test_a_default_weight(write, read):
    keys = WEIGHT.replace("/>", "><default> 7 </default></key>")
    content = graphml(edge(1, 2) + edge(2, 3, 5), keys)
    assert sorted(read(write("g.graphml", content)).rows()) == [(1, 2, 7), (2, 3, 5)]


def test_prefixes_comments_and_other_elements(write, read):
    content = (
        '<!-- a --><g:graphml xmlns:g="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://y.example">'
        '<g:desc>x</g:desc><g:key id="w" for="edge" attr.name="w"/><g:key id="y" for="edge" yfiles.type="e"/>'
        '<g:graph edgedefault="directed"><g:edge source="1" target="2"><g:data key="y"><y:w>9</y:w></g:data>'
        '<g:data key="w">5<!-- b --></g:data></g:edge></g:graph></g:graphml>'
    )
    assert read(write("g.graphml", content)).rows() == [(1, 2, 5)]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "latin-1"])
def test_encodings(write, read, encoding):
    declared = {"utf-8-sig": "UTF-8"}.get(encoding, encoding.upper())
    content = graphml(edge("Köln", "B", 5)).replace("UTF-8", declared.replace("LATIN-1", "ISO-8859-1"))
    assert read(write("g.graphml", content.encode(encoding))).rows() == [("Köln", "B", 5)]


def test_several_files(write, read):
    names = [write(f"{i}.graphml", graphml(edge(i, i + 1, 5))) for i in range(2)]
    assert read(*names).rows() == [(0, 1, 5), (1, 2, 5)]


def test_edges_that_are_left_out(write, read):
    content = graphml(edge(1, 2, 5) + edge(2, 3) + edge(3, 4, "wide") + edge(4, 5, "nan") + edge(5, 1, 6))
    found = read(write("g.graphml", content), unreadable="skip")
    assert found.rows() == [(1, 2, 5), (5, 1, 6)]
    assert found.skipped.count == 3
    assert found.skipped.lines[0] == "`g.graphml` line 6: the edge has no `weight`: 2 3"


# ---- what is refused ----


def test_a_long_tag(write, refused):
    content = graphml(f'<edge source="1" target="{"x" * 3_000_000}"/>')
    message, _ = refused(write("g.graphml", content), max_line_bytes=1 << 20)
    assert message == "`g.graphml` line 5: a tag is longer than 1,048,576 bytes"


def test_a_long_text(write, refused):
    message, _ = refused(write("g.graphml", graphml(edge(1, 2, "5" * 2_000_000))))
    assert message == "`g.graphml` line 5: the text of an attribute is longer than 1,048,576 characters"


def test_text_that_is_not_wanted_may_be_long(write, read):
    keys = WEIGHT + '<key id="n" for="node" attr.name="note"/>'
    nodes = f'<node id="1"><data key="n">{"x" * 900_000}</data></node>'
    assert read(write("g.graphml", graphml(edge(1, 2, 5), keys, nodes=nodes))).rows() == [(1, 2, 5)]


# ---- from the file to the answer ----


def test_a_run(write, ran):
    points = write("points.csv", "lon,lat\n7.4201,43.7301\n")
    nx.write_graphml(osmnx_graph(), "town.graphml")
    ran("run", "town.graphml", "--from", f"points:{points}", "--out", "r")
    found = json.loads(ran("path", "r", "--from", "1", "--to", "300", "--geojson"))
    assert found["geometry"]["coordinates"] == [[7.42, 43.73], [7.43, 43.73], [7.43, 43.74]]
