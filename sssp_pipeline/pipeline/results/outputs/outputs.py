"""The contract of an output: what a run stores of each row of distances.

An output knows what solvers keep of a row (`kernels/contract/kept.py`), its part of the identity of a run, how many
bytes it takes, how a batch is written and read, and how `verify` compares a stored row with a true one. Its `layout`
(`layouts/`) arranges distances in files; `stored.py` reads them for all others.
`workflow/registries.py` lists the kinds, each a class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.base.shown import parquet_files
from sssp_pipeline.pipeline.results.folder import run_files
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat
from sssp_pipeline.pipeline.results.layouts import LAYOUTS
from sssp_pipeline.pipeline.results.layouts.layout import DistanceLayout, Files, StoredRows
from sssp_pipeline.workflow.registries import OUTPUTS, code_of

if TYPE_CHECKING:
    from sssp_pipeline.base.csr import CsrGraph, GraphTraits
    from sssp_pipeline.base.vertex_amounts import VertexAmounts
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.answers.trip_sums import Trips
    from sssp_pipeline.kernels.contract import kept
    from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
    from sssp_pipeline.pipeline.results.outputs.vertex_table import PerVertex
    from sssp_pipeline.workflow.flows import Flows
    from sssp_pipeline.workflow.output import Output
    from sssp_pipeline.workflow.pairs import Pairs
    from sssp_pipeline.workflow.reduce import Amounts
    from sssp_pipeline.workflow.vertices import Vertices


class ChosenPairs(NamedTuple):
    """The pairs of a run, in the order of their file."""

    #: The sources and the targets, (n,) uint32 each: vertices, or places among the points of an end that has points.
    ends: tuple[np.ndarray, np.ndarray]
    #: The vertices of both, (n,) uint32 each.
    vertices: tuple[np.ndarray, np.ndarray]


class Chooser(Protocol):
    """Finds on the graph of a run what `output` of its workflow names."""

    @property
    def traits(self) -> GraphTraits:
        """The properties of the graph."""
        ...

    @property
    def is_symmetric(self) -> bool:
        """Whether every edge of the graph has its reverse, with the same weight."""
        ...

    @property
    def is_sample(self) -> bool:
        """Whether the sources are drawn from all vertices."""
        ...

    @property
    def ids(self) -> VertexIds:
        """The ids of the graph."""
        ...

    @property
    def load(self) -> Callable[[], CsrGraph]:
        """Returns the graph."""
        ...

    def vertices(self, spec: Vertices, key: str) -> np.ndarray:
        """Return (n,) uint32 the vertices that `spec` names; `key` is its key in the workflow."""
        ...

    def amounts(self, spec: Amounts, key: str) -> VertexAmounts:
        """Return the amounts of the vertices that `spec` names; `key` is its key in the workflow."""
        ...

    def pairs(self, spec: Pairs) -> ChosenPairs:
        """Return the pairs that `spec` names."""
        ...

    def trips(self, spec: Flows) -> Trips:
        """Return the trips that `spec` names."""
        ...


@dataclass(frozen=True, eq=False)
class RowOutput(ABC):
    """What a run stores of each row of distances."""

    #: How distances are written.
    form: DistanceFormat
    #: Stands for `words` in the identity of the run; None if there are none.
    digest: str | None = None
    #: The input of the output, (n,) uint32: a list of vertices or amounts. It is too long for each task, so tasks carry
    #: the output without it, and workers read it from the run folder.
    words: np.ndarray | None = None

    #: Names the kind, in `registries.OUTPUTS` and in the identity of runs.
    name: ClassVar[str]
    #: Whether each batch has a file. If not, a batch has nothing but its metrics.
    has_files: ClassVar[bool] = True
    #: Whether each source has a distance to every vertex, which the certificate needs.
    has_whole_rows: ClassVar[bool] = False
    #: Whether each source has a distance to every vertex that it reaches.
    has_all_reached: ClassVar[bool] = False
    #: Whether all sources have distances to the same vertices.
    is_matrix: ClassVar[bool] = False
    #: What the run holds if it holds no distances, and what to do then; None if it holds distances.
    without_distances: ClassVar[tuple[str, str] | None] = None
    #: Whether each batch has a table of answers (`table_output.py`).
    has_answers: ClassVar[bool] = False
    #: Whether the numbers over all sources are what the user asked for.
    shows_overall: ClassVar[bool] = False
    #: What a verdict of `verify` is about.
    judged: ClassVar[str] = "distance"
    #: Whether the files hold all sources of the run together, in the order of its input.
    is_in_input_order: ClassVar[bool] = False
    #: Whether numbers over all sources mean something: each source is one of the user.
    counts_sources: ClassVar[bool] = True
    #: Whether `verify` needs `words`, so that the run folder keeps them when the run is finished.
    input_stays: ClassVar[bool] = False

    def verdict(self, weight_dtype: str) -> str:
        """Return what is true if nothing was refuted: `distance is exact`, or which rounded sum it is."""
        if not weight_dtype.startswith("float"):
            return f"{self.judged} is exact"
        which = "the least sum" if self.judged == "distance" else "right"
        return f"{self.judged} is {which} in {weight_dtype} arithmetic"

    @property
    def layout(self) -> DistanceLayout:
        """How the files are arranged."""
        return LAYOUTS[self.form.layout](self.form, None)

    @property
    def per_vertex(self) -> PerVertex | None:
        """The numbers of each vertex over all sources; None if the run has no `vertices.parquet`."""
        return None

    @property
    def paths(self) -> PathSumsAsked | None:
        """What is summed along shortest paths; None for nothing."""
        return None

    @property
    def ranked(self) -> dict[str, tuple[str, ...]]:
        """The tables whose largest rows the report shows: the column of the values, and other columns if they exist."""
        return {}

    @property
    def summed_columns(self) -> tuple[str, ...]:
        """The columns of the files whose sums over all sources `run.json` has."""
        return ()

    @property
    def histogram_columns(self) -> dict[str, tuple[float, float]]:
        """The columns of the files that count the vertices between two distances, with these distances."""
        return {}

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
        """Return its part of the identity of a run, without the part of `layout`."""
        return {"targets": None, "output": self.name}

    @property
    def n_targets(self) -> int | None:
        """What run.json has as "targets"."""
        return None

    @property
    def follows_reversed(self) -> bool:
        """Whether searches follow the edges backward."""
        return False

    @property
    def searched(self) -> str:
        """What a row of `metrics.parquet` is of, and the column with its id: "source" or "target"."""
        return "source"

    @property
    def searches(self) -> np.ndarray | None:
        """The vertices (S,) uint32 to search from, if this output names them in place of `sources` of the workflow."""
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

    def value_bytes(self, n_sources: int, row_bytes: int, weight_dtype: np.dtype) -> int:
        """Return the most bytes of the stored values of `n_sources`, of `row_bytes` each in memory."""
        del weight_dtype
        return n_sources * row_bytes

    def id_bytes(self, n_vertices: int, n_sources: int, n_files: int) -> int:
        """Return about how many bytes the ids of vertices take in storage."""
        del n_vertices, n_sources, n_files
        return 0

    def held_bytes(self, traits: GraphTraits) -> int:
        """Return the host memory of `words` and of what is made of them and the graph, which each worker holds once."""
        del traits
        return 0

    # ---- on workers ----

    def without_input(self) -> Self:
        """Return this output for tasks."""
        return replace(self, words=None)

    def for_solving(self, read_input: Callable[[str], np.ndarray]) -> Self:
        """Return this output with its input. `read_input` takes the digest and reads the input from the run folder."""
        return self if self.digest is None else replace(self, words=read_input(self.digest))

    def for_verifying(self, stored: Files, ids: VertexIds, read_input: Callable[[str], np.ndarray]) -> Self:
        """Return this output with its input, from `read_input` if the input stays after the run.

        If not, `stored` has what `verify` needs: the files of the first batch.
        """
        del stored, ids
        return self.for_solving(read_input)

    def batch_file(self, batch: int) -> str | None:
        """Return the path, below the run folder, of what is stored of a batch; None if a batch has no file."""
        return run_files.batch_file(batch) if self.has_files else None

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        """Write what is stored of the rows of `sources` (S,) to `handle`, if a batch has a file."""
        raise NotImplementedError

    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        """Yield the sources at `places`, in order, and what is stored of their rows, if a batch has a file.

        Parameters
        ----------
        stored
            The files of a batch, as `RunBatches.stored_batch` returns them.
        dtype
            The type of the weights.
        """
        raise NotImplementedError

    @property
    def reads_facts(self) -> bool:
        """Whether `write` can use facts that a GPU finds, and packed rows (`kernels/contract/row_facts.py`)."""
        return False

    @property
    def reached_only(self) -> bool:
        """Whether `write` needs only what is reached, and takes `Solution.reached`."""
        return False

    # ---- when all batches are committed ----

    def finish(  # noqa: B027
        self, folder: RunFolder, batches: Sequence[np.ndarray], stored: StoredGraph, progress: Progress
    ) -> None:
        """Write the files that need all `batches` of sources; `stored` is the graph.

        Raises
        ------
        InputError
            What a batch left is damaged, or a file cannot be written.
        UnsolvableError
            A sum does not fit its type.
        """

    # ---- verdicts ----

    def fault_of_sums(self, folder: RunFolder, n_batches: int, n_vertices: int, n_sources: int) -> str | None:
        """Return a sentence on a table that is not the sum over the sources of the run, or None."""
        del folder, n_batches, n_vertices, n_sources
        return None

    @abstractmethod
    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        """Return a sentence on the first stored value that differs from `true`, or None.

        Parameters
        ----------
        source
            Its id.
        stored
            As `read` yields it.
        true
            The solution for this one source, with what `kept` keeps.
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


def output_of(form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
    """Return what the workflow's `output` asks for; `choose` finds the vertices that it names."""
    return _kind(spec.distances).chosen(form, spec, choose)


def _kind(name: str) -> type[RowOutput]:
    kind: type[RowOutput] = code_of(OUTPUTS[name].stores)
    return kind


def recorded_output(record: dict[str, Any]) -> RowOutput:
    """Return the output of a finished run; `record` is the content of its run.json."""
    identity = record["identity"]
    form = DistanceFormat.recorded(identity)
    kind = next(kind for kind in map(_kind, OUTPUTS) if kind.wrote(identity))
    return kind.recorded(form, identity, record.get("targets"))
