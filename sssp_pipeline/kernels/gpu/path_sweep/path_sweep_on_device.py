"""Runs `path_sweep.cu`: the counts of a hierarchy on the device, and groups of sources over all multiprocessors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sssp_pipeline.kernels.answers.path_sums import MOST_PATHS
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.gpu.common.cuda.compile import Unit, cupy_module, load_kernels
from sssp_pipeline.kernels.gpu.common.cuda.struct_types import struct_type
from sssp_pipeline.kernels.gpu.common.graphs.device_graph import free_bytes
from sssp_pipeline.kernels.gpu.common.graphs.pinned_upload import copy_to_device
from sssp_pipeline.kernels.hierarchy.path_counts import PathCounts
from sssp_pipeline.kernels.hierarchy.path_sweep import Passing
from sssp_pipeline.kernels.hierarchy.subtrees import depths_of

PATH_SWEEP = Unit("path_sweep", ("path_sweep_kernel",))
_SOURCE = Path(__file__).with_name("path_sweep.cu")
_ARCS, _CALL = struct_type(_SOURCE, "PathArcs"), struct_type(_SOURCE, "PathCall")
#: Sources of a block, and its threads.
_LANES, THREADS = 32, 1024
#: The share of the free memory that rows take.
_MEMORY_SHARE = 0.8
#: The most arcs: words of 32 bits count them.
_MOST_ARCS = 2**32 - 1


class PathSweepOnDevice:
    """The counts of a hierarchy on the current device, and the sums over all groups so far."""

    def __init__(self, counts: PathCounts, asked: PathSumsAsked, threads: int = THREADS) -> None:
        hierarchy = counts.hierarchy
        tree, self._dtype = hierarchy.completion, hierarchy.up.weights.dtype
        self._counts, self._asked, self._threads = counts, asked, threads
        self._n_vertices = tree.n_vertices
        depths = depths_of(tree.parents)
        self._n_depths = int(np.max(depths)) + 1
        by_depth = np.argsort(depths, kind="stable").astype(np.uint32)
        begins = np.searchsorted(depths[by_depth], np.arange(self._n_depths + 1)).astype(np.uint32)
        amounts = np.ones(self._n_vertices)
        if asked.is_target is not None:
            amounts[tree.ranks] = asked.is_target
        self._of_vertices = [_sent(values) for values in (tree.parents, depths, by_depth, begins, amounts)]
        up, down = hierarchy.up, hierarchy.down
        by_upper, paths_by_upper, _, self._by_upper = counts.down_by_upper
        of_ends = ((up, counts.up), (down, counts.down), (by_upper, paths_by_upper))
        self._arcs = [
            [_sent(array) for array in (arcs.offsets.astype(np.uint32), arcs.heads, arcs.weights, paths)]
            for arcs, paths in of_ends
        ]
        cupy = cupy_module()
        sizes = len(up.heads), len(down.heads), self._n_vertices
        self._words = [cupy.zeros((size, 2), np.uint64) for size in sizes]
        self._is_crowded = cupy.zeros(1, np.uint32)

    @staticmethod
    def fits(counts: PathCounts) -> bool:
        """Return whether the free memory of the current device holds the arcs and a block."""
        hierarchy = counts.hierarchy
        n_arcs = len(hierarchy.up.heads) + 2 * len(hierarchy.down.heads)
        itemsize = hierarchy.up.weights.dtype.itemsize
        n_vertices = hierarchy.completion.n_vertices
        needed = n_arcs * (20 + 16 + itemsize) + n_vertices * (100 + _LANES * (8 + itemsize))
        return n_arcs <= _MOST_ARCS and n_vertices > 0 and needed < _MEMORY_SHARE * free_bytes()

    def add(self, sources: np.ndarray, limit: np.generic) -> bool:
        """Add what passes on the paths from `sources` (S,) uint32 to targets nearer than `limit`.

        It returns whether all paths can be counted. If not, the sums are of no use.
        """
        cupy, kernel = cupy_module(), load_kernels(PATH_SWEEP, self._dtype)["path_sweep_kernel"]
        # Neighbours have most of their climbs in common, and share the warps of a block.
        ranks = _sent(np.sort(self._counts.hierarchy.completion.ranks[sources]))
        rows, cells = self._n_vertices * _LANES, self._n_depths * _LANES
        itemsize = self._dtype.itemsize
        of_block = rows * (itemsize + 8) + cells * (itemsize + 20)
        n_blocks = -(-len(sources) // _LANES)
        n_fitting = max(1, int(_MEMORY_SHARE * free_bytes() / of_block))
        n_at_once = min(n_blocks, kernel.resident_blocks(self._threads), n_fitting)
        scratch = [
            cupy.empty(n_at_once * size, dtype)
            for size, dtype in (
                *((rows, self._dtype), (rows, np.float64)),
                *((cells, np.uint32), (cells, self._dtype), (cells, np.float64), (cells, np.float64)),
            )
        ]
        arcs = [_struct(_ARCS, *of) for of in self._arcs]
        for first in range(0, n_blocks, n_at_once):
            some = ranks[first * _LANES : (first + n_at_once) * _LANES]
            arrays = (*self._of_vertices, some, *scratch, *self._words, self._is_crowded)
            numbers = (
                int(limit),
                MOST_PATHS,
                float(self._asked.endpoints),
                len(some),
                self._n_vertices,
                self._n_depths,
            )
            kernel(-(-len(some) // _LANES), self._threads, (*arcs, _struct(_CALL, *arrays, *numbers)))
            # Ctrl-C comes between two launches.
            cupy.cuda.get_current_stream().synchronize()
        return not self._is_crowded.get()[0]

    def words(self) -> Passing:
        """Return the sums, as those of a `PathSweep`."""
        up, by_upper, through = (words.get() for words in self._words)
        down = np.empty_like(by_upper)
        down[self._by_upper] = by_upper
        return Passing(up, down, through)


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
