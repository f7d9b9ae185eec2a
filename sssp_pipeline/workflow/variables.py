"""Names in the values of a file: `${NAME}` of the environment, and `{date}`, `{time}` and `{name}` of the run."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.redaction import redacted, without_password

_VARIABLE = re.compile(r"\$\$\{|\$\{(?:([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\})?")
#: A name in braces that is not the name of an environment variable.
_PLACEHOLDER = re.compile(r"(?<!\$)\{([^{}]*)\}")


def expand(text: str, environ: Mapping[str, str]) -> tuple[str, bool]:
    """Return `text` with the values of its variables, and whether one of them came from `environ`.

    Raises
    ------
    InputError
        A variable is not set and has no default, or `${` names none; the message has no place.
    """
    values: list[str] = []
    uses_environ = False
    for match in _VARIABLE.finditer(text):
        name, default = match.groups()
        if match.group() == "$${":
            values.append("${")
        elif name is None:
            raise InputError(
                f"`{text}` has a `${{` that names no variable",
                hint="write `${NAME}`, or `$${` for a plain `${`",
            )
        elif name in environ and (environ[name] or default is None):
            values.append(environ[name])
            uses_environ = True
        elif default is not None:
            values.append(default)
        else:
            raise InputError(
                f"environment variable `{name}` is not set",
                hint=f"set it, or give a default: `${{{name}:-value}}`",
            )
    in_order = iter(values)
    return _VARIABLE.sub(lambda _: next(in_order), text), uses_environ


def escaped(text: str) -> str:
    """Return what a file has to say so that `expand` returns `text`."""
    return text.replace("${", "$${")


def has_secret(url: str) -> bool:
    """Return whether `url`, as written, has a user, a password or a query that is not a `${NAME}`."""
    if "://" not in url:
        return without_password(url) != url
    bare = re.sub(r"[^?&#]*=(?=&|$)", "", _VARIABLE.sub("", url)).rstrip("?&").replace("://:@", "://")
    return redacted(bare) != bare


def unknown_placeholder(text: str, values: Mapping[str, str]) -> str | None:
    """Return the first `{name}` of `text` that `values` does not have, without its braces."""
    return next((name for name in _PLACEHOLDER.findall(text) if name not in values), None)


def fill_in(text: str, values: Mapping[str, str]) -> str:
    """Return `text` with each `{name}` replaced by its value."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), text)
