"""OpenStreetMap files: PBF and XML, the edges that a plain reader of the same ways finds, and each error."""

import gzip
import json
import sys
from collections import Counter
from functools import partial
from itertools import pairwise

import hypothesis.strategies as st
import numpy as np
import osmium
import pytest
from hypothesis import given, settings
from osmium.osm.mutable import Node, Way

from sssp_pipeline.base.vertex_ids import IdMapping, VertexIds
from sssp_pipeline.pipeline.formats.detect import detect_format
from sssp_pipeline.pipeline.formats.openstreetmap import ways_and_nodes, xml_check
from sssp_pipeline.pipeline.formats.openstreetmap.rules import PROFILES, speeds_of

#: Longitude and latitude of some nodes.
NODES = {
    1: (7.42, 43.73),
    2: (7.42, 43.731),
    3: (7.42, 43.732),
    4: (7.422, 43.732),
    5: (7.424, 43.732),
    6: (7.424, 43.731),
}
STREET = {"highway": "residential"}


def osm_file(path, nodes, ways, header=None):
    """Write nodes {id: (lon, lat)} and ways [(id, refs, tags)]; the name says whether it is PBF or XML."""
    with osmium.SimpleWriter(str(path), overwrite=True, header=header or osmium.io.Header()) as writer:
        for node, location in nodes.items():
            writer.add_node(Node(id=node, version=1, location=location))
        for way, refs, tags in ways:
            writer.add_way(Way(id=way, version=1, nodes=refs, tags=tags))
    return path


@pytest.fixture(scope="session")
def reference(metres):
    """Return the edges, found way by way and node by node."""
    return partial(edges_of, metres)


def edges_of(metres, nodes, ways, weight, profile):
    open_ways = [(refs, found) for _, refs, tags in ways if (found := speeds_of(tags.get, PROFILES[profile]))]
    open_ways = [(refs, found) for refs, found in open_ways if len(refs) > 1]
    counts = Counter(ref for refs, _ in open_ways for ref in refs)
    vertices = {ref for ref, count in counts.items() if count > 1}
    vertices |= {end for refs, _ in open_ways for end in (refs[0], refs[-1])}
    edges = []
    for refs, found in open_ways:
        begin, length = refs[0], 0.0
        for previous, ref in pairwise(refs):
            length += metres((nodes[previous], nodes[ref]))
            if ref in vertices:
                for speed, ends in ((found.along, (begin, ref)), (found.against, (ref, begin))):
                    if speed:
                        value = length if weight == "length" else length / (speed / 3.6)
                        edges.append((*ends, round(value, 3)))
                begin, length = ref, 0.0
    return sorted(edges)


def rows(read, *paths, **options):
    return sorted(read(*paths, **options).rows())


@pytest.mark.parametrize("name", ["town.osm.pbf", "town.osm", "town.osm.gz", "town.osm.bz2"])
def test_a_town(tmp_path, read, reference, name):
    ways = [
        (10, [1, 2, 3], STREET),
        (11, [3, 4, 5], {"highway": "primary", "oneway": "yes", "maxspeed": "50"}),
        (12, [5, 6], {"highway": "footway"}),
        (13, [1, 6], {"railway": "rail"}),
    ]
    path = osm_file(tmp_path / name, NODES, ways)
    assert detect_format(str(path)) == "osm"
    found = read(path, weight_column="length")
    assert found.rows() == [(1, 3, 222.39), (3, 5, 321.39), (3, 1, 222.39)]
    assert rows(read, path, weight_column="time")[0] == (1, 3, 26.687)  # 222.39 m at 30 km/h
    assert rows(read, path, weight_column="time") == reference(NODES, ways, "time", "car")
    assert rows(read, path, weight_column="length", own={"profile": "foot"}) == [
        *((1, 3, 222.39), (3, 1, 222.39), (3, 5, 321.39), (5, 3, 321.39), (5, 6, 111.195), (6, 5, 111.195)),
    ]
    assert rows(read, path, weight_column="none") == [(1, 3), (3, 1), (3, 5)]


