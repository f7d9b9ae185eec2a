"""OpenStreetMap XML, as the reference reader reads it: the whole file as a tree, and the rules of the guide."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Container
from decimal import ROUND_HALF_UP, Decimal
from itertools import groupby, pairwise
from xml.etree import ElementTree

from reference_graph import Graph, Refused, asked_columns, millimetres, number

CAR = {
    "motorway": 110,
    "trunk": 90,
    "primary": 65,
    "secondary": 55,
    "tertiary": 45,
    "unclassified": 40,
    "motorway_link": 60,
    "trunk_link": 50,
    "primary_link": 40,
    "secondary_link": 35,
    "tertiary_link": 30,
    "residential": 30,
    "living_street": 10,
    "service": 15,
    "road": 30,
}
QUIET = [kind for kind in CAR if not kind.startswith(("motorway", "trunk"))]
#: For each profile: the speeds of open ways, those of ways that a tag must open, and the tags of access and direction.
PROFILES = {
    "car": (CAR, {}, "motorcar motor_vehicle vehicle access", "motorcar motor_vehicle vehicle"),
    "bicycle": (
        {**dict.fromkeys([*QUIET, "cycleway"], 15), "path": 12, "track": 12},
        dict.fromkeys(["trunk", "trunk_link", "pedestrian", "footway", "bridleway"], 15),
        "bicycle vehicle access",
        "bicycle vehicle",
    ),
    "foot": (
        dict.fromkeys(
            [*QUIET, *"pedestrian footway path track bridleway steps corridor platform".split()],  # noqa: SIM905
            5,
        ),
        dict.fromkeys(["trunk", "trunk_link", "cycleway"], 5),
        "foot access",
        "foot",
    ),
}
CLOSES = "no private agricultural forestry emergency military psv bus use_sidepath dismount".split()  # noqa: SIM905
OPENS = ("yes", "designated", "permissive", "official", "destination")
WAYS = {"yes": "+", "true": "+", "1": "+", "-1": "-", "reverse": "-", "reversible": ""}
WAYS |= dict.fromkeys(("no", "false", "0", "alternating"), "+-")


def is_osm(text: str) -> bool:
    return re.match(r"\s*(<\?.*?\?>|<!--.*?-->|\s)*<osm[\s>/]", text, re.DOTALL) is not None


#: A way: its id, its nodes, its tags, and whether it is not deleted.
Road = tuple[int, list[int], dict, bool]
#: The id of a node and its position; None if it has none.
Place = tuple[int, tuple[float, float] | None]


def read_osm(data: bytes, graph: dict) -> Graph:
    """Return the roads of an XML file."""
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError):
        raise Refused("no XML") from None
    ways = []
    for way in root.findall("way"):
        # No object of OpenStreetMap has a tag twice. Where one has, the first counts.
        tags = {tag.get("k"): tag.get("v", "") for tag in reversed(_first_run(way, "tag"))}
        refs = [_number(nd.get("ref")) for nd in _first_run(way, "nd")]
        ways.append((_id(way), refs, tags, way.get("visible") != "false"))

    def places(used: Container[int]) -> list[Place]:
        return [(_id(node), _position(node)) for node in root.findall("node") if _id(node) in used]

    return graph_of_roads(ways, places, graph)


def graph_of_roads(ways: list[Road], places: Callable[[Container[int]], list[Place]], graph: dict) -> Graph:
    """Nodes that ways share, and both ends of each way, are vertices; what lies between two of them is an edge."""
    weight = asked_columns(graph)[2]
    if weight not in ("length", "time", "none"):
        raise Refused("no weight is named")
    roads, ids = [], set()
    for way, refs, tags, is_visible in ways:
        speeds = speeds_of(tags, graph.get("profile", "car"))
        if any(speeds) and len(refs) > 1:
            roads.append((refs, speeds))
            if way in ids or min(way, *refs) < 0 or not is_visible:
                raise Refused("a way stands twice or is deleted, or an id is negative")
            ids.add(way)
    if not roads:
        raise Refused("no open way")
    occurs = Counter(ref for refs, _ in roads for ref in refs)
    vertices = {ref for ref, count in occurs.items() if count > 1}
    vertices |= {end for refs, _ in roads for end in (refs[0], refs[-1])}
    used = places(occurs)
    nodes = dict(used)
    if len(nodes) < len(used):
        raise Refused("a node stands twice")
    if any(nodes.get(ref) is None for ref in occurs):
        raise Refused("a node is missing")
    edges = []
    for refs, speeds in roads:
        begin, metres = refs[0], 0.0
        for before, ref in pairwise(refs):
            metres += distance(nodes[before], nodes[ref])
            if ref not in vertices:
                continue
            for speed, ends in zip(speeds, ((begin, ref), (ref, begin)), strict=True):
                if speed:
                    value = metres if weight == "length" else metres / (speed / 3.6)
                    rounded = millimetres(value)
                    edges.append((*ends, None if weight == "none" else rounded))
            begin, metres = ref, 0.0
    return Graph(edges, decimals=weight != "none")


def _first_run(way: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    """Return the elements of a kind that stand together; all of them in every file that programs write."""
    return next((list(run) for tag, run in groupby(way, lambda child: child.tag) if tag == kind), [])


def _number(text: str | None) -> int:
    if text is None:
        return 0
    if not re.fullmatch("-?[0-9]{1,19}", text) or int(text) >= 2**63:
        raise Refused(f"{text} is no id")
    return int(text)


def _id(element: ElementTree.Element) -> int:
    return _number(element.get("id"))


def _position(node: ElementTree.Element) -> tuple[float, float] | None:
    """Return longitude and latitude in units of 1e-7 degrees, rounded."""
    found = []
    for name, most in (("lon", 180), ("lat", 90)):
        text = node.get(name)
        if text is None:
            return None
        if number(text) is None:
            raise Refused(f"{text} is no position")
        units = int(Decimal(text).scaleb(7).to_integral_value(ROUND_HALF_UP))
        if abs(units) > most * 10**7:
            return None
        found.append(units / 10**7)
    return found[0], found[1]


def distance(a: tuple[float, float], b: tuple[float, float]) -> float:
    (x, y), (u, v) = ([math.radians(degrees) for degrees in end] for end in (a, b))
    square = math.sin((v - y) / 2) ** 2 + math.cos(y) * math.cos(v) * math.sin((u - x) / 2) ** 2
    return 2 * 6_371_008.8 * math.asin(math.sqrt(square))


def speeds_of(tags: dict, profile: str) -> tuple[float, float]:
    """Return the speeds along a way and against it; 0 where it is closed."""
    always, if_opened, access, directions = PROFILES[profile]
    kind = tags.get("highway")
    allowed = [tags[key] for key in access.split() if key in tags]
    if tags.get("area") == "yes" or (profile != "car" and tags.get("motorroad") == "yes"):
        return 0, 0
    if kind in if_opened:
        base = if_opened[kind] if tags.get(access.split()[0]) in OPENS else 0
    else:
        base = 0 if allowed and allowed[0] in CLOSES else always.get(kind, 0)
    known = [f"oneway:{who}" for who in directions.split()] + ["oneway"] * (profile != "foot")
    known = [key for key in known if tags.get(key) in WAYS]
    if known:
        open_ways = WAYS[tags[known[0]]]
        sides = ("cycleway", "cycleway:left", "cycleway:right", "cycleway:both")
        if known[0] == "oneway" and profile == "bicycle" and open_ways != "":
            open_ways = "+-" if any(tags.get(key, "").startswith("opposite") for key in sides) else open_ways
    else:
        is_round = tags.get("junction") in ("roundabout", "circular") or kind == "motorway"
        open_ways = "+" if is_round and profile != "foot" else "+-"
    limits = [
        limit_of(tags.get(f"maxspeed:{way}") or tags.get("maxspeed") or "") for way in ("forward", "backward")
    ]
    kmh = [base if not limit else limit if profile == "car" else min(base, limit) for limit in limits]
    return (kmh[0] if base and "+" in open_ways else 0, kmh[1] if base and "-" in open_ways else 0)


def limit_of(text: str) -> float:
    found = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]+)?) ?(km/h|kmh|kph|mph|knots)?", text.strip())
    return float(found[1]) * {"mph": 1.609344, "knots": 1.852}.get(found[2], 1) if found else 0
