"""Graphs as `solve` takes them: each kind of object becomes a CSR graph and the ids of its vertices."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sssp_pipeline.api.calls.argument_names import naming, of_solve, of_store
from sssp_pipeline.api.calls.calls import Take, make_hierarchy_of, solve_sources
from sssp_pipeline.api.graphs.along import Along, along_of_edges, along_of_store, names_of
from sssp_pipeline.api.graphs.ids import Ids
from sssp_pipeline.api.graphs.matrices import csr_with_reverses, edges_of_matrix, is_of_cupy
from sssp_pipeline.api.graphs.object_graphs import ObjectEdges, edges_of, library_of
from sssp_pipeline.base.csr import WEIGHT_DTYPES, CsrGraph
from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.vertex_ids import VertexIds, error_in_ids
from sssp_pipeline.kernels.contract.solver import SolveOptions, SourceMetrics
from sssp_pipeline.kernels.gpu.common.graphs.callers_graph import callers_graph
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import set_origin
from sssp_pipeline.kernels.hierarchy.shared import traits_of
from sssp_pipeline.pipeline.formats.edge_list import EdgeChunk, ReadOptions
from sssp_pipeline.pipeline.formats.tables.parquet import TypedTable, table_of, to_chunk
from sssp_pipeline.pipeline.graph_store.store import read_manifest
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.ingest.ids.id_mapping import collector
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import csr_of_edges, sources_of_edges
from sssp_pipeline.pipeline.ingest.spill import Spill
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange, check_weights
from sssp_pipeline.pipeline.planning.choice import has_hierarchy
from sssp_pipeline.workflow.graph import Dtype, Weights


@dataclass(frozen=True, eq=False)
class NamedGraph:
    """A graph in memory, and what its vertices and its lengths mean to the caller."""

    graph: CsrGraph
    ids: Ids
    #: Its integer weights are this multiple of the caller's; None if they are the caller's.
    scale: int | None = None
    #: Where it is stored; None if it is not.
    stored: StoredGraph | None = None
    #: What is summed along the shortest paths.
    along: tuple[Along, ...] = ()

    def solve(
        self,
        sources: np.ndarray,
        options: SolveOptions,
        solver: str,
        take: Take,
        *,
        n_expected: int = 0,
        is_backward: bool = False,
    ) -> Sequence[SourceMetrics]:
        """Return what `solve_sources` returns. Errors have the ids and the unit of the caller."""
        try:
            return solve_sources(
                self.graph,
                sources,
                options,
                solver,
                take,
                stored=self.stored,
                n_expected=n_expected,
                is_backward=is_backward,
            )
        except SsspError as error:
            if (in_ids := error_in_ids(error, self.ids, self.scale)) is error:
                raise
            raise in_ids from error


class PreparedGraph:
    """A graph that `prepare` has read. Functions take it as a graph. It keeps its hierarchy once it has one."""

    def __init__(self, named: NamedGraph, is_on_device: bool) -> None:
        self._named = named
        #: Whether it was made of a graph of CuPy.
        self._is_on_device = is_on_device

    def __repr__(self) -> str:
        traits = traits_of(self._named.graph)
        size = f"{plural(traits.n_vertices, 'vertex')}, {plural(traits.n_edges, 'edge')}"
        has_one = "with" if has_hierarchy(traits) else "without"
        return f"<PreparedGraph: {size}, {traits.weight_dtype}, {has_one} a hierarchy>"


def prepare(
    graph: Any,
    *,
    weight: str | None = "auto",
    columns: tuple[str, str] | None = None,
    directed: bool | None = None,
    dtype: npt.DTypeLike | None = None,
    hierarchy: bool = False,
) -> PreparedGraph:
    """Return `graph` read once for many calls. They take the result as a graph.

    It keeps the edges, and the hierarchy that a call makes or finds. `solve`, `reduce`, `reduce_per_vertex`, `nearest`,
    `betweenness` and `distances_of_pairs` take it.

    Parameters
    ----------
    graph, weight, columns, directed, dtype
        As for `solve`. The graph must not be changed as long as the result is used: they may share memory.
    hierarchy
        Whether to make the hierarchy now, even if one call would not gain. A graph store keeps it.

    Raises
    ------
    InputError
        The graph or an argument cannot be used; or no hierarchy can be made, and one is asked for.
    SsspError
        A hierarchy is asked for, and METIS failed.

    Examples
    --------
    >>> import pyarrow as pa
    >>> roads = pa.table({"from": ["A", "B", "A"], "to": ["B", "C", "C"], "minutes": [4, 5, 12]})
    >>> graph = sp.prepare(roads)
    >>> graph
    <PreparedGraph: 3 vertices, 3 edges, uint32, without a hierarchy>
    >>> [sp.solve(graph, source, targets="C").numpy().item() for source in ("A", "B")]
    [9, 5]
    """
    with naming_for(graph):
        named = graph_of(graph, weight, columns, directed, dtype)
        if hierarchy:
            make_hierarchy_of(named.graph, named.stored)
        return PreparedGraph(named, stays_on_device(graph))


def graph_of(
    graph: Any,
    weight: str | None = "auto",
    columns: tuple[str, str] | None = None,
    directed: bool | None = None,
    dtype: npt.DTypeLike | None = None,
    along: Any = (),
) -> NamedGraph:
    """Return `graph` for a call of `solve`, which describes the parameters.

    Raises
    ------
    InputError
        The object is no graph, its weights or ids cannot be used, or a parameter does not belong to this kind of graph.
    """
    others = {"columns": columns, "directed": directed, "dtype": dtype}
    given = ["weight"] * (weight is None) + [name for name, value in others.items() if value is not None]

    def refuse(kind: str, *names: str) -> None:
        if name := next((name for name in given if name in names), None):
            raise InputError(f"`{name}` cannot be set for {kind}", hint=f"leave out `{name}`")

    wanted = names_of(along)
    if isinstance(graph, PreparedGraph):
        given += ["weight"] * (weight not in ("auto", None))
        refuse("a prepared graph, where `prepare` has set it", *given)
        if not wanted:
            return graph._named
        if (stored := graph._named.stored) is None:
            raise InputError(
                "`along` cannot be set for a prepared graph that is not from a graph store",
                hint="give the table itself, or a graph store",
            )
        return replace(graph._named, along=along_of_store(wanted, stored))
    if is_stored(graph):
        refuse("a graph store, where `ingest` has set it", *given)
        name = None if weight == "auto" else weight
        if not isinstance(graph, StoredGraph):
            stored = open_store(graph, weight=name)
        else:
            stored = graph if name in (None, graph.manifest.weight) else graph.with_weight(str(name))
        found = along_of_store(wanted, stored)
        return NamedGraph(stored.graph(), stored.ids, stored.manifest.weights.scale, stored, found)
    mirror, asked = directed is False, _weight_dtype(dtype)
    if hasattr(graph, "__arrow_c_stream__"):
        return _of_table(graph, weight, _two_columns(columns), mirror, asked, wanted)
    if hasattr(graph, "tocsr") or isinstance(graph, np.ndarray) or is_of_cupy(graph):
        given += ["along"] * bool(wanted)
        refuse("a matrix", "columns", "along")
        if weight not in ("auto", None):
            raise InputError(
                f"`weight` is {weight!r}, and a matrix has one value for each edge", hint="leave out `weight`"
            )
        return _of_matrix(graph, weight is None, mirror, asked)
    if (library := library_of(graph)) is not None:
        refuse(f"a graph of {library}", "columns", "directed")
        return _of_objects(graph, library, weight, asked, wanted)
    raise InputError(
        f"`{type(graph).__name__}` is not a graph that `solve` takes",
        hint="give a SciPy sparse array, a graph of NetworkX, igraph or rustworkx, a table of edges, "
        "or the URL of a graph store",
    )


def is_stored(graph: Any) -> bool:
    """Return whether `graph` is a graph store, the path or URL of one, or prepared from one."""
    if isinstance(graph, PreparedGraph):
        return graph._named.stored is not None
    return isinstance(graph, str | os.PathLike | StoredGraph)


def stays_on_device(graph: Any) -> bool:
    """Return whether distances of `graph` stay on the GPU if nothing else is asked for: it is one of CuPy."""
    return graph._is_on_device if isinstance(graph, PreparedGraph) else is_of_cupy(graph)


def naming_for(graph: Any) -> AbstractContextManager[None]:
    """Give errors of a block the words of a call with `graph`."""
    return naming(of_store if is_stored(graph) else of_solve)


def _weight_dtype(dtype: npt.DTypeLike | None) -> Dtype | None:
    """Return the name of the type that `solve` was asked for."""
    if dtype is None:
        return None
    names = [known.name for known in WEIGHT_DTYPES]
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in names:
        raise InputError(f"`dtype` is {name}", hint=f"it is one of {', '.join(names)}")
    return cast(Dtype, name)


def _two_columns(columns: tuple[str, str] | None) -> tuple[str, str]:
    """Return the names of the two columns with the ends of an edge; "auto" where there is none."""
    if columns is None:
        return "auto", "auto"
    if isinstance(columns, str) or len(columns) != 2:
        raise InputError(
            f"`columns` is {columns!r}", hint="name two columns: where an edge starts, and where it ends"
        )
    return str(columns[0]), str(columns[1])  # pandas allows integers as names


@naming(of_store)
def open_store(url: str | os.PathLike[str], *, weight: str | None = None) -> StoredGraph:
    """Return the graph store at `url`; its edges are loaded on first use and then kept.

    Parameters
    ----------
    url
        A path, or any URL that fsspec knows.
    weight
        The name of the weight, if the store has several.

    Returns
    -------
    StoredGraph
        `solve` takes it as a graph. `.graph()` is the CSR graph, `.ids` the ids, `.manifest` the facts.
        `.with_weight(name)` is the same graph with another weight of the store.

    Raises
    ------
    InputError
        There is no store, it has another format, or it is damaged; or it has several weights and `weight` names none of
        them.

    Examples
    --------
    >>> sp.ingest("workflows/data/places.csv", "places", directed=False)
    <StoredGraph: places, 60 vertices, 228 edges>
    >>> places = sp.open_store("places")
    >>> sp.solve(places, "Bralister", targets="Ulombe").numpy()
    array([[22]], dtype=uint32)
    """
    if os.path.isfile(url):  # noqa: PTH113
        raise InputError(
            f"`{os.fspath(url)}` is a file, and a graph store is a folder",
            hint="make a graph store of an edge list: `sp.ingest(edges, store)`",
        )
    return StoredGraph(os.fspath(url), read_manifest(os.fspath(url), weight=weight))


def _as_arrow(table: Any) -> pa.Table:
    """Return the table as one of Arrow; raise `InputError` if a column cannot be one, such as text and integers."""
    try:
        return pa.table(table)
    except (pa.ArrowException, OverflowError) as error:
        raise InputError(
            f"the table cannot be read: {'; '.join(map(str, error.args))}",
            hint="give each column one type: `frame[column].astype(str)` makes text of ids",
        ) from error


def _of_table(
    table: Any,
    weight: str | None,
    columns: tuple[str, str],
    mirror: bool,
    dtype: Dtype | None,
    along: tuple[str, ...],
) -> NamedGraph:
    edges = _as_arrow(table)
    how, chunks = _chunks_of(edges, weight, columns)
    with Spill(sys.maxsize) as in_memory:
        found = collector(how.id_kind, None, 0, in_memory, sys.maxsize)
        kept = []
        for chunk in chunks:
            src, dst, number = found.add(chunk.src, chunk.dst)
            kept.append((src.copy(), dst.copy(), number))
        ids = found.finish()
        none = np.empty(0, np.uint32)
        src = np.concatenate([none, *(found.vertices(codes, chunk) for codes, _, chunk in kept)])
        dst = np.concatenate([none, *(found.vertices(codes, chunk) for _, codes, chunk in kept)])
    weights = _ones(len(src), dtype) if how.columns.weight is None else _typed(chunks, dtype, "`table`")
    if not along:
        return NamedGraph(csr_of_edges(src, dst, weights, ids.n_vertices, mirror=mirror), ids)

    def column(name: str) -> np.ndarray:
        return _typed(_chunks_of(edges, name, columns)[1], None, "`table`")

    graph, summed = along_of_edges(along, (src, dst), weights, ids.n_vertices, mirror, column)
    return NamedGraph(graph, ids, along=summed)


def _chunks_of(
    edges: pa.Table, weight: str | None, columns: tuple[str, str]
) -> tuple[TypedTable, list[EdgeChunk]]:
    """Return how a table is read with the column `weight` as its weight, and its edges."""
    how = table_of(
        "table",
        edges.schema,
        ReadOptions(source_column=columns[0], target_column=columns[1], weight_column=weight or "none"),
    )
    used = edges.select(how.used)
    batches = used.to_batches() or [pa.RecordBatch.from_pylist([], schema=used.schema)]
    starts = accumulate((len(batch) for batch in batches), initial=0)
    return how, [to_chunk((how, start, batch))[0] for start, batch in zip(starts, batches, strict=False)]


def _of_matrix(matrix: Any, unweighted: bool, mirror: bool, dtype: Dtype | None) -> NamedGraph:
    is_csr_of_cupy = is_of_cupy(matrix) and getattr(matrix, "format", None) == "csr"
    if is_csr_of_cupy and not unweighted and not mirror and dtype in (None, matrix.dtype):
        shape = 2 * (len(matrix.indptr) - 1,)
        found = callers_graph(matrix.indptr, matrix.indices, matrix.data) if shape == matrix.shape else None
        if found is not None:
            return NamedGraph(found, VertexIds.numbered(found.n_vertices))
    row_offsets, col_indices, values = edges_of_matrix(matrix)
    graph = CsrGraph(row_offsets, col_indices, _ones(len(col_indices), dtype))
    if not unweighted:
        chunk = EdgeChunk(sources_of_edges(graph), col_indices, values)
        graph = CsrGraph(row_offsets, col_indices, _typed([chunk], dtype, "the matrix"))
    graph.check()
    if is_csr_of_cupy:
        n_edges, is_same = graph.n_edges, graph.weight_dtype == matrix.data.dtype and not unweighted
        weights = matrix.data[:n_edges] if is_same else graph.weights
        set_origin(graph, matrix.indptr, matrix.indices[:n_edges], weights)
    return NamedGraph(csr_with_reverses(graph) if mirror else graph, VertexIds.numbered(graph.n_vertices))


def _of_objects(
    graph: Any, library: str, weight: str | None, dtype: Dtype | None, along: tuple[str, ...]
) -> NamedGraph:
    edges = edges_of(graph, library, weight)
    src, dst, mirror = edges.src, edges.dst, not edges.is_directed
    weights = _ones(len(src), dtype) if edges.values is None else _of_values(edges, dtype)
    if not along:
        return NamedGraph(csr_of_edges(src, dst, weights, edges.n_vertices, mirror=mirror), edges.ids)

    def attribute(name: str) -> np.ndarray:
        return _of_values(edges_of(graph, library, name), None)

    csr, summed = along_of_edges(along, (src, dst), weights, edges.n_vertices, mirror, attribute)
    return NamedGraph(csr, edges.ids, along=summed)


def _of_values(edges: ObjectEdges, dtype: Dtype | None) -> np.ndarray:
    """Return the values of the edges as weights."""
    chunk, whole = edges.chunk()
    return _typed([chunk], dtype, "the graph", whole)


def _ones(n_edges: int, dtype: Dtype | None) -> np.ndarray:
    return np.ones(n_edges, dtype or np.uint32)


def _typed(
    chunks: Sequence[EdgeChunk], dtype: Dtype | None, place: str, whole: Sequence[np.ndarray] = ()
) -> np.ndarray:
    """Return the weights of `chunks` in the type that ingest would choose, or in `dtype`.

    It raises the errors of ingest.

    `whole` are the weights that were integers. In `chunks` NumPy may have made floats of them.
    """
    facts = WeightRange()
    for integers in whole:
        facts.add(integers)
    n_before = 0
    for chunk in chunks:
        check_weights(chunk, n_before, dtype or "auto", place)
        facts.add(cast(np.ndarray, chunk.weights))
        n_before += len(chunk)
    weights = [cast(np.ndarray, chunk.weights) for chunk in chunks]
    values = np.concatenate(weights) if weights else np.empty(0, np.int64)
    if dtype is None and not len(values) and values.dtype.kind == "f":
        return values  # no weight says more than the type
    chosen = facts.type_of(Weights(dtype=dtype or "auto", scale=None), values.dtype, place)
    return values.astype(chosen.dtype, copy=False)
