"""Betweenness of a run: its columns of `vertices.parquet`, and `edges.parquet`, made of the parts of the batches.

`docs/design/0035-along-the-paths.md` has the idea.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sssp_pipeline.base.csr import CsrGraph, GraphTraits
from sssp_pipeline.base.error_text import Text, key
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.kernels.answers.path_sums import squares_of, sums_of
from sssp_pipeline.kernels.contract.path_sums_asked import PathSumsAsked
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.results.answers.counted_paths import CountedPaths
from sssp_pipeline.pipeline.results.answers.edge_table import ROWS_A_GROUP, write_edges
from sssp_pipeline.pipeline.results.answers.path_parts import (
    merged_words,
    sum_fault,
)
from sssp_pipeline.pipeline.results.folder.run_files import EDGES_FILE, VERTICES_FILE
from sssp_pipeline.pipeline.results.outputs.vertex_table import Originals

if TYPE_CHECKING:
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
    from sssp_pipeline.workflow.reduce import Reduce

#: The column, and that of its standard error.
BETWEENNESS, ERROR = "betweenness", "standard_error"
#: Columns of a source: how many vertices, and how many edges, its shortest paths pass.
OF_SOURCE = {VERTICES_FILE: "vertices_passed", EDGES_FILE: "edges_passed"}
#: A total of a source over a hierarchy is rounded. Its relative error is at most this.
_ROUNDING_ON_ARCS = 2.0**-36


@dataclass(frozen=True)
class Betweenness:
    """What a run stores of betweenness."""

    vertices: bool
    edges: bool
    endpoints: bool
    #: Whether values of vertices, and of edges, are divided by the number of pairs.
    normalized: bool
    edges_normalized: bool
    #: Whether the sources are drawn from all vertices, so that the values are estimates.
    is_sample: bool
    compression: str
    #: Whether sums are made over a hierarchy, and not along rows: the last digits differ.
    on_hierarchy: bool = False
    #: Whether a GPU makes them over the hierarchy: the last digits differ again.
    on_gpu: bool = False
    #: Which paths count, and how much; None if each counts 1.
    paths: CountedPaths | None = None

    @classmethod
    def asked_by(cls, reduce: Reduce, is_sample: bool, compression: str) -> Betweenness | None:
        """Return what `output.reduce` of a workflow asks for; None if it is no betweenness."""
        over, of_edges = reduce.per_vertex, reduce.per_edge
        with_vertices = over is not None and BETWEENNESS in over.values
        if not with_vertices and of_edges is None:
            return None
        return cls(
            with_vertices,
            of_edges is not None,
            over is not None and over.endpoints,
            over is not None and over.normalized,
            of_edges is not None and of_edges.normalized,
            is_sample,
            compression,
            paths=None if reduce.paths is None else CountedPaths.asked_by(reduce.paths),
        )

    @classmethod
    def recorded(cls, identity: dict[str, Any], compression: str) -> Betweenness:
        """Return what has this `identity`."""
        paths = identity.get("paths")
        found = {**identity, "paths": paths and CountedPaths.recorded(paths)}
        return cls(**found, compression=compression)

    def identity(self) -> dict[str, Any]:
        """Return its part of the identity of a run."""
        # A run along rows, or on a CPU, that counts each path as 1 has the identity that it always had.
        optional = {
            "on_hierarchy": self.on_hierarchy,
            "on_gpu": self.on_gpu,
            "paths": self.paths and self.paths.identity(),
        }
        asked = {key: value for key, value in asdict(self).items() if key not in ("compression", *optional)}
        return asked | {key: value for key, value in optional.items() if value}

    def facts(self) -> Iterator[tuple[str, Any]]:
        """Yield lines of the report."""
        for name, normalized in zip(self.tables, self._normalized, strict=True):
            how = [
                *["with endpoints"] * (self.endpoints and name == VERTICES_FILE),
                *["normalized"] * normalized,
                *["estimated from a sample"] * self.is_sample,
            ]
            yield f"betweenness in {name}", ", ".join(how) or "sum over the sources"
        if self.paths is not None:
            yield "paths count", ", ".join(self.paths.facts())
        over = "over a hierarchy on a GPU" if self.on_gpu else "over a hierarchy"
        yield "paths are summed", over if self.on_hierarchy else "along rows of distances"

    @property
    def asked(self) -> PathSumsAsked:
        """What solvers sum along the paths, without the numbers of each vertex."""
        is_weighted = self.paths is not None and self.paths.is_weighted
        return PathSumsAsked(
            *(self.vertices, self.edges, self.is_sample, self.endpoints),
            on_hierarchy=self.on_hierarchy,
            on_gpu=self.on_gpu,
            is_weighted=is_weighted,
        )

    @property
    def has_decay(self) -> bool:
        """Whether a long path counts less. A hierarchy cannot sum so."""
        return self.paths is not None and self.paths.decay > 0

    @property
    def rounding(self) -> float:
        """The largest relative error of the total of a source."""
        return _ROUNDING_ON_ARCS if self.on_hierarchy else 0.0

    @property
    def columns(self) -> list[str]:
        """The columns of a source, in the order of `PathSumsAsked.n_totals`."""
        return [OF_SOURCE[name] for name in self.tables]

    @property
    def tables(self) -> list[str]:
        """The files that have a column `betweenness`."""
        return [VERTICES_FILE] * self.vertices + [EDGES_FILE] * self.edges

    @property
    def _normalized(self) -> list[bool]:
        """Whether the values of each of `tables` are divided."""
        return [self.normalized] * self.vertices + [self.edges_normalized] * self.edges

    def write(
        self,
        folder: RunFolder,
        batches: Sequence[np.ndarray],
        stored: StoredGraph,
        progress: Progress,
        unit: float,
    ) -> dict[str, pa.Array]:
        """Write `edges.parquet` if it is asked for, and return the columns of the vertices.

        `unit` is that of the sums.

        Raises
        ------
        InputError
            A part is damaged.
        """
        traits, asked = stored.manifest.traits, self.asked
        words = merged_words(folder, batches, asked, traits, progress)
        of_vertices, of_edges = np.split(words, [traits.n_vertices * self.vertices])
        n_sources = sum(map(len, batches))
        n_groups = len(batches) if asked.squares_groups else n_sources
        if self.edges:
            scale = self._scale(EDGES_FILE, traits.n_vertices, n_sources, unit)
            write_edges(
                folder, stored, self.compression, lambda some: estimates(of_edges[some], *scale, n_groups)
            )
        if not self.vertices:
            return {}
        return estimates(
            of_vertices, *self._scale(VERTICES_FILE, traits.n_vertices, n_sources, unit), n_groups
        )

    def _scale(
        self, name: str, n_vertices: int, n_sources: int, unit: float = 1.0
    ) -> tuple[float, int | None, int]:
        """Return three arguments of `estimates` for the table `name`, from sums in this `unit`."""
        is_edges = name == EDGES_FILE
        is_normalized = self.edges_normalized if is_edges else self.normalized
        factor = unit / n_pairs(n_vertices, is_edges or self.endpoints) if is_normalized else unit
        return factor, n_sources if self.is_sample else None, n_vertices

    def fault(self, folder: RunFolder, n_batches: int, n_vertices: int, n_sources: int) -> str | None:
        """Return a sentence on the first table whose sum is not what the sources say, or None."""
        for name in self.tables:
            factor, sample, _ = self._scale(name, n_vertices, n_sources)
            scale = factor if sample is None else n_vertices / sample * factor
            sentence = sum_fault(folder, n_batches, name, BETWEENNESS, OF_SOURCE[name], scale, self.rounding)
            if sentence is not None:
                return sentence
        return None


def n_pairs(n_vertices: int, with_ends: bool) -> int:
    """Return by how many pairs a normalized value is divided; `with_ends` if a path passes its ends too."""
    return max(1, (n_vertices - 1) * (n_vertices if with_ends else n_vertices - 2))


def estimates(
    words: np.ndarray, factor: float, sample: int | None, n_vertices: int, n_groups: int
) -> dict[str, pa.Array]:
    """Return the columns of values that `words` (n, W) have, each times `factor`.

    With a `sample` of so many of `n_vertices`, they are estimates for all, and there is a standard error. It comes from
    `n_groups` random groups of the sample, which may have one source each.
    """
    scale = factor if sample is None else n_vertices / sample * factor
    values, errors = np.empty(len(words)), np.empty(len(words))

    def estimate(first: int) -> None:
        some = slice(first, first + ROWS_A_GROUP)
        totals = sums_of(words[some])
        values[some] = totals * scale
        if sample is not None and sample > 1:
            # This estimates the variance of a source whatever the sizes of the groups.
            variance = np.maximum(squares_of(words[some]) - totals * totals / sample, 0.0) / (n_groups - 1)
            # The sources are drawn without replacement, so the error of a sample of all vertices is 0.
            errors[some] = scale * np.sqrt(variance * sample * (1 - sample / n_vertices))

    with ThreadPoolExecutor(usable_cores(), "sssp-estimates") as pool:
        deque(pool.map(estimate, range(0, len(words), ROWS_A_GROUP)), maxlen=0)  # raises what a thread raised
    if sample is None:
        return {BETWEENNESS: pa.array(values)}
    return {
        BETWEENNESS: pa.array(values),
        ERROR: pa.nulls(len(words), pa.float64()) if sample == 1 else pa.array(errors),
    }


def check_weights(
    traits: GraphTraits, load: Callable[[], CsrGraph], ids: Originals, scale: int | None
) -> None:
    """Raise `InputError` if the shortest paths of a graph are not those along its tight edges.

    `load` returns the graph, whose weights are `scale` times those of the input.
    """
    if traits.n_edges and traits.min_weight <= 0:
        graph = load()
        edge = int(np.argmin(graph.weights > 0))
        start = ids.original(int(np.searchsorted(graph.row_offsets, edge, "right")) - 1)
        end, weight = ids.original(int(graph.col_indices[edge])), graph.weights[edge].item()
        raise InputError(
            f"the edge from `{start}` to `{end}` has weight {weight if scale is None else weight / scale}, "
            "and shortest paths are counted only where all weights are above zero",
            hint="give such edges a small weight, or make one vertex of their ends",
        )
    if (reason := PathSumsAsked.refusal(traits)) is not None:
        hint = Text("give ", key("graph.weights.dtype", "float64"), ", or integers")
        raise InputError(reason, hint=hint)
