"""The contract of a layout: how rows of distances are arranged in Parquet files, and how they are read back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.results.folder.distance_files import DistanceFormat, SecondCost
from sssp_pipeline.pipeline.results.folder.run_files import WRITER
from sssp_pipeline.storage.file_sums import StoredFile

if TYPE_CHECKING:
    import pyarrow.parquet as pq

    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract.solver import Solution

#: The id of a source, and what is stored of its row.
StoredRow = tuple[int | str, Any]
StoredRows = Iterator[StoredRow]
Files = Sequence[StoredFile]


@dataclass(frozen=True)
class FilesOfSources:
    """Files that hold some sources of a run together."""

    stored: Files
    #: The ids of these sources, in order.
    sources: pa.Array


@dataclass(frozen=True)
class Block:
    """Some rows of the matrix of all distances of a run."""

    #: Ids of the sources (k,) and of the vertices (n,).
    sources: pa.Array
    vertices: pa.Array
    #: (k * n,) row after row, as they are stored.
    distances: pa.ChunkedArray


@dataclass(frozen=True)
class DistanceLayout(ABC):
    """How rows of distances are arranged in files."""

    form: DistanceFormat
    #: The vertices (n,) uint32 to which a row has distances, in order; None stands for every vertex.
    vertices: np.ndarray | None
    #: What `read` reads: the distances, or the second cost of this name.
    column: str = "distance"

    #: Stands in the identity of runs. Other bytes for the same distances need another value.
    writer: ClassVar[str]
    #: Whether each source has a column, so that some sources of a file are read without the others.
    has_columns: ClassVar[bool] = False
    #: An example of a query in SQL, and the files that `{}` stands for.
    query: ClassVar[str]
    files: ClassVar[str] = "distances/*.parquet"

    def identity(self) -> dict[str, Any]:
        """Return what the identity of a run has of the format and of this layout."""
        return {**self.form.identity(), WRITER: self.writer}

    @property
    def of_costs(self) -> list[DistanceLayout]:
        """For each second cost of `form`, what reads its sums as it reads distances."""
        return [replace(self, form=cost.form(self.form), column=cost.name) for cost in self.form.along]

    def costs_of(self, solution: Solution) -> list[tuple[SecondCost, DistanceFormat, np.ndarray]]:
        """Return each second cost, how it is written, and its sums."""
        costs = self.form.along
        return [(cost, cost.form(self.form), sums) for cost, sums in zip(costs, solution.along, strict=True)]

    def vertex_column(self, ids: VertexIds) -> pa.Array:
        """Return the ids of `vertices`, (n,)."""
        return ids.column() if self.vertices is None else ids.of_targets(self.vertices)

    @property
    def reads_facts(self) -> bool:
        """Whether `write` can use facts that a GPU finds, and packed rows (`kernels/contract/row_facts.py`)."""
        return self.form.unreached is None and self.form.scale is None

    @property
    def reached_only(self) -> bool:
        """Whether `write` needs only what is reached, and takes `Solution.reached`."""
        return False

    @abstractmethod
    def id_bytes(self, n_columns: int, n_sources: int, n_files: int, *, rising: bool) -> int:
        """Return about how many bytes the ids of vertices take in storage; `rising` ids are in order."""

    @abstractmethod
    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        """Write the distances of `solution` from `sources` (S,), a batch, to `handle`.

        Raises
        ------
        UnsolvableError
            `form.unreached` is the distance of a reached vertex; or, in the wide layout, two columns have one name.
        """

    @abstractmethod
    def read(self, stored: Files, places: Sequence[int], ids: VertexIds, dtype: np.dtype) -> StoredRows:
        """Yield the id and the distances of each source at `places` in the files, as they were solved in `dtype`.

        Raises
        ------
        InputError
            A file is damaged, or the ids of its vertices are not the ids of `vertices`.
        """

    @abstractmethod
    def tables(
        self, stored: Files, sources: pa.Array, vertices: pa.Array | None, columns: Sequence[str] | None
    ) -> Iterator[pa.Table]:
        """Yield the stored rows of some `sources` and `vertices`, named by their ids.

        Parameters
        ----------
        vertices
            None means every vertex that is there.
        columns
            Of `source`, `vertex`, `distance`, the second costs and `predecessor`, the ones to read. None means all that
            are there.
        """

    @abstractmethod
    def vertex_ids(self, stored: StoredFile, n: int) -> pa.Array:
        """Return the ids of the vertices in a file; `n` is how many each source has."""

    @abstractmethod
    def blocks(self, files: Sequence[FilesOfSources], n_vertices: int, n_rows: int) -> Iterator[Block]:
        """Yield the matrix of all sources in blocks of up to `n_rows` rows, if it has `n_vertices` columns."""


def groups_with(file: pq.ParquetFile, wanted: Mapping[str, pa.Array | None]) -> Iterator[int]:
    """Yield the row groups that may hold `wanted` ids, by column, as far as their statistics say; None means any."""
    limits = {name: pc.min_max(ids).as_py() for name, ids in wanted.items() if ids is not None}
    places = {name: file.schema_arrow.names.index(name) for name in limits}
    for group in range(file.num_row_groups):
        described = file.metadata.row_group(group)
        for name, limit in limits.items():
            found = described.column(places[name]).statistics
            if limit["min"] is None or (
                found is not None
                and found.has_min_max
                and (found.max < limit["min"] or found.min > limit["max"])
            ):
                break
        else:
            yield group


def check_vertices(stored: pa.ChunkedArray, wanted: pa.Array) -> None:
    """Raise `ValueError` unless a column holds the `wanted` ids (n,); texts may have offsets of another width."""
    if pa.types.is_string(stored.type) and pa.types.is_large_string(wanted.type):
        stored = stored.cast(wanted.type)
    if stored != pa.chunked_array([wanted]):
        raise ValueError("column vertex does not list the expected vertices in order")
