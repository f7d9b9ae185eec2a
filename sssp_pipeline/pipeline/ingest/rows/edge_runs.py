"""Edge runs: the edges of each chunk, grouped by source, from which the edges of any range of sources are read.

This is an external sort: each chunk is grouped where it was parsed, and the rows of a range of vertices are made from
the groups that all runs have in this range. Memory holds where the groups of each run begin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import carray, njit
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.kernels.host.numba_tools import pointer_to, read_file
from sssp_pipeline.kernels.host.xxh64 import are_parts_whole, sums_of_parts
from sssp_pipeline.pipeline.ingest.damage import DamagedFileError
from sssp_pipeline.pipeline.ingest.ids.id_mapping import EVERYWHERE, IdCollector
from sssp_pipeline.pipeline.ingest.rows.grouping import bits_of, grouped_by_source
from sssp_pipeline.pipeline.ingest.spill import Readable, Spill, SpilledArray
from sssp_pipeline.pipeline.ingest.weight_types import WeightType


@dataclass(frozen=True, eq=False)
class EdgeRun:
    """The edges of a chunk, in groups by ascending source; in each group they have the order of the input."""

    #: Sources and targets (n,) uint32, which are codes of `IdCollector` or vertices; and the weights (n,), if there are
    #: any.
    columns: tuple[Readable, ...]
    #: (G,) int64 ascending; no source of a group is smaller.
    limits: np.ndarray
    #: (G + 1,) int64; the edges of group `g` are `starts[g]:starts[g + 1]`.
    starts: np.ndarray
    #: The chunk in which the codes are valid.
    chunk: int
    #: For each of `columns`, (G,) uint32: the checksums of its groups, if it is in a file.
    sums: tuple[np.ndarray | None, ...]

    @property
    def n_edges(self) -> int:
        return int(self.starts[-1])

    @property
    def weight_dtype(self) -> np.dtype | None:
        """The type of the weights; None if there are none."""
        return self.columns[2].dtype if len(self.columns) > 2 else None

    def read(self, column: int) -> np.ndarray:
        """Return a whole column, which the caller does not change.

        Raises
        ------
        DamagedFileError
            It is not what was written.
        """
        of, sums = self.columns[column], self.sums[column]
        array = of.read()
        if sums is not None and not are_parts_whole(
            array.view(np.uint8), self.starts, array.dtype.itemsize, sums
        ):
            raise DamagedFileError(of.place)
        return array


def group_sums(columns: Sequence[np.ndarray], starts: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the `EdgeRun.sums` of columns in files, whose groups begin at `starts`."""
    return tuple(sums_of_parts(column.view(np.uint8), starts, column.dtype.itemsize) for column in columns)


def keep_run(
    spill: Spill,
    ends: tuple[np.ndarray, np.ndarray, int],
    weights: np.ndarray | None,
    *,
    drop_loops: bool,
    add_reverses: bool,
    scratch: Scratch,
) -> tuple[EdgeRun, int]:
    """Keep the edges of a chunk as a run, and return the run and the number of self-loops.

    Parameters
    ----------
    ends
        What `IdCollector.add` returned.
    weights
        (n,), or None.
    drop_loops, add_reverses
        Whether self-loops are left out, and whether the reverse of each other edge is added.
    scratch
        Memory for edges that go to disk.

    Raises
    ------
    InputError
        The disk is full.
    """
    given = np.empty(0, np.uint8) if weights is None else weights
    if given.dtype == np.float16:
        given = given.astype(np.float32)  # compiled loops have no type of 2 bytes with decimals
    most = 2 * len(ends[0]) if add_reverses else len(ends[0])
    sizes = (np.dtype(np.uint32), most), (np.dtype(np.uint32), most), (given.dtype, most if len(given) else 0)
    kept = tuple(spill.reserve(*size) for size in sizes)
    # Edges are grouped where they stay: their memory is new, and to fill it twice would take as long as all else.
    room = [
        scratch.array(f"column {i}", *reversed(size)) if column.memory is None else column.memory
        for i, (column, size) in enumerate(zip(kept, sizes, strict=True))
    ]
    *grouped, starts, low, shift, loops = grouped_by_source(
        *ends[:2], bits_of(given), drop_loops, add_reverses, (room[0], room[1], bits_of(room[2]))
    )
    sums: list[np.ndarray | None] = []
    for column, edges in zip(kept, grouped, strict=True):
        sums.append(None)
        if column.memory is None:
            column.write(0, edges.view(column.dtype))
            sums[-1] = group_sums([edges], starts)[0]
        column.shorten(len(edges))
    limits = int(low) + (np.arange(len(starts) - 1) << int(shift))
    n_columns = 2 if weights is None else 3
    return EdgeRun(kept[:n_columns], limits, starts, ends[2], tuple(sums[:n_columns])), loops


