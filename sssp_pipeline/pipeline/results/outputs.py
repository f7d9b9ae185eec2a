"""What a run stores of each row of distances, one class for each kind; `workflow/registries.py` lists them.

A kind knows what solvers keep of a row (`kernels/kept.py`), its part of the identity of a run, how many bytes it takes,
how a batch is written and read, and how `verify` compares a stored row with a true one. Distances to every vertex, to
targets, and metrics alone are the kinds of format 1.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sssp_pipeline.errors import InputError
from sssp_pipeline.lazy import LazyModule
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.run_files import (
    METRICS_FILE,
    OVERWRITE,
    FileShape,
    batch_file,
    tiles_file,
)
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.progress import plural
from sssp_pipeline.workflow.registries import OUTPUTS, code_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from sssp_pipeline import csr, vertex_ids
    from sssp_pipeline.kernels import kept
    from sssp_pipeline.kernels.solver import Solution
    from sssp_pipeline.pipeline.graph_store import units
    from sssp_pipeline.pipeline.results import distance_files, wide_files
    from sssp_pipeline.vertex_amounts import VertexAmounts
    from sssp_pipeline.vertex_ids import VertexIds
    from sssp_pipeline.workflow.answers import Amounts
    from sssp_pipeline.workflow.models import Output
    from sssp_pipeline.workflow.vertices import Vertices
else:  # `inspect` needs none of them
    np, csr = LazyModule("numpy"), LazyModule("sssp_pipeline.csr")
    kept, vertex_ids = LazyModule("sssp_pipeline.kernels.kept"), LazyModule("sssp_pipeline.vertex_ids")
    units = LazyModule("sssp_pipeline.pipeline.graph_store.units")
    distance_files = LazyModule("sssp_pipeline.pipeline.results.distance_files")
    wide_files = LazyModule("sssp_pipeline.pipeline.results.wide_files")

#: What stands under "targets" in the identity of a run that writes no distances.
NO_DISTANCES = "none"
#: The metrics that follow from the distances alone.
OF_DISTANCES = ("reached", "max_distance", "mean_distance")
#: The metrics that are in the unit of the weights.
OF_LENGTHS = ("max_distance", "mean_distance", "delta_first", "delta_last")

#: The id of a source, and what is stored of its row.
StoredRow = tuple[int | str, Any]


class Chooser(Protocol):
    """Finds on the graph of a run what `output` of its workflow names."""

    @property
    def weight_dtype(self) -> np.dtype:
        """The type of the weights."""
        ...

    def vertices(self, spec: Vertices, key: str) -> np.ndarray:
        """Return (n,) uint32 the vertices that `spec` names; `key` is its key in the workflow."""
        ...

    def amounts(self, spec: Amounts) -> VertexAmounts:
        """Return the amounts of the vertices that `spec` names."""
        ...


@dataclass(frozen=True, eq=False)
class RowOutput(ABC):
    """What a run stores of each row of distances."""

    #: How distances are written.
    form: DistanceFormat

    #: Names the kind, in `registries.OUTPUTS` and in the identity of runs.
    name: ClassVar[str]
    #: Whether every distance is stored, which the certificate needs.
    has_whole_rows: ClassVar[bool] = False
    #: What a verdict of `verify` is about.
    judged: ClassVar[str] = "distance"
    #: Whether `verify` needs what `note` returns, so that the run folder keeps it when the run is finished.
    note_stays: ClassVar[bool] = False

    # ---- which run it is of ----

    @classmethod
    def chosen(cls, form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
        """Return what the workflow's `output` asks for; `choose` finds the vertices that it names."""
        del spec, choose
        return cls(form)

    @classmethod
    def wrote(cls, identity: dict[str, Any]) -> bool:
        """Return whether the run of this `identity` stores this kind."""
        return identity.get("output") == cls.name

    @classmethod
    def recorded(cls, form: DistanceFormat, identity: dict[str, Any], n_targets: int | None) -> RowOutput:
        """Return the output of a run from its `identity` and what its run.json has as "targets"."""
        del identity, n_targets
        return cls(form)

    def identity(self) -> dict[str, Any]:
        """Return its part of the identity of a run, without that of `form`."""
        return {"targets": None, "output": self.name}

    @property
    def n_targets(self) -> int | None:
        """What run.json has as "targets"."""
        return None

    # ---- what it takes ----

    @property
    @abstractmethod
    def kept(self) -> kept.Kept:
        """What solvers keep of a row."""

    def n_columns(self, n_vertices: int) -> int:
        """Return how many values are stored of a row."""
        return self.kept.n_columns(n_vertices)

    def row_bytes(self, n_vertices: int, weight_dtype: np.dtype) -> int:
        """Return the bytes of a stored row in memory."""
        return self.n_columns(n_vertices) * self.form.dtype(weight_dtype).itemsize

    def id_bytes(self, n_vertices: int, n_sources: int) -> int:
        """Return about how many bytes the ids of vertices take in storage."""
        del n_vertices, n_sources
        return 0

    def held_bytes(self, n_vertices: int) -> int:
        """Return the host memory of what `note` returns, which each worker holds once."""
        del n_vertices
        return 0

    # ---- on workers ----

    def note(self) -> np.ndarray | None:
        """Return (n,) uint32 that solving workers read from the run folder, as it is too long for each task."""
        return None

    def in_tasks(self) -> RowOutput:
        """Return this without what `note` returns."""
        return self

    def for_solving(self, noted: Callable[[], np.ndarray]) -> RowOutput:
        """Return the whole of what `in_tasks` shortened; `noted` reads what `note` returned."""
        del noted
        return self

    def for_verifying(
        self, urls: Sequence[str], ids: VertexIds, n_sources: int, noted: Callable[[], np.ndarray]
    ) -> RowOutput:
        """Return the whole of what `in_tasks` shortened, from the files `urls` of the first `n_sources` sources.

        `noted` reads what `note` returned, if that stays.
        """
        del urls, ids, n_sources, noted
        return self

    @property
    def reads_facts(self) -> bool:
        """Whether `write` can use facts about distances that a GPU finds, and packed rows (`kernels/row_facts.py`)."""
        return False

    # ---- verdicts ----

    @abstractmethod
    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        """Return the sentence on the first stored value that is not that of `true`, None if all are.

        Parameters
        ----------
        source
            Its id.
        stored
            As `read` yields it.
        true
            The solution for this source alone, with what `kept` keeps.
        """

    # ---- words ----

    def covered(self, n_vertices: int) -> str:
        """Return what is solved from each source, in words."""
        return plural(n_vertices, "vertex")

    def facts(self) -> Iterator[tuple[str, Any]]:
        """Yield lines of the report."""
        yield from ()

    def query(self, url: str) -> str:
        """Return an example of a query in SQL of the run at `url`."""
        return f"SELECT * FROM '{url}/distances/*.parquet' LIMIT 10"


