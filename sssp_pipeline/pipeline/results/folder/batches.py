"""The batches of a run folder: each is committed, checked when a run goes on, and read again when all are there."""

from __future__ import annotations

from collections.abc import Container
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Protocol

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.pipeline.results.folder import commits
from sssp_pipeline.pipeline.results.folder.commits import Commit
from sssp_pipeline.pipeline.results.folder.run_files import (
    AGAIN,
    COMMIT,
    OF_PAIRS,
    OURS,
    REPAIR,
    UNFINISHED,
    WIDE,
    batch_file,
    commit_file,
    part_file,
    paths_part,
)
from sssp_pipeline.storage import file_sums, files
from sssp_pipeline.storage.file_sums import FileSum, StoredFile
from sssp_pipeline.storage.records import record_content

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.kernels.contract import packed_words
    from sssp_pipeline.kernels.contract.packed_words import PackedWords
    from sssp_pipeline.kernels.contract.solver import Solution
    from sssp_pipeline.pipeline.results.folder import batch_metrics
    from sssp_pipeline.pipeline.results.folder.batch_metrics import BatchMetrics, Place
else:  # `inspect` needs neither
    np, pa = LazyModule("numpy"), LazyModule("pyarrow")
    batch_metrics = LazyModule("sssp_pipeline.pipeline.results.folder.batch_metrics")
    packed_words = LazyModule("sssp_pipeline.kernels.contract.packed_words")

#: Files that are requested from an object store at a time.
_READERS = 16
#: Tables of metrics that are read before they are joined, and the mean rows of tables that are left as they are.
_GATHERED, _LONG = 1024, 256
#: Arrays that the tables of metrics may share.
_SHARED = 32


class BatchWriter(Protocol):
    """What writes the file of a batch: a `RowOutput`."""

    def batch_file(self, batch: int) -> str | None:
        """Return the path, below the run folder, of the file of a batch; None if it has none."""
        ...

    def write(self, handle: Any, sources: np.ndarray, solution: Solution, ids: VertexIds) -> None:
        """Write what is stored of the rows of `sources` (S,)."""
        ...


