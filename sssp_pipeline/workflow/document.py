"""The text of a YAML file as values, with the line of each key.

The YAML is read as nodes, because only nodes know their lines. Scalars follow the core schema of YAML 1.2, which a
reader of the file expects: `off` is text, `1e3` is a number. Only digits with a leading zero differ: they are text,
because the vertex id `007` is not `7`. Aliases and tags are refused: no file needs them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from sssp_pipeline.base.errors import InputError
from sssp_pipeline.storage.files import redacted
from sssp_pipeline.workflow.section import Path
from sssp_pipeline.workflow.variables import expand

_TAGS = tuple(f"tag:yaml.org,2002:{kind}" for kind in ("str", "seq", "map"))
#: Marks that are no value of YAML alone. After `--set KEY=` such a mark is the text itself.
_MARKS = frozenset(",|>-&*?:!%@`#")
_NULL = re.compile(r"|~|null|Null|NULL")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
# The lengths are limited so that a float can hold every number.
_INT = re.compile(r"[-+]?[0-9]{1,300}|0x[0-9a-fA-F]{1,200}|0o[0-7]{1,200}")
_FLOAT = re.compile(
    r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


@dataclass(frozen=True)
class Mistake:
    """One thing that the user is to correct."""

    #: The key with the fault.
    path: Path
    #: File and line, or the option, as the user reads it.
    place: str
    #: What is wrong, and what to do.
    text: str
    hint: str


@dataclass
class Document:
    """The places of the values of a file, and the faults of its text."""

    #: The variables for `${NAME}`.
    environ: Mapping[str, str]
    #: File and line, or `--set`, of each key and list item.
    places: dict[Path, str] = field(default_factory=dict)
    #: The strings with a value of the environment, as the file has them.
    unexpanded: dict[Path, str] = field(default_factory=dict)
    #: The nodes that have no value. The value is None there.
    faults: list[Mistake] = field(default_factory=list)
    #: The values that the command line sets, and the words that set each. No other word may replace one.
    set_by: dict[Path, str] = field(default_factory=dict)

    def read(self, text: str, path: Path, place: Callable[[int], str]) -> Any:
        """Return the value of the YAML `text`, which is at `path`; `place` names a line, counted from 1."""
        try:
            node = yaml.compose(text, _NodeLoader)
            return None if node is None else self._value(node, path, place)
        except yaml.YAMLError as error:
            raise _syntax_error(error, text, place) from error
        except RecursionError as error:
            raise InputError(
                f"{place(1)}: nested too deeply", hint="check its brackets: a workflow has four levels"
            ) from error

    def override(self, data: dict[str, Any], override: str) -> None:
        """Put the value of `override`, `key=value`, into `data` in place of the file's value and its faults.

        The value is YAML, or a single mark such as `,`. Raises `InputError` if the override is no such text, or the
        command line sets the value twice.
        """
        key, equals, text = override.partition("=")
        place = f"`--set {key}`"
        if not equals:
            raise InputError(f"{place} has no value", hint=f"write `--set {key}=VALUE`")
        path = tuple(key.strip().split("."))
        if not all(path):
            raise InputError(
                f"`--set {redacted(override)}` names no key",
                hint="write `--set KEY=VALUE`: `--set solve.delta=500`",
            )
        words, depth = f"`--set {redacted(override)}`", len(path)
        for other, earlier in self.set_by.items():
            both = min(path, other, key=len)
            if path[: len(both)] == other[: len(both)]:
                raise InputError(
                    f"{earlier} and {words} both set `{'.'.join(map(str, both))}`",
                    hint="leave one of them out",
                )
        self.places = {p: v for p, v in self.places.items() if p[:depth] != path}
        self.unexpanded = {p: v for p, v in self.unexpanded.items() if p[:depth] != path}
        self.faults = [fault for fault in self.faults if fault.path[:depth] != path]
        section: dict[str, Any] = data
        for i, step in enumerate(path[:-1], start=1):
            if not isinstance(section.get(step), dict):
                section[step] = {}
                self.places[path[:i]] = place
            section = section[step]
        is_mark = text.strip() in _MARKS
        section[path[-1]] = text.strip() if is_mark else self.read(text, path, lambda _: place)
        self.places[path] = place
        self.note_set(path, section[path[-1]], words)

    def note_set(self, path: Path, value: Any, words: str) -> None:
        """Note that `words` of the command line set `value` at `path`; of a section, each value in it."""
        if isinstance(value, dict):
            for key, inner in value.items():
                self.note_set((*path, key), inner, words)
        else:
            self.set_by[path] = words

    def place(self, path: Path) -> str | None:
        """Return the place of `path`, or of the innermost section around it whose place is known."""
        return next((self.places[path[:n]] for n in range(len(path), 0, -1) if path[:n] in self.places), None)

    def as_written(self, text: str, data: dict[str, Any]) -> str:
        """Return the message `text` with `${NAME}` in place of the values of `data` that came from the environment."""
        for path, written in self.unexpanded.items():
            value = str(value_at(data, path))
            for quoted in (value, redacted(value)):
                text = text.replace(f"`{quoted}`", f"`{written}`")
        return text

    def is_broken(self, path: Path) -> bool:
        """Return whether `path` or a section around it has a fault."""
        return any(path[: len(fault.path)] == fault.path for fault in self.faults)

    def _value(self, node: yaml.Node, path: Path, place: Callable[[int], str]) -> Any:
        here = place(node.start_mark.line + 1)
        if node.tag not in _TAGS:
            problem = f"tag `{node.tag}` is not allowed"
            self.faults.append(Mistake(path, here, problem, "write the plain value"))
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, place)
        if isinstance(node, yaml.SequenceNode):
            for i, item in enumerate(node.value):
                self.places[*path, i] = place(item.start_mark.line + 1)
            return [self._value(item, (*path, i), place) for i, item in enumerate(node.value)]
        scalar = cast(yaml.ScalarNode, node)
        text = self._expanded(scalar.value, path, here)
        is_quoted = scalar.style is not None
        return text if is_quoted or text is None else _plain_value(text)

    def _mapping(self, node: yaml.MappingNode, path: Path, place: Callable[[int], str]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        no_value = (*path, "")  # a wrong key is a fault of the section and of no value in it
        for key_node, value_node in node.value:
            here = place(key_node.start_mark.line + 1)
            if not isinstance(key_node, yaml.ScalarNode):
                self.faults.append(Mistake(no_value, here, "a key is not text", "write `key: value`"))
                continue
            key = key_node.value
            if key in values:
                self.faults.append(Mistake(no_value, here, f"key `{key}` is given twice", "keep one of them"))
                continue
            self.places[*path, key] = here
            values[key] = self._value(value_node, (*path, key), place)
        return values

    def _expanded(self, text: str, path: Path, here: str) -> str | None:
        """Return `text` with the values of its variables, or None after a fault."""
        try:
            value, uses_environ = expand(text, self.environ)
        except InputError as error:
            self.faults.append(Mistake(path, here, error.message, error.hint or ""))
            return None
        if uses_environ:
            self.unexpanded[path] = text
        return value


class _NodeLoader(yaml.BaseLoader):
    """Composes nodes with scalars as text. It refuses aliases: a few bytes of them can expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem=f"alias `*{event.anchor}` is not allowed", problem_mark=event.start_mark
            )
        return super().compose_node(parent, index)


