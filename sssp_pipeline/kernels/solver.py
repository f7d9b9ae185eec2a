"""What a solver is: the contract that every entry of the registry keeps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, overload

import numpy as np

from sssp_pipeline.csr import CsrGraph, GraphTraits
from sssp_pipeline.errors import InputError, did_you_mean
from sssp_pipeline.kernels.forecast import Forecast
from sssp_pipeline.kernels.kept import EveryVertex, Kept
from sssp_pipeline.kernels.options import Tunable, shown_value

#: What to do where a solver refuses a graph or options.
ANOTHER_SOLVER = "`solve.solver: auto` takes a solver that can; `sssp-pipeline solvers` lists all"

#: Seconds that a search may take: generous, so that only one that would never end passes it.
DEADLINE_S = 86_400.0

#: A moment of a search: time since its start, workers that have work, words that wait, buckets from which work is
#: taken, and the bucket width by then.
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
    """How to solve; the same for every source of a call.

    Attributes
    ----------
    delta
        Bucket width in the weights' unit; None lets the solver pick it from the graph.
    cutoff
        Only vertices at most this far are reached; the others count as unreachable. It is rounded to the weights'
        type. None means no limit.
    predecessors
        Whether to return predecessors too.
    trace_every_us
        Record a moment of each search every so many microseconds; None records none. It costs a search some time.
    kept
        What is returned of each row of distances.
    deadline_s
        Seconds that a search may take, from one source or from those that a GPU searches together. A GPU gives the
        search up then; a CPU raises the error when the source is done.

    Raises
    ------
    InputError
        `delta` is not a positive finite number, `cutoff` negative or not a number, `trace_every_us` out of range,
        `deadline_s` not positive, or predecessors are wanted of rows that are not kept whole.
    """

    delta: float | None = None
    cutoff: float | None = None
    predecessors: bool = False
    trace_every_us: int | None = None
    kept: Kept = EveryVertex()  # noqa: RUF009 - frozen
    deadline_s: float = DEADLINE_S

    def __post_init__(self) -> None:
        if self.delta is not None and not 0 < self.delta < math.inf:
            raise InputError(
                f"delta is {self.delta}", hint="delta is a positive number in the unit of the weights"
            )
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

    @property
    def no_trace(self) -> str | None:
        """Why a solver that records no trace cannot meet these options; None where no trace is asked for."""
        if self.trace_every_us is None:
            return None
        return f"it records no trace, and trace_every_us is {self.trace_every_us}"

    @property
    def deadline_ns(self) -> int:
        """The deadline as the kernels take it, in 64 bits."""
        return int(min(1e9 * self.deadline_s, 2.0**63))


@dataclass(frozen=True)
class SourceMetrics:
    """What solving one source took, and what came of it.

    Attributes
    ----------
    source
        The vertex (internal number) it is about.
    solver
        The name in the registry.
    solve_s
        Seconds spent on this source alone: device time on a GPU (an equal share of it where several sources run
        together), wall time on a CPU, of one thread or of all that share the source.
    vertices_processed
        The ADDS paper's work count: how often a vertex was taken from the worklist and its edges read.
        Dijkstra's algorithm processes every reached vertex once.
    edges_relaxed
        How many edges were looked at.
    reached
        Vertices with a finite distance, the source among them.
    max_distance
        The largest finite distance.
    mean_distance
        The mean of the finite distances, the source's own 0 among them; the same bits from every solver (`mean.py`).
    teps
        Edges of reached vertices per second.
    delta_first, delta_last, delta_changes
        Bucket width at the start and at the end, and how often it changed; None and 0 without buckets.
    supersteps
        Rounds that the whole search waits for, None where it has none.
    filter_s
        Of `solve_s`, the seconds spent on finding what is to be relaxed; None where that is not a step of its own.
    trace
        Moments of the search in order, (M,) of `TRACE`; None unless asked for.
    """

    source: int
    solver: str
    solve_s: float
    vertices_processed: int
    edges_relaxed: int
    reached: int
    max_distance: float
    mean_distance: float
    teps: float
    delta_first: float | None = None
    delta_last: float | None = None
    delta_changes: int = 0
    supersteps: int | None = None
    filter_s: float | None = None
    trace: np.ndarray | None = field(default=None, compare=False)


class MetricsColumns(Sequence[SourceMetrics]):
    """The metrics of some sources by column; an entry is made when it is asked for.

    To make an entry takes about as long as a GPU takes to solve a source.

    Parameters
    ----------
    columns
        For each field of `SourceMetrics` an array (n,), or the one value that all sources share; `source` is an array.
    """

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = columns

    @classmethod
    def joined(cls, parts: Sequence[MetricsColumns]) -> MetricsColumns:
        """Return the metrics of all `parts`, of which there is one at least."""
        joined = {}
        for name, first in parts[0]._columns.items():
            values = [part._columns[name] for part in parts]
            shared = not any(isinstance(value, np.ndarray) or value != first for value in values)
            joined[name] = first if shared else np.concatenate([np.asarray(p.column(name)) for p in parts])
        return cls(joined)

    def column(self, name: str) -> np.ndarray | list[Any]:
        """Return a field of all sources (n,)."""
        values = self._columns[name]
        return values if isinstance(values, np.ndarray) else [values] * len(self)

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


@dataclass(frozen=True, eq=False)
class Solution:
    """Distances from some sources.

    Attributes
    ----------
    distances
        What `SolveOptions.kept` keeps of each row, (S, V) of the weights' type for every vertex. Host memory, owned by
        the caller; a distance is `csr.unreached_distance(dtype)` where there is no path.
    predecessors
        (S, V) uint32, `csr.NO_VERTEX` for sources and unreached vertices; None unless asked for.
    metrics
        One entry a source, in the order of the sources.
    """

    distances: np.ndarray
    predecessors: np.ndarray | None
    metrics: Sequence[SourceMetrics] = field(default_factory=list)

    def part(self, first: int, end: int) -> Solution:
        """Return the solution of the sources `first` to `end`, as views."""
        predecessors = None if self.predecessors is None else self.predecessors[first:end]
        return Solution(self.distances[first:end], predecessors, self.metrics[first:end])


class Solver(Protocol):
    """An exact shortest-path solver, registered once, in `kernels/__init__.py`."""

    name: str
    #: "cpu" or "gpu".
    device: str
    #: One line for the command line and the docs.
    summary: str
    #: Whether its search takes negative weights; others get reweighted edges, if they are integers.
    takes_negative: bool
    #: What its constructor takes by keyword.
    tunables: tuple[Tunable, ...]

    def supports(self, graph: GraphTraits, options: SolveOptions) -> str | None:
        """Return None, or the reason why this solver cannot solve such a graph with these options.

        Whether there is a GPU is another question: this one may be asked where the solver will not run.
        """
        ...

    def forecast(self, traits: GraphTraits, n_sources: int) -> Forecast:
        """Return what a source of a call of `n_sources` is expected to take, as for weights above zero."""
        ...

    def solve(self, graph: CsrGraph, sources: np.ndarray, options: SolveOptions) -> Solution:
        """Return exact distances from each of `sources` (S,) uint32, in the type of the weights.

        Raises
        ------
        InputError
            A source or a target is not in the graph; a shortest path, to a target or not, is longer than the type
            holds: the message names source, vertex and wider type.
        """
        ...


def tuned(solver: Solver, given: Mapping[str, Any]) -> Solver:
    """Return `solver` with the options `given`; itself where there are none.

    Raises
    ------
    InputError
        It has no such option, or the option cannot have this value; or one contradicts another.
    """
    if not given:
        return solver
    tunables = {tunable.name: tunable for tunable in solver.tunables}
    for name, value in given.items():
        if name not in tunables:
            raise InputError(
                f"solver `{solver.name}` has no option `{name}`",
                hint=did_you_mean(name, sorted(tunables)) + "Options: " + ", ".join(sorted(tunables))
                if tunables
                else "it has no options",
            )
        if not tunables[name].takes(value):
            raise InputError(
                f"option `{name}` of solver `{solver.name}` is {shown_value(value)}",
                hint=f"it is {tunables[name].allowed}",
            )
    return type(solver)(**given)