class RunBatches:
    """The batches in the run folder at one URL.

    Parameters
    ----------
    url
        Of the folder.
    identity
        That of the run, if it is known. A batch is committed for this run.
    """

    def __init__(self, url: str, identity: dict[str, Any] | None = None) -> None:
        files.filesystem(url)  # raises here for an unknown scheme, with the URL that the user gave
        self.url = url
        self.identity = identity
        #: Length and checksums of each file of results that this object wrote, or that a commit or run.json names.
        self.sums: dict[str, FileSum] = {}

    def path(self, *names: str) -> str:
        """Return the URL of a file in the folder."""
        return files.join(self.url, *names)

    def record(self, name: str) -> dict[str, Any] | None:
        """Return the content of the record in a file of the folder; None if it is missing or damaged."""
        content = files.read_if_there(self.path(name))
        with suppress(ValueError):
            return None if content is None else record_content(content)
        return None

    def stored(self, name: str) -> StoredFile:
        """Return a file of results; raises `InputError` if `sums` does not have it."""
        if name not in self.sums:
            raise InputError(f"`{files.redacted(self.path(name))}` is no file of this run", hint=REPAIR)
        return StoredFile(self.path(name), self.sums[name])

    def batch_path(self, batch: int) -> str:
        """Return the URL of the Parquet file of a batch."""
        return self.path(batch_file(batch))

    def wide_names(self) -> list[str]:
        """Return the files of a wide run of an earlier release, in order: each has all sources. Others have none."""
        return sorted(name for name in self.sums if WIDE.fullmatch(name.rpartition("/")[2]))

    def batch_names(self, batch: int) -> list[str]:
        """Return the names of the files of a batch; of a run of pairs or of `wide_names`, all of them."""
        of_pairs = sorted(filter(OF_PAIRS.fullmatch, self.sums))
        return of_pairs or self.wide_names() or [batch_file(batch)]

    def stored_batch(self, batch: int) -> list[StoredFile]:
        """Return the files of `batch_names`."""
        return [self.stored(name) for name in self.batch_names(batch)]

    def committed(self) -> set[int]:
        """Return the numbers of the committed batches of an unfinished run. Their files are not read."""
        return set(self.commits())

    def commits(self) -> dict[int, datetime | None]:
        """Return the time in UTC at which each batch was committed, None if the storage has no times."""
        return {
            int(found[1]): when
            for name, when in files.file_times(self.path(UNFINISHED)).items()
            if (found := COMMIT.fullmatch(name))
        }

    def commit_batch(
        self,
        batch: int,
        sources: np.ndarray,
        solution: Solution,
        place: Place,
        ids: VertexIds,
        output: BatchWriter,
    ) -> int:
        """Write what a batch has of each vertex, and its file, as far as there is each; then its commit.

        Returns how many bytes were written.
        """
        assert self.identity is not None, "a batch is committed for a run"
        of_batch = ids
        if ids.source_points is not None:
            first = batch * self.identity["batch"]
            of_batch = ids.of_places(np.arange(first, first + len(sources)))
        sums = {}
        if (words := solution.over_sources) is not None:
            part, stored_words = part_file(batch), words.astype("<u8", copy=False)
            sums[part] = file_sums.write_summed(self.path(part), lambda file: file.write(stored_words))
        if (path_words := solution.path_words) is not None:
            part = paths_part(batch)
            sums[part] = file_sums.write_summed(self.path(part), partial(write_present, path_words))
        if (name := output.batch_file(batch)) is not None:
            path = self.path(name)
            sums[name] = file_sums.write_summed(
                path, lambda file: output.write(file, sources, solution, of_batch)
            )
        metrics = batch_metrics.BatchMetrics(place, solution.metrics).to_bytes()
        content = commits.Commit(batch, commits.run_digest(self.identity), sums, metrics).to_bytes()
        files.write_atomic(self.path(commit_file(batch)), content)
        return len(content) + sum(of_file.bytes for of_file in sums.values())

    def commit(self, batch: int) -> Commit:
        """Return the commit of a batch; raises `InputError` if it is missing or damaged."""
        path = self.path(commit_file(batch))
        content = files.read_bytes(path)
        try:
            return commits.Commit.of_bytes(content)
        except ValueError as error:
            raise InputError(f"`{files.redacted(path)}` is damaged: {error}", hint=AGAIN) from error

    def batch_metrics(self, batch: int) -> BatchMetrics:
        """Return the metrics of a committed batch of an unfinished run.

        Raises `InputError` if its commit is missing or damaged.
        """
        return batch_metrics.BatchMetrics.of_bytes(self.commit(batch).metrics)

    def damaged_batches(self, n_batches: int) -> dict[int, tuple[str, str]]:
        """Return for each damaged batch the name of a file and what is wrong with it. All files are read whole."""
        run = commits.run_digest(self.identity or {})
        numbers = sorted(number for number in self.committed() if number < n_batches)

        def fault(batch: int) -> tuple[str, str] | None:
            try:
                commit = self.commit(batch)
            except InputError as error:
                return commit_file(batch), error.message.partition("` ")[2]
            if (commit.run, commit.batch) != (run, batch):
                return commit_file(batch), "is of another run"
            for name, wanted in commit.files.items():
                found = file_sums.fault_of(file_sums.sum_of(self.path(name)), wanted)
                if found is not None:
                    return name, found
            return None

        with ThreadPoolExecutor(_READERS) as readers:
            found = zip(numbers, readers.map(fault, numbers), strict=True)
            return {number: what for number, what in found if what is not None}

    def joined_metrics(
        self, n_batches: int, ids: VertexIds, scale: int | None, column: str = "source"
    ) -> pa.Table:
        """Return the content of `metrics.parquet`, from the commits of all batches. Then `sums` has their files.

        Parameters
        ----------
        ids
            Of the graph.
        scale
            As in `DistanceFormat`.
        column
            The name of the column with the ids from which was searched.
        """
        # Batches share arrays: to touch new memory takes longer than all else here.
        repeat = lru_cache(_SHARED)(batch_metrics.repeated)

        def read(batch: int) -> tuple[pa.Table, dict[str, FileSum]]:
            commit = self.commit(batch)
            stored = batch_metrics.BatchMetrics.of_bytes(commit.metrics)
            sources = pa.array(stored.sources)
            table = batch_metrics.metrics_table(stored.metrics, sources, batch, stored.place, scale, repeat)
            return table, commit.files

        # An object store takes some milliseconds for each request, so several are sent at once. A table takes 18 kB
        # of memory however few rows it has, so tables are joined in groups.
        tables = []
        with ThreadPoolExecutor(1 if files.is_local(self.url) else _READERS) as readers:
            for first in range(0, n_batches, _GATHERED):
                last = min(first + _GATHERED, n_batches)
                group, sums = zip(*readers.map(read, range(first, last)), strict=True)
                joined = pa.concat_tables(group)
                tables.append(joined if len(joined) >= _LONG * len(group) else joined.combine_chunks())
                for of_batch in sums:
                    self.sums |= {n: s for n, s in of_batch.items() if not n.startswith(f"{UNFINISHED}/")}
        table = pa.concat_tables(tables)
        return table.set_column(0, column, ids.of_sources(table["source"].to_numpy()))

    def write_table(self, name: str, table: pa.Table, **options: Any) -> None:
        """Write the Parquet file `name` of the folder, with `options` of `file_sums.write_parquet`."""
        self.sums[name] = self.written_table(name, table, **options)

    def written_table(self, name: str, table: pa.Table, **options: Any) -> FileSum:
        """Do what `write_table` does, and return the sum of the file; `sums` does not have it yet."""
        return file_sums.write_summed(
            self.path(name), lambda file: file_sums.write_parquet(table, file, **options)
        )

    # ---- what readers of the folder see ----

    def check_no_strays(self, known: Container[str] | None) -> None:
        """Raise `InputError` if `distances` has a Parquet file that a reader would count, and that is not `known`.

        `known` are paths below the run folder; None means all that an unfinished run may write.
        """
        for name in files.list_files(self.path("distances")):
            path = f"distances/{name}"
            is_read = name.endswith(".parquet") and not any(part[0] in "._" for part in name.split("/"))
            is_ours = OURS.fullmatch(path) if known is None else path in known
            if is_read and not is_ours:
                raise InputError(
                    f"`{files.redacted(self.path(path))}` is no file of this run, and whoever reads "
                    f"`distances/*.parquet` counts its rows too",
                    hint="move it to another folder",
                )


def write_present(words: np.ndarray | PackedWords, file: Any) -> None:
    """Write the bits and then the words of `PackedWords`, or of all `words` (P, W). `path_parts.py` reads them."""
    for array in packed_words.packed(words):
        file.write(array.astype(f"<u{array.itemsize}", copy=False))
