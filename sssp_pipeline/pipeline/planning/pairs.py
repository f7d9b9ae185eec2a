"""The pairs of a run: `output.pairs` of the workflow as vertex numbers, or as places among points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.vertex_ids import NamedPoints, VertexIds, listed
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.formats.vertex_files.pair_lists import (
    PairReading,
    find_pairs,
    read_pairs,
    typed_chunks,
)
from sssp_pipeline.pipeline.planning.sources import VertexSelection
from sssp_pipeline.pipeline.results.outputs.outputs import ChosenPairs
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.pairs import Pairs

_KEY = "output.pairs"


@dataclass(frozen=True, eq=False)
class _PointIds:
    """The ids of the points that an end of the pairs has, as `pair_lists.Findable`."""

    points: NamedPoints
    #: The file of the points.
    owner: str

    def find_column(self, column: pa.Array) -> np.ndarray:
        return self.points.find_column(column)

    def range_hint(self) -> str:
        ids = self.points.ids
        return f"{self.owner} has {plural(len(ids), 'point')}: {listed(ids[:3].to_pylist(), len(ids))}"


def chosen_pairs(spec: Pairs, choose: VertexSelection) -> ChosenPairs:
    """Return the pairs of the file that `spec` names. Those that it leaves out are counted in `choose.skipped`.

    Raises
    ------
    InputError
        A file cannot be read, or there is no pair, or a pair has an id that is not in the graph or that no point has.
    """
    ids = _ids_of(spec, "source", choose), _ids_of(spec, "target", choose)
    types = _type_of(ids[0]), _type_of(ids[1])
    owners = " and ".join(dict.fromkeys(of_end.owner for of_end in ids))
    more = (
        ""
        if isinstance(ids[0], _PointIds)
        else f"; `{_KEY}.source_points` is for points with ids of their own"
    )
    reading = PairReading(
        spec.file,
        "int64" if types == (pa.int64(), pa.int64()) else "string",
        columns=(
            "auto" if spec.source is None else str(spec.source),
            "auto" if spec.target is None else str(spec.target),
        ),
        header="auto" if spec.header is None else spec.header,
        naming=f"name them: `{_KEY}: {{file: {files.redacted(spec.file)}, source: NAME, target: NAME}}`",
        has_header=f"`{_KEY}.header: true` says that the first line names the columns, `false` that it is a pair",
        integers=f"the ids of {owners} are integers{more}",
    )
    if types[0] == types[1]:
        chunks = read_pairs(reading, usable_cores())
    else:
        of_ends = (ids[0].owner, _hint(ids[0], "source")), (ids[1].owner, _hint(ids[1], "target"))
        chunks = typed_chunks(reading, types, of_ends, usable_cores())
    skip, hint = spec.unknown == "skip", f"`{_KEY}.unknown: skip`"
    found = find_pairs(chunks, ids, skip=skip, skip_hint=hint, reading=reading)
    if found.n_unknown:
        choose.skipped.pairs = found.n_unknown
        choose.skipped.first["pairs"] = [str(i) for i in found.unknown]
    ends = found.sources, found.targets
    return ChosenPairs(ends, (_vertices(ids[0], ends[0]), _vertices(ids[1], ends[1])))


def _ids_of(spec: Pairs, end: str, choose: VertexSelection) -> VertexIds | _PointIds:
    """Return the ids that an end of the pairs has, "source" or "target"."""
    key = f"{end}_points"
    if (points := getattr(spec, key)) is None:
        return choose.ids
    assert choose.snap is not None, "points are chosen on a stored graph, which has coordinates"
    found = choose.snap(points, f"{_KEY}.{key}", end, needs_ids=True)
    return _PointIds(found, f"`{files.redacted(points.file)}`")


def _type_of(ids: VertexIds | _PointIds) -> pa.DataType:
    if isinstance(ids, _PointIds):
        return ids.points.ids.type
    return pa.int64() if ids.mapping.type == "int64" else pa.string()


def _hint(ids: VertexIds | _PointIds, end: str) -> str:
    """Return what to do if an id of an end is no integer, and those of the other end are no integers either."""
    if isinstance(ids, _PointIds):
        return ids.range_hint()
    return f"name a vertex of the graph, or set `{_KEY}.{end}_points` for points with ids of their own"


def _vertices(ids: VertexIds | _PointIds, found: np.ndarray) -> np.ndarray:
    return ids.points.vertices[found] if isinstance(ids, _PointIds) else found
