"""Faults of a file: each has a place, and one error lists them all."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sssp_pipeline.errors import InputError
from sssp_pipeline.pipeline.storage.files import redacted
from sssp_pipeline.workflow.section import Path

#: The most faults that an error lists. A list of ids can have thousands.
MAX_FAULTS_SHOWN = 20


@dataclass(frozen=True)
class Fault:
    """One thing that the user is to correct.

    Attributes
    ----------
    path
        The key with the fault.
    place
        File and line, or the option, as the user reads it.
    text, hint
        What is wrong, and what to do.
    """

    path: Path
    place: str
    text: str
    hint: str


def combined(faults: Sequence[Fault], where: str) -> InputError:
    """Return the error that lists `faults` in the order of their lines; `where` names the file."""
    if len(faults) == 1:
        return InputError(f"{faults[0].place}: {faults[0].text}", hint=faults[0].hint)
    faults = sorted(faults, key=lambda fault: [int(n) for n in re.findall(r" line (\d+)$", fault.place)])
    listed = faults[:MAX_FAULTS_SHOWN]
    lines = [f"{fault.place}: {fault.text}" for fault in listed]
    if len(faults) > len(listed):
        lines.append(f"{where}: and {len(faults) - len(listed)} more")
    hints = [f"{fault.place.removeprefix(where + ' ')}: {fault.hint}" for fault in listed]
    return InputError("\n".join(lines), hint="\n".join(hints))


def value_text(value: Any) -> str:
    """Return a wrong value as a message names it: short, and without the secrets of a URL."""
    if value is None or value == "":
        return "empty"
    if isinstance(value, Mapping):
        return "a section"
    if isinstance(value, list | tuple):
        return "a list" if value else "an empty list"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = redacted(value) if isinstance(value, str) and "://" in value else str(value)
    return f"`{text if len(text) <= 60 else text[:60] + '…'}`"
