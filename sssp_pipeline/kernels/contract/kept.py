"""What is kept of a row, as solvers see it: every distance, those to some vertices, or none.

A solver computes one row of V distances for each source. It reduces the row before the next source overwrites it: a CPU
solver calls `reduce`; a GPU solver calls the device form, from `gpu/common/rows/kept_on_device.py`. `kernels/answers/`
keeps answers that are made of a row. `pipeline/results/outputs/outputs.py` says how a run stores the values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.kernels.contract.over_sources import OverSources
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked, RowSums

#: Seconds of a core for a vertex or an edge when sums of vertices are made along the paths of a row, on New York. Sums
#: of edges take as long again.
_SUM_S = 12e-9
#: Seconds of an H200 for a vertex and for an edge when its rows are summed (benchmarks/results/betweenness_gpu.jsonl).
#: Squares and edges have a factor each. The factor of edges is a guess.
_GPU_SUM_VERTEX_S, _GPU_SUM_EDGE_S = 220e-12, 16e-12
_GPU_SQUARES, _GPU_EDGES = 1.35, 1.3


class KeptOfRow(ABC):
    """What is kept of a row of distances; the same for every source of a call."""

    #: Whether every distance is kept. Predecessors and the certificate need all of them.
    is_whole_row: ClassVar[bool] = False
    #: Whether distances are kept. Each may have second costs.
    takes_costs: ClassVar[bool] = False
    #: Seconds of a core to reduce a vertex of a row.
    reduce_s: ClassVar[float] = 0.0
    #: What is accumulated for each vertex over the sources of a part, in addition to the rows; None for nothing.
    over_sources: OverSources | None = None
    #: What is summed along the shortest paths over the sources of a part; None for nothing. The totals of a row are
    #: its last values, which `reduce` does not write.
    paths: PathSumsAsked | None = None

    @property
    def is_of_parts(self) -> bool:
        """Whether something is kept over the sources of a part, in addition to the rows."""
        return self.over_sources is not None or self.paths is not None

    @property
    def read_vertices(self) -> np.ndarray | None:
        """The only vertices (T,) of a row that `reduce` reads; None for all. Things kept over sources need all too."""
        return None

    @property
    def reads_rows(self) -> bool:
        """Whether distances are needed besides for metrics and for sums along paths."""
        return True

    @property
    def takes_lanes(self) -> bool:
        """Whether a reduction on a device can read rows by place (`LaneRows`)."""
        return False

    @property
    def reads_distances(self) -> bool:
        """Whether a reduction on a device reads rows, and not only the `Summary` of each."""
        return True

    @property
    def takes_counts(self) -> bool:
        """Whether `reduce_counts` does what `reduce` does: the values do not depend on which vertices are where."""
        return False

    @abstractmethod
    def n_columns(self, n_vertices: int) -> int:
        """Return how many values are kept of a row."""

    def dtype(self, weight_dtype: np.dtype) -> np.dtype:
        """Return the type of a kept value, which is the type of the weights for distances."""
        return weight_dtype

    def checked(self, n_vertices: int) -> KeptOfRow:
        """Return this for a graph of `n_vertices`; raise `InputError` if it names a vertex that is not there."""
        return self

    @abstractmethod
    def reduce(self, row: np.ndarray, into: np.ndarray) -> None:
        """Write what is kept of `row` (V,) to `into` (columns,), both in host memory."""

    def n_costs(self, n_vertices: int) -> int:
        """Return how many distances are kept of a row; each may have second costs."""
        return self.n_columns(n_vertices)

    def take_costs(self, kept: np.ndarray, costs: np.ndarray, into: np.ndarray) -> None:
        """Write the second costs of the vertices whose distances are kept to `into` (n_costs,).

        Parameters
        ----------
        kept
            What `reduce` wrote for the row.
        costs
            (V,) of any type.
        """
        self.reduce(costs, into)

    def reduce_counts(self, distances: np.ndarray, counts: np.ndarray, into: np.ndarray) -> None:
        """Write what is kept of S rows to `into` (S, columns). Only kinds with `takes_counts` have this method.

        Parameters
        ----------
        distances
            (D,), zero or more and rising.
        counts
            (D, S) uint32: how many vertices have each of them. A row has a distance if it has the ones before.
        """
        raise NotImplementedError

    def path_sums(self, graph: CsrGraph) -> RowSums | None:
        """Return what makes the sums of `paths` over the rows of a part; None if there are none."""
        return None

    def device_bytes(self, n_vertices: int, weight_dtype: np.dtype) -> int:
        """Return the device memory that the reduction on a device takes for each row, in addition to the row."""
        return 0

    def fixed_device_bytes(self, n_vertices: int) -> int:
        """Return the device memory that the reduction and `over_sources` take however many rows there are."""
        return 0

    def part_bytes(self, n_vertices: int, weight_dtype: np.dtype) -> int:
        """Return the memory of what is kept of each vertex over the sources of a part."""
        over = self.over_sources
        return 0 if over is None else 8 * over.n_words(weight_dtype) * n_vertices

    def stored_part_bytes(self, traits: GraphTraits) -> int:
        """Return the bytes that a part stores of all vertices and edges."""
        of_paths = 0 if self.paths is None else self.paths.word_bytes(traits)
        return self.part_bytes(traits.n_vertices, traits.weight_dtype) + of_paths

    def held_part_bytes(self, traits: GraphTraits, device: Literal["cpu", "gpu"]) -> int:
        """Return the host memory of a part while its rows are solved. Sums over a hierarchy are not counted."""
        if device == "gpu":
            return self.stored_part_bytes(traits)
        of_paths = 0 if self.paths is None or self.paths.on_hierarchy else self.paths.n_bytes(traits)
        return self.part_bytes(traits.n_vertices, traits.weight_dtype) + of_paths

    def sum_s(self, traits: GraphTraits, device: Literal["cpu", "gpu"]) -> float:
        """Return the seconds of a core, or of a GPU, to sum along the paths of a row; 0 if there are no such sums."""
        if self.paths is None or self.paths.on_hierarchy:
            return 0.0
        if device == "gpu":
            times = (_GPU_SQUARES if self.paths.squares else 1) * (_GPU_EDGES if self.paths.edges else 1)
            return times * (_GPU_SUM_VERTEX_S * traits.n_vertices + _GPU_SUM_EDGE_S * traits.n_edges)
        return _SUM_S * (1 + self.paths.edges) * (traits.n_vertices + traits.n_edges)


@dataclass(frozen=True)
class EveryVertex(KeptOfRow):
    """The whole row."""

    is_whole_row: ClassVar[bool] = True
    takes_costs: ClassVar[bool] = True

    def n_columns(self, n_vertices: int) -> int:
        return n_vertices

    def reduce(self, row: np.ndarray, into: np.ndarray) -> None:
        into[:] = row


@dataclass(frozen=True, eq=False)
class Targets(KeptOfRow):
    """The distances to some vertices."""

    takes_costs: ClassVar[bool] = True

    #: (T,) integers, in the order of the distances.
    vertices: np.ndarray

    @property
    def read_vertices(self) -> np.ndarray:
        return self.vertices

    def n_columns(self, n_vertices: int) -> int:
        return len(self.vertices)

    def checked(self, n_vertices: int) -> Targets:
        """Return the same vertices as (T,) uint32. It raises the error of `checked_vertices`."""
        return Targets(checked_vertices(self.vertices, n_vertices, "target"))

    def reduce(self, row: np.ndarray, into: np.ndarray) -> None:
        np.take(row, self.vertices, out=into)

    def device_bytes(self, n_vertices: int, weight_dtype: np.dtype) -> int:
        return len(self.vertices) * weight_dtype.itemsize

    def fixed_device_bytes(self, n_vertices: int) -> int:
        return self.vertices.size * np.dtype(np.uint32).itemsize


@dataclass(frozen=True)
class Nothing(KeptOfRow):
    """No distance: only the metrics of each source are returned."""

    @property
    def takes_counts(self) -> bool:
        return True

    def n_columns(self, n_vertices: int) -> int:
        return 0

    def reduce(self, row: np.ndarray, into: np.ndarray) -> None:
        pass

    def reduce_counts(self, distances: np.ndarray, counts: np.ndarray, into: np.ndarray) -> None:
        pass


def checked_vertices(vertices: np.ndarray, n_vertices: int, what: str) -> np.ndarray:
    """Return `vertices`, each of which is a `what`, as (n,) uint32.

    Raises
    ------
    InputError
        They are not a list of integers, or one of them is not a vertex.
    """
    vertices = np.asarray(vertices)
    if vertices.ndim != 1 or (len(vertices) and vertices.dtype.kind not in "iu"):
        raise InputError(
            f"{what}s are {vertices.ndim}-dimensional {vertices.dtype}, wanted a list of integers",
            hint="give the numbers of vertices, from 0",
        )
    outside = np.flatnonzero((vertices < 0) | (vertices >= n_vertices))
    if len(outside):
        raise InputError(
            f"{what} {vertices[outside[0]]} is not in the graph",
            hint=f"its {n_vertices} vertices are numbered from 0",
        )
    return vertices.astype(np.uint32)
