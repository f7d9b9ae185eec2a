"""Distances as they are written: their type, their unit, and what stands for an unreached vertex. And Parquet files.

`layouts/` says how they are arranged in the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sssp_pipeline.base import csr
from sssp_pipeline.base.errors import InputError, UnsolvableError
from sssp_pipeline.pipeline.formats.arrow_compute import pc
from sssp_pipeline.pipeline.graph_store import units
from sssp_pipeline.pipeline.results.folder.run_files import REPAIR
from sssp_pipeline.storage import files
from sssp_pipeline.storage.file_sums import StoredFile, checked_footer


@dataclass(frozen=True)
class SecondCost:
    """Another weight of the graph, whose sum along the shortest path is a column next to the distances."""

    #: The name of the weight and of the column.
    name: str
    #: The content id of the graph with this weight.
    weights: str
    #: The type of the sums, and the scale of the weight.
    dtype: str
    scale: int | None

    def form(self, of: DistanceFormat) -> DistanceFormat:
        """Return how the sums are written: as distances are, in the unit of this weight."""
        return replace(of, scale=self.scale, along=())


@dataclass(frozen=True)
class DistanceFormat:
    """How distances are written; part of the identity of a run.

    With a `scale`, solved distances are integers, and written distances are float64 in the input's unit (`units`).
    """

    #: A key of `layouts.LAYOUTS`.
    layout: str
    unreached: float | None
    compression: str
    predecessors: bool
    scale: int | None = None
    along: tuple[SecondCost, ...] = ()

    @classmethod
    def recorded(cls, identity: dict[str, Any]) -> DistanceFormat:
        """Return the format from the identity of a run."""
        given = {field.name: identity[field.name] for field in fields(cls) if field.name in identity}
        return cls(**{**given, "along": tuple(SecondCost(**cost) for cost in given.get("along", ()))})

    def identity(self) -> dict[str, Any]:
        """Return its part of the identity of a run."""
        plain = {**asdict(self), "along": [asdict(cost) for cost in self.along]}
        if not self.along:
            del plain["along"]  # as in older runs
        return plain

    def dtype(self, solved: np.dtype) -> np.dtype:
        """Return the type of written distances, if they are solved in the type `solved`."""
        return solved if self.scale is None else np.dtype(np.float64)

    def as_written(self, distances: np.ndarray) -> np.ndarray:
        """Return solved distances in the input's unit, with unreached ones as `csr.unreached_distance` gives them."""
        return distances if self.scale is None else units.distances_in_input_unit(distances, self.scale)

    def in_weights(self, lengths: Sequence[float]) -> tuple[float, ...]:
        """Return `lengths` in the input's unit as limits of solved distances."""
        limits = (units.scaled_limit(length, self.scale) for length in lengths)
        return tuple(limit for limit in limits if limit is not None)

    def column(self, distances: np.ndarray) -> pa.Array:
        """Return solved distances (n,) as they are written, with NULL for "unreached"."""
        missing = distances == csr.unreached_distance(distances.dtype)
        return pa.array(self.as_written(distances), mask=missing)

    def with_stand_in(self, values: np.ndarray) -> np.ndarray:
        """Return written distances with the number `unreached`, which is not None, for unreached vertices.

        Raises
        ------
        UnsolvableError
            It is the distance of a reached vertex.
        """
        missing, stand_in = values == csr.unreached_distance(values.dtype), values.dtype.type(self.unreached)
        if ((values == stand_in) & ~missing).any():
            raise UnsolvableError(
                f"`output.unreached` is {self.unreached}, which is also the distance of a reached vertex",
                hint="choose a number that is no distance, or null",
            )
        return np.where(missing, stand_in, values)

    def as_solved(self, column: pa.ChunkedArray, dtype: np.dtype) -> np.ndarray:
        """Return stored distances as they were solved in `dtype`; unreached ones as `csr.unreached_distance(dtype)`.

        Raises
        ------
        ValueError
            They have another type, or cannot come from weights with this scale.
        """
        written = self.dtype(dtype)
        if column.type != pa.from_numpy_dtype(written):
            raise ValueError(f"distances have type {column.type}, wanted {written}")
        unreached = csr.unreached_distance(written)
        filled: np.ndarray = pc.fill_null(column, pa.scalar(unreached.item(), column.type)).to_numpy()
        if self.unreached is not None:
            filled = np.where(filled == written.type(self.unreached), unreached, filled)
        if self.scale is None:
            return filled
        return units.distances_as_solved(filled, filled == unreached, self.scale, dtype)


def check_unreached(
    unreached: float | None,
    dtype: np.dtype,
    key: str = "output.unreached",
    hint: str = "null writes NULL; a wider or signed `graph.weights.dtype` holds more",
) -> None:
    """Raise `InputError` unless `unreached`, the value of `key`, can stand in a column of `dtype`.

    In `hint`, `{least}` and `{largest}` stand for the limits of the type.
    """
    if unreached is not None and dtype.kind in "iu":
        least, largest = np.iinfo(dtype).min, np.iinfo(dtype).max
        if not (float(unreached).is_integer() and least <= unreached <= largest):
            raise InputError(
                f"`{key}` is {unreached}, which the distances' type {dtype} cannot hold",
                hint=hint.format(least=least, largest=largest),
            )


@contextmanager
def opened(stored: StoredFile) -> Iterator[pq.ParquetFile]:
    """Give a Parquet file; an error in the block is raised as `InputError` that names the file.

    Its length and its footer are compared before Parquet sees them. The footer has the checksum of the pages, and pages
    have checksums too. So whatever part of the file is read, it is what was written.
    """
    url = stored.url
    try:
        with files.open_read(url) as handle:
            footer, fault = checked_footer(handle, stored.sum)
            if fault is not None:
                raise InputError(f"`{files.redacted(url)}` {fault}", hint=REPAIR)
            metadata = pq.read_metadata(pa.BufferReader(footer))
            # On a disk it gains nothing, and its threads may outlive Python.
            ahead = not files.is_local(url)
            yield pq.ParquetFile(handle, metadata=metadata, pre_buffer=ahead, page_checksum_verification=True)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"`{files.redacted(url)}` is damaged: {error}", hint=REPAIR) from error