def with_vertices_elsewhere(
    run: EdgeRun,
    vertices: Callable[[np.ndarray], np.ndarray],
    keep: Callable[[list[np.ndarray]], Iterable[Readable]],
    chunk: int = EVERYWHERE,
) -> EdgeRun:
    """Return a run with `vertices(codes)` in place of codes, which `keep` writes to files; raises as `EdgeRun.read`."""
    ends = [vertices(run.read(column)) for column in (0, 1)]
    limits = vertices(run.limits.astype(np.uint32)).astype(np.int64)
    sums = (*group_sums(ends, run.starts), *run.sums[2:])
    return replace(run, columns=(*keep(ends), *run.columns[2:]), limits=limits, chunk=chunk, sums=sums)


def with_vertices(run: EdgeRun, ids: IdCollector) -> EdgeRun:
    """Return a run whose codes are replaced, in their place, by vertices; raises as `Spill.keep` and `EdgeRun.read`."""
    sums = list(run.sums)
    for column, kept in enumerate(run.columns[:2]):
        assert isinstance(kept, SpilledArray), "the run is on this machine"
        vertices = ids.vertices(run.read(column), run.chunk)
        kept.write(0, vertices)
        if kept.memory is None:
            sums[column] = group_sums([vertices], run.starts)[0]
    limits = ids.vertices(run.limits.astype(np.uint32), run.chunk).astype(np.int64)
    return replace(run, limits=limits, chunk=EVERYWHERE, sums=tuple(sums))


def limits_between(runs: list[EdgeRun], edges_a_range: int) -> np.ndarray:
    """Return ascending sources (k,) int64 that divide the edges into ranges of about `edges_a_range`."""
    limits = np.concatenate([np.empty(0, np.int64), *(run.limits for run in runs)])
    n_edges = np.concatenate([np.empty(0, np.int64), *(np.diff(run.starts) for run in runs)])
    order = np.argsort(limits)
    total = np.cumsum(n_edges[order])
    cuts = np.searchsorted(total, np.arange(edges_a_range, total[-1] if len(total) else 0, edges_a_range))
    found = np.unique(limits[order][cuts])
    return found[found > 0]


