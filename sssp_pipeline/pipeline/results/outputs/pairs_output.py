"""The output with a distance for each pair of a file, in the order of the file.

A batch searches some vertices of one end of the pairs, and writes the distances of their pairs to `_run/`. When all
batches are there, the distances go to the places of their pairs, and the files of the run are written in order.
`docs/design/0032-pairs.md` has the idea.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sssp_pipeline.base import csr
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.ordered import map_in_order
from sssp_pipeline.base.progress import Progress, plural
from sssp_pipeline.base.vertex_ids import digest_of
from sssp_pipeline.kernels.contract import kept
from sssp_pipeline.kernels.host.grouped_pairs import GroupedPairs, different, may_go_backward
from sssp_pipeline.kernels.host.kernel_threads import usable_cores
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat, opened
from sssp_pipeline.pipeline.results.folder.run_files import AGAIN, REPAIR, pairs_file, pairs_part
from sssp_pipeline.pipeline.results.layouts.layout import Files, StoredRows
from sssp_pipeline.pipeline.results.outputs.distance_outputs import distance_fault
from sssp_pipeline.pipeline.results.outputs.outputs import Chooser, RowOutput
from sssp_pipeline.storage import file_sums, files
from sssp_pipeline.workflow.pairs import section_of

if TYPE_CHECKING:
    from sssp_pipeline.base.csr import GraphTraits
    from sssp_pipeline.base.vertex_ids import NamedPoints, VertexIds
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.pipeline.graph_store.stored_graph import StoredGraph
    from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
    from sssp_pipeline.workflow.output import Output

#: The pairs of a file, and of a row group.
FILE_ROWS, GROUP_ROWS = 2**22, 2**20
#: The most threads that write files. Each has the columns of a file, some 0.15 GB.
MOST_WRITERS = 4
#: The columns of the files.
SOURCE, TARGET, DISTANCE = "source", "target", "distance"


@dataclass(frozen=True, eq=False)
class PairDistances(RowOutput):
    """A distance for each pair, NULL if there is no path. `words` are `GroupedPairs.words`."""

    name = "pairs"
    has_answers = True
    is_in_input_order = True
    counts_sources = False
    without_distances = "distances of pairs", "`.answers()` returns them as a table"
    input_stays = True

    #: The lengths of the parts of `words`: searched vertices and columns, the latter None for every vertex.
    n_searched: int = 0
    n_kept: int | None = None
    n_pairs: int = 0
    #: Whether the searched vertices are the targets, and how many edges are reversed for that.
    is_backward: bool = False
    n_reversed: int = 0
    #: The digest of `ends`.
    pairs: str = ""
    #: As `ChosenPairs.ends`, and the groups of the pairs. Only the process that finishes the run has them.
    ends: tuple[np.ndarray, np.ndarray] | None = None
    groups: GroupedPairs | None = None

    @classmethod
    def chosen(cls, form: DistanceFormat, spec: Output, choose: Chooser) -> RowOutput:
        given = spec.own["pairs"]
        assert given is not None, "checked as a contradiction"
        spec_of_pairs = section_of(given)
        ends, (sources, targets) = choose.pairs(spec_of_pairs)
        n_vertices = choose.traits.n_vertices
        # Second costs belong to paths from the sources.
        is_backward = not form.along and _is_backward(spec_of_pairs.direction, sources, targets, choose)
        n_reversed = choose.traits.n_edges if is_backward and not choose.is_symmetric else 0
        groups = GroupedPairs.of(sources, targets, n_vertices, is_backward=is_backward)
        del sources, targets  # with points, they are not `ends`
        words = groups.words
        groups = replace(groups, others=words[len(words) - len(groups) :])  # one copy is held
        n_kept = None if groups.columns is None else len(groups.columns)
        facts = (
            len(groups.searched),
            n_kept,
            len(groups),
            is_backward,
            n_reversed,
            digest_of(*ends),
        )
        return cls(form, digest_of(words), words, *facts, ends, groups)

    @classmethod
    def recorded(cls, form: DistanceFormat, identity: dict[str, Any], n_targets: int | None) -> RowOutput:
        asked = identity["pairs"]
        facts = (
            asked["searched"],
            asked["kept"],
            asked["count"],
            asked["direction"] == "backward",
            asked["reversed"],
            asked["digest"],
        )
        return cls(form, asked["groups"], None, *facts)

    def identity(self) -> dict[str, Any]:
        asked = {
            "count": self.n_pairs,
            "digest": self.pairs,
            "direction": "backward" if self.is_backward else "forward",
            "reversed": self.n_reversed,
            "searched": self.n_searched,
            "kept": self.n_kept,
            "groups": self.digest,
        }
        return {**super().identity(), "pairs": asked}

    def without_input(self) -> PairDistances:
        return replace(self, words=None, ends=None, groups=None)

    @property
    def follows_reversed(self) -> bool:
        return self.is_backward

    @property
    def searched(self) -> str:
        return self._ends[0]

    @property
    def _ends(self) -> tuple[str, str]:
        """The column of the searched vertices, and that of the other ends."""
        return (TARGET, SOURCE) if self.is_backward else (SOURCE, TARGET)

    @property
    def searches(self) -> np.ndarray | None:
        return None if self.groups is None else self.groups.searched

    @cached_property
    def _groups(self) -> GroupedPairs:
        assert self.words is not None, "the pairs are read first: `for_solving`, `for_verifying`"
        return GroupedPairs.of_words(self.words, self.n_searched, self.n_kept, self.is_backward)

    @property
    def kept(self) -> kept.KeptOfRow:
        return self._groups.kept

    def n_columns(self, n_vertices: int) -> int:
        return n_vertices if self.n_kept is None else self.n_kept

    def value_bytes(self, n_sources: int, row_bytes: int, weight_dtype: np.dtype) -> int:
        # The distances of the batches wait until the files have them, too.
        del n_sources, row_bytes
        of_pair = sum(
            dtype.itemsize + form.dtype(dtype).itemsize for _, form, dtype in self._values(weight_dtype)
        )
        return self.n_pairs * of_pair

    def id_bytes(self, n_vertices: int, n_sources: int, n_files: int) -> int:
        return self.n_pairs * 2 * 8

    def held_bytes(self, traits: GraphTraits) -> int:
        # A reversed edge has its end and a weight of up to 64 bits, and its start while it is made.
        reversed_bytes = 16 * (self.n_reversed + traits.n_vertices) if self.n_reversed else 0
        return 4 * (2 * self.n_searched + (self.n_kept or 0) + self.n_pairs) + reversed_bytes

    # ---- batches ----

    def batch_file(self, batch: int) -> str | None:
        return pairs_part(batch)

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        for rows in (solution.distances, *solution.along):
            handle.write(self._groups.gather(self._groups.place(sources[0]), rows))

    def _values(self, weight_dtype: np.dtype) -> list[tuple[str, DistanceFormat, np.dtype]]:
        """Return the columns of numbers: the name, how it is written, and the type in which it was solved."""
        costs = [(cost.name, cost.form(self.form), np.dtype(cost.dtype)) for cost in self.form.along]
        return [(DISTANCE, self.form, weight_dtype), *costs]

    # ---- when all batches are committed ----

    def finish(
        self, folder: RunFolder, batches: Sequence[np.ndarray], stored: StoredGraph, progress: Progress
    ) -> None:
        assert self.groups is not None, "the run was planned in this process"
        assert self.ends is not None, "as the groups"
        progress.stage("merge")
        values = self._values(stored.manifest.traits.weight_dtype)
        solved = [np.empty(self.n_pairs, dtype) for _, _, dtype in values]
        for batch, searched in enumerate(batches):
            place = self.groups.place(searched[0])
            for into, part in zip(solved, _read_part(folder, batch, values), strict=True):
                self.groups.scatter(place, part, len(searched), into)
            progress.advance(batch + 1, len(batches), "batches")
        ids, ends = folder.named_ids(stored.ids, folder.identity), self.ends

        def write_file(number: int) -> file_sums.FileSum:
            some = slice(number * FILE_ROWS, (number + 1) * FILE_ROWS)
            columns = {SOURCE: _names(ends[0][some], SOURCE, ids), TARGET: _names(ends[1][some], TARGET, ids)}
            for (name, form, _), of_pairs in zip(values, solved, strict=True):
                columns[name] = form.column(of_pairs[some])
            options = {"row_group_size": GROUP_ROWS, "compression": self.form.compression}
            return folder.written_table(pairs_file(number), pa.table(columns), **options)

        n_files = -(-self.n_pairs // FILE_ROWS)
        written = map_in_order(write_file, iter(range(n_files)), min(usable_cores(), MOST_WRITERS))
        for number, summed in enumerate(written):
            folder.sums[pairs_file(number)] = summed
            progress.advance(number + 1, n_files, "files")

    # ---- verdicts ----

    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        """Yield each searched vertex at `places` among all of the run, and its `_PairsOfVertex`.

        Raises
        ------
        InputError
            The files do not have the pairs of such a vertex.
        """
        searched, wanted = self._groups.searched[list(places)], [self._groups.others_of(p) for p in places]
        start, other = self._ends
        # `which` of the searched vertices has each of `names`. Several points may stand for one vertex.
        names, which = ids.originals(searched), np.arange(len(searched))
        if (points := _points_of(start, ids)) is not None:
            there = np.flatnonzero(np.isin(points.vertices, searched))
            names, which = points.ids.take(pa.array(there)), np.searchsorted(searched, points.vertices[there])
        values = self._values(dtype)
        found = [_PairsOfVertex([[] for _ in values], {SOURCE: [], TARGET: []}) for _ in places]
        n_found = np.zeros_like(places)
        for rows in _row_groups(stored):
            at = pc.index_in(rows[start].cast(names.type), value_set=names)
            rows, numbers = rows.filter(at.is_valid()), which[at.drop_null().to_numpy()]
            for number in np.unique(numbers).tolist():
                of_vertex = rows.filter(pa.array(numbers == number))
                begin, n_found[number] = n_found[number], n_found[number] + len(of_vertex)
                vertices = {
                    start: np.full(len(of_vertex), searched[number]),
                    other: wanted[number][begin : n_found[number]],
                }
                for end, parts in found[number].ends.items():
                    parts.append(_checked(of_vertex[end], end, vertices[end], ids))
                for (column, form, kind), parts in zip(values, found[number].values, strict=True):
                    parts.append(form.as_solved(of_vertex[column], kind))
        for number, name in enumerate(ids.originals(searched).to_pylist()):
            is_there = n_found[number] == len(wanted[number])
            if not is_there or any(part is None for parts in found[number].ends.values() for part in parts):
                raise InputError(
                    f"`{files.redacted(stored[0].url)}` and the files after it have not the pairs of `{name}` "
                    "that the run was asked for",
                    hint=REPAIR,
                )
            yield name, found[number]

    def difference(self, source: int | str, stored: Any, true: Solution, ids: VertexIds) -> str | None:
        place = self._groups.place(ids.vertices([source], "source")[0])
        solved = true.distances, *true.along
        for (name, form, _), rows, parts in zip(
            self._values(true.distances.dtype), solved, stored.values, strict=True
        ):
            exact, there = self._groups.gather(place, rows), np.concatenate(parts)
            wrong = np.flatnonzero(exact != there)
            if not len(wrong):
                continue
            first = wrong[:1]
            source, target = (
                _names(np.concatenate(parts)[first], end, ids)[0].as_py()
                for end, parts in stored.ends.items()
            )
            unreached = csr.unreached_distance(exact.dtype)
            found, wanted = (
                None if d == unreached else d for d in (there[first].item(), exact[first].item())
            )
            what = name if name == DISTANCE else f"`{name}`"
            return distance_fault(source, target, found, wanted, form.scale, what)
        return None

    # ---- words ----

    def covered(self, n_vertices: int) -> str:
        return f"the ends of {plural(self.n_pairs, 'pair')}"

    def facts(self) -> Iterator[tuple[str, Any]]:
        yield "pairs", f"{self.n_pairs:,}"
        yield "searched from", plural(self.n_searched, "target" if self.is_backward else "source")


class _PairsOfVertex(NamedTuple):
    """What is stored of the pairs of a searched vertex, in their order, in parts."""

    #: The parts of each column of numbers, as they were solved.
    values: list[list[np.ndarray]]
    #: As `ChosenPairs.ends`; None for a part that has other vertices than the run was asked for.
    ends: dict[str, list[np.ndarray | None]]


def _row_groups(stored: Files) -> Iterator[pa.Table]:
    for each in stored:
        with opened(each) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, use_threads=False)


def _points_of(end: str, ids: VertexIds) -> NamedPoints | None:
    """Return the points that the pairs have at an end, "source" or "target"."""
    return ids.points_of_pairs[(SOURCE, TARGET).index(end)]


def _names(found: np.ndarray, end: str, ids: VertexIds) -> pa.Array:
    """Return the ids of an end of some pairs, which `found` has as `ChosenPairs.ends`."""
    points = _points_of(end, ids)
    return ids.originals(found) if points is None else points.ids.take(pa.array(found))


def _checked(names: pa.ChunkedArray, end: str, vertices: np.ndarray, ids: VertexIds) -> np.ndarray | None:
    """Return an end of some pairs, as `ChosenPairs.ends`; None if `names` are not those of `vertices` (n,) uint32."""
    if (points := _points_of(end, ids)) is None:
        wanted = ids.originals(vertices)
        return vertices if names.combine_chunks().cast(wanted.type).equals(wanted) else None
    found = points.find_column(names.combine_chunks())
    is_right = (found >= 0).all() and np.array_equal(points.vertices[found], vertices)
    return found.astype(np.uint32) if is_right else None


def _is_backward(direction: str, sources: np.ndarray, targets: np.ndarray, choose: Chooser) -> bool:
    """Return whether to search from the targets; raise `InputError` if that is asked for and gives other bits."""
    if not may_go_backward(choose.traits):
        if direction == "backward":
            kind = (
                "negative weights" if choose.traits.weight_dtype.kind != "f" else choose.traits.weight_dtype
            )
            raise InputError(
                f"`output.pairs.direction` is `backward`, and the graph has {kind}",
                hint="searches backward need integer weights of zero or more: remove `direction`",
            )
        return False
    if direction != "auto":
        return direction == "backward"
    n_sources, n_targets = (len(different(ends, choose.traits.n_vertices)) for ends in (sources, targets))
    # A symmetric graph is its own reverse. Any other one is reversed, in each process.
    return n_targets < n_sources if choose.is_symmetric else 2 * n_targets <= n_sources


def _read_part(
    folder: RunFolder, batch: int, values: Sequence[tuple[str, DistanceFormat, np.dtype]]
) -> list[np.ndarray]:
    """Return the columns `values` that a batch wrote; raise `InputError` if the file is missing or damaged."""
    name = pairs_part(batch)
    content = files.read_bytes(folder.path(name))
    found = file_sums.FileSum(len(content), file_sums.crc32_of([content]))
    if (fault := file_sums.fault_of(found, folder.commit(batch).files[name])) is not None:
        raise InputError(f"`{files.redacted(folder.path(name))}` {fault}", hint=AGAIN)
    dtypes = [dtype.newbyteorder("<") for _, _, dtype in values]
    n_pairs = len(content) // sum(dtype.itemsize for dtype in dtypes)
    begins = np.cumsum([0, *(n_pairs * dtype.itemsize for dtype in dtypes)]).tolist()
    return [
        np.frombuffer(content, dtype, n_pairs, begin) for dtype, begin in zip(dtypes, begins, strict=False)
    ]
