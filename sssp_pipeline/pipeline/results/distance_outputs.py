"""The outputs that store distances to the same vertices for every source: to every vertex, or to targets."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.metrics_output import NO_DISTANCES
from sssp_pipeline.pipeline.results.outputs import Chooser, FileOutput, RowOutput, StoredRow
from sssp_pipeline.pipeline.results.run_files import REPAIR, tiles_file
from sssp_pipeline.storage import files

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from sssp_pipeline.base import csr, vertex_ids
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract import kept
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.pipeline.graph_store import units
    from sssp_pipeline.pipeline.results import distance_files, wide_files
    from sssp_pipeline.storage.file_sums import FileSum, StoredFile
    from sssp_pipeline.workflow.models import Output
else:  # `inspect` needs none of them
    np, csr = LazyModule("numpy"), LazyModule("sssp_pipeline.base.csr")
    kept, vertex_ids = (
        LazyModule("sssp_pipeline.kernels.contract.kept"),
        LazyModule("sssp_pipeline.base.vertex_ids"),
    )
    units = LazyModule("sssp_pipeline.pipeline.graph_store.units")
    distance_files = LazyModule("sssp_pipeline.pipeline.results.distance_files")
    wide_files = LazyModule("sssp_pipeline.pipeline.results.wide_files")


class VertexDistances(FileOutput):
    """Distances to some vertices, the same for every source."""

    @abstractmethod
    def vertex_column(self, ids: VertexIds) -> pa.Array:
        """Return the ids of these vertices, in order."""

    @abstractmethod
    def vertex_at(self, column: int) -> int:
        """Return the vertex of a column of what is kept."""

    @property
    def _is_wide(self) -> bool:
        return self.form.layout == "wide"

    @property
    def reads_facts(self) -> bool:
        return not self._is_wide and self.form.unreached is None and self.form.scale is None

    def batch_file(self, batch: int) -> str:
        return tiles_file(batch) if self._is_wide else super().batch_file(batch)

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        if self._is_wide:
            wide_files.write_rows(handle, sources, solution.distances, ids, self.form)
        else:
            vertex = self.vertex_column(ids)
            distance_files.write_distances(handle, sources, solution, ids, self.form, vertex)

    def read(
        self, stored: Sequence[StoredFile], places: Sequence[int], ids: VertexIds, dtype: np.dtype
    ) -> Iterator[StoredRow]:
        vertex = self.vertex_column(ids)
        if self._is_wide:
            return wide_files.read_wide_files(stored, ids, self.form, dtype, places, vertex)
        return distance_files.read_distances(stored[0], self.form, dtype, places, vertex)

    def write_wide(
        self, urls: Sequence[str], batches: Sequence[np.ndarray], folder: str, ids: VertexIds, dtype: np.dtype
    ) -> Iterator[tuple[int, str, FileSum]]:
        """Write the wide files of a run below `folder`, from the files `urls` of its `batches` of sources.

        Yields and raises as `write_wide_files`.
        """
        vertex = self.vertex_column(ids)
        stored = [
            wide_files.StoredRows(url, (len(sources), len(vertex)), dtype)
            for url, sources in zip(urls, batches, strict=True)
        ]
        names = list(map(str, ids.names(np.concatenate(batches))))
        return wide_files.write_wide_files(stored, folder, names, vertex, self.form)

    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        exact = true.distances[0]
        wrong = np.flatnonzero(exact != stored)
        if not len(wrong):
            return None
        first = int(wrong[0])
        unreached = csr.unreached_distance(exact.dtype)
        found, wanted = (None if d == unreached else d.item() for d in (stored[first], exact[first]))
        return distance_fault(source, ids.original(self.vertex_at(first)), found, wanted, self.form.scale)

    def query(self, url: str) -> str:
        if self._is_wide:
            return super().query(url)
        rows = parquet_files(url, "distances/*.parquet")
        return f"SELECT source, avg(distance) FROM {rows} GROUP BY source ORDER BY source"


class AllDistances(VertexDistances):
    """The distances to every vertex."""

    name = "full"
    has_whole_rows = True

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
        return cls(form) if digest is None else TargetDistances(form, n_targets or 0, digest, None)

    def identity(self) -> dict[str, Any]:
        return {"targets": None}

    @property
    def kept(self) -> kept.KeptOfRow:
        return kept.EveryVertex()

    def id_bytes(self, n_vertices: int, n_sources: int) -> int:
        # The wide layout has each id once. In the long one, ids in order take a few bits a row.
        return 8 * n_vertices if self._is_wide else 0

    def vertex_column(self, ids: VertexIds) -> pa.Array:
        return ids.column()

    def vertex_at(self, column: int) -> int:
        return column


@dataclass(frozen=True, eq=False)
class TargetDistances(VertexDistances):
    """The distances to some vertices, in the order in which the workflow names them."""

    #: How many targets there are.
    n: int
    #: Stands for them in the identity of the run.
    digest: str
    #: (n,) uint32; None where only their number is needed, as in a task and in the process that gives tasks out.
    vertices: np.ndarray | None

    @classmethod
    def of(cls, form: DistanceFormat, vertices: np.ndarray) -> TargetDistances:
        """Return the distances to `vertices` (n,) uint32."""
        return cls(form, len(vertices), vertex_ids.digest_of(vertices), vertices)

    def identity(self) -> dict[str, Any]:
        return {"targets": self.digest}

    @property
    def n_targets(self) -> int | None:
        return self.n

    @property
    def kept(self) -> kept.KeptOfRow:
        return kept.Targets(self._known())

    def n_columns(self, n_vertices: int) -> int:
        return self.n

    def id_bytes(self, n_vertices: int, n_sources: int) -> int:
        # In the long layout, ids in any order take about 4 bytes a row.
        return 8 * self.n if self._is_wide else 4 * self.n * n_sources

    def note(self) -> np.ndarray | None:
        return self._known()

    def in_tasks(self) -> RowOutput:
        return replace(self, vertices=None)

    def for_solving(self, noted: Callable[[str], np.ndarray]) -> RowOutput:
        return replace(self, vertices=noted(self.digest))

    def for_verifying(
        self, stored: Sequence[StoredFile], ids: VertexIds, n_sources: int, noted: Callable[[str], np.ndarray]
    ) -> RowOutput:
        """Return this with the vertices that the files hold; `digest` confirms them.

        Raises
        ------
        InputError
            The files hold other vertices.
        """
        vertices = np.concatenate(
            [distance_files.read_targets(each, ids, n_sources, self.form) for each in stored]
        )
        if vertex_ids.digest_of(vertices) != self.digest:
            raise InputError(
                f"`{files.redacted(stored[0].url)}` is damaged: it has not the targets that the run was asked for",
                hint=REPAIR,
            )
        return replace(self, vertices=vertices)

    def vertex_column(self, ids: VertexIds) -> pa.Array:
        return ids.originals(self._known())

    def vertex_at(self, column: int) -> int:
        return int(self._known()[column])

    def covered(self, n_vertices: int) -> str:
        return plural(self.n, "target")

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "targets", self.n

    def _known(self) -> np.ndarray:
        assert self.vertices is not None, "the targets are read first: `for_solving`, `for_verifying`"
        return self.vertices


def distance_fault(
    source: int | str, vertex: int | str, stored: float | None, true: float | None, scale: int | None
) -> str:
    """Return the sentence on a wrong distance between two ids; None stands for an unreached vertex."""
    first, second = ("unreached" if d is None else str(units.in_input_unit(d, scale)) for d in (stored, true))
    return f"source `{source}`, vertex `{vertex}`: stored distance {first}, true distance {second}"