def _plain_value(text: str) -> Any:
    """Return the value of an unquoted scalar."""
    if _LEADING_ZERO.match(text):
        return text
    if _NULL.fullmatch(text):
        return None
    if _BOOL.fullmatch(text):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text[2:], 16 if text[1] == "x" else 8) if text[1:2] in ("x", "o") else int(text)
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def decoded(content: bytes, where: str) -> str:
    """Return the text of a file; raise `InputError` if it is not UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{where} line {line}: byte 0x{content[error.start]:02x} is not UTF-8",
            hint="save the file as UTF-8",
        ) from error


def _syntax_error(error: yaml.YAMLError, text: str, place: Callable[[int], str]) -> InputError:
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        problem = f"character U+{error.character:04X} is not allowed"
    else:
        marked = cast(yaml.MarkedYAMLError, error)
        line = marked.problem_mark.line + 1 if marked.problem_mark else 1
        problem = str(marked.problem)
    written = "".join(text.splitlines()[line - 1 : line])
    hint = "check indentation, quotes and brackets there"
    if written.rstrip().endswith(": -"):
        hint = "for standard input write `'-'`, with quotes"
    if "'\\t'" in problem:
        hint = "indent with spaces"
    elif "${" in written:
        hint = "inside `{ }` YAML reads the brace of `${NAME}`: give that value a line of its own"
    return InputError(f"{place(line)}: not valid YAML: {problem}", hint=hint)


def value_at(data: Any, path: Path) -> Any:
    """Return the value at `path` of `data`."""
    for step in path:
        data = data[step]
    return data
