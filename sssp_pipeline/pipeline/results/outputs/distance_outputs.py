"""The outputs that store distances: to every vertex, to targets, or to the reached vertices of each source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sssp_pipeline.base import csr, vertex_ids
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.kernels.contract import kept
from sssp_pipeline.pipeline.graph_store import units
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.folder.run_files import REPAIR
from sssp_pipeline.pipeline.results.layouts import LAYOUTS
from sssp_pipeline.pipeline.results.layouts.layout import DistanceLayout, Files, StoredRows
from sssp_pipeline.pipeline.results.layouts.long import ReachedLayout
from sssp_pipeline.pipeline.results.outputs.metrics_output import NO_DISTANCES
from sssp_pipeline.pipeline.results.outputs.outputs import Chooser, RowOutput
from sssp_pipeline.storage import files

if TYPE_CHECKING:
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.workflow.output import Output


class VertexDistances(RowOutput):
    """Distances to some vertices, or to every vertex."""

    @property
    def layout(self) -> DistanceLayout:
        return LAYOUTS[self.form.layout](self.form, self.words)

    @property
    def kept(self) -> kept.KeptOfRow:
        return kept.EveryVertex()

    @property
    def reads_facts(self) -> bool:
        return self.layout.reads_facts

    @property
    def reached_only(self) -> bool:
        return self.layout.reached_only

    def id_bytes(self, n_vertices: int, n_sources: int, n_files: int) -> int:
        is_rising = self.n_targets is None
        return self.layout.id_bytes(self.n_columns(n_vertices), n_sources, n_files, rising=is_rising)

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        self.layout.write(handle, sources, solution, ids)

    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        return self.layout.read(stored, places, ids, dtype)

    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        return self._first_difference(source, stored, true.distances[0], self.form.scale, ids)

    def difference_of_costs(
        self, source: int | str, stored: Sequence[Any], true: Sequence[np.ndarray], ids: VertexIds
    ) -> str | None:
        """Do what `difference` does for the second costs: a row `stored` of each, and the `true` one."""
        for cost, found, exact in zip(self.form.along, stored, true, strict=True):
            sentence = self._first_difference(source, found, exact, cost.scale, ids, f"`{cost.name}`")
            if sentence is not None:
                return sentence
        return None

    def _first_difference(
        self,
        source: int | str,
        stored: np.ndarray,
        exact: np.ndarray,
        scale: int | None,
        ids: VertexIds,
        what: str = "distance",
    ) -> str | None:
        wrong = np.flatnonzero(exact != stored)
        if not len(wrong):
            return None
        first = int(wrong[0])
        vertex = ids.original(first) if self.words is None else ids.of_targets(self.words)[first]
        unreached = csr.unreached_distance(exact.dtype)
        found, wanted = (None if d == unreached else d.item() for d in (stored[first], exact[first]))
        return distance_fault(source, vertex, found, wanted, scale, what)

    def query(self, url: str) -> str:
        return self.layout.query.format(parquet_files(url, self.layout.files))


class AllDistances(VertexDistances):
    """The distances to every vertex."""

    name = "full"
    has_whole_rows = has_all_reached = is_matrix = True

    @classmethod
    def chosen(cls, form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
        """Return this, or the distances to the targets if the workflow names some."""
        if spec.targets is None:
            return cls(form)
        return TargetDistances.of(form, choose.vertices(spec.targets, "output.targets"))

    @classmethod
    def wrote(cls, identity: dict[str, Any]) -> bool:
        return "output" not in identity and identity.get("targets") != NO_DISTANCES

    @classmethod
    def recorded(cls, form: DistanceFormat, identity: dict[str, Any], n_targets: int | None) -> RowOutput:
        digest = identity.get("targets")
        return cls(form) if digest is None else TargetDistances(form, digest, None, n_targets or 0)

    def identity(self) -> dict[str, Any]:
        return {"targets": None}


class ReachedPairs(VertexDistances):
    """The distances to the reached vertices, a row for each."""

    name = "reached"
    has_all_reached = True

    @property
    def layout(self) -> DistanceLayout:
        return ReachedLayout(self.form, None)


@dataclass(frozen=True, eq=False)
class TargetDistances(VertexDistances):
    """The distances to some vertices, in the order in which the workflow names them."""

    is_matrix = True

    #: How many targets there are. The targets are `words`, which only workers and the plan need.
    n: int = 0

    @classmethod
    def of(cls, form: DistanceFormat, vertices: np.ndarray) -> TargetDistances:
        """Return the distances to `vertices` (n,) uint32."""
        return cls(form, vertex_ids.digest_of(vertices), vertices, len(vertices))

    def identity(self) -> dict[str, Any]:
        return {"targets": self.digest}

    @property
    def n_targets(self) -> int | None:
        return self.n

    @property
    def kept(self) -> kept.KeptOfRow:
        assert self.words is not None, "the targets are read first: `for_solving`, `for_verifying`"
        return kept.Targets(self.words)

    def n_columns(self, n_vertices: int) -> int:
        return self.n

    def for_verifying(self, stored: Files, ids: VertexIds, read_input: Callable[[str], np.ndarray]) -> Self:
        """Return this with the vertices that the files hold; `digest` confirms them.

        Raises
        ------
        InputError
            The files hold other vertices.
        """
        url = files.redacted(stored[0].url)
        there = [vertex for each in stored for vertex in self.layout.vertex_ids(each, self.n).to_pylist()]
        if (points := ids.target_points) is None:
            vertices = ids.vertices(there, f"`{url}`: vertex")
        else:
            vertices = points.vertices if there == points.ids.to_pylist() else points.vertices[:0]
        if vertex_ids.digest_of(vertices) != self.digest:
            raise InputError(
                f"`{url}` is damaged: it has not the targets that the run was asked for",
                hint=REPAIR,
            )
        return replace(self, words=vertices)

    def covered(self, n_vertices: int) -> str:
        return plural(self.n, "target")

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "targets", self.n


def distance_fault(
    source: int | str,
    vertex: int | str,
    stored: float | None,
    true: float | None,
    scale: int | None,
    what: str = "distance",
) -> str:
    """Return the sentence on a wrong distance between two ids; None stands for an unreached vertex."""
    first, second = ("unreached" if d is None else str(units.in_input_unit(d, scale)) for d in (stored, true))
    return f"source `{source}`, vertex `{vertex}`: stored {what} {first}, true {what} {second}"
