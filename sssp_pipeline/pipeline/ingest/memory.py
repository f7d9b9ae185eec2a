"""Memory: how ingest divides the memory that it may take."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sssp_pipeline.base.host_memory import free_memory_bytes

_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "ki": 2**10} | {
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
#: The bytes of text, or of an array, that are parsed into one chunk, and the fewest that are worth a task.
_MOST_BLOCK_BYTES, _FEWEST_BLOCK_BYTES = 8 << 20, 64 << 10
#: What a chunk takes for each byte of its block while it is parsed and grouped.
_CHUNK_FACTOR = 5
#: The edges whose rows are made at a time: at most as many as a large cache holds.
_MOST_RANGE_EDGES, _FEWEST_RANGE_EDGES = 1 << 19, 1 << 10
#: What an edge takes while its row is made: the edge in its run, in the range, and in its row.
_RANGE_EDGE_BYTES = 48
#: The most parts that are written at a time.
_MOST_PARTS = 8


@dataclass(frozen=True)
class Memory:
    """The bytes that ingest may take in addition to the program itself, for `threads` threads."""

    n_bytes: int
    threads: int

    @classmethod
    def of(cls, asked: str, threads: int) -> Memory:
        """Return the memory that `graph.memory` asks for: half of what is free, or a number with a unit."""
        if asked == "auto":
            return cls(free_memory_bytes() // 2, threads)
        found = re.fullmatch(r"([0-9.]+) ?([kMGT]?i?)B", asked)
        assert found is not None, "the model of the workflow has checked it"
        return cls(int(float(found[1]) * _UNITS[found[2]]), threads)

    @property
    def spill_bytes(self) -> int:
        """The bytes of edges and ids that are kept in memory before the rest goes to disk."""
        return self.n_bytes // 3

    @property
    def block_bytes(self) -> int:
        """The bytes of the input that are read into one chunk."""
        share = self.n_bytes // (4 * _CHUNK_FACTOR * (self.threads + 3))
        return min(_MOST_BLOCK_BYTES, max(_FEWEST_BLOCK_BYTES, share))

    @property
    def range_edges(self) -> int:
        """The edges whose rows are made at a time."""
        share = self.n_bytes // (4 * _RANGE_EDGE_BYTES * (self.threads + 3))
        return min(_MOST_RANGE_EDGES, max(_FEWEST_RANGE_EDGES, share))

    @property
    def parts_in_flight(self) -> int:
        """The parts of the store that are written while the next one is filled; each is up to 192 MiB.

        A core writes a part several times as fast as it makes the rows. More parts would take new memory in vain.
        """
        return min(max(1, self.threads // 3), _MOST_PARTS, self.n_bytes >> 30)
