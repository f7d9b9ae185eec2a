"""Damage of a finished run: `verify` finds it, and `run` repairs it.

`verify` reads every file and compares its checksum. It lists damaged files in run.json under "damaged". `run` compares
lengths, and solves the batches of damaged files again. run.json stays meanwhile and lists these files. So a repair that
is killed or loses its power is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sssp_pipeline.base.errors import InputError, SsspError
from sssp_pipeline.base.progress import Progress
from sssp_pipeline.pipeline.results.folder.damage import damage_of, recorded_sums
from sssp_pipeline.pipeline.results.folder.run_files import (
    AGAIN,
    BACKWARD,
    BATCH,
    DIRECTION,
    OUTPUT_INPUT,
    OVERWRITE,
    SNAPPED_FILE,
)
from sssp_pipeline.pipeline.results.folder.run_folder import RunFolder
from sssp_pipeline.storage import files


def noted_damage(folder: RunFolder, record: dict[str, Any]) -> InputError | None:
    """Return the error on the damaged files of a finished run, None if there are none. All files are read.

    The names of damaged files are added to `record`, the content of run.json, and to run.json.

    Raises
    ------
    InputError
        A file in `distances` does not belong to this run.
    """
    folder.check_no_strays(record["files"])
    faults = damage_of(folder.url, record, content=True)
    if not faults:
        record.pop("damaged", None)
        return None
    _note(folder, record, faults)
    return _error(folder, faults, AGAIN)


def is_whole(
    folder: RunFolder,
    record: dict[str, Any],
    identity: dict[str, Any],
    progress: Progress,
    solve: Callable[[list[int]], object],
    write_inputs: Callable[[], None],
) -> bool:
    """Return whether a finished run is whole, after its damaged files are written again.

    If a damaged file has values of every batch, the run becomes an unfinished run without batches.

    Parameters
    ----------
    record
        The content of run.json. It loses its verdict if a file is written again.
    identity
        The identity that this release gives the run.
    solve
        Solves and commits the batches with these numbers.
    write_inputs
        Writes the files that follow from the workflow only.

    Raises
    ------
    InputError
        A file is damaged, and another release would write it in another way.
    SsspError
        A file was written again with other bytes than before, or `solve` failed.
    """
    faults = dict.fromkeys(record.get("damaged", ()), "is damaged: `verify` found it")
    faults |= damage_of(folder.url, record, content=False)
    if not faults:
        url = files.redacted(folder.url)
        progress.say(f"{url} is finished already, nothing to solve", "nothing_to_do")
        return True
    sums = recorded_sums(record)
    if record["identity"] != identity:
        raise _error(folder, faults, OVERWRITE)
    batches = {int(found[1]): name for name in faults if (found := BATCH.fullmatch(name.rpartition("/")[2]))}
    is_all = not faults.keys() <= {*batches.values(), SNAPPED_FILE, OUTPUT_INPUT}
    is_all |= bool(batches) and identity.get(DIRECTION) == BACKWARD  # its files need all searches
    what = "all batches are solved again" if is_all else "it is written again"
    for name, fault in faults.items():
        url = files.redacted(folder.path(name))
        progress.say(f"`{url}` {fault}: {what}", "damaged", level="warning")
    if is_all:
        folder.reopen()
        return False
    _note(folder, record, faults)
    if batches:
        folder.write_identity()
        solve(sorted(batches))
        for batch in batches:
            folder.sums |= folder.commit(batch).files
    write_inputs()
    for name in faults:
        if folder.sums[name] != sums[name]:
            raise SsspError(
                f"`{files.redacted(folder.path(name))}` was written again, with other bytes than before",
                hint=f"{OVERWRITE}; report a bug",
            )
    record.pop("damaged", None)
    record["verify"] = None
    return True


def _note(folder: RunFolder, record: dict[str, Any], faults: dict[str, str]) -> None:
    """List damaged files in run.json. A power loss may leave a rewritten file with the right length and lost pages."""
    if record.get("damaged") != list(faults):
        record["damaged"] = list(faults)
        folder.finish(record)


def _error(folder: RunFolder, faults: dict[str, str], hint: str) -> InputError:
    """Return the error on the damaged files of a finished run; `faults` is what `damage_of` returns."""
    name, fault = next(iter(faults.items()))
    others = f", and {len(faults) - 1} more of its files are damaged" if len(faults) > 1 else ""
    return InputError(f"`{files.redacted(folder.path(name))}` {fault}{others}", hint=hint)
