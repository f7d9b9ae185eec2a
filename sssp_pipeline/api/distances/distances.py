"""Distances: the result of `solve`, in the form that its user works with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sssp_pipeline.api.calls.argument_names import naming, of_solve
from sssp_pipeline.api.calls.calls import check_memory
from sssp_pipeline.api.distances.distance_tables import DistanceTable
from sssp_pipeline.api.distances.paths import Path, PathTree, without_coordinates
from sssp_pipeline.api.distances.reached import WITHOUT_ROWS, ReachedRows
from sssp_pipeline.api.graphs.graphs import NamedGraph
from sssp_pipeline.api.graphs.ids import ObjectIds, vertices_of
from sssp_pipeline.base.csr import unreached_distance
from sssp_pipeline.base.errors import InputError, did_you_mean
from sssp_pipeline.base.vertex_ids import MAX_LISTED, listed
from sssp_pipeline.kernels.contract.solver import Solution
from sssp_pipeline.kernels.gpu.common.cuda.cupy_setup import cupy_module
from sssp_pipeline.pipeline.graph_store.units import LARGEST, distances_in_input_unit
from sssp_pipeline.pipeline.planning.machine import cpu_name, gpu_name
from sssp_pipeline.pipeline.results.exports.areas.isochrones import BUFFER_M, Isochrones
from sssp_pipeline.pipeline.results.folder.batch_metrics import Place, metrics_table

if TYPE_CHECKING:
    import pandas
    import polars
    import scipy.sparse
    import xarray

#: Columns of the metrics of a run that mean nothing for a call.
_OF_RUNS = ("batch", "worker", "attempts", "solved_at")
#: What to do where paths are asked for and predecessors were not.
NO_PREDECESSORS = "no predecessors were asked for"


class Distances:
    """Distances from S sources to V vertices, or to T targets, in host memory or in the memory of a GPU.

    After a call with a cutoff and without targets, host memory holds only the distances to reached vertices, unless
    most vertices are reached.

    Attributes
    ----------
    unreached
        The value that stands for "unreached" in `numpy()`: infinity, or the largest value of an integer type.

    Notes
    -----
    `solve` makes it. Tables have a row for each source and vertex: `source`, `vertex`, `distance`, and `predecessor` if
    predecessors were asked for. There, unreached vertices have NULL. pyarrow, DuckDB and others read the object itself
    through `__arrow_c_stream__`. `np.asarray` returns the array of `numpy()`, and PyTorch and others read it through
    `__dlpack__`.

    Distances that stay on the GPU (`on_device` of `solve`) are copied to host memory when a form other than `cupy()`
    is first asked for. Through `__dlpack__`, others read the array of `cupy()`.

    Where only reached vertices are held, `to_scipy`, `to_arrow(reached_only=True)` and streams of Arrow make no whole
    rows, `path` needs none, and `isochrones` makes a few at a time. `numpy`, `cupy`, `to_xarray` and what reads the
    array make all rows when one of them is first called, and this object keeps them.
    """

    def __init__(
        self,
        named: NamedGraph,
        sources: np.ndarray,
        targets: np.ndarray | None,
        solution: Solution,
        trees: Sequence[PathTree] = (),
        cutoff: float | None = None,
        direction: Literal["forward", "backward"] = "forward",
    ) -> None:
        #: Whether the searches began at the sources, or at the targets.
        self.direction = direction
        self._sources, self._targets, self._ids, self._scale = sources, targets, named.ids, named.scale
        self._solution, self._trees, self._cutoff = solution, trees, cutoff
        stored, scale, rows = named.stored, named.scale, solution.distances
        self._graph = None if stored is None else lambda: stored
        self._unit = None if stored is None else stored.manifest.weights.unit
        if isinstance(rows, ReachedRows):
            made: Any = rows if scale is None else rows.in_input_unit(scale)
        else:
            made = rows if scale is None else distances_in_input_unit(rows, scale)
        #: An array of NumPy or CuPy or `ReachedRows`, (S, V) or (S, T).
        self._made = made
        self.unreached = unreached_distance(self._made.dtype)
        sums = zip(named.along, solution.along, strict=True) if solution.along else ()
        self._along = {each.name: each.in_unit(of_each) for each, of_each in sums}

    def __getstate__(self) -> dict[str, Any]:
        # A graph does not go to another process, nor does memory of a GPU.
        state = self.__dict__ | {"_graph": None}
        if isinstance(self._made, ReachedRows):
            state.pop("_rows", None)
        elif not isinstance(self._made, np.ndarray):
            state |= {"_made": self._rows, "_solution": replace(self._solution, distances=self._rows)}
        return state

    def __repr__(self) -> str:
        n_sources, n_vertices = self._made.shape
        return f"<Distances: {n_sources} sources, {n_vertices} vertices, {self._made.dtype}>"

    @cached_property
    def _rows(self) -> np.ndarray:
        """The distances in host memory, in whole rows."""
        return self._made if isinstance(self._made, np.ndarray) else self._made.get()

    @property
    def _array(self) -> Any:
        """The distances as an array of NumPy or CuPy."""
        return self._rows if isinstance(self._made, ReachedRows) else self._made

    @property
    def _by_row(self) -> np.ndarray | ReachedRows:
        """The distances in host memory, for reading one row after the other."""
        return self._made if isinstance(self._made, ReachedRows) else self._rows

    def _reached(self) -> tuple[ReachedRows, Any]:
        """Return what is reached: the distances, and the predecessors if they were asked for."""
        before = self._solution.predecessors
        return (
            (self._made, before)
            if isinstance(self._made, ReachedRows)
            else ReachedRows.of(self._rows, before)
        )

    @cached_property
    def sources(self) -> pa.Array:
        """The ids of the sources, (S,), in the order of the rows."""
        return self._ids.originals(self._sources)

    @cached_property
    def vertices(self) -> pa.Array:
        """The ids of the vertices, (V,) or (T,), in the order of the columns."""
        return self._ids.column() if self._targets is None else self._ids.originals(self._targets)

    @cached_property
    def metrics(self) -> pa.Table:
        """A row for each source: solver, seconds, work, reach, largest and mean distance; `docs/guides/results.md`.

        Raises
        ------
        InputError
            `solve` was called with `metrics=False`, or with targets and without `metrics=True`.
        """
        metrics = self._solution.metrics
        if len(metrics) < len(self._sources):
            raise InputError("these distances have no metrics", hint="call `solve` with `metrics=True`")
        from sssp_pipeline.kernels import SOLVERS

        on_gpu = bool(metrics) and SOLVERS.device_of(metrics[0].solver) == "gpu"
        device = (gpu_name() if on_gpu else None) or cpu_name()
        table = metrics_table(metrics, self.sources, 0, Place("", device, 1), self._scale)
        return table.drop_columns(list(_OF_RUNS))

    def numpy(self, unreached: float | None = None) -> np.ndarray:
        """Return the distances (S, V) or (S, T) in the type of the weights.

        The array belongs to this object. It is made by the first call if the distances stay on the GPU, or if only
        reached vertices are held. Distances of a graph store with a scale are float64.

        Parameters
        ----------
        unreached
            The value for unreached vertices, such as `np.inf` or `np.nan`. The array is then a copy, and integers
            become float64. None keeps the type, in which `self.unreached` stands for "unreached": of an integer type it
            is the largest value, which no mean or maximum should count.

        Raises
        ------
        InputError
            With `unreached`, a distance is an integer beyond 2^53, which float64 may not hold exactly; or only reached
            vertices are held, and whole rows do not fit the memory.
        """
        if unreached is None:
            return self._rows
        is_missing = self._rows == self.unreached
        reached = np.where(is_missing, 0, self._rows)
        if reached.dtype.kind != "f":
            low, high = int(reached.min(initial=0)), int(reached.max(initial=0))
            if max(-low, high) > LARGEST:
                raise InputError(
                    f"a distance is {high if high > LARGEST else low}, which float64 may not hold exactly",
                    hint='use `.numpy()`, whose integers are exact, or `dtype="float64"` to round weights',
                )
            reached = reached.astype(np.float64)
        reached[is_missing] = unreached
        return reached

    def along(self, name: str) -> np.ndarray:
        """Return the sums (S, V) or (S, T) of another weight along the shortest paths; `along` of `solve` named it.

        Sums of integers are uint64 or int64, and others float64. Where there is no path, they are the largest value of
        their type, or infinity. The array belongs to this object.

        Raises
        ------
        InputError
            The call did not name this weight.
        """
        if name not in self._along:
            known = list(self._along)
            hint = 'give `along="…"` to `solve`'
            if known:
                hint = f"{did_you_mean(name, known)}It has: {', '.join(known)}"
            raise InputError(f"`{name}` was not summed along the paths", hint=hint)
        return self._along[name]

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Return the array of `numpy()` for `np.asarray` and other functions of NumPy."""
        return np.array(self._rows, dtype, copy=copy)

    def cupy(self) -> Any:
        """Return the distances as an array of CuPy. If they are not on the GPU already, they are copied there.

        The copy is in the memory of the current GPU.

        Raises
        ------
        SsspError
            There is no usable GPU, or CuPy is missing.
        """
        return cupy_module().asarray(self._array)

    def __dlpack__(self, **options: Any) -> Any:
        """Return the array of `numpy()`, or of `cupy()` if the distances stay on the GPU, for `from_dlpack`.

        The other library does not copy it.
        """
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()

    def to_arrow(self, *, reached_only: bool = False) -> pa.Table:
        """Return the distances as a table of Arrow with S·V rows, sorted as `sources` and `vertices`.

        Parameters
        ----------
        reached_only
            Whether unreached vertices have no rows.

        Raises
        ------
        InputError
            Only reached vertices are held, and rows for all others do not fit the memory.
        """
        if reached_only:
            return self._table.of_reached(*self._reached()).read_all()
        if isinstance(self._made, ReachedRows):
            check_memory(*self._made.shape, self._table.row_bytes, WITHOUT_ROWS)
        return pa.table(self)

    def to_pandas(self, *, reached_only: bool = False) -> pandas.DataFrame:
        """Return the table of `to_arrow` as a data frame of pandas, with Arrow's types: integers stay integers."""
        import pandas as pd

        return self.to_arrow(reached_only=reached_only).to_pandas(types_mapper=pd.ArrowDtype)

    def to_polars(self, *, reached_only: bool = False) -> polars.DataFrame:
        """Return the table of `to_arrow` as a data frame of Polars."""
        import polars as pl

        return pl.DataFrame(self.to_arrow(reached_only=reached_only))

    def to_xarray(self) -> xarray.DataArray:
        """Return the distances as an array of xarray with the coordinates `source` and `vertex`, which are ids.

        Unreached vertices have NaN. Integers therefore become float64.

        Raises
        ------
        InputError
            A distance is an integer beyond 2^53, which float64 may not hold exactly.
        """
        import xarray as xr

        coordinates = {"source": self._labels(self._sources), "vertex": self._labels(self._columns)}
        return xr.DataArray(self.numpy(np.nan), coordinates, ("source", "vertex"), "distance")

    def to_scipy(self) -> scipy.sparse.csr_array:
        """Return the distances of reached pairs as a sparse array (S, V) or (S, T); distances of 0 are stored too."""
        from scipy.sparse import csr_array, get_index_dtype

        held, _ = self._reached()
        index = get_index_dtype(maxval=max(len(held.values), held.n_columns))
        values = held.values.copy() if held is self._made else held.values
        return csr_array((values, held.columns.astype(index), held.offsets.astype(index)), shape=held.shape)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows of `to_arrow` as a stream of Arrow, which holds one source at a time."""
        reader = self._table.of_all(self._by_row, self._solution.predecessors)
        return reader.__arrow_c_stream__(requested_schema)

    @cached_property
    def _table(self) -> DistanceTable:
        all_ids = None
        if self._solution.predecessors is not None:
            all_ids = self.vertices if self._targets is None else self._ids.column()
        return DistanceTable(self.sources, self.vertices, all_ids, self._made.dtype, self._along)

    @property
    def _columns(self) -> np.ndarray:
        """The vertices (V,) or (T,) of the columns."""
        return np.arange(self._made.shape[1]) if self._targets is None else self._targets

    def _labels(self, vertices: np.ndarray) -> np.ndarray:
        if isinstance(self._ids, ObjectIds):
            return self._ids.labels(vertices)
        return self._ids.originals(vertices).to_numpy(zero_copy_only=False)

    @naming(of_solve)
    def path(self, source: Any, target: Any) -> Path:
        """Return the ids of the vertices of a shortest path, both ends included; empty if `target` is unreached.

        It is a list with the attribute `length`. If the graph is a graph store with coordinates, `.geojson()` draws it.

        Raises
        ------
        InputError
            The call was without `predecessors=True`; or `source` is not one of its sources; or `target` is not a
            vertex, or not one of the targets if the call had some.
        """
        if self._solution.predecessors is None:
            raise InputError(
                f"a path from `{source}` is asked for, and {NO_PREDECESSORS}",
                hint="solve with `predecessors=True`",
            )
        first, last = (
            int(vertices_of([end], self._ids, what)[0])
            for end, what in ((source, "source"), (target, "target"))
        )
        places = np.flatnonzero(self._sources == first)
        if not len(places):
            raise self._not_solved("source", source, self._sources)
        if self._targets is not None and last not in self._targets:
            raise self._not_solved("target", target, self._targets)
        place = places[0]
        vertices = self._tree(place).path(first, last)
        if not vertices:
            return Path()
        column = last if self._targets is None else np.flatnonzero(self._targets == last)[0]
        held = self._by_row
        length = held.value(place, column) if isinstance(held, ReachedRows) else held[place, column]
        return Path(map(self._ids.original, vertices), length.item(), self._unit, self._graph)

    def _tree(self, place: int) -> PathTree:
        """Return the paths from the source at `place`."""
        if self._trees:
            return self._trees[place]
        before: Any = self._solution.predecessors
        return (
            PathTree(*before.row(place)) if isinstance(before, ReachedRows) else PathTree(None, before[place])
        )

    @naming(of_solve)
    def isochrones(
        self, limits: Sequence[float], *, buffer_m: float = BUFFER_M, coordinates: str = "auto"
    ) -> pa.Table:
        """Return the area that is reached within each limit, for each source, as `StoredRun.isochrones` does.

        Raises
        ------
        InputError
            The call had targets; or the graph is not in a graph store with coordinates; or as `StoredRun.isochrones`.
        """
        if self._targets is not None:
            raise InputError(
                "isochrones need the distances to every vertex, and targets were asked for",
                hint="solve without `targets`",
            )
        if self._graph is None:
            raise without_coordinates()
        solved = self._by_row if self._scale is None else self._solution.distances
        rows = partial(zip, self.sources.to_pylist(), solved, strict=True)
        return Isochrones(
            self._graph(),
            rows,
            self.sources,
            limits,
            self._cutoff,
            buffer_m=buffer_m,
            coordinates=coordinates,
        ).table()

    def _not_solved(self, what: str, vertex_id: Any, solved: np.ndarray) -> InputError:
        some = [self._ids.original(vertex) for vertex in solved[:MAX_LISTED].tolist()]
        return InputError(
            f"{what} `{vertex_id}` was not solved", hint=f"the {what}s are {listed(some, len(solved))}"
        )
