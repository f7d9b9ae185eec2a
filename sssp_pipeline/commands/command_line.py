"""The command line as it was typed: whether it can be read, and which one continues its run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sssp_pipeline.base.errors import InputError

#: Options that are done once the run has begun, and the number of their values. A command that continues lacks them.
_DONE_ONCE = {"--save-workflow": 1, "--overwrite": 0}


def resume_command(program: str, words: Sequence[str], more: Sequence[str]) -> str:
    """Return the shell command that continues a run: the typed `words` without options of one time, and `more`."""
    kept: list[str] = []
    n_values = 0
    for word in words:
        option, equals, _ = word.partition("=")
        if n_values:
            n_values -= 1
        elif option in _DONE_ONCE:
            n_values = 0 if equals else _DONE_ONCE[option]
        else:
            kept.append(word)
    return shlex.join([program, *kept, *more])


def check_words(words: Sequence[str]) -> None:
    """Raise `InputError` for a word that is not UTF-8: no file of this name could be opened."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            escaped = word.encode(errors="backslashreplace").decode()
            raise InputError(
                f"`{escaped}` is not UTF-8 in this locale", hint="use a UTF-8 locale: `export LC_ALL=C.UTF-8`"
            ) from None
