"""`reduce` and `nearest`: answers in place of distances."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Unpack, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sssp_pipeline.api.calls.calls import Filling, check_memory
from sssp_pipeline.api.distances.backward import is_backward, nearest_backward
from sssp_pipeline.api.graphs.graphs import NamedGraph, graph_of, naming_for
from sssp_pipeline.api.graphs.ids import Ids, sources_of, vertices_of
from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.base.vertex_amounts import VertexAmounts
from sssp_pipeline.base.vertex_ids import digest_of, listed
from sssp_pipeline.kernels.answers.nearest import NearestOfRow
from sssp_pipeline.kernels.contract.solver import Solution, SolveOptions
from sssp_pipeline.pipeline.graph_store.units import scaled_limit
from sssp_pipeline.pipeline.results.answers.reduced import Reduced
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.outputs.table_output import NearestVertices, TableOutput
from sssp_pipeline.pipeline.results.outputs.vertex_table import PerVertex
from sssp_pipeline.workflow.reduce import OverSourcesValue, ReducedValue, reduce_contradictions
from sssp_pipeline.workflow.section import Direction

#: What others call some of the values.
_OTHER_NAMES = {"eccentricity": "max_distance"}
_OTHERS = "cutoff, solver, weight, columns, directed and dtype"
_RADIUS = "a radius is a distance of zero or more"
#: The column of `amounts` that has ids.
_VERTEX = "vertex"


class Options(TypedDict, total=False):
    """Arguments that `reduce` and `nearest` share with `solve`, whose docstring describes them."""

    cutoff: float | None
    solver: str
    weight: str | None
    columns: tuple[str, str] | None
    directed: bool | None
    dtype: npt.DTypeLike | None


def reduce(
    graph: Any,
    sources: Any,
    values: Sequence[str] | str = (),
    *,
    within: Sequence[float] | float = (),
    amounts: Any = None,
    histogram: Sequence[float] | None = None,
    quantiles: Sequence[float] | float | None = None,
    **options: Unpack[Options],
) -> pa.Table:
    """Return numbers made of all distances from each of `sources`. The distances themselves are not kept.

    Parameters
    ----------
    graph, sources, **options
        As for `solve`; `options` are its `cutoff`, `solver`, `weight`, `columns`, `directed` and `dtype`.
    values
        Any of "reached", "max_distance" (the eccentricity), "mean_distance", "sum_distance", "closeness" (Wasserman and
        Faust) and "harmonic" (the sum of 1/distance). All follow paths from the source. NetworkX's
        `closeness_centrality` and `harmonic_centrality` follow the paths to a vertex: on a directed graph they are
        the closeness here of the reversed graph, `graph.T` of a matrix and `graph.reverse()` of NetworkX.
    within
        Radii in the unit of the weights. For each, the vertices at most this far are counted, the source included.
    amounts
        Numbers of each vertex, which are summed within each radius: a table with a column `vertex` of ids and other
        columns of numbers. It may be a dictionary, a data frame or a table of Arrow. Vertices without a row have 0.
    histogram
        2 to 1,025 rising bounds, in the unit of the weights. A bucket counts the vertices beyond its lower bound and up
        to its upper one. The first bucket also counts those at its lower bound. Others are not counted.
    quantiles
        1 to 32 shares from 0 to 1. For each, the smallest distance within which this share of the reached vertices
        lies.

    Returns
    -------
    pyarrow.Table
        S rows in the order of `sources`, with the column `source`, one for each of `values`, `within_R` for each radius
        R, `NAME_within_R` for each column of `amounts`, `from_A_to_B` for each bucket, and `quantile_Q` for each share
        Q. `docs/concepts/exactness.md` defines every bit.

    Raises
    ------
    InputError, SsspError
        As `solve`; or an argument of this function cannot be used, or a sum does not fit its type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> roads = pa.table({"from": ["A", "B", "A"], "to": ["B", "C", "C"], "minutes": [4, 5, 12]})
    >>> sp.reduce(roads, ["A", "B"], ["reached", "mean_distance"], within=5).to_pylist()[1]
    {'source': 'B', 'reached': 2, 'mean_distance': 2.5, 'within_5': 2}
    """
    asked = [values] if isinstance(values, str) else list(values)
    radii = _numbers(within)
    bounds = None if histogram is None else _numbers(histogram)
    shares = None if quantiles is None else _numbers(quantiles)
    with naming_for(graph):
        _check_names(asked, ReducedValue)
        _check_numbers("within", radii, math.inf, _RADIUS)
        _check_numbers("histogram", bounds or (), math.inf, "a bound is a distance of zero or more")
        _check_numbers("quantiles", shares or (), 1, "a share is a number from 0 to 1")
        lists = {"values": asked, "within": radii, "histogram": bounds, "quantiles": shares}
        _check_together({**lists, "amounts": amounts if amounts is None else {}}, options.get("cutoff"))
        named = named_by(graph, options)
        found = VertexAmounts(np.empty((0, 0), np.int64), ())
        names: list[str] = []
        if amounts is not None:
            names, found = amounts_of(amounts, "amounts", named.ids, named.graph.n_vertices)
        output = Reduced(
            *_common(named, found.words() if names else None),
            tuple(asked),
            tuple(radii),
            tuple(names),
            found.exponents,
            tuple(bounds or ()),
            tuple(shares or ()),
        )
        return _answer(named, sources, output, options)


def reduce_per_vertex(
    graph: Any,
    sources: Any,
    values: Sequence[str] | str = (),
    *,
    within: Sequence[float] | float = (),
    **options: Unpack[Options],
) -> pa.Table:
    """Return numbers of each vertex over all `sources`. The distances themselves are not kept.

    Parameters
    ----------
    graph, sources, **options
        As for `solve`; `options` are its `cutoff`, `solver`, `weight`, `columns`, `directed` and `dtype`.
    values
        Any of "reached_by" (how many sources reach the vertex), "nearest_source" (and its distance; of several, the
        smallest id), "sum_distance" and "mean_distance" (of the sources that reach it).
    within
        Radii in the unit of the weights. For each, the sources at most this far are counted.

    Returns
    -------
    pyarrow.Table
        V rows in the order of the vertices, with the column `vertex`, one for each of `values`, `nearest_distance`
        after `nearest_source`, and `within_R` for each radius R. `nearest_source`, `nearest_distance` and
        `mean_distance` are NULL where no source reaches the vertex. `docs/concepts/exactness.md` defines every bit.

    Raises
    ------
    InputError, SsspError
        As `solve`; or an argument of this function cannot be used, or a sum does not fit its type.

    Examples
    --------
    >>> import pyarrow as pa
    >>> roads = pa.table({"from": ["A", "B", "A"], "to": ["B", "C", "C"], "minutes": [4, 5, 12]})
    >>> sp.reduce_per_vertex(roads, ["A", "B"], "nearest_source").to_pylist()[2]
    {'vertex': 'C', 'nearest_source': 'B', 'nearest_distance': 5}
    """
    asked = [values] if isinstance(values, str) else list(values)
    radii = _numbers(within)
    with naming_for(graph):
        if "betweenness" in asked:
            raise InputError(
                "`values` has `betweenness`", hint="call `betweenness`: it takes samples and edges too"
            )
        _check_names(asked, OverSourcesValue)
        _check_numbers("within", radii, math.inf, _RADIUS)
        _check_together({"per_vertex": {"values": asked, "within": radii}}, options.get("cutoff"))
        named = named_by(graph, options)
        common = _common(named, None)
        per_vertex = PerVertex(common[0], tuple(asked), tuple(radii))
        output = Reduced(*common, values=("reached",), per_vertex=per_vertex)
        over = per_vertex.over
        words = over.none(named.graph.weight_dtype, named.graph.n_vertices)
        merging = threading.Lock()

        def take(_: int, solution: Solution) -> None:
            assert solution.over_sources is not None, "kept"
            with merging:
                over.merge(words, solution.over_sources, named.graph.weight_dtype)

        of_sources = sources_of(sources, named.ids, named.graph.n_vertices)
        solver = options.get("solver", "auto")
        named.solve(of_sources, _solve_options(named, output, options), solver, take)
        every = np.arange(named.graph.n_vertices, dtype=np.uint32)
        return per_vertex.table(words, every, named.ids, named.graph.traits)


def nearest(
    graph: Any,
    sources: Any,
    k: int,
    *,
    targets: Any = None,
    direction: Direction = "auto",
    along: str | Sequence[str] = (),
    **options: Unpack[Options],
) -> pa.Table:
    """Return the `k` nearest vertices of each of `sources`, or the `k` nearest of `targets`.

    Parameters
    ----------
    graph, sources, **options
        As for `solve`; `options` are its `cutoff`, `solver`, `weight`, `columns`, `directed` and `dtype`.
    k
        From 1 to 1024.
    targets
        Ids of the vertices to choose from. None means every vertex, the source included.
    direction
        As for `solve`. The nearest vertices are the same.
    along
        As for `solve`. Each weight becomes a column.

    Returns
    -------
    pyarrow.Table
        S·k rows with the columns `source`, `rank` from 1, `vertex`, `distance` and those of `along`. Of vertices at the
        same distance, the one with the smallest id comes first. Ids of NetworkX, igraph and rustworkx have the order of
        the graph. Where fewer are reached, all but `source` and `rank` are NULL.

    Raises
    ------
    InputError, SsspError
        As `solve`; or k is out of range.

    Examples
    --------
    >>> import pyarrow as pa
    >>> roads = pa.table({"from": ["A", "B", "A"], "to": ["B", "C", "C"], "minutes": [4, 5, 12]})
    >>> sp.nearest(roads, "A", 2).to_pydict()
    {'source': ['A', 'A'], 'rank': [1, 2], 'vertex': ['A', 'B'], 'distance': [0, 4]}
    """
    with naming_for(graph):
        named = named_by(graph, options, along)
        input_words = None if targets is None else np.unique(vertices_of(targets, named.ids, "target"))
        return _answer(named, sources, NearestVertices(*_common(named, input_words), k), options, direction)


def named_by(graph: Any, options: Options, along: str | Sequence[str] = ()) -> NamedGraph:
    """Return `graph` for a call with `options`; an option that is not known raises `TypeError`."""
    if unknown := [name for name in options if name not in Options.__annotations__]:
        raise TypeError(f"unexpected keyword argument {unknown[0]!r}; the others are {_OTHERS}")
    of_graph: Any = {name: value for name, value in options.items() if name not in ("cutoff", "solver")}
    return graph_of(graph, **of_graph, along=along)


def _common(
    named: NamedGraph, input_words: np.ndarray | None
) -> tuple[DistanceFormat, str | None, np.ndarray | None, str]:
    """Return the first fields of a `TableOutput`."""
    costs = tuple(each.as_column() for each in named.along)
    form = DistanceFormat("long", None, "none", predecessors=False, scale=named.scale, along=costs)
    digest = None if input_words is None else digest_of(input_words)
    return form, digest, input_words, named.graph.weight_dtype.name


def _answer(
    named: NamedGraph,
    sources: Any,
    output: TableOutput,
    options: Options,
    direction: Direction = "forward",
) -> pa.Table:
    """Return the table of `output` for `sources`. It raises the errors of `solve`."""
    n_vertices = named.graph.n_vertices
    of_sources = sources_of(sources, named.ids, n_vertices)
    check_memory(
        len(of_sources), output.n_columns(n_vertices), 8, "ask for fewer sources or values in a call"
    )
    solver, solve_options = options.get("solver", "auto"), _solve_options(named, output, options)
    kept, words = solve_options.kept, None
    sums = tuple(np.empty((len(of_sources), kept.n_costs(n_vertices)), each.dtype) for each in named.along)
    asked = {"along": bool(named.along)}
    if is_backward(named, of_sources, kept.read_vertices, solve_options, solver, direction, asked):
        assert isinstance(kept, NearestOfRow), "others have no direction"
        words = nearest_backward(named, of_sources, kept, solve_options, solver)
    if words is None:
        words = np.empty((len(of_sources), output.n_columns(n_vertices)), np.uint64)
        take = Filling(
            words,
            *((whole, lambda part, place=place: part.along[place]) for place, whole in enumerate(sums)),
        )
        named.solve(of_sources, solve_options, solver, take)
    answers = Solution(words, None, [], along=sums)
    return output.table(named.ids.originals(of_sources), answers, named.ids, n_vertices)


def _solve_options(named: NamedGraph, output: TableOutput, options: Options) -> SolveOptions:
    """Return the options of a call for `output`; raise `InputError` if it names what the graph does not have."""
    kept = output.kept.checked(named.graph.n_vertices)
    limit, along = scaled_limit(options.get("cutoff"), named.scale), named.along
    return SolveOptions(cutoff=limit, kept=kept, metrics=False, along=tuple(each.weights for each in along))


def _numbers(given: Sequence[float] | float) -> list[Any]:
    """Return one number or several as numbers of Python, so that columns have the names that they have in a run."""
    numbers: list[Any] = list(given) if isinstance(given, Iterable) else [given]
    return [number.item() if isinstance(number, np.generic) else number for number in numbers]


def _check_names(values: list[str], kind: Any) -> None:
    """Raise `InputError` for the first of `values` that is not of the literal `kind`."""
    known = list(get_args(kind))
    if unknown := [value for value in values if value not in known]:
        close = did_you_mean(_OTHER_NAMES.get(str(unknown[0]), str(unknown[0])), known)
        raise InputError(
            f"`values` has {listed(unknown)}, which is unknown", hint=f"{close}Values: {', '.join(known)}"
        )


def _check_numbers(name: str, numbers: Sequence[Any], most: float, hint: str) -> None:
    """Raise `InputError` for the first of the `numbers` in the argument `name` that is not from 0 to `most`."""
    for number in numbers:
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not math.isfinite(number) or not 0 <= number <= most:
            raise InputError(f"`{name}` has {number!r}", hint=hint)


def _check_together(reduce: dict[str, Any], cutoff: float | None) -> None:
    """Raise `InputError` for what a workflow with the section `reduce` would refuse."""
    for _, text, hint in reduce_contradictions(reduce, cutoff):
        message = text.replace("`output.reduce.per_vertex`", "`reduce_per_vertex`")
        message = re.sub(r"`(?:output\.reduce|solve)\.(?:per_vertex\.)?(\w+)`", r"`\1`", message)
        raise InputError(message.replace("output.reduce", "reduce"), hint=hint)


def amounts_of(amounts: Any, argument: str, ids: Ids, n_vertices: int) -> tuple[list[str], VertexAmounts]:
    """Return the names of the columns in `amounts`, and the amounts of all vertices; `argument` is its name."""
    if not isinstance(amounts, Mapping):
        try:
            table = pa.table(amounts)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"`{argument}` is of type {type(amounts).__name__}, wanted a table",
                hint="give a dictionary of columns, a data frame or a table of Arrow",
            ) from error
        amounts = {name: table[name].to_pylist() for name in table.column_names}
    names = [str(name) for name in amounts if name != _VERTEX]
    if len(names) == len(amounts) or not names:
        raise InputError(
            f"`{argument}` has the columns {listed(list(map(str, amounts)))}",
            hint="it has a column `vertex` with ids, and another one with numbers",
        )
    vertices = vertices_of(amounts[_VERTEX], ids, "vertex")
    unique, counts = np.unique(vertices, return_counts=True)
    if len(unique) < len(vertices):
        again = ids.original(int(unique[counts > 1][0]))
        raise InputError(f"`{argument}` names vertex `{again}` more than once", hint="add up its rows")
    columns = {}
    for name in names:
        values = np.asarray(amounts[name])
        is_number = values.dtype.kind in "iuf" and values.shape == vertices.shape
        if not is_number or not np.isfinite(values).all():
            raise InputError(
                f"column `{name}` of `{argument}` has no finite number for each vertex",
                hint="give a number for each vertex; a vertex without a row has the amount 0",
            )
        is_whole = values.dtype.kind != "f" and values.max(initial=0) < 2**63
        columns[name] = values.astype(np.int64 if is_whole else np.float64)
    return names, VertexAmounts.of(columns, vertices, n_vertices)
