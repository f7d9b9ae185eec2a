"""Inputs of OpenStreetMap PBF for the fuzzer, whole and damaged."""

from __future__ import annotations

import random
import struct

import pbf_writer
from mutations import HIGHWAYS, TAGS, Input, chance, mutated_bytes, options
from pbf_writer import Block, Node, Way


def pbf(rng: random.Random) -> Input:
    """Return a town in a few blocks; most inputs have one or two faults."""
    nodes, ways = _town(rng)
    blocks = _blocks(rng, nodes, ways)
    features = ["OsmSchema-V0.6", "DenseNodes"]
    if chance(rng, 0.05):
        odd = ["HistoricalInformation", "LocationsOnWays", "Sort.Type_then_ID", "x", "", "OsmSchema-V0.7"]
        features = rng.choice([[], features[:1], features[1:], [*features, rng.choice(odd)]])
    content = pbf_writer.block("OSMHeader", pbf_writer.header(features), rng.choice(["raw", "zlib"]))
    kinds = ["zlib"] * 6 + ["raw"] * 3 + ["lz4"] + [rng.choice(["zstd", "lzma", "bzip2"])] * chance(rng, 0.1)
    for each in blocks:
        inside = each.content()
        if chance(rng, 0.1):
            inside = mutated_bytes(rng, inside)
        raw_size = rng.choice([0, 1, len(inside) + 1, len(inside) - 1, 2**25 + 1, 2**31 - 1, 2**63, -1])
        content += pbf_writer.block(
            rng.choice(["OSMHeader", "OSMdata", "x", ""]) if chance(rng, 0.01) else "OSMData",
            inside,
            rng.choice(kinds),
            raw_size if chance(rng, 0.02) else None,
        )
    if chance(rng, 0.25):
        content = _damaged_file(rng, content)
    graph = options(rng) if chance(rng, 0.1) else {}
    column = rng.choice(["length", "length", "time", "time", "time", "none", "none", "far"])
    graph["weights"] = {"column": column} | graph.get("weights", {})
    if chance(rng, 0.8):
        graph["profile"] = rng.choice(["car", "bicycle", "foot", "foot"])
    return Input("town.osm.pbf", content, graph)


def _town(rng: random.Random) -> tuple[list[Node], list[Way]]:
    n = rng.randrange(2, 9)
    first = rng.choice([1, 1, 1, 10**6, 2**33, 0])
    nodes = [
        (first + i, 10 * rng.randrange(-(10**5), 10**5), 500_000_000 + 10 * rng.randrange(10**5), True)
        for i in range(n)
    ]
    ways = []
    for i in range(rng.randrange(1, 5)):
        chosen = rng.sample(list(TAGS), rng.choice((0, 0, 1, 2, 4)))
        tags = [("highway", rng.choice(HIGHWAYS)), *((key, rng.choice(TAGS[key])) for key in chosen)]
        n_refs = rng.choice((0, 1)) if chance(rng, 0.05) else rng.randrange(2, 7)
        ways.append((i + 1, [first + rng.randrange(n) for _ in range(n_refs)], tags, True))
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2))):
        _damage_town(rng, nodes, ways)
    return nodes, ways


def _damage_town(rng: random.Random, nodes: list[Node], ways: list[Way]) -> None:
    """Change one thing that a town may have wrong, or that only looks wrong."""
    kind, i, j = rng.randrange(10), rng.randrange(len(nodes)), rng.randrange(len(ways))
    node, (way, refs, tags, is_visible) = nodes[i], ways[j]
    if kind == 0 and len(nodes) > 1:
        del nodes[i]
    elif kind == 1:
        nodes.append(node)
    elif kind == 2:
        ways.append(rng.choice([ways[j], (way, refs[::-1], tags, True)]))
    elif kind == 3:
        odd = rng.choice([-1, -5, 0, 2**31, 2**62, 2**63 - 1, -(2**63)])
        nodes[i] = (odd, *node[1:])
        ways[j] = (way, [odd if ref == node[0] else ref for ref in refs], tags, is_visible)
    elif kind == 4:
        ways[j] = (rng.choice([-1, 0, 2**31, 2**63 - 1, -(2**63)]), refs, tags, is_visible)
    elif kind == 5:
        lon, lat = rng.choice(
            [
                *((1_800_000_000, 0), (-1_800_000_000, 900_000_000), (0, -900_000_000), (1_800_000_001, 0)),
                *((0, 900_000_001), (2**31 - 1, 2**31 - 1), (2**31, 0), (2**32 + 5, 7), (10**17, 0)),
            ]
        )
        nodes[i] = (node[0], lon, lat, True)
    elif kind == 6:
        nodes[i] = (*node[:3], False)
    elif kind == 7:
        ways[j] = (way, refs, tags, False)
    elif kind == 8:
        odd_tags = [("highway", "track"), ("", ""), ("oneway", "no"), ("name", "x" * rng.choice((300, 2000)))]
        odd_tags += [("name", "a\0b"), ("name", "a\0highway\0path")]
        ways[j] = (way, refs, [*tags, rng.choice(odd_tags)], is_visible)
    else:
        rng.shuffle(nodes)


def _blocks(rng: random.Random, nodes: list[Node], ways: list[Way]) -> list[Block]:
    """Return the nodes and ways in blocks, the nodes mostly first."""
    form = {
        "granularity": rng.choice([1, 10, 100, 100, 100, 100, 1000]),
        "lon_offset": rng.choice([0, 0, 0, 1000, -5_000_000_000]),
        "lat_offset": rng.choice([0, 0, 0, 1000, 50_000_000_000]),
        "has_info": chance(rng, 0.3),
    }
    cut = rng.randrange(len(nodes) + 1) if chance(rng, 0.3) else len(nodes)
    blocks = [Block(part, [], chance(rng, 0.6), **form) for part in (nodes[:cut], nodes[cut:]) if part]
    if chance(rng, 0.2):
        blocks[-1].ways = ways
    else:
        blocks.append(Block([], ways, **form))
    if chance(rng, 0.05):
        rng.shuffle(blocks)
    if chance(rng, 0.03):
        blocks.insert(rng.randrange(len(blocks) + 1), Block([], []))
    if chance(rng, 0.02):
        blocks.append(rng.choice(blocks))
    if chance(rng, 0.02):
        blocks[0].said = rng.choice([0, -100, 2**31 - 1, 2**31, 2**40])
    return blocks


def _damaged_file(rng: random.Random, content: bytes) -> bytes:
    kind = rng.randrange(4)
    if kind == 0:
        return content[: rng.randrange(len(content) + 1)]
    if kind == 1:
        at = rng.randrange(len(content) + 1)
        odd = [struct.pack(">I", size) for size in (0, 5, 2**16, 2**16 + 1, 2**31, 2**32 - 1)]
        return content[:at] + rng.choice(odd) + content[at + 4 * chance(rng, 0.7) :]
    return mutated_bytes(rng, content)
