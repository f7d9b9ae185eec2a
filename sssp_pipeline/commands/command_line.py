"""The command line as it was typed: whether it can be read, and which one continues its run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from copy import copy
from typing import Any

from typer.core import TyperCommand, TyperGroup

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.redaction import redacted

#: Options that are done once the run has begun, and the number of their values. A command that continues lacks them.
_DONE_ONCE = {"--save-workflow": 1, "--overwrite": 0}


class _Once:
    """Refuses an option that is given twice and takes one value. Typer would take the last one in silence."""

    def parse_args(self: Any, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            # The same options, each of which takes any number of values.
            options = [copy(p) for p in self.params if p.param_type_name == "option" and not p.is_flag]
            once = {option.name: option.opts[-1] for option in options if not option.multiple}
            for option in options:
                option.multiple = True
            others = [p for p in self.params if p.name not in {option.name for option in options}]
            parser = TyperCommand(self.name, params=[*others, *options]).make_parser(ctx)
            for name, values in parser.parse_args(list(args))[0].items():
                if name in once and len(values) > 1:
                    given = " and ".join(f"`{once[name]} {redacted(value)}`" for value in values)
                    ctx.fail(f"{given}: only one `{once[name]}` is allowed. Leave one of them out.")
        found: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return found


class OnceCommand(_Once, TyperCommand):
    """A command."""


class OnceGroup(_Once, TyperGroup):
    """A group of commands."""


def resume_command(program: str, words: Sequence[str], folder: str | None) -> str:
    """Return the shell command that continues a run: the typed `words` without options of one time.

    `folder` replaces the one that the words name, if that has a date; else None.
    """
    kept: list[str] = []
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if option in _DONE_ONCE:
            n_values = 0 if equals else _DONE_ONCE[option]
            for _ in range(n_values):
                next(left, None)
            continue
        group = [word]
        if option in ("--out", "--set") and not equals:
            value = next(left, "")
            group.append(value)
        names_folder = option == "--out" or (option == "--set" and value.startswith("output.path="))
        if folder is None or not names_folder:
            kept += group
    return shlex.join([program, *kept, *([] if folder is None else ["--set", f"output.path={folder}"])])


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
