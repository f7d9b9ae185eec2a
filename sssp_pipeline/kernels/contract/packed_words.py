"""Sums along paths without the places that no path passes: what a GPU copies of a part, and what a part stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import numpy as np

#: Places that `packed` packs at a time: a multiple of 8, as a byte has the bits of 8 places.
_PLACES = 2**20


@dataclass(frozen=True, eq=False)
class PackedWords:
    """The words of the places that have any; or of all places, if that is more than half of them."""

    #: (ceil(P / 8),) uint8: a bit for each place, the lowest first; 1 if `words` has its words.
    bits: np.ndarray
    #: (n, W) uint64.
    words: np.ndarray

    @classmethod
    def of(cls, words: np.ndarray) -> PackedWords:
        """Pack all `words` (P, W)."""
        bits, *parts = packed(words)
        return cls(bits, np.concatenate(parts))

    @property
    def nbytes(self) -> int:
        """The memory of both arrays."""
        return self.bits.nbytes + self.words.nbytes

    @property
    def unpacked_bytes(self) -> int:
        """The memory of the words of all places."""
        return 8 * len(self.bits) * 8 * self.words.shape[1]

    def unpacked(self, n_places: int) -> np.ndarray:
        """Return the words (P, W) of all places."""
        found = np.zeros((n_places, self.words.shape[1]), np.uint64)
        found[np.unpackbits(self.bits, count=n_places, bitorder="little").view(np.bool_)] = self.words
        return found


def packed(words: np.ndarray | PackedWords) -> Iterator[np.ndarray]:
    """Yield the bits of `PackedWords`, and then their words in parts. `words` may be (P, W): all places.

    Each part of the words is made when it is asked for, so this takes little memory.
    """
    if isinstance(words, PackedWords):
        yield from (words.bits, words.words)
        return
    parts = np.split(words, range(_PLACES, len(words), _PLACES))
    present = [reduce(np.bitwise_or, part.T) != 0 for part in parts]
    if is_sparse(sum(int(np.count_nonzero(some)) for some in present), len(words)):
        yield np.concatenate([np.packbits(some, bitorder="little") for some in present])
        yield from (part[some] for part, some in zip(parts, present, strict=True))
    else:
        yield bits_of_all(len(words))
        yield words


def is_sparse(n_present: int, n_places: int) -> bool:
    """Return whether so few places have words that the others are left out."""
    return 2 * n_present <= n_places


def bits_of_all(n_places: int) -> np.ndarray:
    """Return `PackedWords.bits` of all places."""
    return np.packbits(np.ones(n_places, np.bool_), bitorder="little")
