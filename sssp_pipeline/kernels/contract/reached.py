"""What some sources reach: in place of rows of distances, which a short cutoff leaves almost empty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Reached:
    """The vertices that each of S sources reaches, and their distances, in host memory."""

    #: (S,) int64: how many vertices each source reaches.
    counts: np.ndarray
    #: (n,) uint32: these vertices, rising for each source.
    vertices: np.ndarray
    #: (n,) of the weights' type: their distances.
    distances: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.counts.nbytes + self.vertices.nbytes + self.distances.nbytes

    @property
    def places(self) -> np.ndarray:
        """The row (n,) of each distance."""
        return np.repeat(np.arange(len(self.counts)), self.counts)
