"""The tiles that the rows of some vertices follow from, for calls that count nothing.

The vertices of a tile need the whole boundary of their chunk, which lies in chunks nearer to the roots. So one pass
over the chunks from the leaves up finds all that is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.gpu.phast_gpu.host_hierarchy import HostHierarchy, Swept
from sssp_pipeline.kernels.host.numba_tools import ONE


@dataclass(frozen=True, eq=False)
class NeededTiles:
    """Some tiles of a hierarchy, in its order. Those of the top are left out: seeds give their rows."""

    #: Rows of the last band come after those of the bands above it, without gaps.
    swept: Swept
    #: How many tiles of `swept` are above the last band, and how many rows there are memory for.
    first_low: int
    n_rows: int
    #: The places of the vertices whose rows are wanted, in this memory.
    places: np.ndarray


def needed_tiles(host: HostHierarchy, all_tiles: np.ndarray, places: np.ndarray) -> NeededTiles:
    """Return the tiles that the rows at `places` (N,) follow from. `all_tiles` are as for `HostHierarchy.fronts_of`."""
    chunks = host.chunks
    is_needed = np.zeros(len(all_tiles), np.bool_)
    tile_of = host.tiles_of_places
    is_needed[tile_of[places]] = True
    _mark(is_needed, host.first_tiles, chunks.boundary_offsets, host.boundary_places, tile_of)
    is_needed[: host.first_tiles[1]] = False
    needed = np.flatnonzero(is_needed)
    swept = host.swept_of(needed, all_tiles)
    first_low = int(np.searchsorted(swept.tiles["chunk"], chunks.first_low))
    n_upper = int(chunks.first_places[chunks.first_low])
    low, needed_low = swept.tiles[first_low:], needed[needed >= host.first_tiles[chunks.first_low]]
    ends = np.cumsum(low["n_rows"], dtype=np.int64)
    kept = np.empty(len(all_tiles), np.int64)  # where the rows of a tile of the last band begin
    kept[needed_low] = n_upper + ends - low["n_rows"]
    inside = places - all_tiles["first_place"][tile_of[places]]
    wanted = np.where(places < n_upper, places, kept[tile_of[places]] + inside)
    low["first_place"] = kept[needed_low]
    n_rows = n_upper + int(ends[-1] if len(ends) else 0)
    return NeededTiles(swept, first_low, n_rows, wanted.astype(np.uint32))


@njit(nogil=True)
def _mark(
    is_needed: np.ndarray,
    first_tiles: np.ndarray,
    boundary_offsets: np.ndarray,
    boundary: np.ndarray,
    tile_of: np.ndarray,
) -> None:
    """Set `is_needed` of each tile with a vertex of the boundary of a chunk that has such a tile."""
    n_chunks = np.uint64(len(first_tiles)) - ONE
    for i in range(n_chunks):
        chunk = n_chunks - ONE - i
        is_any = False
        for tile in range(np.uint64(first_tiles[chunk]), np.uint64(first_tiles[chunk + ONE])):
            is_any |= is_needed[tile]
        if is_any:
            for b in range(boundary_offsets[chunk], boundary_offsets[chunk + ONE]):
                is_needed[tile_of[boundary[b]]] = True
