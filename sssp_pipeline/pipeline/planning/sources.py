"""The sources and targets of a run: `sources` and `output.targets` of the workflow as vertex numbers.

The choice depends only on the graph and the workflow. So a run that is started again has the same sources and targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from sssp_pipeline.base.csr import CsrGraph
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.numba_cache import njit
from sssp_pipeline.base.progress import plural
from sssp_pipeline.base.vertex_ids import MAX_LISTED, NamedPoints, VertexIds, listed
from sssp_pipeline.storage import files
from sssp_pipeline.workflow.reduce import Amounts
from sssp_pipeline.workflow.vertices import Points, RandomVertices, Sources, Vertices


@dataclass
class Skipped:
    """The ids that `unknown: skip` left out because no vertex has them, and the ids that `repeated: drop` left out."""

    #: How many sources and targets were left out.
    sources: int = 0
    targets: int = 0
    #: The ids in files of amounts.
    vertices: int = 0
    #: The pairs in a file of pairs, and the trips in a table of trips.
    pairs: int = 0
    trips: int = 0
    #: The first `MAX_LISTED` ids of each kind, as text.
    first: dict[str, list[str]] = field(default_factory=dict)
    #: How many ids of each kind were left out because they had been named before.
    repeated: dict[str, int] = field(default_factory=dict)

    def add(self, what: str, unknown: Sequence[int | str]) -> None:
        """Count the ids `unknown`; `what` is "source", "target" or "vertex"."""
        name = {"vertex": "vertices"}.get(what, f"{what}s")
        setattr(self, name, getattr(self, name) + len(unknown))
        first = self.first.setdefault(name, [])
        first += [str(i) for i in unknown[: MAX_LISTED - len(first)]]

    def sentences(self) -> Iterator[str]:
        """Yield a sentence for the log about the ids of each kind that were left out, if there are any."""
        for name, n in self.repeated.items():
            yield f"dropped {plural(n, name[:-1])} that had been named before"
        for name, first in self.first.items():
            n = getattr(self, name)
            one = {"vertices": "vertex"}.get(name, name[:-1])
            why = f"that {'are' if n > 1 else 'is'} not in the graph"
            if name in ("pairs", "trips"):
                why = "with an id that is not known"
            yield f"skipped {plural(n, one)} {why}: {listed(first, n)}"


class Snap(Protocol):
    """Finds the vertices of points, as `Snapper` does."""

    def __call__(self, spec: Points, key: str, what: str, *, needs_ids: bool = False) -> NamedPoints:
        """Return the points in `spec.file`."""
        ...


@dataclass(frozen=True, eq=False)
class VertexSelection:
    """Finds the vertices that a workflow names on a graph."""

    #: The ids of the input, which the workflow uses.
    ids: VertexIds
    #: Returns the graph. It is called only for degrees and reach.
    load: Callable[[], CsrGraph]
    #: Collects the ids that `unknown: skip` and `repeated: drop` leave out.
    skipped: Skipped = field(default_factory=Skipped)
    #: Finds the vertices of points, and collects what it found. Only points need it.
    snap: Snap | None = None

    def sources(self, spec: Sources) -> np.ndarray:
        """Return the sources (S,) uint32: ascending, or with `order: given` in the order of the workflow or its file.

        Points always have the order of their file. Several may stand for the same vertex.

        Raises
        ------
        InputError
            The graph is empty, a source is not in the graph or named twice, or `spec` wants more vertices than there
            are.
        """
        if self.ids.n_vertices == 0:
            problem = "there is nothing to solve: the graph has no vertices"
            raise InputError(problem, hint="check `graph.input`")
        if spec.all:
            return np.arange(self.ids.n_vertices, dtype=np.uint32)
        chosen = self._chosen(spec, "sources")
        is_sorted = spec.order == "ascending" and spec.points is None
        return (np.sort(chosen) if is_sorted else chosen).astype(np.uint32)

    def vertices(self, spec: Vertices, key: str) -> np.ndarray:
        """Return the targets (T,) uint32 that `spec` names, which is at `key` in the workflow.

        They have the order of the workflow or its file. `random` and `top_degree` give ascending order. The
        errors are those of `sources`.
        """
        chosen = self._chosen(spec, key)
        is_drawn = spec.kind in ("random", "top_degree")
        return (np.sort(chosen) if is_drawn else chosen).astype(np.uint32)

    def _chosen(self, spec: Vertices, key: str) -> np.ndarray:
        """Return the vertices that `spec` chooses; `key` is its key in the workflow."""
        what = "source" if key == "sources" else "target"
        ids = self.ids
        if spec.top_degree is not None:
            _check_enough(spec.top_degree, ids.n_vertices, f"`{key}.top_degree`", what)
            degrees = np.diff(self.load().row_offsets)
            # A stable sort puts the lower vertex first among equal degrees.
            return np.argsort(-degrees, kind="stable")[: spec.top_degree]
        if spec.random is not None:
            return _random_vertices(spec.random, key, what, ids.n_vertices, self.load)
        if spec.points is not None:
            assert self.snap is not None, "points are chosen on a stored graph, which has coordinates"
            return self.snap(spec.points, f"{key}.points", what).vertices
        place, named = "", list(ids.typed(spec.ids or ()))
        if spec.file is not None:
            # A file is read by modules that only few runs need.
            from sssp_pipeline.pipeline.planning.vertex_files import IdFile

            place = f"`{files.redacted(spec.file)}`: "
            named = IdFile(key, spec, ids.mapping.type, ids.has).read()
        elif (misfit := ids.misfit(named)) is not None:
            problem, hint = misfit
            raise InputError(f"{what} {problem}", hint=hint)
        return self.known(named, spec, key, place, what)[0]

    def known(
        self, named: Sequence[int | str], spec: Vertices | Amounts, key: str, place: str, what: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the vertices (n,) int64 of the ids `named` that are in the graph, and which of the ids these are.

        Parameters
        ----------
        spec, key
            What names them, and its key in the workflow. `spec.unknown` says what happens to other ids.
        place
            What messages begin with: empty, or the file.
        what
            "source", "target" or "vertex".

        Raises
        ------
        InputError
            An id is not in the graph, or named twice, and `spec` does not leave it out.
        """
        ids = self.ids
        vertices = ids.find(named)
        unknown = [named[i] for i in np.flatnonzero(vertices < 0).tolist()]
        if unknown:
            if spec.unknown == "error":
                error = ids.unknown_error(unknown, len(named), place + what)
                skip = f"`{key}.unknown: skip` leaves out those that are not in the graph"
                is_undecided = spec.file is not None and ids.mapping.type == "string"
                may_be_header = is_undecided and isinstance(spec, Vertices) and spec.header is None
                header = f"if the first line names the column, write `{key}.header: true`; "
                hint = f"{header * (may_be_header and unknown[0] == named[0])}{error.hint}; {skip}"
                if isinstance(spec, Vertices) and spec.file is not None:
                    from sssp_pipeline.pipeline.formats.vertex_files.point_files import points_hint

                    hint = points_hint(spec.file, key) or hint
                raise InputError(error.message, hint=hint)
            if len(unknown) == len(named):
                raise InputError(
                    f"{place}none of the {plural(len(named), what)} is in the graph: {listed(unknown)}",
                    hint=ids.range_hint(),
                )
            self.skipped.add(what, unknown)
        return self._without_repeats(vertices[vertices >= 0], spec, key, place, what), vertices >= 0

    def _without_repeats(
        self, vertices: np.ndarray, spec: Vertices | Amounts, key: str, place: str, what: str
    ) -> np.ndarray:
        """Return the first of each of `vertices`; raise `InputError` if there are others, and `spec` keeps them."""
        unique, firsts, counts = np.unique(vertices, return_index=True, return_counts=True)
        if len(unique) == len(vertices):
            return vertices
        if isinstance(spec, Vertices) and spec.repeated == "drop":
            self.skipped.repeated[f"{what}s"] = len(vertices) - len(unique)
            return vertices[np.sort(firsts)]
        error = _repeats_error(unique, firsts, counts, place, what, self.ids)
        drop = f"; `{key}.repeated: drop` keeps the first of each" if isinstance(spec, Vertices) else ""
        raise InputError(error.message, hint=f"{error.hint}{drop}")