def test_what_is_shown(tmp_path, opened):
    path = osm_file(tmp_path / "town.osm.pbf", NODES, [(10, [1, 2], STREET)])
    edge_list = opened(path, weight_column="time", own={"profile": "bicycle"})
    assert edge_list.weight_unit == "seconds"
    assert edge_list.reading.lines() == [
        "osm; weight `time`; profile bicycle, as the workflow says; one-way ways one way; coordinates of the nodes; "
        "integer ids"
    ]
    facts = edge_list.reading.facts()
    assert facts["weight"] == "`time`, seconds, named by the workflow"
    shown = opened(path, weight_column="none")
    assert "profile car, the default of `graph.profile`" in shown.reading.facts()["rules"]
    assert shown.weight_unit is None
    assert not shown.has_weights


def test_positions(tmp_path, read):
    path = osm_file(tmp_path / "town.osm.pbf", NODES, [(10, [1, 2, 3], STREET), (11, [3, 4], STREET)])
    found = read(path, weight_column="length").edge_list
    ids = VertexIds(IdMapping(kind="offset", type="int64", first_id=3), None, 2)
    lon, lat = found.positions_of(ids)
    assert lon.tolist() == [7.42, 7.422]
    assert lat.tolist() == [43.732, 43.732]


def test_nodes_after_ways(tmp_path, read):
    head, node = '<osm version="0.6">', '<node id="{}" version="1" lat="{}" lon="0"/>'
    way = '<way id="1" version="1"><nd ref="1"/><nd ref="2"/><tag k="highway" v="road"/></way>'
    content = head + way + node.format(2, 0.001) + node.format(1, 0) + "</osm>"
    (tmp_path / "a.osm").write_text('<?xml version="1.0"?>\n<!-- a note -->\n' + content)
    assert rows(read, tmp_path / "a.osm", weight_column="length") == [(1, 2, 111.195), (2, 1, 111.195)]


def test_a_way_that_crosses_itself_and_one_that_closes(tmp_path, read, reference):
    ways = [
        (10, [1, 2, 3, 4, 2, 6], STREET),
        (11, [5, 6, 4, 5], {"highway": "primary", "junction": "roundabout"}),
    ]
    path = osm_file(tmp_path / "a.osm.pbf", NODES, ways)
    assert rows(read, path, weight_column="length") == reference(NODES, ways, "length", "car")


def test_files_that_touch_are_one_graph(tmp_path, read, reference):
    shared = (11, [3, 4, 5], STREET)
    first = osm_file(tmp_path / "a.osm.pbf", NODES, [(10, [1, 2, 3], STREET), shared])
    second = osm_file(tmp_path / "b.osm", NODES, [shared, (12, [5, 6], STREET)])
    wanted = reference(NODES, [(10, [1, 2, 3], STREET), shared, (12, [5, 6], STREET)], "length", "car")
    assert rows(read, first, second, weight_column="length") == wanted


def test_small_chunks_give_the_same_edges(tmp_path, read, reference):
    ways = [(way, list(range(1, 7))[:: 1 if way % 2 else -1], STREET) for way in range(10, 40)]
    path = osm_file(tmp_path / "a.osm.pbf", NODES, ways)
    small = read(path, weight_column="time", block_bytes=1)
    assert small.n_chunks == 30
    assert (
        sorted(small.rows())
        == rows(read, path, weight_column="time")
        == reference(NODES, ways, "time", "car")
    )


@pytest.mark.parametrize("bitmap_bytes", [0, 1 << 30])
def test_nodes_are_found_with_and_without_the_filter(tmp_path, read, reference, monkeypatch, bitmap_bytes):
    monkeypatch.setattr(ways_and_nodes, "_BITMAP_BYTES", bitmap_bytes)
    monkeypatch.setattr(ways_and_nodes, "_NODES_AT_A_TIME", 3)
    nodes = {10**9 * i: (i / 1000, 45) for i in range(1, 12)}
    ways = [(1, sorted(nodes)[2:9:2], STREET), (2, sorted(nodes)[4:6], STREET)]
    path = osm_file(tmp_path / "a.osm.pbf", nodes, ways)
    assert rows(read, path, weight_column="length") == reference(nodes, ways, "length", "car")


