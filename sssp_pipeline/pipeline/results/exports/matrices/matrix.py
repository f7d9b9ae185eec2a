"""A matrix of distances on its way to a file: what every format of arrays gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Matrix:
    """Distances (S, n) in blocks of rows. They can be read once."""

    #: The ids of some sources (k,), the ids of all vertices (n,), and the distances (k, n); in the order of the rows.
    blocks: Iterable[tuple[pa.Array, pa.Array, np.ndarray]]
    #: (S, n).
    shape: tuple[int, int]
    dtype: np.dtype
    #: The number in `blocks` that stands for "no path"; None if there is none, or if it is infinity.
    unreached: float | None
    #: The ids of the rows and columns that were read.
    _read: dict[str, list[pa.Array]] = field(default_factory=lambda: {"source": [], "vertex": []})

    @property
    def no_path(self) -> float | None:
        """The number for "no path", infinity included; None if there is none."""
        return np.inf if self.unreached is None and self.dtype.kind == "f" else self.unreached

    def rows(self) -> Iterator[np.ndarray]:
        """Give the distances (k, n) of each block."""
        for sources, vertices, rows in self.blocks:
            self._read["source"].append(sources)
            self._read["vertex"] = [vertices]
            yield rows

    def ids(self) -> dict[str, pa.Array]:
        """Return the ids as `source` (S,) and `vertex` (n,), when all rows are read."""
        return {name: pa.concat_arrays(parts) for name, parts in self._read.items()}
