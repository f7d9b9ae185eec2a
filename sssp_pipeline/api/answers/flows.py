"""`flows`: how much passes each edge if each trip takes a shortest path."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Unpack

import numpy as np
import pyarrow as pa

from sssp_pipeline.api.answers.answers import Options, named_by
from sssp_pipeline.api.answers.pairs import pairs_of
from sssp_pipeline.api.calls.along_paths import OnHost, sums_of_rows
from sssp_pipeline.api.graphs.graphs import naming_for
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.answers.path_sums import sums_of
from sssp_pipeline.kernels.answers.trip_sums import MOST_CARRIED, Trips, TripSums
from sssp_pipeline.kernels.contract.solver import SolveOptions
from sssp_pipeline.kernels.host.incoming import Incoming
from sssp_pipeline.pipeline.graph_store.units import scaled_limit
from sssp_pipeline.pipeline.results.answers.betweenness import check_weights
from sssp_pipeline.pipeline.results.answers.edge_table import ends_of_edges


def flows(
    graph: Any,
    trips: Any,
    *,
    paths: Literal["one", "all"] = "one",
    unknown: Literal["error", "skip"] = "error",
    unreached: Literal["error", "skip"] = "error",
    **options: Unpack[Options],
) -> pa.Table:
    """Return how much passes each edge if all trips take shortest paths (all-or-nothing assignment).

    Parameters
    ----------
    graph, **options
        As for `solve`; `options` are its `cutoff`, `solver`, `weight`, `columns`, `directed` and `dtype`. Weights are
        above zero, and integers or float64.
    trips
        A table with the columns `source`, `target` and `amount`. Amounts are zero or more. A pair may occur twice. A
        trip from a vertex to itself passes no edge.
    paths
        "one" sends a trip along one shortest path, that with the smallest predecessors, as `solve` gives them; of
        parallel edges that are as short, the first has it all. "all" divides it evenly among all shortest paths.
    unknown, unreached
        What to do with trips that have an id that is not in the graph, or no path within the cutoff: "error" raises,
        "skip" leaves them out.

    Returns
    -------
    pyarrow.Table
        A row for each edge, in each direction, in the order of their ends: `source`, `target` and `flow`, float64. The
        order of the trips and the number of cores do not change a bit.

    Raises
    ------
    InputError
        An amount is missing, negative or not finite, all together are 2^63 or more, an id is not in the graph, or a
        trip has no path; or as `betweenness`.
    SsspError
        As `solve`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> roads = pa.table({"from": ["A", "B", "A"], "to": ["B", "C", "C"], "minutes": [4, 5, 12]})
    >>> trips = pa.table({"source": ["A", "A"], "target": ["B", "C"], "amount": [10, 20]})
    >>> sp.flows(roads, trips).to_pydict()
    {'source': ['A', 'A', 'B'], 'target': ['B', 'C', 'C'], 'flow': [30.0, 0.0, 20.0]}
    """
    with naming_for(graph):
        for name, given, known in (
            ("paths", paths, ("one", "all")),
            ("unknown", unknown, ("error", "skip")),
            ("unreached", unreached, ("error", "skip")),
        ):
            if given not in known:
                raise InputError(f"`{name}` is {given!r}", hint=f'it is "{known[0]}" or "{known[1]}"')
        named = named_by(graph, options)
        csr, ids = named.graph, named.ids
        check_weights(csr.traits, lambda: csr, ids, named.scale)
        table = _table_of(trips)
        amounts = _amounts_of(table)
        found = pairs_of(table, ids, skip=unknown == "skip")
        if found.is_known is not None:
            amounts = amounts[found.is_known]
        grouped = Trips.of(found.sources, found.targets, amounts)
        is_divided = paths == "all"
        make = partial(TripSums, csr, grouped, None if is_divided else Incoming.of(csr))
        n_bytes = TripSums.n_bytes(csr.n_vertices, csr.n_edges, is_divided=is_divided)
        limit = scaled_limit(options.get("cutoff"), named.scale)
        on_host = OnHost(make, n_bytes, len(grouped.sources))
        solve_options, solver = SolveOptions(cutoff=limit, metrics=False), options.get("solver", "auto")
        sums = sums_of_rows(on_host, grouped.sources, solve_options, solver, named.solve)
        if unreached == "error" and sums.first_lost is not None:
            source, target = (
                ids.original(int(end[sums.first_lost])) for end in (found.sources, found.targets)
            )
            within = "" if limit is None else " within the cutoff"
            raise InputError(
                f"no path leads from `{source}` to `{target}`{within}, and a trip does",
                hint='`unreached="skip"` leaves out such trips',
            )
        return pa.table(ends_of_edges(csr, ids) | {"flow": pa.array(sums_of(sums.words.edges))})


def _table_of(trips: Any) -> pa.Table:
    """Return the table of trips; raise `InputError` if it is none."""
    if hasattr(trips, "__arrow_c_stream__") or isinstance(trips, dict):
        table = pa.table(trips)
        if "amount" in table.column_names:
            return table
        raise InputError(
            f"the table of trips has the columns {', '.join(table.column_names)}",
            hint="it needs the columns `source`, `target` and `amount`",
        )
    raise InputError(
        f"`trips` is of type {type(trips).__name__}",
        hint="give a table with the columns `source`, `target` and `amount`",
    )


def _amounts_of(table: pa.Table) -> np.ndarray:
    """Return the amounts (n,) float64; raise `InputError` for one that cannot be sent."""
    column = table["amount"]
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError(f"the amounts are of type {column.type}", hint="they are numbers")
    amounts: np.ndarray = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy()
    if (wrong := np.flatnonzero(~((amounts >= 0) & (amounts < np.inf)))).size:
        row = int(wrong[0])
        raise InputError(
            f"row {row} of the trips has the amount {column[row].as_py()}",
            hint="an amount is a number of 0 or more",
        )
    if (total := float(amounts.sum())) >= MOST_CARRIED:
        raise InputError(
            f"all amounts together are {total}", hint="give them in a larger unit: below 2^63 in all"
        )
    return amounts