@st.composite
def towns(draw):
    n = draw(st.integers(2, 9))
    nodes = {
        draw(st.sampled_from([i, 10**9 + i, 10**10 + i])): (
            draw(st.integers(-100, 100)) / 1e4,
            45 + draw(st.integers(-100, 100)) / 1e4,
        )
        for i in range(1, n + 1)
    }
    tags = st.fixed_dictionaries(
        {"highway": st.sampled_from(["primary", "motorway", "footway", "residential"])},
        optional={
            "oneway": st.sampled_from(["yes", "no", "-1", "odd"]),
            "maxspeed": st.sampled_from(["50", "20 mph", "none"]),
            "access": st.sampled_from(["no", "yes"]),
            "junction": st.just("roundabout"),
        },
    )
    refs = st.lists(st.sampled_from(sorted(nodes)), min_size=1, max_size=7)
    ways = [
        (i, refs, tags) for i, (refs, tags) in enumerate(draw(st.lists(st.tuples(refs, tags), max_size=6)), 1)
    ]
    return nodes, ways


@pytest.mark.medium
@settings(max_examples=40, deadline=None)
@given(
    towns(), st.sampled_from(["length", "time"]), st.sampled_from(list(PROFILES)), st.sampled_from([1, 2**24])
)
def test_any_town(tmp_path_factory, read, reference, refused, town, weight, profile, block_bytes):
    nodes, ways = town
    path = osm_file(tmp_path_factory.mktemp("town") / "a.osm.pbf", nodes, ways)
    wanted = reference(nodes, ways, weight, profile)
    options = {"weight_column": weight, "own": {"profile": profile}, "block_bytes": block_bytes}
    if not any(len(refs) > 1 and speeds_of(tags.get, PROFILES[profile]) for _, refs, tags in ways):
        assert "has no way that the profile" in refused(path, **options)[0]
        return
    found = rows(read, path, **options)
    assert [edge[:2] for edge in found] == [edge[:2] for edge in wanted]
    # A sum in another order may round to the next millimetre.
    assert [edge[2] for edge in found] == pytest.approx([edge[2] for edge in wanted], abs=1.01e-3)


# ---- nodes that no file has ----


@pytest.fixture
def cut(tmp_path):
    nodes = {node: place for node, place in NODES.items() if node not in (3, 6)}
    return osm_file(tmp_path / "cut.osm.pbf", nodes, [(10, [1, 2, 3, 4, 5], STREET), (11, [6, 5], STREET)])


def test_a_way_that_leaves_the_extract(cut, refused):
    assert refused(cut, weight_column="length") == (
        f"`{cut}`: way 10 has node 3, which is not in the file",
        "cut extracts with complete ways; `graph.unreadable: skip` ends a way before such a node",
    )


def test_a_way_may_end_at_the_border(cut, read):
    found = read(cut, weight_column="length", unreadable="skip")
    assert sorted(found.rows()) == [(1, 2, 111.195), (2, 1, 111.195), (4, 5, 160.695), (5, 4, 160.695)]
    skipped = found.skipped
    assert skipped.count == 2
    assert skipped.lines == [
        f"`{cut}`: way 10 has node 3, which is not in the file",
        f"`{cut}`: way 11 has node 6, which is not in the file",
    ]


# ---- what is refused ----


