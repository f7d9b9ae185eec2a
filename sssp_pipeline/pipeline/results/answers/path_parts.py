"""What the batches of a run sum along paths: their parts are merged, and a table is compared with its sources.

A part has the words of `kernels/contract/path_sums_asked.py`. They are integers, so the order of merging changes
nothing. `docs/design/0035-along-the-paths.md` has the idea.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
from sssp_pipeline.pipeline.results.folder.run_files import AGAIN, VERTICES_FILE, paths_part
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
    n_places, part_bytes = asked.n_places(traits.n_vertices, traits.n_edges), asked.word_bytes(traits)
    words = np.zeros((n_places, 4 if asked.squares else 2), np.uint64)
    ends = np.linspace(0, n_places, max(1, part_bytes // _RANGE_BYTES) + 1).astype(int).tolist()
    with ThreadPoolExecutor(min(len(ends) - 1, usable_cores()), "sssp-merge") as pool:
        for batch, sources in enumerate(batches):
            add = partial(_add_range, words, folder.path(paths_part(batch)), part_bytes, asked, len(sources))
            deque(pool.map(add, ends, ends[1:]), maxlen=0)  # raises what a thread raised
            progress.advance(batch + 1, len(batches), "batches")
    return words


def _add_range(
    words: np.ndarray, url: str, part_bytes: int, asked: PathSumsAsked, n_sources: int, first: int, end: int
) -> None:
    """Add the places `first` to `end` - 1 of the part at `url`, which has `part_bytes` and sums over `n_sources`."""
    place_bytes = np.dtype("<u8").itemsize * asked.n_words
    # The last range is read to the end of the file, which may be too long.
    found = files.read_range(url, first * place_bytes, None if end == len(words) else end * place_bytes)
    if len(found) != (end - first) * place_bytes:
        raise InputError(
            f"`{files.redacted(url)}` has {len(files.read_bytes(url))} bytes, not {part_bytes}", hint=AGAIN
        )
    part = np.frombuffer(found, "<u8").reshape(-1, asked.n_words)
    if asked.squares_groups:
        add_group(words[first:end], part, n_sources)
    else:
        add_words(words[first:end], part)


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
