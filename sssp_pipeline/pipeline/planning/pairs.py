"""The pairs of a run: `output.pairs` of the workflow as vertex numbers."""

from __future__ import annotations

from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.vertex_files.pair_lists import (
    PairList,
    PairReading,
    find_pairs,
    read_pairs,
)
from sssp_pipeline.pipeline.planning.sources import Skipped
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.pairs import Pairs

_KEY = "output.pairs"


def chosen_pairs(spec: Pairs, ids: VertexIds, skipped: Skipped) -> PairList:
    """Return the pairs of the file that `spec` names. Those that it leaves out are counted in `skipped`.

    Raises
    ------
    InputError
        The file cannot be read or has no pair, or a pair has an id that is not in the graph.
    """
    reading = PairReading(
        spec.file,
        ids.mapping.type,
        columns=(
            "auto" if spec.source is None else str(spec.source),
            "auto" if spec.target is None else str(spec.target),
        ),
        header="auto" if spec.header is None else spec.header,
        naming=f"name them: `{_KEY}: {{file: {files.redacted(spec.file)}, source: NAME, target: NAME}}`",
        has_header=f"`{_KEY}.header: true` says that the first line names the columns, `false` that it is a pair",
    )
    found = find_pairs(
        read_pairs(reading, usable_cores()),
        ids,
        skip=spec.unknown == "skip",
        skip_hint=f"`{_KEY}.unknown: skip`",
        reading=reading,
    )
    if found.n_unknown:
        skipped.pairs = found.n_unknown
        skipped.first["pairs"] = [str(i) for i in found.unknown]
    return found
