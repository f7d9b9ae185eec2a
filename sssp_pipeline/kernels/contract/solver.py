"""What a solver takes and returns: options, solutions and metrics. `host/solver.py` has the class `Solver`."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, overload

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.contract.kept import EveryVertex, KeptOfRow
from sssp_pipeline.kernels.contract.packed_words import PackedWords
from sssp_pipeline.kernels.contract.reached import Reached
from sssp_pipeline.kernels.contract.row_facts import RowFacts

#: Seconds that a search may take by default. Only a search that never ends takes longer.
DEADLINE_S = 86_400.0

#: A moment of a search: time since its start, busy workers, waiting entries, buckets from which work is taken, and the
#: bucket width.
TRACE = np.dtype(
    [
        ("time_us", np.float64),
        ("busy_workers", np.int64),
        ("words_queued", np.int64),
        ("head_buckets", np.int64),
        ("delta", np.float64),
    ]
)


@dataclass(frozen=True, eq=False)
class SolveOptions:
    """How to solve; the same for all sources of a call.

    Raises
    ------
    InputError
        `delta` is not a positive finite number, `cutoff` is negative or not a number, `trace_every_us` is out of
        range, `deadline_s` is not positive, predecessors are wanted of rows that are not kept whole, second costs are
        wanted of what holds no distances, or something is wanted that needs host memory in addition to `into`.
    """

    #: Bucket width in the weights' unit; None lets the solver pick it from the graph.
    delta: float | None = None
    #: Vertices beyond this distance count as unreachable. It is rounded to the weights' type. None means no limit.
    cutoff: float | None = None
    #: Whether to return predecessors too.
    predecessors: bool = False
    #: Microseconds between two recorded moments of a search; None records none. Recording makes a search slower.
    trace_every_us: int | None = None
    #: What is returned of each row of distances.
    kept: KeptOfRow = EveryVertex()  # noqa: RUF009 - frozen
    #: Seconds that a search may take, from one source or from those that a GPU searches together. A GPU gives up a
    #: search at the deadline. A CPU raises the error when the source is done.
    deadline_s: float = DEADLINE_S
    #: Seconds that a GPU may take to prepare a graph. A trial limits searches only.
    preparation_s: float = DEADLINE_S
    #: Whether a GPU finds facts about rows of distances (`Solution.facts`), so that a writer need not read the rows. If
    #: no predecessors are wanted, the GPU also packs the rows, as `RowFacts` says.
    row_facts: bool = False
    #: Whether `Solution.reached` may take the place of the rows. A solver that makes it costs what is reached, and
    #: others return rows. `reached_of` gives the same of both.
    reached_only: bool = False
    #: Contiguous array (S, columns) of the type of what is kept, on the current device, or in host memory for a solver
    #: on a CPU. What is kept of the rows of a call is written there, and is `Solution.distances`. None: it is in host
    #: memory of the solver.
    into: Any = None
    #: Whether metrics count all vertices. If not, a solver may leave out vertices that `kept` does not need. Then
    #: `reached`, `max_distance`, `mean_distance` and `teps` count the others.
    metrics: bool = True
    #: Second costs of the edges, (E,) each of a type of weights, to sum along the shortest path of each distance. What
    #: `kept` keeps are distances then.
    along: tuple[np.ndarray, ...] = ()

    def __post_init__(self) -> None:
        if self.delta is not None and not 0 < self.delta < math.inf:
            raise InputError(
                f"delta is {self.delta}", hint="delta is a positive number in the unit of the weights"
            )
        is_number = isinstance(self.cutoff, int | float | np.number)  # a caller from Python may give anything
        if self.cutoff is not None and not is_number:
            raise InputError(f"cutoff is {self.cutoff!r}", hint="cutoff is a number")
        if self.cutoff is not None and not self.cutoff >= 0:
            raise InputError(f"cutoff is {self.cutoff}", hint="cutoff is a distance of zero or more")
        if self.trace_every_us is not None and not 1 <= self.trace_every_us <= 1_000_000:
            raise InputError(
                f"trace_every_us is {self.trace_every_us}",
                hint="it is a time from 1 to 1,000,000 microseconds",
            )
        if not self.deadline_s > 0:
            raise InputError(
                f"deadline_s is {self.deadline_s}", hint="deadline_s is a number of seconds above 0"
            )
        if self.predecessors and not self.kept.is_whole_row:
            raise InputError(
                "predecessors cannot be given for some targets alone",
                hint="a path leads through other vertices too: leave out the targets, or the predecessors",
            )
        if self.along and not self.kept.takes_costs:
            raise InputError(
                "second costs can be summed for distances only",
                hint="leave out what is made of the distances",
            )
        if self.into is not None and self.needs_host_rows:
            raise InputError(
                "only distances can stay on the GPU: predecessors, second costs, facts about rows and numbers of "
                "vertices cannot",
                hint="leave out `into`, or the others",
            )

    @property
    def needs_host_rows(self) -> bool:
        """Whether something is wanted in addition to `kept` that is made of rows in host memory of the solver."""
        return bool(self.predecessors or self.row_facts or self.kept.is_of_parts or self.along)

    @property
    def no_trace(self) -> str | None:
        """The reason why a solver without traces cannot take these options; None if no trace is asked for."""
        if self.trace_every_us is None:
            return None
        return f"it records no trace, and trace_every_us is {self.trace_every_us}"

    @property
    def deadline_ns(self) -> int:
        """The deadline in nanoseconds, at most 2^63."""
        return int(min(1e9 * self.deadline_s, 2.0**63))


@dataclass(frozen=True)
class SourceMetrics:
    """Costs and results of solving one source."""

    #: The source, as an internal vertex number.
    source: int
    #: The name in the registry.
    solver: str
    #: Seconds spent on this source: device time on a GPU, an equal share of it if several sources run together; wall
    #: time on a CPU.
    solve_s: float
    #: The ADDS paper's work count: how often a vertex was taken from the worklist and its edges read.
    #: Dijkstra's algorithm processes every reached vertex once. With a hierarchy: the vertices on the climb and those
    #: of the sweep, which skips parts of the graph beyond the cutoff.
    vertices_processed: int
    #: How many edges were read. With a hierarchy: how many of its arcs.
    edges_relaxed: int
    #: Vertices with a finite distance, including the source.
    reached: int
    #: The largest finite distance.
    max_distance: float
    #: The mean of the finite distances, including the 0 of the source; the same bits from every solver (`mean.py`).
    mean_distance: float
    #: Edges of reached vertices per second.
    teps: float
    #: Bucket width at the start and at the end, and how often it changed; None and 0 without buckets.
    delta_first: float | None = None
    delta_last: float | None = None
    delta_changes: int = 0
    #: Rounds of the search, between which all threads wait for each other; None without such rounds.
    supersteps: int | None = None
    #: The part of `solve_s` that was spent on finding the edges to relax; None if that is not a separate step.
    filter_s: float | None = None
    #: Moments of the search in order, (M,) of `TRACE`; None if not asked for.
    trace: np.ndarray | None = field(default=None, compare=False)


class MetricsColumns(Sequence[SourceMetrics]):
    """The metrics of several sources, stored by column.

    An entry is made only on access, since that takes about as long as a GPU takes to solve a source.

    Parameters
    ----------
    columns
        For each field of `SourceMetrics` an array (n,), or one value for all sources. `source` is always an array.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns

    @classmethod
    def joined(cls, parts: Sequence[MetricsColumns]) -> MetricsColumns:
        """Return the metrics of all `parts` in one; there must be at least one part."""
        joined = {}
        for name, first in parts[0]._columns.items():
            values = [part._columns[name] for part in parts]
            shared = not any(isinstance(value, np.ndarray) or value != first for value in values)
            joined[name] = first if shared else np.concatenate([np.asarray(p.column(name)) for p in parts])
        return cls(joined)

    def column(self, name: str) -> np.ndarray | list[Any]:
        """Return a field of all sources (n,)."""
        values = self.column_or_value(name)
        return values if isinstance(values, np.ndarray) else [values] * len(self)

    def column_or_value(self, name: str) -> Any:
        """Return a field of all sources: an array (n,), or the value that all of them have."""
        return self._columns[name]

    def __len__(self) -> int:
        return len(self._columns["source"])

    @overload
    def __getitem__(self, key: int) -> SourceMetrics: ...
    @overload
    def __getitem__(self, key: slice) -> MetricsColumns: ...
    def __getitem__(self, key: int | slice) -> SourceMetrics | MetricsColumns:
        taken: dict[str, Any] = {
            name: values[key] if isinstance(values, np.ndarray) else values
            for name, values in self._columns.items()
        }
        if isinstance(key, slice):
            return MetricsColumns(taken)
        return SourceMetrics(**{k: v.item() if isinstance(v, np.generic) else v for k, v in taken.items()})


