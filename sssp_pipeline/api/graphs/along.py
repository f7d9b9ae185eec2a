"""Second costs of a call: other weights of its graph, which `solve` sums along the shortest paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.host.second_costs import check_sums, cost_dtype
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.graph_store.units import distances_in_input_unit
from sssp_pipeline.pipeline.planning.along import second_costs
from sssp_pipeline.pipeline.results.folder.distance_files import SecondCost
from sssp_pipeline.workflow.weights import COLUMNS, naming_weight


@dataclass(frozen=True, eq=False)
class Along:
    """A weight that is summed along the shortest paths."""

    name: str
    #: (E,), in the order of the edges of the graph.
    weights: np.ndarray
    #: As `NamedGraph.scale`.
    scale: int | None = None

    def in_unit(self, sums: np.ndarray) -> np.ndarray:
        """Return sums of `weights` in the unit of the caller."""
        return sums if self.scale is None else distances_in_input_unit(sums, self.scale)

    @property
    def dtype(self) -> np.dtype:
        """The type of the sums."""
        return cost_dtype(self.weights.dtype)

    def as_column(self) -> SecondCost:
        """Return how a table of answers has the sums."""
        return SecondCost(self.name, "", self.dtype.name, self.scale)


def names_of(along: Any) -> tuple[str, ...]:
    """Return the names in the argument `along`, one or several; raise `InputError` if they are none."""
    names = (along,) if isinstance(along, str) else tuple(along)
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise InputError(f"`along` has {name!r}", hint="give the name of a weight, or several names")
        if name in names[:i]:
            raise InputError(f"`along` has `{name}` twice", hint="name it once")
        if name in COLUMNS:
            raise InputError(
                f"`{name}` in `along` is also the name of another column of the result",
                hint="give the weight another name",
            )
    return names


def along_of_store(names: tuple[str, ...], stored: StoredGraph) -> tuple[Along, ...]:
    """Return the weights of a graph store with these names. It raises as `second_costs`."""
    found = second_costs(names, stored)
    return tuple(Along(cost.name, stored.other_weights(cost.weights), cost.scale) for cost in found)


def along_of_edges(
    names: tuple[str, ...],
    ends: tuple[np.ndarray, np.ndarray],
    weights: np.ndarray,
    n_vertices: int,
    mirror: bool,
    read: Callable[[str], np.ndarray],
) -> tuple[CsrGraph, tuple[Along, ...]]:
    """Return the graph of some edges as `csr_of_edges` does, with other weights of them in its order.

    Parameters
    ----------
    ends, weights
        (E,) each, as for `csr_of_edges`.
    read
        Returns the weights of a name, (E,).

    Raises
    ------
    InputError
        The sum of a weight along a path may be beyond its type. Also what `read` raises.
    """
    columns = []
    for name in names:
        with naming_weight(name):
            values = read(name)
            if len(values):
                check_sums(values.min().item(), values.max().item(), n_vertices, values.dtype)
        columns.append(values)
    src, dst = ends
    if mirror:
        others = src != dst
        src, dst = np.concatenate([src, dst[others]]), np.concatenate([dst, src[others]])
        weights, *columns = (np.concatenate([each, each[others]]) for each in (weights, *columns))
    order = np.lexsort((weights, dst, src))
    row_offsets = np.searchsorted(src[order], np.arange(n_vertices + 1))
    graph = CsrGraph(row_offsets, dst[order].astype(np.uint32, copy=False), weights[order]).check()
    return graph, tuple(Along(name, values[order]) for name, values in zip(names, columns, strict=True))
