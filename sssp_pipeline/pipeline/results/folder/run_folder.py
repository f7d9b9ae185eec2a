"""The folder of a run: whose it is, its batches (`batches.py`), and `run.json`, which commits the run.

A folder with other files and no run is refused. In a folder with a run, only the files of runs are overwritten or
removed. `run_files.py` lists them.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sssp_pipeline.base.error_text import Either, Text
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.lazy import LazyModule
from sssp_pipeline.base.progress import shortened
from sssp_pipeline.pipeline.results.folder import commits, damage
from sssp_pipeline.pipeline.results.folder.batches import RunBatches
from sssp_pipeline.pipeline.results.folder.run_files import (
    AGAIN,
    BATCH,
    IDENTITY,
    METRICS_FILE,
    OURS,
    OUTPUT_INPUT,
    OVERWRITE,
    REPAIR,
    RUN_FILE,
    SNAPPED_FILE,
    SOURCES_FILE,
    STARTED,
    TARGETS,
    UNFINISHED,
    WRITER,
)
from sssp_pipeline.storage import file_sums, files
from sssp_pipeline.storage.file_sums import FileSum
from sssp_pipeline.storage.records import CHECKSUM, record_bytes, record_content

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from sssp_pipeline.base import vertex_ids
    from sssp_pipeline.base.vertex_ids import VertexIds
    from sssp_pipeline.pipeline.results.folder import snapped
else:  # `inspect` needs none of them
    np, pa, pq = LazyModule("numpy"), LazyModule("pyarrow"), LazyModule("pyarrow.parquet")
    vertex_ids = LazyModule("sssp_pipeline.base.vertex_ids")
    snapped = LazyModule("sssp_pipeline.pipeline.results.folder.snapped")

RUN_FORMAT = "sssp-pipeline run"
RUN_VERSION = 3
_RUN_KEYS = (
    *("workflow", "identity", "graph", "sources", "batches", "solver", "verify", "timings", "finished"),
    *("files", "crc32", "footers"),
)
#: The identity of a run whose files are being removed.
_REMOVED = {"removed": True}


class RunFolder(RunBatches):
    """The run folder at one URL: reads what is committed there, and commits more."""

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
            if stored.get(WRITER) != identity.get(WRITER):
                # Files of an earlier release stay as they are, and it may have cut other batches.
                identity = {**identity, **{key: stored.get(key) for key in (WRITER, "batch")}}
        else:
            stored = self._begun(identity)
        self.identity = identity
        differ = [
            key for key in sorted(identity.keys() | stored.keys()) if identity.get(key) != stored.get(key)
        ]
        if stored == _REMOVED or (differ and not is_finished and not self.committed()):
            # No batch of the other run is done, or its removal was interrupted: its files must not count for this run.
            self.remove()
            self.write_identity()
        elif differ in ([WRITER], ["batch", WRITER]):
            raise self._of_another_release()
        elif differ:
            raise self._of_another_run(f": it differs in {', '.join(differ)}")
        return is_finished

    def _begun(self, identity: dict[str, Any]) -> dict[str, Any]:
        """Return the identity of the unfinished run in the folder, `_REMOVED` if there is none.

        If the file is damaged or gone, a commit tells whether the folder holds the run with this `identity`. Raises
        `InputError` if it holds another run.
        """
        if (stored := self.stored_identity()) is not None:
            return stored
        runs = set()
        for batch in self.committed():
            with suppress(InputError):  # a damaged one, whose batch is solved again
                runs.add(self.commit(batch).run)
                break
        if not runs:
            return _REMOVED
        if runs != {commits.run_digest(identity)}:
            raise self._of_another_run(f", whose `{IDENTITY}` is damaged")
        self.identity = identity
        self.write_identity()
        return identity

    def stored_identity(self) -> dict[str, Any] | None:
        """Return the identity of the unfinished run in the folder; None if there is none, or its file is damaged.

        Raises `InputError` if another release wrote the file.
        """
        content = files.read_if_there(self.path(IDENTITY))
        with suppress(ValueError):
            return None if content is None else record_content(content)
        plain = None
        with suppress(ValueError, RecursionError):
            plain = json.loads(content or b"")
        if plain == _REMOVED:
            return _REMOVED
        if isinstance(plain, dict) and CHECKSUM not in plain:
            raise self._of_another_release()
        return None

    def write_identity(self) -> None:
        """Store the identity of the run, so that workers commit batches of it."""
        assert self.identity is not None, "the run has begun"
        files.write_atomic(self.path(IDENTITY), record_bytes(self.identity), synced=True)

    def _of_another_run(self, what: str) -> InputError:
        return InputError(
            f"`{files.redacted(self.url)}` holds another run{what}",
            hint="choose another `output.path`, or replace that run with `--overwrite`",
        )

    def _of_another_release(self) -> InputError:
        return InputError(
            f"`{files.redacted(self.url)}` holds an unfinished run of another release, which writes other bytes",
            hint="finish it with that release, or replace it with `--overwrite`",
        )

    def reopen(self) -> None:
        """Make the finished run an unfinished one without batches."""
        self.sums = {}
        self.write_identity()
        files.remove(self.path(RUN_FILE))

    def check_ours(self) -> None:
        """Raise `InputError` unless the folder holds a run, finished or not, or is empty, or is not there yet.

        Files that a killed process may have left of a run do not count.
        """
        url = files.redacted(self.url)
        if files.is_local(self.url) and os.path.abspath(files.filesystem(self.url)[1]) == "/":  # noqa: PTH100
            raise InputError(
                f"`output.path` is `{url}`, the root of the filesystem", hint="name a folder for the results"
            )
        self._check_no_links()
        if self._has_run_file() or files.exists(self.path(IDENTITY)) or self.committed():
            return
        foreign = [name for name in files.list_names(self.url) if not self._is_left_over(name)]
        if foreign:
            raise InputError(
                f"`{url}` is not empty and does not hold a run: it has {shortened(foreign)}",
                hint="name an empty or a new folder as `output.path`",
            )

    def _check_no_links(self) -> None:
        """Raise `InputError` if a folder in the run folder is a symbolic link: files elsewhere would be removed."""
        if not files.is_local(self.url):
            return
        for name in ("distances", UNFINISHED):
            if os.path.islink(files.filesystem(self.path(name))[1]):  # noqa: PTH114
                raise InputError(
                    f"`{files.redacted(self.path(name))}` is a symbolic link, and a run changes files only in its own "
                    "folder",
                    hint="remove the link, or name a folder on that disk as `output.path`",
                )

    def _has_run_file(self) -> bool:
        """Return whether there is a `run.json` of a run, which may be damaged."""
        content = files.read_if_there(self.path(RUN_FILE))
        return content is not None and RUN_FORMAT.encode() in content

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
        self.sums = {}
        files.write_atomic(self.path(IDENTITY), record_bytes(_REMOVED), synced=True)
        files.remove(self.path(RUN_FILE))  # from here on, `begin` continues an interrupted removal
        ours = [name for name in files.list_files(self.url) if OURS.fullmatch(name) and name != IDENTITY]
        files.remove_files(self.url, ours)
        files.remove_if_empty(self.path("distances"))

    def is_begun(self) -> bool:
        """Return whether the folder holds a run, finished or not."""
        return files.exists(self.path(RUN_FILE)) or files.exists(self.path(IDENTITY))

    def graph(self) -> str | None:
        """Return the content id of the graph of the run in the folder, None where there is no run."""
        is_finished = files.exists(self.path(RUN_FILE))
        identity = self.read_run()["identity"] if is_finished else self.stored_identity()
        return (identity or {}).get("graph")

    def awaits(self, identity: dict[str, Any]) -> bool:
        """Return whether the folder holds the unfinished run with this `identity`."""
        return self.stored_identity() == identity

    def write_start(self, facts: dict[str, Any]) -> None:
        """Store what is known when solving begins or continues."""
        files.write_atomic(self.path(STARTED), record_bytes(facts))

    def read_start(self) -> dict[str, Any]:
        """Return what `write_start` stored last in an unfinished run; empty if the file is missing or damaged."""
        return self.record(STARTED) or {}

    def write_input(self, words: np.ndarray, *, stays: bool) -> None:
        """Store the input of the output, (n,) uint32, for the workers; `stays` is `RowOutput.input_stays`."""
        name, content = OUTPUT_INPUT if stays else TARGETS, words.astype("<u4", copy=False)
        of_file = file_sums.write_summed(self.path(name), lambda file: file.write(content))
        if stays:
            self.sums[name] = of_file

    def read_input(self, digest: str, *, stays: bool) -> np.ndarray:
        """Return what `write_input` stored. Raises `InputError` if the file is missing or has another digest."""
        path = self.path(OUTPUT_INPUT if stays else TARGETS)
        content = files.read_bytes(path)
        words = np.frombuffer(content, "<u4", len(content) // 4)
        if len(content) % 4 or vertex_ids.digest_of(words) != digest:
            raise InputError(
                f"`{files.redacted(path)}` is damaged: it has not what the run was asked for", hint=AGAIN
            )
        return words

    def named_ids(self, ids: VertexIds, identity: dict[str, Any] | None) -> VertexIds:
        """Return the ids of the graph with the points of the run of this `identity`, if it has some.

        Raises `InputError` if `snapped.parquet` is missing or has other points.
        """
        if identity is None or "snapped" not in identity:
            return ids
        return snapped.with_points(ids, self.read_points(identity), of_pairs="pairs" in identity)

    def read_points(self, identity: dict[str, Any]) -> pa.Table:
        """Return the content of `snapped.parquet`; raises as `named_ids`."""
        path = self.path(SNAPPED_FILE)
        try:
            table = pq.ParquetFile(pa.BufferReader(files.read_bytes(path))).read(use_threads=False)
            is_damaged = snapped.digest_of(table) != identity["snapped"]
        except (pa.ArrowException, KeyError, OSError):
            is_damaged = True
        if is_damaged:
            raise InputError(
                f"`{files.redacted(path)}` is damaged: it has not the points of the run", hint=AGAIN
            )
        return table

    def runs_of_weights(self) -> dict[str, RunFolder]:
        """Return the runs in this folder of a run of several weights, finished or not, by the name of the weight."""
        found = {}
        for name in files.list_names(self.url):
            below = RunFolder(self.path(name))
            with suppress(InputError):  # no run, or a damaged one
                record = below.read_run() if files.exists(below.path(RUN_FILE)) else below.read_start()
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
        # Or else a power loss may bring files back to a folder that is no run's.
        for name in ("distances", UNFINISHED):
            files.sync(self.path(name))
        files.remove(self.path(IDENTITY))
        files.remove_if_empty(self.path(UNFINISHED))

    def read_metrics(self, columns: list[str] | None = None) -> pa.Table:
        """Return the metrics of a run, one row for each search, or some columns of them.

        Raises `InputError` if they are gone or damaged.
        """
        return self._checked_table(METRICS_FILE, columns)

    def read_sources(self) -> pa.Table:
        """Return a row for each source, in the order of the run, with the columns `source` and `batch`.

        Raises as `read_metrics`.
        """
        return self._checked_table(SOURCES_FILE if SOURCES_FILE in self.sums else METRICS_FILE)

    def _checked_table(self, name: str, columns: list[str] | None = None) -> pa.Table:
        url = files.redacted(self.path(name))
        if (content := files.read_if_there(self.path(name))) is None:
            raise InputError(f"`{url}` is gone", hint=REPAIR)
        found = FileSum(len(content), file_sums.crc32_of([content]))
        if (fault := file_sums.fault_of(found, self.stored(name).sum)) is not None:
            raise InputError(f"`{url}` {fault}", hint=REPAIR)
        try:
            # No threads: one that outlives this process's Python aborts it when it drops `content`.
            return pq.ParquetFile(pa.BufferReader(content)).read(columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"`{url}` is damaged: {error}", hint=REPAIR) from error

    def finish(self, run: dict[str, Any]) -> None:
        """Write `run.json`, which commits the run, and remove the files that only an unfinished run needs."""
        names = [name for name in files.list_files(self.url) if OURS.fullmatch(name)]
        # A late worker may remove its temporary file at any time.
        passing = f"{UNFINISHED}/", files.TEMP_PREFIX, f"distances/{files.TEMP_PREFIX}"
        files.sync(self.url, [name for name in names if not name.startswith(passing)])
        files.write_atomic(self.path(RUN_FILE), record_bytes(run), synced=True)
        # The identity goes first, so that a late task sees that the run is over.
        files.remove(self.path(IDENTITY))
        names = [f"{UNFINISHED}/{name}" for name in files.list_files(self.path(UNFINISHED))]
        files.remove_files(self.url, [name for name in names if OURS.fullmatch(name)])
        files.remove_if_empty(self.path(UNFINISHED))

    def read_run(self) -> dict[str, Any]:
        """Return the content of `run.json`. From then on, `sums` has the sums of its files.

        Raises
        ------
        InputError
            There is none, or it is damaged.
        """
        url = self.path(RUN_FILE)
        if not files.exists(url):
            place = files.redacted(self.url)
            if self.is_unfinished():
                hint = "finish it by the same `sssp-pipeline run` command"
                raise InputError(f"`{place}` is an unfinished run", hint=hint)
            if below := self.runs_of_weights():
                raise InputError(
                    f"`{place}` holds a run for each of several weights: {shortened([*below])}",
                    hint=f"name the folder of one: {files.redacted(next(iter(below.values())).url)}",
                )
            either = Either("name an `output.path`", "name the folder of a run")
            raise InputError(f"`{place}` is not a run", hint=Text(either))
        run = _run_content(url)
        self.sums = damage.recorded_sums(run)
        return run


def _run_content(url: str) -> dict[str, Any]:
    """Return what the `run.json` at `url` holds, without its checksum; raises `InputError` if it is damaged."""
    content = files.read_bytes(url)
    try:
        run = json.loads(content)
        if not isinstance(run, dict):
            raise ValueError("it is no object")
        if CHECKSUM in run:
            run = record_content(content)
        _check_keys(run, ("format", "version"))
        if (run["format"], run["version"]) != (RUN_FORMAT, RUN_VERSION):
            raise InputError(
                f"`{files.redacted(url)}` is of format {run['format']!r} {run['version']}, "
                f"this release reads {RUN_FORMAT!r} {RUN_VERSION}",
                hint=Text("use the release that wrote it", Either(", or choose another `output.path`")),
            )
        run = record_content(content)
        _check_keys(run, _RUN_KEYS)
    except InputError:
        raise
    except (ValueError, RecursionError) as error:
        raise InputError(f"`{files.redacted(url)}` is damaged: {error}", hint=OVERWRITE) from error
    return run


def _check_keys(run: dict[str, Any], keys: tuple[str, ...]) -> None:
    for key in keys:
        if key not in run:
            raise ValueError(f"it has no `{key}`")
