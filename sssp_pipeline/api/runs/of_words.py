"""Questions to a finished run in the words of a command line, where every id and number is text."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from sssp_pipeline.api.distances.pair_paths import PairPaths
from sssp_pipeline.api.distances.paths import Path
from sssp_pipeline.api.runs.stored_run import StoredRun
from sssp_pipeline.base.errors import InputError
from sssp_pipeline.base.vertex_ids import typed_ids
from sssp_pipeline.pipeline.formats.vertex_files.pair_lists import PairReading
from sssp_pipeline.pipeline.results.exports.areas.isochrones import Isochrones


def isochrones_of_words(
    run: StoredRun, limits: str, sources: Sequence[str], buffer_m: float, coordinates: str, store: str | None
) -> Isochrones:
    """Return the isochrones of `run` that a command line names; no `sources` mean every source.

    Raises
    ------
    InputError
        As `StoredRun.isochrones`.
    """
    numbers: list[float] = []
    for word in limits.split(","):
        try:
            numbers.append(int(word) if word.strip().isdecimal() else float(word))
        except ValueError as error:
            raise InputError(
                f"`--limits {limits}`: `{word}` is not a number",
                hint="separate limits by commas, such as `--limits 600,1200`",
            ) from error
    ids = _typed(sources, run.sources.type)
    return run.isochrones_to_write(numbers, ids or None, buffer_m, coordinates, store)


def _typed(words: Sequence[str], kind: pa.DataType) -> Sequence[int | str]:
    return typed_ids(words) if pa.types.is_integer(kind) else words


def paths_of_words(run: StoredRun, pairs: str, columns: str | None, store: str | None) -> PairPaths:
    """Return the paths of `run` between the pairs in the file `pairs`.

    `columns` are the names of its two columns, separated by a comma.

    Raises
    ------
    InputError
        The file cannot be read, or it is not clear which columns hold the pairs; or as `StoredRun.paths`.
    """
    names = ["auto", "auto"] if columns is None else columns.split(",")
    if columns is not None and len(set(names)) != 2:
        raise InputError(
            f"`--columns {columns}` does not name two columns",
            hint="name the columns of source and target: `--columns origin,destination`",
        )
    reading = PairReading(
        pairs,
        "string",
        columns=(names[0], names[1]),
        naming="name two of them: `--columns origin,destination`",
        has_header="if it names the columns, name two of them: `--columns origin,destination`; "
        "if it is a pair, write the line `source,target` above it",
    )
    return run.paths_to_write(reading, store)


def path_of_words(run: StoredRun, source: str, target: str, store: str | None) -> Path:
    """Return the path of `run` between two ids from a command line.

    Raises
    ------
    InputError
        There is no path; or as `StoredRun.path`.
    """
    (first,), (last,) = _typed([source], run.sources.type), _typed([target], run.vertex_type)
    if found := run.path(first, last, store=store):
        return found
    message = f"no path leads from `{source}` to `{target}`"
    if (cutoff := run.record["identity"]["cutoff"]) is not None:
        raise InputError(
            f"{message} within the cutoff of the run, {cutoff}",
            hint="run it with a larger `solve.cutoff`, or without one",
        )
    raise InputError(
        message, hint="name two vertices that a path connects; where edges lead one way, try the way back"
    )
