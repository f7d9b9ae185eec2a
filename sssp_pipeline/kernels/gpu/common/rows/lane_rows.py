"""Rows of distances on the device in one of the two layouts of `row_layout.cuh`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.cuda.struct_types import HEADERS, struct_type

#: `Rows` of the kernels.
_ROWS = struct_type(HEADERS / "row_layout.cuh", "Rows")


@dataclass(frozen=True, eq=False)
class LaneRows:
    """Rows by place, with a lane for each source: what the sweep over a hierarchy leaves."""

    #: (P, n_lanes) words, device memory. Without the last places if only the `Summary` of each row is read.
    words: Any
    #: (V,) uint32, device memory: the place of each vertex.
    places: Any
    #: Words of at least this mean "unreached".
    limit: int
    n_lanes: int
    n_rows: int
    #: The lane of the first row.
    first: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """(n, V), as rows by source have."""
        return self.n_rows, len(self.places)

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, rows: slice) -> LaneRows:
        first, end, _ = rows.indices(self.n_rows)
        return replace(self, first=self.first + first, n_rows=end - first)

    @property
    def argument(self) -> np.ndarray:
        """What kernels get."""
        begin = self.words.data.ptr + self.first * self.words.itemsize
        made = np.array([(begin, self.places.data.ptr, self.limit, self.n_lanes, self.n_rows)], _ROWS)
        return made.view(
            f"V{_ROWS.itemsize}"
        )  # CuPy lists the fields of a record at every launch, but not of bytes


def layout(lane_bits: int) -> tuple[tuple[str, int], ...]:
    """Return the macros of a unit for rows by source (0), or by place in words of `lane_bits`."""
    return (("SSSP_LANE_BITS", lane_bits),)


def argument_of(rows: Any) -> Any:
    """Return what kernels get of `rows` in either layout."""
    return rows.argument if isinstance(rows, LaneRows) else rows


def grid_of(rows: Any, resident: int, most_blocks: int, rows_of_block: int = 32) -> tuple[int, int]:
    """Return how many blocks a kernel has in all, and how many of them each row has.

    A block has one of the rows by source, or `rows_of_block` of the rows by place. At most `resident` blocks run at
    once, and a row has work for `most_blocks`.
    """
    n_groups = -(-len(rows) // (rows_of_block if isinstance(rows, LaneRows) else 1))
    blocks_a_row = max(1, min(resident // n_groups, most_blocks))
    return n_groups * blocks_a_row, blocks_a_row
