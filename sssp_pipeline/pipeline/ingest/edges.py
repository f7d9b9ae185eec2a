"""Edges: the edges with one weight after they were read. Their rows are made range by range.

Memory holds the edges of a few ranges of vertices at a time, whatever the size of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise

import numpy as np

from sssp_pipeline.base.compile_children import wait_for
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.base.scratch import Scratch
from sssp_pipeline.base.vertex_ids import VertexIds
from sssp_pipeline.pipeline.formats.edge_list import Coordinates
from sssp_pipeline.pipeline.formats.reading import Reading
from sssp_pipeline.pipeline.graph_store.manifest import Cleaning, Counts
from sssp_pipeline.pipeline.ingest.components import KeptVertices
from sssp_pipeline.pipeline.ingest.ids.id_mapping import EVERYWHERE
from sssp_pipeline.pipeline.ingest.input import (
    BOTH_WAYS,
    LEAST_LISTED,
    SAMPLE_EDGES,
    complete_reading,
    may_be_undirected,
)
from sssp_pipeline.pipeline.ingest.job import Given, Job
from sssp_pipeline.pipeline.ingest.rows import reverses, sorted_rows
from sssp_pipeline.pipeline.ingest.rows.compile_ahead import GATHERING, ROWS
from sssp_pipeline.pipeline.ingest.rows.edge_runs import EdgeRun, EdgeRuns, limits_between
from sssp_pipeline.pipeline.ingest.weight_types import WeightRange, WeightType, default_weight
from sssp_pipeline.storage import files

#: The first rows, up to this many edges, are made once more to see whether one of these edges has its reverse.
_MOST_LISTED = 1 << 20


@dataclass(frozen=True)
class Range:
    """Consecutive vertices, whose rows are made together."""

    #: A range of codes that has the codes of all these vertices.
    codes: tuple[int, int]
    #: The first vertex, and the first one behind the range.
    vertices: tuple[int, int]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of consecutive vertices, as in a `CsrGraph`."""

    #: The first vertex.
    first: int
    #: (R+1,) int64 from 0.
    row_offsets: np.ndarray
    #: (E,) uint32 and (E,).
    col_indices: np.ndarray
    weights: np.ndarray
    #: As `reverses.reverse_difference` makes it; None if an edge without a reverse is known.
    reverse_difference: int | None

    def ends(self, edge: int) -> tuple[int, int]:
        """Return the ends of the edge with this index."""
        source = int(np.searchsorted(self.row_offsets, edge, side="right")) - 1
        return self.first + source, int(self.col_indices[edge])


def joined_rows(made: Sequence[Rows]) -> Rows:
    """Return consecutive rows as one."""
    degrees = np.concatenate([np.diff(rows.row_offsets) for rows in made])
    return Rows(
        made[0].first,
        np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)]),
        np.concatenate([rows.col_indices for rows in made]),
        np.concatenate([rows.weights for rows in made]),
        reverses.sum_of_differences(rows.reverse_difference for rows in made),
    )


@dataclass(eq=False)
class EdgesSeen:
    """What is known of the edges that were read so far."""

    seen: WeightRange = field(default_factory=WeightRange)
    n_loops: int = 0
    #: The first edges.
    sample: list[tuple] = field(default_factory=list)

    def add(self, later: EdgesSeen) -> None:
        """Take the next edges into account."""
        self.seen.merge(later.seen)
        self.n_loops += later.n_loops
        self.sample += later.sample[: SAMPLE_EDGES - len(self.sample)]


@dataclass(frozen=True, eq=False)
class EdgeFacts:
    """What is known of all edges before their rows are made."""

    found: EdgesSeen
    vertex_ids: VertexIds
    weight_type: WeightType
    coordinates: Coordinates | None = None


