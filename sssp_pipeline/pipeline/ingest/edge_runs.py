"""Edge runs: the edges of each chunk, grouped by source, from which the edges of any range of sources are read.

This is an external sort: each chunk is grouped where it was parsed, and the rows of a range of vertices are made from
the groups that all runs have in this range. Memory holds where the groups of each run begin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sssp_pipeline.pipeline.ingest.csr_build import bits_of, grouped_by_source
from sssp_pipeline.pipeline.ingest.id_mapping import EVERYWHERE, IdCollector
from sssp_pipeline.pipeline.ingest.spill import Kept, Spill


@dataclass(frozen=True, eq=False)
class EdgeRun:
    """The edges of a chunk, in groups by ascending source; in each group they have the order of the input."""

    #: (n,) uint32; codes of `IdCollector`, or vertices.
    src: Kept
    dst: Kept
    #: (n,), or None if the chunk has no weights.
    weights: Kept | None
    #: (G,) int64 ascending; no source of a group is smaller.
    limits: np.ndarray
    #: (G + 1,) int64; the edges of group `g` are `starts[g]:starts[g + 1]`.
    starts: np.ndarray
    #: The chunk in which the codes are valid.
    chunk: int

    def groups_between(self, first: int, last: int) -> tuple[int, int]:
        """Return the positions of the groups that may have sources in [first, last)."""
        begin = max(0, int(np.searchsorted(self.limits, first, "right")) - 1)
        end = int(np.searchsorted(self.limits, last, "left"))
        return int(self.starts[begin]), int(self.starts[max(begin, end)])


def keep_run(
    spill: Spill,
    ends: tuple[np.ndarray, np.ndarray, int],
    weights: np.ndarray | None,
    *,
    drop_loops: bool,
    add_reverses: bool,
) -> tuple[EdgeRun, int]:
    """Keep the edges of a chunk as a run, and return it with the number of self-loops; raises as `Spill.keep`.

    Parameters
    ----------
    ends
        What `IdCollector.add` returned.
    weights
        (n,), or None.
    drop_loops, add_reverses
        Whether self-loops are left out, and whether the reverse of each other edge is added.
    """
    given = np.empty(0, np.uint8) if weights is None else weights
    src, dst, bits, starts, low, shift, loops = grouped_by_source(
        *ends[:2], bits_of(given), drop_loops, add_reverses
    )
    limits = int(low) + (np.arange(len(starts) - 1) << int(shift))
    kept = None if weights is None else spill.keep(bits.view(given.dtype))
    return EdgeRun(spill.keep(src), spill.keep(dst), kept, limits, starts, ends[2]), loops


def with_vertices(run: EdgeRun, ids: IdCollector) -> EdgeRun:
    """Return a run whose codes are replaced, in their place, by vertices; raises as `Spill.keep`."""
    for kept in (run.src, run.dst):
        kept.write(0, ids.vertices(kept.read(), run.chunk))
    limits = ids.vertices(run.limits.astype(np.uint32), run.chunk).astype(np.int64)
    return replace(run, limits=limits, chunk=EVERYWHERE)


def limits_between(runs: list[EdgeRun], edges_a_range: int) -> np.ndarray:
    """Return ascending sources (k,) int64 that divide the edges into ranges of about `edges_a_range`."""
    limits = np.concatenate([np.empty(0, np.int64), *(run.limits for run in runs)])
    n_edges = np.concatenate([np.empty(0, np.int64), *(np.diff(run.starts) for run in runs)])
    order = np.argsort(limits, kind="stable")
    total = np.cumsum(n_edges[order])
    cuts = np.searchsorted(total, np.arange(edges_a_range, total[-1] if len(total) else 0, edges_a_range))
    found = np.unique(limits[order][cuts])
    return found[found > 0]


def edges_between(
    runs: list[EdgeRun], first: int, last: int, dtype: np.dtype, default: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sources, targets and weights of all edges with a source in [first, last), and of some others.

    The weights have the type `dtype`. Those of a run without weights are `default`, (1,).
    """
    places = [run.groups_between(first, last) for run in runs]
    n = sum(end - begin for begin, end in places)
    src, dst, weights = np.empty(n, np.uint32), np.empty(n, np.uint32), np.empty(n, dtype)
    at = 0
    for run, (begin, end) in zip(runs, places, strict=True):
        if begin == end:
            continue
        here = slice(at, at + end - begin)
        src[here], dst[here] = run.src.read(begin, end), run.dst.read(begin, end)
        given = default if run.weights is None else run.weights.read(begin, end)
        if dtype.kind == "f":
            # The same weight may be an integer in one chunk and a decimal in another. Both go through float64, so
            # that both are rounded in the same way.
            given = given.astype(np.float64)
        np.copyto(weights[here], given, casting="unsafe")
        at = here.stop
    return src, dst, weights
