"""GraphML elements: nodes and edges of a GraphML file, read piece by piece with expat.

Entities are refused, so no small file becomes a large text. A document type is never fetched. The text of a `data`
element, and a tag, have a limited length.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn
from xml.parsers import expat

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.pipeline.formats.parsing.fault_errors import line_place
from sssp_pipeline.pipeline.formats.streams.decompressed import open_decompressed
from sssp_pipeline.storage import files

#: The bytes that are parsed at a time.
_BLOCK_BYTES = 1 << 18
#: The longest text of a `data` element that is read, in characters.
_LONGEST_TEXT = 1 << 20
_EDGE_DEFAULT = "it is `directed` or `undirected`"


@dataclass
class Key:
    """A declared attribute of nodes, edges or the graph."""

    #: "node", "edge", "graph" or "all".
    domain: str
    name: str
    #: "int", "double", "string", …
    type: str
    default: str | None = None


@dataclass(frozen=True)
class Element:
    """A node or an edge."""

    line: int
    #: The XML attributes: `id` of a node; `source` and `target` of an edge.
    attributes: dict[str, str]
    #: The texts of its `data` elements, by the names of their keys; only those that were asked for.
    data: dict[str, str]


class GraphmlElements:
    """The elements of one file, in the order of the file. It can be iterated once.

    Parameters
    ----------
    url
        The file.
    wanted
        The names of the attributes of nodes and of edges to be read; None for all of them.
    longest_tag
        The longest tag, in bytes.
    """

    def __init__(self, url: str, wanted: tuple[set[str], set[str]] | None, longest_tag: int) -> None:
        self._url, self._longest_tag = url, longest_tag
        self._wanted = None if wanted is None else dict(zip(("node", "edge"), wanted, strict=True))
        #: The declared keys by their ids. All are known when the first element is given.
        self.keys: dict[str, Key] = {}
        #: The default direction of edges; "" before the graph begins.
        self.edge_default = ""
        #: The data of the graph itself; complete when all elements were given.
        self.graph_data: dict[str, str] = {}
        self._path: list[str] = []
        self._found: list[tuple[str, Element]] = []
        self._open: Element | None = None
        self._key: Key | None = None
        self._text: list[str] | None = None
        self._text_length = 0
        self._parser = self._new_parser()

    def __iter__(self) -> Iterator[tuple[str, Element]]:
        """Give "node" or "edge", and the element.

        Raises
        ------
        InputError
            The file is not well-formed XML, is not GraphML, has an entity, or has what a plain graph does not have:
            a hyperedge, a graph inside another, or a second graph.
        """
        # Not as "auto": expat itself reads UTF-16, which the declaration of the file names.
        with open_decompressed(self._url, encoding="utf-8") as stream:
            n_bytes = 0
            while True:
                content = stream.read(_BLOCK_BYTES)
                n_bytes += len(content)
                try:
                    self._parser.Parse(content, not content)
                except expat.ExpatError as error:
                    raise InputError(
                        f"{line_place(self._url, error.lineno)}: this is not well-formed XML: "
                        f"{expat.ErrorString(error.code)}",
                        hint="the file may be cut short or damaged: write or fetch it again",
                    ) from error
                if n_bytes - self._parser.CurrentByteIndex > self._longest_tag + _BLOCK_BYTES:
                    self._refuse(f"a tag is longer than {self._longest_tag:,} bytes", _DAMAGED)
                found, self._found = self._found, []
                yield from found
                if not content:
                    break
        if not self.edge_default:
            raise InputError(f"`{files.redacted(self._url)}` has no graph", hint=_DAMAGED)

    def _new_parser(self) -> Any:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._add_text
        parser.EntityDeclHandler = self._refuse_entity
        return parser

    def _refuse(self, problem: str, hint: str) -> NoReturn:
        raise InputError(f"{line_place(self._url, self._parser.CurrentLineNumber)}: {problem}", hint=hint)

    def _refuse_entity(self, name: str, *_: object) -> None:
        self._refuse(f"the file declares the entity `{name[:60]}`", "write the file without entities")

    def _start(self, full_name: str, attributes: dict[str, str]) -> None:
        name = full_name.rpartition(" ")[2]
        parent = self._path[-1] if self._path else ""
        self._path.append(name)
        if parent == "":
            if name != "graphml":
                self._refuse(f"the root is `{name[:60]}`, not `graphml`", _DAMAGED)
        elif name == "key" and parent == "graphml":
            self._begin_key(attributes)
        elif name == "graph":
            self._begin_graph(parent, attributes)
        elif name in ("node", "edge") and parent == "graph":
            self._begin_element(name, attributes)
        elif name == "hyperedge" and parent == "graph":
            self._refuse("a hyperedge connects several vertices", "write it as edges")
        elif name == "data" and parent in ("graph", "node", "edge"):
            self._begin_data(parent, attributes)
        elif name == "default" and parent == "key":
            self._text, self._text_length = [], 0

    def _begin_key(self, attributes: dict[str, str]) -> None:
        key_id = self._attribute("key", attributes, "id")
        name = attributes.get("attr.name", key_id)
        kind = attributes.get("attr.type", "string")
        self.keys[key_id] = self._key = Key(attributes.get("for", "all"), name, kind)

    def _begin_graph(self, parent: str, attributes: dict[str, str]) -> None:
        if parent != "graphml":
            self._refuse("a graph is inside another one", "write one plain graph")
        if self.edge_default:
            self._refuse("the file has a second graph", "write each graph to its own file")
        given = attributes.get("edgedefault")
        if given is None:
            self._refuse("`<graph>` has no `edgedefault`", _EDGE_DEFAULT)
        if given not in ("directed", "undirected"):
            self._refuse(f"`edgedefault` is `{given[:60]}`", _EDGE_DEFAULT)
        self.edge_default = given

    def _begin_element(self, name: str, attributes: dict[str, str]) -> None:
        for wanted in ("id",) if name == "node" else ("source", "target"):
            if not self._attribute(name, attributes, wanted):
                self._refuse(f"the {wanted} of the {name} is empty", "give each node an id")
        if name == "edge" and (given := attributes.get("directed")) is not None:
            same = {"true": "directed", "false": "undirected"}.get(given)
            if same != self.edge_default:
                self._refuse(
                    f'the edge has `directed="{given[:60]}"`, and the graph is {self.edge_default}',
                    "write a graph whose edges are all directed, or all undirected",
                )
        self._open = Element(self._parser.CurrentLineNumber, attributes, {})

    def _begin_data(self, parent: str, attributes: dict[str, str]) -> None:
        key = self.keys.get(key_id := self._attribute("data", attributes, "key"))
        if key is None:
            self._refuse(
                f"no key `{key_id[:60]}` is declared", "declare it: `<key id=… attr.name=… attr.type=…/>`"
            )
        self._key = key
        if self._wanted is None or parent == "graph" or key.name in self._wanted[parent]:
            self._text, self._text_length = [], 0

    def _attribute(self, element: str, attributes: dict[str, str], name: str) -> str:
        if name not in attributes:
            self._refuse(f"`<{element}>` has no `{name}`", _DAMAGED)
        return attributes[name]

    def _add_text(self, text: str) -> None:
        if self._text is None:
            return
        self._text.append(text)
        self._text_length += len(text)
        if self._text_length > _LONGEST_TEXT:
            self._refuse(f"the text of an attribute is longer than {_LONGEST_TEXT:,} characters", _DAMAGED)

    def _end(self, full_name: str) -> None:
        name = self._path.pop()
        if self._text is not None and name in ("data", "default"):
            text, self._text = "".join(self._text), None
            assert self._key is not None
            if name == "default":
                self._key.default = text
            elif self._path[-1] == "graph":
                self.graph_data[self._key.name] = text
            elif self._open is not None:
                if self._key.name in self._open.data:
                    self._refuse(f"`{self._key.name[:60]}` is given twice", "give each attribute once")
                self._open.data[self._key.name] = text
        elif name in ("node", "edge") and self._path[-1:] == ["graph"] and self._open is not None:
            # Not when it begins: its data may be in the next block.
            self._found.append((name, self._open))
            self._open = None


_DAMAGED = "check that this is the file you mean; write or fetch it again"
