"""What is made of the new bits of a depth where their number is not enough: distances, and words over sources."""

from __future__ import annotations

from typing import Any

import numpy as np

from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.kernels.contract.over_sources import NEAREST, REACHED_BY, bits_of
from sssp_pipeline.kernels.cpu.bit_search import BitSearch
from sssp_pipeline.kernels.host.accumulator import Accumulator
from sssp_pipeline.kernels.host.numba_tools import ONE, ZERO, one_bits, trailing_zeros


class Distances:
    """Writes distances into rows, which hold "unreached" before.

    Parameters
    ----------
    rows
        (S, columns) of the type of the weights.
    places
        (lanes,) integers: the row of each lane.
    vertices, columns
        (n,) integers: which vertices have a column, and which one. None: every vertex has the column of its number.
    """

    def __init__(
        self,
        rows: np.ndarray,
        places: np.ndarray,
        vertices: np.ndarray | None = None,
        columns: np.ndarray | None = None,
    ) -> None:
        self._rows, self._places = bits_of(rows), places.astype(np.uint64)
        self._vertices, self._columns = vertices, vertices if columns is None else columns

    def add(self, search: BitSearch, distance: np.generic) -> None:
        """Write the `distance` of the vertices that are new at this depth."""
        vertices = search.listed if self._vertices is None else self._vertices
        columns = vertices if self._columns is None else self._columns
        n_words = np.uint64(search.n_words)
        _write(search.found, n_words, vertices, columns, self._places, bits_of(distance), self._rows)


class OfVertices:
    """Adds to the words of each vertex over sources (`contract/over_sources.py`).

    Parameters
    ----------
    sources
        (lanes,) uint32, rising.
    """

    def __init__(self, accumulator: Accumulator, sources: np.ndarray) -> None:
        self._accumulator, self._sources = accumulator, sources
        self._of_one = Accumulator(accumulator.over, accumulator.traits, n_columns=1)

    def add(self, search: BitSearch, distance: np.generic) -> None:
        """Add the `distance` of the vertices that are new at this depth, once for each source that they are new to."""
        over = self._accumulator.over
        self._of_one.clear()
        self._of_one.add(np.array([distance]), 0)
        words = self._of_one.words[:, 0].copy()
        _accumulate(
            *(search.found, np.uint64(search.n_words), search.listed, self._sources, words),
            *(over.nearest, np.uint64(over.first_sum()), self._accumulator.words),
        )


@njit(nogil=True)
def _write(
    found: np.ndarray,
    n_words: Any,
    vertices: np.ndarray,
    columns: np.ndarray,
    places: np.ndarray,
    distance: Any,
    rows: np.ndarray,
) -> None:
    """Write the bits of `distance` for each bit of the rows of `vertices`, to 64 rows at a time."""
    for w in range(n_words):
        for i in range(np.uint64(len(vertices))):
            word, column = found[vertices[i] * n_words + w], columns[i]
            while word != ZERO:
                rows[places[(w << np.uint64(6)) + trailing_zeros(word)], column] = distance
                word &= word - ONE


@njit(nogil=True)
def _accumulate(
    found: np.ndarray,
    n_words: Any,
    listed: np.ndarray,
    sources: np.ndarray,
    of_one: np.ndarray,
    nearest: bool,
    first_sum: Any,
    words: np.ndarray,
) -> None:
    """Add to `words` (W, V) the words `of_one` (W,) of a source, for each bit of the rows of the vertices `listed`."""
    for i in range(np.uint64(len(listed))):
        v = np.uint64(listed[i])
        n_bits, first = ZERO, ZERO
        for w in range(n_words):
            word = found[v * n_words + w]
            if n_bits == ZERO and word != ZERO:
                first = (w << np.uint64(6)) + trailing_zeros(word)
            n_bits += one_bits(word)
        words[REACHED_BY, v] += n_bits
        if nearest:
            d, source = of_one[NEAREST], np.uint64(sources[first])
            known = words[NEAREST, v]
            if d < known or (d == known and source < words[NEAREST + 1, v]):
                words[NEAREST, v], words[NEAREST + 1, v] = d, source
        for k in range(first_sum, np.uint64(len(of_one))):
            words[k, v] += n_bits * of_one[k]