class EdgeRuns:
    """All runs. Compiled loops read the edges of a range, since a loop of Python would take longer on many cores."""

    def __init__(self, runs: list[EdgeRun]) -> None:
        self._runs = runs
        self._limits = np.concatenate([np.empty(0, np.int64), *(run.limits for run in runs)])
        self._starts = np.concatenate([np.empty(0, np.int64), *(run.starts for run in runs)])
        #: (R + 1,) the first group of each run.
        self._groups = np.cumsum([0, *(len(run.limits) for run in runs)])
        #: (3, R) where the columns of each run are in memory; 0 for those on disk.
        self._addresses = np.zeros((3, len(runs)), np.int64)
        on_disk: list[tuple[int, ...]] = []
        sums: list[np.ndarray] = []
        self._of_dtype: dict[np.dtype, list[int]] = {}
        self._scratch = Scratch()
        for r, run in enumerate(runs):
            for c, kept in enumerate(run.columns):
                assert isinstance(kept, SpilledArray), "the run is on this machine"
                if kept.memory is not None:
                    self._addresses[c, r] = kept.memory.ctypes.data
                else:
                    of_groups = run.sums[c]
                    assert of_groups is not None, "a file has checksums"
                    on_disk.append((c, r, kept.dtype.itemsize, *kept.on_disk))
                    sums.append(of_groups)
            if run.weight_dtype is not None:
                self._of_dtype.setdefault(run.weight_dtype, []).append(r)
        #: (D, 5) for each column on disk: which it is, its run, the bytes of an item, the file and the offset there.
        self._on_disk = np.array(on_disk, np.int64).reshape(-1, 5)
        #: The checksums of all groups of these columns, one column after the other.
        self._sums = np.concatenate([np.empty(0, np.uint32), *sums])

    def edges_between(
        self, first: int, last: int, weight_type: WeightType, default: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return sources, targets and weights of all edges with a source in [first, last), and of some others.

        The weights are of `weight_type`. If no run has weights, they are `default`, (1,). The arrays are valid until
        the same thread asks for others.

        Raises
        ------
        DamagedFileError
            A file is not what was written.
        """
        places = np.empty((5, len(self._runs)), np.int64)
        n = _find_groups(self._limits, self._starts, self._groups, first, last, places)
        begins, addresses = np.tile(places[0], (3, 1)), self._addresses.copy()
        if len(on_disk := self._on_disk):
            n_bytes = int((places[1, on_disk[:, 1]] * on_disk[:, 2] + 8).sum())
            from_disk = self._scratch.array("from disk", n_bytes, np.uint8)
            damaged = _read_from_disk(
                *(on_disk, self._groups, self._starts, self._sums, places),
                from_disk.ctypes.data,
                *(addresses, begins),
            )
            if damaged >= 0:
                column, run = on_disk[damaged, :2]
                raise DamagedFileError(self._runs[run].columns[column].place)
        src, dst = (self._scratch.array(name, n, np.uint32) for name in ("src", "dst"))
        weights = self._scratch.array("weights", n, weight_type.dtype)
        is_float, factor = weight_type.dtype.kind == "f", float(weight_type.factor)
        every = np.arange(len(self._runs))
        for c, ends in enumerate((src, dst)):
            _gather(addresses[c], begins[c], places, every, ends[:0], False, 1.0, ends)
        for given, which in self._of_dtype.items():
            # The same weight may be an integer in one chunk and a decimal in another. Both go through float64, so that
            # both are rounded in the same way.
            runs = np.array(which)
            _gather(addresses[2], begins[2], places, runs, np.empty(0, given), is_float, factor, weights)
        if not self._of_dtype:
            weights[:] = default
        return src, dst, weights


@njit(nogil=True)
def _n_below(ascending: np.ndarray, bound: int) -> Any:
    """Return how many numbers are less than `bound`; numba takes 0.1 s to load its `searchsorted`."""
    low, high = np.int64(0), np.int64(len(ascending))
    while low < high:
        middle = (low + high) >> np.int64(1)
        if ascending[middle] < bound:
            low = middle + np.int64(1)
        else:
            high = middle
    return low


@njit(nogil=True)
def _find_groups(
    limits: np.ndarray, starts: np.ndarray, groups: np.ndarray, first: int, last: int, places: np.ndarray
) -> int:
    """Find the groups of each run that may have sources in [first, last), and return the number of their edges.

    `places` (5, R) gets for each run: the index of its first such edge, how many such edges it has, how many the runs
    before it have together, the index of its first such group, and how many such groups it has.
    """
    total = 0
    for r in range(len(groups) - 1):
        own, own_starts = limits[groups[r] : groups[r + 1]], starts[groups[r] + r : groups[r + 1] + r + 1]
        begin = max(np.int64(0), _n_below(own, first + 1) - 1)
        end = max(begin, _n_below(own, last))
        n = own_starts[end] - own_starts[begin]
        places[0, r], places[1, r], places[2, r] = own_starts[begin], n, total
        places[3, r], places[4, r] = begin, end - begin
        total += places[1, r]
    return total


@njit(nogil=True)
def _read_from_disk(
    on_disk: np.ndarray,
    groups: np.ndarray,
    starts: np.ndarray,
    sums: np.ndarray,
    places: np.ndarray,
    to: int,
    addresses: np.ndarray,
    begins: np.ndarray,
) -> Any:
    """Read the edges of the columns `on_disk` to the address `to`, and check their groups.

    Return the first column that is not what was written, or -1. Each copy begins at a multiple of 8, so it takes up to
    7 bytes more. `addresses` and `begins` (3, R) then lead to the copies of these columns.
    """
    sums_before = np.int64(0)
    for i in range(len(on_disk)):
        column, run, itemsize, file, at = on_disk[i]
        to += -to % 8
        addresses[column, run], begins[column, run] = to, 0
        at += places[0, run] * itemsize
        end = to + places[1, run] * itemsize
        while to < end:
            n = read_file(file, at, to, end - to)
            if n <= 0:
                return i
            at, to = at + n, to + n
        begin = addresses[column, run]
        data = carray(pointer_to(begin), (to - begin,), np.uint8)
        first, n_groups = places[3, run], places[4, run]
        bounds = starts[groups[run] + run + first :][: n_groups + 1]
        if not are_parts_whole(data, bounds, itemsize, sums[sums_before + first :][:n_groups]):
            return i
        sums_before += groups[run + 1] - groups[run]
    return -1


@njit(nogil=True)
def _gather(
    addresses: np.ndarray,
    begins: np.ndarray,
    places: np.ndarray,
    which: np.ndarray,
    like: np.ndarray,
    through_float64: bool,
    factor: float,
    out: np.ndarray,
) -> None:
    """Copy the edges of the runs `which` to their places in `out`. At `addresses` they have the type of `like`.

    A `factor` other than 1 multiplies them; the products are within rounding of integers of at most 2^52.
    """
    for r in which:
        n, at = places[1, r], places[2, r]
        if n == 0:
            continue
        values = carray(pointer_to(addresses[r]), (begins[r] + n,), like.dtype)[begins[r] :]
        if through_float64:
            for i in range(n):
                out[at + i] = float(values[i])
        elif factor != 1.0:
            for i in range(n):
                out[at + i] = np.int64(np.rint(float(values[i]) * factor))
        else:
            for i in range(n):
                out[at + i] = values[i]
