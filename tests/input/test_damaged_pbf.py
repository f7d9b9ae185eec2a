"""Parts of OpenStreetMap PBF that no program writes, each with its error."""

import zlib
from pathlib import Path

import pytest
from pbf_writer import Block, block, data, header, number, varint
from stored import ingested

from sssp_pipeline.base.errors import InputError

STREET = [("highway", "service")]
NODES = [(i, 10_000 * i, 0, True) for i in (1, 2, 3)]
WAY = (10, [1, 2, 3], STREET, True)
EDGES = [(1, 3, 222.39), (3, 1, 222.39)]
AGAIN = "a history has several versions of each object: extract one day of it with `osmium time-filter`"


def town(*blocks: bytes, head: bytes = block("OSMHeader", header())) -> bytes:
    return head + b"".join(blocks)


def of(nodes: list = NODES, ways: list = [WAY], **form) -> bytes:  # noqa: B006 - not changed
    return block("OSMData", Block(nodes, ways, **form).content())


def read(folder: Path, content: bytes) -> list:
    (folder / "a.osm.pbf").write_bytes(content)
    return ingested(folder / "a.osm.pbf", {"weights": {"column": "length"}}, folder / "graph").edges


CONTENT = Block(NODES, [WAY]).content()
#: The table of texts behind what else the block has.
TABLE_LAST = CONTENT[2 + CONTENT[1] :] + CONTENT[: 2 + CONTENT[1]]


@pytest.mark.parametrize(
    "content",
    [
        town(of()),
        town(of(is_dense=False, has_info=True)),
        town(of(granularity=1000, lon_offset=-5_000_000, lat_offset=1000, has_info=True)),
        town(of(ways=[]), of(nodes=[])),
        *(town(block("OSMData", CONTENT, name)) for name in ("raw", "zlib", "lz4")),
        *(town(block("OSMData", TABLE_LAST, name)) for name in ("raw", "zlib", "lz4")),
        town(of(ways=[(10, [1, 2, 3], [("name", ""), *STREET], True)])),
        # A bitmap of ids up to the largest one takes 16 TiB.
        town(of(nodes=[*NODES, (2**62, 0, 0, True)], ways=[WAY, (11, [3, 2**62], [("highway", "x")], True)])),
    ],
)
def test_accepted(tmp_path, content):
    assert read(tmp_path, content) == EDGES


def test_a_node_with_the_largest_id(tmp_path):
    """A bitmap of the nodes up to it would not fit."""
    largest = 2**63 - 1
    content = town(
        of(nodes=[(1, 10_000, 0, True), (largest, 20_000, 0, True)], ways=[(1, [1, largest], STREET, True)])
    )
    assert [edge[:2] for edge in read(tmp_path, content)] == [(1, largest), (largest, 1)]


@pytest.mark.parametrize(
    ("content", "message", "hint"),
    [
        (
            town(of(ways=[(10, [1, 2], [*STREET, ("name", "a\0b")], True)])),
            " is cut short or damaged: block 2: a text has a zero byte",
            "fetch it again",
        ),
        # The rest of the name would be the highway, of another kind.
        (
            town(of(ways=[(10, [1, 2], [("name", "a\0highway\0primary"), *STREET], True)])),
            " is cut short or damaged: block 2: a text has a zero byte",
            "fetch it again",
        ),
        (
            town(block("OSMData", data(1, b"") + data(1, data(1, b"a\0b")))),
            " is cut short or damaged: block 2: a text has a zero byte",
            "fetch it again",
        ),
        (
            town(block("OSMData", data(1, data(1, b"") + number(2, 0) + data(1, b"\n\0")))),
            " is cut short or damaged: block 2: its texts are damaged",
            "fetch it again",
        ),
        (town(of(ways=[(10, [1, 2], STREET, False)])), " has way 10, which is deleted", AGAIN),
        (town(of(nodes=[*NODES, (1, 0, 0, False)])), " has node 1 twice", AGAIN),
        (
            town(of(nodes=[*NODES[:2], (3, 0, 0, False)])),
            ": way 10 has node 3, which is not in the file",
            "cut extracts with complete ways; `graph.unreadable: skip` ends a way before such a node",
        ),
        *(
            (
                town(block("OSMData", CONTENT, compression)),
                f": block 2 is compressed with {name}, which is not read",
                "write it again, compressed with zlib",
            )
            for compression, name in (("lzma", "LZMA"), ("bzip2", "bzip2"), ("zstd", "Zstandard"))
        ),
        (
            town(of(), head=block("OSMHeader", header(["OsmSchema-V0.7"]))),
            " is in a version that libosmium does not read: "
            "PBF error: required feature not supported: OsmSchema-V0.7",
            "write it again with the features `OsmSchema-V0.6` and `DenseNodes` alone",
        ),
        (
            town(of())[:-1],
            " is cut short or damaged: block 2: it has {} bytes, and the file {} of them",
            "fetch it again",
        ),
        (
            town() + b"\xff\xff\xff\xff",
            " is cut short or damaged: block 2: its header has 4294967295 bytes",
            "fetch it again",
        ),
        (
            town(block("OSMData", CONTENT, "lz4", raw_size=2**31)),
            " is cut short or damaged: block 2: it has 2147483648 bytes when it is decompressed",
            "fetch it again",
        ),
        (
            town(block("OSMData", b"\n" + varint(2**64 - 1))),
            f" is cut short or damaged: block 2: its texts have {2**64 - 1} bytes",
            "fetch it again",
        ),
    ],
)
def test_refused(tmp_path, content, message, hint):
    with pytest.raises(InputError) as caught:
        read(tmp_path, content)
    size = len(zlib.compress(CONTENT))
    wanted = message.format(size + 4, size + 3)
    assert (caught.value.message, caught.value.hint) == (f"`{tmp_path}/a.osm.pbf`{wanted}", hint)
    assert [path.name for path in tmp_path.iterdir()] == ["a.osm.pbf"]
