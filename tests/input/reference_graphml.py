"""GraphML, as the reference reader reads it: the whole file as a tree."""

from __future__ import annotations

from xml.etree import ElementTree

from reference_graph import BLANKS, Graph, Refused, as_ids, asked_columns, graph_of, is_number
from reference_tables import choose_columns

SPACE = BLANKS + "\n"
NUMBERS = ("int", "long", "float", "double")


def root_of(data: bytes) -> ElementTree.Element | None:
    """Return the root if the file is well-formed XML."""
    try:
        return ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError, LookupError):
        return None


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _children(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [child for child in element if _local(child) == name]


def is_graphml(data: bytes) -> bool:
    root = root_of(data)
    return root is not None and _local(root) == "graphml"


def read_graphml(data: bytes, graph: dict) -> Graph:
    """The attributes of edges are columns, and the `id` of a node is the id of its vertex."""
    root = root_of(data)
    if root is None or _local(root) != "graphml":
        raise Refused("no GraphML")
    if any(key in graph for key in ("encoding", "delimiter", "header", "decimal")):
        raise Refused("an option of text")
    if set(asked_columns(graph)[:2]) != {"auto"}:
        raise Refused("the ends have no names")
    graphs = [element for element in root.iter() if _local(element) == "graph"]
    if len(graphs) != 1 or graphs[0] not in list(root):
        raise Refused(f"{len(graphs)} graphs")
    (only,) = graphs
    if only.get("edgedefault") not in ("directed", "undirected"):
        raise Refused("no directions")
    if _children(only, "hyperedge"):
        raise Refused("a hyperedge")
    keys = {}
    for key in _children(root, "key"):
        defaults = ["".join(each.itertext()) for each in _children(key, "default")]
        if key.get("id") is None:
            raise Refused("a key without an id")
        keys[key.get("id")] = (
            key.get("attr.name", key.get("id")),
            key.get("for", "all"),
            key.get("attr.type", "string"),
            defaults[-1] if defaults else None,
        )
    edges = [(edge, _data_of(edge, keys)) for edge in _children(only, "edge")]
    for node in _children(only, "node"):
        if not node.get("id"):
            raise Refused("a node without an id")
        _data_of(node, keys)
    _data_of(only, keys)
    weight = _weight(keys, [data for _, data in edges], graph)
    rows = []
    for edge, data in edges:
        if not edge.get("source") or not edge.get("target"):
            raise Refused("an edge without an end")
        if edge.get("directed") not in (
            None,
            {"directed": "true", "undirected": "false"}[only.get("edgedefault")],
        ):
            raise Refused("edges of two kinds")
        defaults = [
            default for name, _, _, default in keys.values() if name == weight and default is not None
        ]
        text = data.get(weight, defaults[0] if defaults else None) if weight is not None else None
        if weight is not None and text is None:
            raise Refused(f"an edge without {weight}")
        rows.append((edge.get("source"), edge.get("target"), None if text is None else text.strip(SPACE)))
    # Blanks around an id belong to it, but not to what says whether ids are numbers.
    ends = [end for row in rows for end in row[:2]]
    if any(end != end.strip(SPACE) for end in ends):
        if as_ids([end.strip(SPACE) for end in ends], graph.get("ids", "auto"))[1] == "integer":
            raise Refused("a number with a blank")
        graph = graph | {"ids": "string"}
    found = graph_of(rows, graph, comma=False)
    found.mirrored = only.get("edgedefault") == "undirected"
    return found


def _data_of(element: ElementTree.Element, keys: dict) -> dict[str, str]:
    found: dict[str, str] = {}
    for data in _children(element, "data"):
        if data.get("key") not in keys:
            raise Refused("data of no key")
        name = keys[data.get("key")][0]
        if name in found:
            raise Refused("data twice")
        found[name] = "".join(data.itertext())
    return found


def _weight(keys: dict, rows: list[dict[str, str]], graph: dict) -> str | None:
    """Return the name of the weight, None without one."""
    names = list(dict.fromkeys(name for name, domain, _, _ in keys.values() if domain in ("edge", "all")))
    names = [name for name in names if name not in ("source", "target")]
    numeric = [
        any(
            kind in NUMBERS
            for key, domain, kind, _ in keys.values()
            if key == name and domain in ("edge", "all")
        )
        or any(name in row and is_number(row[name].strip(SPACE), "point") for row in rows)
        for name in names
    ]
    *_, weight = choose_columns(
        ["\0source", "\0target", *names],
        [True, True, *numeric],
        graph | {"columns": {"source": "\0source", "target": "\0target"}},
    )
    return None if weight is None else names[weight - 2]
