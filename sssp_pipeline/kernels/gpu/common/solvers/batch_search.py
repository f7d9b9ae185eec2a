"""What a solver of many sources at once provides: a search from a device batch, and the memory that it takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sssp_pipeline.kernels.gpu.common.rows.device_rows import SearchCounts
from sssp_pipeline.kernels.gpu.common.rows.lane_rows import LaneRows


class BatchSearch(ABC):
    """A search from several sources at once; it owns its scratch memory on the device."""

    #: Whether it counts its results itself (`Summary`), and writes "unreached" where there is no path below the limit.
    summarises = False
    #: How many distances of a row it writes; None for all.
    n_columns: int | None = None
    #: Whether these are what is kept of a row.
    writes_kept = False
    #: 0 if it writes distances. Otherwise it leaves them in its own memory for reductions (`left`), and this is the
    #: number of bits of a word there.
    lane_bits = 0
    #: What the last launch left, until the next one.
    left: LaneRows

    def stage(self, rows: Any, sources: np.ndarray, summaries: Any) -> None:  # noqa: B027, most stage nothing
        """Prepare `launch`, which gets the same arguments, before its time is measured."""

    @abstractmethod
    def launch(self, rows: Any, sources: np.ndarray, summaries: Any) -> Callable[[], SearchCounts]:
        """Enqueue the search from `sources`, without waiting for anything.

        Parameters
        ----------
        rows
            (n, V) device array of the weights' bits, uninitialised, C order. The search writes the true distances,
            and the bits of the limit where no path is shorter than the limit. With `n_columns`: (n, n_columns).
        sources
            (n,) uint32, host memory.
        summaries
            Device memory with a `Summary` of zero for each source, if it `summarises`.

        Returns
        -------
        Callable
            Gives the counts of each source, once the search is over. It raises `SsspError` if the search was given up;
            then its distances are not valid. It must be kept until the search is over.
        """


@dataclass(frozen=True)
class BatchNeeds:
    """Device memory of a batch search in addition to the rows of distances, and its largest useful batch."""

    #: Bytes that do not depend on the number of sources.
    fixed_bytes: int
    #: Bytes for each source of a device batch.
    bytes_a_source: int
    #: Sources of a full device batch. With more sources, each is not solved faster.
    full: int
    #: Whether there are rows of distances at all.
    has_rows: bool = True
