"""Damage of the files of a finished run: its `run.json` has the length and the checksums of each of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sssp_pipeline.storage import file_sums
from sssp_pipeline.storage.file_sums import FileSum


def recorded_files(sums: Mapping[str, FileSum]) -> dict[str, dict[str, Any]]:
    """Return what run.json has of files with these `sums`, by their path below the run folder."""
    footers = {name: sums[name].footer for name in sorted(sums)}
    return {
        "files": {name: sums[name].bytes for name in sorted(sums)},
        "crc32": {name: f"{sums[name].crc32:08x}" for name in sorted(sums)},
        "footers": {name: f"{footer:08x}" for name, footer in footers.items() if footer is not None},
    }


def recorded_sums(record: dict[str, Any]) -> dict[str, FileSum]:
    """Return the sums of the files of a finished run, from the content of its run.json."""
    checksums, footers = record["crc32"], record["footers"]
    return {
        name: FileSum(size, int(checksums[name], 16), int(footers[name], 16) if name in footers else None)
        for name, size in record["files"].items()
    }


def damage_of(folder: str, record: dict[str, Any], *, content: bool) -> dict[str, str]:
    """Return what is wrong with the files of the finished run in `folder`, by name; empty if nothing is.

    Parameters
    ----------
    record
        The content of run.json.
    content
        Whether files are read whole. Otherwise only their lengths are compared.
    """
    return file_sums.file_faults(folder, recorded_sums(record), content=content)
