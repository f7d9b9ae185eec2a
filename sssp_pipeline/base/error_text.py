"""The text of an error that names keys of a workflow. A call from Python says the same with its own arguments.

`SsspError` takes such a text as its message or hint. As a string the text has the words of a workflow file, which the
command line shows too. `sssp_pipeline.api.calls.argument_names` words it for a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Keys:
    """Keys of a workflow in a text."""

    #: The value of each key, such as `{"graph.weights.dtype": "uint64"}`. None if the text names only the key.
    values: Mapping[str, Any]
    #: The lines of a workflow file with these keys, if the text shows lines.
    lines: str = ""
    #: Words before the keys. A call without such an argument leaves out both.
    lead: str = ""

    def __str__(self) -> str:
        named = [f"`{key}`" if value is None else f"`{key}: {value}`" for key, value in self.values.items()]
        return self.lead + (self.lines or " and ".join(named))


@dataclass(frozen=True)
class Either:
    """Words about a run of a workflow, and the words of a call in their place."""

    of_run: str
    of_call: str = ""

    def __str__(self) -> str:
        return self.of_run


class Text(str):
    """A text made of plain words, `Keys` and `Either`; in the words of a workflow file."""

    parts: tuple[str | Keys | Either, ...]

    def __new__(cls, *parts: str | Keys | Either) -> Self:
        text = super().__new__(cls, "".join(map(str, parts)))
        text.parts = parts
        return text

    @classmethod
    def joined(cls, separator: str, texts: Iterable[str]) -> Self:
        """Return `texts` with `separator` between them."""
        parts = [part for text in texts for part in (separator, text)]
        return cls(*parts[1:])

    def of_call(self, named: Callable[[Keys], str]) -> str:
        """Return the text in the words of a call; `named` returns the words for keys."""
        words = []
        for part in self.parts:
            if isinstance(part, Keys):
                words.append(named(part))
            elif isinstance(part, Either):
                words.append(part.of_call)
            else:
                words.append(part.of_call(named) if isinstance(part, Text) else part)
        return "".join(words)


def key(name: str, value: Any = None) -> Keys:
    """Return one key for a text, and perhaps its value."""
    return Keys({name: value})
