"""GraphML, as NetworkX, igraph and OSMnx write it: the `id` of a node is the id of its vertex.

Python reads the elements one by one. That is fast enough for graphs that fitted into one of these programs. A node
without edges is no vertex.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.formats.arrow_compute import pc, true_rows
from sssp_pipeline.pipeline.formats.columns.edge_columns import (
    FIXED_ENDS,
    EdgeColumns,
    check_same_columns,
    choose_weight,
)
from sssp_pipeline.pipeline.formats.columns.layout import (
    BLANKS,
    SAMPLE_ROWS,
    id_kind,
    is_number,
)
from sssp_pipeline.pipeline.formats.edge_list import (
    Coordinates,
    EdgeChunk,
    InputEdges,
    ReadOptions,
    SkippedRows,
)
from sssp_pipeline.pipeline.formats.parsing.fault_errors import line_place, no_edges_error
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.formats.row_by_row.graphml_elements import Element, GraphmlElements, Key
from sssp_pipeline.pipeline.formats.row_by_row.python_rows import (
    Edge,
    InexactWeightError,
    chunks_of_edges,
    read_id,
    read_weight,
)
from sssp_pipeline.storage import files

#: The attributes of nodes that are degrees by their names, as longitude and latitude.
_DEGREES = (("lon", "lng", "longitude"), ("lat", "latitude"))
#: What OSMnx calls positions, and the attribute of the graph that says in which reference system they are.
_X_Y, _CRS = ("x", "y"), "crs"
_WGS_84 = ("epsg:4326", "ogc:crs84", "{'init': 'epsg:4326'}")
_NUMBERS = ("int", "long", "float", "double")


def open_graphml(urls: list[str], options: ReadOptions) -> InputEdges:
    """Return the edge list in the GraphML files `urls`, one after the other.

    Raises
    ------
    InputError
        A file is not GraphML or has no edges, more than one attribute could be the weight, or an option does not fit
        the format; or files differ in their weight, the type of their ids, or their directions.
    """
    heads = [_Head.read(url, options) for url in urls]
    first = heads[0]
    check_same_columns(urls, [head.columns for head in heads])
    for head in heads:
        for what, one, other in (
            ("directed", first.edge_default, head.edge_default),
            ("ids", first.ids, head.ids),
        ):
            if one != other:
                subject = "ids are" if what == "ids" else "graph is"
                raise InputError(
                    f"`{files.redacted(first.url)}`: its {subject} {one}; `{files.redacted(head.url)}`: {other}",
                    hint="files read together are parts of one graph"
                    + ("; set `graph.ids: string` to read all ids as strings" if what == "ids" else ""),
                )
    columns = first.columns
    graph = _Graphml(heads, columns.weight_name, options)
    return InputEdges(
        Reading(
            format="graphml",
            ids=first.ids,
            ids_why=first.ids_why,
            rules=first.rules,
            **columns.with_ends(*FIXED_ENDS, "by the format").reading_fields(),
        ),
        columns.weight is not None,
        graph.chunks,
        symmetric="mirror" if first.edge_default == "undirected" else "as-listed",
        positions_of=graph.positions_of if first.positions else None,
        skipped=graph.skipped,
    )


@dataclass(frozen=True)
class _Head:
    """What the beginning of a file says, up to some edges."""

    url: str
    columns: EdgeColumns
    edge_default: str
    ids: str
    ids_why: str
    #: The attributes of nodes that hold longitude and latitude; empty without any.
    positions: tuple[str, ...]
    #: Whether they are degrees only if the reference system of the graph says so.
    needs_crs: bool
    rules: tuple[str, ...]

    @classmethod
    def read(cls, url: str, options: ReadOptions) -> _Head:
        elements = GraphmlElements(url, None, options.max_line_bytes)
        edges = list(islice((element for kind, element in elements if kind == "edge"), SAMPLE_ROWS))
        if not edges:
            raise no_edges_error(url)
        place = line_place(url, edges[0].line)
        columns = _columns(place, elements.keys, edges, options)
        ends = [
            (edge.attributes["source"].strip(BLANKS), edge.attributes["target"].strip(BLANKS))
            for edge in edges
        ]
        ids, why = id_kind(place, ends, options)
        return cls(url, columns, elements.edge_default, ids, why, *_positions(elements.keys))


def _columns(place: str, keys: dict[str, Key], edges: list[Element], options: ReadOptions) -> EdgeColumns:
    """Return which attribute of edges is the weight, as a choice of columns."""
    # NetworkX declares a key for each type of the values of an attribute.
    types: dict[str, set[str]] = {}
    for key in keys.values():
        if key.domain in ("edge", "all"):
            types.setdefault(key.name, set()).add(key.type)
    for end in FIXED_ENDS:
        types.pop(end, None)
    numeric = {
        name
        for name, kinds in types.items()
        if kinds & set(_NUMBERS) or any(is_number(edge.data.get(name, "").strip(BLANKS)) for edge in edges)
    }
    return choose_weight(place, list(types), numeric, options)


def _positions(keys: dict[str, Key]) -> tuple[tuple[str, ...], bool, tuple[str, ...]]:
    """Return the attributes of nodes with their positions, whether a CRS must say what they are, and the rules."""
    names = {key.name for key in keys.values() if key.domain in ("node", "all")}
    rules = tuple(f"ids of nodes, not their `{name}`" for name in ("name", "label") if name in names)[:1]
    found = [[name for name in sorted(names) if name.casefold() in known] for known in _DEGREES]
    if all(len(each) == 1 for each in found):
        (lon,), (lat,) = found
        return (lon, lat), False, (*rules, f"coordinates of the nodes, `{lon}` and `{lat}`")
    if names.issuperset(_X_Y):
        if any(key.name == _CRS and key.domain in ("graph", "all") for key in keys.values()):
            return _X_Y, True, (*rules, "coordinates of the nodes, `x` and `y`, if `crs` is epsg:4326")
        rules = (*rules, "`x` and `y` of the nodes not used, because no `crs` says what they are")
    return (), False, rules


@dataclass(eq=False)
class _Graphml:
    """The files, and the nodes that were read so far."""

    heads: list[_Head]
    weight: str | None
    options: ReadOptions
    skipped: SkippedRows = field(default_factory=SkippedRows)
    #: The ids of the nodes, their positions and their lines, as far as read; and whether the positions are degrees.
    names: list[pa.Array] = field(default_factory=list)
    places: list[np.ndarray] = field(default_factory=list)
    are_degrees: bool = True

    def chunks(self, n_threads: int) -> Iterator[EdgeChunk]:
        """Give all edges, as `InputEdges.chunks` does, on one thread."""
        del n_threads
        self.names, self.places = [], []
        edges = (edge for head in self.heads for edge in self._edges_of(head))
        kind, block_bytes = self.heads[0].ids, self.options.block_bytes
        return chunks_of_edges(edges, kind, block_bytes, has_weights=self.weight is not None)

    def _edges_of(self, head: _Head) -> Iterator[Edge]:
        """Give the edges of a file, and keep the positions of its nodes."""
        wanted = (set(head.positions), {self.weight} if self.weight is not None else set())
        elements = GraphmlElements(head.url, wanted, self.options.max_line_bytes)
        nodes_at_a_time = max(1, self.options.block_bytes // 64)
        nodes: list[Element] = []
        for kind, element in elements:
            if kind == "node":
                if head.positions:
                    nodes.append(element)
                    if len(nodes) >= nodes_at_a_time:
                        self._keep_positions(head, nodes)
                        nodes = []
                continue
            if (edge := self._edge(head, elements, element)) is not None:
                yield edge
        if nodes:
            self._keep_positions(head, nodes)
        if head.needs_crs:
            self.are_degrees &= elements.graph_data.get(_CRS, "").strip().casefold() in _WGS_84

    def _edge(self, head: _Head, elements: GraphmlElements, element: Element) -> Edge | None:
        """Return an edge; None if it is left out."""
        place = line_place(head.url, element.line)
        names = element.attributes["source"], element.attributes["target"]
        try:
            ends = (
                names if head.ids == "string" else tuple(read_id(place, name, self.options) for name in names)
            )
            weight = None
            if self.weight is not None:
                weight = read_weight(place, self._weight_text(place, elements, element), self.options)
        except InputError as error:
            if not self.options.skips or isinstance(error, InexactWeightError):
                raise
            self.skipped.add(1, [f"{error.message}: {names[0][:200]} {names[1][:200]}"])
            return None
        return ends[0], ends[1], weight

    def _weight_text(self, place: str, elements: GraphmlElements, element: Element) -> str:
        assert self.weight is not None
        text = element.data.get(self.weight)
        if text is None:
            defaults = (key.default for key in elements.keys.values() if key.name == self.weight)
            text = next((default for default in defaults if default is not None), None)
        if text is None:
            raise InputError(
                f"{place}: the edge has no `{self.weight}`",
                hint="give every edge one, or set `graph.unreadable: skip` to leave such edges out",
            )
        return text.strip(BLANKS)

    def _keep_positions(self, head: _Head, nodes: Sequence[Element]) -> None:
        self.names.append(pa.array([node.attributes["id"] for node in nodes], pa.large_string()))
        degrees = [[_degrees(head.url, node, name) for node in nodes] for name in head.positions]
        self.places.append(np.array(degrees))

    def positions_of(self, ids: VertexIds) -> Coordinates | None:
        """Return longitudes and latitudes (V,) float64, in degrees, of the vertices `ids`; None if `crs` is another.

        Raises
        ------
        InputError
            A vertex has no node, or a node without a position.
        """
        if not self.are_degrees:
            return None
        names = pa.chunked_array(self.names, pa.large_string()).combine_chunks()
        lon_lat = np.concatenate(self.places, axis=1) if self.places else np.empty((2, 0))
        url = files.redacted(self.heads[0].url)
        rows = pc.index_in(ids.column().cast(pa.large_string()), value_set=names)
        if rows.null_count:
            vertex = true_rows(rows.is_null())[0]
            raise InputError(
                f"`{url}` has an edge of the node `{ids.original(vertex)}`, and no such node",
                hint="add the node",
            )
        found = lon_lat[:, np.asarray(rows)]
        if (missing := np.isnan(found).any(axis=0)).any():
            first, second = self.heads[0].positions
            raise InputError(
                f"`{url}`: node `{ids.original(int(np.argmax(missing)))}` has no `{first}` or no `{second}`",
                hint=f"give every node both, or give the attributes other names than `{first}` and `{second}`",
            )
        return found[0], found[1]


def _degrees(url: str, node: Element, name: str) -> float:
    """Return a coordinate of a node; NaN if it has none."""
    text = node.data.get(name, "").strip(BLANKS)
    if not text:
        return math.nan
    value = float(text) if is_number(text) else math.nan
    if not math.isfinite(value):
        raise InputError(
            f"{line_place(url, node.line)}: `{text[:60]}` of node `{node.attributes['id'][:60]}` is no number "
            f"for `{name}`",
            hint="give every node a number",
        )
    return value
