"""What the batches of a run sum along paths: their parts are merged, and a table is compared with its sources.

A part has a bit for each place, and the words of `kernels/contract/path_sums_asked.py` of places whose bit is set: the
paths from some sources may share most of their edges. Words are integers, so the order of merging changes nothing.
`docs/design/0035-along-the-paths.md` has the idea.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels.answers.path_sums import add_packed
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.results.folder.distance_files import opened
from sssp_pipeline.pipeline.results.folder.run_files import AGAIN, UNFINISHED, VERTICES_FILE, paths_part
from sssp_pipeline.storage import files

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder

#: The least bytes of a part that a thread reads and adds.
_RANGE_BYTES = 2**24
#: Parts whose bits are in memory together. A thread adds a range of all of them while its words are in the cache.
_TOGETHER = 16
#: The rows of a ranking in the report.
MOST_RANKED = 10
#: The largest relative difference between the sum of a table and the sum over all sources. Each number is rounded a few
#: times, and 11 times by `_sum`.
_ROUNDING = 2.0**-48
#: Terms that NumPy adds up before `math.fsum` does: that alone takes a tenth of a microsecond for a term.
_SUMMED = 64


def merged_words(
    folder: RunFolder,
    batches: Sequence[np.ndarray],
    asked: PathSumsAsked,
    traits: GraphTraits,
    progress: Progress,
) -> np.ndarray:
    """Return the words (P, W) of all batches together; with the squares of the batches if `asked.squares_groups`.

    Parameters
    ----------
    batches
        The sources (n,) uint32 of each.

    Raises
    ------
    InputError
        A part is damaged.
    """
    n_places = asked.n_places(traits.n_vertices, traits.n_edges)
    words = np.zeros((n_places, 4 if asked.squares else 2), np.uint64)
    n_ranges = max(1, asked.word_bytes(traits) // _RANGE_BYTES)
    # A range begins with a whole byte of bits.
    begins = np.unique(np.linspace(0, n_places, n_ranges, endpoint=False).astype(int) // 8 * 8)
    ends = [*begins[1:].tolist(), n_places]
    sizes = files.file_sizes(folder.path(UNFINISHED))

    def opened_part(batch: int) -> _Part:
        name = paths_part(batch)
        size = sizes.get(name.removeprefix(f"{UNFINISHED}/"), 0)
        return _Part.of(folder.path(name), size, n_places, asked, begins, len(batches[batch]))

    with ThreadPoolExecutor(min(n_ranges, usable_cores()), "sssp-merge") as pool:
        for first in range(0, len(batches), _TOGETHER):
            end = min(first + _TOGETHER, len(batches))
            parts = list(pool.map(opened_part, range(first, end)))
            add = partial(_add_range, words, parts, asked.place_bytes)
            added = pool.map(add, range(len(ends)), begins.tolist(), ends)
            deque(added, maxlen=0)  # raises what a thread raised
            progress.advance(end, len(batches), "batches")
    return words


class _Part(NamedTuple):
    """What is known of a part before its words are read."""

    url: str
    #: (ceil(P / 8),) uint8, as in `PackedWords`.
    bits: np.ndarray
    #: Where the rows of each range of places begin, and the end of the last.
    rows: list[int]
    n_sources: int

    @classmethod
    def of(
        cls, url: str, size: int, n_places: int, asked: PathSumsAsked, begins: np.ndarray, n_sources: int
    ) -> _Part:
        """Read the bits of the part at `url`, whose file has `size` bytes. Ranges begin at the places `begins`."""
        n_bytes = -(-n_places // 8)
        bits = np.frombuffer(_read(url, 0, n_bytes), np.uint8)
        n_present = int(np.sum(np.bitwise_count(bits), dtype=np.int64))
        has_more = n_places % 8 and len(bits) == n_bytes and bits[-1] >> n_places % 8
        if has_more or size != n_bytes + asked.place_bytes * n_present:
            raise InputError(f"`{files.redacted(url)}` is damaged: it has {size} bytes", hint=AGAIN)
        counts = np.add.reduceat(np.bitwise_count(bits), begins // 8, dtype=np.int64) if n_places else [0]
        return cls(url, bits, np.cumsum([0, *counts]).tolist(), n_sources)


def _add_range(
    words: np.ndarray, parts: Sequence[_Part], place_bytes: int, number: int, first: int, end: int
) -> None:
    """Add the places from `first` to before `end` of all `parts`, which are the range with this `number`."""
    for part in parts:
        rows = part.rows[number : number + 2]
        found = _read(part.url, *(len(part.bits) + place_bytes * row for row in rows))
        of_range = np.frombuffer(found, "<u8").reshape(-1, place_bytes // 8)
        add_packed(words[first:end], part.bits[first // 8 : -(-end // 8)], of_range, part.n_sources)


def _read(url: str, first: int, end: int) -> bytes:
    return files.read_range(url, first, end) if first < end else b""  # not each storage reads nothing


def sum_fault(
    folder: RunFolder,
    n_batches: int,
    name: str,
    column: str,
    of_source: str,
    scale: float = 1.0,
    rounding: float = 0.0,
) -> str | None:
    """Return a sentence if the sum of a table is not what the sources say, or None.

    This finds a part that is lost or counted twice, and wrong values. The words of a source add up to its totals, so
    both sums are equal up to rounding.

    Parameters
    ----------
    name, column
        The table, and its column of sums over the sources.
    of_source
        The column of a source with what it adds to all rows of the table, before these are multiplied by `scale`.
    rounding
        The largest relative error of the total of a source.
    """
    batches = [folder.stored_batch(batch) for batch in range(n_batches)]
    of_sources = math.fsum(_sum(_numbers(each, of_source)) for each in batches) * scale
    of_table = _sum(_numbers([folder.stored(name)], column))
    # Not `>`: a number may be NaN.
    if abs(of_table - of_sources) <= max(_ROUNDING, rounding) * min(of_table, of_sources):
        return None
    return f"`{name}`: the sum of {column} is {of_table}, and the sources say {of_sources} (`{of_source}`)"


def _sum(values: np.ndarray) -> float:
    """Return the sum of `values` (n,) float64; no term is rounded more than 11 times."""
    whole = len(values) // _SUMMED * _SUMMED
    sums = (
        values[:whole].reshape(-1, _SUMMED).sum(axis=1)
    )  # of 8 terms each first, which NumPy then adds in pairs
    return math.fsum(np.append(sums, values[whole:]))


def _numbers(stored: Sequence[Any], name: str) -> np.ndarray:
    """Return the column `name` of a file as (n,) float64."""
    with opened(*stored) as file:
        if name not in file.schema_arrow.names:
            raise ValueError(f"it has no column {name}")
        found: np.ndarray = file.read(columns=[name], use_threads=False)[name].to_numpy()
        return found


def most_passed(folder: RunFolder, name: str, columns: Sequence[str]) -> pa.Table:
    """Return the `MOST_RANKED` rows of a table with the largest values, the largest first.

    `columns` are the column of the values, and other columns that the table may have.
    """
    with opened(folder.stored(name)) as file:
        ids = ["vertex"] if name == VERTICES_FILE else ["source", "target"]
        there = [column for column in columns if column in file.schema_arrow.names]
        table = file.read(columns=[*ids, *there], use_threads=False)
    falling = -table[columns[0]].to_numpy()
    place = min(MOST_RANKED, len(falling)) - 1
    large = np.flatnonzero(falling <= np.partition(falling, place)[place]) if len(falling) else np.arange(0)
    return table.take(pa.array(large[np.argsort(falling[large], kind="stable")[:MOST_RANKED]]))