@dataclass(eq=False)
class ReadEdges:
    """The edges with one weight after they were read; `rows` makes their rows, as long as the spill is open."""

    job: Job
    given: Given
    runs: list[EdgeRun]
    facts: EdgeFacts
    #: The vertices that are kept; None if all are.
    kept: KeptVertices | None = None
    #: These are complete when all rows were made.
    _n_edges: int = 0
    _n_dropped: int = 0
    #: The sum of the differences of the rows, and of the kept rows; None if an edge without a reverse is known.
    _reverse_difference: int | None = 0
    _kept_difference: int | None = None

    @cached_property
    def vertex_ids(self) -> VertexIds:
        """The ids of the kept vertices."""
        ids = self.facts.vertex_ids
        return ids if self.kept is None else self.kept.ids(ids)

    @cached_property
    def coordinates(self) -> Coordinates | None:
        """The coordinates of the kept vertices."""
        xy = self.facts.coordinates
        if xy is None or self.kept is None:
            return xy
        return xy[0][self.kept.vertices], xy[1][self.kept.vertices]

    def ranges(self, edges_a_range: int, within: Range | None = None) -> Iterator[Range]:
        """Give ranges of about `edges_a_range` edges, and at most 4 times as many vertices, in ascending order.

        They divide the range `within`, or all vertices.
        """
        if within is None:
            within = Range((0, 2**32), (0, self.facts.vertex_ids.n_vertices))
        limits = limits_between(self.runs, edges_a_range)
        limits = limits[(limits > within.codes[0]) & (limits < within.codes[1])]
        vertices = limits.astype(np.uint32)
        if not self.job.ids.has_chunks:
            vertices = self.job.ids.vertices(vertices, EVERYWHERE)
        vertices = np.clip(vertices, *within.vertices)
        codes = pairwise([within.codes[0], *limits.tolist(), within.codes[1]])
        bounds = pairwise([within.vertices[0], *vertices.tolist(), within.vertices[1]])
        for between, (begin, end) in zip(codes, bounds, strict=True):
            # A range of many vertices with few edges is divided again.
            for first in range(begin, end, 4 * edges_a_range):
                yield Range(between, (first, min(first + 4 * edges_a_range, end)))

    def rows(self) -> Iterator[Rows]:
        """Give the rows of the kept vertices, range by range in ascending order; raises as `all_rows`."""
        if self.kept is None:
            yield from self.all_rows()
            return
        self._n_dropped = 0
        difference, first, keys = 0, 0, reverses.random_keys()
        for each in self.all_rows():
            rows = self.kept.rows(each.first, each.row_offsets, each.col_indices, each.weights)
            rows_difference = reverses.reverse_difference(first, *rows, keys)
            self._n_dropped += len(each.col_indices) - len(rows[1])
            difference = (difference + rows_difference) % 2**64
            if len(rows[0]) > 1:
                yield Rows(first, *rows, rows_difference)
            first += len(rows[0]) - 1
        self._kept_difference = difference

    def all_rows(self, within: Range | None = None, keys: np.ndarray | None = None) -> Iterator[Rows]:
        """Give the rows of the vertices in the range `within`, or of all, range by range in ascending order.

        `keys` are as for `reverse_difference`; None for new ones.

        Raises
        ------
        InputError
            Two edges have equal ends, and `graph.duplicates` is `error`.
        """
        for group in (GATHERING, ROWS):
            wait_for(group)
        self._n_edges, self._reverse_difference = 0, 0
        job, seen, weight_type = self.job, self.facts.found.seen, self.facts.weight_type
        ranges = self.ranges(job.memory.range_edges, within)
        # Without an edge, a run of an input with weights has none either.
        default = np.zeros(1) if job.edge_list.has_weights else default_weight(job.spec.weights)
        factor = weight_type.factor
        low, high = (round(end * factor) if factor != 1 else end for end in (seen.low, seen.high))
        make = partial(
            self._rows_between,
            table=EdgeRuns(self.runs),
            scratch=Scratch(),
            default=weight_type.stored(default),
            bounds=sorted_rows.Bounds.of(self.facts.vertex_ids.n_vertices, low, high, weight_type.dtype),
            keys=reverses.random_keys() if keys is None else keys,
        )
        for rows in map_in_order(lambda r: make(r.codes, r.vertices), ranges, job.threads):
            self._n_edges += len(rows.col_indices)
            self._reverse_difference = reverses.sum_of_differences(
                (self._reverse_difference, rows.reverse_difference)
            )
            yield rows

    def _rows_between(
        self,
        codes: tuple[int, int],
        vertices: tuple[int, int],
        table: EdgeRuns,
        scratch: Scratch,
        default: np.ndarray,
        bounds: sorted_rows.Bounds,
        keys: np.ndarray,
    ) -> Rows:
        """Return the rows of the vertices [first, last), whose codes are in the range `codes`."""
        job = self.job
        src, dst, weights = table.edges_between(*codes, self.facts.weight_type, default)
        if not job.ids.has_chunks:
            src, dst = job.ids.vertices(src, EVERYWHERE), job.ids.vertices(dst, EVERYWHERE)
        lightest = job.spec.duplicates == "keep-min"
        ways = {"lightest": lightest, "in_order": job.spec.keeps_order}
        arrays = sorted_rows.rows_between(
            *vertices, src, dst, weights, bounds=bounds, scratch=scratch, **ways
        )
        rows = Rows(vertices[0], *arrays, 0)
        if job.spec.duplicates == "error":
            self._refuse_duplicates(rows)
        return replace(rows, reverse_difference=self._reverse_difference_of(rows, keys))

    def _reverse_difference_of(self, rows: Rows, keys: np.ndarray) -> int | None:
        """Return the `reverse_difference` of rows; None if an edge has no reverse."""
        if self.job.adds_reverses:
            return 0
        arrays = rows.row_offsets, rows.col_indices, rows.weights
        # Most graphs with one-way edges have one between two vertices of the first range: then no hashes are needed.
        if self._reverse_difference is None or reverses.first_one_way(*arrays, rows.first) >= 0:
            return None
        return reverses.reverse_difference(rows.first, *arrays, keys)

    def _refuse_duplicates(self, rows: Rows) -> None:
        """Raise `InputError` if two edges of sorted rows have equal ends."""
        e = sorted_rows.first_duplicate(rows.row_offsets, rows.col_indices)
        if e < 0:
            return
        u, v = map(self.facts.vertex_ids.original, rows.ends(e))
        raise InputError(
            f"{self.job.input_name}: the edge from `{u}` to `{v}` is listed twice",
            hint="`graph.duplicates: keep-min` keeps the lighter one, `keep-all` keeps both",
        )

    @property
    def cleaning(self) -> Cleaning | None:
        """What was left out; None if every vertex is kept."""
        if self.kept is None:
            return None
        return Cleaning(
            kept=self.job.spec.vertices,
            vertices_dropped=self.facts.vertex_ids.n_vertices - len(self.kept.vertices),
            edges_dropped=self._n_dropped,
            components=self.kept.n_components,
        )

    @property
    def is_symmetric(self) -> bool:
        """Whether each kept edge has a reverse of the same weight."""
        return self._all_have_reverses or self._kept_difference == 0

    @property
    def _all_have_reverses(self) -> bool:
        return self.job.adds_reverses or self._reverse_difference == 0

    @property
    def counts(self) -> Counts:
        n_read, n_loops = self.facts.found.seen.n_edges, self.facts.found.n_loops
        return Counts(
            edges_read=n_read,
            rows_skipped=self.job.edge_list.skipped.count,
            self_loops_dropped=n_loops if self.job.drops_loops else 0,
            reverses_added=n_read - n_loops if self.job.adds_reverses else 0,
            duplicates_dropped=sum(run.n_edges for run in self.runs) - self._n_edges,
        )

    @property
    def reading(self) -> Reading:
        """How the input was understood."""
        sample, weights = self.facts.found.sample, str(self.facts.weight_type)
        reading = complete_reading(self.job.edge_list, self.given.spec, sample, weights)
        return replace(reading, note=self._note)

    @property
    def _note(self) -> str:
        """Words for the user of a graph that may be undirected: each edge is listed once."""
        n_edges = self.facts.found.seen.n_edges
        may_be = may_be_undirected(self.job.edge_list, self.given.spec, n_edges) and not self.is_symmetric
        if not may_be:
            return ""
        rows = self._first_rows(_MOST_LISTED)
        if reverses.has_both_ways(rows.row_offsets, rows.col_indices):
            return ""
        n_vertices = len(rows.row_offsets) - 1
        if n_vertices == self.facts.vertex_ids.n_vertices:
            return f"no edge has its reverse: {BOTH_WAYS}"
        n_between = int(np.count_nonzero(rows.col_indices < n_vertices))
        if n_between < LEAST_LISTED:
            return ""
        return f"of the {n_between:,} edges between the first vertices none has its reverse: {BOTH_WAYS}"

    def _first_rows(self, most: int) -> Rows:
        """Return the rows of the first vertices that have at most `most` edges. They depend on the graph only."""
        made: list[Rows] = []
        n_edges = 0
        for each in self.rows_again(most):
            made.append(each)
            n_edges += len(each.col_indices)
            if n_edges > most:
                break
        rows = joined_rows(made)
        row_offsets = rows.row_offsets[: np.searchsorted(rows.row_offsets, most, side="right")]
        n_edges = int(row_offsets[-1])
        return replace(
            rows,
            row_offsets=row_offsets,
            col_indices=rows.col_indices[:n_edges],
            weights=rows.weights[:n_edges],
            reverse_difference=None,
        )

    def rows_again(self, edges_a_range: int) -> Iterator[Rows]:
        """Give the rows as `all_rows`, in ranges of about `edges_a_range` edges, each when it is asked for."""
        other = copy(self)  # the sums of this object stay
        for within in self.ranges(edges_a_range):
            yield from other.all_rows(within)

    def check_both_listed(self) -> None:
        """Raise `InputError` if the format lists both directions of every edge, and one of them is missing."""
        if self.job.edge_list.symmetric != "both-listed" or self._all_have_reverses:
            return
        rows = joined_rows(list(self.all_rows()))
        edge = reverses.first_one_way(rows.row_offsets, rows.col_indices, rows.weights)
        u, v = map(self.facts.vertex_ids.original, rows.ends(edge))
        raise InputError(
            f"`{files.redacted(self.given.urls[0])}` lists the edge from `{u}` to `{v}`, but not from `{v}` to `{u}` "
            "with the same weight",
            hint="a METIS graph lists every edge in the lines of both its ends; set `graph.format: text` if each "
            "row is an edge",
        )
