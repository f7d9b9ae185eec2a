"""CSR graph: the one graph type of pipeline and kernels, compressed sparse rows in host memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.levels import search_levels

#: The types that weights may have; the last three have 64 bits.
WEIGHT_DTYPES = tuple(np.dtype(name) for name in ("uint32", "int32", "float32", "uint64", "int64", "float64"))

#: The vertex number `2**32 - 1` is never used, so that `NO_VERTEX` can have this value.
MAX_VERTICES = 2**32 - 1
#: "No vertex" in predecessor arrays.
NO_VERTEX = np.uint32(2**32 - 1)


def unreached_distance(dtype: np.dtype) -> np.generic:
    """Return the distance that means "unreachable": +inf, or the largest value of an integer type."""
    dtype = np.dtype(dtype)
    return dtype.type(np.inf) if dtype.kind == "f" else dtype.type(np.iinfo(dtype).max)


def distance_limit(dtype: np.dtype, cutoff: float | None) -> np.generic:
    """Return the least distance of `dtype` above `cutoff`; a search reaches only vertices below it.

    It is `unreached_distance(dtype)` if `cutoff` is None or not below the largest distance that the type holds.
    """
    largest = largest_distance(dtype)
    if cutoff is None or cutoff >= largest:
        return unreached_distance(dtype)
    if dtype.kind != "f":
        return dtype.type(math.floor(cutoff) + 1)
    # The cutoff is rounded to the type like every weight. So a path of weight 0.3 is within a cutoff of 0.3.
    return np.nextafter(dtype.type(cutoff), dtype.type(np.inf))


def largest_distance(dtype: np.dtype) -> float:
    """Return the largest distance of `dtype` that does not mean "unreachable"."""
    return float(np.finfo(dtype).max) if dtype.kind == "f" else int(np.iinfo(dtype).max) - 1


def wider_dtype(dtype: np.dtype) -> np.dtype | None:
    """Return the 64-bit type of the same kind, or None if `dtype` has 64 bits."""
    dtype = np.dtype(dtype)
    return np.dtype(f"{dtype.kind}8") if dtype.itemsize < 8 else None


@dataclass(frozen=True)
class HierarchyTraits:
    """The hierarchy of a graph whose arcs are counted (`kernels/hierarchy/`)."""

    n_arcs: int
    n_triangles: int
    #: Whether the completion is there, and whether the weights of its arcs are.
    is_completed: bool = False
    is_customized: bool = False
    #: Whether what is there is in the memory of this process, so that nothing is read.
    is_loaded: bool = False
    #: The most arcs of a vertex; older records lack it.
    largest_front: int | None = None


@dataclass(frozen=True)
class GraphTraits:
    """The properties of a graph that are known before it is loaded.

    `min_weight`, `max_weight` and `mean_weight` are 0 for a graph without edges. `degree_skew` is the mean square of
    the out-degrees divided by the square of their mean. It is 1 if all degrees are equal. On R-MAT graphs it is above
    100.
    """

    n_vertices: int
    n_edges: int
    weight_dtype: np.dtype
    min_weight: float
    max_weight: float
    mean_weight: float
    degree_skew: float
    #: None if its arcs are not counted.
    hierarchy: HierarchyTraits | None = None
    #: About how many vertices separate half of the graph from the rest (`kernels/hierarchy/dividing/look.py`); None if
    #: nothing has looked.
    width: int | None = None
    #: The measured seconds of searches on a CPU, divided by the forecast seconds; 1 if nothing was measured.
    pace: float = 1.0
    #: The share of the vertices that searches from some sources of a run reach; 1 if nothing was measured, or if the
    #: pace tells.
    reach: float = 1.0
    #: About how many levels a breadth-first search has (`levels.search_levels`); None if that is not known.
    levels: float | None = None


@dataclass(frozen=True, eq=False)
class CsrGraph:
    """A directed weighted graph in compressed sparse rows. Its users share the arrays and do not change them."""

    #: (V+1,) int64; the edges of vertex `v` are `row_offsets[v]:row_offsets[v + 1]`.
    row_offsets: np.ndarray
    #: (E,) uint32; the target of each edge.
    col_indices: np.ndarray
    #: (E,) of one of `WEIGHT_DTYPES`; finite.
    weights: np.ndarray

    @property
    def n_vertices(self) -> int:
        return len(self.row_offsets) - 1

    @property
    def n_edges(self) -> int:
        return len(self.col_indices)

    @property
    def weight_dtype(self) -> np.dtype:
        return self.weights.dtype

    @property
    def graph_bytes(self) -> int:
        return self.row_offsets.nbytes + self.col_indices.nbytes + self.weights.nbytes

    @cached_property
    def traits(self) -> GraphTraits:
        has_edges = self.n_edges > 0
        low, high = (self.weights.min().item(), self.weights.max().item()) if has_edges else (0, 0)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(self.weights.mean(dtype=np.float64)) if has_edges else 0.0
            if not np.isfinite(mean):  # the sum overflows float64, although the mean does not
                mean = min(max(float((self.weights / self.n_edges).sum()), low), high)
        return GraphTraits(
            n_vertices=self.n_vertices,
            n_edges=self.n_edges,
            weight_dtype=self.weight_dtype,
            min_weight=low,
            max_weight=high,
            mean_weight=mean,
            degree_skew=self._degree_skew(),
        )

    @cached_property
    def levels(self) -> float | None:
        """`GraphTraits.levels`. The traits of a graph in memory lack it, because only forecasts for a GPU need it."""
        return search_levels(self.row_offsets, self.col_indices)

    def _degree_skew(self) -> float:
        if self.n_edges == 0:
            return 1.0
        degrees = np.diff(self.row_offsets)
        squares = float(np.einsum("i,i", degrees, degrees, dtype=np.float64))
        return squares / self.n_vertices / (self.n_edges / self.n_vertices) ** 2

    def check(self) -> CsrGraph:
        """Return the graph itself after checking every invariant.

        Raises
        ------
        InputError
            An array has the wrong type or length, offsets decrease, a target is not a vertex, or a weight is not
            finite. The message names the first wrong value.
        """
        if self.row_offsets.dtype != np.int64 or self.col_indices.dtype != np.uint32:
            raise InputError(
                f"CSR arrays have types {self.row_offsets.dtype} and {self.col_indices.dtype}, "
                "wanted int64 row_offsets and uint32 col_indices",
                hint="convert them with `astype`",
            )
        if self.weights.dtype not in WEIGHT_DTYPES:
            raise InputError(
                f"weights have type {self.weights.dtype}",
                hint="weights are one of " + ", ".join(d.name for d in WEIGHT_DTYPES),
            )
        if not 0 <= self.n_vertices <= MAX_VERTICES:
            raise InputError(
                f"row_offsets has {len(self.row_offsets)} entries, wanted 1 to 2^32",
                hint="give one more entry than there are vertices, of which there are fewer than 2^32",
            )
        if len(self.weights) != self.n_edges:
            raise InputError(
                f"{self.n_edges} col_indices but {len(self.weights)} weights",
                hint="give every edge one weight",
            )
        if self.row_offsets[0] != 0 or self.row_offsets[-1] != self.n_edges:
            raise InputError(
                f"row_offsets run from {self.row_offsets[0]} to {self.row_offsets[-1]}, wanted 0 to {self.n_edges}",
                hint="begin with 0 and end with the number of edges",
            )
        falls = np.flatnonzero(self.row_offsets[1:] < self.row_offsets[:-1])
        if len(falls):
            v = int(falls[0])
            raise InputError(
                f"row_offsets fall at vertex {v}: {self.row_offsets[v]} then {self.row_offsets[v + 1]}",
                hint="give cumulative counts of edges, which never fall",
            )
        if self.n_edges and int(self.col_indices.max()) >= self.n_vertices:
            e = int(np.argmax(self.col_indices >= self.n_vertices))
            raise InputError(
                f"edge {e} leads to vertex {self.col_indices[e]}, but there are {self.n_vertices} vertices",
                hint="number the vertices from 0",
            )
        if self.weights.dtype.kind == "f" and not np.isfinite(self.weights).all():
            e = int(np.argmin(np.isfinite(self.weights)))
            raise InputError(
                f"edge {e} has weight {self.weights[e]}", hint="leave out edges without a finite weight"
            )
        return self


def csr_from_edges(src: np.ndarray, dst: np.ndarray, weights: np.ndarray, n_vertices: int) -> CsrGraph:
    """Return the graph of edges in memory, with rows sorted by target and then weight; parallel edges are kept.

    This needs several times the memory of the graph. `pipeline.ingest` needs less.

    Parameters
    ----------
    src, dst
        (E,) integers below `n_vertices`.
    weights
        (E,) of one of `WEIGHT_DTYPES`.

    Raises
    ------
    InputError
        As `CsrGraph.check`; or an end of an edge is not a vertex.
    """
    for ends, verb in ((src, "start at"), (dst, "lead to")):
        if len(ends) and not 0 <= int(ends.min()) <= int(ends.max()) < n_vertices:
            raise InputError(
                f"edges {verb} vertices {ends.min()} to {ends.max()}, but there are {n_vertices} vertices",
                hint="number the vertices from 0",
            )
    order = np.lexsort((weights, dst, src))
    row_offsets = np.zeros(n_vertices + 1, np.int64)
    np.cumsum(np.bincount(src, minlength=n_vertices), out=row_offsets[1:])
    return CsrGraph(row_offsets, dst[order].astype(np.uint32), weights[order]).check()
