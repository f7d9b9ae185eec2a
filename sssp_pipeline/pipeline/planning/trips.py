"""The trips of a run: `output.flows` of the workflow as vertex numbers and amounts, by their sources."""

from __future__ import annotations

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.answers.trip_sums import MOST_CARRIED, Trips
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.vertex_files.pair_lists import PairReading, find_pairs, read_trips
from sssp_pipeline.pipeline.planning.sources import VertexSelection
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.flows import Flows

_KEY = "output.flows"


def chosen_trips(spec: Flows, choose: VertexSelection) -> Trips:
    """Return the trips of the table that `spec` names. Those that it leaves out are counted in `choose.skipped`.

    Raises
    ------
    InputError
        A file cannot be read, or there is no trip; a trip has an id that is not in the graph, or an amount that cannot
        be sent; or all amounts together are too large.
    """
    ids = choose.ids
    source, target = ("auto" if column is None else str(column) for column in (spec.source, spec.target))
    reading = PairReading(
        spec.file,
        ids.mapping.type,
        columns=(source, target),
        header="auto" if spec.header is None else spec.header,
        naming=f"name them: `{_KEY}: {{file: {files.redacted(spec.file)}, source: NAME, target: NAME, amount: NAME}}`",
        has_header=f"`{_KEY}.header: true` says that the first line names the columns, `false` that it is a trip",
        integers=f"the ids of {ids.owner} are integers",
        amount=str(spec.amount),
    )
    parts: list[np.ndarray] = []
    chunks = read_trips(reading, usable_cores(), parts)
    skip, hint = spec.unknown == "skip", f"`{_KEY}.unknown: skip`"
    found = find_pairs(chunks, (ids, ids), skip=skip, skip_hint=hint, reading=reading)
    amounts = np.concatenate(parts)
    del parts
    if found.is_known is not None:
        amounts = amounts[found.is_known]
        choose.skipped.trips = found.n_unknown
        choose.skipped.first["trips"] = [str(i) for i in found.unknown]
    # A path has fewer edges than there are vertices, so the sum of all flows is below `MOST_CARRIED` too.
    if (total := float(amounts.sum())) >= (most := MOST_CARRIED / ids.n_vertices):
        raise InputError(
            f"{reading.place}all amounts together are {total}",
            hint=f"give them in a larger unit: below {most:.2g} in all, 2^63 divided by the number of vertices",
        )
    return Trips.of(found.sources, found.targets, amounts)
