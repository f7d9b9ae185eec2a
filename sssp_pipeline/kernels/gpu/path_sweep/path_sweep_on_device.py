"""Runs `path_sweep.cu`: the counts of a hierarchy on the device, and groups of sources over all multiprocessors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.base.errors import DeadlineError
from sssp_pipeline.kernels.answers.path_sums import MOST_PATHS
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.contract.solver import DEADLINE_S
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import free_bytes
from sssp_pipeline.kernels.gpu.common.graphs.pinned_upload import copy_to_device
from sssp_pipeline.kernels.gpu.common.rows.transfers import copy_to_host, pinned_array
from sssp_pipeline.kernels.hierarchy.completion.subtrees import depths_of
from sssp_pipeline.kernels.hierarchy.sweeps.path_counts import PathCounts
from sssp_pipeline.kernels.hierarchy.sweeps.path_sweep import Passing, amounts_along_arcs

#: The solver whose sums these are.
_SOLVER = "phast-gpu"
PATH_SWEEP = Unit("path_sweep", ("path_sweep_kernel",))
_SOURCE = Path(__file__).with_name("path_sweep.cu")
_ARCS, _CALL = struct_type(_SOURCE, "PathArcs"), struct_type(_SOURCE, "PathCall")
#: Sources of a block, and its threads. The bits of totals depend on both.
_LANES, THREADS = 32, 1024
#: The shares of the free memory that the sums of parts take, and the rows. The sums of one part may take more.
_WORDS_SHARE, _MEMORY_SHARE = 0.2, 0.8
#: The most arcs: words of 32 bits count them.
_MOST_ARCS = 2**32 - 1


class ArcsOnDevice:
    """The counts of a hierarchy on the current device."""

    def __init__(self, counts: PathCounts) -> None:
        hierarchy = counts.hierarchy
        tree = hierarchy.completion
        self.counts, self.ranks, self.dtype = counts, tree.ranks, hierarchy.up.weights.dtype
        depths = depths_of(tree.parents)
        self.n_depths = int(np.max(depths)) + 1
        by_depth = np.argsort(depths, kind="stable").astype(np.uint32)
        begins = np.searchsorted(depths[by_depth], np.arange(self.n_depths + 1)).astype(np.uint32)
        self.tree = [_sent(values) for values in (tree.parents, depths, by_depth, begins)]
        up, down = hierarchy.up, hierarchy.down
        by_upper, paths_by_upper, inner_by_upper, self.by_upper = counts.down_by_upper
        of_ends = (
            (up, counts.up, counts.inner.up),
            (down, counts.down, counts.inner.down),
            (by_upper, paths_by_upper, inner_by_upper),
        )
        self.of_ends = [
            [_sent(array) for array in (arcs.offsets.astype(np.uint32), arcs.heads, arcs.weights, *numbers)]
            for arcs, *numbers in of_ends
        ]
        #: The numbers of arcs up, of arcs down, and of vertices: the places of sums.
        self.sizes = len(up.heads), len(down.heads), tree.n_vertices


@dataclass(frozen=True, eq=False)
class PartOfSweep:
    """What passes on the paths from the sources of a part."""

    #: (n, 2) uint64: the sums of arcs up, of arcs down by their upper end, and of vertices. `order` has the places of
    #: the arcs by their upper end among those by their lower end.
    up: np.ndarray
    by_upper: np.ndarray
    through: np.ndarray
    order: np.ndarray
    #: (S, 2) float64: what the paths from each source pass, of vertices and of edges.
    totals: np.ndarray

    def passing(self) -> Passing:
        """Return the sums in the form that `PathSweep` has."""
        down = np.empty_like(self.by_upper)
        down[self.order] = self.by_upper
        return Passing(self.up, down, self.through)


class PathSweepOnDevice:
    """Sums over the arcs on the current device."""

    def __init__(self, arcs: ArcsOnDevice, asked: PathSumsAsked, threads: int = THREADS) -> None:
        self._arcs, self._asked, self._threads = arcs, asked, threads
        of_targets, self._of_sources = amounts_along_arcs(asked, arcs.ranks)
        self._amounts = _sent(of_targets)
        self._is_crowded = cupy_module().zeros(1, np.uint32)

    @staticmethod
    def fits(counts: PathCounts) -> bool:
        """Return whether the free memory of the current device holds the arcs and a block."""
        hierarchy = counts.hierarchy
        n_arcs = len(hierarchy.up.heads) + 2 * len(hierarchy.down.heads)
        itemsize = hierarchy.up.weights.dtype.itemsize
        n_vertices = hierarchy.completion.n_vertices
        needed = n_arcs * (28 + 16 + itemsize) + n_vertices * (100 + _LANES * (8 + itemsize))
        return n_arcs <= _MOST_ARCS and n_vertices > 0 and needed < _MEMORY_SHARE * free_bytes()

    def run(
        self, sources: np.ndarray, ends: Sequence[int], limit: np.generic, deadline_s: float = DEADLINE_S
    ) -> list[PartOfSweep] | None:
        """Return what passes on the paths to targets nearer than `limit`, in parts.

        A part depends on its own sources only. The order of its sources does not matter.

        Parameters
        ----------
        sources, ends
            (S,) uint32, and where the parts end.
        deadline_s
            What a launch may take. A launch has some or all of the sources.

        Returns
        -------
        list of PartOfSweep or None
            None if paths cannot be counted.

        Raises
        ------
        DeadlineError
            A launch took longer. No other launch begins then.
        """
        parts = [sources[first:end] for first, end in pairwise((0, *ends))]
        n_at_once = max(1, int(_WORDS_SHARE * free_bytes() / (16 * sum(self._arcs.sizes))))
        found: list[PartOfSweep] = []
        for first in range(0, len(parts), n_at_once):
            some = self._run(parts[first : first + n_at_once], limit, deadline_s)
            if self._is_crowded.get()[0]:
                return None
            found += some
        return found

    def _run(self, parts: list[np.ndarray], limit: np.generic, deadline_s: float) -> list[PartOfSweep]:
        """Return what passes in each of `parts`, whose sums fit the memory together."""
        cupy, arcs = cupy_module(), self._arcs
        kernel = load_kernels(PATH_SWEEP, arcs.dtype)["path_sweep_kernel"]
        ranks = [arcs.ranks[part] for part in parts]
        # Neighbours have most of their climbs in common, and share the warps of a block.
        orders = [np.argsort(of_part, kind="stable") for of_part in ranks]
        sources = np.concatenate([of_part[order] for of_part, order in zip(ranks, orders, strict=True)])
        part_sizes = np.array([len(part) for part in parts])
        part_ends = np.cumsum(part_sizes)
        firsts = part_ends - part_sizes
        group_parts = np.repeat(np.arange(len(parts), dtype=np.uint32), -(-part_sizes // _LANES))
        begins = [np.arange(first, end, _LANES) for first, end in zip(firsts, part_ends, strict=True)]
        offsets = np.concatenate([*begins, part_ends[-1:]]).astype(np.uint32)
        amounts = np.concatenate(
            [self._of_sources[part[order]] for part, order in zip(parts, orders, strict=True)]
        )
        sent, sent_amounts, sent_offsets, sent_parts = map(_sent, (sources, amounts, offsets, group_parts))
        words = [cupy.zeros((len(parts), size, 2), np.uint64) for size in arcs.sizes]
        totals = cupy.empty((len(sources), 2), np.float64)
        *n_arcs, n_vertices = arcs.sizes
        rows, cells, itemsize = n_vertices * _LANES, arcs.n_depths * _LANES, arcs.dtype.itemsize
        of_block = rows * (itemsize + 8) + cells * (itemsize + 20)
        n_fitting = max(1, int(_MEMORY_SHARE * free_bytes() / of_block))
        n_at_once = max(1, min(len(group_parts), kernel.resident_blocks(self._threads), n_fitting))
        scratch = [
            cupy.empty(n_at_once * size, dtype)
            for size, dtype in (
                *((rows, arcs.dtype), (rows, np.float64)),
                *((cells, np.uint32), (cells, arcs.dtype), (cells, np.float64), (cells, np.float64)),
            )
        ]
        of_arcs = [_struct(_ARCS, *of) for of in arcs.of_ends]
        numbers = int(limit), MOST_PATHS, float(self._asked.endpoints), *n_arcs, n_vertices, arcs.n_depths
        began, ended = cupy.cuda.Event(), cupy.cuda.Event()
        for first in range(0, len(group_parts), n_at_once):
            groups = sent_offsets[first:], sent_parts[first:]
            of_sources = self._amounts, sent, sent_amounts
            of_call = *arcs.tree, *of_sources, *groups, *scratch, *words, totals, self._is_crowded
            n_blocks = min(n_at_once, len(group_parts) - first)
            began.record()
            kernel(n_blocks, self._threads, (*of_arcs, _struct(_CALL, *of_call, *numbers)))
            ended.record()
            # Ctrl-C comes between two launches.
            ended.synchronize()
            if cupy.cuda.get_elapsed_time(began, ended) / 1e3 > deadline_s:
                n_swept = int(offsets[first + n_blocks] - offsets[first])
                raise DeadlineError(_SOLVER, f"sums over {n_swept} sources", deadline_s)
        of_rows = np.empty((len(sources), 2))
        of_rows[np.repeat(firsts, part_sizes) + np.concatenate(orders)] = totals.get() * self._asked.unit
        found = []
        for part, of_part in enumerate(np.split(of_rows, part_ends[:-1])):
            up, by_upper, through = (_fetched(of_kind[part]) for of_kind in words)
            found.append(PartOfSweep(up, by_upper, through, arcs.by_upper, of_part))
        cupy.cuda.get_current_stream().synchronize()
        return found


def _fetched(words: Any) -> np.ndarray:
    """Enqueue the copy of `words` to the host; return the array that will hold them."""
    into = pinned_array(words.shape, words.dtype)
    copy_to_host(words, into)
    return into


def _struct(struct: np.dtype, *values: Any) -> np.ndarray:
    """Return a `struct` of pointers and numbers, as a kernel gets it."""
    made = np.zeros(1, struct)
    for name, value in zip(struct.names or (), values, strict=True):
        made[name] = value if isinstance(value, int | float) else value.data.ptr
    return made.view(f"V{struct.itemsize}")


def _sent(values: np.ndarray) -> Any:
    on_device = cupy_module().empty(len(values), values.dtype)
    copy_to_device(values, on_device)
    return on_device
