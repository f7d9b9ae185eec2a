"""The contract of an output: what a run stores of each row of distances.

An output knows what solvers keep of a row (`kernels/contract/kept.py`), its part of the identity of a run, how many
bytes it takes, how a batch is written and read, and how `verify` compares a stored row with a true one.
`workflow/registries.py` lists the kinds, each a class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.pipeline.results.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.run_files import batch_file
from sssp_pipeline.workflow.registries import OUTPUTS, code_of

if TYPE_CHECKING:
    import numpy as np

    from sssp_pipeline.base.vertex_amounts import VertexAmounts
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract import kept
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.storage.file_sums import StoredFile
    from sssp_pipeline.workflow.answers import Amounts
    from sssp_pipeline.workflow.models import Output
    from sssp_pipeline.workflow.vertices import Vertices

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

    @classmethod
    def verdict(cls, weight_dtype: str) -> str:
        """Return what is true if nothing was refuted: `distance is exact`, or which rounded sum it is."""
        if not weight_dtype.startswith("float"):
            return f"{cls.judged} is exact"
        which = "the least sum" if cls.judged == "distance" else "right"
        return f"{cls.judged} is {which} in {weight_dtype} arithmetic"

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
    def kept(self) -> kept.KeptOfRow:
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

    def for_solving(self, noted: Callable[[str], np.ndarray]) -> RowOutput:
        """Return the whole of what `in_tasks` shortened; `noted` reads what `note` returned, which has a digest."""
        del noted
        return self

    def for_verifying(
        self, stored: Sequence[StoredFile], ids: VertexIds, n_sources: int, noted: Callable[[str], np.ndarray]
    ) -> RowOutput:
        """Return the whole of what `in_tasks` shortened, from the files of the first `n_sources` sources.

        `noted` reads what `note` returned, if that stays.
        """
        del stored, ids, n_sources, noted
        return self

    @property
    def reads_facts(self) -> bool:
        """Whether `write` can use facts that a GPU finds, and packed rows (`kernels/contract/row_facts.py`)."""
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
        return f"SELECT * FROM {parquet_files(url, 'distances/*.parquet')} LIMIT 10"


class FileOutput(RowOutput):
    """A kind with a file for each batch. Without one, a batch has nothing but its metrics."""

    def batch_file(self, batch: int) -> str:
        """Return the path, below the run folder, of what is stored of a batch."""
        return batch_file(batch)

    @abstractmethod
    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        """Write what is stored of the rows of `sources` (S,) to `handle`."""

    @abstractmethod
    def read(
        self, stored: Sequence[StoredFile], places: Sequence[int], ids: VertexIds, dtype: np.dtype
    ) -> Iterator[StoredRow]:
        """Yield the sources at `places`, in order, and what is stored of their rows.

        Parameters
        ----------
        stored
            The file of a batch; or in the wide layout, the files that hold all sources of a run.
        dtype
            The type of the weights.
        """


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
