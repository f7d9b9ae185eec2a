"""`distances_of_pairs`: a distance for each pair of vertices, without the matrix of all sources and targets.

Each vertex of the end with fewer different vertices is searched once. `docs/design/0032-pairs.md` has the idea.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa

from sssp_pipeline.api.answers.answers import Options, named_by
from sssp_pipeline.api.calls.calls import goes_backward
from sssp_pipeline.api.distances.pair_paths import ends_of, table_columns
from sssp_pipeline.api.graphs.graphs import NamedGraph, naming_for
from sssp_pipeline.api.graphs.ids import Ids
from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.base.errors import InputError, PathTooLongError
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.kernels.host.grouped_pairs import GroupedPairs, different, may_go_backward
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.vertex_files.pair_lists import (
    Ends,
    PairList,
    PairReading,
    find_pairs,
    read_pairs,
)
from sssp_pipeline.pipeline.graph_store.units import distances_in_input_unit, scaled_limit
from sssp_pipeline.storage import files

#: Pairs whose ids become vertices at once, and distances that are converted at once.
_CHUNK = 2**20


def distances_of_pairs(
    graph: Any,
    pairs: Any,
    *,
    unknown: Literal["error", "skip"] = "error",
    along: str | Sequence[str] = (),
    **options: Unpack[Options],
) -> pa.Array | pa.Table:
    """Return the exact distance of each pair of a source and a target, in the order of the pairs.

    Each different source is searched once; or each different target in the reversed graph, if that is expected to take
    at most half of the time. That needs integer weights. The matrix of all sources and targets is never made.

    Parameters
    ----------
    graph, **options
        As for `solve`; `options` are its `cutoff`, `solver`, `weight`, `columns`, `directed` and `dtype`.
    pairs
        A table with the columns `source` and `target`, a sequence or array of (source, target), or the path or URL of a
        file of pairs: CSV, text, Parquet or Arrow. A pair may occur twice.
    unknown
        What to do with pairs that have an id that is not in the graph. "error" raises. "skip" gives them NULL.
    along
        As for `solve`.

    Returns
    -------
    pyarrow.Array or pyarrow.Table
        (n,) of the type of the weights; float64 for a graph store with a scale. NULL where there is no path, or none
        within the cutoff. With `along` it is a table with the column `distance` and one for each of these weights.

    Raises
    ------
    InputError
        There is no pair, or a pair cannot be read, or an id is not in the graph; or as `solve`.
    SsspError
        As `solve`.

    Notes
    -----
    It takes 20 bytes for each pair, 24 if weights have 64 bits or a scale, and 8 for each of `along`, in addition to
    the graph, the pairs themselves, and what is read and searched at a time.

    Examples
    --------
    >>> import pyarrow as pa
    >>> roads = pa.table({"from": ["A", "B", "A"], "to": ["B", "C", "C"], "minutes": [4, 5, 12]})
    >>> sp.distances_of_pairs(roads, [("A", "C"), ("C", "A")]).to_pylist()
    [9, None]
    """
    with naming_for(graph):
        named = named_by(graph, options, along)
        if unknown not in ("error", "skip"):
            raise InputError(f"`unknown` is {unknown!r}", hint='it is "error" or "skip"')
        found = pairs_of(pairs, named.ids, skip=unknown == "skip")
        solver, limit = options.get("solver", "auto"), scaled_limit(options.get("cutoff"), named.scale)
        costs = tuple(each.weights for each in named.along)
        asked = SolveOptions(cutoff=limit, metrics=False, along=costs)
        scales = [named.scale, *(each.scale for each in named.along)]
        of_pairs = _solved(named, found, asked, solver)
        columns = [_column(*each, found.is_known) for each in zip(of_pairs, scales, strict=True)]
        if not named.along:
            return columns[0]
        return pa.table(columns, ["distance", *(each.name for each in named.along)])


def _solved(named: NamedGraph, found: PairList, options: SolveOptions, solver: str) -> list[np.ndarray]:
    """Return the distances (n,) of the pairs and each of their second costs (n,), as solvers return them."""
    is_backward = _is_backward(named, found, options, solver)
    try:
        return _searched(named, found, options, solver, is_backward)
    except PathTooLongError:
        if not is_backward:
            raise
        # The path may lead to a target from a vertex that is no source.
        return _searched(named, found, options, solver, False)


def _searched(
    named: NamedGraph, found: PairList, options: SolveOptions, solver: str, is_backward: bool
) -> list[np.ndarray]:
    n_vertices = named.graph.n_vertices
    groups = GroupedPairs.of(found.sources, found.targets, n_vertices, is_backward=is_backward)
    dtypes = [named.graph.weight_dtype, *(each.dtype for each in named.along)]
    of_pairs = [np.empty(len(groups), dtype) for dtype in dtypes]

    def take(first: int, solution: Solution) -> None:
        for rows, into in zip([solution.distances, *solution.along], of_pairs, strict=True):
            groups.pick(first, rows, into)

    kept = replace(options, kept=groups.kept)
    named.solve(groups.searched, kept, solver, take, is_backward=is_backward)
    return of_pairs


def _is_backward(named: NamedGraph, found: PairList, options: SolveOptions, solver: str) -> bool:
    """Return whether to search from the targets."""
    graph = named.graph
    if named.along or not may_go_backward(graph.traits):
        return False
    sources, targets = (different(ends, graph.n_vertices) for ends in (found.sources, found.targets))
    if named.stored is not None and named.stored.manifest.symmetric:
        return len(targets) < len(sources)
    return goes_backward(graph, sources, targets, options, solver, named.stored)


def _column(solved: np.ndarray, scale: int | None, is_known: np.ndarray | None) -> pa.Array:
    """Return a column with the value of each pair, in the unit of the caller; NULL for "unreached" and unknown ids.

    Parameters
    ----------
    solved
        (n,), for the known pairs, as solvers return it.
    scale
        The scale of the weight.
    is_known
        (m,), which of the pairs of the caller are known; None if all are.
    """
    is_reached, written = solved != unreached_distance(solved.dtype), solved
    if scale is not None:
        written = np.empty(len(solved), np.float64)
        for first in range(0, len(solved), _CHUNK):
            some = slice(first, first + _CHUNK)
            written[some] = distances_in_input_unit(solved[some], scale)
    if is_known is None:
        return pa.array(written, mask=~is_reached)
    every, is_there = np.zeros(len(is_known), written.dtype), is_known.copy()
    every[is_known], is_there[is_known] = written, is_reached
    return pa.array(every, mask=~is_there)


def pairs_of(pairs: Any, ids: Ids, *, skip: bool) -> PairList:
    """Return the vertices of the pairs that a caller gave."""
    reading, chunks = None, _chunks(pairs, ids)
    if isinstance(pairs, str | os.PathLike):
        url = os.fspath(pairs)
        if not isinstance(ids, VertexIds):
            raise InputError(
                f"`{files.redacted(url)}` is a file, and the vertices of this graph are objects of Python",
                hint="give the pairs as a sequence of (source, target)",
            )
        reading = PairReading(url, ids.mapping.type)
        chunks = read_pairs(reading, usable_cores())
    return find_pairs(chunks, (ids, ids), skip=skip, skip_hint='`unknown="skip"`', reading=reading)


def _chunks(pairs: Any, ids: Ids) -> Iterator[Ends]:
    """Yield the ids of pairs in memory, some at a time."""
    if hasattr(pairs, "__arrow_c_stream__"):
        columns: Any = table_columns(pa.table(pairs))
    elif isinstance(pairs, np.ndarray) and pairs.ndim == 2 and pairs.shape[1] == 2:
        columns = pairs[:, 0], pairs[:, 1]
    else:
        columns = ends_of(pairs)
    for first in range(0, len(columns[0]), _CHUNK):
        ends = [column[first : first + _CHUNK] for column in columns]
        yield _typed(ends[0], ids, "source"), _typed(ends[1], ids, "target")


def _typed(column: Any, ids: Ids, what: str) -> Any:
    """Return some ids as `find_column` takes them; raise `InputError` for those of a wrong type."""
    if not isinstance(ids, VertexIds):
        return column.to_pylist() if hasattr(column, "to_pylist") else list(column)
    array = _as_arrow(column)
    if array is not None and not array.null_count:
        is_text = "string" in str(array.type)
        if is_text if ids.mapping.type == "string" else pa.types.is_integer(array.type):
            return array
    values = list(column) if array is None else array.to_pylist()
    other = next((v for v in values if v is None or (isinstance(v, int) and v >= 2**63)), values[0])
    problem, hint = ids.misfit(values) or (f"`{other}` is not in the graph", ids.range_hint())
    raise InputError(f"{what} {problem}", hint=hint)


def _as_arrow(column: Any) -> pa.Array | None:
    """Return ids as a plain array of Arrow; None if they have several types."""
    try:
        array = column if isinstance(column, pa.ChunkedArray) else pa.array(column)
    except (pa.ArrowException, OverflowError, TypeError):
        return None
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
