"""The second costs of a run: other weights of its graph, which are summed along the shortest paths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import plural
from sssp_pipeline.kernels.host.second_costs import check_sums, cost_dtype
from sssp_pipeline.pipeline.graph_store import units
from sssp_pipeline.pipeline.graph_store.store import graph_with
from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
from sssp_pipeline.pipeline.results.folder.distance_files import SecondCost, check_unreached
from sssp_pipeline.workflow.weights import naming_weight


def second_costs(
    names: Sequence[str], stored: StoredGraph, unreached: float | None = None, cutoff: float | None = None
) -> tuple[SecondCost, ...]:
    """Return the second costs with these names on a stored graph; `unreached` is to stand for "unreached".

    Raises
    ------
    InputError
        The store has no such weight; parallel edges were merged, so that an edge has no second cost of its own; a
        weight of the graph is negative, and there is a cutoff; or the sum along a path may be beyond its type.
    """
    manifests = [graph_with(name, stored.manifest, stored.store) for name in names]
    if names and cutoff is not None and stored.manifest.weights.negative:
        raise InputError(
            "paths of negative weights may leave the cutoff and come back, so there are second costs only without one",
            hint="remove `solve.cutoff`, or `solve.along`",
        )
    merged = stored.manifest.counts.duplicates_dropped
    if names and merged:
        raise InputError(
            f"{plural(merged, 'parallel edge')} of the graph were merged, and each weight kept its own least value: "
            f"of an edge, `{names[0]}` may be that of another road than the shortest one",
            hint="ingest the graph with `graph.duplicates: keep-all`, which keeps parallel edges",
        )
    found = []
    for name, manifest in zip(names, manifests, strict=True):
        weights = manifest.weights
        with naming_weight(name):
            largest = None if weights.scale is None else units.LARGEST
            dtype = np.dtype(weights.dtype)
            check_sums(weights.min, weights.max, manifest.n_vertices, dtype, largest)
            if weights.scale is None:
                check_unreached(unreached, cost_dtype(dtype))
        found.append(SecondCost(name, manifest.content_id, cost_dtype(dtype).name, weights.scale))
    return tuple(found)