@pytest.mark.parametrize(
    ("options", "problem", "hint"),
    [
        (
            {},
            ": a road has two weights, its `length` in metres and its `time` in seconds",
            "choose one: `graph.weights.column: time`, or length, or none; `graph.weights.several` takes both",
        ),
        (
            {"weight_column": "lenght"},
            ": unknown weight `lenght` in `graph.weights.column`",
            "did you mean `length`? a file of OpenStreetMap gives `length` and `time`",
        ),
        (
            {"weight_column": "time", "own": {"profile": "bicycle"}},
            " has no way that the profile bicycle may use",
            "check that this is the file you mean; `graph.profile` chooses car, bicycle or foot",
        ),
    ],
)
def test_options_that_do_not_fit(tmp_path, refused, options, problem, hint):
    path = osm_file(tmp_path / "a.osm.pbf", NODES, [(10, [1, 2], {"highway": "motorway"})])
    assert refused(path, **options) == (f"`{path}`{problem}", hint)


def test_a_missing_package(tmp_path, refused, monkeypatch):
    path = osm_file(tmp_path / "a.osm.pbf", NODES, [(10, [1, 2], STREET)])
    monkeypatch.setitem(sys.modules, "osmium", None)
    assert refused(path, weight_column="time") == (
        f"`{path}` is a file of OpenStreetMap, and reading it needs a package that is missing: "
        "import of osmium halted; None in sys.modules",
        "pip install 'sssp-pipeline[osm]'",
    )


@pytest.mark.parametrize("share", [0.3, 0.95])
def test_a_file_that_is_cut_short(tmp_path, refused, share):
    rng = np.random.default_rng(0)
    nodes = {i: tuple(rng.random(2).tolist()) for i in range(1, 20_000)}
    path = osm_file(tmp_path / "a.osm.pbf", nodes, [(i, [i, i + 1], STREET) for i in range(1, 15_000)])
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    message, hint = refused(path, weight_column="time")
    assert message.startswith(f"`{path}` is cut short or damaged: ")
    assert hint == "fetch it again"


def test_a_compressed_file_that_is_cut_short(tmp_path, refused):
    path = osm_file(tmp_path / "a.osm", NODES, [(10, [1, 2], STREET)])
    path.write_bytes(gzip.compress(path.read_bytes())[:-20])
    message, _ = refused(path, weight_column="time")
    assert "is cut short: its compressed data does not end" in message


def test_a_history(tmp_path, refused):
    header = osmium.io.Header()
    header.has_multiple_object_versions = True
    path = osm_file(tmp_path / "a.osh.pbf", NODES, [(10, [1, 2], STREET)], header)
    assert refused(path, weight_column="time") == (
        f"`{path}` is a history with several versions of each object",
        "extract one day of it with `osmium time-filter`",
    )


def test_two_versions_of_a_way(tmp_path, refused):
    path = osm_file(tmp_path / "a.osm", NODES, [(10, [1, 2], STREET), (10, [1, 2, 3], STREET)])
    assert refused(path, weight_column="time") == (
        f"`{path}` has way 10 twice",
        "a history has several versions of each object: extract one day of it with `osmium time-filter`",
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('way id="10"', 'way id="q"', "is cut short or damaged: illegal id: 'q'"),
        ('lat="43.73"', 'lat="north"', "is cut short or damaged: wrong format for coordinate: 'north'"),
        ('node id="2"', 'node id="1"', "has node 1 twice"),
    ],
)
def test_objects_that_are_damaged(tmp_path, refused, old, new, message):
    path = osm_file(tmp_path / "a.osm", NODES, [(10, [1, 3], STREET)])
    content = path.read_text()
    assert content.count(old) == 1
    path.write_text(content.replace(old, new))
    assert refused(path, weight_column="time")[0] == f"`{path}` {message}"


