"""The words of errors: a call from Python names its arguments where the same error of a run names workflow keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import yaml

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
#: Sentences about a workflow or a file, and what is true of a call.
_SENTENCES = (
    ("in the workflow file write a string with quotes: ", "write a string: "),
    ("check `graph.input`: the graph has no vertices", "the graph has no vertices"),
    ("`graph.unreadable: skip` leaves such rows out and counts them", "leave such rows out of the table"),
    ("set `graph.ids: string` to read both as strings", "convert one of them to the type of the other"),
    (", separated by white space, a comma, a semicolon, `|` or tab; `graph.delimiter` says which", ""),
    ("set fewer threads a block among `solve.options`, or take another solver", "take another solver"),
    ("or set it to `null` to compute", "or set it to `None` to compute"),
    ("a distance times `graph.weights.scale`", "a distance times the scale of the weights"),
    ("name another `graph.store`, or leave it out", "name another folder"),
    ("use the release that wrote it, or choose another `output.path`", "use the release that wrote it"),
    ("name an `output.path`", "name the folder of a run"),
    ("than `solve.deadline_s` allows, ", "than "),
    ("set `solve.deadline_s` higher and run the same command again, or take", "take"),
)
_EXAMPLE = "name the columns, for example:\n"
#: A key, and perhaps its value.
_KEY = re.compile(r"`((?:graph|solve)\.[a-z_.]+)(?:: ([^`]*))?`")
_KEY_OF_GRAPH = re.compile(r"`graph\.([a-z_]+)\.([a-z_]+)(?:: ([^`]*))?`")

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
    """Return `text` with arguments of `solve` in place of the keys of a workflow."""
    if text.startswith(_EXAMPLE):
        return f"name the columns, for example: {_columns(text.removeprefix(_EXAMPLE))}"
    return _KEY.sub(_argument, _without_files(text))


def of_store(text: str) -> str:
    """Return `text` for `solve` with a graph store, whose weights are settled: it names the arguments of `ingest`."""
    text = _KEY_OF_GRAPH.sub(_argument_of_ingest, _without_files(text))
    # Two keys of one section are one dictionary.
    return _KEY.sub(_argument, text.replace("}` of `sp.ingest` and `weights={", ", "))


def of_dijkstra(text: str) -> str:
    """Return `text` for `dijkstra`, which adds floats in float64 and takes no solver."""
    text = text.replace(", or a wider type: `graph.weights.dtype: float64`", "").replace("cutoff", "limit")
    return _KEY.sub(lambda found: f"{_argument(found)} of `sp.solve`", _without_files(text))


def _without_files(text: str) -> str:
    for sentence, replacement in _SENTENCES:
        text = text.replace(sentence, replacement)
    return text


def _argument(found: re.Match[str]) -> str:
    """Return the argument of `solve` for a key, and for its value if there is one."""
    key, value = found.groups()
    if key not in _ARGUMENTS:
        return found[0]
    if value is None:
        return f"`{_ARGUMENTS[key]}`"
    is_none = value == "none" or (key, value) == ("graph.weights.dtype", "auto")
    return f"`{_ARGUMENTS[key]}={None if is_none else _quoted(value)}`"


def _argument_of_ingest(found: re.Match[str]) -> str:
    section, name, value = found.groups()
    shown = "…" if value is None else value if value.isdecimal() else _quoted(value)
    return f"`{section}={{{_quoted(name)}: {shown}}}` of `sp.ingest`"


def _columns(lines: str) -> str:
    """Return as arguments the columns that `lines` of a workflow name."""
    graph = yaml.load(lines, yaml.BaseLoader)["graph"]  # every name is text
    column = graph["weights"]["column"]
    weight = f"weight={None if column == 'none' else _quoted(column)}"
    if "columns" not in graph:
        return f"`{weight}`"
    ends = ", ".join(_quoted(graph["columns"][end]) for end in ("source", "target"))
    return f"`columns=({ends}), {weight}`"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'
