"""Errors of a call name the arguments of Python where errors of a run name keys of a workflow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sssp_pipeline.base.error_text import Keys, Text
from sssp_pipeline.base.errors import SsspError

#: The arguments of `solve` for the keys of a workflow.
_ARGUMENTS = {
    "graph.columns": "columns",
    "graph.columns.source": "columns",
    "graph.columns.target": "columns",
    "graph.weights.column": "weight",
    "graph.weights.dtype": "dtype",
    "solve.cutoff": "cutoff",
    "solve.solver": "solver",
}

#: Returns a message or a hint in the words of a call.
Words = Callable[[str], str]


@contextmanager
def naming(words: Words) -> Iterator[None]:
    """Give errors of the block the words of a call: `of_solve`, `of_store` or `of_dijkstra`."""
    try:
        yield
    except SsspError as error:
        error.message = words(error.message)
        error.args = (error.message,)
        error.hint = error.hint and words(error.hint)
        note = f"hint: {error.hint}"  # a traceback shows it below the message
        if error.hint and note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise


def of_solve(text: str) -> str:
    """Return `text` with arguments of `solve`."""
    return text.of_call(_arguments) if isinstance(text, Text) else text


def of_store(text: str) -> str:
    """Return `text` for `solve` with a graph store, whose weights are settled: it names the arguments of `ingest`."""
    return text.of_call(_arguments_of_ingest) if isinstance(text, Text) else text


def of_dijkstra(text: str) -> str:
    """Return `text` for `dijkstra`, which calls the cutoff `limit` and takes neither a solver nor a type."""
    words = text.of_call(_arguments_of_solve) if isinstance(text, Text) else text
    return words.replace("cutoff", "limit")


def _arguments(keys: Keys) -> str:
    """Return the arguments of `solve` for keys; keys stay if `solve` has no such argument."""
    if not keys.values.keys() <= _ARGUMENTS.keys():
        return str(keys)
    given = [
        _ARGUMENTS[key] + ("" if value is None else f"={_as_python(key, value)}")
        for key, value in keys.values.items()
    ]
    return f"{keys.lead}`{', '.join(given)}`"


def _arguments_of_solve(keys: Keys) -> str:
    return "" if keys.lead else f"{_arguments(keys)} of `sp.solve`"


def _arguments_of_ingest(keys: Keys) -> str:
    """Return the arguments of `ingest` for keys in a section of `graph`, one dictionary; else as `_arguments`."""
    section, *others = {key.rpartition(".")[0] for key in keys.values}
    if others or not section.startswith("graph."):
        return _arguments(keys)
    given = [
        f"{_quoted(key.removeprefix(section + '.'))}: {'…' if value is None else _plain(value)}"
        for key, value in keys.values.items()
    ]
    return f"{keys.lead}`{section.removeprefix('graph.')}={{{', '.join(given)}}}` of `sp.ingest`"


def _as_python(key: str, value: Any) -> str:
    is_none = value == "none" or (key, value) == ("graph.weights.dtype", "auto")
    return "None" if is_none else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_plain, value))})"
    return str(value) if isinstance(value, int) else _quoted(str(value))


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