def _repeats_error(
    unique: np.ndarray, firsts: np.ndarray, counts: np.ndarray, place: str, what: str, ids: VertexIds
) -> InputError:
    again = np.flatnonzero(counts > 1)
    again = again[np.argsort(firsts[again])]
    first = ids.names(unique[again[:MAX_LISTED]])
    if len(again) == 1:
        message = f"{place}{what} `{first[0]}` is named {int(counts[again[0]])} times"
    else:
        message = f"{place}{plural(len(again), what)} are named more than once: {listed(first, len(again))}"
    return InputError(message, hint="name each once" if len(again) > 1 else "name it once")


def _check_enough(n_wanted: int, n_vertices: int, key: str, what: str) -> None:
    if n_wanted > n_vertices:
        raise InputError(
            f"{key} asks for {n_wanted} {what}s, but there are {n_vertices}",
            hint=f"ask for at most {n_vertices}",
        )


def _random_vertices(
    spec: RandomVertices, key: str, what: str, n_vertices: int, load: Callable[[], CsrGraph]
) -> np.ndarray:
    """Return the first `count` vertices of a seeded random order that reach at least `min_reach` vertices."""
    _check_enough(spec.count, n_vertices, f"`{key}.random.count`", what)
    keys = _keys_of(spec, n_vertices)
    if spec.min_reach <= 1:
        return _lowest(keys, spec.count)
    order = np.argsort(keys, kind="stable")
    chosen = order[:0]
    if spec.min_reach <= n_vertices:
        graph = load()
        chosen = _reaching(graph.row_offsets, graph.col_indices, order, spec.count, spec.min_reach)
    if len(chosen) < spec.count:
        raise InputError(
            f"`{key}.random` asks for {spec.count} {what}s that reach {spec.min_reach} vertices, "
            f"but there are {len(chosen)}",
            hint="lower `count` or `min_reach`",
        )
    return chosen


