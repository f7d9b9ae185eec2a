"""Rows of distances as column chunks: what is in memory is what the file holds, whatever the layout."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sssp_pipeline.base import csr
from sssp_pipeline.kernels.contract import row_facts
from sssp_pipeline.kernels.contract.row_facts import RowFacts
from sssp_pipeline.parquet import compaction, pages
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of distances as they are written, before unreached ones become NULL or something else."""

    #: (S, n), packed if `facts` says so.
    values: np.ndarray
    form: DistanceFormat
    #: Of segments of `row_facts.SEGMENT` vertices. Without remainders if a GPU did not find them.
    facts: RowFacts

    @staticmethod
    def of(values: np.ndarray, form: DistanceFormat, facts: RowFacts | None) -> Rows:
        """Return the rows `values` (S, n) as they were solved, with the `facts` that a GPU found, if it did."""
        if facts is not None:
            return Rows(values, form, facts)
        values = form.as_written(values)
        # Threads that write take turns in Python, so all rows are read by two calls for each segment. `reduceat` needs
        # only two calls, and does not let other threads run.
        begins = range(0, values.shape[1], row_facts.SEGMENT)
        segments = [values[:, begin : begin + row_facts.SEGMENT] for begin in begins]
        least, largest = (
            np.stack([find(segment, axis=1) for segment in segments], axis=1) for find in (np.min, np.max)
        )
        return Rows(values, form, row_facts.RowFacts(least, largest, None))

    def chunk(self, some: slice, vertices: slice) -> pages.Chunk:
        """Return the chunk with the distances from `some` sources to some `vertices`, which are whole segments.

        Raises `UnsolvableError` if `form.unreached` is the distance of a reached vertex.
        """
        segments = slice(vertices.start // row_facts.SEGMENT, -(-vertices.stop // row_facts.SEGMENT))
        facts, compression = self.facts.part(some, segments), self.form.compression
        # In memory they follow each other: there is one source, or all vertices of each.
        row = self.values[some, vertices].reshape(-1)
        lengths = np.tile(self.lengths[segments], len(facts.least))
        if facts.bits is not None:
            return _packed_chunk(row, facts, lengths, compression)
        limits = facts.least.min(), facts.largest.max()
        # "Unreached" is the largest value of each type.
        unreached = csr.unreached_distance(row.dtype)
        if self.form.unreached is not None:
            return pages.plain_chunk(self.form.with_stand_in(row), compression)
        if limits[1] == unreached:
            return pages.plain_chunk(row, compression, null=unreached)
        if facts.remainders is None:
            return pages.plain_chunk(row, compression, pages.Known(limits))
        known = pages.Known(limits, facts.remainders.ravel(), 8 * row.itemsize * lengths)
        return pages.plain_chunk(row, compression, known)

    @cached_property
    def lengths(self) -> np.ndarray:
        """The values of each segment, (K,) int64."""
        n_columns = self.values.shape[1]
        return np.diff(np.append(np.arange(0, n_columns, row_facts.SEGMENT), n_columns))


def _packed_chunk(row: np.ndarray, facts: RowFacts, lengths: np.ndarray, compression: str) -> pages.Chunk:
    """Return the chunk of the packed values `row` (n,) with `facts` about its segments, which have `lengths` (k,)."""
    assert facts.n_present is not None, "packed rows have it"
    assert facts.remainders is not None, "a GPU that packs finds them"
    assert facts.bit_remainders is not None, "a GPU that packs finds the remainders of the bits"
    n_present = facts.n_present.ravel().astype(np.int64)
    begins = row.itemsize * (np.cumsum(lengths) - lengths)
    content, ends = row.data.cast("B"), begins + row.itemsize * n_present
    present = [content[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    bits, known, scratch = np.empty(0, np.uint8), None, None
    remainders, n_bits = facts.remainders.ravel(), 8 * row.itemsize * n_present
    if (n_values := int(np.sum(n_present))) < len(row):
        scratch = compaction.scratch_of(compaction.joined_bytes(len(row)))
        bits = compaction.joined_bits(facts.bits, n_present, lengths, scratch)
        # Zeros fill the last byte.
        remainders = np.concatenate([facts.bit_remainders.ravel(), np.zeros(1, np.uint32), remainders])
        n_bits = np.concatenate([lengths, [-len(row) % 8], n_bits])
    if (has_values := n_present > 0).any():
        limits = facts.least.ravel()[has_values].min(), facts.largest.ravel()[has_values].max()
        known = pages.Known(limits, remainders, n_bits)
    return pages.packed_chunk(present, n_values, len(row), bits, compression, known, scratch)
