"""How text from outside is shown: without effect on a terminal, and quoted for a shell or for DuckDB."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Callable

#: Separators of lines and paragraphs, control characters, format characters such as bidirectional ones, surrogates.
_UNSEEN = frozenset({"Zl", "Zp", "Cc", "Cf", "Cs"})
#: Characters that act within double quotes of a shell. `!` acts in bash as people use it.
_ACTIVE = re.compile(r'[\\"$`!\n]')


def lines_as_text(text: str) -> str:
    """Return `text` with escapes in place of what a terminal obeys or hides, but with its lines."""
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(_as_text(character) for character in text)


def line_as_text(text: str) -> str:
    """Return `text` as `lines_as_text` does, in one line."""
    return lines_as_text(text).replace("\n", "\\n")


def _as_text(character: str) -> str:
    if character == "\n" or unicodedata.category(character) not in _UNSEEN:
        return character
    return character.encode("unicode_escape").decode()


def shell_word(text: str) -> str:
    """Return `text` as one word of a shell command; with double quotes where they are easier to read."""
    return f'"{text}"' if "'" in text and not _ACTIVE.search(text) else shlex.quote(text)


def parquet_files(folder: str, pattern: str) -> str:
    """Return what follows FROM in a query of DuckDB for the files `pattern` of `folder`.

    DuckDB finds no folder with a backslash or a tilde in its name by a pattern.
    """
    literal = _literal(re.sub(r"[*?\[]", r"[\g<0>]", folder) + f"/{pattern}")
    if literal == f"'{folder}/{pattern}'" and "=" not in folder:
        return literal
    # `=` in the name of a folder would make a column of it.
    return f"read_parquet({literal}, hive_partitioning=false)"


def duckdb_command(query: Callable[[str], str], folder: str) -> str:
    """Return the shell command for the `query` of the files in `folder`."""
    if re.search(r"[\\~]", folder):
        return f"(cd -- {shell_word(folder)} && duckdb -c {shell_word(query('.'))})"
    return f"duckdb -c {shell_word(query(folder))}"


def _literal(text: str) -> str:
    """Return the SQL for `text`; characters that are not shown are written as numbers."""
    quoted = "'" + text.replace("'", "''") + "'"
    shown = (f"' || chr({ord(c)}) || '" if unicodedata.category(c) in _UNSEEN else c for c in quoted)
    return "".join(shown)
