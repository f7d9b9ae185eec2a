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
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels.answers.path_sums import add_group, add_words
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.ingest.rows.sorted_rows import sources_of_edges
from sssp_pipeline.pipeline.results.folder.distance_files import opened
from sssp_pipeline.pipeline.results.folder.run_files import AGAIN, UNFINISHED, VERTICES_FILE, paths_part
from sssp_pipeline.pipeline.results.outputs.vertex_table import Originals
from sssp_pipeline.storage import files

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder

#: The least bytes of a part that a thread reads and adds.
_RANGE_BYTES = 2**24
#: Rows of a row group of `vertices.parquet` and `edges.parquet`.
ROWS_A_GROUP = 2**20
#: The rows of a ranking in the report.
MOST_RANKED = 10
#: The largest relative difference between the sum of a table and the sum over all sources. Each number is rounded a few
#: times.
_ROUNDING = 2.0**-48


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
    ends = np.linspace(0, n_places, n_ranges + 1).astype(int).tolist()
    sizes = files.file_sizes(folder.path(UNFINISHED))
    with ThreadPoolExecutor(min(n_ranges, usable_cores()), "sssp-merge") as pool:
        for batch, sources in enumerate(batches):
            name = paths_part(batch)
            url, size = folder.path(name), sizes.get(name.removeprefix(f"{UNFINISHED}/"), 0)
            has_words = _has_words(url, size, n_places, asked)
            counts = [int(np.count_nonzero(has_words[first:end])) for first, end in pairwise(ends)]
            row_ends = np.cumsum([0, *counts]).tolist()
            add = partial(_add_range, words, url, has_words, asked, len(sources))
            deque(pool.map(add, pairwise(ends), pairwise(row_ends)), maxlen=0)  # raises what a thread raised
            progress.advance(batch + 1, len(batches), "batches")
    return words


def _has_words(url: str, size: int, n_places: int, asked: PathSumsAsked) -> np.ndarray:
    """Return which places (P,) bool have words in the part at `url`, whose file has `size` bytes."""
    bits = np.frombuffer(_read(url, 0, _bits_bytes(n_places)), np.uint8)
    has_words = np.unpackbits(bits, count=n_places, bitorder="little").view(np.bool_)
    if size != _bits_bytes(n_places) + asked.place_bytes * np.count_nonzero(has_words):
        raise InputError(f"`{files.redacted(url)}` is damaged: it has {size} bytes", hint=AGAIN)
    return has_words


def _add_range(
    words: np.ndarray,
    url: str,
    has_words: np.ndarray,
    asked: PathSumsAsked,
    n_sources: int,
    places: tuple[int, int],
    rows: tuple[int, int],
) -> None:
    """Add some `places` of the part at `url`, which sums over `n_sources`. Its `rows` have their words."""
    begin = _bits_bytes(len(has_words))
    found = _read(url, *(begin + asked.place_bytes * row for row in rows))
    part = np.frombuffer(found, "<u8").reshape(-1, asked.n_words)
    of_range = words[slice(*places)]
    present = slice(None) if len(part) == len(of_range) else np.flatnonzero(has_words[slice(*places)])
    sums = of_range[present]
    if asked.squares_groups:
        add_group(sums, part, n_sources)
    else:
        add_words(sums, part)
    if len(part) < len(of_range):
        of_range[present] = sums


def _read(url: str, first: int, end: int) -> bytes:
    return files.read_range(url, first, end) if first < end else b""  # not each storage reads nothing


def _bits_bytes(n_places: int) -> int:
    return -(-n_places // 8)


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
    of_sources = math.fsum(math.fsum(_numbers(each, of_source)) for each in batches) * scale
    of_table = math.fsum(_numbers([folder.stored(name)], column))
    # Not `>`: a number may be NaN.
    if abs(of_table - of_sources) <= max(_ROUNDING, rounding) * min(of_table, of_sources):
        return None
    return f"`{name}`: the sum of {column} is {of_table}, and the sources say {of_sources} (`{of_source}`)"


def _numbers(stored: Sequence[Any], name: str) -> np.ndarray:
    """Return the column `name` of a file as (n,) float64."""
    with opened(*stored) as file:
        if name not in file.schema_arrow.names:
            raise ValueError(f"it has no column {name}")
        found: np.ndarray = file.read(columns=[name], use_threads=False)[name].to_numpy()
        return found


def ends_of_edges(graph: CsrGraph, ids: Originals) -> dict[str, pa.Array]:
    """Return the ids of the ends of all edges (E,), in the order of the graph."""
    return {"source": ids.originals(sources_of_edges(graph)), "target": ids.originals(graph.col_indices)}


def most_passed(folder: RunFolder, name: str, columns: Sequence[str]) -> pa.Table:
    """Return the `MOST_RANKED` rows of a table with the largest values, the largest first.

    `columns` are the column of the values, and other columns that the table may have.
    """
    with opened(folder.stored(name)) as file:
        ids = ["vertex"] if name == VERTICES_FILE else ["source", "target"]
        there = [column for column in columns if column in file.schema_arrow.names]
        table = file.read(columns=[*ids, *there], use_threads=False)
    values = table[columns[0]].to_numpy()
    return table.take(pa.array(np.argsort(-values, kind="stable")[:MOST_RANKED]))