def metrics_column(metrics: Sequence[SourceMetrics], name: str) -> np.ndarray | list[Any]:
    """Return a field of all `metrics` (n,)."""
    return (
        metrics.column(name) if isinstance(metrics, MetricsColumns) else [getattr(m, name) for m in metrics]
    )


def joined_metrics(parts: Sequence[Sequence[SourceMetrics]]) -> Sequence[SourceMetrics]:
    """Return the metrics of all `parts` in one sequence: by column, if every part is by column."""
    by_column = [part for part in parts if isinstance(part, MetricsColumns)]
    if by_column and len(by_column) == len(parts):
        return MetricsColumns.joined(by_column)
    return [metrics for part in parts for metrics in part]


@dataclass(frozen=True, eq=False)
class Solution:
    """Distances from some sources."""

    #: What `SolveOptions.kept` keeps of each row, (S, V) of the weights' type for every vertex. Host memory, or
    #: `SolveOptions.into`, owned by the caller; a distance is `csr.unreached_distance(dtype)` where there is no path.
    distances: np.ndarray
    #: (S, V) uint32, `csr.NO_VERTEX` for sources and unreached vertices; None if not asked for.
    predecessors: np.ndarray | None
    #: One entry for each source, in the order of the sources.
    metrics: Sequence[SourceMetrics] = field(default_factory=list)
    #: Facts about `distances`, which may be packed; None if they were not asked for, or not found.
    facts: RowFacts | None = None
    #: What `SolveOptions.kept` keeps of each vertex over these sources, (W, V) uint64 (`over_sources.py`); or None.
    over_sources: np.ndarray | None = None
    #: What `SolveOptions.kept` sums along the paths from these sources, (P, W) uint64 (`path_sums_asked.py`); or None.
    #: A GPU packs it.
    path_words: np.ndarray | PackedWords | None = None
    #: What the sources reach, if it takes the place of the rows: then `distances` has no columns. Else None.
    reached: Reached | None = None
    #: For each of `SolveOptions.along`, what `kept` keeps of its sums (S, columns) in the type `cost_dtype`, with
    #: `csr.unreached_distance` where there is no path.
    along: tuple[np.ndarray, ...] = ()

    def parts(self, ends: Sequence[int]) -> Parts:
        """Yield the solution of the sources up to each of `ends`, from the end before, as views.

        What is kept over sources cannot be divided, so there is one part then.
        """
        assert (self.over_sources is None and self.path_words is None) or len(ends) == 1
        for first, end in pairwise((0, *ends)):
            predecessors = None if self.predecessors is None else self.predecessors[first:end]
            facts = None if self.facts is None else self.facts.part(slice(first, end))
            yield Solution(
                self.distances[first:end],
                predecessors,
                self.metrics[first:end],
                facts,
                self.over_sources,
                self.path_words,
                along=tuple(costs[first:end] for costs in self.along),
            )


#: Yields the solutions of some sources, one part after the other. If it is closed before, it frees what it holds.
Parts = Generator[Solution, None, None]
