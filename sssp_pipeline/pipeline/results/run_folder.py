"""The folder of a run: distances batch by batch, metrics, and `run.json`, which commits the run.

The metrics of a batch are written before its distances. The file of distances commits the batch; in a run without
distances, the file of metrics does. A folder with other files and no run is refused. In a folder with a run, only the
files of runs are overwritten or removed. `run_files.py` lists them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sssp_pipeline.errors import InputError
from sssp_pipeline.lazy import LazyModule
from sssp_pipeline.pipeline.results.distance_files import WRITER
from sssp_pipeline.pipeline.results.distance_outputs import VertexDistances
from sssp_pipeline.pipeline.results.outputs import FileOutput, RowOutput, output_kind
from sssp_pipeline.pipeline.results.run_files import (
    BATCH,
    BATCH_METRICS,
    IDENTITY,
    MERGED,
    METRICS_FILE,
    OURS,
    OUTPUT_NOTE,
    OVERWRITE,
    RUN_FILE,
    SNAPPED_FILE,
    STARTED,
    TARGETS,
    TILES,
    UNFINISHED,
    VERTICES_FILE,
    WIDE,
    batch_file,
    batch_metrics_file,
    part_file,
)
from sssp_pipeline.pipeline.storage import files
from sssp_pipeline.progress import Progress, shortened

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sssp_pipeline.kernels.solver import Solution
    from sssp_pipeline.pipeline.results import batch_metrics
    from sssp_pipeline.pipeline.results.batch_metrics import BatchMetrics, Place
    from sssp_pipeline.vertex_ids import VertexIds
else:  # `inspect` needs none of them
    np, pa, pq = LazyModule("numpy"), LazyModule("pyarrow"), LazyModule("pyarrow.parquet")
    batch_metrics = LazyModule("sssp_pipeline.pipeline.results.batch_metrics")

RUN_FORMAT = "sssp-pipeline run"
RUN_VERSION = 1
_RUN_KEYS = ("workflow", "identity", "graph", "sources", "batches", "solver", "verify", "timings", "finished")
#: Files of metrics that are requested from an object store at a time.
_READERS = 16
#: Files of metrics that are joined into one table before the next are read.
_GATHERED = 1024
#: The identity of a run whose files are being removed.
_REMOVED = {"removed": True}


class RunFolder:
    """The run folder at one URL: reads what is committed there, and commits more."""

    def __init__(self, url: str) -> None:
        files.filesystem(url)  # raises here for an unknown scheme, with the URL that the user gave
        self.url = url

    def path(self, *names: str) -> str:
        """Return the URL of a file in the folder."""
        return files.join(self.url, *names)

    def batch_path(self, batch: int) -> str:
        """Return the URL of the Parquet file of a batch."""
        return self.path(batch_file(batch))

    def begin(self, identity: dict[str, Any]) -> bool:
        """Claim the folder for the run with this `identity`; return whether that run is finished already.

        Raises
        ------
        InputError
            The folder holds another run or other files, or cannot be written.
        """
        self.check_ours()
        is_finished = files.exists(self.path(RUN_FILE))
        if is_finished:
            stored = self.read_run()["identity"]
            # Files of an earlier release stay as they are.
            identity = {**identity, WRITER: stored.get(WRITER)}
        elif files.exists(self.path(IDENTITY)):
            stored = _read_object(self.path(IDENTITY), ())
        else:
            stored = _REMOVED
        differ = [
            key for key in sorted(identity.keys() | stored.keys()) if identity.get(key) != stored.get(key)
        ]
        if stored == _REMOVED or (differ and not is_finished and not self.committed()):
            # No batch of the other run is done, or its removal was interrupted: its files must not count for this run.
            self.remove()
            files.write_atomic(self.path(IDENTITY), json.dumps(identity, indent=1).encode())
        elif differ == [WRITER]:
            raise InputError(
                f"`{files.redacted(self.url)}` holds an unfinished run of another release, which writes other bytes",
                hint="finish it with that release, or replace it with `--overwrite`",
            )
        elif differ:
            raise InputError(
                f"`{files.redacted(self.url)}` holds another run: it differs in {', '.join(differ)}",
                hint="choose another `output.path`, or replace that run with `--overwrite`",
            )
        return is_finished

    def check_ours(self) -> None:
        """Raise `InputError` unless the folder holds a run, finished or not, or is empty, or is not there yet.

        Files that a killed process may have left of a run do not count.
        """
        url = files.redacted(self.url)
        if files.is_local(self.url) and os.path.abspath(files.filesystem(self.url)[1]) == "/":  # noqa: PTH100
            raise InputError(
                f"`output.path` is `{url}`, the root of the filesystem",
                hint="name a folder for the results",
            )
        if self._has_run_file() or files.exists(self.path(IDENTITY)):
            return
        foreign = [name for name in files.list_names(self.url) if not self._is_left_over(name)]
        if foreign:
            raise InputError(
                f"`{url}` is not empty and does not hold a run: it has {shortened(foreign)}",
                hint="name an empty or a new folder as `output.path`",
            )

    def _has_run_file(self) -> bool:
        """Return whether there is a `run.json` of a run; raise `InputError` if it cannot be read."""
        if not files.exists(self.path(RUN_FILE)):
            return False
        try:
            content = json.loads(files.read_bytes(self.path(RUN_FILE)))
        except ValueError as error:
            raise InputError(
                f"`{files.redacted(self.path(RUN_FILE))}` is damaged: {error}",
                hint="choose another `output.path`, or remove the folder",
            ) from error
        return isinstance(content, dict) and content.get("format") == RUN_FORMAT

    def _is_left_over(self, name: str) -> bool:
        """Return whether a killed run may have left `name`, an entry of the folder, and no more."""
        if name in ("distances", UNFINISHED):
            below = files.list_files(self.path(name))
            return all(OURS.fullmatch(f"{name}/{file}") and not BATCH.fullmatch(file) for file in below)
        return name == "_lease" or name.startswith(files.TEMP_PREFIX)

    def remove(self) -> None:
        """Remove what runs wrote here, and nothing else. A mark stays, by which `begin` knows the folder.

        If this is interrupted, `begin` continues it.
        """
        files.write_atomic(self.path(IDENTITY), json.dumps(_REMOVED).encode())
        files.remove(self.path(RUN_FILE))  # from here on, `begin` continues an interrupted removal
        ours = [name for name in files.list_files(self.url) if OURS.fullmatch(name) and name != IDENTITY]
        files.remove_files(self.url, ours)
        files.remove_if_empty(self.path("distances"))

    def is_begun(self) -> bool:
        """Return whether the folder holds a run, finished or not."""
        return files.exists(self.path(RUN_FILE)) or files.exists(self.path(IDENTITY))

    def graph(self) -> str | None:
        """Return the content id of the graph of the run in the folder, None where there is no run."""
        if files.exists(self.path(RUN_FILE)):
            graph: str | None = self.read_run()["identity"].get("graph")
            return graph
        if files.exists(self.path(IDENTITY)):
            return _read_object(self.path(IDENTITY), ()).get("graph")
        return None

    def is_merged(self) -> bool:
        """Return whether the wide files of an unfinished run are written."""
        return files.exists(self.path(MERGED))

    def awaits(self, identity: dict[str, Any]) -> bool:
        """Return whether the folder holds the unfinished run with this `identity`."""
        content = files.read_if_there(self.path(IDENTITY))
        return content is not None and json.loads(content) == identity

    def note_start(self, facts: dict[str, Any]) -> None:
        """Store what is known when solving begins or continues; `noted` reads it."""
        files.write_atomic(self.path(STARTED), json.dumps(facts, indent=1).encode())

    def note_output(self, note: np.ndarray, *, stays: bool) -> None:
        """Keep what `RowOutput.note` returns, (n,) uint32, where the workers read it; `stays` is `note_stays`."""
        files.write_atomic(self.path(OUTPUT_NOTE if stays else TARGETS), note.astype("<u4").tobytes())

    def noted_output(self, *, stays: bool) -> np.ndarray:
        """Return what `note_output` kept; raises `InputError` if it is gone."""
        return np.frombuffer(files.read_bytes(self.path(OUTPUT_NOTE if stays else TARGETS)), "<u4")

    def noted(self) -> dict[str, Any]:
        """Return what `note_start` stored at the last start of an unfinished run; empty if solving never began."""
        return _read_object(self.path(STARTED), ()) if files.exists(self.path(STARTED)) else {}

    def runs_of_weights(self) -> dict[str, RunFolder]:
        """Return the runs in this folder of a run of several weights, finished or not, by the name of the weight."""
        found = {}
        for name in files.list_names(self.url):
            below = RunFolder(self.path(name))
            with suppress(InputError):  # no run, or a damaged one
                record = below.read_run() if files.exists(below.path(RUN_FILE)) else below.noted()
                if record.get("weight") == name:
                    found[name] = below
        return found

    def is_unfinished(self) -> bool:
        """Return whether the folder holds a run without `run.json`."""
        return not files.exists(self.path(RUN_FILE)) and files.exists(self.path(IDENTITY))

    def clean(self) -> None:
        """Remove what killed processes left half-written."""
        for folder in (self.url, self.path("distances"), self.path(UNFINISHED)):
            files.remove_temporaries(folder)

    def abandon(self) -> None:
        """Remove all that an unfinished run wrote. The holder of the lease removes the folder itself if it is empty."""
        self.remove()
        files.remove(self.path(IDENTITY))
        files.remove_if_empty(self.path(UNFINISHED))

    def committed(self) -> set[int]:
        """Return the numbers of the committed batches; none for a finished run without distances."""
        return set(self.commits())

    def commits(self) -> dict[int, datetime | None]:
        """Return the time in UTC at which each batch was committed, None if the storage has no times."""
        named = [("distances", BATCH)]
        if files.exists(self.path(IDENTITY)):
            identity = _read_object(self.path(IDENTITY), ())
            if self.is_merged():
                return dict.fromkeys(range(_read_object(self.path(MERGED), ("batches",))["batches"]))
            if not issubclass(output_kind(identity), FileOutput):
                named = [(UNFINISHED, BATCH_METRICS)]
            elif identity.get("layout") == "wide":  # an earlier release wrote Parquet files
                named.append((UNFINISHED, TILES))
        return {
            int(found[1]): when
            for folder, pattern in named
            for name, when in files.file_times(self.path(folder)).items()
            if (found := pattern.fullmatch(name))
        }

    def commit_batch(
        self,
        batch: int,
        sources: np.ndarray,
        solution: Solution,
        place: Place,
        ids: VertexIds,
        output: RowOutput,
    ) -> int:
        """Write a batch's metrics, what it has of each vertex, and its file, as far as there is each.

        The last of them commits the batch.

        Returns how many bytes were written.
        """
        content = batch_metrics.BatchMetrics(place, solution.metrics).to_bytes()
        files.write_atomic(self.path(batch_metrics_file(batch)), content)
        n_bytes = len(content)
        if (words := solution.over_sources) is not None:
            with files.open_atomic(self.path(part_file(batch)), plain=True) as handle:
                handle.write(words.astype("<u8", copy=False))
            n_bytes += words.nbytes
        if not isinstance(output, FileOutput):
            return n_bytes
        with files.open_atomic(self.path(output.batch_file(batch)), plain=True) as handle:
            output.write(handle, sources, solution, ids)
            return n_bytes + int(handle.tell())

    def batch_metrics(self, batch: int) -> BatchMetrics:
        """Return the metrics of a committed batch of an unfinished run; raises `InputError` if they are damaged."""
        path = self.path(batch_metrics_file(batch))
        try:
            return batch_metrics.BatchMetrics.of_bytes(files.read_bytes(path))
        except ValueError as error:
            raise InputError(f"`{files.redacted(path)}` is damaged: {error}", hint=OVERWRITE) from error

    def finish_metrics(self, n_batches: int, ids: VertexIds, scale: int | None) -> pa.Table:
        """Write `metrics.parquet` from the metrics of all batches and return it.

        Parameters
        ----------
        ids
            Of the graph.
        scale
            As in `DistanceFormat`.
        """

        def read(batch: int) -> pa.Table:
            stored = self.batch_metrics(batch)
            sources = ids.originals(stored.sources)
            return batch_metrics.metrics_table(stored.metrics, sources, batch, stored.place, scale)

        # An object store takes some milliseconds for each request, so several are sent at once. A table takes 18 kB
        # of memory however few rows it has, so tables are joined in groups.
        with ThreadPoolExecutor(1 if files.is_local(self.url) else _READERS) as readers:
            tables = [
                pa.concat_tables(
                    readers.map(read, range(first, min(first + _GATHERED, n_batches)))
                ).combine_chunks()
                for first in range(0, n_batches, _GATHERED)
            ]
        table = pa.concat_tables(tables)
        with files.open_atomic(self.path(METRICS_FILE)) as handle:
            pq.write_table(table, handle)
        return table

    def merge(
        self,
        batches: Sequence[np.ndarray],
        output: VertexDistances,
        ids: VertexIds,
        dtype: np.dtype,
        progress: Progress,
    ) -> None:
        """Write the wide files from all `batches` of sources, then remove the files of the batches.

        If the process is killed before all files are written, the batches are still there and the next run writes the
        files again. If it is killed later, the files stand for all batches.
        """
        if not self.is_merged():
            files.remove_files(self.path("distances"), self._named("distances", WIDE))
            urls = [self.path(output.batch_file(batch)) for batch in range(len(batches))]
            for done in output.write_wide(urls, batches, self.path("distances"), ids, dtype):
                progress.advance(done, None, "vertices")
            files.write_atomic(self.path(MERGED), json.dumps({"batches": len(batches)}).encode())
        files.remove_files(self.path(UNFINISHED), self._named(UNFINISHED, TILES))

    def wide_paths(self) -> list[str]:
        """Return the URLs of the files that hold all sources of a run, in order; none if each batch has a file."""
        return [self.path("distances", name) for name in self._named("distances", WIDE)]

    def _named(self, folder: str, pattern: re.Pattern[str]) -> list[str]:
        names = files.list_files(self.path(folder), deep=False)
        return [name for name in names if pattern.fullmatch(name)]

    def file_sizes(self) -> dict[str, int]:
        """Return the size in bytes of each file of results, by the path below the folder."""
        sizes = files.file_sizes(self.path("distances"), deep=False)
        found = {f"distances/{n}": s for n, s in sizes.items() if BATCH.fullmatch(n) or WIDE.fullmatch(n)}
        others = files.file_sizes(self.url, deep=False)
        return dict(sorted(found.items())) | {
            name: others[name] for name in (METRICS_FILE, SNAPPED_FILE, VERTICES_FILE) if name in others
        }

    def write_snapped(self, table: pa.Table) -> None:
        """Write `snapped.parquet`: the points of the run and their vertices."""
        with files.open_atomic(self.path(SNAPPED_FILE)) as handle:
            pq.write_table(table, handle)

    def read_metrics(self) -> pa.Table:
        """Return the metrics of a finished run, one row for each source.

        Raises `InputError` if they are gone or damaged.
        """
        url = files.redacted(self.path(METRICS_FILE))
        if (content := files.read_if_there(self.path(METRICS_FILE))) is None:
            raise InputError(f"`{url}` is gone", hint=OVERWRITE)
        try:
            # No threads: one that outlives this process's Python aborts it when it drops `content`.
            return pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"`{url}` is damaged: {error}", hint=OVERWRITE) from error

    def finish(self, run: dict[str, Any]) -> None:
        """Write `run.json`, which commits the run, and remove the files that only an unfinished run needs."""
        files.write_atomic(self.path(RUN_FILE), json.dumps(run, indent=1, allow_nan=False).encode())
        # The identity goes first, so that a late task sees that the run is over.
        files.remove(self.path(IDENTITY))
        names = [f"{UNFINISHED}/{name}" for name in files.list_files(self.path(UNFINISHED))]
        files.remove_files(self.url, [name for name in names if OURS.fullmatch(name)])
        files.remove_if_empty(self.path(UNFINISHED))

    def read_run(self) -> dict[str, Any]:
        """Return the content of `run.json`.

        Raises
        ------
        InputError
            There is none, or it is damaged.
        """
        url = self.path(RUN_FILE)
        if not files.exists(url):
            is_unfinished = self.is_unfinished()
            if not is_unfinished and (below := self.runs_of_weights()):
                raise InputError(
                    f"`{files.redacted(self.url)}` holds a run for each of several weights: {shortened([*below])}",
                    hint=f"name the folder of one: {files.redacted(next(iter(below.values())).url)}",
                )
            raise InputError(
                f"`{files.redacted(self.url)}` "
                + ("is an unfinished run" if is_unfinished else "is not a run"),
                hint="finish it by the same `sssp-pipeline run` command"
                if is_unfinished
                else "name an `output.path`",
            )
        run = _read_object(url, ("format", "version"))
        if run.get("format") != RUN_FORMAT or run.get("version") != RUN_VERSION:
            raise InputError(
                f"`{files.redacted(url)}` is of format {run.get('format')!r} {run.get('version')}, "
                f"this release reads {RUN_FORMAT!r} {RUN_VERSION}",
                hint="use the release that wrote it, or choose another `output.path`",
            )
        return _read_object(url, _RUN_KEYS)


def _read_object(url: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the JSON object in the file `url`; raise `InputError` if it is none or lacks one of `keys`."""
    name = files.redacted(url)
    try:
        content = json.loads(files.read_bytes(url))
    except ValueError as error:
        raise InputError(f"`{name}` is damaged: {error}", hint=OVERWRITE) from error
    if not isinstance(content, dict):
        raise InputError(f"`{name}` is damaged: it is no object", hint=OVERWRITE)
    for key in keys:
        if key not in content:
            raise InputError(f"`{name}` is damaged: it has no `{key}`", hint=OVERWRITE)
    return content
