"""Formats of files: the ends of their names, and their writers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage import files


@dataclass(frozen=True)
class FileFormat:
    """A format of files."""

    #: The ends of the names of its files.
    suffixes: tuple[str, ...]
    #: Writes a file. All formats of a list take the same arguments.
    write: Callable[..., None]


def format_of(url: str, formats: Sequence[FileFormat]) -> FileFormat:
    """Return the one of `formats` that the name of the new file `url` ends with.

    Raises
    ------
    InputError
        The name ends with none of them, or the file exists.
    """
    chosen = next((known for known in formats if url.endswith(known.suffixes)), None)
    if chosen is None:
        suffixes = [suffix for known in formats for suffix in known.suffixes]
        raise InputError(
            f"`{files.redacted(url)}` names no format: it must end in {', '.join(suffixes[:-1])} or {suffixes[-1]}",
            hint=f"name a file such as `results{suffixes[0]}`",
        )
    if files.exists(url):
        raise InputError(f"`{files.redacted(url)}` exists", hint="choose another name, or remove it")
    return chosen