def as_drawn(spec: RandomVertices, sources: np.ndarray, n_vertices: int) -> np.ndarray:
    """Return the random `sources` (S,) in the order in which `spec` drew them: any part of it is a random sample."""
    return sources[np.argsort(_keys_of(spec, n_vertices)[sources], kind="stable")]


def _keys_of(spec: RandomVertices, n_vertices: int) -> np.ndarray:
    """Return the keys (V,) uint64 whose order is the random order of the vertices."""
    # The raw stream of PCG64 never changes. NumPy's shuffles may change with a release.
    return np.random.PCG64(spec.seed).random_raw(n_vertices)


def _lowest(keys: np.ndarray, count: int) -> np.ndarray:
    """Return the places of the `count` lowest of `keys`, the lowest first. To sort all keys takes ten times as long."""
    limit = np.partition(keys, count - 1)[count - 1]
    places = np.flatnonzero(keys <= limit)
    return places[np.argsort(keys[places], kind="stable")][:count]


@njit(nogil=True)
def _reaching(
    row_offsets: np.ndarray, col_indices: np.ndarray, order: np.ndarray, count: int, min_reach: int
) -> np.ndarray:
    """Return the first `count` vertices of `order` that reach at least `min_reach` vertices."""
    chosen = np.empty(count, np.int64)
    n_chosen = 0
    seen_by = np.full(len(row_offsets) - 1, -1, np.int64)
    queue = np.empty(min_reach, np.int64)
    for candidate in order:
        if n_chosen == count:
            break
        head, tail = 0, 1
        queue[0] = candidate
        seen_by[candidate] = candidate
        while head < tail and tail < min_reach:
            u = queue[head]
            head += 1
            for e in range(row_offsets[u], row_offsets[u + 1]):
                v = np.intp(col_indices[e])
                if seen_by[v] != candidate:
                    seen_by[v] = candidate
                    queue[tail] = v
                    tail += 1
                    if tail == min_reach:
                        break
        if tail >= min_reach:
            chosen[n_chosen] = candidate
            n_chosen += 1
    return chosen[:n_chosen]