class FileOutput(RowOutput):
    """A kind with a file for each batch, which commits the batch. Without one, its metrics do."""

    def batch_file(self, batch: int) -> str:
        """Return the path, below the run folder, of what is stored of a batch."""
        return batch_file(batch)

    @abstractmethod
    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        """Write what is stored of the rows of `sources` (S,) to `handle`."""

    @abstractmethod
    def batch_shape(self, batch: int, n_sources: int, n_vertices: int, weight_dtype: np.dtype) -> FileShape:
        """Return what the file of a batch must be."""

    @abstractmethod
    def read(
        self, urls: Sequence[str], places: Sequence[int], ids: VertexIds, dtype: np.dtype
    ) -> Iterator[StoredRow]:
        """Yield the sources at `places`, in order, and what is stored of their rows.

        Parameters
        ----------
        urls
            The file of a batch; or in the wide layout, the files that hold all sources of a run.
        dtype
            The type of the weights.
        """


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

    def batch_shape(self, batch: int, n_sources: int, n_vertices: int, weight_dtype: np.dtype) -> FileShape:
        n_values = n_sources * self.n_columns(n_vertices)
        if self._is_wide:
            return FileShape(self.batch_file(batch), bytes=n_values * weight_dtype.itemsize)
        return FileShape(self.batch_file(batch), n_values)

    def read(
        self, urls: Sequence[str], places: Sequence[int], ids: VertexIds, dtype: np.dtype
    ) -> Iterator[StoredRow]:
        vertex = self.vertex_column(ids)
        if self._is_wide:
            return wide_files.read_wide_files(urls, ids, self.form, dtype, places, vertex)
        return distance_files.read_distances(urls[0], self.form, dtype, places, vertex)

    def write_wide(
        self, urls: Sequence[str], batches: Sequence[np.ndarray], folder: str, ids: VertexIds, dtype: np.dtype
    ) -> Iterator[int]:
        """Write the wide files of a run below `folder`, from the files `urls` of its `batches` of sources.

        Yields the number of vertices that are written, after each file. Raises as `write_wide_files`.
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
        return (
            f"SELECT source, avg(distance) FROM '{url}/distances/*.parquet' GROUP BY source ORDER BY source"
        )


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
    def kept(self) -> kept.Kept:
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
    def kept(self) -> kept.Kept:
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

    def for_solving(self, noted: Callable[[], np.ndarray]) -> RowOutput:
        return replace(self, vertices=noted())

    def for_verifying(
        self, urls: Sequence[str], ids: VertexIds, n_sources: int, noted: Callable[[], np.ndarray]
    ) -> RowOutput:
        """Return this with the vertices that the files hold; `digest` confirms them.

        Raises
        ------
        InputError
            The files hold other vertices.
        """
        vertices = np.concatenate(
            [distance_files.read_targets(url, ids, n_sources, self.form) for url in urls]
        )
        if vertex_ids.digest_of(vertices) != self.digest:
            raise InputError(
                f"`{files.redacted(urls[0])}` is damaged: it has not the targets that the run was asked for",
                hint=OVERWRITE,
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


class MetricsAlone(RowOutput):
    """No distance: the metrics of each source say how many vertices it reaches, and how far they are."""

    name = "none"
    judged = "reach, largest and mean distance"

    @classmethod
    def wrote(cls, identity: dict[str, Any]) -> bool:
        return "output" not in identity and identity.get("targets") == NO_DISTANCES

    def identity(self) -> dict[str, Any]:
        return {"targets": NO_DISTANCES}

    @property
    def n_targets(self) -> int | None:
        return 0

    @property
    def kept(self) -> kept.Kept:
        return kept.Nothing()

    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        """Return the sentence on the first wrong metric; lengths in `stored` are in the input's unit."""
        for name in OF_DISTANCES:
            exact = getattr(true.metrics[0], name)
            if self.form.scale is not None and name in OF_LENGTHS:
                exact = float(exact) / self.form.scale
            if stored[name] != float(exact):
                return f"source `{source}`: stored {name} {stored[name]}, true {name} {exact}"
        return None

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "targets", "none: metrics alone"

    def query(self, url: str) -> str:
        return f"SELECT source, reached, max_distance, mean_distance FROM '{url}/{METRICS_FILE}'"


def output_of(form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
    """Return what the workflow's `output` asks for; `choose` finds the vertices that it names."""
    return _kind(spec.distances).chosen(form, spec, choose)


def output_kind(identity: dict[str, Any]) -> type[RowOutput]:
    """Return the kind that the run of this `identity` stores."""
    return next(kind for kind in map(_kind, OUTPUTS) if kind.wrote(identity))


def _kind(name: str) -> type[RowOutput]:
    kind: type[RowOutput] = code_of(OUTPUTS[name])
    return kind


def recorded_output(record: dict[str, Any]) -> RowOutput:
    """Return the output of a finished run, of which `record` is the content of run.json."""
    identity = record["identity"]
    form = DistanceFormat(**{f.name: identity[f.name] for f in fields(DistanceFormat) if f.name in identity})
    return output_kind(identity).recorded(form, identity, record.get("targets"))


def distance_fault(
    source: int | str, vertex: int | str, stored: float | None, true: float | None, scale: int | None
) -> str:
    """Return the sentence on a wrong distance between two ids; None stands for an unreached vertex."""
    first, second = ("unreached" if d is None else str(units.in_input_unit(d, scale)) for d in (stored, true))
    return f"source `{source}`, vertex `{vertex}`: stored distance {first}, true distance {second}"