@pytest.mark.parametrize("block_bytes", [37, 1 << 20])
@pytest.mark.parametrize("mark", ["action='delete'", 'action="delete"', '\n  action = "delete"'])
def test_a_way_that_is_deleted_in_an_editor(tmp_path, refused, monkeypatch, mark, block_bytes):
    monkeypatch.setattr(xml_check, "_BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(xml_check, "_ELEMENT_BYTES", 300)
    path = osm_file(tmp_path / "a.osm", NODES, [(9, [1, 2], STREET), (10, [1, 3], STREET)])
    path.write_text(path.read_text().replace('<way id="10"', f'<way id="10" {mark}'))
    assert refused(path, weight_column="time") == (
        f"`{path}` has way 10, which JOSM has marked as deleted",
        "upload the changes, or purge the deleted ways in JOSM, and save the file again",
    )


def test_what_else_is_changed_in_an_editor_is_read(tmp_path, read):
    path = osm_file(tmp_path / "a.osm", NODES, [(10, [1, 2], STREET)])
    expected = rows(read, path, weight_column="length")
    text = path.read_text().replace('<way id="10"', '<way id="10" action="modify"')
    text = text.replace('<node id="3"', '<node id="3" action="delete"')
    path.write_text(text.replace("</way>", '<tag k="name" v="action=delete"/></way>'))
    assert rows(read, path, weight_column="length") == expected


@pytest.mark.parametrize(
    ("nodes", "way", "what"), [({-3: (0, 0)}, 10, "node -3"), ({3: (0, 0)}, -10, "way -10")]
)
def test_ids_of_an_editor(tmp_path, refused, nodes, way, what):
    path = osm_file(tmp_path / "a.osm", {1: (0, 0), **nodes}, [(way, [1, *nodes], STREET)])
    assert refused(path, weight_column="time") == (
        f"`{path}` has {what}, and ids are from 0",
        "editors give such ids to objects that are not uploaded: renumber them with `osmium renumber`",
    )


# ---- from the file to the answer ----


@pytest.fixture
def town(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ways = [
        (10, [1, 2, 3], STREET),
        (11, [3, 4, 5], {"highway": "primary", "oneway": "yes", "maxspeed": "50"}),
    ]
    osm_file(tmp_path / "town.osm.pbf", NODES, ways)
    return tmp_path


def test_a_run(town, ran):
    time = ("--set", "graph.weights.column=time")
    ran("run", "town.osm.pbf", "--from", "1", "--out", "r", *time, "--set", "graph.weights.scale=1000")
    facts = json.loads(ran("inspect", "--json", next(str(path) for path in town.glob("town-graph-*"))))
    assert facts["weights"]["unit"] == "seconds"
    assert facts["weights"]["dtype"] == "uint32"
    assert facts["coordinates_unit"] == "degrees"
    assert facts["read"]["weight"] == "`time`, seconds, named by the workflow"
    assert "length  49.827 seconds" in ran("path", "r", "--from", "1", "--to", "5")
    line = json.loads(ran("path", "r", "--from", "1", "--to", "5", "--geojson"))["geometry"]["coordinates"]
    assert line == [[7.42, 43.73], [7.42, 43.732], [7.424, 43.732]]


@pytest.mark.medium
def test_both_weights(town, ran):
    several = "graph.weights.several=[{name: length}, {name: time}]"
    ran("run", "town.osm.pbf", "--from", "1", "--out", "r", "--set", several)
    assert "length  543.78 metres" in ran("path", "r/length", "--from", "1", "--to", "5")
    assert "length  49.827 seconds" in ran("path", "r/time", "--from", "1", "--to", "5")


def test_another_unit(town, ran):
    options = ("--set", "graph.weights.column=time", "--set", "graph.weights.unit=minutes")
    assert ran("run", "town.osm.pbf", "--from", "1", "--out", "r", *options, code=2) == (
        "error: `graph.weights.unit` is `minutes`, and the weights of the osm input are in seconds\n\n"
        "hint: remove `graph.weights.unit`\n"
    )


def test_coordinates_of_another_file(town, ran):
    (town / "places.csv").write_text("id,lon,lat\n1,7.42,43.73\n")
    options = ("--set", "graph.weights.column=time", "--set", "graph.coordinates=places.csv")
    assert ran("run", "town.osm.pbf", "--from", "1", "--out", "r", *options, code=2) == (
        "error: `graph.coordinates` is set, and the osm input has positions of its own\n\n"
        "hint: remove `graph.coordinates`\n"
    )
